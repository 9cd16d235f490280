"""Refusals of losses with gradients; torch and JAX have rows in tests/gradients."""

import numpy as np

from gwfast import SolverOptions
from gwfast.gradients import gromov_wasserstein_loss as loss

C, BAPG = np.ones((3, 3)) - np.eye(3), SolverOptions(method="bapg")
ROWS = [
    (lambda: loss(C, C, options=BAPG), "method", "bapg"),
    (lambda: loss(C, C, n_start=3), "n_start", None, TypeError),
]

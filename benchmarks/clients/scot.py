"""SCOT: cells of two modalities by graphs of neighbors and entropic plans.

It is on GitHub alone; its calls are written out here, with its defaults.
"""

import warnings

import numpy as np
import ot
from sklearn.preprocessing import normalize

from gwfast import pot
from gwfast.singlecell import foscttm

from ..common import pairs
from .rows import compared, quadratic

NAME, INSTALL, LINES = "SCOT", "POT scikit-learn", 1
# Problem: neighbors and epsilon of `align`.
PROBLEMS = (("scGEM", 50, 1e-3), ("scGEM", 25, 5e-3))
QUALITY = "FOSCTTM, lower is better"


def rows(repeats):
    for name, k, epsilon in PROBLEMS:
        x, y = (normalize(one) for one in pairs.cells(name)[:2])
        yield row(f"{name}, k={k}, e={epsilon:g}", x, y, k, epsilon, repeats)


def row(problem, x, y, k, epsilon, repeats):
    """Both on two tables of the same cells in the same order."""
    # SCOT counts a cell among its own neighbors.
    costs = [pairs.hops(one, k - 1) for one in (x, y)]

    def ours():
        pot.patch()
        try:
            return align(x, y, k, epsilon)
        finally:
            pot.unpatch()

    return compared(
        problem,
        lambda: align(x, y, k, epsilon),
        ours,
        lambda plan: quadratic(plan, *costs),
        QUALITY,
        lambda plan: projected(plan, x, y),
        repeats,
    )


def align(x, y, k, epsilon):
    """The plan of SCOT's `align`."""
    costs = [pairs.hops(one, k - 1) for one in (x, y)]
    p, q = (np.full(len(one), 1 / len(one)) for one in costs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ot.gromov.entropic_gromov_wasserstein(
            *costs, p, q, "square_loss", epsilon=epsilon
        )


def projected(plan, x, y):
    """Of the first cells, projected by their rows of the plan."""
    weights = plan / plan.sum(axis=1, keepdims=True)
    return foscttm(weights @ y, y)

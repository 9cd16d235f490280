"""Many problems of one size by one call of `solve_gromov_batch` in either module."""

import functools
import warnings
from statistics import median

import numpy as np
import ot

from ..common.markdown import show
from .calls import OURS
from .random_problems import distances, shortest_paths
from .timings import in_turns

N_PROBLEMS, SIZES, REGS = 100, (10, 20, 50), (1.0, 0.1)
KINDS = (shortest_paths, distances)
HEADS = (
    "costs", "points", "reg", "ms, POT, median [min]", f"ms, {OURS}, median [min]",
    "ratio", "mean loss, POT", f"mean loss, {OURS}", "marginal error, POT",
    f"marginal error, {OURS}",
)  # fmt: skip


def batch_table(_, ours):
    """POT goes on with all problems until each has converged, or to 50 iterations."""
    rows = []
    for kind in KINDS:
        for n in SIZES:
            rng = np.random.default_rng(n)
            costs = [np.array([kind(rng, n) for _ in range(N_PROBLEMS)]) for _ in range(2)]
            for reg in REGS:
                name = kind.__name__.replace("_", " ")
                rows.append([name, str(n), f"{reg:g}", *_compared(ours, costs, reg)])
    show(f"{N_PROBLEMS} problems a call", HEADS, rows)


def _compared(ours, costs, reg):
    """Cells of both modules' times and results."""
    calls = [functools.partial(_solved, one, costs, reg) for one in (ot, ours)]
    seconds, results = in_turns(calls)
    middle = [median(some) for some in seconds]
    cells = [
        f"{1e3 * value:.3g} [{1e3 * min(some):.3g}]"
        for value, some in zip(middle, seconds, strict=True)
    ]
    cells += [f"{middle[0] / middle[1]:.1f}"]
    cells += [f"{_loss(one.plan, *costs).mean():.6g}" for one in results]
    errors = [abs(one.plan.sum(axis=2) - 1 / one.plan.shape[1]) for one in results]
    return cells + [f"{error.sum(axis=1).max():.0e}" for error in errors]


def _solved(module, costs, reg):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module.solve_gromov_batch(*costs, reg=reg)


def _loss(T, C1, C2):
    """The squared loss of each problem, by its own marginals."""
    rows, cols = T.sum(axis=2), T.sum(axis=1)
    separable = [np.einsum("ki,kij,kj->k", x, C**2, x) for x, C in ((rows, C1), (cols, C2))]
    return sum(separable) - 2 * np.einsum("kij,kij->k", C1 @ T, T @ C2)

"""SCOT (version 1) on cells of two modalities: graphs of neighbors, entropic plans.

It is on GitHub alone, so the calls of its `align` are written out here. What a user
adds is ``gwfast.pot.patch()``.
"""

import warnings

import numpy as np
import ot

from gwfast import pot
from gwfast.singlecell import foscttm

from ..common import pairs
from ..pot.scot import standardized
from .rows import compared, coupling, quadratic

NAME, INSTALL, LINES = "SCOT", "", 1
# Neighbors, and epsilon: SCOT's defaults for so many cells, and what its search over
# both begins with.
SETTINGS = ((35, 1e-3), (29, 1e-2))
QUALITY = "FOSCTTM, lower is better"


def rows(repeats):
    x, y, *_ = pairs.cells("scGEM")
    for k, epsilon in SETTINGS:
        yield row(f"scGEM, k={k}, e={epsilon:g}", x, y, k, epsilon, repeats)


def row(problem, x, y, k, epsilon, repeats):
    """Both on two tables of the same cells in the same order."""
    x, y = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x, y))
    # By correlation; SCOT counts a cell among its own neighbors.
    costs = [pairs.hops(standardized(one), k - 1) for one in (x, y)]

    def ours():
        with pot.patched():
            return correspondences(costs, epsilon)

    return compared(
        problem,
        lambda: correspondences(costs, epsilon),
        ours,
        lambda plan: quadratic(coupling(plan), *costs),
        QUALITY,
        lambda plan: foscttm(plan @ y / plan.sum(axis=1, keepdims=True), y),
        repeats,
    )


def correspondences(costs, epsilon):
    """What SCOT's `find_correspondences` calls."""
    p, q = (ot.unif(len(cost)) for cost in costs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ot.gromov.entropic_gromov_wasserstein(
            *costs, p, q, loss_fun="square_loss", epsilon=epsilon, log=True
        )[0]

"""CAJAL on neurons: all pairs of cells, by ``gwfast.pairwise_gromov_wasserstein``."""

import contextlib
import io

import numpy as np

import gwfast

from ..common import settings
from ..pot.timings import in_turns
from ..small.problems import neurons
from .rows import BUDGET, Row, quadratic

NAME, INSTALL, LINES = "CAJAL", "cajal", 1
# Neurons, and points that are drawn of each, twice.
CELLS, POINTS = 30, 40


def rows(repeats):
    kind, spaces = neurons(CELLS)
    rng, cells = np.random.default_rng(0), []
    for cost in spaces:
        for _ in range(2):
            some = rng.permutation(len(cost))[:POINTS]
            cells.append(np.ascontiguousarray(cost[np.ix_(some, some)]))
    yield row(f"{len(cells)} samples of {kind}, {POINTS} points", cells, repeats)


def row(problem, cells, repeats):
    """All pairs of cells, each of which comes twice in a row."""
    seconds, found = in_turns(
        [lambda: theirs(cells)[0], lambda: ours(cells).distances / 2],
        turns=repeats, budget=BUDGET,
    )  # fmt: skip
    plans = ours(cells, plans=True).plans.items()
    made = [(*pair, plan.toarray()) for pair, plan in plans]
    objectives = [
        np.mean([quadratic(plan, cells[i], cells[j]) for i, j, plan in some])
        for some in (theirs(cells, return_coupling_mats=True)[1], made)
    ]
    scores = tuple(map(recognized, found))
    quality = "samples nearest to their twin"
    return Row(problem, *seconds, *seconds, tuple(objectives), quality, scores)


def theirs(cells, **options):
    """Distances and plans of CAJAL."""
    from cajal.run_gw import gw_pairwise_parallel

    pairs = [(cost, np.full(len(cost), 1 / len(cost))) for cost in cells]
    with contextlib.redirect_stderr(io.StringIO()):
        return gw_pairwise_parallel(pairs, settings.THREADS, **options)


def ours(cells, **options):
    """What a user has in place of it."""
    return gwfast.pairwise_gromov_wasserstein(cells, n_threads=settings.THREADS, **options)


def recognized(distances):
    """The share of cells that are nearest to the other sample of the same neuron."""
    order = np.arange(len(distances))
    nearest = (distances + np.diag(np.full(len(order), np.inf))).argmin(axis=1)
    return np.mean(nearest == order ^ 1)

"""Cells: two modalities, or one with entries lost, as steps in graphs."""

import functools
import itertools

import numpy as np

from ...common import pairs
from .problem import Problem, Sides, identity, shuffled

_cells = functools.cache(pairs.cells)


def problems():
    for k, seed in itertools.product((5, 20), range(3)):
        yield Problem(
            "cells, two modalities", f"{k} neighbors, sample {seed}",
            functools.partial(_modalities, k, seed),
        )  # fmt: skip
    for lost, k, seed in itertools.product((0.15, 0.25, 0.35), (10,), range(6)):
        yield Problem(
            "cells, entries lost", f"{lost:g} lost, {k} neighbors, sample {seed}",
            functools.partial(_lost, lost, k, seed),
        )  # fmt: skip


def _modalities(k, seed):
    """Expression and methylation of the same cells: all, or a sample."""
    x, y = _cells("scGEM")[:2]
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(x))[: len(x) if seed == 0 else 140]
    other, known = shuffled(pairs.hops(y[some], k), rng)
    return Sides(pairs.hops(x[some], k), other, [known])


def _lost(share, k, seed):
    points = _cells("PBMC")[0]
    rng = np.random.default_rng([seed, int(100 * share)])
    points = points[rng.permutation(len(points))[:400]]
    other = np.where(rng.random(points.shape) < share, 0.0, points)
    return Sides(pairs.hops(points, k), pairs.hops(other, k), [identity(len(points))])

"""Small problems, and the one judge of all plans."""

import numpy as np
from scipy.spatial.distance import cdist, squareform

from ..ablation.problems import points
from ..common import pairs
from ..pairwise import spaces


def graphs(n, count):
    """Steps between the nodes of two random graphs that have nothing in common."""
    return _pairs(spaces.graphs(2 * count, sizes=(n, n)))


def clouds(n, count):
    """Distances between points in space and a permuted, noisy copy."""
    return [points(n, seed=seed) for seed in range(count)]


def cells(n, count):
    """Distances between some cells of scGEM, by expression and by methylation.

    Raises
    ------
    FileNotFoundError
    """
    sides, rng = pairs.cells("scGEM")[:2], np.random.default_rng(n)
    total = len(sides[0])
    draws = [rng.permutation(total)[: min(n, total)] for _ in range(count)]
    return [[_scaled(cdist(s[some], s[some])) for s in sides] for some in draws]


KINDS = {"graphs": graphs, "clouds": clouds, "cells": cells}


def neurons(count):
    """What they are called and distances within them: neurons of 50 points, or closed
    curves of as many where there are no data.
    """
    try:
        found = np.load(pairs.FOLDER / "neurons" / "euclidean.npz")["condensed"]
    except FileNotFoundError:
        return "curves", spaces.shapes(count, sizes=(50, 50))
    return "neurons", [squareform(one).astype(np.float64) for one in found[:count]]


def searched(count):
    """Pairs of 50 to 100 points, of curves and of graphs."""
    made = spaces.shapes(count // 2 * 2, sizes=(50, 100))
    made += spaces.graphs(2 * count - len(made), sizes=(50, 100))
    return _pairs(made)


def product_cost(x, y):
    """The objective of the product plan of uniform masses, without entropy."""
    return np.square(x).mean() + np.square(y).mean() - 2 * x.mean() * y.mean()


def judged(plan, x, y, epsilon=0.0):
    """What a plan of uniform masses is worth, in float64.

    It is rounded to a coupling first, so that none is better for leaving out mass that
    is expensive to move (Altschuler, Weed and Rigollet 2017, algorithm 2). One that is
    not finite counts as the product plan, where all begin.

    Parameters
    ----------
    epsilon : float
        In gwfast's convention, half the weight of the entropy.

    Returns
    -------
    objective, marginal_error : float
        ``sum_ijkl (x_ik - y_jl)^2 T_ij T_kl - 2 epsilon H(T)`` of the coupling; and the
        L1 error of both marginals before.
    """
    plan = np.asarray(plan, dtype=np.float64)
    n, m = plan.shape
    error = np.abs(plan.sum(axis=1) - 1 / n).sum()
    error += np.abs(plan.sum(axis=0) - 1 / m).sum()
    plan = _rounded(plan) if np.isfinite(error) else np.full((n, m), 1 / (n * m))
    cost = np.square(x).mean() + np.square(y).mean() - 2 * np.vdot(x @ plan, plan @ y)
    some = plan[plan > 0]
    return cost + 2 * epsilon * np.vdot(some, np.log(some)), error


def _rounded(plan):
    n, m = plan.shape
    tiny = np.finfo(np.float64).tiny
    plan = plan * np.minimum(1 / n / np.maximum(plan.sum(axis=1), tiny), 1)[:, None]
    plan *= np.minimum(1 / m / np.maximum(plan.sum(axis=0), tiny), 1)
    rows, cols = 1 / n - plan.sum(axis=1), 1 / m - plan.sum(axis=0)
    # What both lack is the same but for rounding, which may leave nothing.
    return plan + np.outer(rows, cols) / max(rows.sum(), tiny)


def _pairs(made):
    """Of spaces that follow one another, each at most one."""
    made = [_scaled(one) for one in made]
    return list(zip(made[::2], made[1::2], strict=True))


def _scaled(cost):
    return cost / cost.max()

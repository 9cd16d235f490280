"""A matching problem with known matches."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

# Relative difference of objectives that is none, and one of them that is nothing, as a
# fraction of that of the product plan.
NEAR, NOTHING = 5e-3, 1e-6


class Sides(NamedTuple):
    """Both sides, each a `PointCloud` or costs; sets of known matches, each of pairs
    of rows (k, 2), several of which may be right; and options of the solve.
    """

    x: Any
    y: Any
    known: list[np.ndarray]
    options: Mapping[str, Any] = MappingProxyType({})


class Problem(NamedTuple):
    """Its family, its name within that, and a function that makes its `Sides`, always
    the same ones.
    """

    family: str
    name: str
    make: Callable[[], Sides]


def identity(n):
    """Every row known to match its like."""
    return np.stack([np.arange(n)] * 2, axis=1)


def shuffled(cost, rng):
    """Costs with their points in another order, and the known matches."""
    order = rng.permutation(len(cost))
    return cost[np.ix_(order, order)], np.stack([order, np.arange(len(order))], axis=1)


def distances(points):
    """Euclidean distances between points."""
    return np.linalg.norm(points[:, None] - points, axis=2)

"""Slices of simulated tissues: where spots lie, what they express, or both."""

import functools
import itertools

import numpy as np
from scipy.spatial import cKDTree

import gwfast

from ...common import pairs
from ...common.tissue import two_slices
from .problem import Problem, Sides

# Neighbors by expression of each spot.
N_NEAR = 10
# Weights of the quadratic term where expression is compared between slices.
ALPHAS = {"places and expression": 0.5, "mostly places": 0.98}


def problems():
    kinds = *ALPHAS, "places", "expression", "steps by expression"
    for kind, n, seed in itertools.product(kinds, (300, 600), range(2)):
        make = functools.partial(_sides, kind, n, seed)
        yield Problem(f"tissue, {kind}", f"{n} spots, tissue {seed}", make)


def _sides(kind, n, seed):
    first, second, truth = two_slices(n, seed)
    known = np.stack([np.arange(len(first.spots)), cKDTree(second.spots).query(truth)[1]], axis=1)
    if kind == "expression":
        clouds = (gwfast.PointCloud(one.features) for one in (first, second))
        return Sides(*clouds, [known])
    if kind == "steps by expression":
        return Sides(*(pairs.hops(one.features, N_NEAR) for one in (first, second)), [known])
    spots = (one.spots - one.spots.mean(axis=0) for one in (first, second))
    clouds = [gwfast.PointCloud(one / one.std(), metric="sqeuclidean") for one in spots]
    if kind == "places":
        return Sides(*clouds, [known])
    features = gwfast.CrossCost(first.features, second.features)
    options = dict(linear_cost=features, alpha=ALPHAS[kind])
    return Sides(*clouds, [known], options)

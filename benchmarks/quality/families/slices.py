"""Slices of simulated tissues: where spots lie, what they express, or both."""

import functools
import itertools

import numpy as np
from scipy.spatial import cKDTree

import gwfast

from ...common.tissue import two_slices
from .problem import Problem, Sides

# Weights of the quadratic term where expression is compared between slices.
ALPHAS = {"places and expression": 0.5, "mostly places": 0.98}


def problems():
    kinds = *ALPHAS, "places", "expression"
    for kind, n, seed in itertools.product(kinds, (300, 500, 900), range(3)):
        make = functools.partial(_sides, kind, n, seed)
        yield Problem(f"tissue, {kind}", f"{n} spots, tissue {seed}", make)


def _sides(kind, n, seed):
    first, second, truth = two_slices(n, seed)
    known = np.stack(
        [np.arange(len(first.spots)), cKDTree(second.spots).query(truth)[1]], axis=1
    )
    if kind == "expression":
        clouds = (gwfast.PointCloud(one.features) for one in (first, second))
        return Sides(*clouds, [known])
    spots = (one.spots - one.spots.mean(axis=0) for one in (first, second))
    clouds = [gwfast.PointCloud(one / one.std(), metric="sqeuclidean") for one in spots]
    if kind == "places":
        return Sides(*clouds, [known])
    features = gwfast.CrossCost(first.features, second.features)
    options = dict(linear_cost=features, alpha=ALPHAS[kind])
    return Sides(*clouds, [known], options)

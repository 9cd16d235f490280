"""Clouds without preferred directions, rotated and with noise: only the details of
where their points are tell rotations apart, the less so the more dimensions there are.
"""

import functools
import itertools

import numpy as np

import gwfast

from .problem import Problem, Sides

N_POINTS = 500


def _gaussian(rng, d):
    return rng.standard_normal((N_POINTS, d))


def _skewed(rng, d):
    return rng.standard_gamma(8.0, (N_POINTS, d))


def _mixed(rng, d):
    """Twenty clusters of a sphere."""
    centers = _gaussian(rng, d)[:20]
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    return centers[rng.integers(20, size=N_POINTS)] + 0.2 * _gaussian(rng, d)


KINDS = {"normal": _gaussian, "skewed": _skewed, "clusters": _mixed}


def problems():
    for kind, d, noise, seed in itertools.product(KINDS, (4, 6, 9), (0.3, 0.45, 0.6), range(2)):
        make = functools.partial(_sides, KINDS[kind], d, noise, seed)
        name = f"{kind}, {d} dimensions, noise {noise:g}, sample {seed}"
        yield Problem("round clouds", name, make)


def _sides(drawn, d, noise, seed):
    rng = np.random.default_rng([d, int(100 * noise), seed])
    x = drawn(rng, d)
    # Without directions of more variance.
    x = (x - x.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T))).T
    order = rng.permutation(N_POINTS)
    y = x @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    y = (y + noise * rng.standard_normal(y.shape))[order]
    known = np.stack([order, np.arange(N_POINTS)], axis=1)
    return Sides(*(gwfast.PointCloud(one, metric="sqeuclidean") for one in (x, y)), [known])

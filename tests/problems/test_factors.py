"""Costs by factors of a caller's own: the matrix that they stand for."""

import numpy as np
from helpers.marks import pairwise
from helpers.problems import cloud

import gwfast


def symmetric_factors(n, rank, seed):
    """Factors of costs with eigenvalues of both signs."""
    x = cloud(n, rank, seed)
    return x, x * np.where(np.arange(rank) % 2, -1.0, 1.0)


@pairwise(shape=[(1, 1), (2, 5), (40, 3), (30, 90)], size=[1e-20, 1.0, 1e20])
def test_they_hold_the_costs(shape, size, seed):
    n, rank = shape
    u, v = symmetric_factors(n, rank, seed)
    for factors, expected in (((size * u, v), size * u @ v.T), ((u,), u @ u.T)):
        cost = gwfast.PointCloud.from_factors(*factors)
        assert cost.n == n and cost.features.shape[1] <= min(n, rank)
        atol = 2e-6 * np.linalg.norm(expected, 2)
        np.testing.assert_allclose(cost.to_dense().matrix, expected, rtol=0, atol=atol)


def test_columns_that_are_not_needed_are_left_out():
    u, v = symmetric_factors(40, 3, 0)
    cost = gwfast.PointCloud.from_factors(np.hstack([u, u]), np.hstack([v, v]))
    assert cost.features.shape == (40, 3)
    zero = gwfast.PointCloud.from_factors(np.zeros((4, 2)))
    assert (zero.to_dense().matrix == 0).all() and zero.is_constant

"""Costs by factors of a caller's own: the matrix they stand for, in any problem."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud

import gwfast


def symmetric_factors(n, rank, seed):
    """Of costs with eigenvalues of both signs."""
    x = cloud(n, rank, seed)
    return x, x * np.where(np.arange(rank) % 2, -1.0, 1.0)


@pairwise(shape=[(1, 1), (2, 5), (40, 3), (65, 64), (30, 90)], size=[1e-20, 1.0, 1e20])
def test_they_hold_the_costs(shape, size, seed):
    n, rank = shape
    u, v = symmetric_factors(n, rank, seed)
    cost = gwfast.PointCloud.from_factors(size * u, v)
    expected = size * u @ v.T
    assert cost.n == n and cost.features.shape[1] <= min(n, rank)
    atol = 2e-6 * np.abs(np.linalg.eigvalsh(expected)).max()
    np.testing.assert_allclose(cost.to_dense().matrix, expected, rtol=0, atol=atol)
    alone = gwfast.PointCloud.from_factors(u).to_dense().matrix
    atol = 2e-6 * np.linalg.norm(u, 2) ** 2
    np.testing.assert_allclose(alone, u @ u.T, rtol=0, atol=atol)


def test_columns_that_are_not_needed_are_left_out():
    u, v = symmetric_factors(40, 3, 0)
    cost = gwfast.PointCloud.from_factors(np.hstack([u, u]), np.hstack([v, v]))
    assert cost.features.shape == (40, 3)
    zero = gwfast.PointCloud.from_factors(np.zeros((4, 2)))
    assert (zero.to_dense().matrix == 0).all() and zero.is_constant


def test_bad_factors_are_refused():
    u, v = symmetric_factors(10, 3, 0)
    with pytest.raises(ValueError, match=r"v must have shape \(10, 3\)"):
        gwfast.PointCloud.from_factors(u, v[:, :2])
    with pytest.raises(ValueError, match=r"symmetric product u @ v\.T"):
        gwfast.PointCloud.from_factors(u, cloud(10, 3, 7))
    with pytest.raises(ValueError, match="u must"):
        gwfast.PointCloud.from_factors(u * np.nan)

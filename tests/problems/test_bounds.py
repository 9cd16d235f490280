"""Lower bounds of costs hold for any plan, and are Memoli's bounds."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost

import gwfast


def bounded(sides, weights=None):
    return gwfast.pairwise_gromov_wasserstein(sides, masses=weights, n_starts=0)


def sorted_distance(values, others):
    return np.square(np.sort(values, axis=None) - np.sort(others, axis=None)).mean()


@pytest.mark.parametrize("kind", ["metric", "asymmetric", "signed"])
def test_no_plan_costs_less(kind):
    shape = 1, 7, 12, 20
    sides = [distances(cloud(size, 3, k)) for k, size in enumerate(shape)]
    if kind == "asymmetric":
        sides = [random_cost(n, k, symmetric=False) for k, n in enumerate(shape)]
    if kind == "signed":
        sides = [side - side.mean() for side in sides]
    found = bounded(sides, [masses(size, k) for k, size in enumerate(shape)])
    np.testing.assert_array_equal(found.lower_bounds, found.lower_bounds.T)
    assert (np.diag(found.lower_bounds) == 0).all()
    assert (found.lower_bounds <= found.costs * (1 + 1e-9)).all()


def test_the_bound_is_attained_by_spaces_of_one_cost():
    found = bounded([np.ones((20, 20)), np.full((20, 20), 3.0)])
    assert found.lower_bounds[0, 1] == pytest.approx(4.0)
    np.testing.assert_allclose(found.costs, found.lower_bounds)


def test_bounds_are_distances_of_sorted_costs_and_of_those_of_points():
    """Every cost comes twice, so that means over 128 parts of the mass change nothing."""
    one, other = (np.repeat(cloud(16, 8, k), 2, axis=1) for k in (0, 1))
    gathered = np.sort(one, axis=None).reshape(16, 16)  # the same costs, of other points
    for pair, is_of_points in (((one, other), False), ((one, gathered), True)):
        by_costs = sorted_distance(*pair)
        by_points = sorted_distance(*(np.sqrt(np.square(x).mean(axis=1)) for x in pair))
        assert (by_points > by_costs) == is_of_points
        expected = max(by_costs, by_points)
        assert bounded(pair).lower_bounds[0, 1] == pytest.approx(expected, rel=1e-9)

"""Relative and annealed epsilon."""

import numpy as np
import pytest
from helpers.problems import distances, rotated_pair

import gwfast
from gwfast import Epsilon, PointCloud

*POINTS, WHERE = rotated_pair(60, 3, 0)
COSTS = [distances(points) ** 2 for points in POINTS]
CLOUDS = [PointCloud(points, "sqeuclidean") for points in POINTS]


def product_objective(cost_x, cost_y):
    return (cost_x**2).mean() + (cost_y**2).mean() - 2 * cost_x.mean() * cost_y.mean()


@pytest.mark.parametrize("factor", [1.0, 7.0, 1e-3])
def test_relative_epsilon_is_a_share_of_the_product_objective(factor):
    costs = [factor * cost for cost in COSTS]
    for epsilon, share in ((Epsilon(relative=0.03), 0.03), ("2%", 0.02), ("auto", 0.0175)):
        result = gwfast.gromov_wasserstein(*costs, epsilon=epsilon, init="profile")
        np.testing.assert_allclose(result.epsilon, share * product_objective(*costs), rtol=1e-5)


@pytest.mark.parametrize("sides", [COSTS, CLOUDS])
def test_annealing_goes_down_and_ends_at_epsilon(sides):
    epsilon = Epsilon(relative=0.002, anneal_from=30, anneal_by=0.8)
    loose = dict(tol=1e-4, options=gwfast.SolverOptions(marginal_tol=1e-4))
    result = gwfast.gromov_wasserstein(*sides, epsilon=epsilon, init="profile", **loose)
    np.testing.assert_allclose(result.epsilon, 0.002 * product_objective(*COSTS), rtol=1e-5)
    used = np.array([step.epsilon for step in result.history])
    expected = np.maximum(30 * 0.8 ** np.arange(len(used)), 1.0) * result.epsilon
    np.testing.assert_allclose(used, expected)
    assert (used[-2:] == result.epsilon).all()
    # Sharp enough to match all points, which are the same up to rotation.
    assert (result.plan.argmax(axis=1) == WHERE).mean() > 0.95
    search = gwfast.gromov_wasserstein(*sides, epsilon=epsilon, **loose)
    assert {row.epsilon for row in search.candidates} == {search.epsilon}


@pytest.mark.parametrize("epsilon", ["0.5", Epsilon(0.5), 0.5])
def test_texts_and_numbers_are_taken(epsilon):
    result = gwfast.gromov_wasserstein(*COSTS, epsilon=epsilon, init="profile")
    assert result.epsilon == 0.5

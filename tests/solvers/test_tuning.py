"""Many epsilons, each from the plan of the one before."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, hops

import gwfast
from gwfast import gromov_wasserstein, tune_epsilon

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def graphs(n, seed):
    """Steps in a graph of near neighbors, and the same in another order."""
    rng = np.random.default_rng(seed)
    cost, order = hops(rng.random((n, 2)), 3), rng.permutation(n)
    return cost, cost[np.ix_(order, order)]


def test_tuning_is_never_worse_than_the_default():
    problem, found = graphs(20, 1), []

    def key(result):
        found.append((result.gw_cost, result.epsilon))
        return result.gw_cost

    epsilons = [gwfast.Epsilon(relative=share) for share in (0.01, 0.03, 0.0175)]
    best = tune_epsilon(*problem, epsilons=epsilons, key=key)
    assert (best.gw_cost, best.epsilon) == min(found)
    # The largest is searched as the default is, and so is the best.
    for gw_cost, epsilon in (found[0], min(found)):
        alone = gromov_wasserstein(*problem, epsilon=epsilon)
        assert gw_cost <= alone.gw_cost * (1 + 1e-6) + 1e-9


def test_each_epsilon_goes_on_from_the_plan_of_the_one_before():
    apart, rng, seen = distances(cloud(60, 3, 0)), np.random.default_rng(1), []
    sides = [apart + np.abs(noise + noise.T) / 20 for noise in rng.standard_normal((2, 60, 60))]

    def key(result):
        seen.append(result)
        return result.gw_cost

    epsilons = np.geomspace(0.002, 0.02, 8) * apart.mean() ** 2
    tune_epsilon(*sides, epsilons=epsilons, key=key)
    np.testing.assert_allclose([result.epsilon for result in seen[:8]], epsilons[::-1])
    n_iter = [sum(row.n_iter for row in result.candidates) for result in seen]
    assert sum(n_iter[1:8]) < n_iter[0]


def test_key_chooses_and_its_results_stay_as_they_were():
    seen = []

    def key(result):
        seen.append((result.plan, result.plan.copy()))
        return [np.nan, -1.0, -2.0][len(seen) - 1] if len(seen) < 4 else 0.0

    best = tune_epsilon(*graphs(30, 29), epsilons=[0.5, 0.3, 0.2], key=key)
    for plan, copy in seen:
        np.testing.assert_array_equal(plan, copy)
    # A score that is NaN does not win.
    assert best.plan is seen[2][0]

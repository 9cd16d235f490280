"""Many epsilons, each from the plan of the one before."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, hops, rotated_pair

import gwfast
from gwfast import PointCloud, QuadraticProblem

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def permuted(n, seed):
    """Steps in a graph of near neighbors, and the same in another order."""
    rng = np.random.default_rng(seed)
    cost, order = hops(rng.random((n, 2)), 3), rng.permutation(n)
    return cost, cost[np.ix_(order, order)]


def clouds(n, seed):
    x, y, _ = rotated_pair(n, 4, seed, noise=0.1)
    return PointCloud(x), PointCloud(y)


@pytest.mark.parametrize("make, n, seed", [(permuted, 20, 1), (clouds, 80, 4)])
def test_tuning_is_never_worse_than_the_default(make, n, seed):
    problem, found = make(n, seed), []

    def key(result):
        found.append((result.gw_cost, result.epsilon))
        return result.gw_cost

    epsilons = [gwfast.Epsilon(relative=share) for share in (0.01, 0.03, 0.0175)]
    best = gwfast.tune_epsilon(*problem, epsilons=epsilons, key=key)
    assert (best.gw_cost, best.epsilon) == min(found)
    # The largest is searched as the default is, and so is the one that wins.
    for gw_cost, epsilon in (found[0], min(found)):
        alone = gwfast.gromov_wasserstein(*problem, epsilon=epsilon)
        assert gw_cost <= alone.gw_cost * (1 + 1e-6) + 1e-9


def test_each_epsilon_goes_on_from_the_plan_of_the_one_before():
    x = cloud(93, 3, 0)
    apart, rng, seen = distances(x), np.random.default_rng(1), []
    sides = [apart + np.abs(noise + noise.T) / 20 for noise in rng.standard_normal((2, 93, 93))]

    def key(result):
        seen.append(result.epsilon)
        return result.gw_cost

    epsilons = np.geomspace(0.002, 0.02, 8) * apart.mean() ** 2
    best = gwfast.tune_epsilon(*sides, epsilons=epsilons, key=key)
    np.testing.assert_allclose(seen[:8], epsilons[::-1])
    one_search = sum(row.n_iter for row in best.candidates if row.epsilon == seen[0])
    followed = [row for row in best.candidates if row.start.startswith("epsilon ")]
    assert len(followed) == 7 and sum(row.n_iter for row in followed) < one_search


def test_time_is_that_of_all_epsilons():
    result = gwfast.tune_epsilon(*permuted(40, 2), time_limit=1e-6)
    assert result.status == "time_limit" and np.isfinite(result.gw_cost)


def test_results_that_key_saw_stay_as_they_were():
    seen = []

    def key(result):
        seen.append((result.plan, result.plan.copy()))
        return np.nan if len(seen) == 1 else result.gw_cost

    best = gwfast.tune_epsilon(*permuted(30, 29), epsilons=[0.5, 0.3], key=key)
    for plan, copy in seen:
        np.testing.assert_array_equal(plan, copy)
    # A score that is NaN does not win.
    assert any(best.plan is plan for plan, _ in seen[1:])


@pytest.mark.parametrize(
    "options, error, message",
    [
        (dict(epsilons=[]), ValueError, "^epsilons must n"),
        (dict(epsilons=["a"]), ValueError, "^epsilons m"),
        (dict(epsilons=0.1), TypeError, "^epsilons must b"),
        (dict(key=3), TypeError, "^key must be callable"),
        (dict(key=lambda result: []), TypeError, "^key must return a number, got list"),
    ],
)
def test_bad_input_is_refused(options, error, message):
    problem = QuadraticProblem(distances(cloud(10, 2, 0)), distances(cloud(10, 2, 1)))
    with pytest.raises(error, match=message):
        gwfast.tune_epsilon(problem, **options)

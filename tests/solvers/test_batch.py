"""Many problems at once have the results of each alone; many epsilons, one after the other."""

import warnings

import numpy as np
import pytest
from helpers.problems import cloud, distances, hops, masses, random_cost, rotated_pair, settings

import gwfast
from gwfast import PointCloud, QuadraticProblem

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
SIZES = [(20, 20), (1, 4), (35, 28), (12, 30), (2, 2), (28, 35)]
COSTS = random_cost(8, 0) + 0.1, random_cost(9, 1) + 0.1
PARTIAL = dict(loss="kl", marginals=gwfast.Partial(0.5), dtype="float64", max_iter=20)


def small_problems():
    """Tuples as `gromov_wasserstein` takes them, of all kinds and sizes."""
    problems = []
    for k, (n, m) in enumerate(SIZES):
        x, y, _ = rotated_pair(max(n, m), 3, k, noise=0.05)
        sides = PointCloud(x[:n]), PointCloud(y[:m], "cosine")
        if k % 3 == 2:
            sides = random_cost(n, k), random_cost(m, k + 50)
        problems.append(sides if k % 2 else (*sides, masses(n, k), masses(m, k + 1)))
    return problems


def batch(problems, **options):
    return gwfast.gromov_wasserstein_batch(problems, **settings(**options))


def alone(*problem, **options):
    return gwfast.gromov_wasserstein(*problem, **settings(**options | {"n_threads": 1}))


def assert_same(one, other):
    arrays = zip((one.plan, *one.potentials), (other.plan, *other.potentials), strict=True)
    assert all(np.array_equal(left, right) for left, right in arrays)
    names = "gw_cost", "reg_cost", "epsilon", "marginal_error", "status", "left_out", "advice"
    assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]
    assert [step.n_inner for step in one.history] == [step.n_inner for step in other.history]
    assert len(one.candidates) == len(other.candidates)


@pytest.mark.parametrize(
    "problems, options",
    [
        (small_problems(), dict(init="product", max_iter=15, n_threads=1)),
        (small_problems(), dict(init="exact", max_iter=5, n_threads=3)),
        (small_problems(), dict(init="random", seed=5, epsilon=0.05, max_iter=6, n_threads=3)),
        (small_problems(), dict(init="profile", tol=1e-3, max_inner=50, max_iter=9, n_threads=2)),
        ([COSTS], dict(init="auto", epsilon="auto", **PARTIAL)),
        ([COSTS], dict(init="auto", epsilon=0, **PARTIAL)),
        ([COSTS], dict(init="product", epsilon=0.05, method="ppa", max_iter=9)),
        ([COSTS] * 8, dict(init="product", n_threads=4, max_iter=3)),
    ],
)
def test_results_are_those_of_single_solves_in_their_order(problems, options):
    results = batch(problems, **options)
    for result, problem in zip(results, problems, strict=True):
        assert_same(result, alone(*problem, **options))
    assert len({result.plan.ctypes.data for result in results}) == len(problems)


def test_cheap_starts_are_the_default_and_no_worse_than_the_product_plan():
    problems = small_problems()[:2]
    for one, other in zip(batch(problems), batch(problems, init="exact"), strict=True):
        assert_same(one, other)
    costs = [(distances(cloud(n, 2, n)), distances(cloud(n + 2, 2, n + 1))) for n in range(8, 14)]
    for epsilon in (0.02, 0):
        one = batch(costs, init="product", epsilon=epsilon)
        few, more = (batch(costs, n_starts=n, epsilon=epsilon) for n in (0, None))
        mean = [np.mean([result.gw_cost for result in results]) for results in (one, few, more)]
        assert mean[0] > mean[1] > mean[2]


def test_problems_come_in_any_form():
    options = dict(init="product", max_iter=3)
    kl = QuadraticProblem(*COSTS, loss="kl")
    assert_same(batch([COSTS, kl], **options)[1], alone(kl, **options))
    assert batch([]) == batch(iter(())) == []
    problems, expected = small_problems(), batch(small_problems(), **options)
    objects = [QuadraticProblem(*problem) for problem in problems]
    views = iter(problems), tuple(map(list, problems)), dict(enumerate(problems)).values()
    for given in (objects, *views):
        for one, other in zip(batch(given, **options), expected, strict=True):
            assert_same(one, other)


def test_there_is_one_warning_for_all_or_none():
    problems = [(PointCloud(cloud(20, 3, k)), PointCloud(cloud(18, 3, k + 9))) for k in range(7)]
    with pytest.warns(gwfast.ConvergenceWarning, match="^7 of 7 .* 4 .max_iter., ...;") as caught:
        batch(problems, init="product", max_iter=1)
    assert len(caught) == 1 and caught[0].filename == __file__
    sides = [PointCloud(side) for side in rotated_pair(40, 3, 0)[:2]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert batch([sides], init="product", epsilon=0.005)[0].converged


def test_progress_is_told_how_many_are_done_and_may_end_the_batch():
    events, options = [], dict(init="product", max_iter=2)
    batch(small_problems(), progress=lambda *event: events.append(event), **options)
    _, done, totals = zip(*events, strict=True)
    assert set(totals) == {len(SIZES)} and list(done)[: len(SIZES)] == [*range(len(SIZES))]

    def fail(text, done, total):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch(small_problems(), progress=fail, **options)


def test_tuning_is_never_worse_than_the_default():
    rng, found = np.random.default_rng(1), []
    cost, order = hops(rng.random((20, 2)), 3), rng.permutation(20)
    problem = cost, cost[np.ix_(order, order)]

    def key(result):
        found.append((result.gw_cost, result.epsilon))
        return result.gw_cost

    epsilons = [gwfast.Epsilon(relative=share) for share in (0.01, 0.03, 0.0175)]
    best = gwfast.tune_epsilon(*problem, epsilons=epsilons, key=key)
    assert (best.gw_cost, best.epsilon) == min(found)
    # The largest is searched as the default is, and so is the best.
    for gw_cost, epsilon in (found[0], min(found)):
        alone = gwfast.gromov_wasserstein(*problem, epsilon=epsilon)
        assert gw_cost <= alone.gw_cost * (1 + 1e-6) + 1e-9


def test_each_epsilon_goes_on_from_the_plan_of_the_one_before():
    apart, rng, seen = distances(cloud(60, 3, 0)), np.random.default_rng(1), []
    sides = [apart + np.abs(noise + noise.T) / 20 for noise in rng.standard_normal((2, 60, 60))]

    def key(result):
        seen.append(result)
        return result.gw_cost

    epsilons = np.geomspace(0.002, 0.02, 8) * apart.mean() ** 2
    gwfast.tune_epsilon(*sides, epsilons=epsilons, key=key)
    np.testing.assert_allclose([result.epsilon for result in seen[:8]], epsilons[::-1])
    n_iter = [sum(row.n_iter for row in result.candidates) for result in seen]
    assert sum(n_iter[1:8]) < n_iter[0]


def test_key_chooses_and_its_results_stay_as_they_were():
    seen = []

    def key(result):
        seen.append((result.plan, result.plan.copy()))
        return [np.nan, -1.0, -2.0][len(seen) - 1] if len(seen) < 4 else 0.0

    best = gwfast.tune_epsilon(*COSTS, epsilons=[0.5, 0.3, 0.2], key=key)
    for plan, copy in seen:
        np.testing.assert_array_equal(plan, copy)
    # A score that is NaN does not win.
    assert best.plan is seen[2][0]

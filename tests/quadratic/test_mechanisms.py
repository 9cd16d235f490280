"""With and without each mechanism a solve ends at the same optimum; and ties of the first linear
program of exact problems: which vertex is gone to, and when.
"""

import numpy as np
import pytest
from helpers.problems import distances, random_cost, rotated_pair, steps
from helpers.tuned import AfterLooks, solve_tuned

import gwfast

X, Y, _ = rotated_pair(150, 3, 0, noise=0.05)
MATRICES = distances(X), distances(Y)
RANDOM = random_cost(40, 0), random_cost(30, 1)
FEW = random_cost(16, 0), random_cost(14, 1)
CLOUDS = gwfast.PointCloud(X, "sqeuclidean"), gwfast.PointCloud(Y, "sqeuclidean")
PRODUCT, DOUBLE = dict(init="product"), dict(init="product", dtype="float64")
SLOW, BLURRED = dict(init="product", epsilon="5%"), dict(init="product", epsilon="30%")
SHARP = dict(init="product", epsilon="0.02%")
# Costs, options, fields of the tuning with the mechanism and without, and the most iterations with
# the mechanism, outer and inner, as fractions of the iterations without.
MECHANISMS = {
    "compiled descents": (MATRICES, PRODUCT, dict(few_points=256), {}, (1.3, 1.3)),
    "Anderson": (RANDOM, SLOW, {}, dict(acceleration=False), (0.6, 1.0)),
    "Anderson of clouds": (CLOUDS, BLURRED, {}, dict(acceleration=False), (0.8, 0.8)),
    "low-rank updates": (MATRICES, PRODUCT, dict(low_rank_from=100, levels=False), {}, (1.3, 1.3)),
    "leading eigenvectors": (MATRICES, PRODUCT, dict(low_rank_from=100), {}, (1.5, 2.0)),
    "conjugate gradients": (MATRICES, PRODUCT, dict(iterated_from=60), {}, (1.0, 0.3)),
    "Cholesky factors": (MATRICES, DOUBLE, {}, dict(newton=False), (1.0, 0.3)),
    "float32 first": (MATRICES, DOUBLE, dict(float32_from=100), {}, (2.0, 1.0)),
    "samples": (CLOUDS, PRODUCT, dict(sampled_from=100), {}, (0.7, 0.3)),
    "truncated kernels": (CLOUDS, SHARP, dict(truncated_from=100), {}, (2.0, 2.0)),
    "few points first": (MATRICES, {}, dict(race_points=(60, 60, 60)), {}, (2.0, 2.0)),
    "second look": (FEW, {}, {}, dict(second_look=False), (2.0, 2.0)),
}


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("costs, options, on, off, most", MECHANISMS.values(), ids=MECHANISMS)
def test_a_mechanism_ends_at_the_same_optimum(costs, options, on, off, most):
    problem = gwfast.QuadraticProblem(*costs)
    with_it, without = (
        solve_tuned(problem, tuning=dict(few_points=8) | fields, n_threads=1, **options)
        for fields in (on, off)
    )
    assert with_it.gw_cost == pytest.approx(without.gw_cost, rel=3e-4)
    assert [step.change for step in with_it.history] != [step.change for step in without.history]
    assert with_it.n_iter <= most[0] * without.n_iter
    n_inner = [sum(step.n_inner for step in one.history) for one in (with_it, without)]
    assert n_inner[0] <= most[1] * n_inner[1]


def test_starts_race_on_the_points_with_most_mass():
    heavy, costs = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3], []
    for rng in map(np.random.default_rng, (10, 20)):
        noise, light = rng.standard_normal((60, 3)), rng.standard_exponential((180, 3))
        costs.append(distances(np.vstack([heavy + 0.02 * noise, 3 * light])))
    masses = np.repeat([1.0, 0.02], [60, 180])
    problem = gwfast.QuadraticProblem(*costs, *[masses / masses.sum()] * 2)
    tuning = dict(few_points=8, race_points=(60, 60, 60))
    plan = solve_tuned(problem, epsilon="1%", tuning=tuning).plan
    assert (plan[:60].argmax(axis=1) == np.arange(60)).mean() > 0.9


def hops(rng, n):
    """Hop distances of a random graph around a circle."""
    return steps(np.triu(rng.random((n, n)) < 3.0 / n, 1) + np.roll(np.eye(n), 1, axis=1))


def solved(x, y, *masses, init="product", **options):
    return gwfast.gromov_wasserstein(x, y, *masses, epsilon=0, init=init, **options)


def test_ends_are_below_those_from_the_product_plan_alone():
    rng, ratios = np.random.default_rng(0), []
    for _ in range(8):
        costs = hops(rng, 24), hops(rng, 20)
        alone, found = solved(*costs, init=np.full((24, 20), 1 / 480)), solved(*costs)
        assert found.gw_cost <= alone.gw_cost
        ratios.append(found.gw_cost / alone.gw_cost)
    assert np.mean(ratios) < 0.95
    for rng in map(np.random.default_rng, range(3)):
        cost, order = hops(rng, 40), rng.permutation(40)
        assert solved(cost, cost[np.ix_(order, order)]).gw_cost == pytest.approx(0.0, abs=1e-9)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_a_search_that_is_late_has_the_best_so_far():
    rng = np.random.default_rng(7)
    problem, ends = gwfast.QuadraticProblem(hops(rng, 60), hops(rng, 50)), []
    for looks in (3, 5, 100):
        found = solve_tuned(problem, deadline=AfterLooks(looks), epsilon=0, init="product")
        np.testing.assert_allclose(found.plan.sum(axis=0), 1 / 50, atol=1e-14)
        ends.append(found.gw_cost)
    assert ends[0] >= ends[1] >= ends[2] and ends[0] > ends[2]


def test_the_history_is_the_one_of_the_best_descent():
    rng = np.random.default_rng(5)
    costs, p, q = (hops(rng, 25), hops(rng, 31)), rng.random(25), np.full(31, 1 / 31)
    p[:4] = 0
    p /= p.sum()
    found = solved(*costs, p, q)
    np.testing.assert_allclose(found.plan.sum(axis=1), p, atol=1e-14)
    losses = [step.gw_cost for step in found.history]
    assert (np.diff(losses) < 0).all() and losses[-1] == found.gw_cost
    np.testing.assert_array_equal(solved(*costs, p, q, n_threads=2).plan, found.plan)

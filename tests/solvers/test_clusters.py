"""Starts from coarse clusters, and the search that takes them where it is not sure."""

import numpy as np
import pytest
from helpers.problems import cloud, masses, orthogonal

import gwfast
from gwfast import PointCloud, QuadraticProblem
from gwfast.solvers import levels, race, second_look
from gwfast.solvers.clusters import _Coarse, cluster_starts, clustered
from gwfast.solvers.starts import Random

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
EPSILON = gwfast.Epsilon(relative=0.0175)


def groups_of_points(n=240, d=12, n_groups=12, noise=0.05, seed=2):
    """Points about a few centers, the same turned and shuffled, and the order."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((n_groups, d))
    x = centers[rng.integers(n_groups, size=n)] + 0.2 * rng.standard_normal((n, d))
    order = rng.permutation(n)
    y = x[order] + noise * rng.standard_normal(x.shape)
    return x, y @ orthogonal(d, seed), order


def problem_of(x, y, p=None, q=None, metric="cosine"):
    return QuadraticProblem(PointCloud(x, metric), PointCloud(y, metric), p, q)


def match(order):
    plan = np.zeros((len(order), len(order)))
    plan[order, np.arange(len(order))] = 1.0 / len(order)
    return plan


def test_clusters_are_groups_that_lie_apart():
    rng = np.random.default_rng(0)
    group = rng.integers(5, size=200)
    points = 10.0 * cloud(5, 3, 1)[group] + 0.01 * cloud(200, 3, 2)
    found = clustered(points, np.full(200, 1 / 200), 5, rng)
    pairs = {tuple(pair) for pair in np.stack([group, found], axis=1).tolist()}
    assert len(pairs) == 5 and set(found) == set(range(5))


@pytest.mark.parametrize("count", [1, 4, 30])
def test_repeated_points_and_such_without_mass_are_in_clusters_too(count):
    points = np.repeat(cloud(3, 2, 0), 10, axis=0)
    p = np.where(np.arange(30) < 20, 0.05, 0.0)
    found = clustered(points, p, count, np.random.default_rng(1))
    assert found.shape == (30,)
    assert set(found) == set(range(found.max() + 1)) and found.max() < min(count, 3)


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "dot"])
def test_the_objective_between_clusters_is_that_of_the_plan_of_points(metric):
    x, y, _ = groups_of_points(60)
    problem = problem_of(x, y, masses(60, 0), masses(60, 1), metric)
    coarse = _Coarse.of(problem, 7, 1.0, np.random.default_rng(0))
    start, *_ = cluster_starts(problem, 0.01 * problem.x.scale * problem.y.scale, 0, 1)
    plan = start.plan(problem, 1)
    assert plan.dtype == np.float32
    np.testing.assert_allclose(plan.sum(axis=0), problem.q, rtol=0.1, atol=1e-3)
    costs = problem.x.to_dense().matrix, problem.y.to_dense().matrix
    for side, cost, p, scale in (
        (coarse.x, costs[0], problem.p, problem.x.scale),
        (coarse.y, costs[1], problem.q, problem.y.scale),
    ):
        member = np.zeros((len(side.masses), 60))
        member[side.groups, np.arange(60)] = p
        member /= member.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(
            scale * side.costs, member @ cost @ member.T, rtol=1e-3, atol=1e-4 * scale
        )


def test_starts_are_different_and_the_best_is_the_match():
    x, y, order = groups_of_points()
    problem = problem_of(x, y)
    result = gwfast.gromov_wasserstein(problem, init=match(order), epsilon=EPSILON)
    starts = cluster_starts(problem, result.epsilon, 0, 4)
    assert [str(one) for one in starts] == [f"clusters 0, {k}" for k in range(4)]
    plans = [one.plan(problem, 1) for one in starts]
    assert min(
        np.abs(a - b).sum() for k, a in enumerate(plans) for b in plans[:k]
    ) > 0.1  # fmt: skip
    # With the marginals given that is the part of the objective that differs.
    x, y = problem.x.features, problem.y.features
    found = [-np.square(x.T @ plan @ y).sum() for plan in plans]
    assert found[0] == min(found)
    led = gwfast.gromov_wasserstein(problem, init=starts[0], epsilon=EPSILON)
    assert led.gw_cost <= result.gw_cost * 1.001


def test_the_same_seed_makes_the_same_starts_and_another_others():
    x, y, _ = groups_of_points(80)
    problem = problem_of(x, y)
    one, again, other = (
        cluster_starts(problem, 0.02, seed, 1)[0].plan(problem, 1) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("n", [1, 2, 15])
def test_few_points_have_none(n):
    problem = problem_of(cloud(n, 2, 0) + 3, cloud(n, 2, 1) + 3)
    assert cluster_starts(problem, 0.1, 0, 4) == []


@pytest.fixture
def unlucky(monkeypatch):
    """A race with one start, of which nothing can be sure."""
    monkeypatch.setattr(race, "default_starts", lambda *_: [Random(1)])
    monkeypatch.setattr(race, "fresh_starts", lambda shape: [])


@pytest.mark.parametrize("points", [None, 100])
def test_an_unsure_search_looks_again(unlucky, monkeypatch, points):
    if points is not None:
        monkeypatch.setattr(levels, "RACE_POINTS", points)
    # What one random start leads to is not the lowest here.
    x, y, order = groups_of_points()
    problem = problem_of(x, y)
    known = gwfast.gromov_wasserstein(problem, init=match(order))
    alone = gwfast.gromov_wasserstein(problem, init=Random(1))
    result = gwfast.gromov_wasserstein(problem)
    assert alone.gw_cost > 1.02 * known.gw_cost
    assert result.gw_cost <= known.gw_cost * 1.001
    assert result.status == "converged"
    won = [row for row in result.candidates if row.fate == "won"]
    assert [row.start.partition(",")[0] for row in won] == ["clusters 0"]
    assert won[0].n_points == len(x) and won[0].gw_cost == result.gw_cost
    np.testing.assert_allclose(result.plan.sum(axis=0), problem.q, rtol=1e-3)


def test_a_search_that_is_sure_does_not():
    x = cloud(240, 5, 0) * [5, 4, 3, 2, 1]
    result = gwfast.gromov_wasserstein(problem_of(x, x))
    assert result.status == "converged"
    assert not any("clusters" in row.start for row in result.candidates)


@pytest.mark.parametrize(
    "rule",
    [
        dict(marginals="semirelaxed"),
        dict(marginals="partial", mass=0.8),
        dict(marginals="unbalanced", rho=4.0),
    ],
)
def test_an_unsure_search_under_other_marginals_does_not(rule, monkeypatch):
    monkeypatch.setattr(second_look, "is_sure", lambda _: False)
    costs = PointCloud(cloud(20, 3, 1)), PointCloud(cloud(18, 3, 2))
    result = gwfast.gromov_wasserstein(*costs, **rule, n_starts=0, max_outer=5)
    assert np.isfinite(result.gw_cost)
    assert not any("clusters" in row.start for row in result.candidates)


def test_what_has_been_stopped_does_not(unlucky):
    x, y, _ = groups_of_points(60)
    stopped = gwfast.gromov_wasserstein(
        problem_of(x, y), callback=lambda step: step.iteration >= 2
    )
    late = gwfast.gromov_wasserstein(problem_of(x, y), time_limit=1e-9)
    for result in (stopped, late):
        assert not any("clusters" in row.start for row in result.candidates)
    assert (stopped.status, late.status) == ("stopped", "time_limit")


@pytest.mark.parametrize("time_limit", [0.05, 0.2, 0.6])
def test_a_plan_comes_back_whenever_time_is_up(unlucky, time_limit):
    x, y, _ = groups_of_points(400)
    result = gwfast.gromov_wasserstein(problem_of(x, y), time_limit=time_limit)
    assert np.isfinite(result.gw_cost) and result.plan.sum() == pytest.approx(1, 1e-3)


def test_threads_change_no_bit(unlucky):
    x, y, _ = groups_of_points(150)
    one, two = (
        gwfast.gromov_wasserstein(problem_of(x, y), n_threads=n).plan for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)

"""Matches that two point clouds teach themselves, and the search that begins there."""

import warnings

import numpy as np
import pytest
from helpers.problems import cloud, distances, orthogonal

import gwfast
from gwfast import PointCloud, QuadraticProblem, SelfLearning
from gwfast.solvers import gromov, race
from gwfast.solvers.starts import Profile, Random

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def spaces(n=300, d=12, m=None, more=0, noise=0.02):
    """A cloud without symmetry and the same, turned and shuffled, and the order; its
    first `m` points, in a space of so many dimensions more.
    """
    rng = np.random.default_rng(4)
    x = rng.exponential(size=(n, d)) * np.linspace(3, 1, d)
    order = rng.permutation(n)[:m]
    y = x[order] @ orthogonal(d, 1)
    y = np.hstack([y, np.zeros((len(y), more))])
    y += noise * rng.standard_normal(y.shape)
    return x - x.mean(axis=0), y - y.mean(axis=0), order


def problem_of(x, y, metric="cosine"):
    return QuadraticProblem(PointCloud(x, metric), PointCloud(y, metric))


@pytest.mark.parametrize("shape", [{}, dict(m=250), dict(more=3)])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "dot"])
def test_matches_are_right(shape, metric):
    x, y, order = spaces(**shape)
    plan = SelfLearning().plan(problem_of(x, y, metric), 2)
    assert plan.shape == (len(x), len(y)) and plan.sum() == pytest.approx(1, rel=1e-5)
    matched = np.flatnonzero(plan.sum(axis=0))
    assert len(matched) > 0.8 * len(y)
    right = plan[:, matched].argmax(axis=0) == order[matched]
    assert right.mean() > 0.95


@pytest.mark.parametrize("n, m, d", [(1, 1, 1), (2, 3, 1), (5, 4, 2), (40, 11, 60)])
def test_few_points_are_enough(n, m, d):
    x, y = cloud(n, d, 0) + 1e-3, cloud(m, d, 1) + 1e-3
    plan = SelfLearning(1).plan(problem_of(x, y), 1)
    assert np.isfinite(plan).all() and plan.sum() == pytest.approx(1, rel=1e-5)


def test_threads_change_no_bit():
    x, y, _ = spaces(150)
    clouds = PointCloud(x), PointCloud(y)
    one, two = (
        gwfast.gromov_wasserstein(*clouds, init=SelfLearning(3), n_threads=n)
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.plan, two.plan)
    named = gwfast.gromov_wasserstein(*clouds, init="self-learning", seed=3)
    np.testing.assert_array_equal(named.plan, one.plan)


def test_costs_have_no_points_to_learn_from():
    cost = distances(cloud(20, 3, 0))
    with pytest.raises(ValueError, match="both costs are point clouds"):
        gwfast.gromov_wasserstein(cost, cost, init="self-learning")
    with pytest.raises(ValueError, match="search must be one of"):
        gwfast.gromov_wasserstein(cost, cost, search="slow")
    fast, slow = (
        gwfast.gromov_wasserstein(cost, cost, search=search)
        for search in ("fast", "thorough")
    )
    np.testing.assert_array_equal(fast.plan, slow.plan)


def test_a_thorough_search_ends_where_two_starts_meet():
    x, y, order = spaces(200)
    clouds = PointCloud(x), PointCloud(y)
    result = gwfast.gromov_wasserstein(*clouds, search="thorough")
    (won,) = (row.start for row in result.candidates if row.fate == "won")
    *_, last = result.candidates
    # A profile of the race and another one may err together.
    met = "product" if won.startswith("profile") else "profile 0.2"
    assert (last.start, last.fate) == (met, f"same as {won}")
    aligned = gwfast.align(x, y, search="thorough", normalize=())
    assert (aligned.match()[order] == np.arange(200)).mean() > 0.95


def test_starts_of_one_kind_may_err_together(monkeypatch):
    monkeypatch.setattr(race, "default_starts", lambda *_: [Profile()])
    x, y, _ = spaces(200)
    result = gwfast.gromov_wasserstein(PointCloud(x), PointCloud(y), search="thorough")
    fates = {row.start: row.fate for row in result.candidates}
    assert fates["profile 0.2"] == "same as profile 0.02"
    assert "product" in fates


@pytest.fixture
def poor_race(monkeypatch):
    """Only a random start, which leads nowhere, and no clusters."""
    starts = [Random(0)]
    monkeypatch.setattr(race, "default_starts", lambda *_: starts)
    monkeypatch.setattr(
        gromov, "second_look", lambda problem, solution, result, *_: result
    )


def test_it_finds_what_the_race_does_not(poor_race):
    x, y, order = spaces(200)
    clouds, seen = (PointCloud(x), PointCloud(y)), []

    def look(step):
        seen.append(step.gw_cost)

    kind = dict(epsilon=gwfast.Epsilon(relative=0.01), callback=look)
    poor = gwfast.gromov_wasserstein(*clouds, **kind)
    seen.clear()
    result = gwfast.gromov_wasserstein(*clouds, search="thorough", **kind)
    assert result.gw_cost < 0.9 * poor.gw_cost
    assert (result.plan.argmax(axis=0) == order).mean() > 0.95
    (won,) = (row for row in result.candidates if row.fate == "won")
    assert won.start != "random 0" and won.gw_cost == result.gw_cost
    assert seen[-result.n_outer :] == [step.gw_cost for step in result.history]


def test_its_time_is_limited(poor_race):
    x, y, _ = spaces(300)
    clouds = PointCloud(x), PointCloud(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = gwfast.gromov_wasserstein(*clouds, search="thorough", time_limit=0.05)
    assert np.isfinite(result.plan).all() and result.seconds < 2

"""What the default starts find, how sure a race is of its winner, and the starts from
coarse clusters that a search takes where it is not.
"""

import numpy as np
import pytest
from helpers.marks import mostly_slow, pairwise
from helpers.problems import cloud, orthogonal, rotated_pair
from scipy.sparse import csgraph

import gwfast
from gwfast import PointCloud, QuadraticProblem
from gwfast.results.tables import Candidate
from gwfast.solvers import levels, race, second_look
from gwfast.solvers.agreement import CLEAR, is_sure
from gwfast.solvers.clusters import cluster_starts, clustered
from gwfast.solvers.starts import Random

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
# Of graphs that are one another's copies in another order nothing is better than that
# order, or as good under any marginals.
RULES = {
    "balanced": {},
    "semirelaxed": dict(marginals="semirelaxed"),
    "partial": dict(marginals="partial", mass=0.7),
    "unbalanced": dict(marginals="unbalanced", rho=3.0),
}


def graph(n, seed):
    """Steps between the nodes of a connected random graph."""
    rng = np.random.default_rng(seed)
    linked = np.zeros((n, n))
    for node in range(1, n):
        linked[node, rng.integers(node)] = 1
    linked[rng.integers(n, size=n // 2), rng.integers(n, size=n // 2)] = 1
    return csgraph.shortest_path(linked, directed=False, unweighted=True)


def copies(n, seed):
    """A graph, the same in another order, and the plan that matches them."""
    cost, order = graph(n, seed), np.random.default_rng(seed + 1).permutation(n)
    plan = np.zeros((n, n))
    plan[order, np.arange(n)] = 1 / n
    return cost, cost[np.ix_(order, order)], plan


def assert_found(n, seed, slack=1e-3, **options):
    """The default is no worse than to start from the match."""
    cost, other, match = copies(n, seed)
    result = gwfast.gromov_wasserstein(cost, other, **options)
    match = match * options.get("mass", 1.0)
    known = gwfast.gromov_wasserstein(
        cost, other, **{**options, "epsilon": result.epsilon}, init=match
    )
    rounding = 1e-5 * cost.mean() ** 2
    assert result.gw_cost <= known.gw_cost * (1 + slack) + rounding
    return result


@pairwise(rule=RULES, n=mostly_slow([12, 34], fast=[12]))
def test_the_order_is_found_by_default(rule, n):
    for seed in range(2):
        result = assert_found(n, seed, **RULES[rule])
        labels = {row.start for row in result.candidates}
        if rule != "balanced":
            assert labels == {"product", "balanced"}
        else:
            assert {"product", "isomorphism 1"} <= labels


@pytest.mark.slow
@pytest.mark.parametrize("rule, dtype", [*zip(RULES, ["float32", "float64"] * 2, strict=True)])
def test_large_problems_begin_with_a_race(rule, dtype):
    result = assert_found(120, 3, dtype=dtype, **RULES[rule])
    assert result.plan.dtype == dtype


@pytest.mark.parametrize("rule", ["semirelaxed", "partial"])
def test_exact_plans_find_it_too(rule):
    cost, other, _ = copies(30, 1)
    options = dict(epsilon=0, **RULES[rule])
    result = gwfast.gromov_wasserstein(cost, other, **options)
    alone = gwfast.gromov_wasserstein(cost, other, init="product", **options)
    assert result.gw_cost <= min(1e-9 + 0.1 * alone.gw_cost, alone.gw_cost + 1e-12)
    tried = {row.start for row in result.candidates}
    # Nothing is below a plan that costs nothing.
    assert tried >= {"product", "balanced"} or result.gw_cost < 1e-12


def test_where_memory_is_short_there_is_no_search():
    cost, other, _ = copies(150, 2)
    kind = dict(marginals="semirelaxed", max_outer=3)
    alone = gwfast.gromov_wasserstein(cost, other, init="product", **kind)
    for limit in np.geomspace(1e6, 3e6, 12):
        try:
            result = gwfast.gromov_wasserstein(cost, other, memory_limit=limit, **kind)
        except MemoryError:
            continue
        if not result.candidates:
            np.testing.assert_array_equal(result.plan, alone.plan)
            return
    raise AssertionError("no limit is enough for one descent and not for two")


def field(*rows, n_points=100):
    """Candidates of triples of a start, an objective and a fate."""
    return [Candidate(start, n_points, 0.1, cost, 8, 0.1, fate) for start, cost, fate in rows]


WON, PROFILE = ("product", 1.0, "won"), ("profile 0.05", 1.0, "won")


@pytest.mark.parametrize(
    "sure, rows",
    [
        (False, [WON]),
        (False, [WON, ("random 0", 1.1, "lost")]),
        (True, [WON, ("random 0", 1.0, "same as product")]),
        # What begins with the same profiles is one start,
        (False, [PROFILE, ("root profile 0.1", 1.0, "same as profile 0.05")]),
        # and not where it was made anew from other points.
        (True, [PROFILE, ("fresh profile 0.02", 1.0, "same as profile 0.05")]),
        # By way of others.
        (
            True,
            [
                ("random 1", 1.0, "won"),
                ("profile 0.05", 1.0, "same as random 1"),
                ("random 2", 1.0, "same as profile 0.05"),
            ],
        ),
        # Two that met elsewhere.
        (
            False,
            [WON, ("random 1", 1.1, "dropped in round 1"), ("random 2", 1.1, "same as random 1")],
        ),
        (True, [WON, ("random 0", 1.01 + CLEAR, "lost")]),
        (True, [("product", 0.0, "won"), ("random 0", 1e-9, "lost")]),
        (False, [("product", 1.0, "lost")]),
        (False, []),
    ],
)
def test_two_that_know_nothing_of_one_another_or_a_wide_gap_make_sure(sure, rows):
    assert is_sure(field(*rows)) == sure


def test_the_gap_is_that_of_the_last_level_with_others():
    few = field(("product", 1.0, "went on"), ("random 0", 2.0, "lost"), n_points=50)
    near = field(("random 0", 1.02, "lost"))
    won = field(("product", 1.0, "won"))
    assert is_sure(few + won)
    assert not is_sure(few + near + won)


def test_a_race_that_one_start_won_alone_is_uncertain():
    x, y, _ = rotated_pair(100, 6, 0)
    sure = gwfast.gromov_wasserstein(PointCloud(x), PointCloud(y))
    assert sure.status == "converged" and sure.converged and not sure.advice
    clouds = PointCloud(cloud(150, 5, 1)), PointCloud(cloud(160, 5, 2))
    with pytest.warns(gwfast.ConvergenceWarning, match="'uncertain'.*Seeds"):
        found = gwfast.gromov_wasserstein(*clouds)
    assert found.status == "uncertain" and found.converged
    # Nothing raced, nothing is said of other starts.
    again = gwfast.gromov_wasserstein(*clouds, init=np.asarray(found.plan))
    assert again.status == "converged"


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


@pytest.mark.parametrize("count", [1, 4, 30])
def test_repeated_points_and_such_without_mass_are_in_clusters_too(count):
    points = np.repeat(cloud(3, 2, 0), 10, axis=0)
    p = np.where(np.arange(30) < 20, 0.05, 0.0)
    found = clustered(points, p, count, np.random.default_rng(1))
    assert found.shape == (30,)
    assert set(found) == set(range(found.max() + 1)) and found.max() < min(count, 3)


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
    dense = QuadraticProblem(x @ x.T, y @ y.T)
    best = cluster_starts(dense, result.epsilon, 0, 1)[0].plan(dense, 1)
    assert -np.square(x.T @ best @ y).sum() < 0.98 * found[0]
    led = gwfast.gromov_wasserstein(problem, init=starts[0], epsilon=EPSILON)
    assert led.gw_cost <= result.gw_cost * 1.001


def test_the_same_seed_makes_the_same_starts_and_another_others():
    """On any number of threads."""
    x, y, _ = groups_of_points(150)
    problem = problem_of(x, y)
    one, again, other = (
        cluster_starts(problem, 0.02, seed, 1)[0].plan(problem, n_threads)
        for seed, n_threads in ((1, 1), (1, 2), (2, 1))
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
    monkeypatch.setattr(race, "default_starts", lambda *_, **__: [Random(1)])
    monkeypatch.setattr(race, "fresh_starts", lambda shape: [])


@pytest.mark.parametrize("points", [None, 100])
@pytest.mark.parametrize("are_matrices", [False, True])
def test_an_unsure_search_looks_again(unlucky, monkeypatch, points, are_matrices):
    if points is not None:
        monkeypatch.setattr(levels, "RACE_POINTS", points)
        monkeypatch.setattr(levels, "RACE_POINTS_DENSE", points)
    # What one random start leads to is not the lowest here.
    x, y, order = groups_of_points()
    problem = problem_of(x, y)
    if are_matrices:
        unit = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x, y))
        problem = QuadraticProblem(*(one @ one.T for one in unit))
    known = gwfast.gromov_wasserstein(problem, init=match(order))
    alone = gwfast.gromov_wasserstein(problem, init=Random(1))
    result = gwfast.gromov_wasserstein(problem)
    assert alone.gw_cost > 1.02 * known.gw_cost
    assert result.gw_cost <= known.gw_cost * 1.001
    assert result.status == "converged"
    won = [row for row in result.candidates if row.fate == "won"]
    assert len(won) == 1 and won[0].start.startswith("clusters")
    assert won[0].n_points == len(x) and won[0].gw_cost == result.gw_cost
    np.testing.assert_allclose(result.plan.sum(axis=0), problem.q, rtol=1e-3)


def test_a_search_that_is_sure_does_not():
    x = cloud(240, 5, 0) * [5, 4, 3, 2, 1]
    result = gwfast.gromov_wasserstein(problem_of(x, x))
    assert result.status == "converged"
    assert not any("clusters" in row.start for row in result.candidates)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "balanced"])
def test_an_unsure_search_under_other_marginals_does_not(rule, monkeypatch):
    monkeypatch.setattr(second_look, "is_sure", lambda _: False)
    costs = PointCloud(cloud(20, 3, 1)), PointCloud(cloud(18, 3, 2))
    result = gwfast.gromov_wasserstein(*costs, **RULES[rule], n_starts=0, max_outer=5)
    assert np.isfinite(result.gw_cost)
    assert not any("clusters" in row.start for row in result.candidates)


def test_what_has_been_stopped_does_not(unlucky):
    x, y, _ = groups_of_points(60)
    stopped = gwfast.gromov_wasserstein(problem_of(x, y), callback=lambda step: step.iteration >= 2)
    late = gwfast.gromov_wasserstein(problem_of(x, y), time_limit=1e-9)
    for result in (stopped, late):
        assert not any("clusters" in row.start for row in result.candidates)
    assert (stopped.status, late.status) == ("stopped", "time_limit")
    # A plan comes back whenever time is up.
    x, y, _ = groups_of_points(400)
    for time_limit in (0.05, 0.2, 0.6):
        late = gwfast.gromov_wasserstein(problem_of(x, y), time_limit=time_limit)
        assert np.isfinite(late.gw_cost) and late.plan.sum() == pytest.approx(1, 1e-3)

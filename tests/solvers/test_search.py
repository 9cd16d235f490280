"""The default search finds known matches, or says that it is uncertain."""

import functools
import time

import numpy as np
import pytest
from helpers.marks import mostly_slow, pairwise
from helpers.problems import cloud, distances, masses, orthogonal, rotated_pair
from scipy.sparse import csgraph

import gwfast
from gwfast import PointCloud, QuadraticProblem

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
RULES = {
    "balanced": {},
    "semirelaxed": dict(marginals="semirelaxed"),
    "partial": dict(marginals=gwfast.Partial(0.7)),
    "unbalanced": dict(marginals=gwfast.Unbalanced(3.0)),
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


def linked(seed, n=60, moved=0.1):
    """A graph of near neighbors in the plane, and the same with some edges moved."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    near = np.argsort(distances(points), axis=1)[:, 1:5]
    edges = np.unique(np.sort(np.stack([np.repeat(np.arange(n), 4), near.ravel()], 1), 1), axis=0)
    other, some = edges.copy(), rng.random(len(edges)) < moved
    other[some, 1] = rng.integers(n, size=some.sum())
    pair = np.zeros((2, n, n))
    for side, ends in zip(pair, (edges, other), strict=True):
        side[ends[:, 0], ends[:, 1]] = side[ends[:, 1], ends[:, 0]] = 1
        np.fill_diagonal(side, 0)
    return pair


def groups(n=240, d=12, n_groups=12, noise=0.05, seed=2):
    """Points about a few centers, the same turned and shuffled, and the match."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((n_groups, d))
    x = centers[rng.integers(n_groups, size=n)] + 0.2 * rng.standard_normal((n, d))
    order = rng.permutation(n)
    y = (x[order] + noise * rng.standard_normal(x.shape)) @ orthogonal(d, seed)
    plan = np.zeros((n, n))
    plan[order, np.arange(n)] = 1 / n
    return x, y, plan


def assert_found(costs, match, slack=2e-3, **options):
    """The default is no worse than from the match, or says that it may be."""
    result = gwfast.gromov_wasserstein(*costs, **options)
    known = {**options, "epsilon": result.epsilon, "init": match}
    known = gwfast.gromov_wasserstein(*costs, **known)
    rounding = 1e-5 * (costs[0].mean() ** 2 if isinstance(costs[0], np.ndarray) else 0.0)
    found = result.gw_cost <= known.gw_cost * (1 + slack) + rounding
    assert found or result.status == "uncertain"
    return result, found


@pairwise(rule=RULES, n=mostly_slow([12, 34], fast=[12]), seed=[0, 1])
def test_the_order_of_a_copy_is_found(rule, n, seed):
    cost, other, match = copies(n, seed)
    match = match * (0.7 if rule == "partial" else 1.0)
    assert assert_found((cost, other), match, **RULES[rule])[1]


@pytest.mark.slow
@pytest.mark.parametrize("rule, dtype", [*zip(RULES, ["float32", "float64"] * 2, strict=True)])
def test_the_order_of_many_points_is_found(rule, dtype):
    cost, other, match = copies(120, 3)
    match = match * (0.7 if rule == "partial" else 1.0)
    result, found = assert_found((cost, other), match, dtype=dtype, **RULES[rule])
    assert found and result.plan.dtype == dtype


@pytest.mark.parametrize("rule", ["semirelaxed", "partial"])
def test_exact_problems_are_searched_under_any_marginals(rule):
    cost, other, _ = copies(30, 1)
    options = dict(epsilon=0, **RULES[rule])
    result = gwfast.gromov_wasserstein(cost, other, **options)
    alone = gwfast.gromov_wasserstein(cost, other, init="product", **options)
    assert result.gw_cost <= min(1e-9 + 0.1 * alone.gw_cost, alone.gw_cost + 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_escapes_find_what_a_race_misses(dtype):
    pair, found = [linked(seed) for seed in (1, 2)], 0
    for costs in pair:
        result, is_best = assert_found(tuple(costs), np.eye(60) / 60, dtype=dtype)
        found += is_best
        np.testing.assert_allclose(result.plan.sum(axis=0), 1 / 60, rtol=1e-3)
    assert found == len(pair)


@pytest.mark.parametrize("dense", [False, True])
def test_clusters_of_points_are_matched(dense):
    x, y, match = groups()
    costs = PointCloud(x), PointCloud(y)
    if dense:
        unit = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
        costs = tuple(side @ side.T for side in unit)
    result, found = assert_found(costs, match)
    assert found and result.status == "converged"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cosine", "sqeuclidean", "dense"])
def test_large_problems_are_solved_from_coarse_to_fine(kind):
    n = 1100 if kind == "dense" else 2000
    x, y, where = rotated_pair(n, 3, 0, noise=0.02)
    costs = tuple(distances(side) if kind == "dense" else PointCloud(side, kind) for side in (x, y))
    answer = np.full((n, n), 1e-9)
    answer[np.arange(n), where] = 1.0
    result, found = assert_found(costs, answer, slack=5e-3)
    sizes = [row.n_points for row in result.candidates]
    assert found and sizes[-1] == n
    # Matrices begin with their leading eigenvectors, of all points.
    assert kind == "dense" or min(sizes) < n
    assert sum(row.fate == "won" for row in result.candidates) == 1
    problem = QuadraticProblem(*costs)
    assert (
        gwfast.verify(problem, result).objective.value
        <= gwfast.verify(problem, result).objective.bound
    )


@pytest.mark.slow
@pytest.mark.parametrize("data_seed", [0, 1])
def test_search_beats_or_equals_many_random_starts(data_seed):
    rng = np.random.default_rng(data_seed)
    x = rng.standard_normal((60, 3)) * [1.0, 1.5, 2.0]
    y = np.vstack([x[:40] @ orthogonal(3, data_seed), rng.standard_normal((15, 3))])
    costs = distances(x), distances(y)
    result = gwfast.gromov_wasserstein(*costs)
    options = dict(epsilon=result.epsilon, init="random")
    random = [
        gwfast.gromov_wasserstein(*costs, seed=100 + seed, **options).gw_cost for seed in range(30)
    ]
    assert result.gw_cost <= min(random) * 1.002


def curves(seed):
    """Distances along and across two smooth loops in space."""
    rng, sides = np.random.default_rng(seed), []
    for n in rng.integers(16, 24, 2):
        angle = np.sort(rng.random(n)) * 2 * np.pi
        waves = np.multiply.outer(angle, [1, 2, 3])
        sizes = rng.standard_normal((2, 3, 3)) / np.array([1, 2, 3])[:, None]
        sides.append(distances(np.cos(waves) @ sizes[0] + np.sin(waves) @ sizes[1]))
    return sides


def test_exact_objectives_are_far_below_those_from_the_product_plan():
    logs = []
    for seed in range(8):
        sides = curves(seed) if seed % 2 else (graph(18, seed), graph(22, seed + 9))
        product = gwfast.gromov_wasserstein(*sides, epsilon=0, init="product").gw_cost
        logs.append(np.log(gwfast.gromov_wasserstein(*sides, epsilon=0).gw_cost / product))
    assert max(logs) <= 0 and np.mean(logs) < np.log(0.88)


@pytest.mark.parametrize("epsilon", ["auto", 0])
def test_threads_change_nothing(epsilon):
    x, y, _ = rotated_pair(60, 3, 4, noise=0.2)
    results = [
        gwfast.gromov_wasserstein(distances(x), distances(y), epsilon=epsilon, n_threads=n)
        for n in (1, 3)
    ]
    np.testing.assert_array_equal(results[0].plan, results[1].plan)
    strip = [[row._replace(seconds=0) for row in one.candidates] for one in results]
    assert strip[0] == strip[1]


@functools.cache
def noisy(dense):
    x, y, _ = rotated_pair(150, 3, 1, noise=0.02)
    kind = distances if dense else PointCloud
    return x, y, kind, gwfast.gromov_wasserstein(kind(x), kind(y))


@pytest.mark.parametrize("dense", mostly_slow([False, True], fast=[False]))
def test_order_rotation_sides_and_seeds_do_not_matter(dense):
    x, y, kind, known = noisy(dense)
    rng = np.random.default_rng(2)
    i, j = rng.permutation(len(x)), rng.permutation(len(y))
    turned = gwfast.gromov_wasserstein(kind(x[i] @ orthogonal(3, 3)), kind(y[j]), seed=1)
    swapped = gwfast.gromov_wasserstein(kind(y), kind(x), seed=2)
    for other, plan in (
        (turned, turned.plan[np.argsort(i)][:, np.argsort(j)]),
        (swapped, swapped.plan.T),
    ):
        np.testing.assert_allclose(other.gw_cost, known.gw_cost, rtol=1e-3)
        assert np.abs(plan - known.plan).sum() < 0.05


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 3), (5, 300), (200, 7)])
def test_awkward_shapes(shape):
    x, y = cloud(shape[0], 3, 5), cloud(shape[1], 2, 6)
    p, q = masses(shape[0], 7), masses(shape[1], 8)
    for sides in ((PointCloud(x), PointCloud(y)), (distances(x), distances(y))):
        plan = gwfast.gromov_wasserstein(*sides, p, q).plan.astype(np.float64)
        np.testing.assert_allclose(plan.sum(axis=1), p, atol=1e-4)
        np.testing.assert_allclose(plan.sum(axis=0), q, atol=1e-4)


@pytest.mark.parametrize("loss", ["square", "kl"])
def test_asymmetric_costs_and_kl_are_searched(loss):
    x, _, _ = rotated_pair(150, 3, 10)
    rng = np.random.default_rng(11)
    cost = distances(x) * rng.uniform(0.9, 1.1, (150, 150)) + 0.5
    order = rng.permutation(150)
    result = gwfast.gromov_wasserstein(cost, cost[np.ix_(order, order)], loss=loss)
    assert (result.plan.argmax(axis=0) == order).mean() > 0.9


def test_where_memory_is_short_there_is_no_search():
    cost, other, _ = copies(150, 2)
    options = dict(marginals="semirelaxed", max_iter=3)
    alone = gwfast.gromov_wasserstein(cost, other, init="product", **options)
    for limit in np.geomspace(5e5, 6e6, 16):
        try:
            result = gwfast.gromov_wasserstein(cost, other, memory_limit=limit, **options)
        except MemoryError:
            continue
        if not result.candidates:
            np.testing.assert_array_equal(result.plan, alone.plan)
            return
    raise AssertionError("no limit is enough for one descent and not for two")


@pairwise(dense=[False, True], max_iter=[1, 8], max_inner=[3, 1000], init=["auto", "list"])
def test_no_more_iterations_than_asked_for(dense, max_iter, max_inner, init):
    x, y, kind, _ = noisy(dense)
    init = ["product", "random"] if init == "list" else init
    limits = dict(max_iter=max_iter, options=gwfast.SolverOptions(max_inner=max_inner))
    result = gwfast.gromov_wasserstein(kind(x), kind(y), init=init, **limits)
    assert 1 <= result.n_iter <= max_iter
    assert max(step.n_inner for step in result.history) <= max_inner
    np.testing.assert_allclose(result.plan.sum(), 1.0, rtol=1e-4)


# --- Starts of one's own --------------------------------------------------------------


def test_the_best_of_a_list_of_starts_wins():
    x, y, _ = rotated_pair(40, 3, 18, noise=0.02)
    costs, own = (distances(x), distances(y)), np.random.default_rng(19).random((40, 40))
    starts = ["product", "random", own, "profile"]
    result = gwfast.gromov_wasserstein(*costs, init=starts, seed=5)
    assert {row.start for row in result.candidates} == {
        "product", "random 6", "plan", "profile"
    }  # fmt: skip
    (winner,) = (row for row in result.candidates if row.fate == "won")
    assert winner.gw_cost == result.gw_cost
    alone = [
        gwfast.gromov_wasserstein(*costs, init=one, epsilon=result.epsilon).gw_cost
        for one in starts
    ]
    assert result.gw_cost <= min(alone) * 1.001


def test_a_result_is_a_warm_start():
    x, y, kind, known = noisy(False)
    again = gwfast.gromov_wasserstein(kind(x), kind(y), init=known, epsilon=known.epsilon)
    assert again.n_iter <= known.n_iter and again.gw_cost == pytest.approx(known.gw_cost, rel=1e-4)
    with pytest.raises(ValueError, match=r"^init must have a plan of shape"):
        gwfast.gromov_wasserstein(kind(x[:50]), kind(y), init=known)


@pytest.mark.parametrize(
    "init, error, message",
    [
        ([], ValueError, "^init must not be an empty list"),
        (["auto"], ValueError, "^init must be"),
        ([3], (TypeError, ValueError), "^init must"),
        (["product", None], TypeError, "^init must be"),
    ],
)
def test_a_wrong_list_of_starts_is_refused(init, error, message):
    with pytest.raises(error, match=message):
        gwfast.gromov_wasserstein(np.eye(3), np.eye(3), init=init)


@pytest.mark.parametrize("tier", ["dense", "tiled"])
def test_a_few_known_pairs_are_enough(tier):
    x, y, order = rotated_pair(600, 4, 0, noise=0.01)
    pairs, costs = np.column_stack([np.arange(4), order[:4]]), (PointCloud(x), PointCloud(y))
    result = gwfast.gromov_wasserstein(
        *costs, init=gwfast.Seeds(pairs), options=gwfast.SolverOptions(tier=tier)
    )
    assert result.converged and not result.candidates
    assert (result.plan.argmax(axis=1) == order).mean() > 0.7


# --- What is told ---------------------------------------------------------------------


def test_candidates_are_a_table():
    _, _, _, result = noisy(True)
    lines = str(result.candidates).splitlines()
    assert len(lines) == 1 + len(result.candidates) and max(map(len, lines)) < 100
    winner = next(row for row in result.candidates if row.fate == "won")
    assert winner.gw_cost == result.gw_cost and winner.n_iter == result.n_iter
    assert {row.start for row in result.candidates} >= {"product", "profile 0.02", "random 0"}


def test_callback_may_stop_the_last_descent():
    x, y, kind, _ = noisy(True)
    stopped = gwfast.gromov_wasserstein(kind(x), kind(y), callback=lambda step: True)
    assert stopped.status == "stopped" and stopped.advice == ""


def test_progress_is_told():
    x, y, kind, _ = noisy(False)
    texts = []
    gwfast.gromov_wasserstein(kind(x), kind(y), progress=lambda text, *_: texts.append(text))
    assert any(text.startswith("start 1") for text in texts)
    assert any(text.startswith("round 1") for text in texts)
    assert texts[-1].startswith("solving from")


@pytest.mark.parametrize("epsilon", ["auto", 0])
def test_more_time_finds_no_less(epsilon):
    costs = linked(1)
    usual = gwfast.gromov_wasserstein(*costs, epsilon=epsilon)
    longer = gwfast.gromov_wasserstein(
        *costs, epsilon=epsilon, options=gwfast.SolverOptions(search_time=1.0)
    )
    assert longer.gw_cost <= usual.gw_cost * (1 + 1e-6)
    assert len(longer.candidates) >= len(usual.candidates)


@pytest.mark.parametrize("search_time", [None, 1e6])
def test_a_time_limit_ends_the_search(search_time):
    began = time.perf_counter()
    result = gwfast.gromov_wasserstein(
        *linked(1), options=gwfast.SolverOptions(search_time=search_time), time_limit=1.0
    )
    assert np.isfinite(result.gw_cost) and time.perf_counter() - began < 1e4
    x, y, _ = groups(400)
    for time_limit in (1e-9, 0.05, 0.2):
        late = gwfast.gromov_wasserstein(PointCloud(x), PointCloud(y), time_limit=time_limit)
        assert np.isfinite(late.gw_cost) and late.plan.sum() == pytest.approx(1, 1e-3)


@pytest.mark.parametrize("wrong", [0, -1.0, np.nan, "soon"])
def test_a_wrong_time_to_search_is_named(wrong):
    with pytest.raises((TypeError, ValueError), match="search_time must be"):
        gwfast.SolverOptions(search_time=wrong)


def test_spaces_that_have_nothing_in_common_are_uncertain():
    clouds = PointCloud(cloud(150, 5, 1)), PointCloud(cloud(160, 5, 2))
    with pytest.warns(gwfast.ConvergenceWarning, match="'uncertain'.*Seeds"):
        result = gwfast.gromov_wasserstein(*clouds)
    assert result.status == "uncertain" and result.converged and 0 < result.confidence < 0.93
    # Nothing raced, nothing is said of other starts.
    again = gwfast.gromov_wasserstein(*clouds, init=np.asarray(result.plan))
    assert again.status == "converged" and np.isnan(again.confidence)
    x, y, _ = rotated_pair(100, 6, 0)
    sure = gwfast.gromov_wasserstein(PointCloud(x), PointCloud(y))
    assert sure.status == "converged" and sure.confidence >= 0.93


def test_mirror_image_is_a_tie():
    rng = np.random.default_rng(14)
    half = rng.standard_exponential((25, 2)) * [1.0, 2.0] + [1.0, 0.0]
    both = np.vstack([half, half * [-1.0, 1.0]])
    for cost in (distances(both), PointCloud(both, "sqeuclidean")):
        result = gwfast.gromov_wasserstein(cost, cost)
        assert result.status == "uncertain" and "Seeds" in result.advice
    lopsided = distances(np.vstack([half, half * [-1.0, 1.3]]))
    assert gwfast.gromov_wasserstein(lopsided, lopsided).converged


@pytest.mark.parametrize("init", ["auto", "product"])
def test_too_large_an_epsilon_is_near_product(init):
    x, y, kind, known = noisy(True)
    result = gwfast.gromov_wasserstein(kind(x), kind(y), epsilon=100 * known.epsilon, init=init)
    assert result.status == "degenerate" and "smaller epsilon" in result.advice


@pytest.mark.parametrize(
    "costs",
    [
        (np.zeros((20, 20)), np.zeros((20, 20))),
        (np.full((20, 20), 0.1), np.full((20, 20), 0.1 + 1e-16)),
        (np.ones((20, 20)), distances(cloud(15, 2, 26))),
        (PointCloud(np.ones((20, 3))), PointCloud(np.full((9, 2), 0.7))),
    ],
)
def test_where_every_plan_is_as_good_the_product_plan_is_right(costs):
    result = gwfast.gromov_wasserstein(*costs)
    assert result.status == "uncertain" and np.isnan(result.confidence)
    assert "all plans have the same objective" in result.advice
    np.testing.assert_allclose(result.plan, 1 / result.plan.size, rtol=1e-4)


def test_advice_is_what_was_not_tried():
    """Spaces of different scale: no epsilon helps, and 1.75 % is none too large."""
    x = cloud(60, 3, 28)
    costs = PointCloud(x, "sqeuclidean"), PointCloud(1e3 * x[::-1], "sqeuclidean")
    raced = gwfast.gromov_wasserstein(*costs)
    alone = gwfast.gromov_wasserstein(*costs, init="product")
    for result in (raced, alone):
        assert result.status == "degenerate"
        assert "same scale" in result.advice and "smaller" not in result.advice
    assert "try a few known pairs" in raced.advice
    assert 'init="auto" or a few known pairs' in alone.advice


def test_two_plans_have_a_row_each():
    costs, rng = [distances(cloud(n, 3, n)) for n in (20, 18)], np.random.default_rng(0)
    plans = [rng.random((20, 18)) for _ in range(2)]
    result = gwfast.gromov_wasserstein(*costs, init=plans)
    fates = [row.fate for row in result.candidates]
    assert len(fates) == 2 and fates.count("won") == 1


def test_advice_on_scales_looks_at_spreads():
    """An offset of one side changes no plan."""
    x, y = (np.linalg.norm(side[:, None] - side, axis=2) for side in (cloud(20, 3, 0),) * 2)
    solve = functools.partial(gwfast.gromov_wasserstein, init="product")
    assert "orders of magnitude" not in solve(x, y + 1000, epsilon=1e3).advice
    assert "orders of magnitude" in solve(x + 5000, 1000 * y + 5000, epsilon=1e5).advice


def test_small_problems_of_asymmetric_costs_are_solved():
    rng = np.random.default_rng(0)
    result = gwfast.gromov_wasserstein(
        rng.random((12, 12)), rng.random((11, 11)), init="product", epsilon=0.01
    )
    assert result.status == "converged"
    assert result.marginal_error < 1e-4

"""Descents of `gromov_wasserstein` from one start: units, limits, statuses and advice."""

import networkx
import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud, distances, masses, random_cost, rotated_pair
from helpers.settings import settings

import gwfast
from gwfast import Partial, PointCloud, Unbalanced

# Plans of large epsilons match little, and the library says so.
pytestmark = pytest.mark.filterwarnings("ignore:.*ended as 'degenerate'")
QUIET = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def solve(x, y, p=None, q=None, **options):
    return gwfast.gromov_wasserstein(x, y, p, q, **settings(**{"init": "product"} | options))


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "dot"])
def test_rotated_and_permuted_clouds_are_matched(metric):
    x, y, where = rotated_pair(60, 3, 42)
    clouds = PointCloud(x, metric), PointCloud(y, metric)
    result = solve(*clouds)
    sharp = solve(*clouds, epsilon=result.epsilon / 10, init=result.plan, marginal_tol=1e-4)
    assert (sharp.plan.argmax(axis=1) == where).mean() > 0.9
    assert 0 <= sharp.gw_cost < result.gw_cost


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "dot"])
def test_factored_and_dense_solves_agree(metric):
    x, y, _ = rotated_pair(50, 4, 4, noise=0.1)
    left, right = PointCloud(x[:40], metric), PointCloud(y, metric)
    p, q = masses(40, 6), masses(50, 7)
    factored = solve(left, right, p, q, tol=5e-4)
    sides = left.to_dense(), right.to_dense()
    dense = solve(*sides, p, q, epsilon=factored.epsilon, tol=5e-4)
    assert factored.converged and dense.converged
    np.testing.assert_allclose(factored.gw_cost, dense.gw_cost, rtol=1e-3)
    # Both stop when a step moves little; many such steps may remain.
    assert np.abs(factored.plan - dense.plan).sum() < 2e-2


def test_epsilon_is_half_of_pots():
    costs = random_cost(30, 1), random_cost(20, 2)
    tight = dict(dtype="float64", tol=1e-9, marginal_tol=1e-9)
    result = solve(*costs, epsilon=gwfast.Epsilon(relative=1 / 3), **tight)
    plan = gwfast.pot.entropic_gromov_wasserstein(*costs, epsilon=2 * result.epsilon)
    np.testing.assert_allclose(result.plan, plan, atol=1e-4 * plan.max())


@QUIET
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_regularized_objective_never_rises(metric, seed):
    """Exact inner solves of a concave objective descend, up to rounding."""
    x, y, _ = rotated_pair(50, 3, seed, noise=0.1)
    sides = PointCloud(x, metric), PointCloud(y, metric)
    plan, costs, epsilon = "product", [], "auto"
    for _ in range(10):
        step = solve(*sides, epsilon=epsilon, init=plan, max_iter=1, marginal_tol=1e-6)
        plan, epsilon = step.plan, step.epsilon
        costs.append(step.reg_cost)
    assert np.diff(costs).max() < 1e-4 * np.abs(costs).max() and costs[-1] < costs[0]


@pairwise(kind=["sqeuclidean", "dot", "matrix"], scale=[1e-15, 1e18], init=["product", "auto"])
def test_units_of_cost_do_not_matter(kind, scale, init):
    x, y, _ = rotated_pair(30, 3, 24, noise=0.02)

    def costs(factor):
        if kind == "matrix":
            return factor * distances(x), factor * distances(y)
        root = np.sqrt(factor)
        return PointCloud(root * x, kind), PointCloud(root * y, kind)

    plain, scaled = solve(*costs(1.0), init=init), solve(*costs(scale), init=init)
    assert scaled.epsilon == pytest.approx(plain.epsilon * scale**2, rel=1e-4)
    assert np.abs(scaled.plan - plain.plan).sum() < 1e-4
    np.testing.assert_allclose(scaled.gw_cost, plain.gw_cost * scale**2, rtol=1e-4)


@pairwise(relative=[1.0, 1e-2, 1e-3, 1e-5], metric=["cosine", "sqeuclidean"])
@QUIET
def test_plan_is_finite_and_has_all_mass_at_any_epsilon(relative, metric):
    costs = PointCloud(cloud(40, 5, 24), metric), PointCloud(cloud(60, 4, 25), metric)
    p = masses(40, 27) * (np.arange(40) != 3)
    epsilon = gwfast.Epsilon(relative=relative)
    result = solve(*costs, p / p.sum(), masses(60, 28), epsilon=epsilon, max_iter=9, max_inner=999)
    assert np.isfinite(result.plan).all() and (result.plan >= 0).all() and not result.plan[3].any()
    np.testing.assert_allclose(result.plan.sum(dtype=np.float64), 1.0, atol=1e-4)
    assert 0 <= result.gw_cost < np.inf and np.isfinite(result.reg_cost)


def test_exact_match_has_no_negative_cost():
    cost = distances(cloud(20, 3, 34))
    result = solve(cost, cost, epsilon=0.005, init=np.eye(20))
    assert 0 <= result.gw_cost < 1e-5 and result.converged


def test_history_is_the_evidence_of_the_result():
    x, y, _ = rotated_pair(60, 3, 35)
    steps = []
    result = solve(PointCloud(x), PointCloud(y), epsilon=0.005, callback=steps.append)
    assert result.converged and tuple(steps) == result.history
    assert [step.iteration for step in steps] == [*range(1, result.n_iter + 1)]
    last = steps[-1]
    # The loop takes the given marginals for the plan's.
    assert last.gw_cost == pytest.approx(result.gw_cost, rel=1e-3)
    assert last.marginal_error == result.marginal_error <= 1e-5
    assert last.change <= 1e-5 and last.epsilon == result.epsilon == 0.005
    seconds = [step.seconds for step in steps]
    assert seconds == sorted(seconds) and result.seconds >= seconds[-1]


@pytest.mark.parametrize(
    "limits, status",
    [
        (dict(epsilon=0.01, max_iter=4), "max_iter"),
        (dict(epsilon=0.05, marginal_tol=1e-9), "stalled"),  # beyond float32
        (dict(epsilon=1e-4, max_inner=2, max_iter=100), "max_iter"),
    ],
)
def test_limits_are_said(limits, status):
    x, y = PointCloud(cloud(40, 4, 38)), PointCloud(cloud(35, 4, 39))
    with pytest.warns(gwfast.ConvergenceWarning, match=status):
        result = solve(x, y, **limits)
    assert result.status == status and np.isfinite(result.plan).all() and result.advice
    if "max_inner" in limits:
        assert max(step.n_inner for step in result.history) <= 2 and "max_inner" in result.advice
    elif "max_iter" in limits:
        assert result.n_iter == 4 and result.marginal_error <= 1e-5
    else:
        assert result.marginal_error < 3e-6
        assert result.n_iter <= solve(x, y, epsilon=0.05).n_iter + 5


def test_leaving_a_saddle_is_not_taken_for_the_end():
    """The change dips below 1e-4 near the product plan before it grows to 0.2."""
    x, y = (abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float) for n in (22, 26))
    result = solve(x, y, loss="kl", epsilon=4.85, tol=1e-6)
    assert result.converged
    assert min(step.change for step in result.history[:15]) < 1e-4
    assert max(step.change for step in result.history) > 0.1
    np.testing.assert_allclose(result.gw_cost, 7.70977, rtol=1e-3)


@QUIET
@pytest.mark.parametrize("rho", [1e-9, 1e-3, 1e-2])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_small_price_comes_to_an_end(rho, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.random((6, 6)), rng.random((6, 6))
    given = dict(marginals=Unbalanced(rho), epsilon="0.5%", time_limit=20)
    result = solve(x, (y + y.T < 0.6) * 1.0, **given)
    assert result.status != "time_limit" and result.plan.dtype == np.float32
    # No plan at all costs the price of both marginals, and entropy adds to it.
    assert 0 <= result.gw_cost <= 2 * rho * 1.01
    if rho == 1e-9:
        assert result.status in ("degenerate", "converged") and 0 <= result.mass < 0.1
    clouds = [PointCloud(rng.normal(size=(n, 2))) for n in (6, 8)]
    result = solve(*clouds, **given)
    assert result.status != "time_limit" and result.mass <= 1


@QUIET
@pytest.mark.parametrize("d, metric", [(5, "cosine"), (150, "dot")])
def test_rounding_of_centered_clouds_does_not_go_on(d, metric):
    """Under the product plan the sum of their products is nothing but rounding."""
    x = np.random.default_rng(d).standard_exponential((120, d)) ** 1.5
    x -= x.mean(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x -= x.mean(axis=0)
    turned = x[::-1] @ np.linalg.qr(cloud(d, d, 0))[0]
    sides = PointCloud(x, metric), PointCloud(turned, metric)
    assert solve(*sides, epsilon="50%").n_iter < 200


@QUIET
def test_a_plan_that_a_limit_ended_is_no_worse_than_the_product_plan():
    x = cloud(300, 4, 0) * [1, 2, 3, 4]
    costs = distances(x) ** 2, distances(x[::-1] + 0.1 * cloud(300, 4, 1)) ** 2
    result = solve(*costs, max_iter=1, max_inner=1)
    product = solve(*costs, time_limit=1e-9)
    assert result.status == "max_iter" and 0 <= result.gw_cost <= product.gw_cost


@QUIET
@pytest.mark.parametrize("number, epsilon", [(1e3, 0.5), (1e4, "auto"), (1e6, "auto")])
def test_the_objective_is_of_the_plan_if_some_costs_are_large(number, epsilon):
    graph = networkx.disjoint_union(networkx.path_graph(9), networkx.star_graph(7))
    x = gwfast.GraphCost(graph, disconnected=number)
    y = x.matrix[::-1, ::-1].copy()
    result = gwfast.gromov_wasserstein(x, y, epsilon=epsilon)
    plan, i, j = result.plan.astype(np.float64), *np.nonzero(result.plan)
    true = plan[i, j] @ (x.matrix[np.ix_(i, i)] - y[np.ix_(j, j)]) ** 2.0 @ plan[i, j]
    assert 0 <= result.gw_cost == pytest.approx(true, rel=1e-4, abs=1e-12)


def test_objectives_are_not_below_zero_by_rounding():
    cost = networkx.floyd_warshall_numpy(networkx.barbell_graph(6, 3))
    assert 0 <= solve(cost, cost, epsilon=0).gw_cost < 1e-12
    assert 0 <= gwfast.gromov_wasserstein(cost, cost, epsilon=0).gw_cost < 1e-12


@pytest.mark.parametrize("fill", [1e6, 1e9])
@pytest.mark.parametrize("epsilon", [0, "5%"])
def test_points_without_mass_change_nothing(fill, epsilon):
    x = distances(np.random.default_rng(0).standard_exponential((15, 3)) * [1, 2, 4])
    sides = x, x[:12, :12] ** 1.1
    p, q = (np.pad(np.full(n, 1 / n), (0, 3)) for n in (15, 12))
    padded = [np.pad(side, (0, 3), constant_values=fill) for side in sides]
    expected = gwfast.gromov_wasserstein(*sides, epsilon=epsilon)
    result = gwfast.gromov_wasserstein(*padded, p, q, epsilon=epsilon)
    assert result.gw_cost == pytest.approx(expected.gw_cost, rel=1e-3)
    assert not result.plan[15:].any() and not result.plan[:, 12:].any()


FREE, FUSED = dict(marginals="semirelaxed"), dict(linear_cost=np.ones((20, 15)), alpha=0.5)
SPREAD, CONSTANT = distances(cloud(20, 3, 0)), np.zeros((15, 15))


@QUIET
@pytest.mark.parametrize(
    "x, y, options",
    [
        (CONSTANT, np.ones((20, 20)), {}),
        (np.full((20, 20), 0.1), np.full((20, 20), 0.1 + 1e-16), {}),
        (CONSTANT, SPREAD, {}),
        (PointCloud(np.ones((20, 3))), PointCloud(np.full((9, 2), 0.7)), {}),
        (SPREAD, CONSTANT, FREE),
        (SPREAD, CONSTANT, FUSED),
    ],
)
def test_all_plans_tie_if_costs_of_a_side_are_equal(x, y, options):
    for epsilon in ("auto", 0):
        result = gwfast.gromov_wasserstein(x, y, epsilon=epsilon, **options)
        assert result.status == "uncertain" and np.isnan(result.confidence)
        assert "linear_cost" in result.advice or epsilon == 0
        if epsilon == "auto" and options is not FREE:
            np.testing.assert_allclose(result.plan, 1 / result.plan.size, rtol=1e-4)
    assert gwfast.gromov_wasserstein([[0.0]], SPREAD, epsilon=0).status == "converged"


# Spaces of different scale, for which no epsilon helps, and 1.75 % is not too large.
SCALED = (
    PointCloud(cloud(60, 3, 28), "sqeuclidean"),
    PointCloud(1e3 * cloud(60, 3, 28), "sqeuclidean"),
)


@QUIET
@pytest.mark.parametrize(
    "x, y, options, said, unsaid",
    [
        (*SCALED, dict(init="auto"), "same scale; then try a few known pairs", "smaller"),
        (*SCALED, {}, 'same scale; then try init="auto" or a few', "smaller"),
        (SPREAD, SPREAD[::-1, ::-1], dict(epsilon=10.0), "smaller epsilon", "scale"),
        # The offset of a side changes no plan.
        (SPREAD, SPREAD + 1000, dict(epsilon=1e3), "matches nothing", "orders of magnitude"),
        (SPREAD + 5e3, 1e3 * SPREAD + 5e3, dict(epsilon=1e5), "orders of magnitude", "; try init"),
    ],
)
def test_advice_is_on_what_was_not_tried(x, y, options, said, unsaid):
    result = solve(x, y, **options)
    advice = result.advice.replace(" (PointCloud.scaled_by, or matrices over their means)", "")
    assert result.status == "degenerate" and said in advice and unsaid not in advice


@QUIET
@pairwise(marginals=["balanced", "semirelaxed", Partial(0.5)], dtype=["float32", "float64"])
def test_an_offset_of_both_costs_changes_no_plan(marginals, dtype):
    options = dict(marginals=marginals, epsilon=0.3, dtype=dtype, init="auto")
    costs = distances(cloud(8, 2, 1)), distances(cloud(6, 2, 2))
    plain = solve(*costs, **options)
    offset = solve(*(1e6 + cost for cost in costs), **options)
    assert np.abs(offset.plan - plain.plan).sum() < 1e-4
    assert offset.gw_cost == pytest.approx(plain.gw_cost, rel=1e-4)


def test_annealing_ends_at_its_last_epsilon():
    x = cloud(60, 3, 1) * (1, 2, 3)
    epsilon = gwfast.Epsilon(relative=0.02, anneal_from=10.0, anneal_by=0.9)
    result = solve(PointCloud(x), PointCloud(x[:50]), epsilon=epsilon)
    used = [step.epsilon for step in result.history]
    assert result.converged and used == sorted(used, reverse=True)
    assert used[0] == pytest.approx(10 * used[-1]) and used[-1] == result.epsilon

"""Solves of `gromov_wasserstein`: limits, degenerate costs, statuses and advice."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, rotated_pair, settings

import gwfast
from gwfast import PointCloud, Unbalanced

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def solve(x, y, p=None, q=None, **options):
    return gwfast.gromov_wasserstein(x, y, p, q, **settings(**{"init": "product"} | options))


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_regularized_objective_never_rises(metric, seed):
    """Exact inner solves of a concave objective descend, up to rounding."""
    x, y, _ = rotated_pair(40, 3, seed, noise=0.1)
    sides = PointCloud(x, metric), PointCloud(y, metric)
    plan, costs, epsilon = "product", [], "auto"
    for _ in range(6):
        step = solve(*sides, epsilon=epsilon, init=plan, max_iter=1, marginal_tol=1e-6)
        plan, epsilon = step.plan, step.epsilon
        costs.append(step.reg_cost)
    assert np.diff(costs).max() < 1e-4 * np.abs(costs).max() and costs[-1] < costs[0]


def test_the_last_step_of_the_history_is_the_result():
    x, y, _ = rotated_pair(60, 3, 35)
    result = solve(PointCloud(x), PointCloud(y), epsilon=0.005)
    last, seconds = result.history[-1], [step.seconds for step in result.history]
    # The loop takes the given marginals for the plan's.
    assert result.converged and last.gw_cost == pytest.approx(result.gw_cost, rel=1e-3)
    assert last.marginal_error == result.marginal_error <= 1e-5 and last.change <= 1e-5
    assert last.iteration == result.n_iter and last.epsilon == result.epsilon == 0.005
    assert seconds == sorted(seconds) and result.seconds >= seconds[-1]


def test_annealing_ends_at_its_last_epsilon():
    x = cloud(60, 3, 1) * (1, 2, 3)
    epsilon = gwfast.Epsilon(relative=0.02, anneal_from=10.0, anneal_by=0.9)
    result = solve(PointCloud(x), PointCloud(x[:50]), epsilon=epsilon)
    used = [step.epsilon for step in result.history]
    assert result.converged and used == sorted(used, reverse=True)
    assert used[0] == pytest.approx(10 * used[-1]) and used[-1] == result.epsilon


@pytest.mark.parametrize(
    "limits, status",
    [
        (dict(epsilon=0.01, max_iter=4), "max_iter"),
        (dict(epsilon=0.05, marginal_tol=1e-9), "stalled"),  # beyond float32
        (dict(epsilon=1e-4, max_inner=2, max_iter=40), "max_iter"),
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
    changes = [step.change for step in result.history]
    assert result.converged and min(changes[:15]) < 1e-4 and max(changes) > 0.1
    np.testing.assert_allclose(result.gw_cost, 7.70977, rtol=1e-3)


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 1e-2])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_small_price_comes_to_an_end(rho, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.random((6, 6)), rng.random((6, 6))
    options = dict(marginals=Unbalanced(rho), epsilon="0.5%", time_limit=20)
    result = solve(x, (y + y.T < 0.6) * 1.0, **options)
    assert result.status != "time_limit" and result.plan.dtype == np.float32
    # No plan at all costs the price of both marginals, and entropy adds to it.
    assert 0 <= result.gw_cost <= 2 * rho * 1.01
    if rho == 1e-9:
        assert result.status in ("degenerate", "converged") and 0 <= result.mass < 0.1
    result = solve(*(PointCloud(rng.normal(size=(n, 2))) for n in (6, 8)), **options)
    assert result.status != "time_limit" and result.mass <= 1


@pytest.mark.parametrize("d, metric", [(5, "cosine"), (50, "dot")])
def test_rounding_of_centered_clouds_does_not_go_on(d, metric):
    """Under the product plan the sum of their products is nothing but rounding."""
    x = np.random.default_rng(d).standard_exponential((40, d)) ** 1.5
    x -= x.mean(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x -= x.mean(axis=0)
    turned = x[::-1] @ np.linalg.qr(cloud(d, d, 0))[0]
    assert solve(PointCloud(x, metric), PointCloud(turned, metric), epsilon="50%").n_iter < 200


FREE, FUSED = dict(marginals="semirelaxed"), dict(linear_cost=np.ones((20, 15)), alpha=0.5)
SPREAD, CONSTANT = distances(cloud(20, 3, 0)), np.zeros((15, 15))
TIES = [
    (CONSTANT, np.ones((20, 20)), {}),
    (np.full((20, 20), 0.1), np.full((20, 20), 0.1 + 1e-16), {}),
    (CONSTANT, SPREAD, {}),
    (PointCloud(np.ones((20, 3))), PointCloud(np.full((9, 2), 0.7)), {}),
    (SPREAD, CONSTANT, FREE),
    (SPREAD, CONSTANT, FUSED),
]


@pytest.mark.parametrize("x, y, options", TIES)
def test_all_plans_tie_if_costs_of_a_side_are_equal(x, y, options):
    for epsilon in ("auto", 0):
        result = solve(x, y, epsilon=epsilon, init="auto", **options)
        assert result.status == "uncertain" and np.isnan(result.confidence)
        if epsilon == "auto" and options is not FREE:
            assert "linear_cost" in result.advice
            np.testing.assert_allclose(result.plan, 1 / result.plan.size, rtol=1e-4)
    assert solve([[0.0]], SPREAD, epsilon=0, init="auto").status == "converged"


# Spaces of different scale, for which no epsilon helps, and 1.75 % is not too large.
SCALED = [PointCloud(scale * cloud(60, 3, 28), "sqeuclidean") for scale in (1, 1000)]
ADVICE = [
    (*SCALED, dict(init="auto"), "same scale", 'init="auto"'),
    (*SCALED, {}, 'init="auto"', "smaller"),
    (SPREAD, SPREAD[::-1, ::-1], dict(epsilon=10.0), "smaller epsilon", "scale"),
    # The offset of a side changes no plan.
    (SPREAD, SPREAD + 1000, dict(epsilon=1e3), "matches nothing", "orders of magnitude"),
    (SPREAD + 5e3, 1e3 * SPREAD + 5e3, dict(epsilon=1e5), "orders of magnitude", "\n"),
]


@pytest.mark.parametrize("x, y, options, said, unsaid", ADVICE)
def test_advice_is_on_what_was_not_tried(x, y, options, said, unsaid):
    result = solve(x, y, **options)
    assert result.status == "degenerate"
    assert said in result.advice and unsaid not in result.advice

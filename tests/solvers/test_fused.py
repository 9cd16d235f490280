"""Problems with a cost between the spaces: weights, units, offsets and advice; and plans that pay
for missing their marginals: prices from nearly zero to infinity.
"""

import warnings

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import BETWEEN, M, N, P, Q, cloud, costs, distances, random_cost, settings

import gwfast
from gwfast import gromov_wasserstein

# Where solves are quick plans match little, or keep one side's points from all mass.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def fused(linear_cost=BETWEEN, scale=1.0, **options):
    cost_x, cost_y = (scale * cost for cost in costs())
    options = dict(epsilon=0.05, init="product", linear_cost=linear_cost) | options
    return gromov_wasserstein(cost_x, cost_y, P, Q, **options)


def test_alpha_of_one_is_the_plain_problem_and_of_zero_transport_at_twice_epsilon(dtype):
    plain = fused(None, dtype=dtype)
    found = fused(np.asfortranarray(1e3 * BETWEEN), alpha=1, dtype=dtype)
    assert np.abs(found.plan - plain.plan).sum() < 1e-5
    assert found.gw_cost == pytest.approx(plain.gw_cost, rel=1e-5)
    assert found.linear_cost == pytest.approx(1e3 * (found.plan * BETWEEN).sum())
    result = fused(alpha=0, epsilon=0.02, init="auto", dtype=dtype)
    transport = gwfast.sinkhorn(BETWEEN, P, Q, epsilon=0.04, tol=1e-6)
    assert np.abs(result.plan - transport.plan).sum() < 5e-5
    assert result.gw_cost == pytest.approx(transport.cost, rel=1e-4)
    assert result.linear_cost == pytest.approx(transport.cost, rel=1e-4)
    assert result.reg_cost == pytest.approx(transport.reg_cost, rel=1e-3)


@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine", "dot"])
def test_cross_costs_are_what_they_say(metric):
    x, y = cloud(N, 4, 1) / 3 + 100, cloud(M, 4, 2) / 3 + 100
    cost = gwfast.CrossCost(x, y, metric)
    unit = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x, y)]
    squares = ((x[:, None] - y) ** 2).sum(axis=2)
    expected = dict(sqeuclidean=squares, cosine=1 - unit[0] @ unit[1].T, dot=x @ y.T)[metric]
    np.testing.assert_allclose(cost.toarray(), expected, atol=1e-6 * max(expected.max(), 1.0))
    part = cost.take(np.array([3, 1]), np.array([4, 0, 2]))
    np.testing.assert_allclose(part.toarray(), cost.toarray()[np.ix_([3, 1], [4, 0, 2])])
    assert cost.mean(P, Q) == pytest.approx(P @ cost.toarray() @ Q, rel=1e-6)


@pytest.mark.parametrize("rule", ["semirelaxed", gwfast.Partial(0.7), gwfast.Unbalanced(0.5)])
def test_the_search_finds_matches_of_clouds_with_features(rule):
    x = np.random.default_rng(1).exponential(size=(60, 6)) * np.arange(1, 7)
    features = cloud(60, 3, 2)
    order = np.random.default_rng(2).permutation(60)
    sides = gwfast.PointCloud(x), gwfast.PointCloud(x[order])
    for linear in (None, gwfast.CrossCost(features, features[order])):
        result = gromov_wasserstein(*sides, marginals=rule, linear_cost=linear)
        assert (result.plan.argmax(axis=0) == order).mean() > 0.9


@pytest.mark.parametrize("epsilon, alpha", [(0.02, 0.5), (0, 0.2)])
def test_advice_has_the_factor_that_makes_terms_equal(epsilon, alpha):
    """By hand: sums over all pairs of pairs. A sign of the linear cost is no size."""
    cost_x, cost_y = costs()
    apart = (cost_x[:, None, :, None] - cost_y[None, :, None, :]) ** 2
    factor = alpha * apart.mean() / ((1 - alpha) * BETWEEN.mean())
    for scale in (1e3, -1e3, 1e-3):
        problem = gwfast.QuadraticProblem(cost_x, cost_y, linear_cost=scale * BETWEEN, alpha=alpha)
        with pytest.warns(UserWarning, match="linear_cost times"):
            result = gromov_wasserstein(problem, epsilon=epsilon, init="product")
        assert f"linear_cost times {factor / abs(scale):.3g} " in result.advice
    with pytest.warns(UserWarning, match="linear_cost times"):
        gwfast.gromov_wasserstein_batch([problem], epsilon="5%", init="product")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        equal = dict(linear_cost=factor * BETWEEN, alpha=alpha)
        gromov_wasserstein(cost_x, cost_y, epsilon="5%", init="product", **equal)
    for alpha, linear in ((0, BETWEEN), (1, BETWEEN), (0.5, 0 * BETWEEN)):
        assert "linear_cost times" not in fused(linear, alpha=alpha).advice


@pytest.mark.parametrize("batch", [False, True])
def test_an_epsilon_that_a_forbidding_cost_made_large_is_named(batch):
    x, kind = cloud(60, 3, 0) * [1, 1.5, 2], np.arange(60) % 2
    order = np.random.default_rng(0).permutation(60)
    sides = distances(x), distances(x[order] + 0.1 * cloud(60, 3, 1))
    forbidding = 100.0 * (kind[:, None] != kind[order])
    problem = gwfast.QuadraticProblem(*sides, linear_cost=forbidding)

    def solve(**options):
        if batch:
            return gwfast.gromov_wasserstein_batch([problem], **options)[0]
        return gromov_wasserstein(problem, **options)

    with pytest.warns(UserWarning, match="linear_cost.*epsilon=0"):
        blurred = solve()
    exact = solve(epsilon=0)
    assert "epsilon=0" in blurred.advice and not exact.advice
    right = [(order[one.match()] == np.arange(60)).mean() for one in (blurred, exact)]
    assert right[0] < 0.9 < right[1]


@pytest.mark.parametrize("offset", [-1e3, 1e3])
def test_an_offset_of_the_linear_cost_moves_the_objective_only(offset, dtype):
    plain = fused(alpha=0.4, dtype=dtype)
    moved = fused(BETWEEN + offset, alpha=0.4, dtype=dtype)
    assert np.abs(moved.plan - plain.plan).sum() < 1e-4
    assert moved.gw_cost - 0.6 * offset == pytest.approx(plain.gw_cost, abs=1e-2)
    assert moved.linear_cost - offset == pytest.approx(plain.linear_cost, abs=1e-2)


@pytest.mark.parametrize("scale", [1e-20, 1e18])
def test_units_do_not_matter_and_the_larger_of_two_terms_decides(scale, dtype):
    plain, square = fused(alpha=0.3, dtype=dtype), scale**2
    scaled = fused(square * BETWEEN, scale, alpha=0.3, epsilon=0.05 * square, dtype=dtype)
    assert np.abs(scaled.plan - plain.plan).sum() < 1e-4
    assert scaled.gw_cost == pytest.approx(plain.gw_cost * square, rel=1e-4)
    epsilon, between = 0.05 * max(scale, 1.0), scale * BETWEEN
    both = fused(between, alpha=0.5, epsilon=epsilon / 2, dtype=dtype)
    alone = fused(between, alpha=float(scale < 1), epsilon=epsilon, dtype=dtype)
    assert np.abs(both.plan - alone.plan).sum() < 1e-4


def priced(*sides, rho, tol=1e-6, **options):
    options = dict(epsilon=0.2, init="product", tol=tol, marginal_tol=tol) | options
    return gromov_wasserstein(*sides, marginals=gwfast.Unbalanced(rho), **settings(**options))


@pytest.mark.parametrize("rho", [1e5, 1e12, 1e300, np.inf, (np.inf, 1e5), (1e20, 1e5)])
def test_at_a_high_price_it_is_the_balanced_problem(rho, dtype):
    result = priced(*costs(), P, Q, rho=rho, dtype=dtype)
    options = settings(epsilon=0.2, init="product", tol=1e-6, marginal_tol=1e-6)
    balanced = gromov_wasserstein(*costs(), P, Q, dtype=dtype, **options)
    assert np.abs(result.plan - balanced.plan).sum() < 1e-3
    assert result.gw_cost == pytest.approx(balanced.gw_cost, rel=1e-3)
    assert result.mass == pytest.approx(1.0, abs=1e-4)


def test_a_plan_that_is_not_worth_its_cost_vanishes(dtype):
    terms = dict(linear_cost=BETWEEN + 0.5, alpha=0.2)
    result = priced(*costs(), P, 1.3 * Q, rho=1e-3, epsilon=0.02, dtype=dtype, **terms)
    assert result.status == "degenerate" and "rho" in result.advice
    assert result.mass == 0.0 and not result.plan.any()
    # The price of having no mass at all is left.
    nothing = 1e-3 * (1.0 + 1.3**2)
    assert result.gw_cost == pytest.approx(nothing)
    assert result.reg_cost == pytest.approx(nothing + 0.02 * 1.3**2)


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 1e-2])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_small_price_comes_to_an_end(rho, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.random((6, 6)), rng.random((6, 6))
    options = dict(rho=rho, epsilon="0.5%", tol=1e-5, time_limit=20)
    result = priced(x, (y + y.T < 0.6) * 1.0, **options)
    assert result.status != "time_limit" and result.n_iter < 100
    # No plan at all costs the price of both marginals, and entropy adds to it.
    assert 0 <= result.gw_cost <= 2 * rho * 1.01
    if rho == 1e-9:
        assert result.status in ("degenerate", "converged") and 0 <= result.mass < 0.1
    if rho == 1e-3 and seed == 0:  # its mass went up and down by a thousandfold
        assert result.status == "degenerate"
    result = priced(*(gwfast.PointCloud(rng.normal(size=(n, 2))) for n in (6, 8)), **options)
    assert result.status != "time_limit" and result.mass <= 1


@pairwise(
    epsilon=[1e-6, 1e-3, 0.02, 1e30, 1e300],
    rho=[1e-3, 1.0, 1e5, 1e8, 1e20],
    total_and_init=[(1.0, "auto"), (1.0, "product"), (1.3, "product")],
    dtype=["float32", "float64"],
)
def test_plans_at_any_price_are_numbers(epsilon, rho, total_and_init, dtype):
    (total, init), cost = total_and_init, random_cost(20, 0)
    sides = cost, cost[:9, :9], np.full(20, 0.05), np.full(9, total / 9)
    try:
        result = priced(*sides, rho=rho, epsilon=epsilon, dtype=dtype, init=init, time_limit=0.3)
    except ValueError as refused:
        assert "rho must be" in str(refused)
        return
    assert np.isfinite(result.plan).all() and result.plan.min() >= 0
    assert np.isfinite(result.gw_cost)
    if epsilon > 1e10 and total == 1.0:
        assert result.plan.sum() == pytest.approx(1.0, rel=1e-5)

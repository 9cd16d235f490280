"""Problems with a cost between the spaces."""

import warnings

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud, distances
from helpers.settings import settings
from helpers.variants import BETWEEN, VARIANTS, M, N, P, Q, costs

import gwfast
from gwfast import Epsilon, PointCloud, gromov_wasserstein

# Where solves are quick plans match little, or keep one side's points from all mass.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def fused(linear_cost=BETWEEN, rows=slice(None), **options):
    """A solution of the problem whose first side is in this order."""
    cost_x, cost_y = costs()
    options = dict(epsilon=0.05, init="product") | options
    sides = cost_x[rows][:, rows], cost_y, P[rows], Q
    return gromov_wasserstein(*sides, linear_cost=linear_cost[rows], **options)


def test_alpha_of_one_is_the_plain_problem(dtype):
    solve = dict(epsilon=0.05, init="product", dtype=dtype)
    plain = gromov_wasserstein(*costs(), P, Q, **solve)
    found = fused(np.asfortranarray(1e3 * BETWEEN), alpha=1, dtype=dtype)
    assert np.abs(found.plan - plain.plan).sum() < 1e-5
    assert found.gw_cost == pytest.approx(plain.gw_cost, rel=1e-5)
    assert found.linear_cost == pytest.approx(1e3 * (found.plan * BETWEEN).sum())


def test_alpha_of_zero_is_optimal_transport_at_twice_epsilon(dtype):
    result = fused(alpha=0, epsilon=0.02, init="auto", dtype=dtype)
    transport = gwfast.sinkhorn(BETWEEN, P, Q, epsilon=0.04, tol=1e-6)
    assert np.abs(result.plan - transport.plan).sum() < 5e-5
    assert result.gw_cost == pytest.approx(transport.cost, rel=1e-4)
    assert result.linear_cost == pytest.approx(transport.cost, rel=1e-4)
    assert result.reg_cost == pytest.approx(transport.reg_cost, rel=1e-3)


def test_a_linear_cost_decides_between_symmetric_matches():
    """A regular polygon matches itself in many ways; features know one of them."""
    angles = 2 * np.pi * np.arange(12) / 12
    cost = distances(np.column_stack([np.cos(angles), np.sin(angles)]))
    where = np.roll(np.arange(12), 5)
    between = np.ones((12, 12))
    between[np.arange(12), where] = 0.0
    result = gromov_wasserstein(cost, cost, linear_cost=between, alpha=0.5, epsilon=0.005)
    np.testing.assert_array_equal(result.plan.argmax(axis=1), where)
    assert result.gw_cost < 1e-3


@pytest.mark.parametrize("epsilon, alpha", [(0.02, 0.5), (0, 0.2)])
def test_the_factor_in_the_advice_is_that_of_the_product_plan(epsilon, alpha):
    """By hand: sums over all pairs of pairs. A sign of the linear cost is no size."""
    cost_x, cost_y = (one[:9, :9] for one in costs())
    between = BETWEEN[:9, :9]
    apart = (cost_x[:, None, :, None] - cost_y[None, :, None, :]) ** 2
    solve = dict(alpha=alpha, epsilon=epsilon, init="product")
    factor = alpha * apart.mean() / ((1 - alpha) * between.mean())
    for scale in (1e3, -1e3, 1e-3):
        result = gromov_wasserstein(cost_x, cost_y, linear_cost=scale * between, **solve)
        assert f"linear_cost times {factor / abs(scale):.3g} would" in result.advice
    plain = gromov_wasserstein(cost_x, cost_y, epsilon=epsilon, init="product")
    assert "linear_cost" not in plain.advice


@pytest.mark.parametrize("scale", [1e3, 1e-3])
def test_terms_of_different_scale_are_named(scale):
    cost_x, cost_y = costs()
    terms = dict(epsilon=Epsilon(relative=0.05), init="product")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gromov_wasserstein(cost_x, cost_y, linear_cost=BETWEEN, **terms)
        # As it is in POT, which does not warn.
        gwfast.pot.entropic_fused_gromov_wasserstein(
            scale * BETWEEN, cost_x, cost_y, epsilon=0.1 * scale, max_iter=2
        )
    problem = gwfast.QuadraticProblem(cost_x, cost_y, linear_cost=scale * BETWEEN)
    named = r"linear_cost times .* would make them equal"
    solves = [
        lambda: gromov_wasserstein(problem, **terms),
        lambda: gwfast.gromov_wasserstein_batch([problem], **terms)[0],
        lambda: gromov_wasserstein(problem, init=["product"], epsilon=0.1 * scale),
    ]
    for solve in solves:
        with pytest.warns(UserWarning, match=named):
            solve()


def test_terms_without_weight_are_not_named():
    """Whoever says alpha 0 or 1, or gives costs that are all zero, means it."""
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

    with pytest.warns(UserWarning, match="the plan avoids linear_cost.* try epsilon=0"):
        blurred = solve()
    assert "epsilon=0" in blurred.advice
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact = solve(epsilon=0)
    assert not exact.advice
    right = [(order[one.match()] == np.arange(60)).mean() for one in (blurred, exact)]
    assert right[0] < 0.9 < right[1]


def test_fused_clouds_are_their_matrices():
    x, y = PointCloud(cloud(N, 3, 7)), PointCloud(cloud(M, 3, 8))
    solve = dict(linear_cost=BETWEEN, epsilon=0.05, init="product")
    clouds = gromov_wasserstein(x, y, P, Q, **solve)
    matrices = gromov_wasserstein(x.to_dense(), y.to_dense(), P, Q, **solve)
    np.testing.assert_allclose(clouds.plan, matrices.plan, atol=1e-6)


@pytest.mark.parametrize("init", ["auto", "product"])
def test_rows_of_a_linear_cost_are_permuted_with_the_points(init, dtype):
    rows = np.random.default_rng(9).permutation(N)
    solve = dict(alpha=0.4, init=init, dtype=dtype)
    plain = fused(**solve)
    other = fused(rows=rows, **solve)
    assert np.abs(other.plan - plain.plan[rows]).sum() < 1e-3


@pytest.mark.parametrize("offset", [-1e3, 1e3])
def test_an_offset_of_the_linear_cost_moves_the_objective_only(offset, dtype):
    plain = fused(alpha=0.4, dtype=dtype)
    moved = fused(BETWEEN + offset, alpha=0.4, dtype=dtype)
    assert np.abs(moved.plan - plain.plan).sum() < 1e-4
    assert moved.gw_cost - 0.6 * offset == pytest.approx(plain.gw_cost, abs=1e-2)
    assert moved.linear_cost - offset == pytest.approx(plain.linear_cost, abs=1e-2)


@pairwise(scale=[1e-20, 1e18], variant=["fused", "fused ppa"], dtype=["float32", "float64"])
def test_units_of_all_costs_together_do_not_matter(scale, variant, dtype):
    options = settings(**VARIANTS[variant])
    cost_x, cost_y = costs()
    solve = dict(init="product", dtype=dtype)
    plain = gromov_wasserstein(cost_x, cost_y, P, Q, epsilon=0.05, **solve, **options)
    if "linear_cost" in options:
        options["linear_cost"] = scale**2 * BETWEEN
    scaled = gromov_wasserstein(
        scale * cost_x, scale * cost_y, P, Q, epsilon=0.05 * scale**2, **solve,
        **options,
    )  # fmt: skip
    assert np.abs(scaled.plan - plain.plan).sum() < 1e-4
    assert scaled.gw_cost == pytest.approx(plain.gw_cost * scale**2, rel=1e-4)


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_terms_of_very_different_size(scale, dtype):
    """The larger one decides."""
    epsilon, between = 0.05 * max(scale, 1.0), scale * BETWEEN
    both = fused(between, alpha=0.5, epsilon=epsilon / 2, dtype=dtype)
    alone = fused(between, alpha=float(scale < 1), epsilon=epsilon, dtype=dtype)
    assert np.abs(both.plan - alone.plan).sum() < 1e-4

"""Plans that pay for missing their marginals: prices from nearly zero to infinity."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import BETWEEN, M, N, distances, masses, random_cost, settings

import gwfast
from gwfast import PointCloud, gromov_wasserstein

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
P, Q = masses(N, 1), 1.3 * masses(M, 2)
SPACES = tuple(distances(np.random.default_rng(7).standard_normal((n, 3))) for n in (N, M))


def solve(*args, dtype="float64", rho=(1.0, 2.0), tol=1e-6, **options):
    options = dict(epsilon=0.2, init="product", tol=tol, marginal_tol=tol) | options
    options["marginals"] = gwfast.Unbalanced(rho)
    return gromov_wasserstein(*args, dtype=dtype, **settings(**options))


@pytest.mark.parametrize("rho", [1e5, 1e12, 1e300, np.inf, (np.inf, 1e5), (1e20, 1e5)])
def test_at_a_high_price_it_is_the_balanced_problem(rho, dtype):
    q = masses(M, 2)
    result = solve(*SPACES, P, q, rho=rho, dtype=dtype)
    options = settings(epsilon=0.2, init="product", tol=1e-6, marginal_tol=1e-6)
    balanced = gromov_wasserstein(*SPACES, P, q, dtype=dtype, **options)
    assert np.abs(result.plan - balanced.plan).sum() < 1e-3
    assert result.gw_cost == pytest.approx(balanced.gw_cost, rel=1e-3)
    assert result.mass == pytest.approx(1.0, abs=1e-4)


def test_a_plan_that_is_not_worth_its_cost_vanishes(dtype):
    fused = dict(linear_cost=BETWEEN + 0.5, alpha=0.2)
    result = solve(*SPACES, P, Q, rho=1e-3, epsilon=0.02, dtype=dtype, **fused)
    assert result.status == "degenerate" and "rho" in result.advice
    assert result.mass == 0.0 and not result.plan.any()
    # The price of having no mass at all is left.
    nothing = 1e-3 * (P.sum() ** 2 + Q.sum() ** 2)
    assert result.gw_cost == pytest.approx(nothing)
    assert result.reg_cost == pytest.approx(nothing + 0.02 * (P.sum() * Q.sum()) ** 2)


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 1e-2])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_small_price_comes_to_an_end(rho, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.random((6, 6)), rng.random((6, 6))
    options = dict(rho=rho, epsilon="0.5%", tol=1e-5, dtype=None, time_limit=20)
    result = solve(x, (y + y.T < 0.6) * 1.0, **options)
    assert result.status != "time_limit" and result.n_iter < 100
    # No plan at all costs the price of both marginals, and entropy adds to it.
    assert 0 <= result.gw_cost <= 2 * rho * 1.01
    if rho == 1e-9:
        assert result.status in ("degenerate", "converged") and 0 <= result.mass < 0.1
    if rho == 1e-3 and seed == 0:  # its mass went up and down by a thousandfold
        assert result.status == "degenerate"
    result = solve(*(PointCloud(rng.normal(size=(n, 2))) for n in (6, 8)), **options)
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
        result = solve(*sides, rho=rho, epsilon=epsilon, dtype=dtype, init=init, time_limit=0.3)
    except ValueError as refused:
        assert "rho must be" in str(refused)
        return
    assert np.isfinite(result.plan).all() and result.plan.min() >= 0
    assert np.isfinite(result.gw_cost)
    if epsilon > 1e10 and total == 1.0:
        assert result.plan.sum() == pytest.approx(1.0, rel=1e-5)

"""Problems whose plans pay for missing their marginals."""

import re

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import distances, masses, random_cost
from helpers.settings import settings
from helpers.twins import unbalanced_objective, unbalanced_step
from helpers.variants import BETWEEN, M, N

import gwfast
from gwfast import gromov_wasserstein

P, Q = masses(N, 1), 1.3 * masses(M, 2)
TIGHT = {"float32": 1e-6, "float64": 1e-11}


def spaces(n=N, m=M):
    rng = np.random.default_rng(7)
    return tuple(distances(rng.standard_normal((size, 3))) for size in (n, m))


def solve(*args, dtype="float64", rho=(1.0, 2.0), epsilon=0.2, **options):
    tight = dict(tol=TIGHT[dtype], marginal_tol=TIGHT[dtype], init="product")
    options = dict(marginals=gwfast.Unbalanced(rho), epsilon=epsilon, dtype=dtype) | tight | options
    return gromov_wasserstein(*args, **settings(**options))


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pairwise(
    fused=[{}, dict(linear_cost=BETWEEN, alpha=0.6)],
    loss=["square", "kl"],
    dtype=["float32", "float64"],
)
def test_steps_are_those_of_the_twin(fused, loss, dtype):
    costs = [cost + 0.1 for cost in spaces()]
    options = {**fused, "loss": loss}
    if fused:
        options["linear"] = options.pop("linear_cost")
    start = np.random.default_rng(6).random((N, M))
    start /= start.sum()
    plan = unbalanced_step(start, *costs, P, Q, epsilon=0.2, rho=(1.0, 2.0), **options)
    found = solve(*costs, P, Q, loss=loss, dtype=dtype, max_iter=1, init=start, **fused)
    near = 1e-9 if dtype == "float64" else 2e-5
    assert np.abs(found.plan - plan).sum() < near


@pairwise(
    alpha=[None, 0.0, 0.3, 1.0], shape=[(N, M), (1, 4), (17, 33)], dtype=["float32", "float64"]
)
def test_the_objective_is_that_of_the_plan(alpha, shape, dtype):
    n, m = shape
    costs, p, q = spaces(n, m), masses(n, 3), 0.8 * masses(m, 4)
    between = np.random.default_rng(5).random(shape)
    fused = {} if alpha is None else dict(linear_cost=between, alpha=alpha)
    result = solve(*costs, p, q, dtype=dtype, **fused)
    options = {} if alpha is None else dict(linear=between, alpha=alpha)
    plan = result.plan.astype(np.float64)
    given = dict(epsilon=result.epsilon, rho=(1.0, 2.0), **options)
    expected = unbalanced_objective(plan, *costs, p, q, **given)
    near = 1e-10 if dtype == "float64" else 1e-5
    assert result.reg_cost == pytest.approx(expected, rel=near)
    assert result.mass == pytest.approx(plan.sum(), rel=near)
    # No scale is better: what it costs has no slope there.
    ends = [unbalanced_objective(plan * scale, *costs, p, q, **given) for scale in (0.999, 1.001)]
    assert abs(ends[1] - ends[0]) < 1e-5 * expected


@pytest.mark.parametrize("rho", [1e5, 1e12, 1e300, np.inf, (np.inf, 1e5), (1e20, 1e5)])
def test_at_a_high_price_it_is_the_balanced_problem(rho, dtype):
    costs, q = spaces(), masses(M, 2)
    options = dict(epsilon=0.2, dtype=dtype, tol=1e-6, marginal_tol=1e-6)
    result = solve(*costs, P, q, rho=rho, **options)
    balanced = gromov_wasserstein(*costs, P, q, init="product", **settings(**options))
    assert np.abs(result.plan - balanced.plan).sum() < 1e-3
    assert result.gw_cost == pytest.approx(balanced.gw_cost, rel=1e-3)
    assert result.mass == pytest.approx(1.0, abs=1e-4)


def test_the_lower_the_price_the_less_mass(dtype):
    tried = [
        solve(*spaces(), P, Q, rho=rho, dtype=dtype, tol=1e-5, marginal_tol=1e-5)
        for rho in (10.0, 1.0, 0.3, 0.1)
    ]
    kept = [result.mass for result in tried]
    assert (np.diff(kept) < 0).all() and kept[-1] < 0.6 * kept[0]


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_a_plan_that_is_not_worth_its_cost_vanishes(dtype):
    result = solve(
        *spaces(), P, Q, rho=1e-3, epsilon=0.02, dtype=dtype,
        linear_cost=BETWEEN + 0.5, alpha=0.2,
    )  # fmt: skip
    assert result.status == "degenerate" and "larger rho" in result.advice
    assert result.mass == 0.0 and not result.plan.any()
    # What is left to pay is the price of having no mass at all.
    nothing = 1e-3 * (P.sum() ** 2 + Q.sum() ** 2)
    assert result.gw_cost == pytest.approx(nothing)
    assert result.reg_cost == pytest.approx(nothing + 0.02 * (P.sum() * Q.sum()) ** 2)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_a_plan_that_vanishes_ends_the_descent():
    """Its mass went up and down for all iterations, by a thousandfold."""
    rng = np.random.default_rng(0)
    a, b = rng.random((6, 6)), rng.random((6, 6))
    b = (b + b.T < 0.6) * 1.0
    options = dict(rho=1e-3, epsilon="0.5%", tol=1e-5, marginal_tol=1e-5)
    result = solve(a, b, dtype="float32", **options)
    assert result.status == "degenerate" and result.n_iter < 100


def test_points_without_mass_get_none(dtype):
    cost_x, cost_y = spaces()
    p = P.copy()
    p[[0, 4]] = 0.0
    result = solve(cost_x, cost_y, p, Q, dtype=dtype)
    assert result.plan[[0, 4]].max() == 0.0
    rows = np.flatnonzero(p)
    without = solve(cost_x[np.ix_(rows, rows)], cost_y, p[rows], Q, dtype=dtype)
    assert np.abs(result.plan[rows] - without.plan).sum() < 1e-3
    assert np.isfinite(result.reg_cost)


def test_outliers_are_left_out():
    rng = np.random.default_rng(9)
    x = rng.standard_normal((20, 2))
    y = np.vstack([x, x[:4] + 40.0])
    result = solve(
        distances(x), distances(y), np.ones(20), np.ones(24), rho=2.0, epsilon=0.02,
        init=np.eye(20, 24), tol=1e-6, marginal_tol=1e-6,
    )  # fmt: skip
    cols = result.plan.sum(axis=0)
    assert cols[:20].min() > 0.8 and cols[20:].max() < 0.05
    np.testing.assert_array_equal(result.plan[:, :20].argmax(axis=1), np.arange(20))


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_threads_change_no_bit():
    costs = spaces(83, 70)
    plans = [solve(*costs, n_threads=n_threads, max_iter=5, tol=1e-3).plan for n_threads in (1, 3)]
    np.testing.assert_array_equal(*plans)


def test_where_time_is_up_there_is_the_product_plan():
    with pytest.warns(gwfast.ConvergenceWarning, match="time_limit"):
        result = solve(*spaces(), P, Q, time_limit=1e-9)
    assert result.n_iter == 0
    assert result.mass == pytest.approx(np.sqrt(P.sum() * Q.sum()))
    assert result.plan.sum() == pytest.approx(result.mass)
    expected = unbalanced_objective(result.plan, *spaces(), P, Q, epsilon=0.2, rho=(1.0, 2.0))
    assert result.reg_cost == pytest.approx(expected)


def test_other_methods_and_verify_refuse_it():
    for method in ("ppa", "bapg"):
        with pytest.raises(ValueError, match=r"^method must be 'pgd' with unbalanced marginals"):
            solve(*spaces(), P, Q, method=method)
    problem = gwfast.QuadraticProblem(*spaces(), P, Q, marginals=gwfast.Unbalanced(1.0))
    with pytest.raises(ValueError, match=r"^problem must not be unbalanced"):
        gwfast.verify(problem, np.outer(P, Q), epsilon=0.1)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pairwise(
    epsilon=[1e-6, 1e-3, 0.02, 1e30, 1e39, 1e300],
    rho=[1e-3, 1.0, 1e5, 1e8, 1e16, 1e20],
    given=[(1.0, "auto"), (1.0, "product"), (1.3, "product")],
    dtype=["float32", "float64"],
)
def test_plans_at_any_price_are_numbers(epsilon, rho, given, dtype):
    total, init = given
    cost = random_cost(20, 0, symmetric=True)
    q = np.full(9, total / 9)
    kind = dict(rho=rho, epsilon=epsilon, dtype=dtype, init=init, time_limit=0.3)
    try:
        result = solve(cost, cost[:9, :9], np.full(20, 0.05), q, **kind)
    except ValueError as refused:
        assert re.search("rho must be (nearer|at most)", str(refused))
        return
    plan = result.plan
    assert np.isfinite(plan).all() and plan.min() >= 0 and np.isfinite(result.gw_cost)
    if epsilon > 1e10 and total == 1.0:
        assert plan.sum() == pytest.approx(1.0, rel=1e-5)

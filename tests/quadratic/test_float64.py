"""Float64 keeps its promises, also where solves begin in float32."""

import numpy as np
import pytest
from helpers import twins
from helpers.marks import pairwise
from helpers.problems import cloud, distances, masses, random_cost
from helpers.tuned import solve_tuned

import gwfast

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
TIGHT = dict(tol=1e-9, options=gwfast.SolverOptions(marginal_tol=1e-9))


def problem(n=40, m=30, *, symmetric=True):
    cost_x, cost_y = (random_cost(k, s, symmetric=symmetric) + 0.1 for k, s in ((n, 0), (m, 1)))
    return cost_x, cost_y, masses(n, 2), masses(m, 3)


def solve(*sides, init="product", dtype="float64", **options):
    return gwfast.gromov_wasserstein(*sides, init=init, dtype=dtype, **options)


@pairwise(loss=["square", "kl"], symmetric=[True, False], epsilon=[0.05, 0.2])
def test_tolerances_of_1e_9_are_met(loss, symmetric, epsilon):
    cost_x, cost_y, p, q = problem(18, 14, symmetric=symmetric)
    result = solve(cost_x, cost_y, p, q, epsilon=epsilon, loss=loss, max_iter=5000, **TIGHT)
    plan = result.plan
    assert result.status in ("converged", "degenerate") and result.history[-1].change <= 1e-9
    missed = np.abs(plan.sum(axis=1) - p).sum() + np.abs(plan.sum(axis=0) - q).sum()
    assert missed <= 1e-9 and result.marginal_error <= 1e-9
    # The plan solves its own linear problem.
    f, g = result.potentials
    assert f.dtype == g.dtype == np.float64
    lin = twins.half_gradient(plan, cost_x, cost_y, loss)
    made = np.exp((f[:, None] + g - lin) / epsilon)
    assert np.abs(made - plan).sum() < 1e-8 / epsilon


def test_default_starts_race_in_float32_and_meet_a_tolerance_that_float32_cannot():
    x = cloud(40, 3, 7)
    order = np.random.default_rng(8).permutation(40)
    sides = distances(x), distances(x[order])
    assert solve(*sides, epsilon=0.2, **TIGHT, dtype="float32").status == "stalled"
    result = solve(*sides, init="auto", **TIGHT)
    assert result.converged and result.candidates
    assert result.plan.dtype == np.float64
    np.testing.assert_array_equal(order[result.plan.argmax(axis=1)], np.arange(40))
    assert result.marginal_error <= 1e-9 and result.history[-1].change <= 1e-9


def solve_in_float32_first(**options):
    options |= dict(init="product", epsilon=0.001, dtype="float64", tol=1e-9)
    tuning = dict(few_points=8, float32_from=100)
    return solve_tuned(gwfast.QuadraticProblem(*problem()), tuning=tuning, **options)


@pytest.mark.parametrize("max_iter", [1, 2, 49, 50, 51])
def test_the_last_iteration_is_float64_whatever_the_limit(max_iter):
    result = solve_in_float32_first(max_iter=max_iter)
    assert result.n_iter <= max_iter and result.plan.dtype == np.float64
    if result.n_iter == max_iter:
        assert result.status != "converged" or result.history[-1].change <= 1e-9
    assert [step.iteration for step in result.history] == list(range(1, result.n_iter + 1))
    steps = []  # a callback may stop in float32
    result = solve_in_float32_first(callback=lambda step: steps.append(step) or len(steps) == 2)
    assert result.status == "stopped" and len(steps) == 2
    assert result.plan.dtype == np.float64 and result.n_iter <= 3


@pytest.mark.parametrize("seed", [0, 1])
def test_tiny_epsilon_keeps_the_plan_a_plan(seed):
    """Rows of a kernel may underflow as a whole."""
    rng = np.random.default_rng(seed)
    points = [rng.normal(size=(n, 2)) for n in rng.integers(20, 50, 2)]
    costs = [np.linalg.norm(x[:, None] - x, axis=2) ** 4 for x in points]
    result = solve(*costs, epsilon="0.0003%", max_iter=60)
    np.testing.assert_allclose(result.plan.sum(axis=0), 1 / len(costs[1]), rtol=1e-9)
    assert np.isfinite(np.concatenate(result.potentials)).all()

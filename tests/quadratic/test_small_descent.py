"""Small problems take a compiled loop, which tests/conformance compares with the definition; a
callback sends them to the loop in Python, which ends at the same plan.
"""

import numpy as np
import pytest
from helpers.problems import distances, masses, settings

import gwfast
from gwfast import pot

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
# Tolerances, and how far objectives may be apart, relatively.
TOLERANCES = {"float32": (1e-5, 1e-4), "float64": (1e-8, 1e-6)}
TIGHT = dict(dtype="float64", tol=1e-9)
LINEAR = np.random.default_rng(9).random((100, 100))
ANNEALED = gwfast.Epsilon(relative=0.2, anneal_from=8.0, anneal_by=0.7)


def problem(n=30, m=24, seed=0, noise=0.0, **terms):
    rng, costs = np.random.default_rng(seed), []
    for size in (n, m):
        cost = distances(rng.standard_exponential((size, 3)) * [1.0, 2.0, 3.0]) + 0.1
        costs.append((cost + noise * rng.random(cost.shape)) / cost.max())
    p, q = masses(n, rng), masses(m, rng)
    q = None if terms.get("marginals") == "semirelaxed" else q
    return gwfast.QuadraticProblem(*costs, p, q, **terms)


def solve(given, relative=0.2, **options):
    options = {"init": "product", "epsilon": gwfast.Epsilon(relative=relative)} | options
    return gwfast.gromov_wasserstein(given, **settings(**options))


def in_both(*given, **options):
    """Solve by the compiled loop, and by the loop in Python."""
    return solve(*given, **options), solve(*given, callback=lambda step: False, **options)


@pytest.mark.parametrize("rule, relative, method", [
    ("balanced", 0.005, "pgd"),
    ("balanced", 0.005, "bapg"),
    ("semirelaxed", 0.002, "pgd"),
    ("semirelaxed", 0.2, "ppa"),
    (gwfast.Partial(0.7), 0.02, "pgd"),
    (gwfast.Unbalanced((np.inf, 0.2)), 0.2, "pgd"),
])  # fmt: skip
def test_cold_starts_end_at_the_same_plan(isa, rule, relative, method, dtype):
    tol, off = TOLERANCES[dtype]
    options = dict(dtype=dtype, tol=tol, method=method, max_iter=200)
    result, other = in_both(problem(marginals=rule), relative, **options)
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=off)
    assert np.abs(result.plan - other.plan).sum() <= 10 * np.sqrt(off)


@pytest.mark.parametrize("method", ["pgd", "ppa"])
def test_epsilon_falls_in_both_loops(method):
    options = dict(epsilon=ANNEALED, method=method, dtype="float64", max_iter=300)
    result, other = in_both(problem(), **options)
    for here, there in zip(result.history[:7], other.history[:7], strict=True):
        assert here.epsilon == pytest.approx(there.epsilon)
        assert here.gw_cost == pytest.approx(there.gw_cost, rel=1e-3)
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-3)
    assert result.history[0].epsilon == pytest.approx(8 * result.epsilon)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("fused", [{}, dict(linear_cost=LINEAR, alpha=0.7)])
def test_tight_tolerances_begin_in_float32_and_meet_marginals_and_potentials(noise, fused):
    result, other = in_both(problem(100, 100, noise=noise, **fused), **TIGHT)
    # All iterations of a compiled call have the same time.
    n_calls = [len({step.seconds for step in one.history}) for one in (result, other)]
    assert n_calls == [2, other.n_iter]
    assert result.status == other.status == "converged"
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-8)
    assert np.abs(result.plan - other.plan).sum() <= 1e-7
    assert result.plan.dtype == np.float64 and result.marginal_error <= 1e-8
    rows, cols = (one - same for one, same in zip(result.potentials, other.potentials, strict=True))
    assert (result.plan * np.abs(rows[:, None] + cols)).sum() <= 1e-5 * result.epsilon


@pytest.mark.parametrize("shape", [(120, 110), (60, 220)])
def test_acceleration_and_newton_save_as_many_iterations(shape):
    result, other = in_both(problem(*shape), relative=0.05, **TIGHT)
    assert abs(result.n_iter - other.n_iter) <= 15
    here, there = (sum(step.n_inner for step in one.history) for one in (result, other))
    assert here < 2 * there
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-7)


def test_limits_end_the_compiled_loop():
    for most in (1, 2, 7):
        result = solve(problem(), max_iter=most)
        assert (result.n_iter, result.status) == (most, "max_iter")
        assert result.marginal_error <= 1e-5  # of the last iteration allowed
    late = solve(problem(250, 250), method="ppa", time_limit=0.05, max_iter=100_000)
    assert late.status == "time_limit" and late.n_iter > 0
    whole = solve(problem(220, 220), relative=0.02, dtype="float64", tol=1e-12, max_iter=40)
    assert whole.n_iter > 20  # several slices of work
    # Where two plans alternate until steps are damped, the loop in Python goes on.
    result = solve(problem(5, 5, marginals="semirelaxed"), relative=0.08)
    assert [step.iteration for step in result.history] == list(range(1, result.n_iter + 1))
    assert result.converged


def test_all_mass_of_one_side_may_move_in_a_partial_plan():
    one = problem(seed=3)
    costs, q = (one.x.matrix, one.y.matrix), 0.6 * one.q
    plan = pot.entropic_partial_gromov_wasserstein(*costs, one.p, q, reg=0.05, m=0.6)
    np.testing.assert_allclose(plan.sum(axis=0), q, atol=1e-6)
    assert (plan.sum(axis=1) <= one.p + 1e-6).all()

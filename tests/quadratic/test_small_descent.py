"""Small problems take a compiled loop; a callback sends them to the loop in Python, which ends at
the same plan.
"""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import distances, masses
from helpers.settings import settings

import gwfast
from gwfast import pot

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
RULES = {
    "balanced": dict(),
    "ppa": dict(method="ppa", max_iter=60),
    "bapg": dict(method="bapg", max_iter=60),
    "semirelaxed": dict(marginals="semirelaxed"),
    "semirelaxed ppa": dict(marginals="semirelaxed", method="ppa", max_iter=30),
    "partial": dict(marginals=gwfast.Partial(0.7)),
    "unbalanced": dict(marginals=gwfast.Unbalanced(0.1)),
    "one side given": dict(marginals=gwfast.Unbalanced((np.inf, 0.2))),
    "annealed": dict(epsilon=gwfast.Epsilon(relative=0.2, anneal_from=8.0, anneal_by=0.7)),
}
TERMS = {
    "plain": dict(),
    "kl": dict(loss="kl"),
    "fused": dict(fused=True, alpha=0.7),
    "asymmetric": dict(asymmetric=True),
    "points without mass": dict(empty=True),
    "all of these": dict(loss="kl", fused=True, asymmetric=True, empty=True),
}
SOLVER = "method", "max_iter", "epsilon"
# Tolerances, and how far objectives may be apart, relatively.
TOLERANCES = {"float32": (1e-5, 1e-4), "float64": (1e-8, 1e-6)}
TIGHT = dict(dtype="float64", tol=1e-9)
SHAPES = [(1, 6), (2, 3), (9, 7), (17, 24), (65, 40)]


def problem(shape=(30, 24), seed=0, *, asymmetric=False, empty=False, fused=False, **terms):
    rng, (n, m) = np.random.default_rng(seed), shape
    spread = [1.0, 2.0, 3.0]
    costs = [distances(rng.standard_exponential((size, 3)) * spread) + 0.1 for size in shape]
    if asymmetric:
        costs = [cost + 0.1 * rng.random(cost.shape) for cost in costs]
    p, q = masses(n, rng), masses(m, rng)
    if empty and min(n, m) > 2:
        p[0], q[-1] = 0.0, 0.0
        p, q = p / p.sum(), q / q.sum()
    if fused:
        terms["linear_cost"] = rng.random(shape)
    q = None if terms.get("marginals") == "semirelaxed" else q
    return gwfast.QuadraticProblem(*(cost / cost.max() for cost in costs), p, q, **terms)


def solve(given, relative=0.2, **options):
    options = {"init": "product", "epsilon": gwfast.Epsilon(relative=relative)} | options
    return gwfast.gromov_wasserstein(given, **settings(**options))


def in_both(given, *args, **options):
    """Solve by the compiled loop, and by the loop in Python."""
    return tuple(
        solve(given, *args, callback=callback, **options) for callback in (None, lambda step: False)
    )


def n_calls(result):
    """Count compiled calls: all iterations of a call have the same time."""
    return len({step.seconds for step in result.history})


@pairwise(shape=SHAPES, rule=RULES, terms=TERMS, dtype=TOLERANCES)
def test_both_loops_end_at_the_same_plan(shape, rule, terms, dtype):
    options = RULES[rule] | TERMS[terms]
    solver = {name: options.pop(name) for name in SOLVER if name in options}
    tol, off = TOLERANCES[dtype]
    given = problem(shape, **options)
    result, other = in_both(given, dtype=dtype, tol=tol, **solver)
    steps = zip(result.history, other.history, strict=False)
    assert all(one.epsilon == pytest.approx(same.epsilon) for one, same in steps)
    if "max_iter" in (result.status, other.status):
        off = 1e-2  # somewhere on the way
    assert abs(result.gw_cost - other.gw_cost) <= off * max(abs(other.gw_cost), 1e-3)
    assert np.abs(result.plan - other.plan).sum() <= 10 * np.sqrt(off) * other.plan.sum()
    assert not result.plan[given.p == 0].any()


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    "rule, relative",
    [("balanced", 0.005), ("semirelaxed", 0.002), ("partial", 0.02), ("bapg", 0.005)],
)
def test_cold_starts_end_at_the_same_plan(isa, rule, relative, dtype):
    options = dict(RULES[rule])
    solver = {name: options.pop(name) for name in SOLVER if name in options}
    tol, off = TOLERANCES[dtype]
    result, other = in_both(problem(**options), relative, dtype=dtype, tol=tol, **solver)
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=off)
    assert np.abs(result.plan - other.plan).sum() <= 10 * np.sqrt(off)


@pytest.mark.parametrize("terms", ["plain", "asymmetric", "fused"])
def test_tight_tolerances_begin_in_float32_and_meet_marginals_and_potentials(terms):
    result, other = in_both(problem((100, 100), **TERMS[terms]), **TIGHT)
    assert (n_calls(result), n_calls(other)) == (2, other.n_iter)
    assert result.status == other.status == "converged"
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-8)
    assert np.abs(result.plan - other.plan).sum() <= 1e-7
    assert result.plan.dtype == np.float64 and result.marginal_error <= 1e-8
    pairs = zip(result.potentials, other.potentials, strict=True)
    rows, cols = (one - same for one, same in pairs)
    assert (result.plan * np.abs(rows[:, None] + cols)).sum() <= 1e-5 * result.epsilon


@pytest.mark.parametrize("shape", [(120, 110), (60, 220)])
def test_acceleration_and_newton_save_as_many_iterations(shape):
    result, other = in_both(problem(shape), relative=0.05, **TIGHT)
    assert abs(result.n_iter - other.n_iter) <= 15
    here, there = (sum(step.n_inner for step in one.history) for one in (result, other))
    assert here < 2 * there
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-7)


@pytest.mark.parametrize("most", [1, 2, 7])
def test_the_last_iteration_allowed_has_its_marginals(most):
    result = solve(problem(), max_iter=most)
    assert (result.n_iter, result.status) == (most, "max_iter")
    assert result.marginal_error <= 1e-5


def test_a_time_limit_ends_the_compiled_loop():
    result = solve(problem((250, 250)), method="ppa", time_limit=0.05, max_iter=100_000)
    assert result.status == "time_limit" and result.n_iter > 0


def test_long_descents_go_on_from_call_to_call():
    options = dict(relative=0.02, dtype="float64", tol=1e-12, max_iter=40)
    whole, again = (solve(problem((220, 220)), **options) for _ in range(2))
    assert whole.n_iter > 20  # several slices of work
    np.testing.assert_array_equal(whole.plan, again.plan)


def test_all_mass_of_one_side_may_move_in_a_partial_plan():
    one = problem(seed=3)
    costs, q = (one.x.matrix, one.y.matrix), 0.6 * one.q
    plan = pot.entropic_partial_gromov_wasserstein(*costs, one.p, q, reg=0.05, m=0.6)
    np.testing.assert_allclose(plan.sum(axis=0), q, atol=1e-6)
    assert (plan.sum(axis=1) <= one.p + 1e-6).all()


def test_the_loop_in_python_goes_on_where_the_compiled_one_ends():
    """Two plans of a semi-relaxed problem alternate until the steps are damped."""
    result = solve(problem((5, 5), marginals="semirelaxed"), relative=0.08)
    assert [step.iteration for step in result.history] == list(range(1, result.n_iter + 1))
    assert result.converged

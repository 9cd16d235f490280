"""Small problems take a compiled loop; a callback sends them to the loop in Python, which ends at
the same plan."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import distances, masses
from helpers.settings import settings

import gwfast
from gwfast import pot
from gwfast.results.status import Status

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
}
KINDS = {
    "plain": dict(),
    "kl": dict(loss="kl"),
    "fused": dict(fused=True, alpha=0.7),
    "asymmetric": dict(asymmetric=True),
    "points without mass": dict(empty=True),
    "all of these": dict(loss="kl", fused=True, asymmetric=True, empty=True),
}
# Tolerances, and how far objectives may be apart, relatively.
TOLERANCES = {"float32": (1e-5, 1e-4), "float64": (1e-8, 1e-6)}
SHAPES = [(1, 6), (6, 1), (2, 3), (9, 7), (17, 24), (33, 31), (65, 40)]


def problem(shape=(30, 24), seed=0, *, asymmetric=False, empty=False, fused=False, **options):
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
        options["linear_cost"] = rng.random(shape)
    q = None if options.get("marginals") == "semirelaxed" else q
    return gwfast.QuadraticProblem(*(cost / cost.max() for cost in costs), p, q, **options)


def solve(given, relative=0.2, **options):
    options = {"init": "product", "epsilon": gwfast.Epsilon(relative=relative)} | options
    return gwfast.gromov_wasserstein(given, **settings(**options))


def in_python(given, **options):
    """Solve by the loop in Python."""
    return solve(given, callback=lambda step: False, **options)


def posed(options, **more):
    """Return the problem and the options of its solver."""
    solver = {name: options[name] for name in ("method", "max_iter") if name in options}
    kind = {name: value for name, value in options.items() if name not in solver}
    return problem(**kind, **more), solver


def is_compiled(result):
    """Return whether compiled calls made all iterations: at most two, in float32 and in float64.

    All iterations of a call have the same time.
    """
    return len({step.seconds for step in result.history}) <= 2


@pairwise(shape=SHAPES, rule=RULES, kind=KINDS, dtype=TOLERANCES)
def test_both_loops_end_at_the_same_plan(shape, rule, kind, dtype):
    tol, off = TOLERANCES[dtype]
    given, options = posed(RULES[rule] | KINDS[kind], shape=shape)
    options |= dict(dtype=dtype, tol=tol)
    result, other = solve(given, **options), in_python(given, **options)
    scale = max(abs(other.gw_cost), 1e-3)
    if Status.MAX_ITER in (result.status, other.status):
        off = 1e-2  # somewhere on the way
    assert abs(result.gw_cost - other.gw_cost) <= off * scale
    assert np.abs(result.plan - other.plan).sum() <= 100 * np.sqrt(off) * other.plan.sum() / 10
    # Reported values are of the plan, in float64.
    if rule in ("unbalanced", "one side given"):
        return
    truth = gwfast.verify(given, result)
    assert truth.gw_cost == pytest.approx(result.gw_cost, rel=10 * off, abs=off * scale)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("rule", ["balanced", "partial", "unbalanced", "bapg"])
def test_every_instruction_set_ends_at_the_same_plan(isa, rule, dtype):
    given, options = posed(RULES[rule])
    options |= dict(dtype=dtype, tol=TOLERANCES[dtype][0])
    other = in_python(given, **options)
    assert solve(given, **options).gw_cost == pytest.approx(other.gw_cost, rel=TOLERANCES[dtype][1])


@pytest.mark.parametrize("relative", [0.3, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_balanced_potentials_are_those_of_the_plan(seed, relative):
    options = dict(relative=relative, dtype="float64", tol=1e-9)
    result, other = (one(problem(seed=seed), **options) for one in (solve, in_python))
    assert is_compiled(result) and not is_compiled(other)
    assert result.status == other.status == Status.CONVERGED
    assert result.marginal_error <= 1e-5
    pairs = zip(result.potentials, other.potentials, strict=True)
    rows, cols = (one - same for one, same in pairs)
    apart = (result.plan * np.abs(rows[:, None] + cols)).sum()
    assert apart <= 1e-5 * result.epsilon


@pytest.mark.parametrize("shape", [(200, 190), (60, 220)])
def test_acceleration_and_newton_save_as_many_iterations(shape):
    options = dict(relative=0.05, dtype="float64", tol=1e-9)
    result, other = (one(problem(shape), **options) for one in (solve, in_python))
    assert abs(result.n_iter - other.n_iter) <= 15
    here, there = (sum(step.n_inner for step in one.history) for one in (result, other))
    assert here < 2 * there
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-7)


@pytest.mark.parametrize("method", ["pgd", "ppa"])
def test_epsilon_falls_in_both_loops(method):
    epsilon = gwfast.Epsilon(relative=0.2, anneal_from=8.0, anneal_by=0.7)
    options = dict(epsilon=epsilon, method=method, dtype="float64", max_iter=300)
    result, other = (one(problem(), **options) for one in (solve, in_python))
    first, others = ([step.gw_cost for step in one.history[:7]] for one in (result, other))
    np.testing.assert_allclose(first, others, rtol=1e-3)
    shown, expected = ([step.epsilon for step in one.history[:7]] for one in (result, other))
    np.testing.assert_allclose(shown, expected)
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-3)


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_the_last_iteration_allowed_has_its_marginals(most):
    result = solve(problem(), max_iter=most)
    assert (result.n_iter, result.status) == (most, Status.MAX_ITER)
    assert result.marginal_error <= 1e-5


def test_points_without_mass_stay_without():
    result = solve(problem(empty=True))
    assert (result.plan[0] == 0).all() and (result.plan[:, -1] == 0).all()


def test_a_time_limit_ends_the_compiled_loop():
    result = solve(problem((250, 250)), method="ppa", time_limit=0.05, max_iter=100_000)
    assert result.status == Status.TIME_LIMIT and result.n_iter > 0


def test_long_descents_go_on_from_call_to_call():
    """Slices of work do not end descents, nor does another limit on their number."""
    options = dict(relative=0.02, dtype="float64", tol=1e-12)
    whole = solve(problem((240, 240)), max_iter=60, **options)
    assert whole.n_iter > 20  # several slices
    again = solve(problem((240, 240)), max_iter=60, **options)
    assert whole.plan.tobytes() == again.plan.tobytes()


@pytest.mark.parametrize("epsilon", [0.5, 0.05])
def test_pot_ends_at_the_same_plan_when_it_prints(epsilon, capsys):
    one = problem(seed=3)
    given = one.x.matrix, one.y.matrix, one.p, one.q
    plan, log = pot.entropic_gromov_wasserstein(*given, epsilon=epsilon, log=True)
    other = pot.entropic_gromov_wasserstein(*given, epsilon=epsilon, verbose=True)
    assert capsys.readouterr().out
    assert np.linalg.norm(plan - other) <= 1e-7
    assert log["status"] == "converged" and len(log["err"]) > 1


def test_all_mass_of_one_side_may_move_in_a_partial_plan():
    one = problem(seed=3)
    given = one.x.matrix, one.y.matrix, one.p, 0.6 * one.q
    plan = pot.entropic_partial_gromov_wasserstein(*given, reg=0.05, m=0.6)
    np.testing.assert_allclose(plan.sum(axis=0), given[3], atol=1e-6)
    assert (plan.sum(axis=1) <= one.p + 1e-6).all()


def test_the_loop_in_python_goes_on_where_the_compiled_one_ends():
    """Two plans of a semi-relaxed problem alternate until the steps are damped."""
    result = solve(problem((5, 5), marginals="semirelaxed"), relative=0.08)
    numbers = [step.iteration for step in result.history]
    assert numbers == list(range(1, result.n_iter + 1))
    assert result.converged


def test_larger_problems_are_left_to_the_loop_in_python():
    assert not is_compiled(solve(problem((300, 300)), max_iter=3))


@pytest.mark.parametrize("kind", ["plain", "asymmetric", "fused"])
def test_float64_begins_in_float32_where_tolerances_are_tight(kind):
    given, _ = posed(KINDS[kind], shape=(100, 100))
    result, other = (one(given, dtype="float64", tol=1e-9) for one in (solve, in_python))
    assert len({step.seconds for step in result.history}) == 2
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-8)
    assert np.abs(result.plan - other.plan).sum() <= 1e-7
    assert result.plan.dtype == np.float64 and result.marginal_error <= 1e-8

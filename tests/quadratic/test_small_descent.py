"""Outer iterations of small problems, all in one call: they lead to where iterations of
the outer loop lead.
"""

import functools

import numpy as np
import pytest
from helpers.problems import distances, masses

import gwfast
from gwfast import pot
from gwfast.quadratic import small_descent
from gwfast.quadratic.outer_loop import OuterLoop
from gwfast.results.status import Status

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
LINEAR = np.random.default_rng(5).random((30, 24))
TIGHT = dict(dtype="float64", tol=1e-9, marginal_tol=1e-9)
KINDS = {
    "plain": dict(),
    "float64": TIGHT,
    "fused": dict(linear_cost=LINEAR, alpha=0.7),
    "kl": dict(loss="kl"),
    "fused kl": dict(linear_cost=LINEAR, loss="kl", **TIGHT),
    "asymmetric": dict(asymmetric=True),
}


def problem(seed=0, n=30, m=24, asymmetric=False):
    rng = np.random.default_rng(seed)
    spread = [1.0, 2.0, 3.0]
    costs = (distances(rng.standard_exponential((size, 3)) * spread) + 0.1 for size in (n, m))
    if asymmetric:
        costs = (cost + 0.1 * rng.random(cost.shape) for cost in costs)
    return *costs, masses(n, rng), masses(m, rng)


def solve(*given, relative=0.05, **options):
    epsilon = gwfast.Epsilon(relative=relative)
    options = {"init": "product", "epsilon": epsilon} | options
    return gwfast.gromov_wasserstein(*(given or problem()), **options)


@pytest.fixture
def one_by_one(monkeypatch):
    """Has all iterations made by the outer loop."""

    def run(function, *args, **options):
        with monkeypatch.context() as patched:
            patched.setattr(small_descent, "MOST_WORK", 0)
            return function(*args, **options)

    return run


@pytest.fixture
def looked_at(monkeypatch):
    """Numbers of the iterations that the outer loop makes itself."""
    made, iterate = [], OuterLoop._iterate

    def spy(self, *args):
        made.append(len(self.history) + 1)
        return iterate(self, *args)

    monkeypatch.setattr(OuterLoop, "_iterate", spy)
    return made


# With 0.05 one of the fused problems comes by a saddle, which rounding leaves to one
# side or the other: on one processor alike, on another not.
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("relative", [0.3, 0.1])
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_the_same_plan(seed, relative, options, one_by_one):
    options = dict(options, relative=relative)
    given = problem(seed, asymmetric=options.pop("asymmetric", False))
    result, other = solve(*given, **options), one_by_one(solve, *given, **options)
    assert result.status == other.status
    off = 1e-7 if options.get("dtype") else 1e-4
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=off)
    assert np.abs(result.plan - other.plan).sum() <= 100 * off
    # Potentials are determined where there is mass: of groups of points that have next
    # to none in common those of one may differ by a constant.
    pairs = zip(result.potentials, other.potentials, strict=True)
    rows, cols = (one - same for one, same in pairs)
    apart = (result.plan * np.abs(rows[:, None] + cols)).sum()
    assert apart <= 10 * off * result.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_the_same_plan_of_200_points(options, one_by_one):
    options = dict(options, relative=0.1)
    if "linear_cost" in options:
        options["linear_cost"] = np.random.default_rng(6).random((200, 190))
    given = problem(2, 200, 190, asymmetric=options.pop("asymmetric", False))
    result, other = solve(*given, **options), one_by_one(solve, *given, **options)
    assert result.status == other.status
    assert abs(result.n_outer - other.n_outer) <= 5
    off = 1e-7 if options.get("dtype") else 1e-4
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=off)


RULES = {
    "semirelaxed": dict(marginals="semirelaxed"),
    "partial": dict(marginals="partial", mass=0.7),
    "unbalanced": dict(marginals="unbalanced", rho=0.1),
    "bapg": dict(method="bapg"),
}


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("options", RULES.values(), ids=RULES)
def test_the_same_plan_under_every_rule(options, fused, one_by_one, looked_at):
    options = dict(options, relative=0.2, dtype="float64", tol=1e-7)
    if fused:
        options |= dict(linear_cost=LINEAR, alpha=0.7)
    cost_x, cost_y, p, q = problem(4)
    given = (cost_x, cost_y, p, None if "semi" in str(options) else q)
    result = solve(*given, **options)
    assert looked_at == []
    other = one_by_one(solve, *given, **options)
    assert looked_at
    assert result.status == other.status
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-5)
    assert np.abs(result.plan - other.plan).sum() <= 1e-3


def test_the_loop_makes_none_of_them(looked_at):
    result = solve(relative=0.2)
    assert result.status == Status.CONVERGED and result.n_outer > 8
    assert looked_at == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["pgd", "ppa"])
def test_epsilon_falls_as_in_the_outer_loop(method, dtype, one_by_one, looked_at):
    epsilon = gwfast.Epsilon(relative=0.2, anneal_from=8.0, anneal_by=0.7)
    options = dict(epsilon=epsilon, method=method, dtype=dtype, max_outer=300)
    result = solve(**options)
    assert looked_at == []
    other = one_by_one(solve, **options)
    scale = np.array([8.0 * 0.7**k for k in range(7)] + [1.0] * 300)
    shown = [step.epsilon for step in result.history]
    np.testing.assert_allclose(shown, result.epsilon * np.maximum(scale, 1)[: len(shown)])
    assert len(shown) > 8 and result.status == other.status
    # The first iterations are the same, not their end alone.
    first, others = ([step.gw_cost for step in one.history[:7]] for one in (result, other))
    np.testing.assert_allclose(first, others, rtol=1e-3)
    assert np.abs(result.plan - other.plan).sum() <= 1e-3


def test_the_last_iteration_allowed_has_its_marginals():
    for most in (1, 2, 3, 7):
        result = solve(max_outer=most)
        assert (result.n_outer, result.status) == (most, Status.MAX_OUTER)
        assert result.marginal_error <= 1e-5


def test_proximal_steps_lead_to_the_same_plan(one_by_one):
    options = dict(method="ppa", relative=0.3, max_outer=200, **TIGHT)
    result, other = solve(**options), one_by_one(solve, **options)
    assert result.n_outer > 20
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-6)


def test_points_without_mass_stay_without(one_by_one):
    cost_x, cost_y, p, q = problem()
    p[3], q[[0, 5]] = 0.0, 0.0
    given = cost_x, cost_y, p / p.sum(), q / q.sum()
    result, other = solve(*given), one_by_one(solve, *given)
    assert (result.plan[3] == 0).all() and (result.plan[:, [0, 5]] == 0).all()
    assert np.abs(result.plan - other.plan).sum() <= 1e-3


def test_a_callback_sees_every_iteration_and_changes_none():
    seen = []

    def note(step):
        seen.append((step.iteration, step.gw_cost, step.coupling.toarray()))

    watched, plain = solve(callback=note, relative=0.2), solve(relative=0.2)
    assert watched.plan.tobytes() == plain.plan.tobytes()
    assert [number for number, *_ in seen] == list(range(1, plain.n_outer + 1))
    assert [cost for _, cost, _ in seen] == [one.gw_cost for one in plain.history]
    assert seen[-1][2].tobytes() == plain.plan.tobytes()


def test_a_callback_may_end_them():
    def third(step):
        return step.iteration == 3

    result = solve(callback=third)
    assert (result.status, result.n_outer) == (Status.STOPPED, 3)
    costs = solve().history
    assert result.gw_cost == pytest.approx(costs[2].gw_cost, rel=1e-3)
    marginals = result.plan.sum(axis=1), result.plan.sum(axis=0)
    for sums, expected in zip(marginals, problem()[2:], strict=True):
        np.testing.assert_allclose(sums, expected, atol=1e-3)


@pytest.mark.parametrize("epsilon", [0.5, 0.05])
def test_pot_looks_at_the_same_iterations(epsilon, one_by_one):
    cost_x, cost_y, *weights = problem(3)
    call = functools.partial(
        pot.entropic_gromov_wasserstein, cost_x, cost_y, *weights, epsilon=epsilon
    )
    (plan, log), (other, _) = call(log=True), one_by_one(call, log=True)
    assert np.linalg.norm(plan - other) <= 1e-7
    assert log["status"] == "converged"
    assert len(log["err"]) > 1


def test_the_loop_goes_on_where_the_compiled_one_ends(looked_at, one_by_one):
    options = dict(method="ppa", relative=0.2, dtype="float64", max_outer=400)
    result = solve(*problem(1, 7, 10), **options)
    first, last = looked_at[0], looked_at[-1]
    assert 1 < first < last == result.n_outer and len(looked_at) == 1 + last - first
    assert [step.iteration for step in result.history] == list(range(1, last + 1))


def test_larger_problems_are_left_to_the_outer_loop(looked_at):
    result = solve(*problem(1, 260, 260), max_outer=3)
    assert looked_at == list(range(1, result.n_outer + 1))

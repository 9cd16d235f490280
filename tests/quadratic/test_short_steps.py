"""Outer iterations of small problems, many in one call: what comes of them is what
comes of iterations one by one.
"""

import functools

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import distances, masses, random_cost

import gwfast
from gwfast import pot
from gwfast.quadratic import dense
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
}


def problem(seed=0, n=30, m=24):
    rng = np.random.default_rng(seed)
    spread = [1.0, 2.0, 3.0]
    costs = (
        distances(rng.standard_exponential((size, 3)) * spread) + 0.1 for size in (n, m)
    )
    return *costs, masses(n, rng), masses(m, rng)


def solve(*given, relative=0.05, **options):
    epsilon = gwfast.Epsilon(relative=relative)
    options = {"init": "product", "epsilon": epsilon, **options}
    return gwfast.gromov_wasserstein(*(given or problem()), **options)


@pytest.fixture
def one_by_one(monkeypatch):
    """Has all iterations made by the outer loop."""

    def run(function, *args, **options):
        with monkeypatch.context() as patched:
            patched.setattr(dense, "MOST_WORK", 0)
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
@pairwise(number=range(8), relative=[0.3, 0.1], kind=KINDS)
def test_the_same_plan(number, relative, kind, one_by_one):
    given, options = problem(number), dict(KINDS[kind], relative=relative)
    result, other = solve(*given, **options), one_by_one(solve, *given, **options)
    assert result.status == other.status
    off = 1e-7 if options.get("dtype") else 1e-4
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=off)
    assert np.abs(result.plan - other.plan).sum() <= 100 * off
    for one, same in zip(result.potentials, other.potentials, strict=True):
        shift = np.mean(one - same)
        np.testing.assert_allclose(one, same + shift, rtol=0, atol=300 * off)


def test_most_iterations_need_no_look(looked_at):
    result = solve(relative=0.2)
    assert result.status == Status.CONVERGED and result.n_outer > 8
    assert looked_at[0] == 1 and len(looked_at) <= result.n_outer / 2


def test_the_last_iteration_allowed_is_looked_at(looked_at):
    for most in (1, 2, 3, 7):
        result = solve(max_outer=most)
        assert (result.n_outer, looked_at[-1]) == (most, most)
        assert result.marginal_error <= 1e-5


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
    assert [one[:2] for one in seen] == [one[:2] for one in plain.history]
    assert [number for number, *_ in seen] == list(range(1, plain.n_outer + 1))
    assert seen[-1][2].tobytes() == plain.plan.tobytes()


def test_a_callback_may_end_a_row(looked_at):
    result = solve(callback=lambda step: step.iteration == 3)
    assert (result.status, result.n_outer) == (Status.STOPPED, 3)
    assert 3 not in looked_at
    assert result.gw_cost == solve().history[2].gw_cost
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


def test_what_does_not_contract_is_left_to_extrapolation(looked_at):
    """Near where one optimum becomes two, changes fall by little in each step."""
    cost = random_cost(30, 8)
    slow = solve(cost, cost.copy(), relative=0.6, tol=1e-8, dtype="float64")
    assert slow.n_outer - len(looked_at) < 40


def test_larger_problems_are_looked_at_always(looked_at):
    result = solve(*problem(1, 140, 140), max_outer=6)
    assert looked_at == list(range(1, result.n_outer + 1))

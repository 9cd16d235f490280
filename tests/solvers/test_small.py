"""Small problems that are solved together are solved as each is alone."""

import numpy as np
import pytest
from helpers.problems import distances, masses

import gwfast
from gwfast import QuadraticProblem
from gwfast.kernels import _descent
from gwfast.kernels._descent import MORE
from gwfast.quadratic import small_descent
from gwfast.quadratic.outer_loop import OuterLoop
from gwfast.quadratic.stopping import Limits
from gwfast.solvers.options import SolveOptions
from gwfast.solvers.small import SmallSolve, descend_all, solve_small
from gwfast.utils.deadline import NEVER

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
SIZES = [5, 40, 17, 2, 64, 33, 8, 24]
# Plans that go round, which the outer loop has to end.
GO_ROUND = "semirelaxed", "partial"


def spaces(n, seed):
    rng = np.random.default_rng(seed)
    return tuple(
        distances(rng.standard_exponential((size, 3)) * [1, 2, 3]) + 0.1
        for size in (n, n + seed % 3)
    )


RULES = {
    "plain": dict(),
    "masses": dict(weighted=True),
    "kl": dict(loss="kl"),
    "fused": dict(fused=True),
    "semirelaxed": dict(marginals="semirelaxed"),
    "partial": dict(marginals="partial", mass=0.8),
    "unbalanced": dict(marginals="unbalanced", rho=0.5),
}


def problem(n, seed, weighted=False, fused=False, **rule):
    x, y = spaces(n, seed)
    if weighted:
        rule |= dict(p=masses(len(x), 1), q=masses(len(y), 2))
    if fused:
        rule |= dict(linear_cost=np.random.default_rng(seed).random((len(x), len(y))))
    return QuadraticProblem(x, y, **rule)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES)
def test_together_as_alone_on_any_number_of_threads(rule, dtype, monkeypatch):
    if rule not in GO_ROUND:
        # Nothing but the compiled loop makes an iteration.
        monkeypatch.delattr(OuterLoop, "run")
    problems = [problem(n, k, **RULES[rule]) for k, n in enumerate(SIZES)]
    options = dict(init="product", epsilon="8%", dtype=dtype)
    alone = [gwfast.gromov_wasserstein(one, **options) for one in problems]
    for n_threads in (1, 2, 3):
        together = gwfast.gromov_wasserstein_batch(problems, n_threads=n_threads, **options)
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one.plan, other.plan)
            for mine, theirs in zip(one.potentials, other.potentials, strict=True):
                np.testing.assert_array_equal(mine, theirs)
            names = "gw_cost", "reg_cost", "linear_cost", "term_ratio", "lost", "status"
            names += "n_outer", "n_inner", "advice", "epsilon", "penalty", "mass"
            for name in names:
                np.testing.assert_equal(getattr(one, name), getattr(other, name))


def test_calls_that_end_early_go_on_where_they_were(monkeypatch):
    """Neither what a call of the kernel makes nor when it ends changes a bit."""
    options = SolveOptions(Limits(1000, 10_000, 1e-9, 1e-9), "2%", "product")
    problems = dict(enumerate(problem(n, n) for n in SIZES))

    def plans():
        def prepare(k):
            return SmallSolve.of(problems[k], options)

        found = dict(solve_small(problems, prepare, NEVER, 2))
        return {k: result.plan for k, result in found.items()}

    expected, each, calls = plans(), _descent.Descent.each, []

    def some(descents, most, n_threads, last):
        calls.append(len(descents))
        few = max(one.done for one in descents) + 3
        ended = each(descents[::2], min(few, most), n_threads, last)
        return [ended.pop(0) if k % 2 == 0 else MORE for k in range(len(descents))]

    class Patched(_descent.Descent):
        each = staticmethod(some)

    monkeypatch.setattr(small_descent, "Descent", Patched)
    found = plans()
    assert len(calls) > 10 and found.keys() == expected.keys()
    for k, plan in expected.items():
        np.testing.assert_array_equal(found[k], plan)


def test_problems_of_both_precisions_take_turns():
    """They share scratch."""
    solves, plans = [], []
    for k, n in enumerate(SIZES):
        kind = ("float32", "float64")[k % 2]
        limits = Limits(100, 10_000, 1e-5, 1e-5)
        options = SolveOptions(limits, "5%", "product", dtype=kind)
        given = problem(n, k), options
        solves.append(SmallSolve.of(*given))
        plans.append(SmallSolve.of(*given))
        descend_all(plans[-1:], NEVER)
    descend_all(solves, NEVER, 2)
    for one, alone in zip(solves, plans, strict=True):
        np.testing.assert_array_equal(one.descent.plan, alone.descent.plan)


def test_what_they_cannot_end_another_solver_does():
    """A semi-relaxed plan goes to and fro, which only damped steps end."""
    given = problem(5, 0, marginals="semirelaxed")
    limits = Limits(1000, 10_000, 1e-5, 1e-5)
    solve = SmallSolve.of(given, SolveOptions(limits, "8%", "product"))
    descend_all([solve], NEVER)
    assert solve.descent.done > 0 and solve.result(0.0) is None
    options = dict(init="product", epsilon="8%")
    for one in gwfast.gromov_wasserstein_batch([given] * 2, **options):
        assert one.converged and one.n_outer > solve.descent.done


@pytest.mark.parametrize(
    "more",
    [
        dict(init="profile"),
        dict(epsilon=gwfast.Epsilon(relative=0.05, anneal_from=4.0)),
        dict(callback=lambda step: False),
        dict(memory_limit=1e9),
        dict(takes_zero=True, epsilon=0.0),
    ],
)
def test_what_is_asked_beyond_one_descent_takes_another_way(more):
    limits = Limits(100, 10_000, 1e-5, 1e-5)
    plain = dict(epsilon="5%", init="product")
    assert SmallSolve.of(problem(9, 0), SolveOptions(limits, **plain)) is not None
    options = SolveOptions(limits, **(plain | more))
    assert SmallSolve.of(problem(9, 0), options) is None


def test_the_number_of_a_problem_is_in_its_error():
    problems = [problem(9, 0), problem(9, 1)]
    with pytest.raises(ValueError, match=r"problems\[0\]: init must have shape"):
        gwfast.gromov_wasserstein_batch(problems, init=np.ones((9, 10)))
    ok = gwfast.gromov_wasserstein_batch(problems[:1], init=np.ones((9, 9)))
    assert ok[0].converged or ok[0].status == "near_product"

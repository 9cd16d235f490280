"""Problems without entropy as POT states them: solved by conditional gradient until
POT's rule ends it, and answered in POT's words.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..quadratic.frank_wolfe import ExactLimits, ExactSolution, FrankWolfe
from ..results.status import Ending
from ..solvers.search.isomorphism import isomorphisms
from . import gradients
from ._problem import Problem
from ._solve import Answer, quadratic_term, stated

P = ParamSpec("P")
R = TypeVar("R")
# Entries below this part of the mass are rounding of masses.
NOTHING = 2.0**-55


def exact(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which names the one with entropy where that is asked for.

    POT ignores such a keyword, and its answer is of another problem than one thinks.
    """
    name = function.__name__

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for keyword in ("epsilon", "reg"):
            if keyword in kwargs:
                other = {"fgw_barycenters": "entropic_fused_gromov_barycenters"}.get(
                    name, f"entropic_{name}"
                )
                raise TypeError(
                    f"{name}() got an unexpected keyword argument {keyword!r}: it is "
                    f"without entropy, use {other}()"
                )
        return function(*args, **kwargs)

    return checked


@dataclasses.dataclass(eq=False)
class ExactAnswer(Answer):
    """With the losses of all plans on the way, the first and the last among them, and
    the solution of the problem of mass one.
    """

    losses: list
    solution: ExactSolution

    @property
    def total(self) -> Any:
        made = super().total
        # POT makes 0-d arrays of these losses unless they are floats of Python.
        passes = self.problem.marginals == "semirelaxed" or isinstance(made, float)
        return made if passes or self.problem.arrays.kind != "numpy" else np.array(made)

    def _traced(self, plan, log):
        # Without entropy it stays, or jumps from one vertex to another.
        return plan

    def of_value(self, upstream: np.ndarray, **kind: bool) -> dict[str, Any]:
        return {name: upstream * x for name, x in gradients.of_exact(self).items()}

    def evidence(self) -> dict[str, Any]:
        back = self.problem.arrays.back
        entries: dict[str, Any] = {"loss": list(map(back, self.losses))}
        if self.problem.marginals != "balanced":
            return entries
        total, (u, v), cost = self.problem.total, self._potentials(), 0.0
        for x, masses in ((u, self.problem.p), (v, self.problem.q)):
            some = masses > 0
            cost += total * float(x[some] @ masses[some])
        entries |= {"u": back(total * u), "v": back(total * v), "cost": back(cost)}
        # POT's solver says 1 of an optimal vertex.
        return entries | {"warning": None, "result_code": 1}

    def _potentials(self):
        """POT's: for the whole gradient, and with one mean, by mass, on both sides."""
        problem = self.solution.problem
        u, v = (2 * x for x in self.solution.potentials)
        rows, cols = problem.p > 0, problem.q > 0
        shift = (v[cols] @ problem.q[cols] - u[rows] @ problem.p[rows]) / 2
        return u + shift, v - shift


def exact_limits(problem: Problem) -> ExactLimits:
    """POT's rule, for the same problem of mass one."""
    return ExactLimits(
        max_outer=problem.limit("max_iter", minimum=0),
        tol=0.0,
        min_relative=problem.number("tol_rel", zero=True),
        min_change=problem.number("tol_abs", 0.0, zero=True) / problem.total**2,
    )


def solve_exact(given: Problem) -> ExactAnswer:
    """The `ExactAnswer` to a problem."""
    total, limits = given.total, exact_limits(given)
    # The loss has gradients in these.
    given.refuse_gradients(
        {
            "balanced": ("C1", "C2", "M", "p", "q", "alpha"),
            "semirelaxed": ("C1", "C2", "M", "p", "alpha"),
            "partial": ("C1", "C2", "M", "alpha"),
        }[given.marginals]
    )
    if given.marginals != "semirelaxed" and given.G0 is not None:
        check_start(given)
    start = None if given.G0 is None else given.G0 / total
    # Costs that the caller says are symmetric are looked at all the same.
    looked = None if given.symmetric else given.symmetric
    problem = stated(given, given.arrays.dtype, looked)
    fused = given.M is not None
    one = given.symmetric and not (problem.x.symmetric and problem.y.symmetric)
    with single_threaded_blas(max(problem.shape)):
        n_threads = resolve_n_threads(None, work=math.prod(problem.shape))
        solver = FrankWolfe(problem, n_threads, one_sided=bool(one))
        if start is None and not one:
            start = next(isomorphisms(problem), None)
        solution = solver.solve(start, limits)
    # Rounding may lead below zero, where there is nothing without costs between; POT's value if it
    # sees one orientation may be anything.
    least = -np.inf if one else 0.0
    losses = [solution.first, *solution.trace[:, 0].tolist()]
    last = np.inf if len(losses) < 2 else abs(losses[-1] - losses[-2])
    ended = one and solution.status == Ending.CONVERGED
    if ended and last >= max(limits.min_change, limits.min_relative * abs(losses[-1])):
        losses.append(losses[-1])  # POT makes one more step, by nothing
    losses = [(x if fused else max(x, least)) * total**2 for x in losses]
    if given.take("verbose"):
        _print_table(losses)
    linear = float(np.vdot(problem.linear_cost, solution.plan)) if fused else 0.0
    plan = solution.plan
    plan[plan < NOTHING * problem.mass] = 0.0
    quad = max(quadratic_term(problem, solution.gw_cost, linear), least)
    found: tuple[Any, ...] = (quad, linear, np.nan, [], solution.status, "")
    answer = ExactAnswer.of(given, 0.0, plan, *found, losses, solution)
    if given.marginals == "partial":
        answer.plan = _bounded(answer.plan, given.p, given.q)
    return answer


def solve_all_exact(problems: list[Problem]) -> list[ExactAnswer]:
    """Return the `ExactAnswer` to each problem."""
    return list(map(solve_exact, problems))


def _bounded(plan, p, q):
    """A plan whose marginals are not above these by any, from one where they are up to rounding."""
    eps = np.finfo(plan.dtype).eps
    for axis, masses in ((1, p), (0, q)):
        sums = plan.sum(axis=axis)
        above, factors = sums > masses, np.ones_like(sums)
        factors[above] = masses[above] / sums[above] * (1 - 4 * eps)
        plan = plan * np.expand_dims(factors, axis)
    return plan


def check_start(problem):
    """Refuse a plan without these marginals, which no step would give it."""
    # Error of the marginals of a start that is rounding, absolutely (POT's) and relatively.
    absolute, relative = {"float64": (1e-8, 1e-7), "float32": (1e-6, 1e-5)}[
        problem.arrays.dtype.name
    ]
    for name, axis in (("p", 1), ("q", 0)):
        masses = getattr(problem, name)
        off = problem.G0.sum(axis=axis) - masses
        word = "to at most"
        if problem.marginals == "balanced":
            off, word = abs(off), "to"
        if (off > absolute + relative * masses).any():
            raise ValueError(
                f"{problem.name('G0')} must have {('rows', 'columns')[1 - axis]} that "
                f"sum {word} {problem.name(name)}, got one off by {off.max():.2g}"
            )


def _print_table(losses):
    """Print POT's table of losses."""
    former = None
    for row, loss in enumerate(losses):
        change = 0.0 if former is None else abs(loss - former)
        former = loss
        if row % 20 == 0:
            heads = ("It.", "Loss", "Relative loss", "Absolute loss")
            print("{:5s}|{:12s}|{:8s}|{:8s}".format(*heads) + "\n" + "-" * 48)
        relative = change / abs(loss) if loss else np.nan
        print(f"{row:5d}|{loss:8e}|{relative if change else 0:8e}|{change:8e}")

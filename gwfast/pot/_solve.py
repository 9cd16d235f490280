"""The one way from POT's functions to gwfast's solver: POT's conventions on one side
(epsilon twice ours, any total mass, absolute tolerances), ours on the other.
"""

import dataclasses
import itertools
import math
import warnings
from typing import Any

import numpy as np

from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..linear.rules import RULES
from ..problems.epsilon import Epsilon
from ..problems.geometry import DenseCost
from ..problems.losses import LOSSES
from ..problems.quadratic import QuadraticProblem
from ..quadratic.judge import LOOK_EVERY, Limits, RelativeChange
from ..quadratic.linearize import linearize
from ..quadratic.methods import BAPG, as_method
from ..results.result import ConvergenceWarning
from ..results.status import Ending
from ..solvers.options import Settings
from ..solvers.search.advice import missed_rows
from ..solvers.search.driver import descend
from ..solvers.search.starts import PRODUCT, given
from ..solvers.small import begin_small, small_descent, small_descents
from ..utils.callers import outside
from ..utils.deadline import NEVER
from ..utils.precision import DOUBLE, as_precision
from ..utils.validation import as_marginal
from . import gradients
from ._problem import Plan, Problem
from .arrays import pots_choice
from .gradients import traced

# A tolerance of zero is taken as this.
MIN_TOL = 1e-300
# Error of the marginals above which they are put right, at the price of a plan that is
# no longer quite the solution of its last linear problem.
MAX_MARGINAL_ERROR = 1e-6
# What there are gradients in by methods and marginals, of which "pgd" alone has those
# of plans: proximal steps end at one without entropy.
SMOOTH = {
    ("pgd", "balanced"): ("C1", "C2", "M", "p", "q", "alpha"),
    ("ppa", "balanced"): ("C1", "C2", "M", "alpha"),
    ("ppa", "semirelaxed"): ("C1", "C2", "M", "p", "alpha"),
}
# The endings of plans that need no warning: POT's users limit iterations on purpose, and
# its default tolerances are beyond float32.
EXPECTED = (Ending.CONVERGED, Ending.MAX_OUTER, Ending.PRECISION, Ending.STOPPED)


class FrobeniusChange(RelativeChange):
    """The plan changes by at most the tolerance, in the Frobenius norm, whatever the
    objective does.

    It is looked at in the first iteration and in each `LOOK_EVERY`-th after it, as in
    POT: what is about to leave a saddle moves little for a while, and has left by then.
    Steps are not followed before the second look.
    """

    def inner_tol(self, tol, rough, precision):
        # A small step is no end while the error may be as large.
        exact = super().inner_tol(tol, rough, precision)
        return max(precision.inner_tol, min(exact, rough))

    def in_kernel(self, limits, linearization, magnitude, epsilon):
        made = super().in_kernel(limits, linearization, magnitude, epsilon)
        kind = dict(frobenius=True, relative=True, every=LOOK_EVERY, tol=limits.tol)
        least = linearization.precision.inner_tol
        exact = super().inner_tol(limits.tol, np.inf, linearization.precision)
        return made and made | kind | dict(least=least, exact=exact)

    def judge(self, history, tol, cost_tol, *, confirms, precision):
        last, before = history[-1], history[-2:][0]
        settled = last.moved <= tol[0] or last.change <= last.floor
        # What moves that little is left to show whether it grows.
        hidden = settled or len(history) <= LOOK_EVERY
        grows = before.moved < last.moved > precision.inner_tol
        looks = (len(history) - 1) % LOOK_EVERY == 0 or confirms
        return settled and looks and not grows, hidden


@dataclasses.dataclass(eq=False)
class Answer:
    """What the plan for a `Problem` is and costs, in POT's conventions; status and
    advice as in `GWResult`.
    """

    problem: Problem
    epsilon: float
    plan: np.ndarray
    quad: float  # the Gromov-Wasserstein term, ``gwloss(constC, hC1, hC2, T)``
    linear: float  # ``<M, T>``
    separable: float  # ``sum(constC * T)``; NaN where no one asked
    errors: list  # changes (Frobenius norm) by all outer iterations that made a plan
    ending: Ending
    advice: str

    @classmethod
    def of(cls, problem, epsilon, plan, quad, linear, separable, errors, *others):
        """From what the same problem of mass one has."""
        total, dtype = problem.total, problem.arrays.dtype
        if total != 1.0:
            plan, errors = plan * total, [error * total for error in errors]
        plan = plan.astype(dtype, copy=False)
        top = max(abs(end) for side in (problem.x, problem.y) for end in side.extremes)
        # Quadratic terms this little below zero are rounding.
        if -1e-9 * top**2 < quad < 0:
            quad = 0.0
        terms = [float(x) * total**2 for x in (quad, linear, separable)]
        return cls(problem, epsilon, plan, *terms, errors, *others)

    @property
    def lin_loss(self) -> float:
        """The weighted term of the costs between the two spaces."""
        return (1 - self.problem.alpha) * self.linear

    @property
    def quad_loss(self) -> float:
        """The weighted term of the structures."""
        return self.problem.alpha * self.quad

    @property
    def value(self) -> float:
        """The loss."""
        return self.lin_loss + self.quad_loss

    @property
    def total(self) -> Any:
        """The loss, as POT returns it."""
        return self.problem.arrays.back(self.value)

    def evidence(self) -> dict[str, Any]:
        """What logs have of the way to the plan."""
        return {"err": list(map(self.problem.arrays.back, self.errors))}

    def result(self, log: bool | str) -> Plan:
        """Return the plan, and POT's log with `log`; `"value"` asks for a log with the value."""
        problem, back, plan = self.problem, self.problem.arrays.back, self.plan
        if problem.G0 is not None and np.may_share_memory(plan, problem.G0):
            plan = plan.copy()
        made = self._traced(back(plan), log)
        if not log:
            return made
        # An f before "gw" says that costs between spaces are in the loss.
        name = {"balanced": "gw_dist", "semirelaxed": "srgw_dist", "partial": "partial_gw_dist"}[
            problem.marginals
        ]
        name = name if problem.M is None else name.replace("gw", "fgw")
        value = traced(self.total, problem, self.of_value)
        if log == "value":
            return made, {name: value}
        entries = self.evidence() | {name: value}
        if problem.M is not None:
            entries["lin_loss"] = back(self.lin_loss)
            entries["quad_loss"] = back(self.quad_loss)
        if not problem.take("marginal_loss", True):
            entries["loss"] = back(self.value - problem.alpha * self.separable)
        entries["status"] = self.ending.status
        return made, entries

    def _traced(self, plan, log):
        """A plan as it is returned."""
        return traced(plan, self.problem, self.of_plan)

    def of_value(self, upstream: np.ndarray, **kind: bool) -> dict[str, Any]:
        """The gradient of `value`, times a number, by names."""
        made = gradients.of_entropic(self, **kind)
        return {name: upstream * x for name, x in made.items()}

    def of_plan(self, upstream: np.ndarray) -> dict[str, Any]:
        """That of ``sum upstream * plan``."""
        return gradients.of_entropic(self, in_plan=upstream)


class ProximalAnswer(Answer):
    """From proximal steps, which end at a plan without entropy; its loss alone has gradients."""

    def _traced(self, plan, log):
        if log != "value":
            self.problem.refuse_gradients()
        return plan

    def of_value(self, upstream: np.ndarray, **kind: bool) -> dict[str, Any]:
        return {name: upstream * x for name, x in gradients.enveloped(self).items()}


def solve(problem: Problem, method: str | None = None) -> Answer:
    """The `Answer` with entropy, by the method that POT has for the marginals."""
    method, epsilon = method or method_of(problem), problem.number("epsilon")
    problem.refuse_gradients(SMOOTH.get((method, problem.marginals), ()))
    # Without a single iteration it is the start.
    limits = entropic_limits(problem) if problem.limit("max_iter", minimum=0) else None
    report = table(every=10) if problem.take("verbose") else None
    answer = solved(problem, method, epsilon, limits, report)
    dubious = answer.advice or answer.ending not in EXPECTED
    if dubious and problem.take("warn", True):
        warn_of(answer.ending, answer.advice)
    return answer


def solve_all(problems: list[Problem]) -> list[Answer]:
    """Return the `Answer` with entropy to each of several problems with the same options."""
    first = problems[0]
    if first.take("verbose"):
        return list(map(solve, problems))
    method = method_of(first)
    for problem in problems:
        problem.refuse_gradients(SMOOTH.get((method, problem.marginals), ()))
    answers = solved_together(problems, method, first.number("epsilon"), entropic_limits)
    for answer in answers if first.take("warn", True) else ():
        if answer.advice or answer.ending not in EXPECTED:
            warn_of(answer.ending, answer.advice)
    return answers


def method_of(problem):
    """The name of the method that POT has for the marginals."""
    if problem.marginals == "balanced":
        name, solver = problem.name("solver"), problem.take("solver", "PGD")
        return pots_choice(solver, name, ("PGD", "PPA")).lower()
    return "ppa" if problem.marginals == "semirelaxed" else "pgd"


def entropic_limits(problem):
    """The limits of the same problem of mass one."""
    return Limits(
        max_outer=problem.limit("max_iter"),
        max_inner=problem.limit("numItermax", 1000),
        tol=max(problem.number("tol", zero=True) / problem.total, MIN_TOL),
        marginal_tol=marginal_tol(problem, problem.shape),
        rule=FrobeniusChange(),
    )


def marginal_tol(problem, shape):
    """The error of the marginals, in L1, that inner iterations end at, for a plan of this shape."""
    tol = problem.number("stopThr", 1e-9, zero=True) / problem.total
    # Ours is the sum of absolute errors; evenly spread it is that much larger.
    return max(tol * math.sqrt(min(shape)) / 2, MIN_TOL)


def warn_of(ending, advice, what="Gromov-Wasserstein"):
    """Warn of a plan that should not be trusted as it is."""
    message = f"{what} ended as {ending.status!r}" + (advice and f": {advice}")
    warnings.warn(message, ConvergenceWarning, stacklevel=outside())


def solved(problem, method, epsilon, limits, report):
    """The `Answer` for POT's `epsilon`, and limits of a problem of mass one; without
    them it is the start. ``report(error)`` is called after each outer iteration.
    """

    def callback(step):
        if not math.isnan(step.moved):
            report(problem.total * step.moved)

    if limits is None:
        found = _unsolved(*_posed(problem, method)[:3])
    else:
        posed = _ready(problem, method, epsilon, limits, report and callback)
        found = _solved(*posed)
    kind = ProximalAnswer if method == "ppa" else Answer
    return kind.of(problem, epsilon, *found)


def solved_together(problems, method, epsilon, limits):
    """The `Answer` to each of the problems; ``limits(problem)`` are those of one. Small
    ones are solved several in a compiled call.
    """
    posed, found = {}, {}

    def prepare(k):
        posed[k] = _ready(problems[k], method, epsilon, limits(problems[k]))
        quadratic, options = posed[k]
        descent = begin_small(quadratic, dataclasses.replace(options, n_threads=1))
        return descent and (descent, options.limits)

    given = dict(enumerate(problems)), prepare, NEVER, resolve_n_threads(team=False)
    with single_threaded_blas():
        for k, solution in small_descents(*given):
            found[k] = _described(*posed.pop(k), solution)
    found |= {k: _solved(*one) for k, one in posed.items()}
    return [Answer.of(one, epsilon, *found[k]) for k, one in enumerate(problems)]


def _posed(problem, method):
    """The problem of mass one, its start, its method, and the dtype to solve it in."""
    total, dtype = problem.total, problem.arrays.dtype
    # Float64 takes as long as float32 for so few entries.
    few = math.prod(problem.shape) <= 100_000
    if method != "pgd" or (problem.marginals == "partial" and few):
        # Proximal steps shrink for long, and are lost in the rounding of float32; that
        # keeps partial plans from being seen to go round.
        dtype = np.dtype(np.float64)
    quadratic = stated(problem, dtype, problem.symmetric)
    method = as_method(method, quadratic, as_precision(dtype))
    if method is BAPG:
        terms = bool(problem.take("marginal_loss", True))
        method = dataclasses.replace(BAPG, marginal_terms=terms)
    start = problem.G0
    if start is not None:
        start = start.astype(problem.arrays.dtype, copy=False)
        start = start if total == 1.0 else start / total
    return quadratic, start, method, dtype


def _ready(problem, method, epsilon, limits, callback=None):
    """The problem of mass one, and options for it."""
    quadratic, start, method, dtype = _posed(problem, method)
    return quadratic, Settings(
        limits,
        Epsilon(epsilon / (2.0 * problem.total)),
        init=PRODUCT if start is None else given(start),
        method=method,
        dtype=dtype,
        tier="dense",
        callback=callback,
    )


def stated(problem, dtype, symmetric):
    """The `QuadraticProblem` of mass one for a `Problem`, with costs in that dtype."""
    total, linear_cost = problem.total, problem.M
    if linear_cost is not None and total != 1.0:
        linear_cost = linear_cost / total
    p = problem.p.astype(np.float64) / total
    if problem.q is None:
        q = as_marginal(None, "q", problem.shape[1])
    else:
        q = problem.q.astype(np.float64) / total
    mass = 1.0 if problem.mass is None else problem.mass / total
    rule = RULES[problem.marginals].of(p, q, mass)
    return QuadraticProblem.from_checked(
        _costs(problem.x, problem.name("C1"), dtype, symmetric),
        _costs(problem.y, problem.name("C2"), dtype, symmetric),
        rule,
        loss=problem.loss.name,
        linear_cost=linear_cost,
        alpha=problem.alpha,
    )


def _costs(given, name, dtype, symmetric):
    """Costs in that dtype, which are symmetric or not as the caller says, or looks."""
    cost = given.matrix.astype(dtype, copy=False)
    if cost is given.matrix and symmetric in (None, given.symmetric):
        return given
    if symmetric:
        # Of costs that only are said to be symmetric POT's gradient sees the rows. The
        # solver takes rows and columns for the same, and reads what is in order.
        cost = np.ascontiguousarray(cost)
    return DenseCost.from_checked(cost, name, symmetric=symmetric)


def _unsolved(problem, start, method):
    """A start and what it costs."""
    if start is None:
        start = problem.mass * np.outer(problem.p, problem.q)
    plan = np.array(start, dtype=np.float64)
    linearization = linearize(problem, 1, method=method, precision=DOUBLE)
    quad, linear = _value_of(plan, linearization)
    marginals = plan.sum(axis=1), plan.sum(axis=0)
    separable = _separable(problem, *marginals)
    return plan, quad, linear, separable, [], Ending.MAX_OUTER, ""


def _solved(problem, options):
    with single_threaded_blas(max(problem.shape)):
        solution = small_descent(problem, options)
        if solution is None:
            solution = descend(problem, options.init, options)
        return _described(problem, options, solution)


def _described(problem, options, solution):
    """What an `Answer` has of a solution."""
    plan, linear = solution.coupling.toarray(), solution.linear_value
    quad, separable = quadratic_term(problem, solution.objective, linear), np.nan
    status, advice = solution.status, ""
    if options.method.alternating:
        rows, cols = solution.marginals
        separable = _separable(problem, rows, cols)
        # POT's value of a plan without these marginals, at any rate.
        bilinear = solution.linearization.bilinear_value(solution.state)
        quad = separable + bilinear / problem.alpha if problem.alpha else 0.0
        status, why = missed_rows(solution.linearization, rows, status)
        advice = why if why != status.advice else ""
    elif problem.is_balanced and not solution.steps[-1].error <= MAX_MARGINAL_ERROR:
        plan = rounded(plan, problem.p, problem.q)
        quad, linear = _value_of(plan, solution.linearization)
    errors = [step.moved for step in solution.steps if not math.isnan(step.moved)]
    return plan, quad, linear, separable, errors, status, advice


def quadratic_term(problem, objective, linear):
    """The quadratic term of an objective."""
    weight = problem.alpha
    return (objective - (1.0 - weight) * linear) / weight if weight else 0.0


def _value_of(plan, linearization):
    """Quadratic and linear term of a plan that no step has made."""
    problem, linear = linearization.problem, 0.0
    if problem.linear_cost is not None:
        linear = float(np.vdot(problem.linear_cost, plan))
    return quadratic_term(problem, linearization.initial(plan).objective, linear), linear


def _separable(problem, rows, cols):
    """``sum(constC * T)`` of a plan with these marginals."""
    loss = LOSSES[problem.loss]
    f1, f2 = loss.f1(problem.x.matrix), loss.f2(problem.y.matrix)
    return float(rows @ (f1 @ problem.p) + cols @ (f2 @ problem.q))


def rounded(plan, p, q):
    """A plan that has these marginals, near one that misses them (Altschuler, Weed and
    Rigollet, NeurIPS 2017, Algorithm 2).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.nan_to_num(np.minimum(p / plan.sum(axis=1, dtype=np.float64), 1.0))
        plan = plan * rows[:, None].astype(plan.dtype)
        cols = np.nan_to_num(np.minimum(q / plan.sum(axis=0, dtype=np.float64), 1.0))
    plan *= cols.astype(plan.dtype)
    rows = np.maximum(p - plan.sum(axis=1, dtype=np.float64), 0.0)
    cols = np.maximum(q - plan.sum(axis=0, dtype=np.float64), 0.0)
    missing = rows.sum()
    if missing > 0:
        plan += np.outer(rows, cols / missing).astype(plan.dtype)
    return plan


def table(every=1):
    """A function that prints POT's table of errors: every `every`-th time it is called,
    those it is called with.
    """
    rows = itertools.count()

    def add(*errors):
        row = next(rows)
        if row % every:
            return
        if row % 200 == 0:
            print(f"{'It.':5s}|{'Err':12s}\n" + "-" * 19)
        for error in errors:
            print(f"{row:5d}|{error:8e}|")

    return add

"""The way from POT's functions with entropy to gwfast's solver, and from its units to POT's."""

import dataclasses
import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..linear.rules import RULES
from ..problems.epsilon import Epsilon
from ..problems.geometry import DenseCost
from ..problems.losses import LOSSES
from ..problems.quadratic import QuadraticProblem
from ..quadratic.certificate import Costs
from ..quadratic.judge import POT_LOOK_EVERY, Limits, Step, Stopping
from ..quadratic.methods import Method, as_method
from ..results.result import ConvergenceWarning
from ..results.status import Ending
from ..solvers.options import ResolvedSettings
from ..solvers.search.advice import missed_rows
from ..solvers.search.driver import descend
from ..solvers.search.starts import PRODUCT, given
from ..solvers.small import begin_descent, finished, small_descents
from ..utils.callers import outside
from ..utils.deadline import NEVER
from ..utils.precision import FloatPrecision, as_precision
from ..utils.tuning import DEFAULT
from ..utils.validation import as_marginal
from . import gradients
from .arrays import pots_choice
from .call import Call, Plan

# A tolerance of zero is taken as this.
MIN_TOL = 1e-300
# Error of the marginals above which they are put right, at the price of a plan that is
# no longer quite the solution of its last linear problem.
MAX_MARGINAL_ERROR = 1e-6
# Arguments that losses have gradients in, by methods and marginals. Plans of "pgd" alone have
# gradients: proximal steps end at a plan without entropy.
SMOOTH = {
    ("pgd", "balanced"): ("C1", "C2", "M", "p", "q", "alpha"),
    ("ppa", "balanced"): ("C1", "C2", "M", "alpha"),
    ("ppa", "semirelaxed"): ("C1", "C2", "M", "p", "alpha"),
    ("exact", "balanced"): ("C1", "C2", "M", "p", "q", "alpha"),
    ("exact", "semirelaxed"): ("C1", "C2", "M", "p", "alpha"),
    ("exact", "partial"): ("C1", "C2", "M", "alpha"),
}
# The endings of plans that need no warning: POT's users limit iterations on purpose, and
# its default tolerances are beyond float32.
EXPECTED = (Ending.CONVERGED, Ending.MAX_OUTER, Ending.PRECISION, Ending.STOPPED)


@dataclasses.dataclass(eq=False)
class Answer:
    """The plan of a `Call`, its losses in POT's conventions, and how it was found."""

    problem: Call
    method: str
    epsilon: float
    plan: np.ndarray
    quad_loss: float  # the weighted term of the structures, ``alpha gwloss(constC, hC1, hC2, T)``
    lin_loss: float  # the weighted term of the costs between the spaces, ``(1 - alpha) <M, T>``
    separable: float | None  # ``alpha sum(constC * T)`` if steps have left these terms out
    steps: Sequence[Step]  # outer iterations of the problem of mass one
    ending: Ending
    advice: str

    @classmethod
    def of(cls, call, method, epsilon, plan, quad, linear, separable, *others):
        """Return the answer to a call from plan and unweighted terms of its problem of mass one."""
        total = call.total
        if total != 1.0:
            plan = plan * total
        plan = plan.astype(call.arrays.dtype, copy=False)
        top = max(abs(end) for side in (call.x, call.y) for end in side.extremes)
        # Quadratic terms this little below zero are rounding.
        if -1e-9 * top**2 < quad < 0:
            quad = 0.0
        weight, rest = call.alpha * total**2, (1 - call.alpha) * total**2
        if separable is not None:
            separable *= weight
        losses = float(weight * quad), float(rest * linear), separable
        return cls(call, method, epsilon, plan, *losses, *others)

    @property
    def errors(self) -> list[float]:
        """Changes (Frobenius norm) by all outer iterations that made a plan."""
        total = self.problem.total
        return [
            total * step.frobenius_change
            for step in self.steps
            if not math.isnan(step.frobenius_change)
        ]

    @property
    def value(self) -> float:
        """The loss."""
        return self.lin_loss + self.quad_loss

    @property
    def total(self) -> Any:
        """The loss, as POT returns it."""
        return self.problem.arrays.back(self.value)

    def evidence(self) -> dict[str, Any]:
        """Return what logs have of the way to the plan."""
        return {"err": list(map(self.problem.arrays.back, self.errors))}

    def result(self, log: bool | str) -> Plan:
        """Return the plan, and POT's log with `log`; `"value"` asks for a log with the value."""
        call, back, plan = self.problem, self.problem.arrays.back, self.plan
        if call.G0 is not None and np.may_share_memory(plan, call.G0):
            plan = plan.copy()
        plan = back(plan)
        if self.method == "ppa" and log != "value":
            call.refuse_gradients()
        if self.method == "pgd":
            plan = gradients.traced(plan, call, self.of_plan)
        if not log:
            return plan
        # An f before "gw" says that costs between spaces are in the loss.
        fused = "" if call.M is None else "f"
        prefix = {"balanced": "", "semirelaxed": "sr", "partial": "partial_"}[call.marginals]
        value = {f"{prefix}{fused}gw_dist": gradients.traced(self.total, call, self.of_value)}
        if log == "value":
            return plan, value
        entries = self.evidence() | value
        if call.M is not None:
            entries |= {"lin_loss": back(self.lin_loss), "quad_loss": back(self.quad_loss)}
        if self.separable is not None:
            entries["loss"] = back(self.value - self.separable)
        return plan, entries | {"status": self.ending.status}

    def of_value(self, upstream: np.ndarray, **kind: bool) -> dict[str, Any]:
        """Return the gradient of `value`, times a number, by names."""
        if self.method == "pgd":
            gradient = gradients.of_entropic(self, **kind)
        else:  # plans without entropy
            gradient = (gradients.of_exact if self.method == "exact" else gradients.enveloped)(self)
        return {name: upstream * x for name, x in gradient.items()}

    def of_plan(self, upstream: np.ndarray) -> dict[str, Any]:
        """Return the gradient of ``sum upstream * plan`` by names."""
        return gradients.of_entropic(self, in_plan=upstream)


def solve(call: Call, epsilon: float, max_iter: float, tol: float, **options: Any) -> Answer:
    """Return the `Answer` with entropy to a call; for `options` see `solve_all`."""
    return solve_all([call], epsilon, max_iter, tol, **options)[0]


def solve_all(
    calls: list[Call],
    epsilon: float,
    max_iter: float,
    tol: float,
    *,
    method: Any = None,
    solver: str = "PGD",
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    warn: bool = True,
) -> list[Answer]:
    """Return the `Answer` with entropy to each call; small problems are solved together."""
    first, posed, answers = calls[0], {}, {}
    solver = pots_choice(solver, first.name("solver"), ("PGD", "PPA")).lower()
    methods = {"balanced": solver, "semirelaxed": "ppa", "partial": "pgd"}
    method = method or methods[first.marginals]
    epsilon = first.number(epsilon, "epsilon")
    max_iter = first.limit(max_iter, "max_iter", minimum=0)
    limits = [_limits(call, max(max_iter, 1), tol, numItermax, stopThr) for call in calls]
    for call in calls:
        call.refuse_gradients(SMOOTH.get((method, call.marginals), ()))

    def begin(k):
        posed[k] = setup = _posed(calls[k], method)
        start = setup.problem, setup.plan, _epsilon_of(calls[k], epsilon), 1
        descent = begin_descent(*start, method=setup.method, precision=setup.precision)
        return descent and (descent, limits[k])

    numbered = dict(enumerate(calls))
    n_threads = resolve_n_threads(team=False) if len(calls) > 1 else 1
    shapes = {k: call.shape for k, call in numbered.items()}
    for k, descent in small_descents(shapes, begin, NEVER, n_threads) if max_iter else ():
        answers[k] = _answer(calls[k], epsilon, posed.pop(k), finished(descent, limits[k]))
    left = numbered.keys() - answers.keys()
    with single_threaded_blas(max((max(calls[k].shape) for k in left), default=0)):
        for k in left:
            setup = posed.pop(k, None) or _posed(calls[k], method)
            ended = _descend(calls[k], setup, epsilon, limits[k], verbose) if max_iter else None
            answers[k] = _answer(calls[k], epsilon, setup, ended)
    for k, call in numbered.items() if verbose else ():
        print_row = table(every=10)
        for error in answers[k].errors if max(call.shape) <= DEFAULT.few_points else ():
            print_row(error)
    for answer in answers.values() if warn else ():
        if answer.advice or answer.ending not in EXPECTED:
            warn_of(answer.ending, answer.advice)
    return [answers[k] for k in numbered]


def _limits(call, max_iter, tol, numItermax, stopThr):
    """Return the limits of the same problem of mass one."""
    marginal_tol = call.number(stopThr, "stopThr", zero=True) / call.total
    return Limits(
        max_outer=max_iter,
        max_inner=call.limit(numItermax, "numItermax"),
        tol=max(call.number(tol, "tol", zero=True) / call.total, MIN_TOL),
        # Ours is the sum of absolute errors; evenly spread it is that much larger.
        marginal_tol=max(marginal_tol * math.sqrt(min(call.shape)) / 2, MIN_TOL),
        # POT's rule: the change of the plan in the Frobenius norm, at POT's looks.
        stopping=Stopping(frobenius=True, every=POT_LOOK_EVERY, n_plain=POT_LOOK_EVERY),
    )


def warn_of(ending, advice, what="Gromov-Wasserstein"):
    """Warn of a plan that should not be trusted as it is."""
    message = f"{what} ended as {ending.status!r}" + (advice and f": {advice}")
    warnings.warn(message, ConvergenceWarning, stacklevel=outside())


class Posed(NamedTuple):
    """A problem of mass one, how it is solved, and the plan of the caller to start from."""

    problem: QuadraticProblem
    method: Method
    precision: FloatPrecision
    plan: np.ndarray | None


def _posed(call, method):
    """Return the `Posed` problem of a call."""
    dtype = call.arrays.dtype
    # Float64 takes as long as float32 for so few entries.
    few = math.prod(call.shape) <= 100_000
    if method != "pgd" or (call.marginals == "partial" and few):
        # Proximal steps shrink for long, and are lost in the rounding of float32; that
        # keeps partial plans from being seen to go round.
        dtype = np.dtype(np.float64)
    problem, precision = stated(call, dtype, call.symmetric), as_precision(dtype)
    plan = call.G0 if call.G0 is None or call.total == 1.0 else call.G0 / call.total
    return Posed(problem, as_method(method, problem, precision), precision, plan)


def _epsilon_of(call, epsilon):
    """Return the `Epsilon` of the problem of mass one."""
    return Epsilon(epsilon / (2.0 * call.total))


def _descend(call, posed, epsilon, limits, verbose):
    """Return the `Descent` of a problem that the compiled loop does not solve."""
    print_row = table(every=10)

    def callback(step):
        if not math.isnan(step.moved):
            print_row(call.total * step.moved)

    start = PRODUCT if posed.plan is None else given(posed.plan)
    settings = ResolvedSettings(
        limits=limits,
        epsilon=_epsilon_of(call, epsilon),
        method=posed.method,
        precision=posed.precision,
        # Small problems are solved in compiled code, and their tables printed in the end.
        callback=callback if verbose and max(call.shape) > DEFAULT.few_points else None,
    )
    return descend(posed.problem, start, settings)


def stated(call, dtype, symmetric):
    """Return the `QuadraticProblem` of mass one for a `Call`, with costs in that dtype."""
    total, linear_cost = call.total, call.M
    if linear_cost is not None and total != 1.0:
        linear_cost = linear_cost / total
    p = call.p.astype(np.float64) / total
    if call.q is None:
        q = as_marginal(None, "q", call.shape[1])
    else:
        q = call.q.astype(np.float64) / total
    mass = 1.0 if call.mass is None else call.mass / total
    return QuadraticProblem.from_checked(
        _costs(call.x, call.name("C1"), dtype, symmetric),
        _costs(call.y, call.name("C2"), dtype, symmetric),
        RULES[call.marginals].of(p, q, mass),
        loss=call.loss.name,
        linear_cost=linear_cost,
        alpha=call.alpha,
    )


def _costs(geometry, name, dtype, symmetric):
    """Return costs in that dtype, symmetric or not as the caller says; None looks."""
    cost = geometry.matrix.astype(dtype, copy=False)
    if cost is geometry.matrix and symmetric in (None, geometry.symmetric):
        return geometry
    if symmetric:
        # POT's gradient sees the rows of costs that are only said to be symmetric. The solver takes
        # rows and columns for the same, and reads whichever are contiguous.
        cost = np.ascontiguousarray(cost)
    return DenseCost.from_checked(cost, name, symmetric=symmetric)


def _answer(call, epsilon, posed, descent):
    """Return the `Answer` from a `Descent` of the problem of mass one; None is the start."""
    problem, method, _, plan = posed
    separable, steps, advice = None, (), ""
    if descent is None:
        ending = Ending.MAX_OUTER
        if plan is None:
            plan = problem.mass * np.outer(problem.p, problem.q)
        plan = np.array(plan, dtype=np.float64)
        quad, linear = _value_of(problem, plan)
    else:
        plan, linear, ending = descent.coupling.toarray(), descent.linear_value, descent.status
        quad = quadratic_term(problem, descent.objective, linear)
        steps = descent.steps
    if method.alternating:
        rows, cols = plan.sum(axis=1), plan.sum(axis=0)
        loss = LOSSES[problem.loss]
        f1, f2 = loss.f1(problem.x.matrix), loss.f2(problem.y.matrix)
        separable = float(rows @ (f1 @ problem.p) + cols @ (f2 @ problem.q))
    if method.alternating and descent is not None:
        # POT's value of a plan without these marginals, at any rate.
        bilinear = descent.linearization.bilinear_value(descent.state)
        quad = separable + bilinear / problem.alpha if problem.alpha else 0.0
        ending, why = missed_rows(descent.linearization, rows, ending)
        advice = why if why != ending.advice else ""
    elif problem.is_balanced and steps and not steps[-1].error <= MAX_MARGINAL_ERROR:
        plan = rounded(plan, problem.p, problem.q)
        quad, linear = _value_of(problem, plan)
    if method.marginal_terms:
        separable = None
    return Answer.of(
        call, method.name, epsilon, plan, quad, linear, separable, steps, ending, advice
    )


def quadratic_term(problem, objective, linear):
    """Return the quadratic term of an objective."""
    weight = problem.alpha
    return (objective - (1.0 - weight) * linear) / weight if weight else 0.0


def _value_of(problem, plan):
    """Return the quadratic and the linear term of a plan that no step has made."""
    linear = 0.0 if problem.linear_cost is None else float(np.vdot(problem.linear_cost, plan))
    quad = Costs.of(problem).value(plan.__getitem__, plan.sum(axis=1), plan.sum(axis=0))
    return quad, linear


def rounded(plan, p, q):
    """Return a plan that has these marginals, near a plan that misses them (Altschuler, Weed and
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
    """Return a function that prints POT's table: the errors of every `every`-th call."""
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

"""The one way from POT's functions to gwfast's solver: POT's conventions on one side
(epsilon twice ours, any total mass, absolute tolerances), ours on the other.
"""

import dataclasses
import math

import numpy as np

from ..kernels.threads import single_threaded_blas
from ..linear.rules import RULES
from ..problems.epsilon import Epsilon
from ..problems.geometry import DenseCost
from ..problems.losses import LOSSES
from ..problems.quadratic import QuadraticProblem
from ..quadratic.factory import linearize
from ..quadratic.methods import BAPG, as_method
from ..quadratic.stopping import LOOK_EVERY, Limits, RelativeChange
from ..results.status import Status
from ..solvers.diagnosis import missed_rows
from ..solvers.options import SolveOptions
from ..solvers.stages import descend
from ..solvers.starts import Given, Product
from ..utils.precision import DOUBLE, as_precision
from ..utils.validation import as_marginal

# A tolerance of zero is taken as this.
MIN_TOL = 1e-300
# Error of the marginals above which they are put right, at the price of a plan that is
# no longer quite the solution of its last linear problem.
MAX_MARGINAL_ERROR = 1e-6


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

    def in_kernel(self, limits, linearization, epsilon):
        precision = linearization.precision
        kind = dict(frobenius=True, every=LOOK_EVERY, least=precision.inner_tol)
        exact = super().inner_tol(limits.tol, np.inf, precision)
        floor = precision.rounding / epsilon
        made = super().in_kernel(limits, linearization, epsilon)
        return made and made | kind | dict(tol=limits.tol, exact=exact, floor=floor)

    def judge(self, seen):
        settled = seen.moved <= seen.asked_tol or seen.change <= seen.floor
        # What moves that little is left to show whether it grows.
        hidden = settled or seen.iteration <= LOOK_EVERY
        since = (seen.iteration - 1) % LOOK_EVERY
        grows = seen.moved_before < seen.moved > seen.precision.inner_tol
        looks = since == 0 or seen.confirming
        return settled and looks and not grows, hidden


@dataclasses.dataclass(frozen=True)
class Solved:
    """A plan and what it costs, in POT's conventions; status and advice as in
    `GWResult`.
    """

    plan: np.ndarray
    quad: float  # the Gromov-Wasserstein term, ``gwloss(constC, hC1, hC2, T)``
    linear: float  # ``<linear_cost, T>``
    separable: float  # ``sum(constC * T)``; NaN where no one asked
    errors: list  # changes (Frobenius norm) by all outer iterations that made a plan
    status: Status
    advice: str

    def scaled(self, total, dtype):
        """The same of masses with that total, the plan in that dtype."""
        plan = self.plan * total if total != 1.0 else self.plan
        return dataclasses.replace(
            self,
            plan=plan.astype(dtype, copy=False),
            quad=float(self.quad) * total**2,
            linear=float(self.linear) * total**2,
            separable=float(self.separable) * total**2,
            errors=[error * total for error in self.errors],
        )


# Entries of a partial plan up to which float64 takes as long as float32.
FEW_ENTRIES = 100_000


def solve(
    cost_x,
    cost_y,
    p,
    q,
    *,
    epsilon,
    loss="square",
    linear_cost=None,
    alpha=1.0,
    symmetric=None,
    start=None,
    method="pgd",
    marginals="balanced",
    mass=None,
    marginal_loss=True,
    max_iter=1000,
    tol=1e-9,
    max_inner=1000,
    inner_tol=1e-9,
    report=None,
):
    """Solve a problem as POT states it; all arrays of one float dtype.

    `start` is taken as it is, None is the product plan. `tol` is the Frobenius norm of
    the change of the plan, `inner_tol` the norm of the error of a marginal.
    `marginal_loss` says whether ``method="bapg"`` sees the terms of the marginals, and
    ``report(error)`` is called after each outer iteration.
    """
    asked, total = cost_x.dtype, float(p.sum(dtype=np.float64))
    few = len(cost_x) * len(cost_y) <= FEW_ENTRIES
    if asked == np.float32 and (method != "pgd" or (marginals == "partial" and few)):
        # Proximal steps shrink for long, and are lost in the rounding of float32; that
        # keeps partial plans from being seen to go round.
        cost_x, cost_y = cost_x.astype(np.float64), cost_y.astype(np.float64)
    problem = stated(
        cost_x,
        cost_y,
        p,
        q,
        loss=loss,
        linear_cost=linear_cost,
        alpha=alpha,
        symmetric=symmetric,
        marginals=marginals,
        mass=mass,
    )
    method = as_method(method, problem, as_precision(cost_x.dtype))
    if method is BAPG:
        method = dataclasses.replace(BAPG, marginal_terms=marginal_loss)
    start = start if start is None or total == 1.0 else start / total
    if max_iter < 1:
        found = _unsolved(problem, start, method)
    else:
        options = SolveOptions(
            _limits(problem.shape, total, max_iter, tol, max_inner, inner_tol),
            Epsilon(epsilon / (2.0 * total)),
            method=method,
            dtype=cost_x.dtype,
            tier="dense",
            callback=report and _reporter(report, total),
        )
        found = _solved(problem, start, options)
    return found.scaled(total, asked)


def stated(
    cost_x, cost_y, p, q, *, loss, linear_cost, alpha, symmetric, marginals, mass
):
    """A `QuadraticProblem` of mass one."""
    total = float(p.sum(dtype=np.float64))
    if linear_cost is not None and total != 1.0:
        linear_cost = linear_cost / total
    p = p.astype(np.float64) / total
    if q is None:
        q = as_marginal(None, "q", len(cost_y))
    else:
        q = q.astype(np.float64) / total
    mass = 1.0 if mass is None else float(mass) / total
    if symmetric:
        # Of costs that only are said to be symmetric POT's gradient sees the rows. The
        # solver takes rows and columns for the same, and reads what is in order.
        cost_x, cost_y = map(np.ascontiguousarray, (cost_x, cost_y))
    return QuadraticProblem.from_checked(
        DenseCost.from_checked(cost_x, "C1", symmetric=symmetric),
        DenseCost.from_checked(cost_y, "C2", symmetric=symmetric),
        RULES[marginals](p, q, mass),
        loss=loss,
        linear_cost=linear_cost,
        alpha=alpha,
    )


def _limits(shape, total, max_iter, tol, max_inner, inner_tol):
    """POT's, for a problem of mass one."""
    return Limits(
        max_outer=int(max_iter),
        max_inner=int(max_inner),
        tol=max(tol / total, MIN_TOL),
        # Ours is the sum of absolute errors; evenly spread it is that much larger.
        marginal_tol=max(inner_tol / total * math.sqrt(min(shape)) / 2, MIN_TOL),
        rule=FrobeniusChange(),
    )


def _reporter(report, total):
    """A callback that reports changes of plans of that mass."""

    def callback(step):
        if not math.isnan(step.moved):
            report(total * step.moved)

    return callback


def _unsolved(problem, start, method):
    """A start and what it costs."""
    if start is None:
        start = problem.mass * np.outer(problem.p, problem.q)
    plan = np.array(start, dtype=np.float64)
    linearization = linearize(problem, 1, method=method, precision=DOUBLE)
    quad, linear = _value_of(plan, linearization)
    marginals = plan.sum(axis=1), plan.sum(axis=0)
    separable = _separable(problem, *marginals)
    return Solved(plan, quad, linear, separable, [], Status.MAX_OUTER, "")


def _solved(problem, start, options):
    with single_threaded_blas():
        start = Product() if start is None else Given(start)
        solution = descend(problem, start, options)
        plan, linear = solution.coupling.toarray(), solution.linear_value
        quad, separable = quadratic_term(problem, solution.gw_cost, linear), np.nan
        status, advice = solution.status, ""
        if options.method.alternating:
            rows, cols = solution.marginals
            separable = _separable(problem, rows, cols)
            # POT's value of a plan without these marginals, at any rate.
            weight = _weight(problem)
            bilinear = solution.stepped.update.bilinear
            quad = separable + bilinear / weight if weight else 0.0
            status, why = missed_rows(solution.linearization, rows, status)
            advice = why if why != status.advice else ""
        elif problem.is_balanced and not solution.stepped.error <= MAX_MARGINAL_ERROR:
            plan = rounded(plan, problem.p, problem.q)
            quad, linear = _value_of(plan, solution.linearization)
    errors = [moved for moved in solution.moves if not math.isnan(moved)]
    return Solved(plan, quad, linear, separable, errors, status, advice)


def _weight(problem):
    """Of the quadratic term."""
    return 1.0 if problem.linear_cost is None else problem.alpha


def quadratic_term(problem, objective, linear):
    """The quadratic term of an objective."""
    weight = _weight(problem)
    return (objective - (1.0 - weight) * linear) / weight if weight else 0.0


def _value_of(plan, linearization):
    """Quadratic and linear term of a plan that no step has made."""
    problem, linear = linearization.problem, 0.0
    if problem.linear_cost is not None:
        linear = float(np.vdot(problem.linear_cost, plan))
    return quadratic_term(problem, linearization.start(plan), linear), linear


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

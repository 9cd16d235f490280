"""Problems without regularization by the conditional gradient method (Frank and Wolfe;
for Gromov-Wasserstein Vayer et al., ICML 2019): the linearized problem is solved
exactly, and the plan goes towards its solution, a vertex, as far as that pays.

For costs such as squared distances the objective is concave on the way, and plans end
at a vertex, which has fewer than n + m entries.
"""

import dataclasses
import time

import numpy as np

from ..kernels import _frank_wolfe, _products
from ..kernels._frank_wolfe import FrankWolfe
from ..kernels._rows import Panels, aligned_empty
from ..problems.losses import LOSSES
from ..results.coupling import ArrayCoupling
from ..results.result import GWResult, LiveStep, OuterStep
from ..results.status import Status
from ..utils.deadline import NEVER
from .dense import common_shift

# Rounding of the objective, as a fraction of the largest of the terms that it is a
# difference of: what no gap and no step is seen below.
ROUNDING = 1e-13
ADVICE = {
    Status.PRECISION: "no step makes the objective smaller, beyond rounding; try a "
    "larger tol"
}


@dataclasses.dataclass(frozen=True)
class ExactLimits:
    """When conditional gradient ends.

    Attributes
    ----------
    max_outer : int
    tol : float
        Gap at which it has converged, as a fraction of the objective.
    min_change, min_relative : float
        Change of the objective in a step at which it has, absolutely or relatively: the
        rule of POT, which says less.
    deadline : Deadline
    """

    max_outer: int = 1000
    tol: float = 1e-5
    min_change: float = 0.0
    min_relative: float = 0.0
    deadline: object = NEVER


class ConditionalGradient:
    """An exact problem, to be solved from one plan after another.

    Parameters
    ----------
    problem : QuadraticProblem
    n_threads : int

    Raises
    ------
    ValueError
        If costs are out of the domain of the loss.
    """

    def __init__(self, problem, n_threads):
        self.problem, self.n_threads = problem, n_threads
        rule, loss = problem.rule, LOSSES[problem.loss]
        self._alpha = problem.alpha if problem.linear_cost is not None else 1.0
        self._rows, self._cols = np.flatnonzero(rule.p), np.arange(problem.shape[1])
        if rule.takes_q:
            self._cols = np.flatnonzero(rule.q)
        self._p, self._q = rule.p[self._rows], rule.q[self._cols]
        x, y = problem.x.to_dense(), problem.y.to_dense()
        loss.check(x.matrix, "cost_x")
        loss.check(y.matrix, "cost_y")
        shift = 0.0
        if loss.shift_invariant:
            shift = common_shift(x.matrix, y.matrix, problem.is_balanced)
        x, y = (
            side.matrix[np.ix_(some, some)].astype(np.float64) - shift
            for side, some in ((x, self._rows), (y, self._cols))
        )
        self._symmetric = problem.x.symmetric and problem.y.symmetric
        self._left = -self._alpha * loss.h1(x)
        self._right = np.ascontiguousarray(loss.h2(y).T)
        self._separate(self._alpha * loss.f1(x), self._alpha * loss.f2(y))
        self._linear = None
        if problem.linear_cost is not None:
            part = problem.linear_cost[np.ix_(self._rows, self._cols)]
            self._linear = (1.0 - self._alpha) / 2 * part.astype(np.float64)
        sizes = (np.abs(side).max() for side in (self._left, self._right))
        self._magnitude = float(np.prod(list(sizes))) * problem.mass**2
        self._magnitude += np.abs(self._constants[0]).max()
        self._magnitude += np.abs(self._constants[1]).max()

    def _separate(self, x_losses, y_losses):
        """What the first two terms of the loss are: constants where a marginal is
        fixed, and else functions of it.
        """
        if not self._symmetric:
            x_losses, y_losses = ((one + one.T) / 2 for one in (x_losses, y_losses))
        rule, p, q = self.problem.rule, self._p, self._q
        fixed = (not rule.takes_mass, not rule.takes_mass and rule.takes_q)
        losses, constants = [], []
        for one, masses, is_fixed in zip(
            (x_losses, y_losses), (p, q), fixed, strict=True
        ):
            losses.append(None if is_fixed else np.ascontiguousarray(one))
            constants.append(one @ masses if is_fixed else np.zeros(len(masses)))
        self._losses = None if all(fixed) else tuple(losses)
        self._constants = constants
        self._constant = float(p @ constants[0])
        if rule.takes_q:
            self._constant += float(q @ constants[1])

    def solve(self, plan, limits, callback=None, report=None):
        """From a plan (n, m), None for the product plan: an `ExactSolution`.

        Marginals of a plan are mended. ``report(objective)`` is called before the first
        step and after each.
        """
        began = time.perf_counter()
        steps = self._steps()
        steps.start(*self._start(plan))
        floor, history = ROUNDING * self._magnitude, []
        options = limits.tol, floor, limits.min_change, limits.min_relative
        status, constant = None, self._constant
        if report is not None:
            report(steps.value + constant)
        while status is None:
            moves = steps.advance(1, *options, constant)
            if steps.n_steps > len(history):
                history.append(_step(steps, constant, time.perf_counter() - began))
                if report is not None:
                    report(history[-1].gw_cost)
                if callback is not None and self._stops(callback, history[-1], steps):
                    status = Status.STOPPED
            if status is None:
                status = self._status(moves, steps, limits)
        return self._solution(steps, status, history, began)

    def _status(self, moves, steps, limits):
        """Why the steps end, or None."""
        if moves == _frank_wolfe.CONVERGED:
            return Status.CONVERGED
        if moves == _frank_wolfe.STALLED:
            asked = limits.min_change or limits.min_relative
            return Status.CONVERGED if asked else Status.PRECISION
        if limits.deadline.passed():
            return Status.TIME_LIMIT
        return Status.MAX_OUTER if steps.n_steps >= limits.max_outer else None

    def _steps(self):
        rule, kind = self.problem.rule, self.problem.marginals
        orders = {}
        if kind == "balanced":
            # Where the first plan is the product plan, the linearized cost is that of
            # points on two lines.
            orders = dict(
                rows=np.argsort(self._left @ self._p, kind="stable")[::-1],
                cols=np.argsort(self._right @ self._q, kind="stable"),
            )
        others = None
        if not self._symmetric:
            others = tuple(
                np.ascontiguousarray(one.T) for one in (self._left, self._right)
            )
        return FrankWolfe(
            self._left,
            self._right,
            self._p,
            self._q,
            kind,
            rule.mass,
            linear=self._linear,
            losses=self._losses,
            others=others,
            n_threads=self.n_threads,
            **orders,
        )

    def _start(self, plan):
        """A plan of these marginals on the points with mass, and half the gradient."""
        mass, p, q = self.problem.mass, self._p, self._q
        if plan is None:
            q = q / q.sum()
            plan = np.multiply.outer(mass * p, q)
            sides = [(self._left, self._right)]
            if not self._symmetric:
                sides.append((self._left.T, self._right.T))
            outer = np.multiply.outer
            made = sum(outer(mass * (left @ p), q @ right) for left, right in sides)
            made /= len(sides)
        else:
            plan = self.problem.rule.mend(np.asarray(plan, dtype=np.float64))
            plan = plan[np.ix_(self._rows, self._cols)]
            made = self._times(self._left, plan, self._right)
            if not self._symmetric:
                made += self._times(self._left.T, plan, self._right.T)
                made /= 2
        if self._losses is not None:
            rows, cols = self._losses
            if rows is not None:
                made += (rows @ plan.sum(axis=1))[:, None]
            if cols is not None:
                made += cols @ plan.sum(axis=0)
        if self._linear is not None:
            made += self._linear
        return plan, made

    def _times(self, left, plan, right):
        """``left @ plan @ right``."""
        for matrix in (plan, right):
            left = np.ascontiguousarray(left)
            made = aligned_empty((len(left), matrix.shape[1]), np.float64)
            panels = Panels(np.ascontiguousarray(matrix), n_threads=self.n_threads)
            _products.matmul(left, panels, made, n_threads=self.n_threads)
            left = made
        return made

    def _stops(self, callback, step, steps):
        live = LiveStep.of(step, lambda: ArrayCoupling(self._whole(steps.plan), 1))
        try:
            return bool(callback(live))
        finally:
            live.expire()

    def _whole(self, plan):
        """With the points that have no mass."""
        made = np.zeros(self.problem.shape)
        made[np.ix_(self._rows, self._cols)] = plan
        return made

    def _solution(self, steps, status, history, began):
        return ExactSolution(
            problem=self.problem,
            plan=self._whole(steps.plan),
            potentials=self._potentials(steps),
            gw_cost=steps.value + self._constant,
            gap=max(steps.gap, 0.0),
            status=status,
            history=tuple(history),
            seconds=time.perf_counter() - began,
        )

    def _potentials(self, steps):
        """Of the last linear program, with the separable terms; those of points
        without mass are -inf.
        """
        made = []
        given = steps.potentials(), self._constants, (self._rows, self._cols)
        for values, constants, some, size in zip(
            *given, self.problem.shape, strict=True
        ):
            potential = np.full(size, -np.inf)
            potential[some] = values + constants
            made.append(potential)
        return tuple(made)


@dataclasses.dataclass(frozen=True, eq=False)
class ExactSolution:
    """Where conditional gradient ended.

    Attributes
    ----------
    problem : QuadraticProblem
    plan : (n, m) float64 ndarray
    potentials : tuple of (n,) and (m,) float64 ndarray
    gw_cost, gap : float
        The objective, and the gap of Frank and Wolfe at the last plan that a vertex was
        looked for from.
    status : Status
    history : tuple of OuterStep
    seconds : float
    """

    problem: object
    plan: np.ndarray
    potentials: tuple
    gw_cost: float
    gap: float
    status: Status
    history: tuple
    seconds: float

    def result(self, n_threads, **more):
        """The `GWResult`; `more` are fields to set."""
        problem, linear = self.problem, 0.0
        sums = self.plan.sum(axis=1), self.plan.sum(axis=0)
        if problem.linear_cost is not None:
            linear = float(np.vdot(problem.linear_cost, self.plan))
        fields = dict(
            coupling=ArrayCoupling(self.plan, n_threads),
            potentials=self.potentials,
            gw_cost=self.gw_cost,
            linear_cost=linear,
            reg_cost=self.gw_cost,
            epsilon=0.0,
            marginal_error=problem.rule.error(*sums),
            n_outer=len(self.history),
            n_inner=0,
            status=self.status,
            advice=ADVICE.get(self.status, self.status.advice),
            history=self.history,
            seconds=self.seconds,
            method="cg",
            gap=self.gap,
        )
        return GWResult(**fields | more)


def _step(steps, constant, seconds):
    return OuterStep(
        iteration=steps.n_steps,
        gw_cost=steps.value + constant,
        epsilon=0.0,
        change=steps.step_size,
        marginal_error=0.0,
        n_inner=0,
        seconds=seconds,
    )


def nbytes(problem):
    """Bytes that solving a problem takes beside its costs, at most."""
    n, m = problem.shape
    squares, plan = n * n + m * m, n * m
    # The sides, what is gathered of them, and what is made on the way; their transposes
    # and losses.
    matrices = 4 * squares
    if not (problem.x.symmetric and problem.y.symmetric):
        matrices += 2 * squares + plan
    if not problem.is_balanced:
        matrices += squares + plan
    return 8 * (matrices + (8 + (problem.linear_cost is not None)) * plan)

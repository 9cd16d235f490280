"""Problems without regularization by the conditional gradient method (Frank and Wolfe;
for Gromov-Wasserstein Vayer et al., ICML 2019): the linearized problem is solved
exactly, and the plan goes towards its solution, a vertex, as far as that pays.

For costs such as squared distances the objective is concave on the way, and plans end
at a vertex, which has fewer than n + m entries.
"""

import dataclasses
import functools
import time
from typing import NamedTuple

import numpy as np

from ..kernels import _frank_wolfe, _products
from ..kernels._frank_wolfe import FrankWolfe
from ..kernels._rows import Panels, aligned_empty
from ..problems.losses import LOSSES
from ..problems.quadratic import QuadraticProblem
from ..results.coupling import ArrayCoupling
from ..results.result import GWResult, LiveStep, OuterStep
from ..results.status import Status
from ..utils.blocks import CACHED_BYTES, row_blocks
from ..utils.deadline import NEVER, Deadline, OutOfTime
from . import ties
from .dense_terms import common_shift

# Rounding of the objective, as a fraction of the largest of the terms that it is a
# difference of: what no gap and no step is seen below.
ROUNDING = 1e-13


@dataclasses.dataclass(frozen=True)
class ExactLimits:
    """When conditional gradient ends."""

    max_outer: int = 1000
    # Gap at which it has converged, as a fraction of the objective.
    tol: float = 1e-5
    # Absolute and relative change of the objective in a step at which POT's rule, a
    # weaker one, takes it for converged.
    min_change: float = 0.0
    min_relative: float = 0.0
    deadline: Deadline = NEVER


class Side:
    """One space of exact problems, to be made once for all of them.

    Parameters
    ----------
    number : {0, 1}
        Whether it is the first or the second space.
    geometry : PointCloud or DenseCost
    masses : (n,) float64 ndarray
    loss : Loss
    shift : float
        Taken from all costs first.
    keep_all, keep_losses : bool, default=False
        Whether points without mass stay; whether there are `losses`.

    Attributes
    ----------
    some : (k,) ndarray of int
        Points that stay; all that follows is theirs, in float64.
    values : (k, k) ndarray
        What the product is made of, with its sign in the first space.
    losses : (k, k) ndarray or None
        The term of this side alone, the mean of both orientations.
    constants, projected : (k,) ndarray
        Losses and values times the masses.
    """

    def __init__(
        self, number, geometry, masses, loss, shift, keep_all=False, keep_losses=False
    ):
        loss.check(geometry.matrix, ("cost_x", "cost_y")[number])
        own = (loss.f1, loss.f2)[number]
        self.n, self.symmetric = geometry.n, geometry.symmetric
        self.some = np.arange(self.n) if keep_all else np.flatnonzero(masses)
        self.masses = masses[self.some]
        costs = _part(geometry.matrix, self.some, self.some)
        costs -= shift
        if self.symmetric:  # up to rounding, which would add up in the objective
            costs += costs.T
            costs /= 2
        values = loss.h2(costs) if number else -loss.h1(costs)
        self.values, self.losses = np.ascontiguousarray(values), None
        if keep_losses:
            losses = own(costs)
            self.losses = losses if self.symmetric else (losses + losses.T) / 2
        self.constants = self._constants(costs, own)
        self.projected = self.values @ self.masses
        self.largest = float(np.abs(self.values).max())

    def _constants(self, costs, loss):
        made, other = np.empty(len(costs)), np.zeros(len(costs))
        for rows in row_blocks(*costs.shape, scratch=CACHED_BYTES):
            losses = loss(costs[rows])
            made[rows] = losses @ self.masses
            if not self.symmetric:
                other += self.masses[rows] @ losses
        return made if self.symmetric else (made + other) / 2

    @functools.cached_property
    def transposed(self):
        """The values, or where these are not symmetric their transpose."""
        return self.values if self.symmetric else np.ascontiguousarray(self.values.T)


def _part(matrix, rows, cols):
    """A copy of these rows and columns in float64."""
    if (len(rows), len(cols)) == matrix.shape:
        return np.array(matrix, dtype=np.float64, order="C")
    return matrix[np.ix_(rows, cols)].astype(np.float64)


def sides_of(problem):
    """Both spaces of a problem, as `Side`; a ValueError if costs are out of the domain
    of the loss.
    """
    rule, loss = problem.rule, LOSSES[problem.loss]
    x, y = problem.x.to_dense(), problem.y.to_dense()
    shift = 0.0
    if loss.shift_invariant:
        shift = common_shift(x, y, problem.is_balanced)
    fixed, free = _fixed(rule), not rule.takes_q
    return (
        Side(0, x, rule.p, loss, shift, keep_losses=not fixed[0]),
        Side(1, y, rule.q, loss, shift, keep_all=free, keep_losses=not fixed[1]),
    )


def _fixed(rule):
    """Which marginals are given: of these the terms of one side are constants."""
    return not rule.takes_mass, not rule.takes_mass and rule.takes_q


class ConditionalGradient:
    """An exact problem, to be solved from one plan after another; its two `Side` may be
    there already.
    """

    def __init__(self, problem, n_threads, sides=None):
        self.problem, self.n_threads = problem, n_threads
        x, y = self._sides = sides or sides_of(problem)
        self._symmetric = x.symmetric and y.symmetric
        self._linear, self._alpha = None, problem.alpha if problem.is_fused else 1.0
        if problem.is_fused:
            self._linear = _part(problem.linear_cost, x.some, y.some)
            self._linear *= (1.0 - self._alpha) / 2
        self._constants, self._losses, self._constant = [], [], 0.0
        self._magnitude = self._alpha * x.largest * y.largest * problem.mass**2
        for side, fixed in zip((x, y), _fixed(problem.rule), strict=True):
            constants = self._alpha * side.constants if fixed else 0.0 * side.masses
            self._losses.append(None if fixed else self._alpha * side.losses)
            self._constants.append(constants)
            self._constant += float(side.masses @ constants)
            self._magnitude += float(np.abs(constants).max())

    def solve(self, plan, limits, callback=None, report=None):
        """From a plan (n, m), None for the product plan: an `ExactSolution`.

        Marginals of a plan are mended. ``report(objective)`` is called before the first
        step and after each. From the product plan ties are broken (ties.py).
        """
        began, history, status = time.perf_counter(), [], None
        steps, options = self._started(plan, limits)
        if plan is None and self._may_tie:
            descend = functools.partial(_descend, steps, limits, options)
            begin = functools.partial(steps.start, *self._start(None, True))
            rounding = ROUNDING * self._magnitude
            ties.break_ties(steps, begin, self._sides, descend, rounding)
        constant = self._constant
        if report is not None:
            report(steps.value + constant)
        while status is None:
            moves = steps.advance(1, *options)
            if steps.n_steps > len(history):
                history.append(
                    OuterStep(
                        iteration=steps.n_steps,
                        gw_cost=steps.value + constant,
                        epsilon=0.0,
                        change=steps.step_size,
                        marginal_error=0.0,
                        n_inner=0,
                        seconds=time.perf_counter() - began,
                    )
                )
                if report is not None:
                    report(history[-1].gw_cost)
                if callback is not None and self._stops(callback, history[-1], steps):
                    status = Status.STOPPED
            if status is None:
                status = self._status(moves, steps, limits)
        return self._solution(steps, status, history, began)

    def is_least(self, cost):
        """Whether no plan can be below this objective, up to rounding: it is a mean of
        losses, which are not negative.
        """
        return self._linear is None and cost <= ROUNDING * self._magnitude

    def lowest(self, plans, limits, mended=False):
        """The `Found` of lowest cost that descents from plans end at, as far as there
        is time: OutOfTime where that is not enough for one. Plans are as `solve` takes
        them; `mended` says that their marginals are those of the problem. Ties stay as
        they are: several plans do what breaking them does.
        """
        best = None
        try:
            for plan in plans:
                steps, options = self._started(plan, limits, mended)
                converged = _descend(steps, limits, options)
                cost = max(steps.value + self._constant, 0.0)
                if best is None or cost < best.cost:
                    best = Found(cost, converged, self._whole(steps.plan))
        except OutOfTime:
            if best is None:
                raise
        return best

    def _started(self, plan, limits, mended=False):
        """The steps at a plan, and what they are to be told."""
        steps = self._steps
        floor = ROUNDING * self._magnitude
        steps.start(*self._start(plan, mended))
        options = limits.tol, floor, limits.min_change, limits.min_relative
        return steps, (*options, self._constant)

    @functools.cached_property
    def _may_tie(self):
        plain = self._linear is None and self.problem.is_balanced
        return plain and self._symmetric and ties.may_tie(*self._sides)

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

    @functools.cached_property
    def _steps(self):
        """Steps that begin at one plan after another."""
        (x, y), problem = self._sides, self.problem
        left, others = x.values, None
        if self._alpha != 1.0:
            left = self._alpha * left
        if not self._symmetric:
            others = self._alpha * x.transposed, y.values
        return FrankWolfe(
            left,
            y.transposed,
            x.masses,
            y.masses,
            problem.rule.name,
            problem.mass,
            linear=self._linear,
            losses=tuple(self._losses),
            others=others,
            n_threads=self.n_threads,
        )

    def _start(self, plan, mended):
        """A plan of these marginals on the points with mass, and half the gradient."""
        x, y = self._sides
        if plan is None:
            mass, outer = self.problem.mass, np.multiply.outer
            plan = outer(mass * x.masses, y.masses)
            made = outer(mass * self._alpha * x.projected, y.projected)
            if not self._symmetric:
                other = x.transposed @ x.masses, y.transposed @ y.masses
                made += outer(mass * self._alpha * other[0], other[1])
                made /= 2
        else:
            if not mended:
                plan = self.problem.rule.mend(np.asarray(plan, dtype=np.float64))
            plan = _part(plan, x.some, y.some)
            made = self._times(x.values, plan, y.transposed)
            if not self._symmetric:
                made += self._times(x.transposed, plan, y.values)
                made /= 2
            made *= self._alpha
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
        def make_coupling():
            return ArrayCoupling(self._whole(steps.plan), 1)

        return LiveStep.stops(callback, step, make_coupling)

    def _whole(self, plan):
        """With the points that have no mass."""
        x, y = self._sides
        if plan.shape == (x.n, y.n):
            return plan
        made = np.zeros((x.n, y.n))
        made[np.ix_(x.some, y.some)] = plan
        return made

    def _solution(self, steps, status, history, began):
        # Those of the last linear program, with the separable terms.
        potentials = [np.full(side.n, -np.inf) for side in self._sides]
        given = self._sides, steps.potentials(), self._constants
        for made, side, *both in zip(potentials, *given, strict=True):
            made[side.some] = sum(both)
        return ExactSolution(
            problem=self.problem,
            plan=self._whole(steps.plan),
            potentials=tuple(potentials),
            gw_cost=steps.value + self._constant,
            gap=max(steps.gap, 0.0),
            status=status,
            history=tuple(history),
            seconds=time.perf_counter() - began,
        )


def _descend(steps, limits, options):
    """Advance to the end; returns whether it is that of the steps rather than of their
    limit. OutOfTime where there is not enough.
    """
    moves = _frank_wolfe.MORE
    while moves == _frank_wolfe.MORE and steps.n_steps < limits.max_outer:
        moves = steps.advance(limits.max_outer - steps.n_steps, *options)
        limits.deadline.check()
    return moves != _frank_wolfe.MORE


class Found(NamedTuple):
    """A cost, whether the steps ended by themselves, and the plan."""

    cost: float
    converged: bool
    plan: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class ExactSolution:
    """Where conditional gradient ended: a plan (n, m), potentials (n,) and (m,), those
    of points without mass minus infinity, and the gap of Frank and Wolfe at the last
    plan that a vertex was looked for from.
    """

    problem: QuadraticProblem
    plan: np.ndarray
    potentials: tuple[np.ndarray, np.ndarray]
    gw_cost: float
    gap: float
    status: Status
    history: tuple[OuterStep, ...]
    seconds: float

    def result(self, n_threads, **more):
        """The `GWResult`; `more` are fields to set."""
        problem, linear, advice = self.problem, 0.0, self.status.advice
        if self.status == Status.PRECISION:
            advice = "no step makes the objective smaller, beyond rounding; try a "
            advice += "larger tol"
        sums = self.plan.sum(axis=1), self.plan.sum(axis=0)
        if problem.is_fused:
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
            advice=advice,
            history=self.history,
            seconds=self.seconds,
            method="cg",
            gap=self.gap,
            **problem.rule.asked(),
            mass=float(self.plan.sum()),
            lost=tuple(
                float(np.maximum(masses - found, 0.0).sum())
                for masses, found in zip((problem.p, problem.q), sums, strict=True)
            ),
        )
        return GWResult(**fields | more)


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
    elif not problem.is_fused:
        matrices += 6 * plan  # where there are ties
    return 8 * (matrices + (8 + problem.is_fused) * plan)

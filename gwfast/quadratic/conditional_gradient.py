"""Problems without regularization by the conditional gradient method (Frank and Wolfe;
for Gromov-Wasserstein Vayer et al., ICML 2019): the linearized problem is solved
exactly, and the plan goes towards its solution, a vertex, as far as that pays.

For costs such as squared distances the objective is concave on the way, and plans end
at a vertex, which has fewer than n + m entries.
"""

import dataclasses
import functools
import time

import numpy as np

from ..kernels import _frank_wolfe
from ..kernels._costs import extent, survey
from ..kernels._frank_wolfe import FrankWolfe
from ..problems.losses import LOSSES
from ..problems.quadratic import QuadraticProblem
from ..results.coupling import ArrayCoupling
from ..results.result import GWResult, LiveStep, OuterStep
from ..results.status import Status
from ..utils.blocks import CACHED_BYTES, row_blocks
from ..utils.deadline import NEVER, Deadline
from . import ties
from .dense_terms import common_shift
from .reference import MAX_ERROR, objective

# Rounding of the objective, as a fraction of the largest of the terms that it is a
# difference of: what no gap and no step is seen below.
ROUNDING = 1e-13
# Operations of descents between two looks at the time: some hundredths of a second.
WORK = 1e8
# Steps in one call of the kernel, at most: most descents of small problems have fewer.
STEPS = 64


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
    weight : float, default=1
        Of the quadratic term.
    keep_all, keep_losses : bool, default=False
        Whether points without mass stay; whether there are `losses`.

    Attributes
    ----------
    some : (k,) ndarray of int
        Points that stay; all that follows is theirs, in float64.
    values : (k, k) ndarray
        What the product is made of, with its weight and sign in the first space.
    losses : (k, k) ndarray or None
        The term of this side alone, the mean of both orientations.
    constants : (k,) ndarray
        Losses times the masses.
    largest, most : float
        Of the absolute values, and of the constants.
    """

    def __init__(
        self, number, geometry, masses, loss, shift, weight=1.0, keep_all=False, keep_losses=False
    ):
        loss.check(geometry.matrix, ("cost_x", "cost_y")[number])
        own = (loss.f1, loss.f2)[number]
        self.n, self.symmetric = geometry.n, geometry.symmetric
        self.some = np.arange(self.n) if keep_all else masses.nonzero()[0]
        self.masses = masses[self.some]
        costs = _part(geometry.matrix, self.some, self.some)
        costs -= shift
        if self.symmetric:  # up to rounding, which would add up in the objective
            costs = (costs + costs.T) * 0.5
        values = loss.h2(costs) if number else -weight * loss.h1(costs)
        self.values, self.losses = np.ascontiguousarray(values), None
        if keep_losses:
            losses = own(costs)
            if not self.symmetric:
                losses = (losses + losses.T) / 2
            self.losses = weight * losses
        self.constants = weight * self._constants(costs, own)
        self.largest = _largest(*survey(self.values)[:2])
        self.most = _largest(*extent(self.constants)[:2])

    def _constants(self, costs, loss):
        made, other = np.empty(len(costs)), 0.0
        for rows in row_blocks(*costs.shape, scratch=CACHED_BYTES):
            losses = loss(costs[rows])
            np.matmul(losses, self.masses, out=made[rows])
            if not self.symmetric:
                other = other + self.masses[rows] @ losses
        return made if self.symmetric else (made + other) / 2

    @functools.cached_property
    def transposed(self):
        """The values, or where these are not symmetric their transpose."""
        return self.values if self.symmetric else np.ascontiguousarray(self.values.T)


def _largest(low, high):
    return max(high, -low)


def _part(matrix, rows, cols):
    """A copy of these rows and columns in float64."""
    if (len(rows), len(cols)) == matrix.shape:
        return np.array(matrix, dtype=np.float64, order="C")
    return matrix[np.ix_(rows, cols)].astype(np.float64)


def whole_plan(plan, x, y):
    """A plan between two `Side` with the points that have no mass."""
    if plan.shape == (x.n, y.n):
        return plan
    made = np.zeros((x.n, y.n))
    made[np.ix_(x.some, y.some)] = plan
    return made


def sides_of(problem):
    """Both spaces of a problem, as `Side`; a ValueError if costs are out of the domain
    of the loss.
    """
    rule, loss = problem.rule, LOSSES[problem.loss]
    x, y = problem.x.to_dense(), problem.y.to_dense()
    shift = 0.0
    if loss.shift_invariant:
        shift = common_shift(x, y, rule.p, rule.q, problem.is_balanced)
    fixed, free = _fixed(rule), not rule.takes_q
    given = loss, shift, problem.alpha if problem.is_fused else 1.0
    return (
        Side(0, x, rule.p, *given, keep_losses=not fixed[0]),
        Side(1, y, rule.q, *given, keep_all=free, keep_losses=not fixed[1]),
    )


def _fixed(rule):
    """Which marginals are given: of these the terms of one side are constants."""
    return not rule.takes_mass, not rule.takes_mass and rule.takes_q


class ConditionalGradient:
    """An exact problem, to be solved from one plan after another: None is the product
    plan, and of an array (n, m) the marginals are mended.

    Attributes
    ----------
    sides : tuple of Side
    """

    def __init__(self, problem, n_threads):
        self.problem, self.n_threads = problem, n_threads
        x, y = self.sides = sides_of(problem)
        linear, mass = None, problem.mass
        if problem.is_fused:
            linear = _part(problem.linear_cost, x.some, y.some)
            linear *= (1.0 - problem.alpha) / 2
        self._is_fused = problem.is_fused
        self._is_bounded = linear is None or linear.min() >= 0
        losses, self._constants, self._constant = [], [], 0.0
        self._magnitude = x.largest * y.largest * mass**2
        for side, fixed in zip((x, y), _fixed(problem.rule), strict=True):
            losses.append(None if fixed else side.losses)
            self._constants.append(side.constants if fixed else 0.0)
            if fixed:
                self._constant += float(side.masses @ side.constants)
                self._magnitude += side.most
        others = None
        if not (x.symmetric and y.symmetric):
            others = x.transposed, y.values
        self._steps = FrankWolfe(
            x.values,
            y.transposed,
            x.masses,
            y.masses,
            problem.rule.name,
            mass,
            linear=linear,
            losses=tuple(losses),
            others=others,
            n_threads=n_threads,
        )

    def solve(self, plan, limits, callback=None, report=None):
        """From a plan: an `ExactSolution`. ``report(objective)`` is called for the plan
        and for that after each step.
        """
        began, traces, status = time.perf_counter(), [], None
        steps, options = self._started(plan, limits)
        if plan is None and self._may_tie:
            late = limits.deadline.passed
            given = *self.sides, self.directions, limits.max_outer, options, WORK, late
            ties.break_ties(steps, *given)
        if report is not None:
            report(steps.value + self._constant)
        most = STEPS if callback is None else 1
        while status is None:
            before, trace = steps.n_steps, np.empty((most, 3))
            offset = time.perf_counter() - began
            left = max(min(most, limits.max_outer - before), 1)
            moves = steps.advance(left, *options, WORK, trace)
            trace = trace[: steps.n_steps - before]
            trace += self._constant, 0.0, offset
            traces.append(trace)
            for value in trace[:, 0].tolist() if report is not None else ():
                report(value)
            if len(trace) and callback is not None:
                step = outer_step(steps.n_steps, trace[-1])
                if self._stops(callback, step, steps):
                    status = Status.STOPPED
            if status is None:
                status = self._status(moves, steps, limits)
        return self._solution(steps, status, np.concatenate(traces), began)

    @functools.cached_property
    def directions(self):
        """See `ties.directions`."""
        return ties.directions(self._steps, *self.sides)

    def is_least(self, cost):
        """Whether no plan can be below this objective, up to rounding: it is a mean of
        losses, and of linear costs, if these are not negative.
        """
        return self._is_bounded and cost <= ROUNDING * self._magnitude

    def are_equal(self, cost, other):
        """Return whether objectives differ by rounding."""
        return abs(cost - other) <= 10 * ROUNDING * self._magnitude

    def _started(self, plan, limits):
        """The steps at a plan, and what they are to be told."""
        steps = self._steps
        floor = ROUNDING * self._magnitude
        if plan is None:
            steps.start()
        else:
            x, y = self.sides
            steps.start(_part(plan, x.some, y.some))
        options = limits.tol, floor, limits.min_change, limits.min_relative
        return steps, (*options, self._constant)

    @functools.cached_property
    def _may_tie(self):
        plain = not self._is_fused and self.problem.is_balanced
        symmetric = all(side.symmetric for side in self.sides)
        return plain and symmetric and ties.may_tie(*self.sides)

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

    def _stops(self, callback, step, steps):
        def make_coupling():
            return ArrayCoupling(self._whole(steps.plan), 1)

        return LiveStep.stops(callback, step, make_coupling)

    def _whole(self, plan):
        return whole_plan(plan, *self.sides)

    def _precise(self, plan):
        """The objective of a plan, whose terms cancel."""
        problem, linear = self.problem, 0.0
        if problem.is_fused:
            linear = float(np.vdot(problem.linear_cost, plan))
        return objective(problem, ArrayCoupling(plan, self.n_threads), linear)

    def _solution(self, steps, status, trace, began):
        # Those of the last linear program, with the separable terms.
        potentials = []
        given = self.sides, self._steps.potentials(), self._constants
        for side, *both in zip(*given, strict=True):
            made = both[0] + both[1]
            if len(made) < side.n:
                made, some = np.full(side.n, -np.inf), made
                made[side.some] = some
            potentials.append(made)
        plan, gw_cost = self._whole(steps.plan), steps.value + self._constant
        if not self._is_fused:  # a mean of losses
            gw_cost = max(gw_cost, 0.0)
        if ROUNDING * self._magnitude > MAX_ERROR * abs(gw_cost):
            gw_cost = self._precise(plan)
        return ExactSolution(
            problem=self.problem,
            plan=plan,
            potentials=tuple(potentials),
            gw_cost=gw_cost,
            gap=max(steps.gap, 0.0),
            status=status,
            trace=trace,
            seconds=time.perf_counter() - began,
        )


def outer_step(number, step):
    """The `OuterStep` of a row of `ExactSolution.trace`."""
    gw_cost, change, seconds = step.tolist()
    return OuterStep(
        iteration=number,
        gw_cost=gw_cost,
        epsilon=0.0,
        change=change,
        marginal_error=0.0,
        n_inner=0,
        seconds=seconds,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class ExactSolution:
    """Where conditional gradient ended: a plan (n, m), potentials (n,) and (m,), those of points
    without mass minus infinity, and the gap of Frank and Wolfe at the last plan that a vertex was
    looked for from. The `trace` (k, 3) has the objective, the length and the time of each step.
    """

    problem: QuadraticProblem
    plan: np.ndarray
    potentials: tuple[np.ndarray, np.ndarray]
    gw_cost: float
    gap: float
    status: Status
    trace: np.ndarray
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
            n_outer=len(self.trace),
            n_inner=0,
            status=self.status,
            advice=advice,
            history=tuple(outer_step(k + 1, step) for k, step in enumerate(self.trace)),
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
        matrices += squares  # where there are ties
    return 8 * (matrices + (8 + problem.is_fused) * plan)

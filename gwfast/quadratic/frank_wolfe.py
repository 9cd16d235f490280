"""Problems without regularization by conditional gradient (Frank and Wolfe; for Gromov-Wasserstein
Vayer et al., ICML 2019): the linearized problem is solved exactly, and the plan goes towards its
solution, a vertex, as far as that pays.

For costs such as squared distances the objective is concave on the way, and plans end at a vertex,
which has fewer than n + m entries. From the product plan the costs of the first linear program are
products of two numbers, one a point: how far the point is from all others. If some of these are
equal, as in hop distances, so are many vertices. To second order the objective falls fastest
towards products of leading eigenvectors of the centered costs, with either sign: descents begin
along these as well.
"""

import dataclasses
import functools
import itertools
import time

import numpy as np
from scipy.linalg import lapack

from ..kernels import _frank_wolfe
from ..kernels.threads import single_threaded_blas
from ..problems.losses import LOSSES
from ..problems.quadratic import QuadraticProblem
from ..results.coupling import ArrayCoupling
from ..results.result import GWResult, LiveStep, OuterStep
from ..results.status import Status
from ..utils.deadline import NEVER, Deadline
from .certificate import MAX_ERROR, objective
from .dense import common_shift

# Rounding of the objective, as a fraction of the largest of the terms that it is a difference of.
ROUNDING = 1e-13
# Seconds of descents between two looks at the time.
SLICE = 0.03


@dataclasses.dataclass(frozen=True)
class ExactLimits:
    """When conditional gradient ends: at a gap of `tol` of the objective, or, by POT's weaker rule,
    at these absolute and relative changes of the objective in a step.
    """

    max_outer: int = 1000
    tol: float = 1e-5
    min_change: float = 0.0
    min_relative: float = 0.0
    deadline: Deadline = NEVER


class Side:
    """One space of exact problems, the first or the second, to be made once for all of them.

    `some` are its points, in float64 and less `shift`: all with mass, or with `free` all. The
    product is made of `values`, with weight and sign in the first space, and of their transpose.
    `losses` are the term of this side alone, kept if its marginal is not given, and `constants` are
    losses times the masses; `largest` and `most` are the largest absolute values of `values` and
    of `constants`.
    """

    def __init__(
        self, number, geometry, masses, loss, shift, weight=1.0, free=False, keep_losses=False,
        one_sided=False,
    ):  # fmt: skip
        loss.check(geometry.matrix, ("cost_x", "cost_y")[number])
        self.number, self.n, self.symmetric = number, geometry.n, geometry.symmetric
        self.some = np.arange(self.n) if free else masses.nonzero()[0]
        self.masses = masses[self.some]
        costs = _part(geometry.matrix, self.some, self.some) - shift
        if self.symmetric:  # up to rounding, which would add up in the objective
            costs = (costs + costs.T) * 0.5
        values = loss.h2(costs) if number else -weight * loss.h1(costs)
        losses = weight * (loss.f2 if number else loss.f1)(costs)
        if not (self.symmetric or one_sided):
            losses = (losses + losses.T) / 2
        self.values = self.transposed = np.ascontiguousarray(values)
        if not self.symmetric:
            self.transposed = np.ascontiguousarray(values.T)
        self.constants = losses @ self.masses
        self.losses = losses if keep_losses else None
        self.largest = float(np.abs(self.values).max())
        self.most = float(np.abs(self.constants).max())

    def directions(self, k):
        """Return `directions` of minus the costs."""
        return directions(-self.values if self.number else self.values, self.masses, k)


def has_ties(costs, masses):
    """Return whether points are equally far from all others."""
    means = np.sort(costs @ masses)
    return bool((np.diff(means) <= 1e-12 * np.abs(costs).max() * masses.sum()).any())


def directions(matrix, masses, k):
    """Return at most k leading eigenvectors (k, n) of a matrix, minus the costs, centered: products
    of two eigenvectors, one a side, change the product plan by at most a factor.
    """
    n, k, root = len(matrix), min(k, len(matrix)), np.sqrt(masses)
    least = 1e-12 * np.abs(matrix).max() * masses.sum()
    matrix = matrix - matrix @ masses[:, None]
    matrix = (matrix - masses @ matrix) * np.multiply.outer(root, root)
    # SciPy's checks take longer than a few points.
    with single_threaded_blas(n):
        sizes, vectors, *_ = lapack.dsyevr(
            matrix.T, range="I", il=n - k + 1, iu=n, lower=1, overwrite_a=1
        )
    sizes, vectors = sizes[:k][::-1], vectors.T[:k][::-1]
    sizes, vectors = sizes[sizes > least], vectors[sizes > least]
    # With a third or a tenth of the factor 10 ends are .2 % higher.
    return np.ascontiguousarray(np.sqrt(10.0 * sizes / sizes[:1])[:, None] * vectors / root)


def _part(matrix, rows, cols):
    """Return a copy of these rows and columns in float64."""
    if (len(rows), len(cols)) == matrix.shape:
        return np.array(matrix, dtype=np.float64, order="C")
    return matrix[np.ix_(rows, cols)].astype(np.float64)


def whole_plan(plan, x, y):
    """Return a plan between two `Side` with the points that have no mass."""
    if plan.shape == (x.n, y.n):
        return plan
    made = np.zeros((x.n, y.n))
    made[np.ix_(x.some, y.some)] = plan
    return made


class FrankWolfe:
    """An exact problem, to be solved from one plan after another; with `one_sided` as POT solves it
    if it takes costs that are not symmetric for symmetric.

    Attributes
    ----------
    sides : tuple of Side
    """

    def __init__(self, problem, n_threads, one_sided=False):
        self.problem, self.n_threads, self._one_sided = problem, n_threads, one_sided
        rule, loss, shift, fused = problem.rule, LOSSES[problem.loss], 0.0, problem.is_fused
        geometries = problem.x.to_dense(), problem.y.to_dense()
        if loss.shift_invariant:
            middles = geometries[0].middle_of(rule.p), geometries[1].middle_of(rule.q)
            shift = common_shift(*geometries, middles, problem.is_balanced)
        # The losses of a side whose marginal is given are constants.
        fixed = not rule.takes_mass, not rule.takes_mass and rule.takes_q
        self._fixed, weight = fixed, problem.alpha if fused else 1.0
        x = Side(0, geometries[0], rule.p, loss, shift, weight, False, not fixed[0], one_sided)
        free = not rule.takes_q
        y = Side(1, geometries[1], rule.q, loss, shift, weight, free, not fixed[1], one_sided)
        self.sides = x, y
        linear, self._magnitude = None, x.largest * y.largest * problem.mass**2
        if fused:
            linear = _part(problem.linear_cost, x.some, y.some)
            linear *= (1.0 - problem.alpha) / 2
        self._is_bounded = linear is None or linear.min() >= 0
        self._constant = 0.0
        for side in itertools.compress(self.sides, fixed):
            self._constant += float(side.masses @ side.constants)
            self._magnitude += side.most
        self._symmetric = x.symmetric and y.symmetric
        self._steps = _frank_wolfe.FrankWolfe(
            x.values,
            y.transposed,
            x.masses,
            y.masses,
            rule.name,
            problem.mass,
            linear=linear,
            losses=(x.losses, y.losses),
            others=None if self._symmetric or one_sided else (x.transposed, y.values),
            n_threads=n_threads,
            one_sided=one_sided,
        )

    def solve(self, plan, limits, callback=None):
        """Return the `ExactSolution` from a plan (n, m), whose marginals are mended; None is the
        product plan and, if vertices tie there, the best of that and plans along eigenvectors.
        """
        began, best = time.perf_counter(), None
        if plan is None and self._may_tie:
            plan, best = self._untie(limits, began)
        if best is None or callback is not None:
            best = self._descend(plan, limits, callback, began)
        return best

    def turned(self):
        """Yield names and plans: the product plan turned along leading eigenvectors of either side,
        for each choice of their signs. There are none if costs are not symmetric, or if it takes
        longer than some steps to find eigenvectors.
        """
        k = len(self._directions[0])
        for signs in itertools.product((1.0, -1.0), repeat=k) if k else ():
            label = "".join("+" if sign > 0 else "-" for sign in signs)
            yield f"annealed eigenvectors {label}", self._turn(signs)

    def _turn(self, signs):
        (x, y), (rows, cols) = self.sides, self._directions
        plan = 1.0 + (rows.T * signs) @ cols
        plan = np.multiply.outer(x.masses, y.masses) * np.maximum(plan, 0.0)
        return whole_plan(self.problem.mass / plan.sum() * plan, x, y)

    @functools.cached_property
    def _directions(self):
        """Return equally many leading eigenvectors of both sides."""
        n, m = self._steps.n, self._steps.m
        suits = self._symmetric and max(n, m) ** 3 <= 10 * n * m * (n + m)
        # If vertices tie, descents along three eigenvectors end 14 % lower than without.
        k = 3 if suits and self.sides[1].masses.all() else 0
        rows, cols = (side.directions(k) if k else np.empty((0, 1)) for side in self.sides)
        k = min(len(rows), len(cols))
        return rows[:k], cols[:k]

    def _untie(self, limits, began):
        """Return the start that leads lowest, and its `ExactSolution`: the product plan, or a plan
        turned with signs that are changed one after another if that leads lower.
        """
        start, best, least = None, self._descend(None, limits, None, began), np.inf
        k = len(self._directions[0])
        signs = np.ones(k)
        for number in range(-1, k) if k else ():
            if limits.deadline.passed() or self.is_least(best.gw_cost):
                break
            trial = np.where(np.arange(k) == number, -signs, signs)
            plan = self._turn(trial)
            solution = self._descend(plan, limits, None, began)
            if solution.gw_cost < least:
                signs, least = trial, solution.gw_cost
            if solution.gw_cost < best.gw_cost:
                start, best = plan, solution
        return start, best

    def is_least(self, cost):
        """Return whether no plan can be below this objective, up to rounding: it is a mean of
        losses, and of linear costs, if these are not negative.
        """
        return self._is_bounded and cost <= ROUNDING * self._magnitude

    def are_equal(self, cost, other):
        """Return whether objectives differ by rounding."""
        return abs(cost - other) <= 10 * ROUNDING * self._magnitude

    @functools.cached_property
    def _may_tie(self):
        plain = self._symmetric and not self.problem.is_fused and self.problem.is_balanced
        return plain and any(has_ties(side.values, side.masses) for side in self.sides)

    def _descend(self, plan, limits, callback, began):
        """Return the `ExactSolution` of one descent."""
        steps, (x, y), traces, status = self._steps, self.sides, [], None
        steps.start(None if plan is None else _part(plan, x.some, y.some))
        first = steps.value + self._constant
        while status is None:
            # Most descents of small problems have fewer steps.
            most = min(64 if callback is None else 1, limits.max_outer - steps.n_steps)
            before, trace = steps.n_steps, np.empty((max(most, 1), 3))
            offset = time.perf_counter() - began
            ended = steps.advance(
                max(most, 1),
                limits.tol,
                ROUNDING * self._magnitude,
                limits.min_change,
                limits.min_relative,
                self._constant,
                SLICE,
                trace,
            )
            traces.append(trace[: steps.n_steps - before])
            traces[-1] += self._constant, 0.0, offset
            if len(traces[-1]) and callback is not None:
                step = outer_step(steps.n_steps, traces[-1][-1])
                if LiveStep.stops(callback, step, self._coupling):
                    status = Status.STOPPED
            if status is None:
                status = self._status(ended, limits)
        return self._solution(status, first, np.concatenate(traces), began)

    def _coupling(self):
        return ArrayCoupling(whole_plan(self._steps.plan, *self.sides), 1)

    def _status(self, ended, limits):
        """Return why the steps end, or None."""
        if ended == _frank_wolfe.CONVERGED:
            return Status.CONVERGED
        if ended == _frank_wolfe.STALLED:
            asked = limits.min_change or limits.min_relative
            return Status.CONVERGED if asked else Status.PRECISION
        if limits.deadline.passed():
            return Status.TIME_LIMIT
        return Status.MAX_OUTER if self._steps.n_steps >= limits.max_outer else None

    def _solution(self, status, first, trace, began):
        # From the last linear program, with the separable terms.
        potentials = []
        for side, made, fixed in zip(
            self.sides, self._steps.potentials(), self._fixed, strict=True
        ):
            potentials.append(np.full(side.n, -np.inf))
            potentials[-1][side.some] = made + side.constants if fixed else made
        plan, gw_cost = self._coupling().toarray(), self._steps.value + self._constant
        if not (self.problem.is_fused or self._one_sided):  # a mean of losses
            gw_cost = max(gw_cost, 0.0)
        if ROUNDING * self._magnitude > MAX_ERROR * abs(gw_cost) and not self._one_sided:
            linear = self.problem.linear_cost
            linear = 0.0 if linear is None else float(np.vdot(linear, plan))
            gw_cost = objective(self.problem, ArrayCoupling(plan, self.n_threads), linear)
        return ExactSolution(
            problem=self.problem,
            plan=plan,
            potentials=tuple(potentials),
            gw_cost=gw_cost,
            gap=max(self._steps.gap, 0.0),
            status=status,
            first=first,
            trace=trace,
            seconds=time.perf_counter() - began,
        )


def outer_step(number, step):
    """Return the `OuterStep` of a row of `ExactSolution.trace`."""
    gw_cost, change, seconds = step.tolist()
    return OuterStep(number, gw_cost, 0.0, change, 0.0, 0, seconds)


@dataclasses.dataclass(frozen=True, eq=False)
class ExactSolution:
    """A plan (n, m), potentials (n,) and (m,), minus infinity for points without mass, and the gap
    of Frank and Wolfe at the last plan that a vertex was looked for from. `first` is the objective
    of the start; the `trace` (k, 3) has the objective, the length and the time of each step.
    """

    problem: QuadraticProblem
    plan: np.ndarray
    potentials: tuple[np.ndarray, np.ndarray]
    gw_cost: float
    gap: float
    status: Status
    first: float
    trace: np.ndarray
    seconds: float

    def result(self, n_threads, **more):
        """Return the `GWResult`; `more` are fields to set."""
        problem, linear, advice = self.problem, 0.0, self.status.advice
        if self.status == Status.PRECISION:
            advice = "no step makes the objective smaller, beyond rounding; try a larger tol"
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
    """Return an upper bound of the memory of a solve, less its costs, in bytes."""
    n, m = problem.shape
    squares, plan = n * n + m * m, n * m
    # Both sides, their parts in products, and scratch; transposes and losses.
    symmetric = problem.x.symmetric and problem.y.symmetric
    matrices = (5 if symmetric else 7) * squares + (0 if symmetric else plan)
    if not problem.is_balanced:
        matrices += squares + plan
    return 8 * (matrices + (8 + problem.is_fused) * plan)

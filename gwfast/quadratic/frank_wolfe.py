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

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.linalg import lapack

from ..kernels import _frank_wolfe
from ..kernels.threads import single_threaded_blas
from ..problems.dense_cost import DenseCost
from ..problems.losses import LOSSES
from ..problems.quadratic import QuadraticProblem
from ..results.coupling import ArrayCoupling
from ..results.records import LiveStep, OuterStep
from ..results.result import GWResult
from ..results.status import Ending
from ..utils.deadline import NEVER, Deadline
from ..utils.types import Float64Array, FloatArray, IntArray
from .certificate import MAX_ERROR, objective
from .cost_side import CostSide
from .dense import common_shift

if TYPE_CHECKING:
    from ..problems.losses import Loss
    from ..results.records import Callback

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


def exact_side(
    number: int,
    geometry: DenseCost,
    points: IntArray,
    masses: Float64Array,
    loss: Loss,
    shift: float,
    weight: float,
    fixed: bool,
    one_sided: bool = False,
) -> CostSide:
    """Return the `CostSide` of some points in exact problems, in float64 and without a center; sign
    and weight of the quadratic term go into the first one. Its marginal is `fixed` or not. With
    `one_sided` costs stay as they are.
    """
    if one_sided:
        # Costs that are read as symmetric may be read by columns.
        matrix = np.ascontiguousarray(geometry.matrix)
        geometry = DenseCost.from_checked(matrix, "cost", symmetric=True)
    if len(points) < geometry.n:
        geometry = geometry.take(points)
    # A linear h is zero at the shift.
    middle = shift if fixed and loss.keeps_factors else None
    side = CostSide(number, geometry, masses, loss, shift, middle)
    side.make((1.0 if number else -weight) * side.scale, np.float64)
    if geometry.is_rounded and not one_sided:  # rounding would add up in the objective
        side.matrix = (side.matrix + side.matrix.T) / 2
        if side.losses is not None:
            side.losses = (side.losses + side.losses.T) / 2
    return side


def has_ties(costs: Float64Array, masses: Float64Array) -> bool:
    """Return whether points are equally far from all others."""
    means = costs @ masses
    means.sort()
    least = (means[1:] - means[:-1]).min(initial=np.inf)
    return bool(least <= 1e-12 * np.abs(costs).max() * masses.sum())


def random_plans(
    rng: np.random.Generator, product: FloatArray, mass: float, count: int
) -> FloatArray:
    """Return plans (count, n, m) of independent exponential entries times the product plan (n, m),
    with its dtype and its mass: they have about its marginals.
    """
    plans = rng.standard_exponential((count, *product.shape), dtype=product.dtype)
    plans *= product
    plans *= (mass / plans.sum(axis=(1, 2)))[:, None, None]
    return plans


def directions(matrix: Float64Array, masses: Float64Array, k: int) -> Float64Array:
    """Return at most k leading eigenvectors (k, n) of a matrix, minus the costs, centered and of
    positive skewness: products of two eigenvectors, one a side, change the product plan by at most
    a factor.
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
    sizes, vectors = sizes[sizes > least], vectors[sizes > least] / root
    vectors *= np.where(vectors**3 @ masses < 0, -1.0, 1.0)[:, None]
    # With a third or a tenth of the factor 10 ends are .2 % higher.
    return np.ascontiguousarray(np.sqrt(10.0 * sizes / sizes[:1])[:, None] * vectors)


class FrankWolfe:
    """An exact problem, to be solved from one plan after another; with `one_sided` as POT solves it
    if it takes costs that are not symmetric for symmetric.
    """

    def __init__(self, problem: QuadraticProblem, n_threads: int, one_sided: bool = False) -> None:
        self.problem, self.n_threads, self._one_sided = problem, n_threads, one_sided
        rule, loss, shift = problem.rule, LOSSES[problem.loss], 0.0
        alpha, linear = problem.alpha if problem.is_fused else 1.0, None
        x, y = problem.x.to_dense(), problem.y.to_dense()
        self._is_symmetric = x.symmetric and y.symmetric
        if loss.shift_invariant:
            middles = x.middle_of(rule.p), y.middle_of(rule.q)
            shift = common_shift(x, y, middles, problem.is_balanced)
        free = np.arange(y.n)
        self._points = rule.p.nonzero()[0], rule.q.nonzero()[0] if rule.takes_q else free
        self._has_all = problem.shape == tuple(map(len, self._points))
        self._masses = p, q = rule.p[self._points[0]], rule.q[self._points[1]]
        self._constants, self._constant, losses = [], 0.0, []
        fixed = not rule.takes_mass, problem.is_balanced
        left_side = exact_side(0, x, self._points[0], p, loss, shift, alpha, fixed[0], one_sided)
        right_side = exact_side(1, y, self._points[1], q, loss, shift, alpha, fixed[1], one_sided)
        self._values = left, right = left_side.matrix, right_side.matrix
        self._magnitude = float(abs(left).max() * abs(right).max()) * problem.mass**2
        # The losses of a side whose marginal is given are constants.
        for side, is_fixed in zip((left_side, right_side), fixed, strict=True):
            constants = alpha * side.linear * is_fixed
            self._constants.append(constants)
            self._constant += float(side.masses @ constants)
            self._magnitude += float(abs(constants).max())
            losses.append(None if is_fixed else alpha * side.loss_scale * side.losses)
        if problem.is_fused:
            linear = cast(FloatArray, problem.linear_cost)[np.ix_(*self._points)].astype(np.float64)
            linear *= (1.0 - alpha) / 2
        self._is_bounded = linear is None or linear.min() >= 0
        transposed = [left, right] if self._is_symmetric else [left.T.copy(), right.T.copy()]
        self._steps = _frank_wolfe.FrankWolfe(
            left, transposed[1], p, q, rule.name, problem.mass, linear=linear,
            losses=(losses[0], losses[1]),
            others=None if self._is_symmetric or one_sided else (transposed[0], right),
            n_threads=n_threads, one_sided=one_sided,
        )  # fmt: skip

    def solve(
        self,
        plan: FloatArray | None,
        limits: ExactLimits,
        callback: Callback | None = None,
        n_random: int = 0,
    ) -> ExactSolution:
        """Return the `ExactSolution` from a plan (n, m), whose marginals are mended. None is the
        product plan; where points tie, also the best of the plans along eigenvectors, after a step,
        and with free marginals also of `n_random` plans, after 300 steps.
        """
        began, best = time.perf_counter(), None
        costs: Float64Array = np.empty(0)
        given = self.problem.is_balanced
        if plan is None and self._may_tie and (given or n_random):
            best = self._descend(None, limits, None, began)
            starts = [plan for _, plan in self.perturbed(2)]
            if not given:
                starts += [*self._full(self._random(n_random))]
            if starts and not (limits.deadline.passed() or self.is_least(best.gw_cost)):
                # Descents of free marginals are compared early: some take thousands of steps.
                few = dataclasses.replace(limits, max_outer=1 if given else 300)
                _, costs, _ = self.descend_each(np.array(starts), few)
            if len(costs):
                start = starts[costs.argmin()]
                one = self._descend(start, limits, None, began)
                if one.gw_cost < best.gw_cost:
                    plan, best = start, one
        if best is None or callback is not None:
            best = self._descend(plan, limits, callback, began)
        return best

    def _random(self, count: int) -> FloatArray:
        product = np.multiply.outer(*self._masses)
        return random_plans(np.random.default_rng(0), product, self.problem.mass, count)

    def perturbed(self, k: int = 3) -> Iterator[tuple[str, FloatArray]]:
        """Yield names and plans: the product plan perturbed along k leading eigenvectors of either
        side, for each choice of their signs. There are none if costs are not symmetric, or if it
        takes longer than some steps to find eigenvectors.
        """
        rows, cols = self._directions
        k = min(k, len(rows), len(cols))
        for signs in itertools.product((1.0, -1.0), repeat=k) if k else ():
            plan = np.maximum(1.0 + (rows[:k].T * signs) @ cols[:k], 0.0)
            plan *= np.multiply.outer(*self._masses)
            label = "".join("+" if sign > 0 else "-" for sign in signs)
            plan *= self.problem.mass / plan.sum()
            yield f"annealed eigenvectors {label}", self._full(plan)

    def permutations(self, count: int) -> Float64Array:
        """Return the permutations with the lowest objectives as plans (count, n, n), for few points
        of equal masses; none for more points, with linear costs or free marginals.
        """
        (left, right), (p, q), problem = self._values, self._masses, self.problem
        n, even = len(p), all(np.ptp(x) <= 1e-12 * x.max() for x in (p, q))
        known = problem.is_balanced and not problem.is_fused and even and self._has_all
        # The 5040 permutations of 7 points take a millisecond.
        if n != len(q) or n > 7 or not known:
            return np.empty((0, *problem.shape))
        orders = np.array(list(itertools.permutations(range(n))))
        values = (left * right[orders[:, :, None], orders[:, None, :]]).sum(axis=(1, 2))
        best = orders[np.argsort(values, kind="stable")[:count]]
        return np.eye(n)[best] * p[0]

    @functools.cached_property
    def _directions(self) -> tuple[Any, Any]:
        """Return leading eigenvectors of minus the costs of both sides."""
        (x, y), (p, q) = self._values, self._masses
        n, m = len(p), len(q)
        if not (self._is_symmetric and q.all() and max(n, m) ** 3 <= 10 * n * m * (n + m)):
            return (), ()
        # If vertices tie, descents along eigenvectors end up to 14 % lower than without.
        return directions(x, p, 3), directions(-y, q, 3)

    @functools.cached_property
    def _entries(self) -> tuple[Any, ...]:
        """Indices of the entries of plans (..., n, m) of points with mass."""
        return (Ellipsis, *np.ix_(*self._points))

    def _full(self, plan: FloatArray) -> FloatArray:
        """Return plans (..., n, m) with the points that have no mass."""
        if self._has_all:
            return plan
        full = np.zeros(plan.shape[:-2] + self.problem.shape)
        full[self._entries] = plan
        return full

    def is_least(self, cost: float) -> bool:
        """Return whether no plan can be below this objective, up to rounding: it is a mean of
        losses, and of linear costs, if these are not negative. Or there is one plan alone.
        """
        if self.problem.is_balanced and min(map(len, self._points)) == 1:
            return True
        return self._is_bounded and cost <= ROUNDING * self._magnitude

    def are_equal(self, cost: float, other: float) -> bool:
        """Return whether objectives differ by rounding."""
        return abs(cost - other) <= 10 * ROUNDING * self._magnitude

    @functools.cached_property
    def _may_tie(self) -> bool:
        plain = self._is_symmetric and not self.problem.is_fused
        return plain and any(map(has_ties, self._values, self._masses))

    def _descend(
        self, plan: FloatArray | None, limits: ExactLimits, callback: Callback | None, began: float
    ) -> ExactSolution:
        """Return the `ExactSolution` of one descent."""
        problem, steps, traces, status = self.problem, self._steps, [], None
        rounding = ROUNDING * self._magnitude
        steps.start(None if plan is None else self._part(plan))
        first = steps.value + self._constant
        while status is None:
            # Most descents of small problems have fewer steps.
            most = max(min(64 if callback is None else 1, limits.max_outer - steps.n_steps), 1)
            before, trace = steps.n_steps, np.empty((most, 3))
            offset = time.perf_counter() - began
            ended = steps.advance(
                most,
                limits.tol,
                rounding,
                limits.min_change,
                limits.min_relative,
                self._constant,
                SLICE,
                trace,
            )
            traces.append(trace[: steps.n_steps - before] + np.array([self._constant, 0.0, offset]))
            stops = False
            if len(traces[-1]) and callback is not None:
                step = outer_step(steps.n_steps, traces[-1][-1])
                stops = LiveStep.stops(callback, step, self._coupling)
            asked = limits.min_change or limits.min_relative
            if stops:
                status = Ending.STOPPED
            elif ended == _frank_wolfe.CONVERGED or (ended == _frank_wolfe.STALLED and asked):
                status = Ending.CONVERGED
            elif ended == _frank_wolfe.STALLED:
                status = Ending.PRECISION
            elif limits.deadline.passed():
                status = Ending.TIME_LIMIT
            elif steps.n_steps >= limits.max_outer:
                status = Ending.MAX_OUTER
        # From the last linear program, with the separable terms.
        potentials = np.full(problem.shape[0], -np.inf), np.full(problem.shape[1], -np.inf)
        sides = zip(potentials, self._points, steps.potentials(), self._constants, strict=True)
        for full, points, made, constants in sides:
            full[points] = made + constants
        coupling, gw_cost = self._coupling(), steps.value + self._constant
        gw_cost = self._not_negative(gw_cost)
        if rounding > MAX_ERROR * abs(gw_cost) and not self._one_sided:
            cost = problem.linear_cost
            linear = 0.0 if cost is None else float(np.vdot(cost, coupling.toarray()))
            gw_cost = objective(problem, coupling, linear)
        return ExactSolution(
            problem,
            coupling.toarray(),
            potentials,
            gw_cost,
            max(steps.gap, 0.0),
            status,
            first,
            np.concatenate(traces),
            time.perf_counter() - began,
        )

    def descend_each(
        self, plans: FloatArray, limits: ExactLimits
    ) -> tuple[FloatArray, Float64Array, IntArray]:
        """Return the plans that descents from some plans (k, n, m) lead to, their objectives with
        the rounding of the loop, and the numbers of steps. There are fewer at the deadline.
        """
        starts = np.ascontiguousarray(self._part(plans), np.float64)
        np.maximum(starts, 0.0, out=starts)
        ends, done = np.zeros((len(starts), 2)), 0
        while done < len(starts) and not limits.deadline.passed():
            done = self._steps.descend_each(
                starts,
                ends,
                done,
                limits.max_outer,
                limits.tol,
                ROUNDING * self._magnitude,
                limits.min_change,
                limits.min_relative,
                self._constant,
                SLICE,
            )
        costs = self._not_negative(ends[:done, 0] + self._constant)
        return self._full(starts[:done]), costs, ends[:done, 1].astype(int)

    def _part(self, plans: FloatArray) -> Any:
        """Return plans (..., n, m), of points with mass alone; rows are scaled to their masses if
        only these are given.
        """
        if not self.problem.rule.takes_q:
            plans = np.where(plans.sum(axis=-1, keepdims=True) > 0, plans, 1.0).astype(np.float64)
            plans *= self.problem.p[:, None] / plans.sum(axis=-1, keepdims=True)
        return plans if self._has_all else plans[self._entries]

    def _not_negative(self, costs: Any) -> Any:
        """Return objectives, which are means of losses unless there are linear costs."""
        is_mean = not (self.problem.is_fused or self._one_sided)
        return np.maximum(costs, 0.0) if is_mean else costs

    def _coupling(self) -> ArrayCoupling:
        return ArrayCoupling(self._full(self._steps.plan), self.n_threads)


def outer_step(number: int, step: Float64Array) -> OuterStep:
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
    status: Ending
    first: float
    trace: np.ndarray
    seconds: float

    def result(self, n_threads: int, **more: Any) -> GWResult:
        """Return the `GWResult`; `more` are fields to set."""
        problem, linear, advice = self.problem, 0.0, self.status.advice
        if self.status == Ending.PRECISION:
            advice = "no step makes the objective smaller, beyond rounding; try a larger tol"
        sums = self.plan.sum(axis=1), self.plan.sum(axis=0)
        if problem.is_fused:
            linear = float(np.vdot(problem.linear_cost, self.plan))
        fields: dict[str, Any] = dict(
            coupling=ArrayCoupling(self.plan, n_threads),
            potentials=self.potentials,
            gw_cost=self.gw_cost,
            linear_cost=linear,
            reg_cost=self.gw_cost,
            epsilon=0.0,
            marginal_error=problem.rule.error(*sums),
            ending=self.status,
            advice=advice,
            history=tuple(outer_step(k + 1, step) for k, step in enumerate(self.trace)),
            marginals=problem.rule.asked(),
            method="cg",
            gap=self.gap,
            seconds=self.seconds,
        )
        return GWResult(**fields | more)


def nbytes(problem: QuadraticProblem) -> int:
    """Return an upper bound of the memory of a solve, less its costs, in bytes."""
    n, m = problem.shape
    squares, plan = n * n + m * m, n * m
    # Both sides, their parts in products, and scratch; transposes and losses.
    symmetric = problem.x.symmetric and problem.y.symmetric
    matrices = (5 if symmetric else 7) * squares + (0 if symmetric else plan)
    if not problem.is_balanced:
        matrices += squares + plan
    return 8 * (matrices + (8 + problem.is_fused) * plan)

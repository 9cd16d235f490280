"""The linearized cost of any loss between any matrices of costs: two products of matrices.

An asymmetric cost has two linearized costs, one of its transpose; their mean is half the gradient
of the objective. The product is linear in the plan, so that acceleration combines products.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import DTypeLike

from ..kernels import _exponentials, _kernels
from ..kernels._products import Panels
from ..kernels._rows import Shifted, aligned_empty
from ..linear.gibbs_kernel import StoredKernel
from ..problems.dense_cost import DenseCost
from ..problems.losses import LOSSES
from ..results.coupling import ArrayCoupling, Coupling
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER, Deadline
from ..utils.precision import SINGLE, FloatPrecision
from ..utils.tuning import DEFAULT, Tuning
from ..utils.types import Float64Array, FloatArray, IntArray
from .acceleration import DEPTH
from .cost_side import CostSide
from .low_rank import (
    MOST,
    Factor,
    LeadingFactors,
    LowRankPart,
    Outer,
    Product,
    Reference,
    multiply,
    suits,
)
from .methods import PGD
from .small_descent import suits_descent
from .state import Linearization, OwnKernel, State, combined, not_negative

if TYPE_CHECKING:
    from ..linear.log_domain import Potentials
    from ..linear.sinkhorn_solver import LinearSolution
    from ..problems.quadratic import QuadraticProblem
    from .methods import Method

# Rows of a plan that stand for all in acceleration, by the bytes of a number.
SAMPLE_ROWS = {4: 64, 8: 32}


class DenseLinearization(Linearization):
    """Any loss between any costs, and costs between the spaces; the moments are the product.

    Attributes
    ----------
    sides : tuple of CostSide
    orientations : list of (matrix, Panels or Shifted)
        The left and the right matrix as `multiply` takes them, and of asymmetric costs the
        transposes of both: the product is the mean.
    fused : (n, m) ndarray or None
        Half of ``(1 - alpha) linear_cost`` less `fused_middle`, in units of `cost_scale`.
    """

    # With 0.1, 5 of 30 random problems (epsilon a tenth of the objective of the product plan) ended
    # in another optimum than POT's exact inner solutions lead to, with 0.01 none.
    inner_fraction, inner_limit = 0.01, 200
    change_is_rounded = True

    def __init__(
        self,
        problem: QuadraticProblem,
        n_threads: int,
        *,
        method: Method = PGD,
        precision: FloatPrecision = SINGLE,
        deadline: Deadline = NEVER,
        tuning: Tuning = DEFAULT,
    ) -> None:
        super().__init__(problem, n_threads, precision, tuning)
        self.method, self._deadline, dtype = method, deadline, precision.dtype
        self.tightens = problem.rule.name == "balanced"
        x, y, loss = problem.x.to_dense(), problem.y.to_dense(), LOSSES[problem.loss]
        self._is_fixed = fixed = has_fixed_separable(problem, method)
        shift, middles = 0.0, (0.0, 0.0)
        if loss.shift_invariant and not method.alternating:
            middles = x.middle_of(problem.p), y.middle_of(problem.q)
            shift = common_shift(x, y, middles, fixed)
        copies = copies_costs(problem, method, precision.itemsize, problem.shape)
        own_middles = middles if fixed else (None, None)
        left = CostSide(0, x, problem.p, loss, shift, own_middles[0], copies)
        right = CostSide(1, y, problem.q, loss, shift, own_middles[1], copies)
        self.sides, self.alpha = (left, right), problem.alpha if problem.is_fused else 1.0
        quadratic = self.cost_scale = self.alpha * left.scale * right.scale
        self.fused: FloatArray | None = None
        self.fused_middle = 0.0
        if problem.is_fused:
            self._fuse(quadratic)
        # Sign and weight of the quadratic term go into the left matrix.
        left.make(-quadratic / self.cost_scale, dtype, n_threads, deadline)
        right.make(1.0, dtype, n_threads, deadline)
        symmetric, panels = x.symmetric and y.symmetric, right.matrix
        if not isinstance(panels, Shifted):
            panels = Panels(panels, True, n_threads=n_threads)
        self.orientations: list[tuple[Factor, Factor]] = [(left.matrix, panels)]
        if not symmetric:
            transposed = (
                np.ascontiguousarray(left.matrix.T),
                Panels(right.matrix, n_threads=n_threads),
            )
            self.orientations.append(transposed)
        self.bound_prices()
        self.accelerates = accelerates(problem, method, tuning)
        self._updates = suits(problem.shape, symmetric, tuning)
        self.n_kept = n_kept(problem.shape, precision.itemsize, self._updates, self.accelerates)
        self.sample_stride = max(problem.shape[0] // SAMPLE_ROWS[precision.itemsize], 1)
        self._sample = slice(None, None, self.sample_stride)
        self._fixed = self._separable(problem.p, problem.q)
        reads = self._updates or isinstance(left.matrix, Shifted)
        self.is_small = not reads and suits_descent(self)

    def _fuse(self, quadratic: float) -> None:
        """Set the linear term and the unit of both terms."""
        cost: Any = self.problem.linear_cost
        half = (1.0 - self.alpha) / 2
        low, high = float(cost.min()), float(cost.max())
        middle = low + (high - low) / 2
        self.cost_scale = max(quadratic, half * (high - low) / 2) or 1.0
        self.fused_middle = half * middle
        self.fused = fused = aligned_empty(cost.shape, self.precision.dtype)
        for rows in row_blocks(*cost.shape):
            block = np.subtract(cost[rows], middle, dtype=np.float64)
            fused[rows] = block * (half / self.cost_scale)

    @functools.cached_property
    def _leading(self) -> LeadingFactors:
        return LeadingFactors(self.sides, self.orientations[0][1], self.n_threads)

    # --- states -----------------------------------------------------------------------------------

    def initial(self, plan: Coupling | FloatArray | None = None, *, epsilon: float = 0.0) -> State:
        problem, dtype = self.problem, self.precision.dtype
        rows, cols = problem.rule.product()
        value: float | None = None
        if plan is None:
            outer = Outer(rows.astype(dtype), (cols / problem.mass).astype(dtype))
            summands = self._outer_summands(rows, cols)
            if self.fused is None:
                product = Product(summands)
                value = sum(
                    weight * float(rows @ base.rows) * float(cols @ base.cols) / problem.mass
                    for base, weight in summands
                )
            else:
                product = Product((*summands, (self.fused, 1.0)))
            if self._keeps_plans:
                product = Product.of(product.array(dtype, problem.shape))
            state = self._state(
                outer[:] if self._keeps_plans else outer, product, value, rows, cols, None
            )
        else:
            plan = plan.toarray() if isinstance(plan, Coupling) else plan
            plan = np.ascontiguousarray(plan, dtype)
            if not problem.is_balanced:
                rows, cols = plan.sum(axis=1), plan.sum(axis=0)
            product, value = self._product(plan, None, MOST * epsilon)
            state = self._state(plan, product, value, rows, cols, None)
        # Callers keep the state while a descent goes on, which can do without its plan.
        return state if self._keeps_plans else state._replace(plan=None)

    def _outer_summands(
        self, rows: Float64Array, cols: Float64Array
    ) -> tuple[tuple[Outer, float], ...]:
        """Return the summands of the product plan's `Product` with these sums, less `fused`."""
        (left, right), threads = self.sides, self.n_threads
        summands, weight = [], 1.0 / (self.problem.mass * len(self.orientations))
        if self._is_fixed and self.problem.is_balanced and len(self.orientations) == 1:
            dtype = self.precision.dtype
            known = ((side.unit * side.product).astype(dtype) for side in self.sides)
            summands.append((Outer(*known), weight))
        else:
            for transposed in (False, True)[: len(self.orientations)]:
                outer = Outer(
                    left.times(rows, threads, transposed), right.times(cols, threads, transposed)
                )
                summands.append((outer, weight))
        return tuple(summands)

    @property
    def _keeps_plans(self) -> bool:
        return self.is_small or not self.accelerates

    def _state(
        self,
        plan: FloatArray | Outer,
        product: Product,
        value: float | None,
        rows: Float64Array,
        cols: Float64Array,
        potentials: Potentials | None,
        objective: float | None = None,
    ) -> State:
        problem = self.problem
        separable = self._fixed if problem.is_balanced else self._separable(rows, cols)
        if objective is None:
            if value is None:
                value = sum(weight * self._dot(plan, base) for base, weight in product.summands)
            objective = self._objective(plan, value, rows, cols, separable)
        entropy = np.nan
        if problem.rule.is_relaxed:
            blocks = row_blocks(*problem.shape)
            entropy = sum(_kernels.entropy(plan[rows], self.n_threads) for rows in blocks)
        sample = plan[self._sample].copy() if self.accelerates else None
        return State(product, rows, cols, separable, potentials, objective, plan, sample, entropy)

    def state_from(
        self,
        plan: FloatArray,
        product: FloatArray | None,
        rows: Float64Array,
        cols: Float64Array,
        potentials: Potentials,
        objective: float | None,
    ) -> State:
        """Return the state of a plan whose product is known as an array; None if it is not."""
        own = self._product(plan, None, 0.0)[0] if product is None else Product.of(product)
        return self._state(plan, own, None, rows, cols, potentials, objective)

    def extended(
        self,
        state: State,
        coarse: Linearization,
        rows: IntArray,
        cols: IntArray,
        epsilon: float = 0.0,
    ) -> State:
        plan = np.zeros(self.problem.shape, dtype=self.precision.dtype)
        plan[np.ix_(rows, cols)] = state.plan
        return self.initial(plan, epsilon=epsilon)

    def restored_state(self, saved: Mapping[str, Any], epsilon: float) -> State:
        return self.initial(saved["plan"], epsilon=epsilon)

    @property
    def exported(self) -> tuple[str, tuple[int, int], DTypeLike]:
        return "plan", self.problem.shape, self.precision.dtype

    def _separable(
        self, rows: Float64Array, cols: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return the separable terms for these marginals, (n,) and (m,), in units of cost."""
        left, right = self.sides
        linear = left.linear, right.linear
        if not self.problem.is_balanced:
            linear = left.losses_times(rows), right.losses_times(cols)
        return self._summed((linear[0], left.product), (linear[1], right.product))

    def _summed(
        self, left: tuple[Float64Array, Float64Array], right: tuple[Float64Array, Float64Array]
    ) -> tuple[Float64Array, Float64Array]:
        """Return the separable terms from `linear` and `product` of both sides."""
        center, other = (side.center for side in self.sides)
        # h = scale * matrix + center: the constant parts of h1 T h2' are separable.
        constant = center * other / 2
        row_cost = self.alpha * (left[0] - other * left[1] - constant)
        column_cost = self.alpha * (right[0] - center * right[1] - constant)
        return row_cost + self.fused_middle, column_cost

    def own_objective(self, state: State) -> float | None:
        rows, cols = state.row_sums, state.column_sums
        left, right = self.sides[0].linear_and_product(rows), self.sides[1].linear_and_product(cols)
        if left is None or right is None or not self._is_fixed:
            return None
        (row_cost, column_cost), (own_rows, own_columns) = (
            state.separable,
            self._summed(left, right),
        )
        difference = rows @ (own_rows - row_cost) + cols @ (own_columns - column_cost)
        return state.objective + float(difference)

    def _objective(
        self,
        plan: FloatArray | Outer,
        value: float,
        rows: Float64Array,
        cols: Float64Array,
        separable: tuple[Float64Array, Float64Array],
    ) -> float:
        total = float(rows.dot(separable[0])) + float(cols.dot(separable[1]))
        bilinear, penalty = self.cost_scale * value, self.problem.rule.penalty(rows, cols)
        if self.fused is None:
            return not_negative(total, bilinear) + penalty
        return total + bilinear + self._half(plan, float(rows.sum())) + penalty

    def _half(self, plan: FloatArray | Outer, mass: float) -> float:
        """Return half of the linear term of a plan of this mass, with its weight."""
        return self.cost_scale * self._dot(plan, self.fused) + self.fused_middle * mass

    def linear_value(self, state: State) -> float:
        if self.alpha == 1.0:  # nothing is left of the linear costs
            cost = self.problem.linear_cost
            return 0.0 if cost is None else float(np.vdot(cost, state.plan))
        return 2.0 * self._half(state.plan, float(state.row_sums.sum())) / (1.0 - self.alpha)

    def bilinear_value(self, state: State) -> float:
        """``-<h1(C1) T h2(C2)', T>`` with the weight of the quadratic term."""
        product = state.moments.array(self.precision.dtype, self.problem.shape)
        value = self._dot(state.plan, product) - self._dot(state.plan, self.fused)
        return self.cost_scale * value

    # --- products ---------------------------------------------------------------------------------

    def _product(
        self, plan: FloatArray, known: Product | None, tolerance: float
    ) -> tuple[Product, float]:
        """Return the product of a plan and ``<plan, product>``. Its error, divided by epsilon and
        averaged over the plan, is within the tolerance; it is full if that is zero.
        """
        found, reference = None, None if known is None else known.reference
        if self._updates:
            part, projections = found = self._leading.of(plan)
            product = self._leading.updated(found, plan, reference, self.fused, tolerance)
            if product is not None:
                value = cast(LowRankPart, product.part).dot(projections)
                if reference is None:
                    return product, value + self._dot(plan, self.fused)
                # Updates leave out a self-adjoint operator E. With the plan T0 of the reference,
                # ``2 <T, E T0> - <T0, E T0>`` is ``<T, E T>`` up to second order in ``T - T0``.
                value += 2.0 * self._dot(plan, reference.base) - self._dot(plan, self.fused)
                return product, value - reference.part.dot(projections) - reference.offset
        base: Any = None
        for left, right in self.orientations:
            made = aligned_empty(self.problem.shape, plan.dtype)
            multiply(plan, right, made, self.n_threads, self._deadline)
            multiply(left, made, made, self.n_threads, self._deadline)
            base = (
                made if base is None else np.multiply(np.add(base, made, out=base), 0.5, out=base)
            )
        if self.fused is not None:
            base += self.fused
        value = self._dot(plan, base)
        if found is not None:
            offset = value - part.dot(projections) - self._dot(plan, self.fused)
            reference = Reference(base, part, offset)
        return Product(((base, 1.0),), None, reference), value

    def _dot(self, plan: FloatArray | Outer, matrix: FloatArray | Outer | None) -> float:
        """Return ``<plan, matrix>``, of arrays or `Outer`; None is zero."""
        if matrix is None:
            return 0.0
        blocks = row_blocks(*self.problem.shape)
        return sum(_kernels.dot(plan[rows], matrix[rows], self.n_threads) for rows in blocks)

    def kernel(
        self, state: State, epsilon: float, buffer: FloatArray | None = None
    ) -> StoredKernel:
        if buffer is None:
            buffer = aligned_empty(self.problem.shape, self.precision.dtype)
        product, separable = state.moments, None

        def fill(out: FloatArray) -> None:
            product.write(out)
            if self.method.proximal:
                _exponentials.proximal_cost(out, state.plan, epsilon, self.n_threads)

        if not self._is_fixed:
            # Steps without the separable terms start from potentials of zero.
            unit = self.cost_scale if self.method.marginal_terms else np.inf
            separable = self.separable_potentials(state, unit)
        cost = None if self.method.proximal else product.matrix
        return StoredKernel(buffer, fill, self.n_threads, separable, cost=cost)

    def state_of(
        self,
        kernel: OwnKernel,
        solution: LinearSolution,
        before: State,
        *,
        product_tol: float = 0.0,
    ) -> State:
        rows, cols = kernel.scale(solution.scalings)
        plan, epsilon = kernel.rows, kernel.epsilon
        change, _ = self.distances(before, before._replace(plan=plan, row_sums=rows))
        tolerance = min(product_tol * change, MOST) * epsilon
        product, value = self._product(plan, before.moments, tolerance)
        return self._state(plan, product, value, rows, cols, solution.potentials)

    def buffer_of(self, kernel: OwnKernel) -> FloatArray | None:
        return kernel.rows if kernel and self.accelerates else None

    def distances(self, before: State, after: State) -> tuple[float, float]:
        problem, threads = self.problem, self.n_threads
        if not self.accelerates:
            change, frobenius_change = _kernels.distance(after.plan, before.plan, threads)
        else:
            # Only these rows of the last plan are kept.
            plan = np.ascontiguousarray(after.plan[self._sample])
            change, frobenius_change = _kernels.distance(plan, before.sample, threads)
            change *= problem.mass / problem.p[self._sample].sum()
            frobenius_change *= np.sqrt(problem.shape[0] / len(plan))
        return float(change / problem.rule.plan_mass(after.row_sums)), frobenius_change

    def mixed(self, states: Sequence[State], weights: Sequence[float]) -> State:
        last, dtype = states[-1], self.precision.dtype
        sample = combined(weights, [state.sample for state in states]).astype(dtype)
        product = last.moments.mixed([state.moments for state in states], weights)
        made = last._replace(moments=product, sample=sample, plan=None, objective=np.nan)
        if self.problem.is_balanced:
            return made
        rows = np.maximum(combined(weights, [state.row_sums for state in states]), 0.0)
        cols = np.maximum(combined(weights, [state.column_sums for state in states]), 0.0)
        return made._replace(
            row_sums=rows,
            column_sums=cols,
            separable=self._separable(rows, cols),
            entropy=combined(weights, [state.entropy for state in states]),
        )

    def damped(self, before: State, after: State, damping: float) -> State:
        weights, dtype = (damping, 1.0 - damping), self.precision.dtype
        if before.plan is None:
            return after
        plan = combined(map(dtype.type, weights), (before.plan, after.plan))
        plan[plan < _kernels.LEAST_ENTRY[dtype]] = 0.0
        rows, cols = (plan.sum(axis=axis, dtype=np.float64) for axis in (1, 0))
        products = before.moments, after.moments
        base = after.moments.mixed(products, weights).array(dtype, self.problem.shape)
        product = Product(
            ((base, 1.0),),
            reference=after.moments.reference,
            is_full=all(one.is_full for one in products),
            is_exact=all(one.is_exact for one in products),
        )
        return self._state(plan, product, None, rows, cols, after.potentials)

    def exactness(self, last: State, before: State, after: State) -> tuple[bool, bool]:
        return before.moments.is_exact, after.moments.is_full and not last.moments.is_full

    def sharpened(self, after: State, epsilon: float) -> State | None:
        if after.moments.is_full:
            return after
        product, value = self._product(after.plan, None, 0.0)
        sums = after.row_sums, after.column_sums
        return self._state(after.plan, product, value, *sums, after.potentials)

    def n_matrices(self, states: Iterable[State]) -> int:
        return len({id(base) for state in states for base, _ in state.moments.summands})

    def relative_distance(self, state: State, other: State | None = None) -> float:
        p, q = self.problem.p, self.problem.q
        plan = np.outer(p, q).astype(self.precision.dtype) if other is None else other.plan
        return _kernels.distance(state.plan, plan, self.n_threads)[1] / np.sqrt(p.max() * q.max())

    def coupling(
        self,
        kernel: OwnKernel,
        solution: LinearSolution | None,
        before: State,
        state: State,
        epsilon: float,
    ) -> Coupling:
        return ArrayCoupling(state.plan, self.n_threads)


def common_shift(x: DenseCost, y: DenseCost, middles: tuple[float, float], fixed: bool) -> float:
    """Return a number to subtract from both costs under a shift-invariant loss: the mean of both
    middles, or 0.0 if a marginal is not `fixed` and the offset is within the range of the costs.
    """
    shift, ranges = sum(middles) / 2, [high - low for low, high in (x.extremes, y.extremes)]
    return shift if fixed or abs(shift) > max(ranges) else 0.0


def has_fixed_separable(problem: QuadraticProblem, method: Method) -> bool:
    """Return whether the separable terms are constant, as with two fixed marginals."""
    return problem.is_balanced and not method.alternating


def copies_costs(
    problem: QuadraticProblem, method: Method, itemsize: int, shape: tuple[int, int]
) -> bool:
    """Return whether products of that shape read transformed copies of the costs; otherwise they
    transform the costs of the caller, some rows at a time.
    """
    simple = LOSSES[problem.loss].keeps_factors and has_fixed_separable(problem, method)
    simple = simple and problem.x.symmetric and problem.y.symmetric
    # For few points transforming the costs in each product would take longer than the product.
    few = itemsize * max(shape) ** 2 <= 1 << 25
    return few or itemsize != SINGLE.itemsize or not simple


def accelerates(problem: QuadraticProblem, method: Method, tuning: Tuning = DEFAULT) -> bool:
    """Return whether the state is linear in the plan, and acceleration is allowed."""
    linear = problem.is_balanced or problem.rule.is_relaxed
    return tuning.acceleration and linear and not method.proximal


def n_kept(shape: tuple[int, int], itemsize: int, updates: bool, followed: bool) -> int:
    """Return how many matrices the last states keep at most: the reference of `updates`, and the
    last products if acceleration combines them (`followed`).
    """
    # All products that acceleration combines are kept if they are small, or in float64.
    if followed and (shape[0] * shape[1] <= 1 << 19 or itemsize > 4):
        return DEPTH + 1
    return 1 if updates else 2 * followed

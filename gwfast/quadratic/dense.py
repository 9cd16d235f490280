"""The linearized cost of any loss between any matrices of costs: two products of matrices.

An asymmetric cost has two linearized costs, one of its transpose; their mean is half the gradient
of the objective. The product is linear in the plan, so that acceleration combines products.
"""

import functools

import numpy as np

from ..kernels import _exponentials, _kernels, _products
from ..kernels._products import Panels
from ..kernels._rows import Shifted, aligned_empty
from ..linear.gibbs_kernel import StoredKernel
from ..problems.dense_cost import moments
from ..problems.leading import leading_eigenpairs
from ..problems.losses import LOSSES
from ..results.coupling import ArrayCoupling, Coupling
from ..utils.blocks import CACHED_BYTES, row_blocks
from ..utils.deadline import NEVER
from ..utils.mechanisms import ALL
from ..utils.precision import SINGLE
from .acceleration import DEPTH
from .low_rank import MOST, LeadingFactors, Outer, Product, Reference, dot, multiply, suits
from .methods import PGD
from .small_descent import suits_descent
from .state import Linearization, State, combined, not_negative

# Rows of a plan that stand for all in acceleration, by the bytes of a number; their entries at
# most; and the least number of rows.
SAMPLE_ROWS, SAMPLE_ENTRIES, LEAST_ROWS = {4: 64, 8: 32}, 1 << 18, 32


class Side:
    """The costs of one side as they are multiplied, ``h(C - shift) = scale * matrix / weight +
    center``, and their products with the masses, in float64.

    With a `fixed` marginal the center is near the mean of a linear h, by mass, which leaves most
    digits to the costs between points of much mass, or the middle of the range of another h;
    otherwise it is zero. Unless the costs are copied, symmetric costs are transformed when they are
    read, if h is linear, f the square, and the marginal fixed.

    Attributes
    ----------
    matrix : (n, n) ndarray or Shifted
        Once `make` was called, with entries in [-1, 1] times the weight.
    linear, product, moved : (n,) ndarray
        ``f(C - shift) @ p``, ``(h(C - shift) - center) @ p`` and, of a linear h, ``matrix @ p``,
        with equal results for equal rows.
    losses : (n, n) ndarray
        ``f(C - shift) / loss_scale``, if the marginal is not fixed.
    """

    moved = losses = None

    def __init__(self, geometry, middle, shift, h, f, masses, *, fixed, is_linear, copies):
        self._geometry, self._shift, self.masses = geometry, shift, masses
        self._h, self._f, self._fixed = h, f, fixed
        # h is monotone, so its range is between the values of the extremes.
        self._ends = [float(end) - shift for end in geometry.extremes]
        low, high = (float(h(end)) for end in self._ends)
        self.center = 0.0
        if fixed:
            self.center = float(h(middle - shift)) if is_linear else (low + high) / 2
        self.scale = max(high - self.center, self.center - low) or 1.0
        self._slope = slope = float(h(1.0) - h(0.0)) if is_linear else np.nan
        self._is_simple = is_linear and fixed and geometry.symmetric
        # float32 represents centered costs in this range without a unit of their own.
        in_range = 1e-30 < self.scale < 1e30
        self._reads = self._is_simple and in_range and not copies
        if self._reads:
            # Center and scale are numbers of float32, so that they are exact there.
            self.center = slope * (float(np.float32(shift + self.center / slope)) - shift)
            self.scale = slope / float(np.float32(slope / self.scale))

    def make(self, weight, dtype, n_threads=1, deadline=NEVER):
        """Make the matrix and the products. OutOfTime after the deadline."""
        geometry, slope = self._geometry, self._slope
        if not self._is_simple:
            self._make_by_blocks(weight, dtype, deadline)
            return
        # If h is linear, the matrix is ``(C - middle) * factor``.
        offset, self._factor = self.center / slope, slope / self.scale * weight
        self._middle, made = self._shift + offset, None
        if self._reads:
            self.matrix = geometry.shifted(self._middle, self._factor)
        else:
            self.matrix = made = aligned_empty((geometry.n, geometry.n), dtype)
        first, second = geometry.moments(
            self._middle, self.masses, made, self._factor, n_threads, deadline
        )
        self.product, self.moved = slope * first, self._factor * first
        first *= 2.0 * offset
        second += first
        second += offset * offset * float(self.masses.sum())
        self.linear = second

    def _make_by_blocks(self, weight, dtype, deadline):
        """The same of any loss, and of costs that are not symmetric."""
        geometry, p, fixed = self._geometry, self.masses, self._fixed
        cost, n = geometry.matrix, geometry.n
        self.matrix = np.empty((n, n), dtype=dtype)
        self.linear, self.product = np.zeros(n), np.zeros(n)
        if not fixed:
            # f is convex: the largest loss is at an end of the range.
            self.loss_scale = max(abs(float(self._f(end))) for end in self._ends) or 1.0
            self.losses = np.empty((n, n), dtype=dtype)
        for rows in row_blocks(n, n, CACHED_BYTES):
            deadline.check()
            block = np.subtract(cost[rows], self._shift, dtype=np.float64)
            values, losses = self._h(block) - self.center, self._f(block)
            self.linear[rows] += losses @ p
            self.product[rows] += values @ p
            if not geometry.symmetric:
                # Both orientations, halved below: the mean of C and its transpose.
                self.linear += losses.T @ p[rows]
                self.product += values.T @ p[rows]
            values *= weight / self.scale
            self.matrix[rows] = values
            if not fixed:
                self.losses[rows] = losses / self.loss_scale
        if not geometry.symmetric:
            self.linear /= 2
            self.product /= 2
            if not fixed:
                self.losses = (self.losses + self.losses.T) / 2
        if not fixed:
            self.product[:] = 0.0

    def times(self, masses):
        """``f(C - shift) @ masses``, the mean of both orientations."""
        made = self.losses @ masses.astype(self.losses.dtype)
        return self.loss_scale * made.astype(np.float64)

    def leading_eigenpairs(self, rank, n_threads):
        """Return the leading eigenpairs of the matrix, of symmetric costs with a linear h."""
        span = self._geometry.leading_span(n_threads)
        vectors, values, _ = span.eigenpairs(self._middle, rank)
        return vectors, values * (span.unit * self._factor)


class BilinearTerm:
    """``left @ plan @ right`` of matrices of one dtype, or symmetric `Shifted`; unless both are
    symmetric, the mean with the product of the transposes. The `orientations` are the left matrix
    and the `panels` of the right one, as `multiply` takes them, and of asymmetric costs both
    for the transposes.
    """

    def __init__(self, left, right, symmetric, n_threads, sides=None):
        self.matrices, self.symmetric, self._sides = (left, right), symmetric, sides
        self.shape, self._n_threads = (len(left), len(right)), n_threads
        self.dtype, self.panels = np.dtype(np.float32), right
        if not isinstance(right, Shifted):
            self.dtype, self.panels = right.dtype, Panels(right, True, n_threads=n_threads)
        self.orientations = [(left, self.panels)]
        if not symmetric:
            turned = np.ascontiguousarray(left.T), Panels(right, n_threads=n_threads)
            self.orientations.append(turned)

    @functools.cached_property
    def leading(self):
        """The `LeadingFactors` of both matrices."""
        return LeadingFactors(self, self._n_threads)

    def leading_eigenpairs(self, rank):
        """Return the leading eigenpairs of both matrices, see problems/low_rank.py."""
        if self._sides is not None:
            return [side.leading_eigenpairs(rank, self._n_threads) for side in self._sides]
        return [leading_eigenpairs(matrix, rank, self._n_threads) for matrix in self.matrices]

    def multiply(self, plan, out, deadline=NEVER):
        """Write the term of a plan to `out`, which is incomplete if time is up: OutOfTime."""
        (left, right), *others = self.orientations
        multiply(plan, right, out, self._n_threads, deadline)
        multiply(left, out, out, self._n_threads, deadline)
        for left, right in others:
            turned = aligned_empty(self.shape, self.dtype)
            multiply(plan, right, turned, self._n_threads, deadline)
            multiply(left, turned, turned, self._n_threads, deadline)
            out += turned
            out *= 0.5

    def of_outer(self, rows, cols):
        """Return the terms of the `Product` of the plan ``rows cols'``."""
        left, right = self.matrices
        outer = Outer(self._moved(left, rows, 0), self._moved(right, cols, 1))
        if self.symmetric:
            return ((outer, 1.0),)
        turned = Outer(self._moved(left.T, rows), self._moved(right.T, cols))
        return (outer, 0.5), (turned, 0.5)

    def _moved(self, matrix, masses, side=None):
        """``matrix @ masses``, with equal results for equal rows, which BLAS does not promise."""
        known = None if side is None or self._sides is None else self._sides[side]
        if known is not None and known.moved is not None and masses is known.masses:
            return known.moved.astype(self.dtype)
        made = aligned_empty((len(matrix), 1), self.dtype)
        column = Panels(masses.astype(self.dtype)[:, None], n_threads=self._n_threads)
        if not isinstance(matrix, Shifted):
            matrix = np.ascontiguousarray(matrix)
        _products.matmul(matrix, column, made, n_threads=self._n_threads)
        return made[:, 0]


class FusedTerm:
    """Half of ``(1 - alpha) linear_cost``, less its middle, as a `matrix` in units of `cost_scale`.
    With their weight the middle is `separable`, and `product` the rest of the costs times q.
    """

    def __init__(self, linear_cost, alpha, quadratic_scale, q, dtype, n_threads):
        self._linear_cost, self._n_threads = linear_cost, n_threads
        self._weight = weight = (1.0 - alpha) / 2
        low, high = float(linear_cost.min()), float(linear_cost.max())
        self._middle = middle = low + (high - low) / 2
        self.cost_scale = max(alpha * quadratic_scale, weight * (high - low) / 2) or 1.0
        self.separable = weight * middle
        self.matrix = aligned_empty(linear_cost.shape, dtype)
        factor = weight / self.cost_scale
        first, _ = moments(linear_cost, middle, q, self.matrix, factor, n_threads)
        self.product = weight * first

    def half(self, plan):
        """Return half of the linear term of a plan, without the middle."""
        return self.cost_scale * dot(plan, self.matrix, self._n_threads)

    def value(self, plan, mass):
        """Return ``<linear_cost, plan>`` of a plan of this mass."""
        if self._weight == 0.0:
            return float(np.vdot(self._linear_cost, plan))
        return self._middle * mass + self.half(plan) / self._weight


class DenseLinearization(Linearization):
    """Any loss between any costs, and costs between the spaces; the moments are the product. The
    `sides` and the `bilinear` and `fused` terms are made once.
    """

    # With a fraction of 0.1, 5 of 30 random problems (epsilon a tenth of the objective of the
    # product plan) ended in another optimum than POT's exact inner solutions lead to, with 0.01
    # none. At less than half that epsilon 2 of 14 still do.
    inner_fraction, inner_limit = 0.01, 200
    change_is_rounded = True

    def __init__(
        self, problem, n_threads, *, method=PGD, precision=SINGLE, deadline=NEVER, mechanisms=ALL
    ):
        super().__init__(problem, n_threads, precision, mechanisms)
        self.method, self._deadline = method, deadline
        x, y, loss = problem.x.to_dense(), problem.y.to_dense(), LOSSES[problem.loss]
        loss.check(x.matrix, "cost_x")
        loss.check(y.matrix, "cost_y")
        self._is_fixed = fixed = has_fixed_terms(problem, method)
        is_linear, shift, middles = loss.keeps_factors, 0.0, (0.0, 0.0)
        if loss.shift_invariant and not method.alternating:
            middles = x.middle_of(problem.p), y.middle_of(problem.q)
            shift = common_shift(x, y, middles, fixed)
        kind = dict(
            fixed=fixed,
            is_linear=is_linear,
            copies=copies_costs(problem, method, precision.itemsize, problem.shape),
        )
        left = Side(x, middles[0], shift, loss.h1, loss.f1, problem.p, **kind)
        right = Side(y, middles[1], shift, loss.h2, loss.f2, problem.q, **kind)
        self.sides, self.alpha = (left, right), problem.alpha if problem.is_fused else 1.0
        self.cost_scale, self.fused = left.scale * right.scale, None
        if problem.is_fused:
            self.fused = FusedTerm(
                problem.linear_cost, self.alpha, self.cost_scale, problem.q, precision.dtype,
                n_threads,
            )  # fmt: skip
            self.cost_scale = self.fused.cost_scale
        # Sign and weight of the term go into the left matrix.
        weight = -self.alpha * left.scale * right.scale / self.cost_scale
        left.make(weight, precision.dtype, n_threads, deadline)
        right.make(1.0, precision.dtype, n_threads, deadline)
        symmetric, simple = x.symmetric and y.symmetric, left.moved is not None
        spans = self.sides if simple and right.moved is not None else None
        self.bilinear = BilinearTerm(left.matrix, right.matrix, symmetric, n_threads, spans)
        self.bound_prices()
        self.accelerates = accelerates(problem, method, mechanisms)
        self._updates = suits(problem.shape, symmetric, mechanisms)
        self.n_kept = n_kept(problem.shape, precision.itemsize, self._updates, self.accelerates)
        most = max(SAMPLE_ENTRIES // problem.shape[1], LEAST_ROWS)
        stride = problem.shape[0] // min(SAMPLE_ROWS[precision.itemsize], most)
        self._sample = slice(None, None, max(stride, 1))
        self._fixed = self._separable(problem.p, problem.q)
        self.is_small = suits_descent(self)

    @property
    def is_plain(self):
        """Return whether all products are made of the matrices themselves."""
        return not (self._updates or isinstance(self.bilinear.matrices[0], Shifted))

    @property
    def sample_stride(self):
        """Every how many rows acceleration goes by; 0 where there is none."""
        return self._sample.step if self.accelerates else 0

    # --- states -----------------------------------------------------------------------------------

    def initial(self, plan=None, *, potentials=None, epsilon=0.0):
        problem, dtype = self.problem, self.precision.dtype
        rows, cols = problem.rule.product()
        if plan is None:
            outer = rows, cols / problem.mass
            plan = Outer(*(masses.astype(dtype) for masses in outer))
            if problem.mass == 1.0:
                outer = problem.p, problem.q
            terms, value = self.bilinear.of_outer(*outer), None
            if self.fused is not None:
                terms += ((self.fused.matrix, 1.0),)
            product = Product(terms)
            if self._keeps_plans:
                plan, product = plan[:], Product.of(product.array(dtype, problem.shape))
        else:
            plan = plan.toarray() if isinstance(plan, Coupling) else plan
            plan = np.ascontiguousarray(plan, dtype)
            if not problem.is_balanced:
                rows, cols = plan.sum(axis=1), plan.sum(axis=0)
            product, value = self._product(plan, None, MOST * epsilon)
        state = self._state(plan, product, value, rows, cols, potentials)
        # Callers keep the state while a descent goes on, which can do without its plan.
        return state if self._keeps_plans else state._replace(plan=None)

    @property
    def _keeps_plans(self):
        return self.is_small or not self.accelerates

    def _state(self, plan, product, value, rows, cols, potentials, objective=None):
        problem = self.problem
        separable = self._fixed if problem.is_balanced else self._separable(rows, cols)
        if objective is None:
            if value is None:
                value = sum(weight * self._dot(plan, base) for base, weight in product.terms)
            objective = self._objective(plan, value, rows, cols, separable)
        entropy = np.nan
        if problem.rule.is_relaxed:
            blocks = row_blocks(*problem.shape)
            entropy = sum(_kernels.entropy(plan[rows], self.n_threads) for rows in blocks)
        sample = plan[self._sample].copy() if self.accelerates else None
        return State(product, rows, cols, separable, potentials, objective, plan, sample, entropy)

    def state_from(self, plan, product, rows, cols, potentials, objective):
        """Return the state of a plan whose product is known as an array; None if it is not."""
        made = self._product(plan, None, 0.0)[0] if product is None else Product.of(product)
        return self._state(plan, made, None, rows, cols, potentials, objective)

    def extended(self, state, coarse, rows, cols, epsilon=0.0):
        plan = np.zeros(self.problem.shape, dtype=self.precision.dtype)
        plan[np.ix_(rows, cols)] = state.plan
        return self.initial(plan, epsilon=epsilon)

    def restored_state(self, saved, potentials, epsilon):
        """Return the state of the arrays that `Descent.export` made."""
        plan = saved["plan"]
        if plan.shape != self.problem.shape or plan.dtype != self.precision.dtype:
            raise ValueError(f"expected a plan of shape {self.problem.shape}, got {plan.shape}")
        return self.initial(plan, potentials=potentials, epsilon=epsilon)

    def _separable(self, rows, cols):
        """Return the separable terms for these marginals, (n,) and (m,), in units of cost."""
        left, right = self.sides
        if self.problem.is_balanced:
            linear = left.linear, right.linear
        else:
            linear = left.times(rows), right.times(cols)
        # h = scale * matrix + center: the constant parts of h1 T h2' are separable.
        constant = left.center * right.center / 2
        row_cost = self.alpha * (linear[0] - right.center * left.product - constant)
        column_cost = self.alpha * (linear[1] - left.center * right.product - constant)
        if self.fused is not None:
            row_cost = row_cost + self.fused.separable
        return row_cost, column_cost

    def _objective(self, plan, value, rows, cols, separable):
        total = float(rows.dot(separable[0])) + float(cols.dot(separable[1]))
        bilinear, penalty = self.cost_scale * value, self.problem.rule.penalty(rows, cols)
        if self.fused is None:
            return not_negative(total, bilinear) + penalty
        linear = self.fused.half(plan) + self.fused.separable * float(rows.sum())
        return total + bilinear + linear + penalty

    def linear_value(self, state):
        """``<linear_cost, T>`` of the plan."""
        if self.fused is None:
            return 0.0
        return self.fused.value(state.plan, float(state.row_sums.sum()))

    def bilinear_value(self, state):
        """``-<h1(C1) T h2(C2)', T>`` with the weight of the quadratic term."""
        product = state.moments.array(self.precision.dtype, self.problem.shape)
        value = self.cost_scale * _kernels.dot(state.plan, product, self.n_threads)
        return value - (0.0 if self.fused is None else self.fused.half(state.plan))

    # --- products ---------------------------------------------------------------------------------

    def _product(self, plan, known, tolerance):
        """Return the product of a plan and ``<plan, product>``. Its error, divided by epsilon and
        averaged over the plan, is within the tolerance; it is whole if that is zero.

        Of the residual operator E that updates leave out, ``<T, E T>`` is replaced by ``2 <T, E T0>
        - <T0, E T0>`` with the plan T0 of the reference: E is self-adjoint, so the error is of
        second order in ``T - T0``.
        """
        constant = None if self.fused is None else self.fused.matrix
        reference = None if known is None else known.reference
        found = self.bilinear.leading.of(plan) if self._updates else None
        if found is not None and tolerance > 0.0:
            # The rounding of measured rows, reference and update: an update without a larger error
            # is as good as a whole product.
            rounding = 0.6 * float(np.finfo(plan.dtype).eps)
            factors = self.bilinear.leading
            product = factors.updated(found, plan, reference, constant, tolerance, rounding)
            if product is not None:
                (part, projections), value = found, product.part.dot(found[1])
                if reference is not None:
                    rest = self._dot(plan, reference.base)
                    value += 2.0 * rest - reference.part.dot(projections) - reference.offset
                value += (-1.0 if reference else 1.0) * self._dot(plan, constant)
                return product, value
        base = aligned_empty(self.problem.shape, plan.dtype)
        self.bilinear.multiply(plan, base, self._deadline)
        if constant is not None:
            base += constant
        value = self._dot(plan, base)
        if found is None:
            return Product.of(base), value
        part, projections = found
        offset = value - part.dot(projections) - self._dot(plan, constant)
        return Product(((base, 1.0),), None, Reference(base, part, offset)), value

    def _dot(self, plan, matrix):
        return 0.0 if matrix is None else dot(plan, matrix, self.n_threads)

    def kernel(self, state, epsilon, buffer=None):
        array = buffer
        if array is None:
            array = aligned_empty(self.problem.shape, self.precision.dtype)
        separable, cost, product = None, None, state.moments

        def fill(out):
            product.write(out)
            if self.method.proximal:
                _exponentials.proximal_cost(out, state.plan, epsilon, self.n_threads)

        if not self.method.proximal:
            cost = product.matrix
        if not self._is_fixed:
            # Steps without the separable terms start from potentials of zero.
            unit = self.cost_scale if self.method.marginal_terms else np.inf
            separable = self.separable_potentials(state, unit)
        return StoredKernel(array, fill, self.n_threads, separable, cost=cost)

    def state_of(self, kernel, solution, before, *, slack=0.0):
        rows, cols = kernel.scale(solution.scalings)
        plan, epsilon = kernel.rows, kernel.epsilon
        change, _ = self._distances(before, plan, rows)
        tolerance = min(slack * change, MOST) * epsilon
        product, value = self._product(plan, before.moments, tolerance)
        return self._state(plan, product, value, rows, cols, solution.potentials)

    def buffer_of(self, kernel):
        return kernel.rows if kernel and self.accelerates else None

    def distances(self, before, after):
        return self._distances(before, after.plan, after.row_sums)

    def _distances(self, before, plan, rows):
        if not self.accelerates:
            change, moved = _kernels.distance(plan, before.plan, self.n_threads)
        else:
            # Only these rows of the last plan are kept.
            some, (p, mass) = self._sample, (self.problem.p, self.problem.mass)
            after = np.ascontiguousarray(plan[some])
            change, moved = _kernels.distance(after, before.sample, self.n_threads)
            change /= p[some].sum() / mass
            moved *= np.sqrt(len(plan) / len(after))
        return float(change / self.problem.rule.plan_mass(rows)), moved

    def mixed(self, states, weights):
        last, dtype = states[-1], self.precision.dtype
        sample = combined(weights, [state.sample for state in states]).astype(dtype)
        product = last.moments.mixed([state.moments for state in states], weights)
        made = last._replace(moments=product, sample=sample, plan=None, objective=np.nan)
        if self.problem.is_balanced:
            return made
        rows, cols = (
            np.maximum(combined(weights, [state[k] for state in states]), 0.0) for k in (1, 2)
        )
        entropy = combined(weights, [state.entropy for state in states])
        separable = self._separable(rows, cols)
        return made._replace(row_sums=rows, column_sums=cols, separable=separable, entropy=entropy)

    def damped(self, before, after, damping):
        """Return the mean of two states, with the weight `damping` of the first."""
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
            is_whole=all(one.is_whole for one in products),
            is_exact=all(one.is_exact for one in products),
        )
        return self._state(plan, product, None, rows, cols, after.potentials)

    def exactness(self, last, before, after):
        corrected = after.moments.is_whole and not last.moments.is_whole
        return before.moments.is_exact, corrected

    def sharpened(self, before, after, epsilon):
        if after.moments.is_whole:
            return after
        product, value = self._product(after.plan, None, 0.0)
        objective = self._objective(
            after.plan, value, after.row_sums, after.column_sums, after.separable
        )
        return after._replace(moments=product, objective=objective)

    def n_matrices(self, states):
        return len({id(base) for state in states for base, _ in state.moments.terms})

    def deviation(self, state):
        plan = state.plan - np.outer(self.problem.p, self.problem.q)
        return float(np.linalg.norm(plan)) / self._largest

    def apart(self, state, other):
        return _kernels.distance(state.plan, other.plan, self.n_threads)[1] / self._largest

    @functools.cached_property
    def _largest(self):
        return np.sqrt(self.problem.p.max() * self.problem.q.max())

    def coupling(self, kernel, solution, before, state, epsilon):
        return ArrayCoupling(state.plan, self.n_threads)

    snapshot = coupling


def common_shift(x, y, middles, fixed):
    """Return a number to subtract from both costs under a shift-invariant loss, which keeps large
    offsets out of the squares: the mean of both middles, or 0.0 if a marginal is not `fixed` and
    the offset is within the range of the costs.
    """
    shift, ranges = sum(middles) / 2, [high - low for low, high in (x.extremes, y.extremes)]
    return shift if fixed or abs(shift) > max(ranges) else 0.0


def has_fixed_terms(problem, method):
    """Return whether the separable terms are constant, as with two fixed marginals."""
    return problem.is_balanced and not method.alternating


def copies_costs(problem, method, itemsize, shape):
    """Return whether products of that shape read transformed copies of the costs; otherwise they
    transform the costs of the caller, some rows at a time.
    """
    simple = LOSSES[problem.loss].keeps_factors and has_fixed_terms(problem, method)
    simple = simple and problem.x.symmetric and problem.y.symmetric
    # For few points transforming the costs in each product would take longer than the product.
    few = itemsize * max(shape) ** 2 <= 1 << 25
    return few or itemsize != SINGLE.itemsize or not simple


def accelerates(problem, method, mechanisms=ALL):
    """Return whether the state is linear in the plan, and acceleration is allowed."""
    linear = problem.is_balanced or problem.rule.is_relaxed
    return mechanisms.acceleration and linear and not method.proximal


def n_kept(shape, itemsize, updates, followed):
    """Return how many matrices the last states keep at most: the reference of `updates`, and the
    last products if acceleration combines them (`followed`).
    """
    # All products that acceleration combines are kept if they are small, or in float64.
    if followed and (shape[0] * shape[1] <= 1 << 19 or itemsize > 4):
        return DEPTH + 1
    return 1 if updates else 2 * followed

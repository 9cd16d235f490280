"""The terms of a linearized cost of matrices."""

import copy
import functools

import numpy as np

from ..kernels import _kernels, _products
from ..kernels._rows import Panels, Shifted, aligned_empty
from ..problems.dense_cost import moments
from ..problems.leading import leading_eigenpairs
from ..problems.losses import LOSSES
from ..problems.low_rank import has_low_rank
from ..utils.blocks import CACHED_BYTES, row_blocks
from ..utils.deadline import NEVER
from .linearization import not_negative
from .low_rank_update import LeadingFactors
from .matrix_products import multiply

# Bytes of costs up to which a transformed copy is kept: for few points transforming
# the costs in each product would take longer than the product.
COPIED_BYTES = 1 << 25
# Range of centered costs that float32 represents without a unit of their own.
MIN_RANGE, MAX_RANGE = 1e-30, 1e30


def has_fixed_terms(problem, method):
    """Whether the separable terms are constant, as with two fixed marginals."""
    return problem.is_balanced and not method.alternating


def copies_costs(problem, method, itemsize, shape):
    """Whether products of that shape read transformed copies of the costs; otherwise
    they transform the costs of the caller, some rows at a time.
    """
    linear = LOSSES[problem.loss].keeps_factors and has_fixed_terms(problem, method)
    linear = linear and problem.x.symmetric and problem.y.symmetric
    few = itemsize * max(shape) ** 2 <= COPIED_BYTES
    return few or itemsize != np.dtype(np.float32).itemsize or not linear


class MatrixTerms:
    """The terms of a linearized cost of matrices: bilinear in the plan, linear in its
    marginals, and the costs between the spaces.

    Parameters
    ----------
    problem : QuadraticProblem
    method : Method
    dtype : dtype
    n_threads : int
    deadline : Deadline

    Attributes
    ----------
    bilinear : BilinearTerm
        In units of `cost_scale`.
    fused : FusedTerm or None
    cost_scale : float
    """

    def __init__(self, problem, method, dtype, n_threads, deadline):
        x, y, loss = problem.x.to_dense(), problem.y.to_dense(), LOSSES[problem.loss]
        loss.check(x.matrix, "cost_x")
        loss.check(y.matrix, "cost_y")
        fixed, shift = has_fixed_terms(problem, method), 0.0
        if loss.shift_invariant and not method.alternating:
            shift = common_shift(x, y, problem.p, problem.q, fixed)
        copies = copies_costs(problem, method, np.dtype(dtype).itemsize, problem.shape)
        kind = fixed, loss.keeps_factors, copies
        left = TransformedCost(x, shift, loss.h1, loss.f1, problem.p, *kind)
        right = TransformedCost(y, shift, loss.h2, loss.f2, problem.q, *kind)
        self._sides, self._balanced = (left, right), problem.is_balanced
        self.fused, self._alpha, self.cost_scale = None, 1.0, left.scale * right.scale
        if problem.is_fused:
            self._alpha = problem.alpha
            given = problem.linear_cost, self._alpha, self.cost_scale, problem.q
            self.fused = FusedTerm(*given, dtype, n_threads)
            self.cost_scale = self.fused.cost_scale
        # Sign and weight of the term go into the left matrix.
        weight = -self._alpha * left.scale * right.scale / self.cost_scale
        for side, factor in ((left, weight), (right, 1.0)):
            side.make(factor, dtype, n_threads, deadline)
        given = left.matrix, right.matrix, x.symmetric and y.symmetric, n_threads
        sides = self._sides if has_low_rank(problem, problem.shape) else None
        self.bilinear = BilinearTerm(*given, sides)
        if left.moved is not None and right.moved is not None:
            self.bilinear.moved = left.moved, right.moved

    def astype(self, dtype):
        """A copy in another precision."""
        other = copy.copy(self)
        other.bilinear = self.bilinear.astype(dtype)
        other.fused = self.fused and self.fused.astype(dtype)
        return other

    def losses(self, dtype):
        """Of free marginals, of either side: what the separable terms are made of, a
        matrix and its weight in units of `cost_scale`.
        """
        unit = self._alpha / self.cost_scale
        return tuple(side.weighted_losses(dtype, unit) for side in self._sides)

    def total(self, separable, bilinear, half, mass):
        """Return the objective of a plan of this mass; `half` is half of the linear term."""
        if self.fused is None:
            return not_negative(separable, bilinear)
        return separable + bilinear + half + self.fused.separable * mass

    def at_product(self, row_cost, col_cost):
        """The objective of the product plan, with fixed marginals and these separable terms."""
        left, right = self._sides
        p, q, half = left.masses, right.masses, 0.0
        bilinear = -self._alpha * float(p @ left.product) * float(q @ right.product)
        if self.fused is not None:
            half = float(p @ self.fused.product)
        separable = float(p @ row_cost) + float(q @ col_cost)
        return self.total(separable, bilinear + half, half, 1.0)

    def separable(self, rows, cols):
        """The separable terms for these marginals, (n,) and (m,), in units of cost."""
        left, right = self._sides
        if self._balanced:
            linear = left.linear, right.linear
        else:
            linear = left.times(rows), right.times(cols)
        # h = scale * matrix + center: the constant parts of h1 T h2' are separable.
        constant = left.center * right.center / 2
        row_cost = linear[0] - right.center * left.product - constant
        col_cost = linear[1] - left.center * right.product - constant
        row_cost, col_cost = self._alpha * row_cost, self._alpha * col_cost
        if self.fused is not None:
            row_cost = row_cost + self.fused.separable
        return row_cost, col_cost


class TransformedCost:
    """``h(C - shift) = scale * matrix / weight + center``, and products with the
    marginal for the separable terms, in float64.

    With a `fixed` marginal the center is near the mean of a linear h, by mass, which leaves most
    digits to the costs between points of much mass, or the middle of the range of another
    h; otherwise it is zero, and `times` makes the separable terms. Unless the costs are
    copied, the matrix is computed when it is read: of symmetric costs, if `keeps_factors`
    (h is linear and f the square) and the marginal is fixed.

    Attributes
    ----------
    scale, center : float
    masses : (n,) ndarray
        The marginal p.
    matrix : (n, n) ndarray or Shifted
        Once `make` was called, with entries in [-1, 1] times the weight.
    linear : (n,) ndarray
        ``f(C - shift) @ p``.
    product : (n,) ndarray
        ``(h(C - shift) - center) @ p``.
    moved : (n,) ndarray or None
        ``matrix @ p``, with equal results for equal rows, if the matrix can be computed
        when it is read.
    """

    moved = None

    def __init__(self, geometry, shift, h, f, p, fixed, keeps_factors, copies=True):
        self._geometry, self._shift, self.masses = geometry, shift, p
        self._h, self._f, self._fixed = h, f, fixed
        # h is monotone, so its range is that of the extremes.
        self._ends = np.array(geometry.extremes) - shift
        low, high = h(self._ends).tolist()
        middle = (low + high) / 2
        if fixed and keeps_factors:
            middle = float(h(geometry.middle_of(p) - shift))
        self.center = middle if fixed else 0.0
        self.scale = max(high - self.center, self.center - low) or 1.0
        self._slope = slope = float(h(1.0) - h(0.0)) if keeps_factors else np.nan
        self._is_simple = keeps_factors and fixed and geometry.symmetric
        in_range = MIN_RANGE < self.scale < MAX_RANGE
        self._reads = self._is_simple and in_range and not copies
        if self._reads:
            # Center and scale are numbers of float32, so that they are exact there.
            middle = float(np.float32(shift + self.center / slope))
            self.center = slope * (middle - shift)
            self.scale = slope / float(np.float32(slope / self.scale))

    def make(self, weight, dtype, n_threads=1, deadline=NEVER):
        """Make the matrix and the products. OutOfTime after the deadline."""
        geometry, slope, made = self._geometry, self._slope, None
        # Of a linear h the matrix is ``(C - middle) * factor``.
        offset, self._factor = self.center / slope, slope / self.scale * weight
        self._middle = self._shift + offset
        if not self._is_simple:
            self._make_by_blocks(weight, dtype, deadline)
            return
        if self._reads:
            self.matrix = geometry.shifted(self._middle, self._factor)
        else:
            self.matrix = made = aligned_empty((geometry.n, geometry.n), dtype)
        given = self._middle, self.masses, made, self._factor, n_threads, deadline
        first, second = geometry.moments(*given)
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
            largest = float(np.abs(self._f(self._ends)).max())
            self._loss_scale = scale = largest or 1.0
            self._losses = np.empty((n, n), dtype=dtype)
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
                self._losses[rows] = losses / scale
        if not geometry.symmetric:
            self.linear /= 2
            self.product /= 2
            if not fixed:
                self._losses = (self._losses + self._losses.T) / 2
        if not fixed:
            self.product[:] = 0.0

    def leading_eigenpairs(self, rank, n_threads):
        """Those of the matrix, of symmetric costs with a linear h."""
        span = self._geometry.leading_span(n_threads)
        vectors, values, _ = span.eigenpairs(self._middle, rank)
        return vectors, values * (span.unit * self._factor)

    def weighted_losses(self, dtype, weight):
        """``f(C - shift)`` as a matrix and its weight, which is multiplied by this."""
        return self._losses.astype(dtype, copy=False), weight * self._loss_scale

    def times(self, masses):
        """``f(C) @ masses``, the mean of both orientations."""
        made = self._losses @ masses.astype(self._losses.dtype)
        return self._loss_scale * made.astype(np.float64)


class BilinearTerm:
    """``left @ plan @ right`` with `left` (n, n) and `right` (m, m) of one dtype, or
    both symmetric `Shifted`; unless both are symmetric, the mean with the product of
    the transposes. `sides` are the `TransformedCost` of both where their costs have
    cached eigenvectors. Fixed marginals may have `moved`: each matrix times its masses.
    """

    moved = None

    def __init__(self, left, right, symmetric, n_threads, sides=None):
        self.matrices, self.symmetric, self._sides = (left, right), symmetric, sides
        self._n_threads = n_threads
        if not isinstance(right, Shifted):
            right = Panels(right, True, n_threads=n_threads)
        self._orientations, self._scratch = [(left, right)], None
        if not symmetric:
            left, right = self.matrices
            other = np.ascontiguousarray(left.T), Panels(right, n_threads=n_threads)
            self._orientations.append(other)
            self._scratch = aligned_empty(self.shape, left.dtype)

    @property
    def shape(self):
        """Shape (n, m) of the products."""
        left, right = self.matrices
        return len(left), len(right)

    @property
    def factors(self):
        """Both matrices, the right one transposed, as `multiply` takes them."""
        return self._orientations[0]

    @property
    def orientations(self):
        """The `factors`, and those of the transposes; None where both are symmetric."""
        first, *others = self._orientations
        return first, others[0] if others else None

    def astype(self, dtype):
        """A copy in another precision, with scratch of its own."""
        left, right = (matrix.astype(dtype) for matrix in self.matrices)
        return BilinearTerm(left, right, self.symmetric, self._n_threads, self._sides)

    @functools.cached_property
    def leading(self):
        """The `LeadingFactors` of both matrices."""
        return LeadingFactors(self, self._n_threads)

    def leading_eigenpairs(self, rank):
        """Leading eigenpairs of both matrices, see low_rank.py."""
        given = rank, self._n_threads
        if self._sides is not None:
            return [side.leading_eigenpairs(*given) for side in self._sides]
        return [leading_eigenpairs(matrix, *given) for matrix in self.matrices]

    def multiply(self, plan, out, deadline=NEVER):
        """Write the term of a plan to `out`, which is returned; OutOfTime after the
        deadline, with `out` incomplete.
        """
        (left, right), *others = self._orientations
        multiply(plan, right, out, self._n_threads, deadline)
        multiply(left, out, out, self._n_threads, deadline)
        for left, right in others:
            multiply(plan, right, self._scratch, self._n_threads, deadline)
            multiply(left, self._scratch, self._scratch, self._n_threads, deadline)
            out += self._scratch
            out *= 0.5
        return out

    def multiply_outer(self, rows, cols, out):
        """Write the term of the plan ``rows cols'``, of two vectors: the masses of both
        sides, if these are fixed.
        """
        if self.moved is not None:
            np.multiply.outer(*self.moved, out=out, casting="same_kind")
            return
        left, right = self.matrices
        np.multiply.outer(self._moved(left, rows), self._moved(right, cols), out=out)
        if not self.symmetric:
            others = self._moved(left.T, rows), self._moved(right.T, cols)
            out += np.multiply.outer(*others)
            out *= 0.5

    def _moved(self, matrix, masses):
        """``matrix @ masses``, with equal results for equal rows, which BLAS does not promise."""
        made = aligned_empty((len(matrix), 1), matrix.dtype)
        column = Panels(masses.astype(matrix.dtype)[:, None], n_threads=self._n_threads)
        if not isinstance(matrix, Shifted):
            matrix = np.ascontiguousarray(matrix)
        _products.matmul(matrix, column, made, n_threads=self._n_threads)
        return made[:, 0]


class FusedTerm:
    """Costs between the spaces, as a part of the linearized cost: half of
    ``(1 - alpha) linear_cost``, less its middle, in units of `cost_scale`.

    Parameters
    ----------
    linear_cost : (n, m) ndarray
    alpha : float
    quadratic_scale : float
        Unit of the quadratic term alone.
    q : (m,) ndarray
    dtype : dtype
    n_threads : int

    Attributes
    ----------
    cost_scale : float
        Unit of both terms.
    matrix : (n, m) ndarray of `dtype`
    separable : float
        The middle of the costs, with their weight.
    product : (n,) ndarray
        The costs less their middle, with their weight, times q.
    """

    def __init__(self, linear_cost, alpha, quadratic_scale, q, dtype, n_threads):
        self._linear_cost, self._n_threads = linear_cost, n_threads
        self._weight = weight = (1.0 - alpha) / 2
        low, high = float(linear_cost.min()), float(linear_cost.max())
        self._middle = middle = low + (high - low) / 2
        self.cost_scale = max(alpha * quadratic_scale, weight * (high - low) / 2) or 1.0
        self.separable = weight * middle
        self.matrix = aligned_empty(linear_cost.shape, dtype)
        given = self.matrix, weight / self.cost_scale, n_threads
        self.product = weight * moments(linear_cost, middle, q, *given)[0]

    def astype(self, dtype):
        """A copy in another precision."""
        other = copy.copy(self)
        other.matrix = self.matrix.astype(dtype)
        return other

    def half(self, plan):
        """``<matrix, plan>`` in units of cost: half of the linear term, without that of
        the middle.
        """
        return self.cost_scale * _kernels.dot(plan, self.matrix, self._n_threads)

    def value(self, plan, mass):
        """``<linear_cost, plan>`` of a plan of this mass."""
        if self._weight == 0.0:
            return float(np.vdot(self._linear_cost, plan))
        product = _kernels.dot(plan, self.matrix, self._n_threads)
        return self._middle * mass + product * self.cost_scale / self._weight


def common_shift(x, y, p, q, fixed):
    """A number to subtract from both costs under a shift-invariant loss, which keeps
    large offsets out of the squares; without fixed marginals 0.0 unless the offset is
    larger than the range of the costs.
    """
    shift = (x.mean_of(p) + y.mean_of(q)) / 2
    ranges = [high - low for low, high in (x.extremes, y.extremes)]
    if fixed or abs(shift) > max(ranges):
        return shift
    return 0.0

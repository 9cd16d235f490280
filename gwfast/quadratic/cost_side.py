"""The costs of one space, in units and with an origin that leave float32 most digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from ..kernels import _products
from ..kernels._products import Panels
from ..kernels._rows import aligned_empty
from ..problems.dense_cost import DenseCost
from ..utils.blocks import CACHED_BYTES, row_blocks
from ..utils.deadline import NEVER, Deadline
from ..utils.types import Float32Array, Float64Array, FloatArray

if TYPE_CHECKING:
    from ..problems.losses import Loss


class CostSide:
    """The costs of one space as products read them, ``h(C - shift) = scale * matrix / weight +
    center``, and their products with the masses, in float64.

    With a `middle` of the costs the marginal is fixed. The center is there if h is linear, which
    leaves most digits to the costs between points of much mass, or in the middle of the range of
    another h; without a `middle` it is zero. Unless it `copies` them, symmetric costs with a linear
    h and a fixed marginal are transformed when they are read.

    Attributes
    ----------
    matrix : (n, n) ndarray or Shifted
        Once `make` was called, with entries in [-1, 1] times the weight.
    linear, product : (n,) ndarray
        ``f(C - shift) @ p`` and ``(h(C - shift) - center) @ p``, with equal results for equal rows.
    losses : (n, n) ndarray
        ``f(C - shift) / loss_scale``, if the marginal is not fixed.
    unit : float
        ``weight / scale``.
    """

    matrix: Any
    losses: Any = None
    unit: float

    def __init__(
        self,
        number: int,
        geometry: DenseCost,
        masses: Float64Array,
        loss: Loss,
        shift: float,
        middle: float | None = None,
        copies: bool = True,
    ) -> None:
        loss.check(geometry.matrix, ("x", "y")[number])
        self._geometry, self.masses, self._shift = geometry, masses, shift
        self._h, self._f = ((loss.h1, loss.f1), (loss.h2, loss.f2))[number]
        is_linear, self._fixed = loss.keeps_factors, middle is not None
        # h is monotone, so its range is between the values of the extremes.
        self._ends = [float(end) - shift for end in geometry.extremes]
        low, high = (float(self._h(end)) for end in self._ends)
        self.center = 0.0
        if middle is not None:
            self.center = float(self._h(middle - shift)) if is_linear else (low + high) / 2
        self.scale = max(high - self.center, self.center - low) or 1.0
        self._slope = slope = float(self._h(1.0) - self._h(0.0))
        self._is_simple = is_linear and self._fixed and geometry.symmetric
        # float32 represents centered costs in this range without a unit of their own.
        self._reads = self._is_simple and not copies and 1e-30 < self.scale < 1e30
        if self._reads:
            # Center and scale are numbers of float32, so that they are exact there.
            self.center = slope * (float(np.float32(shift + self.center / slope)) - shift)
            self.scale = slope / float(np.float32(slope / self.scale))

    def make(
        self, weight: float, dtype: DTypeLike, n_threads: int = 1, deadline: Deadline = NEVER
    ) -> None:
        """Make the matrix and the products. OutOfTime after the deadline."""
        geometry, slope, self.unit = self._geometry, self._slope, weight / self.scale
        if not self._is_simple:
            self._make_by_blocks(dtype, deadline)
            return
        # If h is linear, the matrix is ``(C - middle) * factor``.
        offset, factor, copy = self.center / slope, slope * self.unit, None
        middle = self._shift + offset
        if self._reads:
            self.matrix = geometry.shifted(middle, factor)
        else:
            self.matrix = copy = aligned_empty((geometry.n, geometry.n), dtype)
        first, second = geometry.moments(middle, self.masses, copy, factor, n_threads, deadline)
        self._middle, self._factor, self._offset = middle, factor, offset
        self.linear, self.product = self._linear_and_product(first, second, self.masses)

    def _linear_and_product(
        self, first: Float64Array, second: Float64Array, masses: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        offset = self._offset
        linear = second + 2.0 * offset * first + offset**2 * float(masses.sum())
        return linear, self._slope * first

    def linear_and_product(self, masses: Float64Array) -> tuple[Float64Array, Float64Array] | None:
        """Return `linear` and `product` of other masses; None if these take more than one read."""
        if not self._is_simple:
            return None
        return self._linear_and_product(*self._geometry.moments(self._middle, masses), masses)

    def _make_by_blocks(self, dtype: DTypeLike, deadline: Deadline) -> None:
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
            self.matrix[rows] = values * self.unit
            if not fixed:
                self.losses[rows] = losses / self.loss_scale
        if not geometry.symmetric:
            self.linear, self.product = self.linear / 2, self.product / 2
            if not fixed:
                self.losses = (self.losses + self.losses.T) / 2
        self.product *= fixed

    def losses_times(self, masses: Float64Array) -> Float64Array:
        """Return ``f(C - shift) @ masses``, the mean of both orientations."""
        return self.loss_scale * (self.losses @ masses.astype(self.losses.dtype)).astype(np.float64)

    def times(self, masses: Float64Array, n_threads: int, transposed: bool = False) -> FloatArray:
        """Return ``matrix @ masses``, with equal results for equal rows, which BLAS does not
        promise; of the transpose if `transposed`.
        """
        made = aligned_empty((len(masses), 1), self.matrix.dtype)
        column = Panels(masses.astype(made.dtype)[:, None], n_threads=n_threads)
        matrix = np.ascontiguousarray(self.matrix.T) if transposed else self.matrix
        _products.matmul(matrix, column, made, n_threads=n_threads)
        return made[:, 0]

    def eigenpairs(self, rank: int, n_threads: int) -> tuple[Float32Array, Float64Array]:
        """Return leading eigenvectors (n, rank) and eigenvalues of the matrix, symmetric."""
        cost, shift, factor = self._geometry, 0.0, 1.0
        if self._is_simple:
            shift, factor = self._middle, self._factor
        else:
            cost = DenseCost.from_checked(self.matrix, "cost", symmetric=True)
        span = cost.leading_span(n_threads)
        vectors, values, _ = span.eigenpairs(shift, rank)
        return vectors, values * (span.unit * factor)

"""Intra-space costs given as a matrix, and what is read of a matrix in one pass."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..kernels import _costs
from ..kernels._rows import Shifted
from ..linear.rules import neutral
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER, Deadline
from ..utils.labels import Labels, in_order, labels_of
from ..utils.types import Float64Array, FloatArray
from ..utils.validation import as_table, check_finite, check_square
from .leading import LeadingSpan

# Differences of costs, as a fraction of their range or size, that are the rounding of a float32
# computation.
ROUNDING = 1e-6


def check_extremes(low: float, high: float, name: str) -> None:
    """Raise a ValueError unless fourth powers of costs of this range stay finite."""
    top = max(high, -low)
    if not (top == 0 or 1e-60 < top < 1e60):
        raise ValueError(
            f"{name} must have its largest magnitude between 1e-60 and 1e60, got {top}"
        )


class DenseCost:
    """Intra-space costs given as a matrix, symmetric or not.

    Parameters
    ----------
    cost : array-like of shape (n, n)
    symmetric : bool or None, default=None
        Whether to take the costs as symmetric; None looks.

    Attributes
    ----------
    n : int
    matrix : (n, n) ndarray
        Not copied: of its own float dtype (float16 too) and memory order, also mapped from a
        file. It may be written to between calls: every call looks at it again.
    symmetric : bool
        Up to 1e-6 of the range of the entries, the rounding of a float32 computation.
    labels : tuple or None
        Nodes of a graph of networkx, or index of a DataFrame of pandas.
    """

    n: int
    matrix: NDArray[np.floating[Any]]
    symmetric: bool
    labels: Labels
    extremes: tuple[float, float]  # least and largest cost
    mean: float
    is_rounded: bool  # whether symmetric costs are so up to rounding only
    _leading: LeadingSpan | None
    _symmetry: bool | None  # as the caller gave it

    def __init__(
        self, cost: ArrayLike, name: str = "cost", *, symmetric: bool | None = None
    ) -> None:
        labels = labels_of(cost) or labels_of(cost, 1)
        matrix = as_table(in_order(cost, name, labels, labels, of="its rows"), name)
        check_square(matrix, name)
        self._set(matrix, name, symmetric, labels)

    @classmethod
    def from_checked(
        cls,
        matrix: NDArray[Any],
        name: str,
        *,
        symmetric: bool | None = None,
        labels: Labels = None,
    ) -> DenseCost:
        """Return the costs in a square matrix of floats."""
        geometry = cls.__new__(cls)
        geometry._set(matrix, name, symmetric, labels)
        return geometry

    def _set(self, matrix: NDArray[Any], name: str, symmetric: bool | None, labels: Labels) -> None:
        self.labels, self._symmetry = labels, symmetric
        total, asymmetry = self._look(matrix)
        check_finite(matrix, name, total)
        low, high = self.extremes
        check_extremes(low, high, name)
        self.symmetric = asymmetry <= ROUNDING * (high - low) if symmetric is None else symmetric
        self.is_rounded = self.symmetric and asymmetry > 0

    def _look(self, matrix: NDArray[Any]) -> tuple[float, float]:
        """Take a matrix; return its sum and the largest difference from its transpose."""
        self.matrix, self.n, self._leading = matrix, len(matrix), None
        low, high, total, asymmetry = survey(matrix)
        self.extremes, self.mean = (low, high), total / self.n**2
        return total, asymmetry

    def refreshed(self, name: str) -> DenseCost:
        """Return the costs as the matrix is now: its owner may have written to it."""
        return DenseCost.from_checked(
            self.matrix, name, symmetric=self._symmetry, labels=self.labels
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n} points)"

    @property
    def is_constant(self) -> bool:
        """True if all costs are equal up to rounding."""
        low, high = self.extremes
        rounding = min(ROUNDING, 8 * float(np.finfo(self.matrix.dtype).eps))
        return high - low <= rounding * max(abs(low), abs(high))

    @property
    def by_rows(self) -> NDArray[np.floating[Any]]:
        """The matrix, or its transpose where symmetric costs are stored by columns."""
        is_transposed = self.symmetric and not self.matrix.flags.c_contiguous
        return self.matrix.T if is_transposed else self.matrix

    def mean_of(self, masses: Float64Array) -> float:
        """Return the mean of the costs, each weighted by the masses of its two points."""
        (low, high), mean = self.extremes, self.mean
        if (masses != masses[0]).any():
            mean = float(masses @ self.moments(0.0, masses)[0]) / float(masses.sum()) ** 2
        return min(max(mean, low), high)  # rounding may leave the range

    def middle_of(self, masses: Float64Array) -> float:
        """Return a number near `mean_of`, rounded to a power of two: it adds no digits to
        integers, and equal sums stay equal.
        """
        low, high = self.extremes
        if not high > low:
            return low
        step = 2.0 ** (math.frexp(high - low)[1] - 4)
        return min(max(round(self.mean_of(masses) / step) * step, low), high)

    def square_times(self, p: Float64Array) -> Float64Array:
        """Return ``(C * C) @ p``, float64."""
        return self.moments(0.0, p)[1]

    def moments(
        self,
        shift: float,
        p: Float64Array,
        out: FloatArray | None = None,
        factor: float = 1.0,
        n_threads: int = 1,
        deadline: Deadline = NEVER,
    ) -> tuple[Float64Array, Float64Array]:
        """Return ``(C - shift) @ p`` and ``(C - shift)**2 @ p``, float64, and write ``(C - shift) *
        factor`` to `out`. OutOfTime after the deadline.
        """
        matrix, (first, second) = self.by_rows, np.empty((2, self.n))
        for rows in row_blocks(self.n, self.n):
            deadline.check()
            block = np.ascontiguousarray(matrix[rows], matrix.dtype.newbyteorder("="))
            target = None if out is None else out[rows]
            _costs.moments(block, shift, p, first[rows], second[rows], target, factor, n_threads)
        return first, second

    def shifted(self, shift: float, factor: float) -> Shifted:
        """Return symmetric costs as float32 rows ``(C - shift) * factor`` that are computed when
        they are read, without a copy if the costs are C- or Fortran-contiguous.
        """
        dtype = self.matrix.dtype.newbyteorder("=")
        if not 1e-30 < abs(factor) < 1e30:
            dtype = np.dtype(np.float64)  # float32 may have no room for them
        return Shifted(np.ascontiguousarray(self.by_rows, dtype), shift, factor)

    def leading_span(self, n_threads: int) -> LeadingSpan:
        """Return the leading eigenvectors of symmetric costs, computed once in a call."""
        if self._leading is None:
            self._leading = LeadingSpan(self, n_threads)
        return self._leading

    def neutral(self, masses: Float64Array) -> DenseCost:
        """Return the costs with the mean cost wherever a point has no mass: no plan depends on
        these entries, but units and shifts would. `self` if all points have mass.
        """
        if masses.all():
            return self
        part = copy.copy(self)
        part._look(neutral(self.matrix, masses, masses))
        return part

    def take(self, rows: NDArray[Any]) -> DenseCost:
        """Return the costs between some of the points."""
        part = copy.copy(self)
        part._look(np.ascontiguousarray(self.matrix[np.ix_(rows, rows)]))
        return part

    def to_dense(self) -> DenseCost:
        return self


def survey(matrix: NDArray[Any]) -> tuple[float, float, float, float]:
    """Return extremes, sum, and largest difference from its transpose of a square matrix of any
    float dtype and memory order.
    """
    dtype = np.dtype(np.float64 if matrix.itemsize == 8 else np.float32)
    if matrix.dtype == dtype and matrix.flags.forc:
        return _costs.survey(matrix if matrix.flags.c_contiguous else matrix.T)
    parts = []
    for rows in row_blocks(*matrix.shape):
        parts.append(_costs.survey(np.ascontiguousarray(matrix[rows, rows], dtype)))
        if rows.start:
            below, above = matrix[rows, : rows.start], matrix[: rows.start, rows]
            below, above = (np.ascontiguousarray(block, dtype) for block in (below, above))
            parts.append(_costs.survey(below, above))
    lows, highs, totals, asymmetries = zip(*parts, strict=True)
    return min(lows), max(highs), sum(totals), max(asymmetries)

"""Intra-space costs given as a matrix, and what is read of a matrix in one pass."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..kernels import _costs
from ..kernels._rows import Shifted
from ..linear.rules import neutral
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER, Deadline
from ..utils.fingerprint import KEPT, fingerprint
from ..utils.labels import Labels, in_order, labels_of
from ..utils.types import Float64Array, FloatArray
from ..utils.validation import as_table, check_finite, check_square

T = TypeVar("T")
# Differences of costs from those of the transpose, as a fraction of their range, up to
# which they are the rounding of a float32 computation.
ROUNDING = 1e-6
# Relative differences of costs below which they are taken for rounding.
CONSTANT = 1e-6


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
        As it came, of its own float dtype (float16 too) and memory order; also one that
        is mapped from a file. It may be written to between two calls: each of them
        looks whether it has been.
    symmetric : bool
        Up to 1e-6 of the range of the entries, the rounding of a float32 computation.
    labels : tuple or None
        What the points are called: the nodes of a graph of networkx, the index of a
        DataFrame of pandas.

    Examples
    --------
    >>> import gwfast
    >>> gwfast.DenseCost([[0, 1], [1, 0]]).symmetric
    True
    """

    n: int
    matrix: NDArray[np.floating[Any]]
    symmetric: bool
    labels: Labels = None
    # The least and the largest cost, and the mean.
    extremes: tuple[float, float]
    mean: float
    # What has been made of the matrix, and its fingerprint then.
    _known: dict[str, Any]
    _mark: tuple[Any, ...] | None
    # What the caller says of the symmetry.
    _asked: bool | None

    def __init__(
        self, cost: ArrayLike, name: str = "cost", *, symmetric: bool | None = None
    ) -> None:
        self.labels = labels = labels_of(cost) or labels_of(cost, 1)
        matrix = as_table(in_order(cost, name, labels, labels, of="its rows"), name)
        check_square(matrix, name)
        self._set(matrix, name, symmetric)
        # Of a large matrix a fingerprint takes as long as the check, and most matrices
        # are used once.
        if matrix.nbytes <= KEPT:
            self._mark = fingerprint(matrix)

    @classmethod
    def from_checked(
        cls, matrix: NDArray[Any], name: str, *, symmetric: bool | None = None
    ) -> DenseCost:
        """Those of a square matrix of float numbers."""
        geometry = cls.__new__(cls)
        geometry._set(matrix, name, symmetric)
        return geometry

    def _set(self, matrix: NDArray[Any], name: str, symmetric: bool | None) -> None:
        self.matrix, self._asked, self._mark = matrix, symmetric, None
        total, apart = self._look()
        check_finite(matrix, name, total)
        low, high = self.extremes
        check_extremes(low, high, name)
        if symmetric is None:
            symmetric = apart <= ROUNDING * (high - low)
        self.symmetric = symmetric

    def _look(self) -> tuple[float, float]:
        """Read the matrix, and forget what was made of another one; returns its sum,
        and the largest difference from its transpose.
        """
        low, high, total, apart = survey(self.matrix)
        self.n, self._known = len(self.matrix), {}
        self.extremes, self.mean = (low, high), total / self.n**2
        return total, apart

    def refresh(self, name: str) -> None:
        """Check the matrix again, and forget what was made of it, unless it is known to
        be as it was; `name` is for errors. Every public function does so first, as the
        matrix is its owner's, and is not copied.
        """
        mark = fingerprint(self.matrix)
        if mark != self._mark:
            self._set(self.matrix, name, self._asked)
            self._mark = mark

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What ``make()`` returned first, kept until the matrix has been written to."""
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n} points)"

    @property
    def is_constant(self) -> bool:
        """Whether all costs are one number, up to rounding."""
        low, high = self.extremes
        rounding = min(CONSTANT, 8 * float(np.finfo(self.matrix.dtype).eps))
        return high - low <= rounding * max(abs(low), abs(high))

    def square_times(self, p: Float64Array) -> Float64Array:
        """``(C * C) @ p``, float64."""
        return self.moments(0.0, p)[1]

    def mean_of(self, masses: Float64Array) -> float:
        """The mean of the costs, each weighted by the masses of its two points."""
        low, high = self.extremes
        mean = self.mean
        if np.ptp(masses) > 0:
            first, _ = self.moments(0.0, masses)
            mean = float(masses @ first) / float(masses.sum()) ** 2
        return min(max(mean, low), high)  # rounding may leave the range

    def middle_of(self, masses: Float64Array) -> float:
        """A number near the mean of the costs by mass. It is rounded to a power of two, so
        that it adds no digits to integers and equal sums stay equal.
        """
        low, high = self.extremes
        if not high > low:
            return low
        step = 2.0 ** (math.frexp(high - low)[1] - 4)
        return min(max(round(self.mean_of(masses) / step) * step, low), high)

    def neutral(self, masses: Float64Array) -> DenseCost:
        """Return the costs with the mean cost wherever a point has no mass. No plan depends
        on these entries, but units and shifts would. If all points have mass, the costs
        are returned as they are.
        """
        if masses.all():
            return self
        other = copy.copy(self)
        other.matrix, other._mark = neutral(self.matrix, masses, masses), None
        other._look()
        return other

    def moments(
        self,
        shift: float,
        p: Float64Array,
        out: FloatArray | None = None,
        factor: float = 1.0,
        n_threads: int = 1,
        deadline: Deadline = NEVER,
    ) -> tuple[Float64Array, Float64Array]:
        """``(C - shift) @ p`` and ``(C - shift)**2 @ p``, float64; ``(C - shift) *
        factor`` is written to `out`. OutOfTime after the deadline.
        """
        return moments(self.by_rows, shift, p, out, factor, n_threads, deadline)

    def shifted(self, shift: float, factor: float) -> Shifted:
        """Symmetric costs as float32 rows ``(C - shift) * factor`` that are made when
        they are read: without a copy, if these are C- or Fortran-contiguous.
        """
        matrix = self.by_rows
        dtype = matrix.dtype.newbyteorder("=")
        if not 1e-30 < abs(factor) < 1e30:
            dtype = np.dtype(np.float64)  # float32 may have no room for them
        return Shifted(np.ascontiguousarray(matrix, dtype), shift, factor)

    @property
    def by_rows(self) -> NDArray[np.floating[Any]]:
        """The matrix, or its transpose where its columns are stored, if symmetric."""
        turned = self.symmetric and not self.matrix.flags.c_contiguous
        return self.matrix.T if turned else self.matrix

    def take(self, rows: NDArray[Any]) -> DenseCost:
        """The costs between some of the points."""
        part = copy.copy(self)
        part.matrix = np.ascontiguousarray(self.matrix[np.ix_(rows, rows)])
        part._mark = None
        part._look()
        return part

    def to_dense(self) -> DenseCost:
        return self


def moments(
    matrix: NDArray[Any],
    shift: float,
    p: Float64Array,
    out: FloatArray | None = None,
    factor: float = 1.0,
    n_threads: int = 1,
    deadline: Deadline = NEVER,
) -> tuple[Float64Array, Float64Array]:
    """`DenseCost.moments` of any matrix (n, m) of floats."""
    n, m = matrix.shape
    first, second = np.empty(n), np.empty(n)
    for rows in row_blocks(n, m):
        deadline.check()
        some = np.ascontiguousarray(matrix[rows], matrix.dtype.newbyteorder("="))
        made = None if out is None else out[rows]
        given = shift, p, first[rows], second[rows], made, factor, n_threads
        _costs.moments(some, *given)
    return first, second


def survey(matrix: NDArray[Any]) -> tuple[float, float, float, float]:
    """The survey of the kernels of a square matrix of any float dtype and memory order:
    extremes, sum, and largest difference from its transpose.
    """
    dtype = np.dtype(np.float64 if matrix.itemsize == 8 else np.float32)
    if matrix.dtype == dtype and matrix.flags.forc:
        return _costs.survey(matrix if matrix.flags.c_contiguous else matrix.T)

    def part(rows: slice, cols: slice) -> NDArray[Any]:
        return np.ascontiguousarray(matrix[rows, cols], dtype)

    made = []
    for rows in row_blocks(*matrix.shape):
        made.append(_costs.survey(part(rows, rows)))
        if rows.start:
            before = slice(0, rows.start)
            made.append(_costs.survey(part(rows, before), part(before, rows)))
    lows, highs, totals, apart = zip(*made, strict=True)
    return min(lows), max(highs), sum(totals), max(apart)

"""Products of plans with two matrices as values, and low-rank updates of them.

With symmetric ``left = L + A`` and ``right = R + B``, where L and R have the leading eigenvectors,

    left T right = L T right + A T R + A T B

The first two terms are a low-rank matrix, linear in the plan T. The last term is small, and changes
little while the plan moves along the leading eigenvectors, as it does where it moves slowly: an
update takes it from a reference plan. The error of an update is estimated on a sample of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ..kernels import _kernels, _products
from ..kernels._products import Panels
from ..kernels._rows import Shifted, aligned_empty
from ..problems.leading import square_lengths
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER, Deadline
from ..utils.tuning import Tuning
from ..utils.types import FloatArray, IntArray

if TYPE_CHECKING:
    from .cost_side import CostSide

# A matrix as `multiply` takes it: an ndarray, `Panels`, `Shifted` or other `Rows`.
Factor: TypeAlias = Any
# Points of a side for each eigenvector, the bounds of their number, and its divisor, the columns of
# a packed panel. Of 1000 words 4 products were full with 32 and 3 with 64, which took as long; of
# 5000 words 13 with 112 and 4 with 312, which took longer in all.
POINTS_PER_VECTOR, LEAST_RANK, MAX_RANK, PANEL = 32, 32, 96, 32
# The error of an update is measured in this number of rows that are evenly spread, and of rows with
# the largest parts outside the leading eigenvectors.
MEASURED = 8
# How far the error of an update may move the next plan, as a fraction of the plan, at most. Of
# four pairs of hops between cells one ended in another optimum with a tenth, none with this.
MOST = 0.03
# Bytes of a right factor that are packed, and of a left one that are concatenated, at a time.
PACKED_BYTES = 8 << 20


class Outer:
    """The outer product of two vectors; rows are made when they are read."""

    def __init__(self, rows: FloatArray, cols: FloatArray) -> None:
        self.rows, self.cols = rows, cols

    def __getitem__(self, some: slice | IntArray) -> FloatArray:
        return np.multiply.outer(self.rows[some], self.cols)


Summands: TypeAlias = tuple[tuple[FloatArray | Outer, float], ...]


class Product(NamedTuple):
    """A product as the weighted sum of matrices and a low-rank part; perhaps of several plans.

    Attributes
    ----------
    summands : tuple of (ndarray or Outer, float)
    part : LowRankPart or None
    reference : Reference or None
        What updates refer to.
    is_full, is_exact : bool
        Whether it is no update, and whether its error is rounding only.
    """

    summands: Summands
    part: LowRankPart | None = None
    reference: Reference | None = None
    is_full: bool = True
    is_exact: bool = True

    @classmethod
    def of(cls, matrix: FloatArray) -> Product:
        return cls(((matrix, 1.0),))

    @property
    def matrix(self) -> FloatArray | None:
        """The one matrix that it is, or None."""
        if self.part or len(self.summands) != 1:
            return None
        [(base, weight)] = self.summands
        return None if weight != 1.0 or isinstance(base, Outer) else base

    def write(self, out: FloatArray) -> None:
        """Write the product to an array."""
        part = self.part
        if part is not None:
            factors, n_threads = part.factors, part.factors.n_threads
            right = Panels(np.concatenate([part.right, factors.others.T]), n_threads=n_threads)
        for rows in row_blocks(*out.shape):
            made = None
            for base, weight in self.summands:
                term = base[rows] if weight == 1 else out.dtype.type(weight) * base[rows]
                made = term if made is None else made + term
            if part is None:
                out[rows] = made
            else:
                left = np.concatenate([factors.vectors[rows], part.left[rows]], axis=1)
                _products.matmul(left, right, out[rows], plus=made, n_threads=n_threads)

    def array(self, dtype: np.dtype[Any], shape: tuple[int, int]) -> FloatArray:
        """The product as an array, which belongs to others if it is one matrix."""
        made = self.matrix
        if made is None:
            made = aligned_empty(shape, dtype)
            self.write(made)
        return made

    def mixed(self, others: Iterable[Product], weights: Sequence[float]) -> Product:
        """Return the weighted sum of products; this product is the last."""
        bases: dict[int, tuple[FloatArray | Outer, float]] = {}
        parts = []
        for product, weight in zip(others, weights, strict=True):
            for base, share in product.summands:
                bases[id(base)] = base, bases.get(id(base), (base, 0.0))[1] + weight * share
            if product.part is not None:
                parts.append((weight, product.part))
        # Products near one reference have it in common, with a sum of weights of one.
        summands = tuple((base, 1.0 if abs(w - 1.0) < 1e-12 else w) for base, w in bases.values())
        return self._replace(summands=summands, part=summed(parts) if parts else None)


class Reference(NamedTuple):
    """A full product, the low-rank part of its plan, and the rest of its value there."""

    base: FloatArray
    part: LowRankPart
    offset: float


class LowRankPart(NamedTuple):
    """The matrix ``vectors @ right + left @ others.T`` of a plan or of a sum of plans, with the
    `vectors` and `others` of its `factors`.
    """

    left: FloatArray
    right: FloatArray
    factors: LeadingFactors

    def rows(self, some: slice | IntArray) -> FloatArray:
        """Return a few rows, by their numbers."""
        factors = self.factors
        return factors.vectors[some] @ self.right + self.left[some] @ factors.others.T

    def dot(self, projections: Projections) -> float:
        """Return ``<part, plan>`` of the plan with these `Projections`."""
        rows = projections.rows * self.factors.values[:, None]
        pairs = (self.right, rows), (self.left, projections.cols)
        # The same for any number of threads.
        return sum(float(np.einsum("ij,ij->", *pair, dtype=np.float64)) for pair in pairs)


def summed(parts: Sequence[tuple[float, LowRankPart]]) -> LowRankPart:
    """Return the weighted sum of parts of the same factors, pairs of a weight and a part."""
    last, number = parts[-1][1], parts[-1][1].left.dtype.type
    left = sum(number(weight) * part.left for weight, part in parts)
    return last._replace(
        left=left, right=sum(number(weight) * part.right for weight, part in parts)
    )


class Projections(NamedTuple):
    """A plan times the leading eigenvectors of the left matrix (r, m) and of the right one (n, r);
    and the measured rows of its full product.
    """

    rows: FloatArray
    cols: FloatArray
    measured: FloatArray


class LeadingFactors:
    """The leading eigenvectors of the matrices of two `CostSide`; `right` is the right one as
    `multiply` takes it.

    Attributes
    ----------
    values : (r,) ndarray
        Eigenvalues of the left matrix.
    vectors, others : (n, r) and (m, r) ndarrays
        Eigenvectors of the left matrix times their values, and of the right one.
    measured : (k,) ndarray of int
        The rows in which errors of updates are measured.
    """

    def __init__(self, sides: tuple[CostSide, CostSide], right: Factor, n_threads: int) -> None:
        left, dtype = sides[0].matrix, sides[0].matrix.dtype
        rank = rank_for((len(left), len(sides[1].matrix)))
        (vectors, values), (others, weights) = (side.eigenpairs(rank, n_threads) for side in sides)
        self._left, self._right, self.n_threads = left, right, n_threads
        square_error = square_lengths(left, n_threads) - vectors**2 @ values**2
        spread = range(0, len(left), max(len(left) // MEASURED, 1))
        self.measured = np.union1d(spread, np.argsort(square_error)[-MEASURED:])
        measured: Any = left[self.measured]
        if isinstance(left, Shifted):
            rows, measured = measured, aligned_empty(measured.shape)
            _kernels.copy_rows(rows, measured, n_threads)
        # Measured rows are multiplied together with the eigenvectors.
        self._rows = np.ascontiguousarray(np.concatenate([vectors.T, measured]), dtype)
        self.vectors = np.ascontiguousarray(vectors * values, dtype)
        self.others = np.ascontiguousarray(others, dtype)
        self.values, self._weights = values.astype(dtype), weights.astype(dtype)

    def of(self, plan: FloatArray) -> tuple[LowRankPart, Projections]:
        """Return the `LowRankPart` of the product of a plan, and its `Projections`."""
        rank = len(self.values)
        cols, made = self._times(plan, self.others), self._times(self._rows, plan)
        left = self._times(self._left, cols)
        left -= self._times(self.vectors, self._times(made[:rank], self.others))
        left *= self._weights
        product = self._times(made, self._right)
        part = LowRankPart(left, product[:rank], self)
        return part, Projections(made[:rank], cols, product[rank:])

    def updated(
        self,
        found: tuple[LowRankPart, Projections],
        plan: FloatArray,
        reference: Reference | None,
        constant: FloatArray | None,
        tolerance: float,
    ) -> Product | None:
        """Return the product of a plan as an update of a reference (None is zero), or None if its
        error exceeds the tolerance and rounding. `found` is the result of `of`.
        """
        (part, projections), base, rows = found, constant, self.measured
        errors = projections.measured
        if reference is not None:
            part, base = summed([(1.0, part), (-1.0, reference.part)]), reference.base
            errors = errors - base[rows] + (0.0 if constant is None else constant[rows])
        error = error_over(plan[rows], errors - part.rows(rows))
        # The rounding of measured rows, reference and update: an update without a larger error
        # is as good as a full product.
        rounding = 0.6 * float(np.finfo(plan.dtype).eps)
        if not (tolerance > 0.0 and error <= max(tolerance, rounding)):
            return None
        summands = () if base is None else ((base, 1.0),)
        return Product(summands, part, reference, is_full=False, is_exact=error <= rounding)

    def _times(self, a: Factor, b: Factor) -> FloatArray:
        columns = b.m if isinstance(b, Panels) else b.shape[1]
        made = aligned_empty((len(a), columns), self._rows.dtype)
        multiply(a, b, made, self.n_threads)
        return made


def suits(shape: tuple[int, int], symmetric: bool, tuning: Tuning) -> bool:
    """Return whether low-rank updates are worth it for products of this shape."""
    return tuning.low_rank_updates and symmetric and min(shape) >= tuning.low_rank_from


def rank_for(shape: tuple[int, int]) -> int:
    """Return the number of eigenvectors of each side."""
    rank = min(shape) // POINTS_PER_VECTOR // PANEL * PANEL
    return int(np.clip(rank, LEAST_RANK, MAX_RANK))


def error_over(weights: FloatArray, errors: FloatArray) -> float:
    """Return the mean error of a product over some rows of a plan, the `weights`; the constant
    part of the `errors` of each of these rows moves no plan.
    """
    # In float32 products of small weights and small errors would be subnormal.
    weights = weights.astype(np.float64)
    mass = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, mass, where=mass > 0, out=np.zeros_like(weights))
    errors = errors - np.einsum("ij,ij->i", weights, errors)[:, None]
    total = np.einsum("ij,ij->", weights, np.abs(errors))
    return float(total) / max(int(np.count_nonzero(mass)), 1)


def multiply(
    a: Factor, b: Factor, out: FloatArray, n_threads: int, deadline: Deadline = NEVER
) -> None:
    """Write ``a @ b`` to `out`, which may be `b` itself; OutOfTime after the deadline. `a` may be
    `Rows`, `b` symmetric `Shifted`. No row depends on the rows that are computed with it.
    """
    is_packed, transposed = isinstance(b, Panels), isinstance(b, Shifted)  # symmetric
    # For few rows of the left factor the right factor is packed while it is read.
    if not is_packed and out is not b and isinstance(a, np.ndarray) and len(a) <= 256:
        deadline.check()
        _products.matmul_few(a, b, out, transposed, n_threads=n_threads)
        return
    k, m = (b.k, b.m) if is_packed else b.shape
    width = max(PACKED_BYTES // (out.dtype.itemsize * k * PANEL), 2) * PANEL
    for j in range(0, m, m if is_packed else width):
        cols = slice(j, m if is_packed else min(j + width, m))
        panels = b
        if not is_packed:
            panels = Panels(b[cols] if transposed else b[:, cols], transposed, n_threads=n_threads)
        # 1e10 multiplications, half a second of one thread, between two looks at the deadline.
        step = max(10**10 // (k * panels.m), 1)
        for i in range(0, len(a), step):
            deadline.check()
            rows = slice(i, min(i + step, len(a)))
            _products.matmul(a[rows], panels, out[rows, cols], n_threads=n_threads)
        del panels  # before the next are made

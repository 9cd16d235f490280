"""Plans in the form that they were computed in: an array, a sparse matrix, or factors that no one
has multiplied yet. All answer the same questions.
"""

from __future__ import annotations

import copy
import functools
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..kernels import _kernels, _products
from ..kernels._products import Gibbs, Panels
from ..kernels._rows import ColumnSums, aligned_empty
from ..utils.blocks import row_blocks
from ..utils.types import Float64Array, FloatArray, IntArray
from ..utils.validation import as_array, as_count
from .tables import Neighbors, largest

LEFT_OUT = 1e-4  # fraction of the mass of a row that `tocsr` may leave out
BLOCK_FLOATS = 1 << 24  # entries of rows that are made at a time: 64 MB of float32


class Coupling:
    """A plan of shape (n, m), in one of three forms.

    Attributes
    ----------
    shape, n_threads, form : (int, int), int, {"array", "sparse", "factors", "lost"}
        The form of a loaded `Alignment` is "lost": its file has no plan.
    nbytes, limit : int, float or None
        Bytes in memory, and bytes that `toarray` may take.
    left_out : float
        Upper bound, at 95 % confidence, of the mass that the tier "neighbors" left out; else 0.
    dtype : numpy.dtype
        Float32, but for arrays of float64 solves.

    Examples
    --------
    >>> import gwfast
    >>> cost = [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    >>> coupling = gwfast.gromov_wasserstein(cost, cost, epsilon=0).coupling
    >>> coupling.shape, coupling.form
    ((3, 3), 'array')
    """

    form: ClassVar[Literal["array", "sparse", "factors", "lost"]]
    dtype: np.dtype[Any] = np.dtype(np.float32)
    limit: float | None = None
    left_out: float = 0.0

    def __init__(self, shape: tuple[int, int], n_threads: int):
        self.shape, self.n_threads = shape, n_threads

    # Each form defines its size, its transpose, and rows as an array or as kernels take them.

    @property
    def nbytes(self) -> int:
        raise NotImplementedError

    def _transposed(self) -> Coupling:
        raise NotImplementedError

    def _rows(self, rows: Any) -> FloatArray:
        raise NotImplementedError

    def _made(self, rows: Any = slice(None)) -> Any:
        return self._rows(rows)

    def replace(self, **attributes: float | None) -> Coupling:
        """Return the same plan, not copied, with another `limit` or `left_out`."""
        other = copy.copy(self)
        for name, value in attributes.items():
            setattr(other, name, value)
        return other

    def copy(self) -> Coupling:
        """Return a plan that no later solve can overwrite."""
        return self

    def toarray(self) -> FloatArray:
        """Return the plan as an (n, m) ndarray of `dtype`, in place where it is an array; raise a
        MemoryError if it would not fit the memory limit of the solve.
        """
        size = self.dtype.itemsize * self.shape[0] * self.shape[1]
        if self.limit is not None and size > self.limit:
            raise MemoryError(
                f"the plan as an array of {self.shape[0]} x {self.shape[1]} takes "
                f"{size / 1e9:.3g} GB, and memory_limit was {self.limit / 1e9:.3g} GB; "
                "use tocsr, topk, apply or transform"
            )
        return self._toarray()

    def tocsr(self, left_out: float = LEFT_OUT) -> sparse.csr_array:
        """Return the plan as a SciPy CSR array of `dtype`, without the smallest entries of every
        row, which have at most the fraction `left_out` of its mass together.
        """
        parts = []
        for rows in row_blocks(*self.shape, 8 * BLOCK_FLOATS):
            block = self._rows(rows)
            kept = (block >= _smallest_kept(block, left_out)[:, None]) & (block > 0)
            parts.append(sparse.csr_array(np.where(kept, block, 0)))
        return sparse.csr_array(sparse.vstack(parts, format="csr"))

    def topk(self, k: int, rows: ArrayLike | None = None) -> Neighbors:
        """Return `Neighbors` by the k largest entries of some rows (None is all), largest first;
        all columns if there are fewer.
        """
        k = min(as_count(k, "k"), self.shape[1])
        if rows is None:
            return self._topk(k, slice(None))
        rows = np.asarray(rows)
        if rows.size == 0:
            rows = rows.astype(np.int64)  # an empty list is of floats
        return self._topk(k, np.arange(self.shape[0])[rows])

    def apply(self, y: ArrayLike) -> FloatArray:
        """Return ``plan @ y``, (n,) or (n, e) of `dtype`, for a `y` of (m,) or (m, e)."""
        y = check_points(as_array(y, "y"), "y", self.shape[1])
        columns = np.ascontiguousarray(y.reshape(len(y), -1), dtype=self.dtype)
        return self._apply(columns).reshape(self.shape[:1] + y.shape[1:])

    def transform(self, y: ArrayLike) -> FloatArray:
        """Return the barycentric projection ``plan @ y / plan @ 1``: for every row the mean of
        the rows of `y` that its mass goes to, zero for rows without mass.
        """
        product = self.apply(y)
        masses = self.marginals[0].astype(self.dtype)
        scale = np.divide(1.0, masses, out=np.zeros_like(masses), where=masses > 0)
        return product * scale.reshape((-1,) + (1,) * (product.ndim - 1))

    @property
    def marginals(self) -> tuple[Float64Array, Float64Array]:
        """Row sums (n,) and column sums (m,), float64."""
        rows, cols, part = np.empty(self.shape[0]), np.zeros(self.shape[1]), np.empty(self.shape[1])
        for block_rows in row_blocks(*self.shape):
            block = self._rows(block_rows)
            _kernels.marginals(
                block, rows[block_rows], part, ColumnSums(*block.shape), self.n_threads
            )
            cols += part
        return rows, cols

    @property
    def T(self) -> Coupling:
        """The coupling of the other side with this one."""
        return self._transposed().replace(limit=self.limit, left_out=self.left_out)

    def entropy(self) -> float:
        """Return ``-sum plan log plan``."""
        return _kernels.entropy(self._made(), self.n_threads)

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that the plan is made of, by name, for files."""
        return {"plan": self.toarray()}

    def __repr__(self) -> str:
        n, m = self.shape
        return f"{type(self).__name__}({n} x {m}, {self.nbytes / 1e6:.3g} MB)"

    def _toarray(self) -> FloatArray:
        return self._rows(slice(None))

    def _topk(self, k: int, rows: Any) -> Neighbors:
        return largest(self._made(rows), k, self.n_threads)

    def _apply(self, y: FloatArray) -> FloatArray:
        product = np.empty((self.shape[0], y.shape[1]), dtype=y.dtype)
        panels = Panels(y, n_threads=self.n_threads)
        _products.matmul(self._made(), panels, product, n_threads=self.n_threads)
        return product


class ArrayCoupling(Coupling):
    """A plan in an array."""

    form = "array"

    def __init__(self, array, n_threads):
        super().__init__(array.shape, n_threads)
        self.array, self.dtype = array, array.dtype

    @property
    def nbytes(self):
        return self.array.nbytes

    @property
    def marginals(self):
        return tuple(self.array.sum(axis=axis, dtype=np.float64) for axis in (1, 0))

    def copy(self):
        return ArrayCoupling(self.array.copy(), self.n_threads).replace(limit=self.limit)

    def _transposed(self):
        return ArrayCoupling(np.ascontiguousarray(self.array.T), self.n_threads)

    def _toarray(self):
        return self.array

    def _rows(self, rows):
        return np.ascontiguousarray(self.array[rows])


class FactoredCoupling(Coupling):
    """A plan ``exp((f_i + g_j - (left @ right.T)_ij) / epsilon)``, or that with the `logarithms`
    of scalings (n,) and (m,); rows are made when they are needed.
    """

    form = "factors"

    def __init__(self, left, right, f, g, epsilon, n_threads, logarithms=None):
        super().__init__((len(left), len(right)), n_threads)
        self.left, self.right, self.f, self.g, self.epsilon = left, right, f, g, epsilon
        self.logarithms = logarithms or tuple(map(np.zeros, self.shape))

    @functools.cached_property
    def _panels(self):
        return Panels(self.right, True, n_threads=self.n_threads)

    def __getstate__(self):
        # Panels hold memory of C, and are made again from `right`.
        return {k: value for k, value in vars(self).items() if k != "_panels"}

    @property
    def nbytes(self):
        arrays = self.left, self.right, self.f, self.g, *self.logarithms, self._panels
        return sum(array.nbytes for array in arrays)

    def parts(self):
        names = "left", "right", "left_f", "right_g", "u", "v", "unit"
        arrays = self.left, self.right, self.f, self.g, *self.logarithms, np.array(self.epsilon)
        return dict(zip(names, arrays, strict=True))

    def _transposed(self):
        sides = self.right, self.left, self.g, self.f
        return FactoredCoupling(*sides, self.epsilon, self.n_threads, self.logarithms[::-1])

    def _made(self, rows=slice(None)):
        u, v = self.logarithms
        left, f = self.left[rows], self.f[rows]
        return Gibbs(left, self._panels, f, self.g, self.epsilon, (u[rows], v))

    def _rows(self, rows):
        gibbs = self._made(rows)
        out = aligned_empty((gibbs.n, gibbs.m))
        _kernels.copy_rows(gibbs, out, self.n_threads)
        return out


class SparseCoupling(Coupling):
    """A plan most of whose entries are zero, as a `scipy.sparse.csr_array`."""

    form = "sparse"

    def __init__(self, csr, n_threads):
        super().__init__(csr.shape, n_threads)
        self.csr = csr

    @property
    def nbytes(self):
        return self.csr.data.nbytes + self.csr.indices.nbytes + self.csr.indptr.nbytes

    @property
    def marginals(self):
        # SciPy would add up in float32 first.
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.csr.indptr))
        return tuple(
            np.bincount(numbers, weights=self.csr.data, minlength=size)
            for numbers, size in zip((rows, self.csr.indices), self.shape, strict=True)
        )

    def tocsr(self, left_out=LEFT_OUT):
        kept = self.csr.data > 0
        for _, stored, filled in _packed(self.csr):
            packed = np.zeros(filled.shape, dtype=self.dtype)
            packed[filled] = self.csr.data[stored]
            least = _smallest_kept(packed, left_out)
            kept[stored] &= self.csr.data[stored] >= np.repeat(least, filled.sum(axis=1))
        plan = self.csr.copy()
        plan.data[~kept] = 0
        plan.eliminate_zeros()
        return plan

    def parts(self):
        return dict(data=self.csr.data, indices=self.csr.indices, indptr=self.csr.indptr)

    def entropy(self):
        data = self.csr.data[self.csr.data > 0].astype(np.float64)
        return -float(data @ np.log(data))

    def _transposed(self):
        return SparseCoupling(self.csr.T.tocsr(), self.n_threads)

    def _rows(self, rows):
        return self.csr[rows].toarray()

    def _topk(self, k, rows):
        part = self.csr[rows]
        indices = np.empty((part.shape[0], k), dtype=np.int64)
        scores = np.empty(indices.shape, dtype=np.float32)
        for block, stored, filled in _packed(part, k):
            packed = np.zeros(filled.shape, dtype=np.float32)
            cols = np.zeros(filled.shape, dtype=np.int64)
            packed[filled], cols[filled] = part.data[stored], part.indices[stored]
            places, scores[block] = largest(packed, k, self.n_threads)
            indices[block] = np.take_along_axis(cols, places, axis=1)
        for row in np.flatnonzero(scores[:, -1] <= 0):
            # The first columns without mass.
            with_mass = indices[row][scores[row] > 0]
            free = np.setdiff1d(np.arange(k), with_mass)
            indices[row, len(with_mass) :] = free[: k - len(with_mass)]
        return Neighbors(indices, scores)

    def _apply(self, y):
        return self.csr @ y


class LostCoupling(Coupling):
    """The shape of a plan that a file has not kept; all else is a ValueError."""

    form = "lost"
    nbytes = 0

    def _transposed(self):
        return LostCoupling(self.shape[::-1], self.n_threads)

    def _rows(self, rows):
        raise ValueError(
            "gw of a file of Alignment.save has no plan: align again, or save gw as well"
        )


def _packed(csr, width=1):
    """Yield slices of rows, of their entries, and a mask that moves these together."""
    counts, starts = np.diff(csr.indptr), csr.indptr
    width = max(int(counts.max(initial=1)), width)
    for rows in row_blocks(csr.shape[0], width, 8 * BLOCK_FLOATS):
        filled = np.arange(width) < counts[rows, None]
        yield rows, slice(starts[rows.start], starts[rows.stop]), filled


def check_points(y: NDArray[Any], name: str, m: int) -> NDArray[Any]:
    """Return `y` if it has a value or a row of values for each of `m` points."""
    if y.ndim not in (1, 2) or len(y) != m:
        raise ValueError(f"{name} must have shape ({m},) or ({m}, e), got {y.shape}")
    return y


def matches_of(coupling: Coupling, k: int, rows: ArrayLike | None = None) -> Neighbors:
    """Return `Coupling.topk`, with indices of -1 in rows without mass but for rounding."""
    neighbors = coupling.topk(k, rows)
    top = (neighbors.scores if rows is None else coupling.marginals[0]).max()
    # Linear programs leave up to 1e-15 of the largest mass in rows that they leave out.
    return neighbors._replace(
        indices=np.where(neighbors.scores[:, :1] > 1e-14 * top, neighbors.indices, -1)
    )


def are_matches(coupling: Coupling, rows: IntArray, cols: IntArray) -> NDArray[np.bool_]:
    """Return whether each of these columns is a best match of its row, up to rounding."""
    chosen, best = np.empty(len(rows)), np.empty(len(rows))
    for part in row_blocks(len(rows), coupling.shape[1]):
        plan = coupling._rows(rows[part])
        chosen[part], best[part] = plan[np.arange(len(plan)), cols[part]], plan.max(axis=1)
    # Plans of points that cannot be told apart are equal up to the tolerance of a solve.
    return (chosen >= (1 - 1e-3) * best) & (chosen > 1e-14 * best.max(initial=0.0))


def shares_of(coupling: Coupling, neighbors: Neighbors) -> Float64Array:
    """Return what `topk` found for all rows as shares of the mass of each row, 0 if it has none."""
    masses = coupling.marginals[0][:, None]
    return np.divide(
        neighbors.scores, masses, out=np.zeros(neighbors.scores.shape), where=masses > 0
    )


def _smallest_kept(block, left_out):
    """Return the smallest entry of every row that is kept if entries below it, with at most the
    fraction `left_out` of its mass, are left out.
    """
    left_out = float(left_out)
    if not 0 <= left_out < 1:
        raise ValueError(f"left_out must be in [0, 1), got {left_out}")
    ordered = np.sort(block, axis=1)
    below = np.cumsum(ordered, axis=1, dtype=np.float64)
    first = (below <= left_out * below[:, -1:]).sum(axis=1)
    return ordered[np.arange(len(block)), np.minimum(first, block.shape[1] - 1)]

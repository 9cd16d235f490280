"""Plans in the form that they were computed in: an array, a sparse matrix, or factors
that no one has multiplied yet. All answer the same questions.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..kernels import _kernels, _products
from ..kernels._rows import ColumnSums, Gibbs, Panels, aligned_empty
from ..utils.blocks import row_blocks
from ..utils.types import Float64Array, FloatArray
from ..utils.validation import as_array, as_count
from .neighbors import Neighbors, largest

# Fraction of the mass of a row that `tocsr` may leave out.
LEFT_OUT = 1e-4
# Fraction of the largest entry or row sum up to which an entry is rounding: linear programs leave
# up to 1e-15 of it in rows that they leave out.
ROUNDING = 1e-14
# Entries of rows that are made at a time: 64 MB of float32.
BLOCK_FLOATS = 1 << 24


class Coupling:
    """A plan of shape (n, m), in whatever form.

    Attributes
    ----------
    shape : tuple of int
    n_threads : int
    limit : float or None
        Bytes that `toarray` may take, see `with_limit`.
    nbytes : int
        What it takes in memory.
    form : {"array", "sparse", "factors"}
    dtype : numpy.dtype
        Float32, but for arrays of float64 solves.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> coupling = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1]).coupling
    >>> coupling.shape, coupling.form
    ((60, 60), 'array')
    >>> bool((coupling.topk(1).indices[:, 0] == np.arange(60)[::-1]).mean() > 0.9)
    True
    """

    form: ClassVar[Literal["array", "sparse", "factors"]]
    dtype: np.dtype[Any] = np.dtype(np.float32)
    limit: float | None = None
    # What the forms know: the other side, and rows as an array or as kernels take them.
    _transposed: Callable[[], Coupling]
    _rows: Callable[[slice], FloatArray]
    _made: Callable[..., Any]

    def __init__(self, shape: tuple[int, int], n_threads: int):
        self.shape, self.n_threads = shape, n_threads

    def with_limit(self, limit: float | None) -> Coupling:
        """The same plan, not copied, whose `toarray` may take so many bytes."""
        other = copy.copy(self)
        other.limit = limit
        return other

    def toarray(self) -> FloatArray:
        """The plan as an (n, m) ndarray of `dtype`, in place where it is one.

        Raises
        ------
        MemoryError
            If it would not fit the memory limit of the solve.
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
        """The plan as a SciPy CSR array of `dtype`, small entries left out.

        Parameters
        ----------
        left_out : float, default=1e-4
            Fraction of the mass of every row that its smallest entries, which are left
            out, have together at most.
        """
        left_out = _as_fraction(left_out)
        parts = []
        for _, block in self._blocks():
            kept = (block >= _smallest_kept(block, left_out)[:, None]) & (block > 0)
            parts.append(sparse.csr_array(np.where(kept, block, 0)))
        return sparse.csr_array(sparse.vstack(parts, format="csr"))

    def topk(self, k: int, rows: ArrayLike | None = None) -> Neighbors:
        """`Neighbors` by the k largest entries of every row, largest first.

        Parameters
        ----------
        k : int
            At most the number of columns is returned.
        rows : (r,) int ndarray or None, default=None
            Which rows; None is all.
        """
        k = min(as_count(k, "k"), self.shape[1])
        if rows is None:
            return self._topk(k, slice(None))
        rows = np.asarray(rows)
        if rows.size == 0:
            rows = rows.astype(np.int64)  # an empty list is of floats
        return self._topk(k, np.arange(self.shape[0])[rows])

    def apply(self, y: ArrayLike) -> FloatArray:
        """``plan @ y``, (n,) or (n, e) of `dtype`, for a `y` of (m,) or (m, e)."""
        y = check_points(as_array(y, "y"), "y", self.shape[1])
        columns = np.ascontiguousarray(y.reshape(len(y), -1), dtype=self.dtype)
        moved, _ = self._apply(columns)
        return moved.reshape(self.shape[:1] + y.shape[1:])

    def transform(self, y: ArrayLike) -> FloatArray:
        """The barycentric projection ``plan @ y / plan @ 1``: to every row the mean of
        the rows of `y` that its mass goes to, zero for rows without mass.
        """
        moved = self.apply(y)
        masses = self.marginals[0].astype(self.dtype)
        scale = np.divide(1.0, masses, out=np.zeros_like(masses), where=masses > 0)
        return moved * scale.reshape((-1,) + (1,) * (moved.ndim - 1))

    @property
    def marginals(self) -> tuple[Float64Array, Float64Array]:
        """Row sums (n,) and column sums (m,), float64."""
        rows, cols = np.empty(self.shape[0]), np.zeros(self.shape[1])
        for some in row_blocks(*self.shape):
            block, part = self._rows(some), np.empty(self.shape[1])
            work = ColumnSums(*block.shape)
            _kernels.marginals(block, rows[some], part, work, self.n_threads)
            cols += part
        return rows, cols

    @property
    def T(self) -> Coupling:
        """The coupling of the other side with this one."""
        return self._transposed().with_limit(self.limit)

    @property
    def nbytes(self) -> int:
        raise NotImplementedError

    def entropy(self) -> float:
        """``-sum plan log plan``."""
        return _kernels.entropy(self._made(), self.n_threads)

    def copy(self) -> Coupling:
        """One that no later solve can overwrite."""
        return self

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.shape[0]} x {self.shape[1]}, {self.nbytes / 1e6:.3g} MB)"
        )

    def _toarray(self) -> FloatArray:
        return self._rows(slice(None))

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Pairs of a slice of rows and these as an array."""
        for rows in row_blocks(*self.shape, 8 * BLOCK_FLOATS):
            yield rows, self._rows(rows)

    def _topk(self, k: int, rows: Any) -> Neighbors:
        return largest(self._made(rows), k, self.n_threads)

    def _apply(self, y: FloatArray) -> tuple[FloatArray, Float64Array]:
        """``plan @ y``, and the row sums."""
        n, n_threads = self.shape[0], self.n_threads
        given = self._made(), Panels(y, n_threads=n_threads)
        moved, sums = np.empty((n, y.shape[1]), dtype=y.dtype), np.empty(n)
        ones = np.ones(len(y), dtype=y.dtype)
        _products.matmul(*given, moved, ones, sums, n_threads=n_threads)
        return moved, sums


class ArrayCoupling(Coupling):
    """A plan in an array."""

    form = "array"

    def __init__(self, array, n_threads):
        super().__init__(array.shape, n_threads)
        self.array, self.dtype = array, array.dtype

    @property
    def nbytes(self):
        return self.array.nbytes

    def _transposed(self):
        return ArrayCoupling(np.ascontiguousarray(self.array.T), self.n_threads)

    @property
    def marginals(self):
        return tuple(self.array.sum(axis=axis, dtype=np.float64) for axis in (1, 0))

    def copy(self):
        return ArrayCoupling(self.array.copy(), self.n_threads).with_limit(self.limit)

    def _toarray(self):
        return self.array

    def _made(self, rows=slice(None)):
        return np.ascontiguousarray(self.array[rows])

    _rows = _made


class FactoredCoupling(Coupling):
    """A plan ``exp((f_i + g_j - (left @ right.T)_ij) / epsilon)``, or that with the
    `logarithms` of scalings (n,) and (m,); rows are made when they are needed.
    """

    form = "factors"

    def __init__(self, left, right, f, g, epsilon, n_threads, logarithms=None):
        super().__init__((len(left), len(right)), n_threads)
        self.left, self.right, self.f, self.g = left, right, f, g
        self.epsilon = epsilon
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

    def _transposed(self):
        swapped = self.right, self.left, self.g, self.f
        given = *swapped, self.epsilon, self.n_threads
        return FactoredCoupling(*given, self.logarithms[::-1])

    def _made(self, rows=slice(None)):
        potentials, (u, v) = (self.f[rows], self.g), self.logarithms
        given = self.left[rows], self._panels, *potentials, self.epsilon, (u[rows], v)
        return Gibbs(*given)

    def _rows(self, rows):
        made = self._made(rows)
        out = aligned_empty((made.n, made.m))
        _kernels.copy_rows(made, out, self.n_threads)
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

    def _transposed(self):
        return SparseCoupling(self.csr.T.tocsr(), self.n_threads)

    @property
    def marginals(self):
        # SciPy would add up in float32 first.
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.csr.indptr))
        return tuple(
            np.bincount(at, weights=self.csr.data, minlength=size)
            for at, size in zip((rows, self.csr.indices), self.shape, strict=True)
        )

    def tocsr(self, left_out=LEFT_OUT):
        left_out = _as_fraction(left_out)
        kept, starts, n = self.csr.data > 0, self.csr.indptr, self.shape[0]
        counts = np.diff(starts)
        width = int(counts.max(initial=1))
        for rows in row_blocks(n, width, 8 * BLOCK_FLOATS):
            # Only what is stored, moved together, and zeros where rows are shorter.
            stored = slice(starts[rows.start], starts[rows.stop])
            filled = np.arange(width) < counts[rows, None]
            packed = np.zeros(filled.shape, dtype=self.dtype)
            packed[filled] = self.csr.data[stored]
            least = np.repeat(_smallest_kept(packed, left_out), counts[rows])
            kept[stored] &= self.csr.data[stored] >= least
        made = self.csr.copy()
        made.data[~kept] = 0
        made.eliminate_zeros()
        return made

    def entropy(self):
        data = self.csr.data[self.csr.data > 0].astype(np.float64)
        return -float(data @ np.log(data))

    def _topk(self, k, rows):
        part = self.csr[rows]
        n, starts = part.shape[0], part.indptr
        counts = np.diff(starts)
        width = max(int(counts.max(initial=1)), k)
        indices = np.empty((n, k), dtype=np.int64)
        scores = np.empty((n, k), dtype=np.float32)
        for block in row_blocks(n, width, 8 * BLOCK_FLOATS):
            # Only what is stored, moved together.
            stored = slice(starts[block.start], starts[block.stop])
            filled = np.arange(width) < counts[block, None]
            packed = np.zeros(filled.shape, dtype=np.float32)
            cols = np.zeros(filled.shape, dtype=np.int64)
            packed[filled], cols[filled] = part.data[stored], part.indices[stored]
            at, scores[block] = largest(packed, k, self.n_threads)
            indices[block] = np.take_along_axis(cols, at, axis=1)
        for row in np.flatnonzero(scores[:, -1] <= 0):
            # The first columns of those without mass.
            own = indices[row][scores[row] > 0]
            free = np.setdiff1d(np.arange(k), own)
            indices[row, len(own) :] = free[: k - len(own)]
        return Neighbors(indices, scores)

    def _rows(self, rows):
        return self.csr[rows].toarray()

    def _apply(self, y):
        return self.csr @ y, self.marginals[0]


def check_points(y: NDArray[Any], name: str, m: int) -> NDArray[Any]:
    """`y` if it has a value or a row of values for each of so many points."""
    if y.ndim not in (1, 2) or len(y) != m:
        raise ValueError(f"{name} must have shape ({m},) or ({m}, e), got {y.shape}")
    return y


def matches_of(coupling: Coupling, k: int, rows: ArrayLike | None = None) -> Neighbors:
    """Return `Coupling.topk`, with indices of -1 in rows without mass but for rounding."""
    found = coupling.topk(k, rows)
    largest_mass = (found.scores if rows is None else coupling.marginals[0]).max()
    matched = found.scores[:, :1] > ROUNDING * largest_mass
    return found._replace(indices=np.where(matched, found.indices, -1))


def shares_of(coupling: Coupling, found: Neighbors) -> Float64Array:
    """What `topk` found for all rows of a plan, as shares of the mass of each row; 0
    where a row has none.
    """
    masses = coupling.marginals[0][:, None]
    return np.divide(found.scores, masses, out=np.zeros(found.scores.shape), where=masses > 0)


def _as_fraction(left_out):
    left_out = float(left_out)
    if not 0 <= left_out < 1:
        raise ValueError(f"left_out must be in [0, 1), got {left_out}")
    return left_out


def _smallest_kept(block, left_out):
    """The smallest entry of every row if those below it are left out, which have at
    most the fraction `left_out` of its mass."""
    ordered = np.sort(block, axis=1)
    below = np.cumsum(ordered, axis=1, dtype=np.float64)
    first = (below <= left_out * below[:, -1:]).sum(axis=1)
    return ordered[np.arange(len(block)), np.minimum(first, block.shape[1] - 1)]

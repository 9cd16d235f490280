"""Low-rank updates: products of a plan with two symmetric matrices, as far as the
leading eigenvectors of both matrices determine them.

With ``left = L + A`` and ``right = R + B``, where L and R are of low rank,

    left T right = L T right + A T R + A T B

The first two terms are a low-rank matrix, linear in the plan T. The last term is small,
and changes little while the plan moves along the leading eigenvectors, as it does where
it moves slowly.
"""

from typing import NamedTuple

import numpy as np

from ..kernels import _products
from ..kernels._rows import Panels, aligned_empty
from ..problems.leading import square_lengths, stored
from ..problems.low_rank import MIN_POINTS
from ..utils.blocks import row_blocks
from . import matrix_products

# Eigenvectors of a side: one for so many points, within bounds, in multiples of the columns of a
# packed panel, since a part of a panel takes as long to multiply by. Of 5000 words 16 products
# were whole with 80, 13 with 112, 11 with 128 and 4 with 312, which took longer in all; hops
# between 2000 cells took as long with 64 as with 112. Of 1000 words 4 were whole with 32 and 3
# with 64, which took as long; hops between 1000 cells took a quarter longer with 64.
POINTS_PER_VECTOR, LEAST_RANK, MAX_RANK, PANEL = 32, 32, 96, 32
# Rows in which the error of an update is measured: so many evenly spread, and as many
# with the largest parts outside the leading eigenvectors.
MEASURED = 8
# Bytes of left factors that are concatenated at a time.
FINISHED_BYTES = 1 << 24


def suits(shape, symmetric, mechanisms):
    """Whether low-rank updates are worth it for products of this shape."""
    return mechanisms.low_rank_updates and symmetric and min(shape) >= MIN_POINTS


def rank_for(shape):
    """Number of eigenvectors of each side."""
    rank = min(shape) // POINTS_PER_VECTOR // PANEL * PANEL
    return int(np.clip(rank, LEAST_RANK, MAX_RANK))


class LowRankPart(NamedTuple):
    """The matrix ``vectors @ right + left @ others.T``, of a plan or of a sum of plans:
    `vectors` and `others` are those of its `factors`.
    """

    left: np.ndarray
    right: np.ndarray
    factors: "LeadingFactors"

    def combined(self, parts, weights):
        """The weighted sum of parts of the same factors."""
        kind = self.left.dtype.type
        pairs = [(kind(w), one) for w, one in zip(weights, parts, strict=True)]
        left = sum(weight * one.left for weight, one in pairs)
        right = sum(weight * one.right for weight, one in pairs)
        return self._replace(left=left, right=right)

    def writer(self):
        """A function ``write(rows, out, plus)`` that writes some rows (a slice) of the
        part, plus a matrix unless that is None, to `out`.
        """
        factors, n_threads = self.factors, self.factors.n_threads
        right = np.concatenate([self.right, factors.others.T])
        packed = Panels(right, n_threads=n_threads)

        def write(rows, out, plus=None):
            left = np.concatenate([factors.vectors[rows], self.left[rows]], axis=1)
            _products.matmul(left, packed, out, plus=plus, n_threads=n_threads)

        return write

    def write(self, out, plus):
        """Write all rows; `plus` is a matrix or None."""
        write, width = self.writer(), 2 * self.left.shape[1]
        for rows in row_blocks(len(out), width, FINISHED_BYTES):
            write(rows, out[rows], None if plus is None else plus[rows])

    def rows(self, some):
        """A few rows, by their numbers."""
        factors = self.factors
        return factors.vectors[some] @ self.right + self.left[some] @ factors.others.T

    def dot(self, projections):
        """``<part, plan>`` of the plan with these `Projections`."""
        of_right = projections.rows * self.factors.values[:, None]
        return _dot(self.right, of_right) + _dot(self.left, projections.cols)


class Projections(NamedTuple):
    """A plan times the leading eigenvectors of the left matrix (r, m) and of the right
    one (n, r); and the measured rows of its whole product.
    """

    rows: np.ndarray
    cols: np.ndarray
    measured: np.ndarray


class LeadingFactors:
    """The leading eigenvectors of the matrices of a `BilinearTerm`.

    Attributes
    ----------
    values : (r,) ndarray
        Eigenvalues of `left`.
    vectors, others : (n, r) and (m, r) ndarrays
        Eigenvectors of `left` times their values, and those of `right`.
    measured : (k,) ndarray of int
        The rows in which errors of updates are measured.
    """

    def __init__(self, bilinear, n_threads):
        pairs = bilinear.leading_eigenpairs(rank_for(bilinear.shape))
        (vectors, values), (others, weights) = pairs
        left, dtype = bilinear.matrices[0], bilinear.matrices[0].dtype
        self._left, self._right = bilinear.factors
        self.n_threads, self.values = n_threads, values.astype(dtype)
        missed = square_lengths(left, n_threads) - vectors**2 @ values**2
        spread = range(0, len(left), max(len(left) // MEASURED, 1))
        self.measured = np.union1d(spread, np.argsort(missed)[-MEASURED:])
        # Measured rows are multiplied together with the eigenvectors.
        some = stored(left[self.measured], n_threads)
        self._rows = np.ascontiguousarray(np.concatenate([vectors.T, some]), dtype)
        self.vectors = np.ascontiguousarray(vectors * values, dtype)
        self.others = np.ascontiguousarray(others, dtype)
        self._weights = weights.astype(dtype)

    def of(self, plan):
        """The `LowRankPart` of the product of a plan, and its `Projections`."""
        rank = len(self.values)
        cols = self._times(plan, self.others)
        made = self._times(self._rows, plan)
        left = self._times(self._left, cols)
        left -= self._times(self.vectors, self._times(made[:rank], self.others))
        left *= self._weights
        product = self._times(made, self._right)
        part = LowRankPart(left, product[:rank], self)
        return part, Projections(made[:rank], cols, product[rank:])

    def _times(self, a, b):
        columns = b.m if isinstance(b, Panels) else b.shape[1]
        made = aligned_empty((len(a), columns), self._rows.dtype)
        matrix_products.multiply(a, b, made, self.n_threads)
        return made


def error_over(weights, wrong):
    """Mean error of a product over some rows of a plan, the `weights`; `wrong` has the
    errors of these rows, whose constant part in each row moves no plan.
    """
    # In float32 products of small weights and small errors would be subnormal.
    weights = weights.astype(np.float64)
    mass = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, mass, where=mass > 0, out=np.zeros_like(weights))
    wrong = wrong - np.einsum("ij,ij->i", weights, wrong)[:, None]
    total = np.einsum("ij,ij->", weights, np.abs(wrong))
    return float(total) / max(np.count_nonzero(mass), 1)


def _dot(a, b):
    """``sum(a * b)``, the same for any number of threads."""
    return float(np.einsum("ij,ij->", a, b, dtype=np.float64))


def nbytes(shape, itemsize, depth):
    """Bytes that eigenvectors, and the parts of so many plans, take."""
    n, m = shape
    return itemsize * (8 + depth) * (rank_for(shape) + 2 * MEASURED) * (n + m)

"""Products of plans with two matrices as values, and low-rank updates of them.

With symmetric ``left = L + A`` and ``right = R + B``, where L and R have the leading eigenvectors,

    left T right = L T right + A T R + A T B

The first two terms are a low-rank matrix, linear in the plan T. The last term is small, and changes
little while the plan moves along the leading eigenvectors, as it does where it moves slowly: an
update takes it from a reference plan. What that is wrong by is measured on some rows.
"""

from typing import NamedTuple

import numpy as np

from ..kernels import _kernels, _products
from ..kernels._products import Panels
from ..kernels._rows import Shifted, aligned_empty
from ..problems.leading import square_lengths, stored
from ..problems.low_rank import MIN_POINTS
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER

# Points of a side for each eigenvector, the bounds of their number, and its divisor, the columns of
# a packed panel. Of 1000 words 4 products were whole with 32 and 3 with 64, which took as long; of
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


class Outer(NamedTuple):
    """The outer product of two vectors; rows are made when they are read."""

    rows: np.ndarray
    cols: np.ndarray

    @property
    def shape(self):
        return len(self.rows), len(self.cols)

    def __getitem__(self, some):
        return np.multiply.outer(self.rows[some], self.cols)


def dot(a, b, n_threads):
    """Return the sum of products of entries of two matrices, arrays or `Outer`."""
    blocks = row_blocks(*a.shape)
    return sum(_kernels.dot(a[rows], b[rows], n_threads) for rows in blocks)


class Product(NamedTuple):
    """A product as the weighted sum of matrices and a low-rank part; perhaps of several plans.

    Attributes
    ----------
    terms : tuple of (ndarray or Outer, float)
    part : LowRankPart or None
    reference : Reference or None
        What updates refer to.
    is_whole, is_exact : bool
        Whether it is no update, and whether it is wrong by rounding only.
    """

    terms: tuple
    part: "LowRankPart | None" = None
    reference: "Reference | None" = None
    is_whole: bool = True
    is_exact: bool = True

    @classmethod
    def of(cls, matrix):
        return cls(((matrix, 1.0),))

    @property
    def matrix(self):
        """The one matrix that it is, or None."""
        (base, weight), *others = self.terms or [(None, 0.0)]
        if self.part or others or weight != 1.0 or isinstance(base, Outer):
            return None
        return base

    def write(self, out):
        """Write the product to an array."""
        part_of = None if self.part is None else self.part.writer()
        for rows in row_blocks(*out.shape):
            made = None
            for base, weight in self.terms:
                term = base[rows] if weight == 1 else out.dtype.type(weight) * base[rows]
                made = term if made is None else made + term
            if part_of is None:
                out[rows] = made
            else:
                part_of(rows, out[rows], made)

    def array(self, dtype, shape):
        """The product as an array, which belongs to others if it is one matrix."""
        made = self.matrix
        if made is None:
            made = aligned_empty(shape, dtype)
            self.write(made)
        return made

    def mixed(self, others, weights):
        """Return the weighted sum of products; this product is the last."""
        bases, parts = {}, [other.part for other in others if other.part is not None]
        for product, weight in zip(others, weights, strict=True):
            for base, share in product.terms:
                before = bases.get(id(base), (base, 0.0))[1]
                bases[id(base)] = base, before + weight * share
        # Products near one reference have it in common, with a sum of weights of one.
        terms = tuple((base, 1.0 if abs(w - 1.0) < 1e-12 else w) for base, w in bases.values())
        part = None
        if parts:
            of_parts = [w for w, other in zip(weights, others, strict=True) if other.part]
            part = parts[0].combined(parts, of_parts)
        return self._replace(terms=terms, part=part)


class Reference(NamedTuple):
    """A whole product, the low-rank part of its plan, and the rest of its value there."""

    base: np.ndarray
    part: "LowRankPart"
    offset: float


class LowRankPart(NamedTuple):
    """The matrix ``vectors @ right + left @ others.T``, of a plan or of a sum of plans: `vectors`
    and `others` are of its `factors`.
    """

    left: np.ndarray
    right: np.ndarray
    factors: "LeadingFactors"

    def combined(self, parts, weights):
        """Return the weighted sum of parts of the same factors."""
        number = self.left.dtype.type
        pairs = [(number(w), part) for w, part in zip(weights, parts, strict=True)]
        left = sum(weight * part.left for weight, part in pairs)
        return self._replace(left=left, right=sum(weight * part.right for weight, part in pairs))

    def writer(self):
        """Return a function ``write(rows, out, plus)`` that writes some rows (a slice) of the part,
        plus a matrix unless that is None, to `out`.
        """
        factors, n_threads = self.factors, self.factors.n_threads
        packed = Panels(np.concatenate([self.right, factors.others.T]), n_threads=n_threads)

        def write(rows, out, plus=None):
            left = np.concatenate([factors.vectors[rows], self.left[rows]], axis=1)
            _products.matmul(left, packed, out, plus=plus, n_threads=n_threads)

        return write

    def rows(self, some):
        """A few rows, by their numbers."""
        factors = self.factors
        return factors.vectors[some] @ self.right + self.left[some] @ factors.others.T

    def dot(self, projections):
        """``<part, plan>`` of the plan with these `Projections`."""
        of_right = projections.rows * self.factors.values[:, None]
        return _dot(self.right, of_right) + _dot(self.left, projections.cols)


class Projections(NamedTuple):
    """A plan times the leading eigenvectors of the left matrix (r, m) and of the right one (n, r);
    and the measured rows of its whole product.
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
        Eigenvectors of `left` times their values, and eigenvectors of `right`.
    measured : (k,) ndarray of int
        The rows in which errors of updates are measured.
    """

    def __init__(self, bilinear, n_threads):
        pairs = bilinear.leading_eigenpairs(rank_for(bilinear.shape))
        (vectors, values), (others, weights) = pairs
        left, dtype = bilinear.matrices[0], bilinear.dtype
        self._left, self._right = left, bilinear.panels
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
        """Return the `LowRankPart` of the product of a plan, and its `Projections`."""
        rank = len(self.values)
        cols = self._times(plan, self.others)
        made = self._times(self._rows, plan)
        left = self._times(self._left, cols)
        left -= self._times(self.vectors, self._times(made[:rank], self.others))
        left *= self._weights
        product = self._times(made, self._right)
        part = LowRankPart(left, product[:rank], self)
        return part, Projections(made[:rank], cols, product[rank:])

    def updated(self, found, plan, reference, constant, tolerance, rounding):
        """Return the product of a plan as an update of a reference (None is zero), if its error is
        within the tolerance or `rounding`, else None. `found` has the low-rank part of the plan
        and its projections.
        """
        (part, projections), rows = found, self.measured
        base = constant if reference is None else reference.base
        if reference is not None:
            part = part.combined([part, reference.part], [1.0, -1.0])
        wrong = projections.measured - part.rows(rows)
        if reference is not None:
            wrong -= base[rows]
            wrong += 0.0 if constant is None else constant[rows]
        error = error_over(plan[rows], wrong)
        if not error <= max(tolerance, rounding):
            return None
        terms = () if base is None else ((base, 1.0),)
        return Product(terms, part, reference, is_whole=False, is_exact=error <= rounding)

    def _times(self, a, b):
        columns = b.m if isinstance(b, Panels) else b.shape[1]
        made = aligned_empty((len(a), columns), self._rows.dtype)
        multiply(a, b, made, self.n_threads)
        return made


def suits(shape, symmetric, mechanisms):
    """Return whether low-rank updates are worth it for products of this shape."""
    return mechanisms.low_rank_updates and symmetric and min(shape) >= MIN_POINTS


def rank_for(shape):
    """Return the number of eigenvectors of each side."""
    rank = min(shape) // POINTS_PER_VECTOR // PANEL * PANEL
    return int(np.clip(rank, LEAST_RANK, MAX_RANK))


def error_over(weights, wrong):
    """Return the mean error of a product over some rows of a plan, the `weights`; `wrong` are the
    errors of these rows, whose constant part in each row moves no plan.
    """
    # In float32 products of small weights and small errors would be subnormal.
    weights = weights.astype(np.float64)
    mass = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, mass, where=mass > 0, out=np.zeros_like(weights))
    wrong = wrong - np.einsum("ij,ij->i", weights, wrong)[:, None]
    total = np.einsum("ij,ij->", weights, np.abs(wrong))
    return float(total) / max(np.count_nonzero(mass), 1)


def multiply(a, b, out, n_threads, deadline=NEVER):
    """Write ``a @ b`` to `out`, which may be `b` itself; OutOfTime after the deadline, with `out`
    incomplete. Rows of a product do not depend on the rows that are computed with them.

    Parameters
    ----------
    a : (n, k) ndarray or Rows
    b : (k, m) ndarray, Panels, or symmetric `Shifted`
    out : (n, m) ndarray
    n_threads : int
    deadline : Deadline, default=NEVER
    """
    is_packed, turned = isinstance(b, Panels), isinstance(b, Shifted)  # symmetric
    # For few rows of the left factor the right factor is packed while it is read.
    if not is_packed and out is not b and isinstance(a, np.ndarray) and len(a) <= 256:
        deadline.check()
        _products.matmul_few(a, b, out, turned, n_threads=n_threads)
        return
    k, m = (b.k, b.m) if is_packed else b.shape
    width = max(PACKED_BYTES // (out.dtype.itemsize * k * PANEL), 2) * PANEL
    for j in range(0, m, m if is_packed else width):
        cols = slice(j, m if is_packed else min(j + width, m))
        panels = b
        if not is_packed:
            panels = Panels(b[cols] if turned else b[:, cols], turned, n_threads=n_threads)
        # 1e10 multiplications, half a second of one thread, between two looks at the deadline.
        step = max(10**10 // (k * panels.m), 1)
        for i in range(0, len(a), step):
            deadline.check()
            rows = slice(i, min(i + step, len(a)))
            _products.matmul(a[rows], panels, out[rows, cols], n_threads=n_threads)
        del panels  # before the next are made


def _dot(a, b):
    """``sum(a * b)``, the same for any number of threads."""
    return float(np.einsum("ij,ij->", a, b, dtype=np.float64))

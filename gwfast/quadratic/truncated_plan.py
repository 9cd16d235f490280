"""A plan with few entries in every row, and its linearized cost where they are.

With ``left`` and ``right`` symmetric and the plan T on a `Support` S the linearized
cost ``left T right`` is asked for on S only. From a reference plan on S whose cost is
known there, ``left (T - reference)`` takes no more than the entries of S, and of the
product of that with ``right`` only those on S are made.
"""

import functools
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..kernels import _kernels, _products, _sparse
from ..kernels._rows import Panels, aligned_empty
from ..linear.gibbs_kernel import SampledKernel
from ..linear.truncation import MAX_BOUND
from ..problems.low_rank import leading_eigenpairs, square_lengths
from ..utils.deadline import NEVER
from . import low_rank_products, matrix_products
from .anderson import Anderson

# What the sums of rows weigh beside their differences from the mean in a bound: plans
# with the same marginals have the same sums, but for what these are not met by.
MEAN_WEIGHT = 8.0
# Fraction of the square of a length that is rounding.
ROUNDED = 4e-6
# Parts in which a whole product is made.
PARTS = 8


class Taken(NamedTuple):
    """What a plan that was taken is, beside its values: relative change and Frobenius
    norm of the change, marginals, and ``<plan, cost>``.
    """

    change: float
    moved: float
    rows: np.ndarray
    cols: np.ndarray
    value: float


class SymmetricTerm:
    """What a `BilinearTerm` of two symmetric matrices is to a `TruncatedPlan`."""

    def __init__(self, bilinear, n_threads):
        self.left, self.right = bilinear.matrices
        self.packed = bilinear.factors[1]
        self.shape, self.n_threads = bilinear.shape, n_threads

    @functools.cached_property
    def lengths(self):
        """(m,) float64, of the rows of `right`; times those of `moves` they bound what
        products have changed by.
        """
        square = square_lengths(self.right, self.n_threads)
        return self._weighed(square, self.right, 1 / MEAN_WEIGHT)

    def moves(self, difference):
        """(n,) float64, of the rows of ``left (T - T')``."""
        square = np.einsum("ij,ij->i", difference, difference)
        return self._weighed(square.astype(np.float64), difference, MEAN_WEIGHT)

    def _weighed(self, square, matrix, weight):
        """Lengths of rows, of which these are the squares, with their means so much
        longer.
        """
        m = matrix.shape[1]
        sums = self._times(matrix, np.ones((m, 1), dtype=np.float32))
        means = sums[:, 0].astype(np.float64) ** 2 / m
        return np.sqrt(np.maximum(square - means, 0.0) + means * weight**2)

    def _times(self, matrix, columns):
        made = aligned_empty((len(matrix), columns.shape[1]))
        panels = Panels(columns, n_threads=self.n_threads)
        _products.matmul(matrix, panels, made, n_threads=self.n_threads)
        return made

    @functools.cached_property
    def _basis(self):
        """(m, r) float32, orthonormal: leading eigenvectors of `right`, and ones."""
        rank = low_rank_products.rank_for(self.shape)
        vectors, _ = leading_eigenpairs(self.right, rank, self.n_threads)
        ones = np.ones((len(vectors), 1))
        basis, _ = np.linalg.qr(np.concatenate([ones, vectors], axis=1))
        return np.ascontiguousarray(basis, dtype=np.float32)

    @functools.cached_property
    def known(self):
        """The rows of `right` in a basis of few vectors, (m, r) float32, and the
        lengths of what is left of them, (m,) float64.
        """
        square = square_lengths(self.right, self.n_threads)
        return self._in_basis(self.right, square)

    def known_moves(self, difference):
        """The same of the rows of ``left (T - T')``."""
        square = np.einsum("ij,ij->i", difference, difference).astype(np.float64)
        return self._in_basis(difference, square)

    def _in_basis(self, matrix, square):
        made = self._times(matrix, self._basis)
        inside = np.einsum("ij,ij->i", made, made, dtype=np.float64)
        return made, np.sqrt(np.maximum(square - inside, 0.0) + ROUNDED * square)


class TruncatedPlan:
    """A plan on a `Support`, which changes, and its linearized cost there.

    Parameters
    ----------
    term : SymmetricTerm
    support : Support
    values, costs : (kept,) float32 ndarrays
        Of the reference: the plan, and the cost as it is, also by what the plan has
        elsewhere.
    buffer : Buffer
        Room for an (n, m) float32 matrix.

    Attributes
    ----------
    values : (kept,) float32 ndarray
        Of the plan.
    """

    def __init__(self, term, support, values, costs, buffer):
        self.term, self.support, self._buffer = term, support, buffer
        self._reference, self.values, self._costs = (values, costs), values, costs
        self._rows = np.repeat(np.arange(term.shape[0]), np.diff(support.start))
        self._moved, self._led, self._turn = np.zeros(term.shape[0]), None, None
        turned = self._csr(np.arange(support.kept, dtype=np.int32)).tocsc()
        self._columns = turned.indptr.astype(np.int64), turned.indices.astype(np.int32)
        self._order = turned.data
        self.forget()

    @classmethod
    def chosen(cls, term, support, plan, kernel, potentials, buffer):
        """From the `plan` that a kernel was made at, and with these potentials: a
        matrix, or one of another support; and where that led to, if it did.
        """
        rows = np.repeat(np.arange(term.shape[0]), np.diff(support.start))
        at = rows * term.shape[1] + support.index
        costs = np.log(kernel.rows.reshape(-1)[at], dtype=np.float64)
        costs *= -support.epsilon
        costs += potentials.f[rows]
        costs += potentials.g[support.index]
        costs = costs.astype(np.float32)
        if isinstance(plan, np.ndarray):
            return cls(term, support, plan.reshape(-1)[at], costs, buffer)
        found = plan.finder(at)
        self = cls(term, support, found(plan.leading), costs, buffer)
        self.values = found(plan.values)
        self._led = None if plan._led is None else self._reference[0]
        self._anderson = plan._anderson.mapped(found)
        return self

    def _at(self):
        """Where the entries are in a matrix."""
        return self._rows * self.term.shape[1] + self.support.index

    def finder(self, at):
        """What finds in values of this what they are elsewhere, zero where nothing is
        kept.
        """
        own = self._at()
        places = np.minimum(np.searchsorted(own, at), len(own) - 1)
        known = own[places] == at
        return lambda values: np.where(known, values[places], np.float32(0))

    def _csr(self, values):
        given = values, self.support.index, self.support.start
        return sparse.csr_array(given, shape=self.term.shape)

    def toarray(self):
        """The plan as a float32 matrix."""
        return self._matrix(self.values)

    def _matrix(self, values):
        out = aligned_empty(self.term.shape)
        out.fill(0.0)
        return self._csr(values).toarray(out=out)

    @property
    def leading(self):
        """What the cost is of: the plan, or where the last ones lead."""
        return self.values if self._led is None else self._led

    def fill(self, products, out, change, epsilon, deadline=NEVER):
        """Write the whole cost, of what there is on the support; see
        `PlanProducts.fill`.
        """

        def multiply(plan, out, deadline):
            # Some rows at a time, few enough to take little room, and so many that
            # packing the right factor for each of them does not show.
            given, term = (*self._columns, self.leading[self._order]), self.term
            step = -(-term.shape[0] // PARTS)
            for i in range(0, term.shape[0], step):
                left, made = term.left[i : i + step], out[i : i + step]
                half = aligned_empty(made.shape)
                _sparse.gather(left, *given, half, term.n_threads)
                multiplied = half, term.packed, made, term.n_threads, deadline
                matrix_products.multiply(*multiplied)

        plan = self._matrix(self.leading)
        given = plan, out, change, epsilon, deadline
        products.fill(*given, multiply=multiply)

    def kernel(self):
        """A `Kernel` of the cost, kept on the support."""
        return SampledKernel(self._costs, self.support, self.term.n_threads)

    @property
    def is_new(self):
        """Whether the cost is that of the choice."""
        return not self._moved.any()

    def bound(self, potentials):
        """See `Support.bound`, of the cost and other potentials."""
        rough = self.support.bound(self._moved, potentials)
        if rough <= MAX_BOUND or self.is_new:
            return rough
        if self._turn != self._buffer.turn:
            self._move(self.leading)
        left, moved = self.term.known_moves(self._buffer.array)
        right, lengths = self.term.known
        return self.support.bound(moved, potentials, (left, right), lengths)

    def sampled(self, kernel, scalings):
        """The values of the plan of a `Kernel`, of this or whole, with scalings."""
        is_whole = kernel.rows.ndim > 1
        made = kernel.rows.reshape(-1)[self._at()] if is_whole else kernel.rows
        made = made * np.repeat(scalings.u, np.diff(self.support.start))
        made *= scalings.v[self.support.index]
        return made

    def take(self, values):
        """Take the plan that has these values; what it is, `Taken`."""
        start, self.values, self._led = self.leading, values, None
        self._anderson.add(start, values)
        change, moved = self._distance(start)
        n, m = self.term.shape
        rows = np.bincount(self._rows, values, minlength=n)
        cols = np.bincount(self.support.index, values, minlength=m)
        self._move(values)
        value = _kernels.dot(values[None], self._costs[None], self.term.n_threads)
        return Taken(change / rows.sum(), moved, rows, cols, value)

    def _distance(self, values):
        """Of the plan from these, in L1 and in the Frobenius norm."""
        pair = self.values[None], values[None]
        return _kernels.distance(*pair, self.term.n_threads)

    def _move(self, values):
        """Have the cost be of these."""
        term, start = self.term, self.support.start
        reference, costs = self._reference
        self._turn = self._buffer.take()
        difference, threads = self._buffer.array, term.n_threads
        given = (values - reference)[self._order]
        _sparse.gather(term.left, *self._columns, given, difference, threads)
        self._moved, self._costs = term.moves(difference), costs.copy()
        given = start, self.support.index, difference, term.right, self._costs
        _sparse.add_samples(*given, threads)

    def entropy(self):
        """Of the plan."""
        return _kernels.entropy(self.values[None], self.term.n_threads)

    def extrapolate(self):
        """Move the cost to where the last plans lead; returns the `Lead`."""
        self._led = self._anderson.leads()
        if self._led is not None:
            self._move(self._led)
        return self._anderson.lead

    def retract(self):
        """Go back to the plan before the last."""
        self.values, self._led = self._anderson.penultimate, None
        self.forget()
        self._move(self.values)

    def forget(self):
        """Extrapolate from nothing that was before."""
        self._anderson = Anderson()

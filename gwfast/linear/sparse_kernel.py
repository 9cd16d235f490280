"""The Gibbs kernel of a linear problem of which only a `Support` is kept."""

import functools

import numpy as np
from scipy import sparse

from ..kernels import _products, _sparse
from ..kernels._rows import aligned_empty
from ..results.coupling import SparseCoupling
from .gibbs_kernel import Kernel
from .log_domain import OpaqueCost


class SparseKernel(Kernel):
    """A kernel of a cost that is a product, of `left` (n, k) and the transpose of
    `right` (m, d), `padded`, of which only a `Support` is kept.
    """

    def __init__(self, left, right, support, n_threads):
        super().__init__((len(left), len(right)), n_threads)
        self.left, self.right, self.support = left, right, support
        self._kept = support.start, support.index
        self.rows = aligned_empty(len(support.index))

    def cost(self):
        return self._cost

    @functools.cached_property
    def _cost(self):
        return SparseCost(self.left, self.right, self.support)

    def spread(self):
        return float(np.ptp(self._cost.values)) if len(self._cost.values) else 0.0

    def least(self):
        return float(self._cost.values.min(initial=np.inf))

    def _passes(self, *given, cap):
        return _sparse.sinkhorn_passes(*self._kept, self.rows, *given, cap=cap)

    def normal_product(self, weights, x, row_sums, scalings):
        x = x.astype(np.float32, copy=False)
        given = weights, x, row_sums, scalings.sums, self.n_threads
        _sparse.normal_product(*self._kept, self.rows, *given)

    def coupling(self, solution):
        u, v = solution.scalings.u, solution.scalings.v
        plan = self.rows * np.repeat(u, np.diff(self.support.start))
        plan *= v[self.support.index]
        given = plan, self.support.index, self.support.start
        csr = sparse.csr_array(given, shape=self.shape)
        return SparseCoupling(csr, self.n_threads)

    def _make(self, potentials, epsilon, q, scalings):
        given = padded(self.left), self.right, potentials.f, potentials.g, epsilon
        return _sparse.gibbs(*self._kept, *given, self.rows, self.n_threads)

    def contract(self, x, y, scalings):
        moved, sums = aligned_empty((len(x), self.right.shape[1])), np.empty(len(x))
        given = self.rows, scalings.v, self.right
        _sparse.product(*self._kept, *given, moved, sums, self.n_threads)
        moved *= scalings.u[:, None]
        state = np.empty((x.shape[1], moved.shape[1]))
        _products.gram(x, moved, state, self.n_threads)
        return np.ascontiguousarray(state[:, : y.shape[1]]), sums * scalings.u


class SparseCost(OpaqueCost):
    """The cost on a `Support`; what is outside costs infinitely much, but for rows and
    columns of which nothing is kept: their sums are one, which leaves their potentials
    finite.

    Attributes
    ----------
    values : (nnz,) float32 ndarray
    """

    def __init__(self, left, right, support):
        self._support = support
        self.values = np.empty(len(support.index), dtype=np.float32)
        for rows in support.blocks():
            at = support.entries(rows)
            ours, theirs = left[support.rows(rows)], right[support.index[at]]
            np.einsum("ij,ij->i", ours, theirs[:, : left.shape[1]], out=self.values[at])

    def logsumexp_rows(self, g, epsilon, out):
        support, out[:] = self._support, 0.0
        for rows in support.blocks():
            at, ends = support.entries(rows), support.start[rows.start : rows.stop + 1]
            counts = np.diff(ends)
            there = np.flatnonzero(counts)
            if len(there):
                logs = (g[support.index[at]] - self.values[at]) / epsilon
                first = ends[there] - at.start
                # Several times as fast as NumPy's `logaddexp.reduceat`.
                top = np.maximum.reduceat(logs, first)
                top = np.where(np.isfinite(top), top, 0.0)
                sums = np.add.reduceat(np.exp(logs - top.repeat(counts[there])), first)
                with np.errstate(divide="ignore"):
                    out[rows.start + there] = top + np.log(sums)

    def logsumexp_cols(self, f, epsilon, out):
        support, top = self._support, np.full(len(out), -np.inf)
        sums = np.zeros(len(out))
        for rows in support.blocks():
            index, logs = self._logs_of(rows, f, epsilon)
            np.maximum.at(top, index, logs)
        known = np.where(np.isfinite(top), top, 0.0)
        for rows in support.blocks():
            index, logs = self._logs_of(rows, f, epsilon)
            sums += np.bincount(index, np.exp(logs - known[index]), len(out))
        out[:] = known + np.log(np.where(sums > 0, sums, 1.0))

    def _logs_of(self, rows, f, epsilon):
        at = self._support.entries(rows)
        logs = (f[self._support.rows(rows)] - self.values[at]) / epsilon
        return self._support.index[at], logs


def padded(x):
    """`x` with zero columns up to whole vectors, as the sparse kernels read it."""
    width = -(-x.shape[1] // _sparse.LANES) * _sparse.LANES
    if width == x.shape[1]:
        return x
    out = aligned_empty((len(x), width))
    out[:, : x.shape[1]] = x
    out[:, x.shape[1] :] = 0.0
    return out

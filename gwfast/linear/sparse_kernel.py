"""The Gibbs kernel of a linear problem of which only a `Support` is kept."""

import functools

import numpy as np
from scipy import sparse

from ..kernels import _kernels, _products, _sparse
from ..kernels._rows import aligned_empty
from ..results.coupling import SparseCoupling
from .gibbs_kernel import Kernel
from .log_domain import OpaqueCost


class SparseKernel(Kernel):
    """A kernel of a cost that is a product, of `left` (n, k) and the transpose of
    `right` (m, d), `padded`, of which only a `Support` is kept.
    """

    # What is kept holds a plan with this epsilon. With a larger one it holds little of
    # the plan, and potentials from there do not fit what is left out: on a noisy
    # rotation of 200,000 points neighbors that were chosen by them led away.
    anneals = False

    def __init__(self, left, right, support, n_threads):
        super().__init__((len(left), len(right)), n_threads)
        self.left, self.right, self.support = left, right, support
        self._kept = support.start, support.index
        self.rows = aligned_empty(len(support.index))

    def cost(self):
        return self._cost

    @functools.cached_property
    def _cost(self):
        return SparseCost(self.left, self.right, self.support, self.n_threads)

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
        plan[plan < _kernels.LEAST_ENTRY[plan.dtype]] = 0.0
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
    """The cost on a `Support`; what is outside costs infinitely much, but for rows and columns of
    which nothing is kept: their sums are one, which leaves their potentials finite.

    Attributes
    ----------
    values : (nnz,) float32 ndarray
    """

    def __init__(self, left, right, support, n_threads):
        self._kept, self._n_threads = (support.start, support.index), n_threads
        self.values = np.empty(len(support.index), dtype=np.float32)
        _sparse.cost(*self._kept, padded(left), right, self.values, n_threads)

    def logsumexp_rows(self, g, epsilon, out):
        given = *self._kept, self.values, g, epsilon, out
        _sparse.logsumexp_rows(*given, self._n_threads)

    def logsumexp_cols(self, f, epsilon, out):
        given = *self._kept, self.values, f, epsilon, out
        _sparse.logsumexp_cols(*given, self._n_threads)


def padded(x):
    """`x` with zero columns up to whole vectors, as the sparse kernels read it."""
    width = -(-x.shape[1] // _sparse.LANES) * _sparse.LANES
    if width == x.shape[1]:
        return x
    out = aligned_empty((len(x), width))
    out[:, : x.shape[1]] = x
    out[:, x.shape[1] :] = 0.0
    return out

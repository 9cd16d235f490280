"""The Gibbs kernel of a linear problem, ``K_ij = exp((f_i + g_j - c_ij) / epsilon)``,
by where it is kept. `SinkhornSolver` iterates on any of them.
"""

import numpy as np
from scipy import sparse

from ..kernels import _exponentials, _kernels, _products, _sparse
from ..kernels._rows import Gibbs, Panels, Product, aligned_empty
from ..results.coupling import ArrayCoupling, FactoredCoupling, SparseCoupling
from .truncation import padded


class Kernel:
    """What the solver needs of a kernel.

    Attributes
    ----------
    rows : (n, m) float32 ndarray or Rows
        The kernel, after `make`.
    epsilon : float
        That of `make`.
    peak : float or None
        What `make` has returned, for a solver that need not call it first.
    """

    peak = None

    def __init__(self, shape, n_threads):
        self.shape, self.n_threads = shape, n_threads

    def cost(self):
        """The cost, for the log domain; until the next `make`."""
        raise NotImplementedError

    def spread(self):
        """How far costs differ, or more."""
        raise NotImplementedError

    def make(self, f, g, epsilon, q, v, sums):
        """Make the kernel; returns the largest exponent, as far as it is known.

        Where column sums come for free `v`, ones before, is set to fit them to `q`.
        """
        raise NotImplementedError

    def passes(self, p, q, u, v, sums, omega, most, tol):
        """See `_kernels.sinkhorn_passes`."""
        return _kernels.sinkhorn_passes(
            self.rows, p, q, u, v, sums, omega, most, tol, self.n_threads
        )

    def contract(self, x, y, u, v):
        """``x' T y`` and the row sums of the plan ``T = diag(u) K diag(v)``."""
        return contract(x, self.rows, y, u, v, self.n_threads)


def contract(x, rows, y, u, v, n_threads):
    """``x' T y`` and the row sums of ``T = diag(u) rows diag(v)``, rows read once."""
    moved, sums = aligned_empty((len(x), y.shape[1])), np.empty(len(x))
    panels = Panels(y, False, v, n_threads)
    _products.matmul(rows, panels, moved, v, sums, n_threads)
    moved *= u[:, None]
    state = np.empty((x.shape[1], y.shape[1]))
    _products.gram(x, moved, state, n_threads)
    return state, sums * u


class StoredKernel(Kernel):
    """A kernel that takes the place of its cost in a buffer.

    Parameters
    ----------
    buffer : (n, m) float32 ndarray
    fill : callable
        ``fill()`` writes the cost into `buffer`.
    n_threads : int
    """

    def __init__(self, buffer, fill, n_threads):
        super().__init__(buffer.shape, n_threads)
        self.rows, self._fill = buffer, fill
        self._holds_cost = self._is_plan = False

    def cost(self):
        if not self._holds_cost:
            self._write_cost()
        self._holds_cost = True
        return self.rows

    def _write_cost(self):
        self._fill()

    def spread(self):
        cost = self.cost()
        return float(cost.max()) - float(cost.min())

    def make(self, f, g, epsilon, q, v, sums):
        cost, self._holds_cost, self.epsilon = self.cost(), False, epsilon
        return _exponentials.gibbs_kernel(cost, f, g, epsilon, cost, self.n_threads)

    def coupling(self, solver):
        """The plan, in the buffer."""
        if not self._is_plan:
            self.scale(solver.u, solver.v, solver.sums)
        return ArrayCoupling(self.rows, self.n_threads)

    def scale(self, u, v, sums):
        """Make the buffer the plan; returns its marginals."""
        rows, cols = np.empty(self.shape[0]), np.empty(self.shape[1])
        self._is_plan = True
        _kernels.scale_to_plan(self.rows, u, v, rows, cols, sums, self.n_threads)
        return rows, cols


class ProductKernel(StoredKernel):
    """A stored kernel of a cost that is a product, made without storing that first.

    Parameters
    ----------
    left : (n, k) float32 ndarray
    right : Panels
        Of a (k, m) matrix.
    buffer : (n, m) float32 ndarray
    n_threads : int
    """

    def __init__(self, left, right, buffer, n_threads):
        super().__init__(buffer, None, n_threads)
        self.left, self.right = left, right

    def _write_cost(self):
        _products.matmul(self.left, self.right, self.rows, n_threads=self.n_threads)

    def make(self, f, g, epsilon, q, v, sums):
        self._holds_cost, self.epsilon = False, epsilon
        peak = _products.gibbs_product(
            self.left, self.right, f, g, epsilon, self.rows, sums, self.n_threads
        )
        _kernels.rescale_columns(v, q, sums)
        return peak


class Misfit(Exception):
    """Potentials do not fit a kernel that cannot be taken to the log domain."""


class SparseKernel(Kernel):
    """A kernel of a cost that is a product, of which only a `Support` is kept.

    Parameters
    ----------
    left : (n, k) float32 ndarray
    right : (m, d) float32 ndarray
        `padded`.
    support : Support
    n_threads : int
    """

    def __init__(self, left, right, support, n_threads):
        super().__init__((len(left), len(right)), n_threads)
        self.left, self.right, self.support = left, right, support
        self._kept = support.start, support.index
        self.rows = aligned_empty(support.kept)

    def cost(self):
        raise Misfit

    def spread(self):
        raise Misfit

    def make(self, f, g, epsilon, q, v, sums):
        left, self.epsilon = padded(self.left), epsilon
        return _sparse.gibbs(
            *self._kept, left, self.right, f, g, epsilon, self.rows, self.n_threads
        )

    def passes(self, p, q, u, v, sums, omega, most, tol):
        return _sparse.sinkhorn_passes(
            *self._kept, self.rows, p, q, u, v, sums, omega, most, tol, self.n_threads
        )

    def contract(self, x, y, u, v):
        moved, sums = aligned_empty((len(x), self.right.shape[1])), np.empty(len(x))
        _sparse.product(
            *self._kept, self.rows, v, self.right, moved, sums, self.n_threads
        )
        moved *= u[:, None]
        state = np.empty((x.shape[1], moved.shape[1]))
        _products.gram(x, moved, state, self.n_threads)
        return np.ascontiguousarray(state[:, : y.shape[1]]), sums * u

    def coupling(self, solver):
        start, index = self._kept
        plan = self.rows * np.repeat(solver.u, np.diff(start)) * solver.v[index]
        csr = sparse.csr_array((plan, index, start), shape=self.shape)
        return SparseCoupling(csr, self.n_threads)


class TiledKernel(Kernel):
    """A kernel of a cost that is a product, never stored: every pass makes it anew,
    some rows at a time. `right` is that of `y`, transposed.
    """

    def __init__(self, left, right, y, n_threads):
        super().__init__((len(left), right.m), n_threads)
        self.left, self.right, self.y = left, right, y

    def cost(self):
        return Product(self.left, self.right)

    def spread(self):
        # Of some rows, and twice as far as these say.
        some = np.ascontiguousarray(self.left[:: max(len(self.left) // 64, 1)])
        cost = aligned_empty((len(some), self.shape[1]))
        _products.matmul(some, self.right, cost, n_threads=self.n_threads)
        return 2 * (float(cost.max()) - float(cost.min()))

    def make(self, f, g, epsilon, q, v, sums):
        self.epsilon = epsilon
        self.rows = Gibbs(self.left, self.right, f, g, epsilon)
        # A pass to find the largest exponent costs as much as one that gets on; sums
        # that overflow show in the scalings.
        return -np.inf

    def coupling(self, solver):
        # The potentials hold the scalings by now.
        f, g = solver.f.copy(), solver.g.copy()
        return FactoredCoupling(self.left, self.y, f, g, self.epsilon, self.n_threads)

"""The Gibbs kernel of a linear problem, ``K_ij = exp((f_i + g_j - c_ij) / epsilon)``,
by where it is kept. The solvers of linear problems iterate on any of them.
"""

from functools import partial

import numpy as np

from ..kernels import _exponentials, _kernels, _products
from ..kernels._rows import ColumnSums, Gibbs, Panels, Product, aligned_empty
from ..results.coupling import ArrayCoupling, FactoredCoupling
from ..utils.blocks import row_blocks


class Scalings:
    """Scalings `u` (n,) and `v` (m,) of a kernel, which iterations change in place; the plan is
    ``diag(u) K diag(v)``. After an iteration ``v * sums.values`` are the column sums of the plan.
    """

    def __init__(self, n, m, dtype):
        self.u, self.v = aligned_empty(n, dtype), aligned_empty(m, dtype)
        self.sums = ColumnSums(n, m, dtype)

    def reset(self):
        self.u.fill(1.0)
        self.v.fill(1.0)

    @property
    def cols(self):
        """Column sums (m,) of the plan, float64."""
        return self.v * self.sums.values

    def drift(self, p, q):
        """Largest |log| of a scaling of a point that has mass; infinite if one died."""
        return _kernels.drift(self.u, self.v, p, q)


class Kernel:
    """What the solver needs of a kernel. After `make` its `rows` are (n, m), an array
    or `Rows`, and `epsilon` is known.

    Where marginals are free its `separable_potentials` are minus the terms of the
    linearized cost that depend on one index and are left out of the kernel's cost.

    Attributes
    ----------
    anneals : bool
        Whether potentials that do not fit may come by way of larger epsilons.
    """

    anneals = True

    def __init__(self, shape, n_threads, separable_potentials=None):
        self.shape, self.n_threads = shape, n_threads
        self.separable_potentials = separable_potentials

    def cost(self):
        """The cost, for the log domain, in place of the kernel."""

    def spread(self):
        """How far costs differ, or more."""

    def least(self):
        """The least cost."""

    def make(self, potentials, epsilon, q, scalings):
        """Make the kernel, and set the scalings to where iterations start: ones, but
        for `v` where column sums come for free and both marginals are given, which is
        set to fit them to `q`. Returns the largest exponent, as far as it is known.
        """
        scalings.reset()
        self.epsilon = epsilon
        return self._make(potentials, epsilon, q, scalings)

    def iterate(self, p, q, scalings, omega, max_iter, tol, cap=np.inf):
        """See `_kernels.sinkhorn_passes`."""
        given = p, q, scalings.u, scalings.v, scalings.sums, omega, max_iter, tol
        return self._passes(*given, self.n_threads, cap=cap)

    def _passes(self, *given, cap):
        return _kernels.sinkhorn_passes(self.rows, *given, cap=cap)

    def normal_product(self, weights, x, row_sums, scalings):
        """``r = K x`` in `row_sums`, and ``K' (weights * r)`` in ``scalings.sums``."""
        x = x.astype(scalings.v.dtype, copy=False)
        given = weights, x, row_sums, scalings.sums
        _kernels.normal_product(self.rows, *given, self.n_threads)

    def row_sums(self, scalings):
        """Row sums (n,) of the plan, in float64."""
        sums, nothing = np.empty(len(scalings.u)), np.zeros(len(scalings.u))
        self.normal_product(nothing, scalings.v, sums, scalings)
        return scalings.u * sums

    def column_sums(self, rows, scalings):
        """Column sums (m,) of the plan whose row sums are `rows`, in float64."""
        u, weights = scalings.u, np.zeros(len(rows))
        # A row without mass adds nothing, whatever the quotient.
        np.divide(u, rows / np.where(u > 0, u, 1.0), where=rows > 0, out=weights)
        self.normal_product(weights, scalings.v, np.empty(len(rows)), scalings)
        return scalings.cols

    def contract(self, x, y, scalings):
        """``x' T y`` and the row sums of the plan T."""
        return contract(x, self.rows, y, scalings.u, scalings.v, self.n_threads)

    def coupling(self, solution):
        """The plan of a `LinearSolution` for this kernel, as a `Coupling`."""


def contract(x, rows, y, u, v, n_threads):
    """``x' T y`` and the row sums of ``T = diag(u) rows diag(v)``, rows read once."""
    moved, sums = aligned_empty((len(x), y.shape[1])), np.empty(len(x))
    panels = Panels(y, False, v, n_threads)
    _products.matmul(rows, panels, moved, v, sums, n_threads=n_threads)
    moved *= u[:, None]
    state = np.empty((x.shape[1], y.shape[1]))
    _products.gram(x, moved, state, n_threads)
    return state, sums * u


class Buffer:
    """A matrix (n, m) that kernels take turns to fill.

    The kernel in it is the one that took the last `turn`. A reference to that kernel
    would be a cycle, which keeps the matrix until the garbage collector comes by.
    """

    def __init__(self, array):
        self.array, self.turn = array, 0

    def take(self):
        """The number of a new turn, which ends the last one."""
        self.turn += 1
        return self.turn


class StoredKernel(Kernel):
    """A kernel that takes the place of its cost in a `Buffer`, and is replaced there by
    the plan; ``fill(array)`` writes the cost. The buffer `holds` the "cost", the
    "kernel", the "plan", or None of them.
    """

    def __init__(self, buffer, fill, n_threads, separable_potentials=None, *, holds=None):
        super().__init__(buffer.array.shape, n_threads, separable_potentials)
        self.rows, self._buffer, self._fill = buffer.array, buffer, fill
        self.holds, self._turn = holds, None

    def cost(self):
        if self.holds != "cost":
            self._fill(self.rows)
            self._take("cost")
        return self.rows

    def _take(self, content):
        self.holds, self._turn = content, self._buffer.take()

    def spread(self):
        cost = self.cost()
        return float(cost.max()) - float(cost.min())

    def least(self):
        return float(self.cost().min())

    def _make(self, potentials, epsilon, q, scalings):
        cost = self.cost()
        self._take("kernel")
        return _exponentials.gibbs_kernel(
            cost, potentials.f, potentials.g, epsilon, cost, self.n_threads
        )

    def coupling(self, solution):
        """The plan, in the buffer; a RuntimeError if another kernel has taken that."""
        if self._turn != self._buffer.turn:
            raise RuntimeError("another solve has overwritten the kernel of this plan")
        if self.holds == "kernel":
            self.scale(solution.scalings)
        return ArrayCoupling(self.rows, self.n_threads)

    def scale(self, scalings):
        """Make the buffer the plan; returns its marginals."""
        rows, cols = np.empty(self.shape[0]), np.empty(self.shape[1])
        self._take("plan")
        _kernels.scale_to_plan(
            self.rows, scalings.u, scalings.v, rows, cols, scalings.sums, self.n_threads
        )
        return rows, cols


class ProductKernel(StoredKernel):
    """A stored kernel of a cost that is a product, of `left` (n, k) and the `Panels` of
    a (k, m) matrix in float32, made without storing the cost first.
    """

    def __init__(self, left, right, buffer, n_threads):
        fill = partial(_products.matmul, left, right, n_threads=n_threads)
        super().__init__(buffer, fill, n_threads)
        self.left, self.right = left, right

    def _make(self, potentials, epsilon, q, scalings):
        self._take("kernel")
        sums = scalings.sums
        given = self.left, self.right, potentials.f, potentials.g, epsilon
        peak = _products.gibbs_product(*given, self.rows, sums, self.n_threads)
        if self.separable_potentials is None:
            _kernels.rescale_columns(scalings.v, q, sums)
        return peak


class TiledKernel(Kernel):
    """A kernel of a cost that is a product, never stored: every iteration makes it
    anew, some rows at a time. `right` is that of `y`, transposed.
    """

    def __init__(self, left, right, y, n_threads):
        super().__init__((len(left), right.m), n_threads)
        self.left, self.right, self.y = left, right, y

    def cost(self):
        return Product(self.left, self.right)

    def spread(self):
        # Of some rows, and twice as far as these say.
        cost = self._costs(slice(None, None, max(len(self.left) // 64, 1)))
        return 2 * (float(cost.max()) - float(cost.min()))

    def least(self):
        return min(float(self._costs(rows).min()) for rows in row_blocks(*self.shape))

    def _costs(self, rows):
        some = np.ascontiguousarray(self.left[rows])
        made = aligned_empty((len(some), self.shape[1]))
        _products.matmul(some, self.right, made, n_threads=self.n_threads)
        return made

    def _make(self, potentials, epsilon, q, scalings):
        self._potentials = potentials.f, potentials.g
        self.rows = Gibbs(self.left, self.right, *self._potentials, epsilon)
        # To find the largest exponent costs as much as an iteration; sums that overflow
        # show in the scalings.
        return -np.inf

    def coupling(self, solution):
        # The marginals were summed over the scaled kernel, with its rounding.
        with np.errstate(divide="ignore"):
            u, v = (
                np.log(one, dtype=np.float64) for one in (solution.scalings.u, solution.scalings.v)
            )
        given = self.left, self.y, *self._potentials, self.epsilon, self.n_threads
        return FactoredCoupling(*given, logarithms=(u, v))

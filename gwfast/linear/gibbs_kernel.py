"""The Gibbs kernel of a linear problem, ``K_ij = exp((f_i + g_j - c_ij) / epsilon)``: stored,
made anew in each iteration, or on few entries. The solver of linear problems takes any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ..kernels import _exponentials, _kernels, _products, _sparse
from ..kernels._products import Gibbs, Panels, Product
from ..kernels._rows import ColumnSums, Rows, ScalingMap, aligned_empty
from ..results.coupling import ArrayCoupling, FactoredCoupling, SparseCoupling
from ..utils.types import Float32Array, Float64Array, FloatArray

if TYPE_CHECKING:
    from ..results.coupling import Coupling
    from .log_domain import Potentials
    from .sinkhorn_solver import LinearSolution
    from .support import Support


class Scalings:
    """Scalings `u` (n,) and `v` (m,) of a kernel, which iterations change in place; the plan is
    ``diag(u) K diag(v)``. After an iteration ``v * sums.values`` are the column sums of the plan.
    """

    def __init__(self, n: int, m: int, dtype: np.dtype[Any]) -> None:
        self.u, self.v = aligned_empty(n, dtype), aligned_empty(m, dtype)
        self.sums = ColumnSums(n, m, dtype)

    @property
    def cols(self) -> Float64Array:
        """Column sums (m,) of the plan, float64."""
        return self.v * self.sums.values

    def max_log_scaling(self, p: Float64Array, q: Float64Array) -> float:
        """Return the largest absolute logarithm of the scaling of a point with mass."""
        return _kernels.max_log_scaling(self.u, self.v, p, q)


class Kernel:
    """A kernel. After `make` its `rows` are (n, m), an array or `Rows`, and `epsilon` is known.

    Where marginals are free its `separable_potentials` are minus the terms of the linearized cost
    that depend on one index and are left out of the kernel's cost.

    Attributes
    ----------
    anneals : bool
        Whether potentials that do not fit may come by way of larger epsilons.
    selection : object
        How a linearization has selected the entries; the kernel only carries it.
    """

    anneals = True
    rows: FloatArray | Rows

    def __init__(
        self,
        shape: tuple[int, int],
        n_threads: int,
        separable_potentials: Potentials | None = None,
        selection: Any = None,
    ) -> None:
        self.shape, self.n_threads = shape, n_threads
        self.separable_potentials, self.selection = separable_potentials, selection

    def cost(self) -> FloatArray | Rows | SparseCost:
        """Return the cost for the log domain, which takes the place of the kernel."""
        raise NotImplementedError

    def spread(self) -> float:
        """Return how far costs differ, or more."""
        raise NotImplementedError

    def make(
        self,
        potentials: Potentials,
        epsilon: float,
        scalings: Scalings,
        q: Float64Array | None = None,
    ) -> float:
        """Make the kernel and set the scalings to one, but fit `v` to masses `q` of columns where
        column sums come for free. Return the largest exponent, as far as it is known.
        """
        scalings.u.fill(1.0)
        scalings.v.fill(1.0)
        self.epsilon = epsilon
        return self._make(potentials, epsilon, scalings, q)

    def _make(
        self, potentials: Potentials, epsilon: float, scalings: Scalings, q: Float64Array | None
    ) -> float:
        raise NotImplementedError

    def iterate(
        self,
        p: Float64Array,
        q: Float64Array,
        scalings: Scalings,
        omega: float,
        max_iter: int,
        tol: float,
        scaling_map: ScalingMap | None = None,
    ) -> tuple[float, int]:
        """Call `_kernels.sinkhorn_passes`, for a `ScalingMap` of that module or given marginals."""
        u, v, sums = scalings.u, scalings.v, scalings.sums
        return self._passes(p, q, u, v, sums, omega, max_iter, tol, self.n_threads, scaling_map)

    def _passes(self, *args: Any) -> tuple[float, int]:
        return _kernels.sinkhorn_passes(self.rows, *args)

    def normal_product(
        self, weights: Float64Array, x: FloatArray, row_sums: Float64Array, scalings: Scalings
    ) -> None:
        """Set `row_sums` to ``r = K x``, and ``scalings.sums`` to ``K' (weights * r)``."""
        x = x.astype(scalings.v.dtype, copy=False)
        _kernels.normal_product(self.rows, weights, x, row_sums, scalings.sums, self.n_threads)

    def row_sums(self, scalings: Scalings) -> Float64Array:
        """Return the row sums (n,) of the plan, float64."""
        sums = np.empty(self.shape[0])
        self.normal_product(np.zeros(self.shape[0]), scalings.v, sums, scalings)
        return scalings.u * sums

    def column_sums(self, rows: Float64Array, scalings: Scalings) -> Float64Array:
        """Return the column sums (m,) of the plan whose row sums are `rows`, float64."""
        u, weights = scalings.u, np.zeros(len(rows))
        # A row without mass adds nothing.
        np.divide(u, rows / np.where(u > 0, u, 1.0), where=rows > 0, out=weights)
        self.normal_product(weights, scalings.v, np.empty(len(rows)), scalings)
        return scalings.cols

    def contract(
        self, x: Float32Array, y: Float32Array, scalings: Scalings
    ) -> tuple[Float64Array, Float64Array]:
        """Return ``x' T y`` and the row sums of the plan T."""
        return contract(x, self.rows, y, scalings.u, scalings.v, self.n_threads)

    def coupling(self, solution: LinearSolution) -> Coupling:
        """Return the plan of a `LinearSolution` for this kernel, as a `Coupling`."""
        raise NotImplementedError


def contract(
    x: Float32Array,
    rows: FloatArray | Rows,
    y: Float32Array,
    u: FloatArray,
    v: FloatArray,
    n_threads: int,
) -> tuple[Float64Array, Float64Array]:
    """Return ``x' T y`` and the row sums of ``T = diag(u) rows diag(v)``, rows read once."""
    product, sums = aligned_empty((len(x), y.shape[1])), np.empty(len(x))
    panels = Panels(y, False, v, n_threads)
    _products.matmul(rows, panels, product, v, sums, n_threads=n_threads)
    return _contracted(x, product, u, n_threads), sums * u


def _contracted(
    x: Float32Array, product: Float32Array, u: FloatArray, n_threads: int
) -> Float64Array:
    product *= u[:, None]
    state = np.empty((x.shape[1], product.shape[1]))
    _products.gram(x, product, state, n_threads)
    return state


class StoredKernel(Kernel):
    """A kernel in an array, whose place the plan takes. ``fill(array)`` writes the cost there, or
    `cost` is an array of its own. The array `holds` the "cost", the "kernel", the "plan", or None.
    """

    rows: FloatArray
    holds: str | None

    def __init__(
        self,
        array: FloatArray,
        fill: Callable[[FloatArray], None],
        n_threads: int,
        *more: Any,
        cost: FloatArray | None = None,
    ) -> None:
        super().__init__(array.shape, n_threads, *more)
        self.rows, self._fill, self._cost, self.holds = array, fill, cost, None

    def cost(self) -> FloatArray:
        if self._cost is not None:
            return self._cost
        if self.holds != "cost":
            self._fill(self.rows)
            self.holds = "cost"
        return self.rows

    def spread(self) -> float:
        cost = self.cost()
        return float(cost.max()) - float(cost.min())

    def _make(
        self, potentials: Potentials, epsilon: float, scalings: Scalings, q: Float64Array | None
    ) -> float:
        cost = self.cost()
        self.holds = "kernel"
        f, g = potentials.f, potentials.g
        return _exponentials.gibbs_kernel(cost, f, g, epsilon, self.rows, self.n_threads)

    def coupling(self, solution: LinearSolution) -> ArrayCoupling:
        """Return the plan, in the array."""
        if self.holds == "kernel":
            self.scale(solution.scalings)
        return ArrayCoupling(self.rows, self.n_threads)

    def scale(self, scalings: Scalings) -> tuple[Float64Array, Float64Array]:
        """Make the kernel the plan; return its marginals."""
        rows, cols = np.empty(self.shape[0]), np.empty(self.shape[1])
        self.holds, self._cost = "plan", None
        u, v, sums = scalings.u, scalings.v, scalings.sums
        _kernels.scale_to_plan(self.rows, u, v, rows, cols, sums, self.n_threads)
        return rows, cols


class ProductKernel(StoredKernel):
    """A stored kernel of a cost that is a product, of `left` (n, k) and the `Panels` of a (k, m)
    matrix in float32, made without storing the cost first.
    """

    rows: Float32Array

    def __init__(
        self, left: Float32Array, right: Panels, array: Float32Array, n_threads: int, *more: Any
    ) -> None:
        fill = functools.partial(_products.matmul, left, right, n_threads=n_threads)
        super().__init__(array, fill, n_threads, *more)
        self.left, self.right = left, right

    def _make(
        self, potentials: Potentials, epsilon: float, scalings: Scalings, q: Float64Array | None
    ) -> float:
        self.holds = "kernel"
        f, g, sums = potentials.f, potentials.g, scalings.sums
        peak = _products.gibbs_product(
            self.left, self.right, f, g, epsilon, self.rows, sums, self.n_threads
        )
        if q is not None:
            _kernels.rescale_columns(scalings.v, q, sums)
        return peak


class TiledKernel(Kernel):
    """A kernel of a cost that is a product, never stored: every iteration makes it anew, some rows
    at a time. `right` are the panels of `y`, transposed.
    """

    def __init__(
        self, left: Float32Array, right: Panels, y: Float32Array, n_threads: int, *more: Any
    ) -> None:
        super().__init__((len(left), right.m), n_threads, *more)
        self.left, self.right, self.y = left, right, y

    def cost(self) -> Product:
        return Product(self.left, self.right)

    def spread(self) -> float:
        # Twice the spread of a sample of rows.
        some = np.ascontiguousarray(self.left[:: max(len(self.left) // 64, 1)])
        costs = aligned_empty((len(some), self.shape[1]))
        _products.matmul(some, self.right, costs, n_threads=self.n_threads)
        return 2 * (float(costs.max()) - float(costs.min()))

    def _make(
        self, potentials: Potentials, epsilon: float, scalings: Scalings, q: Float64Array | None
    ) -> float:
        self._potentials = potentials.f, potentials.g
        self.rows = Gibbs(self.left, self.right, *self._potentials, epsilon)
        # The largest exponent would cost an iteration to find; overflow shows in scalings.
        return -np.inf

    def coupling(self, solution: LinearSolution) -> FactoredCoupling:
        scalings = solution.scalings
        # The marginals were summed over the scaled kernel, with its rounding.
        with np.errstate(divide="ignore"):
            u, v = (np.log(x, dtype=np.float64) for x in (scalings.u, scalings.v))
        f, g = self._potentials
        return FactoredCoupling(
            self.left, self.y, f, g, self.epsilon, self.n_threads, logarithms=(u, v)
        )


class SparseKernel(Kernel):
    """The entries on a `Support` of the kernel of a cost that is the product of `left` (n, k) and
    the transpose of `right` (m, d), `padded`.
    """

    # With a larger epsilon the support holds little of the plan, and potentials from there do not
    # fit what is left out: on a noisy rotation of 200,000 points they led away.
    anneals = False
    rows: Float32Array

    def __init__(
        self, left: Float32Array, right: Float32Array, support: Support, n_threads: int, *more: Any
    ) -> None:
        super().__init__((len(left), len(right)), n_threads, *more)
        self.left, self.right, self.support = left, right, support
        self._kept = support.start, support.index
        self.rows = aligned_empty(len(support.index))

    def cost(self) -> SparseCost:
        return self._cost

    @functools.cached_property
    def _cost(self) -> SparseCost:
        return SparseCost(self.left, self.right, self.support, self.n_threads)

    def spread(self) -> float:
        return float(np.ptp(self._cost.values)) if len(self._cost.values) else 0.0

    def _passes(self, *args: Any) -> tuple[float, int]:
        return _sparse.sinkhorn_passes(*self._kept, self.rows, *args)

    def normal_product(
        self, weights: Float64Array, x: FloatArray, row_sums: Float64Array, scalings: Scalings
    ) -> None:
        x, sums = x.astype(np.float32, copy=False), scalings.sums
        _sparse.normal_product(*self._kept, self.rows, weights, x, row_sums, sums, self.n_threads)

    def coupling(self, solution: LinearSolution) -> SparseCoupling:
        u, v, support = solution.scalings.u, solution.scalings.v, self.support
        plan = self.rows * np.repeat(u, np.diff(support.start))
        plan *= v[support.index]
        plan[plan < _kernels.LEAST_ENTRY[plan.dtype]] = 0.0
        csr = sparse.csr_array((plan, support.index, support.start), shape=self.shape)
        return SparseCoupling(csr, self.n_threads)

    def _make(
        self, potentials: Potentials, epsilon: float, scalings: Scalings, q: Float64Array | None
    ) -> float:
        left, f, g = padded(self.left), potentials.f, potentials.g
        return _sparse.gibbs(
            *self._kept, left, self.right, f, g, epsilon, self.rows, self.n_threads
        )

    def contract(
        self, x: Float32Array, y: Float32Array, scalings: Scalings
    ) -> tuple[Float64Array, Float64Array]:
        product, sums = aligned_empty((len(x), self.right.shape[1])), np.empty(len(x))
        v, n_threads = scalings.v, self.n_threads
        _sparse.product(*self._kept, self.rows, v, self.right, product, sums, n_threads)
        state = _contracted(x, product, scalings.u, n_threads)
        return np.ascontiguousarray(state[:, : y.shape[1]]), sums * scalings.u


class SparseCost:
    """The cost on a `Support`, its `values` (nnz,) float32; other entries cost infinitely much, but
    rows and columns without entries have sums of one, and finite potentials.
    """

    def __init__(
        self, left: Float32Array, right: Float32Array, support: Support, n_threads: int
    ) -> None:
        self._kept, self._n_threads = (support.start, support.index), n_threads
        self.values = np.empty(len(support.index), dtype=np.float32)
        _sparse.cost(*self._kept, padded(left), right, self.values, n_threads)

    def logsumexp_rows(self, g: Float64Array, epsilon: float, out: Float64Array) -> None:
        _sparse.logsumexp_rows(*self._kept, self.values, g, epsilon, out, self._n_threads)

    def logsumexp_cols(self, f: Float64Array, epsilon: float, out: Float64Array) -> None:
        _sparse.logsumexp_cols(*self._kept, self.values, f, epsilon, out, self._n_threads)


def padded(x: Float32Array) -> Float32Array:
    """Return `x` with zero columns up to whole vectors, as the sparse kernels read it."""
    width = -(-x.shape[1] // _sparse.LANES) * _sparse.LANES
    if width == x.shape[1]:
        return x
    out = aligned_empty((len(x), width))
    out[:, : x.shape[1]] = x
    out[:, x.shape[1] :] = 0.0
    return out

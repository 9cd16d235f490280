"""The part of a problem on a worker: some points of the first space, all points of the second, and
the kernel between them.

A call names its kernel, and brings the scalings: no data of a solve are in a shard alone. A shard
that began anew on another worker answers `Missing` for kernels that it has not been told of.
"""

import weakref
from typing import NamedTuple

import numpy as np

from .._version import __version__
from ..kernels import _exponentials, _products
from ..kernels._products import Panels, Product
from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import ProductKernel, contract
from ..linear.log_domain import Potentials
from ..linear.rules import Balanced
from ..linear.sinkhorn_solver import LinearSolution, SinkhornSolver
from ..quadratic.factored import Right, full_kernel
from ..results.coupling import FactoredCoupling


class Missing(LookupError):
    """The shard has not been told of this kernel."""


class Shared(NamedTuple):
    """The data that all shards of a problem have: the features of the second space, and its
    masses; `token` identifies the problem, `version` is the version of gwfast.
    """

    token: str
    y: np.ndarray
    q: np.ndarray
    version: str = __version__


class KernelSpec(NamedTuple):
    """A kernel ``exp((f_i + g_j - (x core y')_ij) / epsilon)`` of all rows, or of a shard's."""

    number: int
    core: np.ndarray
    f: np.ndarray
    g: np.ndarray
    epsilon: float

    def of(self, rows):
        """Return the specification of some rows."""
        return self._replace(f=self.f[rows])


# The `Right` of each problem with shards in this process, by token and number of threads.
_RIGHTS: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class Shard:
    """Points `x` (n_k, r) of the first space with masses `p` (n_k,), whose kernel is stored where
    the `tier` is "dense", and what is `Shared`.

    The cost is ``x core y'``; answers are in the precision that they are added up in.
    """

    def __init__(self, x, p, tier, shared, n_threads):
        self._x, self._n_threads = _owned(x), n_threads
        self._right = _RIGHTS.get((shared.token, n_threads))
        if self._right is None:
            self._right = Right(_owned(shared.y), n_threads)
            _RIGHTS[shared.token, n_threads] = self._right
        self._solver = SinkhornSolver(Balanced(np.array(p), np.array(shared.q)), n_threads)
        shape = len(self._x), self._right.panels.m
        self._buffer = aligned_empty(shape) if tier == "dense" else None
        # The number of the kernel that there is, and of the plan that took its place.
        self._number = self._planned = self._kernel = None
        # The core of the cost that took the place of the kernel, and the kernel that has it.
        self._filled = None

    # --- costs ------------------------------------------------------------------------------------

    def sampled(self, core):
        """Return the lowest and the highest of some costs."""
        step = max(len(self._x) // 64, 1)
        sample = np.ascontiguousarray(self._left(core)[::step])
        cost = aligned_empty((len(sample), self._right.panels.m))
        _products.matmul(sample, self._right.panels, cost, n_threads=self._n_threads)
        return float(cost.min()), float(cost.max())

    def logsumexp_rows(self, core, g, epsilon, cols=None):
        """Return `LogDomain`'s sums over some columns, or all."""
        cost = self._cost(core) if cols is None else self._product(self._left(core), cols)
        out = np.empty(len(self._x))
        _exponentials.logsumexp_rows(cost, np.zeros(len(out)), g, epsilon, out, self._n_threads)
        return out

    def logsumexp_cols(self, core, f, epsilon):
        """Return `LogDomain`'s sums over the rows that are here."""
        return self._over_rows(self._cost(core), f, epsilon, np.empty(self._right.panels.m))

    def logsumexp_of_few(self, left, f, epsilon, cols):
        """Return the logarithms of sums of some columns, over the rows of `left`."""
        cost = self._product(left, cols)
        return self._over_rows(cost, f, epsilon, np.empty(cost.m))

    def _over_rows(self, cost, f, epsilon, out):
        _exponentials.logsumexp_cols(cost, f, np.zeros(len(out)), epsilon, out, self._n_threads)
        return out

    def contract_plan(self, plan):
        """Return ``x' plan y`` of the rows of a plan."""
        ones = [np.ones(size, dtype=np.float32) for size in plan.shape]
        return contract(self._x, _owned(plan), self._right.features, *ones, self._n_threads)[0]

    def _left(self, core):
        left = aligned_empty((len(self._x), core.shape[1]))
        panels = Panels(np.ascontiguousarray(core), n_threads=self._n_threads)
        _products.matmul(self._x, panels, left, n_threads=self._n_threads)
        return left

    def _product(self, left, cols):
        features = np.ascontiguousarray(self._right.features[cols])
        return Product(left, Panels(features, True, n_threads=self._n_threads))

    def _cost(self, core):
        # A stored kernel gives its buffer to the cost.
        if self._buffer is None:
            return Product(self._left(core), self._right.panels)
        if self._filled is None or not np.array_equal(self._filled[0], core):
            self._filled = core, full_kernel(self._left(core), self._right, self._buffer)
            self._number = self._planned = None
        return self._filled[1].cost()

    # --- kernels ----------------------------------------------------------------------------------

    def make(self, spec):
        """Make a kernel; return its largest exponent, and the column sums that its making has left,
        or None.
        """
        solver, potentials = self._solver, Potentials(spec.f, spec.g)
        self._kernel = full_kernel(self._left(spec.core), self._right, self._buffer)
        peak = self._kernel.make(potentials, spec.epsilon, solver.scalings, solver.q)
        self._number, self._planned, self._filled = spec.number, None, None
        left_sums = isinstance(self._kernel, ProductKernel)
        return peak, solver.scalings.sums.values.copy() if left_sums else None

    def iterate(self, number, u, v, omega):
        """Return, after half an iteration, the column sums (m,) with the new row scalings, these,
        and the error of the rows before.
        """
        kernel, scalings = self._kernel_of(number), self._scaled(u, v)
        error, _ = kernel.iterate(self._solver.p, self._solver.q, scalings, omega, 1, 0.0)
        return scalings.sums.values.copy(), scalings.u.copy(), error

    def normal_product(self, number, weights, x):
        """Return column sums (m,) and row sums, see `Kernel.normal_product`."""
        kernel, scalings = self._kernel_of(number), self._solver.scalings
        row_sums = np.empty(len(weights))
        kernel.normal_product(np.array(weights), np.array(x), row_sums, scalings)
        return scalings.sums.values.copy(), row_sums

    def contract(self, number, u, v):
        """Return ``x' T y``, and the row sums of the plan."""
        kernel, scalings = self._kernel_of(number), self._scaled(u, v)
        return kernel.contract(self._x, self._right.features, scalings)

    def _kernel_of(self, number):
        if number != self._number:
            raise Missing(f"kernel {number}")
        return self._kernel

    def _scaled(self, u, v):
        scalings = self._solver.scalings
        scalings.u[:], scalings.v[:] = u, v
        return scalings

    # --- plans ------------------------------------------------------------------------------------

    def of_plan(self, spec, scalings, method, *args):
        """Return the answer of the rows of a plan here, a `Coupling`; `spec` has the potentials of
        the plan. With `scalings` of the kernel with that number the plan may take its place.
        """
        coupling = self._coupling(spec, scalings)
        *sides, name = method.split(".")
        answer = getattr(coupling.T if sides else coupling, name)
        return answer(*args) if callable(answer) else answer

    def _coupling(self, spec, scalings):
        if scalings is not None and self._buffer is not None:
            if spec.number == self._number:
                solution = LinearSolution(None, self._scaled(*scalings), 0)
                self._number, self._planned = None, spec.number
                return self._kernel.coupling(solution)
            if spec.number == self._planned:
                return self._kernel.coupling(None)
        left, epsilon = self._left(spec.core), spec.epsilon
        return FactoredCoupling(
            left, self._right.features, spec.f, spec.g, epsilon, self._n_threads
        )


def _owned(x):
    """Return a float32 copy that is aligned for the kernels."""
    copied = aligned_empty(x.shape)
    copied[:] = x
    return copied

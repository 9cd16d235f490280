"""The part of a problem on a worker: some points of the first space, all points of the second,
and the kernel between them.

A call names its kernel, and brings the scalings: no data of a solve are in a shard alone. A shard
that began anew on another worker answers `Missing` for kernels that it has not been told of.
"""

from typing import NamedTuple

import numpy as np

from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import ProductKernel
from ..linear.log_domain import Potentials
from ..linear.rules import Balanced
from ..linear.sinkhorn_solver import LinearSolution, SinkhornSolver
from ..quadratic.factored import whole_kernel
from ..results.coupling import FactoredCoupling
from .points import Points, right_of


class Missing(LookupError):
    """The shard has not been told of this kernel."""


class KernelSpec(NamedTuple):
    """A kernel ``exp((f_i + g_j - (x core y')_ij) / epsilon)`` of a shard.

    `f` is of its rows, `g` of all columns.
    """

    number: int
    core: np.ndarray
    f: np.ndarray
    g: np.ndarray
    epsilon: float

    def of(self, rows):
        """Return the specification of some rows."""
        return self._replace(f=self.f[rows])


class Shard(Points):
    """Points `x` (n_k, r) of the first space with masses `p` (n_k,), in float64, whose
    kernel is stored where the `tier` is "dense", and what is `Shared`.
    """

    def __init__(self, x, p, tier, shared, n_threads):
        super().__init__(x, right_of(shared, n_threads))
        self._solver = SinkhornSolver(Balanced(np.array(p), np.array(shared.q)), n_threads)
        shape = len(self._x), self._right.panels.m
        self._buffer = aligned_empty(shape) if tier == "dense" else None
        # The number of the kernel that there is, and of the plan that took its place.
        self._number = self._planned = self._kernel = None
        # The core of the cost that took the place of the kernel, and what has it.
        self._filled = None

    # --- Kernels ----------------------------------------------------------------------

    def make(self, spec):
        """Make a kernel; returns its largest exponent, and the column sums that its
        making has left, or None.
        """
        self._kernel, peak = self._made(spec)
        self._number = spec.number
        self._planned = self._filled = None
        left_sums = isinstance(self._kernel, ProductKernel)
        return peak, self._solver.scalings.sums.values.copy() if left_sums else None

    def iterate(self, number, u, v, omega):
        """Half an iteration: column sums (m,) float64 with the new row scalings, these,
        and the error of the rows before.
        """
        kernel, scalings = self._kernel_of(number), self._scaled(u, v)
        p, q = self._solver.p, self._solver.q
        error, _ = kernel.iterate(p, q, scalings, omega, 1, 0.0)
        return scalings.sums.values.copy(), scalings.u.copy(), error

    def normal_product(self, number, weights, x):
        """Column sums (m,) and row sums, see `Kernel.normal_product`."""
        kernel, scalings = self._kernel_of(number), self._solver.scalings
        row_sums = np.empty(len(weights))
        kernel.normal_product(np.array(weights), np.array(x), row_sums, scalings)
        return scalings.sums.values.copy(), row_sums

    def contract(self, number, u, v):
        """``x' T y``, and the row sums of the plan."""
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

    def _made(self, spec):
        """A kernel, and its largest exponent."""
        left, solver = self._left(spec.core), self._solver
        kernel = whole_kernel(left, self._right, self._buffer)
        potentials = Potentials(spec.f, spec.g)
        return kernel, kernel.make(potentials, spec.epsilon, solver.scalings, solver.q)

    def _cost(self, core):
        # A stored kernel gives its buffer to the cost.
        if self._buffer is None:
            return super()._cost(core)
        if self._filled is None or not np.array_equal(self._filled[0], core):
            kernel = whole_kernel(self._left(core), self._right, self._buffer)
            self._filled = core, kernel
            self._number = self._planned = None
        return self._filled[1].cost()

    # --- Plans ------------------------------------------------------------------------

    def of_plan(self, spec, scalings, method, *args):
        """Return the answer of the rows of a plan here, a `Coupling`; `spec` has the potentials of
        the plan. With `scalings` of the kernel with that number the plan may take its place.
        """
        coupling = self._coupling(spec, scalings)
        *sides, name = method.split(".")
        made = getattr(coupling.T if sides else coupling, name)
        return made(*args) if callable(made) else made

    def _coupling(self, spec, scalings):
        stored = scalings is not None and self._buffer is not None
        if stored:
            number, kernel = spec.number, self._kernel
            if number == self._number:
                solution = LinearSolution(None, self._scaled(*scalings), 0)
                self._number, self._planned = None, number
                return kernel.coupling(solution)
            if number == self._planned:
                return kernel.coupling(None)
        given = self._left(spec.core), self._right.features, spec.f, spec.g
        return FactoredCoupling(*given, spec.epsilon, self._n_threads)

"""Conditional gradient: see _frank_wolfe.pyx."""
cimport cython
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t

from ._quadratic_plan cimport QuadraticPlan, Vertex
from ._transport cimport Transport


# When steps end, see `FrankWolfe.advance`.
cdef struct Rule:
    double tol, floor, least_change, least_relative, constant


@cython.final
cdef class FrankWolfe(QuadraticPlan):
    cdef Transport transport
    cdef readonly ptrdiff_t n_steps
    cdef readonly double value, gap, step_size, change
    # With `resumes` a tree that there is, of other costs, is where to begin.
    cdef bint partial, resumes
    cdef double *padded
    cdef double *zeros
    cdef int64_t *units
    cdef void turn(
        self, const double[:, ::1] left, const double[:, ::1] right,
        const double[::1] signs, double least, double rounding,
    ) noexcept nogil
    cdef int step(self, const Rule *rule) noexcept nogil
    cdef bint minimize(self) noexcept nogil
    cdef const double *transport_cost(self) noexcept nogil
    cdef void collect(self, Vertex out) noexcept nogil
    cdef bint entry(
        self, ptrdiff_t node, ptrdiff_t *i, ptrdiff_t *j
    ) noexcept nogil

"""Conditional gradient: see _frank_wolfe.pyx."""
cimport cython
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t

from ._transport cimport Transport, Vertex


# A quadratic function of plans (n, m), with the mean of one or two products, and the plans; an
# absent term is NULL.
cdef struct Terms:
    ptrdiff_t n, m, n_products
    const double *left[2]
    const double *right[2]
    const double *linear
    const double *losses[2]
    const double *p
    const double *q
    double mass


# When steps end, see `FrankWolfe.advance`.
cdef struct Stop:
    double tol, floor, least_change, least_relative, constant


@cython.final
cdef class FrankWolfe:
    cdef Terms terms
    cdef Vertex vertex, former, delta
    cdef Transport transport
    cdef readonly ptrdiff_t n, m, n_steps
    cdef readonly double value, gap, step_size, change
    cdef double at_plan, linear_at_plan, largest, unit
    cdef bint partial, one_sided, has_product, is_under_way
    cdef double *plan_
    cdef double *gradient_
    cdef double *product
    cdef double *weights
    cdef double *gathered
    cdef double *packed
    cdef double *padded
    cdef double *row_sums
    cdef double *col_sums
    cdef double *losses
    cdef double[32] peaks
    cdef int64_t *units
    cdef int64_t *moved
    cdef ptrdiff_t *changed
    cdef list rooms
    cdef object kept
    cdef int n_threads

    cdef int reserve(self, ptrdiff_t n, ptrdiff_t m, ptrdiff_t n_products) except -1
    cdef void *room(self, ptrdiff_t words) except NULL
    cdef void bind(self, const Terms *terms) noexcept nogil
    cdef void begin_at_product(self) noexcept nogil
    cdef void begin_at_plan(self) noexcept nogil
    cdef int step(self, const Stop *stop) noexcept nogil
    cdef void save(self, double *room) noexcept nogil
    cdef void go_back(self, const double *room) noexcept nogil

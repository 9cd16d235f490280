"""Exact transport plans: see _transport.pyx."""
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t

from ._rows cimport gwf_f64

cdef extern from "network_simplex.h" nogil:
    ctypedef struct gwf_tree:
        ptrdiff_t n, m
        const int64_t *mass
        int32_t *parent
        int32_t *depth
        int32_t *next
        int32_t *before
        int64_t *flow
        double *potential
        double *room
        int32_t root
        ptrdiff_t row
    void gwf_tree_greedy(gwf_tree *, const double *, const gwf_f64 *)
    ptrdiff_t gwf_tree_solve(
        gwf_tree *, const double *, double, ptrdiff_t, const gwf_f64 *
    )


cdef class Transport:
    cdef gwf_tree tree
    cdef int64_t[::1] mass, flow
    cdef int32_t[:, ::1] links
    cdef double[::1] potential, room
    cdef readonly double unit
    cdef void begin(self, const double *cost) noexcept nogil
    cdef ptrdiff_t solve_for(
        self, const double *cost, double tolerance, ptrdiff_t most
    ) noexcept nogil
    cdef ptrdiff_t arc(
        self, ptrdiff_t node, ptrdiff_t *i, ptrdiff_t *j
    ) noexcept nogil

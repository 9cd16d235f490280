"""Exact transport plans: see _transport.pyx."""
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t

cdef extern from "network_simplex.h" nogil:
    ctypedef struct gwf_tree:
        ptrdiff_t n, m
        const int64_t *mass
        int32_t *parent
        int32_t *depth
        int32_t *child
        int32_t *next
        int32_t *before
        int64_t *flow
        double *potential
        int32_t root
        ptrdiff_t row
    ctypedef double (*gwf_least)(
        const double *, const double *, ptrdiff_t, ptrdiff_t *
    ) noexcept nogil
    void gwf_tree_regrets(gwf_tree *, const double *, gwf_least, double *)
    void gwf_tree_greedy(gwf_tree *, const double *, gwf_least, const int64_t *)
    ptrdiff_t gwf_tree_solve(
        gwf_tree *, const double *, double, ptrdiff_t, gwf_least
    )


cdef class Transport:
    cdef gwf_tree tree
    cdef int64_t[::1] mass, flow
    cdef int32_t[:, ::1] links
    cdef double[::1] potential
    cdef readonly double unit
    cdef void begin(self, const double *cost)
    cdef ptrdiff_t solve_for(
        self, const double *cost, double tolerance, ptrdiff_t most
    ) noexcept nogil
    cdef ptrdiff_t arc(
        self, ptrdiff_t node, ptrdiff_t *i, ptrdiff_t *j
    ) noexcept nogil

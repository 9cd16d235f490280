"""Exact transport plans: see _transport.pyx."""
cimport cython
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
    ptrdiff_t gwf_tree_solve(gwf_tree *, const double *, double, ptrdiff_t, const gwf_f64 *)


# Entries of a plan by rows, in units of mass.
cdef struct Vertex:
    ptrdiff_t *start
    ptrdiff_t *col
    int64_t *flow


cdef double sum_plan(
    double *plan, double *rows, double *cols, double *room, ptrdiff_t n, ptrdiff_t m
) noexcept nogil
cdef void mend(
    double *plan, const double *p, const double *q, double mass, double *rows, double *cols,
    double *room, ptrdiff_t n, ptrdiff_t m,
) noexcept nogil


@cython.final
cdef class Transport:
    cdef gwf_tree tree
    # Masses, flows, and the four links of each node.
    cdef int64_t[::1] whole
    cdef double[::1] numbers
    cdef readonly double unit
    cdef int reserve(self, ptrdiff_t nodes) except -1
    cdef bint fit(self, const double *p, ptrdiff_t n, const double *q, ptrdiff_t m) noexcept nogil
    cdef void begin(self, const double *cost) noexcept nogil
    cdef ptrdiff_t solve_for(
        self, const double *cost, double tolerance, ptrdiff_t most
    ) noexcept nogil
    cdef void collect(self, Vertex *out, ptrdiff_t n, ptrdiff_t m) noexcept nogil
    cdef inline bint arc(self, ptrdiff_t node, ptrdiff_t *i, ptrdiff_t *j) noexcept nogil:
        """Row and column of the arc below which a node is; False for the root."""
        cdef ptrdiff_t up = self.tree.parent[node], n = self.tree.n
        if up < 0:
            return False
        i[0] = node if node < n else up
        j[0] = (up if node < n else node) - n
        return True

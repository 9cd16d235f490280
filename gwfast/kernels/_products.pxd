"""Matrices that are products, and packed right factors, see _products.pyx."""
cimport cython
from libc.stddef cimport ptrdiff_t

from ._rows cimport Rows, gwf_isa


@cython.final
cdef class Panels:
    cdef readonly ptrdiff_t k, m
    cdef readonly bint is_float64
    cdef unsigned char[::1] packed
    cdef const gwf_isa *packed_for
    cdef int check_type(self, bint is_float64) except -1


cdef class Product(Rows):
    cdef readonly ptrdiff_t k
    cdef const float[:, ::1] left
    cdef Panels right


cdef class Gibbs(Product):
    cdef const float[::1] f, f_rest, g, g_rest
    cdef float inv_epsilon

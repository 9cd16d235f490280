"""Potentials as kernels take them, see _exponentials.pyx."""

cdef double middle(const double[::1] g) noexcept nogil
cdef tuple centered(const double[::1] f, const double[::1] g, bint is_float64)

"""Plans of a quadratic function: see _quadratic_plan.pyx."""
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint64_t


# A quadratic function of plans (n, m), and the plans. What there is none of is NULL.
cdef struct Terms:
    ptrdiff_t n, m
    const double *left
    const double *right
    const double *other_left
    const double *other_right
    const double *linear
    const double *row_losses
    const double *col_losses
    const double *p
    const double *q
    double mass


# Entries of a vertex by rows, in units of mass.
cdef struct Vertex:
    ptrdiff_t *start
    ptrdiff_t *col
    int64_t *flow


cdef inline void *take(size_t *at, size_t size) noexcept nogil:
    """The next so many bytes, which begin at a cache line."""
    cdef size_t begin = at[0]
    at[0] = begin + (size + 63) // 64 * 64
    return <void *>begin


cdef class QuadraticPlan:
    cdef Terms terms
    cdef Vertex vertex, former
    cdef readonly ptrdiff_t n, m
    # The operations so far, about.
    cdef readonly double work
    # The plan is `scale` times plan_, and the former vertex if `is_vertex`.
    cdef double scale, at_plan, linear_at_plan, largest, unit
    cdef bint is_vertex, has_product, rows_only
    cdef double *plan_
    cdef double *gradient_
    cdef double *product
    cdef double *weights
    cdef double *gathered
    cdef double *packed
    cdef double *peaks
    cdef double *sums
    cdef int64_t *row_units
    cdef int64_t *col_units
    cdef int64_t *changed_by
    cdef ptrdiff_t *changed
    cdef ptrdiff_t *touched
    cdef unsigned char[::1] memory
    cdef object kept
    cdef int n_threads

    cdef int reserve(self, ptrdiff_t n, ptrdiff_t m, bint asymmetric) except -1
    cdef size_t lay_out(
        self, ptrdiff_t n, ptrdiff_t m, bint asymmetric, size_t at
    ) noexcept nogil
    cdef void bind(self, const Terms *terms) noexcept nogil
    cdef object _array(self, double *entries)
    cdef void begin_at_product(self) noexcept nogil
    cdef void begin_at_random(self, uint64_t seed) noexcept nogil
    cdef void mend(self) noexcept nogil
    cdef void share_out(self) noexcept nogil
    cdef double sum_plan(self) noexcept nogil
    cdef void differentiate(self) noexcept nogil
    cdef void add_separable(self) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef void multiply(self) noexcept nogil
    cdef void multiply_changes(
        self, ptrdiff_t begin, ptrdiff_t k, bint last
    ) noexcept nogil
    cdef void multiply_weights(
        self, const ptrdiff_t *rows, ptrdiff_t k, ptrdiff_t first, ptrdiff_t inner,
        bint adds,
    ) noexcept nogil
    cdef void multiply_rows(
        self, ptrdiff_t begin, ptrdiff_t end, const ptrdiff_t *changed, ptrdiff_t k,
        ptrdiff_t first, ptrdiff_t inner, bint adds,
    ) noexcept nogil
    cdef void weigh_plan(
        self, ptrdiff_t begin, ptrdiff_t k, const double *right, double *out,
        double factor,
    ) noexcept nogil
    cdef void weigh(
        self, ptrdiff_t i, const double *right, double *out, double factor
    ) noexcept nogil
    cdef void shift_by(
        self, const double *losses, ptrdiff_t size, const int64_t *units, double *out
    ) noexcept nogil
    cdef ptrdiff_t change_of(self, ptrdiff_t i) noexcept nogil
    cdef ptrdiff_t find_changes(self) noexcept nogil
    cdef void move(self, double size) noexcept nogil
    cdef void clear(self, double size) noexcept nogil
    cdef double move_rows(
        self, ptrdiff_t begin, ptrdiff_t end, double size
    ) noexcept nogil
    cdef void sum_up(self) noexcept nogil

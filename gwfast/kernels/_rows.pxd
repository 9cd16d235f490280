"""What the OpenMP loops share: see _rows.pyx."""
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t

cdef extern from "gwfast.h" nogil:
    ctypedef struct gwf_isa:
        const char *name
        void (*exp)(const float *, float *, ptrdiff_t) noexcept nogil
        void (*log)(const float *, float *, ptrdiff_t) noexcept nogil
        void (*logsumexp_rows)(const float *, const double *, const float *, float,
                               double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*logsumexp_cols)(const float *, const double *, float, float *, float *,
                               ptrdiff_t, ptrdiff_t) noexcept nogil
        float (*gibbs_rows)(const float *, const double *, const float *, float,
                            float *, ptrdiff_t, ptrdiff_t) noexcept nogil
        double (*sinkhorn_rows)(const float *, const double *, float *, const float *,
                                float, float *, double *, ptrdiff_t,
                                ptrdiff_t) noexcept nogil
        void (*rescale)(float *, const double *, const double *, float,
                        ptrdiff_t) noexcept nogil
        void (*plan_rows)(float *, const float *, const float *, double *, float *,
                          double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*sum_rows)(const float *, double *, float *, double *, ptrdiff_t,
                         ptrdiff_t) noexcept nogil
        double (*dot_rows)(const float *, const float *, ptrdiff_t,
                           ptrdiff_t) noexcept nogil
        double (*distance_rows)(const float *, const float *, ptrdiff_t,
                                ptrdiff_t) noexcept nogil
        double (*entropy_rows)(const float *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*topk_row)(const float *, ptrdiff_t, ptrdiff_t *, float *,
                         ptrdiff_t) noexcept nogil
        ptrdiff_t panel, lanes
        void (*pack_panel)(const float *, ptrdiff_t, ptrdiff_t, const float *,
                           ptrdiff_t, ptrdiff_t, float *) noexcept nogil
        void (*product_rows)(const float *, const float *, ptrdiff_t, float *,
                             ptrdiff_t, ptrdiff_t) noexcept nogil
        float (*gibbs_product_rows)(const float *, const float *, ptrdiff_t,
                                    const double *, const float *, const float *,
                                    float, float *, double *, ptrdiff_t,
                                    ptrdiff_t) noexcept nogil
        void (*dot_each_row)(const float *, const float *, double *, ptrdiff_t,
                             ptrdiff_t) noexcept nogil
        ptrdiff_t (*count_row)(const float *, float, const float *, float,
                               const float *, double *, float *,
                               ptrdiff_t) noexcept nogil
        ptrdiff_t (*select_row)(const float *, float, const float *, float,
                                const float *, int32_t *, ptrdiff_t) noexcept nogil
        float (*sparse_gibbs_rows)(const int64_t *, const int32_t *, const float *,
                                   const float *, ptrdiff_t, const double *,
                                   const float *, float, float *,
                                   ptrdiff_t) noexcept nogil
        double (*sparse_sinkhorn_rows)(const int64_t *, const int32_t *, const float *,
                                       const double *, float *, const float *, float,
                                       float *, ptrdiff_t) noexcept nogil
        void (*sparse_product_rows)(const int64_t *, const int32_t *, const float *,
                                    const float *, const float *, ptrdiff_t, float *,
                                    double *, ptrdiff_t) noexcept nogil
        void (*fold)(float *, double *, ptrdiff_t) noexcept nogil
    const gwf_isa *gwf_supported_isa(int)
    float GWF_HUGE

# The instruction set in use.
cdef const gwf_isa *isa

cdef enum:
    # Enough chunks to share out evenly over a few dozen threads, few enough that their
    # partial column sums (12 m bytes each) stay small beside the matrix.
    N_CHUNKS = 32


cdef inline ptrdiff_t chunk_rows(ptrdiff_t n) noexcept nogil:
    """Rows a chunk: a multiple of 8, the most rows a kernel takes at once."""
    return ((n + N_CHUNKS - 1) // N_CHUNKS + 7) // 8 * 8


cdef inline ptrdiff_t count_chunks(ptrdiff_t n, ptrdiff_t size) noexcept nogil:
    return (n + size - 1) // size if size > 0 else 0


cdef inline ptrdiff_t chunk_length(
    ptrdiff_t chunk, ptrdiff_t size, ptrdiff_t n
) noexcept nogil:
    return min(size, n - chunk * size)


cdef inline int team(int n_threads, ptrdiff_t chunks) noexcept nogil:
    """Threads worth waking."""
    return <int>max(min(<ptrdiff_t>n_threads, chunks), 1)


cdef class Rows:
    cdef readonly ptrdiff_t n, m
    cdef readonly ptrdiff_t strip
    cdef const float *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil
    cdef float[:, ::1] scratch(self, int n_threads)


cdef class Stored(Rows):
    cdef const float[:, ::1] matrix


cdef class Panels:
    cdef readonly ptrdiff_t k, m
    cdef float[::1] packed
    cdef const gwf_isa *packed_for
    cdef int check(self) except -1


cdef class Product(Rows):
    cdef readonly ptrdiff_t k
    cdef const float[:, ::1] left
    cdef Panels right


cdef class Gibbs(Product):
    cdef const double[::1] f
    cdef const float[::1] g, g_rest
    cdef float inv_epsilon


cdef class ColumnSums:
    cdef readonly ptrdiff_t n, m
    cdef double[:, ::1] totals
    cdef float[:, ::1] blocks
    cdef void reduce(self, int n_threads) noexcept nogil


cdef Rows as_rows(matrix)
cdef int check(str name, ptrdiff_t came, ptrdiff_t expected) except -1
cdef int check_matrix(
    str name, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t n, ptrdiff_t m
) except -1
cdef tuple centered(const double[::1] f, const double[::1] g)
cdef rounded_off(const double[::1] g, centered_g, double epsilon)

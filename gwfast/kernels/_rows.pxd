"""What the OpenMP loops share: see _rows.pyx."""
cimport cython
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

# What a matrix is made of, and with it what it is multiplied by entry by entry. A loop
# over `real` is compiled for both; `isa.f32` and `isa.f64` are the kernels it calls.
ctypedef fused real:
    float
    double

cdef extern from "gwfast.h" nogil:
    ctypedef struct gwf_f32:
        void (*exp)(const float *, float *, ptrdiff_t) noexcept nogil
        void (*log)(const float *, float *, ptrdiff_t) noexcept nogil
        void (*logsumexp_rows)(const float *, const double *, const float *, float,
                               double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*logsumexp_cols)(const float *, const double *, float, float *, float *,
                               ptrdiff_t, ptrdiff_t) noexcept nogil
        float (*gibbs_rows)(const float *, const double *, const float *, float,
                            float *, ptrdiff_t, ptrdiff_t) noexcept nogil
        double (*sinkhorn_rows)(const float *, const double *, float *, const float *,
                                float, double, float *, double *, ptrdiff_t,
                                ptrdiff_t) noexcept nogil
        void (*normal_rows)(const float *, const double *, const float *, double *,
                            float *, double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*rescale)(float *, const double *, const double *, float, double,
                        ptrdiff_t) noexcept nogil
        void (*plan_rows)(float *, const float *, const float *, double *, float *,
                          double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*sum_rows)(const float *, double *, float *, double *, ptrdiff_t,
                         ptrdiff_t) noexcept nogil
        double (*dot_rows)(const float *, const float *, ptrdiff_t,
                           ptrdiff_t) noexcept nogil
        double (*distance_rows)(const float *, const float *, double *, ptrdiff_t,
                                ptrdiff_t) noexcept nogil
        void (*moments_row)(const float *, double, double, const double *, double *,
                            double *, float *, double *, ptrdiff_t) noexcept nogil
        double (*survey_tile)(const float *, ptrdiff_t, const float *, ptrdiff_t,
                              ptrdiff_t, ptrdiff_t, int, float *) noexcept nogil
        double (*entropy_rows)(const float *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*proximal_rows)(float *, const float *, float, ptrdiff_t,
                              ptrdiff_t) noexcept nogil
        float (*least_of_rows)(const float *, const float *, const float *,
                               ptrdiff_t, ptrdiff_t, float, ptrdiff_t *) noexcept nogil
        float (*move_row)(float *, const float *, const float *, float,
                          ptrdiff_t) noexcept nogil
        void (*topk_row)(const float *, ptrdiff_t, ptrdiff_t *, float *,
                         ptrdiff_t) noexcept nogil
        ptrdiff_t panel, lanes
        void (*pack_panel)(const float *, ptrdiff_t, ptrdiff_t, const float *,
                           ptrdiff_t, ptrdiff_t, float *) noexcept nogil
        void (*product_rows)(const float *, ptrdiff_t, const float *, ptrdiff_t,
                             float *, ptrdiff_t, ptrdiff_t, ptrdiff_t,
                             int) noexcept nogil
        void (*dot_each_row)(const float *, const float *, double *, ptrdiff_t,
                             ptrdiff_t) noexcept nogil
        ptrdiff_t (*lay_out)(void *, unsigned char *) noexcept nogil
        int (*descend)(void *, ptrdiff_t) noexcept nogil

    ctypedef struct gwf_f64:
        void (*exp)(const double *, double *, ptrdiff_t) noexcept nogil
        void (*log)(const double *, double *, ptrdiff_t) noexcept nogil
        void (*logsumexp_rows)(const double *, const double *, const double *, double,
                               double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*logsumexp_cols)(const double *, const double *, double, double *,
                               double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        double (*gibbs_rows)(const double *, const double *, const double *, double,
                             double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        double (*sinkhorn_rows)(const double *, const double *, double *,
                                const double *, double, double, double *, double *,
                                ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*normal_rows)(const double *, const double *, const double *, double *,
                            double *, double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*rescale)(double *, const double *, const double *, double, double,
                        ptrdiff_t) noexcept nogil
        void (*plan_rows)(double *, const double *, const double *, double *,
                          double *, double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*sum_rows)(const double *, double *, double *, double *, ptrdiff_t,
                         ptrdiff_t) noexcept nogil
        double (*dot_rows)(const double *, const double *, ptrdiff_t,
                           ptrdiff_t) noexcept nogil
        double (*distance_rows)(const double *, const double *, double *, ptrdiff_t,
                                ptrdiff_t) noexcept nogil
        void (*moments_row)(const double *, double, double, const double *, double *,
                            double *, float *, double *, ptrdiff_t) noexcept nogil
        double (*survey_tile)(const double *, ptrdiff_t, const double *, ptrdiff_t,
                              ptrdiff_t, ptrdiff_t, int, double *) noexcept nogil
        double (*entropy_rows)(const double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*proximal_rows)(double *, const double *, double, ptrdiff_t,
                              ptrdiff_t) noexcept nogil
        double (*least_of_rows)(const double *, const double *, const double *,
                                ptrdiff_t, ptrdiff_t, double,
                                ptrdiff_t *) noexcept nogil
        double (*move_row)(double *, const double *, const double *, double,
                           ptrdiff_t) noexcept nogil
        void (*topk_row)(const double *, ptrdiff_t, ptrdiff_t *, double *,
                         ptrdiff_t) noexcept nogil
        ptrdiff_t panel, lanes
        void (*pack_panel)(const double *, ptrdiff_t, ptrdiff_t, const double *,
                           ptrdiff_t, ptrdiff_t, double *) noexcept nogil
        void (*product_rows)(const double *, ptrdiff_t, const double *, ptrdiff_t,
                             double *, ptrdiff_t, ptrdiff_t, ptrdiff_t,
                             int) noexcept nogil
        void (*dot_each_row)(const double *, const double *, double *, ptrdiff_t,
                             ptrdiff_t) noexcept nogil
        ptrdiff_t (*lay_out)(void *, unsigned char *) noexcept nogil
        int (*descend)(void *, ptrdiff_t) noexcept nogil

    ctypedef struct gwf_isa:
        const char *name
        const gwf_f32 *f32
        const gwf_f64 *f64
        float (*gibbs_product_rows)(const float *, const float *, ptrdiff_t,
                                    const float *, const float *, const float *,
                                    const float *, float, float *, double *, ptrdiff_t,
                                    ptrdiff_t) noexcept nogil
        ptrdiff_t (*sample_row)(const float *, const float *, ptrdiff_t, double,
                                int32_t *, int32_t *, double *,
                                ptrdiff_t) noexcept nogil
        ptrdiff_t (*select_row)(const float *, float, const float *, float,
                                const float *, int32_t *, ptrdiff_t) noexcept nogil
        void (*sparse_cost_rows)(const int64_t *, const int32_t *, const float *,
                                 const float *, ptrdiff_t, float *,
                                 ptrdiff_t) noexcept nogil
        float (*sparse_gibbs_rows)(const int64_t *, const int32_t *, const float *,
                                   const float *, ptrdiff_t, const double *,
                                   const float *, float, float *,
                                   ptrdiff_t) noexcept nogil
        void (*sparse_logsumexp_rows)(const int64_t *, const int32_t *, const float *,
                                      const double *, double, double *,
                                      ptrdiff_t) noexcept nogil
        void (*sparse_top_cols)(const int64_t *, const int32_t *, const float *,
                                const double *, float *, ptrdiff_t) noexcept nogil
        void (*sparse_exp_cols)(const int64_t *, const int32_t *, const float *,
                                const double *, const float *, double, float *,
                                ptrdiff_t) noexcept nogil
        double (*sparse_sinkhorn_rows)(const int64_t *, const int32_t *, const float *,
                                       const double *, float *, const float *, float,
                                       double, float *, ptrdiff_t) noexcept nogil
        void (*sparse_normal_rows)(const int64_t *, const int32_t *, const float *,
                                   const double *, const float *, double *, float *,
                                   ptrdiff_t) noexcept nogil
        void (*sparse_product_rows)(const int64_t *, const int32_t *, const float *,
                                    const float *, const float *, ptrdiff_t, float *,
                                    double *, ptrdiff_t) noexcept nogil
        void (*shift_f16)(const uint16_t *, float, float, float *,
                          ptrdiff_t) noexcept nogil
        void (*shift_f32)(const float *, float, float, float *,
                          ptrdiff_t) noexcept nogil
        void (*shift_f64)(const double *, double, double, float *,
                          ptrdiff_t) noexcept nogil
        void (*fold)(float *, double *, ptrdiff_t) noexcept nogil
    const gwf_isa *gwf_supported_isa(int)
    ptrdiff_t gwf_depth(ptrdiff_t)
    float GWF_HUGE

cdef extern from "flush.h" nogil:
    uint64_t GWF_FLUSH_BITS, GWF_FLAGS, GWF_SUBNORMAL_SEEN
    uint64_t begin_flush "gwf_flush"()
    void end_flush "gwf_restore"(uint64_t)
    uint64_t gwf_float_control()
    void gwf_set_float_control(uint64_t)

# The instruction set in use.
cdef const gwf_isa *isa
cdef ptrdiff_t row_floats

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


# Threads worth waking, and that can be had; to call BLAS, too.
cdef int team(int n_threads, ptrdiff_t chunks) noexcept nogil
cdef int blas_team(int n_threads, ptrdiff_t chunks) noexcept nogil


cdef class Rows:
    cdef readonly ptrdiff_t n, m
    cdef readonly ptrdiff_t strip
    cdef readonly bint is_float64
    cdef const void *at(
        self, ptrdiff_t i, ptrdiff_t rows, float *scratch
    ) noexcept nogil
    cdef float[:, ::1] scratch(self, int n_threads)
    cdef int ready(self) except -1


cdef class Stored(Rows):
    cdef const float[:, ::1] floats
    cdef const double[:, ::1] doubles


cdef class Shifted(Rows):
    cdef readonly double shift, factor
    cdef readonly object matrix
    cdef const unsigned char[:, ::1] content
    cdef ptrdiff_t itemsize


cdef class Panels:
    cdef readonly ptrdiff_t k, m
    cdef readonly bint is_float64
    cdef unsigned char[::1] packed
    cdef const gwf_isa *packed_for
    cdef int check(self, bint is_float64) except -1


cdef class Product(Rows):
    cdef readonly ptrdiff_t k
    cdef const float[:, ::1] left
    cdef Panels right


cdef class Gibbs(Product):
    cdef const float[::1] f, f_rest, g, g_rest
    cdef float inv_epsilon


@cython.final
cdef class ColumnSums:
    cdef readonly ptrdiff_t n, m
    cdef readonly bint is_float64
    cdef double[:, ::1] totals
    cdef unsigned char[:, ::1] blocks
    cdef ptrdiff_t n_passes
    cdef double[2] spent
    cpdef bint prefers_one(self) noexcept nogil
    cpdef void took(self, bint one, double seconds) noexcept nogil
    cdef int check(self, ptrdiff_t n, ptrdiff_t m, bint is_float64) except -1
    cdef void reduce(self, int n_threads, ptrdiff_t chunks=*) noexcept nogil
    cdef void add_up(
        self, ptrdiff_t first, ptrdiff_t last, ptrdiff_t chunks
    ) noexcept nogil


cdef double seconds() noexcept nogil


cdef inline ptrdiff_t strip_of(Rows source, ptrdiff_t size) noexcept nogil:
    """Rows at a time, of a chunk of `size`."""
    return min(source.strip, size) if source.strip else size


cdef bint holds_float64(x) except -1
cdef Rows as_rows(matrix)
cdef ptrdiff_t row_stride(const real[:, :] matrix) except -1
cdef int check(str name, ptrdiff_t came, ptrdiff_t expected) except -1
cdef int check_matrix(
    str name, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t n, ptrdiff_t m
) except -1
cdef void center(const double[::1] f, const double[::1] g, double[::1] shifted,
                 real[::1] low) noexcept nogil
cdef tuple centered(const double[::1] f, const double[::1] g, bint is_float64)
cdef tuple in_parts(
    const double[::1] f, const double[::1] g, double epsilon, logarithms=*
)

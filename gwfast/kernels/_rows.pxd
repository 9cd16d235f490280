"""Declarations shared by the OpenMP loops, see _rows.pyx."""
cimport cython
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint64_t

# The types of the numbers of a matrix.
ctypedef fused real:
    float
    double

cdef extern from "gwfast.h" nogil:
    ctypedef struct gwf_scaling_map:
        double *rows
        const double *columns
        double row_power, column_power, mass, rate, factor

    # `csrc/gwfast.h` names the arguments; void is float in `isa.f32`, double in `isa.f64`.
    ctypedef struct gwf_kernels:
        ptrdiff_t panel, lanes
        void (*log)(const void *, void *, ptrdiff_t) noexcept nogil
        void (*logsumexp_rows)(const void *, const double *, const void *, double, double *,
                               ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*logsumexp_cols)(const void *, const double *, double, void *, void *, ptrdiff_t,
                               ptrdiff_t) noexcept nogil
        double (*gibbs_rows)(const void *, const double *, const void *, double, void *,
                             ptrdiff_t, ptrdiff_t) noexcept nogil
        double (*sinkhorn_rows)(const void *, const double *, void *, const void *, double,
                                const double *, double *, void *, double *, ptrdiff_t,
                                ptrdiff_t) noexcept nogil
        void (*rescale)(void *, const double *, const double *, double, const double *,
                        ptrdiff_t) noexcept nogil
        double (*settle)(gwf_scaling_map *, void *, void *, const double *, double *, ptrdiff_t,
                         ptrdiff_t) noexcept nogil
        void (*sum_rows)(void *, const void *, const void *, double *, void *, double *,
                         ptrdiff_t, ptrdiff_t) noexcept nogil
        double (*dot_rows)(const void *, const void *, ptrdiff_t, ptrdiff_t) noexcept nogil
        double (*distance_rows)(const void *, const void *, double *, ptrdiff_t,
                                ptrdiff_t) noexcept nogil
        void (*shift_row)(const void *, double, double, float *, ptrdiff_t) noexcept nogil
        void (*moments_row)(const void *, double, double, const double *, double *, double *,
                            float *, double *, ptrdiff_t) noexcept nogil
        double (*survey_tile)(const void *, ptrdiff_t, const void *, ptrdiff_t, ptrdiff_t,
                              ptrdiff_t, int, double *) noexcept nogil
        double (*entropy_rows)(const void *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*proximal_rows)(void *, const void *, double, ptrdiff_t, ptrdiff_t) noexcept nogil
        double (*least_of_rows)(const void *, const void *, const void *, ptrdiff_t, ptrdiff_t,
                                double, ptrdiff_t *) noexcept nogil
        double (*move_row)(void *, const void *, const void *, double, ptrdiff_t) noexcept nogil
        void (*topk_row)(const void *, ptrdiff_t, ptrdiff_t *, void *, ptrdiff_t) noexcept nogil
        void (*pack_panel)(const void *, ptrdiff_t, ptrdiff_t, const void *, ptrdiff_t, ptrdiff_t,
                           void *) noexcept nogil
        void (*product_rows)(const void *, ptrdiff_t, const void *, ptrdiff_t, void *, ptrdiff_t,
                             ptrdiff_t, ptrdiff_t, int) noexcept nogil
        void (*dot_each_row)(const void *, const void *, double *, ptrdiff_t,
                             ptrdiff_t) noexcept nogil
        ptrdiff_t (*lay_out)(void *, unsigned char *) noexcept nogil
        int (*descend)(void *, ptrdiff_t) noexcept nogil
    ctypedef gwf_kernels gwf_f64

    ctypedef struct gwf_isa:
        const char *name
        const gwf_kernels *f32
        const gwf_kernels *f64
        float (*gibbs_product_rows)(const float *, const float *, ptrdiff_t, const float *,
                                    const float *, const float *, const float *, float, float *,
                                    double *, ptrdiff_t, ptrdiff_t) noexcept nogil
        ptrdiff_t (*sample_row)(const float *, const float *, ptrdiff_t, double, int32_t *,
                                int32_t *, double *, ptrdiff_t) noexcept nogil
        ptrdiff_t (*select_row)(const float *, float, const float *, float, const float *,
                                int32_t *, ptrdiff_t) noexcept nogil
        void (*sparse_cost_rows)(const int64_t *, const int32_t *, const float *, const float *,
                                 ptrdiff_t, float *, ptrdiff_t) noexcept nogil
        float (*sparse_gibbs_rows)(const int64_t *, const int32_t *, const float *, const float *,
                                   ptrdiff_t, const double *, const float *, float, float *,
                                   ptrdiff_t) noexcept nogil
        void (*sparse_logsumexp_rows)(const int64_t *, const int32_t *, const float *,
                                      const double *, double, double *, ptrdiff_t) noexcept nogil
        void (*sparse_top_cols)(const int64_t *, const int32_t *, const float *, const double *,
                                float *, ptrdiff_t) noexcept nogil
        void (*sparse_exp_cols)(const int64_t *, const int32_t *, const float *, const double *,
                                const float *, double, float *, ptrdiff_t) noexcept nogil
        double (*sparse_sinkhorn_rows)(const int64_t *, const int32_t *, const float *,
                                       const double *, float *, const float *, float,
                                       const double *, double *, float *, double *, ptrdiff_t,
                                       ptrdiff_t) noexcept nogil
        void (*sparse_product_rows)(const int64_t *, const int32_t *, const float *, const float *,
                                    const float *, ptrdiff_t, float *, double *,
                                    ptrdiff_t) noexcept nogil
        void (*shift_half_row)(const void *, float, float, float *, ptrdiff_t) noexcept nogil
    const gwf_isa *gwf_supported_isa(int)
    ptrdiff_t gwf_depth(ptrdiff_t)
    float GWF_HUGE

cdef extern from "flush.h" nogil:
    uint64_t GWF_FLUSH_BITS, GWF_FLAGS
    uint64_t begin_flush "gwf_flush"()
    void end_flush "gwf_restore"(uint64_t)
    uint64_t gwf_float_control()
    void gwf_set_float_control(uint64_t)

# The instruction set in use.
cdef const gwf_isa *isa
cdef ptrdiff_t row_floats

cdef enum:
    # Enough chunks to share out evenly over a few dozen threads, few enough that their partial
    # column sums (12 m bytes each) stay small beside the matrix.
    N_CHUNKS = 32


cdef inline ptrdiff_t chunk_rows(ptrdiff_t n) noexcept nogil:
    """Rows a chunk: a multiple of 8, the most rows a kernel takes at once."""
    return ((n + N_CHUNKS - 1) // N_CHUNKS + 7) // 8 * 8


cdef inline ptrdiff_t count_chunks(ptrdiff_t n, ptrdiff_t size) noexcept nogil:
    return (n + size - 1) // size if size > 0 else 0


cdef inline double added(const double *parts, ptrdiff_t chunks) noexcept nogil:
    """The sum of a part of each chunk, in their order."""
    cdef double total = 0.0
    for chunk in range(chunks):
        total += parts[chunk]
    return total


# Threads worth waking, and that can be had; to call BLAS, too.
cdef int team(int n_threads, ptrdiff_t chunks) noexcept nogil
cdef int blas_team(int n_threads, ptrdiff_t chunks) noexcept nogil
cdef double seconds() noexcept nogil


cdef class Rows:
    cdef readonly ptrdiff_t n, m, strip
    cdef const void *at(self, ptrdiff_t i, ptrdiff_t rows, float *scratch) noexcept nogil
    cdef int ready(self) except -1


cdef class Shifted(Rows):
    cdef readonly double shift, factor
    cdef readonly object matrix
    cdef const char *content
    cdef ptrdiff_t itemsize


@cython.final
cdef class Loop:
    cdef readonly ptrdiff_t n, m
    cdef readonly bint is_float64
    cdef ptrdiff_t size, chunks, strip, row_bytes
    cdef int threads
    cdef const gwf_kernels *table
    cdef Rows source
    cdef const char *data
    cdef object room
    cdef float *scratch
    cdef const void *at(self, ptrdiff_t i, ptrdiff_t rows, int thread) noexcept nogil
    cdef ptrdiff_t end(self, ptrdiff_t chunk) noexcept nogil
    cdef void *beside(self, str name, x, bint writes=*) except NULL
    cdef void *vector(self, str name, x, ptrdiff_t size, bint writes=*) except NULL
    cdef ptrdiff_t parts(self) noexcept nogil


@cython.final
cdef class ScalingMap:
    cdef gwf_scaling_map map
    cdef readonly object rows, columns
    cdef gwf_scaling_map *of(self, ptrdiff_t n, ptrdiff_t m) except NULL


@cython.final
cdef class ColumnSums:
    cdef readonly ptrdiff_t n, m
    cdef readonly bint is_float64
    cdef ptrdiff_t chunks, stride, n_passes
    cdef object memory
    cdef double *totals
    cdef char *blocks
    cdef double[2] spent
    cpdef bint prefers_one(self) noexcept nogil
    cpdef void took(self, bint one, double seconds) noexcept nogil
    cdef double *total(self, ptrdiff_t chunk) noexcept nogil
    cdef void *block(self, ptrdiff_t chunk) noexcept nogil
    cdef int check(self, ptrdiff_t n, ptrdiff_t m, bint is_float64) except -1
    cdef void reduce(self, int n_threads, ptrdiff_t chunks=*) noexcept nogil


cdef bint holds_float64(x) except -1
cdef str type_of(bint is_float64)
cdef ptrdiff_t strip_for(ptrdiff_t m) noexcept
cdef void *floats(str name, x, int ndim, bint is_float64, bint writes=*) except NULL
cdef void *strided(str name, x, bint is_float64, ptrdiff_t *stride, bint writes=*) except NULL
cdef int check(str name, ptrdiff_t came, ptrdiff_t expected) except -1
cdef int check_matrix(
    str name, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t n, ptrdiff_t m
) except -1

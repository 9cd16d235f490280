"""OpenMP loops over blocks of rows. The arithmetic of a block is C (csrc/), the
decisions are Python; this file only shares out rows and adds up partial sums.

Rules that hold for every function here:

- arguments are C-contiguous, inputs `const`, outputs are passed in; shapes are checked
  because a wrong one would write outside a buffer, values are not;
- rows are cut into chunks by their number alone, never by the number of threads, and
  every chunk owns its partial sums, which are added in the order of the chunks: the
  result is the same to the last bit for any number of threads;
- the GIL is released around every loop, and nothing inside one can raise.
"""
from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from scipy.linalg.cython_blas cimport sgemm

import numpy as np

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    static int gwf_openmp(void) { return _OPENMP; }
    static int gwf_max_threads(void) { return omp_get_max_threads(); }
    #else
    static int gwf_openmp(void) { return 0; }
    static int gwf_max_threads(void) { return 1; }
    #endif
    """
    int gwf_openmp() nogil
    int gwf_max_threads() nogil

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
        double (*entropy_rows)(const float *, ptrdiff_t, ptrdiff_t) noexcept nogil
        void (*topk_row)(const float *, ptrdiff_t, ptrdiff_t *, float *,
                         ptrdiff_t) noexcept nogil
    const gwf_isa *gwf_supported_isa(int)
    float GWF_HUGE

cdef const gwf_isa *isa = gwf_supported_isa(0)

CACHE_LINE = 64
# Enough chunks to share out evenly over a few dozen threads, few enough that their
# partial column sums (12 m bytes each) stay small beside the matrix.
cdef ptrdiff_t N_CHUNKS = 32
# Rows of a product that one BLAS call makes, at least: below, packing the right factor
# anew for every call shows.
cdef ptrdiff_t GEMM_ROWS = 128
# Floats of partial products that `contract` may hold (64 MB).
cdef ptrdiff_t CONTRACT_FLOATS = 1 << 24
# Elements of a vector that one chunk of an elementwise loop holds (64 KB).
cdef ptrdiff_t VECTOR_CHUNK = 16384
# Columns whose partial sums are added by one thread at a time (4 KB of each chunk).
cdef ptrdiff_t COLUMN_STRIPE = 512


def aligned_empty(shape, dtype=np.float32):
    """Uninitialized array that starts at a cache line.

    NumPy's own start anywhere that a multiple of 16 bytes does, and vector loads that
    straddle two lines cost a pass over a large matrix a tenth of its speed, over one in
    cache a quarter.
    """
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.empty(size + CACHE_LINE, dtype=np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start:start + size].view(dtype).reshape(shape)


# --- Facts about the build and the processor ---------------------------------------

def openmp_version():
    """Version date of OpenMP this was built with (``_OPENMP``), 0 without it."""
    return gwf_openmp()


def openmp_max_threads():
    """What OpenMP would use by itself: ``OMP_NUM_THREADS`` or all processors."""
    return gwf_max_threads()


def supported_isas():
    """Names of the instruction sets this processor can run, widest first."""
    names = []
    while gwf_supported_isa(len(names)) != NULL:
        names.append(gwf_supported_isa(len(names)).name.decode())
    return names


def current_isa():
    """Name of the instruction set in use."""
    return isa.name.decode()


def select_isa(name):
    """Use the row kernels of instruction set `name` from now on, in the whole process.

    Raises
    ------
    ValueError
        If this processor or this build does not have it.
    """
    global isa
    names = supported_isas()
    if name not in names:
        raise ValueError(f"instruction set must be one of {names}, got {name!r}")
    isa = gwf_supported_isa(names.index(name))


# --- Sharing out rows ----------------------------------------------------------------

cdef inline ptrdiff_t chunk_rows(ptrdiff_t n) noexcept nogil:
    """Rows a chunk: a multiple of 4, the number of rows a kernel takes at once."""
    return ((n + N_CHUNKS - 1) // N_CHUNKS + 3) // 4 * 4


cdef inline ptrdiff_t count_chunks(ptrdiff_t n, ptrdiff_t size) noexcept nogil:
    return (n + size - 1) // size if size > 0 else 0


cdef inline ptrdiff_t chunk_length(
    ptrdiff_t chunk, ptrdiff_t size, ptrdiff_t n
) noexcept nogil:
    return min(size, n - chunk * size)


cdef inline int team(int n_threads, ptrdiff_t chunks) noexcept nogil:
    """Threads worth waking."""
    return <int>max(min(<ptrdiff_t>n_threads, chunks), 1)


cdef class ColumnSums:
    """Scratch for the column sums of an (n, m) matrix, made once for many passes.

    Every chunk of rows adds into a float32 row for a few rows at a time and folds it
    into its float64 row; `reduce` adds these up in the order of the chunks.
    """
    cdef readonly ptrdiff_t n, m
    cdef double[:, ::1] totals
    cdef float[:, ::1] blocks

    def __init__(self, ptrdiff_t n, ptrdiff_t m):
        chunks = max(count_chunks(n, chunk_rows(n)), 1)
        padded = (m + 15) // 16 * 16  # every row starts at a cache line
        self.n, self.m = n, m
        self.totals = aligned_empty((chunks, padded), np.float64)
        self.blocks = aligned_empty((chunks, padded), np.float32)

    @property
    def nbytes(self):
        return self.totals.nbytes + self.blocks.nbytes

    cdef void reduce(self, int n_threads) noexcept nogil:
        """Leave the sums over all chunks in ``totals[0]``."""
        cdef ptrdiff_t stripe, chunk, j, j0, j1
        cdef ptrdiff_t chunks = self.totals.shape[0]
        cdef ptrdiff_t stripes = count_chunks(self.m, COLUMN_STRIPE)
        cdef double *into
        cdef double *more
        for stripe in prange(stripes, num_threads=team(n_threads, stripes),
                             schedule="static"):
            j0 = stripe * COLUMN_STRIPE
            j1 = min(j0 + COLUMN_STRIPE, self.m)
            into = &self.totals[0, 0]
            for chunk in range(1, chunks):
                more = &self.totals[chunk, 0]
                for j in range(j0, j1):
                    into[j] += more[j]


def _refuse(name, expected, came):
    raise ValueError(f"{name} must have shape {expected}, got {came}")


cdef int check(str name, ptrdiff_t came, ptrdiff_t expected) except -1:
    if came != expected:
        _refuse(name, (expected,), (came,))
    return 0


cdef int check_matrix(
    str name, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t n, ptrdiff_t m
) except -1:
    if rows != n or cols != m:
        _refuse(name, (n, m), (rows, cols))
    return 0


cdef tuple centered(const double[::1] f, const double[::1] g):
    """`f + shift` and float32 `g - shift` with the finite part of `g` around zero.

    The sum f_i + g_j is what counts; with small g_j the float32 difference f_i - c_ij
    is small as well wherever there is mass, and little is lost to rounding.
    """
    g_array = np.asarray(g)
    finite = g_array[g_array > -GWF_HUGE]
    shift = finite.mean() if finite.size else 0.0
    low = np.maximum(g_array - shift, -GWF_HUGE).astype(np.float32)
    return np.asarray(f) + shift, low


# --- Elementwise ----------------------------------------------------------------------

def exp(const float[::1] x, float[::1] out, int n_threads=1):  # IN, OUT
    """``out = exp(x)``, at most 1.02 ulp off; 0 below -87.3365, infinity above 88.7228.

    `out` may be `x`.
    """
    cdef ptrdiff_t m = x.shape[0], chunk, j
    cdef ptrdiff_t chunks = count_chunks(m, VECTOR_CHUNK)
    check("out", out.shape[0], m)
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            j = chunk * VECTOR_CHUNK
            isa.exp(&x[j], &out[j], chunk_length(chunk, VECTOR_CHUNK, m))


def log(const float[::1] x, float[::1] out, int n_threads=1):  # IN, OUT
    """``out = log(x)``, at most 0.87 ulp off for every positive float32.

    ``log(0)`` is -infinity, of a negative number NaN. `out` may be `x`.
    """
    cdef ptrdiff_t m = x.shape[0], chunk, j
    cdef ptrdiff_t chunks = count_chunks(m, VECTOR_CHUNK)
    check("out", out.shape[0], m)
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            j = chunk * VECTOR_CHUNK
            isa.log(&x[j], &out[j], chunk_length(chunk, VECTOR_CHUNK, m))


# --- The log domain -------------------------------------------------------------------

def logsumexp_rows(
    const float[:, ::1] cost,  # IN (n, m)
    const double[::1] f,       # IN (n,)
    const double[::1] g,       # IN (m,)
    double epsilon,
    double[::1] out,           # OUT (n,)
    int n_threads=1,
):
    """``out_i = log sum_j exp((f_i + g_j - cost_ij) / epsilon)``, never overflowing.

    ``f_i - epsilon * out_i`` is the soft minimum over j of ``cost_ij - g_j``.
    """
    cdef ptrdiff_t n = cost.shape[0], m = cost.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef float inv_epsilon = <float>(1.0 / epsilon)
    check("f", f.shape[0], n)
    check("g", g.shape[0], m)
    check("out", out.shape[0], n)
    f_shifted, g_low = centered(f, g)
    cdef const double[::1] h = f_shifted
    cdef const float[::1] low = g_low
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            i = chunk * size
            isa.logsumexp_rows(&cost[i, 0], &h[i], &low[0], inv_epsilon, &out[i],
                               chunk_length(chunk, size, n), m)


def logsumexp_cols(
    const float[:, ::1] cost,  # IN (n, m)
    const double[::1] f,       # IN (n,)
    const double[::1] g,       # IN (m,)
    double epsilon,
    double[::1] out,           # OUT (m,)
    int n_threads=1,
):
    """``out_j = log sum_i exp((f_i + g_j - cost_ij) / epsilon)``, never overflowing."""
    cdef ptrdiff_t n = cost.shape[0], m = cost.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef float inv_epsilon = <float>(1.0 / epsilon)
    check("f", f.shape[0], n)
    check("g", g.shape[0], m)
    check("out", out.shape[0], m)
    tops = np.full((chunks, m), -GWF_HUGE, dtype=np.float32)
    sums = np.zeros((chunks, m), dtype=np.float32)
    cdef float[:, ::1] top = tops
    cdef float[:, ::1] sum_ = sums
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            i = chunk * size
            isa.logsumexp_cols(&cost[i, 0], &f[i], inv_epsilon, &top[chunk, 0],
                               &sum_[chunk, 0], chunk_length(chunk, size, n), m)
    best = tops.max(axis=0).astype(np.float64)
    inverse = <double>inv_epsilon  # as rounded in all other kernels
    with np.errstate(under="ignore", divide="ignore"):
        total = (sums * np.exp((tops - best) * inverse)).sum(axis=0)
        np.asarray(out)[:] = (np.asarray(g) + best) * inverse + np.log(total)


def gibbs_kernel(
    const float[:, ::1] cost,  # IN (n, m)
    const double[::1] f,       # IN (n,)
    const double[::1] g,       # IN (m,)
    double epsilon,
    float[:, ::1] out,         # OUT (n, m), may be `cost`
    int n_threads=1,
):
    """``out_ij = exp((f_i + g_j - cost_ij) / epsilon)``; returns the largest exponent.

    A largest exponent above 88 means that `out` holds infinities: use the log domain.
    """
    cdef ptrdiff_t n = cost.shape[0], m = cost.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef float inv_epsilon = <float>(1.0 / epsilon)
    check("f", f.shape[0], n)
    check("g", g.shape[0], m)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    peaks = np.full(chunks, -INFINITY, dtype=np.float32)
    f_shifted, g_low = centered(f, g)
    cdef float[::1] peak = peaks
    cdef const double[::1] h = f_shifted
    cdef const float[::1] low = g_low
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            i = chunk * size
            peak[chunk] = isa.gibbs_rows(&cost[i, 0], &h[i], &low[0], inv_epsilon,
                                         &out[i, 0], chunk_length(chunk, size, n), m)
    return float(peaks.max())


# --- The scaling domain ---------------------------------------------------------------

def sinkhorn_pass(
    const float[:, ::1] kernel,  # IN (n, m)
    const double[::1] p,         # IN (n,)
    const double[::1] q,         # IN (m,)
    float[::1] u,                # IN/OUT (n,)
    float[::1] v,                # IN/OUT (m,)
    ColumnSums work not None,
    double omega=1.0,
    int n_threads=1,
):
    """One Sinkhorn iteration, ``u = p / (K v)`` then ``v = q / (K' u)``, in one read
    of the kernel; returns ``|u_old * (K v) - p|_1``, the row error of the plan before.

    With `omega` above one both updates are over-relaxed in the log domain,
    ``u = u_old^(1 - omega) (p / (K v))^omega`` (Thibault, Chizat, Dossal and
    Papadakis, Algorithms 2021).

    A row or column whose sum has underflowed to zero gets the scaling 0, and none gets
    more than float32 can hold: the mass that is missing shows in the next error instead
    of an infinity.
    """
    cdef ptrdiff_t n = kernel.shape[0], m = kernel.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef float relaxation = <float>omega
    check("p", p.shape[0], n)
    check("q", q.shape[0], m)
    check("u", u.shape[0], n)
    check("v", v.shape[0], m)
    check_matrix("work", work.n, work.m, n, m)
    errors = np.zeros(chunks)
    cdef double[::1] error = errors
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            i = chunk * size
            work.totals[chunk, :] = 0.0
            error[chunk] = isa.sinkhorn_rows(
                &kernel[i, 0], &p[i], &u[i], &v[0], relaxation, &work.blocks[chunk, 0],
                &work.totals[chunk, 0], chunk_length(chunk, size, n), m)
        work.reduce(n_threads)
        isa.rescale(&v[0], &q[0], &work.totals[0, 0], relaxation, m)
    return float(errors.sum())


def scale_to_plan(
    float[:, ::1] kernel,    # IN/OUT (n, m)
    const float[::1] u,      # IN (n,)
    const float[::1] v,      # IN (m,)
    double[::1] row_sums,    # OUT (n,)
    double[::1] col_sums,    # OUT (m,)
    ColumnSums work not None,
    int n_threads=1,
):
    """``kernel_ij *= u_i v_j`` in place, with the marginals of the plan it becomes."""
    cdef ptrdiff_t n = kernel.shape[0], m = kernel.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    check("u", u.shape[0], n)
    check("v", v.shape[0], m)
    check("row_sums", row_sums.shape[0], n)
    check("col_sums", col_sums.shape[0], m)
    check_matrix("work", work.n, work.m, n, m)
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            i = chunk * size
            work.totals[chunk, :] = 0.0
            isa.plan_rows(&kernel[i, 0], &u[i], &v[0], &row_sums[i],
                          &work.blocks[chunk, 0], &work.totals[chunk, 0],
                          chunk_length(chunk, size, n), m)
        work.reduce(n_threads)
        col_sums[:] = work.totals[0, :m]


def marginals(
    const float[:, ::1] plan,  # IN (n, m)
    double[::1] row_sums,      # OUT (n,)
    double[::1] col_sums,      # OUT (m,)
    ColumnSums work not None,
    int n_threads=1,
):
    """Row and column sums of `plan`."""
    cdef ptrdiff_t n = plan.shape[0], m = plan.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    check("row_sums", row_sums.shape[0], n)
    check("col_sums", col_sums.shape[0], m)
    check_matrix("work", work.n, work.m, n, m)
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            i = chunk * size
            work.totals[chunk, :] = 0.0
            isa.sum_rows(&plan[i, 0], &row_sums[i], &work.blocks[chunk, 0],
                         &work.totals[chunk, 0], chunk_length(chunk, size, n), m)
        work.reduce(n_threads)
        col_sums[:] = work.totals[0, :m]


# --- Products -------------------------------------------------------------------------
# BLAS runs on one thread inside these loops (the caller limits it): its own threads
# and OpenMP's wait for work by spinning, and alternating between the two pools made a
# solve two to four times slower than one thread.

cdef inline void gemm(
    bint transpose_a, bint transpose_b, ptrdiff_t n, ptrdiff_t m, ptrdiff_t k,
    const float *a, const float *b, float *out,
) noexcept nogil:
    """out (n, m) = a (n, k) @ b (k, m), all row-major; a flag says that the factor is
    stored transposed. BLAS is column-major, hence the swapped operands."""
    cdef int rows = <int>m, cols = <int>n, inner = <int>k
    cdef int ld_first = <int>(k if transpose_b else m)
    cdef int ld_second = <int>(n if transpose_a else k)
    cdef float one = 1.0, zero = 0.0
    cdef char *first = b"T" if transpose_b else b"N"
    cdef char *second = b"T" if transpose_a else b"N"
    sgemm(first, second, &rows, &cols, &inner, &one, <float *>b, &ld_first,
          <float *>a, &ld_second, &zero, out, &rows)


def matmul(
    const float[:, ::1] a,    # IN (n, k)
    const float[:, ::1] b,    # IN (k, m), or (m, k) if `transposed`
    float[:, ::1] out,        # OUT (n, m), neither `a` nor `b`
    bint transposed=False,
    int n_threads=1,
):
    """``out = a @ b``, or ``a @ b.T`` if `transposed`."""
    cdef ptrdiff_t n = a.shape[0], k = a.shape[1], chunk, i
    cdef ptrdiff_t m = b.shape[0] if transposed else b.shape[1]
    cdef ptrdiff_t size = max(chunk_rows(n), GEMM_ROWS)
    cdef ptrdiff_t chunks = count_chunks(n, size)
    check("inner side of b", b.shape[1] if transposed else b.shape[0], k)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            i = chunk * size
            gemm(False, transposed, chunk_length(chunk, size, n), m, k,
                 &a[i, 0], &b[0, 0], &out[i, 0])


def contract(
    const float[:, ::1] x,     # IN (n, d)
    const float[:, ::1] plan,  # IN (n, m)
    const float[:, ::1] y,     # IN (m, e)
    double[:, ::1] out,        # OUT (d, e)
    int n_threads=1,
):
    """``out = x.T @ plan @ y``: chunks in float32, their sum in float64."""
    cdef ptrdiff_t n = plan.shape[0], m = plan.shape[1]
    cdef ptrdiff_t d = x.shape[1], e = y.shape[1], chunk, i, rows
    # Fewer chunks where every one of them needs a large product of its own.
    cdef ptrdiff_t most = max(CONTRACT_FLOATS // max(d * e, 1), 4)
    cdef ptrdiff_t size = max(chunk_rows(n), GEMM_ROWS, (n + most - 1) // most)
    cdef ptrdiff_t chunks = count_chunks(n, size)
    check("rows of x", x.shape[0], n)
    check("rows of y", y.shape[0], m)
    check_matrix("out", out.shape[0], out.shape[1], d, e)
    cdef float[:, ::1] moved = np.empty((n, e), dtype=np.float32)
    parts = np.empty((chunks, d, e), dtype=np.float32)
    cdef float[:, :, ::1] part = parts
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            i = chunk * size
            rows = chunk_length(chunk, size, n)
            gemm(False, False, rows, e, m, &plan[i, 0], &y[0, 0], &moved[i, 0])
            gemm(True, False, d, e, rows, &x[i, 0], &moved[i, 0], &part[chunk, 0, 0])
    parts.sum(axis=0, dtype=np.float64, out=np.asarray(out))


# --- Reading a matrix -----------------------------------------------------------------

def dot(
    const float[:, ::1] plan,  # IN (n, m)
    const float[:, ::1] cost,  # IN (n, m)
    int n_threads=1,
):
    """``sum_ij plan_ij cost_ij``."""
    cdef ptrdiff_t n = plan.shape[0], m = plan.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    check_matrix("cost", cost.shape[0], cost.shape[1], n, m)
    partial = np.zeros(chunks)
    cdef double[::1] part = partial
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            i = chunk * size
            part[chunk] = isa.dot_rows(&plan[i, 0], &cost[i, 0],
                                       chunk_length(chunk, size, n), m)
    return float(partial.sum())


def entropy(const float[:, ::1] plan, int n_threads=1):  # IN (n, m)
    """``-sum_ij plan_ij log plan_ij``, with 0 log 0 = 0."""
    cdef ptrdiff_t n = plan.shape[0], m = plan.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    partial = np.zeros(chunks)
    cdef double[::1] part = partial
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            i = chunk * size
            part[chunk] = isa.entropy_rows(&plan[i, 0], chunk_length(chunk, size, n), m)
    return float(partial.sum())


def topk_rows(
    const float[:, ::1] x,        # IN (n, m)
    ptrdiff_t[:, ::1] indices,    # OUT (n, k)
    float[:, ::1] values,         # OUT (n, k)
    int n_threads=1,
):
    """The k largest entries of every row, largest first; ties go to the lower column.

    NaN never wins over a number: rows are assumed to be free of it.
    """
    cdef ptrdiff_t n = x.shape[0], m = x.shape[1], k = indices.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    check("rows of indices", indices.shape[0], n)
    check_matrix("values", values.shape[0], values.shape[1], n, k)
    if not 1 <= k <= m:
        raise ValueError(f"k must be between 1 and the {m} columns, got {k}")
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            for i in range(chunk * size, min(chunk * size + size, n)):
                isa.topk_row(&x[i, 0], k, &indices[i, 0], &values[i, 0], m)

"""OpenMP loops over products; the rules of _kernels.pyx hold.

The products of tall matrices are our own (csrc/product_kernels.inc): in float32 as fast
as OpenBLAS's with AVX-512, twice as fast as with AVX2, and with room for what follows a
tile while it is in cache. BLAS is left with small ones. It runs on one thread inside
these loops (the caller limits it): its own threads and OpenMP's wait for work by
spinning, and alternating between the two pools made a solve two to four times slower
than one thread.
"""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from scipy.linalg.cython_blas cimport sgemm

from ._rows cimport (
    ColumnSums,
    Panels,
    Rows,
    as_rows,
    blas_team,
    centered,
    check,
    check_matrix,
    chunk_length,
    chunk_rows,
    count_chunks,
    isa,
    real,
    rounded_off,
    row_stride,
    team,
)

import numpy as np

# Rows of a product made at a time: as many as with a panel of the right factor stay in
# the second cache; and at least as many a chunk, or reading the right factor shows,
# the more so where it comes from memory each time.
cdef ptrdiff_t PRODUCT_ROWS = 128
cdef ptrdiff_t LEAST_PRODUCT_ROWS = 32
cdef ptrdiff_t CACHED_BYTES = 1 << 22
# Multiplications that `matmul` does between two looks at whether the process was
# interrupted: a twentieth of a second with sixteen threads, half a second with one.
cdef double UNINTERRUPTED = 1e10
# Floats of partial products that `gram` may hold (64 MB).
cdef ptrdiff_t GRAM_FLOATS = 1 << 24


def matmul(
    a,                       # IN (n, k)
    Panels b not None,       # IN (k, m)
    out,                     # OUT (n, m), not `a`; may be columns of a matrix
    x=None,                  # IN (k,)
    double[::1] dots=None,   # OUT (n,), given with `x`
    int n_threads=1,
):
    """``out = a @ b``, and ``dots = a @ x`` in the same read of `a`."""
    if b.is_float64:
        multiply[double](as_rows(a), b, out, x, dots, n_threads)
    else:
        multiply[float](as_rows(a), b, out, x, dots, n_threads)


cdef multiply(
    Rows source, Panels b, real[:, :] out, const real[::1] x, double[::1] dots,
    int n_threads,
):
    cdef ptrdiff_t n = source.n, k = source.m, m = b.m, chunk, i, end, rows
    cdef ptrdiff_t size = max(chunk_rows(n), LEAST_PRODUCT_ROWS), chunks
    cdef ptrdiff_t strip = source.strip if source.strip else PRODUCT_ROWS
    cdef const real *made
    cdef const real *right = <const real *>&b.packed[0]
    cdef bint with_dots = x is not None
    cdef ptrdiff_t stride = row_stride[real](out)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    if k * m * <ptrdiff_t>sizeof(real) > CACHED_BYTES:
        # No row depends on what is in its chunk, which may so depend on the threads.
        size = max(size, min(PRODUCT_ROWS, (n + n_threads - 1) // n_threads))
    chunks = count_chunks(n, size)
    b.check(source.is_float64)
    check("inner side of b", b.k, k)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    if with_dots != (dots is not None):
        raise ValueError("x and dots must be given together")
    if with_dots:
        check("x", x.shape[0], k)
        check("dots", dots.shape[0], n)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    cdef ptrdiff_t first = 0, last, most = chunks
    if <double>n * k * m > UNINTERRUPTED:
        most = max(<ptrdiff_t>(UNINTERRUPTED / (<double>size * k * m)), n_threads)
    while first < chunks:
        last = min(first + most, chunks)
        with nogil:
            for chunk in prange(first, last, num_threads=team(n_threads, last - first),
                                schedule="dynamic"):
                end = min(chunk * size + size, n)
                i = chunk * size
                while i < end:
                    rows = min(strip, end - i)
                    made = <const real *>source.at(i, rows, &scratch[threadid(), 0])
                    table.product_rows(made, right, k, &out[i, 0], stride, rows, m)
                    if with_dots:
                        table.dot_each_row(made, &x[0], &dots[i], rows, k)
                    i = i + strip
        first = last
        PyErr_CheckSignals()


def gibbs_product(
    const float[:, ::1] a,  # IN (n, k)
    Panels b not None,      # IN (k, m)
    const double[::1] f,    # IN (n,)
    const double[::1] g,    # IN (m,)
    double epsilon,
    float[:, ::1] out,      # OUT (n, m)
    ColumnSums work not None,
    int n_threads=1,
):
    """``out_ij = exp((f_i + g_j - (a @ b)_ij) / epsilon)``; returns the largest
    exponent, as `gibbs_kernel`, and leaves the column sums in `work`.
    """
    cdef ptrdiff_t n = a.shape[0], k = a.shape[1], m = b.m, chunk, i, end
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef float inv_epsilon = <float>(1.0 / epsilon), most
    b.check(False)
    check("inner side of b", b.k, k)
    check("f", f.shape[0], n)
    check("g", g.shape[0], m)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    work.check(n, m, False)
    peaks = np.full(chunks, -INFINITY, dtype=np.float32)
    f_shifted, g_low = centered(f, g, False)
    cdef float[::1] peak = peaks
    cdef const double[::1] h = f_shifted
    cdef const float[::1] low = g_low
    cdef const float[::1] rest = rounded_off(g, g_low, epsilon)
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            work.totals[chunk, :] = 0.0
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                most = isa.gibbs_product_rows(
                    &a[i, 0], <const float *>&b.packed[0], k, &h[i], &low[0], &rest[0],
                    inv_epsilon, &out[i, 0], &work.totals[chunk, 0],
                    min(PRODUCT_ROWS, end - i), m)
                peak[chunk] = max(peak[chunk], most)
                i = i + PRODUCT_ROWS
        work.reduce(n_threads)
    return float(peaks.max())


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


def gram(
    const float[:, ::1] x,  # IN (n, d)
    const float[:, ::1] y,  # IN (n, e)
    double[:, ::1] out,     # OUT (d, e)
    int n_threads=1,
):
    """``out = x.T @ y``: chunks in float32, their sum in float64."""
    cdef ptrdiff_t n = x.shape[0], d = x.shape[1], e = y.shape[1], chunk, i
    # Fewer chunks where every one of them needs a large product of its own.
    cdef ptrdiff_t most = max(GRAM_FLOATS // max(d * e, 1), 4)
    cdef ptrdiff_t size = max(chunk_rows(n), (n + most - 1) // most)
    cdef ptrdiff_t chunks = count_chunks(n, size)
    check("rows of y", y.shape[0], n)
    check_matrix("out", out.shape[0], out.shape[1], d, e)
    parts = np.empty((chunks, d, e), dtype=np.float32)
    cdef float[:, :, ::1] part = parts
    with nogil:
        for chunk in prange(chunks, num_threads=blas_team(n_threads, chunks),
                            schedule="dynamic"):
            i = chunk * size
            gemm(True, False, d, e, chunk_length(chunk, size, n), &x[i, 0], &y[i, 0],
                 &part[chunk, 0, 0])
    parts.sum(axis=0, dtype=np.float64, out=np.asarray(out))

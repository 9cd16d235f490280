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
from libc.stdint cimport uint64_t
from libc.string cimport memcpy
from scipy.linalg.cython_blas cimport sgemm

from ._rows cimport (
    ColumnSums,
    Panels,
    Rows,
    as_rows,
    begin_flush,
    blas_team,
    check,
    check_matrix,
    chunk_length,
    chunk_rows,
    count_chunks,
    end_flush,
    gwf_depth,
    in_parts,
    isa,
    real,
    row_stride,
    team,
)

import numpy as np

from ._rows import aligned_empty

# Rows of a product made at a time: as many as with a panel of the right factor stay in
# the second cache; fewer, and reading the right factor anew for each would show.
cdef ptrdiff_t PRODUCT_ROWS = 128
# Columns made at a time, for all rows: what is read of the right factor for so many,
# and the sums of PRODUCT_ROWS, stay in the second cache. All of the right factor for
# them, so many bytes at most, stays in the third.
cdef ptrdiff_t PRODUCT_COLUMNS = 256, CACHED_BYTES = 1 << 23
# Parts of a product that each thread makes, at least, so that all end at about the same
# time; and panels of each of these, where rows are too few to share out.
cdef ptrdiff_t PARTS_A_THREAD = 4, LEAST_PANELS = 2
# Rows that are made when they are read, at least, or reading the right factor shows.
cdef ptrdiff_t LEAST_MADE = 32
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
    plus=None,               # IN (n, m)
    int n_threads=1,
):
    """``out = a @ b``, ``+ plus`` where that is given, and ``dots = a @ x`` in the same
    read of `a`.
    """
    if b.is_float64:
        multiply[double](as_rows(a), b, out, x, dots, plus, n_threads)
    else:
        multiply[float](as_rows(a), b, out, x, dots, plus, n_threads)


cdef multiply(
    Rows source, Panels b, real[:, :] out, const real[::1] x, double[::1] dots,
    const real[:, :] plus, int n_threads,
):
    cdef ptrdiff_t n = source.n, k = source.m, m = b.m, i, j, r, end, rows, cols
    cdef ptrdiff_t strip = source.strip if source.strip else PRODUCT_ROWS
    cdef const real *made
    cdef const real *right = <const real *>&b.packed[0]
    cdef bint with_dots = x is not None, adds = plus is not None
    cdef ptrdiff_t stride = row_stride[real](out)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    b.check(source.is_float64)
    check("inner side of b", b.k, k)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    if with_dots != (dots is not None):
        raise ValueError("x and dots must be given together")
    if with_dots:
        check("x", x.shape[0], k)
        check("dots", dots.shape[0], n)
    if adds:
        row_stride[real](plus)
        check_matrix("plus", plus.shape[0], plus.shape[1], n, m)
    # No number of a product depends on the part that it is made in. Rows that are made
    # when they are read are made once, and shared out alone.
    cdef ptrdiff_t wanted = PARTS_A_THREAD * n_threads, size = PRODUCT_ROWS
    if source.strip:
        size = min(size, max(count_chunks(n, wanted), LEAST_MADE))
    size = min((size + 7) // 8 * 8, (n + 7) // 8 * 8)
    cdef ptrdiff_t chunks = count_chunks(n, size)
    cdef ptrdiff_t width = m if source.strip else block_columns(
        k, m, table.panel, sizeof(real), wanted, chunks)
    cdef ptrdiff_t part, parts = chunks * count_chunks(m, width)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    cdef ptrdiff_t first = 0, last, most = parts
    cdef uint64_t before
    if <double>n * k * m > UNINTERRUPTED:
        most = max(<ptrdiff_t>(UNINTERRUPTED / (<double>size * k * width)), n_threads)
    while first < parts:
        last = min(first + most, parts)
        with nogil:
            for part in prange(first, last, num_threads=team(n_threads, last - first),
                               schedule="dynamic"):
                before = begin_flush()
                i = part % chunks * size
                end = min(i + size, n)
                j = part // chunks * width
                cols = min(width, m - j)
                while i < end:
                    rows = min(strip, end - i)
                    made = <const real *>source.at(i, rows, &scratch[threadid(), 0])
                    if adds:
                        for r in range(i, i + rows):
                            memcpy(&out[r, j], &plus[r, j], cols * sizeof(real))
                    table.product_rows(made, k, right + j * k, k, &out[i, j], stride,
                                       rows, cols, adds)
                    if with_dots and j == 0:
                        table.dot_each_row(made, &x[0], &dots[i], rows, k)
                    i = i + strip
                end_flush(before)
        first = last
        PyErr_CheckSignals()


cdef ptrdiff_t block_columns(
    ptrdiff_t k, ptrdiff_t m, ptrdiff_t panel, ptrdiff_t itemsize, ptrdiff_t parts,
    ptrdiff_t chunks,
) noexcept:
    """Columns that are made at a time, whole panels: no more than stay in the caches,
    and few enough to make so many parts with the chunks of rows.
    """
    cdef ptrdiff_t panels = count_chunks(m, panel)
    cdef ptrdiff_t most = min(PRODUCT_COLUMNS * sizeof(float), CACHED_BYTES // k)
    cdef ptrdiff_t cached = max(most // (itemsize * panel), 1)
    cdef ptrdiff_t shared = count_chunks(panels, count_chunks(parts, chunks))
    most = min(cached, max(shared, LEAST_PANELS))
    return count_chunks(panels, count_chunks(panels, most)) * panel


def matmul_few(
    a,                     # IN (n, k)
    b,                     # IN (k, m), or (m, k) if `transposed`
    out,                   # OUT (n, m), neither `a` nor `b`
    bint transposed=False,
    int n_threads=1,
):
    """``out = a @ b`` of a few rows, to the last bit that of `matmul`: the right factor is packed
    where it is read, and not kept. Rows that are made when asked for have to be `transposed`.
    """
    cdef Rows right = as_rows(b)
    if right.is_float64:
        multiply_few[double](a, right, out, transposed, n_threads)
    else:
        multiply_few[float](a, right, out, transposed, n_threads)


cdef multiply_few(
    const real[:, ::1] a, Rows b, real[:, :] out, bint transposed, int n_threads
):
    cdef ptrdiff_t n = a.shape[0], k = b.m if transposed else b.n
    cdef ptrdiff_t m = b.n if transposed else b.m
    cdef ptrdiff_t row = 1 if transposed else m, col = k if transposed else 1
    cdef ptrdiff_t i, j, at, depth, cols, part, stride = row_stride[real](out)
    cdef const real *made
    cdef real *panels
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check("columns of a", a.shape[1], k)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    if b.strip and not transposed:
        raise ValueError("b must be transposed where its rows are made when asked for")
    cdef ptrdiff_t width = block_columns(
        k, m, table.panel, sizeof(real), PARTS_A_THREAD * n_threads, 1)
    if b.strip:
        width = min(width, b.strip // table.panel * table.panel)
    # Packed are the rows that are summed at a time, for the same sums as of `matmul`.
    cdef ptrdiff_t parts = count_chunks(m, width), most = gwf_depth(k)
    cdef float[:, ::1] scratch = b.scratch(n_threads)
    cdef unsigned char[:, ::1] packed = aligned_empty(
        (max(n_threads, 1), most * width * sizeof(real)), np.uint8)
    cdef uint64_t before
    with nogil:
        for part in prange(parts, num_threads=team(n_threads, parts),
                           schedule="dynamic"):
            before = begin_flush()
            j = part * width
            cols = min(width, m - j)
            panels = <real *>&packed[threadid(), 0]
            if transposed:
                made = <const real *>b.at(j, cols, &scratch[threadid(), 0])
            else:
                made = <const real *>b.at(0, k, NULL) + j
            i = 0
            while i < k:
                depth = min(most, k - i)
                at = 0
                while at < cols:
                    table.pack_panel(made + i * row + at * col, row, col, NULL, depth,
                                     min(table.panel, cols - at), panels + at * depth)
                    at = at + table.panel
                table.product_rows(&a[0, i], k, panels, depth, &out[0, j], stride, n,
                                   cols, i > 0)
                i = i + depth
            end_flush(before)
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
    cdef float[::1] peak = peaks
    cdef const float[::1] h, h_rest, low, low_rest
    h, h_rest, low, low_rest = in_parts(f, g, epsilon)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            work.totals[chunk, :] = 0.0
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                most = isa.gibbs_product_rows(
                    &a[i, 0], <const float *>&b.packed[0], k, &h[i], &h_rest[i],
                    &low[0], &low_rest[0], inv_epsilon, &out[i, 0],
                    &work.totals[chunk, 0], min(PRODUCT_ROWS, end - i), m)
                peak[chunk] = max(peak[chunk], most)
                i = i + PRODUCT_ROWS
            end_flush(before)
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
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=blas_team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            i = chunk * size
            gemm(True, False, d, e, chunk_length(chunk, size, n), &x[i, 0], &y[i, 0],
                 &part[chunk, 0, 0])
            end_flush(before)
    parts.sum(axis=0, dtype=np.float64, out=np.asarray(out))

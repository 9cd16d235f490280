"""OpenMP loops over products; the rules of _kernels.pyx hold.

The products of tall matrices are our own (csrc/product_kernels.inc): in float32 as fast as
OpenBLAS's with AVX-512, twice as fast as with AVX2, and a tile can be used further while it is in
cache. BLAS makes the small products. It runs on one thread inside these loops (the caller limits
it): its own threads and OpenMP's wait for work by spinning, and alternating between the two pools
made a solve two to four times slower than one thread.
"""
cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t
from libc.string cimport memcpy
from scipy.linalg.cython_blas cimport sgemm

from ._exponentials cimport middle
from ._rows cimport (
    GWF_HUGE,
    N_CHUNKS,
    ColumnSums,
    Loop,
    Rows,
    begin_flush,
    blas_team,
    check,
    check_matrix,
    chunk_rows,
    count_chunks,
    end_flush,
    floats,
    gwf_depth,
    gwf_kernels,
    holds_float64,
    isa,
    strided,
    strip_for,
    team,
    type_of,
)

import numpy as np

from ._rows import aligned_empty

cdef enum:
    # Rows of a product made at a time: with a panel of the right factor they stay in the second
    # cache. With fewer rows, reading the right factor again for each block would show.
    PRODUCT_ROWS = 128
    # Columns made at a time, for all rows: the part of the right factor that they read, and the
    # sums of PRODUCT_ROWS, stay in the second cache. The right factor's panels for these columns,
    # at most CACHED_BYTES, stay in the third.
    PRODUCT_COLUMNS = 256
    CACHED_BYTES = 1 << 23
    # Parts of a product that each thread makes, at least, so that all end at about the same time;
    # and panels of each of these, where rows are too few to share out.
    PARTS_A_THREAD = 4
    LEAST_PANELS = 2
    # Rows that are made when they are read, at least, or reading the right factor shows.
    LEAST_MADE = 32
    # Floats of partial products that `gram` may hold (64 MB).
    GRAM_FLOATS = 1 << 24
# Multiplications that `matmul` does between two looks at whether the process was interrupted: a
# twentieth of a second with sixteen threads, half a second with one.
cdef double UNINTERRUPTED = 1e10


# --- Factors -------------------------------------------------------------------------

cdef class Product(Rows):
    """``left @ right``."""

    def __init__(self, const float[:, ::1] left, Panels right not None):
        check("inner side of right", right.k, left.shape[1])
        right.check_type(False)
        self.left, self.right = left, right
        self.n, self.m, self.k = left.shape[0], right.m, right.k
        self.strip = strip_for(self.m)

    cdef const void *at(self, ptrdiff_t i, ptrdiff_t rows, float *scratch) noexcept nogil:
        isa.f32.product_rows(&self.left[i, 0], self.k, &self.right.packed[0], self.k, scratch,
                             self.m, rows, self.m, False)
        return scratch

    cdef int ready(self) except -1:
        return self.right.check_type(False)


cdef class Gibbs(Product):
    """``exp((f_i + g_j - (left @ right)_ij) / epsilon)``, scaled by u (n,) and v (m,) if their
    `logarithms` are given in float64; scaling leaves the rounding of the kernel as it is.
    """

    def __init__(
        self, const float[:, ::1] left, Panels right not None, const double[::1] f,
        const double[::1] g, double epsilon, logarithms=None,
    ):
        Product.__init__(self, left, right)
        check("f", f.shape[0], self.n)
        check("g", g.shape[0], self.m)
        self.f, self.f_rest, self.g, self.g_rest = in_parts(f, g, epsilon, logarithms)
        self.inv_epsilon = <float>(1.0 / epsilon)

    cdef const void *at(self, ptrdiff_t i, ptrdiff_t rows, float *scratch) noexcept nogil:
        isa.gibbs_product_rows(
            &self.left[i, 0], <const float *>&self.right.packed[0], self.k, &self.f[i],
            &self.f_rest[i], &self.g[0], &self.g_rest[0], self.inv_epsilon, scratch, NULL, rows,
            self.m)
        return scratch


@cython.final
cdef class Panels:
    """The right factor of products, (k, m), packed.

    Parameters
    ----------
    matrix : (k, m) float32 or float64 ndarray, or (m, k) if `transposed`
        Columns of a matrix will do; where it is `transposed`, and without `scale`, also `Rows`.
    transposed : bool
    scale : (k,) ndarray or None
        Factors of its k rows, of the same type.
    n_threads : int
    """

    def __init__(self, matrix, bint transposed=False, scale=None, int n_threads=1):
        cdef ptrdiff_t k, m, j, panel, stride = 0, width, lanes, size
        cdef Loop loop = None
        cdef const char *data = NULL
        cdef const void *factors = NULL
        cdef unsigned char *packed
        cdef bint is_made = isinstance(matrix, Rows)
        cdef uint64_t before
        self.is_float64, self.packed_for = holds_float64(matrix) and not is_made, isa
        cdef const gwf_kernels *table = isa.f64 if self.is_float64 else isa.f32
        size, width, lanes = (8 if self.is_float64 else 4), table.panel, table.lanes
        if is_made:
            if not transposed or scale is not None:
                raise ValueError("rows must be transposed, and without a scale")
            loop = Loop("matrix", matrix, n_threads, True)
            m, k, stride = loop.n, loop.m, loop.m
        else:
            data = <const char *>strided("matrix", matrix, self.is_float64, &stride)
            k, m = matrix.shape[::-1] if transposed else matrix.shape
        if k == 0 or m == 0:
            raise ValueError(f"matrix must not be empty, got shape {(k, m)}")
        if scale is not None:
            factors = floats("scale", scale, 1, self.is_float64)
            check("scale", cnp.PyArray_DIM(scale, 0), k)
        cdef ptrdiff_t row = 1 if transposed else stride, col = stride if transposed else 1
        cdef ptrdiff_t panels = count_chunks(m, width)
        self.k, self.m = k, m
        self.packed = aligned_empty(k * ((m + lanes - 1) // lanes * lanes) * size, np.uint8)
        packed = &self.packed[0]
        with nogil:
            for panel in prange(panels, num_threads=team(n_threads, panels), schedule="static"):
                before = begin_flush()
                j = panel * width
                table.pack_panel(
                    loop.at(j, min(width, m - j), threadid()) if is_made else data + j * col * size,
                    row, col, factors, k, min(width, m - j), packed + j * k * size)
                end_flush(before)

    cdef int check_type(self, bint is_float64) except -1:
        if self.packed_for != isa:
            raise ValueError("panels must be packed for the instruction set in use")
        if self.is_float64 != is_float64:
            made = type_of(self.is_float64)
            raise ValueError(f"panels must be of {type_of(is_float64)}, got {made}")
        return 0

    @property
    def nbytes(self):
        return self.packed.nbytes


cdef tuple in_parts(
    const double[::1] f, const double[::1] g, double epsilon, logarithms=None
):
    """Return the parts of exponents in float32: `f` as `centered` makes it, a correction in units
    of `epsilon`, and the same for `g`.

    A correction is the rounding error of a potential, small against the potential but not against
    epsilon, so that the kernel keeps the marginals that its potentials were made for, plus the
    logarithm of a scaling if there is one. Scalings moved into the potentials would change the
    rounding of every sum of a potential and a cost.
    """
    shift = middle(g)
    logs_f, logs_g = (None, None) if logarithms is None else logarithms
    return (*rounded(np.add(f, shift), epsilon, logs_f),
            *rounded(np.subtract(g, shift), epsilon, logs_g))


cdef tuple rounded(const double[::1] x, double epsilon, const double[::1] logarithms):
    """Return `x` in float32, and its rounding error in units of `epsilon` plus the logarithms."""
    made, rest = np.empty((2, x.shape[0]), np.float32)
    cdef float[::1] low = made, out = rest
    cdef double left
    cdef ptrdiff_t j
    if logarithms is not None:
        check("logarithms", logarithms.shape[0], x.shape[0])
    cdef uint64_t before = begin_flush()
    for j in range(x.shape[0]):
        low[j] = <float>(-GWF_HUGE if x[j] < -GWF_HUGE else x[j])
        left = (x[j] - low[j]) / epsilon if x[j] > -GWF_HUGE else 0.0
        out[j] = <float>(left if logarithms is None else left + logarithms[j])
    end_flush(before)
    return made, rest


# --- Products -------------------------------------------------------------------------

def matmul(a, Panels b not None, out, x=None, double[::1] dots=None, plus=None, int n_threads=1):
    """``out = a @ b``, ``+ plus`` where that is given, and ``dots = a @ x`` in the same read of
    `a`. The first is not `a`; it and the second may be columns of a matrix.
    """
    cdef Loop loop = Loop("a", a, n_threads, True)
    cdef ptrdiff_t n = loop.n, k = loop.m, m = b.m, i, j, r, end, rows, cols
    cdef ptrdiff_t size = 8 if loop.is_float64 else 4, stride = 0, plus_stride = 0
    cdef const void *made
    cdef const void *factor = NULL
    cdef const unsigned char *right = &b.packed[0]
    cdef const char *added_ = NULL
    cdef char *made_out = <char *>strided("out", out, b.is_float64, &stride, True)
    cdef uint64_t before
    b.check_type(loop.is_float64)
    check("inner side of b", b.k, k)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    if (x is None) != (dots is None):
        raise ValueError("x and dots must be given together")
    if x is not None:
        factor = loop.vector("x", x, k)
        check("dots", dots.shape[0], n)
    if plus is not None:
        added_ = <const char *>strided("plus", plus, b.is_float64, &plus_stride)
        check_matrix("plus", plus.shape[0], plus.shape[1], n, m)
    # No number of a product depends on the part that it is made in. Rows that are made when they
    # are read are made once, and shared out alone.
    cdef ptrdiff_t wanted = PARTS_A_THREAD * n_threads, height = PRODUCT_ROWS, strip = PRODUCT_ROWS
    cdef ptrdiff_t width = m
    if loop.source is not None:
        strip = loop.source.strip
        height = min(height, max(count_chunks(n, wanted), LEAST_MADE))
    height = min((height + 7) // 8 * 8, (n + 7) // 8 * 8)
    cdef ptrdiff_t chunks = count_chunks(n, height)
    if loop.source is None:
        width = block_columns(k, m, loop.table.panel, size, wanted, chunks)
    cdef ptrdiff_t part, parts = chunks * count_chunks(m, width), first = 0, last, most = parts
    if <double>n * k * m > UNINTERRUPTED:
        most = max(<ptrdiff_t>(UNINTERRUPTED / (<double>height * k * width)), n_threads)
    while first < parts:
        last = min(first + most, parts)
        with nogil:
            for part in prange(first, last, num_threads=team(n_threads, last - first),
                               schedule="dynamic"):
                before = begin_flush()
                i, j = part % chunks * height, part // chunks * width
                end, cols = min(i + height, n), min(width, m - j)
                while i < end:
                    rows = min(strip, end - i)
                    made = loop.at(i, rows, threadid())
                    if added_ != NULL:
                        for r in range(i, i + rows):
                            memcpy(made_out + (r * stride + j) * size,
                                   added_ + (r * plus_stride + j) * size, cols * size)
                    loop.table.product_rows(
                        made, k, right + j * k * size, k, made_out + (i * stride + j) * size,
                        stride, rows, cols, added_ != NULL)
                    if factor != NULL and j == 0:
                        loop.table.dot_each_row(made, factor, &dots[i], rows, k)
                    i = i + rows
                end_flush(before)
        first = last
        PyErr_CheckSignals()


cdef ptrdiff_t block_columns(
    ptrdiff_t k, ptrdiff_t m, ptrdiff_t panel, ptrdiff_t itemsize, ptrdiff_t parts,
    ptrdiff_t chunks,
) noexcept:
    """Return the number of columns made at a time, in whole panels: they stay in the caches, and
    with `chunks` of rows they make about `parts` parts if there are enough panels.
    """
    cdef ptrdiff_t panels = count_chunks(m, panel)
    cdef ptrdiff_t most = min(PRODUCT_COLUMNS * <ptrdiff_t>sizeof(float), CACHED_BYTES // k)
    cdef ptrdiff_t cached = max(most // (itemsize * panel), 1)
    cdef ptrdiff_t shared = count_chunks(panels, count_chunks(parts, chunks))
    most = min(cached, max(shared, LEAST_PANELS))
    return count_chunks(panels, count_chunks(panels, most)) * panel


def matmul_few(a, b, out, bint transposed=False, int n_threads=1):
    """Write ``a @ b`` of a few rows, or ``a @ b.T`` if `transposed`, to `out`, equal to `matmul` to
    the last bit: the right factor is packed where it is read, and not kept. `Rows` have to be
    `transposed`.
    """
    cdef Loop loop = Loop("b", b, n_threads, True)
    cdef ptrdiff_t n = len(a), size = 8 if loop.is_float64 else 4, stride = 0
    cdef ptrdiff_t k = loop.m if transposed else loop.n, m = loop.n if transposed else loop.m
    cdef ptrdiff_t row = 1 if transposed else m, col = k if transposed else 1
    cdef const char *left = <const char *>floats("a", a, 2, loop.is_float64)
    cdef char *product = <char *>strided("out", out, loop.is_float64, &stride, True)
    cdef ptrdiff_t i, j, at, depth, cols, part, panel = loop.table.panel
    cdef const char *made
    cdef char *panels
    cdef uint64_t before
    check("columns of a", a.shape[1], k)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    if loop.source is not None and not transposed:
        raise ValueError("b must be transposed where its rows are made when asked for")
    cdef ptrdiff_t width = block_columns(k, m, panel, size, PARTS_A_THREAD * n_threads, 1)
    if loop.source is not None:
        width = min(width, loop.source.strip // panel * panel)
    # Packed are the rows that are summed at a time, for the same sums as of `matmul`.
    cdef ptrdiff_t parts = count_chunks(m, width), most = gwf_depth(k)
    cdef unsigned char[:, ::1] packed = aligned_empty(
        (max(n_threads, 1), most * width * size), np.uint8)
    with nogil:
        for part in prange(parts, num_threads=team(n_threads, parts), schedule="dynamic"):
            before = begin_flush()
            j = part * width
            cols, panels = min(width, m - j), <char *>&packed[threadid(), 0]
            if transposed:
                made = <const char *>loop.at(j, cols, threadid())
            else:
                made = loop.data + j * size
            i = 0
            while i < k:
                depth, at = min(most, k - i), 0
                while at < cols:
                    loop.table.pack_panel(
                        made + (i * row + at * col) * size, row, col, NULL, depth,
                        min(panel, cols - at), panels + at * depth * size)
                    at = at + panel
                loop.table.product_rows(left + i * size, k, panels, depth, product + j * size,
                                        stride, n, cols, i > 0)
                i = i + depth
            end_flush(before)
    PyErr_CheckSignals()


def gibbs_product(
    const float[:, ::1] a, Panels b not None, const double[::1] f, const double[::1] g,
    double epsilon, float[:, ::1] out, ColumnSums work not None, int n_threads=1,
):
    """``out_ij = exp((f_i + g_j - (a @ b)_ij) / epsilon)``; returns the largest exponent, as
    `gibbs_kernel`, and leaves the column sums in `work`.
    """
    cdef ptrdiff_t n = a.shape[0], k = a.shape[1], m = b.m, chunk, i, end
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef float inv_epsilon = <float>(1.0 / epsilon), most = -INFINITY
    cdef float peak[N_CHUNKS]
    cdef const float[::1] high, high_rest, low, low_rest
    cdef uint64_t before
    b.check_type(False)
    check("inner side of b", b.k, k)
    check("f", f.shape[0], n)
    check("g", g.shape[0], m)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    work.check(n, m, False)
    high, high_rest, low, low_rest = in_parts(f, g, epsilon)
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks), schedule="dynamic"):
            before = begin_flush()
            work.block(chunk)
            peak[chunk] = -INFINITY
            i, end = chunk * size, min(chunk * size + size, n)
            while i < end:
                peak[chunk] = max(peak[chunk], isa.gibbs_product_rows(
                    &a[i, 0], <const float *>&b.packed[0], k, &high[i], &high_rest[i], &low[0],
                    &low_rest[0], inv_epsilon, &out[i, 0], work.total(chunk),
                    min(PRODUCT_ROWS, end - i), m))
                i = i + PRODUCT_ROWS
            end_flush(before)
        work.reduce(n_threads)
    for chunk in range(chunks):
        most = max(most, peak[chunk])
    return most


def gram(const float[:, ::1] x, const float[:, ::1] y, double[:, ::1] out, int n_threads=1):
    """``out = x.T @ y``: chunks in float32, their sum in float64."""
    cdef ptrdiff_t n = x.shape[0], chunk
    cdef int d = <int>x.shape[1], e = <int>y.shape[1], rows
    # Fewer chunks where every one of them needs a large product of its own.
    cdef ptrdiff_t most = max(GRAM_FLOATS // max(<ptrdiff_t>d * e, 1), 4)
    cdef ptrdiff_t size = max(chunk_rows(n), (n + most - 1) // most)
    cdef ptrdiff_t chunks = count_chunks(n, size)
    cdef float one = 1.0, zero = 0.0
    cdef char *plain = b"N"
    cdef char *turned = b"T"
    cdef uint64_t before
    check("rows of y", y.shape[0], n)
    check_matrix("out", out.shape[0], out.shape[1], d, e)
    parts = np.empty((chunks, d, e), dtype=np.float32)
    cdef float[:, :, ::1] part = parts
    with nogil:
        for chunk in prange(chunks, num_threads=blas_team(n_threads, chunks), schedule="dynamic"):
            before = begin_flush()
            # BLAS is column-major: a row here is a column there.
            rows = <int>min(size, n - chunk * size)
            sgemm(plain, turned, &e, &d, &rows, &one, <float *>&y[chunk * size, 0], &e,
                  <float *>&x[chunk * size, 0], &d, &zero, &part[chunk, 0, 0], &e)
            end_flush(before)
    parts.sum(axis=0, dtype=np.float64, out=np.asarray(out))

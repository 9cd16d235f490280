"""Extremes, sums, symmetry and moments of costs, each in one read before a solve. The rules of
_kernels.pyx hold.
"""
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t

from ._rows cimport (
    N_CHUNKS,
    Shifted,
    added,
    begin_flush,
    check,
    check_matrix,
    chunk_rows,
    count_chunks,
    end_flush,
    floats,
    gwf_kernels,
    holds_float64,
    isa,
    strided,
    team,
)

from ._rows import aligned_empty

cdef enum:
    # Rows and columns of two parts of a matrix that are compared at a time: both stay in the second
    # cache, and each row is a few cache lines.
    SURVEYED = 64
    # Numbers of a vector that are added up one after the other: a sum of 10,000 numbers has the
    # rounding error of 200 additions.
    SUMMED = 100


def moments(
    matrix, double shift, const double[::1] p, double[::1] first, double[::1] second, out=None,
    double factor=1.0, int n_threads=1,
):
    """``first_i = sum_j p_j (matrix_ij - shift)`` and ``second_i = sum_j p_j (matrix_ij -
    shift)^2`` in float64, and ``out = (matrix - shift) * factor``, of either type; the matrix may
    be of float16.
    """
    cdef Shifted rows = Shifted(matrix)
    cdef ptrdiff_t n = rows.n, m = rows.m, chunk, i, at
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef bint wide = holds_float64(out)
    cdef double *doubles = NULL
    cdef float *singles = NULL
    cdef float[:, ::1] halves = None
    cdef const void *row
    cdef const gwf_kernels *table = isa.f64 if rows.itemsize == 8 else isa.f32
    cdef uint64_t before
    if rows.itemsize == 2:
        halves = aligned_empty((max(n_threads, 1), m))
    check("p", p.shape[0], m)
    check("first", first.shape[0], n)
    check("second", second.shape[0], n)
    if out is not None:
        if wide:
            doubles = <double *>floats("out", out, 2, True, True)
        else:
            singles = <float *>floats("out", out, 2, False, True)
        check_matrix("out", out.shape[0], out.shape[1], n, m)
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks), schedule="static"):
            before = begin_flush()
            for i in range(chunk * size, min(chunk * size + size, n)):
                at, row = i * m, rows.content + i * m * rows.itemsize
                if rows.itemsize == 2:
                    isa.shift_half_row(row, 0.0, 1.0, &halves[threadid(), 0], m)
                    row = &halves[threadid(), 0]
                table.moments_row(
                    row, shift, factor, &p[0], &first[i], &second[i],
                    NULL if singles == NULL else singles + at,
                    NULL if doubles == NULL else doubles + at, m)
            end_flush(before)


def survey(a, b=None, int n_threads=1):
    """The least and the largest entry, their sum, and the largest ``|a_ij - b_ji|``, in one read;
    of both matrices, or of one that is square and compared with itself. Each may be columns of
    another matrix. If an entry is not finite the sum is not, either; the extremes pass NaN over.
    """
    cdef bint square = b is None, is_float64 = holds_float64(a)
    cdef ptrdiff_t row = 0, column = 0, size = 8 if is_float64 else 4
    cdef const char *x = <const char *>strided("a", a, is_float64, &row)
    b = a if square else b
    cdef const char *y = <const char *>strided("b", b, is_float64, &column)
    cdef ptrdiff_t n = a.shape[0], m = a.shape[1], chunk, part, i, j, end, rows, last
    cdef ptrdiff_t height = chunk_rows(n), chunks = count_chunks(n, height)
    cdef const gwf_kernels *table = isa.f64 if is_float64 else isa.f32
    cdef double sums[N_CHUNKS]
    cdef double most[3 * N_CHUNKS]
    cdef double *found
    cdef uint64_t before
    check_matrix("b", b.shape[0], b.shape[1], m, n)
    most[0] = most[1] = -INFINITY
    most[2] = 0.0
    with nogil:
        for part in prange(chunks, num_threads=team(n_threads, chunks), schedule="dynamic"):
            before = begin_flush()
            # A square begins with its last rows, the longest up to the diagonal.
            chunk = chunks - 1 - part
            sums[chunk], found = 0.0, most + 3 * chunk
            found[0] = found[1] = -INFINITY
            found[2] = 0.0
            i, end = chunk * height, min(chunk * height + height, n)
            while i < end:
                rows, last = min(SURVEYED, end - i), (i if square else m)
                j = 0
                while j < last:
                    sums[chunk] = sums[chunk] + table.survey_tile(
                        x + (i * row + j) * size, row, y + (j * column + i) * size, column, rows,
                        min(SURVEYED, last - j), True, found)
                    j = j + SURVEYED
                if square:
                    sums[chunk] = sums[chunk] + table.survey_tile(
                        x + (i * row + i) * size, row, x + (i * row + i) * size, row, rows, rows,
                        False, found)
                i = i + rows
            end_flush(before)
    for chunk in range(1, chunks):
        for i in range(3):
            most[i] = max(most[i], most[3 * chunk + i])
    return -most[0], most[1], added(sums, chunks), most[2]


def extent(const double[::1] x):
    """The least and the largest number, and the sum, which is not finite if one of them is not; the
    extremes pass NaN over. Subnormal numbers count: totals of masses may be.
    """
    cdef ptrdiff_t i = 0, end, n = x.shape[0]
    cdef double low = INFINITY, high = -INFINITY, total = 0.0, part
    while i < n:
        end, part = min(i + SUMMED, n), 0.0
        for i in range(i, end):
            low, high, part = min(low, x[i]), max(high, x[i]), part + x[i]
        total += part
        i = end
    return low, high, total

"""What is read of costs before a solve: extremes, sums, symmetry and moments, each in
one read. The rules of _kernels.pyx hold.
"""
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint16_t, uint64_t

from ._rows cimport (
    N_CHUNKS,
    Shifted,
    begin_flush,
    check,
    check_matrix,
    chunk_rows,
    count_chunks,
    end_flush,
    holds_float64,
    isa,
    real,
    row_stride,
    team,
)
from ._rows import aligned_empty

# Rows and columns of two parts of a matrix that are compared at a time: both stay in
# the second cache, and each row is a few cache lines.
cdef ptrdiff_t SURVEYED = 64
# Numbers of a vector that are added up one after the other: the rounding of the sum of
# 10,000 is that of 200.
cdef ptrdiff_t SUMMED = 100


def moments(
    matrix,                  # IN (n, m), of float16 too
    double shift,
    const double[::1] p,     # IN (m,)
    double[::1] first,       # OUT (n,)
    double[::1] second,      # OUT (n,)
    out=None,                # OUT (n, m)
    double factor=1.0,
    int n_threads=1,
):
    """``first_i = sum_j p_j (matrix_ij - shift)`` and ``second_i = sum_j p_j (matrix_ij
    - shift)^2`` in float64, and ``out = (matrix - shift) * factor``, of either type.
    """
    cdef Shifted rows = Shifted(matrix)
    cdef ptrdiff_t n = rows.n, m = rows.m, chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef float[:, ::1] narrow = None
    cdef double[:, ::1] wide = None
    cdef float *narrow_row = NULL
    cdef double *wide_row = NULL
    cdef float *halves = NULL
    check("p", p.shape[0], m)
    check("first", first.shape[0], n)
    check("second", second.shape[0], n)
    if out is not None and holds_float64(out):
        wide = out
        check_matrix("out", wide.shape[0], wide.shape[1], n, m)
    elif out is not None:
        narrow = out
        check_matrix("out", narrow.shape[0], narrow.shape[1], n, m)
    cdef float[:, ::1] widened = None  # halves, as floats
    if rows.itemsize == 2:
        widened = aligned_empty((max(n_threads, 1), m))
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            for i in range(chunk * size, min(chunk * size + size, n)):
                narrow_row = wide_row = halves = NULL
                if widened is not None:
                    halves = &widened[threadid(), 0]
                if narrow is not None:
                    narrow_row = &narrow[i, 0]
                elif wide is not None:
                    wide_row = &wide[i, 0]
                if rows.itemsize == 8:
                    isa.f64.moments_row(
                        <const double *>&rows.content[i, 0], shift, factor,
                        &p[0], &first[i], &second[i], narrow_row, wide_row, m)
                else:
                    isa.f32.moments_row(
                        floats_of(rows, i, halves), shift, factor,
                        &p[0], &first[i], &second[i], narrow_row, wide_row, m)
            end_flush(before)


cdef inline const float *floats_of(
    Shifted rows, ptrdiff_t i, float *scratch
) noexcept nogil:
    """A row of halves or floats as floats, as it came."""
    if rows.itemsize == 4:
        return <const float *>&rows.content[i, 0]
    isa.shift_f16(<const uint16_t *>&rows.content[i, 0], 0.0, 1.0, scratch, rows.m)
    return scratch


def survey(a, b=None, int n_threads=1):  # IN (n, m), IN (m, n)
    """The least and the largest entry, their sum, and the largest ``|a_ij - b_ji|``, in one read;
    of both matrices, or of one that is square and compared with itself. Each may be columns of
    another matrix. If an entry is not finite the sum is not, either; the extremes pass NaN over.
    """
    if holds_float64(a):
        return survey_of[double](a, b, n_threads)
    return survey_of[float](a, b, n_threads)


cdef survey_of(const real[:, :] a, const real[:, :] b, int n_threads):
    cdef ptrdiff_t n = a.shape[0], m = a.shape[1], chunk, part, i, j, end, rows, last
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t row = row_stride[real](a), other = row
    cdef bint square = b is None
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    if square:
        b = a
    else:
        other = row_stride[real](b)
    check_matrix("b", b.shape[0], b.shape[1], m, n)
    cdef double sums[N_CHUNKS]
    cdef real most[3 * N_CHUNKS]
    cdef real *found
    cdef double total = 0.0
    most[0] = most[1] = -INFINITY
    most[2] = 0.0
    cdef uint64_t before
    with nogil:
        for part in prange(chunks, num_threads=team(n_threads, chunks),
                           schedule="dynamic"):
            before = begin_flush()
            # Of a square the longest rows to the diagonal come first.
            chunk = chunks - 1 - part
            sums[chunk] = 0.0
            found = most + 3 * chunk
            found[0] = found[1] = -INFINITY
            found[2] = 0.0
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                rows = min(SURVEYED, end - i)
                last = i if square else m
                j = 0
                while j < last:
                    sums[chunk] = sums[chunk] + table.survey_tile(
                        &a[i, j], row, &b[j, i], other, rows, min(SURVEYED, last - j),
                        True, found)
                    j = j + SURVEYED
                if square:
                    sums[chunk] = sums[chunk] + table.survey_tile(
                        &a[i, i], row, &a[i, i], row, rows, rows, False, found)
                i = i + rows
            end_flush(before)
        for chunk in range(chunks):
            total += sums[chunk]
            most[0] = max(most[0], most[3 * chunk])
            most[1] = max(most[1], most[3 * chunk + 1])
            most[2] = max(most[2], most[3 * chunk + 2])
    return -<double>most[0], <double>most[1], total, <double>most[2]


def extent(const double[::1] x):  # IN (n,)
    """The least and the largest number, and the sum, which is not finite if one of them
    is not; the extremes pass NaN over. Subnormal numbers count: totals of masses may be.
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

"""OpenMP loops over a Gibbs kernel of which only some entries are kept, in compressed
sparse rows; the rules of _kernels.pyx hold.

Where a plan is concentrated on a few columns of every row, the rest of the kernel need
not be made, read or multiplied: a pass costs what is kept, whatever n and m are.
"""
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint64_t

from ._rows cimport (
    GWF_HUGE,
    ColumnSums,
    Rows,
    as_rows,
    begin_flush,
    centered,
    check,
    chunk_rows,
    count_chunks,
    end_flush,
    isa,
    row_floats,
    team,
)

import numpy as np

# Rows of a stored matrix looked at together.
cdef ptrdiff_t STRIP = 8
# What the columns of factors are padded to a multiple of, with zeros.
LANES = row_floats


def sample(
    kernel,                    # IN (n, m)
    const float[::1] v,        # IN (m,)
    const double[::1] offset,  # IN (n,)
    int32_t[:, ::1] index,     # OUT (n, k)
    int32_t[:, ::1] times,     # OUT (n, k)
    double[::1] step,          # OUT (n,)
    int n_threads=1,
):
    """Columns of k draws from each row of ``kernel diag(v)``, in order, and how often
    each was drawn; what follows the last of a row is drawn never. Draws are `step`
    apart in the cumulative sum of the row, the first at the fraction `offset` of that.
    """
    cdef Rows source = as_rows(kernel)
    cdef ptrdiff_t n = source.n, m = source.m, chunk, i, j, end, draws = index.shape[1]
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = source.strip if source.strip else STRIP, found
    cdef const float *made
    if source.is_float64:
        raise ValueError("kernels to sample must be of float32")
    check("v", v.shape[0], m)
    check("offset", offset.shape[0], n)
    check("rows of index", index.shape[0], n)
    check("rows of times", times.shape[0], n)
    check("columns of times", times.shape[1], draws)
    check("step", step.shape[0], n)
    # A search writes one place past the last.
    cdef int32_t[:, :, ::1] scratch = np.empty(
        (max(n_threads, 1), 2, draws + 1), dtype=np.int32)
    cdef float[:, ::1] rows = source.scratch(n_threads)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                made = <const float *>source.at(
                    i, min(strip, end - i), &rows[threadid(), 0])
                for j in range(min(strip, end - i)):
                    found = isa.sample_row(
                        made + j * m, &v[0], draws, offset[i + j],
                        &scratch[threadid(), 0, 0], &scratch[threadid(), 1, 0],
                        &step[i + j], m)
                    index[i + j, :found] = scratch[threadid(), 0, :found]
                    times[i + j, :found] = scratch[threadid(), 1, :found]
                    index[i + j, found:] = 0
                    times[i + j, found:] = 0
                i = i + strip
            end_flush(before)


def select(
    const float[:, ::1] kernel,  # IN (n, m)
    const float[::1] u,          # IN (n,)
    const float[::1] v,          # IN (m,)
    const float[::1] row,        # IN (n,)
    const float[::1] col,        # IN (m,)
    int64_t[::1] start,          # IN/OUT (n + 1,)
    int32_t[::1] index=None,     # OUT (start[n],)
    int n_threads=1,
):
    """Select the entries of the kernel whose part of the plan ``diag(u) kernel diag(v)`` is at
    least `row` or `col`, whichever is less, and not zero. Without `index`, count them and write to
    `start` where the entries of each row begin; with it, write their columns.
    """
    cdef ptrdiff_t n = kernel.shape[0], m = kernel.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef bint counts = index is None
    cdef int32_t *columns = NULL
    check("u", u.shape[0], n)
    check("v", v.shape[0], m)
    check("row", row.shape[0], n)
    check("col", col.shape[0], m)
    check("start", start.shape[0], n + 1)
    if not counts:
        check("index", index.shape[0], start[n])
        columns = <int32_t *>columns_of(index)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            for i in range(chunk * size, min(chunk * size + size, n)):
                if counts:
                    start[i + 1] = isa.select_row(
                        &kernel[i, 0], u[i], &v[0], row[i], &col[0], NULL, m)
                else:
                    isa.select_row(
                        &kernel[i, 0], u[i], &v[0], row[i], &col[0],
                        columns + start[i], m)
            end_flush(before)
    if counts:
        start[0] = 0
        for i in range(n):
            start[i + 1] += start[i]


def cost(
    const int64_t[::1] start,  # IN (n + 1,)
    const int32_t[::1] index,  # IN (nnz,)
    const float[:, ::1] x,     # IN (n, d)
    const float[:, ::1] y,     # IN (m, d)
    float[::1] out,            # OUT (nnz,)
    int n_threads=1,
):
    """``out_ij = (x @ y.T)_ij`` where it is kept; d must be a multiple of `LANES`."""
    cdef ptrdiff_t n = x.shape[0], d = x.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    check_kept(start, index, out, n)
    check_columns(index, y.shape[0])
    check("columns of y", y.shape[1], d)
    check("rest of d over the lanes", d % row_floats, 0)
    cdef const int32_t *columns = columns_of(index)
    cdef float *values = <float *>values_of(out)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            i = chunk * size
            isa.sparse_cost_rows(&start[i], columns, &x[i, 0], &y[0, 0], d, values,
                                 min(size, n - i))
            end_flush(before)


def logsumexp_rows(
    const int64_t[::1] start,  # IN (n + 1,)
    const int32_t[::1] index,  # IN (nnz,)
    const float[::1] cost,     # IN (nnz,)
    const double[::1] g,       # IN (m,)
    double epsilon,
    double[::1] lse,           # OUT (n,)
    int n_threads=1,
):
    """``lse_i = log sum_j exp((g_j - c_ij) / epsilon)`` over what is kept; 0 where nothing is.
    """
    cdef ptrdiff_t n = lse.shape[0], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef double inv_epsilon = 1.0 / epsilon
    check_kept(start, index, cost, n)
    check_columns(index, g.shape[0])
    cdef const int32_t *columns = columns_of(index)
    cdef const float *values = values_of(cost)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            i = chunk * size
            isa.sparse_logsumexp_rows(&start[i], columns, values, &g[0], inv_epsilon,
                                      &lse[i], min(size, n - i))
            end_flush(before)


def logsumexp_cols(
    const int64_t[::1] start,  # IN (n + 1,)
    const int32_t[::1] index,  # IN (nnz,)
    const float[::1] cost,     # IN (nnz,)
    const double[::1] f,       # IN (n,)
    double epsilon,
    double[::1] lse,           # OUT (m,)
    int n_threads=1,
):
    """``lse_j = log sum_i exp((f_i - c_ij) / epsilon)`` over what is kept; 0 where nothing is.
    """
    cdef ptrdiff_t n = f.shape[0], m = lse.shape[0], chunk, i
    cdef ptrdiff_t size = sparse_chunk(n, m, cost.shape[0])
    cdef ptrdiff_t chunks = count_chunks(n, size)
    cdef double inv_epsilon = 1.0 / epsilon
    check_kept(start, index, cost, n)
    check_columns(index, m)
    found = np.full((chunks, m), -GWF_HUGE, dtype=np.float32)
    cdef float[:, ::1] parts = found
    cdef const int32_t *columns = columns_of(index)
    cdef const float *values = values_of(cost)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            i = chunk * size
            isa.sparse_top_cols(&start[i], columns, values, &f[i], &parts[chunk, 0],
                                min(size, n - i))
            end_flush(before)
    highest = found.max(axis=0)
    cdef const float[::1] top = highest
    found.fill(0)
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            i = chunk * size
            isa.sparse_exp_cols(&start[i], columns, values, &f[i], &top[0],
                                inv_epsilon, &parts[chunk, 0], min(size, n - i))
            end_flush(before)
    sums = found.sum(axis=0, dtype=np.float64)
    known, out = sums > 0, np.asarray(lse)
    out[:] = 0.0
    out[known] = inv_epsilon * highest[known].astype(np.float64) + np.log(sums[known])


def gibbs(
    const int64_t[::1] start,  # IN (n + 1,)
    const int32_t[::1] index,  # IN (nnz,)
    const float[:, ::1] x,     # IN (n, d)
    const float[:, ::1] y,     # IN (m, d)
    const double[::1] f,       # IN (n,)
    const double[::1] g,       # IN (m,)
    double epsilon,
    float[::1] out,            # OUT (nnz,)
    int n_threads=1,
):
    """``out_ij = exp((f_i + g_j - (x @ y.T)_ij) / epsilon)`` where it is kept; returns
    the largest exponent. d must be a multiple of `LANES`.
    """
    cdef ptrdiff_t n = x.shape[0], d = x.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef float inv_epsilon = <float>(1.0 / epsilon)
    check_kept(start, index, out, n)
    check("columns of y", y.shape[1], d)
    check("rest of d over the lanes", d % row_floats, 0)
    check("f", f.shape[0], n)
    check("g", g.shape[0], y.shape[0])
    peaks = np.full(chunks, -INFINITY, dtype=np.float32)
    f_shifted, g_low = centered(f, g, False)
    cdef float[::1] peak = peaks
    cdef const double[::1] h = f_shifted
    cdef const float[::1] low = g_low
    cdef const int32_t *columns = columns_of(index)
    cdef float *values = <float *>values_of(out)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            i = chunk * size
            peak[chunk] = isa.sparse_gibbs_rows(
                &start[i], columns, &x[i, 0], &y[0, 0], d, &h[i], &low[0],
                inv_epsilon, values, min(size, n - i))
            end_flush(before)
    return float(peaks.max())


def sinkhorn_passes(
    const int64_t[::1] start,  # IN (n + 1,)
    const int32_t[::1] index,  # IN (nnz,)
    const float[::1] kernel,   # IN (nnz,)
    const double[::1] p,       # IN (n,)
    const double[::1] q,       # IN (m,)
    float[::1] u,              # IN/OUT (n,)
    float[::1] v,              # IN/OUT (m,)
    ColumnSums work not None,
    double omega=1.0,
    ptrdiff_t most=1,
    double tol=0.0,
    int n_threads=1,
    *,
    double cap=INFINITY,
):
    """As that of _kernels.pyx."""
    cdef ptrdiff_t n = p.shape[0], m = q.shape[0], chunk, i, done = 0
    cdef ptrdiff_t size = sparse_chunk(n, m, kernel.shape[0])
    cdef ptrdiff_t chunks = count_chunks(n, size)
    cdef float relaxation = <float>omega
    cdef double total = INFINITY
    if omega != 1.0 and cap != INFINITY:
        raise ValueError(f"omega must be 1 with a cap, got {omega}")
    check_kept(start, index, kernel, n)
    check("u", u.shape[0], n)
    check("v", v.shape[0], m)
    work.check(n, m, False)
    cdef double[::1] error = np.empty(chunks)
    cdef const int32_t *columns = columns_of(index)
    cdef const float *values = values_of(kernel)
    cdef uint64_t before, outside
    with nogil:
        outside = begin_flush()
        while done < most and not total <= tol:
            for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                                schedule="dynamic"):
                before = begin_flush()
                i = chunk * size
                work.totals[chunk, :] = 0.0
                work.blocks[chunk, :] = 0
                error[chunk] = isa.sparse_sinkhorn_rows(
                    &start[i], columns, values, &p[i], &u[i], &v[0], relaxation,
                    cap, <float *>&work.blocks[chunk, 0], min(size, n - i))
                isa.fold(<float *>&work.blocks[chunk, 0], &work.totals[chunk, 0], m)
                end_flush(before)
            work.reduce(n_threads, chunks)
            isa.f32.rescale(&v[0], &q[0], &work.totals[0, 0], relaxation, cap, m)
            total = 0.0
            for chunk in range(chunks):
                total += error[chunk]
            done += 1
        end_flush(outside)
    return total, done


def normal_product(
    const int64_t[::1] start,   # IN (n + 1,)
    const int32_t[::1] index,   # IN (nnz,)
    const float[::1] kernel,    # IN (nnz,)
    const double[::1] weights,  # IN (n,)
    const float[::1] x,         # IN (m,)
    double[::1] row_sums,       # OUT (n,)
    ColumnSums work not None,
    int n_threads=1,
):
    """As that of _kernels.pyx."""
    cdef ptrdiff_t n = weights.shape[0], m = x.shape[0], chunk, i
    cdef ptrdiff_t size = sparse_chunk(n, m, kernel.shape[0])
    cdef ptrdiff_t chunks = count_chunks(n, size)
    check_kept(start, index, kernel, n)
    check("row_sums", row_sums.shape[0], n)
    work.check(n, m, False)
    cdef const int32_t *columns = columns_of(index)
    cdef const float *values = values_of(kernel)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            i = chunk * size
            work.totals[chunk, :] = 0.0
            work.blocks[chunk, :] = 0
            isa.sparse_normal_rows(
                &start[i], columns, values, &weights[i], &x[0], &row_sums[i],
                <float *>&work.blocks[chunk, 0], min(size, n - i))
            isa.fold(<float *>&work.blocks[chunk, 0], &work.totals[chunk, 0], m)
            end_flush(before)
        work.reduce(n_threads, chunks)


def product(
    const int64_t[::1] start,  # IN (n + 1,)
    const int32_t[::1] index,  # IN (nnz,)
    const float[::1] kernel,   # IN (nnz,)
    const float[::1] v,        # IN (m,)
    const float[:, ::1] y,     # IN (m, d)
    float[:, ::1] out,         # OUT (n, d)
    double[::1] sums,          # OUT (n,)
    int n_threads=1,
):
    """``out = K diag(v) y`` and ``sums = K v``."""
    cdef ptrdiff_t n = out.shape[0], d = y.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    check_kept(start, index, kernel, n)
    check("v", v.shape[0], y.shape[0])
    check("columns of out", out.shape[1], d)
    check("sums", sums.shape[0], n)
    cdef const int32_t *columns = columns_of(index)
    cdef const float *values = values_of(kernel)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            i = chunk * size
            isa.sparse_product_rows(&start[i], columns, values, &v[0], &y[0, 0], d,
                                    &out[i, 0], &sums[i], min(size, n - i))
            end_flush(before)


# Where nothing is kept there is no first entry that bounds checks would allow.

cdef const int32_t *columns_of(const int32_t[::1] index) noexcept:
    return &index[0] if index.shape[0] else NULL

cdef const float *values_of(const float[::1] kernel) noexcept:
    return &kernel[0] if kernel.shape[0] else NULL

cdef ptrdiff_t sparse_chunk(ptrdiff_t n, ptrdiff_t m, ptrdiff_t kept) noexcept nogil:
    """Rows a chunk, so many that adding up the column sums of each costs little."""
    cdef ptrdiff_t chunks = max(kept // (4 * m), 4)
    return max(chunk_rows(n), (n + chunks - 1) // chunks)

cdef int check_kept(
    const int64_t[::1] start, const int32_t[::1] index, const float[::1] kernel,
    ptrdiff_t n,
) except -1:
    check("start", start.shape[0], n + 1)
    check("kernel", kernel.shape[0], start[n])
    check("index", index.shape[0], start[n])
    return 0

cdef int check_columns(const int32_t[::1] index, ptrdiff_t m) except -1:
    """Where nothing else tells how many columns there are."""
    cdef ptrdiff_t e
    cdef int32_t last = -1
    for e in range(index.shape[0]):
        last = max(last, index[e])
    if last >= m:
        raise ValueError(f"index must be below {m}, got {last}")
    return 0

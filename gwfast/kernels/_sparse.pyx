"""OpenMP loops over the kept entries of a Gibbs kernel, in compressed sparse rows; the rules of
_kernels.pyx hold.

If a plan is concentrated on a few columns of every row, the rest of the kernel need not be made,
read or multiplied: the time of a pass depends on the number of kept entries alone.
"""
cimport cython
cimport numpy as cnp
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint64_t

from ._exponentials cimport centered
from ._rows cimport (
    GWF_HUGE,
    ColumnSums,
    Loop,
    ScalingMap,
    added,
    begin_flush,
    check,
    chunk_rows,
    count_chunks,
    end_flush,
    floats,
    gwf_scaling_map,
    isa,
    row_floats,
    team,
)

import numpy as np

# The columns of factors are padded with zeros to a multiple of LANES.
LANES = row_floats


@cython.final
cdef class Kept:
    """A loop over rows of kept entries: `start` (n + 1,), `index`, whose columns are below m, which
    it `checks`, and the `values` of entries. For `sums` of columns a chunk has enough rows to make
    adding up its sums cheap.
    """
    cdef readonly ptrdiff_t n, m
    cdef ptrdiff_t size, chunks
    cdef int threads
    cdef const int64_t *start
    cdef const int32_t *index
    cdef float *values

    def __cinit__(
        self, const int64_t[::1] start, const int32_t[::1] index, values, ptrdiff_t n, ptrdiff_t m,
        int n_threads, bint sums=False, bint writes=False, bint checks=False,
    ):
        cdef ptrdiff_t e, most
        cdef int32_t last = -1
        check("start", start.shape[0], n + 1)
        check("index", index.shape[0], start[n])
        self.values = <float *>floats("values", values, 1, False, writes)
        check("values", cnp.PyArray_DIM(values, 0), start[n])
        for e in range(index.shape[0] if checks else 0):
            last = max(last, index[e])
        if last >= m:
            raise ValueError(f"index must be below {m}, got {last}")
        self.n, self.m, self.size, self.start = n, m, chunk_rows(n), &start[0]
        self.index = &index[0] if index.shape[0] else NULL
        if sums:
            most = max(index.shape[0] // (4 * m), 4)
            self.size = max(self.size, (n + most - 1) // most)
        self.chunks = count_chunks(n, self.size)
        self.threads = team(n_threads, self.chunks)

    cdef ptrdiff_t rows(self, ptrdiff_t chunk) noexcept nogil:
        return min(self.size, self.n - chunk * self.size)


def sample(
    kernel, const float[::1] v, const double[::1] offset, int32_t[:, ::1] index,
    int32_t[:, ::1] times, double[::1] step, int n_threads=1,
):
    """Columns of k draws from each row of ``kernel diag(v)``, in order, and how often each was
    drawn; what follows the last of a row is drawn never. Draws are `step` apart in the cumulative
    sum of the row, the first at the fraction `offset` of that.
    """
    cdef Loop loop = Loop("kernel", kernel, n_threads, True)
    cdef ptrdiff_t n = loop.n, m = loop.m, draws = index.shape[1], chunk, i, j, end, rows, found
    cdef int threads = loop.threads
    cdef const float *made
    cdef uint64_t before
    if loop.is_float64:
        raise ValueError("kernels to sample must be of float32")
    check("v", v.shape[0], m)
    check("offset", offset.shape[0], n)
    check("rows of index", index.shape[0], n)
    check("rows of times", times.shape[0], n)
    check("columns of times", times.shape[1], draws)
    check("step", step.shape[0], n)
    # A search writes one place past the last.
    cdef int32_t[:, :, ::1] scratch = np.empty((max(n_threads, 1), 2, draws + 1), dtype=np.int32)
    with nogil:
        for chunk in prange(loop.chunks, num_threads=threads, schedule="dynamic"):
            before = begin_flush()
            i, end = chunk * loop.size, loop.end(chunk)
            while i < end:
                rows = min(loop.strip, end - i)
                made = <const float *>loop.at(i, rows, threadid())
                for j in range(rows):
                    found = isa.sample_row(
                        made + j * m, &v[0], draws, offset[i + j], &scratch[threadid(), 0, 0],
                        &scratch[threadid(), 1, 0], &step[i + j], m)
                    index[i + j, :found] = scratch[threadid(), 0, :found]
                    times[i + j, :found] = scratch[threadid(), 1, :found]
                    index[i + j, found:] = 0
                    times[i + j, found:] = 0
                i = i + rows
            end_flush(before)


def select(
    const float[:, ::1] kernel, const float[::1] u, const float[::1] v, const float[::1] row,
    const float[::1] col, int64_t[::1] start, int32_t[::1] index=None, int n_threads=1,
):
    """Select the entries of the kernel whose part of the plan ``diag(u) kernel diag(v)`` is at
    least `row` or `col`, whichever is less, and not zero. Without `index`, count them and write to
    `start` where the entries of each row begin; with it, write their columns.
    """
    cdef ptrdiff_t n = kernel.shape[0], m = kernel.shape[1], chunk, i, found
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef int32_t *columns = NULL
    cdef uint64_t before
    check("u", u.shape[0], n)
    check("v", v.shape[0], m)
    check("row", row.shape[0], n)
    check("col", col.shape[0], m)
    check("start", start.shape[0], n + 1)
    if index is not None:
        check("index", index.shape[0], start[n])
        if not start[n]:
            return
        columns = &index[0]
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks), schedule="dynamic"):
            before = begin_flush()
            for i in range(chunk * size, min(chunk * size + size, n)):
                found = isa.select_row(&kernel[i, 0], u[i], &v[0], row[i], &col[0],
                                       NULL if columns == NULL else columns + start[i], m)
                if columns == NULL:
                    start[i + 1] = found
            end_flush(before)
    if columns == NULL:
        start[0] = 0
        for i in range(n):
            start[i + 1] += start[i]


cdef int check_factors(const float[:, ::1] x, const float[:, ::1] y) except -1:
    check("columns of y", y.shape[1], x.shape[1])
    check("rest of d over the lanes", x.shape[1] % row_floats, 0)
    return 0


def cost(
    const int64_t[::1] start, const int32_t[::1] index, const float[:, ::1] x,
    const float[:, ::1] y, out, int n_threads=1,
):
    """``out_ij = (x @ y.T)_ij`` where it is kept; d must be a multiple of `LANES`."""
    cdef Kept k = Kept(
        start, index, out, x.shape[0], y.shape[0], n_threads, writes=True, checks=True)
    cdef ptrdiff_t chunk, i
    cdef int threads = k.threads
    cdef uint64_t before
    check_factors(x, y)
    with nogil:
        for chunk in prange(k.chunks, num_threads=threads, schedule="dynamic"):
            before = begin_flush()
            i = chunk * k.size
            isa.sparse_cost_rows(k.start + i, k.index, &x[i, 0], &y[0, 0], x.shape[1], k.values,
                                 k.rows(chunk))
            end_flush(before)


def gibbs(
    const int64_t[::1] start, const int32_t[::1] index, const float[:, ::1] x,
    const float[:, ::1] y, const double[::1] f, const double[::1] g, double epsilon, out,
    int n_threads=1,
):
    """``out_ij = exp((f_i + g_j - (x @ y.T)_ij) / epsilon)`` where it is kept; returns the largest
    exponent. d must be a multiple of `LANES`.
    """
    cdef Kept k = Kept(start, index, out, x.shape[0], y.shape[0], n_threads, writes=True)
    cdef ptrdiff_t chunk, i
    cdef int threads = k.threads
    cdef float inverse = <float>(1.0 / epsilon)
    cdef const double[::1] high
    cdef const unsigned char[::1] low
    cdef uint64_t before
    check_factors(x, y)
    check("f", f.shape[0], k.n)
    check("g", g.shape[0], k.m)
    high, low = centered(f, g, False)
    peaks = np.full(k.chunks, -INFINITY, dtype=np.float32)
    cdef float[::1] peak = peaks
    with nogil:
        for chunk in prange(k.chunks, num_threads=threads, schedule="dynamic"):
            before = begin_flush()
            i = chunk * k.size
            peak[chunk] = isa.sparse_gibbs_rows(
                k.start + i, k.index, &x[i, 0], &y[0, 0], x.shape[1], &high[i],
                <const float *>&low[0], inverse, k.values, k.rows(chunk))
            end_flush(before)
    return float(peaks.max())


def logsumexp_rows(
    const int64_t[::1] start, const int32_t[::1] index, cost, const double[::1] g, double epsilon,
    double[::1] lse, int n_threads=1,
):
    """``lse_i = log sum_j exp((g_j - c_ij) / epsilon)`` over what is kept; 0 where nothing is."""
    cdef Kept k = Kept(start, index, cost, lse.shape[0], g.shape[0], n_threads, checks=True)
    cdef ptrdiff_t chunk, i
    cdef int threads = k.threads
    cdef double inverse = 1.0 / epsilon
    cdef uint64_t before
    with nogil:
        for chunk in prange(k.chunks, num_threads=threads, schedule="dynamic"):
            before = begin_flush()
            i = chunk * k.size
            isa.sparse_logsumexp_rows(k.start + i, k.index, k.values, &g[0], inverse, &lse[i],
                                      k.rows(chunk))
            end_flush(before)


def logsumexp_cols(
    const int64_t[::1] start, const int32_t[::1] index, cost, const double[::1] f, double epsilon,
    double[::1] lse, int n_threads=1,
):
    """``lse_j = log sum_i exp((f_i - c_ij) / epsilon)`` over what is kept; 0 where nothing is."""
    cdef Kept k = Kept(
        start, index, cost, f.shape[0], lse.shape[0], n_threads, sums=True, checks=True)
    cdef ptrdiff_t chunk, i
    cdef int threads = k.threads
    cdef double inverse = 1.0 / epsilon
    cdef uint64_t before
    found = np.full((k.chunks, k.m), -GWF_HUGE, dtype=np.float32)
    cdef float[:, ::1] parts = found
    cdef const float[::1] top = None
    for step in range(2):  # the largest of each column, then sums relative to the largest
        with nogil:
            for chunk in prange(k.chunks, num_threads=threads, schedule="dynamic"):
                before = begin_flush()
                i = chunk * k.size
                if top is None:
                    isa.sparse_top_cols(k.start + i, k.index, k.values, &f[i], &parts[chunk, 0],
                                        k.rows(chunk))
                else:
                    isa.sparse_exp_cols(k.start + i, k.index, k.values, &f[i], &top[0], inverse,
                                        &parts[chunk, 0], k.rows(chunk))
                end_flush(before)
        if step == 0:
            top = highest = found.max(axis=0)
            found.fill(0)
    sums = found.sum(axis=0, dtype=np.float64)
    known, out = sums > 0, np.asarray(lse)
    out[:] = 0.0
    out[known] = inverse * highest[known].astype(np.float64) + np.log(sums[known])


def sinkhorn_passes(
    const int64_t[::1] start, const int32_t[::1] index, kernel, const double[::1] p,
    const double[::1] q, float[::1] u, float[::1] v, ColumnSums work not None, double omega=1.0,
    ptrdiff_t most=1, double tol=0.0, int n_threads=1, ScalingMap scaling_map=None,
):
    """Run `_kernels.sinkhorn_passes` on the kept entries."""
    cdef ptrdiff_t n = p.shape[0], m = q.shape[0], chunk, i, done = 0
    cdef Kept k = Kept(start, index, kernel, n, m, n_threads, sums=True)
    cdef int threads = k.threads
    cdef double total = INFINITY
    cdef float *block
    cdef uint64_t before, outside
    cdef gwf_scaling_map *mapped = NULL if scaling_map is None else scaling_map.of(n, m)
    cdef const double *anchors = mapped.rows if mapped else NULL
    cdef float power = <float>(mapped.row_power if mapped else omega)
    check("u", u.shape[0], n)
    check("v", v.shape[0], m)
    work.check(n, m, False)
    cdef double[::1] error = np.empty(k.chunks)
    with nogil:
        outside = begin_flush()
        while done < most and not total <= tol:
            for chunk in prange(k.chunks, num_threads=threads, schedule="dynamic"):
                before = begin_flush()
                i, block = chunk * k.size, <float *>work.block(chunk)
                error[chunk] = isa.sparse_sinkhorn_rows(
                    k.start + i, k.index, k.values, &p[i], &u[i], &v[0], power,
                    anchors + i if anchors else NULL, NULL, block, work.total(chunk),
                    k.rows(chunk), m)
                end_flush(before)
            work.reduce(n_threads, k.chunks)
            total = added(&error[0], k.chunks)
            if mapped:
                total += isa.f32.settle(mapped, &u[0], &v[0], &q[0], work.total(0), n, m)
            else:
                isa.f32.rescale(&v[0], &q[0], work.total(0), omega, NULL, m)
            done += 1
        end_flush(outside)
    return total, done


def normal_product(
    const int64_t[::1] start, const int32_t[::1] index, kernel, const double[::1] weights,
    const float[::1] x, double[::1] row_sums, ColumnSums work not None, int n_threads=1,
):
    """Run `_kernels.normal_product` on the kept entries."""
    cdef ptrdiff_t n = weights.shape[0], m = x.shape[0], chunk, i
    cdef Kept k = Kept(start, index, kernel, n, m, n_threads, sums=True)
    cdef int threads = k.threads
    cdef float *block
    cdef uint64_t before
    check("row_sums", row_sums.shape[0], n)
    work.check(n, m, False)
    with nogil:
        for chunk in prange(k.chunks, num_threads=threads, schedule="dynamic"):
            before = begin_flush()
            i, block = chunk * k.size, <float *>work.block(chunk)
            isa.sparse_sinkhorn_rows(
                k.start + i, k.index, k.values, &weights[i], NULL, &x[0], 1.0, NULL, &row_sums[i],
                block, work.total(chunk), k.rows(chunk), m)
            end_flush(before)
        work.reduce(n_threads, k.chunks)


def product(
    const int64_t[::1] start, const int32_t[::1] index, kernel, const float[::1] v,
    const float[:, ::1] y, float[:, ::1] out, double[::1] sums, int n_threads=1,
):
    """``out = K diag(v) y`` and ``sums = K v``."""
    cdef Kept k = Kept(start, index, kernel, out.shape[0], y.shape[0], n_threads)
    cdef ptrdiff_t chunk, i
    cdef int threads = k.threads
    cdef uint64_t before
    check("v", v.shape[0], k.m)
    check("columns of out", out.shape[1], y.shape[1])
    check("sums", sums.shape[0], k.n)
    with nogil:
        for chunk in prange(k.chunks, num_threads=threads, schedule="dynamic"):
            before = begin_flush()
            i = chunk * k.size
            isa.sparse_product_rows(k.start + i, k.index, k.values, &v[0], &y[0, 0], y.shape[1],
                                    &out[i, 0], &sums[i], k.rows(chunk))
            end_flush(before)

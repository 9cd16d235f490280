"""OpenMP loops over the rows of one matrix. The arithmetic of a block is C (csrc/), the decisions
are Python; this file only shares out rows and adds up partial sums.

Rules that hold for every function here and in _costs.pyx, _exponentials.pyx, _products.pyx and
_sparse.pyx:

- arguments are C-contiguous, outputs are passed in; shapes are checked because a wrong one would
  write outside a buffer, values are not;
- a matrix may be float32 or float64, and what multiplies it entry by entry is of the same type.
  Masses, potentials and sums are float64;
- a matrix that is only read may be `Rows` where that makes sense;
- sums do not depend on the number of threads, see _rows.pyx;
- the GIL is released around every loop, and nothing inside one can raise.
"""
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY, log, sqrt
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t

from ._rows cimport (
    N_CHUNKS,
    ColumnSums,
    Loop,
    ScalingMap,
    added,
    begin_flush,
    check,
    check_matrix,
    end_flush,
    floats,
    gwf_kernels,
    gwf_scaling_map,
    holds_float64,
    isa,
    seconds,
)

import numpy as np

cdef extern from "gwfast.h":
    const float GWF_LEAST_f32
    const double GWF_LEAST_f64

# Entries of a plan below this are zero, by type.
LEAST_ENTRY = {
    np.dtype(np.float32): <double>GWF_LEAST_f32, np.dtype(np.float64): GWF_LEAST_f64
}


# --- The scaling domain ---------------------------------------------------------------

def sinkhorn_passes(
    kernel, const double[::1] p, const double[::1] q, u, v, ColumnSums work not None,
    double omega=1.0, ptrdiff_t most=1, double tol=0.0, int n_threads=1,
    ScalingMap scaling_map=None,
):
    """Make Sinkhorn iterations, ``u = p / (K v)`` then ``v = q / (K' u)``, each in one read of the
    kernel, until the error is at most `tol` or `most` iterations are made.

    With `omega` above one both updates are over-relaxed in the log domain, ``u = u_old^(1 - omega)
    (p / (K v))^omega`` (Thibault, Chizat, Dossal and Papadakis, Algorithms 2021).

    A row or column whose sum has underflowed to zero gets the scaling 0, and none gets more than
    its type can hold: the mass that is missing shows in the next error instead of an infinity.

    A `scaling_map` bounds or damps the scalings that fit the masses; it takes no `omega`.

    Returns
    -------
    error : float
        ``|u * (K v) - p|_1`` before the last iteration, the row error of the plan that it found;
        with a scaling map the change of its row sums in the iteration.
    done : int
        Iterations made.
    """
    cdef Loop loop = Loop("kernel", kernel, n_threads, True)
    cdef ptrdiff_t chunk, n = loop.n, m = loop.m, done = 0
    cdef int threads = loop.threads
    cdef double total = INFINITY, began
    cdef double error[N_CHUNKS]
    cdef bint one
    cdef uint64_t before, outside
    cdef gwf_scaling_map *mapped = NULL if scaling_map is None else scaling_map.of(n, m)
    cdef const double *anchors = mapped.rows if mapped else NULL
    cdef double power = mapped.row_power if mapped else omega
    check("p", p.shape[0], n)
    check("q", q.shape[0], m)
    cdef char *rows = <char *>loop.vector("u", u, n, True)
    cdef void *columns = loop.vector("v", v, m, True)
    work.check(n, m, loop.is_float64)
    with nogil:
        outside = begin_flush()
        while done < most and not total <= tol:
            one, began = threads == 1 or work.prefers_one(), seconds()
            if one:
                # A team of one takes as long to make as a thousand entries to read.
                for chunk in range(loop.chunks):
                    error[chunk] = pass_chunk(
                        loop, work, chunk, 0, &p[0], rows, columns, power, anchors)
            else:
                for chunk in prange(loop.chunks, num_threads=threads, schedule="static"):
                    before = begin_flush()
                    error[chunk] = pass_chunk(
                        loop, work, chunk, threadid(), &p[0], rows, columns, power, anchors)
                    end_flush(before)
            work.reduce(n_threads)
            total = added(error, loop.chunks)
            if mapped:
                total += loop.table.settle(mapped, rows, columns, &q[0], work.total(0), n, m)
            else:
                loop.table.rescale(columns, &q[0], work.total(0), omega, NULL, m)
            done += 1
            work.took(one, seconds() - began)
        end_flush(outside)
    return total, done


cdef double pass_chunk(
    Loop loop, ColumnSums work, ptrdiff_t chunk, int thread, const double *p, char *u,
    const void *v, double omega, const double *anchors,
) noexcept nogil:
    """Make a pass over one chunk of rows; returns their error."""
    cdef ptrdiff_t i = chunk * loop.size, end = loop.end(chunk), rows
    cdef ptrdiff_t size = 8 if loop.is_float64 else 4
    cdef void *block = work.block(chunk)
    cdef double error = 0.0
    while i < end:
        rows = min(loop.strip, end - i)
        error += loop.table.sinkhorn_rows(
            loop.at(i, rows, thread), p + i, u + i * size, v, omega,
            anchors + i if anchors else NULL, NULL, block, work.total(chunk), rows, loop.m)
        i += rows
    return error


def normal_product(
    kernel, const double[::1] weights, x, double[::1] row_sums, ColumnSums work not None,
    int n_threads=1,
):
    """``r = K x`` in `row_sums`, and ``K' (weights * r)`` in `work`, in one read of the kernel."""
    cdef Loop loop = Loop("kernel", kernel, n_threads, True)
    cdef ptrdiff_t chunk, i, end, rows
    cdef const void *columns = loop.vector("x", x, loop.m)
    cdef void *block
    cdef uint64_t before
    check("weights", weights.shape[0], loop.n)
    check("row_sums", row_sums.shape[0], loop.n)
    work.check(loop.n, loop.m, loop.is_float64)
    cdef int threads = 1 if work.prefers_one() else loop.threads
    with nogil:
        for chunk in prange(loop.chunks, num_threads=threads, schedule="static"):
            before = begin_flush()
            block, i, end = work.block(chunk), chunk * loop.size, loop.end(chunk)
            while i < end:
                rows = min(loop.strip, end - i)
                loop.table.sinkhorn_rows(
                    loop.at(i, rows, threadid()), &weights[i], NULL, columns, 1.0, NULL,
                    &row_sums[i], block, work.total(chunk), rows, loop.m)
                i = i + rows
            end_flush(before)
        work.reduce(n_threads)


def rescale_columns(v, const double[::1] q, ColumnSums work not None, double omega=1.0):
    """``v = q / c`` for the column sums c that `work` has been left with; over-relaxed with `omega`
    as in `sinkhorn_passes`.
    """
    cdef bint is_float64 = holds_float64(v)
    cdef void *scaling = floats("v", v, 1, is_float64, True)
    cdef const gwf_kernels *table = isa.f64 if is_float64 else isa.f32
    check("v", len(v), work.m)
    check("q", q.shape[0], work.m)
    cdef uint64_t before = begin_flush()
    table.rescale(scaling, &q[0], work.total(0), omega, NULL, work.m)
    end_flush(before)


def max_log_scaling(u, v, const double[::1] p, const double[::1] q):
    """Largest |log| of a scaling of a point that has mass; infinite where one is 0, infinite or no
    number.
    """
    cdef bint is_float64 = holds_float64(u), held
    cdef const void *rows = floats("u", u, 1, is_float64)
    cdef const void *columns = floats("v", v, 1, is_float64)
    cdef double low = 1.0, high = 1.0
    check("p", p.shape[0], len(u))
    check("q", q.shape[0], len(v))
    cdef uint64_t before = begin_flush()
    held = widen(rows, is_float64, p, &low, &high) and widen(columns, is_float64, q, &low, &high)
    end_flush(before)
    return max(-log(low), log(high)) if held else INFINITY


cdef bint widen(
    const void *scalings, bint is_float64, const double[::1] masses, double *low, double *high
) noexcept nogil:
    """Make the range hold all scalings of mass; false where one is not to be held."""
    cdef ptrdiff_t i
    cdef double x
    for i in range(masses.shape[0]):
        if masses[i] > 0.0:
            x = (<const double *>scalings)[i] if is_float64 else (<const float *>scalings)[i]
            if not 0.0 < x < INFINITY:
                return False
            low[0], high[0] = min(low[0], x), max(high[0], x)
    return True


def scale_to_plan(
    kernel, u, v, double[::1] row_sums, double[::1] col_sums, ColumnSums work not None,
    int n_threads=1,
):
    """``kernel_ij *= u_i v_j`` in place, with the marginals of the plan it becomes. What is below
    `LEAST_ENTRY` becomes zero.
    """
    cdef Loop loop = Loop("kernel", kernel, n_threads, writes=True)
    cdef const char *rows = <const char *>loop.vector("u", u, loop.n)
    sum_up(loop, rows, loop.vector("v", v, loop.m), row_sums, col_sums, work, n_threads)


def marginals(
    plan, double[::1] row_sums, double[::1] col_sums, ColumnSums work not None, int n_threads=1
):
    """Row and column sums of `plan`."""
    sum_up(Loop("plan", plan, n_threads), NULL, NULL, row_sums, col_sums, work, n_threads)


cdef int sum_up(
    Loop loop, const char *u, const void *v, double[::1] row_sums, double[::1] col_sums,
    ColumnSums work, int n_threads,
) except -1:
    """Sums of rows and columns, of rows that are scaled first if there are scalings."""
    cdef ptrdiff_t chunk, i, j, size = 8 if loop.is_float64 else 4
    cdef int threads = loop.threads
    cdef void *block
    cdef uint64_t before
    check("row_sums", row_sums.shape[0], loop.n)
    check("col_sums", col_sums.shape[0], loop.m)
    work.check(loop.n, loop.m, loop.is_float64)
    with nogil:
        for chunk in prange(loop.chunks, num_threads=threads, schedule="static"):
            before = begin_flush()
            i, block = chunk * loop.size, work.block(chunk)
            loop.table.sum_rows(
                <void *>loop.at(i, 0, 0), u + i * size if u != NULL else NULL, v, &row_sums[i],
                block, work.total(chunk), loop.end(chunk) - i, loop.m)
            end_flush(before)
        work.reduce(n_threads)
        for j in range(loop.m):
            col_sums[j] = work.totals[j]
    return 0


# --- Reading a matrix -----------------------------------------------------------------

def dot(plan, cost, int n_threads=1):
    """``sum_ij plan_ij cost_ij``."""
    cdef Loop loop = Loop("plan", plan, n_threads)
    cdef const char *other = <const char *>loop.beside("cost", cost)
    cdef ptrdiff_t chunk, i
    cdef int threads = loop.threads
    cdef double part[N_CHUNKS]
    cdef uint64_t before
    with nogil:
        for chunk in prange(loop.chunks, num_threads=threads, schedule="static"):
            before = begin_flush()
            i = chunk * loop.size
            part[chunk] = loop.table.dot_rows(loop.at(i, 0, 0), other + i * loop.row_bytes,
                                              loop.end(chunk) - i, loop.m)
            end_flush(before)
    return added(part, loop.chunks)


def distance(a, b, int n_threads=1):
    """``sum_ij |a_ij - b_ij|`` and ``sqrt(sum_ij (a_ij - b_ij)^2)``, in one read."""
    cdef Loop loop = Loop("a", a, n_threads)
    cdef const char *other = <const char *>loop.beside("b", b)
    cdef ptrdiff_t chunk, i
    cdef int threads = loop.threads
    cdef double part[N_CHUNKS]
    cdef double square[N_CHUNKS]
    cdef uint64_t before
    with nogil:
        for chunk in prange(loop.chunks, num_threads=threads, schedule="static"):
            before = begin_flush()
            i = chunk * loop.size
            part[chunk] = loop.table.distance_rows(
                loop.at(i, 0, 0), other + i * loop.row_bytes, &square[chunk],
                loop.end(chunk) - i, loop.m)
            end_flush(before)
    return added(part, loop.chunks), sqrt(added(square, loop.chunks))


def entropy(plan, int n_threads=1):
    """``-sum_ij plan_ij log plan_ij``, with 0 log 0 = 0."""
    cdef Loop loop = Loop("plan", plan, n_threads, True)
    cdef ptrdiff_t chunk, i, end, rows
    cdef int threads = loop.threads
    cdef double part[N_CHUNKS]
    cdef uint64_t before
    with nogil:
        for chunk in prange(loop.chunks, num_threads=threads, schedule="static"):
            before = begin_flush()
            part[chunk] = 0.0
            i, end = chunk * loop.size, loop.end(chunk)
            while i < end:
                rows = min(loop.strip, end - i)
                part[chunk] = part[chunk] + loop.table.entropy_rows(
                    loop.at(i, rows, threadid()), rows, loop.m)
                i = i + rows
            end_flush(before)
    return added(part, loop.chunks)


def copy_rows(rows, float[:, ::1] out, int n_threads=1):
    """``out = rows``, for `Rows`."""
    cdef Loop loop = Loop("rows", rows, n_threads, True)
    cdef ptrdiff_t part, i
    cdef int threads = loop.threads
    cdef uint64_t before
    if loop.source is None:
        raise TypeError(f"rows must be made when asked for, got {type(rows).__name__}")
    check_matrix("out", out.shape[0], out.shape[1], loop.n, loop.m)
    with nogil:
        for part in prange(loop.parts(), num_threads=threads, schedule="static"):
            before = begin_flush()
            i = part * loop.strip
            loop.source.at(i, min(loop.strip, loop.n - i), &out[i, 0])
            end_flush(before)


def topk_rows(x, ptrdiff_t[:, ::1] indices, values, int n_threads=1):
    """The k largest entries of every row, largest first; ties go to the lower column.

    NaN never wins over a number: rows are assumed to be free of it.
    """
    cdef Loop loop = Loop("x", x, n_threads, True)
    cdef ptrdiff_t k = indices.shape[1], part, i, j, rows
    cdef int threads = loop.threads
    cdef ptrdiff_t size = 8 if loop.is_float64 else 4
    cdef char *largest = <char *>floats("values", values, 2, loop.is_float64, True)
    cdef const char *made
    cdef uint64_t before
    check("rows of indices", indices.shape[0], loop.n)
    check_matrix("values", values.shape[0], values.shape[1], loop.n, k)
    if not 1 <= k <= loop.m:
        raise ValueError(f"k must be between 1 and the {loop.m} columns, got {k}")
    with nogil:
        for part in prange(loop.parts(), num_threads=threads, schedule="static"):
            before = begin_flush()
            i = part * loop.strip
            rows = min(loop.strip, loop.n - i)
            made = <const char *>loop.at(i, rows, threadid())
            for j in range(rows):
                loop.table.topk_row(made + j * loop.row_bytes, k, &indices[i + j, 0],
                                    largest + (i + j) * k * size, loop.m)
            end_flush(before)


# --- Masses ---------------------------------------------------------------------------

def mass_entropy(const double[::1] masses):
    """``-sum_i masses_i log masses_i``, with 0 log 0 = 0."""
    cdef ptrdiff_t i
    cdef double total = 0.0
    cdef uint64_t before = begin_flush()
    for i in range(masses.shape[0]):
        if masses[i] > 0.0:
            total -= masses[i] * log(masses[i])
    end_flush(before)
    return total


def kept(const double[::1] sums, const double[::1] masses):
    """How much of masses the sums of a plan have: the least fraction of any, NaN if one is,
    infinite without masses; and the mass lost, ``sum_i max(masses_i - sums_i, 0)``.
    """
    cdef ptrdiff_t i, n = sums.shape[0]
    cdef double least = INFINITY, lost = 0.0, share
    check("masses", masses.shape[0], n)
    cdef uint64_t before = begin_flush()
    for i in range(n):
        if masses[i] > 0.0:
            share = sums[i] / masses[i]
            if least == least and not share >= least:  # NaN stays
                least = share
        lost += max(masses[i] - sums[i], 0.0)
    end_flush(before)
    return least, lost

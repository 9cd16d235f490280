"""OpenMP loops over the rows of one matrix. The arithmetic of a block is C (csrc/), the
decisions are Python; this file only shares out rows and adds up partial sums.

Rules that hold for every function here and in _products.pyx and _sparse.pyx:

- arguments are C-contiguous, inputs `const`, outputs are passed in; shapes are checked
  because a wrong one would write outside a buffer, values are not;
- a matrix that is only read may be any `Rows` as well as an array;
- sums do not depend on the number of threads, see _rows.pyx;
- the GIL is released around every loop, and nothing inside one can raise.
"""
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t

from ._rows cimport (
    GWF_HUGE,
    ColumnSums,
    Product,
    Rows,
    as_rows,
    centered,
    check,
    check_matrix,
    chunk_length,
    chunk_rows,
    count_chunks,
    isa,
    team,
)

import numpy as np

# Elements of a vector that one chunk of an elementwise loop holds (64 KB).
cdef ptrdiff_t VECTOR_CHUNK = 16384


cdef inline ptrdiff_t strip_of(Rows source, ptrdiff_t size) noexcept nogil:
    """Rows at a time, of a chunk of `size`."""
    return min(source.strip, size) if source.strip else size


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
    cost,                      # IN (n, m)
    const double[::1] f,       # IN (n,)
    const double[::1] g,       # IN (m,)
    double epsilon,
    double[::1] out,           # OUT (n,)
    int n_threads=1,
):
    """``out_i = log sum_j exp((f_i + g_j - cost_ij) / epsilon)``, never overflowing.

    ``f_i - epsilon * out_i`` is the soft minimum over j of ``cost_ij - g_j``.
    """
    cdef Rows source = as_rows(cost)
    cdef ptrdiff_t n = source.n, m = source.m, chunk, i, end
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
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
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                isa.logsumexp_rows(
                    source.at(i, min(strip, end - i), &scratch[threadid(), 0]), &h[i],
                    &low[0], inv_epsilon, &out[i], min(strip, end - i), m)
                i = i + strip


def logsumexp_cols(
    cost,                      # IN (n, m)
    const double[::1] f,       # IN (n,)
    const double[::1] g,       # IN (m,)
    double epsilon,
    double[::1] out,           # OUT (m,)
    int n_threads=1,
):
    """``out_j = log sum_i exp((f_i + g_j - cost_ij) / epsilon)``, never overflowing."""
    cdef Rows source = as_rows(cost)
    cdef ptrdiff_t n = source.n, m = source.m, chunk, i, end
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
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
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                isa.logsumexp_cols(
                    source.at(i, min(strip, end - i), &scratch[threadid(), 0]), &f[i],
                    inv_epsilon, &top[chunk, 0], &sum_[chunk, 0], min(strip, end - i),
                    m)
                i = i + strip
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

def sinkhorn_passes(
    kernel,                      # IN (n, m)
    const double[::1] p,         # IN (n,)
    const double[::1] q,         # IN (m,)
    float[::1] u,                # IN/OUT (n,)
    float[::1] v,                # IN/OUT (m,)
    ColumnSums work not None,
    double omega=1.0,
    ptrdiff_t most=1,
    double tol=0.0,
    int n_threads=1,
):
    """Sinkhorn iterations, ``u = p / (K v)`` then ``v = q / (K' u)``, each in one read
    of the kernel; `most` of them, or up to that which finds an error of at most `tol`.

    With `omega` above one both updates are over-relaxed in the log domain,
    ``u = u_old^(1 - omega) (p / (K v))^omega`` (Thibault, Chizat, Dossal and
    Papadakis, Algorithms 2021).

    A row or column whose sum has underflowed to zero gets the scaling 0, and none gets
    more than float32 can hold: the mass that is missing shows in the next error instead
    of an infinity.

    Returns
    -------
    error : float
        ``|u * (K v) - p|_1`` before the last iteration, the row error of the plan
        that it found.
    done : int
        Iterations made.
    """
    cdef Rows source = as_rows(kernel)
    cdef ptrdiff_t n = source.n, m = source.m, chunk, i, end, done = 0
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    cdef float relaxation = <float>omega
    cdef double total = INFINITY
    check("p", p.shape[0], n)
    check("q", q.shape[0], m)
    check("u", u.shape[0], n)
    check("v", v.shape[0], m)
    check_matrix("work", work.n, work.m, n, m)
    cdef double[::1] error = np.empty(chunks)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    with nogil:
        while done < most and not total <= tol:
            for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                                schedule="static"):
                work.totals[chunk, :] = 0.0
                error[chunk] = 0.0
                end = min(chunk * size + size, n)
                i = chunk * size
                while i < end:
                    error[chunk] = error[chunk] + isa.sinkhorn_rows(
                        source.at(i, min(strip, end - i), &scratch[threadid(), 0]),
                        &p[i], &u[i], &v[0], relaxation, &work.blocks[chunk, 0],
                        &work.totals[chunk, 0], min(strip, end - i), m)
                    i = i + strip
            work.reduce(n_threads)
            isa.rescale(&v[0], &q[0], &work.totals[0, 0], relaxation, m)
            total = 0.0
            for chunk in range(chunks):
                total += error[chunk]
            done += 1
    return total, done


def rescale_columns(
    float[::1] v,         # IN/OUT (m,)
    const double[::1] q,  # IN (m,)
    ColumnSums work not None,
):
    """``v = q / c`` for the column sums c that `work` has been left with."""
    check("v", v.shape[0], work.m)
    check("q", q.shape[0], work.m)
    isa.rescale(&v[0], &q[0], &work.totals[0, 0], 1.0, work.m)


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


def distance(
    const float[:, ::1] a,  # IN (n, m)
    const float[:, ::1] b,  # IN (n, m)
    int n_threads=1,
):
    """``sum_ij |a_ij - b_ij|``."""
    cdef ptrdiff_t n = a.shape[0], m = a.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    check_matrix("b", b.shape[0], b.shape[1], n, m)
    partial = np.zeros(chunks)
    cdef double[::1] part = partial
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            i = chunk * size
            part[chunk] = isa.distance_rows(&a[i, 0], &b[i, 0],
                                            chunk_length(chunk, size, n), m)
    return float(partial.sum())


def entropy(plan, int n_threads=1):  # IN (n, m)
    """``-sum_ij plan_ij log plan_ij``, with 0 log 0 = 0."""
    cdef Rows source = as_rows(plan)
    cdef ptrdiff_t n = source.n, m = source.m, chunk, i, end
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    partial = np.zeros(chunks)
    cdef double[::1] part = partial
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                part[chunk] = part[chunk] + isa.entropy_rows(
                    source.at(i, min(strip, end - i), &scratch[threadid(), 0]),
                    min(strip, end - i), m)
                i = i + strip
    return float(partial.sum())


def copy_rows(
    Product rows not None,  # IN (n, m)
    float[:, ::1] out,      # OUT (n, m)
    int n_threads=1,
):
    """``out = rows``, for rows that are made when asked for."""
    cdef Product source = rows
    cdef ptrdiff_t n = source.n, m = source.m, chunk, i, end
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    source.right.check()
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                source.at(i, min(strip, end - i), &out[i, 0])
                i = i + strip


def topk_rows(
    x,                            # IN (n, m)
    ptrdiff_t[:, ::1] indices,    # OUT (n, k)
    float[:, ::1] values,         # OUT (n, k)
    int n_threads=1,
):
    """The k largest entries of every row, largest first; ties go to the lower column.

    NaN never wins over a number: rows are assumed to be free of it.
    """
    cdef Rows source = as_rows(x)
    cdef ptrdiff_t n = source.n, m = source.m, k = indices.shape[1], chunk, i, j, end
    cdef const float *made
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    check("rows of indices", indices.shape[0], n)
    check_matrix("values", values.shape[0], values.shape[1], n, k)
    if not 1 <= k <= m:
        raise ValueError(f"k must be between 1 and the {m} columns, got {k}")
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                made = source.at(i, min(strip, end - i), &scratch[threadid(), 0])
                for j in range(min(strip, end - i)):
                    isa.topk_row(made + j * m, k, &indices[i + j, 0], &values[i + j, 0],
                                 m)
                i = i + strip

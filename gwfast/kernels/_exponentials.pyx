"""OpenMP loops over exp and log: of a vector, and of what a matrix of costs makes with
potentials. The rules of _kernels.pyx hold.
"""
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t

from ._rows cimport (
    GWF_HUGE,
    N_CHUNKS,
    Rows,
    as_rows,
    begin_flush,
    center,
    centered,
    check,
    check_matrix,
    chunk_length,
    chunk_rows,
    count_chunks,
    end_flush,
    holds_float64,
    isa,
    real,
    strip_of,
    team,
)

import numpy as np

cdef object FLOAT32 = np.dtype(np.float32), FLOAT64 = np.dtype(np.float64)
# Elements of a vector that one chunk of an elementwise loop holds (64 KB).
cdef ptrdiff_t VECTOR_CHUNK = 16384


# --- Elementwise ----------------------------------------------------------------------

def exp(x, out, int n_threads=1):  # IN, OUT
    """``out = exp(x)``, at most 1.02 ulp off; 0 below -87.3365, infinity above 88.7228.

    In float64 these are 1.05 ulp, -708.396 and 709.783.

    `out` may be `x`.
    """
    if holds_float64(x):
        exp_of[double](x, out, n_threads)
    else:
        exp_of[float](x, out, n_threads)


cdef exp_of(const real[::1] x, real[::1] out, int n_threads):
    cdef ptrdiff_t m = x.shape[0], chunk, j
    cdef ptrdiff_t chunks = count_chunks(m, VECTOR_CHUNK)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check("out", out.shape[0], m)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            j = chunk * VECTOR_CHUNK
            table.exp(&x[j], &out[j], chunk_length(chunk, VECTOR_CHUNK, m))
            end_flush(before)


def log(x, out, int n_threads=1):  # IN, OUT
    """``out = log(x)``, at most 0.87 ulp off for every positive number.

    ``log(0)`` is -infinity, of a negative number NaN. `out` may be `x`.
    """
    if holds_float64(x):
        log_of[double](x, out, n_threads)
    else:
        log_of[float](x, out, n_threads)


cdef log_of(const real[::1] x, real[::1] out, int n_threads):
    cdef ptrdiff_t m = x.shape[0], chunk, j
    cdef ptrdiff_t chunks = count_chunks(m, VECTOR_CHUNK)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check("out", out.shape[0], m)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            j = chunk * VECTOR_CHUNK
            table.log(&x[j], &out[j], chunk_length(chunk, VECTOR_CHUNK, m))
            end_flush(before)


def absorb(
    const double[::1] f,   # IN (n,)
    u,                     # IN (n,)
    double epsilon,
    double[::1] out,       # OUT (n,), not `f`
):
    """``out = f + epsilon * log(u)``: potentials with scalings moved into them."""
    if holds_float64(u):
        absorb_of[double](f, u, epsilon, out)
    else:
        absorb_of[float](f, u, epsilon, out)


cdef absorb_of(
    const double[::1] f, const real[::1] u, double epsilon, double[::1] out
):
    cdef ptrdiff_t i, n = f.shape[0]
    check("u", u.shape[0], n)
    check("out", out.shape[0], n)
    cdef uint64_t before
    with nogil:
        before = begin_flush()
        for i in range(n):
            out[i] = u[i]
        if n:
            isa.f64.log(&out[0], &out[0], n)
        for i in range(n):
            out[i] = f[i] + epsilon * out[i]
        end_flush(before)


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
    check("f", f.shape[0], source.n)
    check("g", g.shape[0], source.m)
    check("out", out.shape[0], source.n)
    f_shifted, low = centered(f, g, source.is_float64)
    if source.is_float64:
        logsumexp_rows_of[double](source, f_shifted, low, epsilon, out, n_threads)
    else:
        logsumexp_rows_of[float](source, f_shifted, low, epsilon, out, n_threads)


cdef logsumexp_rows_of(
    Rows source, const double[::1] f, const real[::1] g, double epsilon,
    double[::1] out, int n_threads,
):
    cdef ptrdiff_t n = source.n, m = source.m, chunk, i, end
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    cdef real inv_epsilon = <real>(1.0 / epsilon)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                table.logsumexp_rows(
                    <const real *>source.at(i, min(strip, end - i),
                                            &scratch[threadid(), 0]),
                    &f[i], &g[0], inv_epsilon, &out[i], min(strip, end - i), m)
                i = i + strip
            end_flush(before)


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
    cdef ptrdiff_t n = source.n, m = source.m, chunks = count_chunks(n, chunk_rows(n))
    check("f", f.shape[0], n)
    check("g", g.shape[0], m)
    check("out", out.shape[0], m)
    dtype = np.float64 if source.is_float64 else np.float32
    tops = np.full((chunks, m), -GWF_HUGE, dtype=dtype)
    sums = np.zeros((chunks, m), dtype=dtype)
    if source.is_float64:
        inverse = logsumexp_cols_of[double](source, f, epsilon, tops, sums, n_threads)
    else:
        inverse = logsumexp_cols_of[float](source, f, epsilon, tops, sums, n_threads)
    best = tops.max(axis=0).astype(np.float64)
    cdef uint64_t before = begin_flush()
    try:
        with np.errstate(under="ignore", divide="ignore"):
            total = (sums * np.exp((tops - best) * inverse)).sum(axis=0)
            np.asarray(out)[:] = (np.asarray(g) + best) * inverse + np.log(total)
    finally:
        end_flush(before)


cdef double logsumexp_cols_of(
    Rows source, const double[::1] f, double epsilon, real[:, ::1] top,
    real[:, ::1] sum_, int n_threads,
) except? -1.0:
    """Maxima and sums of each chunk; returns 1 / epsilon as rounded in all kernels."""
    cdef ptrdiff_t n = source.n, m = source.m, chunk, i, end
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    cdef real inv_epsilon = <real>(1.0 / epsilon)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                table.logsumexp_cols(
                    <const real *>source.at(i, min(strip, end - i),
                                            &scratch[threadid(), 0]),
                    &f[i], inv_epsilon, &top[chunk, 0], &sum_[chunk, 0],
                    min(strip, end - i), m)
                i = i + strip
            end_flush(before)
    return inv_epsilon


def gibbs_kernel(
    cost,                      # IN (n, m)
    const double[::1] f,       # IN (n,)
    const double[::1] g,       # IN (m,)
    double epsilon,
    out,                       # OUT (n, m), may be `cost`
    int n_threads=1,
):
    """``out_ij = exp((f_i + g_j - cost_ij) / epsilon)``; returns the largest exponent.

    A largest exponent above 88, in float64 above 709, means that `out` holds
    infinities: use the log domain.
    """
    if holds_float64(cost):
        return gibbs_of[double](cost, f, g, epsilon, out, n_threads)
    return gibbs_of[float](cost, f, g, epsilon, out, n_threads)


cdef gibbs_of(
    const real[:, ::1] cost, const double[::1] f, const double[::1] g, double epsilon,
    real[:, ::1] out, int n_threads,
):
    cdef ptrdiff_t n = cost.shape[0], m = cost.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef real inv_epsilon = <real>(1.0 / epsilon)
    cdef double most = -INFINITY
    cdef double peak[N_CHUNKS]
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check("f", f.shape[0], n)
    check("g", g.shape[0], m)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    cdef double[::1] h = np.empty(n)
    cdef real[::1] low = np.empty(m, FLOAT64 if real is double else FLOAT32)
    center[real](f, g, h, low)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            i = chunk * size
            peak[chunk] = table.gibbs_rows(
                &cost[i, 0], &h[i], &low[0], inv_epsilon, &out[i, 0],
                chunk_length(chunk, size, n), m)
            end_flush(before)
    for chunk in range(chunks):
        most = max(most, peak[chunk])
    return most


def proximal_cost(
    cost,  # IN/OUT (n, m)
    plan,  # IN (n, m)
    double weight,
    int n_threads=1,
):
    """``cost_ij -= weight * log(plan_ij)`` in place, which turns the entropy of a plan
    that is looked for into its divergence from `plan`.

    What is below `_kernels.LEAST_ENTRY` counts as that: an entry of zero would be zero for ever.
    """
    if holds_float64(cost):
        proximal_of[double](cost, plan, weight, n_threads)
    else:
        proximal_of[float](cost, plan, weight, n_threads)


cdef proximal_of(
    real[:, ::1] cost, const real[:, ::1] plan, double weight, int n_threads
):
    cdef ptrdiff_t n = cost.shape[0], m = cost.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef real factor = <real>weight
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check_matrix("plan", plan.shape[0], plan.shape[1], n, m)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            i = chunk * size
            table.proximal_rows(&cost[i, 0], &plan[i, 0], factor,
                                chunk_length(chunk, size, n), m)
            end_flush(before)

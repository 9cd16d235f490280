"""OpenMP loops over exp and log of costs combined with potentials. The rules of _kernels.pyx hold.
"""
cimport numpy as cnp
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t

from ._rows cimport (
    GWF_HUGE,
    N_CHUNKS,
    Loop,
    begin_flush,
    check,
    end_flush,
    floats,
    holds_float64,
    isa,
)

import numpy as np


cdef double middle(const double[::1] g) noexcept nogil:
    """Return the mean of the finite part of `g`, 0.0 if there is none."""
    cdef ptrdiff_t j, finite = 0
    cdef double total = 0.0
    for j in range(g.shape[0]):
        if g[j] > -GWF_HUGE:
            total += g[j]
            finite += 1
    return total / finite if finite else 0.0


cdef tuple centered(const double[::1] f, const double[::1] g, bint is_float64):
    """Return `f + shift` and `g - shift`, with the finite part of `g - shift` around zero and in
    bytes of the type of the matrix.

    Only the sums f_i + g_j count; with small g_j the difference f_i - c_ij is small as well
    wherever there is mass, and little is lost to rounding.
    """
    cdef ptrdiff_t i, n = f.shape[0], m = g.shape[0]
    shifted, rest = np.empty(n), np.empty(m * 8 if is_float64 else m * 4, np.uint8)
    cdef double *high = <double *>cnp.PyArray_DATA(shifted)
    cdef void *low = cnp.PyArray_DATA(rest)
    cdef double less
    cdef uint64_t before = begin_flush()
    cdef double shift = middle(g)
    for i in range(n):
        high[i] = f[i] + shift
    for i in range(m):
        less = max(g[i] - shift, -<double>GWF_HUGE)
        if is_float64:
            (<double *>low)[i] = less
        else:
            (<float *>low)[i] = <float>less
    end_flush(before)
    return shifted, rest


def absorb(const double[::1] f, u, double epsilon, double[::1] out):
    """``out = f + epsilon * log(u)``: potentials that scalings are moved into; `out` is not `f`."""
    cdef bint is_float64 = holds_float64(u)
    cdef const void *scaling = floats("u", u, 1, is_float64)
    cdef ptrdiff_t i, n = f.shape[0]
    check("u", len(u), n)
    check("out", out.shape[0], n)
    cdef uint64_t before = begin_flush()
    for i in range(n):
        out[i] = (<const double *>scaling)[i] if is_float64 else (<const float *>scaling)[i]
    if n:
        isa.f64.log(&out[0], &out[0], n)
    for i in range(n):
        out[i] = f[i] + epsilon * out[i]
    end_flush(before)


def logsumexp_rows(
    cost, const double[::1] f, const double[::1] g, double epsilon, double[::1] out,
    int n_threads=1,
):
    """``out_i = log sum_j exp((f_i + g_j - cost_ij) / epsilon)``, never overflowing.

    ``f_i - epsilon * out_i`` is the soft minimum over j of ``cost_ij - g_j``.
    """
    cdef Loop loop = Loop("cost", cost, n_threads, True)
    cdef ptrdiff_t part, i, rows
    cdef int threads = loop.threads
    cdef double inverse = 1.0 / epsilon
    cdef const double[::1] high
    cdef const unsigned char[::1] low
    cdef uint64_t before
    check("f", f.shape[0], loop.n)
    check("g", g.shape[0], loop.m)
    check("out", out.shape[0], loop.n)
    high, low = centered(f, g, loop.is_float64)
    with nogil:
        for part in prange(loop.parts(), num_threads=threads, schedule="static"):
            before = begin_flush()
            i = part * loop.strip
            rows = min(loop.strip, loop.n - i)
            loop.table.logsumexp_rows(loop.at(i, rows, threadid()), &high[i], &low[0], inverse,
                                      &out[i], rows, loop.m)
            end_flush(before)


def logsumexp_cols(
    cost, const double[::1] f, const double[::1] g, double epsilon, double[::1] out,
    int n_threads=1,
):
    """``out_j = log sum_i exp((f_i + g_j - cost_ij) / epsilon)``, never overflowing."""
    cdef Loop loop = Loop("cost", cost, n_threads, True)
    cdef ptrdiff_t chunk, i, end, rows
    cdef int threads = loop.threads
    cdef double inverse = 1.0 / epsilon
    cdef uint64_t before
    check("f", f.shape[0], loop.n)
    check("g", g.shape[0], loop.m)
    check("out", out.shape[0], loop.m)
    dtype = np.float64 if loop.is_float64 else np.float32
    tops = np.full((loop.chunks, loop.m), -GWF_HUGE, dtype=dtype)
    sums = np.zeros_like(tops)
    cdef char *top = <char *>floats("tops", tops, 2, loop.is_float64)
    cdef char *sum_ = <char *>floats("sums", sums, 2, loop.is_float64)
    with nogil:
        for chunk in prange(loop.chunks, num_threads=threads, schedule="static"):
            before = begin_flush()
            i, end = chunk * loop.size, loop.end(chunk)
            while i < end:
                rows = min(loop.strip, end - i)
                loop.table.logsumexp_cols(
                    loop.at(i, rows, threadid()), &f[i], inverse, top + chunk * loop.row_bytes,
                    sum_ + chunk * loop.row_bytes, rows, loop.m)
                i = i + rows
            end_flush(before)
    best = tops.max(axis=0).astype(np.float64)
    scale = float(dtype(inverse))  # as the kernels have rounded it
    before = begin_flush()
    try:
        with np.errstate(under="ignore", divide="ignore"):
            total = (sums * np.exp((tops - best) * scale)).sum(axis=0)
            np.asarray(out)[:] = (np.asarray(g) + best) * scale + np.log(total)
    finally:
        end_flush(before)


def gibbs_kernel(
    cost, const double[::1] f, const double[::1] g, double epsilon, out, int n_threads=1
):
    """``out_ij = exp((f_i + g_j - cost_ij) / epsilon)``; returns the largest exponent. `out` may be
    `cost`.

    A largest exponent above 88, in float64 above 709, means that `out` holds infinities: use the
    log domain.
    """
    cdef Loop loop = Loop("cost", cost, n_threads)
    cdef char *kernel = <char *>loop.beside("out", out, True)
    cdef ptrdiff_t chunk, i
    cdef int threads = loop.threads
    cdef double inverse = 1.0 / epsilon, most = -INFINITY
    cdef double peak[N_CHUNKS]
    cdef const double[::1] high
    cdef const unsigned char[::1] low
    cdef uint64_t before
    check("f", f.shape[0], loop.n)
    check("g", g.shape[0], loop.m)
    high, low = centered(f, g, loop.is_float64)
    with nogil:
        for chunk in prange(loop.chunks, num_threads=threads, schedule="static"):
            before = begin_flush()
            i = chunk * loop.size
            peak[chunk] = loop.table.gibbs_rows(
                loop.at(i, 0, 0), &high[i], &low[0], inverse, kernel + i * loop.row_bytes,
                loop.end(chunk) - i, loop.m)
            end_flush(before)
    for chunk in range(loop.chunks):
        most = max(most, peak[chunk])
    return most


def proximal_cost(cost, plan, double weight, int n_threads=1):
    """``cost_ij -= weight * log(plan_ij)`` in place, which turns the entropy of a plan that is
    looked for into its divergence from `plan`.

    What is below `_kernels.LEAST_ENTRY` counts as that: an entry of zero would be zero for ever.
    """
    cdef Loop loop = Loop("cost", cost, n_threads, writes=True)
    cdef const char *known = <const char *>loop.beside("plan", plan)
    cdef ptrdiff_t chunk, i
    cdef int threads = loop.threads
    cdef uint64_t before
    with nogil:
        for chunk in prange(loop.chunks, num_threads=threads, schedule="static"):
            before = begin_flush()
            i = chunk * loop.size
            loop.table.proximal_rows(<void *>loop.at(i, 0, 0), known + i * loop.row_bytes, weight,
                                     loop.end(chunk) - i, loop.m)
            end_flush(before)

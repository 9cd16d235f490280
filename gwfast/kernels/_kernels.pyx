"""OpenMP loops over the rows of one matrix. The arithmetic of a block is C (csrc/), the
decisions are Python; this file only shares out rows and adds up partial sums.

Rules that hold for every function here and in _costs.pyx, _exponentials.pyx,
_products.pyx and _sparse.pyx:

- arguments are C-contiguous, inputs `const`, outputs are passed in; shapes are checked
  because a wrong one would write outside a buffer, values are not;
- a matrix may be float32 or float64, and what multiplies it entry by entry is of the
  same type; the functions look at one argument to tell, and the loops, which are of
  both, refuse what does not fit it. Masses, potentials and sums are float64;
- a matrix that is only read may be any `Rows` as well as an array;
- sums do not depend on the number of threads, see _rows.pyx;
- the GIL is released around every loop, and nothing inside one can raise.
"""
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY, fabs, log, sqrt
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t

from ._rows cimport (
    N_CHUNKS,
    ColumnSums,
    Rows,
    as_rows,
    begin_flush,
    check,
    check_matrix,
    chunk_length,
    chunk_rows,
    count_chunks,
    end_flush,
    holds_float64,
    isa,
    real,
    seconds,
    strip_of,
    team,
)

import numpy as np

cdef extern from "gwfast.h":
    const float GWF_LEAST_F32
    const double GWF_LEAST_F64

# Entries of a plan below this are zero, by type.
LEAST_ENTRY = {
    np.dtype(np.float32): <double>GWF_LEAST_F32, np.dtype(np.float64): GWF_LEAST_F64
}


# --- The scaling domain ---------------------------------------------------------------

def sinkhorn_passes(
    kernel,                      # IN (n, m)
    const double[::1] p,         # IN (n,)
    const double[::1] q,         # IN (m,)
    u,                           # IN/OUT (n,)
    v,                           # IN/OUT (m,)
    ColumnSums work not None,
    double omega=1.0,
    ptrdiff_t most=1,
    double tol=0.0,
    int n_threads=1,
    *,
    double cap=INFINITY,
):
    """Sinkhorn iterations, ``u = p / (K v)`` then ``v = q / (K' u)``, each in one read
    of the kernel; `most` of them, or up to that which finds an error of at most `tol`.

    With `omega` above one both updates are over-relaxed in the log domain, ``u = u_old^(1 - omega)
    (p / (K v))^omega`` (Thibault, Chizat, Dossal and Papadakis, Algorithms 2021).

    A row or column whose sum has underflowed to zero gets the scaling 0, and none gets more than
    its type can hold: the mass that is missing shows in the next error instead of an infinity.

    With a finite `cap`, ``u = min(p / (K v), cap)`` and ``v = min(q / (K' u), cap)``:
    for one, `p` and `q` bound the marginals from above (Chizat, Peyré, Schmitzer and
    Vialard, Mathematics of Computation 2018).

    Returns
    -------
    error : float
        ``|u * (K v) - p|_1`` before the last iteration, the row error of the plan
        that it found; ``|u * (K v) - min(p, cap * (K v))|_1`` with a cap, so that it
        vanishes at the solution here too.
    done : int
        Iterations made.

    Raises
    ------
    ValueError
        Also with both `omega` and `cap`.
    """
    cdef Rows source = as_rows(kernel)
    if omega != 1.0 and cap != INFINITY:
        raise ValueError(f"omega must be 1 with a cap, got {omega}")
    if source.is_float64:
        return passes_of[double](
            source, p, q, u, v, work, omega, most, tol, n_threads, cap)
    return passes_of[float](source, p, q, u, v, work, omega, most, tol, n_threads, cap)


cdef passes_of(
    Rows source, const double[::1] p, const double[::1] q, real[::1] u, real[::1] v,
    ColumnSums work, double omega, ptrdiff_t most, double tol, int n_threads,
    double cap,
):
    cdef ptrdiff_t n = source.n, m = source.m, chunk, done = 0
    cdef ptrdiff_t chunks = count_chunks(n, chunk_rows(n))
    cdef int threads = team(n_threads, chunks)
    cdef real relaxation = <real>omega
    cdef double total = INFINITY, began
    cdef bint one
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check("p", p.shape[0], n)
    check("q", q.shape[0], m)
    check("u", u.shape[0], n)
    check("v", v.shape[0], m)
    work.check(n, m, real is double)
    cdef double error[N_CHUNKS]
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    cdef uint64_t before, outside
    with nogil:
        outside = begin_flush()
        while done < most and not total <= tol:
            one, began = threads == 1 or work.prefers_one(), seconds()
            if one:
                # A team of one takes as long to make as a thousand entries to read.
                for chunk in range(chunks):
                    error[chunk] = pass_chunk[real](
                        source, &p[0], &u[0], &v[0], work, relaxation, cap,
                        &scratch[0, 0], chunk)
            else:
                for chunk in prange(chunks, num_threads=threads, schedule="static"):
                    before = begin_flush()
                    error[chunk] = pass_chunk[real](
                        source, &p[0], &u[0], &v[0], work, relaxation, cap,
                        &scratch[threadid(), 0], chunk)
                    end_flush(before)
            work.reduce(n_threads)
            table.rescale(&v[0], &q[0], &work.totals[0, 0], relaxation, cap, m)
            total = 0.0
            for chunk in range(chunks):
                total += error[chunk]
            done += 1
            work.took(one, seconds() - began)
        end_flush(outside)
    return total, done


cdef double pass_chunk(
    Rows source, const double *p, real *u, const real *v, ColumnSums work,
    real omega, double cap, float *scratch, ptrdiff_t chunk,
) noexcept nogil:
    """What a pass does with one chunk of rows; returns their error."""
    cdef ptrdiff_t n = source.n, m = source.m, size = chunk_rows(source.n), rows
    cdef ptrdiff_t strip = strip_of(source, size), i = chunk * size
    cdef ptrdiff_t end = min(i + size, n)
    cdef double error = 0.0
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    work.totals[chunk, :] = 0.0
    while i < end:
        rows = min(strip, end - i)
        error += table.sinkhorn_rows(
            <const real *>source.at(i, rows, scratch), p + i, u + i, v, omega, cap,
            <real *>&work.blocks[chunk, 0], &work.totals[chunk, 0], rows, m)
        i += strip
    return error


def normal_product(
    kernel,                   # IN (n, m)
    const double[::1] weights,  # IN (n,)
    x,                        # IN (m,)
    double[::1] row_sums,     # OUT (n,)
    ColumnSums work not None,
    int n_threads=1,
):
    """``r = K x`` in `row_sums`, and ``K' (weights * r)`` in `work`, in one read of the kernel.
    """
    cdef Rows source = as_rows(kernel)
    if source.is_float64:
        normal_of[double](source, weights, x, row_sums, work, n_threads)
    else:
        normal_of[float](source, weights, x, row_sums, work, n_threads)


cdef normal_of(
    Rows source, const double[::1] weights, const real[::1] x, double[::1] row_sums,
    ColumnSums work, int n_threads,
):
    cdef ptrdiff_t n = source.n, m = source.m, chunk, i, end, rows
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check("weights", weights.shape[0], n)
    check("x", x.shape[0], m)
    check("row_sums", row_sums.shape[0], n)
    work.check(n, m, real is double)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    cdef int threads = 1 if work.prefers_one() else team(n_threads, chunks)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=threads, schedule="static"):
            before = begin_flush()
            work.totals[chunk, :] = 0.0
            i = chunk * size
            end = min(i + size, n)
            while i < end:
                rows = min(strip, end - i)
                table.normal_rows(
                    <const real *>source.at(i, rows, &scratch[threadid(), 0]),
                    &weights[i], &x[0], &row_sums[i],
                    <real *>&work.blocks[chunk, 0], &work.totals[chunk, 0], rows, m)
                i = i + rows
            end_flush(before)
        work.reduce(n_threads)


def rescale_columns(
    v,                    # IN/OUT (m,)
    const double[::1] q,  # IN (m,)
    ColumnSums work not None,
    double omega=1.0,
):
    """``v = q / c`` for the column sums c that `work` has been left with; with `omega`
    over-relaxed, as in `sinkhorn_passes`.
    """
    if holds_float64(v):
        rescale_of[double](v, q, work, omega)
    else:
        rescale_of[float](v, q, work, omega)


cdef rescale_of(real[::1] v, const double[::1] q, ColumnSums work, double omega):
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check("v", v.shape[0], work.m)
    check("q", q.shape[0], work.m)
    cdef uint64_t before = begin_flush()
    table.rescale(&v[0], &q[0], &work.totals[0, 0], <real>omega, INFINITY, work.m)
    end_flush(before)


def drift(
    u,                    # IN (n,)
    v,                    # IN (m,)
    const double[::1] p,  # IN (n,)
    const double[::1] q,  # IN (m,)
):
    """Largest |log| of a scaling of a point that has mass; infinite where one is 0,
    infinite or no number.
    """
    if holds_float64(u):
        return drift_of[double](u, v, p, q)
    return drift_of[float](u, v, p, q)


cdef drift_of(
    const real[::1] u, const real[::1] v, const double[::1] p, const double[::1] q
):
    cdef double low = 1.0, high = 1.0
    check("p", p.shape[0], u.shape[0])
    check("q", q.shape[0], v.shape[0])
    cdef uint64_t before = begin_flush()
    cdef bint held = widen[real](u, p, &low, &high) and widen[real](v, q, &low, &high)
    end_flush(before)
    return max(-log(low), log(high)) if held else INFINITY


cdef bint widen(
    const real[::1] u, const double[::1] p, double *low, double *high
) noexcept nogil:
    """Make the range hold all scalings of mass; false where one is not to be held."""
    cdef ptrdiff_t i
    for i in range(u.shape[0]):
        if p[i] > 0.0:
            if not 0.0 < u[i] < INFINITY:
                return False
            low[0] = min(low[0], <double>u[i])
            high[0] = max(high[0], <double>u[i])
    return True


def scale_to_plan(
    kernel,                  # IN/OUT (n, m)
    u,                       # IN (n,)
    v,                       # IN (m,)
    double[::1] row_sums,    # OUT (n,)
    double[::1] col_sums,    # OUT (m,)
    ColumnSums work not None,
    int n_threads=1,
):
    """``kernel_ij *= u_i v_j`` in place, with the marginals of the plan it becomes. What
    is below `LEAST_ENTRY` becomes zero.
    """
    if holds_float64(kernel):
        scale_of[double](kernel, u, v, row_sums, col_sums, work, n_threads)
    else:
        scale_of[float](kernel, u, v, row_sums, col_sums, work, n_threads)


cdef scale_of(
    real[:, ::1] kernel, const real[::1] u, const real[::1] v, double[::1] row_sums,
    double[::1] col_sums, ColumnSums work, int n_threads,
):
    cdef ptrdiff_t n = kernel.shape[0], m = kernel.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check("u", u.shape[0], n)
    check("v", v.shape[0], m)
    check("row_sums", row_sums.shape[0], n)
    check("col_sums", col_sums.shape[0], m)
    work.check(n, m, real is double)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            i = chunk * size
            work.totals[chunk, :] = 0.0
            table.plan_rows(&kernel[i, 0], &u[i], &v[0], &row_sums[i],
                            <real *>&work.blocks[chunk, 0], &work.totals[chunk, 0],
                            chunk_length(chunk, size, n), m)
            end_flush(before)
        work.reduce(n_threads)
        col_sums[:] = work.totals[0, :m]


def marginals(
    plan,                  # IN (n, m)
    double[::1] row_sums,  # OUT (n,)
    double[::1] col_sums,  # OUT (m,)
    ColumnSums work not None,
    int n_threads=1,
):
    """Row and column sums of `plan`."""
    if holds_float64(plan):
        marginals_of[double](plan, row_sums, col_sums, work, n_threads)
    else:
        marginals_of[float](plan, row_sums, col_sums, work, n_threads)


cdef marginals_of(
    const real[:, ::1] plan, double[::1] row_sums, double[::1] col_sums,
    ColumnSums work, int n_threads,
):
    cdef ptrdiff_t n = plan.shape[0], m = plan.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check("row_sums", row_sums.shape[0], n)
    check("col_sums", col_sums.shape[0], m)
    work.check(n, m, real is double)
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            i = chunk * size
            work.totals[chunk, :] = 0.0
            table.sum_rows(&plan[i, 0], &row_sums[i], <real *>&work.blocks[chunk, 0],
                           &work.totals[chunk, 0], chunk_length(chunk, size, n), m)
            end_flush(before)
        work.reduce(n_threads)
        col_sums[:] = work.totals[0, :m]


# --- Reading a matrix -----------------------------------------------------------------

def dot(plan, cost, int n_threads=1):  # IN (n, m), IN (n, m)
    """``sum_ij plan_ij cost_ij``."""
    if holds_float64(plan):
        return dot_of[double](plan, cost, n_threads)
    return dot_of[float](plan, cost, n_threads)


cdef dot_of(const real[:, ::1] plan, const real[:, ::1] cost, int n_threads):
    cdef ptrdiff_t n = plan.shape[0], m = plan.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check_matrix("cost", cost.shape[0], cost.shape[1], n, m)
    cdef double part[N_CHUNKS]
    cdef double total = 0.0
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            i = chunk * size
            part[chunk] = table.dot_rows(&plan[i, 0], &cost[i, 0],
                                         chunk_length(chunk, size, n), m)
            end_flush(before)
        for chunk in range(chunks):
            total += part[chunk]
    return total


def distance(a, b, int n_threads=1):  # IN (n, m), IN (n, m)
    """``sum_ij |a_ij - b_ij|`` and ``sqrt(sum_ij (a_ij - b_ij)^2)``, in one read."""
    if holds_float64(a):
        return distance_of[double](a, b, n_threads)
    return distance_of[float](a, b, n_threads)


cdef distance_of(const real[:, ::1] a, const real[:, ::1] b, int n_threads):
    cdef ptrdiff_t n = a.shape[0], m = a.shape[1], chunk, i
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check_matrix("b", b.shape[0], b.shape[1], n, m)
    cdef double part[N_CHUNKS]
    cdef double square[N_CHUNKS]
    cdef double total = 0.0, squares = 0.0
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            i = chunk * size
            part[chunk] = table.distance_rows(
                &a[i, 0], &b[i, 0], &square[chunk], chunk_length(chunk, size, n), m)
            end_flush(before)
        for chunk in range(chunks):
            total += part[chunk]
            squares += square[chunk]
    return total, sqrt(squares)


def deviation(const double[::1] sums, const double[::1] masses):  # IN (n,), IN (n,)
    """``sum_i |sums_i - masses_i|``."""
    cdef ptrdiff_t i, n = sums.shape[0]
    cdef double total = 0.0
    check("masses", masses.shape[0], n)
    cdef uint64_t before = begin_flush()
    for i in range(n):
        total += fabs(sums[i] - masses[i])
    end_flush(before)
    return total


def mass_entropy(const double[::1] masses):  # IN (n,)
    """``-sum_i masses_i log masses_i``, with 0 log 0 = 0."""
    cdef ptrdiff_t i
    cdef double total = 0.0
    cdef uint64_t before = begin_flush()
    for i in range(masses.shape[0]):
        if masses[i] > 0.0:
            total -= masses[i] * log(masses[i])
    end_flush(before)
    return total


def kept(const double[::1] sums, const double[::1] masses):  # IN (n,), IN (n,)
    """How much of masses the sums of a plan have: the least fraction of any, NaN if one
    is, infinite without masses; and the mass lost, ``sum_i max(masses_i - sums_i, 0)``.
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


def entropy(plan, int n_threads=1):  # IN (n, m)
    """``-sum_ij plan_ij log plan_ij``, with 0 log 0 = 0."""
    cdef Rows source = as_rows(plan)
    cdef ptrdiff_t n = source.n, m = source.m, chunk, i, end
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    cdef const void *made
    cdef double part[N_CHUNKS]
    cdef double total = 0.0
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            part[chunk] = 0.0
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                made = source.at(i, min(strip, end - i), &scratch[threadid(), 0])
                if source.is_float64:
                    part[chunk] = part[chunk] + isa.f64.entropy_rows(
                        <const double *>made, min(strip, end - i), m)
                else:
                    part[chunk] = part[chunk] + isa.f32.entropy_rows(
                        <const float *>made, min(strip, end - i), m)
                i = i + strip
            end_flush(before)
        for chunk in range(chunks):
            total += part[chunk]
    return total


def copy_rows(
    Rows rows not None,  # IN (n, m)
    float[:, ::1] out,   # OUT (n, m)
    int n_threads=1,
):
    """``out = rows``, for rows that are made when asked for."""
    cdef ptrdiff_t n = rows.n, m = rows.m, chunk, i, end
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(rows, size)
    check_matrix("out", out.shape[0], out.shape[1], n, m)
    if not rows.strip:
        raise ValueError("rows must be made when asked for")
    rows.ready()
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                rows.at(i, min(strip, end - i), &out[i, 0])
                i = i + strip
            end_flush(before)


def topk_rows(
    x,                            # IN (n, m)
    ptrdiff_t[:, ::1] indices,    # OUT (n, k)
    values,                       # OUT (n, k)
    int n_threads=1,
):
    """The k largest entries of every row, largest first; ties go to the lower column.

    NaN never wins over a number: rows are assumed to be free of it.
    """
    cdef Rows source = as_rows(x)
    if source.is_float64:
        topk_of[double](source, indices, values, n_threads)
    else:
        topk_of[float](source, indices, values, n_threads)


cdef topk_of(
    Rows source, ptrdiff_t[:, ::1] indices, real[:, ::1] values, int n_threads
):
    cdef ptrdiff_t n = source.n, m = source.m, k = indices.shape[1], chunk, i, j, end
    cdef const real *made
    cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
    cdef ptrdiff_t strip = strip_of(source, size)
    cdef float[:, ::1] scratch = source.scratch(n_threads)
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    check("rows of indices", indices.shape[0], n)
    check_matrix("values", values.shape[0], values.shape[1], n, k)
    if not 1 <= k <= m:
        raise ValueError(f"k must be between 1 and the {m} columns, got {k}")
    cdef uint64_t before
    with nogil:
        for chunk in prange(chunks, num_threads=team(n_threads, chunks),
                            schedule="static"):
            before = begin_flush()
            end = min(chunk * size + size, n)
            i = chunk * size
            while i < end:
                made = <const real *>source.at(i, min(strip, end - i),
                                               &scratch[threadid(), 0])
                for j in range(min(strip, end - i)):
                    table.topk_row(made + j * m, k, &indices[i + j, 0],
                                   &values[i + j, 0], m)
                i = i + strip
            end_flush(before)

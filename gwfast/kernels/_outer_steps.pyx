"""Outer iterations of small problems, many in one call on one thread without the GIL:
where an iteration takes some microseconds, so does every call from Python. The rules of
_kernels.pyx hold.
"""
from libc.math cimport INFINITY, exp, fabs, sqrt
from libc.stddef cimport ptrdiff_t
from libc.string cimport memcpy, memset

from ._rows cimport (
    Panels,
    center,
    check,
    check_matrix,
    count_chunks,
    holds_float64,
    isa,
    real,
)

import numpy as np

from ._rows import aligned_empty

# What an iteration has shown: columns of `steps`.
FIELDS = ("separable", "product", "linear", "change", "moved", "error", "n_inner")
cdef enum:
    SEPARABLE, PRODUCT, LINEAR, CHANGE, MOVED, ERROR, N_INNER, N_FIELDS


# Why iterations ended: there were as many as were asked for; the last is one to be
# looked at; the next is to be made otherwise.
MORE, DECIDE, OTHERWISE = range(3)
cdef enum:
    MORE_, DECIDE_, OTHERWISE_


cdef struct Limits:
    double fraction, rough, least, peak, scaling, change, moved, tol, rounding
    ptrdiff_t most_inner


def outer_steps(
    left,                        # IN (n, n)
    Panels right not None,       # IN (m, m), the transpose
    linear,                      # IN (n, m) or None
    plan,                        # IN/OUT (n, m)
    cost,                        # IN/OUT (n, m)
    double[::1] f,               # IN/OUT (n,)
    double[::1] g,               # IN/OUT (m,)
    const double[::1] p,         # IN (n,)
    const double[::1] q,         # IN (m,)
    const double[::1] row_cost,  # IN (n,)
    const double[::1] col_cost,  # IN (m,)
    double[::1] rows,            # OUT (n,)
    double[::1] cols,            # OUT (m,)
    double[:, ::1] steps,        # OUT (most, 7)
    double epsilon,
    double change,
    double value=INFINITY,
    *,
    double fraction=0.01,
    double rough=INFINITY,
    double least=0.0,
    ptrdiff_t most_inner=100,
    double peak=60.0,
    double drift=25.0,
    double least_change=0.0,
    double least_moved=0.0,
    double tol=INFINITY,
    double rounding=0.0,
):
    """Up to ``len(steps)`` iterations of projected gradient descent, each

        K = exp((f_i + g_j - cost_ij) / epsilon),
        plan = diag(u) K diag(v) with marginals `p` and `q`,
        f += epsilon log u,  g += epsilon log v,
        cost = left plan right + linear,

    whose scalings are found by plain Sinkhorn iterations, until their error is at most
    ``max(least, min(rough, fraction * change))``, of the `change` before.

    The last is the first after which there is something to decide: the plan has changed
    by at most `least_change`, or `least_moved`; by less than its marginals are wrong
    by; or the objective has grown by more than `tol` of it and `rounding`. One that
    would take more than `most_inner` Sinkhorn iterations, exponents above `peak` or
    logarithms of scalings beyond `drift` is not made: all is left as it was before.

    Parameters
    ----------
    change, value : float
        Of the iteration before: the change of the plan, and its objective,
        ``<row sums, row_cost> + <column sums, col_cost> + <plan, cost + linear>``.

    Returns
    -------
    done : int
        Iterations made. Of each there is a row of `steps`: the parts of the objective,
        of both marginals, the cost and `linear`; the change of the plan, in L1 and in
        the Frobenius norm; the L1 error of its marginals, which the last leaves in
        `rows` and `cols`; and its Sinkhorn iterations.
    status : int
        MORE, DECIDE or OTHERWISE.
    """
    cdef Limits limits
    limits.fraction, limits.rough, limits.least = fraction, rough, least
    limits.peak, limits.scaling, limits.most_inner = peak, exp(drift), most_inner
    limits.change, limits.moved = least_change, least_moved
    limits.tol, limits.rounding = tol, rounding
    if holds_float64(plan):
        return steps_of[double](left, right, linear, plan, cost, f, g, p, q, row_cost,
                                col_cost, rows, cols, steps, epsilon, change, value,
                                limits)
    return steps_of[float](left, right, linear, plan, cost, f, g, p, q, row_cost,
                           col_cost, rows, cols, steps, epsilon, change, value, limits)


cdef tuple steps_of(
    const real[:, ::1] left, Panels right, const real[:, ::1] linear,
    real[:, ::1] plan, real[:, ::1] cost, double[::1] f, double[::1] g,
    const double[::1] p, const double[::1] q, const double[::1] row_cost,
    const double[::1] col_cost, double[::1] rows, double[::1] cols,
    double[:, ::1] steps, double epsilon, double change, double value, Limits limits,
):
    cdef ptrdiff_t n = p.shape[0], m = q.shape[0], done = 0, most = steps.shape[0]
    cdef int status = MORE_
    check_shapes(left, right, steps, (plan, cost, linear), (f, p, row_cost, rows),
                 (g, q, col_cost, cols))
    dtype = np.asarray(plan).dtype
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    cdef ptrdiff_t width = (m + table.lanes - 1) // table.lanes * table.lanes
    cdef real[:, ::1] kernel = aligned_empty((n, m), dtype)
    cdef real[:, ::1] half = aligned_empty((n, m), dtype)
    cdef real[::1] packed = aligned_empty(n * width, dtype)
    cdef real[::1] u = np.empty(n, dtype), v = np.empty(m, dtype)
    cdef real[::1] block = np.empty(m, dtype), low = np.empty(m, dtype)
    cdef double[::1] high = np.empty(n), sums = np.empty(m)
    cdef double[::1] logs = np.empty(max(n, m))
    cdef double tol, before
    cdef ptrdiff_t inner
    cdef double *step
    with nogil:
        while status == MORE_ and done < most:
            step = &steps[done, 0]
            center[real](f, g, high, low)
            if table.gibbs_rows(&cost[0, 0], &high[0], &low[0], <real>(1.0 / epsilon),
                                &kernel[0, 0], n, m) > limits.peak:
                status = OTHERWISE_
                break
            tol = max(limits.least, min(limits.rough, limits.fraction * change))
            inner = fit[real](kernel, p, q, u, v, block, sums, tol, limits)
            if inner < 0:
                status = OTHERWISE_
                break
            memset(&cols[0], 0, m * sizeof(double))
            table.plan_rows(&kernel[0, 0], &u[0], &v[0], &rows[0], &block[0], &cols[0],
                            n, m)
            step[ERROR] = deviation(rows, p) + deviation(cols, q)
            step[N_INNER] = inner
            step[CHANGE] = table.distance_rows(&kernel[0, 0], &plan[0, 0], &step[MOVED],
                                               n, m)
            step[MOVED] = sqrt(step[MOVED])
            memcpy(&plan[0, 0], &kernel[0, 0], n * m * sizeof(real))
            absorb[real](f, u, epsilon, logs)
            absorb[real](g, v, epsilon, logs)
            multiply[real](left, right, plan, half, packed, cost)
            step[LINEAR] = 0.0
            if linear is not None:
                add[real](linear, cost)
                step[LINEAR] = table.dot_rows(&plan[0, 0], &linear[0, 0], n, m)
            step[PRODUCT] = table.dot_rows(&plan[0, 0], &cost[0, 0], n, m)
            step[SEPARABLE] = (isa.f64.dot_rows(&rows[0], &row_cost[0], 1, n)
                               + isa.f64.dot_rows(&cols[0], &col_cost[0], 1, m))
            before, change = value, step[CHANGE]
            value = step[SEPARABLE] + step[PRODUCT] + step[LINEAR]
            done += 1
            if (change <= max(limits.change, step[ERROR])
                    or step[MOVED] <= limits.moved
                    or value > before + limits.tol * fabs(before) + limits.rounding):
                status = DECIDE_
    return done, status


cdef check_shapes(left, Panels right, steps, plans, of_rows, of_cols):
    n, m = len(of_rows[0]), len(of_cols[0])
    for one in of_rows:
        check("vectors of rows", len(one), n)
    for one in of_cols:
        check("vectors of columns", len(one), m)
    for name, one in zip(("plan", "cost", "linear"), plans):
        if one is not None:
            check_matrix(name, one.shape[0], one.shape[1], n, m)
    check_matrix("left", left.shape[0], left.shape[1], n, n)
    check_matrix("right", right.k, right.m, m, m)
    check("columns of steps", steps.shape[1], N_FIELDS)
    right.check(left.itemsize == sizeof(double))


cdef ptrdiff_t fit(
    real[:, ::1] kernel, const double[::1] p, const double[::1] q, real[::1] u,
    real[::1] v, real[::1] block, double[::1] sums, double tol, Limits limits,
) noexcept nogil:
    """Scalings to that error of the marginals; returns the iterations that took, or -1
    where they do not get there.
    """
    cdef ptrdiff_t n = p.shape[0], m = q.shape[0], i, done = 0
    cdef double error = INFINITY
    cdef bint holds
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    for i in range(n):
        u[i] = 1.0
    for i in range(m):
        v[i] = 1.0
    while not error <= tol:
        if done == limits.most_inner:
            return -1
        memset(&sums[0], 0, m * sizeof(double))
        error = table.sinkhorn_rows(&kernel[0, 0], &p[0], &u[0], &v[0], 1.0, INFINITY,
                                    &block[0], &sums[0], n, m)
        table.rescale(&v[0], &q[0], &sums[0], 1.0, INFINITY, m)
        done += 1
    holds = within[real](u, p, limits.scaling) and within[real](v, q, limits.scaling)
    return done if holds else -1


cdef bint within(
    const real[::1] u, const double[::1] p, double most
) noexcept nogil:
    """Whether no scaling of mass is above `most` or below its inverse."""
    cdef ptrdiff_t i
    for i in range(u.shape[0]):
        if p[i] > 0.0 and not 1.0 / most <= u[i] <= most:
            return False
    return True


cdef void absorb(
    double[::1] f, const real[::1] u, double epsilon, double[::1] logs
) noexcept nogil:
    """f += epsilon log u."""
    cdef ptrdiff_t i, n = f.shape[0]
    for i in range(n):
        logs[i] = u[i]
    isa.f64.log(&logs[0], &logs[0], n)
    for i in range(n):
        f[i] += epsilon * logs[i]


cdef double deviation(const double[::1] sums, const double[::1] masses) noexcept nogil:
    cdef ptrdiff_t i
    cdef double total = 0.0
    for i in range(sums.shape[0]):
        total += fabs(sums[i] - masses[i])
    return total


cdef void multiply(
    const real[:, ::1] left, Panels right, const real[:, ::1] plan, real[:, ::1] half,
    real[::1] packed, real[:, ::1] out,
) noexcept nogil:
    """out = left plan right."""
    cdef ptrdiff_t n = plan.shape[0], m = plan.shape[1], panel, j
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    table.product_rows(&plan[0, 0], m, <const real *>&right.packed[0], m, &half[0, 0],
                       m, n, m, False)
    for panel in range(count_chunks(m, table.panel)):
        j = panel * table.panel
        table.pack_panel(&half[0, j], m, 1, NULL, n, min(table.panel, m - j),
                         &packed[j * n])
    table.product_rows(&left[0, 0], n, &packed[0], n, &out[0, 0], m, n, m, False)


cdef void add(const real[:, ::1] some, real[:, ::1] to) noexcept nogil:
    cdef ptrdiff_t i, j
    for i in range(to.shape[0]):
        for j in range(to.shape[1]):
            to[i, j] += some[i, j]

"""Outer iterations of a small problem in one call, on one thread without the GIL: where
an iteration takes some microseconds, so does every call from Python. The rules of
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


# Why iterations ended: as many are made as were asked for; the plan has settled, with
# its marginals; the next iteration is for another solver.
MORE, SETTLED, OTHERWISE = range(3)
cdef enum:
    MORE_, SETTLED_, OTHERWISE_

# Kernels made of one linear problem, at most: its scalings are absorbed in between.
# Iterations in which the change has to fall by a factor: where it falls more slowly,
# accelerated iterations get nearer to where it vanishes.
cdef enum:
    MOST_KERNELS = 8, PACE = 40
cdef double FALLS = 0.5


cdef struct Limits:
    double fraction, least_fraction, rough, exact, least, marginal, peak, scaling
    double tol, floor, rounding
    ptrdiff_t most_inner, every
    bint frobenius, proximal


def outer_steps(
    factors,                     # IN (n, n) and Panels (m, m), the transpose
    others,                      # IN their transposes, likewise, or None
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
    double[:, ::1] steps,        # IN/OUT (done + most, 7)
    ptrdiff_t done,
    double epsilon,
    *,
    double value=INFINITY,
    double constant=0.0,
    bint settled=False,
    bint last=False,
    double fraction=0.01,
    double least_fraction=0.0,
    double rough=INFINITY,
    double exact=0.0,
    double marginal=INFINITY,
    double least=0.0,
    ptrdiff_t most_inner=1000,
    double peak=60.0,
    double drift=25.0,
    double tol=0.0,
    double floor=0.0,
    double rounding=0.0,
    bint frobenius=False,
    ptrdiff_t every=1,
    bint proximal=False,
):
    """Up to ``len(steps) - done`` iterations of projected gradient descent, each

        K = exp((f_i + g_j - cost_ij) / epsilon),
        plan = diag(u) K diag(v) with marginals `p` and `q`,
        f += epsilon log u,  g += epsilon log v,
        cost = left plan right + linear,

    with the mean of `left plan right` and the same of the transposes if there are
    `others`; of proximal steps K is multiplied by the plan before. The scalings are
    found by plain Sinkhorn iterations to an error of ``max(aim, min(rough, fraction *
    change))``, of the `change` before, where ``aim`` is the least of `marginal` and
    `exact` (with `frobenius` not more than ``fraction * change`` either, but for
    `least`), and to that itself where the plan may be the last.

    The plan has settled where its change and that of the objective are within `tol` of
    them, or `rounding`; with `frobenius` where it moves by `tol` and no more than
    before, or changes by `floor`, after the first iteration and each `every`-th one
    after it. An iteration ends all if its linear problem takes more than `most_inner`
    iterations or exponents above `peak`, and is then not made; after it all ends if the
    change has not halved in the last 40 iterations. Where the objective, which has
    no entropy, rises, `fraction` is halved, down to `least_fraction`.

    Parameters
    ----------
    done : int
        Iterations before, whose rows of `steps` are read.
    value, constant : float
        Objective before, ``<row sums, row_cost> + <column sums, col_cost> + <plan, cost
        + linear> + constant``, or infinity.
    settled : bool
        Whether the plan had settled, but for its marginals.
    last : bool
        Whether the last of these iterations is the last of all.

    Returns
    -------
    done : int
        Iterations in all. Of each there is a row of `steps`: the parts of the
        objective, of both marginals, the cost and `linear`; the change of the plan, in
        L1 and in the Frobenius norm; the L1 error of its marginals, which the last
        leaves in `rows` and `cols`; and its Sinkhorn iterations.
    status : int
        MORE, SETTLED or OTHERWISE.
    settled : bool
        See there.
    fraction : float
        For the next iteration.
    """
    cdef Limits limits
    limits.fraction, limits.least_fraction = fraction, least_fraction
    limits.rough, limits.exact = rough, exact
    limits.least, limits.marginal, limits.most_inner = least, marginal, most_inner
    limits.peak, limits.scaling = peak, exp(drift)
    limits.tol, limits.floor, limits.rounding = tol, floor, rounding
    limits.every, limits.frobenius, limits.proximal = every, frobenius, proximal
    left, right = factors
    left_t, right_t = (None, None) if others is None else others
    if holds_float64(plan):
        return steps_of[double](left, right, left_t, right_t, linear, plan, cost, f, g,
                                p, q, row_cost, col_cost, rows, cols, steps, done,
                                epsilon, value, constant, settled, last, limits)
    return steps_of[float](left, right, left_t, right_t, linear, plan, cost, f, g, p, q,
                           row_cost, col_cost, rows, cols, steps, done, epsilon, value,
                           constant, settled, last, limits)


cdef tuple steps_of(
    const real[:, ::1] left, Panels right, const real[:, ::1] left_t, Panels right_t,
    const real[:, ::1] linear, real[:, ::1] plan, real[:, ::1] cost, double[::1] f,
    double[::1] g, const double[::1] p, const double[::1] q,
    const double[::1] row_cost, const double[::1] col_cost, double[::1] rows,
    double[::1] cols, double[:, ::1] steps, ptrdiff_t done, double epsilon,
    double value, double constant, bint settled, bint last, Limits limits,
):
    cdef ptrdiff_t n = p.shape[0], m = q.shape[0], most = steps.shape[0], inner
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
    cdef double before, change = steps[done - 1, CHANGE] if done else 1.0
    cdef double *step
    with nogil:
        while status == MORE_ and done < most:
            step = &steps[done, 0]
            inner = solve[real](cost, plan, kernel, p, q, f, g, u, v, block, low, high,
                                sums, logs, epsilon,
                                aim_of(change, settled or (last and done + 1 == most),
                                       limits), limits)
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
            if left_t is not None:
                multiply[real](left_t, right_t, plan, half, packed, kernel)
                average[real](kernel, cost)
            step[LINEAR] = 0.0
            if linear is not None:
                add[real](linear, cost)
                step[LINEAR] = table.dot_rows(&plan[0, 0], &linear[0, 0], n, m)
            step[PRODUCT] = table.dot_rows(&plan[0, 0], &cost[0, 0], n, m)
            step[SEPARABLE] = (isa.f64.dot_rows(&rows[0], &row_cost[0], 1, n)
                               + isa.f64.dot_rows(&cols[0], &col_cost[0], 1, m))
            before, change = value, step[CHANGE]
            value = step[SEPARABLE] + step[PRODUCT] + step[LINEAR] + constant
            done += 1
            settled = settles(steps, done, value, before, settled, limits)
            if settled and step[ERROR] <= limits.marginal:
                status = SETTLED_
            elif done % PACE == 0 and change > FALLS * steps[done - PACE, CHANGE]:
                status = OTHERWISE_
            if value > before + limits.tol * fabs(before) + limits.rounding:
                limits.fraction = max(limits.fraction / 2, limits.least_fraction)
    return done, status, settled, limits.fraction


cdef double aim_of(double change, bint thorough, Limits limits) noexcept nogil:
    """The error of the marginals at which a linear problem is solved."""
    cdef double rough = min(limits.rough, limits.fraction * change), aim = limits.exact
    if limits.frobenius:
        aim = max(limits.least, min(aim, rough))
    aim = min(limits.marginal, aim)
    return aim if thorough else max(aim, rough)


cdef bint settles(
    const double[:, ::1] steps, ptrdiff_t done, double value, double before,
    bint settled, Limits limits,
) noexcept nogil:
    """Whether the plan has settled with the last of the iterations that are done."""
    cdef double change = steps[done - 1, CHANGE], moved = steps[done - 1, MOVED]
    if not limits.frobenius:
        return (change <= limits.tol
                and fabs(value - before) <= limits.tol * fabs(value) + limits.rounding)
    cdef double earlier = steps[done - 2, MOVED] if done > 1 else moved
    return ((moved <= limits.tol or change <= limits.floor)
            and ((done - 1) % limits.every == 0 or settled)
            and not (earlier < moved and moved > limits.least))


cdef ptrdiff_t solve(
    const real[:, ::1] cost, const real[:, ::1] plan, real[:, ::1] kernel,
    const double[::1] p, const double[::1] q, double[::1] f, double[::1] g,
    real[::1] u, real[::1] v, real[::1] block, real[::1] low, double[::1] high,
    double[::1] sums, double[::1] logs, double epsilon, double tol, Limits limits,
) noexcept nogil:
    """The kernel around potentials that fit it, and scalings to that error of the
    marginals; returns the iterations that took, or -1 where they do not get there.
    """
    cdef ptrdiff_t n = p.shape[0], m = q.shape[0], done = 0, made
    cdef int _
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    for _ in range(MOST_KERNELS):
        memcpy(&kernel[0, 0], &cost[0, 0], n * m * sizeof(real))
        if limits.proximal:
            table.proximal_rows(&kernel[0, 0], &plan[0, 0], <real>epsilon, n, m)
        center[real](f, g, high, low)
        if table.gibbs_rows(&kernel[0, 0], &high[0], &low[0], <real>(1.0 / epsilon),
                            &kernel[0, 0], n, m) > limits.peak:
            return -1
        made = fit[real](kernel, p, q, u, v, block, sums, tol,
                         limits.most_inner - done)
        done += made if made >= 0 else limits.most_inner
        if within[real](u, p, limits.scaling) and within[real](v, q, limits.scaling):
            return done if made >= 0 else -1
        if made < 0 or not (alive[real](u, p) and alive[real](v, q)):
            return -1
        absorb[real](f, u, epsilon, logs)
        absorb[real](g, v, epsilon, logs)
    return -1


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
    real[::1] v, real[::1] block, double[::1] sums, double tol, ptrdiff_t most,
) noexcept nogil:
    """Scalings to that error of the marginals; returns the iterations that took, or -1
    where so many are not enough.
    """
    cdef ptrdiff_t n = p.shape[0], m = q.shape[0], i, done = 0
    cdef double error = INFINITY
    if real is float:
        table = isa.f32
    else:
        table = isa.f64
    for i in range(n):
        u[i] = 1.0
    for i in range(m):
        v[i] = 1.0
    while not error <= tol:
        if done >= most:
            return -1
        memset(&sums[0], 0, m * sizeof(double))
        error = table.sinkhorn_rows(&kernel[0, 0], &p[0], &u[0], &v[0], 1.0, INFINITY,
                                    &block[0], &sums[0], n, m)
        table.rescale(&v[0], &q[0], &sums[0], 1.0, INFINITY, m)
        done += 1
    return done


cdef bint within(
    const real[::1] u, const double[::1] p, double most
) noexcept nogil:
    """Whether no scaling of mass is above `most` or below its inverse."""
    cdef ptrdiff_t i
    for i in range(u.shape[0]):
        if p[i] > 0.0 and not 1.0 / most <= u[i] <= most:
            return False
    return True


cdef bint alive(const real[::1] u, const double[::1] p) noexcept nogil:
    """Whether all scalings of mass are positive numbers."""
    cdef ptrdiff_t i
    for i in range(u.shape[0]):
        if p[i] > 0.0 and not 0.0 < u[i] < INFINITY:
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


cdef void average(const real[:, ::1] some, real[:, ::1] to) noexcept nogil:
    """to = (some + to) / 2."""
    cdef ptrdiff_t i, j
    for i in range(to.shape[0]):
        for j in range(to.shape[1]):
            to[i, j] = <real>0.5 * (some[i, j] + to[i, j])

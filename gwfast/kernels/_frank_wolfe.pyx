"""Conditional gradient steps (Frank and Wolfe) on the functions of
_quadratic_plan.pyx, with exact line search.

The vertex S that minimizes ``<G, S>`` comes from one of three oracles: exact transport
between fixed marginals, the same where only a part of the mass moves, or each row by
itself. All else that a step needs is a sum over entries of a vertex.
"""
cimport cython
from libc.math cimport INFINITY, fabs, sqrt
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from ._quadratic_plan cimport QuadraticPlan, Terms, Vertex, take
from ._rows cimport begin_flush, check_matrix, end_flush, isa, seconds
from ._transport cimport Transport

import numpy as np

from ._transport import ROUNDING, UNITS

cdef double ROUNDING_ = ROUNDING
cdef double UNITS_ = UNITS
# Steps after which sums that are kept up to date are made anew.
cdef ptrdiff_t ANEW = 32
# Change of E in a step, as a fraction of it, that is next to nothing.
cdef double STILL = 1e-9
# The same as a fraction of the gap: the way there is long, between vertices.
cdef double FEW = 0.01
# Nodes that the pivots of one call may touch, at most: a fraction of a second.
cdef ptrdiff_t TOUCHED = 1 << 26
# What `advance` may end with.
MORE, CONVERGED, STALLED = range(3)


cdef const double *address(
    str name, const double[:, ::1] matrix, ptrdiff_t n, ptrdiff_t m
) except? NULL:
    """Of a matrix of this shape; None is NULL."""
    if matrix is None:
        return NULL
    check_matrix(name, matrix.shape[0], matrix.shape[1], n, m)
    return &matrix[0, 0]


cdef object centered(
    const double *values, const double *masses, ptrdiff_t n, double factor
):
    """Values (n, n) times a factor, which masses center and weigh."""
    cdef ptrdiff_t i, j
    cdef double mean = 0.0, total = 0.0
    cdef double[::1] means = np.empty(n)
    cdef double[:, ::1] made = np.empty((n, n))
    isa.f64.dot_each_row(values, masses, &means[0], n, n)
    for i in range(n):
        total += masses[i]
        mean += masses[i] * means[i]
    for i in range(n):
        for j in range(n):
            made[i, j] = factor * sqrt(masses[i] * masses[j]) * (
                values[i * n + j] - (means[i] + means[j] - mean / total) / total
            )
    return made.base


cdef void by_point(
    const double[:] vector, const double *masses, double factor, double[::1] out
) noexcept nogil:
    """A factor times what an eigenvector gives to each point, its largest positive."""
    cdef ptrdiff_t i, peak = 0, n = vector.shape[0]
    for i in range(n):
        if fabs(vector[i]) > fabs(vector[peak]):
            peak = i
    if vector[peak] < 0:
        factor = -factor
    for i in range(n):
        out[i] = factor * vector[i] / sqrt(masses[i])


@cython.final
cdef class FrankWolfe(QuadraticPlan):
    """Steps for one problem, from one plan.

    Parameters
    ----------
    left : (n, n) float64 ndarray
    right : (m, m) float64 ndarray
        Both symmetric, or with `others`: their transposes; Q is then the mean of that
        of either pair.
    p : (n,) float64 ndarray
        Positive.
    q : (m,) float64 ndarray
        Positive.
    kind : {"balanced", "semirelaxed", "partial"}
    mass : float
        Of a partial plan.
    linear : (n, m) float64 ndarray or None
        F; None is zero.
    losses : tuple of (n, n) and (m, m) float64 ndarray or None
        Symmetric; ``a(r) = losses[0] r``, ``b(c) = losses[1] c``. Each may be None,
        which is zero: of a marginal that is fixed it is a constant, and goes elsewhere.
    others : tuple of (n, n) and (m, m) float64 ndarray or None
    n_threads : int

    Attributes
    ----------
    value : float
        E at the plan.
    gap : float
        ``2 <G, T - S>`` of the last vertex, at the plan before it: what any plan is
        better by, up to second order. Never negative but for rounding.
    """

    def __init__(
        self, const double[:, ::1] left, const double[:, ::1] right,
        const double[::1] p, const double[::1] q, str kind="balanced",
        double mass=1.0, linear=None, losses=None, others=None, int n_threads=1,
    ):
        cdef Terms terms
        cdef ptrdiff_t n = p.shape[0], m = q.shape[0]
        losses, others = losses or (None, None), others or (None, None)
        self.n_threads, self.partial = n_threads, kind == "partial"
        terms.n, terms.m, terms.p, terms.q, terms.mass = n, m, &p[0], &q[0], mass
        terms.left = address("left", left, n, n)
        terms.right = address("right", right, m, m)
        terms.linear = address("linear", linear, n, m)
        terms.row_losses = address("losses[0]", losses[0], n, n)
        terms.col_losses = address("losses[1]", losses[1], m, m)
        terms.other_left = address("others[0]", others[0], n, n)
        terms.other_right = address("others[1]", others[1], m, m)
        self.kept = left, right, p, q, linear, losses, others
        if kind == "balanced":
            self.transport = Transport(p, q)
        elif self.partial:
            # Where all mass moves, next to none is left.
            least = mass / UNITS
            ends = max(np.sum(q) - mass, least), max(np.sum(p) - mass, least)
            self.transport = Transport(*(np.append(*x) for x in zip((p, q), ends)))
        self.rows_only = self.transport is None
        self.reserve(n, m, terms.other_left != NULL)
        self.bind(&terms)

    cdef size_t lay_out(
        self, ptrdiff_t n, ptrdiff_t m, bint asymmetric, size_t at
    ) noexcept nogil:
        cdef size_t word = sizeof(double)
        at = QuadraticPlan.lay_out(self, n, m, asymmetric, at)
        self.zeros = <double *>take(&at, max(n, m) * word)
        self.units = <int64_t *>take(&at, n * word)
        if self.partial:
            self.padded = <double *>take(&at, (n + 1) * (m + 1) * word)
        return at

    cdef void bind(self, const Terms *terms) noexcept nogil:
        cdef ptrdiff_t n = terms.n, m = terms.m, i
        cdef double size = 0.0
        QuadraticPlan.bind(self, terms)
        memset(self.zeros, 0, max(n, m) * sizeof(double))
        if self.partial:
            memset(self.padded, 0, (n + 1) * (m + 1) * sizeof(double))
        if self.transport is not None:
            self.unit = self.transport.unit
            return
        for i in range(n):
            size += terms.p[i]
        self.unit = size / UNITS_
        for i in range(n):
            self.units[i] = <int64_t>(terms.p[i] / self.unit + 0.5)

    cdef void begin(self) noexcept nogil:
        QuadraticPlan.begin(self)
        self.n_steps, self.gap, self.change = 0, INFINITY, INFINITY
        self.value = self.at_plan + self.linear_at_plan
        if self.transport is not None and not (
            self.resumes and self.transport.tree.root >= 0
        ):
            self.transport.begin(self.transport_cost())

    def centered(self):
        """Of either space the matrix of the product, with the sign of the first, which
        the masses center and weigh: (n, n) and (m, m).
        """
        cdef const Terms *t = &self.terms
        x = centered(t.left, t.p, self.n, 1.0)
        return x, centered(t.right, t.q, self.m, -1.0)

    def break_ties(
        self, sizes, const double[:, :] of_rows, const double[:, :] of_cols,
        double largest, double rounding, ptrdiff_t max_outer, late, double tol=0.0,
        double floor=0.0, double least_change=0.0, double least_relative=0.0,
        double constant=0.0, double most_work=INFINITY,
    ):
        """Go to the product plan, and to that of the vertices equally good there from
        which the steps of `advance` end lowest.

        Secondary costs are a sum of products of eigenvectors. The signs of these are
        changed one after another, and kept where the end is lower by more than `floor`.

        Parameters
        ----------
        sizes : (k,) float64 ndarray
            What a product of two is worth, most of all the first.
        of_rows, of_cols : (k, n) and (k, m) float64 ndarray
            Unit eigenvectors of what `centered` returns.
        largest, rounding : float
            No entry of the gradient is larger; rounding of costs, as a fraction of the
            largest.
        max_outer : int
            Limit of steps of a descent.
        late : callable
            Says every `most_work` operations whether the search is to end.
        """
        cdef ptrdiff_t n = self.n, m = self.m, k = len(sizes), c
        cdef int status
        cdef bint found = False, is_new, over = False
        cdef Rule first, rule
        cdef double least = INFINITY, until, one
        cdef uint64_t outside
        cdef double[::1] signs = np.ones(k)
        cdef double[:, ::1] left = np.empty((k, n)), right = np.empty((k, m))
        check_matrix("of_rows", of_rows.shape[0], of_rows.shape[1], k, n)
        check_matrix("of_cols", of_cols.shape[0], of_cols.shape[1], k, m)
        first.tol = first.floor = first.least_change = first.least_relative = 0.0
        first.constant = 0.0
        rule.tol, rule.floor, rule.constant = tol, floor, constant
        rule.least_change, rule.least_relative = least_change, least_relative
        seen = []
        for c in range(k):
            by_point(of_rows[c], self.terms.p, sizes[c], left[c])
            by_point(of_cols[c], self.terms.q, 1.0, right[c])
        for c in range(-1, k):
            if c >= 0:
                signs[c] = -signs[c]
            with nogil:
                outside = begin_flush()
                self.turn(left, right, signs, largest * rounding, rounding)
                self.step(&first)
                end_flush(outside)
            is_new, status = True, 0
            for one in seen:
                is_new &= fabs(self.value - one) > floor
            seen.append(self.value)
            while is_new and not over and not status and self.n_steps < max_outer:
                until = self.work + most_work
                with nogil:
                    outside = begin_flush()
                    while not status and self.n_steps < max_outer and self.work < until:
                        status = self.step(&rule)
                    end_flush(outside)
                over = late()
            if is_new and not over and self.value < least - floor:
                found, least = True, self.value
            elif c >= 0:
                signs[c] = -signs[c]
            # Nothing is below zero.
            if over or least + constant <= floor:
                break
        with nogil:
            outside = begin_flush()
            if found:
                self.turn(left, right, signs, largest * rounding, rounding)
            else:
                self.begin_at_product()
            end_flush(outside)

    cdef void turn(
        self, const double[:, ::1] left, const double[:, ::1] right,
        const double[::1] signs, double least, double rounding,
    ) noexcept nogil:
        """Go to the product plan, and to the vertex of the optimal face of its linear
        program, whose arcs are worth at most `least`, that is best by secondary costs.
        """
        cdef ptrdiff_t n = self.n, m = self.m, i, j, c
        cdef double cost, most = 0.0
        cdef double *costs = self.product  # there is none yet
        cdef const double *potential
        self.begin_at_product()
        self.transport.solve_for(self.gradient_, ROUNDING_ * self.largest, -1)
        potential = self.transport.tree.potential
        for i in range(n):
            for j in range(m):
                cost = 0.0
                for c in range(signs.shape[0]):
                    cost += signs[c] * left[c, i] * right[c, j]
                most = max(most, fabs(cost))
                costs[i * m + j] = cost
                if self.gradient_[i * m + j] - potential[i] - potential[n + j] > least:
                    costs[i * m + j] = INFINITY
        self.transport.solve_for(costs, rounding * most, -1)

    def advance(
        self, ptrdiff_t most, double tol=0.0, double floor=0.0, double least_change=0.0,
        double least_relative=0.0, double constant=0.0, double most_work=INFINITY,
        double[:, ::1] trace=None,
    ):
        """Up to so many steps.

        Parameters
        ----------
        most : int
        tol : float
            CONVERGED once the gap is at most this fraction of ``|E + constant|`` and
            steps change that by next to nothing,
        floor : float
            or the gap is at most this.
        least_change, least_relative : float
            STALLED after a step that changes E by less, absolutely or as a fraction of
            ``|E + constant|``, or not at all.
        constant : float
        most_work : float
            Operations, about, after which it returns as well.
        trace : (k, 3) float64 ndarray or None
            OUT: E, `step_size` and the seconds since the call began, after each step; k
            is at least `most`.

        Returns
        -------
        int
            MORE, CONVERGED or STALLED. A step whose linear program takes long needs
            more than one: `n_steps` says how many have been made.
        """
        cdef int status = 0
        cdef Rule rule
        cdef double until = self.work + most_work, began = seconds()
        cdef ptrdiff_t before = self.n_steps, made = before
        cdef uint64_t outside
        if trace is not None:
            length = max(most, trace.shape[0])
            check_matrix("trace", trace.shape[0], trace.shape[1], length, 3)
        rule.tol, rule.floor, rule.constant = tol, floor, constant
        rule.least_change, rule.least_relative = least_change, least_relative
        with nogil:
            outside = begin_flush()
            while most > 0 and not status and self.work < until:
                most -= 1
                status = self.step(&rule)
                if trace is not None and self.n_steps > made:
                    trace[made - before, 0] = self.value
                    trace[made - before, 1] = self.step_size
                    trace[made - before, 2] = seconds() - began
                    made = self.n_steps
            end_flush(outside)
        return status

    def potentials(self):
        """Of the last linear program: no entry of G is less than their sum, and where
        the vertex has mass it is that. Where each row goes by itself: at the plan.
        """
        n, m = self.n, self.m
        if self.transport is None:
            return np.min(self.gradient, axis=1), np.zeros(m)
        rows, cols = self.transport.potentials()
        return rows[:n], cols[:m]

    cdef int step(self, const Rule *rule) noexcept nogil:
        cdef const double *linear = self.terms.linear
        cdef double at_vertex = 0, linear_at_vertex = 0, of_vertex = 0, mass
        cdef double curved, slope, between, size, change, own
        cdef ptrdiff_t i, e, j
        cdef bint settled
        if not self.minimize():
            return 0
        if self.n_steps % ANEW == ANEW - 1:
            self.sum_up()
        for i in range(self.n):
            for e in range(self.vertex.start[i], self.vertex.start[i + 1]):
                j, mass = self.vertex.col[e], self.unit * self.vertex.flow[e]
                at_vertex += mass * self.gradient_[i * self.m + j]
                if linear != NULL:
                    linear_at_vertex += mass * linear[i * self.m + j]
        self.gap = 2 * (self.at_plan - at_vertex)
        size = fabs(self.value + rule.constant)
        settled = self.gap <= rule.floor or (
            self.gap <= rule.tol * size
            and self.change <= max(STILL * size, FEW * self.gap)
        )
        self.multiply()
        for i in range(self.n):
            for e in range(self.vertex.start[i], self.vertex.start[i + 1]):
                of_vertex += (self.unit * self.vertex.flow[e]
                              * self.product[i * self.m + self.vertex.col[e]])
        # <Q(S), S>, <Q(T), S> and <Q(T), T>.
        between = at_vertex - linear_at_vertex
        own = self.at_plan - self.linear_at_plan
        curved = of_vertex - 2 * between + own
        slope = -self.gap
        # Where nothing leads down at first, as at the product plan of spaces that look
        # the same from each of their points, the way to the vertex may bend down.
        if settled and self.gap - curved <= max(rule.floor, rule.tol * size):
            self.has_product = False
            return 1
        size = 1.0
        if curved > 0:
            size = min(1.0, -slope / (2 * curved))
        change = size * (slope + size * curved)
        if not change < 0:
            # The product is that of a vertex that is not gone to.
            self.has_product = False
            return 2
        self.move(size)
        own += 2 * size * (between - own) + size * size * curved
        self.linear_at_plan += size * (linear_at_vertex - self.linear_at_plan)
        self.at_plan = own + self.linear_at_plan
        self.value, self.step_size, self.change = self.value + change, size, -change
        self.n_steps += 1
        size = rule.least_relative * fabs(self.value + rule.constant)
        return 2 if -change < max(rule.least_change, size) else 0

    cdef bint minimize(self) noexcept nogil:
        """Find the vertex; returns whether it was found, or is yet to be."""
        cdef ptrdiff_t n = self.n, m = self.m, i, j = 0
        cdef Vertex out = self.vertex
        if self.transport is None:
            for i in range(n):
                isa.f64.least_of_rows(self.gradient_ + i * m, self.zeros, self.zeros,
                                      1, m, INFINITY, &j)
                out.start[i], out.col[i], out.flow[i] = i, j, self.units[i]
            out.start[n] = n
            return True
        i = self.transport.solve_for(
            self.transport_cost(), ROUNDING_ * self.largest, 1 + TOUCHED // (n + m)
        )
        # Each pivot prices some rows and moves a part of the tree.
        self.work += 8.0 * (n + m) * (i if i >= 0 else 1 + TOUCHED // (n + m))
        if i < 0:
            return False
        self.collect(out)
        return True

    cdef const double *transport_cost(self) noexcept nogil:
        """G, for a partial plan with what is left of either side."""
        cdef ptrdiff_t n = self.n, m = self.m, i, j
        if not self.partial:
            return self.gradient_
        for i in range(n):
            for j in range(m):
                self.padded[i * (m + 1) + j] = self.gradient_[i * m + j]
        # What is left must not go to what is left.
        self.padded[n * (m + 1) + m] = 4 * self.largest
        return self.padded

    cdef void collect(self, Vertex out) noexcept nogil:
        """The entries of the tree, by rows."""
        cdef ptrdiff_t nodes = self.transport.tree.n + self.transport.tree.m
        cdef ptrdiff_t node, i = 0, j = 0, at
        memset(out.start, 0, (self.n + 1) * sizeof(ptrdiff_t))
        for node in range(nodes):
            if self.entry(node, &i, &j):
                out.start[i + 1] += 1
        for i in range(self.n):
            out.start[i + 1] += out.start[i]
        # Filled from the end of each row, so that starts move to where they belong.
        for node in range(nodes):
            if self.entry(node, &i, &j):
                at = out.start[i]
                out.col[at], out.flow[at] = j, self.transport.tree.flow[node]
                out.start[i] += 1
        for i in range(self.n, 0, -1):
            out.start[i] = out.start[i - 1]
        out.start[0] = 0

    cdef inline bint entry(
        self, ptrdiff_t node, ptrdiff_t *i, ptrdiff_t *j
    ) noexcept nogil:
        """Whether an arc of the tree is an entry of the plan, and where."""
        if not self.transport.tree.flow[node] or not self.transport.arc(node, i, j):
            return False
        return i[0] < self.n and j[0] < self.m

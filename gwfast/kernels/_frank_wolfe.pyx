"""Conditional gradient steps (Frank and Wolfe) on quadratic functions of a plan
``T``, with exact line search:

    E(T) = <Q(T), T> + 2 <F, T>,   Q(T) = left T right + a(T 1) 1' + 1 b(T' 1)'

Half the gradient is ``G = Q(T) + F``. The vertex S that minimizes ``<G, S>`` comes from
one of three oracles: exact transport between fixed marginals, the same where only a
part of the mass moves, or each row by itself. A vertex has fewer than n + m entries,
and the next one shares most of them: only rows that changed go through the product, and
everything else that a step needs is a sum over entries of a vertex.
"""
cimport cython
from cython.parallel cimport prange
from libc.math cimport INFINITY, fabs
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from ._rows cimport N_CHUNKS, check_matrix, chunk_rows, count_chunks, isa, seconds, team
from ._transport cimport Transport

import numpy as np

from ._rows import aligned_empty
from ._transport import ROUNDING, UNITS

cdef double ROUNDING_ = ROUNDING
# Multiplications of a product below which another thread is not worth waking.
cdef double LEAST_WORK = 1e6
# Rows of a product made at a time, beside what they are added to.
cdef ptrdiff_t STRIP = 16
# Changed rows of a vertex whose product is made at a time, so that it stays in cache.
cdef ptrdiff_t BLOCK = 512
# Steps after which sums that are kept up to date are made anew.
cdef ptrdiff_t ANEW = 32
# Change of E in a step, as a fraction of it, that is next to nothing.
cdef double STILL = 1e-9
# The same as a fraction of the gap: the way there is long, between vertices.
cdef double FEW = 0.01
# In place of a sum of nothing.
cdef double LEAST = 1e-300
cdef double UNITS_ = UNITS
# Nodes that the pivots of one call may touch, at most: a fraction of a second.
cdef ptrdiff_t TOUCHED = 1 << 26
# What `advance` may end with.
MORE, CONVERGED, STALLED = range(3)


cdef void *take(size_t *at, size_t size) noexcept nogil:
    """The next so many bytes, which begin at a cache line."""
    cdef size_t begin = at[0]
    at[0] = begin + (size + 63) // 64 * 64
    return <void *>begin


cdef const double *address(
    str name, const double[:, ::1] matrix, ptrdiff_t n, ptrdiff_t m
) except? NULL:
    """Of a matrix of this shape; None is NULL."""
    if matrix is None:
        return NULL
    check_matrix(name, matrix.shape[0], matrix.shape[1], n, m)
    return &matrix[0, 0]


cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    """The number of a place in a sequence of random ones (SplitMix64: Steele, Lea and
    Flood, OOPSLA 2014).
    """
    x = (x + 1) * <uint64_t>0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t>0x94D049BB133111EB
    return x ^ (x >> 31)


cdef void combine_rows(
    const double *matrix, const double *weights, double factor, double *out,
    ptrdiff_t m,
) noexcept nogil:
    """out = factor times the weighted sum of the rows (m) of a matrix."""
    cdef ptrdiff_t i, j
    cdef double by
    memset(out, 0, m * sizeof(double))
    for i in range(m):
        by = factor * weights[i]
        for j in range(m):
            out[j] += by * matrix[i * m + j]


@cython.final
cdef class FrankWolfe:
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
        self.reserve(n, m, terms.other_left != NULL)
        self.bind(&terms)

    cdef int reserve(self, ptrdiff_t n, ptrdiff_t m, bint asymmetric) except -1:
        """Make room for problems of up to so many points."""
        cdef size_t size = self.lay_out(n, m, asymmetric, 0)
        self.memory = aligned_empty(size, np.uint8)
        return 0

    cdef size_t lay_out(
        self, ptrdiff_t n, ptrdiff_t m, bint asymmetric, size_t base
    ) noexcept nogil:
        """Lay out what steps need in memory that starts there; returns where it
        ends.
        """
        cdef ptrdiff_t most = min(n, BLOCK) * (2 if asymmetric else 1) + 2
        cdef ptrdiff_t size = n + m + 2, lanes = isa.f64.lanes, panel = isa.f64.panel
        cdef ptrdiff_t width = (m + lanes - 1) // lanes * lanes
        cdef size_t word = sizeof(double)
        cdef size_t at = base
        cdef Vertex *vertex
        cdef int k
        self.packed = <double *>take(&at, max(most * width, m * panel) * word)
        self.plan_ = <double *>take(&at, n * m * word)
        self.gradient_ = <double *>take(&at, n * m * word)
        self.product = <double *>take(&at, n * m * word)
        self.weights = <double *>take(&at, most * m * word)
        self.gathered = <double *>take(&at, n * most * word)
        if self.partial:
            self.padded = <double *>take(&at, (n + 1) * (m + 1) * word)
        self.sums = <double *>take(&at, 2 * (n + m) * word)
        self.zeros = <double *>take(&at, max(n, m) * word)
        self.peaks = <double *>take(&at, N_CHUNKS * word)
        self.units = <int64_t *>take(&at, n * word)
        self.row_units = <int64_t *>take(&at, n * word)
        self.col_units = <int64_t *>take(&at, m * word)
        self.changed_by = <int64_t *>take(&at, m * word)
        self.changed = <ptrdiff_t *>take(&at, n * word)
        self.touched = <ptrdiff_t *>take(&at, 2 * m * word)
        for k in range(2):
            vertex = &self.vertex if k == 0 else &self.former
            vertex.start = <ptrdiff_t *>take(&at, (n + 1) * word)
            vertex.col = <ptrdiff_t *>take(&at, size * word)
            vertex.flow = <int64_t *>take(&at, size * word)
        return at

    cdef bint bind(self, const Terms *terms) noexcept nogil:
        """Take a problem, for which there is room."""
        cdef ptrdiff_t n = terms.n, m = terms.m, i
        cdef double size = 0.0
        self.terms, self.n, self.m = terms[0], n, m
        self.lay_out(n, m, terms.other_left != NULL, <size_t>&self.memory[0])
        memset(self.zeros, 0, max(n, m) * sizeof(double))
        memset(self.changed_by, 0, m * sizeof(int64_t))
        if self.partial:
            memset(self.padded, 0, (n + 1) * (m + 1) * sizeof(double))
        if self.transport is not None:
            self.unit = self.transport.unit
            return True
        for i in range(n):
            size += terms.p[i]
        self.unit = size / UNITS_
        for i in range(n):
            self.units[i] = <int64_t>(terms.p[i] / self.unit + 0.5)
        return True

    def start(self, plan=None):
        """Begin at a plan, (n, m), whose marginals are mended, or at the product plan.
        """
        if plan is None:
            with nogil:
                self.begin_at_product()
            return
        np.maximum(plan, 0.0, out=self._array(self.plan_))
        with nogil:
            self.mend()
            self.differentiate()
            self.begin()

    def start_at_random(self, seed):
        """Begin at the random plan of a number below 2^64: independent exponential
        entries, mended.
        """
        cdef uint64_t number = seed
        with nogil:
            self.begin_at_random(number)

    @property
    def plan(self):
        """A copy, (n, m)."""
        return np.multiply(self._array(self.plan_), self.scale)

    @property
    def gradient(self):
        """Half of it at the plan, (n, m), read only."""
        made = self._array(self.gradient_)
        made.flags.writeable = False
        return made

    cdef object _array(self, double *entries):
        """Numbers (n, m) of this object's memory."""
        cdef ptrdiff_t begin = <unsigned char *>entries - &self.memory[0]
        cdef ptrdiff_t end = begin + self.n * self.m * <ptrdiff_t>sizeof(double)
        made = np.asarray(self.memory[begin:end])
        return made.view(np.float64).reshape(self.n, self.m)

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
        if trace is not None:
            length = max(most, trace.shape[0])
            check_matrix("trace", trace.shape[0], trace.shape[1], length, 3)
        rule.tol, rule.floor, rule.constant = tol, floor, constant
        rule.least_change, rule.least_relative = least_change, least_relative
        with nogil:
            while most > 0 and not status and self.work < until:
                most -= 1
                status = self.step(&rule)
                if trace is not None and self.n_steps > made:
                    trace[made - before, 0] = self.value
                    trace[made - before, 1] = self.step_size
                    trace[made - before, 2] = seconds() - began
                    made = self.n_steps
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

    cdef void begin_at_product(self) noexcept nogil:
        """Half the gradient at a product is one of the products of vectors."""
        cdef const Terms *t = &self.terms
        cdef ptrdiff_t n = self.n, m = self.m, i, j
        cdef double *rows = self.sums
        cdef double *cols = self.sums + n
        cdef double *other_rows = cols + m
        cdef double *other_cols = other_rows + n
        cdef double factor = t.mass if t.other_left == NULL else t.mass / 2
        isa.f64.dot_each_row(t.left, t.p, rows, n, n)
        combine_rows(t.right, t.q, factor, cols, m)
        if t.other_left != NULL:
            isa.f64.dot_each_row(t.other_left, t.p, other_rows, n, n)
            combine_rows(t.other_right, t.q, factor, other_cols, m)
        for i in range(n):
            for j in range(m):
                self.plan_[i * m + j] = t.mass * t.p[i] * t.q[j]
                self.gradient_[i * m + j] = rows[i] * cols[j]
            if t.other_left != NULL:
                for j in range(m):
                    self.gradient_[i * m + j] += other_rows[i] * other_cols[j]
        self.add_separable()
        self.begin()

    cdef void begin_at_random(self, uint64_t seed) noexcept nogil:
        cdef ptrdiff_t k, size = self.n * self.m
        cdef uint64_t first = mixed(seed)
        for k in range(size):
            # The middles of 2^52 parts of the unit interval.
            self.plan_[k] = ((mixed(first + <uint64_t>k) >> 12) + 0.5) * 2.0**-52
        isa.f64.log(self.plan_, self.plan_, size)
        for k in range(size):
            self.plan_[k] = -self.plan_[k]
        self.mend()
        self.differentiate()
        self.begin()

    cdef void mend(self) noexcept nogil:
        """Give the plan its marginals: rows, then columns are cut down to theirs, and
        what is lacking is shared out (Altschuler, Weed and Rigollet, NIPS 2017,
        algorithm 2). Where only rows are given they are scaled.
        """
        cdef const Terms *t = &self.terms
        cdef ptrdiff_t n = self.n, m = self.m, i, j
        cdef double *cols = self.sums + n
        cdef double size, total = self.sum_plan()
        for i in range(n):
            size = self.sums[i]
            if self.transport is None and not size > 0:
                for j in range(m):
                    self.plan_[i * m + j] = t.p[i] / m
                continue
            # In units of the plan's mass, which is to be `mass`.
            if self.transport is None:
                size = t.p[i] / size
            else:
                size = t.mass / max(total, LEAST)
                size = min(size, t.p[i] / max(self.sums[i], LEAST))
            for j in range(m):
                self.plan_[i * m + j] *= size
        if self.transport is None:
            return
        self.sum_plan()
        for j in range(m):
            cols[j] = min(1.0, t.q[j] / max(cols[j], LEAST))
        for i in range(n):
            for j in range(m):
                self.plan_[i * m + j] *= cols[j]
        self.share_out()

    cdef void share_out(self) noexcept nogil:
        """Add what the plan lacks, by what its rows and columns do."""
        cdef const Terms *t = &self.terms
        cdef ptrdiff_t n = self.n, m = self.m, i, j
        cdef double *cols = self.sums + n
        cdef double lacking = max(t.mass - self.sum_plan(), 0.0), rows = 0, of_cols = 0
        for i in range(n):
            self.sums[i] = max(t.p[i] - self.sums[i], 0.0)
            rows += self.sums[i]
        for j in range(m):
            cols[j] = max(t.q[j] - cols[j], 0.0)
            of_cols += cols[j]
        lacking /= max(rows * of_cols, LEAST)
        for i in range(n):
            for j in range(m):
                self.plan_[i * m + j] += lacking * self.sums[i] * cols[j]

    cdef double sum_plan(self) noexcept nogil:
        """Leave the row sums of the plan in `sums`, and after them those of columns;
        returns the whole.
        """
        cdef ptrdiff_t n = self.n, m = self.m, i
        cdef double made = 0.0
        memset(self.sums + n, 0, m * sizeof(double))
        isa.f64.sum_rows(self.plan_, self.sums, self.weights, self.sums + n, n, m)
        for i in range(n):
            made += self.sums[i]
        return made

    cdef void differentiate(self) noexcept nogil:
        """Make half the gradient at the plan."""
        cdef const Terms *t = &self.terms
        cdef ptrdiff_t n = self.n, m = self.m, i, k, begin = 0
        cdef double factor = 1.0 if t.other_left == NULL else 0.5
        for i in range(n):
            self.changed[i] = i
        while begin < n:
            k = min(BLOCK, n - begin)
            self.weigh_plan(begin, k, t.right, self.weights, factor)
            i = k
            if t.other_left != NULL:
                self.weigh_plan(begin, k, t.other_right, self.weights + k * m, factor)
                i = 2 * k
            self.multiply_weights(self.changed + begin, k, i, i, begin > 0)
            begin = begin + k
        for i in range(n * m):
            self.gradient_[i] = self.product[i]
        self.add_separable()
        # The product is not that of a vertex.
        self.has_product = False

    cdef void add_separable(self) noexcept nogil:
        """Add the linear term and those of the plan's marginals to half the gradient.
        """
        cdef const Terms *t = &self.terms
        cdef ptrdiff_t n = self.n, m = self.m, i, j
        cdef double *rows = self.sums + n + m
        cdef double *cols = rows + n
        if t.row_losses != NULL or t.col_losses != NULL:
            self.sum_plan()
        if t.row_losses != NULL:
            isa.f64.dot_each_row(t.row_losses, self.sums, rows, n, n)
            for i in range(n):
                for j in range(m):
                    self.gradient_[i * m + j] += rows[i]
        if t.col_losses != NULL:
            isa.f64.dot_each_row(t.col_losses, self.sums + n, cols, m, m)
            for i in range(n):
                for j in range(m):
                    self.gradient_[i * m + j] += cols[j]
        if t.linear != NULL:
            for i in range(n * m):
                self.gradient_[i] += t.linear[i]

    cdef void begin(self) noexcept nogil:
        """Begin at the plan and half its gradient, which are there."""
        self.scale, self.is_vertex, self.n_steps = 1.0, False, 0
        self.has_product = False
        # A move by nothing, for the largest value alone.
        self.largest = isa.f64.move_row(
            self.gradient_, self.gradient_, NULL, 0.0, self.n * self.m
        )
        self.sum_up()
        self.value, self.gap = self.at_plan + self.linear_at_plan, INFINITY
        self.change = INFINITY
        if self.transport is not None:
            self.transport.begin(self.transport_cost())

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

    cdef void multiply(self) noexcept nogil:
        """Make `product` Q(S), from that of the former vertex."""
        cdef ptrdiff_t k = self.find_changes(), begin = 0
        self.work += <double>self.n * self.m * (k + 8)
        if not k and self.has_product:
            return
        while begin < k:
            self.multiply_changes(begin, min(BLOCK, k - begin), begin + BLOCK >= k)
            begin = begin + BLOCK
        self.has_product = True

    cdef void multiply_changes(
        self, ptrdiff_t begin, ptrdiff_t k, bint last
    ) noexcept nogil:
        """Add to `product` what k of the changed rows make of it, and with the last of
        them what the marginals do.
        """
        cdef const Terms *t = &self.terms
        cdef ptrdiff_t n = self.n, m = self.m, r, j, inner = k, first
        cdef bint asymmetric = t.other_left != NULL
        cdef double factor = 0.5 if asymmetric else 1.0
        cdef ptrdiff_t *changed = self.changed + begin
        cdef double *weights = self.weights
        for r in range(k):
            self.weigh(changed[r], t.right, weights + r * m, factor)
        if asymmetric:
            for r in range(k):
                self.weigh(changed[r], t.other_right, weights + (k + r) * m, factor)
            inner += k
        first = inner
        if last and t.row_losses != NULL:
            for j in range(m):
                weights[inner * m + j] = 1.0
            inner += 1
        if last and t.col_losses != NULL:
            self.shift_by(t.col_losses, m, self.col_units, weights + inner * m)
            inner += 1
        if last and t.row_losses != NULL:
            self.shift_by(t.row_losses, n, self.row_units, self.sums)
        self.multiply_weights(changed, k, first, inner, begin > 0 or self.has_product)

    cdef void multiply_weights(
        self, const ptrdiff_t *rows, ptrdiff_t k, ptrdiff_t first, ptrdiff_t inner,
        bint adds,
    ) noexcept nogil:
        """Make or add to `product` these k columns of the left matrices times the
        weights, and what the weights from `first` on stand for.
        """
        cdef ptrdiff_t n = self.n, m = self.m, chunk, panel, j, width = isa.f64.panel
        cdef double work = <double>n * inner * m
        cdef int threads = self.n_threads if work > LEAST_WORK else 1
        cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
        for panel in range(count_chunks(m, width)):
            j = panel * width
            isa.f64.pack_panel(self.weights + j, m, 1, NULL, inner, min(width, m - j),
                               self.packed + j * inner)
        if threads == 1:
            self.multiply_rows(0, n, rows, k, first, inner, adds)
            return
        for chunk in prange(chunks, num_threads=team(threads, chunks),
                            schedule="dynamic"):
            self.multiply_rows(chunk * size, min(chunk * size + size, n), rows, k,
                               first, inner, adds)

    cdef void multiply_rows(
        self, ptrdiff_t begin, ptrdiff_t end, const ptrdiff_t *changed, ptrdiff_t k,
        ptrdiff_t first, ptrdiff_t inner, bint adds,
    ) noexcept nogil:
        cdef const double *left = self.terms.left
        cdef const double *other = self.terms.other_left
        cdef ptrdiff_t n = self.n, m = self.m, i, r, j, at, rows
        cdef double *row
        at = begin
        while at < end:
            rows = min(STRIP, end - at)
            for i in range(at, at + rows):
                row = self.gathered + i * inner
                for r in range(k):
                    row[r] = left[i * n + changed[r]]
                if other != NULL:
                    for r in range(k):
                        row[k + r] = other[i * n + changed[r]]
                j = first
                if first < inner and self.terms.row_losses != NULL:
                    row[j] = self.sums[i]
                    j = j + 1
                if first < inner and self.terms.col_losses != NULL:
                    row[j] = 1.0
            isa.f64.product_rows(self.gathered + at * inner, inner, self.packed, inner,
                                 self.product + at * m, m, rows, m, adds)
            at = at + rows

    cdef void weigh_plan(
        self, ptrdiff_t begin, ptrdiff_t k, const double *right, double *out,
        double factor,
    ) noexcept nogil:
        """out = factor times so many rows of the plan times right."""
        cdef ptrdiff_t m = self.m, j, of, width, chunk, size = chunk_rows(k)
        cdef ptrdiff_t chunks = count_chunks(k, size), panel = isa.f64.panel
        cdef int threads = self.n_threads if <double>k * m * m > LEAST_WORK else 1
        for of in range(count_chunks(m, panel)):
            j = of * panel
            width = min(panel, m - j)
            isa.f64.pack_panel(right + j, m, 1, NULL, m, width, self.packed)
            for chunk in prange(chunks, num_threads=team(threads, chunks),
                                schedule="static"):
                isa.f64.product_rows(
                    self.plan_ + (begin + chunk * size) * m, m, self.packed, m,
                    out + chunk * size * m + j, m, min(size, k - chunk * size), width,
                    False,
                )
        if factor != 1.0:
            for j in range(k * m):
                out[j] *= factor

    cdef void weigh(
        self, ptrdiff_t i, const double *right, double *out, double factor
    ) noexcept nogil:
        """out = factor times row i of (the change of the vertex) right."""
        cdef ptrdiff_t count = self.change_of(i), m = self.m, e, j, col
        cdef double by
        memset(out, 0, m * sizeof(double))
        for e in range(count):
            col = self.touched[e]
            by = factor * self.unit * self.changed_by[col]
            self.changed_by[col] = 0
            if by != 0:
                for j in range(m):
                    out[j] += by * right[col * m + j]

    cdef void shift_by(
        self, const double *losses, ptrdiff_t size, const int64_t *units, double *out
    ) noexcept nogil:
        """out = losses times the change of a marginal."""
        cdef ptrdiff_t i, j
        memset(out, 0, size * sizeof(double))
        for i in range(size):
            if units[i]:
                for j in range(size):
                    out[j] += self.unit * units[i] * losses[i * size + j]

    cdef ptrdiff_t change_of(self, ptrdiff_t i) noexcept nogil:
        """Leave in `changed_by` what row i of the vertex has more than in the former;
        returns how many columns are `touched`.
        """
        cdef ptrdiff_t e, count = 0
        for e in range(self.vertex.start[i], self.vertex.start[i + 1]):
            self.touched[count] = self.vertex.col[e]
            self.changed_by[self.vertex.col[e]] += self.vertex.flow[e]
            count += 1
        if self.has_product:
            for e in range(self.former.start[i], self.former.start[i + 1]):
                self.touched[count] = self.former.col[e]
                self.changed_by[self.former.col[e]] -= self.former.flow[e]
                count += 1
        return count

    cdef ptrdiff_t find_changes(self) noexcept nogil:
        """Rows in which the vertex differs from the former, and what its marginals
        differ by. Where that is most of them it is as if there were none.
        """
        cdef ptrdiff_t i, e, count, k = 0
        cdef bint differs
        memset(self.row_units, 0, self.n * sizeof(int64_t))
        memset(self.col_units, 0, self.m * sizeof(int64_t))
        for i in range(self.n):
            count, differs = self.change_of(i), False
            for e in range(count):
                if self.changed_by[self.touched[e]]:
                    differs = True
                    self.row_units[i] += self.changed_by[self.touched[e]]
                    self.col_units[self.touched[e]] += self.changed_by[self.touched[e]]
                    self.changed_by[self.touched[e]] = 0
            if differs:
                self.changed[k] = i
                k += 1
        if self.has_product and 10 * k > 9 * self.n:
            self.has_product = False
            return self.find_changes()
        return k

    cdef void move(self, double size) noexcept nogil:
        """Go that part of the way to the vertex, whose product there is."""
        cdef ptrdiff_t n = self.n, m = self.m, i, e, chunk, rows = chunk_rows(n)
        cdef ptrdiff_t chunks = count_chunks(n, rows)
        cdef double *plan = self.plan_
        cdef int threads = self.n_threads if <double>n * m * 8 > LEAST_WORK else 1
        if size >= 1.0 or self.scale * (1.0 - size) < 1e-100:
            self.clear(size)
        else:
            self.scale *= 1.0 - size
            self.is_vertex = False
        for i in range(n):
            for e in range(self.vertex.start[i], self.vertex.start[i + 1]):
                plan[i * m + self.vertex.col[e]] += (
                    size * self.unit * self.vertex.flow[e] / self.scale
                )
        if threads == 1:  # a loop of OpenMP takes as long as a small one
            self.largest = self.move_rows(0, n, size)
        else:
            for chunk in prange(chunks, num_threads=team(threads, chunks),
                                schedule="static"):
                self.peaks[chunk] = self.move_rows(
                    chunk * rows, min(chunk * rows + rows, n), size
                )
            self.largest = 0.0
            for chunk in range(chunks):
                self.largest = max(self.largest, self.peaks[chunk])
        self.vertex, self.former = self.former, self.vertex

    cdef void clear(self, double size) noexcept nogil:
        """Make the plan 1 - size times itself, with a `scale` of 1."""
        cdef ptrdiff_t i, e, m = self.m
        cdef double *plan = self.plan_
        if size < 1.0:
            for i in range(self.n * m):
                plan[i] *= self.scale * (1.0 - size)
        elif self.is_vertex:
            for i in range(self.n):
                for e in range(self.former.start[i], self.former.start[i + 1]):
                    plan[i * m + self.former.col[e]] = 0.0
        else:
            memset(plan, 0, self.n * m * sizeof(double))
        self.scale, self.is_vertex = 1.0, size >= 1.0

    cdef double move_rows(
        self, ptrdiff_t begin, ptrdiff_t end, double size
    ) noexcept nogil:
        """G of the plan on the way; returns its largest absolute value."""
        cdef ptrdiff_t first = begin * self.m
        cdef const double *linear = self.terms.linear
        if linear != NULL:
            linear += first
        return isa.f64.move_row(self.gradient_ + first, self.product + first, linear,
                                size, (end - begin) * self.m)

    cdef void sum_up(self) noexcept nogil:
        """<G, T> and <F, T> from all entries."""
        cdef ptrdiff_t n = self.n, m = self.m
        self.at_plan = self.scale * isa.f64.dot_rows(self.gradient_, self.plan_, n, m)
        self.linear_at_plan = 0.0
        if self.terms.linear != NULL:
            self.linear_at_plan = self.scale * isa.f64.dot_rows(
                self.terms.linear, self.plan_, n, m
            )

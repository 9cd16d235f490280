"""Conditional gradient steps (Frank and Wolfe) with exact line search, on plans ``T`` of

    E(T) = <Q(T), T> + 2 <F, T>,   Q(T) = left T right + a(T 1) 1' + 1 b(T' 1)'

A plan is kept with half its gradient, ``G = Q(T) + F``. The vertex S that minimizes ``<G, S>``
comes from one of three oracles: exact transport between fixed marginals, the same where only a
part of the mass moves, or each row by itself. A vertex has fewer than n + m entries, and the next
vertex shares most of them: only rows that changed go through the product.
"""
cimport cython
from cython.parallel cimport prange
from libc.math cimport INFINITY, fabs
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from ._rows cimport (
    begin_flush, check_matrix, chunk_rows, count_chunks, end_flush, isa, seconds, team
)
from ._transport cimport Transport, Vertex, mend, sum_plan

import numpy as np

from ._rows import aligned_empty
from ._transport import ROUNDING, UNITS

cdef double ROUNDING_ = ROUNDING, UNITS_ = UNITS
# Multiplications of a product below which another thread is not worth waking.
cdef double LEAST_WORK = 1e6
# Changed rows of a vertex whose product is made at a time: it stays in cache.
cdef ptrdiff_t BLOCK = 512
# Steps after which sums that are kept up to date are made anew.
cdef ptrdiff_t ANEW = 32
# Nodes that the pivots of one call may touch, at most: a fraction of a second.
cdef ptrdiff_t TOUCHED = 1 << 26
# Results of `advance`.
MORE, CONVERGED, STALLED = range(3)


cdef const double *address(str name, const double[:, ::1] matrix, n, m) except? NULL:
    """Return the address of a matrix of this shape, NULL for None."""
    if matrix is None:
        return NULL
    check_matrix(name, matrix.shape[0], matrix.shape[1], n, m)
    return &matrix[0, 0]


@cython.final
cdef class FrankWolfe:
    """Steps for one problem, from one plan.

    The matrices `left` and `right` are symmetric, or `others` are their transposes, and Q is the
    mean of both; with `one_sided` it is the product of the first two all the same, G the gradient
    of no function, and the line search POT's. `linear` is F, ``a(r) = losses[0] r`` and
    ``b(c) = losses[1] c``, symmetric; None is zero. All masses are positive; `mass` is the mass of
    plans of `kind` "partial". `value` is E at the plan and `gap` is ``2 <G, T - S>`` of the last
    vertex, at the plan before it: no plan is better by more, up to second order.
    """

    def __init__(
        self, const double[:, ::1] left, const double[:, ::1] right, const double[::1] p,
        const double[::1] q, str kind="balanced", double mass=1.0, linear=None, losses=None,
        others=None, int n_threads=1, bint one_sided=False,
    ):
        cdef Terms terms
        n, m = p.shape[0], q.shape[0]
        losses, others = losses or (None, None), others or (None, None)
        self.n_threads, self.partial, self.one_sided = n_threads, kind == "partial", one_sided
        terms.n, terms.m, terms.p, terms.q, terms.mass = n, m, &p[0], &q[0], mass
        terms.left[0], terms.right[0] = address("left", left, n, n), address("right", right, m, m)
        terms.linear = address("linear", linear, n, m)
        terms.losses[0] = address("losses[0]", losses[0], n, n)
        terms.losses[1] = address("losses[1]", losses[1], m, m)
        terms.left[1] = address("others[0]", others[0], n, n)
        terms.right[1] = address("others[1]", others[1], m, m)
        terms.n_products = 1 if terms.left[1] == NULL else 2
        self.kept = left, right, p, q, linear, losses, others
        if kind == "balanced":
            self.transport = Transport(p, q)
        elif self.partial:
            # If all mass moves, next to none is left.
            least = mass / UNITS
            ends = max(np.sum(q) - mass, least), max(np.sum(p) - mass, least)
            self.transport = Transport(*(np.append(*x) for x in zip((p, q), ends)))
        self.reserve(n, m, terms.n_products)
        self.bind(&terms)

    cdef void *room(self, ptrdiff_t words) except NULL:
        cdef double[::1] made = aligned_empty(words, np.float64)
        self.rooms.append(made)
        return &made[0]

    cdef int reserve(self, ptrdiff_t n, ptrdiff_t m, ptrdiff_t n_products) except -1:
        """Make room for problems of at most n and m points."""
        cdef ptrdiff_t most = min(n, BLOCK) * n_products, lanes = isa.f64.lanes
        cdef Vertex *vertex
        cdef int k
        self.rooms = []
        self.plan_, self.gradient_ = <double *>self.room(n * m), <double *>self.room(n * m)
        self.product = <double *>self.room(n * m)
        self.packed = <double *>self.room(max(most, m) * ((m + lanes - 1) // lanes * lanes))
        self.weights = <double *>self.room(max(most, 1) * m)
        self.gathered = <double *>self.room(n * most)
        self.row_sums, self.col_sums = <double *>self.room(n), <double *>self.room(m)
        self.losses = <double *>self.room(max(n, m))
        self.units, self.moved = <int64_t *>self.room(n), <int64_t *>self.room(m)
        self.changed = <ptrdiff_t *>self.room(n)
        if self.partial:
            self.padded = <double *>self.room((n + 1) * (m + 1))
            memset(self.padded, 0, (n + 1) * (m + 1) * sizeof(double))
        for k in range(3):
            vertex = &self.vertex if k == 0 else &self.former if k == 1 else &self.delta
            vertex.start = <ptrdiff_t *>self.room(n + 1)
            vertex.col = <ptrdiff_t *>self.room(2 * (n + m))
            vertex.flow = <int64_t *>self.room(2 * (n + m))
        return 0

    cdef void bind(self, const Terms *terms) noexcept nogil:
        """Take a function, for which there is room."""
        cdef ptrdiff_t i
        cdef double size = 0.0
        self.terms, self.n, self.m = terms[0], terms.n, terms.m
        memset(self.moved, 0, terms.m * sizeof(int64_t))
        if self.transport is not None:
            self.unit = self.transport.unit
            return
        for i in range(terms.n):
            size += terms.p[i]
        self.unit = size / UNITS_
        for i in range(terms.n):
            self.units[i] = <int64_t>(terms.p[i] / self.unit + 0.5)

    @property
    def plan(self):
        """Return a copy (n, m) of the plan."""
        return np.array(<double[:self.n, :self.m]>self.plan_)

    @property
    def gradient(self):
        """Return a copy (n, m) of half the gradient at the plan."""
        return np.array(<double[:self.n, :self.m]>self.gradient_)

    def potentials(self):
        """Return the potentials of the last linear program: no entry of G is less than their sum,
        and an entry with mass is their sum. Of rows by themselves they are those at the plan.
        """
        if self.transport is None:
            return np.min(self.gradient, axis=1), np.zeros(self.m)
        rows, cols = self.transport.potentials()
        return rows[:self.n], cols[:self.m]

    def start(self, plan=None):
        """Begin at a plan (n, m), whose marginals are mended, or at the product plan; if only rows
        are given, the plan must have them.
        """
        cdef uint64_t before
        self.is_under_way = False
        if plan is not None:
            np.maximum(plan, 0.0, out=np.asarray(<double[:self.n, :self.m]>self.plan_))
        with nogil:
            before = begin_flush()
            if plan is None:
                self.begin_at_product()
            else:
                self.begin_at_plan()
            end_flush(before)

    def advance(
        self, ptrdiff_t most, double tol=0.0, double floor=0.0, double least_change=0.0,
        double least_relative=0.0, double constant=0.0, double most_seconds=INFINITY,
        double[:, ::1] trace=None,
    ):
        """Make at most `most` steps in about `most_seconds`; a linear program may take several.

        Return CONVERGED once the gap is at most `floor`, or `tol` of ``|E + constant|`` with steps
        that change that by next to nothing; STALLED after a step that changes E by less than
        `least_change`, or `least_relative` of ``|E + constant|``, or not at all; else MORE. A
        `trace` (k, 3), k at least `most`, gets E, `step_size` and the seconds after each step.
        """
        cdef int status = 0
        cdef Stop stop = Stop(tol, floor, least_change, least_relative, constant)
        cdef double began = seconds()
        cdef ptrdiff_t k = 0, before
        cdef uint64_t outside
        if trace is not None:
            check_matrix("trace", trace.shape[0], trace.shape[1], max(most, trace.shape[0]), 3)
        with nogil:
            outside = begin_flush()
            while most > 0 and not status and seconds() - began < most_seconds:
                most, before = most - 1, self.n_steps
                status = self.step(&stop)
                if trace is not None and self.n_steps > before:
                    trace[k, 0], trace[k, 1] = self.value, self.step_size
                    trace[k, 2] = seconds() - began
                    k += 1
            end_flush(outside)
        return status

    def descend_each(
        self, double[:, :, ::1] plans, double[:, ::1] ends, ptrdiff_t first, ptrdiff_t most,
        double tol=0.0, double floor=0.0, double least_change=0.0, double least_relative=0.0,
        double constant=0.0, double most_seconds=INFINITY,
    ):
        """Take plans (k, n, m) one by one to their ends, `most` steps away at most, from the
        `first` on, for about `most_seconds`. Return the number of plans that have ended; the next
        call goes on with the next one where it is. `ends` (k, 2) gets E and the number of steps.
        For the rest see `start` and `advance`.
        """
        cdef ptrdiff_t size = self.n * self.m
        cdef int status
        cdef Stop stop = Stop(tol, floor, least_change, least_relative, constant)
        cdef double began = seconds()
        cdef uint64_t outside
        check_matrix("a plan", plans.shape[1], plans.shape[2], self.n, self.m)
        check_matrix("ends", ends.shape[0], ends.shape[1], plans.shape[0], 2)
        with nogil:
            outside = begin_flush()
            while first < plans.shape[0]:
                if not self.is_under_way:
                    memcpy(self.plan_, &plans[first, 0, 0], size * sizeof(double))
                    self.begin_at_plan()
                    self.is_under_way = True
                status = 0
                while not status and self.n_steps < most:
                    if seconds() - began >= most_seconds:
                        break
                    status = self.step(&stop)
                memcpy(&plans[first, 0, 0], self.plan_, size * sizeof(double))
                ends[first, 0], ends[first, 1] = self.value, self.n_steps
                if not status and self.n_steps < most:
                    break
                self.is_under_way = False
                first += 1
            end_flush(outside)
        return first

    cdef void begin_at_product(self) noexcept nogil:
        """Begin at the product plan, with products of vectors alone."""
        cdef const Terms *t = &self.terms
        cdef ptrdiff_t n = self.n, m = self.m, i, j, k, inner = t.n_products
        cdef double scale = t.mass, rows = 0.0, cols = 0.0
        if self.partial:  # the totals of the masses may differ
            for i in range(n):
                rows += t.p[i]
            for j in range(m):
                cols += t.q[j]
            scale /= rows * cols
        for k in range(inner):
            isa.f64.dot_each_row(t.left[k], t.p, self.row_sums, n, n)
            matmul(self, t.q, 1, m, t.right[k], self.weights + k * m, False)
            for i in range(n):
                self.gathered[inner * i + k] = scale * self.row_sums[i] / inner
        for i in range(n):
            for j in range(m):
                self.plan_[i * m + j] = scale * t.p[i] * t.q[j]
        matmul(self, self.gathered, n, inner, self.weights, self.gradient_, False)
        begin_steps(self)

    cdef void begin_at_plan(self) noexcept nogil:
        """Begin at the plan that is there, mended."""
        cdef const Terms *t = &self.terms
        cdef ptrdiff_t n = self.n, m = self.m, i, k, begin = 0
        if self.transport is not None:
            mend(self.plan_, t.p, t.q, t.mass, self.row_sums, self.col_sums, self.weights, n, m)
        for i in range(n):
            self.changed[i] = i
        while begin < n:
            k = min(BLOCK, n - begin)
            for i in range(t.n_products):
                matmul(self, self.plan_ + begin * m, k, m, t.right[i], self.weights + i * k * m, 0)
            combine(self, self.changed + begin, k, self.gradient_, begin > 0)
            begin = begin + k
        begin_steps(self)

    cdef void save(self, double *room) noexcept nogil:
        """Write where the descent is to 2 n m + 5 numbers, from where it can `go_back` to it."""
        cdef ptrdiff_t size = self.n * self.m
        room[0], room[1], room[2] = self.value, self.at_plan, self.linear_at_plan
        room[3], room[4] = self.largest, self.n_steps
        memcpy(room + 5, self.plan_, size * sizeof(double))
        memcpy(room + 5 + size, self.gradient_, size * sizeof(double))

    cdef void go_back(self, const double *room) noexcept nogil:
        cdef ptrdiff_t size = self.n * self.m
        self.value, self.at_plan, self.linear_at_plan = room[0], room[1], room[2]
        self.largest, self.n_steps = room[3], <ptrdiff_t>room[4]
        memcpy(self.plan_, room + 5, size * sizeof(double))
        memcpy(self.gradient_, room + 5 + size, size * sizeof(double))
        self.has_product, self.gap, self.change = False, INFINITY, INFINITY
        if self.transport is not None:
            self.transport.begin(transport_cost(self))

    cdef int step(self, const Stop *stop) noexcept nogil:
        cdef double at_vertex, linear_at_vertex, between, crossed, own, curved, slope, size, change
        cdef bint settled
        if not minimize(self):
            return 0
        if self.n_steps % ANEW == ANEW - 1:
            sum_up(self)
        at_vertex = over_vertex(self, self.gradient_)
        linear_at_vertex = over_vertex(self, self.terms.linear)
        self.gap = 2 * (self.at_plan - at_vertex)
        size = fabs(self.value + stop.constant)
        # The last step was next to nothing: of E, or of the gap, between vertices far apart.
        settled = self.gap <= stop.floor or (
            self.gap <= stop.tol * size and self.change <= max(1e-9 * size, 0.01 * self.gap)
        )
        multiply(self)
        # <Q(T), S>, <Q(S), T> and <Q(T), T>.
        between, own = at_vertex - linear_at_vertex, self.at_plan - self.linear_at_plan
        crossed, slope = between, -self.gap
        if self.one_sided:
            crossed = isa.f64.dot_rows(self.product, self.plan_, self.n, self.m)
            if self.transport is None:
                slope += crossed - between
            elif not self.partial:
                slope += 2 * (crossed - between)
        curved = over_vertex(self, self.product) - between - crossed + own
        # Where nothing leads down at first, as at the product plan of spaces that look the same
        # from each of their points, the way to the vertex may bend down.
        settled = settled and self.gap - curved <= max(stop.floor, stop.tol * size)
        size = max(min(1.0, -slope / (2 * curved)), 0.0) if curved > 0 else 1.0
        change = size * (size * curved + slope)
        if settled or not change < 0:
            # Nothing goes to the vertex of this product.
            self.has_product = False
            return 1 if settled else 2
        move(self, size)
        own += size * (between + crossed - 2 * own) + size * size * curved
        self.linear_at_plan += size * (linear_at_vertex - self.linear_at_plan)
        self.at_plan = own + self.linear_at_plan
        self.value, self.step_size, self.change = self.value + change, size, -change
        self.n_steps += 1
        size = stop.least_relative * fabs(self.value + stop.constant)
        return 2 if -change < max(stop.least_change, size) else 0


cdef double over_vertex(FrankWolfe steps, const double *matrix) noexcept nogil:
    """Sum a matrix over the vertex, by mass."""
    cdef ptrdiff_t i, e
    cdef double made = 0.0
    if matrix != NULL:
        for i in range(steps.n):
            for e in range(steps.vertex.start[i], steps.vertex.start[i + 1]):
                made += steps.vertex.flow[e] * matrix[i * steps.m + steps.vertex.col[e]]
    return steps.unit * made


cdef void begin_steps(FrankWolfe steps) noexcept nogil:
    """Begin at the plan; `gradient_` is its product with the matrices."""
    cdef ptrdiff_t n = steps.n, m = steps.m
    sum_plan(steps.plan_, steps.row_sums, steps.col_sums, steps.weights, n, m)
    add_losses(steps, steps.gradient_)
    # A move from the product to its sum with the linear costs.
    steps.largest = isa.f64.move_row(
        steps.gradient_, steps.gradient_, steps.terms.linear, 1.0, n * m
    )
    sum_up(steps)
    steps.has_product, steps.n_steps, steps.gap, steps.change = False, 0, INFINITY, INFINITY
    steps.value = steps.at_plan + steps.linear_at_plan
    if steps.transport is not None:
        steps.transport.begin(transport_cost(steps))


cdef void add_losses(FrankWolfe steps, double *out) noexcept nogil:
    """Add the losses of `row_sums` and `col_sums`."""
    cdef ptrdiff_t n = steps.n, m = steps.m, k, i, j, size
    for k in range(2):
        size = m if k else n
        if steps.terms.losses[k] == NULL:
            continue
        isa.f64.dot_each_row(steps.terms.losses[k], steps.col_sums if k else steps.row_sums,
                             steps.losses, size, size)
        for i in range(n):
            for j in range(m):
                out[i * m + j] += steps.losses[j if k else i]


cdef void sum_up(FrankWolfe steps) noexcept nogil:
    """Sum ``<G, T>`` and ``<F, T>`` over all entries."""
    steps.at_plan = isa.f64.dot_rows(steps.gradient_, steps.plan_, steps.n, steps.m)
    steps.linear_at_plan = 0.0
    if steps.terms.linear != NULL:
        steps.linear_at_plan = isa.f64.dot_rows(steps.terms.linear, steps.plan_, steps.n, steps.m)


cdef bint minimize(FrankWolfe steps) noexcept nogil:
    """Find the vertex; return whether it was found, or is yet to be."""
    cdef ptrdiff_t n = steps.n, m = steps.m, i, pivots, most = 1 + TOUCHED // (n + m)
    cdef double zero = 0.0
    cdef Vertex *out = &steps.vertex
    if steps.transport is not None:
        pivots = steps.transport.solve_for(transport_cost(steps), ROUNDING_ * steps.largest, most)
        if pivots >= 0:
            steps.transport.collect(out, n, m)
        return pivots >= 0
    memset(steps.losses, 0, m * sizeof(double))
    for i in range(n):
        out.col[i] = 0  # stays if no entry of the row is a finite number
        isa.f64.least_of_rows(steps.gradient_ + i * m, &zero, steps.losses, 1, m, INFINITY,
                              &out.col[i])
        out.start[i], out.flow[i] = i, steps.units[i]
    out.start[n] = n
    return True


cdef const double *transport_cost(FrankWolfe steps) noexcept nogil:
    """Return G, for a partial plan with a row and a column for the mass that stays."""
    cdef ptrdiff_t n = steps.n, m = steps.m, i
    if not steps.partial:
        return steps.gradient_
    for i in range(n):
        memcpy(steps.padded + i * (m + 1), steps.gradient_ + i * m, m * sizeof(double))
    # Mass that stays must not go to mass that stays.
    steps.padded[n * (m + 1) + m] = 4 * steps.largest
    return steps.padded


cdef void multiply(FrankWolfe steps) noexcept nogil:
    """Bring `product`, Q of a vertex, to the new vertex."""
    cdef const Terms *t = &steps.terms
    cdef ptrdiff_t total = compare(steps), begin = 0, k, r, m = steps.m
    while begin < total:
        k = min(BLOCK, total - begin)
        for r in range(k * t.n_products):
            weigh(steps, begin + r % k, t.right[r // k], steps.weights + r * m)
        combine(steps, steps.changed + begin, k, steps.product, begin > 0 or steps.has_product)
        begin = begin + k
    if total:
        add_losses(steps, steps.product)
    steps.has_product = True


cdef ptrdiff_t compare(FrankWolfe steps) noexcept nogil:
    """Leave the change of the vertex in `delta`, for the rows in `changed`, and sums of the change
    in `row_sums` and `col_sums`; return the number of rows. If most have changed all count.
    """
    cdef ptrdiff_t i, e, k = 0, begin, end = 0
    memset(steps.row_sums, 0, steps.n * sizeof(double))
    memset(steps.col_sums, 0, steps.m * sizeof(double))
    for i in range(steps.n):
        begin = end
        for e in range(steps.vertex.start[i], steps.vertex.start[i + 1]):
            steps.moved[steps.vertex.col[e]] += steps.vertex.flow[e]
        if steps.has_product:
            for e in range(steps.former.start[i], steps.former.start[i + 1]):
                steps.moved[steps.former.col[e]] -= steps.former.flow[e]
            end = note(steps, &steps.former, i, end)
        end = note(steps, &steps.vertex, i, end)
        if end > begin:
            steps.changed[k], steps.delta.start[k] = i, begin
            k += 1
    steps.delta.start[k] = end
    if steps.has_product and 10 * k > 9 * steps.n:
        steps.has_product = False
        return compare(steps)
    return k


cdef ptrdiff_t note(FrankWolfe steps, const Vertex *of, ptrdiff_t i, ptrdiff_t end) noexcept nogil:
    """Take flows that `moved` has in the columns of row i to `delta`; return its new end."""
    cdef ptrdiff_t e, j
    for e in range(of.start[i], of.start[i + 1]):
        j = of.col[e]
        if steps.moved[j]:
            steps.delta.col[end], steps.delta.flow[end] = j, steps.moved[j]
            steps.row_sums[i] += steps.unit * steps.moved[j]
            steps.col_sums[j] += steps.unit * steps.moved[j]
            steps.moved[j] = 0
            end += 1
    return end


cdef void weigh(FrankWolfe steps, ptrdiff_t k, const double *right, double *out) noexcept nogil:
    """out = the k-th changed row times right."""
    cdef ptrdiff_t m = steps.m, j, e
    cdef const double *row
    cdef double by
    memset(out, 0, m * sizeof(double))
    for e in range(steps.delta.start[k], steps.delta.start[k + 1]):
        by, row = steps.unit * steps.delta.flow[e], right + steps.delta.col[e] * m
        for j in range(m):
            out[j] += by * row[j]


cdef void combine(
    FrankWolfe steps, const ptrdiff_t *cols, ptrdiff_t k, double *out, bint adds
) noexcept nogil:
    """Make or add to `out` these k columns of the left matrices times `weights`."""
    cdef const Terms *t = &steps.terms
    cdef ptrdiff_t n = steps.n, i, r, s, inner = t.n_products * k
    for i in range(n):
        for s in range(t.n_products):
            for r in range(k):
                steps.gathered[i * inner + s * k + r] = t.left[s][i * n + cols[r]] / t.n_products
    matmul(steps, steps.gathered, n, inner, steps.weights, out, adds)


cdef void matmul(
    FrankWolfe steps, const double *a, ptrdiff_t rows, ptrdiff_t inner, const double *b,
    double *out, bint adds,
) noexcept nogil:
    """Make or add to `out` (rows, m) the product of a (rows, inner) and b (inner, m)."""
    cdef ptrdiff_t m = steps.m, panel = isa.f64.panel, size = chunk_rows(rows), chunk, j, i
    cdef ptrdiff_t chunks = count_chunks(rows, size)
    cdef int threads = steps.n_threads if <double>rows * inner * m > LEAST_WORK else 1
    cdef uint64_t before
    for i in range(count_chunks(m, panel)):
        j = i * panel
        isa.f64.pack_panel(b + j, m, 1, NULL, inner, min(panel, m - j), steps.packed + j * inner)
    if threads == 1:  # a loop of OpenMP takes as long as a small product
        isa.f64.product_rows(a, inner, steps.packed, inner, out, m, rows, m, adds)
        return
    for chunk in prange(chunks, num_threads=team(threads, chunks), schedule="dynamic"):
        before = begin_flush()
        i = chunk * size
        isa.f64.product_rows(a + i * inner, inner, steps.packed, inner, out + i * m, m,
                             min(size, rows - i), m, adds)
        end_flush(before)


cdef void move(FrankWolfe steps, double size) noexcept nogil:
    """Go that part of the way to the vertex, whose product there is."""
    cdef ptrdiff_t n = steps.n, m = steps.m, i, e, chunk, rows = chunk_rows(n)
    cdef ptrdiff_t chunks = count_chunks(n, rows)
    cdef int threads = steps.n_threads if <double>n * m * 8 > LEAST_WORK else 1
    cdef uint64_t before
    if threads == 1:
        steps.largest = move_rows(steps, 0, n, size)
    else:
        for chunk in prange(chunks, num_threads=team(threads, chunks), schedule="static"):
            before = begin_flush()
            steps.peaks[chunk] = move_rows(steps, chunk * rows, min(chunk * rows + rows, n), size)
            end_flush(before)
        steps.largest = 0.0
        for chunk in range(chunks):
            steps.largest = max(steps.largest, steps.peaks[chunk])
    for i in range(n):
        for e in range(steps.vertex.start[i], steps.vertex.start[i + 1]):
            steps.plan_[i * m + steps.vertex.col[e]] += size * steps.unit * steps.vertex.flow[e]
    steps.vertex, steps.former = steps.former, steps.vertex


cdef double move_rows(FrankWolfe steps, ptrdiff_t begin, ptrdiff_t end, double size) noexcept nogil:
    """Take rows of the plan and of G on the way; return the largest absolute value of G."""
    cdef ptrdiff_t first = begin * steps.m, count = (end - begin) * steps.m, k
    cdef const double *linear = steps.terms.linear
    if linear != NULL:
        linear += first
    for k in range(first, first + count):
        steps.plan_[k] *= 1.0 - size
    return isa.f64.move_row(steps.gradient_ + first, steps.product + first, linear, size, count)

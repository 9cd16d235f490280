"""Conditional gradient steps (Frank and Wolfe) on quadratic functions of a plan
``T``, with exact line search:

    E(T) = <Q(T), T> + 2 <F, T>,   Q(T) = left T right + a(T 1) 1' + 1 b(T' 1)'

Half the gradient is ``G = Q(T) + F``. The vertex S that minimizes ``<G, S>`` comes from
one of three oracles: exact transport between fixed marginals, the same where only a
part of the mass moves, or each row by itself. A vertex has fewer than n + m entries,
and the next one shares most of them: only rows that changed go through the product, and
everything else that a step needs is a sum over entries of a vertex.
"""
from cython.parallel cimport prange
from libc.math cimport fabs
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t
from libc.string cimport memset

from ._rows cimport check_matrix, chunk_rows, count_chunks, isa, team
from ._transport cimport Transport

import numpy as np

from ._rows import aligned_empty
from ._transport import ROUNDING, UNITS

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
# Nodes that the pivots of one call may touch, at most: a fraction of a second.
cdef ptrdiff_t TOUCHED = 1 << 26
# What `advance` may end with.
MORE, CONVERGED, STALLED = range(3)


# Entries of a vertex by rows, in units of mass.
cdef struct Vertex:
    ptrdiff_t *start
    ptrdiff_t *col
    int64_t *flow


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

    cdef const double[:, ::1] left, right, other_left, other_right, linear
    cdef const double[:, ::1] row_losses, col_losses
    cdef Transport transport
    cdef Vertex vertex, former
    cdef readonly ptrdiff_t n, m, n_steps
    cdef readonly double value, gap, step_size, change
    cdef double[:, ::1] plan_, gradient_, product, padded
    # The plan is `scale` times plan_, and the former vertex if `is_vertex`.
    cdef double scale, at_plan, linear_at_plan, largest, unit
    cdef bint is_vertex, has_product, partial
    cdef ptrdiff_t[:, ::1] starts, entry_cols
    cdef int64_t[:, ::1] entry_flows
    cdef int64_t[::1] units, row_units, col_units, changed_by
    cdef ptrdiff_t[::1] changed, touched
    cdef double[:, ::1] weights, gathered
    cdef unsigned char[::1] packed
    cdef double[::1] zeros, peaks, shift
    cdef int n_threads

    def __init__(
        self, left, right, p, q, str kind="balanced", double mass=1.0, linear=None,
        losses=None, others=None, int n_threads=1,
    ):
        cdef ptrdiff_t n = p.shape[0], m = q.shape[0], most
        self.n, self.m, self.n_threads = n, m, n_threads
        self.left, self.right, self.linear = left, right, linear
        for name, pair in (
            ("left and right", (left, right)), ("losses", losses), ("others", others)
        ):
            for one, size in zip(pair or (), (n, m)):
                if one is not None:
                    check_matrix(name, one.shape[0], one.shape[1], size, size)
        self.row_losses, self.col_losses = losses or (None, None)
        self.other_left, self.other_right = others or (None, None)
        if linear is not None:
            check_matrix("linear", linear.shape[0], linear.shape[1], n, m)
        self.partial = kind == "partial"
        if kind == "balanced":
            self.transport = Transport(p, q)
        elif self.partial:
            # Where all mass moves, next to none is left.
            least = mass / UNITS
            ends = max(q.sum() - mass, least), max(p.sum() - mass, least)
            self.transport = Transport(*(np.append(*x) for x in zip((p, q), ends)))
            self.padded = np.zeros((n + 1, m + 1))
        if self.transport is None:
            self.unit = p.sum() / UNITS
            self.units = np.rint(p / self.unit).astype(np.int64)
        else:
            self.unit = self.transport.unit
        size = n if self.transport is None else n + m + 2
        self.starts = np.zeros((2, n + 1), dtype=np.intp)
        self.entry_cols = np.zeros((2, size), dtype=np.intp)
        self.entry_flows = np.zeros((2, size), dtype=np.int64)
        self.vertex.start, self.former.start = &self.starts[0, 0], &self.starts[1, 0]
        self.vertex.col = &self.entry_cols[0, 0]
        self.former.col = &self.entry_cols[1, 0]
        self.vertex.flow = &self.entry_flows[0, 0]
        self.former.flow = &self.entry_flows[1, 0]
        self.row_units = np.zeros(n, dtype=np.int64)
        self.col_units = np.zeros(m, dtype=np.int64)
        self.changed_by = np.zeros(m, dtype=np.int64)
        self.changed, self.touched = np.zeros((2, max(n, 2 * m) + 1), dtype=np.intp)
        most = min(n, BLOCK) * (1 if others is None else 2) + 2
        lanes = isa.f64.lanes
        self.weights = np.empty((most, m))
        self.gathered = np.empty((n, most))
        size = most * ((m + lanes - 1) // lanes * lanes) * sizeof(double)
        self.packed = aligned_empty(size, np.uint8)
        self.product, self.gradient_ = np.zeros((n, m)), np.empty((n, m))
        self.plan_, self.zeros = np.empty((n, m)), np.zeros(max(n, m))
        self.peaks = np.zeros(count_chunks(n, chunk_rows(n)))

    def start(self, plan, gradient):
        """Begin at a plan, (n, m), whose G is given."""
        np.copyto(np.asarray(self.plan_), plan)
        np.copyto(np.asarray(self.gradient_), gradient)
        self.scale, self.is_vertex, self.n_steps = 1.0, False, 0
        self.has_product = False
        self.largest = max(np.max(gradient), -np.min(gradient))
        self.sum_up()
        self.value, self.gap = self.at_plan + self.linear_at_plan, np.inf
        self.change = np.inf
        if self.transport is not None:
            self.transport.begin(self.transport_cost())

    def turn_to(self, cost, tolerance=None):
        """Go to the vertex that is the optimum of other costs, as in `Transport.solve`:
        the linear program of the next step, whose marginals are fixed, begins there,
        and ends there if that is an optimum of both.
        """
        self.transport.solve(cost, tolerance)

    @property
    def plan(self):
        """A copy, (n, m)."""
        return np.multiply(self.plan_, self.scale)

    @property
    def gradient(self):
        """Half of it at the plan, (n, m), read only."""
        made = np.asarray(self.gradient_)
        made.flags.writeable = False
        return made

    def advance(
        self, ptrdiff_t most, double tol=0.0, double floor=0.0, double least_change=0.0,
        double least_relative=0.0, double constant=0.0,
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

        Returns
        -------
        int
            MORE, CONVERGED or STALLED. A step whose linear program takes long needs
            more than one: `n_steps` says how many have been made.
        """
        cdef int status = 0
        with nogil:
            while most > 0 and not status:
                most -= 1
                status = self.step(tol, floor, least_change, least_relative, constant)
        return status

    def potentials(self):
        """Of the last linear program: no entry of G is less than their sum, and where
        the vertex has mass it is that. Where each row goes by itself: at the plan.
        """
        n, m = self.n, self.m
        if self.transport is None:
            return np.min(self.gradient_, axis=1), np.zeros(m)
        rows, cols = self.transport.potentials()
        return rows[:n], cols[:m]

    cdef int step(
        self, double tol, double floor, double least_change, double least_relative,
        double constant,
    ) noexcept nogil:
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
                at_vertex += mass * self.gradient_[i, j]
                if self.linear is not None:
                    linear_at_vertex += mass * self.linear[i, j]
        self.gap = 2 * (self.at_plan - at_vertex)
        size = fabs(self.value + constant)
        settled = self.gap <= floor or (
            self.gap <= tol * size
            and self.change <= max(STILL * size, FEW * self.gap)
        )
        self.multiply()
        for i in range(self.n):
            for e in range(self.vertex.start[i], self.vertex.start[i + 1]):
                of_vertex += (self.unit * self.vertex.flow[e]
                              * self.product[i, self.vertex.col[e]])
        # <Q(S), S>, <Q(T), S> and <Q(T), T>.
        between = at_vertex - linear_at_vertex
        own = self.at_plan - self.linear_at_plan
        curved = of_vertex - 2 * between + own
        slope = -self.gap
        # Where nothing leads down at first, as at the product plan of spaces that look
        # the same from each of their points, the way to the vertex may bend down.
        if settled and self.gap - curved <= max(floor, tol * size):
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
        if -change < max(least_change, least_relative * fabs(self.value + constant)):
            return 2
        return 0

    cdef bint minimize(self) noexcept nogil:
        """Find the vertex; returns whether it was found, or is yet to be."""
        cdef ptrdiff_t n = self.n, m = self.m, i, j = 0
        cdef Vertex out = self.vertex
        if self.transport is None:
            for i in range(n):
                isa.f64.least_of_row(&self.gradient_[i, 0], &self.zeros[0], m, &j)
                out.start[i], out.col[i], out.flow[i] = i, j, self.units[i]
            out.start[n] = n
            return True
        if self.transport.solve_for(
            self.transport_cost(), ROUNDING_ * self.largest, 1 + TOUCHED // (n + m)
        ) < 0:
            return False
        self.collect(out)
        return True

    cdef const double *transport_cost(self) noexcept nogil:
        """G, for a partial plan with what is left of either side."""
        cdef ptrdiff_t n = self.n, m = self.m, i, j
        if not self.partial:
            return &self.gradient_[0, 0]
        for i in range(n):
            for j in range(m):
                self.padded[i, j] = self.gradient_[i, j]
        # What is left must not go to what is left.
        self.padded[n, m] = 4 * self.largest
        return &self.padded[0, 0]

    cdef void collect(self, Vertex out) noexcept nogil:
        """The entries of the tree, by rows."""
        cdef ptrdiff_t nodes = self.transport.tree.n + self.transport.tree.m
        cdef ptrdiff_t node, i = 0, j = 0, at
        memset(&out.start[0], 0, (self.n + 1) * sizeof(ptrdiff_t))
        for node in range(nodes):
            if self.entry(node, &i, &j):
                out.start[i + 1] += 1
        for i in range(self.n):
            out.start[i + 1] += out.start[i]
        # Filled from the end of each row, so that starts move to where they belong.
        for node in range(nodes):
            if self.entry(node, &i, &j):
                at = out.start[i]
                out.col[at], out.flow[at] = j, self.transport.flow[node]
                out.start[i] += 1
        for i in range(self.n, 0, -1):
            out.start[i] = out.start[i - 1]
        out.start[0] = 0

    cdef bint entry(self, ptrdiff_t node, ptrdiff_t *i, ptrdiff_t *j) noexcept nogil:
        """Whether an arc of the tree is an entry of the plan, and where."""
        if not self.transport.arc(node, i, j) or not self.transport.flow[node]:
            return False
        return i[0] < self.n and j[0] < self.m

    cdef void multiply(self) noexcept nogil:
        """Make `product` Q(S), from that of the former vertex."""
        cdef ptrdiff_t k = self.find_changes(), begin = 0
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
        cdef ptrdiff_t n = self.n, m = self.m, r
        cdef ptrdiff_t inner = k, first, chunk, panel, j, width = isa.f64.panel
        cdef ptrdiff_t panels = count_chunks(m, width)
        cdef bint asymmetric = self.other_left is not None
        cdef double factor = 0.5 if asymmetric else 1.0
        cdef ptrdiff_t *changed = &self.changed[begin]
        for r in range(k):
            self.weigh(changed[r], self.right, &self.weights[r, 0], factor)
        if asymmetric:
            for r in range(k):
                self.weigh(
                    changed[r], self.other_right, &self.weights[k + r, 0], factor
                )
            inner += k
        first = inner
        if last and self.row_losses is not None:
            for j in range(m):
                self.weights[inner, j] = 1.0
            inner += 1
        if last and self.col_losses is not None:
            self.shift_by(self.col_losses, self.col_units, &self.weights[inner, 0])
            inner += 1
        for panel in range(panels):
            j = panel * width
            isa.f64.pack_panel(&self.weights[0, j], m, 1, NULL, inner,
                               min(width, m - j),
                               <double *>&self.packed[0] + j * inner)
        cdef double *rows = &self.gathered[0, 0]
        cdef double work = <double>n * inner * m
        cdef int threads = self.n_threads if work > LEAST_WORK else 1
        cdef ptrdiff_t size = chunk_rows(n), chunks = count_chunks(n, size)
        for chunk in prange(chunks, num_threads=team(threads, chunks),
                            schedule="dynamic"):
            self.multiply_rows(chunk * size, min(chunk * size + size, n), changed, k,
                               first, inner, rows, begin > 0 or self.has_product)

    cdef void multiply_rows(
        self, ptrdiff_t begin, ptrdiff_t end, const ptrdiff_t *changed, ptrdiff_t k,
        ptrdiff_t first, ptrdiff_t inner, double *gathered, bint adds,
    ) noexcept nogil:
        cdef ptrdiff_t i, r, j, at, rows, m = self.m
        cdef double *row
        at = begin
        while at < end:
            rows = min(STRIP, end - at)
            for i in range(at, at + rows):
                row = gathered + i * inner
                for r in range(k):
                    row[r] = self.left[i, changed[r]]
                if self.other_left is not None:
                    for r in range(k):
                        row[k + r] = self.other_left[i, changed[r]]
                j = first
                if first < inner and self.row_losses is not None:
                    row[j] = 0.0
                    for r in range(self.n):
                        if self.row_units[r]:
                            row[j] += (self.unit * self.row_units[r]
                                       * self.row_losses[i, r])
                    j = j + 1
                if first < inner and self.col_losses is not None:
                    row[j] = 1.0
            isa.f64.product_rows(gathered + at * inner, inner,
                                 <const double *>&self.packed[0], inner,
                                 &self.product[at, 0], m, rows, m, adds)
            at = at + rows

    cdef void weigh(
        self, ptrdiff_t i, const double[:, ::1] right, double *out, double factor
    ) noexcept nogil:
        """out = factor times row i of (the change of the vertex) right."""
        cdef ptrdiff_t count = self.change_of(i), e, j, col
        cdef double by
        cdef const double *row
        memset(out, 0, self.m * sizeof(double))
        for e in range(count):
            col = self.touched[e]
            by = factor * self.unit * self.changed_by[col]
            self.changed_by[col] = 0
            if by != 0:
                row = &right[col, 0]
                for j in range(self.m):
                    out[j] += by * row[j]

    cdef void shift_by(
        self, const double[:, ::1] losses, int64_t[::1] units, double *out
    ) noexcept nogil:
        """out = losses times the change of a marginal."""
        cdef ptrdiff_t size = losses.shape[0], i, j
        memset(out, 0, size * sizeof(double))
        for i in range(size):
            if units[i]:
                for j in range(size):
                    out[j] += self.unit * units[i] * losses[i, j]

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
        memset(&self.row_units[0], 0, self.n * sizeof(int64_t))
        memset(&self.col_units[0], 0, self.m * sizeof(int64_t))
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
        cdef double *plan = &self.plan_[0, 0]
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
        cdef double *plan = &self.plan_[0, 0]
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
        cdef ptrdiff_t i, count = (end - begin) * self.m
        cdef double *to = &self.gradient_[begin, 0]
        cdef const double *towards = &self.product[begin, 0]
        cdef const double *linear = NULL
        cdef double low = 0, high = 0
        if self.linear is not None:
            linear = &self.linear[begin, 0]
            for i in range(count):
                to[i] += size * (towards[i] + linear[i] - to[i])
        else:
            for i in range(count):
                to[i] += size * (towards[i] - to[i])
        for i in range(count):
            low = to[i] if to[i] < low else low
            high = to[i] if to[i] > high else high
        return max(high, -low)

    cdef void sum_up(self) noexcept nogil:
        """<G, T> and <F, T> from all entries."""
        self.at_plan = self.scale * isa.f64.dot_rows(
            &self.gradient_[0, 0], &self.plan_[0, 0], self.n, self.m
        )
        self.linear_at_plan = 0.0
        if self.linear is not None:
            self.linear_at_plan = self.scale * isa.f64.dot_rows(
                &self.linear[0, 0], &self.plan_[0, 0], self.n, self.m
            )


cdef double ROUNDING_ = ROUNDING

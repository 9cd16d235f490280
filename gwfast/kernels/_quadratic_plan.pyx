"""Plans ``T`` of a quadratic function, and half its gradient at them:

    E(T) = <Q(T), T> + 2 <F, T>,   Q(T) = left T right + a(T 1) 1' + 1 b(T' 1)'

with ``G = Q(T) + F``. A vertex has fewer than n + m entries, and the next one shares
most of them: only rows that changed go through the product.
"""
from cython.parallel cimport prange
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from ._rows cimport N_CHUNKS, begin_flush, chunk_rows, count_chunks, end_flush, isa, team

import numpy as np

from ._rows import aligned_empty

# Multiplications of a product below which another thread is not worth waking.
cdef double LEAST_WORK = 1e6
# Rows of a product made at a time, beside what they are added to.
cdef ptrdiff_t STRIP = 16
# Changed rows of a vertex whose product is made at a time, so that it stays in cache.
cdef ptrdiff_t BLOCK = 512
# In place of a sum of nothing.
cdef double LEAST = 1e-300
# Mass that a plan lacks by rounding, as a fraction of all.
cdef double ROUNDED = 1e-14


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


cdef class QuadraticPlan:
    """A function, a plan and half the gradient there. Buffers that are made once serve
    all functions of no more points.
    """

    cdef int reserve(self, ptrdiff_t n, ptrdiff_t m, bint asymmetric) except -1:
        """Make room for problems of up to so many points."""
        cdef size_t size = self.lay_out(n, m, asymmetric, 0)
        self.memory = aligned_empty(size, np.uint8)
        return 0

    cdef size_t lay_out(
        self, ptrdiff_t n, ptrdiff_t m, bint asymmetric, size_t at
    ) noexcept nogil:
        """Lay out what there is in memory that starts there; returns where it ends."""
        cdef ptrdiff_t most = min(n, BLOCK) * (2 if asymmetric else 1) + 2
        cdef ptrdiff_t size = n + m + 2, lanes = isa.f64.lanes, panel = isa.f64.panel
        cdef ptrdiff_t width = (m + lanes - 1) // lanes * lanes
        cdef size_t word = sizeof(double)
        cdef Vertex *vertex
        cdef int k
        self.packed = <double *>take(&at, max(most * width, m * panel) * word)
        self.plan_ = <double *>take(&at, n * m * word)
        self.gradient_ = <double *>take(&at, n * m * word)
        self.product = <double *>take(&at, n * m * word)
        self.weights = <double *>take(&at, most * m * word)
        self.gathered = <double *>take(&at, n * most * word)
        self.sums = <double *>take(&at, 2 * (n + m) * word)
        self.peaks = <double *>take(&at, N_CHUNKS * word)
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

    cdef void bind(self, const Terms *terms) noexcept nogil:
        """Take a function, for which there is room."""
        cdef ptrdiff_t n = terms.n, m = terms.m
        self.terms, self.n, self.m = terms[0], n, m
        self.lay_out(n, m, terms.other_left != NULL, <size_t>&self.memory[0])
        memset(self.changed_by, 0, m * sizeof(int64_t))

    def start(self, plan=None):
        """Begin at a plan, (n, m), whose marginals are mended, or at the product plan.
        """
        cdef uint64_t before
        if plan is not None:
            np.maximum(plan, 0.0, out=self._array(self.plan_))
        with nogil:
            before = begin_flush()
            if plan is None:
                self.begin_at_product()
            else:
                self.mend()
                self.differentiate()
                self.begin()
            end_flush(before)

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
            if self.rows_only and not size > 0:
                for j in range(m):
                    self.plan_[i * m + j] = t.p[i] / m
                continue
            # In units of the plan's mass, which is to be `mass`.
            if self.rows_only:
                size = t.p[i] / size
            else:
                size = t.mass / max(total, LEAST)
                size = min(size, t.p[i] / max(self.sums[i], LEAST))
            for j in range(m):
                self.plan_[i * m + j] *= size
        if self.rows_only:
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
        # Rounding would leave no entry of a sparse plan zero.
        if not lacking > ROUNDED * t.mass:
            return
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
        self.scale, self.is_vertex, self.has_product = 1.0, False, False
        # A move by nothing, for the largest value alone.
        self.largest = isa.f64.move_row(
            self.gradient_, self.gradient_, NULL, 0.0, self.n * self.m
        )
        self.sum_up()

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
        cdef uint64_t before
        for panel in range(count_chunks(m, width)):
            j = panel * width
            isa.f64.pack_panel(self.weights + j, m, 1, NULL, inner, min(width, m - j),
                               self.packed + j * inner)
        if threads == 1:
            self.multiply_rows(0, n, rows, k, first, inner, adds)
            return
        for chunk in prange(chunks, num_threads=team(threads, chunks),
                            schedule="dynamic"):
            before = begin_flush()
            self.multiply_rows(chunk * size, min(chunk * size + size, n), rows, k,
                               first, inner, adds)
            end_flush(before)

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
        cdef uint64_t before
        for of in range(count_chunks(m, panel)):
            j = of * panel
            width = min(panel, m - j)
            isa.f64.pack_panel(right + j, m, 1, NULL, m, width, self.packed)
            for chunk in prange(chunks, num_threads=team(threads, chunks),
                                schedule="static"):
                before = begin_flush()
                isa.f64.product_rows(
                    self.plan_ + (begin + chunk * size) * m, m, self.packed, m,
                    out + chunk * size * m + j, m, min(size, k - chunk * size), width,
                    False,
                )
                end_flush(before)
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
        cdef uint64_t before
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
                before = begin_flush()
                self.peaks[chunk] = self.move_rows(
                    chunk * rows, min(chunk * rows + rows, n), size
                )
                end_flush(before)
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

"""Exact transport plans by the network simplex method (csrc/network_simplex.h), on one thread."""
cimport cython
from libc.float cimport DBL_MAX
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint64_t
from libc.string cimport memset

from ._rows cimport begin_flush, check_matrix, end_flush, isa

import numpy as np

# Units of all mass: sums are whole numbers of 64 bits.
UNITS = 1 << 60
cdef double UNITS_ = UNITS
# Rounding of potentials in some thousand pivots, as a fraction of the largest cost.
ROUNDING = 2.0**-44
# In place of a sum of nothing.
cdef double LEAST = 1e-300


cdef double total(const double *masses, ptrdiff_t n) noexcept nogil:
    """Return the sum of masses, as if rounded once (Kahan)."""
    cdef double made = 0.0, lost = 0.0, one, more
    cdef ptrdiff_t k
    for k in range(n):
        one = masses[k] - lost
        more = made + one
        lost = (more - made) - one
        made = more
    return made


cdef int64_t count_units(
    const double *masses, ptrdiff_t n, double scale, int64_t *out
) noexcept nogil:
    """Write masses in units, `scale` to a mass of one, at least one unit each; return the sum."""
    cdef int64_t made = 0
    cdef ptrdiff_t k
    for k in range(n):
        out[k] = <int64_t>max(masses[k] * scale, 1.0)
        made += out[k]
    return made


cdef void lessen(int64_t *units, ptrdiff_t n, int64_t by) noexcept nogil:
    """Take some from the largest."""
    cdef ptrdiff_t k, largest = 0
    for k in range(n):
        if units[k] > units[largest]:
            largest = k
    units[largest] -= by


cdef double sum_plan(
    double *plan, double *rows, double *cols, double *room, ptrdiff_t n, ptrdiff_t m
) noexcept nogil:
    """Write the sums of a plan (n, m), given room for m numbers; return the whole."""
    cdef ptrdiff_t i
    cdef double mass = 0.0
    memset(cols, 0, m * sizeof(double))
    isa.f64.sum_rows(plan, NULL, NULL, rows, room, cols, n, m)
    for i in range(n):
        mass += rows[i]
    return mass


cdef void mend(
    double *plan, const double *p, const double *q, double mass, double *rows, double *cols,
    double *room, ptrdiff_t n, ptrdiff_t m,
) noexcept nogil:
    """Give a plan (n, m) its marginals and its mass: cut down rows, then columns, and share out the
    rest (Altschuler, Weed and Rigollet, NIPS 2017, algorithm 2).
    """
    cdef ptrdiff_t i, j
    cdef double lacking, share = mass / max(sum_plan(plan, rows, cols, room, n, m), LEAST)
    cdef double of_rows = 0.0, of_cols = 0.0
    for i in range(n):
        rows[i] = min(share, p[i] / max(rows[i], LEAST))
        for j in range(m):
            plan[i * m + j] *= rows[i]
    sum_plan(plan, rows, cols, room, n, m)
    for j in range(m):
        cols[j] = min(1.0, q[j] / max(cols[j], LEAST))
    for i in range(n):
        for j in range(m):
            plan[i * m + j] *= cols[j]
    lacking = mass - sum_plan(plan, rows, cols, room, n, m)
    # Rounding would leave no entry of a sparse plan zero.
    if lacking <= 1e-14 * mass:
        return
    for i in range(n):
        rows[i] = max(p[i] - rows[i], 0.0)
        of_rows += rows[i]
    for j in range(m):
        cols[j] = max(q[j] - cols[j], 0.0)
        of_cols += cols[j]
    lacking /= max(of_rows * of_cols, LEAST)
    for i in range(n):
        for j in range(m):
            plan[i * m + j] += lacking * rows[i] * cols[j]


@cython.final
cdef class Transport:
    """Exact plans between two lists of positive masses of equal sum, for one matrix of costs after
    another: each begins where the last one ended, the first at a plan by a greedy rule. All flows
    are multiples of the mass `unit`.
    """

    def __init__(self, const double[::1] p, const double[::1] q):
        cdef ptrdiff_t n = p.shape[0], m = q.shape[0]
        self.reserve(n + m)
        if not self.fit(&p[0], n, &q[0], m):
            sizes, least = (np.sum(p), np.sum(q)), min(np.min(p), np.min(q))
            raise ValueError(
                f"masses must be positive and have equal sums, got sums of "
                f"{sizes[0]:g} and {sizes[1]:g}, and a least mass of {least:g}"
            )

    cdef int reserve(self, ptrdiff_t nodes) except -1:
        """Make room for the masses of both sides."""
        if nodes > INT32_MAX:
            raise ValueError(f"there must be fewer than 2^31 masses, got {nodes}")
        self.whole = np.empty(4 * nodes, dtype=np.int64)
        self.numbers = np.empty(2 * nodes)
        return 0

    cdef bint fit(self, const double *p, ptrdiff_t n, const double *q, ptrdiff_t m) noexcept nogil:
        """Take masses in units; return whether they are positive and have sums that differ by
        rounding, which the largest mass of either side makes up for.
        """
        cdef double of_p = total(p, n), of_q = total(q, m), least = p[0]
        cdef int64_t rows, cols
        cdef int32_t *links
        cdef ptrdiff_t k, nodes = n + m
        for k in range(n):
            least = min(least, p[k])
        for k in range(m):
            least = min(least, q[k])
        # As comparisons with NaN are false.
        if not (least > 0 and of_p <= DBL_MAX and of_q <= DBL_MAX
                and -1e-6 * of_q <= of_p - of_q <= 1e-6 * of_q):
            return False
        rows = count_units(p, n, UNITS_ / of_p, &self.whole[0])
        cols = count_units(q, m, UNITS_ / of_q, &self.whole[n])
        if rows > cols:
            lessen(&self.whole[0], n, rows - cols)
        else:
            lessen(&self.whole[n], m, cols - rows)
        self.unit = (of_p + of_q) / 2 / min(rows, cols)
        self.tree.n, self.tree.m, self.tree.root = n, m, -1
        self.tree.mass, self.tree.flow = &self.whole[0], &self.whole[nodes]
        links = <int32_t *>&self.whole[2 * nodes]
        self.tree.parent, self.tree.depth = links, links + nodes
        self.tree.next, self.tree.before = links + 2 * nodes, links + 3 * nodes
        self.tree.potential = &self.numbers[0]
        self.tree.room = &self.numbers[nodes]
        return True

    cdef void begin(self, const double *cost) noexcept nogil:
        """Take the first tree by the costs."""
        gwf_tree_greedy(&self.tree, cost, isa.f64)

    cdef ptrdiff_t solve_for(
        self, const double *cost, double tolerance, ptrdiff_t most
    ) noexcept nogil:
        return gwf_tree_solve(&self.tree, cost, tolerance, most, isa.f64)

    cdef void collect(self, Vertex *out, ptrdiff_t n, ptrdiff_t m) noexcept nogil:
        """Take the entries with mass in the first n rows and m columns of the tree, by rows."""
        cdef ptrdiff_t nodes = self.tree.n + self.tree.m, node, i, j, filled
        cdef const int64_t *flow = self.tree.flow
        memset(out.start, 0, (n + 1) * sizeof(ptrdiff_t))
        # Rows are counted first, then filled from their ends, which move to the starts.
        for filled in range(2):
            for node in range(nodes - 1, -1, -1):
                i = j = 0
                if not flow[node] or not self.arc(node, &i, &j) or i >= n or j >= m:
                    continue
                out.start[i] += -1 if filled else 1
                if filled:
                    out.col[out.start[i]], out.flow[out.start[i]] = j, flow[node]
            for i in range(0 if filled else n):
                out.start[i + 1] += out.start[i]

    def solve(self, const double[:, ::1] cost):
        """Go on to the optimum for these finite costs (n, m); return the number of pivots."""
        cdef ptrdiff_t pivots
        cdef double tolerance
        cdef uint64_t before
        check_matrix("cost", cost.shape[0], cost.shape[1], self.tree.n, self.tree.m)
        tolerance = ROUNDING * max(np.max(cost), -np.min(cost))
        with nogil:
            before = begin_flush()
            if self.tree.root < 0:
                self.begin(&cost[0, 0])
            pivots = self.solve_for(&cost[0, 0], tolerance, -1)
            end_flush(before)
        return pivots

    def entries(self):
        """Return rows, columns and masses of the n + m - 1 entries of the plan, some of them 0."""
        if self.tree.root < 0:
            raise RuntimeError("there is no plan before the first solve")
        cdef ptrdiff_t n = self.tree.n, m = self.tree.m, node, k = 0
        rows, cols = np.empty((2, n + m - 1), dtype=np.intp)
        masses = np.empty(n + m - 1)
        cdef ptrdiff_t[::1] row = rows, col = cols
        cdef double[::1] mass = masses
        for node in range(n + m):
            if self.arc(node, &row[min(k, n + m - 2)], &col[min(k, n + m - 2)]):
                mass[k] = self.tree.flow[node] * self.unit
                k += 1
        return rows, cols, masses

    def potentials(self):
        """Return potentials of rows and of columns: costs are not below their sums, up to rounding,
        and costs of entries of the plan are equal to them.
        """
        n, m = self.tree.n, self.tree.m
        made = np.array(self.numbers[:n + m])
        return made[:n], made[n:]

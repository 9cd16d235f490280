"""Exact transport plans by the network simplex method (csrc/network_simplex.h), one
problem on one thread; what the constructor and `solve` check holds for the rest.
"""
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t

from ._rows cimport check_matrix, isa

import numpy as np

# Units of mass that there are in all: their sums are whole numbers of 64 bits.
UNITS = 1 << 60
# What potentials may lose to rounding in some thousand pivots, as a fraction of the
# largest cost.
ROUNDING = 2.0**-44


def _whole_masses(p, q):
    """Two lists of positive masses of equal sum in units of which there are `UNITS`,
    at least one each.

    Parameters
    ----------
    p : (n,) float64 ndarray
    q : (m,) float64 ndarray

    Returns
    -------
    (n + m,) int64 ndarray
        Those of `p`, those of `q`; their sums are equal. What rounding makes them
        differ by is given to the largest of either.
    float
        The unit: of the mean of the sums of `p` and `q`.
    """
    whole, sizes = np.empty(len(p) + len(q), dtype=np.int64), (p.sum(), q.sum())
    finite = np.isfinite(sizes).all()
    equal = finite and np.isclose(*sizes, rtol=1e-6, atol=0)
    if not (equal and min(p.min(), q.min()) > 0):
        raise ValueError(
            f"masses must be positive and have equal sums, got sums of {sizes[0]:g} "
            f"and {sizes[1]:g}, and a least mass of {min(p.min(), q.min()):g}"
        )
    parts = whole[:len(p)], whole[len(p):]
    for part, masses, size in zip(parts, (p, q), sizes):
        np.maximum(masses * (UNITS / size), 1, out=part, casting="unsafe")
    least = min(int(part.sum()) for part in parts)
    for part in parts:
        # Equal masses stay so, as far as they can.
        part[np.argmax(part)] -= int(part.sum()) - least
    return whole, (sizes[0] + sizes[1]) / 2 / least


cdef class Transport:
    """Exact plans between two lists of masses, for one matrix of costs after another:
    each begins where the last one ended, the first at a plan by a greedy rule.

    Parameters
    ----------
    p : (n,) float64 ndarray
        Positive.
    q : (m,) float64 ndarray
        Positive, with the sum of `p` up to rounding.

    Attributes
    ----------
    unit : float
        The mass that all flows are multiples of.
    """

    def __init__(self, const double[::1] p, const double[::1] q):
        cdef ptrdiff_t n = p.shape[0], m = q.shape[0]
        if n + m > np.iinfo(np.int32).max:
            raise ValueError(f"there must be fewer than 2^31 masses, got {n + m}")
        self.mass, self.unit = _whole_masses(np.asarray(p), np.asarray(q))
        self.flow = np.empty(n + m, dtype=np.int64)
        self.links = np.empty((4, n + m), dtype=np.int32)
        self.potential, self.room = np.empty(n + m), np.empty(m)
        self.tree.n, self.tree.m = n, m
        self.tree.mass, self.tree.flow = &self.mass[0], &self.flow[0]
        self.tree.potential, self.tree.room = &self.potential[0], &self.room[0]
        self.tree.parent, self.tree.depth = &self.links[0, 0], &self.links[1, 0]
        self.tree.next, self.tree.before = &self.links[2, 0], &self.links[3, 0]
        self.tree.root = -1

    cdef void begin(self, const double *cost) noexcept nogil:
        """Take the first tree by the costs."""
        gwf_tree_greedy(&self.tree, cost, isa.f64)

    cdef ptrdiff_t solve_for(
        self, const double *cost, double tolerance, ptrdiff_t most
    ) noexcept nogil:
        return gwf_tree_solve(&self.tree, cost, tolerance, most, isa.f64)

    cdef ptrdiff_t arc(
        self, ptrdiff_t node, ptrdiff_t *i, ptrdiff_t *j
    ) noexcept nogil:
        """Row and column of the arc below which a node is; returns 0 for the root."""
        cdef ptrdiff_t up = self.tree.parent[node], n = self.tree.n
        if up < 0:
            return 0
        i[0] = node if node < n else up
        j[0] = (up if node < n else node) - n
        return 1

    def solve(
        self, const double[:, ::1] cost, tolerance=None, ptrdiff_t max_pivots=-1
    ):
        """Go on to the optimum for these costs, (n, m); returns the number of pivots.

        Parameters
        ----------
        cost : (n, m) float64 ndarray
            Finite.
        tolerance : float or None, default=None
            What an entry may promise and be left; None is `ROUNDING` of the largest.
        max_pivots : int, default=-1
            -1 is no limit.

        Raises
        ------
        RuntimeError
            If these are not enough.
        """
        cdef ptrdiff_t pivots
        cdef double least
        check_matrix("cost", cost.shape[0], cost.shape[1], self.tree.n, self.tree.m)
        if tolerance is None:
            tolerance = ROUNDING * max(np.max(cost), -np.min(cost))
        least = tolerance
        if self.tree.root < 0:
            self.begin(&cost[0, 0])
        with nogil:
            pivots = self.solve_for(&cost[0, 0], least, max_pivots)
        if pivots < 0:
            raise RuntimeError(
                f"the network simplex method needs more than {max_pivots} pivots"
            )
        return pivots

    def entries(self):
        """The plan: rows, columns and masses of its n + m - 1 entries, some of them 0.

        Raises
        ------
        RuntimeError
            Before the first `solve`.
        """
        if self.tree.root < 0:
            raise RuntimeError("there is no plan before the first solve")
        cdef ptrdiff_t n = self.tree.n, m = self.tree.m, node, k = 0
        rows, cols = np.empty((2, n + m - 1), dtype=np.intp)
        masses = np.empty(n + m - 1)
        cdef ptrdiff_t[::1] row = rows, col = cols
        cdef double[::1] mass = masses
        for node in range(n + m):
            if self.arc(node, &row[min(k, n + m - 2)], &col[min(k, n + m - 2)]):
                mass[k] = self.flow[node] * self.unit
                k += 1
        return rows, cols, masses

    def potentials(self):
        """Those of rows and of columns: no cost is less than their sum, but for the
        tolerance, and those of entries of the plan are it.
        """
        n = self.tree.n
        return np.array(self.potential[:n]), np.array(self.potential[n:])

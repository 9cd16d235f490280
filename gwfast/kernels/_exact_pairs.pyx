"""Exact balanced problems between many pairs of spaces, one after another on one thread with one
set of buffers: from the product plan, from the best of some plans along eigenvectors of both spaces
and from random plans; the lowest objective counts.
"""
from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from ._frank_wolfe cimport FrankWolfe, Stop, Terms
from ._rows cimport begin_flush, check, check_matrix, end_flush, isa, seconds, team
from ._transport cimport Transport

import numpy as np


cdef struct Facts:
    ptrdiff_t n, width, n_directions
    const double *values
    const double *transposed
    const double *masses
    const double *features
    const double *directions
    double constant, largest, most
    bint ties


cdef class Space:
    """One side of pairs: factors of the product (n, n), with the weight of the quadratic term and
    its sign in the first space, and their transpose, or the same object if it is equal; masses of
    sum one; the constant of the space in the objective; the largest absolute value, and the largest
    constant of a point; features (n, d), whose squared distances are linear costs; and directions
    (k, n), at most two, of positive skewness: a descent begins at the product plan times one plus
    the sum of products of these, or with a minus before one, whichever leads lowest in a step.
    Where a space has `ties`, all signs are tried, and the two lowest plans descend, after the
    product plan.
    """

    cdef Facts facts
    cdef object kept

    def __init__(
        self, const double[:, ::1] values, const double[:, ::1] transposed,
        const double[::1] masses, double constant, double largest, double most,
        const double[:, ::1] features=None, const double[:, ::1] directions=None,
        bint ties=False,
    ):
        cdef ptrdiff_t n = masses.shape[0]
        self.facts.ties = ties
        check_matrix("values", values.shape[0], values.shape[1], n, n)
        check_matrix("transposed", transposed.shape[0], transposed.shape[1], n, n)
        self.kept = values, transposed, masses, features, directions
        self.facts.n, self.facts.masses, self.facts.constant = n, &masses[0], constant
        self.facts.values, self.facts.transposed = &values[0, 0], &transposed[0, 0]
        self.facts.largest, self.facts.most = largest, most
        if directions is not None and directions.shape[0]:
            self.facts.n_directions = min(directions.shape[0], 2)
            check("columns of directions", directions.shape[1], n)
            self.facts.directions = &directions[0, 0]
        if features is not None and features.shape[1]:
            self.facts.width = features.shape[1]
            check("rows of features", features.shape[0], n)
            self.facts.features = &features[0, 0]


cdef class ExactPairs:
    """Descents between pairs of spaces, also from `n_starts` random plans, made by the seeds
    ``seed + k``. A gap has converged at `tol` of the objective, and at `rounding` of its largest
    term; `linear` is the factor of squared distances of features; without `from_product` there is
    no descent from the product plan where there are directions. For the rest see
    `FrankWolfe.advance`. The first `n_done` pairs have `costs`, and `converged` says whether they
    did.
    """

    cdef FrankWolfe steps
    cdef Terms terms
    cdef Stop stop
    cdef readonly ptrdiff_t n_done
    cdef readonly object costs, converged
    cdef double[::1] costs_
    cdef unsigned char[::1] converged_
    cdef size_t[::1] x, y
    cdef double[::1] linear, best, potentials, saved
    cdef double[:, :] plans
    cdef object kept
    cdef double least, tol, rounding, linear_weight
    cdef uint64_t seed
    cdef ptrdiff_t n_starts, n_own, max_outer, start, room_n, room_m, column, point
    cdef ptrdiff_t room_products
    cdef bint descends, fails, least_converged, from_plans, from_product
    cdef bint has_product, is_turned
    cdef ptrdiff_t second

    def __init__(
        self, n_starts=0, seed=0, ptrdiff_t max_outer=1000, double tol=1e-5, double rounding=0.0,
        double linear=0.0, double least_change=0.0, double least_relative=0.0,
        bint from_product=True,
    ):
        # More starts than there will ever be time for.
        self.n_starts, self.seed = min(n_starts, 2**62), seed % 2**64
        self.max_outer, self.stop.least_change = max_outer, least_change
        self.stop.least_relative = least_relative
        self.tol, self.rounding, self.linear_weight = tol, rounding, linear
        self.from_product = from_product
        self.steps = FrankWolfe.__new__(FrankWolfe)
        self.steps.n_threads = 1
        self.steps.transport = Transport.__new__(Transport)

    def begin(
        self, xs, ys, double[:, :] plans=None, bint from_plans=False, double[::1] potentials=None
    ):
        """Take pairs, as lists of the first `Space` of each and of the second.

        Plans are written to `plans` (n, k) side by side, if all first spaces have n points; with
        `from_plans` descents begin at its plans alone, mended. Potentials of the rows and columns
        of each pair are written to `potentials`: see `FrankWolfe.potentials`.
        """
        cdef ptrdiff_t k, size = len(xs), n = 0, m = 0, columns = 0, points = 0, products = 1
        cdef Space x, y
        check("ys", len(ys), size)
        self.x, self.y = np.empty((2, size), dtype=np.uintp)
        for k in range(size):
            x, y = xs[k], ys[k]
            self.x[k], self.y[k] = <size_t>&x.facts, <size_t>&y.facts
            n, m = max(n, x.facts.n), max(m, y.facts.n)
            points += x.facts.n + y.facts.n
            columns += y.facts.n
            products = max(products, count_products(&x.facts, &y.facts))
            check("features", y.facts.width, x.facts.width)
            if plans is not None:
                check("rows of plans", plans.shape[0], x.facts.n)
        if plans is not None:
            check("columns of plans", plans.shape[1], columns)
        elif from_plans:
            raise ValueError("plans must be given if descents begin at them")
        if potentials is not None:
            check("potentials", min(potentials.shape[0], points), points)
        self.plans, self.from_plans, self.column = plans, from_plans, 0
        self.potentials, self.point = potentials, 0
        self.kept = list(xs), list(ys)
        self.costs, self.converged = np.empty(size), np.zeros(size, dtype=bool)
        self.costs_, self.converged_ = self.costs, self.converged.view(np.uint8)
        self.n_done, self.start, self.descends, self.fails = 0, 0, False, False
        if n > self.room_n or m > self.room_m or products > self.room_products:
            self.room_n, self.room_m = max(n, self.room_n), max(m, self.room_m)
            self.room_products = max(products, self.room_products)
            self.steps.reserve(self.room_n, self.room_m, self.room_products)
            self.steps.transport.reserve(self.room_n + self.room_m)
            self.linear, self.best = np.empty((2, self.room_n * self.room_m))
            self.saved = np.empty(2 * self.room_n * self.room_m + 5)

    @staticmethod
    def go_on(list descents, double most_seconds=INFINITY):
        """Solve pairs of several `ExactPairs`, each on a thread of its own, for about so long;
        return whether all are solved.
        """
        cdef ptrdiff_t k, size = len(descents)
        cdef ExactPairs one
        cdef size_t[::1] at = np.empty(size, dtype=np.uintp)
        for k in range(size):
            one = descents[k]
            at[k] = <size_t><void *>one
        for k in prange(size, num_threads=team(size, size), schedule="static", nogil=True):
            (<ExactPairs><void *>at[k]).run(most_seconds)
        for one in descents:
            if one.fails:
                raise ValueError(
                    f"masses of pair {one.n_done} must be positive and have equal sums"
                )
        return all([one.n_done == len(one.x) for one in descents])

    cdef void run(self, double most_seconds) noexcept nogil:
        cdef double began = seconds()
        cdef uint64_t before = begin_flush()
        while self.n_done < self.x.shape[0] and not self.fails:
            if seconds() - began >= most_seconds:
                break
            self.step()
        end_flush(before)

    def settle(self):
        """Let the best descent of the pair in hand count, if one has ended."""
        if self.start > 0:
            self.end_pair()

    @property
    def plan(self):
        """Return the plan (n, m) of the last pair that is solved."""
        if not self.n_done:
            raise RuntimeError("there is no plan before a pair is solved")
        n = (<Facts *>self.x[self.n_done - 1]).n
        m = (<Facts *>self.y[self.n_done - 1]).n
        return np.array(self.best[:n * m]).reshape(n, m)

    cdef void step(self) noexcept nogil:
        """Make a step of the descent in hand, the first of the next descent if there is none."""
        cdef int status = 0
        if not self.descends:
            if self.start == 0 and not self.enter():
                self.fails = True
                return
            if self.start >= self.n_own:
                self.fill_at_random(self.seed + <uint64_t>(self.start - self.n_own))
                self.steps.begin_at_plan()
            elif self.from_plans:
                self.fill_given()
                self.steps.begin_at_plan()
            elif self.second >= 0:
                self.fill_turned(self.second, 2)
                self.steps.begin_at_plan()
            elif self.is_turned and (self.start > 0 or not self.has_product):
                self.begin_turned()
            else:
                self.steps.begin_at_product()
            self.descends = True
        if self.steps.n_steps < self.max_outer:
            status = self.steps.step(&self.stop)
        if status or self.steps.n_steps >= self.max_outer:
            self.end_descent(status != 0)

    cdef bint enter(self) noexcept nogil:
        """Take the next pair; return whether its masses make a problem."""
        cdef const Facts *x = <const Facts *>self.x[self.n_done]
        cdef const Facts *y = <const Facts *>self.y[self.n_done]
        cdef Terms *t = &self.terms
        cdef ptrdiff_t k = min(x.n_directions, y.n_directions)
        self.is_turned = k > 0 and not self.from_plans
        self.has_product = self.from_product or x.ties or y.ties
        self.second = -1
        self.n_own = 1
        if self.is_turned:
            self.n_own = 1 + self.has_product + (k > 1 and (x.ties or y.ties))
        t.n, t.m, t.p, t.q, t.mass = x.n, y.n, x.masses, y.masses, 1.0
        t.left[0], t.right[0] = x.values, y.transposed
        t.left[1], t.right[1] = x.transposed, y.values
        t.n_products = count_products(x, y)
        t.losses[0] = t.losses[1] = t.linear = NULL
        if x.features != NULL:
            self.compare(x, y)
            t.linear = &self.linear[0]
        self.stop.constant, self.stop.tol = x.constant + y.constant, self.tol
        self.stop.floor = self.rounding * (x.largest * y.largest + x.most + y.most)
        if not self.steps.transport.fit(t.p, t.n, t.q, t.m):
            return False
        self.steps.bind(t)
        return True

    cdef void compare(self, const Facts *x, const Facts *y) noexcept nogil:
        """Make the linear costs of a pair."""
        cdef ptrdiff_t i, j, k
        cdef double apart, total
        for i in range(x.n):
            for j in range(y.n):
                total = 0.0
                for k in range(x.width):
                    apart = x.features[i * x.width + k] - y.features[j * x.width + k]
                    total += apart * apart
                self.linear[i * y.n + j] = self.linear_weight * total

    cdef void begin_turned(self) noexcept nogil:
        """Begin along directions: make a step with each choice of signs, and go on from the lowest
        one.
        """
        cdef const Facts *x = <const Facts *>self.x[self.n_done]
        cdef const Facts *y = <const Facts *>self.y[self.n_done]
        cdef ptrdiff_t k = min(x.n_directions, y.n_directions), minus, best = -1, last = 0
        cdef double least = INFINITY, lower = INFINITY
        # Skewness is hardly wrong about both directions.
        for minus in range((1 << k) - (k > 1 and not (x.ties or y.ties))):
            self.fill_turned(minus, k)
            self.steps.begin_at_plan()
            while self.steps.n_steps == 0 and not self.steps.step(&self.stop):
                pass
            last = minus
            if self.steps.value < least:
                lower, self.second = least, best
                least, best = self.steps.value, minus
                self.steps.save(&self.saved[0])
            elif self.steps.value < lower:
                lower, self.second = self.steps.value, minus
        if best != last:
            self.steps.go_back(&self.saved[0])

    cdef void fill_turned(self, ptrdiff_t minus, ptrdiff_t count) noexcept nogil:
        """Make the plan along directions, those with a minus whose bits are set."""
        cdef const Facts *x = <const Facts *>self.x[self.n_done]
        cdef const Facts *y = <const Facts *>self.y[self.n_done]
        cdef ptrdiff_t i, j, k
        cdef double weight
        cdef double *row
        for i in range(x.n):
            row = self.steps.plan_ + i * y.n
            for j in range(y.n):
                row[j] = 1.0
            for k in range(count):
                weight = -x.directions[k * x.n + i] if minus >> k & 1 else x.directions[k * x.n + i]
                for j in range(y.n):
                    row[j] += weight * y.directions[k * y.n + j]
            for j in range(y.n):
                row[j] = x.masses[i] * y.masses[j] * (row[j] if row[j] > 0.0 else 0.0)

    cdef void fill_given(self) noexcept nogil:
        """Take the plan to begin at."""
        cdef ptrdiff_t i, j, m = self.terms.m
        for i in range(self.terms.n):
            for j in range(m):
                self.steps.plan_[i * m + j] = self.plans[i, self.column + j]

    cdef void fill_at_random(self, uint64_t seed) noexcept nogil:
        """Make a plan of exponential numbers, to be mended."""
        cdef ptrdiff_t k, size = self.terms.n * self.terms.m
        cdef uint64_t first = mixed(seed)
        for k in range(size):
            # The middles of 2^52 parts of the unit interval.
            self.steps.plan_[k] = ((mixed(first + <uint64_t>k) >> 12) + 0.5) * 2.0**-52
        isa.f64.log(self.steps.plan_, self.steps.plan_, size)
        for k in range(size):
            self.steps.plan_[k] = -self.steps.plan_[k]

    cdef void end_descent(self, bint converged) noexcept nogil:
        cdef double cost = max(self.steps.value + self.stop.constant, 0.0)
        cdef ptrdiff_t size = self.terms.n * self.terms.m
        if self.start == 0 or cost < self.least:
            self.least, self.least_converged = cost, converged
            memcpy(&self.best[0], self.steps.plan_, size * sizeof(double))
            if self.potentials is not None:
                memcpy(&self.potentials[self.point], self.steps.transport.tree.potential,
                       (self.terms.n + self.terms.m) * sizeof(double))
        self.start += 1
        self.descends = False
        # No cost is below zero, up to rounding.
        if self.start >= self.n_own + self.n_starts or (
            self.least <= self.stop.floor and self.terms.linear == NULL
        ):
            self.end_pair()

    cdef void end_pair(self) noexcept nogil:
        cdef ptrdiff_t i, j, m = self.terms.m
        if self.plans is not None:
            for i in range(self.terms.n):
                for j in range(m):
                    self.plans[i, self.column + j] = self.best[i * m + j]
        self.costs_[self.n_done] = self.least
        self.converged_[self.n_done] = self.least_converged
        self.column += m
        self.point += self.terms.n + m
        self.n_done += 1
        self.start, self.descends = 0, False


cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    """Return a term of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) by its place."""
    x = (x + 1) * <uint64_t>0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t>0x94D049BB133111EB
    return x ^ (x >> 31)


cdef inline ptrdiff_t count_products(const Facts *x, const Facts *y) noexcept nogil:
    """Return the number of products of a pair, two if costs are not symmetric."""
    return 1 if x.values == x.transposed and y.values == y.transposed else 2

"""Exact balanced problems between many pairs of spaces, one after another on one
thread, with one set of buffers: from the product plan, from plans along eigenvectors of
both spaces and from random ones, of which the descent to the lowest objective counts.
"""
from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from ._frank_wolfe cimport FrankWolfe, Rule
from ._quadratic_plan cimport Terms
from ._rows cimport begin_flush, check, check_matrix, end_flush, team
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


cdef class Space:
    """One side of pairs.

    Parameters
    ----------
    values, transposed : (n, n) float64 ndarray
        What the product is made of, with the weight of the quadratic term and its sign
        in the first space, and its transpose; the same object if they are equal.
    masses : (n,) float64 ndarray
        Positive, with a sum of one up to rounding.
    constant : float
        What the space adds to the objective.
    largest, most : float
        Of the absolute values, and of what a point adds.
    features : (n, d) float64 ndarray or None
        Their squared distances are linear costs.
    directions : (k, n) float64 ndarray or None
        Product plans are multiplied by one plus a sum of products of these, for every
        choice of the signs, to make plans that descents begin at as well.
    """

    cdef Facts facts
    cdef object kept

    def __init__(
        self, const double[:, ::1] values, const double[:, ::1] transposed,
        const double[::1] masses, double constant, double largest, double most,
        const double[:, ::1] features=None, const double[:, ::1] directions=None,
    ):
        cdef ptrdiff_t n = masses.shape[0]
        check_matrix("values", values.shape[0], values.shape[1], n, n)
        check_matrix("transposed", transposed.shape[0], transposed.shape[1], n, n)
        self.kept = values, transposed, masses, features, directions
        self.facts.n, self.facts.width, self.facts.features = n, 0, NULL
        self.facts.n_directions = 0
        if directions is not None and directions.shape[0]:
            self.facts.n_directions = directions.shape[0]
            check_matrix("directions", self.facts.n_directions, directions.shape[1],
                         self.facts.n_directions, n)
            self.facts.directions = &directions[0, 0]
        self.facts.values, self.facts.transposed = &values[0, 0], &transposed[0, 0]
        self.facts.masses = &masses[0]
        self.facts.constant = constant
        self.facts.largest, self.facts.most = largest, most
        if features is not None:
            self.facts.width = features.shape[1]
            check_matrix("features", features.shape[0], self.facts.width, n,
                         features.shape[1])
            if self.facts.width:
                self.facts.features = &features[0, 0]


cdef class ExactPairs:
    """Descents between pairs of spaces.

    Parameters
    ----------
    n_starts : int
        Random plans of a pair, beside the product plan.
    seed : int
        The k-th random plan is that of ``seed + k``, up to multiples of 2^64.
    max_outer : int
        Limit of steps of a descent.
    tol, rounding : float
        See `FrankWolfe.advance`: a gap has converged at this fraction of the objective,
        and at that of the largest of its terms.
    linear : float
        What squared distances of features are multiplied by.
    least_change, least_relative : float
        See `FrankWolfe.advance`.
    resumes : bool
        Whether pairs are of the same masses from one `begin` to the next: the first
        linear program of each then begins where its last one ended. Of several
        solutions that is the one which is kept.

    Attributes
    ----------
    n_done : int
        Pairs that are solved.
    costs : (k,) float64 ndarray
    converged : (k,) bool ndarray
    """

    cdef FrankWolfe steps
    cdef Terms terms
    cdef Rule rule
    cdef readonly ptrdiff_t n_done
    cdef readonly object costs, converged
    cdef double[::1] costs_
    cdef unsigned char[::1] converged_
    cdef size_t[::1] x, y
    cdef double[::1] linear, best, potentials
    cdef double[:, ::1] plans
    cdef object kept
    cdef double least, tol, rounding, linear_weight
    cdef uint64_t seed
    cdef ptrdiff_t n_starts, n_turned, max_outer, start, room_n, room_m, column, point
    # Trees of the first linear programs one after another, and where that in hand is.
    cdef int64_t[::1] trees
    cdef ptrdiff_t tree
    cdef bint descends, fails, least_converged, asymmetric, from_plans

    def __init__(
        self, n_starts=0, seed=0, ptrdiff_t max_outer=1000, double tol=1e-5,
        double rounding=0.0, double linear=0.0, double least_change=0.0,
        double least_relative=0.0, bint resumes=False,
    ):
        # As many as there will ever be time for.
        self.n_starts, self.seed = min(n_starts, 2**62), seed % 2**64
        self.max_outer = max_outer
        self.rule.least_change, self.rule.least_relative = least_change, least_relative
        self.tol, self.rounding, self.linear_weight = tol, rounding, linear
        self.steps = FrankWolfe.__new__(FrankWolfe)
        self.steps.n_threads, self.steps.resumes = 1, resumes
        self.steps.transport = Transport.__new__(Transport)

    def begin(
        self, xs, ys, double[:, ::1] plans=None, bint from_plans=False,
        ptrdiff_t column=0, double[::1] potentials=None,
    ):
        """Take pairs, as lists of the first `Space` of each and of the second.

        Plans go to `plans` too, side by side from a column on, where all first spaces
        have as many points, (n, k); with `from_plans` descents begin at what is there,
        mended, rather than at product plans. To `potentials` go those of rows and of
        columns of each pair, one after another: see `FrankWolfe.potentials`.
        """
        cdef ptrdiff_t k, size = len(xs), n = 0, m = 0, columns = column, points = 0
        cdef ptrdiff_t words
        cdef bint asymmetric = False
        cdef Space x, y
        check("ys", len(ys), size)
        self.x, self.y = np.empty((2, size), dtype=np.uintp)
        for k in range(size):
            x, y = xs[k], ys[k]
            self.x[k], self.y[k] = <size_t>&x.facts, <size_t>&y.facts
            n, m = max(n, x.facts.n), max(m, y.facts.n)
            points += x.facts.n + y.facts.n
            asymmetric |= is_asymmetric(&x.facts) or is_asymmetric(&y.facts)
            check("features", y.facts.width, x.facts.width)
            if plans is not None:
                check("rows of plans", plans.shape[0], x.facts.n)
                columns += y.facts.n
        if plans is not None:
            check("columns of plans", min(plans.shape[1], columns), columns)
        elif from_plans:
            raise ValueError("plans must be given where descents begin at them")
        if potentials is not None:
            check("potentials", min(potentials.shape[0], points), points)
        self.plans, self.from_plans, self.column = plans, from_plans, column
        self.potentials, self.point = potentials, 0
        self.kept = list(xs), list(ys)
        self.costs, self.converged = np.empty(size), np.zeros(size, dtype=bool)
        self.costs_, self.converged_ = self.costs, self.converged.view(np.uint8)
        self.n_done, self.start, self.descends, self.fails = 0, 0, False, False
        if n > self.room_n or m > self.room_m or asymmetric > self.asymmetric:
            self.room_n, self.room_m = max(n, self.room_n), max(m, self.room_m)
            n, m = self.room_n, self.room_m
            self.asymmetric |= asymmetric
            self.steps.reserve(n, m, self.asymmetric)
            self.steps.transport.reserve(n + m)
            self.linear, self.best = np.empty((2, n * m))
        self.tree, words = 0, size + 3 * points
        if self.steps.resumes and self.trees.shape[0] != words:
            self.trees = np.full(words, -1)

    def go_on(self, double most_work=INFINITY, bint one=False):
        """Solve pairs until about so many operations are made or, if asked, `one` is
        solved; returns whether that is all.
        """
        with nogil:
            self.run(most_work, one)
        if self.fails:
            raise ValueError(
                f"masses of pair {self.n_done} must be positive and have equal sums"
            )
        return self.n_done == self.x.shape[0]

    @staticmethod
    def go_on_together(list descents, double most_work=INFINITY):
        """`go_on` of several of these at once, each on a thread of its own."""
        cdef ptrdiff_t k, size = len(descents)
        cdef ExactPairs one
        cdef size_t[::1] at = np.empty(size, dtype=np.uintp)
        for k in range(size):
            one = descents[k]
            at[k] = <size_t><void *>one
        for k in prange(size, num_threads=team(size, size), schedule="static",
                        nogil=True):
            (<ExactPairs><void *>at[k]).run(most_work, False)
        # To be asked whether that is all, or why it never will be.
        return all([one.go_on(0.0) for one in descents])

    cdef void run(self, double most_work, bint one) noexcept nogil:
        cdef double until = self.steps.work + most_work
        cdef ptrdiff_t last = self.x.shape[0]
        cdef uint64_t before = begin_flush()
        if one:
            last = min(self.n_done + 1, last)
        while self.n_done < last and self.steps.work < until and not self.fails:
            self.step()
        end_flush(before)

    def settle(self):
        """Let the best descent of the pair in hand count, if one has ended."""
        if self.start > 0:
            self.end_pair()

    @property
    def plan(self):
        """The plan (n, m) of the last pair that is solved."""
        if not self.n_done:
            raise RuntimeError("there is no plan before a pair is solved")
        n = (<Facts *>self.x[self.n_done - 1]).n
        m = (<Facts *>self.y[self.n_done - 1]).n
        return np.array(self.best[:n * m]).reshape(n, m)

    cdef void step(self) noexcept nogil:
        """A step of the descent in hand, the first of the next one if there is none."""
        cdef int status
        cdef ptrdiff_t n_steps
        if not self.descends:
            if self.start == 0 and not self.enter():
                self.fails = True
                return
            if self.start == 0 and self.from_plans:
                self.begin_at_plan()
            elif self.start == 0:
                self.steps.begin_at_product()
            elif self.start <= self.n_turned:
                self.begin_turned(self.start - 1)
            else:
                self.steps.begin_at_random(
                    self.seed + <uint64_t>(self.start - self.n_turned - 1)
                )
            self.descends = True
        status, n_steps = 0, self.steps.n_steps
        if n_steps < self.max_outer:
            status = self.steps.step(&self.rule)
            if self.steps.resumes and n_steps == 0:
                self.steps.transport.keep(&self.trees[self.tree])
        if status or self.steps.n_steps >= self.max_outer:
            self.end_descent(status != 0)

    cdef bint enter(self) noexcept nogil:
        """Take the next pair; returns whether its masses make a problem."""
        cdef const Facts *x = <const Facts *>self.x[self.n_done]
        cdef const Facts *y = <const Facts *>self.y[self.n_done]
        cdef Terms *t = &self.terms
        cdef ptrdiff_t k = min(x.n_directions, y.n_directions)
        self.n_turned = (1 << k) if k else 0
        t.n, t.m, t.p, t.q, t.mass = x.n, y.n, x.masses, y.masses, 1.0
        t.left, t.right = x.values, y.transposed
        t.other_left = t.other_right = NULL
        if is_asymmetric(x) or is_asymmetric(y):
            t.other_left, t.other_right = x.transposed, y.values
        t.row_losses = t.col_losses = t.linear = NULL
        if x.features != NULL:
            self.compare(x, y)
            t.linear = &self.linear[0]
        self.rule.constant = x.constant + y.constant
        self.rule.tol = self.tol
        self.rule.floor = self.rounding * (x.largest * y.largest + x.most + y.most)
        if not self.steps.transport.fit(t.p, t.n, t.q, t.m):
            return False
        if self.steps.resumes:
            self.steps.transport.restore(&self.trees[self.tree])
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

    cdef void begin_at_plan(self) noexcept nogil:
        cdef ptrdiff_t i, m = self.terms.m
        for i in range(self.terms.n):
            memcpy(self.steps.plan_ + i * m, &self.plans[i, self.column],
                   m * sizeof(double))
        self.begin_mended()

    cdef void begin_turned(self, ptrdiff_t signs) noexcept nogil:
        """Begin at the plan along directions, with the signs that these bits are."""
        cdef const Facts *x = <const Facts *>self.x[self.n_done]
        cdef const Facts *y = <const Facts *>self.y[self.n_done]
        cdef ptrdiff_t i, j, k
        cdef double turn, one
        for i in range(x.n):
            for j in range(y.n):
                turn = 1.0
                for k in range(min(x.n_directions, y.n_directions)):
                    one = x.directions[k * x.n + i] * y.directions[k * y.n + j]
                    turn += -one if signs >> k & 1 else one
                turn = x.masses[i] * y.masses[j] * max(turn, 0.0)
                self.steps.plan_[i * y.n + j] = turn
        self.begin_mended()

    cdef void begin_mended(self) noexcept nogil:
        self.steps.mend()
        self.steps.differentiate()
        self.steps.begin()

    cdef void end_descent(self, bint converged) noexcept nogil:
        cdef double cost = max(self.steps.value + self.rule.constant, 0.0)
        cdef ptrdiff_t k
        if self.start == 0 or cost < self.least:
            self.least, self.least_converged = cost, converged
            for k in range(self.terms.n * self.terms.m):
                self.best[k] = self.steps.scale * self.steps.plan_[k]
            if self.potentials is not None:
                memcpy(&self.potentials[self.point],
                       self.steps.transport.tree.potential,
                       (self.terms.n + self.terms.m) * sizeof(double))
        self.start += 1
        self.descends = False
        # No cost is below zero, of which the floor is the rounding.
        if self.start > self.n_turned + self.n_starts or (
            self.least <= self.rule.floor and self.terms.linear == NULL
        ):
            self.end_pair()

    cdef void end_pair(self) noexcept nogil:
        cdef ptrdiff_t i, m = self.terms.m
        if self.plans is not None:
            for i in range(self.terms.n):
                memcpy(&self.plans[i, self.column], &self.best[i * m],
                       m * sizeof(double))
            self.column += m
        self.costs_[self.n_done] = self.least
        self.converged_[self.n_done] = self.least_converged
        self.tree += 1 + 3 * (self.terms.n + m)
        self.point += self.terms.n + m
        self.n_done += 1
        self.start, self.descends = 0, False


cdef inline bint is_asymmetric(const Facts *space) noexcept nogil:
    return space.values != space.transposed

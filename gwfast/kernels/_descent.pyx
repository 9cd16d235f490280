"""Descents of small problems, whole ones in one call on one thread without the GIL: where an
iteration takes some microseconds, so does every call from Python. The loop is csrc/descent.inc.
"""
from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from ._judge cimport fill, gwf_limits
from ._products cimport Panels
from ._rows cimport (
    begin_flush, check, check_matrix, end_flush, gwf_kernels, holds_float64, isa, real, seconds,
    team,
)

import numpy as np

cdef extern from "gwfast.h" nogil:
    enum:
        GWF_MORE, GWF_SETTLED, GWF_HANDED_ON, GWF_STEP_FIELDS, GWF_MOST_STEPS
    ctypedef struct gwf_side_any:
        const double *masses
        const void *losses
        double *own
        double *start
        double *sums
        double *cost
        double weight, middle
    ctypedef struct gwf_descent_any:
        ptrdiff_t n, m, stride, done, returns
        gwf_limits limits
        gwf_side_any sides[2]
        const void *left
        const void *right
        const void *left_t
        const void *right_t
        const void *linear
        void *plan
        void *cost
        double *steps
        double change, value, fraction, inner_limit
        int has_potentials, has_cost, is_away, settled

# Columns of `Descent.steps`.
FIELDS = "value", "change", "moved", "error", "n_inner"
# Reasons to end: the number of iterations or the time is reached; the plan has settled, with its
# marginals; the next iteration needs another solver.
MORE, SETTLED, HANDED_ON = GWF_MORE, GWF_SETTLED, GWF_HANDED_ON
RULES = {"balanced": 0, "semirelaxed": 1, "partial": 2}
# Most iterations of a first call, whose steps take 5 KB (later calls: twice the number so far and
# these), and seconds after which no descent of a call begins.
cdef ptrdiff_t FIRST = 128
cdef double SECONDS = 0.3


cdef class Descent:
    """The descent of one problem from one plan.

    An iteration solves the linear problem of the cost ``left plan right + linear``, or of the mean
    with the product of the transposes, and makes its plan the next one.

    Parameters
    ----------
    left, right, left_t, right_t : (n, n) ndarray and (m, m) Panels
        Of float32 or float64, and their transposes or None.
    linear, plan, cost : (n, m) ndarray
        A linear cost or None; a plan and its cost, which are overwritten.
    p, q, row_cost, col_cost : (n,) and (m,) float64 ndarray
        Masses, and the terms of the linearized cost that depend on one index.
    potentials : tuple of (n,) and (m,) float64 ndarray, or None
        To begin with.
    losses : tuple of ((n, n) ndarray, float) and ((m, m) ndarray, float), or None
        Of free marginals, what makes `row_cost` and `col_cost` of sums: matrices and weights.
    shift, stride, change : float and int
        Added to linearized costs, half of a constant linear cost; of the rows that acceleration
        goes by; the last change.
    value : float
        The objective of the plan, or NaN.
    limits : dict
        All of `_judge.LIMITS`; `rule` is one of `RULES`.

    Attributes
    ----------
    plan, cost, f, g, rows, cols : ndarray
        The last plan, its potentials and its sums.
    former : ndarray
        Potentials of the rows of the plan before, once the descent has ended.
    most : int
        Iterations at most.
    """

    cdef gwf_descent_any d
    cdef bint is_float64
    cdef ptrdiff_t room
    cdef double *before
    cdef readonly object plan, cost, f, g, rows, cols, former
    cdef readonly ptrdiff_t most
    cdef object given, terms, shown
    cdef unsigned char *memory
    cdef Panels right, right_t

    def __init__(
        self, left, Panels right, left_t, Panels right_t, linear, plan, cost,
        const double[::1] p, const double[::1] q, const double[::1] row_cost,
        const double[::1] col_cost, potentials, losses, *, double shift, ptrdiff_t stride,
        double change, double value, dict limits,
    ):
        cdef ptrdiff_t n = plan.shape[0], m = plan.shape[1]
        self.plan, self.cost, self.is_float64 = plan, cost, holds_float64(plan)
        self.right, self.right_t, self.most = right, right_t, limits["max_outer"]
        if limits["depth"] > GWF_MOST_STEPS:
            raise ValueError(f"depth must be at most {GWF_MOST_STEPS}, got {limits['depth']}")
        check("row_cost", len(row_cost), n)
        check("col_cost", len(col_cost), m)
        for name, matrix, rows, cols in (
            ("cost", cost, n, m), ("linear", linear, n, m), ("left", left, n, n),
            ("left_t", left_t, n, n),
        ):
            if matrix is not None:
                check_matrix(name, matrix.shape[0], matrix.shape[1], rows, cols)
        for panels in (right, right_t):
            if panels is not None:
                check_matrix("right", (<Panels>panels).k, (<Panels>panels).m, m, m)
        self.given = left, left_t, linear, losses, p, q
        self.d.n, self.d.m, self.d.stride = n, m, stride
        self.d.change, self.d.value = change, value
        self.d.has_potentials = potentials is not None
        self.d.has_cost = True
        self.d.sides[0].masses, self.d.sides[1].masses = &p[0], &q[0]
        self.d.sides[0].middle = shift
        fill(&self.d.limits, limits)
        self.take_place(row_cost, col_cost)
        if potentials is not None:
            self.f[:], self.g[:] = potentials

    cdef take_place(self, row_cost, col_cost):
        """Make vectors of its own, and point to these and to the matrices."""
        self.f, self.rows, row_terms, self.former = np.zeros((4, self.d.n))
        self.g, self.cols, col_terms = np.zeros((3, self.d.m))
        row_terms[:], col_terms[:] = row_cost, col_cost
        self.terms, self.shown = (row_terms, col_terms), np.empty((0, GWF_STEP_FIELDS))
        self.before = address(self.former)
        self.d.sides[0].own, self.d.sides[1].own = address(self.f), address(self.g)
        self.d.sides[0].sums, self.d.sides[1].sums = address(self.rows), address(self.cols)
        self.d.sides[0].cost, self.d.sides[1].cost = address(row_terms), address(col_terms)
        left, left_t, linear, losses, *_ = self.given
        if self.is_float64:
            point[double](&self.d, left, left_t, linear, self.plan, self.cost, losses)
        else:
            point[float](&self.d, left, left_t, linear, self.plan, self.cost, losses)

    def from_plan(self, plan):
        """Return the descent of the same problem from another plan, which is overwritten; this one
        has made no iteration.
        """
        cdef Descent other = Descent.__new__(Descent)
        check_matrix("plan", plan.shape[0], plan.shape[1], self.d.n, self.d.m)
        other.d, other.given, other.is_float64 = self.d, self.given, self.is_float64
        other.right, other.right_t, other.most = self.right, self.right_t, self.most
        other.plan, other.cost = plan, np.empty_like(plan)
        # No first step is an end.
        other.d.has_potentials, other.d.has_cost, other.d.value = False, False, INFINITY
        other.take_place(self.terms[0], self.terms[1])
        return other

    @property
    def done(self):
        """Iterations made."""
        return self.d.done

    @property
    def is_away(self):
        """True if acceleration has moved the cost away from the plan."""
        return bool(self.d.is_away)

    @property
    def inner(self):
        """Limit of the inner iterations of the next linear problem, and the error of its marginals
        as a fraction of the last change; and whether the plan has settled without its marginals.
        """
        return int(self.d.inner_limit), self.d.fraction, bool(self.d.settled)

    @property
    def returns(self):
        """The length of the last run of iterations whose plan is nearer to the plan before the last
        than to the last plan.
        """
        return self.d.returns

    @property
    def steps(self):
        """Numbers of each iteration, (done, 5), see `FIELDS`: the objective; the change of the
        plan, in L1 and in the Frobenius norm; the L1 error of its marginals; inner iterations.
        """
        return self.shown[:self.d.done]

    @staticmethod
    def each(list descents, int n_threads=1):
        """Iterate several descents, each on one thread, for some tenths of a second; none begins to
        after that. Returns why each ended: MORE, SETTLED or HANDED_ON.
        """
        cdef Descent one
        cdef ptrdiff_t k, count = len(descents)
        cdef double until = seconds() + SECONDS
        cdef uint64_t before
        cdef void **each = <void **>calloc(count, sizeof(void *))
        cdef int *ended = <int *>calloc(count, sizeof(int))
        try:
            if each == NULL or ended == NULL:
                raise MemoryError(f"no room for {count} descents")
            for k, one in enumerate(descents):
                one.get_ready()
                each[k], ended[k] = <void *>one, GWF_MORE
            with nogil:
                for k in prange(count, num_threads=team(n_threads, count), schedule="dynamic"):
                    before = begin_flush()
                    if seconds() <= until:
                        ended[k] = (<Descent>each[k]).iterate()
                    end_flush(before)
            if min([ended[k] for k in range(count)], default=0) < 0:
                raise MemoryError("no room for a descent")
            return [ended[k] for k in range(count)]
        finally:
            free(each)
            free(ended)

    def __dealloc__(self):
        free(self.memory)

    cdef get_ready(self):
        """Make room for more steps."""
        cdef ptrdiff_t room = min(self.most, 2 * self.d.done + FIRST)
        if len(self.shown) < room:
            more = np.empty((room, GWF_STEP_FIELDS))
            more[:self.d.done] = self.steps
            self.shown, self.d.steps, self.room = more, address(more.reshape(-1)), room
        # Packed for other instructions, panels are of no use.
        self.right.check_type(self.is_float64)
        self.d.right = <const void *>&self.right.packed[0]
        if self.right_t is not None:
            self.right_t.check_type(self.is_float64)
            self.d.right_t = <const void *>&self.right_t.packed[0]

    cdef int iterate(self) noexcept nogil:
        """Iterate; the scratch is kept as long as the descent goes on. Returns why it ended, -1
        without memory.
        """
        cdef const gwf_kernels *table = isa.f64 if self.is_float64 else isa.f32
        cdef int ended
        if self.memory == NULL:
            self.memory = room_for(&self.d, table)
            if self.memory == NULL:
                return -1
        ended = table.descend(&self.d, self.room)
        if ended != GWF_MORE:
            memcpy(self.before, self.d.sides[0].start, self.d.n * sizeof(double))
            free(self.memory)
            self.memory = NULL
        return ended


cdef unsigned char *room_for(gwf_descent_any *d, const gwf_kernels *table) noexcept nogil:
    """Return scratch for a descent, which is laid out in whole cache lines; NULL without memory."""
    cdef unsigned char *room = <unsigned char *>malloc(table.lay_out(d, NULL) + 64)
    if room != NULL:
        table.lay_out(d, room + (64 - <uintptr_t>room % 64))
    return room


cdef double *address(double[::1] vector) except NULL:
    return &vector[0]


cdef point(
    gwf_descent_any *d, const real[:, ::1] left, const real[:, ::1] left_t,
    const real[:, ::1] linear, real[:, ::1] plan, real[:, ::1] cost, losses,
):
    """Point to matrices of either type."""
    cdef const real[:, ::1] row_losses, col_losses
    d.left, d.plan, d.cost = &left[0, 0], &plan[0, 0], &cost[0, 0]
    if left_t is not None:
        d.left_t = &left_t[0, 0]
    if linear is not None:
        d.linear = &linear[0, 0]
    if losses is not None:
        (row_losses, d.sides[0].weight), (col_losses, d.sides[1].weight) = losses
        check_matrix("losses", row_losses.shape[0], row_losses.shape[1], d.n, d.n)
        check_matrix("losses", col_losses.shape[0], col_losses.shape[1], d.m, d.m)
        d.sides[0].losses, d.sides[1].losses = &row_losses[0, 0], &col_losses[0, 0]

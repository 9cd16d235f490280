"""Descents of small problems, whole ones in one call on one thread without the GIL:
where an iteration takes some microseconds, so does every call from Python. The loop is
csrc/descent.inc; here it gets its arrays.
"""
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from ._rows cimport (
    Panels,
    begin_flush,
    check,
    check_matrix,
    end_flush,
    gwf_descent_f32,
    gwf_descent_f64,
    holds_float64,
    isa,
    real,
    seconds,
    team,
)

import numpy as np

from ._rows import aligned_empty

cdef extern from "gwfast.h" nogil:
    enum:
        GWF_MORE, GWF_SETTLED, GWF_OTHERWISE, GWF_NEEDS_ROOM, GWF_STEP_FIELDS

# What an iteration has shown: columns of `Descent.steps`.
FIELDS = (
    "separable", "product", "linear", "value", "change", "moved", "error", "n_inner"
)
# Why iterations ended: as many are made as were asked for, or time is up; the plan has
# settled, with its marginals; the next iteration is for another solver.
MORE, SETTLED, OTHERWISE = GWF_MORE, GWF_SETTLED, GWF_OTHERWISE
RULES = {"balanced": 0, "semirelaxed": 1, "partial": 2, "unbalanced": 3}
# Scratch that no descent has at the moment: thousands of them, and the candidates of a
# race, take turns with a few, at most so many.
cdef list IDLE = []
cdef Py_ssize_t MOST_IDLE = 4
# Vectors of float64; and iterations of a first call at most, whose steps have 8 KB. As
# many again, and as there were before, are those of each later one.
cdef enum:
    N_VECTORS = 8
    FIRST = 128
# Seconds after which no descent of a call begins.
cdef double SECONDS = 0.3


ctypedef struct Call:
    # A descent, of either type, in one call of the loop; bytes of what acceleration
    # keeps; how the call ended, and memory that it has made.
    uintptr_t single
    uintptr_t double_
    ptrdiff_t ring
    unsigned char *kept
    int status
    bint fails


cdef class Descent:
    """The descent of one problem from one plan.

    An iteration solves the linear problem of the cost ``left plan right + linear``, or
    of the mean with the product of the transposes, and makes its plan the next one. See
    csrc/gwfast.h for how exactly, and for when it ends.

    Parameters
    ----------
    factors : tuple of (n, n) ndarray and Panels
        `left`, and `right` (m, m), of float32 or float64.
    others : tuple of (n, n) ndarray and Panels, or None
        Their transposes.
    linear : (n, m) ndarray or None
    plan, cost : (n, m) ndarray
        A plan and its cost; overwritten.
    p, q : (n,) and (m,) float64 ndarray
    row_cost, col_cost : (n,) and (m,) float64 ndarray
        The terms of the linearized cost that depend on one index.
    potentials : tuple of (n,) and (m,) float64 ndarray, or None
        To begin with; of partial plans followed by logarithms of scalings.
    losses : tuple of ((n, n) ndarray, float) and ((m, m) ndarray, float), or None
        Of free marginals, what makes `row_cost` and `col_cost` of sums: matrices and
        their weights.
    shift : float
        Added to all linearized costs, half of a constant linear cost.
    stride : int
        Of the rows that acceleration goes by.
    value : float
        Objective of the plan.
    fraction : float
        Tolerance of the first linear problems, as a fraction of the last change.
    rounded : bool
        Whether a balanced descent of float64 begins in float32.
    limits : dict
        All of `gwf_descent_limits`; `rule` is one of `RULES`.

    Attributes
    ----------
    plan, cost : (n, m) ndarray
    f, g, rows, cols, log_u, log_v : float64 ndarray
        Potentials and sums of the plan; of partial ones logarithms of scalings.
    steps : (done, 8) float64 ndarray
        What each iteration has shown, see `FIELDS`: the parts of the objective, of both marginals,
        of the cost and of `linear`, and all of it; the change of the plan, in L1 and in the
        Frobenius norm; the L1 error of its marginals; and its inner iterations.
    """

    cdef gwf_descent_f32 single
    cdef gwf_descent_f64 double_
    cdef bint is_float64
    cdef readonly object plan, cost, f, g, rows, cols, log_u, log_v, row_cost, col_cost
    cdef object given, shown
    cdef unsigned char *kept
    cdef ptrdiff_t room, ring
    cdef Panels right, right_t

    def __init__(
        self, factors, others, linear, plan, cost, const double[::1] p,
        const double[::1] q, row_cost, col_cost, potentials=None, losses=None, *,
        double shift=0.0, ptrdiff_t stride=0, double value=INFINITY,
        double fraction=0.01, bint rounded=False, dict limits,
    ):
        n, m = plan.shape
        self.plan, self.cost = plan, cost
        self.is_float64 = holds_float64(plan)
        left, self.right = factors
        left_t, self.right_t = (None, None) if others is None else others
        check_shapes(left, self.right, left_t, self.right_t, (plan, cost, linear),
                     (p, row_cost), (q, col_cost), self.is_float64)
        vectors = np.zeros((N_VECTORS, max(n, m)))
        self.f, self.rows, self.log_u, self.row_cost = vectors[::2, :n]
        self.g, self.cols, self.log_v, self.col_cost = vectors[1::2, :m]
        self.row_cost[:], self.col_cost[:] = row_cost, col_cost
        if potentials is not None:
            for own, known in zip((self.f, self.g, self.log_u, self.log_v), potentials):
                own[:] = known
        self.given = left, left_t, linear, losses, p, q, vectors
        self.shown = np.empty((0, GWF_STEP_FIELDS))
        kind = shift, stride, value, fraction, potentials is not None, limits
        given = left, left_t, linear, plan, cost, p, q, losses, vectors, *kind
        if self.is_float64:
            self.double_.rounded = &self.single if rounded else NULL
            set_up[double](self, *given)
        else:
            set_up[float](self, *given)

    @property
    def done(self):
        """Iterations made."""
        return self.double_.done if self.is_float64 else self.single.done

    @property
    def is_away(self):
        """Whether the cost is that of another plan, to which acceleration leads."""
        return bool(self.double_.is_away if self.is_float64 else self.single.is_away)

    @property
    def steps(self):
        return self.shown[:self.done]

    def descend(self, ptrdiff_t most, dict limits):
        """`each` of this one alone, within limits that may be others than before;
        returns why it ended.
        """
        self.single.limits = self.double_.limits = limits
        return Descent.each([self], most)[0]

    @staticmethod
    def each(list descents, ptrdiff_t most, int n_threads=1, bint last=False):
        """Iterate several descents, each on one thread, up to the `most`-th iteration
        of each or for some tenths of a second; none begins to after that. Returns why
        each ended: MORE, SETTLED or OTHERWISE. If this is the `last` call for those
        that do not go on, nothing is kept for another.
        """
        cdef Descent one
        cdef ptrdiff_t k, count = len(descents), room = 0, ring = 0
        cdef Call *calls = <Call *>calloc(count, sizeof(Call))
        if calls == NULL:
            raise MemoryError(f"no room for {count} descents")
        try:
            most = min(most, 2 * max(one.done for one in descents) + FIRST)
            for k, one in enumerate(descents):
                one.get_ready(most, &calls[k])
                room, ring = max(room, one.room), max(ring, one.ring)
            memory = take_memory(n_threads * (room + ring))
            call_each(calls, count, most, memory, room, ring, n_threads, last)
            give_memory(memory)
            for k, one in enumerate(descents):
                one.own(&calls[k])
            return [calls[k].status for k in range(count)]
        finally:
            free(calls)

    cdef own(self, Call *call):
        """Own the memory that a call has made for the descent."""
        if call.kept != NULL:
            free(self.kept)
            self.kept = call.kept
        if call.fails:
            raise MemoryError(f"no room for {call.ring} bytes")

    def __dealloc__(self):
        free(self.kept)

    cdef get_ready(self, ptrdiff_t most, Call *call):
        """Make room for the steps up to the `most`-th, and say where the descent is."""
        cdef double[:, ::1] shown
        if len(self.shown) < most:
            more = np.empty((max(most, 2 * len(self.shown)), GWF_STEP_FIELDS))
            more[:self.done] = self.steps
            self.shown = more
        shown = self.shown
        # Packed for other instructions, panels are of no use.
        self.right.check(self.is_float64)
        if self.right_t is not None:
            self.right_t.check(self.is_float64)
        self.single.steps = self.double_.steps = &shown[0, 0]
        if self.is_float64:
            call.double_ = <uintptr_t>&self.double_
        else:
            call.single = <uintptr_t>&self.single
        call.ring = self.ring
        call.status = GWF_MORE


cdef call_each(
    Call *calls, ptrdiff_t count, ptrdiff_t most, unsigned char[::1] memory,
    ptrdiff_t room, ptrdiff_t ring, int n_threads, bint last,
):
    """One call of the loop for each, on one thread of so many."""
    cdef ptrdiff_t k
    cdef double until = seconds() + SECONDS
    cdef uint64_t before
    with nogil:
        for k in prange(count, num_threads=team(n_threads, count), schedule="dynamic"):
            before = begin_flush()
            if seconds() <= until:
                iterate(&calls[k], most, &memory[threadid() * (room + ring)], room,
                        last)
            end_flush(before)


cdef void iterate(
    Call *call, ptrdiff_t most, unsigned char *scratch, ptrdiff_t room, bint last,
) noexcept nogil:
    """Iterate a descent. What acceleration keeps is in the scratch, too, until the call ends.
    """
    cdef gwf_descent_f32 *f32 = <gwf_descent_f32 *>call.single
    cdef gwf_descent_f64 *f64 = <gwf_descent_f64 *>call.double_
    cdef bint lent = False
    cdef unsigned char *ring = scratch + room
    if f64 != NULL:
        isa.f64.lay_out(f64, scratch)
        call.status = isa.f64.descend(f64, most)
    else:
        isa.f32.lay_out(f32, scratch)
        call.status = isa.f32.descend(f32, most)
    while call.status == GWF_NEEDS_ROOM:
        lent = True
        lay_out_kept(call, ring)
        if f64 != NULL:
            call.status = isa.f64.descend(f64, most)
        else:
            call.status = isa.f32.descend(f32, most)
    if lent and not (last and call.status != GWF_MORE):
        call.kept = <unsigned char *>malloc(call.ring)
        if call.kept == NULL:
            call.fails = True
            return
        memcpy(call.kept, ring, call.ring)
        lay_out_kept(call, call.kept)


cdef void lay_out_kept(Call *call, unsigned char *memory) noexcept nogil:
    """Give the loop what acceleration keeps from one iteration to the next."""
    if call.double_ != 0:
        isa.f64.lay_out_kept(<gwf_descent_f64 *>call.double_, memory)
    else:
        isa.f32.lay_out_kept(<gwf_descent_f32 *>call.single, memory)


cdef take_memory(ptrdiff_t size):
    """Scratch of so many bytes at least, which nobody else has."""
    try:
        memory = IDLE.pop()
    except IndexError:
        memory = ()
    return memory if len(memory) >= size else aligned_empty(size, np.uint8)


cdef give_memory(memory):
    """Let the next descent have this scratch."""
    if len(IDLE) < MOST_IDLE:
        IDLE.append(memory)


cdef set_up(
    Descent self, const real[:, ::1] left, const real[:, ::1] left_t,
    const real[:, ::1] linear, real[:, ::1] plan, real[:, ::1] cost,
    const double[::1] p, const double[::1] q, losses, double[:, ::1] vectors,
    double shift, ptrdiff_t stride, double value, double fraction,
    bint has_potentials, dict limits,
):
    cdef ptrdiff_t n = plan.shape[0], m = plan.shape[1]
    cdef const real[:, ::1] row_losses, col_losses
    if real is float:
        d, table = &self.single, isa.f32
    else:
        d, table = &self.double_, isa.f64
    d.n, d.m, d.stride, d.limits = n, m, stride, limits
    d.left, d.right = &left[0, 0], <const real *>&self.right.packed[0]
    if left_t is not None:
        d.left_t = &left_t[0, 0]
        d.right_t = <const real *>&self.right_t.packed[0]
    if linear is not None:
        d.linear = &linear[0, 0]
    if losses is not None:
        (row_losses, d.row_weight), (col_losses, d.col_weight) = losses
        check_matrix("losses", row_losses.shape[0], row_losses.shape[1], n, n)
        check_matrix("losses", col_losses.shape[0], col_losses.shape[1], m, m)
        d.row_losses, d.col_losses = &row_losses[0, 0], &col_losses[0, 0]
    d.p, d.q, d.plan, d.cost = &p[0], &q[0], &plan[0, 0], &cost[0, 0]
    d.vectors, d.shift, d.value = &vectors[0, 0], shift, value
    d.change, d.fraction, d.has_potentials = 1.0, fraction, has_potentials
    # Whole cache lines.
    self.room = (table.lay_out(d, NULL) + 63) // 64 * 64
    if stride > 0:
        self.ring = (table.lay_out_kept(d, NULL) + 63) // 64 * 64


cdef check_shapes(left, Panels right, left_t, right_t, plans, of_rows, of_cols,
                  bint is_float64):
    cdef Panels one_right
    n, m = len(of_rows[0]), len(of_cols[0])
    check("row_cost", len(of_rows[1]), n)
    check("col_cost", len(of_cols[1]), m)
    for name, one in zip(("plan", "cost", "linear"), plans):
        if one is not None:
            check_matrix(name, one.shape[0], one.shape[1], n, m)
    for one in (left, left_t):
        if one is not None:
            check_matrix("left", one.shape[0], one.shape[1], n, n)
    for one_right in (right, right_t):
        if one_right is not None:
            check_matrix("right", one_right.k, one_right.m, m, m)
            one_right.check(is_float64)

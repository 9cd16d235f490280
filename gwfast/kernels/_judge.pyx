"""Decisions that compiled loops and loops in Python share (csrc/judge.h): functions of numbers."""
from libc.stddef cimport ptrdiff_t

import numpy as np

cdef extern from "judge.h" nogil:
    """
    enum {
        GWF_OF_GOAL = sizeof(gwf_goal) / sizeof(double),
        GWF_OF_LOOK = sizeof(gwf_look) / sizeof(double),
    };
    static const char *const gwf_limit_names[] = {GWF_LIMITS(GWF_QUOTED) 0};
    """
    enum:
        GWF_MOST_STEPS
    const char **gwf_limit_names
    ctypedef struct gwf_products:
        double moved[GWF_MOST_STEPS][GWF_MOST_STEPS]
        double mixed[GWF_MOST_STEPS][GWF_MOST_STEPS]
        double gram[GWF_MOST_STEPS][GWF_MOST_STEPS]
        double along[GWF_MOST_STEPS]
        double right[GWF_MOST_STEPS]
        double size
    double gwf_aim(const gwf_limits *limits, double change, double fraction, int thorough)
    void gwf_tighten(
        const gwf_limits *limits, double error, double change, double value, double before,
        double *limit, double *fraction)
    int gwf_settles(
        const gwf_limits *limits, ptrdiff_t done, double change, double moved, double former,
        double value, double before, double error, int was_settled, int *hidden)
    int gwf_has_stalled(
        const double *change, ptrdiff_t stride, ptrdiff_t done, double floor, ptrdiff_t after)
    int gwf_turns(
        const gwf_limits *limits, ptrdiff_t n_returned, ptrdiff_t n_since_rise, double change,
        double then)
    int gwf_fails(const gwf_limits *limits, double grown, double *reach, double *shrinks)
    double gwf_next_omega(double omega, double rate, double most)
    enum:
        GWF_OF_GOAL, GWF_OF_LOOK
    ctypedef struct gwf_goal:
        double tol
    ctypedef struct gwf_look:
        double omega, last_error
    int gwf_next_action(const gwf_goal *goal, gwf_look *look)
    int gwf_lead(
        const gwf_limits *limits, gwf_products *of, double reach, int k, int last, double *by,
        double *foretold)

# Names of all numbers that control a descent.
LIMITS = []
while gwf_limit_names[len(LIMITS)] != NULL:
    LIMITS.append(gwf_limit_names[len(LIMITS)].decode())
cdef dict PLACES = {name: k for k, name in enumerate(LIMITS)}


cdef int fill(gwf_limits *limits, dict numbers) except -1:
    """Set all numbers."""
    cdef double *fields = <double *>limits
    for k, name in enumerate(LIMITS):
        fields[k] = numbers[name]
    return 0


cdef class Judge:
    """The verdicts by some numbers of `LIMITS`, see quadratic/judge.py; those left out are zero.

    A change is the L1 norm of the change of the plan, as a fraction of its mass, or what stands for
    that; a move is its Frobenius norm.
    """

    cdef gwf_limits limits

    def __init__(self, **numbers):
        cdef double *fields = <double *>&self.limits
        for name, number in numbers.items():
            fields[<ptrdiff_t>PLACES[name]] = number

    def aim(self, double change, double fraction, bint thorough):
        """Return the error of the marginals at which the next linear problem is solved, after a
        change of the plan, as a `fraction` of that unless it is to be `thorough`.
        """
        return gwf_aim(&self.limits, change, fraction, thorough)

    def tightened(
        self, double error, double change, double value, double before, double limit,
        double fraction,
    ):
        """Return the limit of inner iterations, and `fraction`, after an iteration whose plan
        missed its marginals by `error` and has the objective `value`, the plan before `before`.
        """
        gwf_tighten(&self.limits, error, change, value, before, &limit, &fraction)
        return int(limit), fraction

    def settles(
        self, ptrdiff_t done, double change, double moved, double former, double value,
        double before, double error, bint was_settled,
    ):
        """Return whether the plan has settled after `done` iterations, and whether extrapolation
        would hide that; `former` is the move before the last.
        """
        cdef int hidden = 0
        settled = gwf_settles(
            &self.limits, done, change, moved, former, value, before, error, was_settled, &hidden)
        return bool(settled), bool(hidden)

    def turns(
        self, ptrdiff_t n_returned, ptrdiff_t n_since_rise, double change, double then
    ):
        """Return whether steps go back and forth: the last `n_returned` of them all went back, or
        there are `n_since_rise` of them since a proximal step raised the objective; and the change
        has not clearly fallen since it was `then`.
        """
        return bool(gwf_turns(&self.limits, n_returned, n_since_rise, change, then))

    def fails(self, double grown, double reach, double shrinks):
        """Return whether a move fails after which the change is `grown` times what was foretold,
        and the largest length of the next move, and its divisor if that fails.
        """
        fails = gwf_fails(&self.limits, grown, &reach, &shrinks)
        return bool(fails), reach, shrinks

    def lead(self, const double[:, ::1] products, double reach):
        """Return weights of the moves between the last steps that the state is moved back by, and
        the length of the step from there in lengths of the last one; None if the steps say nothing.
        `products` are inner products of k moves, k differences of steps, and the last step.
        """
        cdef gwf_products of
        cdef double by[GWF_MOST_STEPS]
        cdef double foretold = 0.0
        cdef int i, j, k = (products.shape[0] - 1) // 2
        if not 0 < k <= GWF_MOST_STEPS:
            raise ValueError(f"there must be 1 to {GWF_MOST_STEPS} moves, got {k}")
        for i in range(k):
            for j in range(k):
                of.moved[i][j] = products[i, j]
                of.mixed[i][j] = products[i, k + j]
                of.gram[i][j] = products[k + i, k + j]
            of.along[i], of.right[i] = products[i, 2 * k], products[k + i, 2 * k]
        of.size = products[2 * k, 2 * k]
        if not gwf_lead(&self.limits, &of, reach, k, k - 1, by, &foretold):
            return None
        return [by[i] for i in range(k)], foretold


def has_stalled(changes, double floor, ptrdiff_t after):
    """Return whether the change no longer falls, near the floor of rounding, in the last `after`
    iterations of all.
    """
    cdef const double[::1] all_changes = np.array(changes, dtype=np.float64)
    cdef ptrdiff_t done = all_changes.shape[0]
    return done > 0 and bool(gwf_has_stalled(&all_changes[0], 1, done, floor, after))


def next_action(tuple goal, tuple look):
    """Return the number of the action after some Sinkhorn iterations, and `omega` and `last_error`
    for the next ones, by the fields of the C structs `gwf_goal` and `gwf_look`.
    """
    cdef gwf_goal of_goal
    cdef gwf_look of_look
    fill_all(<double *>&of_goal, GWF_OF_GOAL, goal)
    fill_all(<double *>&of_look, GWF_OF_LOOK, look)
    action = gwf_next_action(&of_goal, &of_look)
    return action, of_look.omega, of_look.last_error


cdef int fill_all(double *fields, int count, tuple numbers) except -1:
    """Set all fields of a struct of numbers."""
    if len(numbers) != count:
        raise ValueError(f"there must be {count} numbers, got {len(numbers)}")
    for k in range(count):
        fields[k] = numbers[k]
    return 0


def next_omega(double omega, double rate, double most):
    """Return the over-relaxation for an error that fell by `rate` an iteration under `omega`.

    Near the solution Sinkhorn is a Gauss-Seidel iteration: if its plain rate is `eta`, the rate
    under omega fulfills Young's ``(rate + omega - 1)^2 = rate omega^2 eta``, and the best omega is
    ``2 / (1 + sqrt(1 - eta))`` (Lehmann, von Renesse, Sambale and Uschmajew, Optimization Letters
    2022). An error that does not fall is a sign that the solution is far.
    """
    return gwf_next_omega(omega, rate, most)

"""One descent from one plan. With many points it gets near its end by what costs less:
the largest eigenvalues of the costs, then float32.
"""

import dataclasses

from ..problems.low_rank import low_rank_problem
from ..quadratic.factory import is_factored, linearize, work
from ..quadratic.methods import PGD
from ..quadratic.outer_loop import OuterLoop
from ..quadratic.stopping import Limits
from ..results.status import Status
from ..utils.deadline import OutOfTime
from ..utils.precision import SINGLE
from .starts import start_plan

# Limits of the low-rank warm start: it is left once the plan moves by what it cannot
# tell.
LOW_RANK = Limits(max_outer=1000, max_inner=1000, tol=0.05, marginal_tol=0.01)
# Limits of the float32 warm start, and entries of a float64 plan from which on it pays.
FLOAT32 = Limits(max_outer=1000, max_inner=1000, tol=1e-4, marginal_tol=1e-4)
MIN_FLOAT32_ENTRIES = 1 << 16
# Updates that getting to the first plan of a problem takes the time of, from where
# another has ended: its objective there, its kernel, and that of the plan.
UPDATES = 3
# Outer iterations below which all that are allowed are of the problem itself.
MIN_OUTER = 50


def descend(problem, start, options):
    """The `Solution` of a problem from one start; `options` have the tier chosen and
    the method made. OutOfTime if there was none for a single iteration.
    """
    limits, threads = options.limits, options.threads(problem)
    kind = dict(method=options.method, precision=options.precision)
    linearization = linearize(problem, threads, options.tier, **kind)
    epsilons, last = options.epsilon.resolve(linearization), None
    if limits.deadline.passed():
        raise OutOfTime
    plan = start_plan(
        start,
        problem,
        threads,
        scratch=linearization.scratch,
        deadline=limits.deadline,
    )
    stages = _warm_starts(problem, linearization, epsilons, options)
    for costs, stage_limits, is_float32 in stages:
        last = _run(costs, stage_limits, epsilons, plan, options.callback, last)
        plan = last.coupling.toarray()
        if is_float32:
            linearization.use_increments(costs)
        if last.status == Status.STOPPED:
            # One iteration, unseen, makes a plan of the problem itself.
            limits = dataclasses.replace(limits, max_outer=len(last.history) + 1)
            last = _run(linearization, limits, epsilons, plan, None, last)
            return dataclasses.replace(last, status=Status.STOPPED)
        if last.status == Status.TIME_LIMIT:
            break
    start = epsilons, plan, options.callback, last
    return _run(linearization, limits, *start, method=options.method)


def near(limits, first=FLOAT32, after=0.0):
    """The limits `first`, within those asked for; the last iteration is left for the
    problem itself, and the time of so many updates.
    """
    most = max(limits.max_outer - 1, 1)
    return limits.within(dataclasses.replace(first, max_outer=most)).before(after)


def go_on(solution, epsilons, problem, options):
    """The `Solution` in another precision from where one ended."""
    before = solution.linearization
    linearization = linearize(problem, before.n_threads, precision=options.precision)
    start = epsilons, before.state, options.callback, solution
    return _run(linearization, options.limits, *start)


def _warm_starts(problem, linearization, epsilons, options):
    """The stages before the problem itself: costs near its own, how far to go on them,
    and whether they are those of a float64 problem, rounded.
    """
    if (
        is_factored(problem, options.method)
        or options.method is not PGD
        or epsilons.last < SINGLE.min_epsilon * linearization.cost_scale
        or options.limits.max_outer < MIN_OUTER
    ):
        return
    whole = UPDATES * work(problem, itemsize=options.precision.itemsize)
    low_rank = low_rank_problem(problem, linearization.n_threads)
    if low_rank is not None:
        costs = linearize(low_rank, linearization.n_threads)
        yield costs, near(options.limits, LOW_RANK, whole / work(low_rank)), False
    n, m = problem.shape
    if options.precision is not SINGLE and n * m >= MIN_FLOAT32_ENTRIES:
        limits = near(options.limits, after=whole / work(problem))
        yield linearization.rounded(SINGLE), limits, True


def _run(linearization, limits, epsilons, start, callback, last, *, method=PGD):
    """The `Solution` of a loop from a plan or state, with the potentials of the last
    one.
    """
    gw_cost = linearization.start(start)
    loop = OuterLoop(linearization, epsilons, gw_cost, method=method, after=last)
    return loop.run(limits, callback)

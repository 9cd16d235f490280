"""One descent from one plan. With many points it gets near its end by what costs less:
the largest eigenvalues of the costs, then float32.
"""

import dataclasses
import time

from ..linear.sinkhorn_solver import in_units
from ..problems.low_rank import low_rank_problem
from ..quadratic.factory import is_factored, linearize, work
from ..quadratic.methods import PGD
from ..quadratic.outer_loop import OuterLoop
from ..quadratic.stopping import Limits
from ..results.status import Status
from ..utils.precision import SINGLE
from .checkpoint import DESCENT, FLOAT32, LOW_RANK, NOT_KEPT
from .starts import Shared, start_plan

# Limits of the low-rank warm start: it is left once the plan moves by what it cannot
# tell.
LOW_RANK_LIMITS = Limits(max_outer=1000, max_inner=1000, tol=0.005, marginal_tol=0.01)
# Limits of the float32 warm start, and entries of a float64 plan from which on it pays.
FLOAT32_LIMITS = Limits(max_outer=1000, max_inner=1000, tol=1e-4, marginal_tol=1e-4)
MIN_FLOAT32_ENTRIES = 1 << 16
# Updates that getting to the first plan of a problem takes the time of, from where
# another has ended: its objective there, its kernel, and that of the plan.
UPDATES = 3
# Seconds by which an iteration may end too late rather than not be made.
GRACE = 0.5
# Outer iterations below which all that are allowed are of the problem itself.
MIN_OUTER = 50


def descend(problem, start, options):
    """The `Solution` of a problem from one start; `options` have the tier chosen and
    the method made. OutOfTime if there was none for a single iteration.
    """
    limits, threads = options.limits, options.threads(problem)
    checkpoint, plan = options.checkpoint, None
    kind = dict(method=options.method, precision=options.precision)
    kind |= dict(deadline=limits.deadline, mechanisms=options.mechanisms)
    kind["placement"] = options.placement
    linearization = linearize(problem, threads, options.tier, **kind)
    epsilons = options.epsilon.resolve(linearization)
    limits.deadline.check()
    if checkpoint.is_new:
        shared = Shared(scratch=linearization.scratch, deadline=limits.deadline)
        plan = start_plan(start, problem, threads, shared)
        checkpoint.stop_if(limits.deadline.passed())
    last, plan = _near_the_end(problem, linearization, epsilons, plan, options)
    if last is not None and last.status == Status.STOPPED:
        # One iteration, unseen, makes a plan of the problem itself.
        limits = dataclasses.replace(limits, max_outer=len(last.history) + 1)
        loop = _loop(linearization, epsilons, plan, last, NOT_KEPT, DESCENT)
        last = loop.run(limits)
        return dataclasses.replace(last, status=Status.STOPPED)
    kept_as = checkpoint, DESCENT
    loop = _loop(linearization, epsilons, plan, last, *kept_as, options.method)
    del last, plan  # their room is needed
    return _run(loop, limits, options.callback, *kept_as)


def _near_the_end(problem, linearization, epsilons, plan, options):
    """The `Solution` of the last warm start and its plan; None and the plan that there
    was where there are none.
    """
    last, checkpoint = None, options.checkpoint
    stages = _warm_starts(problem, linearization, epsilons, options)
    for stage, costs, stage_limits in stages:
        if not checkpoint.is_past(stage):
            loop = _loop(costs, epsilons, plan, last, checkpoint, stage)
            last = _run(loop, stage_limits, options.callback, checkpoint, stage)
            plan = last.coupling.toarray()
        if stage == FLOAT32 and options.mechanisms.increments:
            linearization.use_increments(costs)
        if last is not None and last.status in (Status.STOPPED, Status.TIME_LIMIT):
            break
    return last, plan


def near(limits, first=FLOAT32_LIMITS, after=0.0):
    """The limits `first`, within those asked for; the last iteration is left for the
    problem itself, and the time of so many updates.
    """
    most = max(limits.max_outer - 1, 1)
    return limits.within(dataclasses.replace(first, max_outer=most)).before(after)


def go_on(solution, epsilons, problem, options, others):
    """The `Solution` in another precision from where one ended, or the checkpoint says
    that it went on to; that keeps the others, `is_tie` and the `Candidates`.
    """
    threads, checkpoint = options.threads(problem), options.checkpoint
    kind = dict(precision=options.precision, mechanisms=options.mechanisms)
    linearization = linearize(problem, threads, **kind)
    plan = None if solution is None else solution.linearization.state
    kept = dict(zip(("tie", "tried"), others, strict=True))
    loop = _loop(linearization, epsilons, plan, solution, checkpoint, DESCENT)
    return _run(loop, options.limits, options.callback, checkpoint, DESCENT, kept)


def _warm_starts(problem, linearization, epsilons, options):
    """The stages before the problem itself: their names, costs near its own, and how
    far to go on them.
    """
    if (
        is_factored(problem, options.method)
        or options.method is not PGD
        or epsilons.last < SINGLE.min_epsilon * linearization.cost_scale
        or options.limits.max_outer < MIN_OUTER
    ):
        return
    whole = UPDATES * work(problem, itemsize=options.precision.itemsize)
    low_rank, allowed = None, options.mechanisms
    if allowed.low_rank_start and not options.checkpoint.is_past(LOW_RANK):
        low_rank = low_rank_problem(problem, linearization.n_threads)
    if low_rank is not None:
        given, after = (low_rank, linearization.n_threads), work(low_rank)
        costs = linearize(*given, mechanisms=allowed)
        yield LOW_RANK, costs, near(options.limits, LOW_RANK_LIMITS, whole / after)
    n, m = problem.shape
    many = allowed.float32_start and n * m >= MIN_FLOAT32_ENTRIES
    if options.precision is not SINGLE and many:
        limits = near(options.limits, after=whole / work(problem))
        yield FLOAT32, linearization.rounded(SINGLE), limits


def _loop(linearization, epsilons, start, after, checkpoint, stage, method=PGD):
    """The `OuterLoop` of a stage, with a plan or state and the potentials of the
    `Solution` that it comes after; or as the checkpoint has it.
    """
    saved = checkpoint.at(stage)
    if saved is not None:
        with checkpoint.restoring():
            return OuterLoop.restored(linearization, saved["loop"], method=method)
    began = time.perf_counter()
    known = {}
    if after is not None:
        given = linearization.cost_scale, linearization.precision
        epsilon = in_units(epsilons.at(len(after.history)), *given)
        known = dict(takes=True, epsilon=epsilon)
    gw_cost = linearization.start(start, **known)
    # What this has made an update makes.
    seconds = time.perf_counter() - began
    kind = dict(method=method, after=after, update_seconds=seconds)
    return OuterLoop(linearization, epsilons, gw_cost, **kind)


def _run(loop, limits, callback, checkpoint, stage, kept=None):
    """The `Solution` of a loop; the checkpoint has the tree `kept` as well. OutOfTime
    if there is none for a first iteration.
    """
    if not loop.history:
        limits.deadline.check(2 * loop.update_seconds - GRACE)
    save = checkpoint.saver(stage, lambda: dict(loop=loop.export(), **(kept or {})))
    solution = loop.run(limits, callback, save)
    checkpoint.stop_if(solution.status == Status.TIME_LIMIT)
    return solution

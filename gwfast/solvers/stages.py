"""One descent from one start. With many points, warm starts come first that cost less:
over the leading eigenvectors of the costs, then in float32.
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
from .checkpoint import DESCENT, FLOAT32, LOW_RANK
from .starts import Shared, start_plan

# Limits of the low-rank warm start: smaller changes of the plan are below the error of
# the eigenvectors.
LOW_RANK_LIMITS = Limits(max_outer=1000, max_inner=1000, tol=0.005, marginal_tol=0.01)
# Limits of the float32 warm start, and the least entries of a float64 plan for one.
FLOAT32_LIMITS = Limits(max_outer=1000, max_inner=1000, tol=1e-4, marginal_tol=1e-4)
MIN_FLOAT32_ENTRIES = 1 << 16
# Time of the first plan of a problem after a warm start, in updates: the objective at
# the start, the kernel, and the objective of the plan.
UPDATES = 3
# Seconds by which an iteration may end too late rather than not be made.
GRACE = 0.5


def descend(problem, start, options):
    """The `Solution` of a problem from one start; `options` have the tier chosen and
    the method made. OutOfTime if there is no time for a single iteration.
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
    last, plan = _warm_started(problem, linearization, epsilons, plan, options)
    loop = _loop(linearization, epsilons, plan, last, options, DESCENT)
    if last is not None and last.status == Status.STOPPED:
        # One iteration, without the callback, makes a plan of the problem itself.
        most = len(last.history) + 1
        last = loop.run(dataclasses.replace(limits, max_outer=most))
        return dataclasses.replace(last, status=Status.STOPPED)
    del last, plan  # frees their memory
    return _run(loop, limits, options, DESCENT)


def _warm_started(problem, linearization, epsilons, plan, options):
    """The `Solution` of the last warm start and its plan; without warm starts None, and
    the plan as it is.
    """
    last = None
    for stage, costs, limits in _warm_starts(problem, linearization, epsilons, options):
        if not options.checkpoint.is_past(stage):
            loop = _loop(costs, epsilons, plan, last, options, stage)
            last = _run(loop, limits, options, stage)
            plan = last.coupling.toarray()
        if stage == FLOAT32 and options.mechanisms.increments:
            linearization.use_increments(costs)
        if last is not None and last.status in (Status.STOPPED, Status.TIME_LIMIT):
            break
    return last, plan


def warm_start_limits(limits, first=FLOAT32_LIMITS, after=0.0):
    """The limits `first` of a warm start, within the limits of the solve, less its last
    iteration and the time of `after` updates.
    """
    most = max(limits.max_outer - 1, 1)
    return limits.within(dataclasses.replace(first, max_outer=most)).before(after)


def go_on(solution, epsilons, problem, options, others):
    """The `Solution` in the precision of the options from a solution in float32, or
    from the checkpoint, which keeps the `others`: `is_tie` and the `Candidates`.
    """
    kind = dict(precision=options.precision, mechanisms=options.mechanisms)
    linearization = linearize(problem, options.threads(problem), **kind)
    plan = None if solution is None else solution.linearization.state
    loop = _loop(linearization, epsilons, plan, solution, options, DESCENT)
    kept = dict(zip(("tie", "tried"), others, strict=True))
    return _run(loop, options.limits, options, DESCENT, kept)


def _warm_starts(problem, linearization, epsilons, options):
    """The warm starts: name of the stage, linearization, and limits."""
    if (
        is_factored(problem, options.method)
        or options.method is not PGD
        or epsilons.last < SINGLE.min_epsilon * linearization.cost_scale
        or options.limits.max_outer < 50
    ):
        return
    updates = UPDATES * work(problem, itemsize=options.precision.itemsize)
    low_rank, allowed = None, options.mechanisms
    if allowed.low_rank_start and not options.checkpoint.is_past(LOW_RANK):
        low_rank = low_rank_problem(problem, linearization.n_threads)
    if low_rank is not None:
        given = options.limits, LOW_RANK_LIMITS, updates / work(low_rank)
        costs = linearize(low_rank, linearization.n_threads, mechanisms=allowed)
        yield LOW_RANK, costs, warm_start_limits(*given)
    n, m = problem.shape
    many = allowed.float32_start and n * m >= MIN_FLOAT32_ENTRIES
    if options.precision is not SINGLE and many:
        limits = warm_start_limits(options.limits, after=updates / work(problem))
        yield FLOAT32, linearization.rounded(SINGLE), limits


def _loop(linearization, epsilons, start, after, options, stage):
    """The `OuterLoop` of a stage: from a plan or state, and from the potentials of the
    `Solution` of the stage before; or from the checkpoint.
    """
    saved, method = options.checkpoint.at(stage), options.method
    if saved is not None:
        with options.checkpoint.restoring():
            return OuterLoop.restored(linearization, saved["loop"], method=method)
    began = time.perf_counter()
    known = {}
    if after is not None:
        given = linearization.cost_scale, linearization.precision
        epsilon = in_units(epsilons.at(len(after.history)), *given)
        known = dict(takes=True, epsilon=epsilon)
    gw_cost = linearization.start(start, **known)
    # An update makes as much as a start.
    seconds = time.perf_counter() - began
    kind = dict(method=method, after=after, update_seconds=seconds)
    return OuterLoop(linearization, epsilons, gw_cost, **kind)


def _run(loop, limits, options, stage, kept=None):
    """The `Solution` of a loop, whose checkpoints have the tree `kept` as well.
    OutOfTime if there is no time for a first iteration.
    """
    if not loop.history:
        limits.deadline.check(2 * loop.update_seconds - GRACE)
    checkpoint = options.checkpoint
    save = checkpoint.saver(stage, lambda: dict(loop=loop.export(), **(kept or {})))
    solution = loop.run(limits, options.callback, save)
    checkpoint.stop_if(solution.status == Status.TIME_LIMIT)
    return solution

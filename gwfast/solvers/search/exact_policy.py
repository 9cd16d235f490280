"""The policy of exact problems: small ones race with less and less entropy, large ones begin with
the plan of the same problem with entropy.
"""

import contextlib
import dataclasses
import math

from ...problems.epsilon import as_epsilon
from ...quadratic.frank_wolfe import ExactLimits, FrankWolfe, nbytes
from ...quadratic.judge import Limits
from ...results.coupling import ArrayCoupling
from ...results.result import LiveStep
from ...results.status import Status
from ...utils.deadline import OutOfTime
from ...utils.memory import as_memory_limit
from ...utils.precision import SINGLE
from ...utils.progress import ProgressEvent, ProgressListener
from .advice import all_tie, doubted
from .confidence import SETTLED
from .exact import ExactSearch
from .isomorphism import Canonical, has_symmetry
from .starts import PRODUCT, as_plan, random, start_plan


def check_exact(problem, options):
    """Refuse options without a meaning for exact problems; return the bytes that the solve may
    take, or raise a MemoryError if these are too few.
    """
    if problem.marginals == "unbalanced":
        raise ValueError("epsilon must be positive with marginals='unbalanced', got 0")
    if options.method != "pgd":
        raise ValueError(
            f"method must be 'pgd', the default, with epsilon=0, got {options.method!r}"
        )
    if options.tier not in ("auto", "dense"):
        raise ValueError(f"tier must be 'auto' or 'dense' with epsilon=0, got {options.tier!r}")
    if options.checkpoint is not None:
        raise ValueError("checkpoint must be None with epsilon=0")
    size = nbytes(problem)
    if options.memory_limit is None and size <= 1e7:  # to ask the system takes .1 ms
        return math.inf
    limit = as_memory_limit(options.memory_limit)
    if size > limit:
        n, m = problem.shape
        raise MemoryError(
            f"an exact problem of {n} x {m} takes {size / 1e9:.3g} GB, and "
            f"memory_limit is {limit / 1e9:.3g} GB"
        )
    return limit


def solve_exact(problem, start, options, report, solve, limit):
    """Return the `GWResult` from a start, or from the best of several if that is None;
    ``solve(problem, options)`` solves a problem with entropy.
    """
    threads, deadline = options.threads(problem), options.limits.deadline
    deadline.check()
    limits = ExactLimits(options.limits.max_outer, options.limits.tol, deadline=deadline)
    if start is not None:
        report(ProgressEvent("solve", f"solving from {start}"))
        plan, solver = start_plan(start, problem, threads), FrankWolfe(problem, threads)
        plan = plan.toarray() if hasattr(plan, "toarray") else plan
        return solver.solve(plan, limits, options.callback).result(threads)
    canonical, whole = Canonical(problem), None
    search = ExactSearch(canonical.problem, threads, limits, options.seed, report)
    # Small problems race with less and less entropy.
    if problem.shape[0] * problem.shape[1] <= 100_000:
        looks_on, room = options.n_starts is None, limit - nbytes(problem)
        search.race(options.n_starts, options.search_time, room, looks_on)
    elif not search.is_done:
        whole = _from_entropy(search, options, report, solve, limit)
    solution = search.solution
    if options.callback is not None and not deadline.passed():
        # The same steps again, for the callback to see.
        def callback(step):
            def coupling():
                return ArrayCoupling(canonical.plan(step.coupling.toarray()), 1)

            return LiveStep.stops(options.callback, step, coupling, step.moved)

        seen = search.solver.solve(search.led_by, limits, callback)
        solution = solution if seen.status == Status.TIME_LIMIT else seen
    tie = search.is_tie or has_symmetry(search.problem, search.solution.plan)
    tie = all_tie(problem) or (problem.is_balanced and tie)
    result = canonical.restore(solution).result(threads, candidates=search.candidates)
    if tie and result.status == Status.CONVERGED:
        result = dataclasses.replace(result, status=Status.TIE, advice=Status.TIE.advice)
    if whole is None:
        return doubted(problem, result)
    result = dataclasses.replace(result, confidence=whole.confidence)
    if whole.status == Status.UNCERTAIN and result.status in SETTLED:
        result = dataclasses.replace(result, status=whole.status, advice=whole.advice)
    return result


def _from_entropy(search, options, report, solve, limit):
    """Take the plans that large problems begin with to their ends; return the `GWResult` of the
    problem with entropy, if the best plan is from there.
    """
    problem, whole = search.problem, None
    numbers = range(options.seed, options.seed + (options.n_starts or 0))
    starts = [*([] if problem.is_balanced else [PRODUCT]), *map(random, numbers)]
    if problem.is_balanced and options.n_starts is not None:
        starts = [PRODUCT, *starts]
    with contextlib.suppress(MemoryError, OutOfTime):
        # On few points the race of the problem with entropy goes on with escapes.
        few = problem.shape[0] * problem.shape[1] <= 500_000
        looks_on = few or bool(options.search_time)
        changed = dataclasses.replace(
            options,
            epsilon=as_epsilon("auto"),
            mechanisms=dataclasses.replace(options.mechanisms, second_look=looks_on),
            dtype=SINGLE.dtype.name,
            callback=None,
            memory_limit=max(as_memory_limit(options.memory_limit) - nbytes(problem), 1),
            progress=ProgressListener(report),
        )
        result = solve(problem, changed)
        if result.n_outer:
            # With a third of the epsilon exact descents end .1 to .4 % lower.
            finer, plan = as_epsilon(result.epsilon / 3.0), result
            limits = options.limits.within(Limits(25, 100, tol=0.02, marginal_tol=1e-3))
            with contextlib.suppress(ValueError):  # too small an epsilon for float32
                finer = dataclasses.replace(changed, epsilon=finer, init=result, limits=limits)
                plan = solve(problem, finer) if problem.is_balanced else result
            plan = plan if plan.n_outer else result
            plan = as_plan(plan.plan, "init", problem.shape, float)
            search.polish("race with entropy", problem.mass * plan)
            whole = result
    for start in starts if search.solution is not None else [PRODUCT]:
        if search.solution is not None and search.is_done:
            break
        report(ProgressEvent("start", f"start {start}"))
        if search.polish(str(start), start_plan(start, problem, options.threads(problem))):
            whole = None
    return whole

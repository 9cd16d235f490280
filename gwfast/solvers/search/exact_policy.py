"""The policy of exact problems: small ones race with less and less entropy, large ones begin with
the plan of the same problem with entropy.
"""

import contextlib
import dataclasses
import functools
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
from .driver import balanced_start
from .exact import ExactSearch
from .isomorphism import Canonical, has_symmetry
from .starts import PRODUCT, Profile, Start, as_plan, given, random, start_plan

# Entries of a plan up to which exact problems race with less and less entropy, and up to which the
# race of a problem with entropy, from whose plan larger ones begin, goes on with escapes.
MOST_RACED, MOST_SEARCHED = 100_000, 500_000
# Divisor of epsilon for a descent after the race of a large problem, and its limits.
FINER, FINE = 3.0, Limits(max_outer=25, max_inner=100, tol=0.02, marginal_tol=1e-3)


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
    ``solve(problem, options)`` is what solves a problem with entropy.
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
    if problem.shape[0] * problem.shape[1] > MOST_RACED:
        for start in _few_starts(canonical.problem, options, report, solve):
            if search.is_done:
                break
            try:
                report(ProgressEvent("start", f"start {start}"))
                plan = start_plan(start, search.problem, threads)
            except (MemoryError, OutOfTime):
                continue
            if search.polish(str(start), plan):
                whole = getattr(start, "result", None)
        if search.solution is None:
            search.polish("product", None)
    else:
        looks_on, room = options.n_starts is None, limit - nbytes(problem)
        search.race(options.n_starts, options.search_time, room, looks_on)
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


def _few_starts(problem, options, report, solve):
    """Return the starts of a large problem; if a caller says how many are random, without starts
    that take longer than random ones.
    """
    few = [PRODUCT, Profile(0.05)]
    if not problem.is_balanced:
        plan = functools.cache(balanced_start(options, report).make)
        balanced = Start("balanced", lambda problem, n_threads: plan(problem, n_threads))
        options, few = dataclasses.replace(options, balanced=balanced), [PRODUCT, balanced]
    if options.n_starts is not None:
        return [*few, *(random(options.seed + k) for k in range(options.n_starts))]
    whole = WithEntropy(options, report, solve)
    if problem.is_balanced:
        return [whole]  # descents from the product plan take longer, and end at most .1 % lower
    return [*few, whole, *(random(options.seed + k) for k in range(4))]


class WithEntropy:
    """The plan of the same problem with `epsilon` "auto", taken to a smaller epsilon if it is
    balanced; its `GWResult` is `result`. MemoryError if there is no room for it.
    """

    def __init__(self, options, report, solve):
        self.options, self.report, self.solve, self.result = options, report, solve, None

    def plan(self, problem, n_threads):
        limit = as_memory_limit(self.options.memory_limit) - nbytes(problem)
        few = problem.shape[0] * problem.shape[1] <= MOST_SEARCHED
        searches = few or bool(self.options.search_time)
        options = dataclasses.replace(
            self.options,
            epsilon=as_epsilon("auto"),
            mechanisms=dataclasses.replace(self.options.mechanisms, second_look=searches),
            dtype=SINGLE.dtype.name,
            callback=None,
            memory_limit=max(limit, 1),
            progress=ProgressListener(self.report),
        )
        self.result = result = self.solve(problem, options)
        if not result.n_outer:
            raise OutOfTime
        plan = result.plan
        if problem.is_balanced:
            finer = dataclasses.replace(
                options,
                epsilon=as_epsilon(result.epsilon / FINER),
                init=given(plan),
                limits=options.limits.within(FINE),
            )
            with contextlib.suppress(ValueError):  # too small for float32
                after = self.solve(problem, finer)
                plan = after.plan if after.n_outer else plan
        return as_plan(plan, "init", problem.shape, float)

    def __str__(self):
        return "race with entropy"

"""Problems without regularization: the search for the best plan, and conditional
gradient from one.

The objective has many local minima at the vertices. Entropy smooths it, and the plan of
a problem with entropy is near a better vertex than most others are: small problems
anneal it (annealing.py), large ones have the plan of `epsilon` "auto" once.
"""

import contextlib
import dataclasses
import itertools
import math

import numpy as np

from ..kernels.threads import resolve_n_threads
from ..problems.epsilon import as_epsilon
from ..quadratic.frank_wolfe import ExactLimits, FrankWolfe, nbytes
from ..quadratic.stopping import Limits
from ..results.coupling import ArrayCoupling
from ..results.result import LiveStep
from ..results.status import Status
from ..utils.deadline import OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.precision import SINGLE
from ..utils.progress import ProgressEvent, ProgressListener
from .agreement import SETTLED
from .annealing import Found, Runner, are_apart, lowest
from .checkpoint import Checkpoint
from .diagnosis import all_tie, doubted
from .isomorphism import Canonical, isomorphisms, symmetries
from .race import OfBalanced
from .starts import ALONE, WIDE, Given, Once, Product, Profile, Start, Starts, as_start, start_plan

# Entries of a plan above which only the product plan is tried beside the plan of the
# usual epsilon: of 480,000 any other descent takes a sixth to a third of the time of
# that, and all together may take half as long as that again.
LARGE = 100_000
# Entries of a plan up to which the search goes on after the race: between graphs of 500
# words that ends 4.6 % lower, between 1000 cells no lower and up to twice as late.
SEARCHED = 500_000
# Divisor of epsilon for a descent after the race, and the limits of the descent. Between 1000
# cells (hops along 10, 20 and 40 neighbors) exact descents from there end .14, .07 and .38 %
# lower, and all takes .3 to .9 s more; by 10 they end .25, .15 and .31 % lower, in 1.3 s more.
FINER = 3.0
FINE = Limits(max_outer=25, max_inner=100, tol=0.02, marginal_tol=1e-3)
# Symmetries of a space that are looked at.
MOST_SYMMETRIES = 8
# Bytes for which the system is not asked: the answer takes .1 ms, as long as a descent
# between 30 points.
ALWAYS_FREE = 1e7


def check_exact(problem, options):
    """Refuse options without a meaning where there is no regularization."""
    if problem.marginals == "unbalanced":
        raise ValueError("epsilon must be positive with marginals='unbalanced', got 0")
    if options.method != "pgd":
        raise ValueError(
            f"method must be 'pgd', the default, with epsilon=0, got {options.method!r}"
        )
    if options.tier not in ("auto", "dense"):
        raise ValueError(f"tier must be 'auto' or 'dense' with epsilon=0, got {options.tier!r}")
    if not isinstance(options.checkpoint, Checkpoint):
        raise ValueError("checkpoint must be None with epsilon=0")


def check_memory(problem, options):
    """The bytes of `memory_limit`; a MemoryError where these are too few, infinity
    where nothing is said and there is always room.
    """
    size = nbytes(problem)
    if options.memory_limit is None and size <= ALWAYS_FREE:
        return math.inf
    limit = as_memory_limit(options.memory_limit)
    if size > limit:
        n, m = problem.shape
        raise MemoryError(
            f"an exact problem of {n} x {m} takes {size / 1e9:.3g} GB, and "
            f"memory_limit is {limit / 1e9:.3g} GB"
        )
    return limit


def solve_exact(problem, start, options, report, solve):
    """The `GWResult` from a start, or from the best of several where that is None;
    ``solve(problem, options)`` is what solves a problem with entropy.
    """
    threads, deadline = options.threads(problem), options.limits.deadline
    deadline.check()
    limits = ExactLimits(options.limits.max_outer, options.limits.tol, deadline=deadline)
    if start is not None:
        report(ProgressEvent("solve", f"solving from {start}"))
        solver = FrankWolfe(problem, threads)
        plan = start_plan(start, problem, threads)
        return solver.solve(plan, limits, options.callback).result(threads)
    canonical = Canonical(problem)
    if problem.shape[0] * problem.shape[1] > LARGE:
        found = Found(canonical.problem, threads, limits)
        for plan in itertools.islice(isomorphisms(canonical.problem), 1):
            found.polish(Runner("isomorphism", plan))
        runners = _runners(canonical.problem, options, report, solve)
        for runner in () if found.is_least else runners:
            found.polish(runner)
            if found.is_done:
                break
    else:
        at_once = resolve_n_threads(options.n_threads, team=False)
        room = check_memory(problem, options) - nbytes(problem)
        given = canonical.problem, at_once, limits, options.seed, options.n_starts
        kind = dict(
            search_time=options.search_time,
            memory=room,
            report=report,
            looks_on=options.n_starts is None,
        )
        found = lowest(*given, **kind)
    solution = found.solution
    if options.callback is not None and not deadline.passed():
        # The same steps again, for it to see; where there is no time for them, as if
        # it had been late.
        def callback(step):
            def coupling():
                return ArrayCoupling(canonical.plan(step.coupling.toarray()), 1)

            return LiveStep.stops(options.callback, step, coupling, step.moved)

        seen = found.solver.solve(found.runner.plan, limits, callback)
        if seen.status != Status.TIME_LIMIT:
            solution = seen
    tie = found.is_tie or has_symmetry(canonical.problem, found.solution.plan)
    tie = all_tie(problem) or (problem.is_balanced and tie)
    solution = canonical.restore(solution)
    result = solution.result(threads, candidates=found.candidates)
    if tie and result.status == Status.CONVERGED:
        result = dataclasses.replace(result, status=Status.TIE, advice=Status.TIE.advice)
    race = found.runner.race
    if race is None:
        return doubted(problem, result)
    result = dataclasses.replace(result, confidence=race.confidence)
    if race.status == Status.UNCERTAIN and result.status in SETTLED:
        result = dataclasses.replace(result, status=race.status, advice=race.advice)
    return result


def has_symmetry(problem, plan):
    """Return whether a symmetry of a space makes another plan as good."""
    n_points = min(np.count_nonzero(problem.p), np.count_nonzero(problem.q))
    if problem.is_fused or n_points == 1:
        return False
    sides = (problem.x, problem.p, plan), (problem.y, problem.q, plan.T)
    return any(
        are_apart(rows[order], rows)
        for geometry, masses, rows in sides
        for order in itertools.islice(symmetries(geometry, masses), MOST_SYMMETRIES)
    )


def _runners(problem, options, report, solve):
    """Yields a `Runner` of one start after another; starts for which there is no room
    or time are left out, and the product plan takes their place if all are.
    """
    starts, made = _starts(problem, options, report, solve), 0
    for number, start in enumerate(starts, start=1):
        if made and options.limits.deadline.passed():
            return
        text = f"start {number} of {len(starts)}: {start}"
        report(ProgressEvent("start", text, number))
        try:
            plan = start_plan(start, problem, options.threads(problem))
        except (MemoryError, OutOfTime):
            continue
        made += 1
        yield Runner(str(start), plan, race=getattr(start, "result", None))
    if not made:
        yield Runner("product", None)


def _starts(problem, options, report, solve):
    """The `Starts` of a large problem; where a caller says how many are random, without
    starts that take longer than random ones.
    """
    few = [Product(), Profile(WIDE)]
    if not problem.is_balanced:
        balanced = OfBalanced(options, report)
        balanced = Once(balanced, problem, options.threads(problem))
        options = dataclasses.replace(options, balanced=balanced)
        few = [Product(), balanced]
    if options.n_starts is not None:
        return Starts(few, options.seed, options.n_starts)
    whole = WithEntropy(options, report, solve)
    if problem.is_balanced:
        # Descents from the product plan take longer, and end at most .1 % lower.
        return [whole]
    return Starts([*few, whole], options.seed, 4)  # steps of others cost more


class WithEntropy(Start):
    """The plan of the same problem with `epsilon` "auto", from a race, and from the search after
    that up to `SEARCHED` entries or if there is a time for it, taken to a smaller epsilon if it is
    balanced; MemoryError where there is no room for that beside the exact problem.

    Attributes
    ----------
    result : GWResult or None
        Of that problem.
    """

    def __init__(self, options, report, solve):
        self.options, self.report, self.solve = options, report, solve
        self.result = None

    def plan(self, problem, n_threads, shared=ALONE):
        limit = as_memory_limit(self.options.memory_limit) - nbytes(problem)
        few = problem.shape[0] * problem.shape[1] <= SEARCHED
        searches = few or bool(self.options.search_time)
        allowed = dataclasses.replace(self.options.mechanisms, second_look=searches)
        options = dataclasses.replace(
            self.options,
            epsilon=as_epsilon("auto"),
            mechanisms=allowed,
            dtype=SINGLE.dtype.name,
            callback=None,
            memory_limit=max(limit, 1),
            tier="auto",
            progress=ProgressListener(self.report),
        )
        result = self.solve(problem, options)
        if not result.n_outer:
            raise OutOfTime
        self.result, plan = result, result.plan
        if problem.is_balanced:
            finer = dataclasses.replace(
                options,
                epsilon=as_epsilon(result.epsilon / FINER),
                init=Given(plan),
                limits=options.limits.within(FINE),
            )
            with contextlib.suppress(ValueError):  # too small for float32
                after = self.solve(problem, finer)
                plan = after.plan if after.n_outer else plan
        # As if a caller began with it.
        return as_start(plan, problem, dtype=float).matrix

    def __str__(self):
        return "race with entropy"

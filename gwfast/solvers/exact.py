"""Problems without regularization: conditional gradient from several plans, of which
the best is kept.

The objective has many local minima at the vertices. Entropy smooths it, and the plan of
a problem with entropy is near a better vertex than most others are: by default the plan
that `epsilon` "auto" has is one of those that descents begin with, so that none is kept
whose objective is above that. Where problems are small, random plans cost next to
nothing beside it, and lead lower now and then.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

from ..problems.epsilon import Epsilon, as_epsilon
from ..quadratic.conditional_gradient import ConditionalGradient, ExactLimits, nbytes
from ..quadratic.methods import PGD
from ..results.candidates import Candidate, Candidates
from ..results.status import Status
from ..utils.deadline import OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.precision import SINGLE
from ..utils.progress import ProgressEvent, ProgressListener
from .checkpoint import Checkpoint
from .options import SHORT, SolveOptions
from .race import OfBalanced
from .stages import descend
from .starts import (
    ALONE,
    WIDE,
    Once,
    Product,
    Profile,
    Random,
    Start,
    Starts,
    as_start,
    seed_of,
    start_plan,
)

# Starts that are solved with a larger epsilon first, with these fractions of the mean
# linear cost. Of 58 problems (graphs of 12 to 60 nodes, neurons, subgraphs of block
# models) it was one of these in the nine on which neither the plan of the usual epsilon
# nor a random one led lowest, by up to 17 %. The last is for short problems only.
BLURRED = (Product(), 0.2), (Product(), 0.05), (Profile(WIDE), 0.05), (Product(), 0.02)
# Entries of a plan above which only the product plan is tried beside the plan of the
# usual epsilon: of 480,000 any other descent takes a sixth to a third of the time of
# that, and all together may take half as long as that again.
LARGE = 100_000
# Bytes for which the system is not asked: the answer takes .1 ms, as long as a descent
# between 30 points.
ALWAYS_FREE = 1e7
# Rows of the table of what was tried; later starts have one only if they are the best.
MAX_ROWS = 1000


def check_exact(problem, options):
    """Refuse options without a meaning where there is no regularization."""
    if problem.marginals == "unbalanced":
        raise ValueError("epsilon must be positive with marginals='unbalanced', got 0")
    if options.method != "pgd":
        raise ValueError(
            f"method must be 'pgd', the default, with epsilon=0, got {options.method!r}"
        )
    if options.tier not in ("auto", "dense"):
        raise ValueError(
            f"tier must be 'auto' or 'dense' with epsilon=0, got {options.tier!r}"
        )
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
    solver = ConditionalGradient(problem, threads)
    limits = ExactLimits(
        options.limits.max_outer, options.limits.tol, deadline=deadline
    )
    if start is not None:
        report(ProgressEvent("solve", f"solving from {start}"))
        plan = start_plan(start, problem, threads)
        return solver.solve(plan, limits, options.callback).result(threads)
    best, rows = None, []
    for label, plan, seconds in _plans(problem, options, report, solve):
        solution = solver.solve(plan, limits)
        leads = best is None or solution.gw_cost < best[1].gw_cost
        if leads:
            best = len(rows), solution, plan
        if leads or len(rows) < MAX_ROWS:
            rows.append(
                Candidate(
                    start=label,
                    n_points=max(problem.shape),
                    epsilon=0.0,
                    gw_cost=solution.gw_cost,
                    n_outer=len(solution.trace),
                    seconds=seconds + solution.seconds,
                    fate="lost",
                )
            )
        if solver.is_least(solution.gw_cost):
            break
    number, solution, plan = best
    rows[number] = rows[number]._replace(fate="won")
    if options.callback is not None and not deadline.passed():
        # The same steps again, for it to see; where there is no time for them, as if
        # it had been late.
        seen = solver.solve(plan, limits, options.callback)
        if seen.status != Status.TIME_LIMIT:
            solution = seen
    return solution.result(threads, candidates=Candidates(rows))


def _plans(problem, options, report, solve):
    """Yields a label, a plan (None is the product plan), and the seconds that making
    the plan took, of one start after another. The product plan comes first; starts for
    which there is no room are left out, and all when time is up.
    """
    starts = _starts(problem, options, report, solve)
    for number, start in enumerate(starts, start=1):
        if number > 1 and options.limits.deadline.passed():
            return
        began = time.perf_counter()
        text = f"start {number} of {len(starts)}: {start}"
        report(ProgressEvent("start", text, number))
        try:
            if isinstance(start, Random):
                plan = seed_of(start)
            else:
                plan = start_plan(start, problem, options.threads(problem))
        except (MemoryError, OutOfTime):
            continue
        yield str(start), plan, time.perf_counter() - began


def _starts(problem, options, report, solve):
    """The `Starts`; where a caller says how many are random, without starts that take
    longer than random ones.
    """
    few, n_entries = [Product(), Profile(WIDE)], problem.shape[0] * problem.shape[1]
    blurred, n_random = (), 0
    if not problem.is_balanced:
        balanced = OfBalanced(options, report)
        balanced = Once(balanced, problem, options.threads(problem))
        options = dataclasses.replace(options, balanced=balanced)
        few = usual = [Product(), balanced]
        n_random = 4  # the steps of these problems cost more
    elif n_entries > LARGE:
        usual = [Product()]
    elif n_entries > SHORT:
        usual, blurred = few, BLURRED[:-1]
    else:
        # Random plans add nothing to these: of 72 pairs of graphs, shapes and clouds of
        # 12 to 100 points one ends .1 % lower with 64 of them. Without the plan with
        # entropy the best of 64 is 0 to 1 % above by mean, 5 % at worst.
        usual, blurred = [*few, Profile(), Profile(root=True)], BLURRED
    if options.n_starts is not None:
        return Starts(few, options.seed, options.n_starts)
    blurred = [Blurred(*one, options) for one in blurred]
    whole = WithEntropy(options, report, solve)
    return Starts([*usual, *blurred, whole], options.seed, n_random)


@dataclasses.dataclass(frozen=True)
class WithEntropy(Start):
    """The plan of the same problem with `epsilon` "auto", as it is by default;
    MemoryError where there is no room for that beside the exact problem.
    """

    options: SolveOptions
    report: Callable[..., Any]
    solve: Callable[..., Any]

    def plan(self, problem, n_threads, shared=ALONE):
        limit = as_memory_limit(self.options.memory_limit) - nbytes(problem)
        options = dataclasses.replace(
            _entropic(self.options, "auto"),
            memory_limit=max(limit, 1),
            tier="auto",
            progress=ProgressListener(self.report),
        )
        result = self.solve(problem, options)
        if not result.n_outer:
            raise OutOfTime
        # As if a caller began with it.
        return as_start(result.plan, problem, dtype=float).matrix

    def __str__(self):
        return "race with entropy"


@dataclasses.dataclass(frozen=True)
class Blurred(Start):
    """The plan that the descent with a large epsilon leads to."""

    start: Start
    fraction: float
    options: SolveOptions

    def plan(self, problem, n_threads, shared=ALONE):
        options = _entropic(self.options, Epsilon(relative=self.fraction))
        limits = dataclasses.replace(options.limits, tol=max(options.limits.tol, 1e-3))
        options = dataclasses.replace(options, method=PGD, tier="dense", limits=limits)
        return descend(problem, self.start, options).coupling.toarray()

    def __str__(self):
        return f"{self.start}, epsilon {100 * self.fraction:g} %"


def _entropic(options, epsilon):
    """The options for a problem with entropy on the way, in float32."""
    return dataclasses.replace(
        options, epsilon=as_epsilon(epsilon), dtype=SINGLE.dtype.name, callback=None
    )

"""Exact problems: the race with less and less entropy, then Frank-Wolfe from what is left.

The objective has many local minima at the vertices, of which Frank-Wolfe finds the nearest.
Entropy smooths it, and which of the few minima with much entropy is the lowest says which vertices
are (deterministic annealing: Rose, Gurewitz and Fox, Physical Review Letters 1990).
"""

import contextlib
import dataclasses
import functools
import itertools
import math
import sys

import numpy as np

from ...problems.epsilon import Epsilon, Schedule, as_epsilon
from ...quadratic.frank_wolfe import ExactLimits, FrankWolfe, nbytes
from ...quadratic.judge import Limits
from ...quadratic.linearize import linearize
from ...quadratic.linearize import nbytes as entropic_nbytes
from ...results.coupling import ArrayCoupling
from ...results.result import LiveStep
from ...results.status import Status
from ...results.tables import Candidate, Candidates
from ...utils.deadline import NEVER, OutOfTime, Patience
from ...utils.memory import as_memory_limit
from ...utils.precision import SINGLE
from ...utils.progress import ProgressEvent, ProgressListener
from .advice import all_tie, doubted
from .confidence import LEVEL, SETTLED, confidence_of
from .isomorphism import Canonical, are_apart, has_symmetry, isomorphisms
from .portfolio import Round, enter, race
from .starts import PRODUCT, Profile, Start, as_plan, given, random, start_plan

# Entries of a plan up to which exact descents are among the starts of problems with entropy, up to
# which exact problems race with less and less entropy, and up to which the race of a problem with
# entropy, from whose plan larger ones begin, goes on with escapes.
MOST_EXACT, MOST_RACED, MOST_SEARCHED = 10_000, 100_000, 500_000
# Epsilon of the rounds over the objective of the product plan, the tolerance of the rough descents
# with it, and how many are left: on 20 pairs of curves and graphs other values end higher.
ANNEALED = tuple(
    Round(25, Limits(max_outer=25, max_inner=100, tol=tol, marginal_tol=1e-3), keep, epsilon)
    for epsilon, tol, keep in ((0.05, 0.05, 3), (0.03, 0.03, 2), (0.012, 0.02, 2))
)
# Eigenvectors whose products, with all signs, are starts; and starts together with random ones.
N_TURNED, N_STARTS = 3, 12
# Divisor of epsilon for a descent after the race of a large problem, and its limits.
FINER, FINE = 3.0, Limits(max_outer=25, max_inner=100, tol=0.02, marginal_tol=1e-3)


def exact_start(seed=0, deadline=NEVER, n_random=None):
    """Return the start of the best plan without regularization, by its search."""

    def make(problem, n_threads):
        search = ExactSearch(problem, n_threads, ExactLimits(deadline=deadline), seed)
        search.race(n_random)
        return search.solution.plan.astype(np.float32)

    return Start("exact", make)


class ExactSearch:
    """The search for the plan of the lowest objective.

    Attributes
    ----------
    solution : ExactSolution
        The best so far, from the plan `led_by`.
    is_tie : bool
        Whether another plan has the same objective.
    """

    def __init__(self, problem, n_threads, limits, seed=0, report=None):
        self.problem, self._n_threads, self._limits = problem, n_threads, limits
        self._seed, self._report = seed, report or (lambda event: None)
        self.solver = FrankWolfe(problem, n_threads)
        self.solution, self.led_by, self.is_tie, self._rows, self._best = None, None, False, [], 0
        for plan in itertools.islice(isomorphisms(problem), 2):
            self.polish("isomorphism", plan)

    def polish(self, label, plan):
        """Take a plan, None for the product plan, to its end; return whether that is the best."""
        solution, best = self.solver.solve(plan, self._limits), self.solution
        leads = best is None or solution.gw_cost < best.gw_cost
        if best is not None and self.solver.are_equal(solution.gw_cost, best.gw_cost):
            self.is_tie |= are_apart(solution.plan, best.plan)
        elif leads:
            self.is_tie = False
        if leads:
            self.solution, self.led_by, self._best = solution, plan, len(self._rows)
        if leads or len(self._rows) < 1000:
            size, n_outer = max(solution.plan.shape), len(solution.trace)
            row = label, size, 0.0, solution.gw_cost, n_outer, solution.seconds, "lost"
            self._rows.append(Candidate(*row))
        return leads

    @property
    def is_done(self):
        """Return whether there is no time for more, or none is better."""
        known = self.solution is not None
        if known and self.solver.is_least(self.solution.gw_cost):
            return True
        return known and self._limits.deadline.passed()

    @property
    def candidates(self):
        rows = list(self._rows)
        rows[self._best] = rows[self._best]._replace(fate="won")
        return Candidates(rows)

    @property
    def confidence(self):
        return confidence_of(self.candidates, self.solution.status, exact=True)

    def race(self, n_random=None, search_time=None, memory=math.inf, looks_on=False):
        """Race starts with less and less entropy, as many at random as asked for, or some more
        if these leave doubt and the search `looks_on`, or as many as there is `search_time` for.
        """
        if self.is_done:
            return
        problem, deadline = self.problem, self._limits.deadline
        # From None ties are broken, as they are where the product plan is the only start.
        self.polish("product", None)
        size = entropic_nbytes(problem, "dense", self._n_threads, n_states=2 * N_STARTS)
        if size > memory or self.is_done:
            return
        starts = [PRODUCT]
        if not problem.is_balanced:
            balanced = problem.replace(rule=problem.rule.balanced())
            limits = ExactLimits(deadline=deadline)
            search = ExactSearch(balanced, self._n_threads, limits, self._seed)
            search.race(n_random)
            starts.append(given(problem.mass * search.solution.plan, "balanced"))
            self.polish("balanced", starts[-1].plan(problem, 1))
        # Where the objective falls fastest: of smooth shapes, the mirror images.
        turned = self.solver.turned(N_TURNED)
        starts += [given(plan, f"eigenvectors {label}") for label, plan in turned]
        left = range(N_STARTS - len(starts) if n_random is None else n_random)
        patience, of = None, f" of {len(starts) + len(left)}"
        starts += map(self._random, left[: 2 * N_STARTS])
        left = left[2 * N_STARTS :]
        while starts and not self.is_done:
            if any([self.polish(*one) for one in self._annealed(starts, of)]) and patience:
                patience.renew()
            if not left and looks_on and self.confidence < LEVEL:
                left, looks_on = range(N_STARTS, 2 * N_STARTS), False
            elif not left and search_time:
                # What nobody has asked for by number is tried as long as there is time.
                patience, left = Patience(search_time), range(2 * N_STARTS, sys.maxsize)
                search_time = None
            if patience and not patience.goes_on:
                break
            starts, left, of = list(map(self._random, left[:N_STARTS])), left[N_STARTS:], ""

    def _annealed(self, starts, of):
        """Return label and plan of what is left of starts after a race."""
        dense = self.problem.replace(x=self.problem.x.to_dense(), y=self.problem.y.to_dense())
        at = linearize(dense, self._n_threads, deadline=self._limits.deadline)
        limits = dataclasses.replace(ANNEALED[0].limits, deadline=self._limits.deadline)
        rounds = [
            one._replace(epsilon=Epsilon(relative=one.epsilon).resolve(at).last) for one in ANNEALED
        ]
        first = rounds[0].epsilon
        try:
            field = enter(
                starts, at, Schedule(first, first), limits.deadline, self._report, total=of[4:]
            )
        except OutOfTime:
            return []
        left, dropped = race(field, limits, lambda event: None, rounds)
        self._rows += [one.row()._replace(start=f"annealed {one.label}") for one in dropped]
        return [(f"annealed {one.label}", one.descent.state.plan) for one in left]

    def _random(self, number):
        """Return the start from independent exponential entries, with about the marginals."""
        seed = self._seed + number

        def make(problem, n_threads):
            entries = np.random.default_rng(seed).standard_exponential(problem.shape)
            rows, cols = problem.rule.product()
            plan = entries * np.multiply.outer(rows, cols / problem.mass)
            return plan * (problem.mass / plan.sum())

        return Start(f"random {seed}", make)


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
    from .driver import balanced_start

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

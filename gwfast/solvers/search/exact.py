"""Exact problems: small ones anneal many plans, large ones begin with the plan of the same problem
with entropy; Frank-Wolfe takes the best plans to their ends.

The objective has many local minima at the vertices, and Frank-Wolfe finds the nearest. Entropy
smooths it, and the lowest of the few minima with much entropy shows the lowest vertices
(deterministic annealing: Rose, Gurewitz and Fox, Physical Review Letters 1990).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from ...kernels._kernels import entropy
from ...kernels.threads import resolve_n_threads
from ...problems.epsilon import Epsilon, as_epsilon
from ...problems.quadratic import QuadraticProblem
from ...quadratic.descend import Descent, descend
from ...quadratic.frank_wolfe import ExactLimits, ExactSolution, FrankWolfe, nbytes, random_plans
from ...quadratic.judge import Limits
from ...quadratic.linearize import linearize
from ...quadratic.small_descent import descend_each
from ...quadratic.state import Linearization
from ...results.coupling import ArrayCoupling
from ...results.records import LiveStep
from ...results.result import GWResult
from ...results.status import Ending
from ...results.tables import RESTART, Candidate, Candidates
from ...utils.deadline import NEVER, Deadline, OutOfTime, Patience
from ...utils.memory import as_memory_limit, check_size
from ...utils.precision import SINGLE
from ...utils.progress import ProgressEvent, ProgressListener, Reporter
from ...utils.types import Float32Array, Float64Array
from ..options import Settings
from .advice import doubted
from .anchors import anchor_starts
from .confidence import LEVEL, SETTLED, Evidence, confidence_of, kind_of
from .isomorphism import Canonical, are_apart, isomorphisms
from .seeds import AnyStart
from .starts import PRODUCT, Origin, Start, as_plan, random, stored

# Solves a problem with entropy.
Solve: TypeAlias = Callable[[QuadraticProblem, Settings], GWResult]
# Entries of a plan up to which exact descents are among the starts of problems with entropy.
MOST_EXACT = 10_000
# First starts: eight along eigenvectors, one for each choice of signs, the rest at random. If a
# search is in doubt, MAX_ROUNDS of further starts follow; of small problems more, until their plans
# have ROUNDED entries, but MOST_ROUNDS at most.
N_STARTS, MAX_ROUNDS, MOST_ROUNDS, ROUNDED = 12, 6, 24, 12_000
# The best plan with entropy.
ENTROPIC = Origin("race with entropy", "entropy")
# Entries of a plan up to which plans are annealed.
MOST_ANNEALED = 100_000
# Epsilon as a fraction of the objective of the product plan, the `tol` of descents with it, and how
# many plans are left. With 3, 2 and 2 the ends of 390 pairs of graphs and shapes are .05 % higher.
LEVELS = (0.07, 0.05, 4), (0.03, 0.03, 3), (0.012, 0.02, 3)


def exact_start(seed: int = 0, deadline: Deadline = NEVER, n_random: int | None = None) -> Start:
    """Return the start of the best plan without regularization, by its search."""

    def make(problem: QuadraticProblem, n_threads: int) -> Float32Array:
        return exact_plan(problem, n_threads, deadline, seed, n_random).astype(np.float32)

    return Start("exact", make, "exact")


def is_same(cost: float, other: float) -> bool:
    """Return whether two objectives without entropy are of the same optimum."""
    return abs(cost - other) <= 1e-4 * abs(other)


def exact_plan(
    problem: QuadraticProblem, n_threads: int, deadline: Deadline, seed: int, n_random: int | None
) -> Float64Array:
    """Return the best plan without regularization, by its search."""
    search = ExactSearch(problem, n_threads, ExactLimits(deadline=deadline), seed)
    search.anneal(n_random)
    assert search.plan is not None
    return search.plan


class ExactSearch:
    """The search for the plan of the lowest objective.

    Attributes
    ----------
    plan : (n, m) ndarray
        The best so far, None before the first.
    led_by : (n, m) ndarray
        The plan whose descent led there, None for the product plan.
    is_tie : bool
        Whether another plan has the same objective.
    """

    def __init__(
        self,
        problem: QuadraticProblem,
        n_threads: int,
        limits: ExactLimits,
        seed: int = 0,
        report: Reporter | None = None,
    ) -> None:
        self.problem, self._n_threads, self._limits = problem, n_threads, limits
        self._deadline, self._seed = limits.deadline, seed
        self._report = report or (lambda event: None)
        self._rng = np.random.default_rng(seed)
        self.solver = FrankWolfe(problem, n_threads)
        self.plan: Float64Array | None = None
        self.led_by: Float64Array | None = None
        self.is_tie, self._cost, self._best, self._product_cost = False, math.inf, 0, math.nan
        self._solution: ExactSolution | None = None
        self._rows, self._costs = list[Candidate](), list[tuple[float, int]]()
        self._optima, self._counts = itertools.count(), collections.Counter[str]()
        for plan in itertools.islice(isomorphisms(problem), 1):
            self.polish([Origin("isomorphism", "isomorphism")], plan[None])

    def polish(
        self, starts: Sequence[Origin], plans: np.ndarray, optima: Sequence[int] | None = None
    ) -> bool:
        """Take plans (k, n, m) to their ends; return whether one of these is the best. Starts that
        led to the plans have `optima` if there are some.
        """
        began, leads = time.perf_counter(), False
        ends, costs, counts = self.solver.descend_each(plans, self._limits)
        seconds = (time.perf_counter() - began) / max(len(ends), 1)
        for k, end in enumerate(ends):
            optimum = optima[k] if optima else next(self._optima)
            numbers = float(costs[k]), int(counts[k]), seconds
            leads |= self._take(starts[k], optimum, plans[k], end, *numbers)
            if self.is_done:
                break
        return leads

    def polish_product(self) -> None:
        """Take the product plan to its end, with ties broken as Frank-Wolfe does."""
        self._solution = solution = self.solver.solve(None, self._limits)
        self._product_cost = solution.first
        numbers = solution.gw_cost, len(solution.trace), solution.seconds
        start = Origin("product", "product")
        self._take(start, next(self._optima), None, solution.plan, *numbers)
        if self.led_by is not None:
            self._solution = None

    def _take(
        self,
        start: Origin,
        optimum: int,
        plan: np.ndarray | None,
        end: np.ndarray,
        cost: float,
        n_iter: int,
        seconds: float,
    ) -> bool:
        """Take note of the plan that the descent from another plan ended at."""
        is_equal = self.plan is not None and self.solver.are_equal(cost, self._cost)
        leads = self.plan is None or (not is_equal and cost < self._cost)
        if self.plan is not None and is_equal:
            self.is_tie = self.is_tie or are_apart(end, self.plan)
        elif leads:
            if plan is not None:
                self._solution, plan = None, plan.copy()
            self.plan, self.led_by, self._cost, self.is_tie = end.copy(), plan, cost, False
            self._best = len(self._rows)
        for other, number in self._costs:
            if is_same(cost, other) or self.solver.are_equal(cost, other):
                for k, row in enumerate(self._rows):
                    if row.optimum == optimum:
                        self._rows[k] = row._replace(optimum=number)
                optimum = number
                break
        else:
            self._costs.append((cost, optimum))
        self._note(start, optimum, 0.0, cost, n_iter, seconds, "lost", leads)
        return leads

    @property
    def solution(self) -> ExactSolution:
        """The `ExactSolution` that the best start leads to."""
        if self._solution is None:
            solution = self.solver.solve(self.led_by, self._limits)
            if solution.status == Ending.TIME_LIMIT:
                solution = self.solver.solve(self.plan, self._limits)
            self._solution = solution
        return self._solution

    @property
    def is_done(self) -> bool:
        """Return whether there is no time for more, or none is better."""
        if self.plan is None:
            return False
        return self.solver.is_least(self._cost) or self._deadline.passed()

    @property
    def candidates(self) -> Candidates:
        rows = list(self._rows)
        rows[self._best] = rows[self._best]._replace(fate="won")
        return Candidates(rows, product=self._product_cost)

    def anneal(
        self,
        n_random: int | None = None,
        search_time: float | None = None,
        n_rounds: int = 0,
        entropic: Callable[[], tuple[Float64Array | None, GWResult | None]] | None = None,
    ) -> None:
        """Anneal the product plan, plans along eigenvectors and `n_random` at random; if none
        stands out, the plan from ``entropic()``; if these leave doubt, more at random and around
        the best plan in `n_rounds` rounds; and further ones for the `search_time`.
        """
        if self.is_done:
            return
        self.polish_product()
        plans = self.solver.permutations(1)
        self.polish([Origin("permutation", "permutation")] * len(plans), plans)
        if self.is_done:
            return
        origins, first = zip(*self._first_plans(n_random), strict=True)
        starts, others = list[Origin](origins), list[Float64Array](first)
        left = N_STARTS - 8 if n_random is None else n_random
        patience = search_time and Patience(search_time)
        while (starts or left) and not self.is_done:
            several = self._at_random(min(left, 64))
            self._annealed([*starts, *several[0]], np.concatenate([*others, several[1]]))
            starts, others, left = [], [], max(left - 64, 0)
        stands_out = Evidence.of(*self._evidence).gap == 1.0
        if entropic is not None and not (self.is_done or (stands_out and not patience)):
            plan, _ = entropic()
            if plan is not None:
                self.polish([ENTROPIC], plan[None])
        with contextlib.suppress(OutOfTime):
            while not self.is_done:
                if not (patience.goes_on if patience else n_rounds and self._doubts()):
                    break
                n_rounds -= 1
                if self._look_around() and patience:
                    patience.renew()

    @property
    def _evidence(self) -> tuple[Candidates, Ending, str]:
        """Arguments of `Evidence.of` and `confidence_of`."""
        return self.candidates, Ending.CONVERGED, kind_of(self.problem, exact=True)

    def _doubts(self) -> bool:
        return confidence_of(*self._evidence) < LEVEL

    def _first_plans(self, n_random: int | None) -> Iterator[tuple[Origin, np.ndarray]]:
        """Yield the `Origin`, and plans (1, n, m), of starts that are not random."""
        problem, threads, deadline = self.problem, self._n_threads, self._deadline
        yield Origin("annealed product", "product"), self._product[None]
        if not problem.is_balanced:
            balanced = problem.replace(rule=problem.rule.balanced())
            plan = problem.mass * exact_plan(balanced, threads, deadline, self._seed, n_random)
            yield Origin("annealed balanced", "balanced"), plan[None]
            self.polish([Origin("balanced", "balanced")], plan[None])
            for start in anchor_starts(problem, deadline=deadline):
                near = stored(start.plan(problem, threads))
                assert near is not None
                plan = near.astype(np.float64)
                plan *= problem.mass / plan.sum()
                self.polish([Origin(start.label, start.kind)], plan[None])
        # Where the objective falls fastest: of smooth shapes, the mirror images.
        for label, perturbed in self.solver.perturbed():
            yield Origin(label, "eigenvectors"), perturbed[None]

    @functools.cached_property
    def _product(self) -> Float64Array:
        """The product plan."""
        rows, cols = self.problem.rule.product()
        return np.multiply.outer(rows, cols / self.problem.mass)

    @functools.cached_property
    def _linearized(self) -> Linearization:
        x, y = self.problem.x.to_dense(), self.problem.y.to_dense()
        return linearize(self.problem.replace(x=x, y=y), 1, deadline=self._deadline)

    def _at_random(self, count: int) -> tuple[list[Origin], np.ndarray]:
        """Return the `Origin` of each start, and plans (count, n, m) of independent exponential
        entries with about the marginals of the product plan.
        """
        product = self._product.astype(np.float32)
        plans = random_plans(self._rng, product, self.problem.mass, count)
        return [self._named("annealed random", "random") for _ in range(count)], plans

    def _restarts(self, count: int, fraction: float, tol: float) -> tuple[list[Origin], np.ndarray]:
        """Return the `Origin` of each start, and plans (count, n, m): the best plan at a level of
        entropy, with noise.
        """
        linearization = self._linearized
        assert self.plan is not None
        start = self.plan[None].astype(linearization.precision.dtype)
        [plan], *_ = self._descended(linearization, start, fraction, tol)
        noise = self._rng.standard_normal((count, *plan.shape), dtype=np.float32)
        # With deviations of .3 to 2 descents lead back to the best plan.
        noise *= self._rng.uniform(2.0, 12.0, (count, 1, 1)).astype(np.float32)
        noise -= noise.max(axis=(1, 2), keepdims=True)
        plans = plan * np.exp(noise)
        plans *= (self.problem.mass / plans.sum(axis=(1, 2)))[:, None, None]
        return [self._named("restart", RESTART) for _ in range(count)], plans

    def _named(self, name: str, kind: str) -> Origin:
        self._counts[name] += 1
        return Origin(f"{name} {self._counts[name]}", kind, self._counts[name])

    def _look_around(self) -> bool:
        """Begin again at random and around the best plan, with less and less entropy; return
        whether a start leads.
        """
        leads, half = False, N_STARTS // 2
        for skipped in range(len(LEVELS)):
            fraction, tol, _ = LEVELS[skipped]
            starts, plans = self._at_random(half // 2)
            restarts, near = self._restarts(half, fraction, tol)
            plans = np.concatenate([plans, near])
            leads |= self._annealed([*starts, *restarts], plans, LEVELS[skipped:])
        return leads

    def _annealed(
        self,
        starts: Sequence[Origin],
        plans: np.ndarray,
        levels: Sequence[tuple[float, float, int]] = LEVELS,
    ) -> bool:
        """Polish the plans that are left of some starts (k, n, m) after all levels, the best first;
        return whether one leads.
        """
        for number, start in enumerate(starts, 1):
            self._report(ProgressEvent("start", f"start {number}: {start.label}", number))
        left, optima = list[int](), [next(self._optima) for _ in starts]
        with contextlib.suppress(OutOfTime):
            linearization = self._linearized
            plans = plans.astype(linearization.precision.dtype)
            field = list(range(len(starts)))
            for fraction, tol, n_left in levels:
                self._deadline.check()
                levels_of = {k: fraction for k in field}
                if starts[0].kind == PRODUCT.kind and 0 in field:
                    # With more entropy the product plan between words hardly moves.
                    levels_of[0] = min(fraction, 0.05)
                began, ends = time.perf_counter(), dict[int, tuple[float, float, int, float]]()
                for share in sorted(set(levels_of.values())):
                    these = [k for k in field if levels_of[k] == share]
                    annealed, *numbers = self._descended(linearization, plans[these], share, tol)
                    plans[these] = annealed
                    ends |= dict(zip(these, zip(*numbers, strict=True), strict=True))
                seconds = (time.perf_counter() - began) / len(field)
                left, last = [], None
                for k in sorted(field, key=lambda k: ends[k][0]):
                    value, gw_cost, n_iter, epsilon = ends[k]
                    if last is not None and is_same(value, ends[last][0]):
                        outcome, optimum = f"same as {starts[last].label}", optima[last]
                    elif len(left) < n_left:
                        left.append(k)
                        last = k
                        continue
                    else:
                        outcome, optimum = f"dropped at {fraction:.1%}", optima[k]
                    self._note(
                        starts[k], optimum, epsilon, gw_cost, n_iter, seconds, outcome, value=value
                    )
                field = left
        if self.is_done or not left:
            return False
        return self.polish([starts[k] for k in left], plans[left], [optima[k] for k in left])

    def _descended(
        self, linearization: Linearization, plans: np.ndarray, fraction: float, tol: float
    ) -> tuple[np.ndarray, list[float], list[float], list[int], list[float]]:
        """Return the plans after rough descents, as the next level moves them further, and the
        values that they are compared by, objectives, numbers of iterations and epsilon of each.
        """
        limits, schedule = Limits(25, 100, tol, 1e-3, deadline=self._deadline), None
        schedule = linearization.schedule(Epsilon(relative=fraction))
        first = Descent.begin(linearization, linearization.initial(plans[0]), schedule)
        costs, counts = descend_each(first, plans, limits, self._n_threads)
        for k in np.flatnonzero(counts == 0):
            # The compiled loop leaves these to the other one.
            one = descend(
                Descent.begin(linearization, linearization.initial(plans[k]), schedule), limits
            )
            plans[k], costs[k], counts[k] = one.state.plan, one.gw_cost, len(one.steps)
        values = costs
        if self.problem.rule.has_free_marginals:
            entropies = np.array([entropy(plan, self._n_threads) for plan in plans])
            values = costs - 2 * schedule.last * entropies
        epsilons = [schedule.last] * len(plans)
        return plans, values.tolist(), costs.tolist(), counts.tolist(), epsilons

    def _note(
        self,
        start: Origin,
        optimum: int,
        epsilon: float,
        cost: float,
        n_iter: int,
        seconds: float,
        outcome: str,
        leads: bool = False,
        value: float | None = None,
    ) -> None:
        """Keep the row of a descent: of a long search only rows of descents that lead."""
        if not leads and len(self._rows) >= 1000:
            return
        self._rows.append(
            Candidate(
                start.label,
                max(self.problem.shape),
                epsilon,
                cost,
                n_iter,
                seconds,
                outcome,
                start.kind,
                optimum,
                cost if value is None else value,
                draw=start.draw,
            )
        )


def check_exact(problem: QuadraticProblem, options: Settings) -> float:
    """Refuse options without a meaning for exact problems; return the bytes that the solve may
    take, or raise a MemoryError if these are too few.
    """
    if problem.marginals == "unbalanced":
        raise ValueError("epsilon must be positive with unbalanced marginals, got 0")
    if options.method != "pgd":
        raise ValueError(f"method must be 'pgd' with epsilon=0, got {options.method!r}")
    if options.tier not in ("auto", "dense"):
        raise ValueError(
            f"tier must be 'auto' or 'dense' with epsilon=0, got {str(options.tier)!r}"
        )
    if options.checkpoint is not None:
        raise ValueError("checkpoint must be None with epsilon=0")
    size, (n, m) = nbytes(problem), problem.shape
    if options.memory_limit is None and size <= 1e7:  # to ask the system takes .1 ms
        return math.inf
    limit = as_memory_limit(options.memory_limit)
    check_size(f"an exact problem of {n} x {m}", size, limit)
    return limit


def solve_exact(
    problem: QuadraticProblem,
    start: AnyStart | None,
    options: Settings,
    report: Reporter,
    solve: Solve,
    limit: float,
) -> GWResult:
    """Return the `GWResult` from a start, or from the best of several if that is None;
    ``solve(problem, options)`` solves a problem with entropy.
    """
    threads, deadline, entropic_result = options.threads(problem), options.limits.deadline, None
    deadline.check()
    limits = ExactLimits(options.limits.max_outer, options.limits.tol, deadline=deadline)
    if start is not None:
        report(ProgressEvent("solve", f"solving from {start}"))
        plan, solver = stored(start.plan(problem, threads)), FrankWolfe(problem, threads)
        return solver.solve(plan, limits, options.callback).result(threads)
    canonical, at_once = Canonical(problem), resolve_n_threads(options.n_threads)
    search = ExactSearch(canonical.problem, at_once, limits, options.seed, report)
    # Plans and products of the starts that are annealed together.
    annealed = 32 * (16 + (options.n_starts or 16)) * math.prod(problem.shape)
    if math.prod(problem.shape) <= MOST_ANNEALED and nbytes(problem) + annealed <= limit:
        rounds = min(max(MAX_ROUNDS, ROUNDED // math.prod(problem.shape)), MOST_ROUNDS)
        rounds *= options.n_starts is None
        arguments = options, report, solve, limit
        # From the plan with entropy exact ends between communities are up to a third lower.
        many = math.prod(problem.shape) >= 500 and options.n_starts is None
        entropic = functools.partial(_with_entropy, search, *arguments) if many else None
        search.anneal(options.n_starts, options.search_time, rounds, entropic)
    elif not search.is_done:
        entropic_result = _from_entropy(search, options, report, solve, limit)
    solution = search.solution
    if options.callback is not None and not deadline.passed():
        # The same steps again, for the callback to see.
        def callback(step: LiveStep) -> bool:
            def coupling() -> ArrayCoupling:
                return ArrayCoupling(canonical.plan(step.coupling.toarray()), 1)

            return LiveStep.stops(options.callback, step, coupling, step.moved)

        seen = search.solver.solve(search.led_by, limits, callback)
        solution = solution if seen.status == Ending.TIME_LIMIT else seen
    tie = problem.is_balanced and search.is_tie
    result = canonical.restore(solution).result(threads, candidates=search.candidates)
    if tie and result.ending == Ending.CONVERGED:
        result = dataclasses.replace(result, ending=Ending.TIE, advice=Ending.TIE.advice)
    if entropic_result is None:
        return doubted(problem, result, options.search_time)
    candidates = Candidates(result.candidates, entropic_result.confidence)
    result = dataclasses.replace(result, candidates=candidates)
    if entropic_result.ending == Ending.UNCERTAIN and result.ending in SETTLED:
        result = dataclasses.replace(
            result, ending=entropic_result.ending, advice=entropic_result.advice
        )
    return result


def _from_entropy(
    search: ExactSearch, options: Settings, report: Reporter, solve: Solve, limit: float
) -> GWResult | None:
    """Take the plans that large problems begin with to their ends; return the `GWResult` of the
    problem with entropy, if the best plan is from there.
    """
    problem = search.problem
    plan, entropic_result = _with_entropy(search, options, report, solve, limit)
    if plan is not None:
        search.polish([ENTROPIC], plan[None])
    starts = [random(options.seed + k) for k in range(options.n_starts or 0)]
    if starts or search.plan is None or not problem.is_balanced:
        starts = [PRODUCT, *starts]
    for start in starts:
        if search.is_done:
            break
        first = stored(start.plan(problem, options.threads(problem)))
        if first is None:
            search.polish_product()
        origin = Origin(start.label, start.kind, start.draw)
        if first is None or search.polish([origin], first[None]):
            entropic_result = None
    return entropic_result


def _with_entropy(
    search: ExactSearch, options: Settings, report: Reporter, solve: Solve, limit: float
) -> tuple[Float64Array | None, GWResult | None]:
    """Return the plan of the problem with entropy, and its `GWResult`; None if there is no time or
    memory for it.
    """
    problem = search.problem
    with contextlib.suppress(MemoryError, OutOfTime):
        # On few points the race of the problem with entropy goes on with restarts.
        annealed, size = options.n_starts is None and MOST_ANNEALED, math.prod(problem.shape)
        looks_on = annealed < size <= 500_000 or bool(options.search_time)
        changed = dataclasses.replace(
            options,
            epsilon=as_epsilon("auto"),
            tuning=dataclasses.replace(options.tuning, second_look=looks_on),
            precision=SINGLE,
            callback=None,
            progress=ProgressListener(report),
            memory_limit=max(limit - nbytes(problem), 1),
        )
        entropic_result = solve(problem, changed)
        result = entropic_result
        if entropic_result.history and problem.is_balanced:
            # With a third of the epsilon exact descents end .1 to .4 % lower.
            sharper = dataclasses.replace(
                changed,
                epsilon=as_epsilon(entropic_result.epsilon / 3.0),
                init=entropic_result,
                limits=options.limits.within(Limits(25, 100, tol=0.02, marginal_tol=1e-3)),
            )
            with contextlib.suppress(ValueError):  # too small an epsilon for float32
                finer = solve(problem, sharper)
                result = finer if finer.history else result
        if entropic_result.history:
            plan = as_plan(result.plan, problem.shape, np.float64)
            return (problem.mass * plan).astype(np.float64, copy=False), entropic_result
    return None, None

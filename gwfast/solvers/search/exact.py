"""Exact problems: small ones anneal many plans, large ones begin with the plan of the same problem
with entropy; Frank-Wolfe takes the best plans to their ends.

The objective has many local minima at the vertices, and Frank-Wolfe finds the nearest. Entropy
smooths it, and the lowest of the few minima with much entropy shows the lowest vertices
(deterministic annealing: Rose, Gurewitz and Fox, Physical Review Letters 1990).
"""

import contextlib
import dataclasses
import functools
import itertools
import math

import numpy as np

from ...kernels.threads import resolve_n_threads
from ...problems.epsilon import Epsilon, as_epsilon
from ...quadratic.descend import Descent, descend
from ...quadratic.frank_wolfe import ExactLimits, FrankWolfe, nbytes
from ...quadratic.judge import Limits
from ...quadratic.linearize import linearize
from ...quadratic.small_descent import descend_small
from ...results.coupling import ArrayCoupling
from ...results.records import LiveStep
from ...results.status import Ending
from ...results.tables import RESTART, Candidate, Candidates
from ...utils.deadline import NEVER, OutOfTime, Patience
from ...utils.memory import as_memory_limit
from ...utils.precision import SINGLE
from ...utils.progress import ProgressEvent, ProgressListener
from .advice import doubted
from .anchors import anchor_starts
from .confidence import EXACT_TIE as SAME
from .confidence import LEVEL, SETTLED, Evidence, confidence_of
from .isomorphism import Canonical, are_apart, isomorphisms
from .portfolio import Entrant
from .starts import PRODUCT, Start, as_plan, random

# Entries of a plan up to which exact descents are among the starts of problems with entropy.
MOST_EXACT = 10_000
# Starts along eigenvectors, with all signs, and at random; and the most rounds of further starts if
# the first starts leave doubt.
N_STARTS, MAX_ROUNDS = 12, 3
# Label and kind of the best plan with entropy, and entries of a problem from which on it is a
# start, unless a plan stands out: between communities it leads up to a third lower.
ENTROPIC, MIN_ENTROPIC = ("race with entropy", "entropy"), 500
# Entries of a plan up to which plans are annealed.
MOST_ANNEALED = 100_000
# Descents without entropy around the best plan in each round.
N_POLISHED = 24


# Epsilon as a fraction of the objective of the product plan, the `tol` of descents with it, and how
# many plans are left. With 3, 2 and 2 the ends of 390 pairs of graphs and shapes are .05 % higher.
LEVELS = (0.07, 0.05, 4), (0.03, 0.03, 3), (0.012, 0.02, 3)


def exact_start(seed=0, deadline=NEVER, n_random=None):
    """Return the start of the best plan without regularization, by its search."""

    def make(problem, n_threads):
        return exact_plan(problem, n_threads, deadline, seed, n_random).astype(np.float32)

    return Start("exact", make, "exact")


def exact_plan(problem, n_threads, deadline, seed, n_random):
    """Return the best plan without regularization, by its search."""
    search = ExactSearch(problem, n_threads, ExactLimits(deadline=deadline), seed)
    search.anneal(n_random)
    return search.solution.plan


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
        self._deadline, self._seed = limits.deadline, seed
        self._report = report or (lambda event: None)
        self.solver = FrankWolfe(problem, n_threads)
        self.solution, self.led_by, self.is_tie, self._rows, self._best = None, None, False, [], 0
        self._optima, self._costs, self._n_restarts = itertools.count(), [], 0
        for plan in itertools.islice(isomorphisms(problem), 1):
            self.polish("isomorphism", "isomorphism", plan)

    def polish(self, label, kind, plan, optimum=None):
        """Take a plan, None for the product plan, to its end; return whether that is the best.
        Starts that led to the plan have an `optimum` if there are some.
        """
        solution, best = self.solver.solve(plan, self._limits), self.solution
        leads = best is None
        if best is not None and self.solver.are_equal(solution.gw_cost, best.gw_cost):
            self.is_tie |= are_apart(solution.plan, best.plan)
        elif leads or solution.gw_cost < best.gw_cost:
            leads, self.is_tie = True, False
        if leads:
            self.solution, self.led_by, self._best = solution, plan, len(self._rows)
        known = [number for cost, number in self._costs if self._is_same(cost, solution.gw_cost)]
        optimum = next(self._optima) if optimum is None else optimum
        if known:
            self._rows = [
                row._replace(optimum=known[0]) if row.optimum == optimum else row
                for row in self._rows
            ]
        optimum = known[0] if known else optimum
        self._costs.append((solution.gw_cost, optimum))
        effort = len(solution.trace), solution.seconds
        cost, n_points = solution.gw_cost, max(self.problem.shape)
        row = Candidate(label, n_points, 0.0, cost, *effort, "lost", kind, optimum, cost)
        self._note(row, leads)
        return leads

    def _is_same(self, cost, other):
        return abs(cost - other) <= SAME * abs(other) or self.solver.are_equal(cost, other)

    @property
    def is_done(self):
        """Return whether there is no time for more, or none is better."""
        if self.solution is None:
            return False
        return self.solver.is_least(self.solution.gw_cost) or self._deadline.passed()

    @property
    def candidates(self):
        rows = list(self._rows)
        rows[self._best] = rows[self._best]._replace(fate="won")
        return Candidates(rows)

    def anneal(self, n_random=None, search_time=None, n_rounds=0, entropic=None):
        """Anneal the product plan, plans along eigenvectors and `n_random` at random; if none
        stands out, the plan from ``entropic()``; if these leave doubt, more at random and around
        the best plan in `n_rounds` rounds; and further ones for the `search_time`.
        """
        if self.is_done:
            return
        # None breaks ties as Frank-Wolfe does from the product plan alone.
        self.polish("product", "product", None)
        if self.is_done:
            return
        plans = list(self._first_plans(n_random))
        left = N_STARTS - 8 if n_random is None else n_random
        seeds, patience = itertools.count(self._seed), search_time and Patience(search_time)
        while (plans or left) and not self.is_done:
            self._annealed([*plans, *self._random(seeds, min(left, 64))])
            plans, left = [], max(left - 64, 0)
        rng = np.random.default_rng(self._seed)
        known = self.candidates, self.solution.status, True
        stands_out = Evidence.of(*known, self.problem.rule.has_free_marginals).gap == 1.0
        if entropic is not None and not (self.is_done or (stands_out and not patience)):
            plan, _ = entropic()
            if plan is not None:
                self.polish(*ENTROPIC, plan)
        while not self.is_done and (patience.goes_on if patience else n_rounds and self._doubts()):
            n_rounds -= 1
            if self._look_around(rng, seeds) and patience:
                patience.renew()

    def _doubts(self):
        known = self.candidates, self.solution.status, True
        return confidence_of(*known, self.problem.rule.has_free_marginals) < LEVEL

    def _first_plans(self, n_random):
        """Yield labels, kinds and plans of starts that are not random."""
        problem, threads, deadline = self.problem, self._n_threads, self._deadline
        yield "annealed product", "product", self._product
        if not problem.is_balanced:
            balanced = problem.replace(rule=problem.rule.balanced())
            plan = problem.mass * exact_plan(balanced, threads, deadline, self._seed, n_random)
            yield "annealed balanced", "balanced", plan
            self.polish("balanced", "balanced", plan)
            for start in anchor_starts(problem, deadline=deadline):
                plan = start.plan(problem, threads).astype(np.float64)
                self.polish(start.label, start.kind, problem.mass * plan / plan.sum())
        # Where the objective falls fastest: of smooth shapes, the mirror images.
        for label, plan in self.solver.turned():
            yield label, "eigenvectors", plan

    @functools.cached_property
    def _product(self):
        """The product plan."""
        rows, cols = self.problem.rule.product()
        return np.multiply.outer(rows, cols / self.problem.mass)

    def _random(self, seeds, count):
        """Return starts of independent exponential entries."""
        return [
            (f"annealed random {seed}", "random", _random_plan(seed, self._product))
            for seed in itertools.islice(seeds, count)
        ]

    def _look_around(self, rng, seeds):
        """Begin again at random and around the best plan, with less and less entropy; return
        whether a start leads.
        """
        led, half = False, N_STARTS // 2
        for skipped in range(len(LEVELS)):
            plans = self._random(seeds, half // 2)
            plans += [self._restart(rng) for _ in range(half)]
            led |= self._annealed(plans, LEVELS[skipped:])
        for _ in range(N_POLISHED):
            if self.is_done:
                break
            led |= self.polish(*self._restart(rng))
        return led

    def _restart(self, rng):
        """Return the start from the best plan, a part of it at random."""
        share, self._n_restarts = rng.uniform(0.3, 0.9), self._n_restarts + 1
        plan = share * self.solution.plan
        plan += (1.0 - share) * _random_plan(rng.integers(1 << 31), self._product)
        return f"restart {self._n_restarts}", RESTART, plan

    def _annealed(self, plans, levels=LEVELS):
        """Polish the plans that are left of some starts after all levels, the best first; return
        whether one leads.
        """
        for number, (label, *_) in enumerate(plans, 1):
            self._report(ProgressEvent("start", f"start {number}: {label}", number))
        x, y, left = self.problem.x.to_dense(), self.problem.y.to_dense(), []
        with contextlib.suppress(OutOfTime):
            at = linearize(self.problem.replace(x=x, y=y), 1, deadline=self._deadline)
            for fraction, tol, n_left in levels:
                self._deadline.check()
                if not left:
                    field = [(*known, plan, next(self._optima)) for *known, plan in plans]
                else:
                    field = [(o.label, o.kind, o.descent.state.plan, o.optimum) for o in left]
                field, left = self._descended(at, field, fraction, tol), []
                for one in sorted(field, key=lambda one: one.value):
                    if left and one.value - left[-1].value <= SAME * abs(left[-1].value):
                        self._note(one.joined(left[-1]).row())
                    elif len(left) < n_left:
                        left.append(one)
                    else:
                        self._note(one.ended(f"dropped at {fraction:.1%}").row())
        led = [
            self.polish(one.label, one.kind, one.descent.state.plan, one.optimum)
            for one in left
            if not self.is_done
        ]
        return any(led)

    def _descended(self, at, plans, fraction, tol):
        """Return entrants with these labels, kinds, plans and optima after rough descents, as the
        next level moves them further.
        """
        limits, field = Limits(25, 100, tol, 1e-3, deadline=self._deadline), []
        for label, _, plan, _ in plans:
            # With more entropy the product plan between words hardly moves.
            share = min(fraction, 0.05) if label == "annealed product" else fraction
            field.append(Descent.at(at, at.initial(plan), at.schedule(Epsilon(relative=share))))
        if at.is_small:
            field = descend_small(field, [limits] * len(field), self._n_threads)
        # Descents that the compiled loop leaves to others hardly move, or go round.
        field = [one if one.steps else descend(one, limits) for one in field]
        return [
            Entrant(label, kind, one, optimum=optimum)
            for (label, kind, _, optimum), one in zip(plans, field, strict=True)
        ]

    def _note(self, row, leads=False):
        """Keep the row of a descent: of a long search only rows of descents that lead."""
        if leads or len(self._rows) < 1000:
            self._rows.append(row)


def _random_plan(seed, product):
    """Return independent exponential entries, with about the marginals of the product plan."""
    plan = product * np.random.default_rng(seed).standard_exponential(product.shape)
    return plan * (product.sum() / plan.sum())


def check_exact(problem, options):
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
    threads, deadline, whole = options.threads(problem), options.limits.deadline, None
    deadline.check()
    limits = ExactLimits(options.limits.max_outer, options.limits.tol, deadline=deadline)
    if start is not None:
        report(ProgressEvent("solve", f"solving from {start}"))
        plan, solver = start.plan(problem, threads), FrankWolfe(problem, threads)
        plan = plan.toarray() if hasattr(plan, "toarray") else plan
        return solver.solve(plan, limits, options.callback).result(threads)
    canonical, at_once = Canonical(problem), resolve_n_threads(options.n_threads)
    search = ExactSearch(canonical.problem, at_once, limits, options.seed, report)
    # Plans and products of the starts that are annealed together.
    annealed = 32 * (16 + (options.n_starts or 16)) * math.prod(problem.shape)
    if math.prod(problem.shape) <= MOST_ANNEALED and nbytes(problem) + annealed <= limit:
        rounds = MAX_ROUNDS if options.n_starts is None else 0
        known = options, report, solve, limit
        many = math.prod(problem.shape) >= MIN_ENTROPIC and options.n_starts is None
        entropic = functools.partial(_with_entropy, search, *known) if many else None
        search.anneal(options.n_starts, options.search_time, rounds, entropic)
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
        solution = solution if seen.status == Ending.TIME_LIMIT else seen
    tie = problem.is_balanced and search.is_tie
    result = canonical.restore(solution).result(threads, candidates=search.candidates)
    if tie and result.ending == Ending.CONVERGED:
        result = dataclasses.replace(result, ending=Ending.TIE, advice=Ending.TIE.advice)
    if whole is None:
        return doubted(problem, result, options.search_time)
    candidates = Candidates(result.candidates, whole.confidence)
    result = dataclasses.replace(result, candidates=candidates)
    if whole.ending == Ending.UNCERTAIN and result.ending in SETTLED:
        result = dataclasses.replace(result, ending=whole.ending, advice=whole.advice)
    return result


def _from_entropy(search, options, report, solve, limit):
    """Take the plans that large problems begin with to their ends; return the `GWResult` of the
    problem with entropy, if the best plan is from there.
    """
    problem = search.problem
    plan, whole = _with_entropy(search, options, report, solve, limit)
    if plan is not None:
        search.polish(*ENTROPIC, plan)
    starts = [random(options.seed + k) for k in range(options.n_starts or 0)]
    if starts or search.solution is None or not problem.is_balanced:
        starts = [PRODUCT, *starts]
    for start in starts:
        if search.is_done:
            break
        if search.polish(str(start), start.kind, start.plan(problem, options.threads(problem))):
            whole = None
    return whole


def _with_entropy(search, options, report, solve, limit):
    """Return the plan of the problem with entropy, and its `GWResult`; None if there is no time or
    memory for it.
    """
    problem = search.problem
    with contextlib.suppress(MemoryError, OutOfTime):
        # On few points the race of the problem with entropy goes on with escapes.
        looks_on = math.prod(problem.shape) <= 500_000 or bool(options.search_time)
        changed = dataclasses.replace(
            options,
            epsilon=as_epsilon("auto"),
            tuning=dataclasses.replace(options.tuning, second_look=looks_on),
            dtype=SINGLE.dtype.name,
            callback=None,
            progress=ProgressListener(report),
            memory_limit=max(limit - nbytes(problem), 1),
        )
        result = found = solve(problem, changed)
        if found.history and problem.is_balanced:
            # With a third of the epsilon exact descents end .1 to .4 % lower.
            finer = dataclasses.replace(
                changed,
                epsilon=as_epsilon(found.epsilon / 3.0),
                init=found,
                limits=options.limits.within(Limits(25, 100, tol=0.02, marginal_tol=1e-3)),
            )
            with contextlib.suppress(ValueError):  # too small an epsilon for float32
                finer = solve(problem, finer)
                result = finer if finer.history else result
        if found.history:
            return problem.mass * as_plan(result.plan, "init", problem.shape, float), found
    return None, None

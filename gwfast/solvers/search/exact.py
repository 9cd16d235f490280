"""Exact problems: the race with less and less entropy, then Frank-Wolfe from the best plans.

The objective has many local minima at the vertices, and Frank-Wolfe finds the nearest. Entropy
smooths it, and the lowest of the few minima with much entropy shows the lowest vertices
(deterministic annealing: Rose, Gurewitz and Fox, Physical Review Letters 1990).
"""

import dataclasses
import itertools
import math

import numpy as np

from ...problems.epsilon import Epsilon, Schedule
from ...quadratic.frank_wolfe import ExactLimits, FrankWolfe
from ...quadratic.judge import Limits
from ...quadratic.linearize import linearize
from ...quadratic.linearize import nbytes as entropic_nbytes
from ...results.tables import Candidate, Candidates
from ...utils.deadline import NEVER, OutOfTime, Patience
from .confidence import LEVEL, confidence_of
from .isomorphism import are_apart, isomorphisms
from .portfolio import Round, enter, race
from .starts import PRODUCT, Start, given

# Entries of a plan up to which exact descents are among the starts of problems with entropy.
MOST_EXACT = 10_000
# Epsilon of the rounds over the objective of the product plan, the tolerance of the rough descents
# with it, and how many are left: on 20 pairs of curves and graphs other values end higher.
ANNEALED = tuple(
    Round(25, Limits(max_outer=25, max_inner=100, tol=tol, marginal_tol=1e-3), keep, epsilon)
    for epsilon, tol, keep in ((0.07, 0.05, 4), (0.03, 0.03, 2), (0.012, 0.02, 2))
)
# Starts along eigenvectors, with all signs, and at random.
N_STARTS = 12


def exact_start(seed=0, deadline=NEVER, n_random=None):
    """Return the start of the best plan without regularization, by its search."""

    def make(problem, n_threads):
        return exact_plan(problem, n_threads, deadline, seed, n_random).astype(np.float32)

    return Start("exact", make)


def exact_plan(problem, n_threads, deadline, seed, n_random):
    """Return the best plan without regularization, by its search."""
    search = ExactSearch(problem, n_threads, ExactLimits(deadline=deadline), seed)
    search.race(n_random)
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
        self._seed, self._report = seed, report or (lambda event: None)
        self.solver = FrankWolfe(problem, n_threads)
        self.solution, self.led_by, self.is_tie, self._rows, self._best = None, None, False, [], 0
        for plan in itertools.islice(isomorphisms(problem), 1):
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
        """Race starts with less and less entropy: `n_random` at random, further starts if the
        search `looks_on` and these leave doubt, and further starts while there is `search_time`.
        """
        problem, starts = self.problem, [PRODUCT]
        if self.is_done:
            return
        # None breaks ties as Frank-Wolfe does from the product plan alone.
        self.polish("product", None)
        size = entropic_nbytes(problem, "dense", self._n_threads, n_states=2 * N_STARTS)
        if size > memory or self.is_done:
            return
        if not problem.is_balanced:
            balanced = problem.replace(rule=problem.rule.balanced())
            how = self._n_threads, self._limits.deadline, self._seed, n_random
            starts.append(given(problem.mass * exact_plan(balanced, *how), "balanced"))
            self.polish("balanced", starts[-1].matrix)
        # Where the objective falls fastest: of smooth shapes, the mirror images.
        turned = self.solver.turned()
        starts += [given(plan, f"eigenvectors {label}") for label, plan in turned]
        left = max(N_STARTS - len(starts), 4) if n_random is None else n_random
        seeds, patience = itertools.count(self._seed), search_time and Patience(search_time)
        while starts or left:
            some = min(left, 2 * N_STARTS)
            starts += [rough_random(next(seeds)) for _ in range(some)]
            led = [self.polish(*one) for one in self._annealed(starts)]
            starts, left = [], left - some
            if patience and any(led):
                patience.renew()
            if self.is_done:
                break
            if not left and looks_on and self.confidence < LEVEL:
                left, looks_on = N_STARTS, False
            elif not left and patience and patience.goes_on:
                left = N_STARTS

    def _annealed(self, starts):
        """Return label and plan of the starts that are left after a race."""
        starts = [Start(f"annealed {one}", one.make) for one in starts]
        dense = self.problem.replace(x=self.problem.x.to_dense(), y=self.problem.y.to_dense())
        deadline = self._limits.deadline
        at = linearize(dense, self._n_threads, deadline=deadline)
        rounds = [
            one._replace(epsilon=Epsilon(relative=one.epsilon).resolve(at).last) for one in ANNEALED
        ]
        schedule = Schedule(rounds[0].epsilon, rounds[0].epsilon)
        limits = dataclasses.replace(rounds[0].limits, deadline=deadline)
        try:
            field = enter(starts, at, schedule, deadline, self._report)
        except OutOfTime:
            return []
        left, dropped = race(field, limits, lambda event: None, rounds)
        self._rows += [one.row() for one in dropped]
        return [(one.label, one.descent.state.plan) for one in left]


def rough_random(seed):
    """Return the start of independent exponential entries, with about the marginals."""

    def make(problem, n_threads):
        rows, cols = problem.rule.product()
        plan = np.random.default_rng(seed).standard_exponential(problem.shape)
        plan *= np.multiply.outer(rows, cols)
        return plan * (problem.mass / plan.sum())

    return Start(f"random {seed}", make)

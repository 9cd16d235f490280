"""Exact problems: the race with less and less entropy, then Frank-Wolfe from what is left.

The objective has many local minima at the vertices, of which Frank-Wolfe finds the nearest.
Entropy smooths it, and which of the few minima with much entropy is the lowest says which vertices
are (deterministic annealing: Rose, Gurewitz and Fox, Physical Review Letters 1990).
"""

import dataclasses
import itertools
import math
import sys

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
    for epsilon, tol, keep in ((0.05, 0.05, 3), (0.03, 0.03, 2), (0.012, 0.02, 2))
)
# Eigenvectors whose products, with all signs, are starts; and starts together with random ones.
N_TURNED, N_STARTS = 3, 12


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

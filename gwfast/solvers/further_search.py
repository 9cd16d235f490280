"""Searches for a lower optimum than one that is known: escapes from it, and starts from
coarse clusters.
"""

import dataclasses
import itertools

import numpy as np

from ..problems.epsilon import Schedule
from ..quadratic.factory import is_factored
from ..quadratic.stopping import Limits
from ..utils.deadline import OutOfTime, Patience
from ..utils.progress import ProgressEvent
from .agreement import AT_RANDOM, ENOUGH, ESCAPE, TIE, confidence_of
from .clusters import cluster_starts
from .contestants import (
    Contestant,
    Standing,
    annealed_early,
    candidates_from_starts,
)
from .race import (
    RACE,
    SAME_COST,
    as_good,
    same_state,
    successive_halving,
)

# Clusterings that are tried at most where nobody says how long, and starts of each that
# race. Italian and Japanese need the third clustering for the lowest optimum; digits
# (pixels against edges), and Spanish and English with noise, the first.
N_CLUSTERINGS, N_STARTS = 5, 4
# Outer iterations after which winners of different races are compared: candidates that
# lead to the lowest optimum take up to 170.
MAX_COMPARED = 200
# Starts from clusters are annealed: the first epsilon, as a multiple of the last one,
# and the factor that lowers it. The profiles of digits lead to the lowest optimum only
# with annealing.
FIRST_EPSILON, COOLING = 3.0, 0.95
# Plan entries that escapes make at most, as a share of what the race has made, and
# at least, for matrices of costs and for point clouds, on which they lead lower far
# less often.
MOST, LEAST = (5.0, 1.5), (0.45, 0.0)
# Deviations of the logarithms of the factors that entries are multiplied by, and the
# logarithm of the first epsilon as a multiple of the last one: uniform between these;
# below zero is none. Graphs with edges moved need little noise or none, clouds without
# preferred directions so much that hardly anything of the plan is left.
NOISE, RISE = (0.5, 5.0), (-1.0, 2.3)
# Escapes of which each other begins from the product plan, with noise, rather than from
# the best one; of later ones the 16th, 32nd and so on do.
OFTEN = 8
# Limits of escapes; the outer iterations after which one is not followed if it is on
# the way to the best optimum, and after which if it is so far above.
ROUGH = Limits(max_outer=100, max_inner=1000, tol=1e-3, marginal_tol=1e-3)
NEAR_AT, NEAR, FAR_AT, FAR = 12, 0.05, 30, 0.5
# Escapes from an optimum that have a row of their own in the table of candidates.
MAX_ROWS = 1000
# Escapes after which another clustering is looked at, where there is a time to search.
CLUSTERS_EVERY = 16
WENT_ON, LOST = "went on", "lost"


def without_winner(candidates):
    """The candidates, with the fate "lost" for a winner."""
    return [row._replace(fate=LOST) if row.fate == "won" else row for row in candidates]


class Budget:
    """How long is looked on: for so many outer iterations at least, then until
    confidence is enough or so many are made.
    """

    def __init__(self, least, most):
        self._least, self._most, self._spent = least, most, 0

    @classmethod
    def of(cls, candidates, size, is_cloud):
        """Of iterations on so many points, by those of the race."""
        made = sum(row.n_outer * (row.n_points / size) ** 2 for row in candidates)
        return cls(LEAST[is_cloud] * made, MOST[is_cloud] * made)

    @property
    def goes_on(self):
        return self._spent < self._most

    @property
    def enough(self):
        """Confidence at which the search ends."""
        return ENOUGH if self._spent >= self._least else np.inf

    def spend(self, n_outer):
        self._spent += n_outer


class FurtherSearch:
    """Looks for a lower optimum than that of a contestant, the `first`, as long as a
    `Budget` says, or a `Patience` beside it.

    Attributes
    ----------
    first, best : Contestant
    is_tie : bool
        Whether an escape between matrices of costs has found another optimum as good
        as the best.

    Parameters
    ----------
    first : Contestant
    raced : Candidates
        Of the race that it has won.
    options : SolveOptions
    report : callable
    budget : Budget
    """

    def __init__(self, first, raced, options, report, budget):
        self._raced, self._patience = raced, None
        self._options, self._report, self._budget = options, report, budget
        self._linearization = first.loop.linearization
        self._epsilon, self._tried = first.loop.epsilons.last, []
        limits = options.limits
        # Under the limits of the result: a rougher solution would pass for a lower
        # optimum.
        most = min(MAX_COMPARED, limits.max_outer)
        self.first = first.advance(dataclasses.replace(limits, max_outer=most))
        self._far = limits.within(dataclasses.replace(RACE, max_outer=MAX_COMPARED))
        self._is_late = self.first.is_late
        self._lead(self.first)

    def _lead(self, one):
        """Take a contestant, which has just advanced, for the best."""
        self._since, self.is_tie = 0, False
        self.best, self._plan = one, one.solution.coupling.toarray().copy()

    def _compare(self, one):
        """Compare a contestant with the best, which it may become. Returns whether
        both are in the same optimum, and the contestant with its fate.
        """
        one = one.advance(self._far)
        equal = self._is_equal(one)
        same = equal and same_state(one, self.best)
        lower = one.gw_cost < self.best.gw_cost and not equal
        fate = f"same as {self.best.label}" if same else WENT_ON if lower else LOST
        one = one.with_outcome(fate)
        if lower:
            self._lead(one)
            if self._patience:
                self._patience.renew()
        return same, one

    def records(self):
        """A `Candidate` of each that was tried. Of all that were the best for a time,
        only the last goes on.
        """
        return [
            row._replace(fate=LOST)
            if row.fate == WENT_ON and row.start != self.best.label
            else row
            for row in self._tried
        ]

    def _confidence(self):
        """That of a search which would end here."""
        raced, tried = self._raced, self.records()
        if self.best is not self.first:
            raced, best = without_winner(raced), self.best.label
            tried = [
                row._replace(fate="won") if row.start == best else row for row in tried
            ]
        return confidence_of([*raced, *tried], self.best.status)

    def run(self, *, clusters, doubted):
        """Search on, from clusters first where the race is `doubted`, and now and then
        if there is a time to search; `clusters` says whether these are worth it.
        """
        options, number = self._options, 0
        if options.search_time:
            self._patience = Patience(options.search_time)
        seeds = itertools.count(options.seed)
        if clusters and doubted:
            self._look_at_clusters(itertools.islice(seeds, N_CLUSTERINGS))
        rng = np.random.default_rng(options.seed)
        while not self._is_late and self._goes_on(number):
            number += 1
            if clusters and self._patience and number % CLUSTERS_EVERY == 0:
                self._look_at_clusters(itertools.islice(seeds, 1))
            try:
                self._escape(number, rng)
            except OutOfTime:
                self._is_late = True

    def _goes_on(self, number):
        """Whether there is another escape after so many."""
        if self._patience and self._patience.goes_on:
            return True
        # Not at each: it takes as long as some iterations of a few points.
        looks = number % 2 == 0
        sure = looks and self._confidence() >= self._budget.enough
        return self._budget.goes_on and not sure

    def _look_at_clusters(self, seeds):
        """Race starts from one clustering after another, until one leads to the optimum
        that is known.
        """
        schedule = Schedule(self._epsilon, FIRST_EPSILON * self._epsilon, COOLING)
        limits, report = self._options.limits, self._report
        for number, seed in enumerate(seeds):
            report(ProgressEvent("start", f"clusters {seed}", number))
            try:
                given = self._epsilon, seed, N_STARTS, limits.deadline
                starts = cluster_starts(self._linearization.problem, *given)
                if not starts:
                    return
                given = schedule, starts, report, limits.deadline
                field = candidates_from_starts(self._linearization, *given)
                standing = Standing().with_field(field)
                standing = successive_halving(standing, RACE.max_outer, limits, report)
                self._is_late = standing.is_late
            except OutOfTime:
                self._is_late = True
            if self._is_late:
                return
            one, *others = standing.left
            same, one = self._compare(one)
            others = [other.with_outcome(LOST) for other in others]
            self._tried += standing.dropping([], [one, *others]).records()
            if same:
                return

    def _escape(self, number, rng):
        """Descend once more, and compare where that leads to with the best."""
        # These are evidence, but of 1492 two led lower, of 3043 others 228: after some
        # they are rare.
        is_power = number & (number - 1) == 0
        at_random = number % 2 == 0 and (number <= OFTEN or is_power)
        label = (AT_RANDOM if at_random else ESCAPE).format(number)
        self._report(ProgressEvent("start", label, number))
        one = self._escaped(label, rng, at_random=at_random)
        self._is_late = one.is_late
        if self._is_late:
            return
        if one.is_moving and self._is_on_the_way(one):
            one = one.with_outcome(f"same as {self.best.label}")
        elif self._is_equal(one):
            alike = same_state(one, self.best)
            one = one.with_outcome(f"same as {self.best.label}" if alike else "tie")
            # Plans between clouds may differ as much within one wide optimum.
            clouds = is_factored(self._linearization.problem)
            self.is_tie = self.is_tie or not (alike or clouds)
        elif as_good(one, self.best, SAME_COST):
            _, one = self._compare(one)
        else:
            one = one.with_outcome(LOST)
        self._budget.spend(one.n_outer)
        self._since += 1
        if one.outcome == WENT_ON or self._since <= MAX_ROWS:
            self._tried.append(one.candidate())

    def _escaped(self, label, rng, *, at_random):
        """The contestant that descends from the best plan, or from the product plan,
        with noise.
        """
        problem, plan = self._linearization.problem, self._plan
        if at_random:
            p, q = (one.astype(np.float32) for one in (problem.p, problem.q))
            plan = np.outer(p, q)
        factors = rng.standard_normal(plan.shape, dtype=np.float32)
        factors *= np.float32(rng.uniform(*NOISE))
        plan = plan * np.exp(factors, out=factors)
        plan /= plan.sum()
        first = max(1.0, np.exp(rng.uniform(*RISE))) * self._epsilon
        epsilons = annealed_early(Schedule(self._epsilon, first))
        one = Contestant.at_start(
            label,
            self._linearization,
            epsilons,
            lambda fork: fork.start(plan, takes=True),
        )
        limits = self._options.limits.within(ROUGH)
        for most, gives_up in (
            (NEAR_AT, self._is_on_the_way),
            (FAR_AT, lambda one: not as_good(one, self.best, FAR)),
        ):
            if one.is_moving and most < limits.max_outer:
                one = one.advance(dataclasses.replace(limits, max_outer=most))
                if one.is_late or gives_up(one):
                    return one
        return one.advance(limits) if one.is_moving else one

    def _is_equal(self, one):
        """Whether the objective of a contestant is that of the best."""
        return as_good(one, self.best, TIE) and as_good(self.best, one, TIE)

    def _is_on_the_way(self, one):
        """Whether a contestant is on the way to the optimum of the best."""
        above = one.gw_cost >= self.best.gw_cost and as_good(one, self.best, SAME_COST)
        return above and same_state(one, self.best, NEAR)

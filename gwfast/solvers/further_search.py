"""Searches for a lower optimum than one that is known: escapes from it, and starts from
coarse clusters.
"""

import dataclasses
import itertools

import numpy as np

from ..kernels import _kernels
from ..problems.epsilon import Schedule
from ..quadratic.factory import is_factored
from ..quadratic.stopping import Limits
from ..utils.deadline import OutOfTime, Patience
from ..utils.progress import ProgressEvent
from .agreement import ESCAPE, LEVEL, TIE, confidence_of
from .clusters import cluster_starts
from .contestants import EARLY, Contestant, Standing, annealed_early, candidates_from_starts
from .race import RACE, SAME_COST, as_good, same_state, successive_halving

# Clusterings that are tried at most where nobody says how long, and starts of each that
# race. Italian and Japanese need the third clustering for the lowest optimum; digits
# (pixels against edges), and Spanish and English with noise, the first.
N_CLUSTERINGS, N_STARTS = 5, 4
# Starts from clusters are annealed, from this multiple of the last epsilon in this number
# of outer iterations. The profiles of digits lead to the lowest optimum only so.
FIRST_EPSILON, N_ANNEALED = 3.0, 22
# Outer iterations after annealing, and relative differences from the best objective above
# which a descent is given up there; it is also given up within NEAR of the best state. On
# every fifth problem of the families (``benchmarks.search``) 93 descents led lower: these
# are the least fractions that keep them, rounded up, and NEAR loses two of .1 %.
LOOKS = (1, np.inf), (5, 0.1), (9, 0.03), (13, 0.015), (18, 0.005)
NEAR = 0.1
# Limits of descents until then, and of their comparison with the best: a descent to the
# lowest optimum takes up to 170 outer iterations.
ROUGH = Limits(max_outer=100, max_inner=1000, tol=1e-3, marginal_tol=1e-3)
COMPARED = dataclasses.replace(RACE, max_outer=200)
# Budget without a search time, in outer iterations, for matrices and for point clouds: solves from
# the start that won the race, or this many plan entries if that is more, but at most MOST.
# Descents that lead lower on clouds take 5 to 16 solves; few races of clouds leave doubt.
SOLVES, ENTRIES, MOST = (1.5, 5.0), (2.5e7, 1.5e8), 1000.0
# Deviations of the logarithms of the factors that entries are multiplied by, and the
# logarithm of the first epsilon as a multiple of the last one: uniform between these;
# below zero is none. Graphs with edges moved need little noise or none, clouds without
# preferred directions so much that hardly anything of the plan is left.
NOISE, RISE = (0.5, 5.0), (-1.0, 2.3)
# Escapes from an optimum that have a row of their own in the table of candidates.
MAX_ROWS = 1000
# Escapes after which another clustering is looked at, where there is a time to search.
CLUSTERS_EVERY = 16
WENT_ON, LOST = "went on", "lost"


def without_winner(candidates):
    """The candidates, with the fate "lost" for a winner."""
    return [row._replace(fate=LOST) if row.fate == "won" else row for row in candidates]


class FurtherSearch:
    """Search for an optimum below the contestant `first`, until confidence is enough, the
    budget is spent, or a `Patience` ends.

    Attributes
    ----------
    first, best : Contestant
    is_tie : bool
        Whether an escape between matrices of costs has found another optimum as good as the best.

    Parameters
    ----------
    first : Contestant
    raced : Candidates
        Of the race that it has won.
    options : SolveOptions
    report : callable
    budget : float
        Outer iterations.
    """

    def __init__(self, first, raced, options, report, budget):
        self._raced, self._patience = raced, None
        self._options, self._report, self._left = options, report, budget
        self._linearization = first.loop.linearization
        self._epsilon, self._tried = first.loop.epsilons.last, []
        self.first = first.advance(options.limits.within(COMPARED))
        self._is_late = self.first.is_late
        self._lead(self.first)

    def _lead(self, one):
        """Take a contestant, which has just advanced, for the best."""
        self._since, self.is_tie = 0, False
        self.best, self._plan = one, one.solution.coupling.toarray().copy()

    def _follow(self, one, n_annealed):
        """Advance a contestant, annealed for `n_annealed` iterations, as long as it may
        end below the best; return it with its fate.
        """
        limits, same = self._options.limits, f"same as {self.best.label}"
        for after, above in LOOKS:
            most = min(n_annealed + after, limits.max_outer)
            if one.is_moving and one.n_outer < most:
                rough = dataclasses.replace(ROUGH, max_outer=most)
                one = one.advance(limits.within(rough))
            if one.is_late or not as_good(one, self.best, above):
                return one.with_outcome(LOST)
            if self._is_on_the_way(one):
                return one.with_outcome(same)
        one = one.advance(limits.within(ROUGH)) if one.is_moving else one
        if not self._is_equal(one):
            one = one.advance(limits.within(COMPARED))
        if self._is_equal(one):
            alike = same_state(one, self.best)
            # Within one wide optimum plans between clouds may differ by this distance.
            clouds = is_factored(self._linearization.problem)
            self.is_tie = self.is_tie or not (alike or clouds)
            return one.with_outcome(same if alike else "tie")
        if one.is_late or one.gw_cost > self.best.gw_cost:
            return one.with_outcome(LOST)
        one = one.with_outcome(WENT_ON)
        self._lead(one)
        if self._patience:
            self._patience.renew()
        return one

    def records(self):
        """A `Candidate` of each that was tried. Of all that were the best for a time,
        only the last goes on.
        """
        return [
            row._replace(fate=LOST) if row.fate == WENT_ON and row.start != self.best.label else row
            for row in self._tried
        ]

    def _confidence(self):
        """That of a search which would end here."""
        raced, tried = self._raced, self.records()
        if self.best is not self.first:
            raced, best = without_winner(raced), self.best.label
            tried = [row._replace(fate="won") if row.start == best else row for row in tried]
        return confidence_of([*raced, *tried], self.best.status)

    def run(self, *, clusters, doubted):
        """Search on, from clusters first where the race is `doubted`, and now and then
        if there is a time to search; `clusters` says whether these are worth it.
        """
        options = self._options
        if options.search_time:
            self._patience = Patience(options.search_time)
        seeds, rng = itertools.count(options.seed), np.random.default_rng(options.seed)
        try:
            if clusters and doubted:
                self._look_at_clusters(itertools.islice(seeds, N_CLUSTERINGS))
            for number in itertools.count(1):
                if self._is_late or not self._goes_on():
                    return
                if clusters and self._patience and number % CLUSTERS_EVERY == 0:
                    self._look_at_clusters(itertools.islice(seeds, 1))
                self._escape(number, rng)
        except OutOfTime:
            pass

    def _goes_on(self):
        """Return whether to make another escape."""
        if self._patience and self._patience.goes_on:
            return True
        return self._left > 0 and self._confidence() < LEVEL

    def _look_at_clusters(self, seeds):
        """Race starts from one clustering after another, until one leads to the optimum
        that is known.
        """
        factor = FIRST_EPSILON ** (-1 / N_ANNEALED)
        schedule = Schedule(self._epsilon, FIRST_EPSILON * self._epsilon, factor)
        limits, report = self._options.limits, self._report
        for number, seed in enumerate(seeds):
            # A race of these starts takes this number of iterations.
            if self._left < N_STARTS * N_ANNEALED and not self._patience:
                return
            report(ProgressEvent("start", f"clusters {seed}", number))
            given = self._epsilon, seed, N_STARTS, limits.deadline
            starts = cluster_starts(self._linearization.problem, *given)
            if not starts:
                return
            given = schedule, starts, report, limits.deadline
            field = candidates_from_starts(self._linearization, *given)
            standing = Standing().with_field(field)
            standing = successive_halving(standing, RACE.max_outer, limits, report)
            one, *others = standing.left
            one = self._follow(one, N_ANNEALED)
            others = [other.with_outcome(LOST) for other in others]
            self._note(standing.dropping([], [one, *others]).records())
            self._is_late = one.is_late
            if one.is_late or one.outcome.startswith("same"):
                return

    def _note(self, rows):
        """Keep the rows of contestants, and take their iterations from the budget."""
        self._left -= sum(row.n_outer for row in rows)
        self._tried += rows

    def _escape(self, number, rng):
        """Descend once more from the best plan, with noise, from a larger epsilon."""
        label, limits = ESCAPE.format(number), self._options.limits
        self._report(ProgressEvent("start", label, number))
        limits.deadline.check()
        factors = rng.standard_normal(self._plan.shape, dtype=np.float32)
        factors *= np.float32(rng.uniform(*NOISE))
        plan = self._plan * np.exp(factors, out=factors)
        plan /= plan.sum()
        plan[plan < _kernels.LEAST_ENTRY[plan.dtype]] = 0.0
        first = max(1.0, np.exp(rng.uniform(*RISE))) * self._epsilon
        one = Contestant.at_start(
            label,
            self._linearization,
            annealed_early(Schedule(self._epsilon, first)),
            lambda fork: fork.start(plan, takes=True),
        )
        one = self._follow(one, EARLY)
        self._is_late = one.is_late
        self._since += 1
        if not one.is_late and (one.outcome == WENT_ON or self._since <= MAX_ROWS):
            self._note([one.candidate()])

    def _is_equal(self, one):
        """Whether the objective of a contestant is that of the best."""
        return as_good(one, self.best, TIE) and as_good(self.best, one, TIE)

    def _is_on_the_way(self, one):
        """Whether a contestant is on the way to the optimum of the best."""
        above = one.gw_cost >= self.best.gw_cost and as_good(one, self.best, SAME_COST)
        return above and same_state(one, self.best, NEAR)

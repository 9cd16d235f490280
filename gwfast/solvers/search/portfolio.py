"""One portfolio of descents: all starts race, duplicates and the worse half are dropped, and the
best is left by escapes until confidence, the budget or time ends the search.

The race is successive halving (Jamieson and Talwalkar, AISTATS 2016). No known match is used.
"""

import contextlib
import dataclasses
import itertools
import math
import time

import numpy as np

from ...kernels import _kernels
from ...kernels._rows import aligned_empty
from ...problems.epsilon import Schedule
from ...quadratic.descend import Descent, descend
from ...quadratic.judge import Limits, Unjudged
from ...quadratic.linearize import is_factored
from ...results.status import Ending
from ...results.tables import Candidate
from ...utils.deadline import OutOfTime, Patience
from ...utils.progress import ProgressEvent
from .clusters import cluster_starts
from .confidence import LEVEL, TIE, confidence_of

# Distance of two states, relative to the larger distance from the product plan, below which both
# are on the way to one optimum. Mirror images are .5 to 1.4 apart; of eight pairs of graphs all
# states within .2 after four iterations end in one optimum.
SAME = 0.2
# Starts of a clustering, and iterations of their annealing from a threefold epsilon.
N_STARTS, N_ANNEALED = 4, 22
# Outer iterations after annealing, and relative difference from the best objective above which a
# descent is then given up.
LOOK = 13, 0.015
# Budget of escapes without a search time, for matrices and for clouds: solves of the winner, or
# entries of plans that are updated, if that is more, but at most 1000 outer iterations.
SOLVES, ENTRIES = (1.5, 5.0), (2.5e7, 1.5e8)
WON, WENT_ON, LOST, SKIPPED = "won", "went on", "lost", "out of time"


# A race compares the lowest plans of cycles, above which damped steps may end. Early linear
# problems are rough, as small marginal errors take most of all inner iterations.
ROUGH = Limits(200, 50, tol=1e-2, marginal_tol=1e-2, rule=Unjudged(), damps=False)
# A race compares objectives, which miss by the marginal error times their largest terms.
EXACT = Limits(200, 1000, tol=1e-4, marginal_tol=1e-4, damps=False)
FOLLOWED = Limits(100, 1000, tol=1e-3, marginal_tol=1e-3, damps=False)
# Iterations after which entrants are compared, first for duplicates alone, and how exact these are.
ROUNDS = (4, ROUGH), (7, ROUGH), (8, EXACT), (20, EXACT), (40, EXACT), (80, EXACT)


@dataclasses.dataclass(eq=False)
class Entrant:
    """A start with its descent, the seconds that its plan took, its fate, and the distance of its
    state from the product plan.
    """

    label: str
    descent: Descent
    seconds: float = 0.0
    fate: str = LOST
    size: float = 0.0

    @property
    def gw_cost(self):
        cost = self.descent.gw_cost
        return cost if cost == cost else math.inf

    @property
    def n_outer(self):
        return len(self.descent.steps)

    @property
    def is_moving(self):
        return self.descent.status in (None, Ending.MAX_OUTER, Ending.TIME_LIMIT)

    @property
    def is_late(self):
        return self.descent.status == Ending.TIME_LIMIT

    def advance(self, limits, most=None, callback=None, save=None):
        """Let the descent go on to the limits; return the entrant."""
        if most is not None:
            limits = dataclasses.replace(limits, max_outer=most)
        # Nothing here keeps the descent, whose state may be freed after an iteration.
        held, self.descent = [self.descent], None
        self.descent = descend(held.pop(), limits, callback=callback, save=save)
        return self

    def ended(self, fate):
        """Return the entrant with this fate."""
        self.fate = fate
        return self

    def row(self):
        """Return the `Candidate` of the entrant."""
        at = self.descent
        return Candidate(
            start=self.label,
            n_points=max(at.linearization.problem.shape),
            epsilon=at.epsilons.last,
            gw_cost=at.gw_cost,
            n_iter=self.n_outer,
            seconds=self.seconds + at.seconds,
            fate=self.fate,
        )


def entered(label, linearization, schedule, plan, began):
    """Return the entrant that begins with a plan, which has been made since `began`."""
    descent = Descent.at(linearization, linearization.initial(plan), schedule)
    return Entrant(label, descent, time.perf_counter() - began)


def enter(starts, linearization, schedule, deadline, report):
    """Return an entrant for each start that there is time for."""
    field, problem, n_threads = [], linearization.problem, linearization.n_threads
    with contextlib.suppress(OutOfTime):
        for number, start in enumerate(starts, 1):
            report(ProgressEvent("start", f"start {number}: {start}", number))
            deadline.check()
            began = time.perf_counter()
            plan = start.plan(problem, n_threads)
            field.append(entered(str(start), linearization, schedule, plan, began))
    return field


def annealed_early(schedule):
    """Return the schedule, so steep that it ends in seven iterations."""
    factor = (schedule.last / schedule.first) ** (1.0 / 7)
    return dataclasses.replace(schedule, factor=min(factor, schedule.factor))


def race(field, limits, report):
    """Return the entrants that are left, the best first, and the entrants that were dropped."""
    dropped = []
    for number, (n_outer, exactness) in enumerate(ROUNDS, 1):
        if len(field) == 1:
            break
        # The winner makes the last iteration by itself.
        here, most, late = limits.within(exactness), min(n_outer, limits.max_outer - 1), False
        for k, one in enumerate(field, 1):
            if one.is_moving and one.n_outer < most:
                text = f"round {number}: candidate {k} of {len(field)}"
                report(ProgressEvent("round", text, k))
                one.advance(here, most)
                one.descent = one.descent.paused()
                if late := one.is_late:
                    dropped += [each.ended(SKIPPED) for each in field[k:] if not each.n_outer]
                    field = [each for each in field if each.n_outer]
                    break
        left, same = distinct(field)
        dropped += same
        is_last, keep = number == len(ROUNDS), len(left)
        if late or is_last:
            keep = 1
        elif exactness is EXACT:  # two that are close race on
            n_close = sum(one.gw_cost <= bound(left[0], 5e-3) for one in left)
            keep = max(len(left) // 2, min(n_close, 2))
        field = left[:keep]
        for one in left[keep:]:
            tie = is_last and one.gw_cost <= bound(field[0], TIE)
            fate = "tie" if tie else f"dropped in round {number}"
            dropped.append(one.ended(SKIPPED if late else fate))
        if late:
            break
    return field, dropped


def distinct(field):
    """Return the entrants on the way to an optimum of their own, the best first, and the others."""
    kept, same = [], []
    for one in field:
        one.size = one.descent.linearization.apart(one.descent.state)
    for one in sorted(field, key=lambda one: one.gw_cost):
        known = next((other for other in kept if is_same(one, other)), None)
        if known is None:
            kept.append(one)
        else:
            same.append(one.ended(f"same as {known.label}"))
    return kept, same


def is_same(one, other):
    """Return whether two entrants are on the way to the same optimum."""
    size, at = max(one.size, other.size), one.descent.linearization
    # Smaller distances from the product plan may be rounding.
    return size <= 1e-5 or at.apart(one.descent.state, other.descent.state) < SAME * size


def bound(best, fraction):
    """Return the objective that exceeds the best one by this fraction, and by rounding."""
    at = best.descent
    return best.gw_cost + fraction * abs(best.gw_cost) + 1e-6 * at.linearization.magnitude(at.state)


def ranked(rows, best):
    """Return the candidates of one level, with the best one as it is and without another."""
    rows = [row._replace(fate=LOST) if row.fate in (WON, WENT_ON) else row for row in rows]
    # Two plans of a caller have one label; the row of the winner comes last.
    number = max(k for k, row in enumerate(rows) if row.start == best.start)
    return [*rows[:number], best, *rows[number + 1 :]]


class Escapes:
    """The search for an optimum below the best entrant of a race.

    Attributes
    ----------
    best : Entrant
    rows : list of Candidate
        Of the race and of all that was tried.
    is_tie : bool
        Whether an escape between matrices has found another optimum as good as the best.
    """

    def __init__(self, best, rows, options, report):
        self.rows, self._seed, self._report = rows, options.seed, report
        most = options.limits.max_outer - 1
        self._limits = dataclasses.replace(options.limits, max_outer=most)
        self._at, self._epsilon = best.descent.linearization, best.descent.epsilons.last
        self._factored = is_factored(self._at.problem)
        self._patience = options.search_time and Patience(options.search_time)
        # The budget is in units of these iterations: settling a plan may take many more.
        self._n_outer = best.n_outer
        # At least one iteration: its plan must be the last that was made.
        self._lead(best.advance(self._limits.within(EXACT)))

    def _lead(self, one):
        """Take an entrant for the best."""
        self.best, self.is_tie = one, False
        self._plan = one.descent.coupling.toarray().copy()
        if self._patience:
            self._patience.renew()

    def run(self, later, clusters):
        """Search on until the confidence, the budget or the search time ends it. An iteration on
        all points takes `later` times as long; `clusters` says whether to start from clusters.
        """
        few = min(ENTRIES[self._factored] / max(self._at.problem.shape) ** 2, 1000.0)
        self._left = max(SOLVES[self._factored] * self._n_outer * (1.0 + later), few)
        seeds, rng = itertools.count(self._seed), np.random.default_rng(self._seed)
        with contextlib.suppress(OutOfTime):
            for _ in range(5 * clusters):  # Italian and Japanese need the third clustering
                enough = self._left >= N_STARTS * N_ANNEALED or self._patience
                if not (enough and self._goes_on()) or self._from_clusters(next(seeds)):
                    break
            for number in itertools.count(1):
                if not self._goes_on():
                    break
                if clusters and self._patience and number % 16 == 0:
                    self._from_clusters(next(seeds))
                self._escape(number, rng)

    def _goes_on(self):
        """Return whether to try more."""
        if self._limits.deadline.passed() or self.best.is_late:
            return False
        if self._patience and self._patience.goes_on:
            return True
        if self._left <= 0:
            return False
        rows = ranked(self.rows, self.best.ended(WON).row())
        return confidence_of(rows, self.best.descent.status) < LEVEL

    def _from_clusters(self, seed):
        """Race starts from one clustering; return whether they lead to the known optimum."""
        limits, report = self._limits, self._report
        report(ProgressEvent("start", f"clusters {seed}", 1))
        starts = cluster_starts(self._at.problem, self._epsilon, seed, N_STARTS, limits.deadline)
        schedule = Schedule(self._epsilon, 3.0 * self._epsilon, 3.0 ** (-1 / N_ANNEALED))
        field = enter(starts, self._at, schedule, limits.deadline, report)
        if not field:
            return True
        (one,), dropped = race(field, limits, report)
        self._follow(one, N_ANNEALED, dropped)
        return one.is_late or one.fate.startswith("same")

    def _escape(self, number, rng):
        """Descend once more from the best plan, with noise, from a larger epsilon."""
        label, began = f"escape {number}", time.perf_counter()
        self._report(ProgressEvent("start", label, number))
        factors = rng.standard_normal(self._plan.shape, dtype=np.float32)
        # Graphs need little noise or none; of clouds hardly anything may be left.
        factors *= np.float32(rng.uniform(0.5, 5.0))
        # At any other address BLAS may round otherwise.
        plan = np.multiply(self._plan, np.exp(factors), out=aligned_empty(self._plan.shape))
        plan /= plan.sum()
        plan[plan < _kernels.LEAST_ENTRY[plan.dtype]] = 0.0
        first = max(1.0, np.exp(rng.uniform(-1.0, 2.3))) * self._epsilon
        schedule = annealed_early(Schedule(self._epsilon, first))
        self._follow(entered(label, self._at, schedule, plan, began), 7)

    def _follow(self, one, n_annealed, dropped=()):
        """Advance an entrant to its fate, and note it and the entrants dropped before."""
        one.fate = self._fate(one, n_annealed)
        if one.fate == WENT_ON:
            self._lead(one)
        self._left -= sum(each.n_outer for each in (*dropped, one))
        if one.fate == WENT_ON or len(self.rows) < 1000:
            self.rows += [each.row() for each in (*dropped, one)]

    def _fate(self, one, n_annealed):
        """Advance an entrant as long as it may end below the best; return its fate."""
        limits, best, (after, above) = self._limits, self.best, LOOK
        most = min(n_annealed + after, limits.max_outer)
        if one.is_moving and one.n_outer < most:
            one.advance(limits.within(FOLLOWED), most)
        if one.is_late or not one.gw_cost <= bound(best, above):
            return LOST
        one.size = self._at.apart(one.descent.state)
        if one.gw_cost >= best.gw_cost and is_same(one, best):
            return f"same as {best.label}"
        one.advance(limits.within(EXACT))
        if one.gw_cost <= bound(best, TIE) and best.gw_cost <= bound(one, TIE):
            if is_same(one, best):
                return f"same as {best.label}"
            # Within one wide optimum plans between clouds may differ by this distance.
            self.is_tie = self.is_tie or not self._factored
            return "tie"
        return LOST if one.is_late or one.gw_cost > best.gw_cost else WENT_ON

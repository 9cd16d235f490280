"""One portfolio of descents: all starts race, duplicates and the worse half are dropped, and the
best is left by escapes until confidence, the budget or time ends the search.

The race is successive halving (Jamieson and Talwalkar, AISTATS 2016). No known match is used.
"""

import dataclasses
import functools
import itertools
import math
import time
from typing import NamedTuple

import numpy as np

from ...kernels import _kernels
from ...problems.epsilon import Schedule
from ...quadratic.descend import Descent, descend
from ...quadratic.judge import Limits, Unjudged
from ...quadratic.linearize import is_factored
from ...results.status import Status
from ...results.tables import Candidate
from ...utils.deadline import OutOfTime, Patience
from ...utils.progress import ProgressEvent
from .clusters import cluster_starts
from .confidence import LEVEL, TIE, confidence_of
from .starts import start_plan

# Distance of two states, relative to the larger distance from the product plan, below which both
# are on the way to one optimum. Mirror images are .5 to 1.4 apart; of eight pairs of graphs all
# states within .2 after four iterations end in one optimum.
SAME = 0.2
# Entrants of one race at most; further starts race against the best of the first ones.
MAX_FIELD = 64
# Starts of a clustering, and iterations of their annealing from a threefold epsilon.
N_STARTS, N_ANNEALED = 4, 22
# Outer iterations after annealing, and relative differences from the best objective above which a
# descent is given up: they keep the 93 descents that led lower on every fifth problem of families.
LOOKS = (1, math.inf), (5, 0.1), (9, 0.03), (13, 0.015), (18, 0.005)
# Budget of escapes without a search time, for matrices and for clouds: solves of the winner, or
# entries of plans that are updated, if that is more, but at most 1000 outer iterations.
SOLVES, ENTRIES = (1.5, 5.0), (2.5e7, 1.5e8)
AHEAD, WON, WENT_ON, LOST, SKIPPED = "ahead", "won", "went on", "lost", "out of time"


class Round(NamedTuple):
    """One round of a race: the iterations after which entrants are compared, how exact these are,
    how many entrants are left, at least (below one, a fraction), and an epsilon of its own.
    """

    n_outer: int
    limits: Limits
    keep: float = 0.5
    epsilon: float | None = None


# A race compares the lowest plans of cycles, above which damped steps may end. Early linear
# problems are rough, as small marginal errors take most of all inner iterations.
ROUGH = Limits(200, 50, tol=1e-2, marginal_tol=1e-2, rule=Unjudged(), damps=False)
# A race compares objectives, which miss by the marginal error times their largest terms.
EXACT = Limits(200, 1000, tol=1e-4, marginal_tol=1e-4, damps=False)
FOLLOWED = Limits(100, 1000, tol=1e-3, marginal_tol=1e-3, damps=False)
ROUNDS = (
    *(Round(n_outer, ROUGH, keep=MAX_FIELD) for n_outer in (4, 7)),
    *(Round(n_outer, EXACT) for n_outer in (8, 20, 40)),
    Round(80, EXACT, keep=0),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Entrant:
    """A start with its descent, the seconds that its plan took, and its fate."""

    label: str
    descent: Descent
    seconds: float = 0.0
    fate: str = AHEAD

    @property
    def gw_cost(self):
        cost = self.descent.gw_cost
        return cost if cost == cost else math.inf

    @functools.cached_property
    def size(self):
        """Return the distance of the state from the product plan."""
        return self.descent.linearization.deviation(self.descent.state)

    @property
    def n_outer(self):
        return len(self.descent.steps)

    @property
    def is_moving(self):
        return self.descent.status in (None, Status.MAX_OUTER, Status.TIME_LIMIT)

    @property
    def is_late(self):
        return self.descent.status == Status.TIME_LIMIT

    def advance(self, limits, most=None, **how):
        """Return the entrant after its descent has gone on to the limits."""
        if most is not None:
            limits = dataclasses.replace(limits, max_outer=most)
        return dataclasses.replace(self, descent=descend(self.descent, limits, **how))

    def paused(self):
        """Return the entrant without a stored kernel, so that each does not keep one."""
        return dataclasses.replace(self, descent=self.descent.paused())

    def at_epsilon(self, epsilon):
        """Return the entrant at the first iteration with another epsilon."""
        at, schedule = self.descent, Schedule(epsilon, epsilon)
        seconds = self.seconds + at.seconds
        return dataclasses.replace(
            self, descent=Descent.at(at.linearization, at.state, schedule), seconds=seconds
        )

    def ended(self, fate):
        return dataclasses.replace(self, fate=fate)

    def row(self):
        """Return the `Candidate` of the entrant."""
        at = self.descent
        return Candidate(
            start=self.label,
            n_points=max(at.linearization.problem.shape),
            epsilon=at.epsilons.last,
            # The result has the winner's plan, and reports the more precise objective.
            gw_cost=at.objective if self.fate == WON and at.steps else at.gw_cost,
            n_outer=self.n_outer,
            seconds=self.seconds + at.seconds,
            fate=self.fate,
        )


def entered(label, linearization, schedule, plan, began):
    """Return the entrant that begins with a plan, which has been made since `began`."""
    state = linearization.initial(plan)
    descent = Descent.at(linearization, state, schedule)
    return Entrant(label, descent, time.perf_counter() - began)


def enter(starts, linearization, schedule, deadline, report, total=None):
    """Return an entrant for each start there is time for; OutOfTime if for none."""
    field = []
    for start in starts:
        of = f" of {total}" if total else ""
        text = f"start {len(field) + 1}{of}: {start}"
        report(ProgressEvent("start", text, len(field) + 1))
        try:
            deadline.check()
            began, problem = time.perf_counter(), linearization.problem
            plan = start_plan(start, problem, linearization.n_threads)
            field.append(entered(str(start), linearization, schedule, plan, began))
        except OutOfTime:
            if not field:
                raise
            break
    return field


def annealed_early(schedule):
    """Return the schedule, so steep that it ends in seven iterations."""
    factor = (schedule.last / schedule.first) ** (1.0 / 7)
    return dataclasses.replace(schedule, factor=min(factor, schedule.factor))


def race(field, limits, report, rounds=ROUNDS, max_outer=None):
    """Return the entrants that are left, the best first, and the entrants that were dropped."""
    field, dropped = list(field), []
    for number, one_round in enumerate(rounds, 1):
        if len(field) == 1 and one_round.epsilon is None:
            break
        most = min(one_round.n_outer, limits.max_outer if max_outer is None else max_outer)
        field, skipped = _advance(field, limits, one_round, most, f"round {number}", report)
        left, same = distinct(field)
        dropped += skipped + same
        late = any(one.is_late for one in left)
        n_close = min(sum(one.gw_cost <= bound(left[0], 5e-3) for one in left), 2)
        keep = one_round.keep if one_round.keep >= 1 else int(one_round.keep * len(left))
        keep = 1 if late else max(keep, n_close)
        fate = SKIPPED if late else f"dropped in round {number}"
        dropped += [one.ended(fate) for one in left[keep:]]
        field = left[:keep]
        if late:
            break
    return sorted(field, key=lambda one: one.gw_cost), dropped


def _advance(field, limits, one_round, most, name, report):
    """Return the entrants after a round, and those without an iteration when time is up."""
    here, moved, skipped = limits.within(one_round.limits), [], []
    late = any(one.is_late for one in field)
    for k, one in enumerate(field, 1):
        if late and not one.n_outer:
            skipped.append(one.ended(SKIPPED))
            continue
        if one_round.epsilon is not None and not late:
            one = one.at_epsilon(one_round.epsilon)
        if not late and one.is_moving and one.n_outer < most:
            report(ProgressEvent("round", f"{name}: candidate {k} of {len(field)}", k))
            one = one.advance(here, most).paused()
        late = late or one.is_late
        moved.append(one)
    return moved, skipped


def distinct(field):
    """Return the entrants on the way to an optimum of their own, the best first, and the others."""
    kept, same = [], []
    for one in sorted(field, key=lambda one: one.gw_cost):
        other = next((other for other in kept if is_same(one, other)), None)
        if other is None:
            kept.append(one)
        else:
            same.append(one.ended(f"same as {other.label}"))
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


def finish(field, limits, report, **how):
    """Return the entrants at the ends of their descents, the best first."""
    if len(field) > 1 and limits.max_outer > 1:
        # The winner makes the last iteration by itself, after the others.
        most = limits.max_outer - 1
        field = [field[0].advance(limits, most).paused(), *field[1:]]
        longest = min(most, max(2 * field[0].n_outer, 160))
        for k, one in enumerate(field[1:], 1):
            if not field[0].is_late and one.n_outer < longest:
                field[k] = one.advance(limits, longest).paused()
        field.sort(key=lambda one: one.gw_cost)
    report(ProgressEvent("solve", f"solving from {field[0].label}"))
    best, ended = field[0].advance(limits, **how).ended(WON), []
    for one in field[1:]:
        fate = LOST
        if one.gw_cost <= bound(best, TIE):
            fate = f"same as {best.label}" if is_same(one, best) else "tie"
        ended.append(one.ended(fate))
    return [best, *ended]


def rows_of(rows, best, fate):
    """Return candidates with this fate for the best one, and without another winner."""
    return [
        row._replace(fate=fate)
        if row.start == best.label
        else row._replace(fate=LOST)
        if row.fate in (AHEAD, WON, WENT_ON)
        else row
        for row in rows
    ]


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
        self.rows, self._options, self._report = rows, options, report
        most = options.limits.max_outer - 1
        self._limits = dataclasses.replace(options.limits, max_outer=most)
        self._at, self._epsilon = best.descent.linearization, best.descent.epsilons.last
        self._factored = is_factored(self._at.problem)
        self._patience = Patience(options.search_time) if options.search_time else None
        # At least one iteration: its plan must be the last that was made.
        self._lead(best.advance(self._limits.within(EXACT)))

    def _lead(self, one):
        """Take an entrant for the best."""
        self.best, self.is_tie = one, False
        self._plan = one.descent.coupling.toarray().copy()
        if self._patience:
            self._patience.renew()

    @property
    def confidence(self):
        """Confidence of a search that would end here."""
        rows = rows_of(self.rows, self.best, WON)
        return confidence_of(rows, self.best.descent.status)

    def run(self, budget, clusters):
        """Search on for a budget of outer iterations, or for the search time; `clusters` says
        whether starts from clusters are worth it.
        """
        seeds, rng = itertools.count(self._options.seed), np.random.default_rng(self._options.seed)
        self._left = budget
        try:
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
        except OutOfTime:
            pass

    def _goes_on(self):
        """Return whether to try more."""
        if self._options.limits.deadline.passed() or self.best.is_late:
            return False
        if self._patience and self._patience.goes_on:
            return True
        return self._left > 0 and self.confidence < LEVEL

    def _note(self, entrants):
        """Keep the rows of entrants, and take their iterations from the budget."""
        self._left -= sum(one.n_outer for one in entrants)
        known = len(self.rows) < 1000
        self.rows += [one.row() for one in entrants if known or one.fate == WENT_ON]

    def _from_clusters(self, seed):
        """Race starts from one clustering; return whether they lead to the known optimum."""
        limits, report = self._limits, self._report
        report(ProgressEvent("start", f"clusters {seed}", 1))
        starts = cluster_starts(self._at.problem, self._epsilon, seed, N_STARTS, limits.deadline)
        if not starts:
            return True
        schedule = Schedule(self._epsilon, 3.0 * self._epsilon, 3.0 ** (-1 / N_ANNEALED))
        field = enter(starts, self._at, schedule, limits.deadline, report)
        (one, *others), dropped = race(field, limits, report)
        one = self._follow(one, N_ANNEALED)
        self._note([*dropped, *(other.ended(LOST) for other in others), one])
        return one.is_late or one.fate.startswith("same")

    def _escape(self, number, rng):
        """Descend once more from the best plan, with noise, from a larger epsilon."""
        label, began = f"escape {number}", time.perf_counter()
        self._report(ProgressEvent("start", label, number))
        factors = rng.standard_normal(self._plan.shape, dtype=np.float32)
        # Graphs need little noise or none; of clouds hardly anything may be left.
        factors *= np.float32(rng.uniform(0.5, 5.0))
        plan = self._plan * np.exp(factors, out=factors)
        plan /= plan.sum()
        plan[plan < _kernels.LEAST_ENTRY[plan.dtype]] = 0.0
        first = max(1.0, np.exp(rng.uniform(-1.0, 2.3))) * self._epsilon
        schedule = annealed_early(Schedule(self._epsilon, first))
        one = self._follow(entered(label, self._at, schedule, plan, began), 7)
        self._note([one])

    def _follow(self, one, n_annealed):
        """Return an entrant with its fate, advanced as long as it may end below the best."""
        limits, same = self._limits, f"same as {self.best.label}"
        for after, above in LOOKS:
            most = min(n_annealed + after, limits.max_outer)
            if one.is_moving and one.n_outer < most:
                one = one.advance(limits.within(FOLLOWED), most)
            if one.is_late or not one.gw_cost <= bound(self.best, above):
                return one.ended(LOST)
            if one.gw_cost >= self.best.gw_cost and is_same(one, self.best):
                return one.ended(same)
        for exactness in (FOLLOWED, EXACT):
            if one.is_moving or exactness is EXACT:
                one = one.advance(limits.within(exactness))
            if one.gw_cost <= bound(self.best, TIE) and self.best.gw_cost <= bound(one, TIE):
                alike = is_same(one, self.best)
                # Within one wide optimum plans between clouds may differ by this distance.
                self.is_tie = self.is_tie or not (alike or self._factored)
                return one.ended(same if alike else "tie")
        if one.is_late or one.gw_cost > self.best.gw_cost:
            return one.ended(LOST)
        one = one.ended(WENT_ON)
        self._lead(one)
        return one


def budget_of(best, later):
    """Return the outer iterations that escapes may take; a solve costs `later` times more above."""
    problem = best.descent.linearization.problem
    kind = is_factored(problem)
    few = min(ENTRIES[kind] / max(problem.shape) ** 2, 1000.0)
    return max(SOLVES[kind] * best.n_outer * (1.0 + later), few)

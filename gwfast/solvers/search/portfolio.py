"""One portfolio of descents: all starts race, duplicates and the worse half are dropped, and the
best is left by restarts until confidence, the budget or time ends the search.

The race is successive halving (Jamieson and Talwalkar, AISTATS 2016). No known match is used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from ...kernels import _kernels
from ...kernels._rows import aligned_empty
from ...linear.linear_problem import LostToRounding
from ...problems.epsilon import Schedule
from ...quadratic.descend import Descent, descend
from ...quadratic.judge import UNJUDGED, Limits
from ...quadratic.linearize import is_factored
from ...quadratic.state import Linearization
from ...results.coupling import Coupling
from ...results.records import Callback
from ...results.status import Ending
from ...results.tables import RESTART, Candidate
from ...utils.deadline import Deadline, OutOfTime, Patience
from ...utils.progress import ProgressEvent, Reporter
from ...utils.types import FloatArray
from ..options import ResolvedSettings
from .clusters import cluster_starts
from .confidence import LEVEL, TIE, confidence_of
from .seeds import AnyStart
from .starts import Origin, Start

# Starts of a clustering, and iterations of their annealing from a threefold epsilon.
N_STARTS, N_ANNEALED = 4, 22
WON, WENT_ON, LOST, SKIPPED, TIED = "won", "went on", "lost", "out of time", "tie"


# A race compares the lowest plans of cycles, above which damped steps may end. Early linear
# problems are rough, as small marginal errors take most of all inner iterations.
ROUGH = Limits(200, 50, tol=1e-2, marginal_tol=1e-2, stopping=UNJUDGED, damps=False)
# A race compares objectives, which miss by the marginal error times their largest terms.
EXACT = Limits(200, 1000, tol=1e-4, marginal_tol=1e-4, damps=False)
# Iterations after which candidates are compared, first for duplicates alone, and their limits.
ROUNDS = (4, ROUGH), (7, ROUGH), (8, EXACT), (20, EXACT), (40, EXACT), (80, EXACT)


# By the number of the candidate.
Rows: TypeAlias = dict[int, Candidate]


@dataclasses.dataclass(eq=False)
class LiveCandidate:
    """A start with its descent, the seconds that its plan took, and its outcome.

    `number` identifies the candidate on all levels, and `optimum` is the number of the first
    candidate on the way to the same optimum. `index` is the place of the start among the starts of
    a caller, and `rivals` are the `rivals_of` the winner of a race.
    """

    origin: Origin
    descent: Descent
    seconds: float = 0.0
    outcome: str = LOST
    number: int = dataclasses.field(default_factory=itertools.count().__next__)
    optimum: int = -1
    index: int = 0
    rivals: tuple = ()
    _size: float | None = None

    def __post_init__(self) -> None:
        if self.optimum < 0:
            self.optimum = self.number

    @property
    def has_joined(self) -> bool:
        """Return whether another candidate is on the way to the same optimum."""
        return self.optimum != self.number

    @property
    def size(self) -> float:
        """Return the distance of the state from the product plan."""
        if self._size is None:
            self._size = self.descent.linearization.relative_distance(self.descent.state)
        return self._size

    @property
    def value(self) -> float:
        """The objective that candidates are compared by. Under given marginals entropies of plans
        from different starts hardly differ.
        """
        descent = self.descent
        value, rule = descent.gw_cost, descent.problem.rule
        if rule.has_free_marginals and descent.steps:
            arguments = descent.epsilon, descent.entropy, *descent.marginals
            value = rule.regularized(value, *arguments)
        return float(value) if value == value else math.inf

    @property
    def n_outer(self) -> int:
        return len(self.descent.steps)

    @property
    def is_moving(self) -> bool:
        return self.descent.status in (None, Ending.MAX_OUTER, Ending.TIME_LIMIT)

    @property
    def is_late(self) -> bool:
        return self.descent.status == Ending.TIME_LIMIT

    def advance(
        self,
        limits: Limits,
        most: int | None = None,
        callback: Callback | None = None,
        save: Callable[[Descent], None] | None = None,
    ) -> LiveCandidate:
        """Let the descent go on to the limits; return the candidate."""
        if most is not None:
            limits = dataclasses.replace(limits, max_outer=most)
        # Nothing here keeps the descent, whose state may be freed after an iteration.
        held = [self.descent]
        del self.descent
        self.descent, self._size = descend(held.pop(), limits, callback=callback, save=save), None
        return self

    def join(self, other: LiveCandidate) -> None:
        """Take the optimum of another candidate."""
        self.optimum, self.outcome = other.optimum, f"same as {other.origin.label}"

    def row(self, outcome: str | None = None) -> Candidate:
        """Return the row of the candidate, with another outcome if one is given."""
        descent = self.descent
        return Candidate(
            start=self.origin.label,
            n_points=max(descent.linearization.problem.shape),
            epsilon=descent.epsilons.last,
            gw_cost=descent.gw_cost,
            n_iter=self.n_outer,
            seconds=self.seconds + descent.seconds,
            fate=self.outcome if outcome is None else outcome,
            kind=self.origin.kind,
            optimum=self.optimum,
            value=self.value,
            draw=self.origin.draw,
        )


def begin_candidate(
    origin: Origin,
    linearization: Linearization,
    schedule: Schedule,
    plan: FloatArray | Coupling | None,
    began: float,
    index: int = 0,
) -> LiveCandidate:
    """Return the candidate that begins with a plan, which has been made since `began`."""
    descent = Descent.begin(linearization, linearization.initial(plan), schedule)
    return LiveCandidate(origin, descent, time.perf_counter() - began, index=index)


def enter(
    starts: Iterable[AnyStart],
    linearization: Linearization,
    schedule: Schedule,
    deadline: Deadline,
    report: Reporter,
    first: int = 0,
) -> list[LiveCandidate]:
    """Return a candidate for each start that there is time for, with indices from `first` on."""
    field, problem, n_threads = [], linearization.problem, linearization.n_threads
    with contextlib.suppress(OutOfTime):
        for index, start in enumerate(starts, first):
            report(ProgressEvent("start", f"start {index + 1}: {start}", index + 1))
            deadline.check()
            began = time.perf_counter()
            plan, origin = (
                start.plan(problem, n_threads),
                Origin(str(start), start.kind, start.draw),
            )
            field.append(begin_candidate(origin, linearization, schedule, plan, began, index))
    return field


def annealed_early(schedule: Schedule) -> Schedule:
    """Return the schedule, so steep that it ends in seven iterations."""
    factor = (schedule.last / schedule.first) ** (1.0 / 7)
    return dataclasses.replace(schedule, factor=min(factor, schedule.factor))


def race(
    field: list[LiveCandidate], limits: Limits, report: Reporter
) -> tuple[list[LiveCandidate], list[LiveCandidate]]:
    """Return the candidates that are left, the best first, and the candidates that were dropped."""
    dropped = []
    for number, (n_outer, exactness) in enumerate(ROUNDS, 1):
        if len(field) == 1:
            break
        # The winner makes the last iteration by itself.
        here, most, late = limits.within(exactness), min(n_outer, limits.max_outer - 1), False
        for k, candidate in enumerate(field, 1):
            if candidate.is_moving and candidate.n_outer < most:
                text = f"round {number}: candidate {k} of {len(field)}"
                report(ProgressEvent("round", text, k))
                candidate.advance(here, most)
                candidate.descent = candidate.descent.paused()
                if late := candidate.is_late:
                    for other in field[k:]:
                        if not other.n_outer:
                            other.outcome = SKIPPED
                            dropped.append(other)
                    field = [other for other in field if other.n_outer]
                    break
        # States without an iteration may have no plan to compare.
        left, same = (
            distinct(field) if most else (sorted(field, key=lambda candidate: candidate.value), [])
        )
        for candidate, other in itertools.product(same, dropped):
            if other.optimum == candidate.number:
                other.optimum = candidate.optimum
        dropped += same
        is_last, keep = number == len(ROUNDS), len(left)
        if late or is_last:
            keep = 1
        elif exactness is EXACT:  # two that are close race on
            n_close = sum(candidate.value <= bound(left[0], 5e-3) for candidate in left)
            keep = max(len(left) // 2, min(n_close, 2))
        field = left[:keep]
        for candidate in left[keep:]:
            tie = is_last and candidate.value <= bound(field[0], TIE)
            candidate.outcome = SKIPPED if late else TIED if tie else f"dropped in round {number}"
            dropped.append(candidate)
        if late:
            break
    return field, dropped


def distinct(field: list[LiveCandidate]) -> tuple[list[LiveCandidate], list[LiveCandidate]]:
    """Return candidates on the way to different optima, the best first, and all others."""
    kept, same = list[LiveCandidate](), list[LiveCandidate]()
    for candidate in sorted(field, key=lambda candidate: candidate.value):
        earlier = next((other for other in kept if is_same(candidate, other)), None)
        if earlier is None:
            kept.append(candidate)
        else:
            candidate.join(earlier)
            same.append(candidate)
    return kept, same


def is_same(candidate: LiveCandidate, other: LiveCandidate) -> bool:
    """Return whether two candidates are on the way to the same optimum."""
    size, linearization = max(candidate.size, other.size), candidate.descent.linearization
    # Smaller distances from the product plan may be rounding. Relative to these, mirror images are
    # .5 to 1.4 apart; of eight pairs of graphs all states within .2 after four iterations end in
    # one optimum.
    return (
        size <= 1e-5
        or linearization.relative_distance(candidate.descent.state, other.descent.state)
        < 0.2 * size
    )


def rivals_of(dropped: Iterable[LiveCandidate]) -> tuple[np.ndarray, ...]:
    """Return contractions ``X' T Y`` of two clouds on the way to other optima, the lowest first."""
    rivals = [candidate for candidate in dropped if candidate.n_outer and not candidate.has_joined]
    rivals.sort(key=lambda candidate: (-candidate.descent.problem.shape[0], candidate.value))
    # Evidence from outside of the problem is asked about these.
    return tuple(candidate.descent.state.moments for candidate in rivals[:2])


def bound(best: LiveCandidate, fraction: float) -> float:
    """Return the objective that exceeds the best one by this fraction, and by rounding."""
    descent = best.descent
    return (
        best.value
        + fraction * abs(best.value)
        + 1e-6 * descent.linearization.magnitude(descent.state)
    )


def ranked(rows: Rows, best: LiveCandidate, outcome: str) -> list[Candidate]:
    """Return the candidates of one level, with the outcome of the best candidate."""
    demoted = {
        number: row._replace(fate=LOST) if row.fate in (WON, WENT_ON) else row
        for number, row in rows.items()
    }
    return [*(demoted | {best.number: best.row(outcome)}).values()]


def without(rows: Rows, candidate: LiveCandidate) -> Rows:
    """Return the rows by number but the row of a candidate."""
    return {number: row for number, row in rows.items() if number != candidate.number}


def noted(rows: Rows, candidates: Iterable[LiveCandidate]) -> Rows:
    """Return the rows by number, and a row of each candidate. Rows of the optimum of a candidate
    that has joined another one get the number of the optimum that both have.
    """
    for candidate in candidates:
        if candidate.has_joined:
            rows = {
                number: row._replace(optimum=candidate.optimum)
                if row.optimum == candidate.number
                else row
                for number, row in rows.items()
            }
    return rows | {candidate.number: candidate.row() for candidate in candidates}


def rivalry(candidate: LiveCandidate, best: LiveCandidate) -> float:
    """Return by how much a candidate at its end is above the best one, relatively, if their plans
    match at most half of the mass alike, or four fifths if they are as good, else infinity.
    """
    left, right = (other.descent.coupling.toarray() for other in (candidate, best))
    common = np.minimum(left, right).sum(dtype=np.float64) / best.descent.problem.mass
    gap = max(candidate.value - best.value, 0.0) / (abs(best.value) or 1.0)
    return math.inf if common > (0.8 if gap <= TIE else 0.5) else gap


class Restarts:
    """The search for an optimum below the best candidate of a race, by other starts and by
    descents that begin again at the best plan (the documentation calls them escapes).

    Attributes
    ----------
    best : LiveCandidate
    rows : dict of Candidate
        Of the race and of all that was tried, by the number of the candidate.
    rival : float
        The least `rivalry` of another optimum that is as good as the best.
    """

    def __init__(
        self,
        best: LiveCandidate,
        rows: Rows,
        rival: float,
        kind: str,
        options: ResolvedSettings,
        report: Reporter,
    ) -> None:
        self.rows, self._seed, self._report = rows, options.seed, report
        self._kind = kind
        most = options.limits.max_outer - 1
        self._limits = dataclasses.replace(options.limits, max_outer=most)
        self._linearization, self._epsilon = best.descent.linearization, best.descent.epsilons.last
        self._factored = is_factored(self._linearization.problem)
        self._free = self._linearization.problem.rule.has_free_marginals
        self._patience = options.search_time and Patience(options.search_time)
        # The budget is in units of these iterations: settling a plan may take many more.
        self._n_outer = best.n_outer
        # At least one iteration: its plan must be the last that was made.
        self._lead(best.advance(self._limits.within(EXACT)))
        self.rival = rival

    def _lead(self, candidate: LiveCandidate) -> None:
        """Take a candidate for the best."""
        self.best, self.rival = candidate, math.inf
        self._plan = candidate.descent.coupling.toarray().copy()
        if self._patience:
            self._patience.renew()

    def run(
        self,
        later: float,
        dropped: Iterable[LiveCandidate],
        fields: Iterable[Callable[[], list[Start]]],
        clusters: bool,
    ) -> None:
        """Search on until the confidence, the budget or the search time ends it. An iteration on
        all points takes `later` times as long. Some candidates that were `dropped` go on first,
        then starts of `fields` race, which are functions, and starts from `clusters`, if these
        help.
        """
        # The budget is a number of solves of the winner, or of updates of entries if these take
        # longer, up to a number of outer iterations, which take longer if marginals are free.
        solves, entries = (5.0, 1.5e8) if self._factored else (1.5, 2.5e7)
        least = min(
            entries / max(self._linearization.problem.shape) ** 2, 150.0 if self._free else 1000.0
        )
        self._left = max(solves * self._n_outer * (1.0 + later), least)
        seeds, rng = itertools.count(self._seed), np.random.default_rng(self._seed)
        # At the least epsilon some starts are lost to rounding.
        with contextlib.suppress(OutOfTime, LostToRounding):
            for candidate in dropped:
                if not self._goes_on():
                    break
                before = candidate.n_outer
                self.rows = without(self.rows, candidate)
                self._note(candidate, self._outcome_at_end(candidate), candidate.n_outer - before)
            for starts in fields:
                if not self._goes_on():
                    break
                self._race(starts(), 1.0)
            # The third and the fourth clustering led to a lowest optimum each, on 289 problems.
            for _ in range(4 * clusters):
                enough = self._left >= N_STARTS * N_ANNEALED or self._patience
                if not (enough and self._goes_on()):
                    break
                self._from_clusters(next(seeds))
            for number in itertools.count(1):
                # Plans near an optimum that clusterings have confirmed may be lower by 1 %.
                if not self._goes_on(number <= 2):
                    break
                if clusters and self._patience and number % 16 == 0:
                    self._from_clusters(next(seeds))
                self._restart(number, rng)

    def _goes_on(self, is_needed: bool = False) -> bool:
        """Return whether to try more, at any confidence if that is needed."""
        if self._limits.deadline.passed() or self.best.is_late:
            return False
        if self._patience and self._patience.goes_on:
            return True
        if self._left <= 0 or is_needed:
            return self._left > 0
        rows = ranked(self.rows, self.best, WON)
        return confidence_of(rows, self.best.descent.status, self._kind) < LEVEL

    def _from_clusters(self, seed: int) -> None:
        """Race starts from one clustering."""
        self._report(ProgressEvent("start", f"clusters {seed}", 1))
        starts = cluster_starts(
            self._linearization.problem, self._epsilon, seed, N_STARTS, self._limits.deadline
        )
        self._race(starts, 3.0)

    def _race(self, starts: Iterable[Start], heat: float) -> None:
        """Race starts, with epsilon lowered from `heat` times its value."""
        limits, n_annealed = self._limits, N_ANNEALED if heat > 1.0 else 0
        schedule = Schedule(self._epsilon, heat * self._epsilon, 3.0 ** (-1 / N_ANNEALED))
        field = enter(starts, self._linearization, schedule, limits.deadline, self._report)
        if not field:
            return
        (winner,), dropped = race(field, limits, self._report)
        for other in dropped:
            self._note(other, other.outcome, other.n_outer)
        self._note(winner, self._outcome(winner, n_annealed), winner.n_outer)

    def _restart(self, number: int, rng: np.random.Generator) -> None:
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
        candidate = begin_candidate(
            Origin(label, RESTART), self._linearization, schedule, plan, began
        )
        self._note(candidate, self._outcome(candidate, 7), candidate.n_outer)

    def _note(self, candidate: LiveCandidate, outcome: str, n_outer: int) -> None:
        """Note a candidate, and its outcome after `n_outer` iterations."""
        candidate.outcome = outcome
        if outcome == WENT_ON:
            self._lead(candidate)
        self._left -= n_outer
        if outcome == WENT_ON or len(self.rows) < 1000:
            self.rows = noted(self.rows, [candidate])

    def _outcome(self, candidate: LiveCandidate, n_annealed: int) -> str:
        """Advance a candidate as long as it may end below the best; return its outcome."""
        limits, best = self._limits, self.best
        # A descent that is 1.5 % above the best soon after annealing is given up.
        most = min(n_annealed + 13, limits.max_outer)
        if candidate.is_moving and candidate.n_outer < most:
            followed = Limits(100, 1000, tol=1e-3, marginal_tol=1e-3, damps=False)
            candidate.advance(limits.within(followed), most)
        if candidate.is_late or not candidate.value <= bound(best, 0.015):
            return LOST
        if candidate.value >= best.value and is_same(candidate, best):
            candidate.join(best)
            return candidate.outcome
        return self._outcome_at_end(candidate)

    def _outcome_at_end(self, candidate: LiveCandidate) -> str:
        """Advance a candidate to the end; return its outcome."""
        best = self.best
        candidate.advance(self._limits.within(EXACT))
        if candidate.value <= bound(best, TIE) and best.value <= bound(candidate, TIE):
            if is_same(candidate, best):
                candidate.join(best)
                return candidate.outcome
            # Within one wide optimum plans between clouds may differ by this distance.
            if not self._factored:
                self.rival = min(self.rival, rivalry(candidate, best))
            return TIED
        return LOST if candidate.is_late or candidate.value > best.value else WENT_ON

"""One portfolio of descents: all starts race, duplicates and the worse half are dropped, and the
best is left by escapes until confidence, the budget or time ends the search.

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
from ...results.status import Ending
from ...results.tables import RESTART, Candidate
from ...utils.deadline import Deadline, OutOfTime, Patience
from ...utils.progress import ProgressEvent, Reporter
from ...utils.types import FloatArray
from ..options import Callback, ResolvedSettings
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
FOLLOWED = Limits(100, 1000, tol=1e-3, marginal_tol=1e-3, damps=False)
# Iterations after which entrants are compared, first for duplicates alone, and how exact these are.
ROUNDS = (4, ROUGH), (7, ROUGH), (8, EXACT), (20, EXACT), (40, EXACT), (80, EXACT)


# By the number of the entrant.
Rows: TypeAlias = dict[int, Candidate]


@dataclasses.dataclass(eq=False)
class Entrant:
    """A start with its descent, the seconds that its plan took, and its fate.

    `number` identifies the entrant on all levels, and `optimum` is the number of the first entrant
    on the way to the same optimum. `index` is the place of the start among the starts of a caller,
    and `rivals` are the `rivals_of` the winner of a race.
    """

    origin: Origin
    descent: Descent
    seconds: float = 0.0
    fate: str = LOST
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
        """Return whether another entrant is on the way to the same optimum."""
        return self.optimum != self.number

    @property
    def size(self) -> float:
        """Return the distance of the state from the product plan."""
        if self._size is None:
            self._size = self.descent.linearization.apart(self.descent.state)
        return self._size

    @property
    def value(self) -> float:
        """The objective that candidates are compared by. Under given marginals entropies of plans
        from different starts hardly differ.
        """
        descent = self.descent
        value, rule = descent.gw_cost, descent.problem.rule
        if rule.has_free_marginals and descent.steps:
            terms = descent.epsilon, descent.entropy, *descent.marginals
            value = rule.regularized(value, *terms)
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
    ) -> Entrant:
        """Let the descent go on to the limits; return the entrant."""
        if most is not None:
            limits = dataclasses.replace(limits, max_outer=most)
        # Nothing here keeps the descent, whose state may be freed after an iteration.
        held = [self.descent]
        del self.descent
        self.descent, self._size = descend(held.pop(), limits, callback=callback, save=save), None
        return self

    def join(self, other: Entrant) -> None:
        """Take the optimum of another entrant."""
        self.optimum, self.fate = other.optimum, f"same as {other.origin.label}"

    def row(self, fate: str | None = None) -> Candidate:
        """Return the `Candidate` of the entrant, with another fate if one is given."""
        descent = self.descent
        return Candidate(
            start=self.origin.label,
            n_points=max(descent.linearization.problem.shape),
            epsilon=descent.epsilons.last,
            gw_cost=descent.gw_cost,
            n_iter=self.n_outer,
            seconds=self.seconds + descent.seconds,
            fate=self.fate if fate is None else fate,
            kind=self.origin.kind,
            optimum=self.optimum,
            value=self.value,
            draw=self.origin.draw,
        )


def entered(
    origin: Origin,
    linearization: Linearization,
    schedule: Schedule,
    plan: FloatArray | Coupling | None,
    began: float,
    index: int = 0,
) -> Entrant:
    """Return the entrant that begins with a plan, which has been made since `began`."""
    descent = Descent.at(linearization, linearization.initial(plan), schedule)
    return Entrant(origin, descent, time.perf_counter() - began, index=index)


def enter(
    starts: Iterable[AnyStart],
    linearization: Linearization,
    schedule: Schedule,
    deadline: Deadline,
    report: Reporter,
    first: int = 0,
) -> list[Entrant]:
    """Return an entrant for each start that there is time for, with indices from `first` on."""
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
            field.append(entered(origin, linearization, schedule, plan, began, index))
    return field


def annealed_early(schedule: Schedule) -> Schedule:
    """Return the schedule, so steep that it ends in seven iterations."""
    factor = (schedule.last / schedule.first) ** (1.0 / 7)
    return dataclasses.replace(schedule, factor=min(factor, schedule.factor))


def race(
    field: list[Entrant], limits: Limits, report: Reporter
) -> tuple[list[Entrant], list[Entrant]]:
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
                    for each in field[k:]:
                        if not each.n_outer:
                            each.fate = SKIPPED
                            dropped.append(each)
                    field = [each for each in field if each.n_outer]
                    break
        # States without an iteration may have no plan to compare.
        left, same = distinct(field) if most else (sorted(field, key=lambda one: one.value), [])
        for one, each in itertools.product(same, dropped):
            if each.optimum == one.number:
                each.optimum = one.optimum
        dropped += same
        is_last, keep = number == len(ROUNDS), len(left)
        if late or is_last:
            keep = 1
        elif exactness is EXACT:  # two that are close race on
            n_close = sum(one.value <= bound(left[0], 5e-3) for one in left)
            keep = max(len(left) // 2, min(n_close, 2))
        field = left[:keep]
        for one in left[keep:]:
            tie = is_last and one.value <= bound(field[0], TIE)
            one.fate = SKIPPED if late else TIED if tie else f"dropped in round {number}"
            dropped.append(one)
        if late:
            break
    return field, dropped


def distinct(field: list[Entrant]) -> tuple[list[Entrant], list[Entrant]]:
    """Return the entrants on the way to an optimum of their own, the best first, and the others."""
    kept, same = list[Entrant](), list[Entrant]()
    for one in sorted(field, key=lambda one: one.value):
        known = next((other for other in kept if is_same(one, other)), None)
        if known is None:
            kept.append(one)
        else:
            one.join(known)
            same.append(one)
    return kept, same


def is_same(one: Entrant, other: Entrant) -> bool:
    """Return whether two entrants are on the way to the same optimum."""
    size, linearization = max(one.size, other.size), one.descent.linearization
    # Smaller distances from the product plan may be rounding. Relative to these, mirror images are
    # .5 to 1.4 apart; of eight pairs of graphs all states within .2 after four iterations end in
    # one optimum.
    return size <= 1e-5 or linearization.apart(one.descent.state, other.descent.state) < 0.2 * size


def rivals_of(dropped: Iterable[Entrant]) -> tuple[np.ndarray, ...]:
    """Return contractions ``X' T Y`` of two clouds on the way to other optima, the lowest first."""
    others = [one for one in dropped if one.n_outer and not one.has_joined]
    others.sort(key=lambda one: (-one.descent.problem.shape[0], one.value))
    # Evidence from outside of the problem is asked about these.
    return tuple(one.descent.state.moments for one in others[:2])


def bound(best: Entrant, fraction: float) -> float:
    """Return the objective that exceeds the best one by this fraction, and by rounding."""
    descent = best.descent
    return (
        best.value
        + fraction * abs(best.value)
        + 1e-6 * descent.linearization.magnitude(descent.state)
    )


def ranked(rows: Rows, best: Entrant, fate: str) -> list[Candidate]:
    """Return the candidates of one level, of which the best one alone has this fate."""
    lost = {
        number: row._replace(fate=LOST) if row.fate in (WON, WENT_ON) else row
        for number, row in rows.items()
    }
    return [*(lost | {best.number: best.row(fate)}).values()]


def without(rows: Rows, one: Entrant) -> Rows:
    """Return the rows by number but the row of an entrant."""
    return {number: row for number, row in rows.items() if number != one.number}


def noted(rows: Rows, entrants: Iterable[Entrant]) -> Rows:
    """Return the rows by number, and a row of each entrant. Rows of the optimum of an entrant that
    has joined another one get the number of the optimum that both have.
    """
    for one in entrants:
        if one.has_joined:
            rows = {
                number: row._replace(optimum=one.optimum) if row.optimum == one.number else row
                for number, row in rows.items()
            }
    return rows | {one.number: one.row() for one in entrants}


def rivalry(one: Entrant, best: Entrant) -> float:
    """Return by how much an entrant at its end is above the best one, relatively, if their plans
    match at most half of the mass alike, or four fifths if they are as good, else infinity.
    """
    left, right = (each.descent.coupling.toarray() for each in (one, best))
    common = np.minimum(left, right).sum(dtype=np.float64) / best.descent.problem.mass
    gap = max(one.value - best.value, 0.0) / (abs(best.value) or 1.0)
    return math.inf if common > (0.8 if gap <= TIE else 0.5) else gap


class Escapes:
    """The search for an optimum below the best entrant of a race.

    Attributes
    ----------
    best : Entrant
    rows : dict of Candidate
        Of the race and of all that was tried, by the number of the entrant.
    rival : float
        The least `rivalry` of another optimum that is as good as the best.
    """

    def __init__(
        self,
        best: Entrant,
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

    def _lead(self, one: Entrant) -> None:
        """Take an entrant for the best."""
        self.best, self.rival = one, math.inf
        self._plan = one.descent.coupling.toarray().copy()
        if self._patience:
            self._patience.renew()

    def run(
        self,
        later: float,
        dropped: Iterable[Entrant],
        fields: Iterable[Callable[[], list[Start]]],
        clusters: bool,
    ) -> None:
        """Search on until the confidence, the budget or the search time ends it. An iteration on
        all points takes `later` times as long. Some entrants that were `dropped` go on first, then
        starts of `fields` race, which are functions, and starts from `clusters`, if these help.
        """
        # The budget is some solves of the winner, or updates of so many entries if that is more, up
        # to a number of outer iterations, which take longer where marginals are free.
        solves, entries = (5.0, 1.5e8) if self._factored else (1.5, 2.5e7)
        few = min(
            entries / max(self._linearization.problem.shape) ** 2, 150.0 if self._free else 1000.0
        )
        self._left = max(solves * self._n_outer * (1.0 + later), few)
        seeds, rng = itertools.count(self._seed), np.random.default_rng(self._seed)
        # At the least epsilon some starts are lost to rounding.
        with contextlib.suppress(OutOfTime, LostToRounding):
            for one in dropped:
                if not self._goes_on():
                    break
                before = one.n_outer
                self.rows = without(self.rows, one)
                self._note(one, self._fate_of_descent(one), one.n_outer - before)
            for starts in fields:
                if not self._goes_on():
                    break
                self._race(starts(), 1.0)
            # Of 289 problems the third and the fourth clustering led to one lowest optimum each.
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
                self._escape(number, rng)

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
        (one,), dropped = race(field, limits, self._report)
        for other in dropped:
            self._note(other, other.fate, other.n_outer)
        self._note(one, self._fate(one, n_annealed), one.n_outer)

    def _escape(self, number: int, rng: np.random.Generator) -> None:
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
        one = entered(Origin(label, RESTART), self._linearization, schedule, plan, began)
        self._note(one, self._fate(one, 7), one.n_outer)

    def _note(self, one: Entrant, fate: str, n_outer: int) -> None:
        """Note an entrant, and its fate after `n_outer` iterations."""
        one.fate = fate
        if fate == WENT_ON:
            self._lead(one)
        self._left -= n_outer
        if fate == WENT_ON or len(self.rows) < 1000:
            self.rows = noted(self.rows, [one])

    def _fate(self, one: Entrant, n_annealed: int) -> str:
        """Advance an entrant as long as it may end below the best; return its fate."""
        limits, best = self._limits, self.best
        # A descent that is 1.5 % above the best soon after annealing is given up.
        most = min(n_annealed + 13, limits.max_outer)
        if one.is_moving and one.n_outer < most:
            one.advance(limits.within(FOLLOWED), most)
        if one.is_late or not one.value <= bound(best, 0.015):
            return LOST
        if one.value >= best.value and is_same(one, best):
            one.join(best)
            return one.fate
        return self._fate_of_descent(one)

    def _fate_of_descent(self, one: Entrant) -> str:
        """Advance an entrant to the end; return its fate."""
        best = self.best
        one.advance(self._limits.within(EXACT))
        if one.value <= bound(best, TIE) and best.value <= bound(one, TIE):
            if is_same(one, best):
                one.join(best)
                return one.fate
            # Within one wide optimum plans between clouds may differ by this distance.
            if not self._factored:
                self.rival = min(self.rival, rivalry(one, best))
            return TIED
        return LOST if one.is_late or one.value > best.value else WENT_ON

"""A solve from the lowest level to the whole problem: starts race on the first level, restarts look
for a lower optimum there, and the best goes on from level to level.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...problems.epsilon import EpsilonLike, as_epsilon
from ...problems.quadratic import QuadraticProblem
from ...quadratic.descend import Descent
from ...quadratic.judge import Limits
from ...quadratic.linearize import is_factored, is_placed, work
from ...quadratic.neighbors import NeighborTier
from ...results.coupling import Coupling, SparseCoupling
from ...results.status import Ending
from ...results.tables import Candidate, Candidates
from ...utils.deadline import OutOfTime
from ...utils.precision import SINGLE
from ...utils.progress import ProgressEvent, Reporter
from ...utils.types import FloatArray
from ..options import ResolvedSettings
from .anchors import anchor_starts
from .axes import axis_starts
from .confidence import LEVEL, confidence_of, kind_of
from .diffusion import diffusion_starts
from .exact import MOST_EXACT, exact_start
from .isomorphism import isomorphisms
from .levels import Level, fewer_points, ladder
from .paths import path_starts
from .portfolio import (
    EXACT,
    SKIPPED,
    TIED,
    WENT_ON,
    WON,
    LiveCandidate,
    Restarts,
    Rows,
    annealed_early,
    bound,
    enter,
    is_same,
    noted,
    race,
    ranked,
    rivalry,
    rivals_of,
    without,
)
from .seeds import AnyStart
from .starts import PRODUCT, Origin, Start, given, profile_starts, random_starts

# Limits of the descents that lead to the next level, whose first iterations move plans by 10 to
# 20 %; and from float32 to float64.
COARSE = Limits(max_outer=1000, max_inner=1000, tol=5e-3, marginal_tol=1e-3)
FLOAT32 = Limits(max_outer=1000, max_inner=1000, tol=1e-4, marginal_tol=1e-4)
# Time of the first plan of a problem after another level, in updates of its plan.
UPDATES = 3


class Found(NamedTuple):
    """The descent of the winner, by how much the nearest plan with little in common is above it
    (infinity if none is known), all that was tried, and the place of the winner among the starts.
    """

    descent: Descent
    rival: float
    candidates: Candidates
    winner: int = 0


def search(
    problem: QuadraticProblem,
    options: ResolvedSettings,
    report: Reporter,
    starts: Sequence[AnyStart] | None = None,
) -> Found:
    """Return what is `Found` from the best of some starts, None for the default starts on few
    points. OutOfTime if there is no time for a first plan of all points.
    """
    several, checkpoint = starts is None or len(starts) > 1, options.checkpoint
    # Damped steps may end above the lowest plan of a cycle, which a race compares.
    limits = dataclasses.replace(options.limits, damps=not several)
    level, *higher = ladder(problem, options, races=starts is None)
    if checkpoint and checkpoint.is_there:
        level, higher = (higher or [level])[-1], []
        linearization = level.linearization(options)[0]
        saved = checkpoint.load(Descent.exported(linearization), limits.max_outer)
        with checkpoint.reading():
            descent = Descent.restored(linearization, saved)
            number, index = int(saved["number"]), int(saved["index"])
            best = LiveCandidate(Origin(*saved["origin"]), descent, number=number, index=index)
            rival = float(saved["rival"])
            done = [Candidate(*row) for row in saved["done"]]
            rows = {number: Candidate(*row) for number, *row in saved["rows"]}
    else:
        first = _first(level, higher, problem, options, report, starts)
        best, rows, rival, done, level, higher = first
    number, stopped = 0, False
    while higher:
        far = limits.within(FLOAT32 if level.problem is problem else COARSE)
        far = far.before(UPDATES * work(problem) / work(level.problem))
        far = dataclasses.replace(far, damps=limits.damps)
        callback = None if several else options.callback
        best.advance(far, max(limits.max_outer - 1, 1), callback)
        done += ranked(rows, best, WENT_ON)
        stopped = best.descent.status == Ending.STOPPED
        if stopped or best.is_late:
            _check_time(best.descent, problem, limits)
            higher = higher[-1:]
        number += 1
        below, level, higher = level.rows, higher[0], higher[1:]
        if max(level.problem.shape) < max(problem.shape):
            text = f"level of {max(level.problem.shape)} of {max(problem.shape)} points"
            report(ProgressEvent("level", text, number))
        best = _promoted(best, below, level, options, keeps=not several)
        rows = {best.number: best.row()}
    if stopped:
        # One iteration, without the callback, makes a plan of the problem itself.
        best.advance(limits, best.n_outer + 1)
        descent = dataclasses.replace(best.descent, status=Ending.STOPPED)
        return Found(descent, math.inf, Candidates(), best.index)
    if not best.n_outer:
        _check_time(best.descent, problem, limits)
    report(ProgressEvent("solve", f"solving from {best.origin.label}"))

    def save(descent: Descent) -> None:
        assert checkpoint is not None
        checkpoint.save(
            origin=best.origin,
            number=best.number,
            index=best.index,
            rival=rival,
            done=done,
            rows=[(number, *row) for number, row in rows.items()],
            **descent.export(),
        )

    best.advance(limits, callback=options.callback, save=save if checkpoint else None)
    tried = [*done, *ranked(rows, best, WON)] if several else []
    tried = [x._replace(gw_cost=best.descent.objective) if x.fate == WON else x for x in tried]
    return Found(best.descent, rival, Candidates(tried, rivals=best.rivals), best.index)


def descend(problem: QuadraticProblem, start: AnyStart, options: ResolvedSettings) -> Descent:
    """Return the `Descent` of a problem from one start, by options with a tier and a `Method`."""
    return search(problem, options, lambda event: None, [start]).descent


def _first(
    level: Level,
    higher: list[Level],
    problem: QuadraticProblem,
    options: ResolvedSettings,
    report: Reporter,
    starts: Sequence[AnyStart] | None,
) -> tuple[LiveCandidate, Rows, float, list[Candidate], Level, list[Level]]:
    """Return the best of the first level, or of the second if clouds are in doubt, all candidates
    there, the `rivalry` of the next one, candidates below, that level and the higher levels.
    """
    deadline, races, limits = options.limits.deadline, starts is None, options.limits
    linearization, schedule = level.linearization(options)
    ratio = work(problem) / work(level.problem)
    if starts is None:
        waiting: Iterator[AnyStart] = _default(level, problem, options, report)
        schedule = annealed_early(schedule)
    else:
        waiting = iter(starts)
    until = limits.before(UPDATES * ratio) if higher else limits
    field, rows, unsettled, n_starts = list[LiveCandidate](), Rows(), list[LiveCandidate](), 0
    # Later starts than the 64th race against the best of the first 64.
    while next_starts := list(itertools.islice(waiting, 64 - len(field))):
        field += enter(next_starts, linearization, schedule, deadline, report, n_starts)
        n_starts += len(next_starts)
        if not field:
            raise OutOfTime
        field, dropped = race(field, until, report)
        rows = noted(rows, dropped)
        unsettled += [
            candidate
            for candidate in dropped
            if not (candidate.has_joined or candidate.outcome == SKIPPED)
        ]
        # Few of these go on if the race leaves doubt.
        unsettled = sorted(unsettled, key=lambda candidate: candidate.value)[:3]
        if field[0].is_late:
            break
    best = field[0]
    if races and unsettled:
        best, rows, rival = _compared(best, unsettled, rows, until)
    else:
        rival = min(
            (rivalry(candidate, best) for candidate in unsettled if candidate.outcome == TIED),
            default=math.inf,
        )
    if is_factored(linearization.problem):
        best.rivals = rivals_of(
            candidate for candidate in dropped if candidate.optimum != best.optimum
        )
    rows = noted(rows, [best])
    enough = limits.max_outer > 50 and options.tuning.second_look and level.tier == "dense"
    if (
        not (races and enough)
        or best.is_late
        or is_placed(linearization.problem, options.placement)
    ):
        return best, rows, rival, [], level, higher
    won, kind, done = ranked(rows, best, WON), kind_of(problem), list[Candidate]()
    # The winner is expected to settle.
    sure = confidence_of(won, Ending.CONVERGED, kind) >= LEVEL
    if sure and not options.search_time:
        return best, rows, rival, done, level, higher
    # Starts along axes led to two optima of 99 problems of fewer points, which clusterings lead to
    # in less time.
    has_axes = is_factored(problem) and problem.is_balanced and max(problem.shape) >= 2000
    for batch in range(2 if has_axes else 0):
        axes = _along_axes(problem, options, schedule.last, batch)
        if not axes:
            break
        if not batch and higher and max(higher[0].problem.shape) > max(level.problem.shape):
            # The right optimum of hard pairs may not be the lowest on few points.
            far = limits.within(COARSE).before(UPDATES * ratio)
            best.advance(far, max(limits.max_outer - 1, 1))
            done = ranked(rows, best, WENT_ON)
            below, level, higher = level.rows, higher[0], higher[1:]
            best = _promoted(best, below, level, options, keeps=False)
            rows, (linearization, schedule) = (
                {best.number: best.row()},
                level.linearization(options),
            )
            ratio = work(problem) / work(level.problem)
        rivals = best.rivals
        field = enter(axes, linearization, annealed_early(schedule), deadline, report)
        rows = without(rows, best)
        (best,), dropped = race([best, *field], limits, report)
        best.rivals = rivals_of(dropped) or rivals
        rows = noted(rows, [*dropped, best])
        rival = min(
            (rivalry(candidate, best) for candidate in dropped if candidate.outcome == TIED),
            default=math.inf,
        )
        won = [*done, *ranked(rows, best, WON)]
        sure = confidence_of(won, Ending.CONVERGED, kind) >= LEVEL
        if (sure and not options.search_time) or best.is_late:
            return best, rows, rival, done, level, higher
    plain = (
        linearization.problem.is_plain
        and linearization.problem.x.symmetric
        and linearization.problem.y.symmetric
    )
    clusters = is_factored(problem) or (min(problem.shape) >= 128 and plain)
    clusters = clusters and problem.is_balanced
    fields = []
    if plain and not is_factored(linearization.problem):
        fields = _doubtful(linearization.problem, options, report)
    if is_factored(problem):
        unsettled = []  # of clouds all but a few starts fall into wide optima
    restarts = Restarts(best, rows, rival, kind, options, report)
    restarts.run(0.5 * ratio if higher else 0.0, unsettled, fields, clusters)
    if is_factored(linearization.problem):
        left_behind = [] if restarts.best is best else [best]
        restarts.best.rivals = (*rivals_of(left_behind), *best.rivals)
    return restarts.best, restarts.rows, restarts.rival, done, level, higher


def _compared(
    best: LiveCandidate, unsettled: list[LiveCandidate], rows: Rows, limits: Limits
) -> tuple[LiveCandidate, Rows, float]:
    """Return the better one of the winner of a race and the next optimum, if that was within 6 %
    when it was dropped; all other rows, and the `rivalry` of the next optimum.
    """
    second = unsettled[0]
    if best.is_late or not best.n_outer or second.value > bound(best, 0.06):
        return best, rows, math.inf
    unsettled.remove(second)
    rows = without(rows, second)
    for candidate in (best, second):
        candidate.advance(limits.within(EXACT), max(limits.max_outer - 1, 1))
    best, second = sorted((best, second), key=lambda candidate: candidate.value)
    same = is_same(second, best)
    if same:
        second.join(best)
    return best, noted(rows, [second]), math.inf if same else rivalry(second, best)


def _doubtful(
    problem: QuadraticProblem, options: ResolvedSettings, report: Reporter
) -> list[Callable[[], list[Start]]]:
    """Return functions that return the starts that race if the default starts leave doubt."""
    deadline = options.limits.deadline
    fields: list[Callable[[], list[Start]]] = [
        functools.partial(anchor_starts, problem, deadline=deadline)
    ]
    if problem.is_balanced:
        solve = functools.partial(_plan_of, options=options, report=report)
        fields.append(functools.partial(path_starts, problem, solve))
        fields.append(functools.partial(diffusion_starts, problem, solve))
    return fields


def _promoted(
    best: LiveCandidate,
    below: list[np.ndarray],
    level: Level,
    options: ResolvedSettings,
    keeps: bool,
) -> LiveCandidate:
    """Return the candidate on the next level, which keeps its history if it `keeps`."""
    began, descent = time.perf_counter(), best.descent
    linearization, schedule = level.linearization(options)
    epsilon = schedule.last / linearization.cost_scale
    if level.problem.shape == descent.problem.shape:
        state = descent.start_for(linearization, epsilon)
    else:
        keeps, (rows, cols) = False, map(np.searchsorted, level.rows, below)
        state = descent.state
        if state.plan is None and not is_factored(level.problem):
            # Out of time, a solve goes from low-rank costs to whole costs of other points.
            state = state._replace(plan=descent.coupling.toarray())
        state = linearization.extended(state, descent.linearization, rows, cols, epsilon)
    if not keeps:
        schedule = dataclasses.replace(schedule, first=schedule.last)
    # The first step on all points changes the plan of 10,000 words by .11 or more. Marginals may be
    # wrong by the change that is expected, and a descent on a sample mends large errors slowly.
    change = 0.05 if linearization.samples else 1.0
    new = Descent.begin(
        linearization, state, schedule, after=descent if keeps else None, change=change
    )
    seconds = time.perf_counter() - began
    return LiveCandidate(
        best.origin, new, seconds, number=best.number, index=best.index, rivals=best.rivals
    )


def _check_time(descent: Descent, problem: QuadraticProblem, limits: Limits) -> None:
    """Raise OutOfTime unless an iteration of the problem ends at most half a second too late."""
    seconds = descent.update_seconds * work(problem) / work(descent.linearization.problem)
    limits.deadline.check(2 * seconds - 0.5)


def _default(
    level: Level, problem: QuadraticProblem, options: ResolvedSettings, report: Reporter
) -> Iterator[Start]:
    """Yield the starts that race by default."""
    part, seed, threads = level.problem, options.seed, options.threads(level.problem)
    n_random, few = options.n_starts, part.shape[0] * part.shape[1] <= MOST_EXACT
    if not part.is_balanced:
        if NeighborTier.of(options.tier):  # other plans have no few neighbors to each row
            yield _balanced_start(options, report)
            return
        yield PRODUCT
        yield _balanced_start(options, report)
        # On more entries further starts take too long on all points.
        if level.tier == "dense" and part.shape[0] * part.shape[1] <= 4_000_000:
            yield from anchor_starts(part, deadline=options.limits.deadline)
            n_free = 2 + 2 * few if n_random is None else n_random
            yield from random_starts(part, seed, n_free)
        return
    if n_random is None and few and part.is_plain:
        plans = list(itertools.islice(isomorphisms(part), 2))
        for number, plan in enumerate(plans, 1):
            yield given(plan.astype(np.float32), f"isomorphism {number}", "isomorphism")
        if plans:
            yield PRODUCT
            return
    costs = part
    if is_factored(part) and not is_factored(problem):
        # Profiles of eigenvectors lead to optima that are 1 to 10 % higher.
        costs = problem if part.shape == problem.shape else problem.take(*level.rows)
        n_random = 1 if n_random is None else n_random
    deadline = options.limits.deadline
    yield from profile_starts(costs, threads, deadline)
    yield PRODUCT
    if few and n_random is None:
        yield exact_start(seed, deadline)
    yield from random_starts(part, seed, n_random)


def _along_axes(
    problem: QuadraticProblem, options: ResolvedSettings, epsilon: float, batch: int
) -> list[Start]:
    """Return a batch of six starts along three estimates of the axes of two clouds, pruned on few
    points.
    """
    parts = fewer_points(problem, options, 600)
    few, rows = next(parts, (problem, [np.arange(n) for n in problem.shape]))
    seeds = [options.seed + 3 * batch + k for k in range(3)]
    return axis_starts(problem, few, rows, epsilon, seeds, 6, options.limits.deadline)


def _balanced_start(options: ResolvedSettings, report: Reporter) -> Start:
    """Return the start from the best plan of the balanced problem of the same costs: from the
    product plan descents often leave out points which have a match.
    """

    def plan(problem: QuadraticProblem, n_threads: int) -> FloatArray | SparseCoupling:
        coupling = _plan_of(
            problem.replace(rule=problem.rule.balanced()), options.epsilon, options, report
        )
        if isinstance(coupling, SparseCoupling):
            return SparseCoupling(coupling.csr * np.float32(problem.mass), coupling.n_threads)
        return problem.mass * coupling.toarray()

    return Start("balanced", plan, "balanced")


def _plan_of(
    problem: QuadraticProblem, epsilon: EpsilonLike, options: ResolvedSettings, report: Reporter
) -> Coupling:
    """Return the coupling of the best start of another problem with the same points."""
    changed = dataclasses.replace(
        options,
        epsilon=as_epsilon(epsilon),
        limits=options.limits.within(FLOAT32),
        tuning=dataclasses.replace(options.tuning, second_look=False),
        precision=SINGLE,
        placement=None,
        checkpoint=None,
        callback=None,
    )
    try:
        result = search(problem, changed, report)
    except ValueError:  # an epsilon for float64 only
        result = search(problem, dataclasses.replace(changed, epsilon=as_epsilon("auto")), report)
    return result.descent.coupling

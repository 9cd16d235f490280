"""A solve from the lowest level to the whole problem: starts race on the first level, escapes look
for a lower optimum there, and the best go on from level to level.
"""

import dataclasses
import itertools
import time
from typing import NamedTuple

import numpy as np

from ...problems.epsilon import as_epsilon
from ...quadratic.descend import Descent
from ...quadratic.judge import Limits
from ...quadratic.linearize import is_factored, is_placed, work
from ...quadratic.methods import PGD
from ...quadratic.neighbors import NeighborTier
from ...results.coupling import SparseCoupling
from ...results.status import Status
from ...results.tables import Candidate, Candidates
from ...utils.deadline import OutOfTime
from ...utils.memory import as_memory_limit
from ...utils.progress import ProgressEvent
from .confidence import LEVEL, Evidence, confidence_of
from .exact import MOST_EXACT, exact_start
from .isomorphism import isomorphisms
from .levels import choose, fits, ladder
from .portfolio import (
    MAX_FIELD,
    WENT_ON,
    WON,
    Entrant,
    Escapes,
    annealed_early,
    budget_of,
    enter,
    finish,
    race,
    rows_of,
)
from .starts import PRODUCT, Start, default_starts, given

# Limits of the descents that lead to the next level, whose first iterations move plans by 10 to
# 20 %; and from float32 to float64.
COARSE = Limits(max_outer=1000, max_inner=1000, tol=5e-3, marginal_tol=1e-3)
FLOAT32 = Limits(max_outer=1000, max_inner=1000, tol=1e-4, marginal_tol=1e-4)
# Time of the first plan of a problem after another level, in updates of its plan.
UPDATES = 3


class Found(NamedTuple):
    """The descent of the winner, whether another optimum is as good, and all that was tried."""

    descent: Descent
    is_tie: bool
    candidates: Candidates


def search(problem, options, report, starts=None):
    """Return what is `Found` from the best of some starts, None for the default starts on few
    points. OutOfTime if there is no time for a first plan of all points.
    """
    several = starts is None or len(starts) > 1
    checkpoint = options.checkpoint
    # Damped steps may end above the lowest plan of a cycle, which a race compares.
    limits = dataclasses.replace(options.limits, damps=not several)
    level, *higher = ladder(problem, options, races=starts is None)
    saved, rows, tie = checkpoint and checkpoint.load(), [], False
    if saved is not None:
        level, *higher = [level, *higher][-1:]
        at, _ = level.linearization(options)
        rows = [Candidate(*row) for row in saved["rows"]]
        field, tried = [Entrant(saved["label"], Descent.restored(at, saved))], []
    else:
        field, tried, tie = _begun(level, higher, problem, options, report, starts)
    number, stopped = 0, False
    while higher:
        watch = {} if several else dict(callback=options.callback)
        field = _settled(field, level, problem, limits, **watch)
        rows += _merged(tried, [one.ended(WENT_ON) for one in field])
        before, number, tried = level, number + 1, []
        stopped = field[0].descent.status == Status.STOPPED
        if stopped or field[0].is_late:
            field, higher = field[:1], higher[-1:]
            _check_time(field[0].descent, problem, limits)
        while len(higher) > 1 and not fits(higher[0].problem, options, races=False):
            higher.pop(0)
        level, *higher = higher
        if higher and higher[0].rows[0].size > level.rows[0].size:
            text = f"level of {max(level.problem.shape)} of {max(problem.shape)} points"
            report(ProgressEvent("level", text, number))
        costs = level.linearization(options)
        field = [_promoted(one, *costs, level, before, keeps=not several) for one in field]
    if stopped:
        # One iteration, without the callback, makes a plan of the problem itself.
        last = field[0].advance(limits, field[0].n_outer + 1).descent
        return Found(dataclasses.replace(last, status=Status.STOPPED), False, Candidates())
    if not field[0].n_outer:
        _check_time(field[0].descent, problem, limits)
    label, known = field[0].label, [*rows, *tried]

    def save(descent):
        checkpoint.save(label=label, rows=known, **descent.export())

    kept = checkpoint is not None and checkpoint.path is not None
    watch = dict(callback=options.callback, save=save if kept else None)
    field = finish(field, limits, report, **watch)
    tie = tie or any(one.fate == "tie" for one in field)
    rows += _merged(tried, field)
    return Found(field[0].descent, tie, Candidates(rows if several else ()))


def descend(problem, start, options):
    """Return the `Descent` of a problem from one start, by options with a tier and a `Method`."""
    return search(problem, options, lambda event: None, [start]).descent


def _begun(level, higher, problem, options, report, starts):
    """Return the entrants that are left on the first level, the best first, rows of all, and
    whether another optimum is as good.
    """
    deadline, races, until = options.limits.deadline, starts is None, options.limits
    max_outer = until.max_outer
    if higher:
        until = until.before(UPDATES * work(problem) / work(level.problem))
    else:
        max_outer -= 1  # the winner makes the last iteration by itself
    at, schedule = level.linearization(options)
    further = ()
    if races:
        starts, further = _default(level, problem, options, report)
        schedule = annealed_early(schedule)
    if len(starts) == 1 and not further:
        return enter(starts, at, schedule, deadline, report), [], False
    field, rows, further = [], [], itertools.chain(starts, further)
    while not (field and field[0].is_late):
        entering = list(itertools.islice(further, MAX_FIELD - len(field)))
        if not entering:
            break
        try:
            field += enter(entering, at, schedule, deadline, report)
        except OutOfTime:
            if not field:
                raise
        field, dropped = race(field, until, report, max_outer=max_outer)
        rows += [one.row() for one in dropped]
    rows += [one.row() for one in field]
    escapes = races and problem.is_balanced and options.mechanisms.second_look
    escapes = escapes and max_outer >= 50 and not is_placed(level.problem, options.placement)
    # The winner is expected to settle.
    won = rows_of(rows, field[0], WON)
    sure = confidence_of(won, Status.CONVERGED) >= LEVEL and not options.search_time
    if not escapes or field[0].is_late or sure:
        return field, rows, False
    search, kinds = Escapes(field[0], rows, options, report), Evidence.of(won, None).kinds
    later = 0.5 * work(problem) / work(level.problem) if higher else 0.0
    plain = level.problem.is_plain and level.problem.x.symmetric and level.problem.y.symmetric
    clusters = is_factored(problem) or (min(problem.shape) >= 128 and plain)
    search.run(budget_of(search.best, later), clusters and kinds <= 1)
    if search.best.label == field[0].label:
        field = [search.best, *field[1:]]
    else:
        field = [search.best]
    return field, search.rows, search.is_tie


def _merged(rows, entrants):
    """Return the rows of a level, with the rows of entrants as these have ended."""
    ended = {one.label: one.row() for one in entrants}
    rows = [ended.pop(row.start, row) for row in rows]
    return [*rows, *ended.values()]


def _settled(field, level, problem, limits, **watch):
    """Return the entrants when they are ready for the next level, the best first."""
    far = limits.within(FLOAT32 if level.problem is problem else COARSE)
    most = max(limits.max_outer - 1, 1)
    far = dataclasses.replace(far, damps=limits.damps)
    far = far.before(UPDATES * work(problem) / work(level.problem))
    field = [one.advance(far, most, **watch) if one.is_moving else one for one in field]
    return sorted(field, key=lambda one: one.gw_cost)


def _promoted(one, at, schedule, level, before, keeps):
    """Return the entrant on the next level, which keeps its history if it `keeps`."""
    began, descent = time.perf_counter(), one.descent
    epsilon = schedule.last / at.cost_scale
    keeps = keeps and level.problem.shape == before.problem.shape
    if level.problem.shape == before.problem.shape:
        state = descent.start_for(at, epsilon)
    else:
        rows, cols = map(np.searchsorted, level.rows, before.rows)
        state = at.extended(descent.state, descent.linearization, rows, cols, epsilon)
    if not keeps:
        schedule = dataclasses.replace(schedule, first=schedule.last)
    new = Descent.at(at, state, schedule, after=descent if keeps else None)
    return Entrant(one.label, new, time.perf_counter() - began)


def _check_time(descent, problem, limits):
    """Raise OutOfTime unless an iteration of the problem ends at most half a second too late."""
    seconds = descent.update_seconds * work(problem) / work(descent.linearization.problem)
    limits.deadline.check(2 * seconds - 0.5)


def _default(level, problem, options, report):
    """Return the starts that race by default, and an iterator over further random starts."""
    part, seed, threads = level.problem, options.seed, options.threads(level.problem)
    if not part.is_balanced:
        balanced = balanced_start(options, report)
        # The product plan has no few neighbors to each row.
        return [balanced] if NeighborTier.of(options.tier) else [PRODUCT, balanced], ()
    n_random, few = options.n_starts, part.shape[0] * part.shape[1] <= MOST_EXACT
    if n_random is None and few and part.is_plain:
        known = [given(plan.astype(np.float32)) for plan in itertools.islice(isomorphisms(part), 2)]
        if known:
            named = [Start(f"isomorphism {k}", one.make) for k, one in enumerate(known, 1)]
            return [*named, PRODUCT], ()
    costs = part
    if is_factored(part) and not is_factored(problem):
        # Profiles of eigenvectors lead to optima that are 1 to 10 % higher.
        costs = problem if part.shape == problem.shape else problem.take(*level.rows)
        n_random = 1 if n_random is None else n_random
    deadline = options.limits.deadline
    starts, further = default_starts(part, threads, seed, n_random, costs=costs, deadline=deadline)
    return [*starts, *[exact_start(seed, deadline)] * few], further


def balanced_start(options, report):
    """Return the start from the best plan of the balanced problem of the same costs: from the
    product plan descents often leave out points which have a match.
    """

    def make(problem, n_threads):
        costs, auto = problem.replace(rule=problem.rule.balanced()), as_epsilon("auto")
        limit, tier = as_memory_limit(options.memory_limit), NeighborTier.of(options.tier)
        changed = dataclasses.replace(
            options,
            epsilon=auto if options.is_exact else options.epsilon,
            limits=options.limits.within(FLOAT32),
            mechanisms=dataclasses.replace(options.mechanisms, second_look=False),
            dtype="float32",
            memory_limit=limit,
            tier=tier or choose(costs, "auto", limit, n_threads),
            method=PGD,
            placement=None,
            checkpoint=None,
            callback=None,
        )
        try:
            found = search(costs, changed, report)
        except ValueError:  # an epsilon for float64 only
            found = search(costs, dataclasses.replace(changed, epsilon=auto), report)
        coupling = found.descent.coupling
        if coupling.form == "sparse":
            return SparseCoupling(coupling.csr * np.float32(problem.mass), coupling.n_threads)
        return problem.mass * coupling.toarray()

    return Start("balanced", make)

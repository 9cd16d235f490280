"""A solve from the lowest level to the whole problem: starts race on the first level, escapes look
for a lower optimum there, and the best goes on from level to level.
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
from ...quadratic.neighbors import NeighborTier
from ...results.coupling import SparseCoupling
from ...results.status import Ending
from ...results.tables import Candidate, Candidates
from ...utils.deadline import OutOfTime
from ...utils.progress import ProgressEvent
from .confidence import LEVEL, Evidence, confidence_of
from .exact import MOST_EXACT, exact_start
from .isomorphism import isomorphisms
from .levels import ladder
from .portfolio import WENT_ON, WON, Entrant, Escapes, annealed_early, enter, race, ranked
from .starts import PRODUCT, Start, given, profile_starts, random_starts

# Limits of the descents that lead to the next level, whose first iterations move plans by 10 to
# 20 %; and from float32 to float64.
COARSE = Limits(max_outer=1000, max_inner=1000, tol=5e-3, marginal_tol=1e-3)
FLOAT32 = Limits(max_outer=1000, max_inner=1000, tol=1e-4, marginal_tol=1e-4)
# Time of the first plan of a problem after another level, in updates of its plan.
UPDATES = 3
# Entrants of one race at most; further starts race against the best of the first ones.
MAX_FIELD = 64


class Found(NamedTuple):
    """The descent of the winner, whether another optimum is as good, and all that was tried."""

    descent: Descent
    is_tie: bool
    candidates: Candidates


def search(problem, options, report, starts=None):
    """Return what is `Found` from the best of some starts, None for the default starts on few
    points. OutOfTime if there is no time for a first plan of all points.
    """
    several, checkpoint = starts is None or len(starts) > 1, options.checkpoint
    # Damped steps may end above the lowest plan of a cycle, which a race compares.
    limits = dataclasses.replace(options.limits, damps=not several)
    level, *higher = ladder(problem, options, races=starts is None)
    saved = checkpoint and checkpoint.load()
    if saved is not None:
        level, higher = (higher or [level])[-1], []
        descent = Descent.restored(level.linearization(options)[0], saved)
        best, tie = Entrant(saved["label"], descent), saved["tie"]
        done, rows = ([Candidate(*row) for row in saved[part]] for part in ("done", "rows"))
    else:
        (best, rows, tie), done = _first(level, higher, problem, options, report, starts), []
    number, stopped = 0, False
    while higher:
        far = limits.within(FLOAT32 if level.problem is problem else COARSE)
        far = far.before(UPDATES * work(problem) / work(level.problem))
        far = dataclasses.replace(far, damps=limits.damps)
        callback = None if several else options.callback
        best.advance(far, max(limits.max_outer - 1, 1), callback)
        done += ranked(rows, best.ended(WENT_ON).row())
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
        rows = [best.row()]
    if stopped:
        # One iteration, without the callback, makes a plan of the problem itself.
        best.advance(limits, best.n_outer + 1)
        descent = dataclasses.replace(best.descent, status=Ending.STOPPED)
        return Found(descent, False, Candidates())
    if not best.n_outer:
        _check_time(best.descent, problem, limits)
    report(ProgressEvent("solve", f"solving from {best.label}"))

    def save(descent):
        checkpoint.save(label=best.label, done=done, rows=rows, tie=tie, **descent.export())

    keeps = checkpoint is not None and checkpoint.path is not None
    best.advance(limits, callback=options.callback, save=save if keeps else None)
    won = best.ended(WON).row()._replace(gw_cost=best.descent.objective)
    rows = [*done, *ranked(rows, won)] if several else ()
    return Found(best.descent, tie, Candidates(rows))


def descend(problem, start, options):
    """Return the `Descent` of a problem from one start, by options with a tier and a `Method`."""
    return search(problem, options, lambda event: None, [start]).descent


def _first(level, higher, problem, options, report, starts):
    """Return the best of the first level, all candidates, and whether another is as good."""
    deadline, races, limits = options.limits.deadline, starts is None, options.limits
    at, schedule = level.linearization(options)
    ratio = work(problem) / work(level.problem)
    if races:
        starts, schedule = _default(level, problem, options, report), annealed_early(schedule)
    until = limits.before(UPDATES * ratio) if higher else limits
    field, rows, starts = [], [], iter(starts)
    while entering := list(itertools.islice(starts, MAX_FIELD - len(field))):
        field += enter(entering, at, schedule, deadline, report)
        if not field:
            raise OutOfTime
        field, dropped = race(field, until, report)
        rows += [one.row() for one in dropped]
        if field[0].is_late:
            break
    best = field[0]
    rows.append(best.row())
    tie = any(row.fate == "tie" for row in rows)
    won = ranked(rows, best.ended(WON).row())
    # The winner is expected to settle.
    sure = confidence_of(won, Ending.CONVERGED) >= LEVEL and not options.search_time
    enough = limits.max_outer > 50 and options.tuning.second_look and problem.is_balanced
    if sure or not (races and enough) or best.is_late or is_placed(at.problem, options.placement):
        return best, rows, tie
    plain = at.problem.is_plain and at.problem.x.symmetric and at.problem.y.symmetric
    clusters = is_factored(problem) or (min(problem.shape) >= 128 and plain)
    clusters = clusters and Evidence.of(won, None).kinds <= 1
    escapes = Escapes(best, rows, options, report)
    escapes.run(0.5 * ratio if higher else 0.0, clusters)
    return escapes.best, escapes.rows, escapes.is_tie or (tie and escapes.best is best)


def _promoted(best, below, level, options, keeps):
    """Return the entrant on the next level, which keeps its history if it `keeps`."""
    began, descent = time.perf_counter(), best.descent
    at, schedule = level.linearization(options)
    epsilon = schedule.last / at.cost_scale
    if level.problem.shape == descent.problem.shape:
        state = descent.start_for(at, epsilon)
    else:
        keeps, (rows, cols) = False, map(np.searchsorted, level.rows, below)
        state = at.extended(descent.state, descent.linearization, rows, cols, epsilon)
    if not keeps:
        schedule = dataclasses.replace(schedule, first=schedule.last)
    new = Descent.at(at, state, schedule, after=descent if keeps else None)
    return Entrant(best.label, new, time.perf_counter() - began)


def _check_time(descent, problem, limits):
    """Raise OutOfTime unless an iteration of the problem ends at most half a second too late."""
    seconds = descent.update_seconds * work(problem) / work(descent.linearization.problem)
    limits.deadline.check(2 * seconds - 0.5)


def _default(level, problem, options, report):
    """Yield the starts that race by default."""
    part, seed, threads = level.problem, options.seed, options.threads(level.problem)
    if not part.is_balanced:
        if not NeighborTier.of(options.tier):  # the product plan has no few neighbors to each row
            yield PRODUCT
        yield _balanced_start(options, report)
        return
    n_random, few = options.n_starts, part.shape[0] * part.shape[1] <= MOST_EXACT
    if n_random is None and few and part.is_plain:
        plans = list(itertools.islice(isomorphisms(part), 2))
        for number, plan in enumerate(plans, 1):
            yield given(plan.astype(np.float32), f"isomorphism {number}")
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
    if few:
        yield exact_start(seed, deadline)
    yield from random_starts(part, seed, n_random)


def _balanced_start(options, report):
    """Return the start from the best plan of the balanced problem of the same costs: from the
    product plan descents often leave out points which have a match.
    """

    def plan(problem, n_threads):
        costs = problem.replace(rule=problem.rule.balanced())
        changed = dataclasses.replace(
            options,
            limits=options.limits.within(FLOAT32),
            tuning=dataclasses.replace(options.tuning, second_look=False),
            dtype="float32",
            placement=None,
            checkpoint=None,
            callback=None,
        )
        try:
            found = search(costs, changed, report)
        except ValueError:  # an epsilon for float64 only
            auto = dataclasses.replace(changed, epsilon=as_epsilon("auto"))
            found = search(costs, auto, report)
        coupling = found.descent.coupling
        if coupling.form == "sparse":
            return SparseCoupling(coupling.csr * np.float32(problem.mass), coupling.n_threads)
        return problem.mass * coupling.toarray()

    return Start("balanced", plan)

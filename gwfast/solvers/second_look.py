"""What the search does where its race is not sure: starts from coarse clusters race
against one another, on few points, and the best of them is compared with the winner,
until two starts have met at the lowest objective.
"""

import dataclasses

import numpy as np

from ..problems.epsilon import Schedule
from ..quadratic.factory import is_factored, linearize
from ..results.candidates import Candidates
from ..results.status import Status
from ..utils.deadline import OutOfTime
from ..utils.precision import SINGLE
from ..utils.progress import ProgressEvent
from .agreement import is_sure
from .clusters import cluster_starts
from .contestants import Contestant, Standing, candidates_from_starts, promote
from .diagnosis import conclude
from .levels import level_sizes, needs, points_first
from .race import (
    RACE,
    TIE,
    as_good,
    check_time,
    finish,
    same_state,
    successive_halving,
)

# Clusterings that are tried at most, and starts of each that race. Italian and Japanese
# took the third to come to the lowest optimum, digits (pixels against edges) and
# Spanish and English with noise the first.
LOOKS, N_STARTS = 3, 4
# Outer iterations after which contestants of different races are compared: what led to
# the lowest optimum took up to 170.
MAX_TRIED = 200
# The multiple of epsilon that starts from clusters begin with, and by which factor that
# is lowered: of digits the profiles, which had not led to the lowest optimum at a fixed
# epsilon, did so.
HOT, SLOWLY = 3.0, 0.95
# How far a contestant goes before it is compared with those of other races.
FAR = dataclasses.replace(RACE, max_outer=MAX_TRIED)
WENT_ON, LOST = "went on", "lost"


def suits(problem, options):
    """Whether there is one: of point clouds, where there is room."""
    return is_factored(problem) and has_room(problem, options)


def has_room(problem, options):
    """Whether a second solve fits beside one: in float32, in the dense tier."""
    if options.tier != "dense" or options.precision is not SINGLE:
        return False
    if options.is_placed(problem):
        return False
    once = needs(problem, options.threads(problem), races=False)["dense"]
    return 2 * once <= options.memory_limit


def winner_of(candidates):
    """What the one started from that has won."""
    return next((row.start for row in reversed(candidates) if row.fate == "won"), "")


def without_winner(candidates):
    """Candidates of which none has won any more."""
    return [
        row._replace(fate="lost") if row.fate == "won" else row for row in candidates
    ]


def second_look(problem, solution, result, options, report):
    """The `GWResult` with the lowest objective: that of the race, whose winner has this
    `Solution`, or where that `is_sure` of nothing and it `suits`, from clusters.
    """
    ended = result.status in (Status.STOPPED, Status.TIME_LIMIT)
    ended = ended or not options.mechanisms.second_look
    if ended or is_sure(result.candidates) or not suits(problem, options):
        return result
    rows, part = _few(problem, options)
    kind = dict(mechanisms=options.mechanisms)
    linearization = linearize(part, options.threads(part), **kind)
    epsilon = options.epsilon.resolve(linearization).last
    before = solution.linearization
    first = Contestant.at_start(
        winner_of(result.candidates),
        linearization,
        Schedule(epsilon, epsilon),
        lambda fork: fork.start_from(before, *rows),
    )
    # It is at its end, or near it: what it lacks there would pass for another optimum.
    most = min(MAX_TRIED, options.limits.max_outer)
    first = first.advance(dataclasses.replace(options.limits, max_outer=most))
    best, tried = _best_of_looks(first, linearization, epsilon, options, report)
    candidates = Candidates([*result.candidates, *tried])
    result = dataclasses.replace(result, candidates=candidates)
    if best is first:
        return result
    return _gone_on(problem, best, rows, result, options, report)


def _few(problem, options):
    """Rows of both sides, as many as the first level of a race has, and the problem of
    these.
    """
    size = [*level_sizes(problem, options.tier), max(problem.shape)][0]
    sides = (problem.x, problem.p), (problem.y, problem.q)
    rows = [np.sort(points_first(*side, options.order)[:size]) for side in sides]
    return rows, problem.take(*rows)


def _best_of_looks(best, linearization, epsilon, options, report):
    """The contestant with the lowest objective, the best so far or one from clusters,
    and a `Candidate` of each that was tried.
    """
    limits, tried = options.limits, []
    for seed in range(options.seed, options.seed + LOOKS):
        report(ProgressEvent("start", f"clusters {seed}", seed - options.seed))
        try:
            standing = _raced(linearization, epsilon, seed, limits, report)
        except OutOfTime:
            break
        if standing is None or standing.is_late:
            break
        one, *others = standing.left
        one = one.advance(limits.within(FAR))
        near = as_good(one, best, TIE) and as_good(best, one, TIE)
        met, lower = near and same_state(one, best), one.gw_cost < best.gw_cost
        fate = f"same as {best.label}" if met else WENT_ON if lower else LOST
        ended = [one.ended(fate), *(other.ended(LOST) for other in others)]
        tried += standing.dropping([], ended).records()
        if met:
            break
        best = one if lower else best
    gone_on = (row.fate == WENT_ON and row.start != best.label for row in tried)
    tried = [
        row._replace(fate=LOST) if late else row
        for row, late in zip(tried, gone_on, strict=True)
    ]
    return best, tried


def _raced(linearization, epsilon, seed, limits, report):
    """The `Standing` at the end of a race from clusters, or None of too few points."""
    problem, given = linearization.problem, (report, limits.deadline)
    starts = cluster_starts(problem, epsilon, seed, N_STARTS, limits.deadline)
    if not starts:
        return None
    schedule = Schedule(epsilon, HOT * epsilon, SLOWLY)
    field = candidates_from_starts(linearization, schedule, starts, *given)
    return successive_halving(Standing.at_start(field), RACE.max_outer, limits, report)


def _gone_on(problem, best, rows, result, options, report):
    """The `GWResult` of all points from the best on a few, if that is lower."""
    try:
        check_time(best, problem, options.limits)
    except OutOfTime:
        return result
    kind = dict(mechanisms=options.mechanisms)
    linearization = linearize(problem, options.threads(problem), **kind)
    schedule = options.epsilon.resolve(linearization)
    one = promote(best, linearization, schedule, rows, alone=True)
    standing = Standing.at_start([one])
    standing = finish(standing, options.limits, options.callback, report)
    made = conclude(standing.left[0].solution, False, options.limits)
    lower = made.gw_cost < result.gw_cost
    ours, theirs = standing.records(), list(result.candidates)
    if lower:
        result, theirs = made, without_winner(theirs)
    else:
        ours = without_winner(ours)
    return dataclasses.replace(result, candidates=Candidates([*theirs, *ours]))

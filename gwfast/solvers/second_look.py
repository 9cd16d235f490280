"""What the search does where its race is not sure: starts from coarse clusters race
against one another, and the best of them against the winner, until two starts have met
at the lowest objective.
"""

import dataclasses

import numpy as np

from ..problems.epsilon import Schedule
from ..quadratic.factory import linearize
from ..results.candidates import Candidates
from ..results.status import Status
from ..utils.deadline import OutOfTime
from ..utils.progress import ProgressEvent
from .agreement import is_sure
from .clusters import HOT, cluster_starts
from .contestants import Contestant, Standing, candidates_from_starts, promote
from .diagnosis import conclude
from .levels import level_sizes
from .race import (
    RACE,
    TIE,
    as_good,
    finish,
    points_first,
    same_state,
    successive_halving,
)
from .thorough import MAX_TRIED, SLOWLY, suits

# Clusterings that are tried at most, by search, and starts of each that race.
LOOKS = {"fast": 3, "thorough": 8}
N_STARTS = 4


def second_look(problem, solution, result, options, report):
    """The `GWResult` with the lowest objective: that of the race, whose winner has this
    `Solution`, or where that `is_sure` of nothing and it `suits`, of starts from
    clusters.
    """
    ended = result.status in (Status.STOPPED, Status.TIME_LIMIT)
    if ended or is_sure(result.candidates) or not suits(problem, options):
        return result
    try:
        return _looked(problem, solution, result, options, report)
    except OutOfTime:
        return result


def _looked(problem, solution, result, options, report):
    rows, part = _few(problem, options)
    threads, limits = options.threads(part), options.limits
    linearization = linearize(part, threads)
    epsilon = options.epsilon.resolve(linearization).last
    label = next(row.start for row in result.candidates[::-1] if row.fate == "won")
    far = dataclasses.replace(RACE, max_outer=MAX_TRIED)
    before, last = solution.linearization, Schedule(epsilon, epsilon)
    best = Contestant.at_start(
        label, linearization, last, lambda fork: fork.start_from(before, *rows)
    ).advance(limits.within(far))
    first, tried = best, []
    for number in range(LOOKS[options.search]):
        seed = options.seed + number
        report(ProgressEvent("start", f"clusters {seed}", number))
        starts = cluster_starts(part, epsilon, seed, N_STARTS, limits.deadline)
        if not starts:
            break
        schedule = Schedule(epsilon, HOT * epsilon, SLOWLY)
        field = candidates_from_starts(
            linearization, schedule, starts, report, limits.deadline
        )
        standing = Standing.at_start(field)
        standing = successive_halving(standing, RACE.max_outer, limits, report)
        one = standing.left[0].advance(limits.within(far))
        met = as_good(one, best, TIE) and as_good(best, one, TIE)
        if met and same_state(one, best):
            ended = one.ended(f"same as {best.label}")
        elif one.gw_cost < best.gw_cost:
            ended, met = one.ended("went on"), False
            best = ended
        else:
            ended, met = one.ended("lost"), False
        others = [other.ended("lost") for other in standing.left[1:]]
        tried += standing.dropping([ended], others).records()
        if met:
            break
    result = dataclasses.replace(
        result, candidates=Candidates([*result.candidates, *tried])
    )
    if best is first:
        return result
    return _gone_on(problem, best, rows, result, options, report)


def _few(problem, options):
    """Rows of both sides, as many as the first level of a race has, and the problem of
    these.
    """
    sizes = [*level_sizes(problem, "dense"), max(problem.shape)]
    sides = (problem.x, problem.p), (problem.y, problem.q)
    rows = [points_first(*side, options.order)[: sizes[0]] for side in sides]
    rows = [np.sort(some) for some in rows]
    return rows, problem.take(*rows)


def _gone_on(problem, best, rows, result, options, report):
    """The `GWResult` of all points from the best on a few, if that is lower."""
    linearization = linearize(problem, options.threads(problem))
    schedule = options.epsilon.resolve(linearization)
    one = promote(best, linearization, schedule, rows, alone=True)
    standing = finish(Standing.at_start([one]), options.limits, options.callback, report)
    solution, rows = standing.left[0].solution, list(result.candidates)
    made = conclude(solution, False, options.limits)
    if made.gw_cost < result.gw_cost:
        rows = [row._replace(fate="lost") if row.fate == "won" else row for row in rows]
        result = made
        rows += standing.records()
    else:
        rows += [row._replace(fate="lost") for row in standing.records()]
    return dataclasses.replace(result, candidates=Candidates(rows))

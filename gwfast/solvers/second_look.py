"""Search for an optimum below the winner of a race that is not sure, on few points: by starts from
coarse clusters, and by escapes from the winner. The best goes on to all points.
"""

import dataclasses

import numpy as np

from ..problems.epsilon import Schedule
from ..problems.losses import LOSSES
from ..quadratic.factory import is_factored, linearize
from ..results.status import Status
from ..results.tables import Candidates
from ..utils.deadline import OutOfTime
from ..utils.precision import SINGLE
from .agreement import LEVEL, confidence_of, costs_nothing, is_sure, winner_of
from .contestants import Contestant, Standing, promote
from .diagnosis import conclude
from .further_search import ENTRIES, MOST, SOLVES, FurtherSearch, without_winner
from .levels import fits, level_sizes, points_first
from .race import check_time, finish

# Points a side of matrices of costs from which on there are starts from clusters.
MIN_POINTS = 128


def has_room(problem, options):
    """Whether two more solves, as much as a second one takes with its plans, fit beside
    one, in float32 and in the dense tier.
    """
    single = options.precision is SINGLE
    if options.tier != "dense" or not single or options.is_placed(problem):
        return False
    return fits(problem, options, times=3, races=False)


def second_look(problem, solution, result, options, report):
    """The `GWResult` with the lowest objective: that of the race, from the `Solution` of its
    winner, or one that is found from there. Only a race under given marginals has a second look.
    """
    ended = result.status in (Status.STOPPED, Status.TIME_LIMIT)
    wanted = options.mechanisms.second_look and problem.is_balanced
    if ended or not wanted or costs_nothing(result.candidates):
        return result
    sure = confidence_of(result.candidates, result.status) >= LEVEL
    if (sure and not options.search_time) or not has_room(problem, options):
        return result
    # As many points as the first level of a race has.
    size = [*level_sizes(problem, options.tier), max(problem.shape)][0]
    rows = [np.sort(order[:size]) for order in points_first(problem, options.order)]
    part = problem.take(*rows)
    kind = dict(mechanisms=options.mechanisms)
    linearization = linearize(part, options.threads(part), **kind)
    epsilon = options.epsilon.resolve(linearization).last
    winner = winner_of(result.candidates)
    first = Contestant.at_start(
        winner,
        linearization,
        Schedule(epsilon, epsilon),
        lambda fork: _start_from(fork, solution.linearization, rows),
    )
    solve = sum(
        row.n_outer * (row.n_points / max(part.shape)) ** 2
        for row in result.candidates
        if row.start == winner
    )
    few = min(ENTRIES[is_factored(problem)] / max(part.shape) ** 2, MOST)
    budget = max(SOLVES[is_factored(problem)] * solve, few)
    search = FurtherSearch(first, result.candidates, options, report, budget)
    clusters, doubted = _has_clusters(problem), not is_sure(result.candidates)
    search.run(clusters=clusters, doubted=doubted)
    candidates = Candidates([*result.candidates, *search.records()])
    result = dataclasses.replace(result, candidates=candidates)
    if search.best is search.first:
        if search.is_tie and result.status == Status.CONVERGED:
            tie = dict(status=Status.TIE, advice=Status.TIE.advice)
            result = dataclasses.replace(result, **tie)
        return result
    return _with_all_points(problem, search, rows, result, options, report)


def _has_clusters(problem):
    """Whether starts from clusters are those of the problem."""
    if is_factored(problem) or min(problem.shape) < MIN_POINTS:
        return is_factored(problem)
    plain = problem.is_plain and LOSSES[problem.loss].keeps_factors
    return plain and problem.x.symmetric and problem.y.symmetric


def _start_from(fork, whole, rows):
    """Set the state to that of the same problem with more points, among which those of
    the fork are `rows`; returns the objective.
    """
    if is_factored(fork.problem):
        return fork.start_from(whole, *rows)
    plan = whole.state[np.ix_(*rows)]
    return fork.start(plan / plan.sum())


def _with_all_points(problem, search, rows, result, options, report):
    """The `GWResult` of all points from the best contestant of a search on some rows,
    if its objective is lower.
    """
    best = search.best
    try:
        check_time(best, problem, options.limits)
    except OutOfTime:
        return result
    kind = dict(mechanisms=options.mechanisms)
    linearization = linearize(problem, options.threads(problem), **kind)
    schedule = options.epsilon.resolve(linearization)
    one = promote(best, linearization, schedule, rows, alone=True)
    standing = Standing().with_field([one])
    standing = finish(standing, options.limits, options.callback, report)
    made = conclude(standing.left[0].solution, search.is_tie, options.limits)
    ours, theirs = standing.records(), list(result.candidates)
    if made.gw_cost < result.gw_cost:
        result, theirs = made, without_winner(theirs)
    else:
        ours = without_winner(ours)
    return dataclasses.replace(result, candidates=Candidates([*theirs, *ours]))

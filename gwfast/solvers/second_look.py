"""A second search where the race is not sure of its winner: starts from coarse clusters
race on few points, and the best of them is compared with the winner, until two searches
end in the same lowest optimum.
"""

import dataclasses

import numpy as np

from ..problems.epsilon import Schedule
from ..problems.losses import LOSSES
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
from .levels import fits, level_sizes, points_first
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
# need the third clustering for the lowest optimum; digits (pixels against edges), and
# Spanish and English with noise, the first.
N_CLUSTERINGS, N_STARTS = 3, 4
# Points a side of matrices of costs from which on there is a second look.
MIN_POINTS = 128
# Outer iterations after which winners of different races are compared: candidates that
# lead to the lowest optimum take up to 170.
MAX_COMPARED = 200
# Starts from clusters are annealed: the first epsilon, as a multiple of the last one,
# and the factor that lowers it. The profiles of digits lead to the lowest optimum only
# with annealing.
FIRST_EPSILON, COOLING = 3.0, 0.95
WENT_ON, LOST = "went on", "lost"


def has_room(problem, options):
    """Whether a second solve fits beside one, in float32 and in the dense tier."""
    if options.tier != "dense" or options.precision is not SINGLE:
        return False
    if options.is_placed(problem):
        return False
    return fits(problem, options, times=2, races=False)


def without_winner(candidates):
    """The candidates, with the fate "lost" for a winner."""
    return [row._replace(fate=LOST) if row.fate == "won" else row for row in candidates]


def _clusters(problem):
    """Whether starts from clusters are those of the problem."""
    plain = problem.is_plain and LOSSES[problem.loss].keeps_factors
    if is_factored(problem) or not plain:
        return is_factored(problem)
    many = min(problem.shape) >= MIN_POINTS
    return many and problem.x.symmetric and problem.y.symmetric


def second_look(problem, solution, result, options, report):
    """The `GWResult` with the lowest objective: that of the race, from the `Solution`
    of its winner, or one from clusters. Only an unsure race of two point clouds under
    given marginals has a second look.
    """
    ended = result.status in (Status.STOPPED, Status.TIME_LIMIT)
    wanted = options.mechanisms.second_look and problem.is_balanced
    if ended or not (wanted and _clusters(problem)) or is_sure(result.candidates):
        return result
    if not has_room(problem, options):
        return result
    # As many points as the first level of a race has.
    size = [*level_sizes(problem, options.tier), max(problem.shape)][0]
    rows = [np.sort(order[:size]) for order in points_first(problem, options.order)]
    part = problem.take(*rows)
    kind = dict(mechanisms=options.mechanisms)
    linearization = linearize(part, options.threads(part), **kind)
    epsilon = options.epsilon.resolve(linearization).last
    winners = [row.start for row in result.candidates if row.fate == "won"]
    first = Contestant.at_start(
        winners[-1] if winners else "",
        linearization,
        Schedule(epsilon, epsilon),
        lambda fork: _start_from(fork, solution.linearization, rows),
    )
    # Under the limits of the result: a rougher solution would pass for a lower optimum.
    most = min(MAX_COMPARED, options.limits.max_outer)
    first = first.advance(dataclasses.replace(options.limits, max_outer=most))
    best, tried = _best_of_clusterings(first, linearization, epsilon, options, report)
    candidates = Candidates([*result.candidates, *tried])
    result = dataclasses.replace(result, candidates=candidates)
    if best is first:
        return result
    return _with_all_points(problem, best, rows, result, options, report)


def _start_from(fork, whole, rows):
    """Set the state to that of the same problem with more points, among which those of
    the fork are `rows`; returns the objective.
    """
    if is_factored(fork.problem):
        return fork.start_from(whole, *rows)
    plan = whole.state[np.ix_(*rows)]
    return fork.start(plan / plan.sum())


def _best_of_clusterings(best, linearization, epsilon, options, report):
    """The contestant with the lowest objective, the best so far or one from clusters,
    and a `Candidate` of each that was tried.
    """
    limits, tried = options.limits, []
    schedule = Schedule(epsilon, FIRST_EPSILON * epsilon, COOLING)
    far = limits.within(dataclasses.replace(RACE, max_outer=MAX_COMPARED))
    for seed in range(options.seed, options.seed + N_CLUSTERINGS):
        report(ProgressEvent("start", f"clusters {seed}", seed - options.seed))
        try:
            given = epsilon, seed, N_STARTS, limits.deadline
            starts = cluster_starts(linearization.problem, *given)
            if not starts:
                break
            given = schedule, starts, report, limits.deadline
            field = candidates_from_starts(linearization, *given)
            standing = Standing().with_field(field)
            standing = successive_halving(standing, RACE.max_outer, limits, report)
        except OutOfTime:
            break
        if standing.is_late:
            break
        one, *others = standing.left
        one = one.advance(far)
        equal = as_good(one, best, TIE) and as_good(best, one, TIE)
        same, lower = equal and same_state(one, best), one.gw_cost < best.gw_cost
        fate = f"same as {best.label}" if same else WENT_ON if lower else LOST
        others = [other.with_outcome(LOST) for other in others]
        standing = standing.dropping([], [one.with_outcome(fate), *others])
        tried += standing.records()
        if same:
            break
        best = one if lower else best
    # Of all contestants that were the best for a time, only the last goes on.
    return best, [
        row._replace(fate=LOST)
        if row.fate == WENT_ON and row.start != best.label
        else row
        for row in tried
    ]


def _with_all_points(problem, best, rows, result, options, report):
    """The `GWResult` of all points from the best contestant on some rows, if its
    objective is lower.
    """
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
    made = conclude(standing.left[0].solution, False, options.limits)
    ours, theirs = standing.records(), list(result.candidates)
    if made.gw_cost < result.gw_cost:
        result, theirs = made, without_winner(theirs)
    else:
        ours = without_winner(ours)
    return dataclasses.replace(result, candidates=Candidates([*theirs, *ours]))

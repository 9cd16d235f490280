"""The search that goes on after the race, with epsilon lowered slowly: from a broad
profile, from the product plan, which races drop early for its slow way, and, where the
race is not sure, from what point clouds teach themselves, until two starts have met at
the lowest objective.
"""

import dataclasses
import time

from ..quadratic.factory import is_factored, placement_of
from ..results.candidates import Candidate, Candidates
from ..results.status import Status
from ..utils.deadline import OutOfTime
from ..utils.precision import SINGLE
from ..utils.progress import ProgressEvent
from .agreement import is_sure, kind_of
from .checkpoint import NOT_KEPT
from .diagnosis import conclude
from .levels import needs
from .self_learning import SelfLearning
from .stages import descend
from .starts import Given, Product, Profile, Shared

# Seeds that are tried at most, and the relative difference of objectives below which
# two starts have met.
MAX_LEARNERS, MET = 4, 1e-3
# Outer iterations after which who is behind the best is given up: what led to the
# lowest optimum took up to 170.
MAX_TRIED = 200
# Width of the profiles that are tried; and of every start the multiple of epsilon that
# it begins with, and by which factor that is lowered. Of Spanish and French, 1000 words
# with noise, the product plan led to 8 % above the lowest optimum at a fixed epsilon,
# to 0.3 % so; of digits the profiles, which had not led there, did.
BROAD, HOT, SLOWLY = 0.2, 3.0, 0.95


def suits(problem, options):
    """Whether the search can be thorough: of point clouds, where there is room."""
    return is_factored(problem) and has_room(problem, options)


def has_room(problem, options):
    """Whether a second solve fits beside one: in float32, in the dense tier."""
    if options.tier != "dense" or options.precision is not SINGLE:
        return False
    if placement_of(problem) is not None:
        return False
    once = needs(problem, options.threads(problem), races=False)["dense"]
    return 2 * once <= options.memory_limit


def thorough(problem, result, options, report):
    """The `GWResult` with the lowest objective: that of the race, or one from a
    profile, the product plan or, where the race is not sure, `SelfLearning`, where it
    `suits`.
    """
    if not suits(problem, options):
        return result
    starts = [Profile(BROAD), Product()]
    if not is_sure(result.candidates):
        starts += [SelfLearning(options.seed + k) for k in range(MAX_LEARNERS)]
    options = dataclasses.replace(options, epsilon=_annealed(options.epsilon))
    return lowest(problem, result, starts, options, report)


def _annealed(epsilon):
    """The epsilon from above, unless it comes from there already."""
    if epsilon.anneal_from > 1:
        return epsilon
    return dataclasses.replace(epsilon, anneal_from=HOT, anneal_by=SLOWLY)


def lowest(problem, result, starts, options, report):
    """The `GWResult` with the lowest objective: that of the race, or one from other
    starts, until one has met the best so far.
    """
    candidates, best, found = list(result.candidates), result, None
    winner = winner_of(candidates)
    for k, start in enumerate(starts):
        report(ProgressEvent("start", f"start {k + 1} of {len(starts)}: {start}", k))
        made = _tried(problem, start, options, best)
        if made is None:  # out of time
            break
        begin, one = made
        met = abs(one.gw_cost - best.gw_cost) <= MET * abs(best.gw_cost)
        lower = one.gw_cost < best.gw_cost and not met
        candidates.append(_candidate(start, problem, one, "lost"))
        if lower:
            found, best, winner = (len(candidates) - 1, begin), one, str(start)
        elif met:
            candidates[-1] = candidates[-1]._replace(fate=f"same as {winner}")
            # Two of one kind may err together; other seeds only cost more time.
            if start.is_random or kind_of(str(start)) != kind_of(winner):
                break
    if found is not None:
        number, begin = found
        candidates = without_winner(candidates)
        candidates[number] = candidates[number]._replace(fate="won")
        if options.callback is not None and not options.limits.deadline.passed():
            # The same steps again, for it to see.
            kept = dataclasses.replace(options, checkpoint=NOT_KEPT)
            solution = descend(problem, begin, kept)
            best = conclude(solution, False, options.limits)
    return dataclasses.replace(best, candidates=Candidates(candidates))


def winner_of(candidates):
    """What the one started from that has won."""
    return next((row.start for row in reversed(candidates) if row.fate == "won"), "")


def without_winner(candidates):
    """Candidates of which none has won any more."""
    return [
        row._replace(fate="lost") if row.fate == "won" else row for row in candidates
    ]


def _tried(problem, start, options, best):
    """What to begin with and the `GWResult` from there, at its end if it may be better
    than the best; or None where time is up.
    """
    began, threads = time.perf_counter(), options.threads(problem)
    limits = options.limits
    first = dataclasses.replace(limits, max_outer=min(MAX_TRIED, limits.max_outer))
    quiet = dataclasses.replace(options, checkpoint=NOT_KEPT, callback=None)
    try:
        if not isinstance(start, Product):
            shared = Shared(deadline=limits.deadline)
            start = Given(start.plan(problem, threads, shared))
        for some in (first, limits):
            given = dataclasses.replace(quiet, limits=some)
            result = conclude(descend(problem, start, given), False, some)
            behind = result.gw_cost > (1 + MET) * best.gw_cost
            if behind or result.status != Status.MAX_OUTER:
                break
    except OutOfTime:
        return None
    seconds = time.perf_counter() - began
    return start, dataclasses.replace(result, seconds=seconds)


def _candidate(start, problem, result, fate):
    return Candidate(
        start=str(start),
        n_points=max(problem.shape),
        epsilon=result.epsilon,
        gw_cost=result.gw_cost,
        n_outer=result.n_outer,
        seconds=result.seconds,
        fate=fate,
    )

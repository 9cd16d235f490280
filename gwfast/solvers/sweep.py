"""Many epsilons, from large to small, each from the plan of the one before.

A search finds the valley at the largest epsilon, where there are few; its bottom moves
little from one epsilon to the next, and following it takes a tenth of a search or less.
"""

import dataclasses
import operator
import time
from typing import NamedTuple

import numpy as np

from ..kernels.threads import single_threaded_blas
from ..quadratic.factory import is_factored, linearize
from ..results.result import GWResult
from ..results.status import Status
from ..results.tables import Candidate, Candidates
from ..utils.memory import as_memory_limit
from ..utils.progress import ProgressListener, reporting
from .further_search import without_winner
from .gromov import solve
from .second_look import has_room
from .starts import Given

# Outer iterations for following a plan from one epsilon to the next. Of 93 points with
# noise, at eight epsilons over factors of 10 to 200, none takes more than 33. The limit
# is for cycles: a fifth of the iterations that a search has by default.
MAX_FOLLOWED = 200


class _Found(NamedTuple):
    """The result at an epsilon, whether a search made it, and the number of its key."""

    result: GWResult
    searched: bool
    value: float


VALUE = operator.attrgetter("value")


def sweep(problem, epsilons, search, key, options):
    """The `GWResult` whose ``key(result)`` is lowest, by a ``search(problem, options)``
    at the largest epsilon and at the one that wins; see `tune_epsilon`.
    """
    began, found, rows = time.perf_counter(), [], []
    with single_threaded_blas(), reporting(options.progress) as report:
        values = _large_to_small(problem, epsilons, options)

        def solved(number, before):
            """The `_Found` at an epsilon, by following the plan of the result before or
            by a search; None when time is up for more than the first.
            """

            def told(event):
                text = f"epsilon {number + 1} of {len(values)}, {event.text}"
                report(event._replace(text=text, done=number, total=len(values)))

            epsilon, last = values[number]
            own = dataclasses.replace(options, progress=ProgressListener(told))
            follows = _can_follow(problem, before, options)
            if follows:
                result = _followed(problem, before, last, own)
            else:
                result = search(problem, dataclasses.replace(own, epsilon=epsilon))
            if found and result.status == Status.TIME_LIMIT:
                return None
            return _Found(result, not follows, _number(key(result)))

        late = False
        for number in range(len(values)):
            one = solved(number, found[-1].result if found else None)
            if one is None:
                late = True
                break
            found.append(one)
            rows.append(one.result.candidates)
        best = min(found, key=VALUE)
        if not (late or best.searched):
            number = found.index(best)
            again = solved(number, None)
            late = again is None
            if not late:
                best, other = sorted((best, again), key=VALUE)
                lost = without_winner(other.result.candidates)
                rows[number] = [*lost, *best.result.candidates]
    ended = dict(status=Status.TIME_LIMIT, advice=Status.TIME_LIMIT.advice)
    return dataclasses.replace(
        best.result,
        candidates=Candidates(row for several in rows for row in several),
        seconds=time.perf_counter() - began,
        **(ended if late else {}),
    )


def _can_follow(problem, before, options):
    """Whether the result before has matched something, and there is room for its plan
    beside another.
    """
    if before is None or before.status == Status.NEAR_PRODUCT:
        return False
    kind = dict(tier="dense", memory_limit=as_memory_limit(options.memory_limit))
    return has_room(problem, dataclasses.replace(options, **kind))


def _followed(problem, before, epsilon, options):
    """The result at a value of epsilon from the plan of another."""
    most = min(options.limits.max_outer, MAX_FOLLOWED)
    limits = dataclasses.replace(options.limits, max_outer=most)
    given = dict(epsilon=epsilon, init=Given(before.plan), limits=limits)
    result = solve(problem, dataclasses.replace(options, **given))
    row = Candidate(
        start=f"epsilon {before.epsilon:.3g}",
        n_points=max(problem.shape),
        epsilon=result.epsilon,
        gw_cost=result.gw_cost,
        n_outer=result.n_outer,
        seconds=result.seconds,
        fate="won",
    )
    return dataclasses.replace(result, candidates=Candidates([row]))


def _large_to_small(problem, epsilons, options):
    """Pairs of an `Epsilon` and its final value for the problem."""
    tier = "tiled" if is_factored(problem) else "dense"
    given = problem, options.threads(problem), tier
    linearization = linearize(*given, placement=options.placement)
    pairs = [(one, one.resolve(linearization).last) for one in epsilons]
    return sorted(pairs, key=lambda pair: -pair[1])


def _number(value):
    """The number that `key` returned; NaN is worse than any."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        came = type(value).__name__
        raise TypeError(f"key must return a number, got {came}") from None
    return np.inf if np.isnan(value) else value

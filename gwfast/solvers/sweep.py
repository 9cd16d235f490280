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
from ..results.candidates import Candidate, Candidates
from ..results.result import GWResult
from ..results.status import Status
from ..utils.memory import as_memory_limit
from ..utils.progress import ProgressListener, reporting
from .gromov import solve
from .second_look import has_room, without_winner
from .starts import Given

# Outer iterations for following a plan from one epsilon to the next. Of 93 points with
# noise, at eight epsilons over factors of 10 to 200, none took more than 33. One that
# goes in cycles is left after a fifth of the iterations that a search has by default.
MAX_FOLLOWED = 200


def sweep(problem, epsilons, search, key, options):
    """The `GWResult` whose ``key(result)`` is lowest, by a ``search(problem, options)``
    at the largest epsilon and at the one that wins; see `tune_epsilon`.
    """
    began, found, rows = time.perf_counter(), [], []
    with single_threaded_blas(), reporting(options.progress) as report:
        values = _large_to_small(problem, epsilons, options)
        steps = _Steps(problem, search, options, report, len(values))
        for number, (epsilon, last) in enumerate(values):
            one = steps.next(number, epsilon, last, found)
            if found and one.result.status == Status.TIME_LIMIT:
                break
            found.append(one._replace(value=_number(key(one.result))))
            rows.append(one.result.candidates)
        late, best = len(found) < len(values), min(found, key=VALUE)
        if not (late or best.searched):
            at = found.index(best)
            again = steps.next(at, values[at][0], None, [])
            late = again.result.status == Status.TIME_LIMIT
            if not late:
                again = again._replace(value=_number(key(again.result)))
                best, other = sorted((best, again), key=VALUE)
                behind = without_winner(other.result.candidates)
                rows[at] = [*behind, *best.result.candidates]
    ended = dict(status=Status.TIME_LIMIT, advice=Status.TIME_LIMIT.advice)
    return dataclasses.replace(
        best.result,
        candidates=Candidates(row for several in rows for row in several),
        seconds=time.perf_counter() - began,
        **(ended if late else {}),
    )


class _Found(NamedTuple):
    """What there is at an epsilon, whether by a search, and what the key says of it."""

    result: GWResult
    searched: bool
    value: float = np.inf


VALUE = operator.attrgetter("value")


@dataclasses.dataclass(frozen=True, eq=False)
class _Steps:
    """The solves of a sweep of so many epsilons."""

    problem: object
    search: object
    options: object
    report: object
    total: int

    def next(self, number, epsilon, last, found):
        """The `_Found` at an epsilon, whose final value is `last`: from the last plan
        that was found, or by a search where that had not matched anything.
        """
        options = dataclasses.replace(self.options, progress=self._told(number))
        before = found[-1].result if found else None
        if before is None or before.status == Status.NEAR_PRODUCT or not self._follows:
            options = dataclasses.replace(options, epsilon=epsilon)
            return _Found(self.search(self.problem, options), True)
        most = min(options.limits.max_outer, MAX_FOLLOWED)
        limits = dataclasses.replace(options.limits, max_outer=most)
        given = dict(epsilon=last, init=Given(before.plan), limits=limits)
        result = solve(self.problem, dataclasses.replace(options, **given))
        row = Candidate(
            start=f"epsilon {before.epsilon:.3g}",
            n_points=max(self.problem.shape),
            epsilon=result.epsilon,
            gw_cost=result.gw_cost,
            n_outer=result.n_outer,
            seconds=result.seconds,
            fate="won",
        )
        return _Found(dataclasses.replace(result, candidates=Candidates([row])), False)

    @property
    def _follows(self):
        """Whether there is room for the plan of one epsilon beside another's."""
        limit = as_memory_limit(self.options.memory_limit)
        given = dict(tier="dense", memory_limit=limit)
        return has_room(self.problem, dataclasses.replace(self.options, **given))

    def _told(self, number):
        def report(event):
            text = f"epsilon {number + 1} of {self.total}, {event.text}"
            self.report(event._replace(text=text, done=number, total=self.total))

        return ProgressListener(report)


def _large_to_small(problem, epsilons, options):
    """Pairs of an `Epsilon` and what it comes to for the problem in the end."""
    tier = "tiled" if is_factored(problem) else "dense"
    given = problem, options.threads(problem), tier
    linearization = linearize(*given, placement=options.placement)
    pairs = [(one, one.resolve(linearization).last) for one in epsilons]
    return sorted(pairs, key=lambda pair: -pair[1])


def _number(value):
    """What `key` returned; what is not a number is worse than any."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        came = type(value).__name__
        raise TypeError(f"key must return a number, got {came}") from None
    return np.inf if np.isnan(value) else value

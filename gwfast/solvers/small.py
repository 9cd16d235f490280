"""Small problems with entropy from one plan each: the descents of several in one
compiled call, and around each no more Python than its costs and its result need.
"""

import math
import time

from ..kernels._descent import OTHERWISE
from ..quadratic.descend import Descent
from ..quadratic.linearize import is_factored, linearize
from ..quadratic.methods import as_method
from ..quadratic.small_descent import (
    FEW_POINTS,
    descend_together,
    descent_of,
    last_steps,
    limits_of,
    status_of,
)
from ..results.status import Status
from ..utils.mechanisms import ALL
from ..utils.precision import SINGLE
from .product_plan import completed
from .search.advice import conclude, other_starts
from .search.levels import MIN_FLOAT32_ENTRIES


class SmallSolve:
    """The solve of a small problem from one plan: `descend_all` makes its descent, and `result`
    describes the last plan.

    Attributes
    ----------
    start : Start
    descent : Descent
    """

    def __init__(self, problem, start, begun, descent, limits):
        self._problem, self.start, self._begun = problem, start, begun
        self.descent, self._limits = descent, limits
        self.ended = None

    @classmethod
    def of(cls, problem, options):
        """Return the `SmallSolve` of a problem, or None if it needs a search or a callback."""
        if max(problem.shape) > FEW_POINTS or not _is_plain(options):
            return None
        precision = options.precision
        method = as_method(options.method, problem, precision)
        starts = options.starts_of(problem)
        start = starts[0] if starts is not None and len(starts) == 1 else None
        warms = precision is not SINGLE and math.prod(problem.shape) >= MIN_FLOAT32_ENTRIES
        if warms or is_factored(problem, method) or str(start) not in ("product", "plan"):
            return None
        n_threads = options.threads(problem)
        at = linearize(problem, n_threads, method=method, precision=precision)
        epsilons = at.schedule(options.epsilon)
        if not at.is_small:
            return None
        state = at.initial(start.plan(problem, n_threads))
        limits = limits_of(at, state, options.limits, epsilons)
        if not limits:
            return None
        descent = descent_of(at, state, limits)
        return cls(problem, start, Descent.at(at, state, epsilons), descent, options.limits)

    @property
    def most(self):
        """Iterations at most."""
        return self._limits.max_outer

    def solution(self, seconds):
        """Return the `Descent`, or None if another solver has to go on or no iteration was made."""
        status = status_of(self.descent, self.ended, self.most)
        if status is None and (self.ended == OTHERWISE or not self.descent.done):
            return None
        columns, state = last_steps(self.descent, self._begun.linearization)
        return self._begun.with_steps(columns, state, status or Status.TIME_LIMIT, seconds)

    def result(self, seconds):
        """The `GWResult` of the `solution`, or None."""
        solution = self.solution(seconds)
        if solution is None:
            return None
        untried = other_starts(self._begun.linearization.method)
        more = dict(labels=self._problem.labels, seconds=seconds)
        result = conclude(solution, False, self._limits, untried, **more)
        if self._problem.is_fused:
            result = completed(self._problem, result, seconds)
        return result


def small_solution(problem, options):
    """The `Solution` of one small problem, None where it takes another way."""
    began, small = time.perf_counter(), SmallSolve.of(problem, options)
    if small is None:
        return None
    descend_all([small], options.limits.deadline)
    return small.solution(time.perf_counter() - began)


def descend_all(solves, deadline, n_threads=1):
    """Make the descents of the solves, `n_threads` at a time."""
    most = max((one.most for one in solves), default=0)
    ended = descend_together([one.descent for one in solves], most, deadline, n_threads)
    for one, why in zip(solves, ended, strict=True):
        one.ended = why


def solve_small(problems, prepare, deadline, n_threads, answer=SmallSolve.result):
    """Solve numbered problems, `n_threads` at a time. Yields the number and ``answer(small_solve,
    seconds)`` of each that ``prepare(number)`` returns a `SmallSolve` of, and that ends in time.
    """
    for part in _parts(problems, 2 * n_threads):
        began, made = time.perf_counter(), {k: prepare(k) for k in part}
        solves = {k: one for k, one in made.items() if one is not None}
        descend_all(list(solves.values()), deadline, n_threads)
        seconds = (time.perf_counter() - began) / max(len(solves), 1)
        for k, one in solves.items():
            result = answer(one, seconds)
            if result is not None:
                yield k, result
        if deadline.passed():
            break


def _parts(problems, least):
    """Yield lists of the numbers of problems that are prepared together."""
    part, work = [], 0
    for k, problem in problems.items():
        n, m = problem.shape
        part.append(k)
        work += n * m * (n + m)
        # This many multiplications an iteration take tenths of a second and 64 MB.
        if len(part) >= least and (work > 5e7 or len(part) == 64):
            yield part
            part, work = [], 0
    if part:
        yield part


def _is_plain(options):
    """Return whether only the plan is asked for."""
    return (
        not options.is_exact
        and options.callback is None
        and options.checkpoint is None
        and options.memory_limit is None
        and options.tier in ("auto", "dense")
        and options.mechanisms is ALL
        and options.epsilon.anneal_from == 1.0
    )

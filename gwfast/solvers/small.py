"""Small problems with entropy from one plan each: the descents of several in one
compiled call, and around each no more Python than its costs and its result need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from ..kernels.threads import single_threaded_blas
from ..problems.epsilon import Epsilon
from ..problems.quadratic import QuadraticProblem
from ..quadratic.descend import Descent, descend
from ..quadratic.judge import Limits
from ..quadratic.linearize import is_factored, linearize
from ..quadratic.methods import Method, as_method
from ..quadratic.small_descent import descend_small
from ..results.coupling import Coupling
from ..results.result import GWResult
from ..utils.deadline import Deadline
from ..utils.precision import FloatPrecision
from ..utils.tuning import DEFAULT, Tuning
from ..utils.types import FloatArray
from .options import Settings
from .product_plan import completed
from .search.advice import conclude, remarked
from .search.inits import starts_of
from .search.starts import PRODUCT


def begin_small(problem: QuadraticProblem, options: Settings) -> Descent | None:
    """Return the `Descent` of a small problem at its start, or None if it needs a search, another
    solver or a callback.
    """
    plain = (
        not options.is_exact
        and options.callback is None
        and options.checkpoint is None
        and options.memory_limit is None
        and options.tier in ("auto", "dense")
        and options.epsilon.anneal_from == 1.0
    )
    if max(problem.shape) > options.tuning.few_points or not plain:
        return None
    method = as_method(options.method, problem, options.precision)
    starts = starts_of(options, problem)
    if starts is None or len(starts) > 1 or starts[0].kind not in ("product", "plan"):
        return None
    n_threads = options.threads(problem)
    plan, how = starts[0].plan(problem, n_threads), dict(precision=options.precision)
    return begin_descent(
        problem, plan, options.epsilon, n_threads, method=method, tuning=options.tuning, **how
    )


def begin_descent(
    problem: QuadraticProblem,
    plan: FloatArray | Coupling | None,
    epsilon: Epsilon,
    n_threads: int,
    *,
    method: Method,
    precision: FloatPrecision,
    tuning: Tuning = DEFAULT,
) -> Descent | None:
    """Return the `Descent` of a problem at a plan, None is the product plan; or None if the
    compiled loop does not suit the problem.
    """
    if max(problem.shape) > tuning.few_points or is_factored(problem, method):
        return None
    linearization = linearize(problem, n_threads, method=method, precision=precision, tuning=tuning)
    epsilons = linearization.schedule(epsilon)
    return (
        Descent.begin(linearization, linearization.initial(plan), epsilons)
        if linearization.is_small
        else None
    )


def small_descent(problem: QuadraticProblem, options: Settings) -> Descent | None:
    """Return the `Descent` of one small problem, or None if another solver has to make it."""
    descent = begin_small(problem, options)
    if descent is not None:
        [descent] = descend_small([descent], [options.limits])
    return finished(descent, options.limits) if descent is not None and descent.steps else None


def finished(descent: Descent, limits: Limits) -> Descent:
    """Return a small descent after the iterations that the compiled loop cannot make."""
    if descent.status is None:
        with single_threaded_blas(max(descent.problem.shape)):
            descent = descend(descent, limits)
    return descent


def small_descents(
    shapes: Mapping[int, tuple[int, int]],
    begin: Callable[[int], tuple[Descent, Limits] | None],
    deadline: Deadline,
    n_threads: int,
) -> Iterator[tuple[int, Descent]]:
    """Solve numbered problems of these shapes, `n_threads` at a time. Yield the number and the
    `Descent` of each problem if ``begin(number)`` returns a `Descent` and its `Limits`, not None,
    and the compiled loop made an iteration; descents without a status are to be `finished`.
    """
    for part in _parts(shapes, 2 * n_threads):
        begun = {k: pair for k in part if (pair := begin(k)) is not None}
        descents, limits = zip(*begun.values(), strict=True) if begun else ((), ())
        ended = descend_small(list(descents), limits, n_threads)
        yield from ((k, descent) for k, descent in zip(begun, ended, strict=True) if descent.steps)
        if deadline.passed():
            break


def small_result(
    problem: QuadraticProblem, descent: Descent, limits: Limits, seconds: float
) -> GWResult:
    """Return the `GWResult` of the descent of a small problem."""
    starts = [PRODUCT]  # or a plan of the caller, which has the same advice
    more = dict(labels=problem.labels, seconds=seconds)
    result = remarked(problem, conclude(descent, math.inf, limits, starts, **more), starts)
    return completed(problem, result, seconds) if problem.is_fused else result


def _parts(shapes: Mapping[int, tuple[int, int]], least: int) -> Iterator[list[int]]:
    """Yield lists of the numbers of problems that are prepared together."""
    part, work = list[int](), 0
    for k, (n, m) in shapes.items():
        part.append(k)
        work += n * m * (n + m)
        # This many multiplications an iteration take tenths of a second and 64 MB.
        if len(part) >= least and (work > 5e7 or len(part) == 64):
            yield part
            part, work = [], 0
    if part:
        yield part

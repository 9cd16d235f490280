"""One descent from one plan. With many points it gets near its end by what costs less:
the largest eigenvalues of the costs, then float32.
"""

import dataclasses

from ..problems.low_rank import smoothed
from ..quadratic.factory import is_factored, linearize
from ..quadratic.linearization import Linearization
from ..quadratic.outer_loop import Alternating, Descent, Limits
from ..results.status import Status
from ..utils.precision import SINGLE

# Limits of the low-rank warm start: it is left once the plan moves by what it cannot
# tell.
LOW_RANK = Limits(max_outer=1000, max_inner=1000, tol=0.05, marginal_tol=0.01)
# Limits of the float32 warm start, and entries of a float64 plan from which on it pays.
FLOAT32 = Limits(max_outer=1000, max_inner=1000, tol=1e-4, marginal_tol=1e-4)
MIN_FLOAT32_ENTRIES = 1 << 16
# Outer iterations below which all that are allowed are of the problem itself.
MIN_OUTER = 50


@dataclasses.dataclass(frozen=True)
class Stage:
    """Costs that are those of the problem, or near them, and how far to go on them.

    With `is_float32` they are those of a float64 problem, rounded.
    """

    linearization: Linearization
    limits: Limits
    is_float32: bool = False


def descend(problem, plan, options):
    """A `Descent` from one plan, None for the product plan, to its end.

    Parameters
    ----------
    problem : QuadraticProblem
    plan : (n, m) ndarray or None
    options : SolveOptions
        With the tier chosen.

    Returns
    -------
    Descent
    """
    n_threads, method = options.threads(problem), options.method
    linearization = linearize(
        problem, n_threads, options.tier, method=method, precision=options.precision
    )
    epsilons = options.epsilon.resolve(linearization)
    last, limits, callback = None, options.limits, options.callback
    for stage in _warm_starts(problem, linearization, epsilons, options):
        last = _run(stage, epsilons, plan, callback, after=last)
        plan = last.coupling().toarray()
        if stage.is_float32:
            linearization.use_increments(stage.linearization)
        if last.status == Status.STOPPED:
            # One iteration, unseen, on the problem itself.
            limits = dataclasses.replace(limits, max_outer=len(last.history) + 1)
            callback = None
            break
    stage = Stage(linearization, limits)
    descent = _run(stage, epsilons, plan, callback, after=last, method=method)
    if callback is not options.callback:
        descent.status = Status.STOPPED
    return descent


def near(limits, first=FLOAT32):
    """The limits `first`, within those asked for; the last iteration is left for the
    problem itself.
    """
    return dataclasses.replace(
        first,
        max_outer=max(limits.max_outer - 1, 1),
        max_inner=min(first.max_inner, limits.max_inner),
    )


def go_on(head, problem, options):
    """A `Descent` in another precision from where one ended, to its end."""
    before = head.linearization
    linearization = linearize(problem, before.n_threads, precision=options.precision)
    stage = Stage(linearization, options.limits)
    return _run(stage, head.epsilons, before.state, options.callback, after=head)


def _warm_starts(problem, linearization, epsilons, options):
    """The stages before the problem itself."""
    least_epsilon = SINGLE.least_epsilon * linearization.unit
    if (
        is_factored(problem, options.method)
        or options.method != "pgd"
        or epsilons.last < least_epsilon
        or options.limits.max_outer < MIN_OUTER
    ):
        return []
    stages = []
    low_rank = smoothed(problem, linearization.n_threads)
    if low_rank is not None:
        costs = linearize(low_rank, linearization.n_threads)
        stages.append(Stage(costs, near(options.limits, LOW_RANK)))
    n, m = problem.shape
    if options.precision is not SINGLE and n * m >= MIN_FLOAT32_ENTRIES:
        rounded = linearization.rounded(SINGLE)
        stages.append(Stage(rounded, near(options.limits, FLOAT32), is_float32=True))
    return stages


def _run(stage, epsilons, start, callback, *, after=None, method="pgd"):
    """A `Descent` on a stage to its end, with the potentials of the one before."""
    kind = Alternating if method == "bapg" else Descent
    linearization = stage.linearization
    descent = kind(linearization, epsilons, linearization.start(start))
    if after is not None:
        descent.follow(after)
    descent.callback = callback
    descent.advance(stage.limits)
    return descent

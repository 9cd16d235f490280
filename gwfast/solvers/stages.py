"""One descent from one plan. With many points it gets near its end by what costs less:
the largest eigenvalues of the costs, then float32.
"""

import dataclasses

from ..problems.low_rank import low_rank_problem
from ..quadratic.factory import is_factored, linearize
from ..quadratic.linearization import Linearization
from ..quadratic.methods import PGD
from ..quadratic.outer_loop import OuterLoop
from ..quadratic.stopping import Limits
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
    """Solve a problem from one plan.

    Parameters
    ----------
    problem : QuadraticProblem
    plan : (n, m) ndarray or None
        None is the product plan.
    options : SolveOptions
        With the tier chosen.

    Returns
    -------
    Solution
    """
    method, limits, callback = options.method, options.limits, options.callback
    linearization = linearize(
        problem,
        options.threads(problem),
        options.tier,
        method=method,
        precision=options.precision,
    )
    epsilons, last = options.epsilon.resolve(linearization), None
    for stage in _warm_starts(problem, linearization, epsilons, options):
        last = _run(stage, epsilons, plan, callback, last)
        plan = last.coupling.toarray()
        if stage.is_float32:
            linearization.use_increments(stage.linearization)
        if last.status == Status.STOPPED:
            # One iteration, unseen, makes a plan of the problem itself.
            limits = dataclasses.replace(limits, max_outer=len(last.history) + 1)
            stage = Stage(linearization, limits)
            last = _run(stage, epsilons, plan, None, last)
            return dataclasses.replace(last, status=Status.STOPPED)
    stage = Stage(linearization, limits)
    return _run(stage, epsilons, plan, callback, last, method)


def near(limits, first=FLOAT32):
    """The limits `first`, within those asked for; the last iteration is left for the
    problem itself.
    """
    return dataclasses.replace(
        first,
        max_outer=max(limits.max_outer - 1, 1),
        max_inner=min(first.max_inner, limits.max_inner),
    )


def go_on(solution, epsilons, problem, options):
    """The `Solution` in another precision from where one ended."""
    before = solution.linearization
    linearization = linearize(problem, before.n_threads, precision=options.precision)
    stage = Stage(linearization, options.limits)
    return _run(stage, epsilons, before.state, options.callback, solution)


def _warm_starts(problem, linearization, epsilons, options):
    """The stages before the problem itself."""
    if (
        is_factored(problem, options.method)
        or options.method is not PGD
        or epsilons.last < SINGLE.min_epsilon * linearization.cost_scale
        or options.limits.max_outer < MIN_OUTER
    ):
        return []
    stages = []
    low_rank = low_rank_problem(problem, linearization.n_threads)
    if low_rank is not None:
        costs = linearize(low_rank, linearization.n_threads)
        stages.append(Stage(costs, near(options.limits, LOW_RANK)))
    n, m = problem.shape
    if options.precision is not SINGLE and n * m >= MIN_FLOAT32_ENTRIES:
        rounded = linearization.rounded(SINGLE)
        stages.append(Stage(rounded, near(options.limits, FLOAT32), is_float32=True))
    return stages


def _run(stage, epsilons, start, callback, last, method=PGD):
    """The `Solution` of a stage, with the potentials of the last."""
    linearization = stage.linearization
    gw_cost = linearization.start(start)
    warm = None if last is None else last.warm_start(linearization)
    loop = OuterLoop(linearization, epsilons, gw_cost, method=method, warm_start=warm)
    return loop.run(stage.limits, callback)

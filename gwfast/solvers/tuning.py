"""The public solver for many epsilons."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable
from typing import Any

from numpy.typing import ArrayLike

from ..linear.rules import Marginals, Rho
from ..problems.cross_cost import CrossCost
from ..problems.epsilon import Epsilon, as_epsilon
from ..problems.graphs import CostLike
from ..problems.losses import LossName
from ..problems.quadratic import QuadraticProblem, as_problem
from ..quadratic.certificate import product_mean
from ..quadratic.judge import Limits
from ..results.result import GWResult
from ..results.status import Status
from ..results.tables import Candidate, Candidates
from ..utils.deadline import Deadline
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.types import Progress
from .gromov import solve
from .options import InitLike, SolveOptions, in_force
from .search.advice import warn_of


@knows_pot_names(QUADRATIC, epsilon="epsilons")
def tune_epsilon(
    cost_x: QuadraticProblem | CostLike | tuple[Any, ...],
    cost_y: CostLike | None = None,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    *,
    loss: LossName = "square",
    linear_cost: ArrayLike | CrossCost | None = None,
    alpha: float | None = None,
    marginals: Marginals = "balanced",
    mass: float | None = None,
    rho: Rho | None = None,
    epsilons: Iterable[float | str | Epsilon] | None = None,
    init: InitLike = "auto",
    key: Callable[[GWResult], float] | None = None,
    max_outer: int = 1000,
    max_inner: int = 10_000,
    tol: float = 1e-5,
    marginal_tol: float = 1e-5,
    time_limit: float | None = None,
    n_threads: int | None = None,
    seed: int = 0,
    progress: Progress = False,
) -> GWResult:
    """Solve one problem for many epsilons, from large to small.

    The largest epsilon is searched as by `gromov_wasserstein`; every other value goes on from the
    plan of the one before, which takes a fraction of the time of a search, unless that plan has
    matched nothing. A last search at the best value makes the result no worse than a search there.

    Parameters
    ----------
    cost_x, cost_y, p, q, loss, linear_cost, alpha, marginals, mass, rho, init, max_outer, \
max_inner, tol, marginal_tol, n_threads, seed, progress
        See `gromov_wasserstein`. From another epsilon's plan there are at most 200 iterations.
    epsilons : sequence of float, text or Epsilon, or None, default=None
        None is seven fractions of the mean linearized cost, from 5 % to 0.6 %.
    key : callable or None, default=None
        The result with the lowest ``key(result)`` wins. None is its `gw_cost`, as SCOT and GWTune
        choose: it chooses between optima rather than for accuracy.
    time_limit : float or None, default=None
        Seconds for all values together, after which the best so far is taken; its
        `status` is then "time_limit".

    Returns
    -------
    GWResult
        The best, with a row of `candidates` for every start tried, by epsilon.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> best = gwfast.tune_epsilon(cost, cost[::-1, ::-1], epsilons=["5%", "2%"], init="product")
    >>> str(best.status)
    'converged'
    """
    deadline, began = Deadline.after(time_limit), time.perf_counter()
    terms: dict[str, Any] = dict(loss=loss, linear_cost=linear_cost, alpha=alpha)
    rule: dict[str, Any] = dict(marginals=marginals, mass=mass, rho=rho)
    problem = as_problem(None, cost_x, cost_y, p, q, **terms, **rule)
    if key is not None and not callable(key):
        raise TypeError(f"key must be callable or None, got {type(key).__name__}")
    limits = Limits(max_outer, max_inner, tol, marginal_tol, deadline=deadline)
    options = SolveOptions(
        limits,
        init=init,
        n_threads=n_threads,
        seed=seed,
        progress=progress,
        placement=in_force.get(),
    )
    values, mean = _as_epsilons(epsilons), product_mean(problem)
    values.sort(key=lambda one: -(one.value or one.relative * mean))
    results, numbers, followed = list[GWResult](), list[float](), list[bool]()
    rows, before, late = list[Candidate](), None, False
    for epsilon in [*values, None]:
        if epsilon is None:
            best = numbers.index(min(numbers))
            if not followed[best]:
                break
            epsilon, before = values[best], None
        result = _solved(problem, dataclasses.replace(options, epsilon=epsilon), before)
        late = bool(rows) and result.status == Status.TIME_LIMIT
        if late:
            break
        rows += result.candidates
        results.append(result)
        numbers.append(_number(result.gw_cost if key is None else key(result)))
        followed.append(before is not None)
        # A plan that has matched nothing leads nowhere.
        before = None if result.status == Status.NEAR_PRODUCT else result
    result = results[numbers.index(min(numbers))]
    if late:
        advice = Status.TIME_LIMIT.advice
        result = dataclasses.replace(result, status=Status.TIME_LIMIT, advice=advice)
    seconds = time.perf_counter() - began
    result = dataclasses.replace(result, candidates=Candidates(rows), seconds=seconds)
    warn_of(result, limits)
    return result


def _solved(problem, options, before):
    """Return the result of a search, or from the result `before` of another epsilon."""
    if before is None:
        return solve(problem, options)
    most = min(options.limits.max_outer, 200)  # for cycles: few take more than 33
    limits = dataclasses.replace(options.limits, max_outer=most)
    result = solve(problem, dataclasses.replace(options, init=before, limits=limits))
    label, size = f"epsilon {before.epsilon:.3g}", max(problem.shape)
    effort = result.n_outer, result.seconds
    row = Candidate(label, size, result.epsilon, result.gw_cost, *effort, "won")
    return dataclasses.replace(result, candidates=Candidates([row]))


def _as_epsilons(epsilons):
    """Return a list of `Epsilon`."""
    if epsilons is None:
        epsilons = "5%", "3.5%", "2.5%", "1.75%", "1.25%", "0.9%", "0.6%"
    if isinstance(epsilons, str) or not isinstance(epsilons, Iterable):
        raise TypeError(f"epsilons must be a sequence or None, got {type(epsilons).__name__}")
    try:
        checked = [as_epsilon(one) for one in epsilons]
    except (TypeError, ValueError) as error:
        raise type(error)(f"epsilons must be numbers, texts or Epsilon: {error}") from None
    if not checked:
        raise ValueError("epsilons must not be empty")
    return checked


def _number(value):
    """Return the number that `key` returned; NaN is worse than any."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"key must return a number, got {type(value).__name__}") from None
    return math.inf if math.isnan(value) else value

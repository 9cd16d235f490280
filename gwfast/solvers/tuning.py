"""The public solver for many epsilons."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable

from numpy.typing import ArrayLike

from ..linear.marginals import Marginals
from ..problems.cross_cost import CrossCost
from ..problems.epsilon import Epsilon, as_epsilon
from ..problems.graphs import CostLike
from ..problems.quadratic import QuadraticProblem, as_problem
from ..quadratic.certificate import product_mean
from ..results.result import GWResult
from ..results.status import Ending
from ..results.tables import Candidate, Candidates
from ..utils.deadline import Deadline
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.types import Progress
from .gromov import solve
from .options import InitLike, Settings, SolverOptions, in_force
from .search.advice import warn_of


@knows_pot_names(QUADRATIC, epsilon="epsilons")
def tune_epsilon(
    x: QuadraticProblem | CostLike,
    y: CostLike | None = None,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    *,
    linear_cost: ArrayLike | CrossCost | None = None,
    alpha: float = 0.5,
    marginals: Marginals = "balanced",
    epsilons: Iterable[float | str | Epsilon] | None = None,
    init: InitLike = "auto",
    key: Callable[[GWResult], float] | None = None,
    tol: float = 1e-5,
    time_limit: float | None = None,
    n_threads: int | None = None,
    seed: int = 0,
    progress: Progress = False,
    options: SolverOptions | None = None,
) -> GWResult:
    """Solve one problem for many epsilons, from large to small.

    The largest epsilon is searched as by `gromov_wasserstein`; every other value goes on from the
    plan of the one before, unless that plan has matched nothing. A last search at the best value
    makes the result no worse than a search there.

    Parameters
    ----------
    x, y, p, q, linear_cost, alpha, marginals, init, tol, n_threads, seed, progress, options
        See `gromov_wasserstein`; another loss needs a `QuadraticProblem`.
    epsilons : sequence of float, text or Epsilon, or None, default=None
        None is seven fractions of the mean linearized cost, from 5 % to 0.6 %.
    key : callable or None, default=None
        The result with the lowest ``key(result)`` wins. None is its `gw_cost`, as SCOT and GWTune
        choose: it chooses between optima rather than for accuracy.
    time_limit : float or None, default=None
        Seconds for all values together, after which the best so far is taken; its `status` is then
        "time_limit".

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
    terms = dict(linear_cost=linear_cost, alpha=alpha, marginals=marginals)
    problem = as_problem(x, y, p, q, **terms)
    if key is not None and not callable(key):
        raise TypeError(f"key must be callable or None, got {type(key).__name__}")
    settings = Settings.of(
        options,
        deadline,
        tol=tol,
        init=init,
        n_threads=n_threads,
        seed=seed,
        progress=progress,
        placement=in_force.get(),
    )
    values, mean = _as_epsilons(epsilons), product_mean(problem)
    values.sort(key=lambda one: -(one.value or (one.relative or 0.0) * mean))
    results, numbers, followed = list[GWResult](), list[float](), list[bool]()
    rows, before, late = list[Candidate](), None, False
    for epsilon in [*values, None]:
        if epsilon is None:
            best = numbers.index(min(numbers))
            if not followed[best]:
                break
            epsilon, before = values[best], None
        result = _solved(problem, dataclasses.replace(settings, epsilon=epsilon), before)
        late = bool(rows) and result.ending == Ending.TIME_LIMIT
        if late:
            break
        rows += result.candidates
        results.append(result)
        numbers.append(_number(result.gw_cost if key is None else key(result)))
        followed.append(before is not None)
        # A plan that has matched nothing leads nowhere.
        before = None if result.ending == Ending.NEAR_PRODUCT else result
    if min(numbers) == math.inf:
        raise ValueError("key must return a number, got NaN or infinity for every result")
    result = results[numbers.index(min(numbers))]
    if late and result.history:
        advice = Ending.TIME_LIMIT.advice
        result = dataclasses.replace(result, ending=Ending.TIME_LIMIT, advice=advice)
    seconds = time.perf_counter() - began
    result = dataclasses.replace(
        result, candidates=Candidates(rows, result.confidence), seconds=seconds
    )
    warn_of(result, settings.limits)
    return result


def _solved(problem: QuadraticProblem, options: Settings, before: GWResult | None) -> GWResult:
    """Return the result of a search, or from the result `before` of another epsilon."""
    if before is None:
        return solve(problem, options)
    most = min(options.limits.max_outer, 200)  # for cycles: few take more than 33
    limits = dataclasses.replace(options.limits, max_outer=most)
    result = solve(problem, dataclasses.replace(options, init=before, limits=limits))
    label, size = f"epsilon {before.epsilon:.3g}", max(problem.shape)
    effort = result.n_iter, result.seconds
    row = Candidate(label, size, result.epsilon, result.gw_cost, *effort, "won")
    return dataclasses.replace(result, candidates=Candidates([row]))


def _as_epsilons(epsilons: Iterable[float | str | Epsilon] | None) -> list[Epsilon]:
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


def _number(value: float) -> float:
    """Return the number that `key` returned; NaN is worse than any."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"key must return a number, got {type(value).__name__}") from None
    return math.inf if math.isnan(value) else value

"""The public solvers from many starts, and for many epsilons, on shared costs."""

from __future__ import annotations

import dataclasses
import functools
import numbers
import operator
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

from numpy.typing import ArrayLike

from ..kernels.threads import single_threaded_blas
from ..linear.rules import Marginals, Rho
from ..problems.cross_cost import CrossCost
from ..problems.epsilon import Epsilon, EpsilonLike, as_epsilon
from ..problems.graphs import CostLike
from ..problems.losses import LossName
from ..problems.quadratic import QuadraticProblem, as_problem
from ..quadratic.factory import linearize
from ..quadratic.stopping import Limits
from ..results.result import GWResult
from ..results.tables import Candidates
from ..utils.deadline import Deadline, OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.progress import reporting
from ..utils.types import PathLike, Progress
from ..utils.validation import as_count, as_positive
from .checkpoint import STARTS, opened
from .contestants import Standing, annealed_early, candidates_from_starts
from .diagnosis import conclude, warn_of
from .gromov import solve
from .levels import choose
from .options import InitLike, SolveOptions
from .product_plan import completed, unsolved
from .race import finish, is_tie, successive_halving
from .stages import UPDATES
from .starts import as_start, default_starts
from .sweep import sweep

# Fractions of the mean linearized cost that `tune_epsilon` tries, large to small.
FRACTIONS = (0.05, 0.035, 0.025, 0.0175, 0.0125, 0.009, 0.006)
LOWEST_COST = operator.attrgetter("gw_cost")


@knows_pot_names(QUADRATIC, init="starts")
def multistart(
    cost_x: QuadraticProblem | CostLike | tuple[Any, ...] | None = None,
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
    problem: QuadraticProblem | None = None,
    starts: int | Iterable[InitLike] | None = None,
    epsilon: EpsilonLike = "auto",
    prune: bool = True,
    max_outer: int = 1000,
    max_inner: int = 10_000,
    tol: float = 1e-5,
    marginal_tol: float = 1e-5,
    time_limit: float | None = None,
    n_threads: int | None = None,
    seed: int = 0,
    checkpoint: PathLike | None = None,
    progress: Progress = False,
) -> GWResult:
    """Solve one problem from many starts and keep the plan with the lowest `gw_cost`.

    Every start is tried on all points, where ``init="auto"`` of `gromov_wasserstein`
    tries its starts on few. The starts share the costs, their products with the
    marginals, and the buffers; each holds only a small matrix (for point clouds) or a
    plan (for dense costs). Errors and warnings are those of `gromov_wasserstein`.

    Parameters
    ----------
    cost_x, cost_y, p, q, loss, linear_cost, alpha, marginals, mass, rho
        The problem, or a whole one as `cost_x`, see `gromov_wasserstein`.
    starts : int, sequence or None, default=None
        The starts, as for `init` of `gromov_wasserstein`, each with a plan for all
        points. A number is that of random starts beside the product and profile plans;
        None chooses it by the size.
    epsilon : float, str or Epsilon, default="auto"
    prune : bool, default=True
        Drop starts that follow another into the same optimum and, after 8, 20, 40 and
        80 outer iterations, the worse half of the others; those left take turns until
        the best has converged. False takes all starts to the end.
    max_outer, max_inner, tol, marginal_tol, n_threads, seed, checkpoint, progress
        See `gromov_wasserstein`.
    time_limit : float or None, default=None
        Seconds after which the best so far is taken.
    problem : QuadraticProblem or None, default=None
        Another name of `cost_x`.

    Returns
    -------
    GWResult
        The best, with a row of `candidates` for every start.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> problem = gwfast.QuadraticProblem(cost, cost[::-1, ::-1])
    >>> result = gwfast.multistart(problem, starts=["product", "profile"])
    >>> len(result.candidates)
    2
    """
    deadline = Deadline.after(time_limit)
    terms: dict[str, Any] = dict(loss=loss, linear_cost=linear_cost, alpha=alpha)
    rule: dict[str, Any] = dict(marginals=marginals, mass=mass, rho=rho)
    problem = as_problem(problem, cost_x, cost_y, p, q, **terms, **rule)
    options = SolveOptions(
        Limits(max_outer, max_inner, tol, marginal_tol, deadline=deadline),
        epsilon=epsilon,
        n_threads=n_threads,
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
    )
    _check_prune(prune)
    starts = _as_starts(starts, problem, options.seed)
    result = _best_of(problem, options, starts, prune)
    warn_of(result, options.limits)
    return result


@knows_pot_names(QUADRATIC, init="starts", epsilon="epsilons")
def tune_epsilon(
    cost_x: QuadraticProblem | CostLike | tuple[Any, ...] | None = None,
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
    problem: QuadraticProblem | None = None,
    epsilons: Iterable[float | str | Epsilon] | None = None,
    starts: int | Iterable[InitLike] | Literal["auto"] | None = "auto",
    prune: bool = True,
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

    At the largest epsilon there is a search, as of `gromov_wasserstein`. Every other value goes on
    from the plan of the one before, which takes a fraction of the time of a search, unless that
    plan has matched nothing. A last search at the best value makes the result no worse than that
    of `gromov_wasserstein` there. Errors and warnings are those of `gromov_wasserstein`.

    Parameters
    ----------
    cost_x, cost_y, p, q, loss, linear_cost, alpha, marginals, mass, rho
        The problem, or a whole one as `cost_x`, see `gromov_wasserstein`.
    epsilons : sequence of float, text or Epsilon, or None, default=None
        None is seven fractions of the mean linearized cost, from 5 % to 0.6 %.
    starts : "auto", int, sequence or None, default="auto"
        Starts of the searches. "auto" is those of ``init="auto"``, which race on few
        points first if there are many. For other values see `multistart`; 0 is the
        product and profile plans.
    prune : bool, default=True
        See `multistart`; with ``starts="auto"`` starts are always dropped.
    key : callable or None, default=None
        ``key(result)`` of the `GWResult` of each epsilon, and of the search in the end;
        the lowest wins. None is its `gw_cost`, as SCOT and GWTune choose. The objective
        without entropy mostly falls with epsilon: it chooses between optima rather than
        for accuracy.
    max_outer, max_inner, tol, marginal_tol, n_threads, seed, progress
        See `gromov_wasserstein`. From another epsilon's plan there are at most 200
        outer iterations.
    time_limit : float or None, default=None
        Seconds for all values together, after which the best so far is taken; its
        `status` is then "time_limit".
    problem : QuadraticProblem or None, default=None
        Another name of `cost_x`.

    Returns
    -------
    GWResult
        The best, with a row of `candidates` for every start tried, by epsilon.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> problem = gwfast.QuadraticProblem(cost, cost[::-1, ::-1])
    >>> tried = [gwfast.Epsilon(relative=share) for share in (0.05, 0.02)]
    >>> best = gwfast.tune_epsilon(problem, epsilons=tried, starts=["product"])
    >>> str(best.status)
    'converged'
    """
    deadline = Deadline.after(time_limit)
    terms: dict[str, Any] = dict(loss=loss, linear_cost=linear_cost, alpha=alpha)
    rule: dict[str, Any] = dict(marginals=marginals, mass=mass, rho=rho)
    problem = as_problem(problem, cost_x, cost_y, p, q, **terms, **rule)
    epsilons = _as_epsilons(epsilons)
    if key is not None and not callable(key):
        raise TypeError(f"key must be callable or None, got {type(key).__name__}")
    options = SolveOptions(
        Limits(max_outer, max_inner, tol, marginal_tol, deadline=deadline),
        n_threads=n_threads,
        seed=seed,
        progress=progress,
    )
    _check_prune(prune)
    search: Callable[..., GWResult] = solve
    if not (isinstance(starts, str) and starts == "auto"):
        starts = _as_starts(starts, problem, options.seed)
        search = functools.partial(_best_of, starts=starts, prune=prune)
    result = sweep(problem, epsilons, search, key or LOWEST_COST, options)
    warn_of(result, options.limits)
    return result


def _as_epsilons(epsilons):
    """A list of `Epsilon`."""
    if epsilons is None:
        return [Epsilon(relative=fraction) for fraction in FRACTIONS]
    if isinstance(epsilons, str) or not isinstance(epsilons, Iterable):
        raise TypeError(f"epsilons must be a sequence or None, got {type(epsilons).__name__}")
    made = []
    for one in epsilons:
        if not isinstance(one, str | Epsilon):
            one = as_positive(one, "epsilons")
        try:
            made.append(as_epsilon(one))
        except ValueError as error:
            if not isinstance(one, str):
                raise
            text = f"epsilons must be numbers, texts or Epsilon: {error}"
            raise ValueError(text) from None
    if not made:
        raise ValueError("epsilons must not be empty")
    return made


def _check_prune(prune):
    if not isinstance(prune, bool):
        raise TypeError(f"prune must be a bool, got {type(prune).__name__}")


def _best_of(problem, options, starts, prune):
    """`multistart` from checked starts, without its warning."""
    began, limits = time.perf_counter(), options.limits
    threads, deadline = options.threads(problem), limits.deadline
    kept = dict(races=False, n_states=len(starts), placement=options.placement)
    choose(problem, "dense", as_memory_limit(None), threads, **kept)  # or refuse
    checkpoint = opened(problem, options, starts=starts, prune=prune)
    with single_threaded_blas(), reporting(options.progress) as report_progress:
        linearization = linearize(problem, threads, placement=options.placement)
        schedule = annealed_early(options.epsilon.resolve(linearization))

        def report(event):
            text = f"epsilon {schedule.last:.3g}, {event.text}"
            report_progress(event._replace(text=text, done=0, total=1))

        saved, given = checkpoint.at(STARTS), (schedule, starts, report, deadline)
        try:
            if saved is not None:
                with checkpoint.restoring():
                    standing = Standing.restored(linearization, saved)
            else:
                field = candidates_from_starts(linearization, *given)
                checkpoint.stop_if(deadline.passed())
                standing = Standing().with_field(field)
        except OutOfTime:
            result = unsolved(problem, options)
        else:
            if prune:
                most = limits.max_outer - 1, limits.before(UPDATES)
                standing = successive_halving(standing, *most, report, checkpoint)
            standing = finish(standing, limits, None, report, checkpoint, prune=prune)
            best, untried = standing.left[0].solution, ("more starts",)
            result = conclude(best, is_tie(standing), limits, untried)
            candidates = Candidates(standing.records())
            result = dataclasses.replace(result, candidates=candidates)
    seconds = checkpoint.seconds + time.perf_counter() - began
    return completed(problem, result, seconds)


def _as_starts(starts, problem, seed):
    """The starts of a number of random ones, or of a sequence of names, starts and plans."""
    if starts is None or isinstance(starts, numbers.Integral):
        n_random = None if starts is None else as_count(starts, "starts", least=0)
        return default_starts(problem.shape, seed, n_random)
    if isinstance(starts, str) or not isinstance(starts, Iterable):
        raise TypeError(f"starts must be a number, a sequence or None, got {type(starts).__name__}")
    starts = [as_start(start, problem, seed + k, name="starts") for k, start in enumerate(starts)]
    if not starts:
        raise ValueError("starts must not be empty")
    return starts

"""The public solver of one problem."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..kernels._kernels import LEAST_ENTRY
from ..kernels.threads import single_threaded_blas
from ..linear.marginals import Marginals
from ..problems.cross_cost import CrossCost
from ..problems.epsilon import EpsilonLike
from ..problems.geometry import PointCloud
from ..problems.graphs import CostLike
from ..problems.losses import LossName
from ..problems.quadratic import QuadraticProblem, as_problem
from ..quadratic.certificate import product_mean
from ..quadratic.linearize import is_factored, is_placed
from ..quadratic.methods import as_method
from ..quadratic.neighbors import NeighborTier
from ..results.coupling import ArrayCoupling, Coupling
from ..results.records import Callback
from ..results.result import GWResult
from ..utils.deadline import Deadline, OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.precision import DOUBLE, Dtype
from ..utils.progress import ProgressEvent, Reporter, reporting
from ..utils.types import MemoryLimit, PathLike, Progress
from .checkpoint import Checkpoint, digest
from .options import InitLike, ResolvedSettings, Settings, SolverOptions, in_force
from .product_plan import completed, no_worse_than_product, unsolved
from .search import driver
from .search.advice import conclude, doubted, remarked, warn_of
from .search.exact import check_exact, solve_exact
from .search.inits import starts_of
from .search.levels import Effort, choose, needs
from .search.seeds import AnyStart, Seeds
from .search.starts import PRODUCT
from .small import small_descent, small_result

Search: TypeAlias = Callable[[QuadraticProblem, ResolvedSettings, Reporter], driver.Found]


@knows_pot_names(QUADRATIC)
def gromov_wasserstein(
    x: QuadraticProblem | CostLike,
    y: CostLike | None = None,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    *,
    loss: LossName = "square",
    linear_cost: ArrayLike | CrossCost | None = None,
    alpha: float = 0.5,
    marginals: Marginals = "balanced",
    epsilon: EpsilonLike = "auto",
    init: InitLike = "auto",
    tol: float = 1e-5,
    max_iter: int = 1000,
    time_limit: float | None = None,
    dtype: Dtype | None = None,
    n_threads: int | None = None,
    memory_limit: MemoryLimit = None,
    seed: int = 0,
    checkpoint: PathLike | None = None,
    callback: Callback | None = None,
    progress: Progress = False,
    options: SolverOptions | None = None,
) -> GWResult:
    """Return a Gromov-Wasserstein plan between two spaces, entropic or exact.

    Minimizes ``sum_ijkl L(x_ik, y_jl) T_ij T_kl - 2 epsilon H(T)`` over plans ``T >= 0`` with
    marginals `p` and `q`, where ``H(T) = -sum T log T`` (Peyre, Cuturi and Solomon, ICML 2016). As
    the problem is not convex, several starts race by default, and the lowest optimum wins.

    Parameters
    ----------
    x : array-like of shape (n, n), PointCloud, graph, or QuadraticProblem
        Costs within the first space; a graph (networkx, SciPy sparse) has lengths of edges, see
        `GraphCost`. A `QuadraticProblem` stands for all arguments from `x` to `marginals`.
    y : array-like of shape (m, m), PointCloud, or graph
        Costs within the second space.
    p, q : array-like of shape (n,) and (m,) or None, default=None
        Masses, non-negative with sum one; None is uniform.
    loss : {"square", "kl"}, default="square"
        ``(a - b)^2`` or ``a log(a / b) - a + b``.
    linear_cost : array-like of shape (n, m), CrossCost or None, default=None
        Costs between the two spaces: the *fused* problem (Vayer et al., ICML 2019).
    alpha : float, default=0.5
        Weight of the quadratic term if fused; `linear_cost` has the weight ``1 - alpha``.
    marginals : {"balanced", "semirelaxed"}, Partial or Unbalanced, default="balanced"
        "semirelaxed": only `p` is given (Vincent-Cuaz et al., ICLR 2022).
    epsilon : float, str or Epsilon, default="auto"
        Regularization, half of POT's: a number, "auto" (1.75 % of the objective of the product
        plan), another fraction such as "2%", or an `Epsilon`. 0 is the exact problem, by
        conditional gradient; `tol` then bounds the Frank-Wolfe gap over the objective.
    init : str, Seeds, plan, GWResult or list of these, default="auto"
        "auto": a search. "product", "profile", "random", "exact": one start. An array or a result:
        a warm start. A list: starts that race. Only "auto" leads to a `confidence`.
    tol : float, default=1e-5
        Relative change of objective and plan at which the solver stops.
    max_iter : int, default=1000
        Limit of outer iterations.
    time_limit : float or None, default=None
        Seconds after which the solver returns its best plan so far.
    dtype : {"float32", "float64"} or None, default=None
        Type of costs and plan; None is float32, or float64 if `epsilon` is 0. Only matrices can be
        float64.
    n_threads : int or None, default=None
        None is one thread a core, fewer for small problems.
    memory_limit : float, str or None, default=None
        Bytes that a solve may take, or a text such as "2.4GB"; None is 90 % of free memory.
    seed : int, default=0
        Seed of random starts.
    checkpoint : path-like or None, default=None
        File from which the same call goes on if it was killed.
    callback : callable or None, default=None
        ``callback(step)`` gets an `OuterStep`, with the plan as ``step.coupling``, after each outer
        iteration that follows the race; if it returns true, the solver stops.
    progress : bool or callable, default=False
        Whether to show a progress bar, or a function ``progress(text, done, total)``.
    options : SolverOptions or None, default=None
        Rare settings: method, storage of kernels, inner iterations, effort of the search.

    Returns
    -------
    GWResult
        With the plan, its costs, a `status` and `advice`. If the status is not "converged", there
        is a `ConvergenceWarning`.

    Raises
    ------
    TypeError, ValueError, MemoryError
        If an argument is not what it should be, or the problem does not fit `memory_limit`.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> result = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1])
    >>> bool((result.match() == np.arange(60)[::-1]).mean() > 0.9)
    True
    """
    terms = dict(loss=loss, linear_cost=linear_cost, alpha=alpha, marginals=marginals)
    problem = as_problem(x, y, p, q, **terms)
    settings = Settings.of(
        options,
        Deadline.after(time_limit),
        tol=tol,
        max_iter=max_iter,
        dtype=dtype,
        epsilon=epsilon,
        init=init,
        n_threads=n_threads,
        memory_limit=memory_limit,
        seed=seed,
        takes_zero=True,
        checkpoint=checkpoint,
        callback=callback,
        progress=progress,
        placement=in_force.get(),
    )
    result = solve(problem, settings)
    warn_of(result, settings.limits)
    return result


def solve(problem: QuadraticProblem, options: Settings, search: Search = driver.search) -> GWResult:
    """Return the `GWResult` of a problem, without the warning of `gromov_wasserstein`; without an
    `init`, ``search(problem, options, report)`` finds the best start.
    """
    began, dtype, winner = time.perf_counter(), options.precision.dtype, 0
    problem, options = _represented(problem, options)
    descent = small_descent(problem, options)
    if descent is not None:
        with reporting(options.progress) as report:
            report(ProgressEvent("solve", "solving a small problem in compiled code"))
        result = small_result(problem, descent, options.limits, time.perf_counter() - began)
        return no_worse_than_product(problem, result, options)
    starts = starts_of(options, problem)
    if options.is_exact:
        limit = check_exact(problem, options)
        if starts is not None and len(starts) > 1:
            raise ValueError("init must be one start, or 'auto', with epsilon=0, got a list")
    else:
        starts, resolved = _prepared(problem, options, starts)
        checkpoint, limit = resolved.checkpoint, resolved.memory_limit
    # Searches call BLAS for more than products of small costs with vectors.
    n_points = None if starts is None else max(problem.shape)
    with single_threaded_blas(n_points), reporting(options.progress) as report:
        try:
            options.limits.deadline.check()
            if options.is_exact:
                start = starts[0] if starts else None
                result = solve_exact(problem, start, options, report, solve, limit)
            else:
                if checkpoint and checkpoint.is_there:
                    report(ProgressEvent("solve", f"going on from {checkpoint.path}"))
                if starts is None:
                    found = search(problem, resolved, report)
                else:
                    report(ProgressEvent("solve", f"solving from {starts[0]}"))
                    found = driver.search(problem, resolved, report, starts)
                result = conclude(found.descent, found.rival, options.limits, starts)
                result = dataclasses.replace(result, candidates=found.candidates)
                if starts is None:
                    result = doubted(problem, result, options.search_time)
                winner = found.winner
            result = remarked(problem, result, starts, winner)
        except OutOfTime:
            result = unsolved(problem, options)
    if not options.is_exact:
        result = no_worse_than_product(problem, _in_dtype(result, dtype), options)
    return completed(problem, result, time.perf_counter() - began, limit)


def _represented(problem: QuadraticProblem, options: Settings) -> tuple[QuadraticProblem, Settings]:
    """Return the problem, of matrices if products with clouds take longer or if float32 has no
    numbers for the plans on the way, and the options, then with float64.
    """
    x, y, rule = problem.x, problem.y, problem.rule
    few = max(problem.shape) < options.tuning.iterated_from
    if few and rule.rho is not None and min(rule.rho) < 0.01 * product_mean(problem):
        # Missing a marginal costs next to nothing.
        options = dataclasses.replace(options, precision=DOUBLE)
    elif (
        options.tier not in ("auto", "dense")
        or not is_factored(problem)
        or not (isinstance(x, PointCloud) and isinstance(y, PointCloud))
        or x.rank + y.rank < x.n + y.n
        or is_placed(problem, options.placement)
    ):
        return problem, options
    return problem.replace(x=x.to_dense(), y=y.to_dense()), options


def _in_dtype(result: GWResult, dtype: np.dtype[Any]) -> GWResult:
    """Return the result with a plan of that dtype."""
    plan = result.coupling
    if plan.dtype == dtype:
        return result
    array = plan.toarray().astype(dtype)
    array[array < LEAST_ENTRY[dtype]] = 0.0
    return dataclasses.replace(result, coupling=ArrayCoupling(array, plan.n_threads))


def _prepared(
    problem: QuadraticProblem, options: Settings, starts: list[AnyStart] | None
) -> tuple[list[AnyStart] | None, ResolvedSettings]:
    """Return the starts, None for a race, and the options with the method, the memory limit, the
    tier, the placement and the checkpoint of the problem.
    """
    method = as_method(options.method, problem, options.precision)
    threads, limit = options.threads(problem), math.inf
    placement = options.placement if is_placed(problem, options.placement, method) else None
    if max(problem.shape) > options.tuning.few_points or options.memory_limit is not None:
        limit = as_memory_limit(options.memory_limit)
    effort = Effort(method, options.precision.itemsize, placement)
    if starts is None and not problem.is_balanced:
        # A race solves the balanced problem, too, if there is room for both.
        neighbors = NeighborTier.of(options.tier)
        bytes_of = needs(problem, threads, effort, neighbors or "neighbors")
        least = bytes_of.get("neighbors") if neighbors else min(bytes_of.values())
        if least is not None and least > limit:
            starts = [PRODUCT]
    if starts is not None:
        effort = effort._replace(races=False, n_states=len(starts))
    tier = choose(problem, options.tier, limit, threads, effort)
    is_stored = tier == "dense" and placement is None
    for start in starts or ():
        if not (is_stored or start.kind in ("product", "plan", "result", Seeds.kind)):
            where = "there" if tier == "dense" else f"in tier {str(tier)!r}"
            raise MemoryError(
                f"init must be 'auto', 'product', Seeds or a plan {where}, as any other is made "
                f"as an array; got {start}"
            )
    resolved = options.resolved(method=method, placement=placement, memory_limit=limit, tier=tier)
    if options.checkpoint is not None:
        identity = _identity(problem, resolved, starts)
        checkpoint = Checkpoint(options.checkpoint, identity)
        resolved = dataclasses.replace(resolved, checkpoint=checkpoint)
    return starts, resolved


def _identity(
    problem: QuadraticProblem, options: ResolvedSettings, starts: list[AnyStart] | None
) -> str:
    """Return the digest of all that the result of a solve depends on."""
    rule, limits, between = problem.rule, options.limits, problem.between
    parts = [rule.p, rule.q, rule.name, rule.mass, rule.rho, problem.loss, problem.alpha]
    parts += [between.rows(slice(None, 100)) if isinstance(between, CrossCost) else between]
    for side in (problem.x, problem.y):
        parts += [side.features, side.signature] if isinstance(side, PointCloud) else [side.matrix]
    for start in starts or ():
        values = [x for x in getattr(start, "__dict__", {}).values() if not callable(x)]
        plans = [x.parts() for x in values if isinstance(x, Coupling)]
        parts += [str(start), *values, *(array for plan in plans for array in plan.values())]
    parts += [limits.max_outer, limits.max_inner, limits.tol, limits.marginal_tol, options.epsilon]
    parts += [options.precision.dtype, options.order, options.method, options.tier]
    return digest(*parts, options.seed, options.n_starts, options.search_time)

"""The public solver of one problem."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

from numpy.typing import ArrayLike

from ..kernels._kernels import LEAST_ENTRY
from ..kernels.threads import single_threaded_blas
from ..linear.newton import ITERATED_FROM
from ..linear.rules import Marginals, Rho
from ..problems.cross_cost import CrossCost
from ..problems.epsilon import EpsilonLike
from ..problems.geometry import PointCloud
from ..problems.graphs import CostLike
from ..problems.losses import LossName
from ..problems.quadratic import QuadraticProblem, as_problem
from ..quadratic.certificate import product_mean
from ..quadratic.judge import Limits
from ..quadratic.linearize import Tier, is_factored, is_placed
from ..quadratic.methods import MethodName, as_method
from ..quadratic.neighbors import NeighborTier
from ..quadratic.small_descent import FEW_POINTS
from ..results.coupling import ArrayCoupling
from ..results.result import GWResult
from ..utils.deadline import Deadline, OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.precision import DOUBLE, Dtype
from ..utils.progress import ProgressEvent, reporting
from ..utils.types import MemoryLimit, PathLike, Progress
from .checkpoint import Checkpoint, digest
from .options import Callback, InitLike, SolveOptions, in_force
from .product_plan import completed, no_worse_than_product, unsolved
from .search import driver
from .search.advice import conclude, doubted, other_starts, warn_of
from .search.exact import check_exact, solve_exact
from .search.levels import choose, needs
from .search.seeds import Seeds
from .search.starts import PRODUCT
from .small import small_descent, small_result


@knows_pot_names(QUADRATIC)
def gromov_wasserstein(
    cost_x: QuadraticProblem | CostLike | tuple[Any, ...],
    cost_y: CostLike | None = None,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    *,
    epsilon: EpsilonLike = "auto",
    loss: LossName = "square",
    linear_cost: ArrayLike | CrossCost | None = None,
    alpha: float | None = None,
    marginals: Marginals = "balanced",
    mass: float | None = None,
    rho: Rho | None = None,
    method: MethodName = "pgd",
    dtype: Dtype | None = None,
    init: InitLike = "auto",
    max_outer: int = 1000,
    max_inner: int = 10_000,
    tol: float = 1e-5,
    marginal_tol: float = 1e-5,
    time_limit: float | None = None,
    n_threads: int | None = None,
    memory_limit: MemoryLimit = None,
    tier: Tier = "auto",
    seed: int = 0,
    n_starts: int | None = None,
    search_time: float | None = None,
    checkpoint: PathLike | None = None,
    callback: Callback | None = None,
    progress: Progress = False,
) -> GWResult:
    """Gromov-Wasserstein plan between two spaces, entropic or exact.

    Looks for a minimum of ``sum_ijkl L(C1_ik, C2_jl) T_ij T_kl - 2 epsilon H(T)`` over plans ``T
    >= 0`` with marginals `p` and `q`, ``H(T) = -sum T log T``. The problem is not convex: which
    optimum is found depends on the start. By default several starts race; the lowest wins.

    Parameters
    ----------
    cost_x : array-like of shape (n, n), PointCloud, graph, or QuadraticProblem
        Costs (distances or similarities) within the first space, symmetric or not. Prefer a
        `PointCloud` wherever its metrics apply: with the squared loss the costs are never
        formed. A SciPy sparse matrix or a graph of networkx has the lengths of edges, see
        `GraphCost`. Without `cost_y` it may be a whole problem: a `QuadraticProblem` or a tuple
        ``(cost_x, cost_y)`` or ``(cost_x, cost_y, p, q)``.
    cost_y : array-like of shape (m, m), PointCloud, or graph
    p : array-like of shape (n,) or None, default=None
        Masses, non-negative with sum one (of unbalanced problems with any); None is uniform. A
        Series of pandas is taken in the order of its labels in `cost_x`; the same holds for `q`,
        `linear_cost` and `init`.
    q : array-like of shape (m,) or None, default=None
    epsilon : float, str or Epsilon, default="auto"
        Regularization of the linear problems, whose cost is *half* the gradient of the objective
        (POT's epsilon is twice this one). "auto" is 1.75 % of the objective of the product plan;
        other fractions are a text such as "2%", or an `Epsilon`, which also anneals. 0 is the
        exact problem, by conditional gradient (Vayer et al., ICML 2019): `tol` then bounds the
        Frank-Wolfe gap, as a fraction of the objective.
    loss : {"square", "kl"}, default="square"
        ``(a - b)^2`` or ``a log(a / b) - a + b``.
    linear_cost : array-like of shape (n, m), CrossCost or None, default=None
        Costs between points of the two spaces: the *fused* problem, whose objective is `alpha`
        times the one above plus ``(1 - alpha) <linear_cost, T>`` (Vayer et al., ICML 2019). Both
        terms should be of one scale, see `GWResult.term_ratio`.
    alpha : float or None, default=None
        Weight of the quadratic term, from 0 to 1; None is 0.5.
    marginals : {"balanced", "semirelaxed", "partial", "unbalanced"}, default="balanced"
        "semirelaxed": only `p` is given (Vincent-Cuaz et al., ICLR 2022). "partial": a plan of
        mass `mass` whose marginals are at most `p` and `q` (Chapel, Alaya and Gasso, NeurIPS
        2020). "unbalanced": masses of any totals, and a plan that pays `rho` for missing them
        (Sejourne, Vialard and Peyre, NeurIPS 2021).
    mass : float or None, default=None
        How much of the total mass, which is one, a partial plan moves.
    rho : float, pair of floats or None, default=None
        Price of an unbalanced plan's row and column sums, in units of cost: its objective has
        ``rho_x KL2(T 1 | p) + rho_y KL2(T' 1 | q)`` beside the costs, and ``epsilon KL2(T | p
        q')`` in place of the entropy, with ``KL2(a | b) = KL(a x a | b x b)``. If a price is
        infinite, that marginal is met.
    method : {"pgd", "ppa", "bapg"}, default="pgd"
        "pgd": projected gradient descent, the problem above. "ppa": the proximal point algorithm
        (Xu et al., ICML 2019), where epsilon is a step size and the objective has no entropy.
        "bapg": Bregman alternating projections (Li et al., ICLR 2023), of whose plan only the
        columns meet their marginal.
    dtype : {"float32", "float64"} or None, default=None
        Type of costs and plan; None is float32, or float64 if `epsilon` is 0. Costs must be
        matrices for float64.
    init : str, start, plan, GWResult or list of these, default="auto"
        "auto": product, profile and random plans race on at most 1500 points a side; escapes from
        the winner and starts from clusters look for a lower optimum until the `confidence` of the
        result is high or that has taken 1.5 solves (5 of clouds) or `search_time`. Methods other
        than "pgd" start from "product", ``p q'``. "profile": see `Profile`. "random": one random
        plan. "exact": the plan of ``epsilon=0``. `Seeds`: a few known pairs. An array: a plan
        (non-negative, scaled to mass one). A result: its plan. A list: starts that race on all
        points.
    max_outer, max_inner : int, default=1000, 10000
        Limits of linearizations, and of Sinkhorn iterations in any one of them.
    tol, marginal_tol : float, default=1e-5
        The solver stops when the relative changes of objective and plan (see `OuterStep`) are at
        most `tol` and the L1 error of the marginals is at most `marginal_tol`.
    time_limit : float or None, default=None
        Seconds after which the solver returns its best plan of all points so far, with `status`
        "time_limit"; without time for one, the product plan.
    n_threads : int or None, default=None
        None is one thread a core, or fewer if the problem is too small for them.
    memory_limit : float, str or None, default=None
        Bytes that a solve may take, or text such as ``"2.4GB"``; None is 90 % of the memory that
        is free.
    tier : {"auto", "dense", "tiled", "neighbors"} or NeighborTier, default="auto"
        How the kernel of two point clouds is kept: in one buffer, or a few rows at a time; "auto"
        is the first that `memory_limit` allows. "neighbors", for hundreds of thousands of points,
        keeps the nearest 32 columns of each row and rows of each column (see `NeighborTier`): an
        approximation, and `GWResult.left_out` bounds the mass that it leaves out.
    seed : int, default=0
        Seed of the random starts.
    n_starts : int or None, default=None
        Number of random starts of ``init="auto"``; None chooses it by the size.
    search_time : float or None, default=None
        Seconds for which ``init="auto"`` looks for a lower optimum; fewer if it has found nothing
        lower for half of them.
    checkpoint : path-like or None, default=None
        A file that keeps the state of the descent on all points: the same call goes on from there
        if it was killed. A file of another problem, of other options or of another version is a
        ValueError.
    callback : callable or None, default=None
        ``callback(step)`` is called with an `OuterStep` after each outer iteration that follows
        the race; if it returns true, the solver stops. During the call ``step.coupling`` is the
        plan, a `Coupling`.
    progress : bool or callable, default=False
        Whether to show a progress bar, or a function ``progress(text, done, total)``.

    Returns
    -------
    GWResult
        Warns of a `ConvergenceWarning` if a limit was reached before the tolerances, or the plan
        should not be trusted: `GWResult.status` and `GWResult.advice` say why. A problem that
        does not fit `memory_limit` is a MemoryError, before it allocates.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> result = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1])
    >>> str(result.status), bool((result.match() == np.arange(60)[::-1]).mean() > 0.9)
    ('converged', True)
    """
    deadline = Deadline.after(time_limit)
    terms: dict[str, Any] = dict(loss=loss, linear_cost=linear_cost, alpha=alpha)
    rule: dict[str, Any] = dict(marginals=marginals, mass=mass, rho=rho)
    problem = as_problem(None, cost_x, cost_y, p, q, **terms, **rule)
    options = SolveOptions(
        Limits(max_outer, max_inner, tol, marginal_tol, deadline=deadline),
        method=method,
        dtype=dtype,
        epsilon=epsilon,
        init=init,
        n_threads=n_threads,
        memory_limit=memory_limit,
        tier=tier,
        seed=seed,
        n_starts=n_starts,
        search_time=search_time,
        takes_zero=True,
        checkpoint=checkpoint,
        callback=callback,
        progress=progress,
        placement=in_force.get(),
    )
    result = solve(problem, options)
    warn_of(result, options.limits)
    return result


def solve(problem, options, race=driver.search):
    """Return the `GWResult` of a problem, without the warning of `gromov_wasserstein`; without an
    `init`, ``race(problem, options, report)`` finds the best start.
    """
    began, dtype = time.perf_counter(), options.precision.dtype
    problem, options = _represented(problem, options)
    descent = small_descent(problem, options)
    if descent is not None:
        with reporting(options.progress) as report:
            report(ProgressEvent("solve", "solving a small problem in compiled code"))
        result = small_result(problem, descent, options.limits, time.perf_counter() - began)
        return no_worse_than_product(problem, result, options)
    starts = options.starts_of(problem)
    if options.is_exact:
        limit = check_exact(problem, options)
        if starts is not None and len(starts) > 1:
            raise ValueError("init must be one start, or 'auto', with epsilon=0, got a list")
    else:
        starts, options = _prepared(problem, options, starts)
        limit = options.memory_limit
    # Searches call BLAS for more than products of small costs with vectors.
    n_points = None if starts is None else max(problem.shape)
    with single_threaded_blas(n_points), reporting(options.progress) as report:
        try:
            options.limits.deadline.check()
            if options.checkpoint and options.checkpoint.is_there:
                report(ProgressEvent("solve", f"going on from {options.checkpoint.path}"))
            if options.is_exact:
                start = starts and starts[0]
                result = solve_exact(problem, start, options, report, solve, limit)
            elif starts is None:
                found = race(problem, options, report)
                result = conclude(found.descent, found.is_tie, options.limits)
                result = doubted(problem, dataclasses.replace(result, candidates=found.candidates))
            else:
                report(ProgressEvent("solve", f"solving from {starts[0]}"))
                found = driver.search(problem, options, report, starts)
                untried, more = other_starts(options.method), dict(candidates=found.candidates)
                result = conclude(found.descent, found.is_tie, options.limits, untried, **more)
        except OutOfTime:
            result = unsolved(problem, options)
    if not options.is_exact:
        result = no_worse_than_product(problem, _in_dtype(result, dtype), options)
    return completed(problem, result, time.perf_counter() - began, limit)


def _represented(problem, options):
    """Return the problem, of matrices if products with clouds take longer or if float32 has no
    numbers for the plans on the way, and the options, then with float64.
    """
    x, y, rule = problem.x, problem.y, problem.rule
    relaxed = rule.is_relaxed and max(problem.shape) < ITERATED_FROM
    if relaxed and min(rule.rho) < 0.01 * product_mean(problem):
        # Missing a marginal costs next to nothing.
        options = dataclasses.replace(options, dtype=DOUBLE.dtype.name)
    elif (
        options.tier not in ("auto", "dense")
        or not is_factored(problem)
        or x.rank + y.rank < x.n + y.n
        or is_placed(problem, options.placement)
    ):
        return problem, options
    return problem.replace(x=x.to_dense(), y=y.to_dense()), options


def _in_dtype(result, dtype):
    """Return the result with a plan of that dtype."""
    plan = result.coupling
    if plan.dtype == dtype:
        return result
    array = plan.toarray().astype(dtype)
    array[array < LEAST_ENTRY[dtype]] = 0.0
    return dataclasses.replace(result, coupling=ArrayCoupling(array, plan.n_threads))


def _prepared(problem, options, starts):
    """Return the starts, None for a race, and the options with the method, the memory limit, the
    tier, the placement and the checkpoint of the problem.
    """
    method = as_method(options.method, problem, options.precision)
    threads, limit = options.threads(problem), math.inf
    placement = options.placement if is_placed(problem, options.placement, method) else None
    if max(problem.shape) > FEW_POINTS or options.memory_limit is not None:
        limit = as_memory_limit(options.memory_limit)
    how = dict(method=method, itemsize=options.precision.itemsize, placement=placement)
    if starts is None and not problem.is_balanced:
        # A race solves the balanced problem, too, if there is room for both.
        neighbors = NeighborTier.of(options.tier)
        bytes_of = needs(problem, threads, neighbors=neighbors or "neighbors", **how)
        least = bytes_of.get("neighbors") if neighbors else min(bytes_of.values())
        if least is not None and least > limit:
            starts = [PRODUCT]
    how |= dict(races=starts is None, n_states=1 if starts is None else len(starts))
    tier = choose(problem, options.tier, limit, threads, **how)
    whole = tier == "dense" and placement is None
    for start in starts or ():
        if not (whole or isinstance(start, Seeds) or str(start) in ("product", "plan", "result")):
            where = "there" if tier == "dense" else f"in tier {str(tier)!r}"
            raise MemoryError(
                f"init must be 'auto', 'product', Seeds or a plan {where}, as any other is made "
                f"as an array; got {start}"
            )
    known = dict(method=method, placement=placement, memory_limit=limit, tier=tier)
    checkpoint, options = options.checkpoint, dataclasses.replace(options, **known)
    identity = "" if checkpoint is None else _identity(problem, options, starts)
    return starts, dataclasses.replace(options, checkpoint=Checkpoint(checkpoint, identity))


def _identity(problem, options, starts):
    """Return the digest of all that the result of a solve depends on."""
    rule, limits, between = problem.rule, options.limits, problem.between
    parts = [rule.p, rule.q, rule.name, rule.mass, rule.rho, problem.loss, problem.alpha]
    parts += [between.rows(slice(None, 100)) if isinstance(between, CrossCost) else between]
    for side in (problem.x, problem.y):
        parts += [side.features, side.signature] if isinstance(side, PointCloud) else [side.matrix]
    for start in starts or ():
        parts += [
            str(start),
            *(x for x in getattr(start, "__dict__", {}).values() if not callable(x)),
        ]
    parts += [limits.max_outer, limits.max_inner, limits.tol, limits.marginal_tol, options.epsilon]
    parts += [options.dtype, options.order, options.seed, options.n_starts, options.search_time]
    return digest(*parts, options.method, str(options.tier))

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
from ..problems.graphs import CostLike
from ..problems.losses import LossName
from ..problems.quadratic import QuadraticProblem, as_problem
from ..quadratic.certificate import product_mean
from ..quadratic.factory import Tier, is_factored, is_placed, work
from ..quadratic.methods import PGD, MethodName, as_method
from ..quadratic.plain_terms import FEW_POINTS
from ..quadratic.stopping import Limits
from ..quadratic.stores import NeighborTier
from ..results.coupling import ArrayCoupling
from ..results.result import GWResult
from ..results.tables import Candidates
from ..utils.deadline import Deadline, OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.precision import DOUBLE, SINGLE, Dtype
from ..utils.progress import ProgressEvent, reporting
from ..utils.types import MemoryLimit, PathLike, Progress
from .checkpoint import DESCENT, NOT_KEPT, opened
from .contestants import restored_candidates
from .diagnosis import conclude, doubted, other_starts, warn_of
from .exact import check_exact, check_memory, solve_exact
from .levels import choose, fits, level_sizes, needs
from .options import Callback, InitLike, SolveOptions
from .product_plan import completed, no_worse_than_product, unsolved
from .race import search
from .second_look import second_look
from .seeds import Seeds
from .small import SmallSolve, descend_all
from .stages import UPDATES, descend, go_on, warm_start_limits
from .starts import Given, Product

# Price of a marginal, as a fraction of the mean cost, below which small unbalanced problems
# are solved in float64: with .005 float32 came to no end, with .02 both found one plan.
SMALL_PRICE = 0.01


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
    >= 0`` with marginals `p` and `q`, ``H(T) = -sum T log T``; the factor 2 makes `epsilon` that
    of the linear problems. The problem is not convex, and the optimum that is found depends on the
    start: by default several starts race, and the lowest objective wins.

    Parameters
    ----------
    cost_x : array-like of shape (n, n), PointCloud, graph, or QuadraticProblem
        Costs (distances or similarities) within the first space, symmetric or not, of
        any type of number; large matrices of float16, float32 or float64 are not
        copied, also from a file (`numpy.memmap`). Prefer a `PointCloud` wherever its
        metrics apply: with the squared loss the costs are never formed. Both sides must
        be of one kind, distances or similarities (``metric="cosine"`` is a similarity).
        A SciPy sparse matrix or a graph of networkx is a graph whose entries are the
        lengths of its edges; its costs are the lengths of the shortest paths. See
        `GraphCost` for points without a path (an error here) and for edges without
        lengths. If the entries of a sparse matrix are the costs, pass its
        ``toarray()``. `cost_x` may also be a whole problem, given without `cost_y`: a
        `QuadraticProblem` or a tuple ``(cost_x, cost_y)`` or ``(cost_x, cost_y, p,
        q)``.
    cost_y : array-like of shape (m, m), PointCloud, or graph
    p : array-like of shape (n,) or None, default=None
        Masses, non-negative with sum one (of unbalanced problems with any); None is
        uniform. Those below 1e-30 of the largest count as zero, exactly. A Series of
        pandas is taken in the order of its labels in `cost_x`, if that is a DataFrame
        or a graph of networkx; labels that differ are an error. The same holds for `q`,
        `linear_cost` and `init`.
    q : array-like of shape (m,) or None, default=None
    epsilon : float, str or Epsilon, default="auto"
        Regularization, in units of cost: the linear problems are those of the
        linearized cost, *half* the gradient of the objective (POT passes the whole
        gradient, so its epsilon is twice this one). "auto" is 1.75 % of the objective
        of the product plan; other fractions are a text such as "2%", or an `Epsilon`,
        which also anneals. 0 is the exact problem, by conditional gradient (Vayer et
        al., ICML 2019): the plan is mostly sparse (`GWResult.sparse_plan`), `tol`
        bounds the Frank-Wolfe gap as a fraction of the objective (`GWResult.gap`), and
        ``init="auto"`` never ends above the plain descent from the product plan up to
        100,000 entries of the plan, where descents with entropy from some starts go on
        with less and less of it, and the best in the end without. Larger problems begin
        with the plan that ``epsilon="auto"`` leads to; above 500,000 entries without
        the search after its race unless there is a `search_time`.
    loss : {"square", "kl"}, default="square"
        ``(a - b)^2`` or ``a log(a / b) - a + b``.
    linear_cost : array-like of shape (n, m), CrossCost or None, default=None
        Costs between points of the two spaces; those of features that both have are a
        `CrossCost`, which is never formed for two point clouds. With it the problem is
        the *fused* one: the objective above, without its entropy, is taken `alpha`
        times, plus ``(1 - alpha) <linear_cost, T>`` (Vayer et al., ICML 2019). Both
        terms should be of one scale, see `GWResult.term_ratio`.
    alpha : float or None, default=None
        Weight of the quadratic term, from 0 to 1; None is 0.5. Without `linear_cost`
        there is nothing to weigh, and a number is an error.
    marginals : {"balanced", "semirelaxed", "partial", "unbalanced"}, \
default="balanced"
        "semirelaxed": only `p` is given, and what points of the second space receive
        is free (Vincent-Cuaz et al., ICLR 2022). "partial": a plan of mass `mass` whose
        marginals are at most `p` and `q` (Chapel, Alaya and Gasso, NeurIPS 2020).
        "unbalanced": masses of any totals, and a plan that pays `rho` for missing them
        (Sejourne, Vialard and Peyre, NeurIPS 2021; Thual et al., NeurIPS 2022).
    mass : float or None, default=None
        How much of the total mass, which is one, a partial plan moves; None is all,
        which is a balanced plan.
    rho : float, pair of floats or None, default=None
        The price of an unbalanced plan's row and of its column sums, in units of cost:
        its objective has ``rho_x KL2(T 1 | p) + rho_y KL2(T' 1 | q)`` beside the costs,
        and ``epsilon KL2(T | p q')`` in place of the entropy (for plans of mass one the
        two differ by a constant), with ``KL2(a | b) = KL(a x a | b x b) = 2 m(a) KL(a |
        b) + (m(a) - m(b))^2`` and ``m`` the mass. A plan whose costs are above about
        `rho` is better off losing mass: `GWResult.mass` and `GWResult.lost` say how
        much, `GWResult.penalty` at what price. Infinity means that the marginal of that
        side is met.
    method : {"pgd", "ppa", "bapg"}, default="pgd"
        "pgd": projected gradient descent, the problem above. "ppa": the proximal point
        algorithm (Xu et al., ICML 2019): epsilon regularizes the distance from the last
        plan rather than the plan, is a step size, and the objective has no entropy.
        "bapg": Bregman alternating projections (Li et al., ICLR 2023): a row and a
        column fit in each iteration, and only the columns of the plan meet their
        marginal.
    dtype : {"float32", "float64"} or None, default=None
        Type of costs and plan; None is float32, or float64 if `epsilon` is 0. Float64
        reaches tolerances of 1e-9 and takes two to three times as long; costs must be
        matrices. Large problems begin in float32.
    init : str, start or array-like of shape (n, m), default="auto"
        Where to start. "auto": product, profile and random plans race on at most 1500
        points a side, those with most mass, and the best goes on to all points. For
        matrices of costs of more than 600 points the race is on their leading
        eigenvectors, if the costs are symmetric and mostly made of these, else on 750
        points. For small problems (10,000 entries) the best plan without entropy is
        among the starts; if the spaces are the same in another order, only plans that
        say so race, and the product plan. Where the race of a balanced problem (of
        point clouds, or of symmetric costs between 128 points or more) is not sure,
        starts from at most five coarse clusterings race as well; then the plan of the
        winner descends again, with noise. This ends when the `confidence` of the result
        is high, or after 1.5 more solves (of clouds 5, of few points more), or `search_time`.
        With other marginals the
        product plan races with the best plan of the balanced problem of the same costs.
        The search needs no known matches; `GWResult.candidates` lists the starts.
        Methods other than "pgd" start from "product". "product": ``p q'``. "profile":
        points with similarly distributed costs, see `Profile`. "random": one random
        plan with these marginals. "exact": the plan of ``epsilon=0``, by its search of
        small problems. A `Profile`. `Seeds`: a few known pairs, without a race; for two
        large point clouds they begin on as few points as the race, their own among
        these. An array: a plan (non-negative, scaled to mass one).
    max_outer : int, default=1000
        Limit of linearizations.
    max_inner : int, default=10000
        Limit of Sinkhorn iterations in any one of them.
    tol : float, default=1e-5
        The solver stops when the relative change of the objective and that of the plan
        (see `OuterStep`) are at most this and `marginal_tol` is met; what the error of
        the marginals explains of the change of the objective does not count. For dense
        costs the bound is not below what float32 rounding moves the plan by, about 1e-7
        of the largest cost over epsilon. If `epsilon` is 0, the solver stops when the
        gap is at most this fraction of the objective and steps hardly change the
        objective.
    marginal_tol : float, default=1e-5
        Largest L1 error of the marginals at which the solver stops; of a plan in the
        tier "neighbors" it may be as much as the mass that is left out.
    time_limit : float or None, default=None
        Seconds after which the solver returns its best plan of all points so far, with
        `status` "time_limit"; without time for one, the product plan
        (`GWResult.n_outer` is 0). An operation that has begun, such as copying matrices
        of 10,000 points, is finished first.
    n_threads : int or None, default=None
        None is one thread a core, or fewer if the problem is too small for them.
    memory_limit : float, str or None, default=None
        Bytes that a solve may take, or text such as ``"2.4GB"``; None is 90 % of what
        is free to this process. A search goes on after its race where two more solves
        would fit.
    tier : {"auto", "dense", "tiled", "neighbors"} or NeighborTier, default="auto"
        How the kernel of two point clouds is kept. "dense": in one n x m float32
        buffer. "tiled": a few rows at a time, made anew in every iteration. "auto" is
        the first of these that `memory_limit` allows. "neighbors", for hundreds of
        thousands of points and a small `epsilon`: the entries of the 32 nearest columns
        of each row and of the 32 nearest rows of each column, chosen anew as the plan
        moves (`NeighborTier` has other numbers). That is an approximation, and
        `GWResult.left_out` bounds the mass that it leaves out; from ``init="product"``,
        whose plan has no few neighbors, it may end far above the lowest optimum. Other
        costs are always "dense".
    seed : int, default=0
        Seed of the random starts.
    n_starts : int or None, default=None
        Number of random starts that ``init="auto"`` tries beside the others, as far as
        `time_limit` allows; None chooses it by the size, and is one if the race is on
        leading eigenvectors. If `epsilon` is 0, it is four to twelve up to 100,000
        entries, and twelve more if the `confidence` is low. For larger exact problems a
        number also leaves out the search with entropy: beside the random plans only the
        product plan and a profile are tried.
    search_time : float or None, default=None
        Seconds for which ``init="auto"`` goes on to look for a lower optimum, or for as
        long as it does without them if that is longer; fewer if it has found nothing
        lower for half of them. It counts for balanced problems in float32 and in the
        tier "dense" with memory for two more solves, and for exact problems, of which
        those of more than 100,000 entries look for a start in that time.
    checkpoint : path-like or None, default=None
        A file that keeps the state of the solve. If a solve was killed, the same call
        goes on from there, to the same optimum within the tolerances, not to the same
        bits. The file is written after outer iterations, as often as takes 5 % of the
        time, whole or not at all, without pickles. Its size is the plan's memory for
        dense costs (of each start that is left, during the race), far less for point
        clouds. It stays when the solve has ended: the same call then repeats the last
        iterations, and the search after the race, only. If the file can't be written,
        the solve warns and goes on. A file of another problem, of other options (except
        `time_limit`, which counts in each call, `n_threads`, `memory_limit`, `callback`
        and `progress`) or of another version of gwfast is a ValueError.
    callback : callable or None, default=None
        ``callback(step)`` is called with an `OuterStep` after each outer iteration
        (with ``init="auto"``, after each that follows the race); if it returns true,
        the solver stops. During the call ``step.coupling`` is the plan, a `Coupling`.
    progress : bool or callable, default=False
        Whether to show a progress bar (lines of text, if the package rich is missing);
        or a function ``progress(text, done, total)``; `total` is None if not known.

    Returns
    -------
    GWResult

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.
    MemoryError
        If the problem does not fit `memory_limit`, before anything is allocated.

    Warns
    -----
    ConvergenceWarning
        If a limit was reached before the tolerances, or the plan should not be trusted.
        `GWResult.status` says which, `GWResult.advice` what to try.
    UserWarning
        If one term of a fused problem is more than 30 times the other, see `GWResult.term_ratio`.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> result = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1])
    >>> str(result.status)
    'converged'
    >>> bool((result.plan.argmax(axis=1) == np.arange(60)[::-1]).mean() > 0.9)
    True
    >>> exact = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1], epsilon=0)
    >>> bool((exact.plan.argmax(axis=1) == np.arange(60)[::-1]).all())
    True
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
    )
    result = solve(problem, options)
    warn_of(result, options.limits)
    return result


def solve(problem, options, race=None):
    """`gromov_wasserstein` of a `QuadraticProblem`, without its warning; `race` may be
    what takes the place of the search for the best start, and returns the same.
    """
    began, problem = time.perf_counter(), _by_fewest_numbers(problem, options)
    dtype = options.precision.dtype
    small = SmallSolve.of(problem, options)
    if small is not None:
        with reporting(options.progress) as report:
            report(ProgressEvent("solve", f"solving from {small.start}"))
            descend_all([small], options.limits.deadline)
        result = small.result(time.perf_counter() - began)
        if result is not None:
            return no_worse_than_product(problem, result, options)
    if problem.rule.is_relaxed and max(problem.shape) < ITERATED_FROM:
        problem, options = _with_small_price(problem, options)
    if options.is_exact:
        check_exact(problem, options)
        start, limit = options.start_of(problem), check_memory(problem, options)
    else:
        start, options = _prepared(problem, options)
        limit = options.memory_limit
    # Searches call BLAS for more than products of small costs with vectors.
    n_points = None if start is None else max(problem.shape)
    with single_threaded_blas(n_points), reporting(options.progress) as report:
        try:
            if options.is_exact:
                result = solve_exact(problem, start, options, report, solve)
            else:
                result = _solve(problem, start, options, report, race or _race)
        except OutOfTime:
            result = unsolved(problem, options)
    if not options.is_exact:
        result = no_worse_than_product(problem, _in_dtype(result, dtype), options)
    seconds = options.checkpoint.seconds + time.perf_counter() - began
    return completed(problem, result, seconds, limit)


def _with_small_price(problem, options):
    """The problem and the options, in float64 where missing a marginal costs so little
    that float32 has no numbers for the plans on the way.
    """
    if not min(problem.rule.rho) < SMALL_PRICE * product_mean(problem):
        return problem, options
    dense = problem.replace(x=problem.x.to_dense(), y=problem.y.to_dense())
    return dense, dataclasses.replace(options, dtype=DOUBLE.dtype.name)


def _in_dtype(result, dtype):
    """The result with a plan of that dtype."""
    plan = result.coupling
    if plan.dtype == dtype:
        return result
    made = plan.toarray().astype(dtype)
    made[made < LEAST_ENTRY[dtype]] = 0.0
    return dataclasses.replace(result, coupling=ArrayCoupling(made, plan.n_threads))


def _by_fewest_numbers(problem, options):
    """Return the problem. Two clouds with more dimensions than points become matrices, as
    products and search take less time then.
    """
    x, y = problem.x, problem.y
    if options.tier not in ("auto", "dense") or not is_factored(problem):
        return problem
    if x.rank + y.rank < x.n + y.n or options.is_placed(problem):
        return problem
    return problem.replace(x=x.to_dense(), y=y.to_dense())


def _prepared(problem, options):
    """The start, None for a race, and the options with what depends on the problem:
    the method, the memory limit, the tier and the checkpoint.
    """
    precision = options.precision
    method = as_method(options.method, problem, precision)
    # A placement takes plain problems of point clouds only.
    plain = problem.is_plain and is_factored(problem, method)
    placement, start = options.placement if plain else None, options.start_of(problem)
    threads, limit = options.threads(problem), math.inf
    if max(problem.shape) > FEW_POINTS or options.memory_limit is not None:
        limit = as_memory_limit(options.memory_limit)
    kind = dict(method=method, itemsize=precision.itemsize, placement=placement)
    if start is None and not problem.is_balanced:
        # A race solves the balanced problem, too, if there is room for both.
        neighbors = NeighborTier.of(options.tier)
        takes = needs(problem, threads, neighbors=neighbors or "neighbors", **kind)
        least = takes.get("neighbors") if neighbors else min(takes.values())
        if least is not None and least > limit:
            start = Product()
    tier = choose(problem, options.tier, limit, threads, races=start is None, **kind)
    checkpoint = options.checkpoint
    if checkpoint is not NOT_KEPT:
        # A solve goes on from its checkpoint on other workers, or on more of them.
        placed = is_placed(problem, placement, method)
        parts = dict(init=start, method=method, tier=tier, placement=placed)
        checkpoint = opened(problem, options, **parts)
    chosen = dict(memory_limit=limit, tier=tier, checkpoint=checkpoint)
    chosen |= dict(method=method, placement=placement)
    return start, dataclasses.replace(options, **chosen)


def _solve(problem, start, options, report, race):
    """The `GWResult` from a start, or from the best of a race."""
    if not options.checkpoint.is_new:
        report(ProgressEvent("solve", f"going on from {options.checkpoint.path}"))
    options.limits.deadline.check()
    if start is None:
        solution, tie, candidates = race(problem, options, report)
        result = conclude(solution, tie, options.limits)
        result = dataclasses.replace(result, candidates=candidates)
        result = second_look(problem, solution, result, options, report)
        return doubted(problem, result)
    whole = options.tier == "dense" and not options.is_placed(problem)
    # Their plan is that of a coarse level, which is dense.
    coarse = isinstance(start, Seeds) and (whole or NeighborTier.of(options.tier))
    coarse = coarse and _has_levels(problem, options)
    if not (whole or coarse or isinstance(start, Product | Given)):
        tier = str(options.tier)
        where = f"in tier {tier!r}" if tier != "dense" else "there"
        raise MemoryError(
            f"init must be 'auto', 'product' or a plan {where}, as any other is made "
            f"as an array; got {start}"
        )
    report(ProgressEvent("solve", f"solving from {start}"))
    if coarse:
        winner, *_ = search(problem, options, report, seeds=start.of(problem))
        solution = winner.solution
    else:
        solution = descend(problem, start, options)
    return conclude(solution, False, options.limits, other_starts(options.method))


def _has_levels(problem, options):
    """Whether seeds begin on the coarse levels of a race: iterations on all points cost
    more, and fewer are left of them. (Spanish and French, 7000 words: from 5 known
    pairs 10.4 s of one thread with coarse levels, 13.9 s without.)
    """
    if options.method is not PGD or not (problem.is_balanced and is_factored(problem)):
        return False
    has_sizes = bool(level_sizes(problem, options.tier))
    return has_sizes and fits(problem, options, str(options.tier))


def _race(problem, options, report):
    """`search`, and in float64 the descent from the winner of a search in float32; the
    solution, `is_tie` and the `Candidates`.
    """
    if options.precision is SINGLE or not problem.is_balanced:
        winner, *others = search(problem, options, report)
        return winner.solution, *others
    saved = options.checkpoint.at(DESCENT)
    if saved is not None:
        with options.checkpoint.restoring():
            tried = Candidates(restored_candidates(saved["tried"]))
            others = bool(saved["tie"]), tried
        return go_on(None, None, problem, options, others), *others
    limits = warm_start_limits(options.limits)
    rough = dataclasses.replace(options, limits=limits, callback=None)
    further = UPDATES * work(problem, itemsize=options.precision.itemsize)
    winner, *others = search(problem, rough, report, further)
    epsilons = winner.loop.epsilons
    if options.epsilon.value is not None:
        epsilons = dataclasses.replace(epsilons, last=options.epsilon.value)
    return go_on(winner.solution, epsilons, problem, options, others), *others

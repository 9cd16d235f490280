"""The public solvers for costs of one's own, and what their results are worth."""

import dataclasses
import time
import warnings

from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..problems.epsilon import as_epsilon
from ..problems.low_rank import smoothed
from ..problems.quadratic import QuadraticProblem
from ..quadratic.factory import is_factored, linearize
from ..quadratic.information import mass_entropy
from ..quadratic.methods import PGD, as_method
from ..quadratic.outer_loop import OuterLoop
from ..quadratic.stopping import Limits
from ..results.result import Candidates, ConvergenceWarning
from ..results.status import Status
from ..utils.memory import as_limit
from ..utils.precision import SINGLE, as_precision
from ..utils.progress import watching
from ..utils.validation import as_callback, as_count
from .levels import choose
from .race import search
from .starts import Given, Product, as_start, start_plan

# A plan whose information about who matches whom (Kullback-Leibler divergence from the
# product plan) is below this share of the most there could be has matched nothing.
LEAST_INFORMATION = 0.02
# Epsilon, as a share of the mean pseudo-cost, that is not too large in general.
USUAL_SHARE = 0.03
# A point that keeps less than this share of its mass has lost it.
LEAST_MASS = 0.01

# Entries of a float64 plan from which on float32 comes first, and how far it goes.
HEAD_SIZE = 1 << 16
HEAD = Limits(max_outer=1000, max_inner=1000, tol=1e-4, marginal_tol=1e-4)
# With fewer iterations than this all of them are of the problem itself.
STAGED_FROM = 50
# How far the largest eigenvalues do.
SMOOTH = Limits(max_outer=1000, max_inner=1000, tol=0.05, marginal_tol=0.01)


def gromov_wasserstein(
    cost_x,
    cost_y,
    p=None,
    q=None,
    *,
    epsilon="auto",
    loss="square",
    linear_cost=None,
    alpha=0.5,
    marginals="balanced",
    mass=None,
    method="pgd",
    dtype="float32",
    init="auto",
    max_outer=1000,
    max_inner=10_000,
    tol=1e-5,
    marginal_tol=1e-5,
    n_threads=None,
    memory_limit=None,
    tier="auto",
    seed=0,
    callback=None,
    progress=False,
):
    """Entropic Gromov-Wasserstein plan between two spaces.

    Looks for a minimum of ``sum_ijkl L(C1_ik, C2_jl) T_ij T_kl - 2 epsilon H(T)`` over
    plans ``T >= 0`` with marginals `p` and `q`, ``H(T) = -sum T log T``. (The 2 comes
    from `epsilon` being that of the linear problems, see there.) The problem is not
    convex, and which optimum is found depends on the start: by default a small
    portfolio of them races, and the lowest objective wins.

    Parameters
    ----------
    cost_x : array-like of shape (n, n), or PointCloud
        Costs (distances or similarities) within the first space, symmetric or not. A
        `PointCloud` is worth it wherever its metrics apply: with the squared loss the
        costs are never formed. Both sides must be of one kind, distances or
        similarities (``metric="cosine"`` is a similarity).
    cost_y : array-like of shape (m, m), or PointCloud
    p : array-like of shape (n,) or None, default=None
        Masses, non-negative with sum one; None is uniform.
    q : array-like of shape (m,) or None, default=None
    epsilon : float, "auto" or Epsilon, default="auto"
        Regularization, in units of cost: the linear problems are those of
        ``lin_cost``, *half* the gradient of the objective. POT passes the whole
        gradient, so its epsilon is twice ours. "auto" is 1.75 % of the objective of the
        product plan; `Epsilon` says other shares, and annealing.
    loss : {"square", "kl"}, default="square"
        ``(a - b)^2`` or ``a log(a / b) - a + b``.
    linear_cost : array-like of shape (n, m) or None, default=None
        Costs between points of the two spaces. With it the problem is the *fused* one:
        the objective above, without its entropy, is taken `alpha` times, plus
        ``(1 - alpha) <linear_cost, T>`` (Vayer et al., ICML 2019).
    alpha : float, default=0.5
        Weight of the quadratic term, from 0 to 1; without `linear_cost` there is
        nothing to weigh.
    marginals : {"balanced", "semirelaxed", "partial"}, default="balanced"
        "semirelaxed": only `p` is given, and what points of the second space receive
        is free (Vincent-Cuaz et al., ICLR 2022). "partial": a plan of mass `mass` whose
        marginals are at most `p` and `q` (Chapel, Alaya and Gasso, NeurIPS 2020).
    mass : float or None, default=None
        How much of the mass, one in all, a partial plan moves; None is all.
    method : {"pgd", "ppa", "bapg"}, default="pgd"
        "pgd": projected gradient descent, the problem above. "ppa": the proximal point
        algorithm (Xu et al., ICML 2019): epsilon regularizes the distance from the last
        plan rather than the plan, is a step size, and the objective has no entropy.
        "bapg": Bregman alternating projections (Li et al., ICLR 2023): a row and a
        column fit in each iteration, and only the columns of the plan meet their
        marginal.
    dtype : {"float32", "float64"}, default="float32"
        Of costs and plan. Float64 reaches tolerances of 1e-9 and takes two to three
        times as long; costs must be matrices. Large problems begin in float32.
    init : str, start or array-like of shape (n, m), default="auto"
        Where to start. "auto": product, profile and random plans race, on at most 1500
        points a side (750 for dense costs, those with most mass first), and the best
        goes on to all points; no matches are needed, and `GWResult.candidates` shows
        what was tried; only for balanced problems and ``method="pgd"``, others start
        from "product". "product": ``p q'``. "profile": points with similarly
        distributed costs, see `Profile`. "random": one such plan with these marginals.
        A `Profile`, or `Seeds`: a few correspondences. An array: a plan (non-negative,
        scaled to mass one).
    max_outer : int, default=1000
        Limit of linearizations.
    max_inner : int, default=10000
        Limit of Sinkhorn passes in any one of them.
    tol : float, default=1e-5
        Stops when both the objective and the plan (see `OuterStep`) change by at most
        this, relatively (for dense costs not less than rounding the pseudo-cost to
        float32 moves the plan by, about 1e-7 of the largest cost over epsilon),
    marginal_tol : float, default=1e-5
        and the L1 error of the marginals is at most this.
    n_threads : int or None, default=None
        None is one a core, as far as the problem is large enough.
    memory_limit : float, str or None, default=None
        Bytes that a solve may take, or text such as ``"2.4GB"``; None is 90 % of what
        is free to this process.
    tier : {"auto", "dense", "sparse", "tiled"}, default="auto"
        How the kernel of two point clouds is kept. "dense": in one n x m float32
        buffer. "sparse": what matters of it, once the plan is concentrated; the plan
        then lacks at most `GWResult.left_out` of any row or column. "tiled": never more
        than some rows; every pass makes it anew from its factors. "auto" is the first
        of these that `memory_limit` allows. Other costs are always "dense".
    seed : int, default=0
        For random starts.
    callback : callable or None, default=None
        ``callback(step)`` is called with an `OuterStep` after each outer iteration; if
        what it returns is true, the solver stops. With ``init="auto"`` only after those
        that follow the race. During the call ``step.coupling`` is the plan of the
        iteration, a `Coupling`: ``step.coupling.topk(1)``, say.
    progress : bool or callable, default=False
        Whether to show a progress bar, which needs the package rich; or
        ``progress(text, done, total)``, to be told what is going on (`total` is None
        where it is not known).

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
    """
    problem = QuadraticProblem(
        cost_x,
        cost_y,
        p,
        q,
        loss=loss,
        linear_cost=linear_cost,
        alpha=alpha,
        marginals=marginals,
        mass=mass,
    )
    limits = Limits(max_outer, max_inner, tol, marginal_tol)
    result = solve(
        problem,
        method=method,
        dtype=dtype,
        epsilon=epsilon,
        init=init,
        limits=limits,
        order="mass",
        n_threads=n_threads,
        memory_limit=memory_limit,
        tier=tier,
        seed=seed,
        callback=callback,
        progress=progress,
    )
    warn_of(result, limits, stacklevel=3)
    return result


def solve(
    problem,
    *,
    method="pgd",
    dtype="float32",
    epsilon,
    init,
    limits,
    order,
    n_threads,
    memory_limit,
    tier,
    seed,
    callback,
    progress,
):
    """`gromov_wasserstein` of a `QuadraticProblem`, without its warning; for `order`
    see `search`.
    """
    began = time.perf_counter()
    seed, callback = as_count(seed, "seed", least=0), as_callback(callback)
    epsilon, auto = as_epsilon(epsilon), isinstance(init, str) and init == "auto"
    precision = as_precision(dtype)
    method = as_method(method, problem, precision)
    if auto and not (method is PGD and problem.is_balanced):
        auto, init = False, "product"
    start = None
    if not auto:
        start = as_start(init, problem, seed, also=("auto",), dtype=precision.dtype)
    threads = resolve_n_threads(n_threads, work=problem.shape[0] * problem.shape[1])
    limit = as_limit(memory_limit)
    tier = choose(
        problem, tier, limit, threads, method=method, itemsize=precision.itemsize
    )
    tie, candidates = False, Candidates()
    with single_threaded_blas(), watching(progress) as watch:
        if auto:
            found, tie, candidates = search(
                problem,
                epsilon,
                limits if precision is SINGLE else near(limits),
                order=order,
                n_threads=n_threads,
                tier=tier,
                limit=limit,
                seed=seed,
                callback=callback if precision is SINGLE else None,
                watch=watch,
            )
            solution = found.solution
            if precision is not SINGLE:
                solution = go_on(found, problem, limits, precision, callback)
        else:
            if tier != "dense" and not isinstance(start, Product | Given):
                raise MemoryError(
                    f"init must be 'auto', 'product' or a plan in tier {tier!r}, as "
                    f"any other is made as an array; got {start}"
                )
            plan = start_plan(start, problem, threads)
            watch(f"solving from {start}")
            solution = descend(
                problem,
                epsilon,
                plan,
                limits,
                tier=tier,
                method=method,
                precision=precision,
                n_threads=threads,
                callback=callback,
            )
        result = conclude(solution, tie)
    return dataclasses.replace(
        result,
        coupling=result.coupling.with_limit(limit),
        candidates=candidates,
        seconds=time.perf_counter() - began,
    )


def descend(
    problem, epsilon, plan, limits, *, tier, method, precision, n_threads, callback
):
    """A `Solution` from one plan, None for the product plan.

    With many points it gets near that by what costs less: the largest eigenvalues of
    the costs, then float32.
    """
    n, m = problem.shape
    linearization = linearize(
        problem, n_threads, tier, method=method, precision=precision
    )
    epsilons = epsilon.resolve(linearization)
    stages, rounded = [], None
    staged = not is_factored(problem, method) and method is PGD
    staged = staged and epsilons.last >= SINGLE.min_epsilon * linearization.cost_scale
    if staged and limits.max_outer >= STAGED_FROM:
        smooth = smoothed(problem, n_threads)
        if smooth is not None:
            stages.append((linearize(smooth, n_threads), SMOOTH))
        if precision is not SINGLE and n * m >= HEAD_SIZE:
            rounded = linearization.rounded(SINGLE)
            stages.append((rounded, HEAD))
    last = None
    for stage, most in stages:
        if last is None or last.status != Status.STOPPED:
            last = _run(
                stage, epsilons, plan, last, near(limits, most), method, callback
            )
    if last is not None and last.linearization is rounded:
        linearization.use_increments(rounded)
    if last is None or last.status != Status.STOPPED:
        return _run(linearization, epsilons, plan, last, limits, method, callback)
    # Stopped early: one iteration makes a plan of the problem itself.
    one = dataclasses.replace(limits, max_outer=len(last.history) + 1)
    last = _run(linearization, epsilons, plan, last, one, method, None)
    return dataclasses.replace(last, status=Status.STOPPED)


def _run(linearization, epsilons, plan, last, limits, method, callback):
    """The `Solution` of a loop from a plan, or from where the last one ended."""
    start = None
    if last is not None:
        plan, start = last.coupling.toarray(), last.warm_start(linearization)
    gw_cost = linearization.start(plan)
    loop = OuterLoop(linearization, epsilons, gw_cost, method=method, warm_start=start)
    return loop.run(limits, callback)


def near(limits, first=HEAD):
    """The limits `first`, within those asked for; the last iteration is left for the
    problem itself.
    """
    return dataclasses.replace(
        first,
        max_outer=max(limits.max_outer - 1, 1),
        max_inner=min(first.max_inner, limits.max_inner),
    )


def go_on(found, problem, limits, precision, callback):
    """The `Solution` in another precision from where a candidate ended."""
    before = found.solution.linearization
    linearization = linearize(problem, before.n_threads, precision=precision)
    gw_cost = linearization.start(before.state)
    start, epsilons = found.solution.warm_start(linearization), found.loop.epsilons
    loop = OuterLoop(linearization, epsilons, gw_cost, warm_start=start)
    return loop.run(limits, callback)


def conclude(solution, tie):
    """The `GWResult` of a solution."""
    status, advice = _diagnose(solution, tie)
    return solution.result(status=status, advice=advice)


def warn_of(result, limits, stacklevel):
    """Warn where the result is not what one would expect."""
    if result.status in ("converged", "stopped"):
        return
    warnings.warn(
        f"Gromov-Wasserstein ended as {result.status!r} after {result.n_outer} outer "
        f"iterations with change {result.history[-1].change:.1e} (tol "
        f"{limits.tol:.1e}) and marginal error {result.marginal_error:.1e} "
        f"(marginal_tol {limits.marginal_tol:.1e}): {result.advice}",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


def _diagnose(solution, tie):
    """Status and advice."""
    linearization, marginals = solution.linearization, solution.marginals
    problem, status, epsilon = linearization.problem, solution.status, solution.epsilon
    if status == "stopped":
        return status, ""
    if not problem.is_balanced:
        # Points may well have no mass, or hardly any; and steps may go in circles.
        advice = _ADVICE[status]
        if status == "max_outer" and linearization.method is PGD:
            advice += "; or method='ppa', whose steps are smaller"
        return status, advice
    kept = min(
        (sums[masses > 0] / masses[masses > 0]).min()
        for sums, masses in zip(marginals, (problem.p, problem.q), strict=True)
    )
    if not kept >= LEAST_MASS:  # true for NaN
        return "lost_mass", (
            f"a point keeps {kept:.1g} of its mass; try a larger epsilon than "
            f"{epsilon:.3g}, or a larger max_inner"
        )
    if status in ("converged", "precision", "max_inner"):
        most = min(mass_entropy(problem.p), mass_entropy(problem.q))
        # Where one side's costs are all equal every plan is as good as the product
        # plan, and where it is a point that is the only one.
        different = most > 0 and not (problem.x.is_constant or problem.y.is_constant)
        if different and solution.information[0] < LEAST_INFORMATION * most:
            return "near_product", _near_product_advice(linearization, epsilon)
    if status == "converged" and tie:
        return "tie", (
            "another plan has the same objective, see candidates: the spaces are "
            "symmetric, or tell too little apart; more points or a few known pairs "
            "(init=Seeds(...)) decide"
        )
    return status, _ADVICE[status]


def _near_product_advice(linearization, epsilon):
    share = epsilon / (linearization.product_cost or linearization.cost_scale)
    advice = (
        "the plan hardly differs from the product plan and matches nothing, at an "
        f"epsilon of {epsilon:.3g}, {100 * share:.3g} % of the mean pseudo-cost (1 to "
        "3 % is usual); "
    )
    if share > USUAL_SHARE:
        return advice + "try a smaller epsilon"
    return advice + (
        'try another start (init="auto"), costs of the same scale on both sides '
        "(divided by their standard deviation, say), or without outliers"
    )


_ADVICE = {
    "converged": "",
    "max_outer": "try a larger max_outer, or a larger tol",
    "max_inner": "try a larger max_inner, a larger epsilon or a larger marginal_tol",
    "precision": "float32 gets no further; try a larger epsilon, tol or marginal_tol",
}

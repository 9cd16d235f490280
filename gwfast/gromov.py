"""Entropic Gromov-Wasserstein: linearize at the plan, solve the linear problem, repeat
(projected gradient descent of Peyre, Cuturi and Solomon, ICML 2016; Algorithm 1 of
Alvarez-Melis and Jaakkola, EMNLP 2018).

Two things differ from the textbook loop, and neither moves where it ends. The
potentials of one linear problem start the next. And early linear problems are solved
only as well as the plan still moves: the tolerance of the inner iterations follows the
change of the outer ones, down to the one that was asked for.
"""

import time
import warnings

import numpy as np

from ._validation import as_callback, as_count, as_matrix, as_positive, one_of
from .epsilon import resolve_epsilon
from .kernels import _kernels
from .kernels.threads import resolve_n_threads, single_threaded_blas
from .problem import QuadraticProblem
from .result import ConvergenceWarning, GWResult, OuterStep
from .sinkhorn import SinkhornSolver, in_units

# Outer iterations without a smaller change that count as standing still, and the
# change below which that is float32's doing at any epsilon.
STALLED_AFTER, STALLED_BELOW = 20, 1e-4
# How much tighter inner solutions may get because the objective rose.
MOST_TIGHTENING = 16
FLOAT32 = float(np.finfo(np.float32).eps) / 2

# Relative rounding of the objective, a difference of larger terms in float32.
ROUNDING = 1e-6

INITS = ("product", "random")
# A random start need not meet its marginals better than this.
RANDOM_TOL, RANDOM_PASSES = 1e-3, 50


def gromov_wasserstein(
    cost_x,
    cost_y,
    p=None,
    q=None,
    *,
    epsilon,
    loss="square",
    init="product",
    max_outer=1000,
    max_inner=10_000,
    tol=1e-5,
    marginal_tol=1e-5,
    n_threads=None,
    seed=0,
    callback=None,
):
    """Entropic Gromov-Wasserstein plan between two spaces.

    Looks for a minimum of ``sum_ijkl L(C1_ik, C2_jl) T_ij T_kl - epsilon * H(T)`` over
    plans ``T >= 0`` with marginals `p` and `q`, ``H(T) = -sum T log T``. The problem is
    not convex; what is found depends on `init`.

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
    epsilon : float or "auto"
        Regularization, in units of cost: the linear problems are those of
        ``lin_cost``, *half* the gradient of the objective. POT passes the whole
        gradient, so its epsilon is twice ours. "auto" is 2 % of the objective of the
        product plan.
    loss : {"square", "kl"}, default="square"
        ``(a - b)^2`` or ``a log(a / b) - a + b``.
    init : {"product", "random"} or array-like of shape (n, m), default="product"
        Plan to start from: ``p q'``, a random one with these marginals, or a given one
        (non-negative, scaled to mass one).
    max_outer : int, default=1000
        Limit of linearizations.
    max_inner : int, default=10000
        Limit of Sinkhorn passes in any one of them.
    tol : float, default=1e-5
        Stops when both the objective and the plan (see `OuterStep`) change by at most
        this, relatively (for dense costs not less than rounding the pseudo-cost to
        float32 moves the plan by, 6e-8 of the largest cost over epsilon),
    marginal_tol : float, default=1e-5
        and the L1 error of the marginals is at most this.
    n_threads : int or None, default=None
        None is one a core, as far as the problem is large enough.
    seed : int, default=0
        For ``init="random"``.
    callback : callable or None, default=None
        ``callback(step)`` is called with an `OuterStep` after each outer iteration; if
        what it returns is true, the solver stops.

    Returns
    -------
    GWResult

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Warns
    -----
    ConvergenceWarning
        If a limit was reached before the tolerances.
    """
    problem = QuadraticProblem(cost_x, cost_y, p, q, loss=loss)
    return solve(
        problem,
        epsilon=epsilon,
        init=init,
        max_outer=max_outer,
        max_inner=max_inner,
        tol=tol,
        marginal_tol=marginal_tol,
        n_threads=n_threads,
        seed=seed,
        callback=callback,
        stacklevel=3,
    )


def solve(
    problem,
    *,
    epsilon,
    init,
    max_outer,
    max_inner,
    tol,
    marginal_tol,
    n_threads,
    seed,
    callback,
    stacklevel,
):
    """`gromov_wasserstein` of a `QuadraticProblem`; see there."""
    began = time.perf_counter()
    max_outer = as_count(max_outer, "max_outer")
    max_inner = as_count(max_inner, "max_inner")
    tol = as_positive(tol, "tol")
    marginal_tol = as_positive(marginal_tol, "marginal_tol")
    seed, callback = as_count(seed, "seed", least=0), as_callback(callback)
    n_threads = resolve_n_threads(n_threads, work=problem.shape[0] * problem.shape[1])
    start = _initial_plan(init, problem, seed)

    with single_threaded_blas():
        linearization = problem.linearize(n_threads)
        epsilon = resolve_epsilon(epsilon, linearization)
        inner_epsilon = in_units(epsilon, linearization.unit)
        gw_cost = linearization.start(start)
        solver = SinkhornSolver(problem.p, problem.q, n_threads)
        few, share = linearization.inner_passes, linearization.inner_share
        # Rounding the pseudo-cost to float32 moves its plan by about this much.
        floor = FLOAT32 / inner_epsilon
        if linearization.change_is_rounded:
            tol = max(tol, floor)

        history, change, settled = [], 1.0, False
        while True:
            # The last plan that the limit allows has to keep its marginals too.
            thorough = settled or len(history) + 1 == max_outer
            error, n_inner = solver.solve(
                linearization.buffer,
                linearization.fill,
                inner_epsilon,
                tol=marginal_tol if thorough else max(marginal_tol, share * change),
                max_iter=max_inner if thorough else min(few, max_inner),
            )
            before = gw_cost
            gw_cost, change = linearization.update(solver.rows, solver.cols)
            # The objective is a small difference of larger terms; where it is zero (an
            # exact match) their rounding is all that moves.
            allowed = tol * abs(gw_cost) + ROUNDING * linearization.magnitude
            step = OuterStep(
                iteration=len(history) + 1,
                gw_cost=gw_cost,
                epsilon=epsilon,
                change=change,
                marginal_error=error,
                n_inner=n_inner,
                seconds=time.perf_counter() - began,
            )
            history.append(step)
            if error > change:
                # The plan now moves because its marginals are still settling.
                few *= 2
            elif gw_cost > before + allowed:
                # So does the objective, or rough inner solutions have made the outer
                # iterations cycle, which exact ones cannot (for concave objectives).
                # What cycles nevertheless is not worth unlimited passes.
                few = max(
                    few, min(2 * few, MOST_TIGHTENING * linearization.inner_passes)
                )
                share = max(share / 2, linearization.inner_share / MOST_TIGHTENING)
            settled = change <= tol and abs(gw_cost - before) <= allowed
            status = None
            if callback is not None and callback(step):
                status = "stopped"
            elif settled and error <= marginal_tol:
                status = "converged"
            elif settled and thorough:
                # Nothing moves, and the marginals are as good as they get.
                status = "max_inner" if n_inner >= max_inner else "precision"
            elif _stalled(history, max(STALLED_BELOW, floor)):
                status = "precision"
            elif len(history) >= max_outer:
                status = "max_outer"
            if status is not None:
                break

        plan = linearization.plan
        entropy = _kernels.entropy(plan, n_threads)

    if status not in ("converged", "stopped"):
        warnings.warn(
            f"Gromov-Wasserstein stopped ({status}) after {len(history)} outer "
            f"iterations with change {change:.1e} (tol {tol:.1e}) and marginal error "
            f"{error:.1e} (marginal_tol {marginal_tol:.1e})",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
    return GWResult(
        plan=plan,
        potentials=(
            linearization.unit * solver.f + linearization.row_cost,
            linearization.unit * solver.g + linearization.col_cost,
        ),
        gw_cost=gw_cost,
        reg_cost=gw_cost - epsilon * entropy,
        epsilon=epsilon,
        marginal_error=error,
        n_outer=len(history),
        n_inner=sum(step.n_inner for step in history),
        status=status,
        history=tuple(history),
        seconds=time.perf_counter() - began,
    )


def _stalled(history, floor):
    """Whether the change no longer falls, near the floor of rounding."""
    if len(history) <= STALLED_AFTER:
        return False
    recent = [step.change for step in history[-STALLED_AFTER:]]
    before = min(step.change for step in history[:-STALLED_AFTER])
    # All of them below: a plan that leaves a saddle changes little, then much.
    return before <= min(recent) and max(recent) < floor


def _initial_plan(init, problem, seed):
    """A float32 plan of mass one, or None for the product plan."""
    if isinstance(init, str):
        one_of(init, "init", INITS)
        if init == "product":
            return None
        return _random_plan(problem, seed)
    plan = as_matrix(init, "init", shape=problem.shape)
    if plan.min() < 0:
        raise ValueError(f"init must not be negative, got {plan.min()}")
    total = plan.sum(dtype=np.float64)
    if not total > 0:
        raise ValueError("init must have mass, got a sum of 0")
    return np.ascontiguousarray(plan / total, dtype=np.float32)


def _random_plan(problem, seed):
    """Independent uniform entries, scaled to the marginals."""
    rng, plan = np.random.default_rng(seed), np.empty(problem.shape, dtype=np.float32)

    def fill():
        rng.standard_exponential(out=plan, dtype=np.float32)

    SinkhornSolver(problem.p, problem.q, n_threads=1).solve(
        plan, fill, 1.0, tol=RANDOM_TOL, max_iter=RANDOM_PASSES
    )
    return plan

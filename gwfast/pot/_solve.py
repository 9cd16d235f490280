"""The one way from POT's functions to gwfast's solver: POT's conventions on one side
(epsilon twice ours, any total mass, absolute tolerances), ours on the other.
"""

import dataclasses

import numpy as np

from ..kernels.threads import single_threaded_blas
from ..problems.epsilon import Epsilon
from ..problems.geometry import DenseCost
from ..problems.losses import LOSSES
from ..problems.quadratic import QuadraticProblem
from ..quadratic.factory import linearize
from ..quadratic.outer_loop import Limits
from ..solvers.options import SolveOptions
from ..solvers.stages import descend
from ..utils.precision import as_precision

# Share of the mass that may be in the wrong rows of a plan by alternating projections,
# which fit the columns last, unremarked.
MISSED = 0.5
# POT looks at the change of a plan in the first iteration and every tenth after it.
# What is about to leave a saddle moves little for a while, and has left by then.
CHECKED_EVERY = 10
# A tolerance of zero is taken as this.
LEAST_TOL = 1e-300
# Error of the marginals above which they are put right, at the price of a plan that is
# no longer quite the solution of its last linear problem.
ROUNDED = 1e-6


@dataclasses.dataclass(frozen=True)
class Solved:
    """A plan and what it costs, in POT's conventions.

    Attributes
    ----------
    plan : (n, m) ndarray
    quad : float
        The Gromov-Wasserstein term, ``gwloss(constC, hC1, hC2, T)``.
    linear : float
        ``<linear_cost, T>``.
    separable : float
        ``sum(constC * T)``; NaN where no one asked.
    errors : list of float
        Frobenius norms of the changes of all outer iterations that made a plan.
    status, advice : str
        See `GWResult`.
    """

    plan: np.ndarray
    quad: float
    linear: float
    separable: float
    errors: list
    status: str
    advice: str


def solve(
    cost_x,
    cost_y,
    p,
    q,
    *,
    epsilon,
    loss="square",
    linear_cost=None,
    alpha=1.0,
    symmetric=None,
    start=None,
    method="pgd",
    marginals="balanced",
    mass=None,
    marginal_loss=True,
    max_iter=1000,
    tol=1e-9,
    max_inner=1000,
    inner_tol=1e-9,
    report=None,
):
    """Solve a problem as POT states it; all arrays of one float dtype.

    Parameters
    ----------
    cost_x, cost_y : (n, n) and (m, m) ndarrays
    p : (n,) ndarray
    q : (m,) ndarray or None
    epsilon : float
        POT's.
    start : (n, m) ndarray or None
        Taken as it is; None is the product plan.
    marginal_loss : bool
        Whether ``method="bapg"`` sees the terms of the marginals.
    tol, inner_tol : float
        Frobenius norm of the change of the plan, norm of the error of a marginal.
    report : callable or None
        ``report(iteration, error)`` after each outer iteration.

    Returns
    -------
    Solved
    """
    n, m = len(cost_x), len(cost_y)
    asked = cost_x.dtype
    if method != "pgd" and asked == np.float32:
        # Proximal steps shrink for long, and are lost in the rounding of float32.
        cost_x, cost_y = cost_x.astype(np.float64), cost_y.astype(np.float64)
    total = float(p.sum(dtype=np.float64))
    fused = linear_cost is not None
    problem = QuadraticProblem(
        DenseCost(cost_x, "C1", symmetric=symmetric),
        DenseCost(cost_y, "C2", symmetric=symmetric),
        loss=loss,
        linear_cost=linear_cost / total if fused and total != 1.0 else linear_cost,
        alpha=alpha,
        marginals=marginals,
    )
    problem.p = p.astype(np.float64) / total
    if q is not None:
        problem.q = q.astype(np.float64) / total
    if mass is not None:
        problem.mass = float(mass) / total
    problem.marginal_terms = marginal_loss
    precision = as_precision(cost_x.dtype)
    problem.check_method(method, precision)
    limits = Limits(
        max_outer=max(int(max_iter), 1),
        max_inner=int(max_inner),
        tol=max(tol / total, LEAST_TOL),
        # Ours is the sum of absolute errors; evenly spread it is that much larger.
        marginal_tol=max(inner_tol / total * np.sqrt(min(n, m)) / 2, LEAST_TOL),
        absolute=True,
        every=CHECKED_EVERY,
    )

    weight = alpha if fused else 1.0

    def separable(rows, cols):
        """``sum(constC * T)`` of a plan with these marginals, of mass one."""
        terms = LOSSES[loss]
        return float(
            rows @ (terms.f1(cost_x) @ problem.p)
            + cols @ (terms.f2(cost_y) @ problem.q)
        )

    def solved(plan, objective, linear, **more):
        quad = (objective - (1.0 - weight) * linear) / weight if weight else 0.0
        fields = dict(quad=quad, linear=linear, separable=np.nan) | more
        for name in ("quad", "linear", "separable"):
            fields[name] = float(fields[name]) * total**2
        plan = plan * total if total != 1.0 else plan
        return Solved(plan=plan.astype(asked, copy=False), **fields)

    def value_of(linearization, plan):
        """Objective and linear term of a plan that no step has made."""
        linear = float(np.vdot(problem.linear_cost, plan)) if fused else 0.0
        return linearization.start(plan), linear

    start = start if start is None or total == 1.0 else start / total
    if max_iter < 1:
        if start is None:
            start = problem.mass * np.outer(problem.p, problem.q)
        plan = np.array(start, dtype=np.float64)
        linearization = linearize(
            problem, 1, method=method, precision=as_precision("float64")
        )
        return solved(
            plan,
            *value_of(linearization, plan),
            separable=separable(plan.sum(axis=1), plan.sum(axis=0)),
            errors=[],
            status="max_outer",
            advice="",
        )

    def tell(step):
        if not np.isnan(step.moved):
            report(step.iteration, total * step.moved)

    with single_threaded_blas():
        descent = descend(
            problem,
            start,
            SolveOptions(
                limits=limits,
                epsilon=Epsilon(epsilon / (2.0 * total)),
                method=method,
                precision=precision,
                tier="dense",
                callback=report and tell,
            ),
        )
        linearization = descent.linearization
        plan = descent.coupling().toarray()
        objective, linear = descent.gw_cost, linearization.linear_cost()
        fitted = problem.is_balanced and method != "bapg"
        if fitted and not descent.error <= ROUNDED:
            plan = rounded(plan, problem.p, problem.q)
            objective, linear = value_of(linearization, plan)
    more, advice = {}, ""
    if method == "bapg":
        rows, cols = linearization.marginals
        apart = separable(rows, cols)
        # POT's value of a plan without these marginals, at any rate.
        quad = apart + linearization.bilinear / weight if weight else 0.0
        more = dict(separable=apart, quad=quad)
        missed = float(np.abs(rows - problem.p).sum()) / 2
        if missed > MISSED:
            advice = f"{missed:.0%} of the mass is in other rows than p says; try a "
            advice += "larger epsilon"
    return solved(
        plan,
        objective,
        linear,
        errors=[moved * total for moved in descent.moves if not np.isnan(moved)],
        status=descent.status,
        advice=advice,
        **more,
    )


def rounded(plan, p, q):
    """A plan that has these marginals, near one that misses them (Altschuler, Weed and
    Rigollet, NeurIPS 2017, Algorithm 2).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.nan_to_num(np.minimum(p / plan.sum(axis=1, dtype=np.float64), 1.0))
        plan = plan * rows[:, None].astype(plan.dtype)
        cols = np.nan_to_num(np.minimum(q / plan.sum(axis=0, dtype=np.float64), 1.0))
    plan *= cols.astype(plan.dtype)
    rows = np.maximum(p - plan.sum(axis=1, dtype=np.float64), 0.0)
    cols = np.maximum(q - plan.sum(axis=0, dtype=np.float64), 0.0)
    missing = rows.sum()
    if missing > 0:
        plan += np.outer(rows, cols / missing).astype(plan.dtype)
    return plan

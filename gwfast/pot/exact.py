"""(Fused) Gromov-Wasserstein without entropy, called as in POT, by conditional gradient."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..problems.graphs import CostLike
from ..quadratic.frank_wolfe import ExactLimits, ExactSolution, FrankWolfe
from ..results.status import Ending
from ..solvers.search.isomorphism import isomorphisms
from ._solve import SMOOTH, Answer, quadratic_term, stated
from .call import Call, LossFun, Masses, Plan, Seed, valued

__all__ = [
    "fused_gromov_wasserstein",
    "fused_gromov_wasserstein2",
    "gromov_wasserstein",
    "gromov_wasserstein2",
    "partial_fused_gromov_wasserstein",
    "partial_fused_gromov_wasserstein2",
    "partial_gromov_wasserstein",
    "partial_gromov_wasserstein2",
    "semirelaxed_fused_gromov_wasserstein",
    "semirelaxed_fused_gromov_wasserstein2",
    "semirelaxed_gromov_wasserstein",
    "semirelaxed_gromov_wasserstein2",
]
# Entries below this part of the mass are rounding of masses.
NOTHING = 2.0**-55
# The names that partial functions have for arguments of `solve_exact`.
PARTIAL = {"max_iter": "numItermax", "tol_rel": "tol"}


@dataclasses.dataclass(eq=False)
class ExactAnswer(Answer):
    """With the losses of all plans on the way, and the solution of the problem of mass one."""

    losses: list
    solution: ExactSolution

    @property
    def total(self):
        total = super().total
        # POT makes 0-d arrays of these losses unless they are floats of Python.
        passes = self.problem.marginals == "semirelaxed" or isinstance(total, float)
        return total if passes or self.problem.arrays.library != "numpy" else np.array(total)

    def evidence(self):
        call, problem, back = self.problem, self.solution.problem, self.problem.arrays.back
        losses = list(map(back, self.losses))
        if call.marginals != "balanced":
            return {"loss": losses}
        # POT's potentials are of the whole gradient.
        u, v = (2 * call.total * x for x in self.solution.potentials)
        u, v = with_one_mean(u, v, problem.p, problem.q)
        rows, cols = problem.p > 0, problem.q > 0
        cost = u[rows] @ call.p[rows] + v[cols] @ call.q[cols]
        # POT's solver says 1 of an optimal vertex.
        entries = {"loss": losses, "u": back(u), "v": back(v), "cost": back(cost)}
        return entries | {"warning": None, "result_code": 1}


def with_one_mean(f, g, p, q):
    """Return potentials moved so that both sides have one mean, by mass."""
    shift = np.where(q > 0, g, 0.0) @ q - np.where(p > 0, f, 0.0) @ p
    shift /= p.sum() + q.sum()
    return f + shift, g - shift


def exact_limits(call: Call, max_iter: float, tol_rel: float, tol_abs: float) -> ExactLimits:
    """Return POT's rule, for the same problem of mass one."""
    return ExactLimits(
        max_outer=call.limit(max_iter, "max_iter", minimum=0),
        tol=0.0,
        min_relative=call.number(tol_rel, "tol_rel", zero=True),
        min_change=call.number(tol_abs, "tol_abs", zero=True) / call.total**2,
    )


def solve_exact(
    call: Call, max_iter: float, tol_rel: float, tol_abs: float = 0.0, *, verbose: bool = False
) -> ExactAnswer:
    """Return the `ExactAnswer` to a call."""
    total, limits = call.total, exact_limits(call, max_iter, tol_rel, tol_abs)
    call.refuse_gradients(SMOOTH["exact", call.marginals])
    if call.marginals != "semirelaxed" and call.G0 is not None:
        check_start(call)
    start = None if call.G0 is None else call.G0 / total
    # Costs that the caller says are symmetric are looked at all the same.
    problem = stated(call, call.arrays.dtype, None if call.symmetric else call.symmetric)
    one_sided = bool(call.symmetric) and not (problem.x.symmetric and problem.y.symmetric)
    with single_threaded_blas(max(problem.shape)):
        n_threads = resolve_n_threads(None, work=math.prod(problem.shape))
        solver = FrankWolfe(problem, n_threads, one_sided=one_sided)
        if start is None and not one_sided:
            start = next(isomorphisms(problem), None)
        # Random starts are tried if points tie and marginals are free, up to 1e6 multiplications
        # of a product. From the product plan alone losses are up to five times POT's, whose
        # vertices differ, for a third of 300 pairs of small graphs; with 7 more starts for 3 in
        # 100 above by 2 %.
        n_random = 7 if math.prod(problem.shape) * sum(problem.shape) <= 1e6 else 0
        solution = solver.solve(start, limits, n_random=n_random)
    # Rounding may lead below zero, where there is nothing without costs between; POT's value if it
    # sees one orientation may be anything.
    least = -np.inf if one_sided else 0.0
    losses = [solution.first, *solution.trace[:, 0].tolist()]
    last = np.inf if len(losses) < 2 else abs(losses[-1] - losses[-2])
    ended = one_sided and solution.status == Ending.CONVERGED
    if ended and last >= max(limits.min_change, limits.min_relative * abs(losses[-1])):
        losses.append(losses[-1])  # POT makes one more step, by nothing
    losses = [(max(x, least) if call.M is None else x) * total**2 for x in losses]
    if verbose:
        _print_table(losses)
    linear = 0.0 if call.M is None else float(np.vdot(problem.linear_cost, solution.plan))
    plan = solution.plan
    plan[plan < NOTHING * problem.mass] = 0.0
    quad = max(quadratic_term(problem, solution.gw_cost, linear), least)
    answer = ExactAnswer.of(
        call, "exact", 0.0, plan, quad, linear, None, [], solution.status, "", losses, solution
    )
    if call.marginals == "partial":
        answer.plan = _bounded(answer.plan, call.p, call.q)
    return answer


def solve_all_exact(calls: list[Call], **limits: Any) -> list[ExactAnswer]:
    """Return the `ExactAnswer` to each of several calls, see `solve_exact`."""
    return [solve_exact(call, **limits) for call in calls]


def _bounded(plan, p, q):
    """Return the plan with marginals that are not above these, not even by rounding."""
    eps = np.finfo(plan.dtype).eps
    for axis, masses in ((1, p), (0, q)):
        sums = plan.sum(axis=axis)
        above, factors = sums > masses, np.ones_like(sums)
        factors[above] = masses[above] / sums[above] * (1 - 4 * eps)
        plan = plan * np.expand_dims(factors, axis)
    return plan


def check_start(call):
    """Raise a ValueError if a start lacks the marginals, which no step would give it."""
    # Error of the marginals of a start that is rounding, absolutely (POT's) and relatively.
    absolute, relative = (1e-6, 1e-5) if call.arrays.dtype == np.float32 else (1e-8, 1e-7)
    for masses, argument, axis in ((call.p, "p", 1), (call.q, "q", 0)):
        errors, word = call.G0.sum(axis=axis) - masses, "to at most"
        if call.marginals == "balanced":
            errors, word = abs(errors), "to"
        if (errors > absolute + relative * masses).any():
            lines = "rows" if argument == "p" else "columns"
            rule = f"{call.name('G0')} must have {lines} that sum {word} {call.name(argument)}"
            raise ValueError(f"{rule}, got one off by {errors.max():.2g}")


def _print_table(losses):
    """Print POT's table of losses."""
    former = losses[0]
    for row, loss in enumerate(losses):
        change, former = abs(loss - former), loss
        if row % 20 == 0:
            heads = ("It.", "Loss", "Relative loss", "Absolute loss")
            print("{:5s}|{:12s}|{:8s}|{:8s}".format(*heads) + "\n" + "-" * 48)
        relative = change / abs(loss) if loss else np.nan
        print(f"{row:5d}|{loss:8e}|{relative if change else 0:8e}|{change:8e}")


def gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    q: Masses = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = None,
    log: bool = False,
    armijo: bool = False,
    G0: ArrayLike | None = None,
    max_iter: float = 1e4,
    tol_rel: float = 1e-9,
    tol_abs: float = 1e-9,
    *,
    verbose: bool = False,
    numItermaxEmd: float = 100_000,
) -> Plan:
    """Return the Gromov-Wasserstein plan without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.gromov_wasserstein>`__.
    For other parameters see `entropic_gromov_wasserstein`.

    It is the local minimum that conditional gradient leads to from one plan, the lowest if it leads
    to several (ties); a plan of loss zero if the spaces are equal up to their order.
    `gwfast.gromov_wasserstein` with ``epsilon=0`` tries several starts, and ends lower.

    Parameters
    ----------
    armijo, numItermaxEmd
        Without effect: steps are the best, and linear problems are always solved.
    G0 : array-like of shape (ns, nt), optional
        Plan with these marginals to start from; by default the product of `p` and `q`.
    max_iter, tol_rel, tol_abs : int, default=10000, and float, default=1e-9
        Limit of iterations, and changes of the loss, relative and absolute, at which they stop.

    Returns
    -------
    T, log
        The log has "loss", of the start and after every iteration; "gw_dist"; the potentials "u"
        and "v" of the last linear problem and its "cost"; POT's "warning" and "result_code" of a
        solved problem; and "status", why the solver stopped.
    """
    call = Call.of(C1, C2, p, q, loss_fun, symmetric, G0)
    return solve_exact(call, max_iter, tol_rel, tol_abs, verbose=verbose).result(log)


def fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    q: Masses = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = None,
    alpha: float = 0.5,
    armijo: bool = False,
    G0: ArrayLike | None = None,
    log: bool = False,
    max_iter: float = 1e4,
    tol_rel: float = 1e-9,
    tol_abs: float = 1e-9,
    *,
    verbose: bool = False,
    numItermaxEmd: float = 100_000,
) -> Plan:
    """Return the fused Gromov-Wasserstein plan without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.fused_gromov_wasserstein>`__.
    For parameters see `gromov_wasserstein` and `entropic_fused_gromov_wasserstein`. The log has
    "fgw_dist" in place of "gw_dist", and its parts "lin_loss" and "quad_loss".
    """
    call = Call.of(C1, C2, p, q, loss_fun, symmetric, G0, M, alpha)
    return solve_exact(call, max_iter, tol_rel, tol_abs, verbose=verbose).result(log)


def semirelaxed_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = None,
    log: bool = False,
    G0: ArrayLike | str | None = None,
    max_iter: float = 1e4,
    tol_rel: float = 1e-9,
    tol_abs: float = 1e-9,
    random_state: Seed = 0,
    *,
    verbose: bool = False,
) -> Plan:
    """Return the semi-relaxed Gromov-Wasserstein plan without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.semirelaxed_gromov_wasserstein>`__.
    For `p`, `G0` and `random_state` see `entropic_semirelaxed_gromov_wasserstein`, for other
    parameters see `gromov_wasserstein`.

    Returns
    -------
    T, log
        Rows of the plan sum to `p`. The log has "loss", "srgw_dist" and "status".
    """
    call = Call.of(
        C1, C2, p, None, loss_fun, symmetric, G0, marginals="semirelaxed", random_state=random_state
    )
    return solve_exact(call, max_iter, tol_rel, tol_abs, verbose=verbose).result(log)


def semirelaxed_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = None,
    alpha: float = 0.5,
    G0: ArrayLike | str | None = None,
    log: bool = False,
    max_iter: float = 1e4,
    tol_rel: float = 1e-9,
    tol_abs: float = 1e-9,
    random_state: Seed = 0,
    *,
    verbose: bool = False,
) -> Plan:
    """Return the semi-relaxed fused Gromov-Wasserstein plan without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.semirelaxed_fused_gromov_wasserstein>`__.
    For parameters see `semirelaxed_gromov_wasserstein` and `fused_gromov_wasserstein`. The log has
    "srfgw_dist" in place of "srgw_dist", and its parts "lin_loss" and "quad_loss".
    """
    call = Call.of(
        C1, C2, p, None, loss_fun, symmetric, G0, M, alpha, "semirelaxed", random_state=random_state
    )
    return solve_exact(call, max_iter, tol_rel, tol_abs, verbose=verbose).result(log)


def partial_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    q: Masses = None,
    m: float | None = None,
    loss_fun: LossFun = "square_loss",
    nb_dummies: int = 1,
    G0: ArrayLike | None = None,
    thres: float = 1,
    numItermax: float = 1e4,
    tol: float = 1e-8,
    symmetric: bool | None = None,
    warn: bool = True,
    log: bool = False,
    verbose: bool = False,
) -> Plan:
    """Return the partial Gromov-Wasserstein plan without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.partial_gromov_wasserstein>`__:
    only some of the mass is matched. For other parameters see `gromov_wasserstein`.

    Parameters
    ----------
    m : float, optional
        Mass to match, by default the smaller total of `p` and `q`, whose totals may differ.
    G0 : array-like of shape (ns, nt), optional
        Its sums must not be above `p` and `q`; it is scaled to the mass `m`.
    numItermax, tol
        The `max_iter` and `tol_rel` of `gromov_wasserstein`.
    nb_dummies, thres, warn
        Without effect: linear problems are always solved.

    Returns
    -------
    T, log
        The log has "loss", of the start and after every iteration; "partial_gw_dist" and "status".
    """
    call = Call.of(C1, C2, p, q, loss_fun, symmetric, G0, m=m, marginals="partial", names=PARTIAL)
    return solve_exact(call, numItermax, tol, verbose=verbose).result(log)


def partial_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    q: Masses = None,
    m: float | None = None,
    loss_fun: LossFun = "square_loss",
    alpha: float = 0.5,
    nb_dummies: int = 1,
    G0: ArrayLike | None = None,
    thres: float = 1,
    numItermax: float = 1e4,
    tol: float = 1e-8,
    symmetric: bool | None = None,
    warn: bool = True,
    log: bool = False,
    verbose: bool = False,
) -> Plan:
    """Return the partial fused Gromov-Wasserstein plan without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.partial_fused_gromov_wasserstein>`__.
    For parameters see `partial_gromov_wasserstein` and `fused_gromov_wasserstein`. The log has
    "partial_fgw_dist" in place of "partial_gw_dist", and its parts "lin_loss" and "quad_loss".
    """
    call = Call.of(C1, C2, p, q, loss_fun, symmetric, G0, M, alpha, "partial", m=m, names=PARTIAL)
    return solve_exact(call, numItermax, tol, verbose=verbose).result(log)


gromov_wasserstein2 = valued(gromov_wasserstein, "gw_dist")
fused_gromov_wasserstein2 = valued(fused_gromov_wasserstein, "fgw_dist")
semirelaxed_gromov_wasserstein2 = valued(semirelaxed_gromov_wasserstein, "srgw_dist")
semirelaxed_fused_gromov_wasserstein2 = valued(semirelaxed_fused_gromov_wasserstein, "srfgw_dist")
partial_gromov_wasserstein2 = valued(
    partial_gromov_wasserstein, "partial_gw_dist", tol=1e-7, warn=False
)
partial_fused_gromov_wasserstein2 = valued(
    partial_fused_gromov_wasserstein, "partial_fgw_dist", tol=1e-7, warn=False
)

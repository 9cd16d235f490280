"""Optimal transport, called as in POT: what programs have in loops of their own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.threads import resolve_n_threads
from ..linear.rules import Balanced, neutral
from ..linear.sinkhorn import entropic_plan
from ..problems.dense_cost import check_extremes
from ..quadratic.certificate import LinearProgram
from ..results.result import ConvergenceWarning
from ..utils.callers import outside
from ..utils.precision import DOUBLE
from ..utils.validation import as_matrix
from ._solve import MIN_TOL
from .arrays import Arrays, NoGradients, as_limit, as_number
from .call import Masses, Plan, balanced, checked_masses
from .exact import with_one_mean
from .unified import LeftToPot, refused

__all__ = ["emd", "emd2", "sinkhorn"]


def least_plan(program, cost):
    """Return the plan (n, m) of a `LinearProgram` that costs least, and its cost."""
    program.transport.solve(program.part(cost))
    i, j, masses = program.transport.entries()
    i, j = program.rows[i], program.columns[j]
    plan = np.zeros(cost.shape)
    plan[i, j] = masses
    return plan, float(masses @ cost[i, j])


def potentials_of(program, shape):
    """Return the last potentials of a `LinearProgram`, minus infinity at points without mass."""
    u, v = program.transport.potentials()
    if program.is_full:
        return u, v
    f, g = (np.full(size, -np.inf) for size in shape)
    f[program.rows], g[program.columns] = u, v
    return f, g


def _read(a, b, M):
    """Return the `Arrays`, masses, costs and largest cost of a linear problem, in float64."""
    a, b = (None if x is None or np.shape(x) == (0,) else x for x in (a, b))
    arrays = Arrays({"a": a, "b": b, "M": M})
    cost = as_matrix(arrays["M"], "M").astype(np.float64, order="C", copy=False)
    p, q = (checked_masses(arrays[x], x, n) for x, n in zip("ab", cost.shape, strict=True))
    p, q = p.astype(np.float64, copy=False), q.astype(np.float64, copy=False)
    largest = float(np.abs(neutral(cost, p, q)).max())
    check_extremes(0.0, largest, "M")
    # Rounding, as in POT.
    if not abs(p.sum() - q.sum()) <= 1e-6 * p.sum():
        raise ValueError(f"a and b must have one total, got {p.sum()}, {q.sum()}")
    return arrays, p, balanced(p, q, "a", "b"), cost, largest


def _transported(a, b, M):
    """Return the `Arrays`, the plan, its cost, and a function of `center_dual` for the log."""
    try:
        arrays, p, q, cost, largest = _read(a, b, M)
    except NoGradients:
        raise
    except (TypeError, ValueError) as error:
        raise refused(error) from error
    program = LinearProgram(Balanced(p, q))
    plan, value = least_plan(program, cost)
    # Beyond this ratio of costs the larger, such as costs of forbidden pairs, leave too few digits
    # for the smaller: the tolerance of the solver is a fraction of the largest cost.
    max_ratio = 1e6
    if largest * p.sum() > max_ratio * abs(value):
        highest = np.abs(cost[cost != 0]).min(initial=largest)
        while (highest := max_ratio * highest) < largest:
            plan, value = least_plan(program, np.minimum(cost, highest))
            # No plan costs less for lowered costs, nor for higher ones.
            if not plan[cost > highest].any():
                break
        else:
            plan, value = least_plan(program, cost)
    back = arrays.back
    value = value if arrays.library == "numpy" else back(value)

    def entries(center_dual):
        u, v = potentials_of(program, cost.shape)
        if center_dual:
            u, v = with_one_mean(u, v, p, q)
        # Points without mass get the largest potential that no cost forbids.
        for x, y, costs, masses in ((u, v, cost, p), (v, u, cost.T, q)):
            if not masses.all():
                finite, unknown = np.isfinite(y), masses == 0
                x[unknown] = (costs[unknown][:, finite] - y[finite]).min(axis=1)
        # POT's solver says 1 of an optimal vertex.
        return {"cost": value, "u": back(u), "v": back(v), "warning": None, "result_code": 1}

    return arrays, plan, value, entries


def emd(
    a: Masses,
    b: Masses,
    M: ArrayLike,
    numItermax: float = 100_000,
    log: bool = False,
    center_dual: bool = True,
    numThreads: int | str = 1,
    check_marginals: bool = True,
    potentials_init: tuple[Any, Any] | None = None,
) -> Plan:
    """Return the optimal transport plan, as `POT
    <https://pythonot.github.io/all.html#ot.emd>`__, in float64. Sparse costs are a TypeError, and
    infinite costs and masses with two totals a ValueError; `ot.emd` leaves these to POT while it is
    swapped.

    Parameters
    ----------
    a, b, M : array-like of shape (ns,), (nt,) and (ns, nt)
        Masses with one total (None and an empty list are uniform), and costs.
    numItermax, numThreads, check_marginals, potentials_init
        Without effect: problems are always solved, from a plan by a greedy rule.
    log, center_dual : bool, default=False and True
        Whether to return the log, with "cost", the potentials "u" and "v", POT's "warning" and
        "result_code"; and whether potentials have one mean, by mass, on both sides.

    Examples
    --------
    >>> import gwfast
    >>> gwfast.pot.emd([0.5, 0.5], [0.5, 0.5], [[0.0, 2.0], [1.0, 5.0]])
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    arrays, plan, _, entries = _transported(a, b, M)
    plan = arrays.back(plan)
    return (plan, entries(center_dual)) if log else plan


def emd2(
    a: Masses,
    b: Masses,
    M: ArrayLike,
    processes: int = 1,
    numItermax: float = 100_000,
    log: bool = False,
    return_matrix: bool = False,
    center_dual: bool = True,
    numThreads: int | str = 1,
    check_marginals: bool = True,
    potentials_init: tuple[Any, Any] | None = None,
) -> Any:
    """Return the cost of optimal transport, as `POT
    <https://pythonot.github.io/all.html#ot.emd2>`__, in float64: a float, or a tensor if arrays are
    tensors; in a list with the log of `emd`. For other parameters see `emd`.

    Parameters
    ----------
    processes, return_matrix : int, without effect, and bool, default=False
        Whether to return the log as well, with the plan in it as "G".

    Returns
    -------
    cost : scalar
    """
    arrays, plan, cost, entries = _transported(a, b, M)
    if not (log or return_matrix):
        return cost
    kept = entries(center_dual)
    return [cost, kept | ({"G": arrays.back(plan)} if return_matrix else {})]


def sinkhorn(
    a: Masses,
    b: Masses,
    M: ArrayLike,
    reg: float,
    method: str = "sinkhorn",
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    warn: bool = True,
    warmstart: tuple[Any, Any] | None = None,
) -> Plan:
    """Return the plan of optimal transport with entropy, as `POT
    <https://pythonot.github.io/all.html#ot.sinkhorn>`__, in float64. Other methods, `verbose` and
    `warmstart` are a NotImplementedError; `ot.sinkhorn` leaves these to POT while it is swapped.
    For other parameters see `emd`.

    Parameters
    ----------
    reg, method : float, and {"sinkhorn", "sinkhorn_log"}, default="sinkhorn"
        Weight of the entropy; there is one algorithm, whose plans do not underflow.
    numItermax, stopThr, warn, verbose, warmstart : int, float, bool, {False} and {None}
        Limit of iterations, error of the marginals (Euclidean norm) at which they stop, and whether
        to warn if the limit is reached.

    Returns
    -------
    T, log : array of shape (ns, nt), and if asked for a dict
        It has "err", the error in the end; "niter"; "log_u" and "log_v", potentials as fractions of
        `reg`, and their exponentials "u" and "v".
    """
    is_known = str(method).lower() in ("sinkhorn", "sinkhorn_log")
    if not is_known or verbose or warmstart is not None:
        raise LeftToPot("methods but Sinkhorn's, verbose and warmstart are POT's")
    try:
        arrays, p, q, cost, _ = _read(a, b, M)
        cost, total, reg = neutral(cost, p, q), float(p.sum()), as_number(reg, "reg")
        max_iter, tol = as_limit(numItermax, "numItermax"), as_number(stopThr, "stopThr")
        rule = Balanced(p / total, q / total)
        n_threads = resolve_n_threads(None, work=cost.size)
        # Tolerance of the L1 error, which evenly spread is that much larger.
        inner_tol = max(tol / total * np.sqrt(min(cost.shape)) / 2, MIN_TOL)
        plan, (f, g), (rows, cols), n_iter, _ = entropic_plan(
            cost, rule, reg, n_threads, DOUBLE, tol=inner_tol, max_iter=max_iter
        )
    except (TypeError, ValueError) as error:
        raise refused(error, epsilon="reg") from error
    marginal_error = total * float(np.linalg.norm(np.concatenate([rows - rule.p, cols - rule.q])))
    if warn and marginal_error > tol and n_iter >= max_iter:
        message = (
            f"sinkhorn reached numItermax={numItermax} with marginals off by {marginal_error:.1e}"
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=outside())
    back = arrays.back
    plan = back(total * plan)
    if not log:
        return plan
    f, g = f / reg + np.log(total), g / reg
    with np.errstate(over="ignore"):
        entries = {
            "err": [back(marginal_error)],
            "niter": n_iter,
            "u": back(np.exp(f)),
            "v": back(np.exp(g)),
        }
    return plan, entries | {"log_u": back(f), "log_v": back(g)}

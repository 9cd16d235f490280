"""Optimal transport, called as in POT: what programs have in loops of their own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..kernels._transport import Transport
from ..kernels.threads import resolve_n_threads
from ..linear.rules import Balanced, neutral
from ..linear.sinkhorn import entropic_plan
from ..problems.dense_cost import check_extremes
from ..results.result import ConvergenceWarning
from ..utils.callers import outside
from ..utils.precision import DOUBLE
from ..utils.validation import as_matrix
from ._siblings import like
from ._solve import MIN_TOL
from .arrays import Arrays, NoGradients, as_limit, as_number
from .call import Plan, balanced, checked_masses
from .unified import LeftToPot

__all__ = ["emd", "emd2", "sinkhorn"]
# Costs this many times the median of all, such as stand for what is forbidden, leave
# too few digits for the others: our solver's tolerance is a fraction of the largest.
MOST_COST = 1e6


def emd(
    a: ArrayLike | None,
    b: ArrayLike | None,
    M: ArrayLike,
    numItermax: float = 100_000,
    log: bool = False,
    center_dual: bool = True,
    numThreads: int | str = 1,
    check_marginals: bool = True,
    potentials_init: tuple[Any, Any] | None = None,
) -> Plan:
    """Optimal transport plan, as `ot.emd`, in float64.

    Parameters
    ----------
    a, b : array-like of shape (ns,) and (nt,)
        Masses with one total; None and an empty list are uniform.
    M : array-like of shape (ns, nt)
        Costs, dense and finite.
    numItermax, numThreads, check_marginals, potentials_init
        Without effect: problems are always solved, from a plan by a greedy rule.
    log : bool, default=False
        Also return a dict.
    center_dual : bool, default=True
        Give the potentials of both sides one mean, by mass.

    Returns
    -------
    T : array of shape (ns, nt)
        Of the library and dtype of the input.
    log : dict
        If asked for: "cost", the potentials "u" and "v", and "warning" and
        "result_code" as POT has them of a problem that is solved.

    Raises
    ------
    NotImplementedError
        If input is not as said; `ot.emd` leaves it to POT while it is swapped.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> M = np.array([[0.0, 2.0], [1.0, 5.0]])
    >>> pot.emd([0.5, 0.5], [0.5, 0.5], M)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    arrays, plan, _, entries = _transported(a, b, M)
    made = arrays.back(plan)
    return (made, entries(center_dual)) if log else made


@like(emd)
def emd2(
    a: ArrayLike | None,
    b: ArrayLike | None,
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
    """Cost of optimal transport, as `ot.emd2`, in float64.

    Parameters
    ----------
    processes
        Without effect.
    return_matrix : bool, default=False
        Also return the log, with the plan in it as "G".

    Returns
    -------
    cost : scalar
        As POT's a float, or a tensor where arrays are tensors.
    log : dict
        If asked for, that of `emd`; both then are in a list.

    Examples
    --------
    >>> pot.emd2([0.5, 0.5], [0.5, 0.5], M)
    1.5
    """
    arrays, plan, cost, entries = _transported(a, b, M)
    if not (log or return_matrix):
        return cost
    kept = entries(center_dual)
    return [cost, kept | ({"G": arrays.back(plan)} if return_matrix else {})]


def sinkhorn(
    a: ArrayLike | None,
    b: ArrayLike | None,
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
    """Plan of optimal transport with entropy, as `ot.sinkhorn`, in float64.

    Parameters
    ----------
    a, b : array-like of shape (ns,) and (nt,)
        Masses with one total; None and an empty list are uniform.
    M : array-like of shape (ns, nt)
        Costs, finite.
    reg : float
        Weight of the entropy.
    method : {"sinkhorn", "sinkhorn_log"}, default="sinkhorn"
        One way for both, whose plans do not underflow.
    numItermax : int, default=1000
        Limit of iterations.
    stopThr : float, default=1e-9
        Error of the marginals, in Euclidean norm, at which they end.
    verbose : {False}
    log : bool, default=False
        Also return a dict.
    warn : bool, default=True
        Warn if the limit is reached.
    warmstart : None

    Returns
    -------
    T : array of shape (ns, nt)
        Of the library and dtype of the input.
    log : dict
        If asked for: "err", the error in the end; "niter"; "log_u" and "log_v",
        potentials as fractions of `reg`, and their exponentials "u" and "v".

    Raises
    ------
    NotImplementedError
        If input is not as said; `ot.sinkhorn` leaves it to POT while it is swapped.

    Warns
    -----
    ConvergenceWarning
        If `numItermax` iterations did not reach `stopThr`.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> pot.sinkhorn([0.5, 0.5], [0.5, 0.5], 1 - np.eye(2), 1.0).round(4)
    array([[0.3655, 0.1345],
           [0.1345, 0.3655]])
    """
    known = str(method).lower() in ("sinkhorn", "sinkhorn_log")
    if not known or verbose or warmstart is not None:
        raise LeftToPot("methods but Sinkhorn's, verbose and warmstart are POT's")
    try:
        arrays, p, q, cost, _ = _given(a, b, M)
        cost, total, reg = neutral(cost, p, q), float(p.sum()), as_number(reg, "reg")
        most, tol = as_limit(numItermax, "numItermax"), as_number(stopThr, "stopThr")
        # Of the L1 error, which evenly spread is that much larger.
        limit = max(tol / total * np.sqrt(min(cost.shape)) / 2, MIN_TOL)
        rule = Balanced(p / total, q / total)
        n_threads = resolve_n_threads(None, work=cost.size)
        made, (f, g), (rows, cols), n_iter, _ = entropic_plan(
            cost, rule, reg, n_threads, DOUBLE, tol=limit, max_iter=most
        )
    except (TypeError, ValueError) as error:
        raise LeftToPot(str(error)) from error
    off = total * float(np.linalg.norm(np.concatenate([rows - rule.p, cols - rule.q])))
    if warn and off > tol and n_iter >= most:
        warnings.warn(
            f"sinkhorn stopped after {n_iter} iterations with marginals off by "
            f"{off:.1e}; raise numItermax, stopThr or reg",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    plan, back = arrays.back(total * made), arrays.back
    if not log:
        return plan
    f, g = f / reg + np.log(total), g / reg
    with np.errstate(over="ignore"):
        u, v = back(np.exp(f)), back(np.exp(g))
    entries = {"err": [back(off)], "niter": n_iter, "u": u, "v": v}
    return plan, entries | {"log_u": back(f), "log_v": back(g)}


def _given(a, b, M):
    """The `Arrays`, masses, costs and largest cost of a linear problem, in float64."""
    named = {"a": a, "b": b}
    named = {key: x for key, x in named.items() if x is not None and np.shape(x) != (0,)}
    arrays = Arrays(named | {"M": M})
    cost = as_matrix(arrays["M"], "M").astype(np.float64, order="C", copy=False)
    p, q = (checked_masses(arrays[x], x, n) for x, n in zip("ab", cost.shape, strict=1))
    p, q = p.astype(np.float64, copy=False), q.astype(np.float64, copy=False)
    largest = float(np.abs(cost[p > 0][:, q > 0]).max(initial=0.0))
    check_extremes(0.0, largest, "M")
    # Rounding, as in POT.
    if not abs(p.sum() - q.sum()) <= 1e-6 * p.sum():
        raise ValueError(f"a and b must have one total, got {p.sum()}, {q.sum()}")
    return arrays, p, balanced(p, q, "a", "b"), cost, largest


def _transported(a, b, M):
    """The `Arrays`, the plan, its cost, and a function of what logs have."""
    try:
        arrays, p, q, cost, largest = _given(a, b, M)
    except NoGradients:
        raise
    except (TypeError, ValueError) as error:
        raise LeftToPot(str(error)) from error
    rows, cols, some = slice(None), slice(None), cost
    if not (p.all() and q.all()):
        rows, cols = p.nonzero()[0], q.nonzero()[0]
        p, q, some = p[rows], q[cols], np.ascontiguousarray(cost[np.ix_(rows, cols)])
    solver = Transport(p, q)
    solver.solve(some)
    i, j, masses = solver.entries()
    plan = np.zeros(some.shape)
    plan[i, j] = masses
    if some is not cost:
        plan, of_some = np.zeros(cost.shape), plan
        plan[np.ix_(rows, cols)] = of_some
    value = float(masses @ some[i, j])
    if largest * p.sum() > MOST_COST * abs(value):
        typical = np.median(np.abs(some))
        if largest > MOST_COST * typical > 0:
            raise LeftToPot(
                f"M must have no costs above {MOST_COST:g} times the median of all, "
                f"{typical:.3g}, got {largest:.3g}"
            )

    value = value if arrays.kind == "numpy" else arrays.back(value)

    def entries(center_dual):
        u, v = solver.potentials()
        if center_dual:
            shift = (v @ q - u @ p) / (p.sum() + q.sum())
            u, v = u + shift, v - shift
        if some is not cost:
            u, v = _extended(u, rows, len(cost)), _extended(v, cols, cost.shape[1])
            # Of points without mass the largest that no cost forbids.
            for x, y, costs in ((u, v, cost), (v, u, cost.T)):
                unknown = np.isnan(x)
                x[unknown] = np.nanmin(costs[unknown] - y, axis=1)
        u, v = arrays.back(u), arrays.back(v)
        kept = {"cost": value, "u": u, "v": v}
        # POT's solver says 1 of an optimal vertex.
        return kept | {"warning": None, "result_code": 1}

    return arrays, plan, value, entries


def _extended(x, places, size):
    """A vector of this size with `x` in its places, else NaN."""
    made = np.full(size, np.nan)
    made[places] = x
    return made

"""Co-optimal transport, called as in POT: a plan between the rows of two matrices and
one between their columns, each the best for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from numpy.typing import ArrayLike

from ._coot import ENVELOPED, CoOptimal
from ._siblings import like
from .call import Plan
from .gradients import traced

__all__ = ["co_optimal_transport", "co_optimal_transport2"]


def co_optimal_transport(
    X: ArrayLike,
    Y: ArrayLike,
    wx_samp: ArrayLike | None = None,
    wx_feat: ArrayLike | None = None,
    wy_samp: ArrayLike | None = None,
    wy_feat: ArrayLike | None = None,
    epsilon: float | tuple[float, float] = 0,
    alpha: float | tuple[float, float] = 0,
    M_samp: ArrayLike | None = None,
    M_feat: ArrayLike | None = None,
    warmstart: Mapping[str, Any] | None = None,
    nits_bcd: float = 100,
    tol_bcd: float = 1e-7,
    eval_bcd: float = 1,
    nits_ot: float = 500,
    tol_sinkhorn: float = 1e-7,
    method_sinkhorn: Literal["sinkhorn", "sinkhorn_log"] = "sinkhorn",
    early_stopping_tol: float = 1e-6,
    log: bool = False,
    verbose: bool = False,
) -> tuple[Plan, ...]:
    """Co-optimal transport plans, as `ot.coot.co_optimal_transport`: by turns that of
    samples (rows) and that of features (columns), each for the other held still.

    Parameters
    ----------
    X, Y : array-like of shape (nx, dx) and (ny, dy)
    wx_samp, wx_feat, wy_samp, wy_feat : array-like of shape (nx,), (dx,), (ny,), (dy,)
        Masses of rows and columns, uniform by default.
    epsilon : float or pair of floats, default=0
        Weight of the entropy of either plan, 0 for none.
    alpha : float or pair of floats, default=0
        Weight of ``<M_samp, P>`` and of ``<M_feat, Q>``.
    M_samp, M_feat : array-like of shape (nx, ny) and (dx, dy), optional
        Costs between samples and between features.
    warmstart : dict, optional
        Where to start: "pi_sample", "pi_feature", and as in the log "duals_sample" and
        "duals_feature", which save time where there is entropy.
    nits_bcd : int, default=100
        Limit of iterations, each of which makes both plans.
    tol_bcd : float, default=1e-7
        Stops when the plan of samples changes by less, in L1.
    eval_bcd : int, default=1
        Iterations from one look at the objective to the next.
    nits_ot : int, default=500
        Limit of Sinkhorn iterations for one plan.
    tol_sinkhorn : float, default=1e-7
        Error of the marginals (Euclidean norm) at which these stop.
    method_sinkhorn : {"sinkhorn", "sinkhorn_log"}, default="sinkhorn"
        Without effect: there is one algorithm.
    early_stopping_tol : float, default=1e-6
        Stops when the objective changes by less.
    log, verbose : bool

    Returns
    -------
    pi_samp, pi_feat : arrays of shape (nx, ny) and (dx, dy)
        Of the library and dtype of the input.
    log : dict
        If asked for: "duals_sample" and "duals_feature", pairs of potentials, with
        entropy logarithms of scalings; "distances", the objectives; and "status".

    Warns
    -----
    ConvergenceWarning
        If a plan should not be trusted as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> X = np.array([[0.0, 2, 9], [1, 5, 4], [7, 3, 3], [8, 8, 1]])
    >>> plan, of_columns = pot.co_optimal_transport(X, X[::-1, [1, 2, 0]])
    >>> plan.argmax(axis=1), of_columns.argmax(axis=1)
    (array([3, 2, 1, 0]), array([2, 0, 1]))
    """
    call = CoOptimal(locals())
    plans = tuple(call.arrays.back(side.plan) for side in call.sides)
    return (*plans, call.log()) if log else plans


@like(co_optimal_transport)
def co_optimal_transport2(
    X: ArrayLike,
    Y: ArrayLike,
    wx_samp: ArrayLike | None = None,
    wx_feat: ArrayLike | None = None,
    wy_samp: ArrayLike | None = None,
    wy_feat: ArrayLike | None = None,
    epsilon: float | tuple[float, float] = 0,
    alpha: float | tuple[float, float] = 0,
    M_samp: ArrayLike | None = None,
    M_feat: ArrayLike | None = None,
    warmstart: Mapping[str, Any] | None = None,
    log: bool = False,
    verbose: bool = False,
    early_stopping_tol: float = 1e-6,
    nits_bcd: float = 100,
    tol_bcd: float = 1e-7,
    eval_bcd: float = 1,
    nits_ot: float = 500,
    tol_sinkhorn: float = 1e-7,
    method_sinkhorn: Literal["sinkhorn", "sinkhorn_log"] = "sinkhorn",
) -> float | Any:
    """Co-optimal transport loss, entropy included, as `ot.coot.co_optimal_transport2`.

    Returns
    -------
    distance : scalar
        Of the library and dtype of the input.
    log : dict
        If asked for, that of `co_optimal_transport`.

    Examples
    --------
    >>> round(float(pot.co_optimal_transport2(X, X[::-1, [1, 2, 0]])), 6)
    0.0
    """
    call = CoOptimal(locals(), ENVELOPED)
    value = traced(call.arrays.back(call.distances[-1]), call, call.gradient)
    return (value, call.log()) if log else value

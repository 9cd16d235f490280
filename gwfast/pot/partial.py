"""Entropic partial (fused) Gromov-Wasserstein, called as in POT: only some of the mass
is matched.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._problem import LossFun, Plan, Problem
from ._valued import valued

__all__ = [
    "entropic_partial_fused_gromov_wasserstein",
    "entropic_partial_fused_gromov_wasserstein2",
    "entropic_partial_gromov_wasserstein",
    "entropic_partial_gromov_wasserstein2",
]
# What other families call epsilon and max_iter. POT's numItermax is here the limit of
# outer iterations, in the balanced family that of Sinkhorn iterations.
ARGUMENTS = {"epsilon": "reg", "max_iter": "numItermax"}


def entropic_partial_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    reg: float = 1.0,
    m: float | None = None,
    loss_fun: LossFun = "square_loss",
    G0: ArrayLike | None = None,
    numItermax: float = 1000,
    tol: float = 1e-7,
    symmetric: bool | None = None,
    log: bool = False,
    verbose: bool = False,
) -> Plan:
    """Entropic partial Gromov-Wasserstein plan, as
    `ot.gromov.entropic_partial_gromov_wasserstein`.

    Parameters
    ----------
    reg : float, default=1.0
        The `epsilon` of `entropic_gromov_wasserstein`.
    m : float, optional
        Mass to match; by default the smaller total of `p` and `q`.
    numItermax : int, default=1000
        The `max_iter` of `entropic_gromov_wasserstein`.
    C1, C2, p, q, loss_fun, G0, tol, symmetric, log, verbose
        See `entropic_gromov_wasserstein`; totals of `p` and `q` may differ.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "err", "partial_gw_dist" and "status".

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> plan = pot.entropic_partial_gromov_wasserstein(C1, C2, reg=0.5, m=0.75)
    >>> round(float(plan.sum()), 3)
    0.75
    """
    return entropic_partial_fused_gromov_wasserstein(**dict(locals(), M=None))


entropic_partial_gromov_wasserstein2 = valued(
    entropic_partial_gromov_wasserstein, "partial_gw_dist"
)


def entropic_partial_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    reg: float = 1.0,
    m: float | None = None,
    loss_fun: LossFun = "square_loss",
    alpha: float = 0.5,
    G0: ArrayLike | None = None,
    numItermax: float = 1000,
    tol: float = 1e-7,
    symmetric: bool | None = None,
    log: bool = False,
    verbose: bool = False,
) -> Plan:
    """Entropic partial fused Gromov-Wasserstein plan, as
    `ot.gromov.entropic_partial_fused_gromov_wasserstein` is meant: POT 0.9.7 leaves `M`
    without influence on the plan, see DIFFERENCES.md.

    Parameters
    ----------
    M, alpha
        See `entropic_fused_gromov_wasserstein`.
    C1, C2, p, q, reg, m, loss_fun, G0, numItermax, tol, symmetric, log, verbose
        See `entropic_partial_gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "err", "partial_fgw_dist", its parts "lin_loss" and "quad_loss",
        and "status".

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> M = np.abs(np.subtract.outer(x, x[::-1]))
    >>> plan = pot.entropic_partial_fused_gromov_wasserstein(
    ...     M, C1, C2, reg=0.5, m=0.75
    ... )
    >>> round(float(plan.sum()), 3)
    0.75
    """
    problem = Problem(
        C1,
        C2,
        p,
        q,
        M=M,
        alpha=alpha,
        loss_fun=loss_fun,
        symmetric=symmetric,
        G0=G0,
        marginals="partial",
        mass=m,
        names=ARGUMENTS,
    )
    answer = problem.solve(epsilon=reg, max_iter=numItermax, tol=tol, verbose=verbose)
    return answer.result(log)


entropic_partial_fused_gromov_wasserstein2 = valued(
    entropic_partial_fused_gromov_wasserstein, "partial_fgw_dist"
)

"""Entropic partial (fused) Gromov-Wasserstein, called as in POT: only some of the mass
is matched.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._problem import LossFun, Plan, Problem
from ._siblings import like, valued
from ._solve import solve
from .balanced import (
    entropic_fused_gromov_wasserstein,
    entropic_gromov_wasserstein,
)

__all__ = [
    "entropic_partial_fused_gromov_wasserstein",
    "entropic_partial_fused_gromov_wasserstein2",
    "entropic_partial_gromov_wasserstein",
    "entropic_partial_gromov_wasserstein2",
]
# What other families call epsilon and max_iter. POT's numItermax is here the limit of
# outer iterations, in the balanced family that of Sinkhorn iterations.
ARGUMENTS = {"epsilon": "reg", "max_iter": "numItermax", "numItermax": ""}


@like(entropic_gromov_wasserstein)
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
    p, q : array-like of shape (ns,) and (nt,), optional
        Masses, whose totals may differ; uniform by default.
    reg : float, default=1.0
        The `epsilon` of `entropic_gromov_wasserstein`.
    m : float, optional
        Mass to match; by default the smaller total of `p` and `q`.
    numItermax : int, default=1000
        The `max_iter` of `entropic_gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
        Of the library and dtype of the input.
    log : dict
        If asked for: "err", "partial_gw_dist" and "status".

    Examples
    --------
    >>> plan = pot.entropic_partial_gromov_wasserstein(C1, C2, reg=0.5, m=0.75)
    >>> round(float(plan.sum()), 3)
    0.75
    """
    problem = Problem(locals(), marginals="partial", names=ARGUMENTS)
    return solve(problem).result(log)


entropic_partial_gromov_wasserstein2 = valued(
    entropic_partial_gromov_wasserstein, "partial_gw_dist"
)


@like(entropic_partial_gromov_wasserstein, entropic_fused_gromov_wasserstein)
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
    """
    problem = Problem(locals(), marginals="partial", names=ARGUMENTS)
    return solve(problem).result(log)


entropic_partial_fused_gromov_wasserstein2 = valued(
    entropic_partial_fused_gromov_wasserstein, "partial_fgw_dist"
)

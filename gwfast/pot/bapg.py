"""Bregman alternating projected gradient, called as in POT: single loops whose plans
have one of the marginals only.
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
    "BAPG_fused_gromov_wasserstein",
    "BAPG_fused_gromov_wasserstein2",
    "BAPG_gromov_wasserstein",
    "BAPG_gromov_wasserstein2",
]


@like(entropic_gromov_wasserstein)
def BAPG_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = None,
    G0: ArrayLike | None = None,
    max_iter: float = 1000,
    tol: float = 1e-9,
    marginal_loss: bool = False,
    verbose: bool = False,
    log: bool = False,
) -> Plan:
    """Gromov-Wasserstein plan by BAPG, as `ot.gromov.BAPG_gromov_wasserstein`.

    Parameters
    ----------
    marginal_loss : bool, default=False
        Whether the gradient has the terms that are constant where marginals are met.

    Returns
    -------
    T : array of shape (ns, nt)
        Its columns sum to `q`, its rows only nearly to `p`.
    log : dict
        If asked for: "err", "gw_dist", without `marginal_loss` also "loss", what is
        left of it without those terms, and "status".

    Examples
    --------
    >>> plan = pot.BAPG_gromov_wasserstein(C1, C2, epsilon=50)
    >>> plan.sum(axis=0).round(3)
    array([0.2, 0.2, 0.2, 0.2, 0.2])
    """
    return solve(Problem(locals()), "bapg").result(log)


BAPG_gromov_wasserstein2 = valued(BAPG_gromov_wasserstein, "gw_dist")


@like(BAPG_gromov_wasserstein, entropic_fused_gromov_wasserstein)
def BAPG_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = None,
    alpha: float = 0.5,
    G0: ArrayLike | None = None,
    max_iter: float = 1000,
    tol: float = 1e-9,
    marginal_loss: bool = False,
    verbose: bool = False,
    log: bool = False,
) -> Plan:
    """Fused Gromov-Wasserstein plan by BAPG, as
    `ot.gromov.BAPG_fused_gromov_wasserstein`.
    """
    return solve(Problem(locals()), "bapg").result(log)


BAPG_fused_gromov_wasserstein2 = valued(BAPG_fused_gromov_wasserstein, "fgw_dist")

"""Bregman alternating projected gradient, called as in POT: single loops whose plans
have one of the marginals only.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._problem import LossFun, Plan, Problem
from ._valued import valued

__all__ = [
    "BAPG_fused_gromov_wasserstein",
    "BAPG_fused_gromov_wasserstein2",
    "BAPG_gromov_wasserstein",
    "BAPG_gromov_wasserstein2",
]


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
    C1, C2, p, q, loss_fun, epsilon, symmetric, G0, max_iter, tol, verbose, log
        See `entropic_gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
        Its columns sum to `q`, its rows only nearly to `p`.
    log : dict
        If asked for: "err", "gw_dist", without `marginal_loss` also "loss", what is
        left of it without those terms, and "status".

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> plan = pot.BAPG_gromov_wasserstein(C1, C2, epsilon=50)
    >>> plan.sum(axis=0).round(3)
    array([0.2, 0.2, 0.2, 0.2, 0.2])
    """
    return BAPG_fused_gromov_wasserstein(**dict(locals(), M=None))


BAPG_gromov_wasserstein2 = valued(BAPG_gromov_wasserstein, "gw_dist")


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

    Parameters
    ----------
    M, alpha
        See `entropic_fused_gromov_wasserstein`.
    C1, C2, p, q, loss_fun, epsilon, symmetric, G0, max_iter, tol, marginal_loss, \
verbose, log
        See `BAPG_gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "err", "fgw_dist", its parts "lin_loss" and "quad_loss", without
        `marginal_loss` also "loss", and "status".

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> M = np.abs(np.subtract.outer(x, x[::-1]))
    >>> plan = pot.BAPG_fused_gromov_wasserstein(M, C1, C2, epsilon=50)
    >>> plan.sum(axis=0).round(3)
    array([0.2, 0.2, 0.2, 0.2, 0.2])
    """
    problem = Problem(
        C1, C2, p, q, M=M, alpha=alpha, loss_fun=loss_fun, symmetric=symmetric, G0=G0
    )
    answer = problem.solve(
        method="bapg",
        marginal_loss=bool(marginal_loss),
        epsilon=epsilon,
        max_iter=max_iter,
        tol=tol,
        verbose=verbose,
    )
    return answer.result(log, marginal_loss=marginal_loss)


BAPG_fused_gromov_wasserstein2 = valued(BAPG_fused_gromov_wasserstein, "fgw_dist")

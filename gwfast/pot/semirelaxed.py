"""Entropic semi-relaxed (fused) Gromov-Wasserstein, called as in POT: only the first
marginal is given.
"""

from __future__ import annotations

import numpy as np
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
    "entropic_semirelaxed_fused_gromov_wasserstein",
    "entropic_semirelaxed_fused_gromov_wasserstein2",
    "entropic_semirelaxed_gromov_wasserstein",
    "entropic_semirelaxed_gromov_wasserstein2",
]


@like(entropic_gromov_wasserstein)
def entropic_semirelaxed_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = None,
    G0: ArrayLike | str | None = None,
    max_iter: float = 1e4,
    tol: float = 1e-9,
    log: bool = False,
    verbose: bool = False,
    random_state: int | np.random.RandomState | None = 0,
) -> Plan:
    """Entropic semi-relaxed Gromov-Wasserstein plan, as
    `ot.gromov.entropic_semirelaxed_gromov_wasserstein`.

    Parameters
    ----------
    p : array-like of shape (ns,), optional
        Masses of the first space; uniform by default.
    G0 : array-like of shape (ns, nt), or str, optional
        Its rows must sum to `p`. By name: "product", "random_product", "random", with
        POT's random numbers; and where POT is installed "fluid", "spectral", "kmeans",
        "fluid_soft", "spectral_soft" and "kmeans_soft", which it makes. Of a fused
        problem such a plan is mixed with that of the least `M` of every row.
    random_state : int, default=0
        For a `G0` by name.

    Returns
    -------
    T : array of shape (ns, nt)
        Its rows sum to `p`.
    log : dict
        If asked for: "err", "srgw_dist" and "status".

    Raises
    ------
    ImportError
        If `G0` is the name of one that POT makes, and it is not installed.
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Examples
    --------
    >>> plan = pot.entropic_semirelaxed_gromov_wasserstein(C1, C2, epsilon=0.5)
    >>> plan.sum(axis=1)
    array([0.2, 0.2, 0.2, 0.2, 0.2])
    """
    return solve(Problem(locals(), marginals="semirelaxed")).result(log)


entropic_semirelaxed_gromov_wasserstein2 = valued(
    entropic_semirelaxed_gromov_wasserstein, "srgw_dist"
)


@like(entropic_semirelaxed_gromov_wasserstein, entropic_fused_gromov_wasserstein)
def entropic_semirelaxed_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = None,
    epsilon: float = 0.1,
    alpha: float = 0.5,
    G0: ArrayLike | str | None = None,
    max_iter: float = 1e4,
    tol: float = 1e-9,
    log: bool = False,
    verbose: bool = False,
    random_state: int | np.random.RandomState | None = 0,
) -> Plan:
    """Entropic semi-relaxed fused Gromov-Wasserstein plan, as
    `ot.gromov.entropic_semirelaxed_fused_gromov_wasserstein`.
    """
    return solve(Problem(locals(), marginals="semirelaxed")).result(log)


entropic_semirelaxed_fused_gromov_wasserstein2 = valued(
    entropic_semirelaxed_fused_gromov_wasserstein, "srfgw_dist"
)

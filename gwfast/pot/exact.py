"""(Fused) Gromov-Wasserstein without entropy, called as in POT: balanced, semi-relaxed
and partial.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._conditional_gradient import exact, solve_exact
from ._problem import LossFun, Plan, Problem
from ._siblings import like, valued
from .entropic import (
    entropic_fused_gromov_wasserstein,
    entropic_gromov_wasserstein,
    entropic_semirelaxed_gromov_wasserstein,
)

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


@exact
@like(entropic_gromov_wasserstein)
def gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
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
    """Gromov-Wasserstein plan without entropy, as `ot.gromov.gromov_wasserstein`: by conditional
    gradient, from one plan to the local minimum that it leads to, the lowest where it leads to
    several (ties). If the spaces are the same in another order, that is a plan of loss zero.

    The problem and what comes back are POT's; see its documentation for the
    mathematics, and DIFFERENCES.md beside this file for what is not the same.
    `gwfast.gromov_wasserstein` with ``epsilon=0`` tries several plans to start from,
    and finds better minima. All is solved in float64.

    Parameters
    ----------
    armijo : bool, default=False
        Without effect: the best step is known in closed form.
    G0 : array-like of shape (ns, nt), optional
        Plan with these marginals to start from; by default the product of `p` and `q`.
    max_iter : int, default=10000
        Limit of iterations.
    tol_rel, tol_abs : float, default=1e-9
        Stops when an iteration makes the loss smaller by less than one of these,
        relatively or absolutely.
    verbose : bool, default=False
        Print the loss of every iteration.
    numItermaxEmd : int, default=100000
        Without effect: linear problems are always solved.

    Returns
    -------
    T : array of shape (ns, nt)
        Of the library and dtype of the input.
    log : dict
        If asked for: "loss", of the start and after every iteration; "gw_dist"; the potentials "u"
        and "v" of the last linear problem and its "cost", with "warning" and "result_code" as POT
        has them of a problem that is solved; and "status", why the solver stopped.

    Examples
    --------
    >>> plan = pot.gromov_wasserstein(C1, C2)
    >>> plan.argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    return solve_exact(Problem(locals())).result(log)


@exact
@like(gromov_wasserstein, entropic_fused_gromov_wasserstein)
def fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
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
    """Fused Gromov-Wasserstein plan without entropy, as `ot.gromov.fused_gromov_wasserstein`."""
    return solve_exact(Problem(locals())).result(log)


@exact
@like(entropic_semirelaxed_gromov_wasserstein, gromov_wasserstein)
def semirelaxed_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = None,
    log: bool = False,
    G0: ArrayLike | str | None = None,
    max_iter: float = 1e4,
    tol_rel: float = 1e-9,
    tol_abs: float = 1e-9,
    random_state: int | np.random.RandomState | None = 0,
    *,
    verbose: bool = False,
) -> Plan:
    """Semi-relaxed Gromov-Wasserstein plan without entropy, as
    `ot.gromov.semirelaxed_gromov_wasserstein`.

    Parameters
    ----------
    verbose : bool, default=False
        Print the loss of every iteration.

    Returns
    -------
    T : array of shape (ns, nt)
        Its rows sum to `p`.
    log : dict
        If asked for: "loss", "srgw_dist" and "status".

    Examples
    --------
    >>> plan = pot.semirelaxed_gromov_wasserstein(C1, C2)
    >>> plan.argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    return solve_exact(Problem(locals(), marginals="semirelaxed")).result(log)


@exact
@like(semirelaxed_gromov_wasserstein, entropic_fused_gromov_wasserstein)
def semirelaxed_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = None,
    alpha: float = 0.5,
    G0: ArrayLike | str | None = None,
    log: bool = False,
    max_iter: float = 1e4,
    tol_rel: float = 1e-9,
    tol_abs: float = 1e-9,
    random_state: int | np.random.RandomState | None = 0,
    *,
    verbose: bool = False,
) -> Plan:
    """Semi-relaxed fused Gromov-Wasserstein plan without entropy, as
    `ot.gromov.semirelaxed_fused_gromov_wasserstein`.
    """
    return solve_exact(Problem(locals(), marginals="semirelaxed")).result(log)


@exact
@like(gromov_wasserstein)
def partial_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
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
    """Partial Gromov-Wasserstein plan without entropy, as
    `ot.gromov.partial_gromov_wasserstein`: only some of the mass is matched.

    Parameters
    ----------
    p, q : array-like of shape (ns,) and (nt,), optional
        Masses, whose totals may differ; uniform by default.
    m : float, optional
        Mass to match; by default the smaller total of `p` and `q`.
    nb_dummies, thres, warn
        Without effect: linear problems are always solved.
    G0 : array-like of shape (ns, nt), optional
        Its sums must not be above `p` and `q`; it is scaled to the mass `m`.
    numItermax : int, default=10000
        The `max_iter` of `gromov_wasserstein`.
    tol : float, default=1e-8
        The `tol_rel` of `gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
        Of the library and dtype of the input.
    log : dict
        If asked for: "loss", "partial_gw_dist" and "status".

    Examples
    --------
    >>> plan = pot.partial_gromov_wasserstein(C1, C2, m=0.75)
    >>> round(float(plan.sum()), 3)
    0.75
    """
    problem = Problem(
        locals(), marginals="partial", names={"max_iter": "numItermax", "tol_rel": "tol"}
    )
    return solve_exact(problem).result(log)


@exact
@like(partial_gromov_wasserstein, entropic_fused_gromov_wasserstein)
def partial_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
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
    """Partial fused Gromov-Wasserstein plan without entropy, as
    `ot.gromov.partial_fused_gromov_wasserstein`.
    """
    problem = Problem(
        locals(), marginals="partial", names={"max_iter": "numItermax", "tol_rel": "tol"}
    )
    return solve_exact(problem).result(log)


gromov_wasserstein2 = exact(valued(gromov_wasserstein, "gw_dist"))
fused_gromov_wasserstein2 = exact(valued(fused_gromov_wasserstein, "fgw_dist"))
semirelaxed_gromov_wasserstein2 = exact(valued(semirelaxed_gromov_wasserstein, "srgw_dist"))
semirelaxed_fused_gromov_wasserstein2 = exact(
    valued(semirelaxed_fused_gromov_wasserstein, "srfgw_dist")
)
partial_gromov_wasserstein2 = exact(
    valued(partial_gromov_wasserstein, "partial_gw_dist", tol=1e-7, warn=False)
)
partial_fused_gromov_wasserstein2 = exact(
    valued(partial_fused_gromov_wasserstein, "partial_fgw_dist", tol=1e-7, warn=False)
)

"""Barycenters of spaces without entropy, called as in POT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._barycenters import StopCriterion, barycenter
from ._conditional_gradient import exact, solve_exact
from ._problem import LossFun, Plan
from ._siblings import like
from .barycenters import entropic_fused_gromov_barycenters, entropic_gromov_barycenters
from .exact import gromov_wasserstein

__all__ = ["fgw_barycenters", "gromov_barycenters"]
# Relative change of the loss at which the iterations for a plan stop; POT's.
PLAN_TOL = 1e-5


@exact
@like(entropic_gromov_barycenters, gromov_wasserstein)
def gromov_barycenters(
    N: int,
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    p: ArrayLike | None = None,
    lambdas: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = True,
    armijo: bool = False,
    max_iter: float = 1000,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    *,
    numItermaxEmd: float = 100_000,
) -> Plan:
    """Gromov-Wasserstein barycenter without entropy, as `ot.gromov.gromov_barycenters`.

    Parameters
    ----------
    verbose : bool, default=False
        Print the change of every update, and the losses of the iterations for plans.

    Examples
    --------
    >>> pot.gromov_barycenters(4, [C1, C2], max_iter=20).shape
    (4, 4)
    """
    return barycenter(locals(), solve_exact, tol_rel=PLAN_TOL)


@exact
@like(entropic_fused_gromov_barycenters, gromov_barycenters)
def fgw_barycenters(
    N: int,
    Ys: Sequence[ArrayLike],
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    lambdas: ArrayLike | None = None,
    alpha: float = 0.5,
    fixed_structure: bool = False,
    fixed_features: bool = False,
    p: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    armijo: bool = False,
    symmetric: bool | None = True,
    max_iter: float = 100,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    init_X: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    *,
    numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:
    """Fused Gromov-Wasserstein barycenter without entropy, as
    `ot.gromov.fgw_barycenters`.

    Parameters
    ----------
    init_X : array-like of shape (N, d), optional
        Features to start from, zeros by default.
    fixed_structure, fixed_features : bool, default=False
        Whether `init_C`, or `init_X`, stays as it is.

    Examples
    --------
    >>> features, structure = pot.fgw_barycenters(
    ...     4, [x[:, None], x[::-1, None]], [C1, C2], max_iter=20
    ... )
    >>> features.shape, structure.shape
    ((4, 1), (4, 4))
    """
    return barycenter(locals(), solve_exact, features="init_X", tol_rel=PLAN_TOL)

"""Barycenters of spaces, called as in POT, with entropy and without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._barycenters import SemirelaxedSpaces, StopCriterion, barycenter
from ._exact_batch import ExactBatch
from ._siblings import like
from ._solve import solve_all
from .call import LossFun, Plan, Solver
from .entropic import entropic_gromov_wasserstein
from .exact import exact, gromov_wasserstein, solve_all_exact

__all__ = [
    "entropic_fused_gromov_barycenters",
    "entropic_gromov_barycenters",
    "fgw_barycenters",
    "gromov_barycenters",
    "semirelaxed_fgw_barycenters",
    "semirelaxed_gromov_barycenters",
]


@like(entropic_gromov_wasserstein)
def entropic_gromov_barycenters(
    N: int,
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    p: ArrayLike | None = None,
    lambdas: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = True,
    max_iter: float = 1000,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    *,
    solver: Solver = "PGD",
    warmstart: bool = False,
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    warn: bool = True,
) -> Plan:
    """Entropic Gromov-Wasserstein barycenter, as
    `ot.gromov.entropic_gromov_barycenters`.

    Parameters
    ----------
    N : int
        Points of the barycenter.
    Cs : list of S array-like of shape (ns, ns), or graphs
    ps : list of S array-like of shape (ns,), optional
        Uniform by default.
    p : array-like of shape (N,), optional
    lambdas : list of S floats, optional
        Weights of the spaces, equal by default.
    max_iter : int, default=1000
        Limit of updates, and of outer iterations for the plans of one of them.
    tol : float, default=1e-9
        Stops when an update changes the barycenter by at most this (Frobenius norm),
        or the loss relatively by at most this.
    stop_criterion : {"barycenter", "loss"}, default="barycenter"
    warmstartT : bool, default=False
        Whether the plans of one update start from those of the last.
    init_C : array-like of shape (N, N), optional
        By default distances of random points.
    random_state : int, RandomState or None, default=None
        POT's random numbers.

    Returns
    -------
    C : array of shape (N, N)
    log : dict
        If asked for: "err", with the criterion "loss" also "loss", the plans "T", "p".

    Examples
    --------
    >>> center = pot.entropic_gromov_barycenters(4, [C1, C2], epsilon=0.5, max_iter=20)
    >>> center.shape
    (4, 4)
    """
    return barycenter(locals(), solve_all, tol=1e-4)


@like(entropic_gromov_barycenters)
def entropic_fused_gromov_barycenters(
    N: int,
    Ys: Sequence[ArrayLike],
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    p: ArrayLike | None = None,
    lambdas: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = True,
    alpha: float = 0.5,
    max_iter: float = 1000,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    init_Y: ArrayLike | None = None,
    fixed_structure: bool = False,
    fixed_features: bool = False,
    random_state: int | np.random.RandomState | None = None,
    *,
    solver: Solver = "PGD",
    warmstart: bool = False,
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    warn: bool = True,
) -> tuple[Any, ...]:
    """Entropic fused Gromov-Wasserstein barycenter, as
    `ot.gromov.entropic_fused_gromov_barycenters` is meant: POT 0.9.7 returns the
    features it began with, see DIFFERENCES.md.

    Parameters
    ----------
    Ys : list of S array-like of shape (ns, d)
        Features of the points.
    alpha : float, default=0.5
        Weight of the structures.
    tol : float, default=1e-9
        Stops when an update changes neither structure nor features by more than this
        (Frobenius norm), or the loss relatively by at most this.
    init_Y : array-like of shape (N, d), optional
        Zeros by default.
    fixed_structure, fixed_features : bool, default=False
        Whether `init_C`, or `init_Y`, stays as it is.

    Returns
    -------
    Y : array of shape (N, d)
    C : array of shape (N, N)
    log : dict
        If asked for: "err_feature", "err_structure" and "Ts_iter", or with the criterion "loss"
        "loss" and "err_rel_loss"; the plans "T", "p", and "Ms", the costs between features.

    Examples
    --------
    >>> features, structure = pot.entropic_fused_gromov_barycenters(
    ...     4, [x[:, None], x[::-1, None]], [C1, C2], epsilon=0.5, max_iter=20
    ... )
    >>> features.shape, structure.shape
    ((4, 1), (4, 4))
    """
    return barycenter(locals(), solve_all, tol=1e-4)


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
    return barycenter(locals(), solve_all_exact, ExactBatch, tol_rel=1e-5)


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
    """Fused Gromov-Wasserstein barycenter without entropy, as `ot.gromov.fgw_barycenters`.

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
    return barycenter(locals(), solve_all_exact, ExactBatch, features="init_X", tol_rel=1e-5)


@like(gromov_barycenters)
def semirelaxed_gromov_barycenters(
    N: int,
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    lambdas: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = True,
    max_iter: float = 1000,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    G0: str = "product",
    random_state: int | np.random.RandomState | None = None,
) -> Plan:
    """Semi-relaxed Gromov-Wasserstein barycenter without entropy, as
    `ot.gromov.semirelaxed_gromov_barycenters`: each space takes as much of every point
    as suits it.

    Parameters
    ----------
    init_C : array-like of shape (N, N), optional
        By default that of the plans `G0`, with a little noise where these are products.
    G0 : str, default="product"
        Plans to start from: "product", "random_product" or "random", or by clusters (with POT)
        "fluid", "spectral", "kmeans", "fluid_soft", "spectral_soft" or "kmeans_soft".

    Returns
    -------
    C : array of shape (N, N)
        Zero between points that no space takes together.
    log : dict
        If asked for: "err", with the criterion "loss" also "loss", the plans "T" of
        shape (ns, N), and "p" of shape (S, N), the masses that each space gives.

    Examples
    --------
    >>> pot.semirelaxed_gromov_barycenters(4, [C1, C2], random_state=0).shape
    (4, 4)
    """
    return barycenter(locals(), solve_all_exact, kind=SemirelaxedSpaces, tol_rel=tol, tol_abs=0.0)


@like(semirelaxed_gromov_barycenters, fgw_barycenters)
def semirelaxed_fgw_barycenters(
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
    symmetric: bool | None = True,
    max_iter: float = 100,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    init_X: ArrayLike | None = None,
    G0: str = "product",
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Any, ...]:
    """Semi-relaxed fused Gromov-Wasserstein barycenter without entropy, as
    `ot.gromov.semirelaxed_fgw_barycenters`.

    Parameters
    ----------
    p : array-like of shape (N,), optional
        Without effect, as in POT.
    tol : float, default=1e-9
        Stops when an update changes neither structure nor features by more than this
        (Frobenius norm), or the loss relatively by at most this.
    init_X : array-like of shape (N, d), optional
        By default those of the plans, or with clusters centers by scikit-learn.

    Returns
    -------
    X : array of shape (N, d)
    C : array of shape (N, N)
    log : dict
        If asked for: "err_feature" and "err_structure", or with the criterion "loss"
        "loss" and "err_rel_loss"; the plans "T" of shape (ns, N), the masses "p" of
        shape (S, N), and "Ms", the costs between features.

    Examples
    --------
    >>> features, structure = pot.semirelaxed_fgw_barycenters(
    ...     4, [x[:, None], x[::-1, None]], [C1, C2], random_state=0
    ... )
    >>> features.shape, structure.shape
    ((4, 1), (4, 4))
    """
    return barycenter(
        locals() | {"p": None},
        solve_all_exact,
        kind=SemirelaxedSpaces,
        features="init_X",
        tol_rel=tol,
        tol_abs=0.0,
    )

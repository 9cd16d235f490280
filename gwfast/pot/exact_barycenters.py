"""Barycenters of spaces without entropy, called as in POT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._barycenters import (
    Rules,
    Spaces,
    StopCriterion,
    structure,
    structure_and_features,
)
from ._conditional_gradient import exact, solve_exact
from ._problem import LossFun, Plan

__all__ = ["fgw_barycenters", "gromov_barycenters"]
# Relative change of the loss at which the iterations for a plan stop; POT's.
PLAN_TOL = 1e-5


@exact
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
    armijo, numItermaxEmd
        Without effect, see `gromov_wasserstein`.
    N, Cs, ps, p, lambdas, loss_fun, symmetric, max_iter, tol, stop_criterion, \
warmstartT, verbose, log, init_C, random_state
        See `entropic_gromov_barycenters`.

    Returns
    -------
    C : array of shape (N, N)
    log : dict
        As that of `entropic_gromov_barycenters`.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> pot.gromov_barycenters(4, [C1, C2], max_iter=20).shape
    (4, 4)
    """
    data = dict(loss_fun=loss_fun, symmetric=symmetric)
    rules = Rules(
        _solver(max_iter, verbose),
        data,
        stop_criterion,
        max_iter,
        tol,
        warmstartT,
        verbose,
    )
    rules.check(init_C, None)
    spaces = Spaces(N, Cs, ps, p, lambdas, init_C, random_state)
    return structure(spaces, rules, log)


@exact
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
        The `init_Y` of `entropic_fused_gromov_barycenters`.
    armijo, numItermaxEmd
        Without effect, see `gromov_wasserstein`.
    N, Ys, Cs, ps, lambdas, alpha, fixed_structure, fixed_features, p, loss_fun, \
symmetric, max_iter, tol, stop_criterion, warmstartT, verbose, log, init_C, \
random_state
        See `entropic_fused_gromov_barycenters`.

    Returns
    -------
    X : array of shape (N, d)
    C : array of shape (N, N)
    log : dict
        As that of `entropic_fused_gromov_barycenters`.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> features, structure = pot.fgw_barycenters(
    ...     4, [x[:, None], x[::-1, None]], [C1, C2], max_iter=20
    ... )
    >>> features.shape, structure.shape
    ((4, 1), (4, 4))
    """
    data = dict(loss_fun=loss_fun, symmetric=symmetric, alpha=alpha)
    limits = stop_criterion, max_iter, tol, warmstartT, verbose
    solve = _solver(max_iter, verbose)
    rules = Rules(solve, data, *limits, fixed_structure, fixed_features)
    rules.check(init_C, init_X, "init_X")
    given = N, Cs, ps, p, lambdas, init_C, random_state, Ys, init_X
    return structure_and_features(Spaces(*given, name_Y="init_X"), rules, log)


def _solver(max_iter, verbose):
    """What solves a `Problem` with these options."""

    def solve(problem):
        return solve_exact(
            problem, max_iter=max_iter, tol_rel=PLAN_TOL, verbose=verbose
        )

    return solve

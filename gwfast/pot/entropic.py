"""(Fused) Gromov-Wasserstein with entropy, called as in POT, under several marginal rules."""

from __future__ import annotations

import dataclasses

from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ..quadratic.methods import BAPG
from ._solve import solve
from .call import Call, LossFun, Masses, Plan, Seed, Solver, valued

__all__ = [
    "BAPG_fused_gromov_wasserstein",
    "BAPG_fused_gromov_wasserstein2",
    "BAPG_gromov_wasserstein",
    "BAPG_gromov_wasserstein2",
    "entropic_fused_gromov_wasserstein",
    "entropic_fused_gromov_wasserstein2",
    "entropic_gromov_wasserstein",
    "entropic_gromov_wasserstein2",
    "entropic_partial_fused_gromov_wasserstein",
    "entropic_partial_fused_gromov_wasserstein2",
    "entropic_partial_gromov_wasserstein",
    "entropic_partial_gromov_wasserstein2",
    "entropic_semirelaxed_fused_gromov_wasserstein",
    "entropic_semirelaxed_fused_gromov_wasserstein2",
    "entropic_semirelaxed_gromov_wasserstein",
    "entropic_semirelaxed_gromov_wasserstein2",
]
# The names that partial functions have for arguments of `solve`.
PARTIAL = {"epsilon": "reg", "max_iter": "numItermax"}


def entropic_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    q: Masses = None,
    loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = None,
    G0: ArrayLike | None = None,
    max_iter: float = 1000,
    tol: float = 1e-9,
    solver: Solver = "PGD",
    warmstart: bool = False,
    verbose: bool = False,
    log: bool = False,
    *,
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    warn: bool = True,
) -> Plan:
    """Return the entropic Gromov-Wasserstein plan, as POT's `entropic_gromov_wasserstein
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.entropic_gromov_wasserstein>`_.

    Parameters
    ----------
    C1, C2, p, q : array-like of shape (ns, ns), (nt, nt), (ns,) and (nt,)
        Costs within the two spaces, and masses of one total, uniform by default: lists, or arrays
        of NumPy, torch or JAX in the memory of the CPU; costs also as graphs of SciPy or networkx,
        as in `gwfast.GraphCost`. If all arrays are float32 the results are; else they are float64.
    loss_fun : {"square_loss", "kl_loss"}, default="square_loss"
    epsilon : float, default=0.1
        Twice the `epsilon` of `gwfast.gromov_wasserstein`.
    symmetric : bool, optional
        Whether both costs are symmetric; None looks. True is believed: POT's gradient for costs
        that are not symmetric has one orientation.
    G0 : array-like of shape (ns, nt), optional
        Plan to start from, taken as it is; by default the product of `p` and `q`.
    max_iter, tol, numItermax, stopThr
        Limit of outer iterations, and change of the plan (Frobenius norm) at which they stop; limit
        of the Sinkhorn iterations of each, and error of the marginals (Euclidean norm).
    solver, warmstart : {"PGD", "PPA"}, default="PGD", and bool
        Mirror descent, or proximal points; inner iterations always start from the last potentials.
    verbose, log, warn : bool, default=False, False and True
        Whether to print the error of every tenth iteration, to return the log, and to warn
        (`ConvergenceWarning`) of plans that should not be trusted: `max_iter` is no reason.

    Returns
    -------
    T, log : array of shape (ns, nt), of the library and dtype of the input, and if asked for a dict
        It has "err", the change of the plan in every iteration; "gw_dist"; and "status", why the
        solver stopped.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> pot.entropic_gromov_wasserstein(C1, C1[::-1, ::-1], epsilon=0.5).argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    call = Call.of(C1, C2, p, q, loss_fun, symmetric, G0)
    inner = {"numItermax": numItermax, "stopThr": stopThr, "solver": solver}
    return solve(call, epsilon, max_iter, tol, **inner, verbose=verbose, warn=warn).result(log)


def entropic_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    q: Masses = None,
    loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = None,
    alpha: float = 0.5,
    G0: ArrayLike | None = None,
    max_iter: float = 1000,
    tol: float = 1e-9,
    solver: Solver = "PGD",
    warmstart: bool = False,
    verbose: bool = False,
    log: bool = False,
    *,
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    warn: bool = True,
) -> Plan:
    """Return the entropic fused Gromov-Wasserstein plan, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.entropic_fused_gromov_wasserstein>`__.
    For other parameters see `entropic_gromov_wasserstein`.

    Parameters
    ----------
    M, alpha : array-like of shape (ns, nt), and float, default=0.5
        Costs between the two spaces, of weight ``1 - alpha``, and weight of the structures.

    Returns
    -------
    T, log
        The log has "err", "fgw_dist", its parts "lin_loss" and "quad_loss", and "status".
    """
    call = Call.of(C1, C2, p, q, loss_fun, symmetric, G0, M, alpha)
    inner = {"numItermax": numItermax, "stopThr": stopThr, "solver": solver}
    return solve(call, epsilon, max_iter, tol, **inner, verbose=verbose, warn=warn).result(log)


def BAPG_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    q: Masses = None,
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
    """Return the Gromov-Wasserstein plan by BAPG, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.BAPG_gromov_wasserstein>`__.
    For other parameters see `entropic_gromov_wasserstein`.

    Parameters
    ----------
    marginal_loss : bool, default=False
        Whether the gradient has the terms that are constant if marginals are met.

    Returns
    -------
    T, log
        Columns of the plan sum to `q`, its rows only nearly to `p`. The log has "err", "gw_dist",
        without `marginal_loss` also "loss", which lacks those terms, and "status".
    """
    call = Call.of(C1, C2, p, q, loss_fun, symmetric, G0)
    method = dataclasses.replace(BAPG, marginal_terms=bool(marginal_loss))
    return solve(call, epsilon, max_iter, tol, method=method, verbose=verbose).result(log)


def BAPG_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    q: Masses = None,
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
    """Return the fused Gromov-Wasserstein plan by BAPG, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.BAPG_fused_gromov_wasserstein>`__.
    For parameters see `BAPG_gromov_wasserstein` and `entropic_fused_gromov_wasserstein`. The log
    has "fgw_dist" in place of "gw_dist", and its parts "lin_loss" and "quad_loss".
    """
    call = Call.of(C1, C2, p, q, loss_fun, symmetric, G0, M, alpha)
    method = dataclasses.replace(BAPG, marginal_terms=bool(marginal_loss))
    return solve(call, epsilon, max_iter, tol, method=method, verbose=verbose).result(log)


def entropic_semirelaxed_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = None,
    G0: ArrayLike | str | None = None,
    max_iter: float = 1e4,
    tol: float = 1e-9,
    log: bool = False,
    verbose: bool = False,
    random_state: Seed = 0,
) -> Plan:
    """Return the entropic semi-relaxed Gromov-Wasserstein plan, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.entropic_semirelaxed_gromov_wasserstein>`__.
    For other parameters see `entropic_gromov_wasserstein`.

    Parameters
    ----------
    G0, random_state : array-like of shape (ns, nt), or str, optional, and int, default=0
        Its rows must sum to `p`. By name, with POT's random numbers: "product", "random_product",
        "random"; and if POT is installed, which makes them, "fluid", "spectral", "kmeans",
        "fluid_soft", "spectral_soft" and "kmeans_soft". In a fused problem such a plan is mixed
        with a plan that takes the least `M` of every row.

    Returns
    -------
    T, log
        Rows of the plan sum to `p`. The log has "err", "srgw_dist" and "status".
    """
    call = Call.of(
        C1, C2, p, None, loss_fun, symmetric, G0, marginals="semirelaxed", random_state=random_state
    )
    return solve(call, epsilon, max_iter, tol, verbose=verbose).result(log)


def entropic_semirelaxed_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = None,
    epsilon: float = 0.1,
    alpha: float = 0.5,
    G0: ArrayLike | str | None = None,
    max_iter: float = 1e4,
    tol: float = 1e-9,
    log: bool = False,
    verbose: bool = False,
    random_state: Seed = 0,
) -> Plan:
    """Return the entropic semi-relaxed fused Gromov-Wasserstein plan, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.entropic_semirelaxed_fused_gromov_wasserstein>`__.
    For parameters see `entropic_semirelaxed_gromov_wasserstein` and
    `entropic_fused_gromov_wasserstein`. The log has "srfgw_dist" in place of "srgw_dist", and its
    parts "lin_loss" and "quad_loss".
    """
    call = Call.of(
        C1, C2, p, None, loss_fun, symmetric, G0, M, alpha, "semirelaxed", random_state=random_state
    )
    return solve(call, epsilon, max_iter, tol, verbose=verbose).result(log)


def entropic_partial_gromov_wasserstein(
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    q: Masses = None,
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
    """Return the entropic partial Gromov-Wasserstein plan, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.entropic_partial_gromov_wasserstein>`__.
    For other parameters see `entropic_gromov_wasserstein`.

    Parameters
    ----------
    m : float, optional
        Mass to match, by default the smaller total of `p` and `q`, whose totals may differ.
    reg, numItermax
        The `epsilon` and `max_iter` of `entropic_gromov_wasserstein`.

    Returns
    -------
    T, log
        The log has "err", "partial_gw_dist" and "status".
    """
    call = Call.of(C1, C2, p, q, loss_fun, symmetric, G0, m=m, marginals="partial", names=PARTIAL)
    return solve(call, reg, numItermax, tol, verbose=verbose).result(log)


def entropic_partial_fused_gromov_wasserstein(
    M: ArrayLike,
    C1: CostLike,
    C2: CostLike,
    p: Masses = None,
    q: Masses = None,
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
    """Return the entropic partial fused Gromov-Wasserstein plan, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.entropic_partial_fused_gromov_wasserstein>`__
    means it: in POT 0.9.7 `M` does not change the plan, see DIFFERENCES.md. For parameters see
    `entropic_partial_gromov_wasserstein` and `entropic_fused_gromov_wasserstein`. The log has
    "partial_fgw_dist" in place of "partial_gw_dist", and its parts "lin_loss" and "quad_loss".
    """
    call = Call.of(C1, C2, p, q, loss_fun, symmetric, G0, M, alpha, "partial", m=m, names=PARTIAL)
    return solve(call, reg, numItermax, tol, verbose=verbose).result(log)


entropic_gromov_wasserstein2 = valued(entropic_gromov_wasserstein, "gw_dist")
entropic_fused_gromov_wasserstein2 = valued(entropic_fused_gromov_wasserstein, "fgw_dist")
BAPG_gromov_wasserstein2 = valued(BAPG_gromov_wasserstein, "gw_dist")
BAPG_fused_gromov_wasserstein2 = valued(BAPG_fused_gromov_wasserstein, "fgw_dist")
entropic_semirelaxed_gromov_wasserstein2 = valued(
    entropic_semirelaxed_gromov_wasserstein, "srgw_dist"
)
entropic_semirelaxed_fused_gromov_wasserstein2 = valued(
    entropic_semirelaxed_fused_gromov_wasserstein, "srfgw_dist"
)
entropic_partial_gromov_wasserstein2 = valued(
    entropic_partial_gromov_wasserstein, "partial_gw_dist"
)
entropic_partial_fused_gromov_wasserstein2 = valued(
    entropic_partial_fused_gromov_wasserstein, "partial_fgw_dist"
)

"""Entropic (fused) Gromov-Wasserstein between two marginals, called as in POT."""

from __future__ import annotations

from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._problem import LossFun, Plan, Problem, Solver
from ._siblings import like, valued
from ._solve import solve

__all__ = [
    "entropic_fused_gromov_wasserstein",
    "entropic_fused_gromov_wasserstein2",
    "entropic_gromov_wasserstein",
    "entropic_gromov_wasserstein2",
]


def entropic_gromov_wasserstein(
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
    solver: Solver = "PGD",
    warmstart: bool = False,
    verbose: bool = False,
    log: bool = False,
    *,
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    warn: bool = True,
) -> Plan:
    """Entropic Gromov-Wasserstein plan, as `ot.gromov.entropic_gromov_wasserstein`.

    The problem, the meaning of `epsilon` and what comes back are POT's; see its
    documentation for the mathematics, and DIFFERENCES.md beside this file for what is
    not the same.

    Parameters
    ----------
    C1, C2 : array-like of shape (ns, ns) and (nt, nt)
        Costs within the two spaces: lists, or arrays of NumPy, torch or JAX in the
        memory of the CPU; or graphs, of SciPy's sparse arrays or of networkx, whose
        costs are lengths of paths as in `gwfast.GraphCost`. If all is float32, so is
        what comes back; else it is float64.
    p, q : array-like of shape (ns,) and (nt,), optional
        Masses of one total; uniform by default.
    loss_fun : {"square_loss", "kl_loss"}, default="square_loss"
    epsilon : float, default=0.1
        Twice that of `gwfast.gromov_wasserstein`.
    symmetric : bool, optional
        Whether both costs are symmetric; None looks. True is believed: of costs that
        are not, POT's gradient has one orientation.
    G0 : array-like of shape (ns, nt), optional
        Plan to start from, taken as it is; by default the product of `p` and `q`.
    max_iter : int, default=1000
        Limit of outer iterations.
    tol : float, default=1e-9
        Change of the plan (Frobenius norm) at which outer iterations stop.
    solver : {"PGD", "PPA"}, default="PGD"
        Mirror descent, or proximal points.
    warmstart : bool, default=False
        Without effect: inner iterations always start from the last potentials.
    verbose : bool, default=False
        Print the error of every tenth iteration.
    log : bool, default=False
        Whether to return the log as well.
    numItermax : int, default=1000
        Limit of the Sinkhorn iterations of one outer iteration.
    stopThr : float, default=1e-9
        Error of the marginals (Euclidean norm) at which Sinkhorn iterations stop.
    warn : bool, default=True
        Whether to warn where the plan should not be trusted as it is.

    Returns
    -------
    T : array of shape (ns, nt)
        Of the library and dtype of the input.
    log : dict
        If asked for: "err", the change of the plan in every iteration; "gw_dist"; and
        "status", why the solver stopped.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Warns
    -----
    ConvergenceWarning
        If the plan should not be trusted as it is. Having reached `max_iter` is no
        reason, as in POT.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> plan = pot.entropic_gromov_wasserstein(C1, C2, epsilon=0.5)
    >>> plan.argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    return solve(Problem(locals())).result(log)


entropic_gromov_wasserstein2 = valued(entropic_gromov_wasserstein, "gw_dist")


@like(entropic_gromov_wasserstein)
def entropic_fused_gromov_wasserstein(
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
    solver: Solver = "PGD",
    warmstart: bool = False,
    verbose: bool = False,
    log: bool = False,
    *,
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    warn: bool = True,
) -> Plan:
    """Entropic fused Gromov-Wasserstein plan, as
    `ot.gromov.entropic_fused_gromov_wasserstein`.

    Parameters
    ----------
    M : array-like of shape (ns, nt)
        Costs between the two spaces.
    alpha : float, default=0.5
        Weight of the structures; ``1 - alpha`` is that of `M`.
    """
    return solve(Problem(locals())).result(log)


entropic_fused_gromov_wasserstein2 = valued(
    entropic_fused_gromov_wasserstein, "fgw_dist"
)

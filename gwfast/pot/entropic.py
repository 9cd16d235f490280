"""(Fused) Gromov-Wasserstein with entropy, called as in POT: balanced, by BAPG, whose
plans have one of the marginals only, semi-relaxed and partial.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._problem import LossFun, Plan, Problem, Solver
from ._siblings import like, valued
from ._solve import solve

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
# What balanced functions call the arguments of partial ones, whose numItermax is the
# limit of outer iterations.
PARTIAL = {"epsilon": "reg", "max_iter": "numItermax", "numItermax": ""}


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

    The problem, the meaning of `epsilon` and the results are POT's; see its documentation for the
    mathematics, and DIFFERENCES.md in this folder for the differences.

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
    problem = Problem(locals(), marginals="partial", names=PARTIAL)
    return solve(problem).result(log)


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
    problem = Problem(locals(), marginals="partial", names=PARTIAL)
    return solve(problem).result(log)


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

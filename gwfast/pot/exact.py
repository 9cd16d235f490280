"""(Fused) Gromov-Wasserstein without entropy, called as in POT: balanced, semi-relaxed
and partial.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._conditional_gradient import exact, solve_exact
from ._problem import LossFun, Plan, Problem
from ._valued import valued
from .semirelaxed import semirelaxed_problem

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
# What other families call the limits of partial problems.
ARGUMENTS = {"max_iter": "numItermax", "tol_rel": "tol"}


@exact
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
    """Gromov-Wasserstein plan without entropy, as `ot.gromov.gromov_wasserstein`: by
    conditional gradient, from one plan to the local minimum that it leads to.

    The problem and what comes back are POT's; see its documentation for the
    mathematics, and DIFFERENCES.md beside this file for what is not the same.
    `gwfast.gromov_wasserstein` with ``epsilon=0`` tries several plans to start from,
    and finds better minima.

    Parameters
    ----------
    C1, C2 : array-like of shape (ns, ns) and (nt, nt)
        Costs within the two spaces: lists, or arrays of NumPy, torch or JAX in the
        memory of the CPU; or graphs, of SciPy's sparse arrays or of networkx, whose
        costs are lengths of paths as in `gwfast.GraphCost`. All is solved in float64.
    p, q : array-like of shape (ns,) and (nt,), optional
        Masses of one total; uniform by default.
    loss_fun : {"square_loss", "kl_loss"}, default="square_loss"
    symmetric : bool, optional
        Whether both costs are symmetric; None looks. True is believed: of costs that
        are not, POT's gradient has one orientation.
    log : bool, default=False
        Whether to return the log as well.
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
        If asked for: "loss", of the start and after every iteration; "gw_dist"; the
        potentials "u" and "v" of the last linear problem and its "cost", with
        "warning" and "result_code" as POT has them of a problem that is solved; and
        "status", why the solver stopped.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> plan = pot.gromov_wasserstein(C1, C2)
    >>> plan.argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    return fused_gromov_wasserstein(**dict(locals(), M=None))


gromov_wasserstein2 = exact(valued(gromov_wasserstein, "gw_dist"))


@exact
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
    """Fused Gromov-Wasserstein plan without entropy, as
    `ot.gromov.fused_gromov_wasserstein`.

    Parameters
    ----------
    M : array-like of shape (ns, nt)
        Costs between the two spaces.
    alpha : float, default=0.5
        Weight of the structures; ``1 - alpha`` is that of `M`.
    C1, C2, p, q, loss_fun, symmetric, armijo, G0, log, max_iter, tol_rel, tol_abs, \
verbose, numItermaxEmd
        See `gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: as that of `gromov_wasserstein`, with "fgw_dist" and its parts
        "lin_loss" and "quad_loss".

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> M = np.abs(np.subtract.outer(x, x[::-1]))
    >>> plan = pot.fused_gromov_wasserstein(M, C1, C2)
    >>> plan.argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    problem = Problem(
        C1, C2, p, q, M=M, alpha=alpha, loss_fun=loss_fun, symmetric=symmetric, G0=G0
    )
    answer = solve_exact(
        problem, max_iter=max_iter, tol_rel=tol_rel, tol_abs=tol_abs, verbose=verbose
    )
    return answer.result(log)


fused_gromov_wasserstein2 = exact(valued(fused_gromov_wasserstein, "fgw_dist"))


@exact
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
    G0, random_state
        See `entropic_semirelaxed_gromov_wasserstein`.
    C1, C2, p, loss_fun, symmetric, log, max_iter, tol_rel, tol_abs, verbose
        See `gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
        Its rows sum to `p`.
    log : dict
        If asked for: "loss", "srgw_dist" and "status".

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> plan = pot.semirelaxed_gromov_wasserstein(C1, C2)
    >>> plan.argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    return semirelaxed_fused_gromov_wasserstein(**dict(locals(), M=None))


semirelaxed_gromov_wasserstein2 = exact(
    valued(semirelaxed_gromov_wasserstein, "srgw_dist")
)


@exact
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

    Parameters
    ----------
    M, alpha
        See `fused_gromov_wasserstein`.
    G0, random_state
        See `entropic_semirelaxed_fused_gromov_wasserstein`.
    C1, C2, p, loss_fun, symmetric, log, max_iter, tol_rel, tol_abs, verbose
        See `gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "loss", "srfgw_dist", its parts "lin_loss" and "quad_loss", and
        "status".

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> M = np.abs(np.subtract.outer(x, x[::-1]))
    >>> plan = pot.semirelaxed_fused_gromov_wasserstein(M, C1, C2)
    >>> plan.argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    data = dict(
        C1=C1, C2=C2, p=p, M=M, alpha=alpha, loss_fun=loss_fun, symmetric=symmetric
    )
    problem, start = semirelaxed_problem(data, G0, random_state)
    answer = solve_exact(
        problem,
        start=start,
        max_iter=max_iter,
        tol_rel=tol_rel,
        tol_abs=tol_abs,
        verbose=verbose,
    )
    return answer.result(log)


semirelaxed_fused_gromov_wasserstein2 = exact(
    valued(semirelaxed_fused_gromov_wasserstein, "srfgw_dist")
)


@exact
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
    C1, C2, p, q, loss_fun, symmetric, log, verbose
        See `gromov_wasserstein`; totals of `p` and `q` may differ.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "loss", "partial_gw_dist" and "status".

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> plan = pot.partial_gromov_wasserstein(C1, C2, m=0.75)
    >>> round(float(plan.sum()), 3)
    0.75
    """
    return partial_fused_gromov_wasserstein(**dict(locals(), M=None))


partial_gromov_wasserstein2 = exact(
    valued(partial_gromov_wasserstein, "partial_gw_dist", tol=1e-7, warn=False)
)


@exact
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

    Parameters
    ----------
    M, alpha
        See `fused_gromov_wasserstein`.
    C1, C2, p, q, m, loss_fun, nb_dummies, G0, thres, numItermax, tol, symmetric, \
warn, log, verbose
        See `partial_gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "loss", "partial_fgw_dist", its parts "lin_loss" and "quad_loss",
        and "status".

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> M = np.abs(np.subtract.outer(x, x[::-1]))
    >>> plan = pot.partial_fused_gromov_wasserstein(M, C1, C2, m=0.75)
    >>> round(float(plan.sum()), 3)
    0.75
    """
    problem = Problem(
        C1,
        C2,
        p,
        q,
        M=M,
        alpha=alpha,
        loss_fun=loss_fun,
        symmetric=symmetric,
        G0=G0,
        marginals="partial",
        mass=m,
    )
    answer = solve_exact(
        problem, max_iter=numItermax, tol_rel=tol, verbose=verbose, names=ARGUMENTS
    )
    return answer.result(log)


partial_fused_gromov_wasserstein2 = exact(
    valued(partial_fused_gromov_wasserstein, "partial_fgw_dist", tol=1e-7, warn=False)
)

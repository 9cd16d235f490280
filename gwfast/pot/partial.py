"""Entropic partial (fused) Gromov-Wasserstein, called as in POT: only some of the mass
is matched.
"""

from ._problem import Problem, value_of

# These four call the limit of outer iterations by the name that the inner one has
# elsewhere.
NAMES = {"epsilon": "reg", "max_iter": "numItermax"}


def entropic_partial_gromov_wasserstein(
    C1,
    C2,
    p=None,
    q=None,
    reg=1.0,
    m=None,
    loss_fun="square_loss",
    G0=None,
    numItermax=1000,
    tol=1e-7,
    symmetric=None,
    log=False,
    verbose=False,
):
    """Entropic partial Gromov-Wasserstein plan, as
    `ot.gromov.entropic_partial_gromov_wasserstein`.

    Parameters
    ----------
    reg : float, default=1.0
        What is `epsilon` elsewhere.
    m : float, optional
        Mass to match; by default all of the side that has less.
    numItermax : int, default=1000
        What is `max_iter` elsewhere.
    C1, C2, p, q, loss_fun, G0, tol, symmetric, log, verbose
        See `entropic_gromov_wasserstein`; totals of `p` and `q` may differ.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "err", "partial_gw_dist" and "status".
    """
    problem = Problem(
        C1,
        C2,
        p,
        q,
        loss_fun=loss_fun,
        symmetric=symmetric,
        G0=G0,
        marginals="partial",
        mass=m,
        names=NAMES,
    )
    answer = problem.solve(epsilon=reg, max_iter=numItermax, tol=tol, verbose=verbose)
    return answer.result(log, "partial_gw_dist")


def entropic_partial_gromov_wasserstein2(
    C1,
    C2,
    p=None,
    q=None,
    reg=1.0,
    m=None,
    loss_fun="square_loss",
    G0=None,
    numItermax=1000,
    tol=1e-7,
    symmetric=None,
    log=False,
    verbose=False,
):
    """Entropic partial Gromov-Wasserstein loss, as
    `ot.gromov.entropic_partial_gromov_wasserstein2`.

    Parameters are those of `entropic_partial_gromov_wasserstein`.

    Returns
    -------
    partial_gw_dist : scalar
    log : dict
        If asked for, with the plan as "T".
    """
    result = entropic_partial_gromov_wasserstein(
        C1, C2, p, q, reg, m, loss_fun, G0, numItermax, tol, symmetric, True, verbose
    )
    return value_of(result, "partial_gw_dist", log)


def entropic_partial_fused_gromov_wasserstein(
    M,
    C1,
    C2,
    p=None,
    q=None,
    reg=1.0,
    m=None,
    loss_fun="square_loss",
    alpha=0.5,
    G0=None,
    numItermax=1000,
    tol=1e-7,
    symmetric=None,
    log=False,
    verbose=False,
):
    """Entropic partial fused Gromov-Wasserstein plan, as
    `ot.gromov.entropic_partial_fused_gromov_wasserstein` is meant: POT 0.9.7 leaves `M`
    without influence on the plan, see DIFFERENCES.md.

    Parameters
    ----------
    M : array-like of shape (ns, nt)
        Costs between the two spaces.
    alpha : float, default=0.5
        Weight of the structures; ``1 - alpha`` is that of `M`.
    C1, C2, p, q, reg, m, loss_fun, G0, numItermax, tol, symmetric, log, verbose
        See `entropic_partial_gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "err", "partial_fgw_dist", its parts "lin_loss" and "quad_loss",
        and "status".
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
        names=NAMES,
    )
    answer = problem.solve(epsilon=reg, max_iter=numItermax, tol=tol, verbose=verbose)
    return answer.result(log, "partial_fgw_dist")


def entropic_partial_fused_gromov_wasserstein2(
    M,
    C1,
    C2,
    p=None,
    q=None,
    reg=1.0,
    m=None,
    loss_fun="square_loss",
    alpha=0.5,
    G0=None,
    numItermax=1000,
    tol=1e-7,
    symmetric=None,
    log=False,
    verbose=False,
):
    """Entropic partial fused Gromov-Wasserstein loss, as
    `ot.gromov.entropic_partial_fused_gromov_wasserstein2`.

    Parameters are those of `entropic_partial_fused_gromov_wasserstein`.

    Returns
    -------
    partial_fgw_dist : scalar
    log : dict
        If asked for, with the plan as "T".
    """
    result = entropic_partial_fused_gromov_wasserstein(
        M,
        C1,
        C2,
        p,
        q,
        reg,
        m,
        loss_fun,
        alpha,
        G0,
        numItermax,
        tol,
        symmetric,
        True,
        verbose,
    )
    return value_of(result, "partial_fgw_dist", log)

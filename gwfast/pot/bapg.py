"""Bregman alternating projected gradient, called as in POT: single loops whose plans
have one of the marginals only.
"""

from ._problem import Problem, value_of


def BAPG_gromov_wasserstein(
    C1,
    C2,
    p=None,
    q=None,
    loss_fun="square_loss",
    epsilon=0.1,
    symmetric=None,
    G0=None,
    max_iter=1000,
    tol=1e-9,
    marginal_loss=False,
    verbose=False,
    log=False,
):
    """Gromov-Wasserstein plan by BAPG, as `ot.gromov.BAPG_gromov_wasserstein`.

    Parameters
    ----------
    marginal_loss : bool, default=False
        Whether the gradient has the terms that are constant where marginals are met.
    C1, C2, p, q, loss_fun, epsilon, symmetric, G0, max_iter, tol, verbose, log
        See `entropic_gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
        Its columns sum to `q`, its rows only nearly to `p`.
    log : dict
        If asked for: "err", "gw_dist", without `marginal_loss` also "loss", what is
        left of it without those terms, and "status".
    """
    problem = Problem(C1, C2, p, q, loss_fun=loss_fun, symmetric=symmetric, G0=G0)
    answer = problem.solve(
        method="bapg",
        marginal_loss=bool(marginal_loss),
        epsilon=epsilon,
        max_iter=max_iter,
        tol=tol,
        verbose=verbose,
    )
    return answer.result(log, "gw_dist", marginal_loss=marginal_loss)


def BAPG_gromov_wasserstein2(
    C1,
    C2,
    p=None,
    q=None,
    loss_fun="square_loss",
    epsilon=0.1,
    symmetric=None,
    G0=None,
    max_iter=1000,
    tol=1e-9,
    marginal_loss=False,
    verbose=False,
    log=False,
):
    """Gromov-Wasserstein loss by BAPG, as `ot.gromov.BAPG_gromov_wasserstein2`.

    Parameters are those of `BAPG_gromov_wasserstein`.

    Returns
    -------
    gw_dist : scalar
    log : dict
        If asked for, with the plan as "T".
    """
    result = BAPG_gromov_wasserstein(
        C1,
        C2,
        p,
        q,
        loss_fun,
        epsilon,
        symmetric,
        G0,
        max_iter,
        tol,
        marginal_loss,
        verbose,
        True,
    )
    return value_of(result, "gw_dist", log)


def BAPG_fused_gromov_wasserstein(
    M,
    C1,
    C2,
    p=None,
    q=None,
    loss_fun="square_loss",
    epsilon=0.1,
    symmetric=None,
    alpha=0.5,
    G0=None,
    max_iter=1000,
    tol=1e-9,
    marginal_loss=False,
    verbose=False,
    log=False,
):
    """Fused Gromov-Wasserstein plan by BAPG, as
    `ot.gromov.BAPG_fused_gromov_wasserstein`.

    Parameters
    ----------
    M : array-like of shape (ns, nt)
        Costs between the two spaces.
    alpha : float, default=0.5
        Weight of the structures; ``1 - alpha`` is that of `M`.
    C1, C2, p, q, loss_fun, epsilon, symmetric, G0, max_iter, tol, marginal_loss, \
verbose, log
        See `BAPG_gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "err", "fgw_dist", its parts "lin_loss" and "quad_loss", without
        `marginal_loss` also "loss", and "status".
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
    )
    answer = problem.solve(
        method="bapg",
        marginal_loss=bool(marginal_loss),
        epsilon=epsilon,
        max_iter=max_iter,
        tol=tol,
        verbose=verbose,
    )
    return answer.result(log, "fgw_dist", marginal_loss=marginal_loss)


def BAPG_fused_gromov_wasserstein2(
    M,
    C1,
    C2,
    p=None,
    q=None,
    loss_fun="square_loss",
    epsilon=0.1,
    symmetric=None,
    alpha=0.5,
    G0=None,
    max_iter=1000,
    tol=1e-9,
    marginal_loss=False,
    verbose=False,
    log=False,
):
    """Fused Gromov-Wasserstein loss by BAPG, as
    `ot.gromov.BAPG_fused_gromov_wasserstein2`.

    Parameters are those of `BAPG_fused_gromov_wasserstein`.

    Returns
    -------
    fgw_dist : scalar
    log : dict
        If asked for, with the plan as "T".
    """
    result = BAPG_fused_gromov_wasserstein(
        M,
        C1,
        C2,
        p,
        q,
        loss_fun,
        epsilon,
        symmetric,
        alpha,
        G0,
        max_iter,
        tol,
        marginal_loss,
        verbose,
        True,
    )
    return value_of(result, "fgw_dist", log)

"""Entropic (fused) Gromov-Wasserstein between two marginals, called as in POT."""

from ._problem import Problem, one_of, value_of

METHODS = {"PGD": "pgd", "PPA": "ppa"}


def entropic_gromov_wasserstein(
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
    solver="PGD",
    warmstart=False,
    verbose=False,
    log=False,
    *,
    numItermax=1000,
    stopThr=1e-9,
    warn=True,
):
    """Entropic Gromov-Wasserstein plan, as `ot.gromov.entropic_gromov_wasserstein`.

    The problem, the meaning of `epsilon` and what comes back are POT's; see its
    documentation for the mathematics, and DIFFERENCES.md beside this file for what is
    not the same.

    Parameters
    ----------
    C1, C2 : array-like of shape (ns, ns) and (nt, nt)
        Costs within the two spaces: lists, or arrays of NumPy, torch or JAX in the
        memory of the CPU. All float32 is solved in float32, anything else in float64.
    p, q : array-like of shape (ns,) and (nt,), optional
        Masses of one total; uniform by default.
    loss_fun : {"square_loss", "kl_loss"}, default="square_loss"
    epsilon : float, default=0.1
        Twice that of `gwfast.gromov_wasserstein`.
    symmetric : bool, optional
        Whether both costs are; by default it is found out.
    G0 : array-like of shape (ns, nt), optional
        Where to start, taken as it is; by default the product of `p` and `q`.
    max_iter : int, default=1000
        Limit of outer iterations.
    tol : float, default=1e-9
        Stops when the plan changes by at most this (Frobenius norm).
    solver : {"PGD", "PPA"}, default="PGD"
        Mirror descent, or proximal points.
    warmstart : bool, default=False
        Without effect: potentials are always carried over.
    verbose : bool, default=False
        Print the error of every tenth iteration.
    log : bool, default=False
        Whether to return the log as well.
    numItermax : int, default=1000
        Limit of passes over one linear problem.
    stopThr : float, default=1e-9
        Stops them when the marginals are off by less than this (Euclidean norm).
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
    """
    answer = _descend(
        Problem(C1, C2, p, q, loss_fun=loss_fun, symmetric=symmetric, G0=G0),
        solver,
        epsilon=epsilon,
        max_iter=max_iter,
        tol=tol,
        verbose=verbose,
        max_inner=numItermax,
        inner_tol=stopThr,
        warn=warn,
    )
    return answer.result(log, "gw_dist")


def entropic_gromov_wasserstein2(
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
    solver="PGD",
    warmstart=False,
    verbose=False,
    log=False,
    *,
    numItermax=1000,
    stopThr=1e-9,
    warn=True,
):
    """Entropic Gromov-Wasserstein loss, as `ot.gromov.entropic_gromov_wasserstein2`.

    Parameters are those of `entropic_gromov_wasserstein`.

    Returns
    -------
    gw_dist : scalar
        Of the library and dtype of the input; without entropy.
    log : dict
        If asked for, with the plan as "T".
    """
    result = entropic_gromov_wasserstein(
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
        solver,
        warmstart,
        verbose,
        True,
        numItermax=numItermax,
        stopThr=stopThr,
        warn=warn,
    )
    return value_of(result, "gw_dist", log)


def entropic_fused_gromov_wasserstein(
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
    solver="PGD",
    warmstart=False,
    verbose=False,
    log=False,
    *,
    numItermax=1000,
    stopThr=1e-9,
    warn=True,
):
    """Entropic fused Gromov-Wasserstein plan, as
    `ot.gromov.entropic_fused_gromov_wasserstein`.

    Parameters
    ----------
    M : array-like of shape (ns, nt)
        Costs between the two spaces.
    alpha : float, default=0.5
        Weight of the structures; ``1 - alpha`` is that of `M`.
    C1, C2, p, q, loss_fun, epsilon, symmetric, G0, max_iter, tol, solver, warmstart, \
verbose, log, numItermax, stopThr, warn
        See `entropic_gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "err", "fgw_dist", its parts "lin_loss" and "quad_loss", and
        "status".
    """
    answer = _descend(
        Problem(
            C1,
            C2,
            p,
            q,
            M=M,
            alpha=alpha,
            loss_fun=loss_fun,
            symmetric=symmetric,
            G0=G0,
        ),
        solver,
        epsilon=epsilon,
        max_iter=max_iter,
        tol=tol,
        verbose=verbose,
        max_inner=numItermax,
        inner_tol=stopThr,
        warn=warn,
    )
    return answer.result(log, "fgw_dist")


def entropic_fused_gromov_wasserstein2(
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
    solver="PGD",
    warmstart=False,
    verbose=False,
    log=False,
    *,
    numItermax=1000,
    stopThr=1e-9,
    warn=True,
):
    """Entropic fused Gromov-Wasserstein loss, as
    `ot.gromov.entropic_fused_gromov_wasserstein2`.

    Parameters are those of `entropic_fused_gromov_wasserstein`.

    Returns
    -------
    fgw_dist : scalar
    log : dict
        If asked for, with the plan as "T".
    """
    result = entropic_fused_gromov_wasserstein(
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
        solver,
        warmstart,
        verbose,
        True,
        numItermax=numItermax,
        stopThr=stopThr,
        warn=warn,
    )
    return value_of(result, "fgw_dist", log)


def _descend(problem, solver, **options):
    one_of(solver, "solver", METHODS)
    return problem.solve(method=METHODS[solver], **options)

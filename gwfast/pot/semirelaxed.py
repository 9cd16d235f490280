"""Entropic semi-relaxed (fused) Gromov-Wasserstein, called as in POT: only the first
marginal is given.
"""

import numpy as np

from ._problem import Problem, one_of, random_generator, value_of

# Plans to start from by name: these, and by clustering one space into as many parts as
# the other has points.
STARTS = ("product", "random_product", "random")
PARTITIONS = tuple(
    f"{name}{end}" for name in ("fluid", "spectral", "kmeans") for end in ("", "_soft")
)


def entropic_semirelaxed_gromov_wasserstein(
    C1,
    C2,
    p=None,
    loss_fun="square_loss",
    epsilon=0.1,
    symmetric=None,
    G0=None,
    max_iter=1e4,
    tol=1e-9,
    log=False,
    verbose=False,
    random_state=0,
):
    """Entropic semi-relaxed Gromov-Wasserstein plan, as
    `ot.gromov.entropic_semirelaxed_gromov_wasserstein`.

    Parameters
    ----------
    G0 : array-like of shape (ns, nt), or str, optional
        Its rows must sum to `p`. By name: "product", "random_product", "random", with
        POT's random numbers; and where POT is installed "fluid", "spectral", "kmeans",
        "fluid_soft", "spectral_soft" and "kmeans_soft", which it makes.
    random_state : int, default=0
        For a `G0` by name.
    C1, C2, p, loss_fun, epsilon, symmetric, max_iter, tol, log, verbose
        See `entropic_gromov_wasserstein`.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "err", "srgw_dist" and "status".

    Raises
    ------
    ImportError
        If `G0` is the name of one that POT makes, and it is not installed.
    """
    answer = solve_semirelaxed(
        dict(C1=C1, C2=C2, p=p, G0=G0, loss_fun=loss_fun, symmetric=symmetric),
        random_state,
        epsilon=epsilon,
        max_iter=max_iter,
        tol=tol,
        verbose=verbose,
    )
    return answer.result(log, "srgw_dist")


def entropic_semirelaxed_gromov_wasserstein2(
    C1,
    C2,
    p=None,
    loss_fun="square_loss",
    epsilon=0.1,
    symmetric=None,
    G0=None,
    max_iter=1e4,
    tol=1e-9,
    log=False,
    verbose=False,
    random_state=0,
):
    """Entropic semi-relaxed Gromov-Wasserstein loss, as
    `ot.gromov.entropic_semirelaxed_gromov_wasserstein2`.

    Parameters are those of `entropic_semirelaxed_gromov_wasserstein`.

    Returns
    -------
    srgw_dist : scalar
    log : dict
        If asked for, with the plan as "T".
    """
    result = entropic_semirelaxed_gromov_wasserstein(
        C1,
        C2,
        p,
        loss_fun,
        epsilon,
        symmetric,
        G0,
        max_iter,
        tol,
        True,
        verbose,
        random_state,
    )
    return value_of(result, "srgw_dist", log)


def entropic_semirelaxed_fused_gromov_wasserstein(
    M,
    C1,
    C2,
    p=None,
    loss_fun="square_loss",
    symmetric=None,
    epsilon=0.1,
    alpha=0.5,
    G0=None,
    max_iter=1e4,
    tol=1e-9,
    log=False,
    verbose=False,
    random_state=0,
):
    """Entropic semi-relaxed fused Gromov-Wasserstein plan, as
    `ot.gromov.entropic_semirelaxed_fused_gromov_wasserstein`.

    Parameters
    ----------
    M : array-like of shape (ns, nt)
        Costs between the two spaces.
    alpha : float, default=0.5
        Weight of the structures; ``1 - alpha`` is that of `M`.
    C1, C2, p, loss_fun, symmetric, epsilon, G0, max_iter, tol, log, verbose, \
random_state
        See `entropic_semirelaxed_gromov_wasserstein`. A `G0` by name is mixed with the
        plan of the least `M` of every row.

    Returns
    -------
    T : array of shape (ns, nt)
    log : dict
        If asked for: "err", "srfgw_dist", its parts "lin_loss" and "quad_loss", and
        "status".
    """
    answer = solve_semirelaxed(
        dict(
            C1=C1,
            C2=C2,
            p=p,
            M=M,
            alpha=alpha,
            G0=G0,
            loss_fun=loss_fun,
            symmetric=symmetric,
        ),
        random_state,
        epsilon=epsilon,
        max_iter=max_iter,
        tol=tol,
        verbose=verbose,
    )
    return answer.result(log, "srfgw_dist")


def entropic_semirelaxed_fused_gromov_wasserstein2(
    M,
    C1,
    C2,
    p=None,
    loss_fun="square_loss",
    symmetric=None,
    epsilon=0.1,
    alpha=0.5,
    G0=None,
    max_iter=1e4,
    tol=1e-9,
    log=False,
    verbose=False,
    random_state=0,
):
    """Entropic semi-relaxed fused Gromov-Wasserstein loss, as
    `ot.gromov.entropic_semirelaxed_fused_gromov_wasserstein2`.

    Parameters are those of `entropic_semirelaxed_fused_gromov_wasserstein`.

    Returns
    -------
    srfgw_dist : scalar
    log : dict
        If asked for, with the plan as "T".
    """
    result = entropic_semirelaxed_fused_gromov_wasserstein(
        M,
        C1,
        C2,
        p,
        loss_fun,
        symmetric,
        epsilon,
        alpha,
        G0,
        max_iter,
        tol,
        True,
        verbose,
        random_state,
    )
    return value_of(result, "srfgw_dist", log)


def solve_semirelaxed(data, random_state, **options):
    """The `Answer` for the data of a `Problem`, whose `G0` may be a name."""
    start = data["G0"] if isinstance(data["G0"], str) else None
    if start is not None:
        one_of(start, "G0", STARTS + PARTITIONS)
        data["G0"] = None
    problem = Problem(q=None, marginals="semirelaxed", **data)
    if start is not None:
        plan = _named_plan(problem, start, random_state)
        problem.G0 = plan.astype(problem.arrays.dtype)
    # POT's steps are proximal: each starts from the plan of the last.
    return problem.solve(method="ppa", **options)


def _named_plan(problem, method, random_state):
    """What POT's `semirelaxed_init_plan` makes."""
    if method in PARTITIONS:
        return _partition_plan(problem, method, random_state)
    p, shape = problem.p, (len(problem.C1), len(problem.C2))
    if method == "product":
        plan = np.outer(p, np.full(shape[1], 1 / shape[1]))
    elif method == "random_product":
        q = random_generator(random_state).uniform(0, shape[1], size=shape[1])
        plan = np.outer(p, q / q.sum())
    else:
        plan = random_generator(random_state).uniform(0, shape[0] * shape[1], shape)
        plan *= (p / plan.sum(axis=1))[:, None]
    if problem.M is None:
        return plan
    least = problem.M == problem.M.min(axis=1, keepdims=True)
    nearest = least * (p / least.sum(axis=1))[:, None]
    return problem.alpha * plan + (1 - problem.alpha) * nearest


def _partition_plan(problem, method, random_state):
    try:
        from ot.gromov import semirelaxed_init_plan
    except ImportError as error:
        raise ImportError(
            f"G0={method!r} needs POT, which makes it (pip install POT); without there "
            f"are {', '.join(STARTS)}, or a plan of your own"
        ) from error
    return semirelaxed_init_plan(
        problem.C1,
        problem.C2,
        problem.p,
        problem.M,
        problem.alpha,
        method,
        random_state=random_state,
    )

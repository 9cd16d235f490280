"""Entropic semi-relaxed (fused) Gromov-Wasserstein, called as in POT: only the first
marginal is given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._problem import LossFun, Plan, Problem, pots_choice, random_generator
from ._valued import valued

__all__ = [
    "entropic_semirelaxed_fused_gromov_wasserstein",
    "entropic_semirelaxed_fused_gromov_wasserstein2",
    "entropic_semirelaxed_gromov_wasserstein",
    "entropic_semirelaxed_gromov_wasserstein2",
]
# Names of plans to start from: those made here, and those that POT makes by clustering
# one space into as many parts as the other has points.
STARTS = ("product", "random_product", "random")
PARTITIONS = tuple(
    f"{name}{end}" for name in ("fluid", "spectral", "kmeans") for end in ("", "_soft")
)


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

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> plan = pot.entropic_semirelaxed_gromov_wasserstein(C1, C2, epsilon=0.5)
    >>> plan.argmax(axis=1)
    array([3, 2, 2, 1, 0])
    """
    return entropic_semirelaxed_fused_gromov_wasserstein(**dict(locals(), M=None))


entropic_semirelaxed_gromov_wasserstein2 = valued(
    entropic_semirelaxed_gromov_wasserstein, "srgw_dist"
)


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

    Parameters
    ----------
    M, alpha
        See `entropic_fused_gromov_wasserstein`.
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

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> M = np.abs(np.subtract.outer(x, x[::-1]))
    >>> plan = pot.entropic_semirelaxed_fused_gromov_wasserstein(
    ...     M, C1, C2, epsilon=0.5
    ... )
    >>> plan.argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    data = dict(
        C1=C1, C2=C2, p=p, M=M, alpha=alpha, loss_fun=loss_fun, symmetric=symmetric
    )
    options = dict(epsilon=epsilon, max_iter=max_iter, tol=tol, verbose=verbose)
    answer = solve_semirelaxed(data, G0, random_state, **options)
    return answer.result(log)


entropic_semirelaxed_fused_gromov_wasserstein2 = valued(
    entropic_semirelaxed_fused_gromov_wasserstein, "srfgw_dist"
)


def semirelaxed_problem(data, start, random_state):
    """The `Problem` of these data, and the plan to start from if it is given by name,
    else None.
    """
    named = isinstance(start, str)
    if named:
        pots_choice(start, "G0", STARTS + PARTITIONS)
    problem = Problem(
        **data, q=None, G0=None if named else start, marginals="semirelaxed"
    )
    return problem, _named_plan(problem, start, random_state) if named else None


def solve_semirelaxed(data, start, random_state, **options):
    """The `Answer` for the data of a `Problem` and a start, perhaps the name of one."""
    problem, start = semirelaxed_problem(data, start, random_state)
    # POT's steps are proximal: each starts from the plan of the last.
    return problem.solve(method="ppa", start=start, **options)


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
    arguments = problem.C1, problem.C2, problem.p, problem.M, problem.alpha, method
    return semirelaxed_init_plan(*arguments, random_state=random_state)

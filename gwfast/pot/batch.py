"""`solve_gromov_batch`, called as in POT: many problems of one size in one call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._solve import EXPECTED, solve_all, warn_of
from .arrays import Arrays, as_limit, as_number, pots_choice
from .call import Call
from .unified import LeftToPot, OTResult, as_result

__all__ = ["solve_gromov_batch"]
ARRAYS = {"C1": "Ca", "C2": "Cb", "p": "a", "q": "b", "M": "M", "G0": "T_init"}
NAMES = {"epsilon": "reg", "numItermax": "max_iter_inner", "stopThr": "tol_inner"}
NOT_HERE = (
    "is none of gwfast's: it solves batches of costs (B, n, n) with the squared loss, "
    "for alpha above 0. While POT's functions are swapped (gwfast.pot.patch()), "
    "ot.solve_gromov_batch leaves others to POT"
)


def solve_gromov_batch(
    Ca: ArrayLike,
    Cb: ArrayLike,
    reg: float = 1e-2,
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
    loss: str = "sqeuclidean",
    symmetric: bool | None = None,
    M: ArrayLike | None = None,
    alpha: float | None = None,
    T_init: ArrayLike | None = None,
    max_iter: float = 50,
    tol: float = 1e-5,
    max_iter_inner: float = 50,
    tol_inner: float = 1e-5,
    grad: str = "envelope",
    logits: bool | None = None,
) -> OTResult | Any:
    """Gromov-Wasserstein plans without entropy by proximal steps, of many problems, as
    `ot.solve_gromov_batch`.

    Small problems are solved in compiled code, as many at a time as there are threads,
    each until it has converged itself. `gwfast.gromov_wasserstein_batch` takes problems
    of any sizes, and searches among starts.

    Parameters
    ----------
    Ca, Cb : array-like of shape (B, n, n) and (B, m, m)
        Costs of several dimensions, (B, n, n, d), are left to POT, while its function
        is swapped.
    reg : float, default=0.01
        Length of the steps, the `epsilon` of ``entropic_gromov_wasserstein(...,
        solver="PPA")``: larger ones are shorter.
    a, b : array-like of shape (B, n) and (B, m), optional
    loss : {"sqeuclidean", "L2"}, default="sqeuclidean"
        "kl", which has `logits`, is left to POT.
    symmetric : bool, optional
    M : array-like of shape (B, n, m), optional
        Costs between the two spaces, given together with `alpha`.
    alpha : float, optional
        Weight of the structures.
    T_init : array-like of shape (B, n, m), optional
        Plans to start from; by default the products of `a` and `b`.
    max_iter : int, default=50
        Limit of outer iterations of each problem.
    tol : float, default=1e-5
        Mean change of the entries of a plan at which its outer iterations stop.
    max_iter_inner : int, default=50
        Limit of Sinkhorn iterations for one linear problem.
    tol_inner : float, default=1e-5
        Error of the marginals (Euclidean norm) at which these stop.
    grad : {"autodiff", "envelope", "detach"}, default="envelope"
        Without effect on arrays that ask for no gradients; those that do are left to
        POT.
    logits : bool, optional
        Of "kl" alone.

    Returns
    -------
    OTResult
        That of POT while its function is swapped, else one with the same attributes:
        `plan` of shape (B, n, m); `value`, `value_linear` and `value_quad` of shape
        (B,); `status`, "converged" or that of the first problem which is not; and in
        `log` "n_iter", of the problem that took most, and "status", of each.

    Raises
    ------
    NotImplementedError
        If the problem is none that gwfast solves; ot.solve_gromov_batch leaves these to
        POT while it is swapped.
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Warns
    -----
    ConvergenceWarning
        If a plan should not be trusted as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([[0.0, 2, 3, 9, 14], [0, 1, 5, 6, 9]])
    >>> Ca = np.abs(x[:, :, None] - x[:, None])
    >>> result = pot.solve_gromov_batch(Ca, Ca[:, ::-1, ::-1], reg=1.0)
    >>> result.plan.argmax(axis=2)
    array([[4, 3, 2, 1, 0],
           [4, 3, 2, 1, 0]])
    """
    given = locals()
    _check(given)
    arrays = Arrays({name: given[name] for name in ARRAYS.values()})
    stacks = _stacks(arrays)
    size, n, m = _shape(stacks)
    tol = as_number(tol, "tol", zero=True)
    calls = []
    for k in range(size):
        own = {name: stacks[x][k] for name, x in ARRAYS.items() if x in stacks}
        names = NAMES | {name: f"{x}[{k}]" for name, x in ARRAYS.items()}
        calls.append(Call.of(**own, alpha=alpha, symmetric=symmetric, names=names))
    answers = solve_all(
        calls,
        reg,
        as_limit(max_iter, "max_iter"),
        # The mean of absolute changes is at most that many times their Euclidean norm.
        tol * math.sqrt(n * m),
        solver="PPA",
        numItermax=max_iter_inner,
        stopThr=tol_inner,
        warn=False,
    )
    return _result(answers, arrays)


def _check(given):
    """Raise what is wrong, or none of gwfast's, but for arrays."""
    loss, grad = given["loss"], given["grad"]
    pots_choice(
        loss.lower() if isinstance(loss, str) else loss, "loss", ("sqeuclidean", "l2", "kl")
    )
    pots_choice(grad, "grad", ("autodiff", "detach", "envelope"))
    for one, other in (("M", "alpha"), ("alpha", "M")):
        if given[one] is None and given[other] is not None:
            raise ValueError(f"{one} must be given where {other} is")
    for name in ("Ca", "Cb"):
        if getattr(given[name], "ndim", None) == 4:
            raise LeftToPot(f"{name} of four dimensions {NOT_HERE}")
    if loss.lower() == "kl":
        raise LeftToPot(f"loss={loss!r} {NOT_HERE}")
    if given["alpha"] is not None and given["alpha"] == 0:
        raise LeftToPot(f"alpha=0 {NOT_HERE}")


def _stacks(arrays):
    """Arrays by name, those that are given, of the dtype and shapes of one batch."""
    found = {}
    for name in ARRAYS.values():
        x = arrays[name]
        if x is None:
            continue
        if name in ("Ca", "Cb") and (x.ndim != 3 or x.shape[1] != x.shape[2]):
            side = "n" if name == "Ca" else "m"
            raise ValueError(f"{name} must have shape (B, {side}, {side}), got {x.shape}")
        found[name] = x.astype(arrays.dtype, copy=False)
    size, n, m = _shape(found)
    if not size:
        raise ValueError("Ca must have a problem at least, got none")
    shapes = {"Cb": (size, m, m), "a": (size, n), "b": (size, m)}
    for name, x in found.items():
        shape = shapes.get(name, (size, n, m)) if name != "Ca" else x.shape
        if x.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {x.shape}")
    return found


def _shape(stacks):
    return *stacks["Ca"].shape[:2], stacks["Cb"].shape[1]


def _result(answers, arrays):
    """What is returned."""
    bad = [k for k, one in enumerate(answers) if one.advice or one.ending not in EXPECTED]
    if bad:
        first = answers[bad[0]]
        why = f"{len(bad)} of {len(answers)} problems, the first is number {bad[0]}"
        warn_of(first.ending, f"{why}; {first.advice}" if first.advice else why)

    def stacked(name):
        return arrays.back(np.array([getattr(one, name) for one in answers]))

    statuses = [one.ending.status for one in answers]
    others = [status for status in statuses if status != "converged"]
    return as_result(
        "solve_gromov_batch",
        plan=stacked("plan"),
        value=stacked("value"),
        value_linear=stacked("lin_loss"),
        value_quad=stacked("quad_loss"),
        status=(others or statuses)[0],
        log={"n_iter": max(len(one.errors) for one in answers), "status": statuses},
    )

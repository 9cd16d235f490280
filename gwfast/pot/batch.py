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
# The names here of arguments of `Call.of` and of `solve_all`.
ARRAYS = {"C1": "Ca", "C2": "Cb", "p": "a", "q": "b", "M": "M", "G0": "T_init"}
NAMES = {"epsilon": "reg", "numItermax": "max_iter_inner", "stopThr": "tol_inner"}


def solve_gromov_batch(
    Ca: ArrayLike, Cb: ArrayLike, reg: float = 1e-2, a: ArrayLike | None = None,
    b: ArrayLike | None = None, loss: str = "sqeuclidean", symmetric: bool | None = None,
    M: ArrayLike | None = None, alpha: float | None = None, T_init: ArrayLike | None = None,
    max_iter: float = 50, tol: float = 1e-5, max_iter_inner: float = 50, tol_inner: float = 1e-5,
    grad: str = "envelope", logits: bool | None = None,
) -> OTResult | Any:  # fmt: skip
    """Return Gromov-Wasserstein plans without entropy by proximal steps, of many problems, as POT's
    `solve_gromov_batch
    <https://pythonot.github.io/gen_modules/ot.batch.html#ot.batch.solve_gromov_batch>`_.

    Small problems are solved in compiled code, one a thread, each until it has converged itself.
    `gwfast.gromov_wasserstein_batch` takes problems of any sizes, and searches among starts.

    Parameters
    ----------
    Ca, Cb : array-like of shape (B, n, n) and (B, m, m)
        Costs of several dimensions, (B, n, n, d), are left to POT, while its function is swapped.
    reg : float, default=0.01
        Length of the steps, the `epsilon` of ``entropic_gromov_wasserstein(..., solver="PPA")``:
        larger numbers are shorter steps.
    a, b : array-like of shape (B, n) and (B, m), optional
    loss : {"sqeuclidean", "L2"}, default="sqeuclidean"
        "kl", which has `logits`, is left to POT.
    symmetric : bool, optional
    M, alpha : array-like of shape (B, n, m) and float, optional
        Costs between the two spaces, and the weight of the structures, given together.
    T_init : array-like of shape (B, n, m), optional
        Plans to start from; by default the products of `a` and `b`.
    max_iter, max_iter_inner : int, default=50
        Limit of outer iterations of each problem, and of the Sinkhorn iterations in each.
    tol, tol_inner : float, default=1e-5
        Mean change of the entries of a plan at which its outer iterations stop, and error of the
        marginals (Euclidean norm) at which Sinkhorn iterations stop.
    grad : {"autodiff", "envelope", "detach"}, default="envelope"
        Without effect: arrays that ask for gradients are left to POT.
    logits : bool, optional
        For "kl" alone.

    Returns
    -------
    OTResult
        POT's `OTResult` while its function is swapped, with `plan` of shape (B, n, m), `value`,
        `value_linear` and `value_quad` of shape (B,), `status`, "converged" or the status of the
        first problem that has not; and in `log` "n_iter", the most of a problem, and "status".

    Raises
    ------
    NotImplementedError
        If gwfast does not solve a problem; ot.solve_gromov_batch leaves these to POT while it is
        swapped.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([[0.0, 2, 3, 9, 14], [0, 1, 5, 6, 9]])
    >>> Ca = np.abs(x[:, :, None] - x[:, None])
    >>> pot.solve_gromov_batch(Ca, Ca[:, ::-1, ::-1], reg=1.0).plan.argmax(axis=2)
    array([[4, 3, 2, 1, 0],
           [4, 3, 2, 1, 0]])
    """
    loss = loss.lower() if isinstance(loss, str) else loss
    pots_choice(loss, "loss", ("sqeuclidean", "l2", "kl"))
    pots_choice(grad, "grad", ("autodiff", "detach", "envelope"))
    if (M is None) != (alpha is None):
        absent, present = ("M", "alpha") if M is None else ("alpha", "M")
        raise ValueError(f"{absent} must be given where {present} is")
    _leave_to_pot(Ca, Cb, loss, alpha)
    arrays = Arrays({"Ca": Ca, "Cb": Cb, "a": a, "b": b, "M": M, "T_init": T_init})
    stacks = _stacks(arrays)
    (size, n, _), (_, m, _) = stacks["C1"].shape, stacks["C2"].shape
    calls = []
    for k in range(size):
        names = NAMES | {own: f"{name}[{k}]" for own, name in ARRAYS.items()}
        own = {name: stack[k] for name, stack in stacks.items()}
        calls.append(Call.of(**own, alpha=alpha, symmetric=symmetric, names=names))
    answers = solve_all(
        calls,
        reg,
        as_limit(max_iter, "max_iter"),
        # The mean of absolute changes is at most that many times their Euclidean norm.
        as_number(tol, "tol", zero=True) * math.sqrt(n * m),
        solver="PPA",
        numItermax=max_iter_inner,
        stopThr=tol_inner,
        warn=False,
    )
    bad = [k for k, one in enumerate(answers) if one.advice or one.ending not in EXPECTED]
    if bad:
        first = answers[bad[0]]
        why = f"{len(bad)} of {len(answers)} problems, the first is number {bad[0]}"
        warn_of(first.ending, f"{why}; {first.advice}" if first.advice else why)

    def stacked(name):
        return arrays.back(np.array([getattr(answer, name) for answer in answers]))

    statuses = [answer.ending.status for answer in answers]
    return as_result(
        "solve_gromov_batch",
        plan=stacked("plan"),
        value=stacked("value"),
        value_linear=stacked("lin_loss"),
        value_quad=stacked("quad_loss"),
        status=next((status for status in statuses if status != "converged"), "converged"),
        log={"n_iter": max(len(answer.errors) for answer in answers), "status": statuses},
    )


def _leave_to_pot(Ca, Cb, loss, alpha):
    """Raise `LeftToPot` if gwfast does not solve such problems."""
    costs = {"Ca": Ca, "Cb": Cb}
    why = [f"{name} of four dimensions" for name, x in costs.items() if np.ndim(x) == 4]
    if loss == "kl":
        why.append("loss='kl'")
    if alpha is not None and alpha == 0:
        why.append("alpha=0")
    if why:
        raise LeftToPot(
            f"{why[0]} is not solved by gwfast: it solves batches of costs (B, n, n) with the "
            "squared loss, for alpha above 0. While POT's functions are swapped "
            "(gwfast.pot.patch()), ot.solve_gromov_batch leaves others to POT"
        )


def _stacks(arrays):
    """Return the arrays that are given, by their names in `Call.of`, of one dtype and one batch."""
    for name, side in (("Ca", "n"), ("Cb", "m")):
        x = arrays[name]
        if x.ndim != 3 or x.shape[1] != x.shape[2]:
            raise ValueError(f"{name} must have shape (B, {side}, {side}), got {x.shape}")
    (size, n, _), m = arrays["Ca"].shape, arrays["Cb"].shape[1]
    if not size:
        raise ValueError("Ca must have a problem at least, got none")
    shapes = {"Ca": (size, n, n), "Cb": (size, m, m), "a": (size, n), "b": (size, m)}
    stacks = {}
    for own, name in ARRAYS.items():
        x, shape = arrays[name], shapes.get(name, (size, n, m))
        if x is not None and x.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {x.shape}")
        if x is not None:
            stacks[own] = x.astype(arrays.dtype, copy=False)
    return stacks

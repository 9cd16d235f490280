"""`solve_gromov_batch`, called as in POT: many problems of one size in one call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._solve import EXPECTED, solve_all, warn_of
from .arrays import Arrays, as_limit, as_number, pots_choice
from .call import Call, Masses
from .unified import LeftToPot, OTResult, as_result

__all__ = ["solve_gromov_batch"]
# The names here of arguments of `Call.of`.
ARRAYS = {"C1": "Ca", "C2": "Cb", "p": "a", "q": "b", "M": "M", "G0": "T_init"}


def solve_gromov_batch(
    Ca: ArrayLike,
    Cb: ArrayLike,
    reg: float = 1e-2,
    a: Masses = None,
    b: Masses = None,
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
    """Return Gromov-Wasserstein plans without entropy by proximal steps, of many problems, as `POT
    <https://pythonot.github.io/gen_modules/ot.batch.html#ot.batch.solve_gromov_batch>`__.
    Costs (B, n, n, d), the loss "kl" and ``alpha=0`` are a NotImplementedError, and, as arrays that
    ask for gradients, left to POT while its function is swapped. For other parameters see
    `solve_gromov`.

    Small problems are solved in compiled code, one a thread, each until it has converged itself.
    `gwfast.gromov_wasserstein_batch` takes problems of any sizes, and searches among starts.

    Parameters
    ----------
    Ca, Cb, a, b, M, T_init : arrays (B, n, n), (B, m, m), (B, n), (B, m), (B, n, m), (B, n, m)
        Costs, masses, costs between the two spaces, and plans to start from, by default products of
        the masses. `M` and `alpha` are given together.
    reg : float, default=0.01
        Length of the steps, the `epsilon` of ``entropic_gromov_wasserstein(..., solver="PPA")``:
        larger numbers are shorter steps.
    loss, grad, logits : {"sqeuclidean", "L2"}, {"autodiff", "envelope", "detach"}, None
        `grad` is without effect.
    max_iter, max_iter_inner, tol, tol_inner : int, default=50, and float, default=1e-5
        Limits of outer iterations and of the Sinkhorn iterations in each; mean change of the
        entries of a plan, and error of the marginals (Euclidean norm), at which they stop.

    Returns
    -------
    OTResult
        With `plan` of shape (B, n, m), values of shape (B,), the `status` of the first problem that
        has not converged, and in `log` "n_iter", the most of a problem, and every "status".
    """
    loss = loss.lower() if isinstance(loss, str) else loss
    pots_choice(loss, "loss", ("sqeuclidean", "l2", "kl"))
    pots_choice(grad, "grad", ("autodiff", "detach", "envelope"))
    if (M is None) != (alpha is None):
        absent, present = ("M", "alpha") if M is None else ("alpha", "M")
        raise ValueError(f"{absent} must be given where {present} is")
    for name, x in (("Ca", Ca), ("Cb", Cb)):
        if np.ndim(x) == 4:
            raise LeftToPot(f"{name} must be 3-D, got 4-D")
    if loss == "kl":
        raise LeftToPot("loss must be 'sqeuclidean', got 'kl'")
    if alpha is not None and alpha == 0:
        raise LeftToPot("alpha must be positive, got 0")
    arrays = Arrays({"Ca": Ca, "Cb": Cb, "a": a, "b": b, "M": M, "T_init": T_init})
    stacks = _stacks(arrays)
    (size, n, _), (_, m, _) = stacks["C1"].shape, stacks["C2"].shape
    calls, renamed = [], {"epsilon": "reg", "numItermax": "max_iter_inner", "stopThr": "tol_inner"}
    for k in range(size):
        names = renamed | {argument: f"{name}[{k}]" for argument, name in ARRAYS.items()}
        slices = {name: stack[k] for name, stack in stacks.items()}
        calls.append(Call.of(**slices, alpha=alpha, symmetric=symmetric, names=names))
    limit = as_limit(max_iter, "max_iter")
    # The mean of absolute changes is at most that many times their Euclidean norm.
    change = as_number(tol, "tol", zero=True) * math.sqrt(n * m)
    inner: dict[str, Any] = {"numItermax": max_iter_inner, "stopThr": tol_inner}
    answers = solve_all(calls, reg, limit, change, solver="PPA", **inner, warn=False)
    bad = [k for k, x in enumerate(answers) if x.advice or x.ending not in EXPECTED]
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
    for argument, name in ARRAYS.items():
        x, shape = arrays[name], shapes.get(name, (size, n, m))
        if x is not None and x.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {x.shape}")
        if x is not None:
            stacks[argument] = x.astype(arrays.dtype, copy=False)
    return stacks

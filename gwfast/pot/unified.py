"""`solve_gromov`, called as in POT: the problems of the other modules by one name."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ..utils.callers import outside
from ._solve import Answer, solve
from .call import Call, Solver
from .exact import solve_exact
from .gradients import traced

__all__ = ["OTResult", "solve_gromov"]
# The names here of arguments of `Call.of` and of solvers.
NAMES = {
    "C1": "Ca",
    "C2": "Cb",
    "p": "a",
    "q": "b",
    "G0": "plan_init",
    "epsilon": "reg",
    "m": "unbalanced",
    "solver": "method",
    "tol_rel": "tol",
    "tol_abs": "tol",
}
# POT's own functions by name, while `patching` has swapped them; else empty.
originals: dict[str, Callable[..., Any]] = {}


class LeftToPot(NotImplementedError):
    """A problem that is none of gwfast's; calls of POT's functions leave it to POT."""


@dataclasses.dataclass(frozen=True, repr=False)
class OTResult:
    """What `solve_gromov` and `solve_gromov_batch` return, with those attributes of
    `ot.utils.OTResult` that these problems fill.

    Attributes
    ----------
    plan : array of shape (n, m)
    value : scalar
        `value_linear` and `value_quad`, and `reg` times ``sum plan log plan``.
    value_linear, value_quad : scalar or None
    potentials : tuple of two arrays, or None
        Of the last linear problem, where both marginals are given and there is no
        entropy.
    potential_a, potential_b : array or None
    status : str
        Why the solver stopped.
    log : dict

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> pot.solve_gromov(C1, C2, reg=0.1).plan.argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """

    plan: Any
    value: Any
    value_linear: Any
    value_quad: Any
    status: str
    log: dict[str, Any]
    potentials: tuple[Any, Any] | None = None

    @property
    def potential_a(self) -> Any:
        return None if self.potentials is None else self.potentials[0]

    @property
    def potential_b(self) -> Any:
        return None if self.potentials is None else self.potentials[1]

    @property
    def marginal_a(self) -> Any:
        return self.plan.sum(-1)

    @property
    def marginal_b(self) -> Any:
        return self.plan.sum(-2)

    @property
    def marginals(self) -> tuple[Any, Any]:
        return self.marginal_a, self.marginal_b

    def __repr__(self) -> str:
        return (
            f"OTResult(value={self.value}, value_linear={self.value_linear}, "
            f"plan={type(self.plan).__name__}(shape={tuple(self.plan.shape)}), "
            f"status={self.status!r})"
        )


def solve_gromov(
    Ca: CostLike,
    Cb: CostLike,
    M: ArrayLike | None = None,
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
    loss: Literal["L2", "KL"] = "L2",
    symmetric: bool | None = None,
    alpha: float = 0.5,
    reg: float | None = None,
    reg_type: str = "entropy",
    unbalanced: float | None = None,
    unbalanced_type: str = "KL",
    n_threads: int | None = 1,
    method: Solver | None = None,
    max_iter: float | None = None,
    plan_init: ArrayLike | None = None,
    tol: float | None = None,
    verbose: bool = False,
) -> OTResult | Any:
    """Gromov-Wasserstein with entropy or without, as `ot.solve_gromov`.

    Parameters
    ----------
    Ca, Cb : array-like of shape (n, n) and (m, m)
    M : array-like of shape (n, m), optional
        Costs between the two spaces.
    a, b : array-like of shape (n,) and (m,), optional
    loss : {"L2", "KL"}, default="L2"
    symmetric : bool, optional
    alpha : float, default=0.5
        Weight of the structures, where there is `M`.
    reg : float, optional
        The `epsilon` of `entropic_gromov_wasserstein`; None and 0 are without entropy,
        see `gromov_wasserstein`.
    reg_type : {"entropy"}, default="entropy"
    unbalanced : float, optional
        The mass to match, with `unbalanced_type` "partial".
    unbalanced_type : {"KL", "L2", "semirelaxed", "partial"}, default="KL"
        With `unbalanced`, "KL" and "L2" are left to POT, while its function is swapped.
    n_threads : int, default=1
        Without effect, as in POT for these problems.
    method : {"PGD", "PPA"}, optional
        For problems with both marginals and entropy; "PGD" by default.
    max_iter : int, optional
        1000 by default; without entropy 10000, but for "partial".
    plan_init : array-like of shape (n, m), optional
    tol : float, optional
        Change of the plan (Frobenius norm) at which outer iterations stop, without
        entropy that of the loss (relatively; with both marginals, or "semirelaxed",
        absolutely too); 1e-9 by default, 1e-7 for "partial".
    verbose : bool, default=False

    Returns
    -------
    OTResult
        That of POT while its function is swapped, else one with the same attributes.

    Raises
    ------
    NotImplementedError
        If the problem is none that gwfast solves; ot.solve_gromov leaves these to POT
        while it is swapped.
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Warns
    -----
    ConvergenceWarning
        If the plan should not be trusted as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1 = np.abs(np.subtract.outer(x, x))
    >>> C2 = C1[::-1, ::-1]
    >>> result = pot.solve_gromov(C1, C2)
    >>> result.plan.argmax(axis=1), round(float(result.value), 6)
    (array([4, 3, 2, 1, 0]), 0.0)
    """
    if not isinstance(loss, str) or loss.lower() not in ("l2", "kl"):
        raise NotImplementedError(f"loss must be one of ['KL', 'L2'], got {loss!r}")
    is_exact = reg is None or reg == 0
    marginals, why_not = _kind(is_exact, unbalanced, unbalanced_type, M, alpha)
    if why_not is not None:
        raise LeftToPot(
            f"{why_not} is none of gwfast's problems: it solves those with both "
            "marginals (with reg, for alpha above 0), unbalanced_type='semirelaxed' or "
            "'partial'. While POT's functions are swapped (gwfast.pot.patch()), "
            "ot.solve_gromov leaves others to POT"
        )
    if not is_exact and reg_type.lower() != "entropy":
        raise NotImplementedError(f"reg_type must be 'entropy', got {reg_type!r}")
    if max_iter is None:
        max_iter = 10_000 if is_exact and marginals != "partial" else 1000
    tol = (1e-7 if marginals == "partial" else 1e-9) if tol is None else tol
    call = Call.of(
        Ca,
        Cb,
        a,
        b,
        "square_loss" if loss.lower() == "l2" else "kl_loss",
        symmetric,
        plan_init,
        None if alpha == 1 else M,
        alpha,
        marginals,
        m=unbalanced,
        names=NAMES,
    )
    answer: Answer
    if reg is None or reg == 0:
        tol_abs = 0.0 if marginals == "partial" else tol
        answer = solve_exact(call, max_iter, tol, tol_abs, verbose=verbose)
    else:
        solver = "PGD" if method is None else method
        answer = solve(call, reg, max_iter, tol, solver=solver, verbose=verbose)
    return _result(answer, alpha)


def _kind(is_exact, unbalanced, unbalanced_type, M, alpha):
    """The rule of the marginals, and None or why the problem is none of gwfast's."""
    kind = unbalanced_type.lower()
    if unbalanced is None and kind != "semirelaxed":
        if kind == "partial":
            warnings.warn(
                "unbalanced_type='partial' without `unbalanced`: all mass is matched",
                stacklevel=outside(),
            )
        linear = M is not None and alpha == 0 and not is_exact
        return "balanced", "alpha=0 with reg" if linear else None
    if kind in ("semirelaxed", "partial"):
        return kind, None
    if kind in ("kl", "l2"):
        return None, f"unbalanced={unbalanced}, unbalanced_type={unbalanced_type!r}"
    raise NotImplementedError(
        "unbalanced_type must be one of ['KL', 'L2', 'partial', 'semirelaxed'], got "
        f"{unbalanced_type!r}"
    )


def _result(answer, alpha):
    """What is returned."""
    plan, log = answer.result(log=True)
    log["T"] = plan
    problem, back, linear = answer.problem, answer.problem.arrays.back, None
    quadratic, potentials, gradient = back(answer.quad_loss), None, answer.of_value
    if answer.epsilon:
        T = answer.plan.astype(np.float64)
        value = back(answer.value + answer.epsilon * (T * np.log(T + 1e-16)).sum())
        gradient = functools.partial(gradient, with_entropy=True)
    else:
        value = answer.total
        if problem.M is None:
            quadratic = value
    value = traced(value, problem, gradient)
    if problem.M is not None:
        linear = back(answer.lin_loss)
    elif problem.marginals != "partial" and (answer.epsilon or alpha == 1):
        linear = 0
    if "u" in log:
        potentials = log["u"], log["v"]
    return as_result(
        "solve_gromov",
        plan=plan,
        value=value,
        value_linear=linear,
        value_quad=quadratic,
        status=answer.ending.status,
        log=log,
        potentials=potentials,
    )


def as_result(name, *, plan, **attributes):
    """What the function of that name returns: POT's own while it is swapped."""
    if name not in originals:
        return OTResult(plan=plan, **attributes)
    from ot.backend import get_backend
    from ot.utils import OTResult as PotResult

    return PotResult(backend=get_backend(plan), plan=plan, **attributes)

"""`solve_gromov`, called as in POT: the problems of the other modules by one name."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ._problem import Problem, Solver, method_of, outside
from .semirelaxed import solve_semirelaxed

__all__ = ["OTResult", "solve_gromov"]
# POT's own functions by name, while `patching` has swapped them; else empty.
originals: dict[str, Callable[..., Any]] = {}
# What other functions call the arguments of this one.
ARGUMENTS = {
    "C1": "Ca",
    "C2": "Cb",
    "p": "a",
    "q": "b",
    "G0": "plan_init",
    "epsilon": "reg",
    "m": "unbalanced",
}
LOSS_FUN = {"l2": "square_loss", "kl": "kl_loss"}
# Change of the plan (Frobenius norm) at which outer iterations stop, if not given.
TOLERANCES = {"balanced": 1e-9, "semirelaxed": 1e-9, "partial": 1e-7}


@dataclasses.dataclass(frozen=True, repr=False)
class OTResult:
    """What `solve_gromov` returns, with those attributes of `ot.utils.OTResult` that
    these problems fill.

    Attributes
    ----------
    plan : array of shape (n, m)
    value : scalar
        `value_linear` and `value_quad`, and `reg` times ``sum plan log plan``.
    value_linear, value_quad : scalar or None
    potentials : None
        POT has none for these problems.
    status : str
        Why the solver stopped.
    log : dict
    """

    plan: Any
    value: Any
    value_linear: Any
    value_quad: Any
    status: str
    log: dict[str, Any]
    potentials: None = None
    potential_a: None = None
    potential_b: None = None

    @property
    def marginal_a(self) -> Any:
        return self.plan.sum(1)

    @property
    def marginal_b(self) -> Any:
        return self.plan.sum(0)

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
    Ca: ArrayLike,
    Cb: ArrayLike,
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
    """Gromov-Wasserstein with entropy, as `ot.solve_gromov` with `reg`.

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
    reg : float
        The `epsilon` of `entropic_gromov_wasserstein`. None and 0 are left to POT,
        while its function is swapped (see `patch`).
    reg_type : {"entropy"}, default="entropy"
    unbalanced : float, optional
        The mass to match, with `unbalanced_type` "partial".
    unbalanced_type : {"KL", "L2", "semirelaxed", "partial"}, default="KL"
        With `unbalanced`, "KL" and "L2" are left to POT, while its function is swapped.
    n_threads : int, default=1
        Without effect, as in POT for these problems.
    method : {"PGD", "PPA"}, optional
        For problems with both marginals; "PGD" by default.
    max_iter : int, default=1000
    plan_init : array-like of shape (n, m), optional
    tol : float, optional
        Change of the plan (Frobenius norm) at which outer iterations stop; 1e-9 by
        default, 1e-7 for "partial".
    verbose : bool, default=False

    Returns
    -------
    OTResult
        That of POT while its function is swapped, else one with the same attributes.

    Raises
    ------
    NotImplementedError
        If the problem is none that gwfast solves, and POT's function is not swapped.
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Warns
    -----
    ConvergenceWarning
        If the plan should not be trusted as it is.
    """
    arguments = dict(locals())
    if not isinstance(loss, str) or loss.lower() not in LOSS_FUN:
        raise NotImplementedError(f"loss must be one of ['KL', 'L2'], got {loss!r}")
    marginals, why_not = _kind(reg, unbalanced, unbalanced_type, M, alpha)
    if why_not is not None:
        return _left_to_pot(why_not, arguments)
    if reg_type.lower() != "entropy":
        raise NotImplementedError(f"reg_type must be 'entropy', got {reg_type!r}")
    fused = M is not None and alpha != 1
    data = dict(
        C1=Ca,
        C2=Cb,
        p=a,
        M=M if fused else None,
        alpha=alpha,
        loss_fun=LOSS_FUN[loss.lower()],
        symmetric=symmetric,
        names=ARGUMENTS,
    )
    options = dict(
        epsilon=reg,
        max_iter=1000 if max_iter is None else max_iter,
        tol=TOLERANCES[marginals] if tol is None else tol,
        verbose=verbose,
    )
    if marginals == "semirelaxed":
        return _result(solve_semirelaxed(data, plan_init, 0, **options))
    if marginals == "balanced":
        options["method"] = method_of("PGD" if method is None else method, "method")
        unbalanced = None
    problem = Problem(**data, q=b, G0=plan_init, marginals=marginals, mass=unbalanced)
    return _result(problem.solve(**options))


def _kind(reg, unbalanced, unbalanced_type, M, alpha):
    """The rule of the marginals, and None or why the problem is none of gwfast's."""
    kind = unbalanced_type.lower()
    if reg is None or reg == 0:
        return None, f"reg={reg}"
    if unbalanced is None and kind != "semirelaxed":
        if kind == "partial":
            warnings.warn(
                "unbalanced_type='partial' without `unbalanced`: all mass is matched",
                stacklevel=outside(),
            )
        return "balanced", "alpha=0" if M is not None and alpha == 0 else None
    if kind in ("semirelaxed", "partial"):
        return kind, None
    if kind in ("kl", "l2"):
        return None, f"unbalanced={unbalanced}, unbalanced_type={unbalanced_type!r}"
    raise NotImplementedError(
        "unbalanced_type must be one of ['KL', 'L2', 'partial', 'semirelaxed'], got "
        f"{unbalanced_type!r}"
    )


def _left_to_pot(why, arguments):
    solver = originals.get("solve_gromov")
    if solver is None:
        raise NotImplementedError(
            f"{why} is none of gwfast's problems: it solves those with a positive reg, "
            "with both marginals (and alpha above 0), unbalanced_type='semirelaxed' or "
            "'partial'. While POT's functions are swapped (gwfast.pot.patch()), others "
            "are left to POT"
        )
    return solver(**arguments)


def _result(answer):
    plan, log = answer.result(log=True)
    log["T"] = plan
    T = answer.solved.plan.astype(np.float64)
    entropy = (T * np.log(T + 1e-16)).sum()
    problem, back, linear = answer.problem, answer.problem.arrays.back, None
    if problem.M is not None:
        linear = back(answer.linear)
    elif problem.marginals != "partial":
        linear = 0
    attributes = dict(
        plan=plan,
        value=back(answer.value + answer.epsilon * entropy),
        value_linear=linear,
        value_quad=back(answer.quadratic),
        status=answer.solved.status,
        log=log,
    )
    if "solve_gromov" not in originals:
        return OTResult(**attributes)
    from ot.backend import get_backend
    from ot.utils import OTResult as PotResult

    return PotResult(backend=get_backend(plan), **attributes)

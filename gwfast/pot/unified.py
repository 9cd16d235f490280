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
from ._solve import solve
from .call import Call, Masses, Solver
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
    "m": "unbalanced",
    "epsilon": "reg",
    "solver": "method",
    "tol_rel": "tol",
    "tol_abs": "tol",
}
# POT's own functions by name, while `patching` has swapped them; else empty.
originals: dict[str, Callable[..., Any]] = {}


class LeftToPot(NotImplementedError):
    """A problem that gwfast does not solve; calls of POT's functions leave it to POT."""

    def __init__(self, why):
        super().__init__(f"{why}; POT solves it while gwfast.pot.patch() swaps its functions")


class RefusedValue(LeftToPot, ValueError):
    """Bad input, whose error is POT's own while its functions are swapped."""

    def __init__(self, why):
        NotImplementedError.__init__(self, why)


class RefusedType(RefusedValue, TypeError):
    """The same of an argument of a wrong type."""


def refused(error, **names):
    """Return the error of a call that is left to POT, with other names of arguments."""
    why = str(error)
    for argument, name in names.items():
        why = why.replace(argument, name)
    return (RefusedType if isinstance(error, TypeError) else RefusedValue)(why)


@dataclasses.dataclass(frozen=True, repr=False)
class OTResult:
    """The result of `solve_gromov` and `solve_gromov_batch`, with the attributes of POT's `OTResult
    <https://pythonot.github.io/gen_modules/ot.utils.html#ot.utils.OTResult>`_ that these fill; for
    an example see `solve_gromov`.

    Attributes
    ----------
    plan : array of shape (n, m)
    value, value_linear, value_quad : scalar, or for parts None
        `value` is the sum of both parts, and `reg` times ``sum plan log plan``.
    status : str
        Why the solver stopped.
    log : dict
    potentials : tuple of two arrays, or None
        Of the last linear problem, if both marginals are given and there is no entropy.
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
    a: Masses = None,
    b: Masses = None,
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
    """Return Gromov-Wasserstein plan and values with entropy or without, as POT's `solve_gromov
    <https://pythonot.github.io/gen_modules/ot.solvers.html#ot.solvers.solve_gromov>`_. Problems
    that gwfast does not solve are a NotImplementedError, and left to POT while its function is
    swapped.

    Parameters
    ----------
    Ca, Cb, a, b, loss, symmetric, plan_init, verbose, M, alpha, reg, method
        The `C1`, `C2`, `p`, `q`, `loss_fun`, `symmetric`, `G0`, `verbose`, `M`, `alpha`, `epsilon`
        and `solver` of `entropic_fused_gromov_wasserstein`; "L2" is the square loss. Without `M` no
        problem is fused, and without `reg`, or with 0, there is no entropy.
    unbalanced, unbalanced_type : float, optional, and str, default="KL"
        "semirelaxed"; or "partial", with `unbalanced` as the mass to match. With `unbalanced`, "KL"
        and "L2" are left to POT.
    reg_type, n_threads : {"entropy"}, and int, without effect as in POT
    max_iter : int, optional
        1000 by default; 10000 without entropy, unless "partial".
    tol : float, optional
        Change of the plan (Frobenius norm) at which outer iterations stop; without entropy relative
        change of the loss, and absolute unless "partial". 1e-9 by default, 1e-7 for "partial".

    Returns
    -------
    OTResult
        POT's `OTResult` while its function is swapped.

    Examples
    --------
    >>> from gwfast import pot
    >>> C = [[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]]
    >>> result = pot.solve_gromov(C, C)
    >>> result.plan.argmax(axis=1), round(float(result.value), 6)
    (array([0, 1, 2]), 0.0)
    """
    if not isinstance(loss, str) or loss.lower() not in ("l2", "kl"):
        raise NotImplementedError(f"loss must be one of ['KL', 'L2'], got {loss!r}")
    is_exact = not reg
    linear = M is not None and alpha == 0 and not is_exact
    marginals = _marginals(unbalanced, unbalanced_type, linear)
    if not is_exact and reg_type.lower() != "entropy":
        raise NotImplementedError(f"reg_type must be 'entropy', got {reg_type!r}")
    if max_iter is None:
        max_iter = 10_000 if is_exact and marginals != "partial" else 1000
    tol = (1e-7 if marginals == "partial" else 1e-9) if tol is None else tol
    loss_fun = "square_loss" if loss.lower() == "l2" else "kl_loss"
    between = None if alpha == 1 else M
    call = Call.of(
        Ca,
        Cb,
        a,
        b,
        loss_fun,
        symmetric,
        plan_init,
        between,
        alpha,
        marginals,
        m=unbalanced,
        names=NAMES,
    )
    if reg:
        solver = method if method and marginals == "balanced" else "PGD"
        answer = solve(call, reg, max_iter, tol, solver=solver, verbose=verbose)
        return _result(answer, alpha)
    least = 0.0 if marginals == "partial" else tol
    return _result(solve_exact(call, max_iter, tol, least, verbose=verbose), alpha)


def _marginals(unbalanced, unbalanced_type, linear):
    """Return the rule of the marginals, or raise an error if gwfast has none."""
    rule = unbalanced_type.lower()
    rules = "kl", "l2", "semirelaxed", "partial"
    if rule not in rules:
        raise NotImplementedError(f"unbalanced_type must be one of {rules}, got {rule!r}")
    if rule == "semirelaxed" or (rule == "partial" and unbalanced is not None):
        return rule
    if rule == "partial":
        message = "unbalanced_type='partial' without `unbalanced`: all mass is matched"
        warnings.warn(message, stacklevel=outside())
    if unbalanced is None and not linear:
        return "balanced"
    if unbalanced is None:
        raise LeftToPot("alpha must be positive with reg, got 0")
    raise LeftToPot(f"unbalanced must be None with {unbalanced_type=}, got {unbalanced}")


def _result(answer, alpha):
    """Return the result of `solve_gromov`."""
    plan, log = answer.result(log=True)
    log["T"] = plan
    call, back, value = answer.problem, answer.problem.arrays.back, answer.total
    quadratic, linear, gradient = back(answer.quad_loss), None, answer.of_value
    if answer.epsilon:
        T = answer.plan.astype(np.float64)
        value = back(answer.value + answer.epsilon * (T * np.log(T + 1e-16)).sum())
        gradient = functools.partial(gradient, with_entropy=True)
    elif call.M is None:
        quadratic = value
    if call.M is not None:
        linear = back(answer.lin_loss)
    elif call.marginals != "partial" and (answer.epsilon or alpha == 1):
        linear = 0
    return as_result(
        "solve_gromov",
        plan=plan,
        value=traced(value, call, gradient),
        value_linear=linear,
        value_quad=quadratic,
        status=answer.ending.status,
        log=log,
        potentials=(log["u"], log["v"]) if "u" in log else None,
    )


def as_result(name, *, plan, **attributes):
    """Return the result of a function, as POT's own class while POT's function is swapped."""
    if name not in originals:
        return OTResult(plan=plan, **attributes)
    from ot.backend import get_backend
    from ot.utils import OTResult as PotResult

    return PotResult(backend=get_backend(plan), plan=plan, **attributes)

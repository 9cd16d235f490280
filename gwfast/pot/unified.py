"""`solve_gromov`, called as in POT: all of the above behind one name."""

import dataclasses
import warnings
from typing import Any

import numpy as np

from ._problem import Problem, one_of, outside
from .balanced import METHODS
from .patching import original
from .semirelaxed import solve_semirelaxed

NAMES = {
    "C1": "Ca",
    "C2": "Cb",
    "p": "a",
    "q": "b",
    "G0": "plan_init",
    "epsilon": "reg",
    "m": "unbalanced",
}
LOSSES = {"l2": "square_loss", "kl": "kl_loss"}
# What the loss is called in the log, and how much a plan may change at the end.
VALUES = {
    "balanced": "gw_dist",
    "semirelaxed": "srgw_dist",
    "partial": "partial_gw_dist",
}
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
    log: dict
    potentials: None = None
    potential_a: None = None
    potential_b: None = None

    @property
    def marginal_a(self):
        return self.plan.sum(1)

    @property
    def marginal_b(self):
        return self.plan.sum(0)

    @property
    def marginals(self):
        return self.marginal_a, self.marginal_b

    def __repr__(self):
        return (
            f"OTResult(value={self.value}, value_linear={self.value_linear}, "
            f"plan={type(self.plan).__name__}(shape={tuple(self.plan.shape)}), "
            f"status={self.status!r})"
        )


def solve_gromov(
    Ca,
    Cb,
    M=None,
    a=None,
    b=None,
    loss="L2",
    symmetric=None,
    alpha=0.5,
    reg=None,
    reg_type="entropy",
    unbalanced=None,
    unbalanced_type="KL",
    n_threads=1,
    method=None,
    max_iter=None,
    plan_init=None,
    tol=None,
    verbose=False,
):
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
        What is `epsilon` elsewhere. None and 0 are left to POT, while it is swapped
        (see `patch`).
    reg_type : {"entropy"}, default="entropy"
    unbalanced : float, optional
        The mass to match, with `unbalanced_type` "partial".
    unbalanced_type : {"KL", "L2", "semirelaxed", "partial"}, default="KL"
        With `unbalanced`, "KL" and "L2" are left to POT, while it is swapped.
    n_threads : int, default=1
        Without effect, as in POT for these problems.
    method : {"PGD", "PPA"}, optional
        With both marginals.
    max_iter : int, default=1000
    plan_init : array-like of shape (n, m), optional
    tol : float, optional
        As POT documents it; 1e-9 by default, 1e-7 for "partial".
    verbose : bool, default=False

    Returns
    -------
    OTResult
        POT's while it is swapped, else one with the same attributes.

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
    if not isinstance(loss, str) or loss.lower() not in LOSSES:
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
        alpha=alpha if fused else 1.0,
        loss_fun=LOSSES[loss.lower()],
        symmetric=symmetric,
        G0=plan_init,
        names=NAMES,
    )
    options = dict(
        epsilon=reg,
        max_iter=1000 if max_iter is None else max_iter,
        tol=TOLERANCES[marginals] if tol is None else tol,
        verbose=verbose,
    )
    if marginals == "semirelaxed":
        answer = solve_semirelaxed(data, 0, **options)
    else:
        partial = marginals == "partial"
        if not partial:
            solver = one_of("PGD" if method is None else method, "method", METHODS)
            options["method"] = METHODS[solver]
        mass = unbalanced if partial else None
        answer = Problem(q=b, marginals=marginals, mass=mass, **data).solve(**options)
    return _result(answer, marginals, fused)


def _kind(reg, unbalanced, unbalanced_type, M, alpha):
    """The rule of the marginals, or why the problem is none of gwfast's."""
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
    solver = original("solve_gromov")
    if solver is None:
        raise NotImplementedError(
            f"{why} is none of gwfast's problems: it solves those with a positive reg, "
            "with both marginals (and alpha above 0), unbalanced_type='semirelaxed' or "
            "'partial'. While POT's functions are swapped (gwfast.pot.patch()), others "
            "are left to POT"
        )
    return solver(**arguments)


def _result(answer, marginals, fused):
    value = VALUES[marginals].replace("gw", "fgw") if fused else VALUES[marginals]
    plan, log = answer.result(True, value)
    log["T"] = plan
    T = answer.solved.plan.astype(np.float64)
    entropy = (T * np.log(T + 1e-16)).sum()
    if fused:
        linear = answer.back(answer.linear)
    else:
        linear = None if marginals == "partial" else 0
    attributes = dict(
        plan=plan,
        value=answer.back(answer.value + answer.epsilon * entropy),
        value_linear=linear,
        value_quad=answer.back(answer.quadratic),
        status=answer.solved.status,
        log=log,
    )
    if original("solve_gromov") is None:
        return OTResult(**attributes)
    from ot.backend import get_backend
    from ot.utils import OTResult as PotResult

    return PotResult(backend=get_backend(plan), **attributes)

"""Check a plan, from any solver, against the conditions of optimality."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..problems.quadratic import QuadraticProblem
from ..quadratic import certificate
from ..quadratic.methods import PGD, Method, MethodName, as_method
from ..results.coupling import ArrayCoupling, Coupling
from ..results.result import GWResult
from ..results.tables import frame
from ..utils.blocks import row_blocks
from ..utils.labels import in_order
from ..utils.memory import as_memory_limit, check_size
from ..utils.precision import DOUBLE, SINGLE
from ..utils.types import Float64Array, MemoryLimit
from ..utils.validation import as_array, as_count, as_positive

if TYPE_CHECKING:
    import pandas as pd

Plan: TypeAlias = Callable[[slice], Float64Array]  # rows of a plan
# Error of the marginals up to which solvers may take the given ones for the plan's.
MISSED = 1e-5


class Residual(NamedTuple):
    """Distance of a quantity from its target.

    Attributes
    ----------
    value, bound : float
        The residual, NaN if the plan is not finite; and the largest residual that holds.
    """

    value: float
    bound: float = np.inf

    @property
    def holds(self) -> bool:
        """Return True if the value is a number within the bound."""
        return bool(self.value <= self.bound)

    def __str__(self) -> str:
        if self.bound == np.inf and self.holds:
            return f"{self.value:.3g} (no bound)"
        sign = "<=" if self.holds else "exceeds"
        return f"{self.value:.3g} {sign} {self.bound:.3g}"


UNKNOWN = Residual(np.nan)


@dataclasses.dataclass(frozen=True, repr=False)
class Verification:
    """Residuals of the optimality conditions of a plan, each with its bound.

    Attributes
    ----------
    shape, epsilon
    gw_cost, linear_cost, entropy : float
        Values of the plan, recomputed in float64 with its own marginals.
    not_finite, negative : Residual
        Number of entries that are NaN or infinite; size of the sum of negative entries.
    rows, cols, mass, marginals : Residual
        L1 distances of row and column sums from the masses (of a partial plan, the excess),
        of the sum of all entries from the mass of a plan, and all of these that apply.
    stationarity, truncation : Residual
        L1 distance, as a fraction of the mass, of the plan from the exact plan of the same
        marginals for its own linearized cost, at most (``method="bapg"``: from the plan after
        one more iteration), and the mass of the exact plan where the plan is zero. With epsilon
        0, the Frank-Wolfe gap over the objective.
    complementarity : Residual or None
        Masses that a partial plan does not use, times their multipliers over epsilon.
    gap : Residual or None
        With ``method="ppa"`` and at most a million entries, the Frank-Wolfe gap over the objective:
        whether the objective falls towards another plan, which proximal steps cannot reach once
        its entries have vanished. The gap of fixed points of "bapg", which have other marginals,
        tells nothing.
    objective, reg_objective : Residual or None
        Distances of the reported `gw_cost` and `reg_cost` from the recomputed values.

    Examples
    --------
    >>> import gwfast
    >>> problem = gwfast.QuadraticProblem([[0, 1], [1, 0]], [[0, 2], [2, 0]])
    >>> checked = gwfast.verify(problem, [[0.5, 0], [0, 0.5]], epsilon=0)
    >>> checked.holds, checked.rows
    (True, Residual(value=0.0, bound=1e-05))
    """

    shape: tuple[int, int]
    epsilon: float
    entropy: float
    not_finite: Residual
    negative: Residual
    rows: Residual = UNKNOWN
    cols: Residual = UNKNOWN
    mass: Residual = UNKNOWN
    marginals: Residual = UNKNOWN
    stationarity: Residual = UNKNOWN
    complementarity: Residual | None = None
    gap: Residual | None = None
    objective: Residual | None = None
    reg_objective: Residual | None = None
    truncation: Residual = UNKNOWN
    gw_cost: float = np.nan
    linear_cost: float = np.nan

    @property
    def residuals(self) -> dict[str, Residual]:
        """All residuals by name."""
        pairs = vars(self).items()
        return {name: value for name, value in pairs if isinstance(value, Residual)}

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the residuals that exceed their bounds."""
        return tuple(name for name, residual in self.residuals.items() if not residual.holds)

    @property
    def holds(self) -> bool:
        """Return True if all residuals are within their bounds."""
        return not self.failed

    def to_frame(self) -> pd.DataFrame:
        """The residuals as a table of pandas, with "value", "bound" and "holds"."""
        residuals, names = self.residuals.values(), ("value", "bound", "holds")
        columns = {name: [getattr(r, name) for r in residuals] for name in names}
        return frame(columns, list(self.residuals))

    def __str__(self) -> str:
        n, m = self.shape
        verdict = "all hold" if self.holds else f"not: {', '.join(self.failed)}"
        head = f"plan of {n} x {m}, epsilon {self.epsilon:.3g}, gw_cost {self.gw_cost:.6g}"
        lines = [f"  {name:15} {residual}" for name, residual in self.residuals.items()]
        return "\n".join([f"{head}: {verdict}", *lines])

    def __repr__(self) -> str:
        return f"Verification({self})"


def verify(
    problem: QuadraticProblem,
    result: GWResult | Coupling | ArrayLike,
    *,
    epsilon: float | None = None,
    method: MethodName | None = None,
    tol: float = 1e-5,
    marginal_tol: float = 1e-5,
    max_iter: int = 1000,
    memory_limit: MemoryLimit = None,
) -> Verification:
    """Check a plan, from whichever solver, against the conditions of optimality.

    All conditions are computed anew in float64 from the plan and the costs, of two point clouds
    under the squared loss in blocks of rows; other costs take ``8 (n^2 + m^2) + 56 n m`` bytes.

    Parameters
    ----------
    problem : QuadraticProblem
    result : GWResult, Coupling or array-like of shape (n, m)
        The objectives and the truncation that a result reports are checked too.
    epsilon, method : float, {"pgd", "ppa", "bapg"} or None, default=None
        Regularization, and the method whose fixed point the plan should be, both as in
        `gromov_wasserstein`; None takes epsilon and method of the result, or "pgd".
    tol, marginal_tol : float, default=1e-5
        The tolerances that the plan was solved to, of a partial plan over its mass. With epsilon
        0 `tol` bounds the gap, as a fraction of the objective.
    max_iter : int, default=1000
        Limit of iterations from each start of the search for potentials.
    memory_limit : float, str or None, default=None
        As in `gromov_wasserstein`.

    Returns
    -------
    Verification
        Residuals and bounds; ``.holds`` says whether all are met, and it prints as a table.

    Raises
    ------
    ValueError
        If the problem is unbalanced, or has other marginals than the result.
    MemoryError
        If the costs would not fit `memory_limit`.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> cost = 1 - np.eye(3)
    >>> problem = gwfast.QuadraticProblem(cost, cost)
    >>> gwfast.verify(problem, np.full((3, 3), 1 / 9), epsilon=0.1).holds
    True
    """
    if not isinstance(problem, QuadraticProblem):
        raise TypeError(f"problem must be a QuadraticProblem, got {type(problem).__name__}")
    problem = problem.refreshed()
    if problem.rule.is_relaxed:
        raise ValueError(
            "problem must not be unbalanced: its conditions of optimality are not checked yet"
        )
    coupling, report = _coupling(problem, result), None
    if isinstance(result, GWResult):
        report = result
        _check_marginals(problem, report)
        epsilon = report.epsilon if epsilon is None else epsilon
        if epsilon != 0 and report.method != "cg":
            method = method or report.method
    if epsilon is None:
        raise ValueError("epsilon must be given for a plan that does not tell it")
    epsilon = as_positive(epsilon, "epsilon", zero=True)
    if epsilon == 0 and method not in (None, "pgd"):
        raise ValueError(f"method must be 'pgd' with epsilon=0, got {method!r}")
    steps = PGD if epsilon == 0 else as_method(method or "pgd", problem, SINGLE)
    tol, marginal_tol = as_positive(tol, "tol"), as_positive(marginal_tol, "marginal_tol")
    max_iter, limit = as_count(max_iter, "max_iter"), as_memory_limit(memory_limit)
    n, m = problem.shape
    size = certificate.nbytes(problem, dense=epsilon == 0 or steps.proximal)
    check_size(f"verifying a plan of {n} x {m}", size, limit)

    def plan(rows: slice) -> Float64Array:
        return coupling._rows(rows).astype(np.float64)

    looked = _entries(plan, coupling.shape, epsilon)
    if not looked.not_finite.holds:
        return looked
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        costs = certificate.Costs.of(problem, shifts=not steps.alternating)
        separable = costs.separable(problem.p, problem.q) if steps.alternating else None
        linearized = certificate.Linearized(problem, costs, plan, separable)
        residuals = _marginals(linearized, steps, marginal_tol) | _objectives(
            linearized, report, looked
        )
        if epsilon == 0:
            # Solvers without entropy take costs of point clouds as matrices of float32.
            single = costs.is_factored or coupling.dtype == np.float32
            residuals |= _exact(linearized, single, tol)
        else:
            residuals |= _entropic(
                costs, linearized, coupling.dtype, report, epsilon, steps, tol, max_iter
            )
    return dataclasses.replace(looked, **residuals)


def _coupling(problem: QuadraticProblem, result: GWResult | Coupling | ArrayLike) -> Coupling:
    """Return the plan to check as a `Coupling`."""
    if isinstance(result, GWResult):
        coupling = result.coupling
    elif isinstance(result, Coupling):
        coupling = result
    else:
        of = "x and y"
        plan = as_array(in_order(result, "result", *problem.orders, of=of), "result")
        if plan.dtype not in (np.float32, np.float64):
            plan = plan.astype(np.float64)
        coupling = ArrayCoupling(plan, 1)
    if coupling.shape != problem.shape:
        raise ValueError(f"result must have shape {problem.shape}, got {coupling.shape}")
    return coupling


def _check_marginals(problem: QuadraticProblem, report: GWResult) -> None:
    """Raise a ValueError unless the problem has the marginals of the problem that was solved."""
    if problem.marginals != report.marginals.name:
        raise ValueError(
            f"problem must have {report.marginals.name} marginals, as result was solved with, got "
            f"{problem.marginals}"
        )
    for name in "pq":
        difference = np.abs(getattr(problem, name) - getattr(report.marginals, name)).sum()
        if difference > MISSED:
            raise ValueError(
                f"problem must have the {name} that result was solved with, got one "
                f"that differs by {difference:.2g} of the mass"
            )


def _entries(plan: Plan, shape: tuple[int, int], epsilon: float) -> Verification:
    """Return the `Verification` of the entries alone."""
    n_bad, negative, entropy = 0, 0.0, 0.0
    for rows in row_blocks(*shape):
        block = plan(rows)
        positive = block[block > 0]
        n_bad += int((~np.isfinite(block)).sum())
        negative -= float(block[block < 0].sum())
        entropy -= float(positive @ np.log(positive))
    return Verification(shape, epsilon, entropy, Residual(n_bad, 0), Residual(negative, 0.0))


def _marginals(
    linearized: certificate.Linearized, method: Method, marginal_tol: float
) -> dict[str, Residual]:
    """Return distances of the sums from the masses."""
    rule, errors = linearized.problem.rule, []
    marginal_tol *= rule.mass
    for sums, masses in ((linearized.row_sums, rule.p), (linearized.column_sums, rule.q)):
        over = np.maximum(sums - masses, 0.0) if rule.takes_mass else np.abs(sums - masses)
        errors.append(float(over.sum()))
    total = (
        errors[1] if method.alternating else rule.error(linearized.row_sums, linearized.column_sums)
    )
    return dict(
        rows=Residual(errors[0], np.inf if method.alternating else marginal_tol),
        cols=Residual(errors[1], marginal_tol if rule.takes_q else np.inf),
        mass=Residual(abs(float(linearized.row_sums.sum()) - rule.mass), marginal_tol),
        marginals=Residual(total, marginal_tol),
    )


def _objectives(
    linearized: certificate.Linearized, report: GWResult | None, looked: Verification
) -> dict[str, Any]:
    """Return the objective, and distances of the reported objectives from it."""
    residuals: dict[str, Any] = dict(gw_cost=linearized.gw_cost, linear_cost=linearized.linear_cost)
    if report is None:
        return residuals
    problem, error = linearized.problem, 0.0
    if problem.is_balanced:
        difference = (
            np.abs(linearized.row_sums - problem.p).sum()
            + np.abs(linearized.column_sums - problem.q).sum()
        )
        error = min(float(difference), MISSED)
    # Solvers compute the objective anew if it may be off by more.
    bound = 2 * certificate.MAX_ERROR * abs(linearized.gw_cost) + 2 * error * linearized.largest
    bound += DOUBLE.cost_rounding * linearized.magnitude
    residuals["objective"] = Residual(abs(report.gw_cost - linearized.gw_cost), bound)
    weight = 2 * looked.epsilon
    value = abs(report.reg_cost - (linearized.gw_cost - weight * looked.entropy))
    bound += weight * 10 * SINGLE.cost_rounding * (1.0 + abs(looked.entropy))
    return residuals | dict(reg_objective=Residual(value, bound))


def _exact(linearized: certificate.Linearized, single: bool, tol: float) -> dict[str, Residual]:
    """Return the gap of Frank and Wolfe as a fraction of the objective, or of its rounding."""
    # In float64 solvers end at steps of 1e-13.
    rounding = linearized.magnitude * (certificate.ROUNDINGS * SINGLE.rounding if single else 1e-12)
    unit = max(abs(linearized.gw_cost), rounding) or 1.0
    gap = Residual(certificate.frank_wolfe_gap(linearized) / unit, tol + rounding / unit)
    return dict(stationarity=gap, truncation=Residual(0.0))


def _entropic(
    costs: certificate.Costs,
    linearized: certificate.Linearized,
    dtype: np.dtype[Any],
    report: GWResult | None,
    epsilon: float,
    method: Method,
    tol: float,
    max_iter: int,
) -> dict[str, Residual]:
    """Return the distance from the plan of the linear problem."""
    potentials = None if report is None else report.potentials
    (distance, unused, left_out), bound = certificate.after_a_step(
        linearized, costs, method, epsilon, dtype, tol, potentials, max_iter
    )
    residuals = {}
    if linearized.problem.rule.takes_mass:
        residuals["complementarity"] = Residual(unused, bound)
    small = math.prod(linearized.problem.shape) <= 1_000_000  # for a linear program
    if method.proximal and not method.alternating and small:
        residuals["gap"] = Residual(certificate.relative_gap(linearized), certificate.MOST_GAP)
    reported = np.inf if report is None else report.left_out
    bound += reported if reported < np.inf else 0.0
    return residuals | dict(
        stationarity=Residual(distance, bound), truncation=Residual(left_out, reported + bound)
    )

"""What `gwfast.verify` has found out about a plan."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .tables import of_tuples

if TYPE_CHECKING:
    import pandas as pd


class Residual(NamedTuple):
    """How far something is from what it should be.

    Attributes
    ----------
    value : float
        The residual; NaN if the plan is not finite.
    bound : float
        The most that the residual may be; infinite if nothing bounds it.

    Examples
    --------
    >>> import gwfast
    >>> gwfast.Residual(1e-7, bound=1e-5)
    Residual(value=1e-07, bound=1e-05)
    """

    value: float
    bound: float = np.inf

    @property
    def holds(self) -> bool:
        """Whether the value is a number within the bound."""
        return bool(self.value <= self.bound)

    def __str__(self) -> str:
        if self.bound == np.inf and self.holds:
            return f"{self.value:.3g} (no bound)"
        sign = "<=" if self.holds else "exceeds"
        return f"{self.value:.3g} {sign} {self.bound:.3g}"


@dataclasses.dataclass(frozen=True, repr=False)
class Verification:
    """Residuals of the optimality conditions of a plan, each with its bound.

    Attributes
    ----------
    shape : tuple of int
    epsilon : float
    gw_cost, linear_cost, entropy : float
        Values of the plan, recomputed in float64 with its own marginals.
    not_finite : Residual
        Number of entries that are NaN or infinite.
    negative : Residual
        Sum of the negative entries, without sign.
    rows, cols : Residual
        L1 distance of row and column sums from the masses; for a partial plan, what
        exceeds these. It has no bound if the rule or the method leaves them free.
    mass : Residual
        Distance of the sum of all entries from the mass of a plan.
    marginals : Residual
        All that apply of these, the error that solvers keep below `marginal_tol`.
    stationarity : Residual
        L1 distance, as a fraction of the mass, of the plan from the exact plan of the
        same marginals for its own linearized cost (``method="bapg"``: from the plan
        after one more iteration). It is an upper limit if the iterations that look for
        that plan were not enough. With epsilon 0 it is the gap of Frank and Wolfe, as a
        fraction of the objective: the most by which the linearized objective of any
        plan of these marginals is below that of this one.
    complementarity : Residual or None
        Of a partial plan: sum of the masses not used, times their multipliers over
        epsilon (at most one); None for others, and with epsilon 0, where the gap has
        it.
    objective, reg_objective : Residual or None
        Distances of the reported `gw_cost` and `reg_cost` from the recomputed ones; the
        bound knows that solvers take given marginals for those of the plan. None where
        none were reported.
    truncation : Residual
        Fraction of the mass that the exact plan has where the plan is zero; the bound
        is `GWResult.left_out`, where that was reported.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> problem = gwfast.QuadraticProblem(cost, cost[::-1, ::-1])
    >>> result = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1])
    >>> checked = gwfast.verify(problem, result)
    >>> bool(checked.holds)
    True
    >>> bool(checked.rows.value < checked.rows.bound)
    True
    """

    shape: tuple[int, int]
    epsilon: float
    gw_cost: float
    linear_cost: float
    entropy: float
    not_finite: Residual
    negative: Residual
    rows: Residual
    cols: Residual
    mass: Residual
    marginals: Residual
    stationarity: Residual
    complementarity: Residual | None
    objective: Residual | None
    reg_objective: Residual | None
    truncation: Residual

    @property
    def residuals(self) -> dict[str, Residual]:
        """Those there are, by name."""
        pairs = vars(self).items()
        return {name: value for name, value in pairs if isinstance(value, Residual)}

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the residuals that exceed their bounds."""
        return tuple(name for name, one in self.residuals.items() if not one.holds)

    @property
    def holds(self) -> bool:
        """Whether all residuals are within their bounds."""
        return not self.failed

    def to_frame(self) -> pd.DataFrame:
        """The residuals as a table of pandas, with "value", "bound" and "holds"."""
        rows = [(*one, one.holds) for one in self.residuals.values()]
        return of_tuples(("value", "bound", "holds"), rows, list(self.residuals))

    def __str__(self) -> str:
        n, m = self.shape
        verdict = "all hold" if self.holds else f"not: {', '.join(self.failed)}"
        lines = [
            f"plan of {n} x {m}, epsilon {self.epsilon:.3g}, gw_cost {self.gw_cost:.6g}: {verdict}"
        ]
        lines += [f"  {name:15} {one}" for name, one in self.residuals.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Verification({self})"

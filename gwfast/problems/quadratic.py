"""The quadratic problem: two geometries, their marginals and a loss, no algorithm."""

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..linear.marginals import Balanced
from ..linear.rules import Marginals, Rho, as_rule
from ..utils.types import Float64Array
from ..utils.validation import as_matrix, as_positive, one_of
from .geometry import CostLike, Geometry, as_geometry
from .losses import LOSSES, LossName


class QuadraticProblem:
    """Two geometries, their marginals and a loss; no algorithm. What `multistart` and
    `tune_epsilon` solve.

    Parameters
    ----------
    x, y : PointCloud, DenseCost or array-like of shape (n, n) and (m, m)
    p, q : array-like of shape (n,) and (m,) or None
        None is uniform.
    loss : {"square", "kl"}
        ``(a - b)^2`` or ``a log(a / b) - a + b``.
    linear_cost : array-like of shape (n, m) or None, default=None
        Costs between the two spaces: the fused problem, whose objective is `alpha`
        times the quadratic one plus ``(1 - alpha) <linear_cost, T>``.
    alpha : float, default=0.5
    marginals : {"balanced", "semirelaxed", "partial", "unbalanced"}, \
default="balanced"
        Whether both marginals are given, only `p`, upper bounds of both, or masses of
        any totals that a plan may miss at a price.
    mass : float or None, default=None
        How much of the mass, one in all, a partial plan moves; None is all.
    rho : float, pair of floats or None, default=None
        The price of other row and column sums of an unbalanced plan, see
        `gromov_wasserstein`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> problem = gwfast.QuadraticProblem(cost, cost[::-1, ::-1])
    >>> problem.p.shape, round(float(problem.p.sum()), 6)
    ((60,), 1.0)
    """

    def __init__(
        self,
        x: CostLike,
        y: CostLike,
        p: ArrayLike | None = None,
        q: ArrayLike | None = None,
        *,
        loss: LossName = "square",
        linear_cost: ArrayLike | None = None,
        alpha: float = 0.5,
        marginals: Marginals = "balanced",
        mass: float | None = None,
        rho: Rho | None = None,
    ) -> None:
        x, y = as_geometry(x, "cost_x"), as_geometry(y, "cost_y")
        rule = as_rule(marginals, p, q, mass, (x.n, y.n), rho)
        one_of(loss, "loss", LOSSES)
        if as_positive(alpha, "alpha", zero=True) > 1.0:
            raise ValueError(f"alpha must be at most 1, got {alpha}")
        if linear_cost is not None:
            linear_cost = as_matrix(linear_cost, "linear_cost", shape=(x.n, y.n))
        self._set(x, y, rule, loss, linear_cost, alpha)

    def _set(
        self,
        x: Geometry,
        y: Geometry,
        rule: Balanced,
        loss: LossName = "square",
        linear_cost: NDArray[Any] | None = None,
        alpha: float = 0.5,
    ) -> None:
        self.x, self.y, self.rule, self.loss = x, y, rule, loss
        self.linear_cost, self.alpha = linear_cost, float(alpha)

    @classmethod
    def from_checked(
        cls, x: Geometry, y: Geometry, rule: Balanced, **others: Any
    ) -> "QuadraticProblem":
        """A problem of two geometries and a marginal rule that hold what the
        constructor checks, and are taken as they are.
        """
        problem = cls.__new__(cls)
        problem._set(x, y, rule, **others)
        return problem

    def take(self, rows: NDArray[Any], cols: NDArray[Any]) -> "QuadraticProblem":
        """The same problem on some of the points, their masses scaled to one."""
        part = self.with_geometries(self.x.take(rows), self.y.take(cols))
        part.rule = self.rule.take(rows, cols)
        if self.linear_cost is not None:
            part.linear_cost = self.linear_cost[np.ix_(rows, cols)]
        return part

    def with_rule(self, rule: Balanced) -> "QuadraticProblem":
        """The same problem with other marginals."""
        other = copy.copy(self)
        other.rule = rule
        return other

    def with_geometries(self, x: Geometry, y: Geometry) -> "QuadraticProblem":
        """The same problem with other costs between as many points."""
        other = copy.copy(self)
        other.x, other.y = x, y
        return other

    @property
    def shape(self) -> tuple[int, int]:
        """Points of both sides."""
        return self.x.n, self.y.n

    @property
    def p(self) -> Float64Array:
        """Masses (n,) of the first side, float64."""
        return self.rule.p

    @property
    def q(self) -> Float64Array:
        """Masses (m,) of the second side, float64."""
        return self.rule.q

    @property
    def mass(self) -> float:
        """Of a plan, to begin with."""
        return self.rule.mass

    @property
    def marginals(self) -> str:
        """Name of the rule of the marginals."""
        return self.rule.name

    @property
    def is_balanced(self) -> bool:
        """Whether both marginals are given."""
        return not self.rule.has_free_marginals

    @property
    def is_plain(self) -> bool:
        """Whether it is balanced and has no linear term."""
        return self.is_balanced and self.linear_cost is None

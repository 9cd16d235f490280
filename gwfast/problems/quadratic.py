"""The quadratic problem: two geometries, their marginals and a loss, no algorithm."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..linear.rules import Balanced, Marginals, Rho, as_rule, neutral
from ..utils.labels import Labels, in_order, labels_of
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.types import Float64Array
from ..utils.validation import as_matrix, as_positive, one_of
from .cross_cost import CrossCost
from .geometry import Geometry
from .graphs import CostLike, as_geometry
from .losses import LOSSES, LossName


def as_alpha(alpha: float | None, linear: Any, name: str) -> float:
    """Return the weight of the quadratic term of a fused problem, .5 if None; raise if there is
    nothing `linear`, the argument `name`, to weigh it against.
    """
    if alpha is None:
        return 0.5
    if as_positive(alpha, "alpha", zero=True) > 1.0:
        raise ValueError(f"alpha must be at most 1, got {alpha}")
    if linear is None:
        raise ValueError(f"alpha must be None without {name}, got {alpha}")
    return float(alpha)


class QuadraticProblem:
    """Two geometries, their marginals and a loss; no algorithm.

    Parameters
    ----------
    x, y : PointCloud, DenseCost, array-like of shape (n, n) and (m, m), or graph
        See `gromov_wasserstein`.
    p, q : array-like of shape (n,) and (m,) or None
        None is uniform.
    loss : {"square", "kl"}
        ``(a - b)^2`` or ``a log(a / b) - a + b``.
    linear_cost : array-like of shape (n, m), CrossCost or None, default=None
        Costs between the two spaces: the fused problem, whose objective is `alpha` times the
        quadratic one plus ``(1 - alpha) <linear_cost, T>``.
    alpha : float or None, default=None
        None is 0.5; without `linear_cost` nothing else will do.
    marginals : {"balanced", "semirelaxed", "partial", "unbalanced"}, default="balanced"
        Whether both marginals are given, only `p`, upper bounds of both, or masses of any totals
        that a plan may miss at a price.
    mass : float or None, default=None
        How much of the mass, one in all, a partial plan moves; None is all.
    rho : float, pair of floats or None, default=None
        Price of other row and column sums of an unbalanced plan, see `gromov_wasserstein`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Examples
    --------
    >>> import gwfast
    >>> gwfast.QuadraticProblem([[0, 1], [1, 0]], [[0, 2], [2, 0]]).p
    array([0.5, 0.5])
    """

    # Labels of both sides, of the costs or else of other arguments, for further arguments.
    orders: tuple[Labels, Labels] = None, None

    @knows_pot_names(QUADRATIC, cost_x="x", cost_y="y")
    def __init__(
        self,
        x: CostLike,
        y: CostLike,
        p: ArrayLike | None = None,
        q: ArrayLike | None = None,
        *,
        loss: LossName = "square",
        linear_cost: ArrayLike | CrossCost | None = None,
        alpha: float | None = None,
        marginals: Marginals = "balanced",
        mass: float | None = None,
        rho: Rho | None = None,
    ) -> None:
        x, y = as_geometry(x, "cost_x"), as_geometry(y, "cost_y")
        rows, cols = labels_of(linear_cost), labels_of(linear_cost, 1)
        if isinstance(linear_cost, CrossCost):
            rows, cols = linear_cost.labels
        self.orders = x.labels or labels_of(p) or rows, y.labels or labels_of(q) or cols
        p = in_order(p, "p", self.orders[0], of="cost_x")
        q = in_order(q, "q", self.orders[1], of="cost_y")
        rule = as_rule(marginals, p, q, mass, (x.n, y.n), rho)
        one_of(loss, "loss", LOSSES)
        alpha = as_alpha(alpha, linear_cost, "linear_cost")
        shape = x.n, y.n
        if isinstance(linear_cost, CrossCost):
            if linear_cost.shape != shape:
                raise ValueError(f"linear_cost must have shape {shape}, got {linear_cost.shape}")
            linear_cost = linear_cost.in_order(*self.orders)
        elif linear_cost is not None:
            of = "cost_x and cost_y"
            linear_cost = in_order(linear_cost, "linear_cost", *self.orders, of=of)
            linear_cost = as_matrix(linear_cost, "linear_cost", shape=shape)
        self._set(x, y, rule, loss, linear_cost, alpha)

    def _set(
        self, x: Geometry, y: Geometry, rule: Balanced,
        loss: LossName = "square", linear_cost: Any = None, alpha: float = 0.5,
    ) -> None:  # fmt: skip
        self._sides, self.rule, self.loss = (x, y), rule, loss
        self.x, self.y = x.neutral(rule.p), y.neutral(rule.q)
        if isinstance(linear_cost, np.ndarray):
            linear_cost = neutral(linear_cost, rule.p, rule.q)
        self.between, self.alpha = linear_cost, float(alpha)

    @classmethod
    def from_checked(cls, *sides_and_rule: Any, **others: Any) -> QuadraticProblem:
        """Return a problem of two geometries, a rule, and other checked arguments."""
        problem = cls.__new__(cls)
        problem._set(*sides_and_rule, **others)
        return problem

    def replace(self, **parts: Any) -> QuadraticProblem:
        """Return the problem with another `x`, `y`, `rule`, `between` or `alpha`."""
        other = copy.copy(self)
        for name, part in parts.items():
            setattr(other, name, part)
        return other

    def refreshed(self) -> QuadraticProblem:
        """Return the problem of the costs as they are now, see `DenseCost.refreshed`."""
        other = copy.copy(self)
        other._sides = as_geometry(self._sides[0], "cost_x"), as_geometry(self._sides[1], "cost_y")
        other.x, other.y = other._sides[0].neutral(self.p), other._sides[1].neutral(self.q)
        return other

    def take(self, rows: NDArray[Any], cols: NDArray[Any]) -> QuadraticProblem:
        """Return the problem on some of the points, their masses scaled to one."""
        between = self.between
        if isinstance(between, CrossCost):
            between = between.take(rows, cols)
        elif between is not None:
            between = between[np.ix_(rows, cols)]
        rule = self.rule.take(rows, cols)
        return self.replace(x=self.x.take(rows), y=self.y.take(cols), rule=rule, between=between)

    def exchanged(self) -> QuadraticProblem:
        """Return the problem with its sides exchanged."""
        linear, rule = self.linear_cost, dataclasses.replace(self.rule, p=self.q, q=self.p)
        between = None if linear is None else linear.T
        return self.replace(x=self.y, y=self.x, rule=rule, between=between)

    def __repr__(self) -> str:
        n, m = self.shape
        fused = "" if self.between is None else f", fused, alpha={self.alpha:g}"
        return f"QuadraticProblem({n} x {m}, {self.loss}, {self.marginals}{fused})"

    @property
    def shape(self) -> tuple[int, int]:
        """Points of both sides."""
        return self.x.n, self.y.n

    @property
    def p(self) -> Float64Array:
        """Masses (n,) of the first side."""
        return self.rule.p

    @property
    def q(self) -> Float64Array:
        """Masses (m,) of the second side."""
        return self.rule.q

    @property
    def labels(self) -> tuple[Labels, Labels]:
        """Labels of the costs of both sides, see `DenseCost`."""
        return self.x.labels, self.y.labels

    @property
    def mass(self) -> float:
        """Mass that a plan begins with."""
        return self.rule.mass

    @property
    def marginals(self) -> str:
        """Name of the rule of the marginals."""
        return self.rule.name

    @property
    def linear_cost(self) -> NDArray[Any] | None:
        """Costs (n, m) between the spaces, or None; costs of a `CrossCost` are computed."""
        between = self.between
        return between.toarray() if isinstance(between, CrossCost) else between

    @property
    def is_fused(self) -> bool:
        """True with costs between the spaces."""
        return self.between is not None

    @property
    def is_balanced(self) -> bool:
        """True if both marginals are given."""
        return not self.rule.has_free_marginals

    @property
    def is_plain(self) -> bool:
        """True if balanced and without a linear term."""
        return self.is_balanced and self.between is None


def as_problem(
    problem: Any, cost_x: Any = None, cost_y: Any = None, p: Any = None, q: Any = None, **terms: Any
) -> QuadraticProblem:
    """Return the problem of a public function that takes a problem, a tuple ``(cost_x, cost_y)``
    or ``(cost_x, cost_y, p, q)``, or the arguments of `QuadraticProblem`; without `problem` each
    of these may be the `cost_x`.
    """
    rest = {"cost_x": cost_x, "cost_y": cost_y, "p": p, "q": q}
    if problem is None:
        problem = rest.pop("cost_x")
    is_whole = isinstance(problem, QuadraticProblem)
    if is_whole or (isinstance(problem, tuple | list) and cost_y is None):
        defaults = {"loss": "square", "marginals": "balanced"}
        twice = [
            name
            for name, value in (rest | terms if is_whole else rest).items()
            if value is not None and not (isinstance(value, str) and value == defaults.get(name))
        ]
        if twice:
            raise ValueError(
                f"{', '.join(twice)} must be left out where the problem is given whole"
            )
        if is_whole:
            return problem.refreshed()
        if len(problem) in (2, 4):
            return QuadraticProblem(*problem, **terms)
    if cost_y is None:
        raise TypeError(
            "cost_x and cost_y must be given, or a QuadraticProblem or a tuple (cost_x, cost_y) or "
            f"(cost_x, cost_y, p, q), got {type(problem).__name__}"
        )
    return QuadraticProblem(problem, cost_y, p, q, **terms)

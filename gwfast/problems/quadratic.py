"""The quadratic problem: two geometries, their marginals and a loss, no algorithm."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..linear.marginals import Marginals
from ..linear.rules import Balanced, as_rule, neutral
from ..utils.blocks import row_blocks
from ..utils.labels import Labels, in_order, labels_of
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.types import Float64Array, FloatArray
from ..utils.validation import as_matrix, as_positive, one_of
from .cross_cost import CrossCost
from .geometry import Geometry
from .graphs import CostLike, as_geometry
from .losses import LOSSES, LossName


def as_alpha(alpha: float, linear: Any, name: str) -> float:
    """Return the weight of the quadratic term of a fused problem; raise if there is nothing
    `linear`, the argument `name`, to weigh it against.
    """
    if as_positive(alpha, "alpha", zero=True) > 1.0:
        raise ValueError(f"alpha must be at most 1, got {alpha}")
    if linear is None and alpha != 0.5:
        raise ValueError(f"alpha must be left out without {name}, got {alpha}")
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
    alpha : float, default=0.5
        Weight of the quadratic term, from 0 to 1.
    marginals : {"balanced", "semirelaxed"}, Partial or Unbalanced, default="balanced"
        Whether both marginals are given, only `p`, upper bounds of both, or masses of any totals
        that a plan may miss at a price.

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

    @knows_pot_names(QUADRATIC)
    def __init__(
        self,
        x: CostLike,
        y: CostLike,
        p: ArrayLike | None = None,
        q: ArrayLike | None = None,
        *,
        loss: LossName = "square",
        linear_cost: ArrayLike | CrossCost | None = None,
        alpha: float = 0.5,
        marginals: Marginals = "balanced",
    ) -> None:
        x, y = as_geometry(x, "x"), as_geometry(y, "y")
        rows, cols = labels_of(linear_cost), labels_of(linear_cost, 1)
        if isinstance(linear_cost, CrossCost):
            rows, cols = linear_cost.labels
        self.orders = x.labels or labels_of(p) or rows, y.labels or labels_of(q) or cols
        p = in_order(p, "p", self.orders[0], of="x")
        q = in_order(q, "q", self.orders[1], of="y")
        rule = as_rule(marginals, p, q, (x.n, y.n))
        one_of(loss, "loss", LOSSES)
        alpha = as_alpha(alpha, linear_cost, "linear_cost")
        shape = x.n, y.n
        if isinstance(linear_cost, CrossCost):
            if linear_cost.shape != shape:
                raise ValueError(f"linear_cost must have shape {shape}, got {linear_cost.shape}")
            linear_cost = linear_cost.in_order(*self.orders)
        elif linear_cost is not None:
            of = "x and y"
            linear_cost = in_order(linear_cost, "linear_cost", *self.orders, of=of)
            linear_cost = as_matrix(linear_cost, "linear_cost", shape=shape)
        self._set(x, y, rule, loss, linear_cost, alpha)

    def _set(
        self,
        x: Geometry,
        y: Geometry,
        rule: Balanced,
        loss: LossName = "square",
        linear_cost: Any = None,
        alpha: float = 0.5,
    ) -> None:
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
        other._sides = as_geometry(self._sides[0], "x"), as_geometry(self._sides[1], "y")
        other.x, other.y = other._sides[0].neutral(self.p), other._sides[1].neutral(self.q)
        return other

    def take(self, rows: NDArray[Any], cols: NDArray[Any]) -> QuadraticProblem:
        """Return the problem on some of the points, their masses scaled to one."""
        between = self.between
        if isinstance(between, CrossCost):
            between = between.take(rows, cols)
        elif between is not None:
            between = between[np.ix_(rows, cols)]
        sides, rule = (self.x.take(rows), self.y.take(cols)), self.rule.take(rows, cols)
        return self.replace(x=sides[0], y=sides[1], _sides=sides, rule=rule, between=between)

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
    def linear_rows(self) -> Callable[[slice], FloatArray] | None:
        """The function that returns rows of the costs between the spaces, or None."""
        if isinstance(self.between, CrossCost):
            return self.between.rows
        return None if self.between is None else self.between.__getitem__

    @property
    def is_fused(self) -> bool:
        """True with costs between the spaces."""
        return self.between is not None

    @property
    def is_balanced(self) -> bool:
        """True if both marginals are given."""
        return not self.rule.has_free_marginals

    def lowest_linear_term(self) -> float:
        """Return the least linear cost times the mass, weighted, if it is negative; else zero. No
        plan depends on a constant in the linear costs, and so no epsilon should.
        """
        between, rows = self.between, self.linear_rows
        if rows is None or (isinstance(between, CrossCost) and between.metric != "dot"):
            return 0.0
        blocks = row_blocks(*self.shape)
        least = min(float(rows(part).min()) for part in blocks)
        return (1.0 - self.alpha) * self.mass * min(least, 0.0)

    @property
    def is_plain(self) -> bool:
        """True if balanced and without a linear term."""
        return self.is_balanced and self.between is None


def as_problem(x: Any, y: Any, p: Any, q: Any, **terms: Any) -> QuadraticProblem:
    """Return the problem of a public function that takes a `QuadraticProblem` as `x`, or the
    arguments of `QuadraticProblem`.
    """
    if isinstance(x, QuadraticProblem):
        defaults = {"loss": "square", "marginals": "balanced", "alpha": 0.5}
        twice = [
            name
            for name, value in dict(y=y, p=p, q=q, **terms).items()
            if value is not None
            and not (isinstance(value, str | float) and value == defaults.get(name))
        ]
        if twice:
            raise ValueError(f"{', '.join(twice)} must be left out if x is a QuadraticProblem")
        return x.refreshed()
    if y is None:
        raise TypeError(
            f"y must be given unless x is a QuadraticProblem, got {type(x).__name__} as x"
        )
    return QuadraticProblem(x, y, p, q, **terms)

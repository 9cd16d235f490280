"""The quadratic problem: two geometries, their marginals and a loss, no algorithm."""

import copy

import numpy as np

from ..utils.precision import SINGLE
from ..utils.validation import as_marginal, as_matrix, as_positive, one_of
from .geometry import DenseCost, PointCloud
from .losses import LOSSES

MARGINALS = ("balanced", "semirelaxed", "partial")
METHODS = ("pgd", "ppa", "bapg")


def as_geometry(cost, name):
    """A geometry as it is, anything else as a matrix of costs."""
    if isinstance(cost, PointCloud | DenseCost):
        return cost
    return DenseCost(cost, name)


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
    marginals : {"balanced", "semirelaxed", "partial"}, default="balanced"
        Whether both marginals are given, only `p`, or upper bounds of both.
    mass : float or None, default=None
        How much of the mass, one in all, a partial plan moves; None is all.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.
    """

    # Whether Bregman alternating projections see the terms of the marginals.
    marginal_terms = True

    def __init__(
        self,
        x,
        y,
        p=None,
        q=None,
        *,
        loss="square",
        linear_cost=None,
        alpha=0.5,
        marginals="balanced",
        mass=None,
    ):
        self.x, self.y = as_geometry(x, "cost_x"), as_geometry(y, "cost_y")
        self.shape = (self.x.n, self.y.n)
        self.marginals = one_of(marginals, "marginals", MARGINALS)
        if self.marginals == "semirelaxed" and q is not None:
            raise ValueError("q must be None with marginals='semirelaxed': it is free")
        self.p = as_marginal(p, "p", self.x.n)
        self.q = as_marginal(q, "q", self.y.n)
        self.mass = 1.0 if mass is None else as_positive(mass, "mass")
        if mass is not None and self.marginals != "partial":
            raise ValueError("mass must be None unless marginals='partial'")
        if self.mass > 1.0:
            raise ValueError(f"mass must be at most 1, got {self.mass}")
        self.loss = one_of(loss, "loss", LOSSES)
        self.linear_cost, self.alpha = (
            linear_cost,
            as_positive(alpha, "alpha", zero=True),
        )
        if self.alpha > 1.0:
            raise ValueError(f"alpha must be at most 1, got {self.alpha}")
        if linear_cost is not None:
            self.linear_cost = as_matrix(linear_cost, "linear_cost", shape=self.shape)
        self.profiles = {}  # see `initial.Profile`

    def take(self, rows, cols):
        """The same problem on some of the points, their masses scaled to one."""
        part = copy.copy(self)
        part.x, part.y = self.x.take(rows), self.y.take(cols)
        part.p, part.q = self.p[rows], self.q[cols]
        part.p, part.q = part.p / part.p.sum(), part.q / part.q.sum()
        part.shape, part.profiles = (part.x.n, part.y.n), {}
        if self.linear_cost is not None:
            part.linear_cost = self.linear_cost[np.ix_(rows, cols)]
        return part

    @property
    def is_balanced(self):
        """Whether both marginals are given."""
        return self.marginals == "balanced"

    @property
    def is_plain(self):
        """Whether it is balanced and has no linear term."""
        return self.is_balanced and self.linear_cost is None

    def check_method(self, method, precision):
        """Raise a ValueError where the problem cannot be solved that way."""
        one_of(method, "method", METHODS)
        if method == "bapg" and not self.is_balanced:
            raise ValueError(
                f"method must be 'pgd' or 'ppa' with marginals={self.marginals!r}, got "
                "'bapg'"
            )
        clouds = [
            name
            for name, side in (("cost_x", self.x), ("cost_y", self.y))
            if isinstance(side, PointCloud)
        ]
        if precision is not SINGLE and clouds:
            raise ValueError(
                f"{clouds[0]} must be a matrix of costs with dtype='float64', got a "
                "PointCloud, which is kept in float32"
            )

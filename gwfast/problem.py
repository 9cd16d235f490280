"""The quadratic problem: two geometries, their marginals and a loss, no algorithm."""

import copy

from ._validation import as_marginal, one_of
from .dense import LOSSES, Dense
from .factored import Factored
from .geometry import DenseCost, PointCloud
from .memory import TIERS


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

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.
    """

    def __init__(self, x, y, p=None, q=None, *, loss="square"):
        self.x, self.y = as_geometry(x, "cost_x"), as_geometry(y, "cost_y")
        self.p = as_marginal(p, "p", self.x.n)
        self.q = as_marginal(q, "q", self.y.n)
        self.loss = one_of(loss, "loss", LOSSES)
        self.shape = (self.x.n, self.y.n)
        self.profiles = {}  # see `initial.Profile`

    def take(self, rows, cols):
        """The same problem on some of the points, their masses scaled to one."""
        part = copy.copy(self)
        part.x, part.y = self.x.take(rows), self.y.take(cols)
        part.p, part.q = self.p[rows], self.q[cols]
        part.p, part.q = part.p / part.p.sum(), part.q / part.q.sum()
        part.shape, part.profiles = (part.x.n, part.y.n), {}
        return part

    @property
    def kind(self):
        """The `Linearization` that suits the geometries."""
        factored = isinstance(self.x, PointCloud) and isinstance(self.y, PointCloud)
        return Factored if factored and self.loss == "square" else Dense

    @property
    def tiers(self):
        """Ways of keeping the kernel, see memory.py."""
        return TIERS if self.kind is Factored else TIERS[:1]

    def nbytes(self, tier, n_threads, scale=1.0):
        """Bytes that a solve in this tier takes beside the geometries, or would with
        `scale` times as many points.
        """
        return self.kind.nbytes(self, tier, n_threads, scale)

    def linearize(self, n_threads, tier="dense"):
        """A `Linearization` of this problem, its state yet to be set."""
        return self.kind(self, n_threads, tier)

"""The linearized cost of a plain problem of few points, made in one compiled call: what
one descent from the product plan needs, and no more.
"""

import numpy as np

from ..kernels._costs import plain_terms
from ..kernels._descent import Descent
from ..kernels._rows import Panels
from ..linear.sinkhorn_solver import MARGIN
from ..problems.dense_cost import DenseCost
from ..problems.losses import SQUARE
from ..results.coupling import ArrayCoupling
from .dense import Dense, accelerates, sample
from .linearization import Linearization


class PlainCosts(Linearization):
    """The linearized cost under the squared loss of two symmetric matrices with fixed
    marginals, at the product plan; the same as that of `Dense`, which takes five times
    as long to make for 20 points.

    Attributes
    ----------
    sample_stride : int
        As of `Dense`.
    """

    inner_fraction, inner_limit = Dense.inner_fraction, Dense.inner_limit
    is_small = True

    def __init__(self, problem, method, precision):
        super().__init__(problem, 1, precision)
        x, y, self.method = problem.x, problem.y, method
        matrices = (np.ascontiguousarray(s.by_rows, np.float64) for s in (x, y))
        masses, ranges = (problem.p, problem.q), (x.extremes, y.extremes)
        made = plain_terms(*matrices, *masses, *ranges, precision.dtype)
        self._matrices, self._plans = made[:2], made[2:4]
        self.row_cost, self.col_cost = made[4:6]
        self.cost_scale, self._started_at, magnitude = made[6:]
        self._magnitude, self.sample_stride = (self.row_cost, magnitude), 0
        if accelerates(problem, method):
            some = sample(problem.shape, precision.itemsize)
            self.sample_stride = some.step

    @staticmethod
    def suit(problem, method):
        """Whether they are those of this problem."""
        return (
            problem.is_plain
            and problem.loss == SQUARE.name
            and not method.alternating
            and all(
                isinstance(side, DenseCost) and side.symmetric
                for side in (problem.x, problem.y)
            )
        )

    def descent(self, limits):
        """The `Descent` within `limits_of`."""
        left, right = self._matrices
        return Descent(
            (left, Panels(right, True)),
            None,
            None,
            *self._plans,
            self.problem.p,
            self.problem.q,
            self.row_cost / self.cost_scale,
            self.col_cost / self.cost_scale,
            stride=self.sample_stride,
            fraction=MARGIN * self.inner_fraction,
            limits=limits,
        )

    def take(self, descent):
        """Make the plan of a `Descent` the state."""
        self.state = descent.plan

    def coupling(self, kernel, solution):
        return ArrayCoupling(self.state, 1)

"""The terms of the linearized cost of a plain problem of few points."""

import numpy as np

from ..kernels import _costs
from ..problems.dense_cost import DenseCost
from ..problems.losses import SQUARE
from .dense_terms import BilinearTerm, MatrixTerms, has_fixed_terms

# Points up to which calls from Python would take longer than all that they do.
FEW_POINTS = 256


class PlainTerms(MatrixTerms):
    """`MatrixTerms` of symmetric costs of few points under the squared loss, with fixed
    marginals and without costs between the spaces: made in one compiled call, which
    takes a third of the time for 20 points.
    """

    def __init__(self, problem, dtype, n_threads):
        x, y = problem.x, problem.y
        given = problem.p, problem.q, x.extremes, y.extremes, dtype
        matrices = (np.ascontiguousarray(one.by_rows, np.float64) for one in (x, y))
        left, right, moved, *known = _costs.plain_terms(*matrices, *given)
        self.bilinear = BilinearTerm(left, right, True, n_threads)
        self.bilinear.moved, self.fused = moved, None
        self._separable, self.cost_scale, self._at_product = known

    def at_product(self, row_cost, col_cost):
        return self._at_product

    def separable(self, rows, cols):
        return self._separable


def terms_of(problem, method, dtype, n_threads, deadline):
    """The `MatrixTerms` of a problem."""
    x, y = problem.x, problem.y
    plain = (
        max(problem.shape) <= FEW_POINTS
        and problem.loss == SQUARE.name
        and problem.is_plain
        and has_fixed_terms(problem, method)
        and isinstance(x, DenseCost)
        and isinstance(y, DenseCost)
        and x.symmetric
        and y.symmetric
    )
    if plain:
        return PlainTerms(problem, dtype, n_threads)
    return MatrixTerms(problem, method, dtype, n_threads, deadline)

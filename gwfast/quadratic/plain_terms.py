"""The terms of the linearized cost of a plain problem of few points."""

import numpy as np

from ..kernels import _costs
from ..kernels._rows import aligned_empty
from ..problems.dense_cost import DenseCost
from ..problems.losses import SQUARE
from .dense_terms import BilinearTerm, MatrixTerms, has_fixed_terms

# Points up to which calls from Python would take longer than all that they do.
FEW_POINTS = 256


class PlainTerms(MatrixTerms):
    """`MatrixTerms` of symmetric costs of few points under the squared loss, with fixed
    marginals and without costs between the spaces: by a formula of their own, which for
    20 points takes half the time.

    With a and b, the costs less numbers near their means, which are d apart, the
    linearized cost is ``row_cost_i + col_cost_j - 2 (a plan b)_ij``, where ``row_cost =
    a^2 p + 2 d a p + d^2 / 2`` and ``col_cost = b^2 q - 2 d b q + d^2 / 2``.
    """

    def __init__(self, problem, dtype, n_threads):
        (x, mid_x, most_x), (y, mid_y, most_y) = map(
            _centered, (problem.x, problem.y), (problem.p, problem.q)
        )
        given = x, mid_x, -1.0 / most_x, problem.p, mid_x - mid_y, dtype
        left, moved_x, row_cost = _side(*given)
        given = y, mid_y, 1.0 / most_y, problem.q, mid_y - mid_x, dtype
        right, moved_y, col_cost = _side(*given)
        self.bilinear = BilinearTerm(left, right, True, n_threads)
        self.bilinear.moved, self.fused = (moved_x, moved_y), None
        self.cost_scale, self._separable = 2.0 * most_x * most_y, (row_cost, col_cost)
        product = float(problem.p.dot(moved_x)) * float(problem.q.dot(moved_y))
        separable = float(problem.p.dot(row_cost)) + float(problem.q.dot(col_cost))
        self._at_product = self.total(separable, self.cost_scale * product, 0.0, 1.0)

    def at_product(self, row_cost, col_cost):
        return self._at_product

    def separable(self, rows, cols):
        return self._separable


def _centered(geometry, masses):
    """Return the matrix, a number near its mean by mass, and the largest distance from it."""
    (low, high), mean = geometry.extremes, geometry.middle_of(masses)
    matrix = np.ascontiguousarray(geometry.by_rows, np.float64)
    return matrix, mean, max(high - mean, mean - low) or 1.0


def _side(matrix, middle, factor, masses, apart, dtype):
    """``(matrix - middle) * factor``, that times the masses, and the separable terms of
    one side, whose middle is so far above that of the other.
    """
    first, cost = np.empty((2, len(masses)))
    made = aligned_empty(matrix.shape, dtype)
    _costs.moments(matrix, middle, masses, first, cost, made, factor)
    cost += 2.0 * apart * first
    cost += apart * apart / 2
    return made, factor * first, cost


def terms_of(problem, method, dtype, n_threads, deadline):
    """The `MatrixTerms` of a problem."""
    plain = (
        max(problem.shape) <= FEW_POINTS
        and problem.loss == SQUARE.name
        and problem.is_plain
        and has_fixed_terms(problem, method)
        and all(isinstance(one, DenseCost) and one.symmetric for one in (problem.x, problem.y))
    )
    if plain:
        return PlainTerms(problem, dtype, n_threads)
    return MatrixTerms(problem, method, dtype, n_threads, deadline)

"""Low-rank approximations of cost matrices, for the first iterations on many points: plans of
early iterations are smooth, so that only the leading eigenvectors of the costs matter.
"""

import numpy as np

from ..utils.tuning import DEFAULT
from .geometry import DenseCost, LowRankCost
from .losses import LOSSES

# Largest part of the costs, in the Frobenius norm of their deviations from the mean, that a
# low-rank warm start may leave out. With .35 default searches on graphs of 1000 to 1500 words and
# hops between 800 cells took two to three times as long; of 20 solves none ended .1 % higher.
MAX_LEFT_OUT = 0.45


class LeadingCost(LowRankCost):
    """Costs less `shift` by the leading eigenvectors of their symmetric matrix; `left_out` is the
    fraction of the Frobenius norm that is missing.
    """

    def __init__(self, cost, shift, n_threads):
        self.n = cost.n
        span = cost.leading_span(n_threads)
        vectors, values, size = span.eigenpairs(shift)
        self.left_out = np.sqrt(max(1.0 - values @ values / size**2, 0.0)) if size else 0.0
        self._set_eigenpairs(vectors, values)
        self.scale *= span.unit


def has_low_rank(problem, shape, tuning=DEFAULT):
    """Return whether a problem of that shape tries low-rank costs."""
    return (
        min(shape) >= tuning.low_rank_from
        and problem.is_plain
        and LOSSES[problem.loss].keeps_factors
        and all(isinstance(side, DenseCost) and side.symmetric for side in (problem.x, problem.y))
    )


def low_rank_problem(problem, n_threads, tuning=DEFAULT):
    """Return the problem with low-rank costs, or None if these leave out too much."""
    sides = problem.x, problem.y
    if not has_low_rank(problem, problem.shape, tuning) or any(x.is_constant for x in sides):
        return None
    shift, costs = sum(side.mean for side in sides) / 2, []
    for side in sides:
        costs.append(LeadingCost(side, shift, n_threads))
        if costs[-1].left_out > MAX_LEFT_OUT:
            return None
    return problem.replace(x=costs[0], y=costs[1])

"""Lower bounds of Gromov-Wasserstein costs that need no plan (Memoli, Foundations of
Computational Mathematics, 2011, section 6), under the squared loss.

Both are transport between distributions on a line. Where quantile functions are
averaged over equal parts of the mass, what is left of the distance between two of them
is a lower bound of it (Jensen), and that of all pairs of spaces is one product.
"""

import numpy as np

from ..utils.types import Float64Array
from .geometry import DenseCost

# Equal parts of the mass.
PARTS = 128


def signature(side: DenseCost, masses: Float64Array) -> Float64Array:
    """Means (2, `PARTS`) of the quantile functions of what costs are, and of what their
    root mean squares from point to point (the eccentricities) are.
    """
    costs = np.asarray(side.matrix, dtype=np.float64)
    spread = np.sqrt(np.square(costs) @ masses)
    pairs = np.multiply.outer(masses, masses)
    return np.stack(
        [_means_of_parts(costs.ravel(), pairs.ravel()), _means_of_parts(spread, masses)]
    )


def lower_bounds(signatures: list[Float64Array]) -> Float64Array:
    """Of the cost of each pair of spaces, (N, N), by their `signature`: the larger of
    Memoli's second and first bound, up to rounding.
    """
    made = np.zeros((len(signatures),) * 2)
    for kind in np.swapaxes(np.asarray(signatures), 0, 1):
        squares = np.square(kind).sum(axis=1)
        found = squares[:, None] + squares - 2 * kind @ kind.T
        # What rounding may have added.
        found -= 1e-12 * (squares[:, None] + squares)
        np.maximum(made, found / kind.shape[1], out=made)
    return made


def _means_of_parts(values, weights):
    """Means of the quantile function over equal parts of the weight."""
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    ends /= ends[-1]
    # The integral of the quantile function, which is linear between these.
    steps = np.diff(ends, prepend=0.0)
    integral = np.concatenate([[0.0], np.cumsum(values[order] * steps)])
    at = np.interp(
        np.linspace(0, 1, PARTS + 1), np.concatenate([[0.0], ends]), integral
    )
    return np.diff(at) * PARTS

"""Lower bounds of Gromov-Wasserstein costs that need no plan (Memoli, Foundations of
Computational Mathematics, 2011, section 6), under the squared loss.

Both bounds are optimal transport between distributions on a line. Quantile functions
averaged over equal parts of the mass have smaller distances (Jensen), so the bounds
stay bounds, and one product of matrices bounds all pairs of spaces.
"""

import numpy as np

from ..utils.types import Float64Array
from .geometry import DenseCost


def signature(side: DenseCost, masses: Float64Array) -> Float64Array:
    """Means (2, 128), over equal parts of the mass, of the quantile functions of the costs and of
    the eccentricities, the root mean square cost of each point.
    """
    costs = np.asarray(side.matrix, dtype=np.float64)
    spread = np.sqrt(np.square(costs) @ masses)
    pairs = np.multiply.outer(masses, masses)
    return np.stack(
        [_means_of_parts(costs.ravel(), pairs.ravel()), _means_of_parts(spread, masses)]
    )


def lower_bounds(signatures: list[Float64Array]) -> Float64Array:
    """Lower bounds (N, N) of the costs of all pairs of spaces by their `signature`: the
    larger of Memoli's first and second bound, up to rounding.
    """
    bounds = np.zeros((len(signatures),) * 2)
    for means in np.swapaxes(np.asarray(signatures), 0, 1):
        squares = np.square(means).sum(axis=1)
        distances = squares[:, None] + squares - 2 * means @ means.T
        # Rounding must not raise a bound.
        distances -= 1e-12 * (squares[:, None] + squares)
        np.maximum(bounds, distances / means.shape[1], out=bounds)
    # Some BLAS libraries round both halves of the product differently.
    return np.minimum(bounds, bounds.T)


def _means_of_parts(values, weights):
    """Means of the quantile function over equal parts of the weight."""
    n_parts = 128
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    ends /= ends[-1]
    # The integral of the quantile function, which is linear between these.
    steps = np.diff(ends, prepend=0.0)
    integral = np.concatenate([[0.0], np.cumsum(values[order] * steps)])
    integrals = np.interp(np.linspace(0, 1, n_parts + 1), np.concatenate([[0.0], ends]), integral)
    return np.diff(integrals) * n_parts

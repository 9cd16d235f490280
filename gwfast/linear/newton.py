"""Newton's steps for the scalings of a kernel, where Sinkhorn's converge slowly.

The marginals of a plan depend on the logarithms of its scalings with the derivative

    [diag(r)  T     ]
    [T'       diag(c)]

(r and c the sums of T), of which one side is eliminated. A step costs what some dozens
of Sinkhorn iterations do on small problems, hundreds on large ones, and two or three of
them reach the rounding of float64 from wherever Sinkhorn has become linear (Brauer,
Clason, Lorenz and Wirth, arXiv:1710.06635).
"""

import numpy as np
from scipy import linalg

from ..utils.precision import DOUBLE

# A step that moves the logarithm of a scaling further is not trusted.
FARTHEST = 3.0
# What a step costs, in Sinkhorn iterations: to begin with, and for each point of the
# smaller side.
PRICE, PRICE_A_POINT = 30.0, 0.3
# Error of the marginals below which steps are tried, and the fraction of it that one
# has to leave at most for another.
TRIED_BELOW, MAX_FACTOR = 0.1, 0.3


class NewtonSteps:
    """Steps in between the Sinkhorn iterations of one solve."""

    def __init__(self, shape, precision):
        # Iterations that take the time of a step, about.
        self.price = PRICE + PRICE_A_POINT * min(shape)
        # Scalings in float32 are no better for them.
        self._on, self._error = precision is DOUBLE, np.inf

    def pays(self, error, rate, tol):
        """Whether a step is cheaper than the iterations that are left at this rate."""
        if not self._on or not error < TRIED_BELOW:
            return False
        if not error <= MAX_FACTOR * self._error:
            self._on = False
            return False
        if not 0.0 < rate < 1.0:
            return rate >= 1.0
        return np.log(tol / error) / np.log(rate) > self.price

    def take(self, kernel, p, q, scalings, error):
        """Take one from scalings with this error; returns how many iterations it stands
        for.
        """
        made = step(kernel, p, q, scalings.u, scalings.v)
        self._on, self._error = made is not None, error
        if self._on:
            scalings.u[:], scalings.v[:] = made
        return 1


def step(kernel, p, q, u, v):
    """Scalings for the masses `p` and `q`, from `u` and `v`, which are near them.

    Returns
    -------
    tuple of ndarrays or None
        None where there is nothing to be trusted.
    """
    n, m = kernel.shape
    if n < m:
        made = step(kernel.T, q, p, v, u)
        return made and made[::-1]
    plan = u[:, None] * kernel * v
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    rows[p == 0], cols[q == 0] = 1.0, 1.0
    if not (rows.min() > 0 and cols.min() > 0):
        return None
    scaled = plan / np.sqrt(rows)[:, None]
    matrix = -(scaled.T @ scaled)
    # What is added to all potentials of a side and taken from the other moves no plan.
    matrix += cols.mean() / m
    matrix[np.diag_indices(m)] += cols
    short, lacking = p - plan.sum(axis=1), q - plan.sum(axis=0)
    try:
        factor = linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    right = lacking - plan.T @ (short / rows)
    by_cols = linalg.cho_solve(factor, right, check_finite=False)
    by_rows = (short - plan @ by_cols) / rows
    far = max(np.abs(by_rows).max(), np.abs(by_cols).max())
    if not far < FARTHEST:
        return None
    return u * np.exp(by_rows), v * np.exp(by_cols)

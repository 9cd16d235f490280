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
# Added to the diagonal of a damped step, as a fraction of the largest mass.
TINY = 1e-18
# What a step costs, in Sinkhorn iterations: to begin with, and for each point of the
# smaller side.
PRICE, PRICE_A_POINT = 30.0, 0.3
# Error of the marginals below which steps are tried, and the fraction of it that one
# has to leave at most for another. A damped one leaves e^-1 where blocks of the plan
# fall apart: there errors fall like those of ``exp(-x) = 0``.
TRIED_BELOW, MAX_FACTOR, MAX_DAMPED_FACTOR = 0.1, 0.3, 0.7


class NewtonSteps:
    """Steps in between the Sinkhorn iterations of one solve."""

    def __init__(self, shape, precision):
        # Iterations that take the time of a step, about.
        self.price = PRICE + PRICE_A_POINT * min(shape)
        # Scalings in float32 are no better for them.
        self._on, self._error, self._damped = precision is DOUBLE, np.inf, False

    def pays(self, error, rate, tol):
        """Whether a step is cheaper than the iterations that are left at this rate."""
        if not self._on or not error < TRIED_BELOW:
            return False
        factor = MAX_DAMPED_FACTOR if self._damped else MAX_FACTOR
        if not error <= factor * self._error:
            self._on = False
            return False
        if not 0.0 < rate < 1.0:
            return rate >= 1.0
        return np.log(tol / error) / np.log(rate) > self.price

    def take(self, kernel, p, q, scalings, error):
        """Take one from scalings with this error; returns how many iterations it stands
        for.
        """
        given = kernel, p, q, scalings.u, scalings.v
        made = None if self._damped else step(*given)
        if made is None:
            self._damped, made = True, step(*given, damped=True)
        self._on, self._error = made is not None, error
        if self._on:
            scalings.u[:], scalings.v[:] = made
        return 1


def step(kernel, p, q, u, v, damped=False):
    """Scalings for the masses `p` and `q`, from `u` and `v`, which are near them.

    Where blocks of the plan have hardly any mass in common the matrix is singular but
    for rounding. A damped step (Levenberg and Marquardt's) moves no scaling far, and
    becomes Newton's as the error vanishes.

    Returns
    -------
    tuple of ndarrays or None
        None where there is nothing to be trusted.
    """
    n, m = kernel.shape
    if n < m:
        made = step(kernel.T, q, p, v, u, damped)
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
    right = lacking - plan.T @ (short / rows)
    if damped:
        _damp(matrix, cols, right)
    try:
        factor = linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    by_cols = linalg.cho_solve(factor, right, check_finite=False)
    by_rows = (short - plan @ by_cols) / rows
    far = max(np.abs(by_rows).max(), np.abs(by_cols).max())
    if not far < FARTHEST:
        return None
    return u * np.exp(by_rows), v * np.exp(by_cols)


def _damp(matrix, cols, right):
    """Make the matrix (m, m) of `step` positive definite, in place."""
    m, at = len(cols), np.diag_indices(len(cols))
    common = cols.mean() / m
    # It is a Laplacian, whose diagonal as a difference of masses is mostly rounding.
    matrix -= common
    matrix[at] = 0.0
    matrix[at] = -matrix.sum(axis=1)
    matrix += common
    matrix[at] += np.abs(right).max() / FARTHEST + TINY * cols.max()

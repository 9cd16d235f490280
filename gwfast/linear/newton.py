"""Newton's steps for the scalings of a kernel, where Sinkhorn's converge slowly.

The marginals of a plan depend on the logarithms of its scalings with the derivative

    [diag(r)  T     ]
    [T'       diag(c)]

(r and c the sums of T), of which one side is eliminated. A step costs what some dozens
of passes do on small problems, hundreds on large ones, and two or three of them reach
the rounding of float64 from wherever Sinkhorn has become linear (Brauer, Clason, Lorenz
and Wirth, arXiv:1710.06635).
"""

import numpy as np
from scipy import linalg

# A step that moves the logarithm of a scaling further is not trusted.
FARTHEST = 3.0
# What a step costs, in passes: to begin with, and for each point of the smaller side.
PASSES, PASSES_A_POINT = 30.0, 0.3


def price(shape):
    """Passes that take the time of a step on a kernel of this shape, about."""
    return PASSES + PASSES_A_POINT * min(shape)


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

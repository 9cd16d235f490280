"""Whether steps contract: what one leaves of a small change of the plan.

At a plan T with both marginals given, a step turns a change dT into

    dT' = Pi (T * (A dT B')) / epsilon,    A = h1(C1), B = h2(C2),

where Pi is the projection, orthogonal in the norm ``sum dT^2 / T``, onto changes that
leave the marginals as they are. In that norm the factor is at most the Frobenius norm

    sqrt(<T, A^2 T B^2'>) / epsilon,

squares entry by entry; and as Pi takes what depends on one index, A and B may be
centered. Where this is below one the plan is no saddle that steps are about to leave.
"""

import numpy as np

from ..kernels import _kernels
from ..kernels._rows import aligned_empty
from ..linear.sinkhorn_solver import in_units
from .matrix_products import multiply

# Bound on that factor up to which small changes are taken to vanish: it is that at one
# plan, and those that steps go on to are near it.
SURE = 0.9


class Contraction:
    """Whether the steps of an outer loop contract where it is, found out once.

    Attributes
    ----------
    bound : float or None
        What was found, once anyone has asked.
    """

    def __init__(self, linearization, epsilon):
        self._linearization, self._epsilon, self.bound = linearization, epsilon, None

    def is_sure(self):
        """Whether small changes are sure to become smaller with each step."""
        if self.bound is None:
            linearization = self._linearization
            given = linearization.cost_scale, linearization.precision
            epsilon = in_units(self._epsilon, *given)
            self.bound = linearization.contraction(epsilon)
        return self.bound <= SURE


def contraction(bilinear, p, q, plan, epsilon, n_threads):
    """A bound on that factor.

    Parameters
    ----------
    bilinear : BilinearTerm
        Of symmetric matrices.
    p, q : (n,) and (m,) float64 ndarrays
        Marginals of the plan.
    plan : (n, m) ndarray
    epsilon : float
        In the units of `bilinear`.
    n_threads : int

    Returns
    -------
    float
    """
    left, right = (
        _centered_squares(matrix, masses)
        for matrix, masses in zip(bilinear.matrices, (p, q), strict=True)
    )
    made = aligned_empty(plan.shape, plan.dtype)
    multiply(plan, right, made, n_threads)
    multiply(left, made, made, n_threads)
    return float(np.sqrt(_kernels.dot(plan, made, n_threads))) / epsilon


def _centered_squares(matrix, masses):
    """Of a symmetric matrix less what depends on its rows or columns alone."""
    mean = matrix @ masses.astype(matrix.dtype)
    less = mean - 0.5 * matrix.dtype.type(mean @ masses)
    made = matrix - less[:, None]
    made -= less
    return np.square(made, out=made)

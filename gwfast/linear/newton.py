"""Newton's steps for the scalings of a kernel, where Sinkhorn's iterations converge slowly.

The marginals of a plan depend on the logarithms of its scalings with the derivative
``[[diag(r), T], [T', diag(c)]]`` (r and c the sums of T); one side is eliminated. Two or
three steps reach the rounding of float64 (Brauer, Clason, Lorenz and Wirth, arXiv:1710.06635). The
linear system is solved by conjugate gradients, one reading of the kernel each, or on small
problems in float64 by a Cholesky factor.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import linalg

from ..utils.deadline import NEVER, Deadline
from ..utils.precision import DOUBLE, FloatPrecision
from ..utils.tuning import DEFAULT
from ..utils.types import Float64Array, FloatArray
from .gibbs_kernel import Kernel, Scalings

# Changes below are of the number of iterations, on 36 linear problems of 60 to 300 points.
#
# Largest move of the logarithm of a scaling by a factor (half: 8 % more), and by conjugate
# gradients (half and twice: 1 % more), which lead where plans move little.
FARTHEST, FARTHEST_ITERATED = 3.0, 20.0
# Error of the marginals above which the problem is not linear, and the fraction of it that a step
# leaves at most if another follows.
NEAR, LEAVES = 0.1, 0.7
# Iterations that take the time of a step by a factor, and more for each point.
PRICE, PRICE_OF_POINT = 30.0, 0.3
# Reads of the kernel by conjugate gradients in a step (half: 2 % more).
MAX_READS = 80


class StepLimits(NamedTuple):
    """The iterations that are left, the error of the marginals to reach, and a deadline."""

    n_iter: int
    tol: float
    deadline: Deadline = NEVER


# Takes a step; returns how many iterations it counts as, 0 where there is nothing to be trusted.
StepFunction: TypeAlias = Callable[[Kernel, Float64Array, Float64Array, Scalings, StepLimits], int]


class NewtonSteps:
    """Steps in between the Sinkhorn iterations of one solve."""

    def __init__(
        self,
        shape: tuple[int, int],
        precision: FloatPrecision,
        iterated_from: int = DEFAULT.iterated_from,
    ) -> None:
        self._n_points, self._error = min(shape), math.inf
        # Functions, with the fraction of the error that a step leaves at most if another follows.
        # Gradients may end early. A damped step leaves e^-1 where blocks of the plan fall apart, an
        # undamped one the square of the error.
        self._steps: list[tuple[StepFunction, float]] = []
        if self._n_points >= iterated_from:
            self._steps.append((_iterated_step, 0.9))
        # Scalings in float32 are no better for factors.
        if precision is DOUBLE:
            damped = functools.partial(_factored_step, damped=True)
            self._steps += (_factored_step, 0.3), (damped, LEAVES)

    def observe(self, error: float) -> None:
        """Note the error of the marginals: where one kind of steps did not lead, the next may."""
        if error < NEAR and len(self._steps) > 1 and not error <= self._steps[0][1] * self._error:
            self._steps, self._error = self._steps[1:], math.inf

    def price(self, error: float) -> float:
        """Return the number of iterations that take the time of the next step, infinite if there
        is none.
        """
        if not (self._steps and error < NEAR and error <= self._steps[0][1] * self._error):
            return math.inf
        if self._steps[0][0] is _iterated_step:
            return MAX_READS
        return PRICE + PRICE_OF_POINT * self._n_points

    def take(
        self,
        kernel: Kernel,
        p: Float64Array,
        q: Float64Array,
        scalings: Scalings,
        error: float,
        limits: StepLimits,
    ) -> int:
        """Take a step; return how many iterations it counts as."""
        self._error, n_iter = error, 0
        while self._steps and not n_iter:
            n_iter = self._steps[0][0](kernel, p, q, scalings, limits)
            if not n_iter:
                self._steps = self._steps[1:]
        return n_iter


def _iterated_step(
    kernel: Kernel, p: Float64Array, q: Float64Array, scalings: Scalings, limits: StepLimits
) -> int:
    """Take a step by conjugate gradients; return how many times the kernel was read.

    The gradients end as near to Newton's step as Newton's step is to the solution, or as the
    tolerance asks, or when the step goes too far, with the part made until then (Steihaug, SIAM
    Journal on Numerical Analysis 1983). `u` is left for the next iteration to make.
    """
    v = scalings.v.astype(np.float64)
    kernel.iterate(p, q, scalings, 1.0, 1, 0.0)
    # The plan of this `u` and the `v` from before has the rows `p`, and these columns.
    sums, work = np.empty(len(p)), scalings.sums
    cols = v * work.values
    weights = _quotient(scalings.u.astype(np.float64) ** 2, p)
    error, step, n_reads = _balanced(q - cols, cols), np.zeros_like(v), 1
    residual, direction, slope = error, np.zeros_like(v), np.inf
    while n_reads < min(MAX_READS, limits.n_iter) and not limits.deadline.passed():
        scaled = _quotient(residual, cols)
        before, slope = slope, _dot(residual, scaled)
        direction = scaled + (slope / before) * direction
        kernel.normal_product(weights, v * direction, sums, scalings)
        n_reads += 1
        image = _balanced(cols * direction - v * work.values, cols)
        curvature = _dot(direction, image)
        if not curvature > 0.0:
            break  # of rounding only
        with np.errstate(divide="ignore"):
            room = (FARTHEST_ITERATED - np.sign(direction) * step) / np.abs(direction)
        length = min(slope / curvature, room.min())
        step = step + length * direction
        residual = residual - length * image
        step_error = max(limits.tol, 0.5 * _dot(step, error))
        # The residual as a fraction of the error of Newton's step (twice: 1 % fewer iterations).
        if length < slope / curvature or np.abs(residual).sum() <= 0.02 * step_error:
            break
    # Twice the error of a step, as a multiple of the error before it (half: 4 % more iterations).
    gain, most = _dot(step, error), 4.0 * np.abs(error).sum()
    if gain > most:
        step *= most / gain
    scalings.v[:] = v * np.exp(step)
    return n_reads


def _balanced(masses: Float64Array, cols: Float64Array) -> Float64Array:
    """Return masses less the rounding of their sum, which would become a constant potential."""
    return masses - (masses.sum() / cols.sum()) * cols


def _quotient(a: FloatArray, b: Float64Array) -> Float64Array:
    """Return ``a / b``, 0 where `b` is."""
    return np.divide(a, b, out=np.zeros_like(b), where=b > 0)


def _dot(a: Float64Array, b: Float64Array) -> float:
    """Return ``a @ b``, which does not depend on the number of threads."""
    return float(np.einsum("i,i->", a, b))


def _factored_step(
    kernel: Kernel,
    p: Float64Array,
    q: Float64Array,
    scalings: Scalings,
    limits: StepLimits,
    damped: bool = False,
) -> int:
    """Take a step by a Cholesky factor; return how many iterations it counts as, 0 where there is
    nothing to be trusted. A damped step (Levenberg and Marquardt's) moves no scaling far, and
    becomes Newton's as the error vanishes.

    Where blocks of the plan have hardly any mass in common the matrix is singular but for rounding.
    """
    u, v = scalings.u, scalings.v
    plan = u[:, None] * kernel.rows * v
    if len(p) < len(q):
        plan, p, q, u, v = plan.T, q, p, v, u
    rows, cols, m = plan.sum(axis=1), plan.sum(axis=0), len(q)
    row_error, column_error = p - rows, q - cols
    rows[p == 0], cols[q == 0] = 1.0, 1.0
    if not (rows.min() > 0 and cols.min() > 0):
        return 0
    scaled, diagonal = plan / np.sqrt(rows)[:, None], np.diag_indices(m)
    matrix, right = -(scaled.T @ scaled), column_error - plan.T @ (row_error / rows)
    more = cols
    if damped:
        # The diagonal of a Laplacian, which as a difference of masses is mostly rounding.
        matrix[diagonal] = 0.0
        matrix[diagonal] = -matrix.sum(axis=1)
        more = np.abs(right).max() / FARTHEST + 1e-18 * cols.max()
    # The constant mode, added to one side and taken from the other, moves no plan.
    matrix += cols.mean() / m
    matrix[diagonal] += more
    try:
        factor = linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return 0
    by_cols = linalg.cho_solve(factor, right, check_finite=False)
    by_rows = (row_error - plan @ by_cols) / rows
    if not max(np.abs(by_rows).max(), np.abs(by_cols).max()) < FARTHEST:
        return 0
    u *= np.exp(by_rows)
    v *= np.exp(by_cols)
    # The next iteration measures the rows only, and the columns are off as well.
    kernel.iterate(*((p, q) if u is scalings.u else (q, p)), scalings, 1.0, 1, 0.0)
    return 2

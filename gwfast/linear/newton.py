"""Newton's steps for the scalings of a kernel, where Sinkhorn's converge slowly.

The marginals of a plan depend on the logarithms of its scalings with the derivative

    [diag(r)  T     ]
    [T'       diag(c)]

(r and c the sums of T), of which one side is eliminated. Where Sinkhorn's iterations converge
linearly two or three steps reach the rounding of float64 (Brauer, Clason, Lorenz and Wirth,
arXiv:1710.06635). The linear system of the other side is solved

- by conjugate gradients: each reads the kernel once, as a Sinkhorn iteration does, and
  where few modes of Sinkhorn are slow few of them are needed;
- by a Cholesky factor of the matrix, which costs what some dozens of iterations do on
  small problems and hundreds on large ones: on small ones, or where modes are many.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg

from ..utils.deadline import NEVER, Deadline
from ..utils.precision import DOUBLE

# Figures here are of 36 linear problems of 60 to 300 points in float32, and of six
# descents in float64: the change of the number of iterations, in the mean.
#
# A step that moves the logarithm of a scaling further is not trusted; conjugate
# gradients go so far and no further. They lead where plans move little: of blocks that
# have hardly any mass in common all scalings move, and no marginal. Half and twice: 8 %
# more and 4 % fewer, 1 % more and 1 % more.
FARTHEST, FARTHEST_ITERATED = 3.0, 20.0
# Error of the marginals from which on the problem is not linear, and the fraction of it that a step
# by a factor has to leave at most for another.
NEAR, LEAVES = 0.1, 0.3
# Iterations that take the time of a step by a factor, and more for each point.
PRICE, PRICE_OF_POINT = 30.0, 0.3
# Reads of the kernel by conjugate gradients in one step, at most; a step costs as many Sinkhorn
# iterations, about. Half: 2 % more, but for one problem twice as many; twice: as many.
MAX_READS = 80
# Points of the smaller side from which on conjugate gradients are tried: with
# fewer, calls take longer than factors. Twice: 25 % more.
ITERATED_FROM = 200
# What conjugate gradients may leave, of the tolerance or of what Newton's step itself
# is wrong by. Half and twice: 1 % more, 1 % fewer.
LEFT = 0.02
# Twice what a step may be wrong by, as a multiple of the error before it, where nothing of what is
# of second order cancels: most of it does. Half and twice: 4 % more, 1 % fewer.
MAX_WRONG = 4.0


class StepLimits(NamedTuple):
    """What ends a step: iterations that are left, the error of the marginals that is
    aimed at, and a deadline.
    """

    n_iter: int
    tol: float
    deadline: Deadline = NEVER


class NewtonSteps:
    """Steps in between the Sinkhorn iterations of one solve."""

    def __init__(self, shape, precision):
        self._n_points = min(shape)
        # Scalings in float32 are no better for factors.
        self._factored = precision is DOUBLE
        self._iterated = self._n_points >= ITERATED_FROM
        self._error, self._damped = np.inf, False

    @property
    def price(self):
        """Iterations that take the time of the next step, about."""
        # The Cholesky factor takes m^3 / 3 multiplications, the matrix n m^2, and an
        # iteration 2 n m at the speed of memory.
        return MAX_READS if self._iterated else PRICE + PRICE_OF_POINT * self._n_points

    def pays(self, error, rate, pace, limits):
        """Whether a step is cheaper than the iterations that are left, where errors
        fall by this rate in each of them, which takes `pace` seconds.
        """
        # Far from the solution nothing is linear.
        if not error < NEAR or limits.n_iter < 2:
            return False
        if not error <= self._max_factor() * self._error:
            if not self._factored:
                return False
            # Where conjugate gradients did not lead, factors may.
            self._factored, self._iterated = self._iterated, False
            self._error = np.inf
        if not (self._iterated or self._factored):
            return False
        if limits.deadline.passed(self.price * pace):
            return False
        if not 0.0 < rate < 1.0:
            return rate >= 1.0
        # No number of iterations reaches a tolerance of zero.
        aim = max(limits.tol, np.finfo(np.float64).tiny)
        return np.log(aim / error) / np.log(rate) > self.price

    def _max_factor(self):
        """Fraction of the error that a step has to leave at most for another."""
        if self._iterated:
            # Conjugate gradients may end early, and the next go on from there.
            return 0.9
        # A damped step leaves e^-1 where blocks of the plan fall apart: there errors
        # fall like those of ``exp(-x) = 0``. Others leave the square of the error.
        return 0.7 if self._damped else LEAVES

    def take(self, kernel, p, q, scalings, error, limits):
        """Take a step from scalings with this error, within limits; returns how many
        iterations the step counts as.
        """
        self._error = error
        if self._iterated:
            return iterated_step(kernel, p, q, scalings, limits)
        given = kernel.rows, p, q, scalings.u, scalings.v
        made = None if self._damped else step(*given)
        if made is None:
            self._damped, made = True, step(*given, damped=True)
        self._factored = made is not None
        if self._factored:
            scalings.u[:], scalings.v[:] = made
            # The next iteration measures the rows only, and the columns are off as well.
            kernel.iterate(p, q, scalings, 1.0, 1, 0.0)
        return 2


def iterated_step(kernel, p, q, scalings, limits):
    """Take a step by conjugate gradients; returns how many times the kernel was read.

    The gradients end as near to Newton's step as that is to the solution, or as the tolerance
    asks; or where the step goes too far: the part that is made until then leads there (Steihaug,
    SIAM Journal on Numerical Analysis 1983). `u` is left for the next iteration to make.
    """
    v = scalings.v.astype(np.float64)
    kernel.iterate(p, q, scalings, 1.0, 1, 0.0)
    # The plan of this `u` and the `v` from before has the rows `p`, and these columns.
    sums, work = np.empty(len(p)), scalings.sums
    cols = v * work.values
    weights = _quotient(scalings.u.astype(np.float64) ** 2, p)
    lacking, moved, n_reads = _balanced(q - cols, cols), np.zeros_like(v), 1
    left, direction, slope = lacking, np.zeros_like(v), np.inf
    most = min(MAX_READS, limits.n_iter)
    while n_reads < most and not limits.deadline.passed():
        scaled = _quotient(left, cols)
        before, slope = slope, _dot(left, scaled)
        direction = scaled + (slope / before) * direction
        kernel.normal_product(weights, v * direction, sums, scalings)
        n_reads += 1
        image = _balanced(cols * direction - v * work.values, cols)
        curvature = _dot(direction, image)
        if not curvature > 0.0:
            break  # of rounding only
        length = min(slope / curvature, _room(moved, direction))
        moved = moved + length * direction
        left = left - length * image
        wrong = max(limits.tol, 0.5 * _dot(moved, lacking))
        if length < slope / curvature or np.abs(left).sum() <= LEFT * wrong:
            break
    gain, most = _dot(moved, lacking), MAX_WRONG * np.abs(lacking).sum()
    if gain > most:
        moved *= most / gain
    scalings.v[:] = v * np.exp(moved)
    return n_reads


def _balanced(masses, cols):
    """Without what rounding has left of a sum that is nothing: of what is added to all
    potentials of a side, which moves no plan, it would make a lot.
    """
    return masses - (masses.sum() / cols.sum()) * cols


def _room(moved, direction):
    """How far along a direction nothing has moved further than is trusted."""
    with np.errstate(divide="ignore"):
        room = (FARTHEST_ITERATED - np.sign(direction) * moved) / np.abs(direction)
    return room.min()


def _quotient(a, b):
    """``a / b``, 0 where `b` is."""
    return np.divide(a, b, out=np.zeros_like(b), where=b > 0)


def _dot(a, b):
    """``a @ b``, which does not depend on the number of threads."""
    return float(np.einsum("i,i->", a, b))


def step(kernel, p, q, u, v, damped=False):
    """Scalings for the masses `p` and `q`, from `u` and `v`, which are near them.

    Where blocks of the plan have hardly any mass in common the matrix is singular but for
    rounding. A damped step (Levenberg and Marquardt's) moves no scaling far, and becomes Newton's
    as the error vanishes. None is returned where there is nothing to be trusted.
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
    matrix, diagonal, more = -(scaled.T @ scaled), np.diag_indices(m), cols
    short, lacking = p - plan.sum(axis=1), q - plan.sum(axis=0)
    right = lacking - plan.T @ (short / rows)
    if damped:
        # The matrix is a Laplacian: its diagonal as a difference of masses would be
        # mostly rounding. The last term is for a right side that is zero.
        matrix[diagonal] = 0.0
        matrix[diagonal] = -matrix.sum(axis=1)
        more = np.abs(right).max() / FARTHEST + 1e-18 * cols.max()
    # What is added to all potentials of a side and taken from the other moves no plan.
    matrix += cols.mean() / m
    matrix[diagonal] += more
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

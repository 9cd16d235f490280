"""Low-rank approximations of cost matrices, for the low-rank warm start: the first
iterations on many points at a fraction of the price.

Plans of early iterations are smooth, so that only the leading eigenvectors of the costs
matter; distances have few of these. The last iterations use the matrices themselves.
"""

import numpy as np
import scipy.linalg

from ..kernels import _costs, _kernels, _products
from ..kernels._rows import Panels, Shifted, aligned_empty
from .factors import LowRankCost
from .geometry import DenseCost
from .losses import LOSSES

# Eigenvectors kept, and more columns of the span that they are found in, the last of
# which are mostly noise: distances in the graph of 1000 words less 128 of 128 are .256
# of these distances, less 96 .259, less 64 .279 (with exact eigenvectors .199, .227 and
# .267). Without more, 32 eigenvectors of 600 words made three fifths of the updates.
RANK, MORE = 96, 32
SPAN = RANK + MORE
# Points a side below which products of the whole matrices are as fast.
MIN_POINTS = 600
# Largest part of the costs, in the Frobenius norm of their deviations from the mean, that a
# low-rank warm start may leave out. With .35 default searches on graphs of 1000 to 1500 words and
# hops between 800 cells took two to three times as long as with .45; of 20 solves none ended .1 %
# higher with .45. At .48 random costs would pass, beside costs of another mean.
MAX_LEFT_OUT = 0.45
# Replaces a length of zero in a quotient.
TINY = 1e-30


class LeadingCost(LowRankCost):
    """Costs less `shift` by the leading eigenvectors of their symmetric matrix;
    `left_out` is the fraction of the Frobenius norm that is missing.
    """

    def __init__(self, cost, shift, n_threads):
        self.n = cost.n
        span = leading_span(cost, n_threads)
        vectors, values, size = span.eigenpairs(shift)
        found = np.sqrt(values @ values)
        self.left_out = np.sqrt(max(1.0 - (found / size) ** 2, 0.0)) if size else 0.0
        self._set_eigenpairs(vectors, values)
        self.scale *= span.unit

    def square_times(self, p):
        # In float32: for a warm start.
        phi, signs = self.features, np.diagonal(self.signature).astype(np.float32)
        gram = signs[:, None] * (phi.T @ (phi * p[:, None].astype(np.float32))) * signs
        return np.einsum("ij,ij->i", phi @ gram, phi, dtype=np.float64)


class LeadingSpan:
    """The span of the leading eigenvectors of symmetric costs and of the vector of
    ones, which holds those of the costs less any number.

    Attributes
    ----------
    unit : float
        Unit of the costs.
    """

    def __init__(self, cost, n_threads):
        mean, (low, high) = cost.mean, cost.extremes
        self.unit, self._mean = max(high - mean, mean - low) or 1.0, mean
        matrix = cost.shifted(mean, 1.0 / self.unit)
        given = matrix, SPAN - 1, n_threads
        basis = np.hstack([np.ones((cost.n, 1), np.float32), _random_basis(*given)])
        # The vector of ones comes first.
        self._basis = _orthonormal(basis)
        self._core = _restricted(matrix, self._basis, n_threads)
        self._square = square_lengths(matrix, n_threads).sum()

    def eigenpairs(self, shift, rank=RANK):
        """The leading eigenpairs of the costs less `shift`, in `unit`: float32 vectors
        (n, rank) and float64 values (rank,); and the Frobenius norm of these costs.
        """
        core, n = self._core.copy(), len(self._basis)
        more = (self._mean - shift) / self.unit
        core[0, 0] += n * more
        values, vectors = _leading(core, rank)
        size = np.sqrt(self._square + (n * more) ** 2)
        return self._times(vectors), values, size

    def centered(self):
        """Eigenvalues (SPAN,) in float64 and eigenvectors (n, SPAN) in float32 of the
        costs centered along both axes.
        """
        core = self._core.copy()
        core[0] = core[:, 0] = 0.0
        values, vectors = np.linalg.eigh(core)
        return values * self.unit, self._times(vectors)

    def _times(self, vectors):
        return self._basis @ vectors.astype(np.float32)


def leading_span(cost, n_threads):
    """The `LeadingSpan` of a symmetric `DenseCost`, cached by it."""
    return cost.once("leading span", lambda: LeadingSpan(cost, n_threads))


def has_low_rank(problem, shape):
    """Whether a problem of that shape tries low-rank costs."""
    sides = problem.x, problem.y
    return (
        min(shape) >= MIN_POINTS
        and problem.is_plain
        and LOSSES[problem.loss].keeps_factors
        and all(isinstance(side, DenseCost) and side.symmetric for side in sides)
    )


def low_rank_problem(problem, n_threads):
    """The problem with low-rank costs, or None where these leave out too much."""
    sides = problem.x, problem.y
    if not has_low_rank(problem, problem.shape):
        return None
    if any(side.is_constant for side in sides):
        return None
    shift = sum(side.mean for side in sides) / 2
    made = []
    for side in sides:
        made.append(LeadingCost(side, shift, n_threads))
        if made[-1].left_out > MAX_LEFT_OUT:
            return None
    return problem.with_geometries(*made)


def leading_eigenpairs(matrix, rank, n_threads):
    """Approximate leading eigenvectors (n, rank) in float32 and eigenvalues (rank,) in
    float64 of a symmetric matrix with entries of order one, an array or `Shifted`.
    """
    if not isinstance(matrix, Shifted):
        matrix = np.asarray(matrix, np.float32)
    basis = _orthonormal(_random_basis(matrix, rank + MORE, n_threads))
    values, vectors = _leading(_restricted(matrix, basis, n_threads), rank)
    return np.ascontiguousarray(basis @ vectors.astype(np.float32)), values


def _leading(matrix, rank):
    """Eigenvalues (rank,) and eigenvectors (n, rank), those of largest size first."""
    values, vectors = np.linalg.eigh(matrix)
    leading = np.argsort(-np.abs(values), kind="stable")[:rank]
    return values[leading], vectors[:, leading]


def _random_basis(matrix, rank, n_threads):
    """Columns that nearly span so many leading eigenvectors: a power of the matrix
    times random columns (Halko, Martinsson and Tropp, SIAM Review 2011).
    """
    # Uniform numbers serve as well as normal ones, and take a fifth of the time.
    basis = np.random.default_rng(0).random((len(matrix), rank), dtype=np.float32)
    basis -= 0.5
    for _ in range(2):
        basis = _times(matrix, basis, n_threads)
        basis /= np.maximum(np.linalg.norm(basis, axis=0), TINY)
    return basis


def _orthonormal(basis):
    # SciPy's stays in float32, NumPy's does not.
    given = dict(mode="economic", overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(scipy.linalg.qr(basis, **given)[0])


def _restricted(matrix, basis, n_threads):
    """The matrix restricted to orthonormal columns (Rayleigh-Ritz), in float64."""
    core = basis.T @ _times(matrix, basis, n_threads)
    return (core + core.T).astype(np.float64) / 2


def square_lengths(matrix, n_threads):
    """Squared lengths of the rows of an array or `Shifted`, float64."""
    shift, factor = 0.0, 1.0
    if isinstance(matrix, Shifted):
        matrix, shift, factor = matrix.matrix, matrix.shift, matrix.factor
    n, m = matrix.shape
    sums, squares = np.empty((2, n))
    _costs.moments(matrix, shift, np.ones(m), sums, squares, n_threads=n_threads)
    return factor**2 * squares


def stored(rows, n_threads):
    """Rows as an array; those of `Shifted` are computed."""
    if not isinstance(rows, Shifted):
        return rows
    made = aligned_empty(rows.shape)
    _kernels.copy_rows(rows, made, n_threads)
    return made


def _times(matrix, vectors, n_threads):
    made = aligned_empty(vectors.shape)
    panels = Panels(np.ascontiguousarray(vectors), n_threads=n_threads)
    _products.matmul(matrix, panels, made, n_threads=n_threads)
    return made

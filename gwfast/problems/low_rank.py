"""Matrices of costs by their largest eigenvalues: what the first iterations on many
points need of them, at a fraction of the price: the low-rank warm start.

Plans of early iterations are smooth, and what they see of costs between points are the
leading eigenvectors; distances have few that matter. Where a problem ends is then for
the matrices themselves to say.
"""

import numpy as np
import scipy.linalg

from ..kernels import _kernels, _products
from ..kernels._rows import Panels, Shifted, aligned_empty
from ..utils.blocks import row_blocks
from .factors import LowRankCost
from .geometry import DenseCost
from .losses import LOSSES

# Eigenvectors kept.
RANK = 128
# Points a side below which products of the whole matrices are as fast.
MIN_POINTS = 600
# What is left out of the costs is at most this fraction of their deviations from their
# mean, in the Frobenius norm; otherwise there is no low-rank warm start.
MAX_LEFT_OUT = 0.35
# In place of a length of zero.
TINY = 1e-30


class LeadingCost(LowRankCost):
    """The leading eigenvectors of a symmetric matrix of costs. Of the costs, less
    `shift`, these do not make up the fraction `left_out`, in the Frobenius norm.
    """

    def __init__(self, cost, shift, n_threads):
        self.n = cost.n
        span = leading_span(cost, n_threads)
        vectors, values, size = span.eigenpairs(shift)
        found = np.sqrt(values @ values)
        self.left_out = np.sqrt(max(1.0 - (found / size) ** 2, 0.0)) if size else 0.0
        self._set_eigenpairs(vectors, values)
        self.scale *= span.unit


class LeadingSpan:
    """What the leading eigenvectors of symmetric costs span, and the vector of ones:
    of the costs less any number.

    Attributes
    ----------
    unit : float
        Of the costs.
    """

    def __init__(self, cost, n_threads):
        mean, (low, high) = cost.mean, cost.extremes
        self.unit, self._mean = max(high - mean, mean - low) or 1.0, mean
        matrix = cost.shifted(mean, 1.0 / self.unit)
        basis = _random_basis(matrix, RANK - 1, n_threads)
        vectors, values = _eigenpairs_in(_with_ones(basis), matrix, n_threads)
        order = np.argsort(-np.abs(values), kind="stable")
        self._vectors, self._values = vectors[:, order], values[order]
        self._square = square_lengths(matrix, n_threads).sum()

    def eigenpairs(self, shift):
        """Those of the costs less `shift`, in their unit: float32 vectors (n, RANK) and
        float64 values (RANK,); and the Frobenius norm of all.
        """
        more = (self._mean - shift) / self.unit
        ones = self._vectors.sum(axis=0, dtype=np.float64)
        core = np.diag(self._values) + more * np.outer(ones, ones)
        values, vectors = np.linalg.eigh(core)
        size = np.sqrt(self._square + (len(self._vectors) * more) ** 2)
        return self._vectors @ vectors.astype(np.float32), values, size

    def basis(self, rank):
        """Orthonormal columns (n, rank) of ones and of the largest eigenvectors."""
        return _with_ones(self._vectors[:, : rank - 1])

    def centered(self):
        """Float64 values (RANK,) and float32 vectors (n, RANK) of the costs centered
        along both axes.
        """
        ones = self._vectors.sum(axis=0, dtype=np.float64) / len(self._vectors) ** 0.5
        away = np.eye(len(ones)) - np.outer(ones, ones)
        values, vectors = np.linalg.eigh(away @ (self._values[:, None] * away))
        return values * self.unit, self._vectors @ vectors.astype(np.float32)


def leading_span(cost, n_threads):
    """The `LeadingSpan` of a symmetric `DenseCost`, which is made once."""
    return cost.once("leading span", lambda: LeadingSpan(cost, n_threads))


def has_low_rank(problem, shape):
    """Whether low-rank costs are looked for, with that many points."""
    sides = problem.x, problem.y
    return (
        min(shape) >= MIN_POINTS
        and problem.is_plain
        and LOSSES[problem.loss].keeps_factors
        and all(isinstance(side, DenseCost) and side.symmetric for side in sides)
    )


def low_rank_problem(problem, n_threads):
    """The problem with low-rank costs, or None where these would not do."""
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


def leading_eigenpairs(matrix, rank, n_threads, span=None):
    """Float32 vectors (n, rank) and float64 values (rank,), about the largest of a
    symmetric matrix with entries of order one, an array or `Shifted`: of those that the
    `LeadingSpan` of the same costs, in whatever units, has, if that is given.
    """
    if not isinstance(matrix, Shifted):
        matrix = np.asarray(matrix, np.float32)
    if span is None:
        basis = _orthonormal(_random_basis(matrix, rank, n_threads))
    else:
        basis = span.basis(rank)
    return _eigenpairs_in(basis, matrix, n_threads)


def _random_basis(matrix, rank, n_threads):
    """Columns that about span so many leading eigenvectors: a power of the matrix on
    random ones (Halko, Martinsson and Tropp, SIAM Review 2011).
    """
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((len(matrix), rank), dtype=np.float32)
    for _ in range(2):
        basis = _times(matrix, basis, n_threads)
        basis /= np.maximum(np.linalg.norm(basis, axis=0), TINY)
    return basis


def _with_ones(basis):
    """Orthonormal columns that span these and ones, which come first."""
    return _orthonormal(np.hstack([np.ones((len(basis), 1), np.float32), basis]))


def _orthonormal(basis):
    # In float32, as NumPy's does not.
    given = dict(mode="economic", overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(scipy.linalg.qr(basis, **given)[0])


def _eigenpairs_in(basis, matrix, n_threads):
    """The best that orthonormal columns span (Rayleigh and Ritz)."""
    core = basis.T @ _times(matrix, basis, n_threads)
    values, vectors = np.linalg.eigh((core + core.T).astype(np.float64) / 2)
    return np.ascontiguousarray(basis @ vectors.astype(np.float32)), values


def square_lengths(matrix, n_threads):
    """Of the rows of a matrix, an array or `Shifted`, float64."""
    lengths = np.empty(len(matrix))
    for rows in row_blocks(*matrix.shape):
        some = stored(matrix[rows], n_threads)
        lengths[rows] = np.einsum("ij,ij->i", some, some, dtype=np.float64)
    return lengths


def stored(rows, n_threads):
    """An array as it is, or `Shifted` as one."""
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

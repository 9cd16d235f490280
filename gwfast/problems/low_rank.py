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
        low, high = cost.extremes
        unit = max(high - shift, shift - low) or 1.0
        matrix = cost.shifted(shift, 1.0 / unit)
        vectors, values = leading_eigenpairs(matrix, RANK, n_threads)
        size = np.sqrt(square_lengths(matrix, n_threads).sum())
        found = np.sqrt(values @ values)
        self.left_out = np.sqrt(max(1.0 - (found / size) ** 2, 0.0)) if size else 0.0
        self._set_eigenpairs(vectors, values)
        self.scale *= unit


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
    shift = sum(float(side.matrix.mean(dtype=np.float64)) for side in sides) / 2
    made = []
    for side in sides:
        made.append(LeadingCost(side, shift, n_threads))
        if made[-1].left_out > MAX_LEFT_OUT:
            return None
    return problem.with_geometries(*made)


def leading_eigenpairs(matrix, rank, n_threads):
    """Float32 vectors (n, rank) and float64 values (rank,), about the largest of a
    symmetric matrix with entries of order one, an array or `Shifted`, by a power of it
    on random vectors (Halko, Martinsson and Tropp, SIAM Review 2011).
    """
    if not isinstance(matrix, Shifted):
        matrix = np.asarray(matrix, np.float32)
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((len(matrix), rank), dtype=np.float32)
    for _ in range(2):
        basis = _times(matrix, basis, n_threads)
        basis /= np.maximum(np.linalg.norm(basis, axis=0), TINY)
    # In float32, as NumPy's does not.
    given = dict(mode="economic", overwrite_a=True, check_finite=False)
    basis, _ = scipy.linalg.qr(basis, **given)
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

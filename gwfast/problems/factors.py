"""Costs given by factors of the caller's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..utils.labels import in_order, labels_of
from ..utils.types import Float64Array
from ..utils.validation import as_matrix
from .geometry import PointCloud, read_only, within_range

# Eigenvalues below this fraction of the largest are left out: rounding of float32.
NEGLIGIBLE = 1e-7
# How far the costs may be from symmetric, as a fraction of them.
ASYMMETRIC = 1e-6


class LowRankCost(PointCloud):
    """Symmetric costs ``C = u @ v.T`` by their factors; the costs are never formed.

    Whatever a `PointCloud` does for its metrics this does for any costs of low rank
    (kernels by random features, commute times by eigenvectors, distances by landmarks):
    a problem of two takes O(n r) memory beside the plan. Where `u` and `v` have r
    columns, so have the features, or fewer.

    Parameters
    ----------
    u : array-like of shape (n, r)
    v : array-like of shape (n, r) or None, default=None
        None is `u`.

    Attributes
    ----------
    n, features, signature, scale
        See `PointCloud`.

    Raises
    ------
    ValueError
        If shapes differ, or the costs are not symmetric.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> cost = gwfast.LowRankCost(np.hstack([x, np.ones((50, 1))]))  # 1 + <x_i, x_k>
    >>> cost.to_dense().matrix.shape
    (50, 50)
    """

    metric = None

    def __init__(self, u: ArrayLike, v: ArrayLike | None = None) -> None:
        self.labels = labels_of(u)
        v = in_order(v, "v", self.labels, labels_of(u, 1), of="u")
        u = within_range(as_matrix(u, "u"), "u").astype(np.float64)
        self.n, rank = u.shape
        if v is None:
            basis, right = np.linalg.qr(u)
            core = right @ right.T
        else:
            v = within_range(as_matrix(v, "v", shape=u.shape), "v").astype(np.float64)
            # In a basis of all columns, where the costs are a small matrix.
            basis, both = np.linalg.qr(np.hstack([u, v]))
            core = both[:, :rank] @ both[:, rank:].T
            off = np.linalg.norm(core - core.T)
            if off > ASYMMETRIC * np.linalg.norm(core):
                raise ValueError(
                    "u and v must have a symmetric product u @ v.T, got one that "
                    f"differs from its transpose by {off:.3g}; as a matrix it may be "
                    "any"
                )
        values, vectors = np.linalg.eigh((core + core.T) / 2)
        self._set_eigenpairs(basis @ vectors, values)

    def _set_eigenpairs(self, vectors: NDArray[Any], values: Float64Array) -> None:
        """Take eigenvectors and eigenvalues, but of what is negligible."""
        sizes = np.abs(values)
        largest = float(sizes.max()) or 1.0
        kept = sizes >= min(NEGLIGIBLE * largest, float(sizes.max()))
        values, vectors = values[kept], vectors[:, kept]
        # Entries of order one for the largest eigenvalue, as of points.
        lengths = np.sqrt(np.abs(values) * (self.n / largest)).astype(vectors.dtype)
        self.features = np.ascontiguousarray(vectors * lengths, dtype=np.float32)
        self.scale = largest / self.n
        self.signature = read_only(np.diag(np.sign(values)))

    def __repr__(self) -> str:
        rank = self.features.shape[1]
        return f"{type(self).__name__}({self.n} points, rank {rank})"

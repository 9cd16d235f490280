"""Costs by factors, which are never formed, and the cosine similarities of all rows."""

from __future__ import annotations

import copy
import functools
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import linalg

from ..kernels import _products
from ..kernels._products import Panels
from ..kernels._rows import aligned_empty
from ..kernels.threads import resolve_n_threads
from ..utils.blocks import row_blocks
from ..utils.labels import Labels, in_order, labels_of
from ..utils.types import Float32Array, Float64Array
from ..utils.validation import as_matrix, one_of
from .dense_cost import ROUNDING, check_extremes
from .dense_cost import DenseCost as DenseCost

Metric: TypeAlias = Literal["cosine", "dot", "sqeuclidean", "euclidean"]
# A statistic of all costs, to divide them by.
Statistic: TypeAlias = Literal["max", "mean", "median"]
SAMPLED = 2000  # points that medians are taken of, at least if there are more


def within_range(x: NDArray[Any], name: str) -> NDArray[Any]:
    """Return `x` if fourth powers of its entries (squared squared distances) stay finite."""
    check_extremes(float(x.min()), float(x.max()), name)
    return x


def unit_rows(x: ArrayLike, name: str, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return `x` with rows of length one; raise a ValueError naming rows of zeros."""
    x = np.asarray(x)
    # Dividing by the largest entry first keeps the squares of extreme rows within range.
    top = np.maximum(x.max(axis=1), -x.min(axis=1)).astype(np.float64)[:, None]
    zero = np.flatnonzero(top == 0)
    if zero.size:
        shown = ", ".join(map(str, zero[:10])) + (", ..." if zero.size > 10 else "")
        raise ValueError(
            f"{name} must have no zero rows to be compared by angle, got {zero.size} (row {shown})"
        )
    unit = np.empty(x.shape, dtype)
    for rows in row_blocks(*x.shape):
        block = x[rows] / top[rows]
        unit[rows] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return unit


def center_of(x: Float64Array) -> Float64Array:
    """Return the mean of points, or a median where few far points set the mean."""
    mean, sample = x.mean(axis=0), x[:: max(len(x) // SAMPLED, 1)]
    median = np.median(sample, axis=0)
    spread = np.median(np.abs(sample - median))
    return median if np.abs(mean - median).max() > 100.0 * spread else mean


def radius_of(largest: float, d: int) -> float:
    """Return what points of `d` coordinates up to this magnitude are divided by."""
    return float(largest * np.sqrt(d)) if largest > 0 else 1.0


class PointCloud:
    """Intra-space costs of the rows of `x`, kept as factors.

    The costs are ``C = features @ signature @ features.T`` and are never formed; a problem of two
    point clouds takes O(n d) memory beside the plan. Only the metric "euclidean" has no factors:
    a problem takes its matrix.

    Parameters
    ----------
    x : array-like of shape (n, d)
        Points, one a row.
    metric : {"cosine", "sqeuclidean", "dot", "euclidean"}, default="cosine"
        "cosine" is the similarity ``cos(x_i, x_k)``: under the squared loss the same problem as
        the distance ``1 - cos``. "sqeuclidean" is ``|x_i - x_k|^2``, "dot" the inner product,
        "euclidean" the distance ``|x_i - x_k|``; problems make a float32 matrix of it.

    Attributes
    ----------
    n : int
        Number of points.
    has_factors : bool
        Whether costs are the product above; False for the metric "euclidean".
    features : (n, r) float32 ndarray
        Scaled so that costs are of order one in units of `scale`.
    signature : (r, r) float64 ndarray
    scale : float
    labels : tuple or None
        Index of a DataFrame of pandas.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> cloud = gwfast.PointCloud(x, "sqeuclidean")
    >>> cloud.n, cloud.has_factors
    (50, True)
    """

    symmetric = True
    metric: Metric | None
    n: int
    features: Float32Array
    signature: Float64Array
    scale: float
    labels: Labels = None
    # Points (N, d) of the whole space, which begin with the points of the cloud, or None.
    population: NDArray[Any] | None = None

    def __init__(self, x: ArrayLike, metric: Metric = "cosine") -> None:
        self.labels = labels_of(x)
        x = within_range(as_matrix(x, "x"), "x")
        self.metric = one_of(metric, "metric", get_args(Metric))
        self.n, radius = len(x), 1.0
        if metric == "cosine":
            x = unit_rows(x, "x")
        else:
            x = x.astype(np.float64)
            if metric != "dot":
                x -= center_of(x)  # distances do not see the shift; float32 products do
            radius = radius_of(np.abs(x).max(), x.shape[1])
            x /= radius
        self.scale, signature = radius if metric == "euclidean" else radius**2, np.eye(x.shape[1])
        if metric == "sqeuclidean":
            # |x_i - x_k|^2 = s_i + s_k - 2 x_i x_k: the signature couples two more features.
            s = (x**2).sum(axis=1, keepdims=True)
            x = np.hstack([x, s, np.ones_like(s)])
            signature = linalg.block_diag(-2.0 * signature, [[0.0, 1.0], [1.0, 0.0]])
        self.features = np.ascontiguousarray(x, dtype=np.float32)
        self._set_signature(signature)

    @staticmethod
    def from_factors(u: ArrayLike, v: ArrayLike | None = None) -> PointCloud:
        """Return symmetric costs ``u @ v.T`` by their factors; the costs are never formed.

        Parameters
        ----------
        u : array-like of shape (n, r)
        v : array-like of shape (n, r) or None, default=None
            None is `u`.

        Raises
        ------
        ValueError
            If shapes differ, or the costs are not symmetric.

        Examples
        --------
        >>> import numpy as np, gwfast
        >>> x = np.random.default_rng(0).normal(size=(50, 3))
        >>> gwfast.PointCloud.from_factors(np.hstack([x, np.ones((50, 1))]))  # 1 + <x_i, x_k>
        PointCloud(50 points, rank 4)
        """
        return LowRankCost(u, v)

    def _set_signature(self, signature: Float64Array) -> None:
        signature.flags.writeable = False
        self.signature = signature

    def __repr__(self) -> str:
        return f"PointCloud({self.n} points, {self.metric})"

    @property
    def has_factors(self) -> bool:
        return self.metric != "euclidean"

    @functools.cached_property
    def signs(self) -> Float64Array | None:
        """Diagonal (r,) of the signature; None if the signature couples features."""
        diagonal = np.diagonal(self.signature).copy()
        return diagonal if (np.diag(diagonal) == self.signature).all() else None

    @property
    def rank(self) -> int:
        """Number of features."""
        return self.features.shape[1]

    @property
    def n_coordinates(self) -> int:
        """Columns of `points`."""
        return self.rank - 2 * (self.metric == "sqeuclidean")

    @property
    def points(self) -> Float32Array:
        """Features (n, d) whose inner products are similarities."""
        return self.features[:, : self.n_coordinates]

    @property
    def is_constant(self) -> bool:
        """True if all costs are equal up to rounding."""
        return bool(np.ptp(self.features, axis=0).max() <= ROUNDING)

    def square_times(self, p: Float64Array) -> Float64Array:
        """Return ``(C * C) @ p`` in units of ``scale**2``, float64, without forming C."""
        if not self.has_factors:
            return self.to_dense().square_times(p) / self.scale**2
        # Row i is phi_i' G phi_i with G the weighted Gram matrix of the features.
        phi = self.features.astype(np.float64)
        gram = self.signature @ (phi.T * p) @ phi @ self.signature
        return np.einsum("ij,ij->i", phi @ gram, phi)

    def take(self, rows: NDArray[Any]) -> PointCloud:
        """Return the cloud of some rows, in the same units and features."""
        part = copy.copy(self)
        part.population = None
        part.features = np.ascontiguousarray(self.features[rows])
        part.n = len(part.features)
        return part

    def neutral(self, masses: Float64Array) -> PointCloud:
        """Return the cloud with points without mass moved onto a point that has mass, which may
        change the unit; `self` if all points have mass.
        """
        if masses.all():
            return self
        rows = np.where(masses > 0, np.arange(self.n), np.flatnonzero(masses > 0)[0])
        part, d = self.take(rows), self.n_coordinates
        if self.metric != "cosine":
            radius = radius_of(float(np.abs(part.points).max()), d)
            part.features[:, :d] /= np.float32(radius)
            part.features[:, d : d + 1] /= np.float32(radius) ** 2
            part.scale *= radius if self.metric == "euclidean" else radius**2
        return part

    def scaled_by(self, statistic: Statistic) -> PointCloud:
        """Return the cloud with its costs divided by a statistic of them.

        Parameters
        ----------
        statistic : {"mean", "median", "max"}
            Over all pairs of points (the median: of 2000 points, spread evenly), a point with
            itself included; of ``1 - cos`` for the metric "cosine".
        """
        one_of(statistic, "statistic", get_args(Statistic))
        sign, added = (-1.0, 1.0) if self.metric == "cosine" else (1.0, 0.0)
        blocks = (sign * self._costs(rows) for rows in row_blocks(self.n, self.n))
        if statistic == "median":
            sample = np.linspace(0, self.n - 1, min(self.n, SAMPLED)).astype(np.int64)
            value = float(np.median(sign * self.take(sample)._costs(slice(None), np.float64)))
        elif statistic == "mean":
            value = sum(float(block.sum(dtype=np.float64)) for block in blocks) / self.n**2
        else:
            value = max(float(block.max()) for block in blocks)
        if not added + value > 0:
            raise ValueError(
                f"{statistic} of the costs must be above 0 to scale by, "
                f"got {self.scale * (added + value):.3g}"
            )
        scaled = copy.copy(self)
        scaled.scale = 1.0 / (added + value)
        return scaled

    def _costs(self, rows: slice, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Return some rows of the costs, in units of `scale`."""
        phi = self.features.astype(dtype if self.has_factors else np.float64, copy=False)
        products = phi[rows] @ (phi @ self.signature.astype(phi.dtype)).T
        if self.has_factors:
            return products
        squares = np.einsum("ij,ij->i", phi, phi)
        block = squares[rows, None] + squares - 2.0 * products
        return np.sqrt(np.maximum(block, 0.0, out=block), out=block)

    def to_dense(self) -> DenseCost:
        """Return the costs as a `DenseCost`, built block by block."""
        # Only costs that float32 has no room for take twice the room.
        cost = np.empty((self.n, self.n), np.float32 if 1e-30 < self.scale < 1e30 else np.float64)
        for rows in row_blocks(self.n, self.n):
            cost[rows] = self._costs(rows)
        if self.metric in ("sqeuclidean", "euclidean"):
            np.maximum(cost, 0.0, out=cost)
            np.fill_diagonal(cost, 0.0)
        cost *= self.scale
        return DenseCost.from_checked(cost, "x", symmetric=True, labels=self.labels)


Geometry: TypeAlias = PointCloud | DenseCost


class LowRankCost(PointCloud):
    """The costs of `PointCloud.from_factors`."""

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
            # In a basis of all columns the costs are a small matrix.
            basis, both = np.linalg.qr(np.hstack([u, v]))
            core = both[:, :rank] @ both[:, rank:].T
            asymmetry = np.linalg.norm(core - core.T)
            if asymmetry > ROUNDING * np.linalg.norm(core):
                raise ValueError(
                    "u and v must have a symmetric product u @ v.T, got one that differs from its "
                    f"transpose by {asymmetry:.3g}; as a matrix it may be any"
                )
        values, vectors = np.linalg.eigh((core + core.T) / 2)
        self._set_eigenpairs(basis @ vectors, values)

    def _set_eigenpairs(self, vectors: NDArray[Any], values: Float64Array) -> None:
        """Take eigenvectors and eigenvalues, but for the rounding of float32."""
        sizes = np.abs(values)
        largest = float(sizes.max()) or 1.0
        kept = sizes >= min(1e-7 * largest, float(sizes.max()))
        values, vectors = values[kept], vectors[:, kept]
        # Entries of order one for the largest eigenvalue, as of points.
        lengths = np.sqrt(np.abs(values) * (self.n / largest)).astype(vectors.dtype)
        self.features = np.ascontiguousarray(vectors * lengths, dtype=np.float32)
        self.scale = largest / self.n
        self._set_signature(np.diag(np.sign(values)))

    def __repr__(self) -> str:
        return f"PointCloud({self.n} points, rank {self.rank})"


def cosine_similarity(
    x: ArrayLike, y: ArrayLike | None = None, *, n_threads: int | None = None
) -> Float32Array:
    """Cosine similarity of all rows of `x` with all rows of `y`, in float32.

    Parameters
    ----------
    x : array-like of shape (n, d)
    y : array-like of shape (m, d) or None, default=None
        None compares the rows of `x` with one another.
    n_threads : int or None, default=None
        See `gwfast.show_config`; None is one a core.

    Returns
    -------
    (n, m) float32 ndarray

    Raises
    ------
    ValueError
        If a row is zero (it is named), or shapes do not fit.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> gwfast.cosine_similarity(np.array([[1.0, 0], [3, 4]]), np.array([[2.0, 0]]))
    array([[1. ],
           [0.6]], dtype=float32)
    """
    y = in_order(y, "y", None, labels_of(x, 1), of="x")
    x = as_matrix(x, "x")
    y = x if y is None else as_matrix(y, "y")
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"y must have as many columns as x, {x.shape[1]}, got {y.shape[1]}")
    shape = (x.shape[0], y.shape[0])
    n_threads = resolve_n_threads(n_threads, work=shape[0] * shape[1])
    left = unit_rows(x, "x", np.float32)
    right = left if y is x else unit_rows(y, "y", np.float32)
    out = aligned_empty(shape)
    _products.matmul(left, Panels(right, True, n_threads=n_threads), out, n_threads=n_threads)
    return out

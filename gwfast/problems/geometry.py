"""Costs of points, the two kinds of intra-space cost, and the chunked cosine builder.

A `PointCloud` knows its costs through factors, where its metric has any, and never forms them; a
`DenseCost` is a matrix. Both answer the same questions, so the rest of the library does not care.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..kernels import _products
from ..kernels._rows import Panels, aligned_empty
from ..kernels.threads import resolve_n_threads
from ..utils.blocks import row_blocks
from ..utils.labels import Labels, in_order, labels_of
from ..utils.types import Float32Array, Float64Array
from ..utils.validation import as_count, as_matrix, one_of
from .dense_cost import CONSTANT, check_extremes
from .dense_cost import DenseCost as DenseCost

Metric: TypeAlias = Literal["cosine", "dot", "sqeuclidean", "euclidean"]
METRICS: tuple[Metric, ...] = get_args(Metric)
# What costs may be divided by, of all of them.
Statistic: TypeAlias = Literal["max", "mean", "median"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)

# Points that medians of costs and coordinates are taken of, at least if there are more.
SAMPLED = 2000
# Typical deviations of coordinates by which mean and median differ where far points set the mean.
FAR = 100.0


def within_range(x: NDArray[Any], name: str) -> NDArray[Any]:
    """`x`, if fourth powers of its entries (squared squared distances) stay finite."""
    check_extremes(float(x.min()), float(x.max()), name)
    return x


def unit_rows(x: ArrayLike, name: str) -> Float64Array:
    """`x` in float64 with rows of length one; a ValueError names those of zeros."""
    x = np.asarray(x, dtype=np.float64)
    # Dividing by the largest entry first keeps the squares of very large and very
    # small rows within range.
    top = np.abs(x).max(axis=1, keepdims=True)
    zero = np.flatnonzero(top == 0)
    if zero.size:
        shown = ", ".join(map(str, zero[:10])) + (", ..." if zero.size > 10 else "")
        raise ValueError(
            f"{name} must have no zero rows to be compared by angle, got {zero.size} (row {shown})"
        )
    x = x / top
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def center_of(x: Float64Array) -> Float64Array:
    """The mean of points (n, d), or a median where far points, which must not take the
    digits of all others, set the mean.
    """
    mean, some = x.mean(axis=0), x[:: max(len(x) // SAMPLED, 1)]
    median = np.median(some, axis=0)
    spread = np.median(np.abs(some - median))
    return median if np.abs(mean - median).max() > FAR * spread else mean


def radius_of(largest: float, d: int) -> float:
    """What points of `d` coordinates up to this magnitude are divided by."""
    # Zero only for points that all coincide (or are all zero, for "dot").
    return float(largest * np.sqrt(d)) if largest > 0 else 1.0


def features_of(
    x: NDArray[Any], metric: Metric, center: Float64Array | float, radius: float
) -> Float32Array:
    """Features of points (n, d) under a metric: (n, rank)."""
    x = unit_rows(x, "x") if metric == "cosine" else (x - center) / radius
    if metric == "sqeuclidean":
        # |x_i - x_k|^2 = s_i + s_k - 2 x_i x_k: two more features, s and 1, which
        # the signature couples with one another.
        s = (x**2).sum(axis=1, keepdims=True)
        x = np.hstack([x, s, np.ones_like(s)])
    return np.ascontiguousarray(x, dtype=np.float32)


def signature_of(rank: int, metric: Metric) -> Float64Array:
    """What makes costs of products of so many features under a metric."""
    signature = np.eye(rank)
    if metric == "sqeuclidean":
        signature *= -2.0
        signature[-2:, -2:] = [[0.0, 1.0], [1.0, 0.0]]
    return read_only(signature)


def read_only(x: Float64Array) -> Float64Array:
    """`x`, which nobody writes to from now on: what is made of it may be kept."""
    x.flags.writeable = False
    return x


class PointCloud:
    """Intra-space costs of the rows of `x`, kept as factors.

    The costs are ``C = features @ signature @ features.T`` and are never formed; a
    problem of two point clouds takes O(n d) memory beside the plan. Only the metric
    "euclidean" has no factors: a problem takes its matrix.

    Parameters
    ----------
    x : array-like of shape (n, d)
        Points, one a row.
    metric : {"cosine", "sqeuclidean", "dot", "euclidean"}, default="cosine"
        "cosine" is the similarity ``cos(x_i, x_k)``. Under the squared loss, which sees
        differences of costs only, it gives the same problem as the distance ``1 -
        cos``. "sqeuclidean" is ``|x_i - x_k|^2``, "dot" the inner product, "euclidean"
        the distance ``|x_i - x_k|``, of which problems make a float32 matrix.

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
        What the points are called: the index of a DataFrame of pandas.

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

    def __init__(self, x: ArrayLike, metric: Metric = "cosine") -> None:
        self.labels = labels_of(x)
        x = within_range(as_matrix(x, "x"), "x")
        self.metric = one_of(metric, "metric", METRICS)
        self.n, center, radius = x.shape[0], np.zeros(x.shape[1]), 1.0
        if metric != "cosine":
            x = x.astype(np.float64)
            # Distances do not see the shift; float32 products do.
            center = np.zeros(x.shape[1]) if metric == "dot" else center_of(x)
            radius = radius_of(np.abs(x - center).max(), x.shape[1])
        self.scale = radius if metric == "euclidean" else radius**2
        self.features = features_of(x, metric, center, radius)
        self.signature = signature_of(self.features.shape[1], metric)

    def __repr__(self) -> str:
        return f"PointCloud({self.n} points, {self.metric})"

    @property
    def has_factors(self) -> bool:
        return self.metric != "euclidean"

    @functools.cached_property
    def signs(self) -> Float64Array | None:
        """The diagonal (r,) of the signature; None if that couples features."""
        diagonal = np.diagonal(self.signature).copy()
        return diagonal if (np.diag(diagonal) == self.signature).all() else None

    @property
    def identity(self) -> tuple[Any, ...]:
        """What tells these points from others."""
        return (self.features,)

    @property
    def rank(self) -> int:
        """Number of features."""
        return self.features.shape[1]

    def mean(self, masses: Float64Array) -> Float64Array:
        """Sums (rank,) of the features, each times its point's mass."""
        return masses @ self.features

    def mean_square(self, masses: Float64Array) -> float:
        """Sum of the squared lengths of `points`, each times its point's mass."""
        return float(masses @ np.square(self.points).sum(axis=1))

    @property
    def points(self) -> Float32Array:
        """Features whose inner products are similarities: (n, d) float32."""
        return self.features[:, : self.n_coordinates]

    @property
    def n_coordinates(self) -> int:
        """Columns of `points`."""
        return self.rank - 2 * (self.metric == "sqeuclidean")

    @property
    def is_constant(self) -> bool:
        """Whether all costs are one number, up to rounding."""
        return bool(np.ptp(self.features, axis=0).max() <= CONSTANT)

    def take(self, rows: NDArray[Any]) -> PointCloud:
        """The cloud of some rows, in the same units and features."""
        part = copy.copy(self)
        part.features = np.ascontiguousarray(self.features[rows])
        part.n = len(part.features)
        return part

    def neutral(self, masses: Float64Array) -> PointCloud:
        """Return the cloud with points without mass moved onto one that has mass, and the
        features scaled again. If all points have mass, the cloud is returned as it is.
        """
        if masses.all():
            return self
        some = np.flatnonzero(masses > 0)
        rows = np.full(self.n, some[0])
        rows[some] = some
        part, d = self.take(rows), self.n_coordinates
        if self.metric != "cosine":
            radius = radius_of(float(np.abs(part.points).max()), d)
            part.features[:, :d] /= np.float32(radius)
            part.features[:, d : d + 1] /= np.float32(radius) ** 2
            part.scale *= radius if self.metric == "euclidean" else radius**2
        return part

    def scaled_by(self, statistic: Statistic) -> PointCloud:
        """The cloud with its costs divided by a statistic of them.

        Parameters
        ----------
        statistic : {"mean", "median", "max"}
            Over all pairs of points (the median: of 2000 points, spread evenly), a
            point with itself included. Of ``1 - cos`` for the metric "cosine", as in
            the paper's experiments: a similarity may well have a mean of zero.

        Raises
        ------
        ValueError
            If the statistic is not above zero.
        """
        one_of(statistic, "statistic", STATISTICS)
        # Of similarities turned into distances, but for what is added to all.
        sign, added = (-1.0, 1.0) if self.metric == "cosine" else (1.0, 0.0)
        blocks = row_blocks(self.n, self.n)
        if statistic == "mean" and self.has_factors:
            center = self.features.mean(axis=0, dtype=np.float64)
            value = sign * (center @ self.signature @ center)
        elif statistic == "mean":
            costs = self._costs()
            value = sum(float(costs(rows).sum()) for rows in blocks) / self.n**2
        elif statistic == "median":
            some = np.linspace(0, self.n - 1, min(self.n, SAMPLED)).astype(np.int64)
            costs = self.take(some)._costs(np.float64)
            value = float(np.median(sign * costs(slice(None))))
        else:
            costs = self._costs()
            value = max(float((sign * costs(rows)).max()) for rows in blocks)
        if not added + value > 0:
            raise ValueError(
                f"{statistic} of the costs must be above 0 to scale by, "
                f"got {self.scale * (added + value):.3g}"
            )
        other = copy.copy(self)
        other.scale = 1.0 / (added + value)
        return other

    def square_times(self, p: Float64Array) -> Float64Array:
        """``(C * C) @ p`` in units of ``scale**2``, float64, without forming C.

        Row i is ``phi_i' G phi_i`` with ``G`` the weighted Gram matrix of the features.
        """
        if not self.has_factors:
            return self.to_dense().square_times(p) / self.scale**2
        phi = self.features.astype(np.float64)
        gram = self.signature @ (phi.T * p) @ phi @ self.signature
        return np.einsum("ij,ij->i", phi @ gram, phi)

    def _costs(self, dtype: DTypeLike = np.float32) -> Callable[[slice], NDArray[np.floating[Any]]]:
        """A function that makes some rows of the costs, in units of `scale`."""
        if self.has_factors:
            phi = self.features.astype(dtype, copy=False)
            right = (phi @ self.signature.astype(dtype)).T
            return lambda rows: phi[rows] @ right
        points = self.features.astype(np.float64)
        squares = np.einsum("ij,ij->i", points, points)

        def distances(rows: slice) -> NDArray[np.floating[Any]]:
            made = points[rows] @ points.T
            made *= -2.0
            made += squares[rows, None]
            made += squares
            # What rounding leaves below zero.
            return np.sqrt(np.maximum(made, 0.0, out=made), out=made)

        return distances

    def to_dense(self) -> DenseCost:
        """The costs as a `DenseCost`, built block by block."""
        costs = self._costs()
        # Only costs that float32 has no room for take twice the room.
        dtype = np.float32 if 1e-30 < self.scale < 1e30 else np.float64
        cost = np.empty((self.n, self.n), dtype=dtype)
        for rows in row_blocks(self.n, self.n):
            cost[rows] = costs(rows)
        if self.metric in ("sqeuclidean", "euclidean"):
            # What rounding leaves below zero, and on the diagonal.
            np.maximum(cost, 0.0, out=cost)
            np.fill_diagonal(cost, 0.0)
        cost *= self.scale
        made = DenseCost(cost, symmetric=True)
        made.labels = self.labels
        return made


Geometry: TypeAlias = PointCloud | DenseCost


def cosine_similarity(
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    out: Float32Array | None = None,
    chunk_rows: int | None = None,
    n_threads: int | None = None,
) -> Float32Array:
    """Cosine similarity of all rows of `x` with all rows of `y`.

    Written chunk by chunk into one float32 buffer: beside that and float32 copies of
    the input, normalized and packed, nothing grows with n m.

    Parameters
    ----------
    x : array-like of shape (n, d)
    y : array-like of shape (m, d) or None, default=None
        None compares the rows of `x` with one another.
    out : (n, m) float32 ndarray or None, default=None
        C-contiguous buffer to write to.
    chunk_rows : int or None, default=None
        Rows written at a time; by default all, shared out over the threads.
    n_threads : int or None, default=None
        See `gwfast.show_config`; None is one a core.

    Returns
    -------
    (n, m) float32 ndarray
        `out`, where given.

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
    other = x if y is None else as_matrix(y, "y")
    if x.shape[1] != other.shape[1]:
        raise ValueError(f"y must have as many columns as x, {x.shape[1]}, got {other.shape[1]}")
    shape = (x.shape[0], other.shape[0])
    step = shape[0]
    if chunk_rows is not None:
        step = min(step, as_count(chunk_rows, "chunk_rows"))
    n_threads = resolve_n_threads(n_threads, work=step * shape[1])
    left = unit_rows_float32(x, "x")
    right = left if y is None else unit_rows_float32(other, "y")
    if out is None:
        out = aligned_empty(shape)
    elif not (
        isinstance(out, np.ndarray)
        and out.shape == shape
        and out.dtype == np.float32
        and out.flags.c_contiguous
        and out.flags.writeable
    ):
        came = f"{getattr(out, 'dtype', type(out).__name__)} {np.shape(out)}"
        raise ValueError(
            f"out must be a writeable C-contiguous float32 array of shape {shape}, got {came}"
        )
    panels = Panels(right, True, n_threads=n_threads)
    for i in range(0, shape[0], step):
        rows = slice(i, i + step)
        _products.matmul(left[rows], panels, out[rows], n_threads=n_threads)
    return out


def unit_rows_float32(x: NDArray[Any], name: str) -> Float32Array:
    """`unit_rows` in float32, made block by block."""
    unit = np.empty(x.shape, dtype=np.float32)
    for rows in row_blocks(*x.shape):
        try:
            unit[rows] = unit_rows(x[rows], name)
        except ValueError:
            unit_rows(x, name)  # names the rows as the caller counts them
    return unit

"""Costs between two spaces by features of both in one space, never formed."""

from __future__ import annotations

import copy
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..utils.labels import Labels, in_order, labels_of, positions
from ..utils.types import Float32Array, Float64Array
from ..utils.validation import as_matrix, one_of
from .geometry import radius_of, unit_rows, within_range

CrossMetric: TypeAlias = Literal["sqeuclidean", "cosine", "dot"]


class CrossCost:
    """Costs between the points of two spaces, by features that both have: a `linear_cost` of
    fused problems.

    The costs are ``scale * left @ right.T + row[:, None] + col``. Of two point clouds under the
    squared loss the fused problem then takes O(n d) memory beside the plan.

    Parameters
    ----------
    x : array-like of shape (n, k)
        Features of the points of the first space.
    y : array-like of shape (m, k)
        The same features of the points of the second space.
    metric : {"sqeuclidean", "cosine", "dot"}, default="sqeuclidean"
        "sqeuclidean" is ``|x_i - y_j|^2``, "cosine" the distance ``1 - cos(x_i, y_j)``, "dot" the
        inner product: any costs of low rank ``x @ y.T``.

    Attributes
    ----------
    shape : (int, int)
    left, right : float32 ndarrays of shape (n, k) and (m, k)
    scale : float
    row, col : float64 ndarrays of shape (n,) and (m,)

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> rng = np.random.default_rng(0)
    >>> genes = gwfast.CrossCost(rng.normal(size=(40, 5)), rng.normal(size=(50, 5)))
    >>> genes.shape, genes.toarray().shape
    ((40, 50), (40, 50))
    """

    left: Float32Array
    right: Float32Array
    scale: float
    row: Float64Array
    col: Float64Array
    labels: tuple[Labels, Labels]

    def __init__(self, x: ArrayLike, y: ArrayLike, metric: CrossMetric = "sqeuclidean") -> None:
        self.labels = labels_of(x), labels_of(y)
        y = in_order(y, "y", None, labels_of(x, 1), of="x")
        u = within_range(as_matrix(x, "x"), "x").astype(np.float64)
        v = within_range(as_matrix(y, "y"), "y").astype(np.float64)
        if u.shape[1] != v.shape[1]:
            raise ValueError(f"y must have the columns of x, {u.shape[1]}, got {v.shape[1]}")
        self.metric = one_of(metric, "metric", get_args(CrossMetric))
        self.row, self.col, self.scale = np.zeros(len(u)), np.zeros(len(v)), 1.0
        sign = {"sqeuclidean": -2.0, "cosine": -1.0, "dot": 1.0}[metric]
        if metric == "sqeuclidean":
            # Distances do not see the shift; float32 products do.
            center = (u.sum(axis=0) + v.sum(axis=0)) / (len(u) + len(v))
            u, v = u - center, v - center
            self.row, self.col = (u**2).sum(axis=1), (v**2).sum(axis=1)
        if metric == "cosine":
            u, v, self.row = unit_rows(u, "x"), unit_rows(v, "y"), np.ones(len(u))
        else:
            radii = [radius_of(float(np.abs(side).max()), side.shape[1]) for side in (u, v)]
            u, v, self.scale = u / radii[0], v / radii[1], radii[0] * radii[1]
        self.left = np.ascontiguousarray(sign * u, dtype=np.float32)
        self.right = np.ascontiguousarray(v, dtype=np.float32)

    def __repr__(self) -> str:
        n, m = self.shape
        return f"CrossCost({n} x {m}, {self.metric}, rank {self.rank})"

    @property
    def shape(self) -> tuple[int, int]:
        """Points of both spaces."""
        return len(self.left), len(self.right)

    @property
    def rank(self) -> int:
        """Columns of the factors."""
        return self.left.shape[1]

    def rows(self, rows: slice) -> Float64Array:
        """Return some rows of the costs."""
        costs = self.left[rows].astype(np.float64) @ self.right.T.astype(np.float64)
        costs *= self.scale
        costs += self.row[rows, None]
        costs += self.col
        if self.metric == "sqeuclidean":
            np.maximum(costs, 0.0, out=costs)  # what rounding leaves below zero
        return costs

    def toarray(self) -> Float64Array:
        """Return all costs (n, m)."""
        return self.rows(slice(None))

    def mean(self, p: Float64Array, q: Float64Array) -> float:
        """Return ``p' C q``."""
        product = (p @ self.left) @ (q @ self.right)
        return float(self.scale * product + (p @ self.row) * q.sum() + (q @ self.col) * p.sum())

    def in_order(self, rows: Labels, cols: Labels) -> CrossCost:
        """Return the costs in the order of these labels, see `positions`."""
        of, (n, m) = "x and y", self.shape
        at = positions(self.labels[0], rows, "linear_cost", of)
        to = positions(self.labels[1], cols, "linear_cost", of)
        if at is None and to is None:
            return self
        return self.take(np.arange(n) if at is None else at, np.arange(m) if to is None else to)

    def take(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> CrossCost:
        """Return the costs of some points, in the same units."""
        part = copy.copy(self)
        part.left = np.ascontiguousarray(self.left[rows])
        part.right = np.ascontiguousarray(self.right[cols])
        part.row, part.col = self.row[rows], self.col[cols]
        return part

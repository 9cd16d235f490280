"""Costs between cells: lengths of paths in a graph of nearest neighbors."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..kernels.threads import resolve_n_threads
from ..problems.graphs import GraphCost
from ..results.tables import largest
from ..utils.blocks import row_blocks
from ..utils.types import Float64Array
from ..utils.validation import as_count, as_matrix, one_of

CellMetric: TypeAlias = Literal["cosine", "correlation", "euclidean"]


def neighbor_costs(
    points: ArrayLike,
    n_neighbors: int,
    *,
    metric: CellMetric = "cosine",
    n_threads: int | None = None,
) -> Float64Array:
    """Return numbers of steps between cells in their graph of nearest neighbors, as fractions
    of the largest (SCOT: Demetci et al., Journal of Computational Biology 2022).

    Parameters
    ----------
    points : array-like of shape (n, d)
    n_neighbors : int
        Number of neighbors that each cell is linked with, the cell itself counted.
    metric : {"cosine", "correlation", "euclidean"}, default="cosine"
        Which cells are near.
    n_threads : int or None, default=None

    Returns
    -------
    (n, n) float64 ndarray
        Symmetric, from 0 to 1. Cells that no path connects are as far as the farthest cells.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast.singlecell import neighbor_costs
    >>> path = np.array([[0.0], [1.0], [2.1], [3.3], [4.6]])
    >>> neighbor_costs(path, 2, metric="euclidean")[0].tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    points = _placed(as_matrix(points, "points").astype(np.float64), metric)
    n, k = len(points), as_count(n_neighbors, "n_neighbors", least=2)
    if k > n:
        raise ValueError(f"n_neighbors must be at most {n}, the cells, got {k}")
    threads = resolve_n_threads(n_threads)
    half_squares = np.einsum("ij,ij->i", points, points) / 2
    neighbors = np.empty((n, k), dtype=np.int64)
    for rows in row_blocks(n, n):
        # The larger the value, the nearer the cell.
        near = (points[rows] @ points.T - half_squares).astype(np.float32)
        neighbors[rows] = largest(np.ascontiguousarray(near), k, threads).indices
    entries = np.ones(n * k), (np.repeat(np.arange(n), k), neighbors.ravel())
    graph = sparse.csr_array(entries, shape=(n, n))
    cost = GraphCost(graph, unweighted=True, disconnected="largest")
    return cost.matrix / (cost.matrix.max() or 1.0)


def _placed(points: Float64Array, metric: CellMetric) -> Float64Array:
    """Return centered points whose Euclidean distances order cells as the metric does."""
    one_of(metric, "metric", get_args(CellMetric))
    if metric == "correlation":
        points = points - points.mean(axis=1, keepdims=True)
    if metric != "euclidean":
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        # A row without direction is equally far from all cells.
        points = points / np.where(lengths > 0, lengths, 1.0)
    return points - points.mean(axis=0)

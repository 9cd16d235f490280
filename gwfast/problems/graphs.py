"""Costs between the nodes of a graph: lengths of shortest paths."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ..utils.blocks import row_blocks
from ..utils.validation import as_positive, one_of
from .geometry import DenseCost

# What to do with nodes that no path connects.
DISCONNECTED = ("error", "largest")


class GraphCost(DenseCost):
    """Lengths of shortest paths between the nodes of a sparse graph, in float32.

    Made by `scipy.sparse.csgraph.dijkstra` for some nodes at a time, so that nothing
    beside the matrix itself grows with n^2.

    Parameters
    ----------
    graph : sparse array or matrix of shape (n, n)
        Lengths of edges, not negative; an edge may be given in either direction, or
        both, of which the shorter counts. Entries that are not stored are no edges.
    unweighted : bool, default=False
        Count edges instead.
    directed : bool, default=False
        Whether edges lead from row to column only; costs are then not symmetric.
    disconnected : {"error", "largest"} or float, default="error"
        What nodes cost that no path connects: a ValueError, as much as the longest of
        all paths, or a number.

    Attributes
    ----------
    n, matrix, symmetric
        See `DenseCost`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, gwfast
    >>> ring = scipy.sparse.diags_array(np.ones(6), offsets=1, shape=(7, 7))
    >>> gwfast.GraphCost(ring).matrix[0]
    array([0., 1., 2., 3., 4., 5., 6.], dtype=float32)
    """

    def __init__(
        self,
        graph: Any,
        *,
        unweighted: bool = False,
        directed: bool = False,
        disconnected: str | float = "error",
    ) -> None:
        graph = _as_graph(graph)
        if isinstance(disconnected, str):
            one_of(disconnected, "disconnected", DISCONNECTED)
        else:
            as_positive(disconnected, "disconnected", zero=True)
        n = graph.shape[0]
        cost, longest = np.empty((n, n), dtype=np.float32), 0.0
        cut = 0
        for rows in row_blocks(n, n):
            paths = csgraph.dijkstra(
                graph,
                directed=directed,
                indices=np.arange(*rows.indices(n)),
                unweighted=unweighted,
            )
            reached = np.isfinite(paths)
            cut += paths.size - np.count_nonzero(reached)
            longest = max(longest, float(paths.max(where=reached, initial=0.0)))
            cost[rows] = paths
        if cut:
            if disconnected == "error":
                raise ValueError(
                    f"graph must be connected, got {cut} pairs of nodes (of {n * n}) "
                    'without a path between them; disconnected="largest" takes them '
                    "for as far as the farthest"
                )
            far = longest if disconnected == "largest" else disconnected
            cost[np.isinf(cost)] = far
        super().__init__(cost, "graph", symmetric=not directed)


def _as_graph(graph: Any) -> sparse.csr_array:
    if not sparse.issparse(graph):
        raise TypeError(
            f"graph must be a sparse array or matrix, got {type(graph).__name__}"
        )
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1] or not graph.shape[0]:
        raise ValueError(f"graph must be square, got shape {graph.shape}")
    graph = sparse.csr_array(graph, dtype=np.float64)
    if graph.nnz and not (np.isfinite(graph.data).all() and graph.data.min() >= 0):
        raise ValueError("graph must have finite edges that are not negative")
    return graph

"""Costs between the nodes of a graph: lengths of shortest paths. And what a caller may
pass for the costs of a space, graphs among it.
"""

import warnings
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph

from ..utils.blocks import row_blocks
from ..utils.callers import outside
from ..utils.validation import as_positive, one_of
from .geometry import DenseCost, Geometry, PointCloud

# What to do with nodes that no path connects.
DISCONNECTED = ("error", "largest")
AS_FAR = 'gwfast.GraphCost(graph, disconnected="largest")'


class Graph(Protocol):
    """What is asked of a graph of networkx, which is never imported."""

    @property
    def nodes(self) -> Any: ...
    @property
    def edges(self) -> Any: ...
    def is_directed(self) -> bool: ...


class GraphCost(DenseCost):
    """Lengths of shortest paths between the nodes of a graph, in float32.

    Made by `scipy.sparse.csgraph.dijkstra` for some nodes at a time, so that nothing
    beside the matrix itself grows with n^2.

    Parameters
    ----------
    graph : sparse array or matrix of shape (n, n), or graph of networkx
        Lengths of edges, not negative; an edge may be given in either direction, or
        both, of which the shorter counts. Entries that are not stored are no edges;
        stored zeros are edges of length 0, and there is a warning
        (``graph.eliminate_zeros()`` removes such edges).
        Nodes of networkx are in the order of ``graph.nodes``; of parallel edges the
        shortest counts. (Weights that say how *alike* two nodes are, as the
        "connectivities" of scanpy, are no lengths: count edges, or take
        ``1 / weight``.)
    unweighted : bool, default=False
        Count edges instead.
    directed : bool or None, default=None
        Whether edges lead from row to column only; costs are then not symmetric. None
        is as the graph of networkx is, and False for matrices.
    disconnected : {"error", "largest"} or float, default="error"
        What nodes cost that no path connects: a ValueError, as much as the longest of
        all paths, or a number. No rule suits all: "largest" keeps parts as near as
        their farthest nodes, and a number well above that keeps them apart.
    weight : str, default="weight"
        Attribute of networkx's edges that has their lengths; those without it are of
        length 1, as in networkx.

    Attributes
    ----------
    n, matrix, symmetric
        See `DenseCost`.
    labels : tuple or None
        The nodes of a graph of networkx, in the order of rows.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Warns
    -----
    UserWarning
        If a sparse matrix has stored zeros beside its diagonal.

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
        directed: bool | None = None,
        disconnected: str | float = "error",
        weight: str = "weight",
        name: str = "graph",
    ) -> None:
        if directed is None:
            directed = _is_networkx(graph) and bool(graph.is_directed())
        edges = _as_edges(graph, weight, name)
        if isinstance(disconnected, str):
            one_of(disconnected, "disconnected", DISCONNECTED)
        else:
            as_positive(disconnected, "disconnected", zero=True)
        n = edges.shape[0]
        cost, longest = np.empty((n, n), dtype=np.float32), 0.0
        cut = 0
        for rows in row_blocks(n, n):
            paths = csgraph.dijkstra(
                edges, directed=directed, indices=np.arange(*rows.indices(n)), unweighted=unweighted
            )
            reached = np.isfinite(paths)
            cut += paths.size - np.count_nonzero(reached)
            longest = max(longest, float(paths.max(where=reached, initial=0.0)))
            cost[rows] = paths
        if cut:
            if disconnected == "error":
                remedy = f"{AS_FAR} takes them for as far as the farthest"
                if directed:
                    undirected = "gwfast.GraphCost(graph, directed=False)"
                    remedy = f"{undirected} takes edges both ways, and {remedy}"
                raise ValueError(
                    f"{name} must be connected, got {cut} pairs of nodes (of {n * n}) "
                    f"without a{' directed' * directed} path between them; {remedy}"
                )
            far = longest if disconnected == "largest" else disconnected
            cost[np.isinf(cost)] = far
        super().__init__(cost, name, symmetric=not directed)
        self.labels = tuple(graph.nodes) if _is_networkx(graph) else None


CostLike: TypeAlias = Geometry | ArrayLike | Graph


def as_geometry(cost: CostLike, name: str) -> Geometry:
    """What a caller passes for the costs of a space, with factors or as a matrix; of
    sparse matrices and graphs of networkx those of `GraphCost`.
    """
    if isinstance(cost, PointCloud):
        return cost if cost.has_factors else cost.to_dense()
    if isinstance(cost, DenseCost):
        cost.refresh(name)
        return cost
    # To tell that an array is none of these takes as long as all else here.
    if not isinstance(cost, np.ndarray) and is_graph(cost):
        return GraphCost(cost, name=name)
    try:
        return DenseCost(cost, name)  # type: ignore[arg-type]
    except ValueError as error:
        if f"{name} must be finite, got inf" in str(error):
            error.args = (f"{error}: of a graph in several parts, {AS_FAR} says more",)
        elif f"{name} must be square" in str(error):
            points = "costs of points are PointCloud(points, metric)"
            error.args = (f"{error}; {points}, and `align` takes points as they are",)
        raise


def is_graph(x: Any) -> bool:
    """Whether costs are given by a graph: a sparse matrix, or one of networkx."""
    return sparse.issparse(x) or _is_networkx(x)


def _is_networkx(graph: Any) -> bool:
    return all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed"))


def _as_edges(graph: Any, weight: str, name: str) -> sparse.csr_array:
    """Lengths of edges, checked."""
    networkx = _is_networkx(graph)
    if networkx:
        graph = _edges_of_networkx(graph, weight, name)
    elif not sparse.issparse(graph):
        raise TypeError(
            f"{name} must be a sparse array or matrix, or a graph of networkx, got "
            f"{type(graph).__name__}"
        )
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1] or not graph.shape[0]:
        raise ValueError(f"{name} must be square, got shape {graph.shape}")
    graph = sparse.csr_array(graph, dtype=np.float64)
    if graph.nnz and not (np.isfinite(graph.data).all() and graph.data.min() >= 0):
        raise ValueError(f"{name} must have finite edges that are not negative")
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    zeros = np.count_nonzero((graph.data == 0) & (rows != graph.indices))
    if zeros and not networkx:
        warnings.warn(
            f"{name} has {zeros} stored zeros, which are edges of length 0; remove them "
            "by eliminate_zeros() if they are no edges",
            stacklevel=outside(),
        )
    return graph


def _edges_of_networkx(graph: Graph, weight: str, name: str) -> sparse.coo_array:
    """The shortest of the edges from one node to another."""
    number = {node: k for k, node in enumerate(graph.nodes)}
    found = list(graph.edges(data=weight, default=1.0))
    rows = np.array([number[one] for one, _, _ in found], dtype=np.int64)
    cols = np.array([number[other] for _, other, _ in found], dtype=np.int64)
    try:
        lengths = np.array([length for *_, length in found], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must have numbers as {weight!r} of its edges: {error}") from None
    order = np.lexsort((lengths, cols, rows))
    rows, cols, lengths = rows[order], cols[order], lengths[order]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (np.diff(rows) > 0) | (np.diff(cols) != 0)
    entries = lengths[first], (rows[first], cols[first])
    return sparse.coo_array(entries, shape=(len(number), len(number)))

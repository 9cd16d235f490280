"""Costs between the nodes of a graph, and what a caller may pass for the costs of a space."""

import warnings
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph

from ..utils.blocks import row_blocks
from ..utils.callers import outside
from ..utils.validation import as_positive, one_of, refuse_tensor
from .geometry import DenseCost, Geometry, PointCloud


class Graph(Protocol):
    """The interface of a graph of networkx, which is never imported."""

    @property
    def nodes(self) -> Any: ...
    @property
    def edges(self) -> Any: ...
    def is_directed(self) -> bool: ...


class GraphCost(DenseCost):
    """Lengths of shortest paths between the nodes of a graph, in float32.

    Dijkstra's algorithm for some nodes at a time: beside the matrix nothing grows with n^2.

    Parameters
    ----------
    graph : sparse array or matrix of shape (n, n), or graph of networkx
        Lengths of edges, not negative: of edges in both directions, and of parallel ones, the
        shorter counts. Nodes of networkx are in the order of ``graph.nodes``. Stored zeros of a
        sparse matrix are edges of length 0. (Weights that say how *alike* two nodes are, as the
        "connectivities" of scanpy, are no lengths: count edges, or take ``1 / weight``.)
    unweighted : bool, default=False
        Count edges instead.
    directed : bool or None, default=None
        Whether edges lead from row to column only; costs are then not symmetric. None is as the
        graph of networkx is, and False for matrices.
    disconnected : {"error", "largest"} or float, default="error"
        Cost of nodes that no path connects: a ValueError, the length of the longest path, or
        a number. "largest" keeps parts as near as their farthest nodes, a number well above that
        keeps them apart.
    weight : str, default="weight"
        Attribute with the lengths of edges of networkx, 1 by default.

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
        directed: bool | None = None,
        disconnected: str | float = "error",
        weight: str = "weight",
        name: str = "graph",
    ) -> None:
        if directed is None:
            directed = _is_networkx(graph) and bool(graph.is_directed())
        edges = _as_edges(graph, weight, name)
        if isinstance(disconnected, str):
            one_of(disconnected, "disconnected", ("error", "largest"))
        else:
            as_positive(disconnected, "disconnected", zero=True)
        n, cut = edges.shape[0], 0
        cost = np.empty((n, n), dtype=np.float32)
        for rows in row_blocks(n, n):
            sources = np.arange(rows.start, rows.stop)
            cost[rows] = csgraph.dijkstra(edges, directed, sources, unweighted=unweighted)
            cut += np.count_nonzero(np.isinf(cost[rows]))
        if cut:
            if disconnected == "error":
                remedy = 'gwfast.GraphCost(graph, disconnected="largest")'
                remedy = f"{remedy} takes them for as far as the farthest"
                if directed:
                    undirected = "gwfast.GraphCost(graph, directed=False)"
                    remedy = f"{undirected} takes edges both ways, and {remedy}"
                raise ValueError(
                    f"{name} must be connected, got {cut} pairs of nodes (of {n * n}) "
                    f"without a{' directed' * directed} path between them; {remedy}"
                )
            unconnected = np.isinf(cost)
            largest = disconnected == "largest"
            cost[unconnected] = (
                cost.max(where=~unconnected, initial=0.0) if largest else disconnected
            )
        labels = tuple(graph.nodes) if _is_networkx(graph) else None
        self._set(cost, name, not directed, labels)


CostLike: TypeAlias = Geometry | ArrayLike | Graph


def as_geometry(cost: CostLike, name: str) -> Geometry:
    """Return the geometry of costs as a caller passes them."""
    if isinstance(cost, PointCloud):
        return cost if cost.has_factors else cost.to_dense()
    if isinstance(cost, DenseCost):
        return cost.refreshed(name)
    # The question is slow for arrays.
    if not isinstance(cost, np.ndarray) and is_graph(cost):
        return GraphCost(cost, name=name)
    try:
        return DenseCost(cost, name)  # type: ignore[arg-type]
    except ValueError as error:
        if f"{name} must be finite, got inf" in str(error):
            remedy = 'gwfast.GraphCost(graph, disconnected="largest")'
            error.args = (f"{error}: of a graph in several parts, {remedy} says more",)
        elif f"{name} must be square" in str(error):
            points = "costs of points are PointCloud(points, metric)"
            error.args = (f"{error}; {points}, and `align` takes points as they are",)
        raise


def is_graph(x: Any) -> bool:
    """Return whether costs are given by a graph: a sparse matrix, a graph of networkx, or data of
    PyTorch Geometric, which `GraphCost` refuses with the way.
    """
    return sparse.issparse(x) or _is_networkx(x) or hasattr(x, "edge_index")


def _is_networkx(graph: Any) -> bool:
    return all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed"))


def _as_edges(graph: Any, weight: str, name: str) -> sparse.csr_array:
    """Return the lengths of edges, checked."""
    networkx = _is_networkx(graph)
    if networkx:
        graph = _edges_of_networkx(graph, weight, name)
    elif not sparse.issparse(graph):
        refuse_tensor(graph, name, "a sparse array of SciPy")
        came = type(graph).__name__
        if hasattr(graph, "edge_index"):
            came = f"{came}: scipy.sparse.coo_array((lengths, edge_index), (n, n)) makes one"
        raise TypeError(
            f"{name} must be a sparse array or matrix, or a graph of networkx, got {came}"
        )
    if networkx and not graph.shape[0]:
        raise ValueError(f"{name} must have at least one node, got an empty graph")
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1] or not graph.shape[0]:
        raise ValueError(f"{name} must be square, got shape {graph.shape}")
    graph = sparse.csr_array(graph, dtype=np.float64)
    # SciPy before 1.15 finds paths by indices of 32 bits alone.
    dtype = np.int32 if graph.nnz < 1 << 31 else np.int64
    graph.indices, graph.indptr = graph.indices.astype(dtype), graph.indptr.astype(dtype)
    if graph.nnz and not (np.isfinite(graph.data).all() and graph.data.min() >= 0):
        bad = graph.data[~(np.isfinite(graph.data) & (graph.data >= 0))][0]
        raise ValueError(f"{name} must have finite edges that are not negative, got {bad}")
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
    """Return the shortest of the edges from one node to another."""
    number = {node: k for k, node in enumerate(graph.nodes)}
    shortest: dict[tuple[int, int], float] = {}
    try:
        for source, target, length in graph.edges(data=weight, default=1.0):
            pair = number[source], number[target]
            shortest[pair] = min(float(length), shortest.get(pair, np.inf))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must have numbers as {weight!r} of its edges: {error}") from None
    ends = np.array(list(shortest), dtype=np.int64).reshape(-1, 2).T
    lengths = np.fromiter(shortest.values(), np.float64, len(shortest))
    return sparse.coo_array((lengths, (ends[0], ends[1])), shape=(len(number), len(number)))

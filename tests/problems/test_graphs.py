"""Costs of graphs: SciPy's shortest paths, made some nodes at a time."""

import numpy as np
import pytest
from helpers.marks import pairwise
from scipy import sparse
from scipy.sparse import csgraph

import gwfast
from gwfast import GraphCost


def graph_of(n, seed):
    """A connected graph, each edge in one direction."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(node) for node in range(1, n)]
    rows = np.append(rows, rng.integers(n, size=2 * n)).astype(int)
    cols = np.append(np.arange(1, n), rng.integers(n, size=2 * n))
    made = sparse.coo_array((rng.random(len(rows)) + 0.1, (rows, cols)), shape=(n, n))
    made.sum_duplicates()
    return made


@pairwise(n=[1, 2, 65], unweighted=[False, True], directed=[False, True])
def test_they_are_the_lengths_of_paths(n, unweighted, directed, seed):
    graph = graph_of(n, seed)
    if directed:
        back = sparse.coo_array((graph.data[::-1], graph.coords[::-1]), graph.shape)
        graph = sparse.coo_array(graph.tocsr() + 2 * back.tocsr())
    expected = csgraph.shortest_path(graph.tocsr(), directed=directed, unweighted=unweighted)
    for kind in (sparse.coo_array, sparse.csr_matrix, sparse.csc_array):
        cost = GraphCost(kind(graph), unweighted=unweighted, directed=directed)
        assert cost.symmetric is not directed and cost.matrix.dtype == np.float32
        np.testing.assert_allclose(cost.matrix, expected, rtol=1e-6)


def test_paths_of_a_graph_of_several_blocks():
    graph, ends = graph_of(1100, 3), [0, 500, 1047, 1048, 1099]
    expected = csgraph.shortest_path(graph.tocsr(), directed=False, indices=ends)
    np.testing.assert_allclose(GraphCost(graph).matrix[ends], expected, rtol=1e-6)


def test_what_no_path_connects_is_said_or_takes_a_value():
    graph = sparse.block_diag([graph_of(5, 0), graph_of(4, 1)])
    with pytest.raises(ValueError, match=r"connected, got 40 pairs of nodes \(of 81\)"):
        GraphCost(graph)
    near = csgraph.shortest_path(sparse.csr_array(graph), directed=False)
    reached = np.isfinite(near)
    for choice, value in (("largest", near[reached].max()), (7.5, 7.5)):
        matrix = GraphCost(graph, disconnected=choice).matrix
        np.testing.assert_allclose(matrix[~reached], value, rtol=1e-6)
        np.testing.assert_allclose(matrix[reached], near[reached], rtol=1e-6)


def test_a_graph_finds_itself_in_another_order():
    """Also where solvers take the graph itself for its costs."""
    graph = graph_of(30, 7).tocsr()
    order = np.random.default_rng(0).permutation(30)
    other = graph[order][:, order]
    costs = GraphCost(graph), GraphCost(other)
    np.testing.assert_array_equal(costs[0].take(order).matrix, costs[1].matrix)
    expected = gwfast.gromov_wasserstein(*costs, epsilon=0)
    assert expected.gw_cost <= 1e-9
    assert (expected.plan.argmax(axis=1) == np.argsort(order)).all()
    for given in (graph, sparse.csr_matrix(graph), graph.tocoo()):
        result = gwfast.gromov_wasserstein(given, other, epsilon=0)
        np.testing.assert_array_equal(result.plan, expected.plan)
    (batched,) = gwfast.gromov_wasserstein_batch([(graph, other)], epsilon=0)
    assert batched.gw_cost <= 1e-9
    found = gwfast.pairwise_gromov_wasserstein([graph, other, costs[0]], n_starts=8)
    alike = gwfast.pairwise_gromov_wasserstein([*costs, costs[0]], n_starts=8)
    np.testing.assert_array_equal(found.costs, alike.costs)


def test_what_is_not_connected_is_named_where_it_is_passed():
    apart = sparse.block_diag([graph_of(5, 0), graph_of(4, 1)])
    advice = r'gwfast\.GraphCost\(graph, disconnected="largest"\)'
    with pytest.raises(ValueError, match=f"^y must be connected, .*; {advice}"):
        gwfast.gromov_wasserstein(graph_of(5, 0), apart)
    with pytest.raises(ValueError, match=rf"^spaces\[0\] must be conn.*{advice}"):
        gwfast.pairwise_gromov_wasserstein([apart])
    dense = csgraph.shortest_path(apart.tocsr(), directed=False)
    with pytest.raises(ValueError, match=f"^x must be finite, got inf .*{advice}"):
        gwfast.gromov_wasserstein(dense, np.eye(3))


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_graphs_of_networkx(kind):
    networkx = pytest.importorskip("networkx")
    rng = np.random.default_rng(2)
    graph = getattr(networkx, kind)()
    names = [f"node {k}" for k in rng.permutation(20)]
    graph.add_nodes_from(names)
    networkx.add_cycle(graph, names)  # of length 1 each
    for _ in range(60):
        one, other = rng.choice(names, 2)
        graph.add_edge(one, other, weight=float(rng.choice([0.0, 0.5, 2.0])))
        graph.add_edge(one, names[0], weight=3.0, far=7.0)
    expected = networkx.floyd_warshall_numpy(graph)
    cost = GraphCost(graph)
    assert cost.symmetric is not graph.is_directed()
    np.testing.assert_allclose(cost.matrix, expected, rtol=1e-6)
    hops = GraphCost(graph, unweighted=True, directed=False).matrix
    undirected = networkx.Graph(graph.to_undirected())
    expected = networkx.floyd_warshall_numpy(undirected, weight=None)
    np.testing.assert_array_equal(hops, expected)
    far = GraphCost(graph, weight="far").matrix
    expected = networkx.floyd_warshall_numpy(graph, weight="far")
    np.testing.assert_allclose(far, expected, rtol=1e-6)
    result = gwfast.gromov_wasserstein(graph, graph, epsilon=0)
    assert result.plan.shape == (20, 20)


def matches(result):
    table = result.to_frame()
    return dict(zip(table["source"], table["target"], strict=True))


@pytest.mark.parametrize("epsilon", [0.0, "auto"])
def test_nodes_of_networkx_keep_their_names(epsilon):
    """Whatever they are; matrices of the other side number its points."""
    networkx = pytest.importorskip("networkx")
    pandas = pytest.importorskip("pandas")
    tree = networkx.Graph(["ab", "bc", "cd", "de", "cf"])
    tree["a"]["b"]["weight"], tree["d"]["e"]["weight"] = 2.0, 3.5
    nodes = ["f", "e", "d", "c", "b", "a"]
    other = networkx.relabel_nodes(tree, {name: (name, 1) for name in nodes})
    moved = networkx.Graph()
    moved.add_nodes_from((name, 1) for name in nodes)
    moved.add_edges_from(other.edges(data=True))
    result = gwfast.gromov_wasserstein(tree, moved, epsilon=epsilon)
    assert result.labels == (tuple(tree.nodes), tuple(moved.nodes))
    assert matches(result) == {name: (name, 1) for name in tree}
    table = result.to_frame()
    expected = pandas.Series([(name, 1) for name in tree], tree, name="target")
    pandas.testing.assert_series_equal(table.set_index("source")["target"], expected,
                                       check_names=False)  # fmt: skip
    assert result.to_frame(source=range(6))["source"].tolist() == list(range(6))
    cost = GraphCost(moved).matrix
    result = gwfast.gromov_wasserstein(tree, cost, epsilon=epsilon)
    assert matches(result) == {name: nodes.index(name) for name in tree}


def test_paths_against_the_direction_of_edges_are_named():
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph(["ab", "bc", "cd"])
    advice = r"without a directed path .*gwfast\.GraphCost\(graph, directed=False\)"
    with pytest.raises(ValueError, match=f"^y must be connected, .*{advice}"):
        gwfast.gromov_wasserstein(np.eye(3), graph)
    with pytest.raises(ValueError, match=f"^graph must be connected, .*{advice}"):
        GraphCost(networkx.to_scipy_sparse_array(graph), directed=True)
    np.testing.assert_array_equal(GraphCost(graph, directed=False).matrix[3], [3, 2, 1, 0])


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.coo_array, sparse.csc_matrix])
def test_stored_zeros_are_told(kind):
    path = sparse.csr_array(np.eye(4, k=1) + np.eye(4, k=-1))
    path[0, 1] = path[1, 0] = 0
    with pytest.warns(UserWarning, match=r"^x has 2 stored zeros, .*eliminate_zero"):
        gwfast.gromov_wasserstein(kind(path), np.eye(3), epsilon=0)
    path = sparse.csr_array(np.eye(4, k=1) + np.eye(4))
    path.setdiag(0)
    assert path.nnz == 7
    assert GraphCost(kind(path)).matrix[0, 2] == 2  # a stored diagonal says nothing


def test_bad_graphs_of_networkx_are_refused():
    networkx = pytest.importorskip("networkx")
    graph = networkx.path_graph(4)
    graph.add_edge(0, 1, weight="long")
    with pytest.raises(TypeError, match=r"^x must have numbers as 'weight'"):
        gwfast.gromov_wasserstein(graph, np.eye(3))
    graph.add_edge(0, 1, weight=-1.0)
    with pytest.raises(ValueError, match=r"^x must have finite edges that are"):
        gwfast.gromov_wasserstein(graph, np.eye(3))
    with pytest.raises(ValueError, match=r"must be square, got shape \(0, 0\)"):
        GraphCost(networkx.Graph())
    graph = networkx.Graph([(0, 1), (2, 3)])
    with pytest.raises(ValueError, match=r"^graph must be connected, got 8 pairs"):
        GraphCost(graph)
    assert GraphCost(graph, disconnected=5.0).matrix[0, 2] == 5.0


BAD = {
    "dense": (np.eye(3), TypeError, "sparse array or matrix, .* got ndarray"),
    "oblong": (sparse.csr_array((2, 3)), ValueError, r"square, got shape \(2, 3\)"),
    "negative": (sparse.csr_array([[0, -1.0], [0, 0]]), ValueError, "not negative"),
    "nan": (sparse.csr_array([[0, np.nan], [0, 0]]), ValueError, "finite edges"),
}


@pytest.mark.parametrize("graph, error, message", BAD.values(), ids=BAD)
def test_bad_graphs_are_refused(graph, error, message):
    with pytest.raises(error, match=message):
        GraphCost(graph)


@pytest.mark.parametrize("disconnected", ["far", -1.0])
def test_bad_options_are_refused(disconnected):
    with pytest.raises(ValueError, match="disconnected must be"):
        GraphCost(graph_of(3, 0), disconnected=disconnected)


def test_nodes_without_mass_are_not_matched():
    pytest.importorskip("pandas")
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_weighted_edges_from((k, k + 1, 1 + 0.3 * k) for k in range(5))
    other = networkx.relabel_nodes(graph, dict(enumerate("abcdef")))
    kind = dict(marginals=gwfast.Partial(0.5), epsilon=0)
    result = gwfast.gromov_wasserstein(graph, other, **kind)
    moved = np.flatnonzero(result.plan.sum(axis=1) > 0)
    assert 0 < len(moved) < 6
    assert sorted(matches(result)) == moved.tolist()

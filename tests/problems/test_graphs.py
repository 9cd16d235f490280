"""Costs of graphs: SciPy's shortest paths, made some nodes at a time."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph

import gwfast
from gwfast import GraphCost


def graph_of(n, seed, more=2.0):
    """A connected graph, each edge in one direction."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(node) for node in range(1, n)]
    cols = list(range(1, n))
    rows += list(rng.integers(n, size=int(more * n)))
    cols += list(rng.integers(n, size=int(more * n)))
    made = sparse.coo_array((rng.random(len(rows)) + 0.1, (rows, cols)), shape=(n, n))
    made.sum_duplicates()
    return made


@pytest.mark.parametrize("n", [1, 2, 65])
@pytest.mark.parametrize("unweighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_they_are_the_lengths_of_paths(n, unweighted, directed, seed, monkeypatch):
    monkeypatch.setattr("gwfast.utils.blocks.SCRATCH_BYTES", 8 * n * 10)
    graph = graph_of(n, seed)
    if directed:
        back = sparse.coo_array((graph.data[::-1], graph.coords[::-1]), graph.shape)
        graph = sparse.coo_array(graph.tocsr() + 2 * back.tocsr())
    expected = csgraph.shortest_path(
        graph.tocsr(), directed=directed, unweighted=unweighted
    )
    for kind in (sparse.coo_array, sparse.csr_matrix, sparse.csc_array):
        cost = GraphCost(kind(graph), unweighted=unweighted, directed=directed)
        assert cost.symmetric is not directed and cost.matrix.dtype == np.float32
        np.testing.assert_allclose(cost.matrix, expected, rtol=1e-6)


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
    graph = graph_of(60, 3).tocsr()
    order = np.random.default_rng(0).permutation(60)
    costs = GraphCost(graph), GraphCost(graph[order][:, order])
    np.testing.assert_array_equal(costs[0].take(order).matrix, costs[1].matrix)
    result = gwfast.gromov_wasserstein(*costs, epsilon=0)
    assert result.gw_cost <= 1e-9
    assert (result.plan.argmax(axis=1) == np.argsort(order)).all()


def test_solvers_take_graphs_where_they_take_costs():
    graph = graph_of(30, 7).tocsr()
    order = np.random.default_rng(0).permutation(30)
    other = graph[order][:, order]
    costs = GraphCost(graph), GraphCost(other)
    expected = gwfast.gromov_wasserstein(*costs, epsilon=0)
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
    with pytest.raises(ValueError, match=f"^cost_y must be connected, .*; {advice}"):
        gwfast.gromov_wasserstein(graph_of(5, 0), apart)
    with pytest.raises(ValueError, match=rf"^spaces\[0\] must be conn.*{advice}"):
        gwfast.pairwise_gromov_wasserstein([apart])
    dense = csgraph.shortest_path(apart.tocsr(), directed=False)
    with pytest.raises(ValueError, match=f"^cost_x must be finite, got inf .*{advice}"):
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
    np.testing.assert_array_equal(
        hops, networkx.floyd_warshall_numpy(undirected, weight=None)
    )
    far = GraphCost(graph, weight="far").matrix
    np.testing.assert_allclose(
        far, networkx.floyd_warshall_numpy(graph, weight="far"), rtol=1e-6
    )
    result = gwfast.gromov_wasserstein(graph, graph, epsilon=0)
    assert result.plan.shape == (20, 20)


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
    assert result.match_labels() == {name: (name, 1) for name in tree}
    table = result.to_frame()
    expected = pandas.Series([(name, 1) for name in tree], tree, name="target")
    pandas.testing.assert_series_equal(table.set_index("source")["target"], expected,
                                       check_names=False)  # fmt: skip
    assert result.to_frame(source=range(6))["source"].tolist() == list(range(6))
    cost = GraphCost(moved).matrix
    result = gwfast.gromov_wasserstein(tree, cost, epsilon=epsilon)
    assert result.match_labels() == {name: nodes.index(name) for name in tree}


def test_bad_graphs_of_networkx_are_refused():
    networkx = pytest.importorskip("networkx")
    graph = networkx.path_graph(4)
    graph.add_edge(0, 1, weight="long")
    with pytest.raises(TypeError, match=r"^cost_x must have numbers as 'weight'"):
        gwfast.gromov_wasserstein(graph, np.eye(3))
    graph.add_edge(0, 1, weight=-1.0)
    with pytest.raises(ValueError, match=r"^cost_x must have finite edges that are"):
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


@pytest.mark.parametrize("case", BAD)
def test_bad_graphs_are_refused(case):
    graph, error, message = BAD[case]
    with pytest.raises(error, match=message):
        GraphCost(graph)


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="disconnected must be one of"):
        GraphCost(graph_of(3, 0), disconnected="far")
    with pytest.raises(ValueError, match="disconnected must be"):
        GraphCost(graph_of(3, 0), disconnected=-1.0)


def test_nodes_without_mass_are_not_matched():
    networkx = pytest.importorskip("networkx")
    graph = networkx.path_graph(6)
    for k, (u, v) in enumerate(graph.edges):
        graph[u][v]["weight"] = 1 + 0.3 * k
    names = dict(enumerate("abcdef"))
    other = networkx.relabel_nodes(graph, names)
    kind = dict(marginals="partial", mass=0.5, epsilon=0)
    result = gwfast.gromov_wasserstein(graph, other, **kind)
    moved = np.flatnonzero(result.plan.sum(axis=1) > 0)
    assert 0 < len(moved) < 6
    assert sorted(result.match_labels()) == moved.tolist()

"""Costs of graphs: SciPy's shortest paths, computed for some nodes at a time."""

import networkx
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
    rows = np.append(rng.integers(np.arange(1, n)), rng.integers(n, size=2 * n))
    cols = np.append(np.arange(1, n), rng.integers(n, size=2 * n))
    # SciPy before 1.15 finds no paths by wider indices, which the expected lengths come from.
    ends = rows.astype(np.int32), cols.astype(np.int32)
    graph = sparse.coo_array((rng.random(len(rows)) + 0.1, ends), shape=(n, n))
    graph.sum_duplicates()
    return graph


@pairwise(n=[1, 2, 65], unweighted=[False, True], directed=[False, True])
def test_they_are_the_lengths_of_paths(n, unweighted, directed, seed):
    graph = graph_of(n, seed)
    if directed:
        back = sparse.coo_array((graph.data[::-1], (graph.col, graph.row)), graph.shape)
        graph = sparse.coo_array(graph.tocsr() + 2 * back.tocsr())
    expected = csgraph.shortest_path(graph.tocsr(), directed=directed, unweighted=unweighted)
    for form in (sparse.coo_array, sparse.csr_matrix, sparse.csc_array):
        cost = GraphCost(form(graph), unweighted=unweighted, directed=directed)
        assert cost.symmetric is not directed and cost.matrix.dtype == np.float32
        np.testing.assert_allclose(cost.matrix, expected, rtol=1e-6)


def test_what_no_path_connects_takes_a_value():
    graph = sparse.block_diag([graph_of(5, 0), graph_of(4, 1)])
    near = csgraph.shortest_path(sparse.csr_array(graph), directed=False)
    reached = np.isfinite(near)
    for choice, value in (("largest", near[reached].max()), (7.5, 7.5), (0.0, 0.0)):
        matrix = GraphCost(graph, disconnected=choice).matrix
        np.testing.assert_allclose(matrix, np.where(reached, near, value), rtol=1e-6)
    graph, ends = graph_of(1100, 3), [0, 500, 1047, 1048, 1099]  # of several blocks
    expected = csgraph.shortest_path(graph.tocsr(), directed=False, indices=ends)
    np.testing.assert_allclose(GraphCost(graph).matrix[ends], expected, rtol=1e-6)


def test_solvers_take_a_graph_for_its_costs():
    graph = graph_of(30, 7).tocsr()
    order = np.random.default_rng(0).permutation(30)
    other = graph[order][:, order]
    costs = GraphCost(graph), GraphCost(other)
    np.testing.assert_array_equal(costs[0].take(order).matrix, costs[1].matrix)
    expected = gwfast.gromov_wasserstein(*costs, epsilon=0)
    assert expected.gw_cost <= 1e-9
    assert (expected.plan.argmax(axis=1) == np.argsort(order)).all()
    for form in (graph, sparse.csr_matrix(graph), graph.tocoo()):
        result = gwfast.gromov_wasserstein(form, other, epsilon=0)
        np.testing.assert_array_equal(result.plan, expected.plan)
    (batched,) = gwfast.gromov_wasserstein_batch([(graph, other)], epsilon=0)
    pairs = gwfast.pairwise_gromov_wasserstein([graph, other], n_starts=8)
    assert max(batched.gw_cost, pairs.costs[0, 1]) <= 1e-9


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.coo_array, sparse.csc_matrix])
def test_stored_zeros_are_told(form):
    path = sparse.csr_array(np.eye(4, k=1) + np.eye(4, k=-1))
    path[0, 1] = path[1, 0] = 0
    with pytest.warns(UserWarning, match=r"^x has 2 stored zeros, .*eliminate_zeros"):
        gwfast.gromov_wasserstein(form(path), np.eye(3), epsilon=0)
    path = sparse.csr_array(np.eye(4, k=1) + np.eye(4))
    path.setdiag(0)
    assert path.nnz == 7
    assert GraphCost(form(path)).matrix[0, 2] == 2  # a stored diagonal says nothing


@pytest.mark.parametrize("form", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_graphs_of_networkx(form):
    rng = np.random.default_rng(2)
    graph = getattr(networkx, form)()
    names = [f"node {k}" for k in rng.permutation(20)]
    graph.add_nodes_from(names)
    networkx.add_cycle(graph, names)  # of length 1 each
    for _ in range(60):
        left, right = rng.choice(names, 2)
        graph.add_edge(left, right, weight=float(rng.choice([0.0, 0.5, 2.0])))
        graph.add_edge(left, names[0], weight=3.0, far=7.0)
    cost = GraphCost(graph)
    assert cost.symmetric is not graph.is_directed()
    np.testing.assert_allclose(cost.matrix, networkx.floyd_warshall_numpy(graph), rtol=1e-6)
    hops = GraphCost(graph, unweighted=True, directed=False).matrix
    undirected = networkx.Graph(graph.to_undirected())
    np.testing.assert_array_equal(hops, networkx.floyd_warshall_numpy(undirected, weight=None))
    far = GraphCost(graph, weight="far").matrix
    np.testing.assert_allclose(far, networkx.floyd_warshall_numpy(graph, weight="far"), rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, "auto"])
def test_nodes_of_networkx_keep_their_names(epsilon):
    tree = networkx.Graph(["ab", "bc", "cd", "de", "cf"])
    tree["a"]["b"]["weight"], tree["d"]["e"]["weight"] = 2.0, 3.5
    nodes = ["f", "e", "d", "c", "b", "a"]
    moved = networkx.Graph()
    moved.add_nodes_from((name, 1) for name in nodes)
    moved.add_edges_from(((x, 1), (y, 1), data) for x, y, data in tree.edges(data=True))
    # Matrices of the other side number its points.
    for other, of in ((moved, lambda name: (name, 1)), (GraphCost(moved).matrix, nodes.index)):
        result = gwfast.gromov_wasserstein(tree, other, epsilon=epsilon)
        table = result.to_frame()
        assert table["source"].tolist() == list(tree)
        assert table["target"].tolist() == [of(name) for name in tree]
    assert result.labels == (tuple(tree.nodes), None)

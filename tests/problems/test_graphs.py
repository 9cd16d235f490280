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


BAD = {
    "dense": (np.eye(3), TypeError, "sparse array or matrix, got ndarray"),
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

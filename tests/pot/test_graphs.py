"""Graphs of SciPy and networkx where `gwfast.pot` takes costs within a space."""

import numpy as np
import pytest
import scipy.sparse
from helpers.pot_calls import ours, pots, same

import gwfast.pot


def ring(n, seed):
    """Lengths of edges, as a sparse array."""
    lengths = np.random.default_rng(seed).uniform(1, 2, n - 1)
    edges = scipy.sparse.diags_array(lengths, offsets=1, shape=(n, n))
    closed = scipy.sparse.coo_array(([1.5], ([0], [n - 1])), shape=(n, n))
    return scipy.sparse.csr_array(edges + closed)


def of_networkx(edges):
    """The same, with nodes that have names."""
    networkx = pytest.importorskip("networkx")
    graph = networkx.from_scipy_sparse_array(edges)
    return networkx.relabel_nodes(graph, {k: f"node {k}" for k in graph})


KINDS = {"scipy": lambda edges: edges, "networkx": of_networkx, "GraphCost": gwfast.GraphCost}
RINGS = ring(8, 0), ring(7, 1)
COSTS = [gwfast.GraphCost(edges).matrix.astype(np.float64) for edges in RINGS]
CENTER = {"N": 6, "random_state": 0, "max_iter": 5}
OPTIONS = {
    "gromov_wasserstein": {},
    "BAPG_gromov_wasserstein": {"epsilon": 5.0},
    "fused_unbalanced_gromov_wasserstein": {"epsilon": 1.0},
    "solve_gromov": {"reg": 1.0},
    "fgw_barycenters": CENTER | {"Ys": [np.arange(n)[:, None] / n for n in (8, 7)]},
    "semirelaxed_gromov_barycenters": CENTER,
    "gromov_wasserstein_dictionary_learning": {"D": 2, "nt": 3, "epochs": 2, "random_state": 0},
    "gromov_wasserstein_linear_unmixing": {"Cdict": np.array([COSTS[1], COSTS[1] ** 2])},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPTIONS)
def test_graphs_count_as_their_paths(name, kind):
    def solved(costs):
        if "barycenters" in name or "learning" in name:
            return ours(name)(Cs=costs, **OPTIONS[name])
        return ours(name)(*costs[: 1 if "unmixing" in name else 2], **OPTIONS[name])

    graphs = [KINDS[kind](edges) for edges in RINGS]
    same(solved(graphs), solved(COSTS), 0)
    if name == "gromov_wasserstein":  # POT's function, while it is swapped, takes them too
        with gwfast.pot.patched() as calls:
            same(pots(name)(*graphs), solved(COSTS))
        assert calls == {name: 1}

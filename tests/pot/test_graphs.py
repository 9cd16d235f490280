"""Graphs where `gwfast.pot` takes costs within a space: of SciPy, and of networkx."""

import numpy as np
import pytest
import scipy.sparse
from helpers.pot_calls import ours, pots

import gwfast.pot

N, M = 8, 7


def ring(n, seed):
    """Lengths of edges, as a sparse array."""
    rng = np.random.default_rng(seed)
    edges = scipy.sparse.diags_array(rng.uniform(1, 2, n - 1), offsets=1, shape=(n, n))
    closed = scipy.sparse.coo_array(([1.5], ([0], [n - 1])), shape=(n, n))
    return scipy.sparse.csr_array(edges + closed)


def of_networkx(edges):
    """The same, with nodes that have names."""
    networkx = pytest.importorskip("networkx")
    graph = networkx.from_scipy_sparse_array(edges)
    return networkx.relabel_nodes(graph, {k: f"node {k}" for k in graph})


KINDS = {"scipy": lambda edges: edges, "networkx": of_networkx, "GraphCost": gwfast.GraphCost}
RINGS = ring(N, 0), ring(M, 1)
COSTS = [gwfast.GraphCost(edges).matrix.astype(np.float64) for edges in RINGS]
OPTIONS = {
    "gromov_wasserstein": {},
    "semirelaxed_gromov_wasserstein2": {},
    "partial_gromov_wasserstein": {"m": 0.6},
    "entropic_gromov_wasserstein": {"epsilon": 1.0},
    "BAPG_gromov_wasserstein": {"epsilon": 5.0},
    "fused_unbalanced_gromov_wasserstein": {"epsilon": 1.0},
    "solve_gromov": {"reg": 1.0},
}
BARYCENTERS = {
    "gromov_barycenters": {},
    "entropic_gromov_barycenters": {"epsilon": 1.0},
    "fgw_barycenters": {"Ys": [np.arange(n)[:, None] / n for n in (N, M)]},
    "semirelaxed_gromov_barycenters": {},
}


def same(found, expected):
    if not isinstance(found, tuple):
        found, expected = (found,), (expected,)
    for one, other in zip(found, expected, strict=True):
        one, other = (getattr(x, "plan", x) for x in (one, other))
        assert one.dtype == np.float64
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPTIONS)
def test_plans(name, kind):
    function, options = ours(name), OPTIONS[name]
    same(function(*map(KINDS[kind], RINGS), **options), function(*COSTS, **options))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BARYCENTERS)
def test_barycenters(name, kind):
    options = BARYCENTERS[name] | {"random_state": 0, "max_iter": 5}
    graphs = list(map(KINDS[kind], RINGS))
    same(*(ours(name)(6, Cs=costs, **options) for costs in (graphs, COSTS)))


def test_calls_of_pots_functions_take_them_too():
    with gwfast.pot.patched() as calls:
        found = pots("gromov_wasserstein")(*map(of_networkx, RINGS))
    same(found, gwfast.pot.gromov_wasserstein(*COSTS))
    assert calls == {"gromov_wasserstein": 1}


def test_what_is_wrong_with_one_is_said_by_its_name():
    apart = scipy.sparse.csr_array((N, N))
    with pytest.raises(ValueError, match=r"C2 must be connected"):
        gwfast.pot.gromov_wasserstein(RINGS[0], apart)
    with pytest.raises(ValueError, match=r"Cs\[1\] must be connected"):
        gwfast.pot.gromov_barycenters(5, [RINGS[0], apart])

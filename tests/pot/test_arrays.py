"""Arrays of other libraries and graphs, in and out of `gwfast.pot`; see also test_calls.py."""

import sys
import types

import numpy as np
import pytest
import scipy.sparse
from helpers.pot_calls import ours, pots, same
from helpers.pot_spaces import C1, C2, GIVEN, P, Q

import gwfast.pot
from gwfast.pot import terms

SOLVE = gwfast.pot.entropic_gromov_wasserstein


class Foreign:
    """An array of another library, as the array API standard describes them."""

    def __init__(self, x, device="cpu:7", kind=1):
        self.x, self.device, self.kind = np.asarray(x), device, kind  # 1 is DLPack's of the CPU
        self.ndim, self.shape, self.dtype = self.x.ndim, self.x.shape, self.x.dtype

    def __dlpack__(self, **options):
        assert self.kind == 1
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return (self.kind, 0)

    def __array_namespace__(self):
        return types.SimpleNamespace(asarray=lambda x, device: Foreign(x, device))


class Old(Foreign):
    """An array of a library older than the standard's word for devices."""

    def __array_namespace__(self):
        return types.SimpleNamespace(asarray=lambda x: Old(x))


@pytest.mark.parametrize("kind", [Foreign, Old])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_a_library_come_back_as_such(kind, dtype):
    plain = [x.astype(dtype) for x in (C1, C2, P, Q)]
    right, right_log = ours("entropic_gromov_wasserstein2")(*plain, log=True)
    value, log = ours("entropic_gromov_wasserstein2")(*map(kind, plain), log=True)
    pairs = [(value, right), (log["gw_dist"], right), (log["T"], right_log["T"])]
    for found, other in [*pairs, *zip(log["err"], right_log["err"], strict=True)]:
        assert (type(found), found.dtype, found.device) == (kind, dtype, "cpu:7")
        np.testing.assert_array_equal(found.x, other)


@pytest.mark.parametrize("wrong", GIVEN)
def test_arrays_on_a_device_are_an_error(wrong):
    arrays = {name: Foreign(x) for name, x in GIVEN.items()}
    arrays[wrong] = Foreign(GIVEN[wrong], "cuda:0", 2)
    with pytest.raises(TypeError, match=rf"{wrong} .*cuda:0"):
        gwfast.pot.entropic_fused_gromov_wasserstein(**arrays)
    for name in terms.__all__:
        with pytest.raises(TypeError, match="cuda"):
            ours(name)(*[Foreign(C1, "cuda:0", 2)] * (3 if "semirelaxed" in name else 4))


def test_lists_and_what_only_numpy_reads_go_with_the_others():
    right = SOLVE(C1, C2, P, Q)
    plan = SOLVE(memoryview(C1), C2, memoryview(P), Q)
    assert type(plan) is np.ndarray
    np.testing.assert_array_equal(plan, right)
    plan = SOLVE(Foreign(C1), C2.tolist(), P.tolist(), tuple(Q))
    assert type(plan) is Foreign
    np.testing.assert_array_equal(plan.x, right)
    with pytest.raises(ValueError, match=r"C1 \(numpy\), C2 \("):
        SOLVE(C1, Foreign(C2))


def test_a_tracer_of_jax_is_an_error(monkeypatch):
    jax = types.SimpleNamespace(core=types.SimpleNamespace(Tracer=Old))
    monkeypatch.setitem(sys.modules, "jax", jax)
    with pytest.raises(TypeError, match="C2 asks for gradients"):
        SOLVE(Foreign(C1), Old(C2))


def test_tensors_are_not_copied():
    torch = pytest.importorskip("torch")
    c1, c2 = torch.from_numpy(C1), torch.from_numpy(C2.copy()).requires_grad_()
    with torch.no_grad():
        plan = SOLVE(c1.T, c2, epsilon=torch.tensor(0.2, dtype=c1.dtype))
    assert not plan.requires_grad
    np.testing.assert_array_equal(plan.numpy(), SOLVE(C1.T, C2, epsilon=0.2))
    plan.numpy()[:] = 3.0
    assert (plan == 3).all()


@pytest.mark.parametrize("change", ["bfloat16", "float16", "to_sparse", "meta"])
def test_tensors_that_numpy_has_no_word_for_are_an_error(change):
    torch = pytest.importorskip("torch")
    c1, c2 = torch.from_numpy(C1), torch.from_numpy(C2)
    wrong = c1.to_sparse() if change == "to_sparse" else c1.to(getattr(torch, change, change))
    with pytest.raises(TypeError, match="C1 must be"):
        SOLVE(wrong, c2)


def ring(n, seed):
    """Return lengths of edges, as a sparse array."""
    edges = np.diag(np.random.default_rng(seed).uniform(1, 2, n - 1), 1)
    edges[0, -1] = 1.5
    return scipy.sparse.csr_array(edges)


def of_networkx(edges):
    """Return the same with nodes that have names."""
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

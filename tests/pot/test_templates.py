"""Losses from graphs to templates: equal to single calls, and usable by the layers of POT."""

import warnings

import numpy as np
import pytest
from helpers.pot_rows import templates

from gwfast import pot

LEARNED = "tplt_adjacencies", "G_features", "tplt_features", "tplt_weights", "alpha"
UPSTREAM = np.random.default_rng(1).standard_normal((4, 3))


def one_by_one(given):
    """Return losses from calls of single problems, for tensors of all names in LEARNED."""
    torch = pytest.importorskip("torch")
    C, X, Y, q, alpha = (given[name] for name in LEARNED)
    counts = np.zeros((len(X), len(X)))
    np.add.at(counts, tuple(given["G_edges"]), 1.0)
    losses = []
    for g in range(4):
        nodes = np.flatnonzero(given["batch"] == g)
        graph = torch.from_numpy(counts[np.ix_(nodes, nodes)])
        for k, weight in enumerate(alpha.expand(3)):
            M = ((X[nodes][:, None] - Y[k]) ** 2).sum(dim=2)
            options = {"q": q[k], "alpha": weight, "max_iter": 50}
            losses.append(pot.fused_gromov_wasserstein2(M, graph, C[k], **options))
    return torch.stack(losses).reshape(4, 3)


@pytest.mark.parametrize("multi_alpha", [False, True])
def test_losses_and_gradients_are_those_of_single_calls(multi_alpha):
    torch = pytest.importorskip("torch")
    results = []
    for function in (one_by_one, lambda given: pot.FGW_distance_to_templates(**given)):
        given = templates(multi_alpha=multi_alpha)
        given |= {name: torch.from_numpy(given[name]).requires_grad_() for name in LEARNED}
        losses = function(given)
        (losses * torch.from_numpy(UPSTREAM)).sum().backward()
        results.append([losses.detach(), *(given[name].grad for name in LEARNED)])
    for name, expected, found in zip(("losses", *LEARNED), *results, strict=True):
        expected, found = expected.numpy(), found.numpy()
        if name == "tplt_weights":  # but for a constant of each template
            expected, found = (x - x.mean(axis=1, keepdims=True) for x in (expected, found))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11, err_msg=name)


def test_a_single_graph_float32_and_features_alone():
    given = templates()
    nodes = np.flatnonzero(given["batch"] == 2)
    whole = pot.FGW_distance_to_templates(**given)
    within = (given["batch"][given["G_edges"]] == 2).all(axis=0)
    alone = {"G_features": given["G_features"][nodes], "batch": None}
    alone["G_edges"] = np.searchsorted(nodes, given["G_edges"][:, within])
    losses = pot.FGW_distance_to_templates(**given | alone)
    assert isinstance(losses, np.ndarray)
    np.testing.assert_allclose(losses, whole[2], rtol=1e-12)
    given |= {name: given[name].astype(np.float32) for name in LEARNED}
    assert pot.FGW_distance_to_templates(**given).dtype == np.float32
    ot = pytest.importorskip("ot")
    given = templates()
    X, Y, q = (given[name] for name in LEARNED[1:4])
    losses = pot.wasserstein_distance_to_templates(X, Y, q, given["batch"])
    for g, row in enumerate(losses):
        nodes = np.flatnonzero(given["batch"] == g)
        right = [ot.emd2([], q[k], ot.dist(X[nodes], Y[k])) for k in range(3)]
        np.testing.assert_allclose(row, right, rtol=1e-9)
    alone = pot.wasserstein_distance_to_templates(X[nodes], Y, q)
    np.testing.assert_allclose(alone, losses[-1], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Sparse invariant")  # by POT's tensors
@pytest.mark.parametrize("kind", [{}, {"multi_alpha": False}, {"multi_alpha": True}])
def test_layers_of_pot_train_alike(kind):
    torch = pytest.importorskip("torch")
    if kind:
        pytest.importorskip("torch_geometric")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where torch_geometric is missing
        gnn = pytest.importorskip("ot.gnn")
    given = templates()
    layer = (gnn.TFGWPooling if kind else gnn.TWPooling)(2, 3, 6, **kind)
    with torch.no_grad():  # equal weights have ties, and no gradient of their own
        layer.q0.copy_(torch.from_numpy(given["tplt_weights"]).log())
    results = []
    for context in (warnings.catch_warnings(), pot.patched()):
        X = torch.from_numpy(given["G_features"]).float().requires_grad_()
        layer.zero_grad()
        with context as calls:
            losses = layer(X, *(torch.from_numpy(given[name]) for name in ("G_edges", "batch")))
            (losses**2).sum().backward()
        results.append([losses.detach(), X.grad, *(x.grad.clone() for x in layer.parameters())])
    assert sum(calls.values()) == 1
    for expected, found in zip(*results, strict=True):
        assert found.dtype == torch.float32
        np.testing.assert_allclose(found, expected, atol=2e-4 * float(expected.abs().max()))


def test_calls_of_one_problem_take_alpha_as_layers_have_it():
    """In an array of one entry; layers call these where patch() came first."""
    torch = pytest.importorskip("torch")
    given = templates()
    C, Y = (torch.from_numpy(given[name][0]) for name in ("tplt_adjacencies", "tplt_features"))
    results = []
    for shape in ((), (1,)):
        alpha = torch.full(shape, 0.4, dtype=torch.float64, requires_grad=True)
        loss = pot.fused_gromov_wasserstein2(torch.cdist(Y, Y), C, C**2, alpha=alpha)
        loss.backward()
        assert alpha.grad.shape == shape
        results.append((loss.item(), alpha.grad.item()))
    assert results[0] == results[1]
    arrays = [C.numpy()] * 3
    for name in ("partial_fused_gromov_wasserstein", "fused_gromov_wasserstein"):
        plan = getattr(pot, name)(*arrays, alpha=np.array([0.4]))
        np.testing.assert_array_equal(plan, getattr(pot, name)(*arrays, alpha=0.4))

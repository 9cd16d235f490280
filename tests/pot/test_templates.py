"""Distances from graphs to templates, and their gradients: those of calls of one
problem each, and what POT's layers of graph networks have.
"""

import warnings

import numpy as np
import pytest
from helpers.problems import masses

from gwfast import pot

SIZES, N_TEMPLATES, M, WIDTH = (5, 1, 7, 4), 3, 6, 2
LEARNED = "tplt_adjacencies", "G_features", "tplt_features", "tplt_weights", "alpha"


def data(multi_alpha=False, seed=0):
    """Arguments of a call, graphs with their nodes mixed up; one edge is there twice,
    and one is between two graphs, which does not count.
    """
    rng = np.random.default_rng(seed)
    batch = rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    pairs = np.argwhere(np.triu(rng.random((len(batch),) * 2) < 0.6, 1)).T
    within = batch[pairs[0]] == batch[pairs[1]]
    kept = np.hstack([pairs[:, within], pairs[:, within][:, :1], pairs[:, ~within]])
    kept = kept[:, : within.sum() + 2]
    C = rng.random((N_TEMPLATES, M, M))
    weights = np.array([masses(M, rng) for _ in range(N_TEMPLATES)])
    return dict(
        G_edges=np.hstack([kept, kept[::-1]]),
        tplt_adjacencies=C + C.swapaxes(1, 2),
        G_features=rng.standard_normal((len(batch), WIDTH)),
        tplt_features=rng.standard_normal((N_TEMPLATES, M, WIDTH)),
        tplt_weights=weights,
        alpha=np.array([0.3, 0.8, 0.5] if multi_alpha else 0.6),
        multi_alpha=multi_alpha,
        batch=batch,
    )


def adjacency(given, nodes):
    """The costs of the graph of these nodes."""
    counts = np.zeros((len(given["batch"]),) * 2)
    np.add.at(counts, tuple(given["G_edges"]), 1.0)
    return counts[np.ix_(nodes, nodes)]


def one_by_one(torch, given, tensors):
    """The same losses from calls of one problem each."""
    C, X, Y, q, alpha = (tensors[name] for name in LEARNED)
    alphas = alpha.expand(N_TEMPLATES)
    losses = []
    for g in range(len(SIZES)):
        nodes = np.flatnonzero(given["batch"] == g)
        graph = torch.from_numpy(adjacency(given, nodes))
        for k in range(N_TEMPLATES):
            M = ((X[nodes][:, None] - Y[k]) ** 2).sum(dim=2)
            kind = dict(alpha=alphas[k], max_iter=50)
            losses.append(pot.fused_gromov_wasserstein2(M, graph, C[k], None, q[k], **kind))
    return torch.stack(losses).reshape(len(SIZES), N_TEMPLATES)


@pytest.mark.parametrize("multi_alpha", [False, True])
def test_losses_and_gradients_are_those_of_single_calls(multi_alpha):
    torch = pytest.importorskip("torch")
    given, found = data(multi_alpha), []
    upstream = np.random.default_rng(1).standard_normal((len(SIZES), N_TEMPLATES))
    for call in (one_by_one, None):
        tensors = {name: torch.from_numpy(given[name]).requires_grad_() for name in LEARNED}
        if call is None:
            losses = pot.FGW_distance_to_templates(**given | tensors)
        else:
            losses = call(torch, given, tensors)
        (losses * torch.from_numpy(upstream)).sum().backward()
        made = [tensors[name].grad.numpy() for name in LEARNED]
        found.append([losses.detach().numpy(), *made])
    for name, x, y in zip(("losses", *LEARNED), *found, strict=True):
        if name == "tplt_weights":  # but for a constant of each template
            x, y = (one - one.mean(axis=1, keepdims=True) for one in (x, y))
        np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-11, err_msg=name)


def test_a_single_graph_has_a_row_and_arrays_are_answered_by_arrays():
    given = data()
    nodes = np.flatnonzero(given["batch"] == 2)
    whole = pot.FGW_distance_to_templates(**given)
    alone = given | dict(G_features=given["G_features"][nodes], batch=None)
    within = (given["batch"][given["G_edges"]] == 2).all(axis=0)
    alone["G_edges"] = np.searchsorted(nodes, given["G_edges"][:, within])
    losses = pot.FGW_distance_to_templates(**alone)
    assert isinstance(losses, np.ndarray)
    np.testing.assert_allclose(losses, whole[2], rtol=1e-12)
    single = {name: x.astype(np.float32) if name in LEARNED else x for name, x in given.items()}
    assert pot.FGW_distance_to_templates(**single).dtype == np.float32


def test_features_alone_have_wasserstein_losses():
    ot = pytest.importorskip("ot")
    given = data()
    X, Y, q = (given[name] for name in LEARNED[1:4])
    losses = pot.wasserstein_distance_to_templates(X, Y, q, given["batch"])
    for g, n in enumerate(SIZES):
        nodes = np.flatnonzero(given["batch"] == g)
        for k in range(N_TEMPLATES):
            right = ot.emd2(np.full(n, 1 / n), q[k], ot.dist(X[nodes], Y[k]))
            assert losses[g, k] == pytest.approx(right, rel=1e-9)
    one = pot.wasserstein_distance_to_templates(X[nodes], Y, q)
    np.testing.assert_allclose(one, losses[-1], rtol=1e-12)


# Of torch, on sparse tensors of POT.
@pytest.mark.filterwarnings("ignore:Sparse invariant")
@pytest.mark.parametrize("multi_alpha", [False, True])
@pytest.mark.parametrize("layer", ["TFGWPooling", "TWPooling"])
def test_layers_of_pot_train_alike(layer, multi_alpha):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    pytest.importorskip("ot")
    import ot.gnn

    structured = layer == "TFGWPooling"
    given, kind = data(), {"multi_alpha": multi_alpha} if structured else {}
    torch.manual_seed(0)
    made = getattr(ot.gnn, layer)(WIDTH, N_TEMPLATES, M, **kind)
    with torch.no_grad():  # equal weights have ties, and no gradient of their own
        made.q0.copy_(torch.from_numpy(given["tplt_weights"]).log())
    found = []
    for swapped in (False, True):
        X = torch.from_numpy(given["G_features"]).float().requires_grad_()
        inputs = X, torch.from_numpy(given["G_edges"]), torch.from_numpy(given["batch"])
        made.zero_grad()
        with pot.patched() if swapped else warnings.catch_warnings() as calls:
            losses = made(*inputs)
            (losses**2).sum().backward()
        parameters = [one.grad.numpy().copy() for one in made.parameters()]
        found.append([losses.detach().numpy(), X.grad.numpy(), *parameters])
    assert sum(calls.values()) == 1
    assert found[1][0].dtype == np.float32
    for x, y in zip(*found, strict=True):
        np.testing.assert_allclose(y, x, atol=2e-4 * np.abs(x).max())


@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_calls_of_one_problem_take_alpha_as_layers_have_it():
    """In an array of one entry; layers call these where patch() came first."""
    torch = pytest.importorskip("torch")
    given = data()
    C, Y = (torch.from_numpy(given[name][0]) for name in LEARNED[:3:2])
    found = []
    for shape in ((), (1,)):
        alpha = torch.full(shape, 0.4, dtype=torch.float64, requires_grad=True)
        loss = pot.fused_gromov_wasserstein2(torch.cdist(Y, Y), C, C**2, alpha=alpha)
        loss.backward()
        assert alpha.grad.shape == shape
        found.append((loss.item(), alpha.grad.item()))
    assert found[0] == found[1]
    arrays = C.numpy(), C.numpy(), C.numpy()
    for name in ("partial_fused_gromov_wasserstein", "fused_gromov_wasserstein"):
        plan = getattr(pot, name)(*arrays, alpha=np.array([0.4]))
        np.testing.assert_array_equal(plan, getattr(pot, name)(*arrays, alpha=0.4))


def test_what_is_not_here_is_left_to_pot():
    given = data()
    one_way = given["G_edges"][:, :1]
    tilted = given["tplt_adjacencies"] + np.triu(np.ones(M))
    empty = np.eye(M)[:N_TEMPLATES]
    for changed in (
        {"G_edges": one_way},
        {"tplt_adjacencies": tilted},
        {"tplt_weights": empty},
        {"alpha": 0.0},
    ):
        with pytest.raises(NotImplementedError, match=r"must .*; POT solves it"):
            pot.FGW_distance_to_templates(**given | changed)


def test_refusals_name_the_argument():
    given = data()
    for name, x, message in (
        ("tplt_features", np.zeros((2, 3)), "must be 3-D and not empty"),
        ("G_features", np.zeros((17, 3)), r"must have shape \(17, 2\), got \(17, 3\)"),
        ("tplt_weights", np.ones((N_TEMPLATES, M)), "must sum to one, got a row off"),
        ("tplt_adjacencies", np.zeros((1, M, M)), r"must have shape \(3, 6, 6\)"),
        ("alpha", [0.1, 0.2], "must have 1 entries, got 2"),
        ("alpha", 1.5, "must be between 0 and 1"),
        ("G_features", np.full((17, 2), np.nan), "must be finite"),
        ("G_features", np.full((17, 2), 1e160), "must have its largest magnitude"),
        ("batch", np.zeros(3, int), r"must have shape \(17,\)"),
        ("batch", np.full(17, 1), "must have nodes of all graphs, got no nodes of 0"),
        ("batch", np.full(17, 0.5), "must hold whole numbers from 0"),
        ("batch", np.full(17, -1), "must hold whole numbers from 0"),
        ("G_edges", np.zeros((3, 2), int), r"must have shape \(2, n_edges\)"),
        ("G_edges", np.full((2, 1), 17), "must hold whole numbers from 0 to 16"),
    ):
        with pytest.raises(ValueError, match=f"{name} {message}"):
            pot.FGW_distance_to_templates(**given | {name: x})

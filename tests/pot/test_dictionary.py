"""`gwfast.pot`'s dictionaries against POT's, and against what a dictionary is."""

import inspect

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.pot_calls import DICTIONARIES, ours, pots
from helpers.pot_spaces import costs, weights
from scipy.spatial.distance import cdist

from gwfast import pot

SIZES = 9, 7, 8, 11, 5
N = 6
CS = [costs(n, s) for s, n in enumerate(SIZES)]
PS = [weights(n, s) for s, n in enumerate(SIZES)]
YS = [np.random.default_rng(s).normal(size=(n, 2)) for s, n in enumerate(SIZES)]
Q = weights(N, 7)
CDICT = np.array([costs(N, s) for s in (3, 4, 5)])
YDICT = np.random.default_rng(4).normal(size=(3, N, 2))
ASYMMETRIC = np.array([costs(N, s, symmetric=False) for s in (3, 4, 5)])
UNMIXING, FUSED_UNMIXING, LEARNING, FUSED_LEARNING = DICTIONARIES


def same(found, expected, **tolerance):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, **{"atol": 1e-9} | tolerance)


def given(name, s=0, **options):
    """Arguments of a call by their names."""
    fused = "fused" in name
    if name in (UNMIXING, FUSED_UNMIXING):
        made = {"C": CS[s], "Cdict": CDICT, "p": PS[s], "q": Q}
        made |= {"Y": YS[s], "Ydict": YDICT} if fused else {}
    else:
        made = {"Cs": CS, "ps": PS, "q": Q, "D": 3, "nt": N, "epochs": 3}
        made |= {"random_state": 0, "use_log": True} | ({"Ys": YS} if fused else {})
        rates = ("_C", "_Y") if fused else ("",)
        made |= {f"learning_rate{end}": 0.1 for end in rates}
    return made | ({"alpha": 0.4} if fused else {}) | options


def loss_of(name, C, Y, p, q, T, embedded):
    """The sums that define the loss of a plan."""
    structure, *features = embedded
    apart = (C[:, :, None, None] - structure[None, None]) ** 2
    quad = np.einsum("ijkl,ik,jl", apart, T, T)
    if "fused" not in name:
        return quad
    linear = np.vdot(cdist(Y, *features, "sqeuclidean"), T)
    return 0.4 * quad + 0.6 * linear


@pairwise(
    name=[UNMIXING, FUSED_UNMIXING],
    reg=[0.0, 0.02],
    symmetric=[None, True, False],
    given_masses=[True, False],
    s=range(len(CS)),
)
def test_unmixing_agrees_with_pot(name, reg, symmetric, given_masses, s):
    options = given(name, s, reg=reg, symmetric=symmetric)
    if not given_masses:
        options |= {"p": None, "q": None}
    found = ours(name)(**options)
    same(found, pots(name)(**options))
    w, *embedded, T, loss = found
    assert isinstance(loss, np.float64)
    assert w.min() >= 0 and w.sum() == pytest.approx(1)
    p, q = T.sum(axis=1), T.sum(axis=0)
    if given_masses:
        same((p, q), (PS[s], Q))
    same(embedded, [np.tensordot(w, x, 1) for x in (CDICT, YDICT)][: len(embedded)])
    expected = loss_of(name, CS[s], YS[s], p, q, T, embedded) - reg * w @ w
    assert loss == pytest.approx(expected)


@pairwise(
    name=[LEARNING, FUSED_LEARNING],
    projection=["nonnegative_symmetric", "symmetric", "nonnegative", ""],
    use_adam_optimizer=[True, False],
    batch_size=[2, 32],
    init=[True, False],
    reg=[0.0, 0.02],
)
def test_learning_agrees_with_pot(name, projection, use_adam_optimizer, batch_size, init, reg):
    options = given(name, projection=projection, batch_size=batch_size, reg=reg)
    options["use_adam_optimizer"] = use_adam_optimizer
    if init:
        options["Cdict_init"] = CDICT - 0.5
        options |= {"Ydict_init": YDICT} if "fused" in name else {}
        options |= {"ps": None, "q": None}
    *found, log = ours(name)(**options)
    *theirs, their_log = pots(name)(**options)
    same(found, theirs)
    assert log.keys() == their_log.keys()
    same(log.values(), their_log.values())
    assert isinstance(log["loss_epochs"][0], np.float64)
    if "nonnegative" in projection:
        assert found[0].min() >= 0
    if "symmetric" in projection:
        np.testing.assert_array_equal(found[0], found[0].transpose(0, 2, 1))


@pytest.mark.parametrize("name", [LEARNING, FUSED_LEARNING])
def test_random_numbers_of_the_global_generator(name, monkeypatch):
    expected = ours(name)(**given(name, random_state=5))
    generator = np.random.RandomState(5)
    same(ours(name)(**given(name, random_state=generator))[:-1], expected[:-1])
    monkeypatch.setattr(np.random.mtrand, "_rand", np.random.RandomState(5))
    same(ours(name)(**given(name, random_state=None))[:-1], expected[:-1])


@pytest.mark.parametrize("name", [UNMIXING, FUSED_UNMIXING])
def test_points_without_mass_do_not_count(name):
    options = given(name)
    expected = ours(name)(**options)
    options["p"] = np.r_[PS[0], 0.0]
    options["C"] = np.pad(CS[0], (0, 1), constant_values=0.7)
    if "Y" in options:
        options["Y"] = np.r_[YS[0], [[3.0, 5.0]]]
    *found, T, loss = ours(name)(**options)
    same([*found, T[:-1], loss], expected)
    assert not T[-1].any()


@pytest.mark.parametrize("name", [UNMIXING, FUSED_UNMIXING])
def test_totals_need_not_be_one(name):
    options, fused = given(name), "fused" in name
    expected = ours(name)(**options)
    options |= {"p": 3 * PS[0], "q": 3 * Q}
    if fused:  # features count once, structures twice
        options |= {"Y": 3**0.5 * YS[0], "Ydict": 3**0.5 * YDICT}
    w, *_, T, loss = ours(name)(**options)
    same((w, T / 3, loss / 9), (expected[0], *expected[-2:]))


@pytest.mark.parametrize("symmetric", [None, True])
@pytest.mark.parametrize("name", [UNMIXING, FUSED_UNMIXING])
def test_asymmetric_atoms(name, symmetric):
    """POT takes the target of weights transposed, which matters where costs are not
    symmetric either.
    """
    options = given(name, Cdict=ASYMMETRIC, symmetric=symmetric)
    same(ours(name)(**options), pots(name)(**options))
    options |= {"C": costs(9, 1, symmetric=False), "symmetric": None}
    _, *embedded, T, loss = ours(name)(**options)
    expected = loss_of(name, options["C"], YS[0], PS[0], Q, T, embedded)
    assert loss == pytest.approx(expected)


def test_an_atom_is_unmixed_as_itself():
    order = np.random.default_rng(1).permutation(N)
    options = {"C": CDICT[1][np.ix_(order, order)], "Y": YDICT[1][order], "p": Q[order]}
    w, *_, T, loss = ours(FUSED_UNMIXING)(**given(FUSED_UNMIXING) | options)
    same((w, loss), ([0, 1, 0], 0))
    same((T,), (np.diag(Q)[order],))


def test_ties_of_graphs_are_broken_for_lower_losses():
    networkx = pytest.importorskip("networkx")
    graphs = [
        networkx.stochastic_block_model([9] * 2, [[0.9, 0.1], [0.1, 0.9]], seed=s)
        for s in range(12)
    ]
    arrays = [networkx.to_numpy_array(graph) for graph in graphs]
    both = [[of(UNMIXING)(C, CDICT, tol_outer=1e-9)[-1] for C in arrays] for of in (ours, pots)]
    found, theirs = map(np.array, both)
    assert found.mean() < theirs.mean()


def test_losses_fall_and_the_best_epoch_is_returned(capsys):
    options = given(LEARNING, epochs=12, learning_rate=0.05)
    atoms, log = ours(LEARNING)(**options)
    losses = log["loss_epochs"]
    assert min(losses) < 0.8 * losses[0]
    best = int(np.argmin(losses))
    options |= {"epochs": best + 1, "use_log": False, "verbose": True}
    found, log = ours(LEARNING)(**options)
    same(found, atoms)
    assert log == {"loss_batches": [], "loss_epochs": []}
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == best + 1
    assert lines[0].startswith("--- epoch = 0 ")
    assert float(lines[-1].split()[-1]) == pytest.approx(losses[best])


def test_no_epochs_leave_the_first_atoms():
    init = CDICT - 0.5
    atoms, _ = ours(LEARNING)(**given(LEARNING, epochs=0, Cdict_init=init))
    same(atoms, np.maximum(init, 0))


@pytest.mark.parametrize("name", DICTIONARIES)
def test_float32_stays(name):
    options, arrays = given(name), {"C", "Y", "Cdict", "Ydict", "p", "q"}
    for key, x in options.items():
        if key in arrays:
            options[key] = x.astype(np.float32)
        elif key in ("Cs", "Ys", "ps"):
            options[key] = [one.astype(np.float32) for one in x]
    found, expected = ours(name)(**options), ours(name)(**given(name))
    for one, other in zip(found, expected, strict=True):
        if not isinstance(one, dict):
            assert one.dtype == np.float32
            np.testing.assert_allclose(one, other, atol=2e-3)


def test_graphs_are_taken():
    graph = pytest.importorskip("networkx").path_graph(6)
    hops = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    options = {"D": 2, "nt": 3, "epochs": 2, "random_state": 0}
    found, _ = pot.gromov_wasserstein_dictionary_learning([graph, CS[0]], **options)
    right, _ = pot.gromov_wasserstein_dictionary_learning([hops, CS[0]], **options)
    same(found, right)


BAD_UNMIXING = [
    ({"Cdict": CDICT[0]}, "Cdict must be 3-D and not empty"),
    ({"Cdict": CDICT[:0]}, "Cdict must be 3-D and not empty"),
    ({"Cdict": CDICT[:, 1:]}, r"Cdict must have shape \(3, 6, 6\)"),
    ({"C": CS[0][1:]}, "C must be square"),
    ({"p": PS[1]}, r"p must have shape \(9,\)"),
    ({"q": 2 * Q}, "p must have the same total as q"),
    ({"tol_inner": -1.0}, "tol_inner must be non-negative"),
    ({"max_iter_outer": 0.5}, "max_iter_outer must be at least 1"),
    ({"reg": -1.0}, "reg must be non-negative"),
]
BAD_LEARNING = [
    ({"Cs": []}, "Cs must not be empty"),
    ({"Cs": [CS[0].tolist(), *CS[1:]]}, r"Cs\[0\] must be an array, got a list"),
    ({"ps": PS[:2]}, "ps must have 5 arrays like Cs"),
    ({"Cdict_init": CDICT[:2]}, r"Cdict_init must have shape \(3, 6, 6\)"),
    ({"D": 0}, "D must be at least 1"),
    ({"nt": 0}, "nt must be at least 1"),
    ({"batch_size": 0}, "batch_size must be at least 1"),
]
BAD_FEATURES = [
    ({"alpha": 2.0}, "alpha must be between 0 and 1"),
    ({"alpha": None}, "alpha must be a number"),
    ({"Y": None}, "Y must be an array, got None"),
    ({"Ydict": None}, "Ydict must be an array, got None"),
    ({"Ys": None}, r"Ys\[0\] must be an array, got None"),
    ({"Y": YS[1]}, r"Y must have shape \(9, 2\)"),
    ({"Ydict": YDICT[:, :, :1]}, r"Ydict must have shape \(3, 6, 2\)"),
    ({"Ys": [*YS[:4], YS[0]]}, r"Ys\[4\] must have shape \(5, 2\)"),
    ({"Ydict_init": YDICT[:2]}, r"Ydict_init must have shape \(3, 6, 2\)"),
    ({"learning_rate_Y": 0.0}, "learning_rate_Y must be positive"),
]


@pytest.mark.parametrize("name", DICTIONARIES)
def test_errors(name):
    cases = BAD_UNMIXING if "unmixing" in name else BAD_LEARNING
    cases = cases + (BAD_FEATURES if "fused" in name else [])
    known = inspect.signature(ours(name)).parameters
    for bad, message in cases:
        if bad.keys() <= known.keys():
            with pytest.raises((TypeError, ValueError), match=message):
                ours(name)(**given(name) | bad)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_rates_that_lead_nowhere():
    options = {"learning_rate": 1e200, "use_adam_optimizer": False}
    with pytest.raises(ValueError, match="learning rates must keep atoms finite"):
        ours(LEARNING)(**given(LEARNING, **options))

"""`gwfast.pot`'s semi-relaxed barycenters against POT's, and against what they are."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.pot_calls import SEMIRELAXED_BARYCENTERS, ours, pots
from helpers.pot_spaces import costs, weights
from scipy.spatial.distance import cdist

from gwfast import pot
from gwfast.pot import _starts

LAMBDAS = [0.5, 0.2, 0.3]
N = 5
INIT_C = costs(N, 4)
INIT_X = np.random.default_rng(4).normal(size=(N, 2))
PLAIN, FUSED = SEMIRELAXED_BARYCENTERS
LOSSES = ["square_loss", "kl_loss"]


def call(name, seed, sizes=(9, 5, 3), **options):
    """Arguments; spaces of more, as many and fewer points than the barycenter."""
    made = {"N": N, "Cs": [costs(n, seed) for n in sizes], "lambdas": LAMBDAS}
    made |= {"ps": [weights(n, seed) for n in sizes], "max_iter": 20, "log": True}
    if name == FUSED:
        rng = np.random.default_rng(seed)
        made |= {"Ys": [rng.normal(size=(n, 2)) for n in sizes], "init_X": INIT_X}
    return made | options


def agree(name, options, atol=1e-9):
    with np.errstate(divide="ignore", invalid="ignore"):  # by masses that are zero
        *theirs, their_log = pots(name)(**options)
    *found, log = ours(name)(**options)
    assert log.keys() == their_log.keys()
    for one, other in zip(found, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=atol)
    for key, entries in their_log.items():
        assert len(log[key]) == len(entries)
        for one, other in zip(log[key], entries, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=10 * atol)
    return found, log


@pairwise(
    name=SEMIRELAXED_BARYCENTERS,
    seed=range(3),
    loss_fun=LOSSES,
    stop_criterion=["barycenter", "loss"],
    warmstartT=[False, True],
    G0=["product", "random"],
    init_C=[None, INIT_C],
)
def test_agrees_with_pot(name, seed, loss_fun, stop_criterion, warmstartT, G0, init_C):
    options = call(name, seed, loss_fun=loss_fun, stop_criterion=stop_criterion, G0=G0)
    options |= {"warmstartT": warmstartT, "init_C": init_C, "random_state": seed}
    found, log = agree(name, options)
    options["log"] = False
    again = ours(name)(**options)
    np.testing.assert_array_equal(again[-1] if name == FUSED else again, found[-1])
    # What was returned is the best structure for the plans.
    weighted = list(zip(LAMBDAS, options["Cs"], log["T"], strict=True))
    quotient = sum(w * np.outer(q, q) for w, q in zip(LAMBDAS, log["p"], strict=True))
    mean = sum(w * T.T @ C @ T for w, C, T in weighted)
    mean = np.divide(mean, quotient, where=quotient > 0, out=np.zeros_like(mean))
    np.testing.assert_allclose(found[-1], mean, atol=1e-12)
    for p, q, T in zip(options["ps"], log["p"], log["T"], strict=True):
        np.testing.assert_allclose(T.sum(axis=1), p, rtol=1e-12)
        np.testing.assert_allclose(T.sum(axis=0), q, rtol=1e-12, atol=1e-15)
    if name == FUSED:
        expected = [cdist(Y, found[0], "sqeuclidean") for Y in options["Ys"]]
        np.testing.assert_allclose(log["Ms"][0], expected[0], atol=1e-12)


@pytest.mark.parametrize("G0", _starts.PARTITIONS)
@pytest.mark.parametrize("name", SEMIRELAXED_BARYCENTERS)
@pytest.mark.filterwarnings("ignore:Both structures have the same size")
def test_starts_that_cluster_are_pots(name, G0):
    pytest.importorskip("sklearn")
    pytest.importorskip("networkx")
    options = call(name, 1, (9, 7, 8), G0=G0, random_state=1, max_iter=1)
    options.pop("init_X", None)
    agree(name, options)


@pytest.mark.parametrize("name", SEMIRELAXED_BARYCENTERS)
def test_few_points(name):
    for n in (1, 2):
        options = call(name, 0, (2, 4, 3), N=n, random_state=0, max_iter=5)
        if name == FUSED:
            options["init_X"] = INIT_X[:n]
        agree(name, options)


@pytest.mark.parametrize("fixed", ["structure", "features"])
def test_fixed_parts_stay(fixed):
    options = call(FUSED, 0, init_C=INIT_C, max_iter=50, **{f"fixed_{fixed}": True})
    X, C, log = ours(FUSED)(**options)
    kept, given = (C, INIT_C) if fixed == "structure" else (X, INIT_X)
    np.testing.assert_array_equal(kept, given)
    assert not any(log[f"err_{'feature' if fixed == 'features' else fixed}"])
    moved = log["err_feature" if fixed == "structure" else "err_structure"]
    assert len(moved) > 1
    assert moved[-1] <= 1e-9


def test_of_as_many_points_a_space_is_its_barycenter():
    C, p = costs(7, 1), weights(7, 1)
    order = np.random.default_rng(0).permutation(7)
    options = {"init_C": C[np.ix_(order, order)], "stop_criterion": "loss"}
    found, log = pot.semirelaxed_gromov_barycenters(7, [C], [p], log=True, **options)
    assert log["loss"][-1] == pytest.approx(0, abs=1e-12)
    matched = log["T"][0].argmax(axis=0)
    np.testing.assert_allclose(found, C[np.ix_(matched, matched)], atol=1e-12)


@pytest.mark.parametrize("name", SEMIRELAXED_BARYCENTERS)
def test_float32_is_kept_and_masses_need_not_sum_to_one(name):
    options = call(name, 0, init_C=INIT_C)
    options["ps"] = [3 * p for p in options["ps"]]
    right, _ = agree(name, options)
    for key in {"Cs", "ps", "Ys"} & options.keys():
        options[key] = [x.astype(np.float32) for x in options[key]]
    for key in {"init_C", "init_X"} & options.keys():
        options[key] = options[key].astype(np.float32)
    *found, log = ours(name)(**options)
    assert {x.dtype for x in (*found, *log["T"], log["p"])} == {np.dtype(np.float32)}
    np.testing.assert_allclose(found[-1], right[-1], atol=1e-4)


def test_products_of_the_same_features_are_near_to_all():
    X, C, log = ours(FUSED)(**call(FUSED, 0, init_X=None, max_iter=1, random_state=0))
    assert np.isfinite(X).all() and np.isfinite(C).all()
    assert len(log["T"]) == 3


BAD = [
    ({"G0": "weird"}, "G0='weird'"),
    ({"ps": [np.ones(9), np.ones(4), np.ones(3)]}, r"ps\[1\] must have shape \(5,\)"),
    ({"init_C": INIT_X}, "init_C must have shape"),
    ({"stop_criterion": "never"}, "stop_criterion='never'"),
]


@pytest.mark.parametrize("name", SEMIRELAXED_BARYCENTERS)
@pytest.mark.parametrize("bad, message", BAD)
def test_errors(name, bad, message):
    with pytest.raises(ValueError, match=message):
        ours(name)(**call(name, 0) | bad)


@pytest.mark.parametrize("name", SEMIRELAXED_BARYCENTERS)
def test_patched_pot_runs_on_ours(name):
    options = call(name, 0, random_state=0)
    with pot.patched() as calls:
        found = pots(name)(**options)
    np.testing.assert_array_equal(found[0], ours(name)(**options)[0])
    assert calls == {name: 1}

"""`gwfast.pot`'s barycenters against POT's, and against what a barycenter is."""

import numpy as np
import pytest
from helpers.pot_calls import Spy
from helpers.pot_spaces import costs, weights

import gwfast.pot
from gwfast.pot import barycenters

CS = [costs(9, 0), costs(7, 1), costs(8, 2)]
PS = [weights(len(C), s) for s, C in enumerate(CS)]
YS = [np.random.default_rng(s).normal(size=(len(C), 2)) for s, C in enumerate(CS)]
N = 5
P = weights(N, 3)
LAMBDAS = [0.5, 0.2, 0.3]
INIT_C = costs(N, 4)
INIT_Y = np.random.default_rng(4).normal(size=(N, 2))
LOSSES = ["square_loss", "kl_loss"]


@pytest.fixture
def tight(monkeypatch):
    """Plans to the last digit: POT looks at every tenth change only, and so solves
    further than its tolerance for them.
    """
    monkeypatch.setattr(barycenters, "PLAN_TOL", 1e-8)


def pots(name):
    return getattr(pytest.importorskip("ot").gromov, name)


def structure(plans, loss_fun, p=P, lambdas=LAMBDAS):
    """Proposition 3 of Peyré, Cuturi and Solomon (ICML 2016)."""
    mean = 0
    for weight, T, C in zip(lambdas, plans, CS, strict=True):
        mean = mean + weight * T @ (C if loss_fun == "square_loss" else np.log(C)) @ T.T
    mean = mean / (p[:, None] * p[None, :])
    return mean if loss_fun == "square_loss" else np.exp(mean)


def features(plans, p=P, lambdas=LAMBDAS):
    means = (w * T @ Y for w, T, Y in zip(lambdas, plans, YS, strict=True))
    return sum(means) / p[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("warmstartT", [False, True])
@pytest.mark.parametrize("stop_criterion", ["barycenter", "loss"])
@pytest.mark.parametrize("loss_fun", LOSSES)
def test_agrees_with_pot(loss_fun, stop_criterion, warmstartT, tight):
    options = {
        "epsilon": 0.05,
        "max_iter": 20,
        "stop_criterion": stop_criterion,
        "warmstartT": warmstartT,
        "random_state": 3,
        "log": True,
    }
    arguments = N, CS, PS, P, LAMBDAS, loss_fun
    theirs, their_log = pots("entropic_gromov_barycenters")(*arguments, **options)
    ours, our_log = gwfast.pot.entropic_gromov_barycenters(*arguments, **options)
    np.testing.assert_allclose(ours, theirs, atol=2e-4)
    assert their_log.keys() == our_log.keys()
    steps = min(len(our_log["err"]), len(their_log["err"]))
    np.testing.assert_allclose(
        our_log["err"][:steps], their_log["err"][:steps], rtol=1e-3, atol=2e-4
    )
    for T, other in zip(our_log["T"], their_log["T"], strict=True):
        np.testing.assert_allclose(T, other, atol=1e-4)
    np.testing.assert_array_equal(our_log["p"], P)
    # What was returned is the best structure for the plans.
    np.testing.assert_allclose(ours, structure(our_log["T"], loss_fun), rtol=1e-9)
    options["log"] = False
    np.testing.assert_array_equal(
        gwfast.pot.entropic_gromov_barycenters(*arguments, **options), ours
    )


@pytest.mark.parametrize("warmstartT", [False, True])
@pytest.mark.parametrize("loss_fun", LOSSES)
def test_fused_agrees_with_pot_but_for_the_features_it_returns(
    loss_fun, warmstartT, tight
):
    ot = pytest.importorskip("ot")
    options = {
        "epsilon": 0.5,
        "max_iter": 12,
        "tol": 0.0,
        "warn": False,
        "stop_criterion": "loss",
        "warmstartT": warmstartT,
        "init_C": INIT_C,
        "init_Y": INIT_Y,
        "log": True,
    }
    arguments = N, YS, CS, PS, P, LAMBDAS, loss_fun
    Y, C, log = gwfast.pot.entropic_fused_gromov_barycenters(*arguments, **options)
    their_Y, their_C, their_log = pots("entropic_fused_gromov_barycenters")(
        *arguments, **options
    )
    np.testing.assert_allclose(C, their_C, atol=2e-4)
    assert their_log.keys() == log.keys()
    assert log["loss"][-1] == pytest.approx(their_log["loss"][-1], rel=1e-3)
    for ours, theirs in zip(log["Ms"], their_log["Ms"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-2, atol=2e-3)
    # POT's Ms are of the features that it should have returned.
    np.testing.assert_array_equal(their_Y, INIT_Y)
    np.testing.assert_allclose(Y, features(log["T"]), rtol=1e-9)
    for M, Y_s in zip(log["Ms"], YS, strict=True):
        np.testing.assert_allclose(M, ot.dist(Y, Y_s), atol=1e-12)


def test_fused_goes_on_until_both_stand_still():
    Y, C, log = gwfast.pot.entropic_fused_gromov_barycenters(
        N, YS, CS, PS, P, LAMBDAS, epsilon=0.3, tol=1e-3, random_state=0, log=True
    )
    errors = np.array([log["err_feature"], log["err_structure"]])
    assert errors.shape[1] > 2
    assert (errors[:, :-1].max(axis=0) > 1e-3).all()
    assert (errors[:, -1] <= 1e-3).all()
    assert len(log["Ts_iter"]) == errors.shape[1]
    np.testing.assert_array_equal(log["Ts_iter"][-1][0], log["T"][0])
    assert not np.array_equal(log["Ts_iter"][0][0], log["T"][0])
    np.testing.assert_allclose(Y, features(log["T"]))
    np.testing.assert_allclose(C, structure(log["T"], "square_loss"))
    # Features start from zeros.
    first = features(log["Ts_iter"][0])
    assert log["err_feature"][0] == pytest.approx(np.linalg.norm(first))


@pytest.mark.parametrize("fixed", ["structure", "features", "both"])
def test_fixed_parts_stay(fixed):
    options = {
        "fixed_structure": fixed != "features",
        "fixed_features": fixed != "structure",
    }
    Y, C, log = gwfast.pot.entropic_fused_gromov_barycenters(
        *(N, YS, CS, PS, P, LAMBDAS),
        epsilon=0.3,
        tol=1e-3,
        init_C=INIT_C,
        init_Y=INIT_Y,
        log=True,
        **options,
    )
    # POT stops after one step, as nothing moved in what is fixed.
    if fixed == "both":
        assert log["err_feature"] == log["err_structure"] == [0.0]
    else:
        assert len(log["err_feature"]) > 1
    if fixed != "features":
        np.testing.assert_array_equal(C, INIT_C)
    else:
        np.testing.assert_allclose(C, structure(log["T"], "square_loss"))
    if fixed != "structure":
        np.testing.assert_array_equal(Y, INIT_Y)
    else:
        np.testing.assert_allclose(Y, features(log["T"]))


@pytest.mark.parametrize("seed", [5, np.random.RandomState(5), None])
def test_random_starts_are_pots(seed, monkeypatch):
    from scipy.spatial.distance import cdist

    if seed is None:
        monkeypatch.setattr(np.random.mtrand, "_rand", np.random.RandomState(5))
    spy = Spy(monkeypatch)
    points = np.random.RandomState(5).randn(N, 2)
    expected = cdist(points, points, "sqeuclidean")
    options = {"epsilon": 5.0, "max_iter": 1, "warn": False}
    if isinstance(seed, np.random.RandomState):
        gwfast.pot.entropic_fused_gromov_barycenters(
            N, YS, CS, random_state=seed, **options
        )
    else:
        gwfast.pot.entropic_gromov_barycenters(N, CS, random_state=seed, **options)
        expected /= expected.max()
    np.testing.assert_allclose(spy.calls[0][0].C1, expected, rtol=1e-12)


def test_options_reach_the_solver(monkeypatch):
    spy = Spy(monkeypatch)
    gwfast.pot.entropic_gromov_barycenters(
        *(N, CS),
        epsilon=0.5,
        symmetric=False,
        max_iter=2,
        solver="PPA",
        warmstartT=True,
        warmstart=True,
        numItermax=10,
        stopThr=1e-4,
        warn=False,
    )
    assert len(spy.calls) == 2 * len(CS)
    for problem, options in spy.calls:
        assert options["method"] == "ppa"
        assert (options["max_inner"], options["inner_tol"]) == (10, 1e-4)
        assert problem.symmetric is False
        assert (options["epsilon"], options["tol"]) == (0.5, 1e-4)
    # The second time from the plans of the first.
    started = [problem.G0 is not None for problem, _ in spy.calls]
    assert started == [False] * 3 + [True] * 3


def test_table(capsys):
    gwfast.pot.entropic_gromov_barycenters(
        N, CS[:1], epsilon=0.3, max_iter=3, tol=0.0, random_state=0, verbose=True
    )
    lines = capsys.readouterr().out.splitlines()
    # One row an update, after the tables of the plans.
    for row in range(3):
        assert any(line.startswith(f"{row:5d}|") for line in lines)
    assert lines[0] == "It.  |Err         "


@pytest.mark.slow
def test_a_barycenter_of_one_space_is_that_space():
    """Permuted, where there is next to no entropy and room for every point."""
    C = CS[1]
    order = np.random.default_rng(0).permutation(len(C))
    found, log = gwfast.pot.entropic_gromov_barycenters(
        len(C), [C], epsilon=2e-4, init_C=C[np.ix_(order, order)], max_iter=30,
        log=True, warn=False,
    )  # fmt: skip
    inverse = np.argsort(order)
    np.testing.assert_allclose(found[np.ix_(inverse, inverse)], C, atol=0.02)
    np.testing.assert_array_equal(log["T"][0].argmax(axis=1), order)


def test_errors():
    plain = gwfast.pot.entropic_gromov_barycenters
    fused = gwfast.pot.entropic_fused_gromov_barycenters
    with pytest.raises(ValueError, match="loss_fun='weird'"):
        plain(N, CS, loss_fun="weird")
    with pytest.raises(ValueError, match="stop_criterion='never'"):
        plain(N, CS, stop_criterion="never")
    with pytest.raises(ValueError, match=r"Cs\[0\] must be an array, got a list"):
        plain(N, [CS[0].tolist()])
    with pytest.raises(ValueError, match=r"ps\[1\] must be an array, got a list"):
        fused(N, YS, CS, [PS[0], PS[1].tolist(), PS[2]])
    with pytest.raises(ValueError, match=r"Cs\[1\] must be square"):
        plain(N, [CS[0], CS[1][1:]])
    with pytest.raises(ValueError, match=r"ps must have as many arrays as Cs, 3"):
        plain(N, CS, PS[:2])
    with pytest.raises(ValueError, match=r"ps\[2\] must have shape \(8,\)"):
        plain(N, CS, [*PS[:2], PS[1]])
    with pytest.raises(ValueError, match=r"Ys\[1\] must have shape \(7, 2\)"):
        fused(N, [YS[0], YS[0], YS[2]], CS)
    with pytest.raises(ValueError, match=r"init_C must have shape \(5, 5\)"):
        plain(N, CS, init_C=CS[0])
    with pytest.raises(ValueError, match=r"init_Y must have shape \(5, 2\)"):
        fused(N, YS, CS, init_Y=YS[0])
    with pytest.raises(ValueError, match=r"lambdas must have shape \(3,\)"):
        plain(N, CS, lambdas=[1.0])
    with pytest.raises(ValueError, match="p must be positive"):
        plain(2, CS, p=np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="N must be at least 1"):
        plain(0, CS)
    with pytest.raises(ValueError, match="Cs must not be empty"):
        plain(N, [])
    with pytest.raises(ValueError, match="solver='EMD'"):
        plain(N, CS, solver="EMD")
    with pytest.raises(TypeError, match="init_Cb"):
        plain(N, CS, init_Cb=INIT_C)
    for fixed, missing in (("structure", "init_C"), ("features", "init_Y")):
        options = {f"fixed_{fixed}": True}
        with pytest.raises(ValueError, match=f"{missing} must be given"):
            fused(N, YS, CS, **options)


def test_errors_are_pots():
    ot = pytest.importorskip("ot")
    with pytest.raises(ot.utils.UndefinedParameter, match="init_C"):
        gwfast.pot.entropic_fused_gromov_barycenters(N, YS, CS, fixed_structure=True)

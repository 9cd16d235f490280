"""Barycenters of `gwfast.pot` without entropy against POT's."""

import numpy as np
import pytest
from helpers.pot_calls import pots
from helpers.pot_spaces import costs, weights

from gwfast import pot

CS = [costs(9, 0), costs(7, 1), costs(8, 2)]
PS = [weights(len(C), s) for s, C in enumerate(CS)]
YS = [np.random.default_rng(s).normal(size=(len(C), 2)) for s, C in enumerate(CS)]
N = 5
P = weights(N, 3)
LAMBDAS = [0.5, 0.2, 0.3]
LOSSES = ["square_loss", "kl_loss"]
INIT_C = costs(N, 4)
INIT_X = np.random.default_rng(4).normal(size=(N, 2))


@pytest.mark.parametrize("warmstartT", [False, True])
@pytest.mark.parametrize("stop_criterion", ["barycenter", "loss"])
@pytest.mark.parametrize("loss_fun", LOSSES)
def test_agrees_with_pot(loss_fun, stop_criterion, warmstartT):
    options = {
        "loss_fun": loss_fun,
        "stop_criterion": stop_criterion,
        "warmstartT": warmstartT,
        "max_iter": 20,
        "random_state": 3,
        "log": True,
    }
    arguments = N, CS, PS, P, LAMBDAS
    theirs, their_log = pots("gromov_barycenters")(*arguments, **options)
    found, log = pot.gromov_barycenters(*arguments, **options)
    np.testing.assert_allclose(found, theirs, atol=1e-9)
    assert their_log.keys() == log.keys()
    np.testing.assert_allclose(log["err"], their_log["err"], atol=1e-9)
    for T, other in zip(log["T"], their_log["T"], strict=True):
        np.testing.assert_allclose(T, other, atol=1e-9)
    options["log"] = False
    np.testing.assert_array_equal(pot.gromov_barycenters(*arguments, **options), found)


@pytest.mark.parametrize("stop_criterion", ["barycenter", "loss"])
@pytest.mark.parametrize("loss_fun", LOSSES)
def test_fused_agrees_with_pot(loss_fun, stop_criterion):
    options = {
        "loss_fun": loss_fun,
        "stop_criterion": stop_criterion,
        "max_iter": 4,
        "tol": 0.0,
        "init_C": INIT_C,
        "init_X": INIT_X,
        "p": P,
        "lambdas": LAMBDAS,
        "alpha": 0.7,
        "log": True,
    }
    X, C, log = pot.fgw_barycenters(N, YS, CS, PS, **options)
    their_X, their_C, their_log = pots("fgw_barycenters")(N, YS, CS, PS, **options)
    np.testing.assert_allclose(X, their_X, atol=1e-9)
    np.testing.assert_allclose(C, their_C, atol=1e-9)
    assert their_log.keys() == log.keys()
    for ours, theirs in zip(log["Ms"], their_log["Ms"], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    options["log"] = False
    np.testing.assert_array_equal(pot.fgw_barycenters(N, YS, CS, PS, **options)[0], X)


@pytest.mark.parametrize("fixed", ["structure", "features"])
def test_fixed_parts_stay_and_the_others_move_on(fixed):
    X, C, log = pot.fgw_barycenters(
        N, YS, CS, init_C=INIT_C, init_X=INIT_X, log=True, **{f"fixed_{fixed}": True}
    )
    moved = "err_feature" if fixed == "structure" else "err_structure"
    assert len(log[moved]) > 1
    assert log[moved][-1] <= 1e-9
    kept, given = (C, INIT_C) if fixed == "structure" else (X, INIT_X)
    np.testing.assert_array_equal(kept, given)


def test_a_barycenter_of_one_space_is_that_space():
    order = np.random.default_rng(0).permutation(7)
    found, log = pot.gromov_barycenters(
        7, [CS[1]], init_C=CS[1][np.ix_(order, order)], log=True
    )
    assert log["err"][-1] <= 1e-9
    matched = log["T"][0].argmax(axis=1)
    np.testing.assert_allclose(found, CS[1][np.ix_(matched, matched)], atol=1e-12)


def test_errors():
    plain, fused = pot.gromov_barycenters, pot.fgw_barycenters
    with pytest.raises(ValueError, match="stop_criterion='never'"):
        plain(N, CS, stop_criterion="never")
    with pytest.raises(ValueError, match=r"init_X must have shape \(5, 2\)"):
        fused(N, YS, CS, init_X=YS[0])
    for fixed, missing in (("structure", "init_C"), ("features", "init_X")):
        with pytest.raises(ValueError, match=f"{missing} must be given"):
            fused(N, YS, CS, **{f"fixed_{fixed}": True})
    with pytest.raises(TypeError, match=r"epsilon.* use entropic_gromov_barycenters"):
        plain(N, CS, epsilon=0.1)
    with pytest.raises(TypeError, match=r"use entropic_fused_gromov_barycenters\(\)"):
        fused(N, YS, CS, epsilon=0.1)


def test_semirelaxed_barycenters_of_pot_run_on_ours():
    """There is no twin of them; under `patch` their plans are ours."""
    options = {"max_iter": 5, "random_state": 0, "init_C": INIT_C}
    function = pots("semirelaxed_gromov_barycenters")
    with np.errstate(divide="ignore"):  # by masses that are zero
        theirs = function(N, CS, PS, **options)
        with pot.patched():
            found = function(N, CS, PS, **options)
    np.testing.assert_allclose(found, theirs, atol=1e-7)

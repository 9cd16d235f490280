"""`gwfast.pot` without entropy against POT: from one plan to the same local minimum."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.pot_calls import C1, C2, EXACT, G0, P, Q, call, ours, pots, value
from scipy.spatial.distance import cdist

import gwfast.pot


def random_case(seed, *sizes):
    """A problem of any kind, by default of any sizes up to 40, where points have no mass."""
    rng = np.random.default_rng(seed)
    n, m = sizes or rng.integers(3, 41, size=2)
    n, m = (n, n) if seed % 4 == 0 else (n, m)
    costs = [cdist(x, x) for x in (rng.normal(size=(k, 3)) for k in (n, m))]
    if seed % 3 == 0:
        costs = [cost * rng.uniform(0.5, 1.5, cost.shape) for cost in costs]
    masses = [rng.uniform(0.1, 1.0, size=k) for k in (n, m)]
    for some in masses:
        some[rng.integers(len(some))] *= 0.0 if len(some) > 1 else 1.0
        some /= some.sum()
    p, q = masses
    return dict(C1=costs[0], C2=costs[1], p=p, q=q, M=rng.uniform(size=(n, m)))


@pairwise(name=EXACT, seed=range(8), loss_fun=["square_loss", "kl_loss"])
def test_agrees_with_pot_on_random_problems(name, seed, loss_fun):
    case = random_case(seed)
    options = call(name, case, mass=0.6, loss_fun=loss_fun, log=True)
    if "fused" in name:
        options["alpha"] = (0.1, 0.5, 0.9)[seed % 3]
    theirs, their_log = pots(name)(**options)
    plan, log = ours(name)(**options)
    key = value(name)
    assert log[key] == pytest.approx(their_log[key], rel=1e-9)
    np.testing.assert_allclose(plan, theirs, atol=1e-9)
    assert log["status"] == "converged"
    # POT counts the step that does not pay.
    losses = their_log["loss"][: len(log["loss"])]
    np.testing.assert_allclose(log["loss"], losses, rtol=1e-8)
    assert len(their_log["loss"]) <= len(log["loss"]) + 1
    if "partial" in name:
        # Of POT's, which have points to leave the rest at, no one else can make sense.
        lacking = {"u", "v", "cost", "warning", "result_code"}
        assert their_log.keys() - log.keys() == lacking
        assert (plan.sum(axis=1) <= case["p"]).all()
        assert (plan.sum(axis=0) <= case["q"]).all()
        assert plan.sum() == pytest.approx(0.6, rel=1e-14)
    else:
        assert their_log.keys() <= log.keys()
    if "fused" in name:
        assert log["lin_loss"] + log["quad_loss"] == pytest.approx(log[key])


@pytest.mark.parametrize("name", EXACT)
def test_agrees_with_pot_on_small_problems(name):
    for n in (1, 2, 3, 5):
        options = call(name, random_case(5, n, 4), mass=0.6, log=True)
        theirs, their_log = pots(name)(**options)
        plan, log = ours(name)(**options)
        assert log[value(name)] == pytest.approx(their_log[value(name)], rel=1e-9)
        np.testing.assert_allclose(plan, theirs, atol=1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_starts_and_values_agree_with_pot(name):
    options = call(name, log=True)
    theirs, their_log = pots(f"{name}2")(**options)
    loss, log = ours(f"{name}2")(**options)
    assert loss == pytest.approx(theirs, rel=1e-9)
    np.testing.assert_allclose(log["T"], their_log["T"], atol=1e-9)
    assert log["loss"][0] == pytest.approx(their_log["loss"][0], rel=1e-9)
    plan, log = ours(name)(**options)
    np.testing.assert_array_equal(log["loss"][-1], loss)
    options["log"] = False
    np.testing.assert_array_equal(plan, ours(name)(**options))
    assert ours(f"{name}2")(**options) == loss


def test_defaults_are_uniform():
    p, q = np.full(12, 1 / 12), np.full(9, 1 / 9)
    with_them = gwfast.pot.gromov_wasserstein(C1, C2, p, q)
    np.testing.assert_array_equal(gwfast.pot.gromov_wasserstein(C1, C2), with_them)


def test_potentials_are_optimal():
    """Those of POT where they are unique, and of the whole gradient."""
    _, their_log = pots("gromov_wasserstein")(C1, C2, P, Q, log=True)
    plan, log = gwfast.pot.gromov_wasserstein(C1, C2, P, Q, log=True)
    np.testing.assert_allclose(log["u"], their_log["u"], atol=1e-9)
    np.testing.assert_allclose(log["v"], their_log["v"], atol=1e-9)
    assert log["cost"] == pytest.approx(their_log["cost"], rel=1e-9)
    squares = ((C1**2) @ P)[:, None] + (C2**2) @ Q
    gradient = 2 * (squares - 2 * C1 @ plan @ C2.T)
    slack = gradient - log["u"][:, None] - log["v"]
    assert slack.min() > -1e-9
    assert abs(slack[plan > 0]).max() < 1e-9


def test_all_mass_is_a_balanced_plan():
    plan = gwfast.pot.gromov_wasserstein(C1, C2, P, Q)
    partial = gwfast.pot.partial_gromov_wasserstein(C1, C2, P, Q)
    np.testing.assert_allclose(partial, plan, atol=1e-12)


def test_a_way_that_bends_down_is_gone_where_nothing_leads_down_at_first():
    """All plans of a circle with masses of one size start at a gap of zero."""
    steps = abs(np.subtract.outer(np.arange(12), np.arange(12)))
    circle = np.minimum(steps, 12 - steps).astype(float)
    for name in ("gromov_wasserstein2", "partial_gromov_wasserstein2"):
        loss, log = ours(name)(circle, 2 * circle, log=True)
        assert loss <= pots("gromov_wasserstein2")(circle, 2 * circle) + 1e-12
        assert loss < 0.5 * log["loss"][0]


def test_limits():
    solve = gwfast.pot.gromov_wasserstein
    _, log = solve(C1, C2, P, Q, max_iter=1, log=True)
    assert (len(log["loss"]), log["status"]) == (2, "max_iter")
    _, rough = solve(C1, C2, P, Q, tol_rel=0.5, log=True)
    _, fine = solve(C1, C2, P, Q, tol_rel=0, tol_abs=0, log=True)
    assert len(rough["loss"]) < len(fine["loss"])
    assert (rough["status"], fine["status"]) == ("converged", "converged")
    _, absolute = solve(C1, C2, P, Q, tol_abs=1.0, log=True)
    assert len(absolute["loss"]) == 2


def test_partial_starts_must_not_be_above_the_masses():
    for name in EXACT[4:]:
        with pytest.raises(ValueError, match="G0 must have rows that sum to at most p"):
            ours(name)(**call(name, G0=1.5 * G0))

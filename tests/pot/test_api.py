"""`gwfast.pot` against POT itself: the same calls, the same answers."""

import inspect

import numpy as np
import pytest
from helpers.pot_calls import (
    BALANCED,
    BAPG,
    C1,
    C2,
    EXACT,
    EXACT_BARYCENTERS,
    G0,
    ONES,
    PARTIAL,
    SEMIRELAXED,
    VALUES,
    M,
    P,
    Q,
    Spy,
    arguments,
    pots,
    regularized,
)
from helpers.pot_spaces import spaces

import gwfast.pot
from gwfast import ConvergenceWarning
from gwfast.pot.patching import NAMES


def test_what_families_list_is_public_and_swapped():
    others = {"OTResult", "patch", "patched", "report", "unpatch"}
    assert sorted(gwfast.pot.__all__) == sorted({*NAMES} | others)
    assert {*ONES} | {f"{name}2" for name in ONES} <= {*NAMES}
    assert all(hasattr(gwfast.pot, name) for name in gwfast.pot.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_pots(name):
    theirs = inspect.signature(pots(name)).parameters.values()
    ours = inspect.signature(getattr(gwfast.pot, name)).parameters.values()
    kinds = inspect.Parameter
    plain = [(x.name, x.default) for x in ours if x.kind != kinds.KEYWORD_ONLY]
    assert plain == [(x.name, x.default) for x in theirs if x.kind != kinds.VAR_KEYWORD]
    options = {x.name: x.default for x in ours if x.kind == kinds.KEYWORD_ONLY}
    expected, one = {}, name.removesuffix("2")
    if one in EXACT and "partial" not in one:
        expected["verbose"] = False
    if one in (*EXACT[:2], *EXACT_BARYCENTERS):
        expected["numItermaxEmd"] = 100_000
    elif one in BALANCED or "barycenters" in name:
        expected = {"numItermax": 1000, "stopThr": 1e-9, "warn": True}
    if "barycenters" in name and one not in EXACT_BARYCENTERS:
        expected |= {"solver": "PGD", "warmstart": False}
    assert options == expected


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_described_and_take_no_unknown_keyword(name):
    function = getattr(gwfast.pot, name)
    assert function.__name__ == name
    assert "Returns\n" in function.__doc__
    with pytest.raises(TypeError, match=rf"^{name}\(\) .*numItermx"):
        function(M, C1, C2, numItermx=3)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("loss_fun", ["square_loss", "kl_loss"])
@pytest.mark.parametrize("name", ONES)
def test_agrees_with_pot(name, loss_fun, symmetric, given):
    if name == PARTIAL[1]:
        pytest.skip("POT leaves the linear costs out, see the test of that")
    arrays, options = arguments(name, symmetric=symmetric, given=given)
    options |= {"loss_fun": loss_fun, "log": True} | regularized(name, 0.1)
    if name in BAPG:
        options |= {"marginal_loss": given, "epsilon": 0.5}
    theirs, their_log = pots(name)(*arrays, **options)
    ours, our_log = getattr(gwfast.pot, name)(*arrays, **options)
    assert type(ours) is np.ndarray
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, theirs, atol=1e-6 * theirs.max())
    assert their_log.keys() <= our_log.keys()
    if name in BALANCED + SEMIRELAXED:
        assert our_log["status"] == "converged"
    for key in their_log.keys() - {"err"}:
        assert our_log[key] == pytest.approx(their_log[key], rel=1e-5, abs=1e-8)
    # The first linear problem may be left before its last digit.
    assert our_log["err"][0] == pytest.approx(their_log["err"][0], rel=1e-2)
    # The function that returns the value does the same.
    value, log2 = getattr(gwfast.pot, f"{name}2")(*arrays, **options)
    assert value == our_log[VALUES[name]]
    assert isinstance(value, np.float64)
    np.testing.assert_array_equal(log2["T"], ours)
    if given and symmetric:  # POT takes its time
        their_value, their_log2 = pots(f"{name}2")(*arrays, **options)
        assert value == pytest.approx(their_value, rel=1e-5, abs=1e-8)
        assert their_log2.keys() <= log2.keys()
    # And so do both without a log.
    options["log"] = False
    np.testing.assert_array_equal(getattr(gwfast.pot, name)(*arrays, **options), ours)
    assert getattr(gwfast.pot, f"{name}2")(*arrays, **options) == value


@pytest.mark.parametrize("loss_fun", ["square_loss", "kl_loss"])
@pytest.mark.parametrize("name", BALANCED)
def test_proximal_points_agree_with_pot(name, loss_fun):
    arrays, options = arguments(name)
    options |= {"loss_fun": loss_fun, "solver": "PPA", "epsilon": 0.5, "max_iter": 6}
    theirs = pots(name)(*arrays, **options)
    ours = getattr(gwfast.pot, name)(*arrays, **options)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_totals_need_not_be_one():
    with pytest.warns(UserWarning, match="Solver failed"):  # it has not
        theirs = pots(BALANCED[0])(C1, C2, 3 * P, 3 * Q, epsilon=0.3)
    ours = gwfast.pot.entropic_gromov_wasserstein(C1, C2, 3 * P, 3 * Q, epsilon=0.3)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_small_epsilon_gives_a_plan_where_pot_gives_none():
    plan, log = gwfast.pot.entropic_gromov_wasserstein(
        C1, C2, P, Q, epsilon=1e-3, max_iter=20, log=True, warn=False
    )
    np.testing.assert_allclose(plan.sum(axis=0), Q, atol=1e-6)
    np.testing.assert_allclose(plan.sum(axis=1), P, atol=1e-6)
    assert 0 < log["gw_dist"] < 1


@pytest.mark.parametrize("name", BALANCED)
def test_warmstart_is_taken_and_changes_nothing(name):
    arrays, options = arguments(name)
    cold, warm = (
        getattr(gwfast.pot, name)(*arrays, **options, epsilon=0.1, warmstart=warmstart)
        for warmstart in (False, True)
    )
    np.testing.assert_array_equal(cold, warm)


def test_partial_costs_between_spaces_steer():
    """With nothing but them it is partial optimal transport."""
    ot = pytest.importorskip("ot")
    expected = ot.partial.entropic_partial_wasserstein(P, Q, M, 0.1, m=0.6)
    plan, log = gwfast.pot.entropic_partial_fused_gromov_wasserstein(
        M, C1, C2, P, Q, reg=0.1, m=0.6, alpha=0.0, log=True
    )
    np.testing.assert_allclose(plan, expected, atol=1e-6)
    assert log["lin_loss"] == pytest.approx((M * plan).sum())
    assert log["partial_fgw_dist"] == pytest.approx(log["lin_loss"])
    # Without any weight it is the problem without them.
    whole = gwfast.pot.entropic_partial_fused_gromov_wasserstein(
        M, C1, C2, P, Q, reg=0.1, m=0.6, alpha=1.0
    )
    plain = gwfast.pot.entropic_partial_gromov_wasserstein(C1, C2, P, Q, 0.1, 0.6)
    np.testing.assert_allclose(whole, plain, atol=1e-9)


@pytest.mark.parametrize("name", ONES)
def test_values_are_those_of_the_plan(name):
    """Sums over all four indices, without any of the solver's short cuts."""
    arrays, options = arguments(name, symmetric=False)
    plan, log = getattr(gwfast.pot, name)(
        *arrays, **options, **regularized(name, 0.2), log=True
    )
    difference = arrays[-2][:, None, :, None] - arrays[-1][None, :, None, :]
    quadratic = np.einsum("ijkl,ij,kl", difference**2, plan, plan)
    if name in BAPG:
        # The plan is off its marginals, the terms that POT takes to be constant not.
        quadratic = log[VALUES[name]]
    elif "fused" in name:
        linear = (arrays[0] * plan).sum()
        assert log["lin_loss"] == pytest.approx(0.5 * linear)
        assert log["quad_loss"] == pytest.approx(0.5 * quadratic, rel=1e-5)
        quadratic = 0.5 * quadratic + 0.5 * linear
    assert log[VALUES[name]] == pytest.approx(quadratic, rel=1e-5)
    assert len(log["err"]) == sum(1 for _ in log["err"])
    assert all(error >= 0 for error in log["err"])


@pytest.mark.parametrize("name", ONES)
def test_options_reach_the_solver(name, monkeypatch):
    spy = Spy(monkeypatch)
    arrays, options = arguments(name)
    options |= regularized(name, 0.25) | {"tol": 1e-3, "symmetric": False}
    options["numItermax" if name in PARTIAL else "max_iter"] = 7
    inner = {"numItermax": 321, "stopThr": 1e-5} if name in BALANCED else {}
    getattr(gwfast.pot, name)(*arrays, **options, **inner)
    ((problem, asked),) = spy.calls
    assert asked["epsilon"] == 0.25
    assert asked["tol"] == 1e-3
    assert asked["max_iter"] == 7
    assert problem.symmetric is False
    assert problem.alpha == (0.5 if "fused" in name else 1.0)
    if name in BALANCED:
        assert (asked["max_inner"], asked["inner_tol"]) == (321, 1e-5)
    assert problem.mass == (0.7 if name in PARTIAL else None)
    np.testing.assert_array_equal(problem.G0, options["G0"])
    assert (problem.q is None) == (name in SEMIRELAXED)


def test_no_limit():
    plan = gwfast.pot.entropic_gromov_wasserstein(C1, C2, epsilon=0.1, max_iter=np.inf)
    assert plan.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", BALANCED)
def test_warnings(name, monkeypatch):
    arrays, options = arguments(name)
    function = getattr(gwfast.pot, name)
    Spy(monkeypatch, status="max_inner", advice="more passes")
    with pytest.warns(ConvergenceWarning, match=r"max_inner.*more passes") as caught:
        function(*arrays, **options)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(ConvergenceWarning) as caught:
        getattr(gwfast.pot, f"{name}2")(*arrays, **options)
    assert [warning.filename for warning in caught] == [__file__]
    _, log = function(*arrays, **options, warn=False, log=True)
    assert log["status"] == "max_inner"


def test_a_limit_of_iterations_is_no_reason_to_warn():
    _, log = gwfast.pot.entropic_gromov_wasserstein(
        C1, C2, epsilon=0.05, max_iter=3, log=True
    )
    assert log["status"] == "max_outer"
    assert len(log["err"]) == 3


@pytest.mark.parametrize("name", (*BALANCED, *BAPG, *SEMIRELAXED))
def test_tables_are_pots(name, capsys):
    arrays, options = arguments(name)
    options |= {"verbose": True, "max_iter": 231, "epsilon": 0.6, "tol": 0.0}
    # A solver may stop where nothing changes at all, POT does not.
    getattr(gwfast.pot, name)(*arrays, **options)
    ours = capsys.readouterr().out.splitlines()
    pots(name)(*arrays, **options)
    theirs = capsys.readouterr().out.splitlines()
    assert ours[:2] == theirs[:2] == ["It.  |Err         ", "-" * 19]
    assert len(ours) >= 3
    for our, their in zip(ours, theirs, strict=False):
        assert our[:6] == their[:6]
    rows = [row.split("|") for row in (ours[2], theirs[2])]
    assert float(rows[0][1]) == pytest.approx(float(rows[1][1]), rel=1e-2)


@pytest.mark.parametrize("max_iter, status", [(1000, "missed_rows"), (3, "max_outer")])
def test_bapg_plans_far_from_their_rows_are_one_thing_to_log_and_warning(
    max_iter, status
):
    x, y = np.random.default_rng(0).standard_normal((2, 40, 3))
    costs = [((z[:, None] - z) ** 2).sum(axis=2) for z in (x, y[:30])]
    costs = [cost / cost.max() for cost in costs]
    options = dict(epsilon=0.01, max_iter=max_iter, log=True)
    said = rf"ended as '{status}': \d+% of the mass is in other rows than p says"
    with pytest.warns(ConvergenceWarning, match=said):
        plan, log = gwfast.pot.BAPG_gromov_wasserstein(*costs, **options)
    assert log["status"] == status
    assert np.abs(plan.sum(axis=1) - 1 / 40).sum() / 2 > 0.5


def test_bapg_says_so_natively_too():
    x, y = np.random.default_rng(0).standard_normal((2, 40, 3))
    x[0] *= 30
    y[:20] *= 0.01
    costs = [((z[:, None] - z) ** 2).sum(axis=2) for z in (x, y[:30])]
    costs = [cost / cost.max() for cost in costs]
    with pytest.warns(ConvergenceWarning, match=r"'missed_rows'.*% of the mass is in"):
        result = gwfast.gromov_wasserstein(*costs, method="bapg", epsilon=1e-5)
    assert result.status == "missed_rows" and not result.converged
    assert result.marginal_error > 1


BAD = [
    ({"C1": C1[:, :5]}, ValueError, "C1 must be square"),
    ({"C2": np.full((9, 9), np.nan)}, ValueError, "C2 must be finite"),
    ({"C1": C1.astype(complex)}, TypeError, "C1 must hold real numbers"),
    ({"C1": C1.astype(np.float16)}, TypeError, "C1 must be of float32 or float64"),
    ({"C1": [["a"]]}, TypeError, "C1 must hold real numbers"),
    ({"p": P[:-1]}, ValueError, r"p must have shape \(12,\)"),
    ({"p": -P}, ValueError, "p must not be negative"),
    ({"p": 0 * P}, ValueError, "p must have a positive sum"),
    ({"G0": G0.T}, ValueError, r"G0 must have shape \(12, 9\)"),
    ({"G0": -G0}, ValueError, "G0 must not be negative"),
    ({"G0": 0 * G0}, ValueError, "G0 must have a positive sum"),
    ({"G0": np.where(G0 > 0, np.inf, 0)}, ValueError, "G0 must be finite"),
    ({"loss_fun": "weird"}, ValueError, "loss_fun='weird'"),
    ({"tol": -1.0}, ValueError, "tol must be non-negative"),
]
LIMITS = [(-1, ValueError, "non-negative"), ("9", TypeError, "a number")]
REGULARIZATIONS = [(0.0, "positive"), (-1, "positive"), (np.nan, "positive")]


@pytest.mark.parametrize(("bad", "error", "message"), BAD)
@pytest.mark.parametrize("name", ONES)
def test_errors_name_the_argument(name, bad, error, message):
    arrays, options = arguments(name)
    names = ("M", "C1", "C2") if "fused" in name else ("C1", "C2")
    options |= dict(zip(names, arrays, strict=True)) | bad
    with pytest.raises(error, match=message):
        getattr(gwfast.pot, name)(**options)


@pytest.mark.parametrize("name", ONES)
def test_errors_of_numbers(name):
    arrays, options = arguments(name)
    limit = "numItermax" if name in PARTIAL else "max_iter"
    for value, error, message in LIMITS:
        options.pop(limit, None)
        with pytest.raises(error, match=f"{limit} must be .*({message})"):
            getattr(gwfast.pot, name)(*arrays, **options, **{limit: value})
    (regularization,) = regularized(name, 1)
    for value, message in REGULARIZATIONS:
        with pytest.raises(ValueError, match=f"{regularization} must be {message}"):
            getattr(gwfast.pot, name)(*arrays, **options, **{regularization: value})
    if "fused" in name:
        with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
            getattr(gwfast.pot, name)(*arrays, **options, alpha=1.5)
        with pytest.raises(ValueError, match=r"M must have shape \(12, 9\)"):
            getattr(gwfast.pot, name)(M.T, C1, C2)


def test_errors_of_some():
    pot = gwfast.pot
    with pytest.raises(ValueError, match="solver='BAPG'"):
        pot.entropic_gromov_wasserstein(C1, C2, solver="BAPG")
    with pytest.raises(ValueError, match="q must have the same total as p, 1, got 2"):
        pot.entropic_gromov_wasserstein(C1, C2, P, 2 * Q)
    with pytest.raises(ValueError, match="numItermax must be"):
        pot.entropic_gromov_wasserstein(C1, C2, numItermax=0)
    with pytest.raises(ValueError, match="stopThr must be"):
        pot.entropic_gromov_wasserstein(C1, C2, stopThr=-1.0)
    with pytest.raises(ValueError, match="m must not be above"):
        pot.entropic_partial_gromov_wasserstein(C1, C2, P, Q, m=1.1)
    with pytest.raises(ValueError, match="m must be positive"):
        pot.entropic_partial_gromov_wasserstein(C1, C2, P, Q, m=-0.1)
    with pytest.raises(ValueError, match="G0 must have rows that sum to p"):
        pot.entropic_semirelaxed_gromov_wasserstein(C1, C2, P, G0=2 * G0)
    with pytest.raises(ValueError, match="G0='diagonal'"):
        pot.entropic_semirelaxed_gromov_wasserstein(C1, C2, P, G0="diagonal")


def test_input_is_left_as_it_is():
    arrays, options = arguments(BALANCED[1])
    given = [*arrays, options["p"], options["q"], options["G0"]]
    copies = [x.copy() for x in given]
    for x in given:
        x.flags.writeable = False
    gwfast.pot.entropic_fused_gromov_wasserstein(*arrays, **options)
    for x, copy in zip(given, copies, strict=True):
        np.testing.assert_array_equal(x, copy)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    "method", ["product", "random_product", "random", "kmeans", "fluid_soft"]
)
def test_starts_by_name_are_pots(method, fused, monkeypatch):
    ot = pytest.importorskip("ot")
    if method == "kmeans":
        pytest.importorskip("sklearn")
    if method == "fluid_soft":
        pytest.importorskip("networkx")
    spy = Spy(monkeypatch)
    name = SEMIRELAXED[fused]
    arrays, _ = arguments(name)
    options = {"G0": method, "random_state": 5, "epsilon": 0.2}
    state = np.random.mtrand._rand.get_state()[1].copy()
    ours = getattr(gwfast.pot, name)(*arrays, P, **options)
    if method in ("product", "random_product", "random"):
        # POT reseeds the generator of everybody.
        np.testing.assert_array_equal(np.random.mtrand._rand.get_state()[1], state)
    linear = (M, 0.5) if fused else (None, 1.0)
    expected = ot.gromov.semirelaxed_init_plan(
        C1, C2, P, *linear, method, random_state=5
    )
    np.testing.assert_allclose(spy.calls[0][0].G0, expected, rtol=1e-12)
    theirs = pots(name)(*arrays, P, **options)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("given", [False, True])
def test_no_iteration_is_the_start_and_its_loss(given):
    """As in POT, where that is a way to evaluate a plan."""
    ot = pytest.importorskip("ot")
    cost_x, cost_y = spaces(12, 9)[:2]
    rng = np.random.default_rng(0)
    p, q = np.full(12, 1 / 12), np.full(9, 1 / 9)
    noisy = np.outer(p, q) * rng.uniform(0.5, 1.5, (12, 9))
    start = noisy / noisy.sum() if given else None
    arguments = dict(p=p, q=q, epsilon=0.1, G0=start, max_iter=0, log=True)
    plan, log = gwfast.pot.entropic_gromov_wasserstein(cost_x, cost_y, **arguments)
    other, pot_log = ot.gromov.entropic_gromov_wasserstein(cost_x, cost_y, **arguments)
    np.testing.assert_allclose(plan, other, rtol=1e-12)
    assert not np.may_share_memory(plan, start) if given else True
    if not given:  # POT takes the marginals to be p and q, gwfast those of the plan
        assert log["gw_dist"] == pytest.approx(pot_log["gw_dist"], rel=1e-9)


@pytest.mark.parametrize("fused", [False, True])
def test_a_plan_that_was_put_right_has_the_loss_that_is_said(fused):
    """Two passes of three linear problems leave marginals that are far off."""
    ot = pytest.importorskip("ot")
    cost_x, cost_y = spaces(40, 30)[:2]
    p, q = np.full(40, 1 / 40), np.full(30, 1 / 30)
    M = np.random.default_rng(1).random((40, 30))
    options = dict(epsilon=2e-3, max_iter=3, numItermax=2, warn=False, log=True)
    if fused:
        solve = gwfast.pot.entropic_fused_gromov_wasserstein
        plan, log = solve(M, cost_x, cost_y, p, q, alpha=0.7, **options)
    else:
        solve = gwfast.pot.entropic_gromov_wasserstein
        plan, log = solve(cost_x, cost_y, p, q, **options)
    np.testing.assert_allclose(plan.sum(axis=1), p, rtol=1e-12)
    np.testing.assert_allclose(plan.sum(axis=0), q, rtol=1e-12)
    loss = ot.gromov.gwloss(*ot.gromov.init_matrix(cost_x, cost_y, p, q), plan)
    if fused:
        loss = 0.7 * loss + 0.3 * np.sum(M * plan)
    assert log["fgw_dist" if fused else "gw_dist"] == pytest.approx(loss, rel=1e-10)

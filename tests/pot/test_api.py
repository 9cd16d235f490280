"""`gwfast.pot` against POT itself: the same calls, the same answers."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.pot_calls import (
    BALANCED,
    BAPG,
    C1,
    C2,
    DICTIONARIES,
    ENTROPIC,
    EXACT,
    EXACT_BARYCENTERS,
    G0,
    GIVEN,
    PARTIAL,
    PLAIN,
    SEMIRELAXED,
    M,
    P,
    Q,
    Spy,
    call,
    limit,
    ours,
    pots,
    value,
)
from helpers.pot_spaces import spaces

import gwfast.pot
from gwfast import ConvergenceWarning, SolverOptions
from gwfast.pot import patching, terms
from gwfast.results.status import Ending

NAMES = tuple(patching.FUNCTIONS)

LOSSES = ["square_loss", "kl_loss"]
ASYMMETRIC = GIVEN | dict(zip(("C1", "C2"), spaces(symmetric=False), strict=False))


def test_what_families_list_is_public_and_swapped():
    others = {"OTResult", "patch", "patched", "report", "unpatch", *terms.__all__}
    assert sorted(gwfast.pot.__all__) == sorted({*NAMES} | others)
    plans = {*ENTROPIC, *EXACT}
    assert plans | {f"{name}2" for name in plans} <= {*NAMES}
    assert all(hasattr(gwfast.pot, name) for name in gwfast.pot.__all__)


def test_what_is_not_here_is_listed():
    ot = pytest.importorskip("ot")
    theirs = {
        name
        for module in (ot.gromov, ot.batch, ot.solvers)
        for name in module.__all__
        if module is ot.gromov or re.search("gromov|quadratic|tensor", name)
    }
    page = Path(gwfast.pot.__file__).with_name("DIFFERENCES.md").read_text("utf-8")
    _, section = page.split("\n## Not offered\n")
    rows = re.findall(r"^\|(.*?)\|", section.partition("\n## ")[0], re.MULTILINE)
    listed = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(listed) == sorted(theirs - {*gwfast.pot.__all__})


@pytest.mark.parametrize("name", [*NAMES, *terms.__all__])
def test_signatures_are_pots(name):
    theirs = dict(inspect.signature(pots(name)).parameters)
    theirs.pop("kwargs_solve", None)
    parameters = inspect.signature(ours(name)).parameters.values()
    kinds = inspect.Parameter
    plain = [(x.name, x.default) for x in parameters if x.kind != kinds.KEYWORD_ONLY]
    assert plain == [(x.name, x.default) for x in theirs.values() if x.kind != kinds.VAR_KEYWORD]
    options = {x.name: x.default for x in parameters if x.kind == kinds.KEYWORD_ONLY}
    expected, one = {}, name.removesuffix("2")
    if one in EXACT and "partial" not in one:
        expected["verbose"] = False
    if one in (*EXACT[:2], *EXACT_BARYCENTERS):
        expected["numItermaxEmd"] = 100_000
    entropic_barycenter = "entropic" in name and "barycenters" in name
    if one in DICTIONARIES:
        expected = {"numItermaxEmd": 100_000}
    elif one in BALANCED or entropic_barycenter:
        expected = {"numItermax": 1000, "stopThr": 1e-9, "warn": True}
    if entropic_barycenter:
        expected |= {"solver": "PGD", "warmstart": False}
    assert options == expected


def described(name):
    """Parameters in the docstring of a function, and of functions that it refers to."""
    text, _, _ = inspect.getdoc(ours(name)).partition("\nReturns\n-------\n")
    begin, _, section = text.partition("\nParameters\n----------\n")
    heads = [line.partition(" : ")[0] for line in section.splitlines() if line[:1] > " "]
    names = {one for head in heads for one in head.split(", ")}
    for pair in re.findall(r"(?:see|those\s+of)\s+`(\w+)`(?:\s+and\s+`(\w+)`)?", begin):
        names = names.union(*(described(other) for other in pair if other))
    return names


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_described_and_take_no_unknown_keyword(name):
    function = ours(name)
    assert function.__name__ == name
    _, _, returns = inspect.getdoc(function).partition("\nReturns\n-------\n")
    assert described(name) >= set(inspect.signature(function).parameters)
    if name.endswith("2"):
        assert returns.startswith(f"{value(name)} :")
    with pytest.raises(TypeError, match=rf"^{name}\(\) .*numItermx"):
        function(M, C1, C2, numItermx=3)


# POT leaves `M` out of the gradient of the last, see the test of that.
@pairwise(name=ENTROPIC[:-1], loss_fun=LOSSES, symmetric=[True, False], given=[True, False])
def test_agrees_with_pot(name, loss_fun, symmetric, given):
    arrays = GIVEN if symmetric else ASYMMETRIC
    arrays = arrays if given else {key: arrays[key] for key in PLAIN}
    options = call(name, arrays, loss_fun=loss_fun, log=True)
    if name in PARTIAL:
        options["numItermax"] = 11  # POT takes a second for twenty
    if name in BAPG:
        options |= {"marginal_loss": given, "epsilon": 0.5, "max_iter": 100}
    if name in SEMIRELAXED:
        options["tol"] = 1e-5
    theirs, their_log = pots(name)(**options)
    plan, log = ours(name)(**options)
    assert type(plan) is np.ndarray
    assert plan.dtype == np.float64
    np.testing.assert_allclose(plan, theirs, atol=1e-6 * theirs.max())
    assert their_log.keys() <= log.keys()
    if name in BALANCED + SEMIRELAXED:
        assert log["status"] == "converged"
    for key in their_log.keys() - {"err"}:
        assert log[key] == pytest.approx(their_log[key], rel=1e-5, abs=1e-8)
    # The first linear problem may be left before its last digit.
    assert log["err"][0] == pytest.approx(their_log["err"][0], rel=1e-2)
    # The function that returns the value does the same.
    loss, log2 = ours(f"{name}2")(**options)
    assert loss == log[value(name)]
    assert isinstance(loss, np.float64)
    np.testing.assert_array_equal(log2["T"], plan)
    if given and symmetric:  # POT takes its time
        their_value, their_log2 = pots(f"{name}2")(**options)
        assert loss == pytest.approx(their_value, rel=1e-5, abs=1e-8)
        assert their_log2.keys() <= log2.keys()
    # And so do both without a log.
    options["log"] = False
    np.testing.assert_array_equal(ours(name)(**options), plan)
    assert ours(f"{name}2")(**options) == loss


@pytest.mark.parametrize("loss_fun", LOSSES)
@pytest.mark.parametrize("name", BALANCED)
def test_proximal_points_agree_with_pot(name, loss_fun):
    options = call(name, entropy=0.5, loss_fun=loss_fun, solver="PPA", max_iter=6)
    np.testing.assert_allclose(ours(name)(**options), pots(name)(**options), atol=1e-6)


@pytest.mark.parametrize("name", ENTROPIC + EXACT)
def test_totals_need_not_be_one(name):
    arrays = {key: x for key, x in GIVEN.items() if key != "G0"}
    thrice = arrays | {key: 3 * GIVEN[key] for key in ("M", "p", "q")}
    options = {"log": True, limit(name): 30}
    plan, log = ours(name)(**call(name, arrays, entropy=0.5, **options))
    other, log3 = ours(name)(**call(name, thrice, entropy=1.5, mass=2.1, **options))
    np.testing.assert_allclose(other, 3 * plan, atol=1e-12 if name in EXACT else 1e-6)
    assert log3[value(name)] == pytest.approx(9 * log[value(name)], rel=1e-5)
    if name == EXACT[0]:
        np.testing.assert_allclose(log3["u"], 3 * log["u"], atol=1e-12)
        assert log3["cost"] == pytest.approx(9 * log["cost"])


def test_small_epsilon_gives_a_plan_where_pot_gives_none():
    plan, log = gwfast.pot.entropic_gromov_wasserstein(
        C1, C2, P, Q, epsilon=1e-3, max_iter=20, log=True, warn=False
    )
    np.testing.assert_allclose(plan.sum(axis=0), Q, atol=1e-6)
    np.testing.assert_allclose(plan.sum(axis=1), P, atol=1e-6)
    assert 0 < log["gw_dist"] < 1


@pytest.mark.parametrize("name", BALANCED)
def test_warmstart_is_taken_and_changes_nothing(name):
    cold, warm = (ours(name)(**call(name, warmstart=x)) for x in (False, True))
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


# The plan of BAPG is off its marginals, the terms that POT takes to be constant not.
@pytest.mark.parametrize("name", [*BALANCED, *SEMIRELAXED, *PARTIAL])
def test_values_are_those_of_the_plan(name):
    """Sums over all four indices, without any of the solver's short cuts."""
    plan, log = ours(name)(**call(name, ASYMMETRIC, entropy=0.2, log=True))
    costs = ASYMMETRIC["C1"], ASYMMETRIC["C2"]
    difference = costs[0][:, None, :, None] - costs[1][None, :, None, :]
    loss = np.einsum("ijkl,ij,kl", difference**2, plan, plan)
    if "fused" in name:
        linear = (M * plan).sum()
        assert log["lin_loss"] == pytest.approx(0.5 * linear)
        assert log["quad_loss"] == pytest.approx(0.5 * loss, rel=1e-5)
        loss = 0.5 * loss + 0.5 * linear
    assert log[value(name)] == pytest.approx(loss, rel=1e-5)
    assert all(error >= 0 for error in log["err"])


@pytest.mark.parametrize("name", ENTROPIC)
def test_limits_and_tolerances_are_heeded(name):
    options = call(name, entropy=0.25, log=True) | {limit(name): 7}
    _, log = ours(name)(**options | {"tol": 0.0})
    assert len(log["err"]) == 7
    _, log = ours(name)(**options | {"tol": 1e9})
    assert len(log["err"]) <= 2
    if name in BALANCED:
        options |= {"epsilon": 0.05, "tol": 0.0}
        rough, fine = (ours(name)(**options, numItermax=inner)[0] for inner in (1, 1000))
        assert np.abs(rough - fine).max() > 1e-6


@pytest.mark.parametrize("name", BALANCED)
def test_warnings(name, monkeypatch):
    options = call(name)
    Spy(monkeypatch, ending=Ending.MAX_INNER, advice="more passes")
    with pytest.warns(ConvergenceWarning, match=r"max_iter.*more passes") as caught:
        ours(name)(**options)
    with pytest.warns(ConvergenceWarning) as caught2:
        ours(f"{name}2")(**options)
    assert [one.filename for one in [*caught, *caught2]] == 2 * [__file__]
    _, log = ours(name)(**options, warn=False, log=True)
    assert log["status"] == "max_iter"


def test_a_limit_of_iterations_is_no_reason_to_warn_and_need_not_be():
    solve = gwfast.pot.entropic_gromov_wasserstein
    _, log = solve(C1, C2, epsilon=0.05, max_iter=3, log=True)
    assert log["status"] == "max_iter"
    assert len(log["err"]) == 3
    assert solve(C1, C2, epsilon=0.1, max_iter=np.inf).sum() == pytest.approx(1)


@pytest.mark.parametrize("name", [*BALANCED, *BAPG, *SEMIRELAXED, *EXACT[:4]])
def test_tables_are_pots(name, capsys):
    options = call(name, entropy=0.6, verbose=True)
    if name not in EXACT:
        options |= {"max_iter": 231, "tol": 0.0}
    printed = []
    for function in (ours(name), pots(name)):
        function(**options)
        printed.append(capsys.readouterr().out.splitlines())
    assert printed[0][:2] == printed[1][:2]
    assert min(map(len, printed)) >= 3
    # A solver may stop where nothing changes at all, POT does not.
    for our, their in zip(*printed, strict=False):
        assert our[:6] == their[:6]
    for row in (2, 3) if name in EXACT else (2,):
        numbers = [map(float, one[row].strip("|").split("|")) for one in printed]
        rtol = 1e-5 if name in EXACT else 1e-2
        np.testing.assert_allclose(*map(list, numbers), rtol=rtol)


@pytest.mark.parametrize("max_iter, status", [(1000, "degenerate"), (3, "max_iter")])
def test_bapg_plans_far_from_their_rows_are_one_thing_to_log_and_warning(max_iter, status):
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
    with pytest.warns(ConvergenceWarning, match=r"'degenerate'.*% of the mass is in"):
        result = gwfast.gromov_wasserstein(
            *costs, epsilon=1e-5, options=SolverOptions(method="bapg")
        )
    assert result.status == "degenerate" and not result.converged
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
    ({"C1": -C1, "loss_fun": "kl_loss"}, ValueError, "C1 must not be negative"),
]
FUSED = [
    ({"alpha": 1.5}, ValueError, "alpha must be between 0 and 1"),
    ({"M": M.T}, ValueError, r"M must have shape \(12, 9\)"),
]
ROWS = [({"G0": 2 * G0}, ValueError, "G0 must have (rows|columns) that sum to")]
MASSES = [
    ({"m": 1.5}, ValueError, "m must not be above the smaller total"),
    ({"m": -0.1}, ValueError, "m must be positive"),
]


@pytest.mark.parametrize("name", ENTROPIC + EXACT)
def test_errors_name_the_argument(name):
    cases = BAD + (FUSED if "fused" in name else [])
    cases += ROWS if name in EXACT + SEMIRELAXED else []
    cases += MASSES if "partial" in name else []
    cases += [
        ({limit(name): -1}, ValueError, f"{limit(name)} must be non-negative"),
        ({limit(name): "9"}, TypeError, f"{limit(name)} must be a number"),
    ]
    exact = name in EXACT and "partial" not in name
    for tol in ("tol_rel", "tol_abs") if exact else ("tol",):
        cases += [({tol: -1.0}, ValueError, f"{tol} must be non-negative")]
    if name not in EXACT:
        reg = "reg" if name in PARTIAL else "epsilon"
        numbers = 0.0, -1, np.nan
        cases += [({reg: x}, ValueError, f"{reg} must be positive") for x in numbers]
    for bad, error, message in cases:
        with pytest.raises(error, match=message):
            ours(name)(**call(name) | bad)


def test_errors_of_some():
    with pytest.raises(ValueError, match="solver='BAPG'"):
        gwfast.pot.entropic_gromov_wasserstein(C1, C2, solver="BAPG")
    with pytest.raises(ValueError, match="q must have the same total as p, 1, got 2"):
        gwfast.pot.entropic_gromov_wasserstein(C1, C2, P, 2 * Q)
    with pytest.raises(ValueError, match="G0='diagonal'"):
        gwfast.pot.entropic_semirelaxed_gromov_wasserstein(C1, C2, P, G0="diagonal")


def test_input_is_left_as_it_is():
    copies = {key: x.copy() for key, x in GIVEN.items()}
    for x in copies.values():
        x.flags.writeable = False
    gwfast.pot.entropic_fused_gromov_wasserstein(**call(BALANCED[1], copies))
    for key, copy in copies.items():
        np.testing.assert_array_equal(GIVEN[key], copy)


@pytest.mark.parametrize("name", [*SEMIRELAXED, *EXACT[2:4]])
@pytest.mark.parametrize(
    "start, needs",
    [
        ("product", "ot"),
        ("random_product", "ot"),
        ("random", "ot"),
        ("kmeans", "sklearn"),
        ("fluid_soft", "networkx"),
    ],
)
def test_starts_by_name_are_pots(start, needs, name):
    pytest.importorskip(needs)
    options = call(name, PLAIN | {"p": P}, G0=start, random_state=5, max_iter=50)
    state = np.random.mtrand._rand.get_state()[1].copy()
    plan = ours(name)(**options)
    if needs == "ot":
        # POT reseeds the generator of everybody.
        np.testing.assert_array_equal(np.random.mtrand._rand.get_state()[1], state)
    np.testing.assert_allclose(plan, pots(name)(**options), atol=1e-6)
    if name in SEMIRELAXED:
        evaluated = ours(name)(**options | {"max_iter": 0})
        linear = (M, 0.5) if "fused" in name else (None, 1.0)
        init = pots("semirelaxed_init_plan")
        expected = init(C1, C2, P, *linear, start, random_state=5)
        np.testing.assert_allclose(evaluated, expected, rtol=1e-12)


@pytest.mark.parametrize("given", [False, True])
def test_no_iteration_is_the_start_and_its_loss(given):
    """As in POT, where that is a way to evaluate a plan."""
    cost_x, cost_y = spaces(12, 9)[:2]
    rng = np.random.default_rng(0)
    p, q = np.full(12, 1 / 12), np.full(9, 1 / 9)
    noisy = np.outer(p, q) * rng.uniform(0.5, 1.5, (12, 9))
    start = noisy / noisy.sum() if given else None
    arguments = dict(p=p, q=q, epsilon=0.1, G0=start, max_iter=0, log=True)
    plan, log = ours(BALANCED[0])(cost_x, cost_y, **arguments)
    other, pot_log = pots(BALANCED[0])(cost_x, cost_y, **arguments)
    np.testing.assert_allclose(plan, other, rtol=1e-12)
    assert not np.may_share_memory(plan, start) if given else True
    if not given:  # POT takes the marginals to be p and q, gwfast those of the plan
        assert log["gw_dist"] == pytest.approx(pot_log["gw_dist"], rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BALANCED)
def test_a_plan_that_was_put_right_has_the_loss_that_is_said(name, dtype):
    """Two passes of three linear problems leave marginals that are far off."""
    ot = pytest.importorskip("ot")
    cost_x, cost_y = spaces(40, 30)[:2]
    p, q = np.full(40, 1 / 40), np.full(30, 1 / 30)
    between = np.random.default_rng(1).random((40, 30))
    arrays = {"C1": cost_x, "C2": cost_y, "p": p, "q": q, "M": between}
    arrays = {key: x.astype(dtype) for key, x in arrays.items()}
    options = dict(max_iter=3, numItermax=2, warn=False, log=True)
    if "fused" in name:
        options["alpha"] = 0.7
    plan, log = ours(name)(**call(name, arrays, entropy=2e-3, **options))
    assert plan.dtype == dtype and (plan >= 0).all()
    exact = dtype == np.float64
    for axis, masses in ((1, p), (0, q)):
        np.testing.assert_allclose(plan.sum(axis=axis), masses, rtol=1e-12 if exact else 1e-5)
    loss = ot.gromov.gwloss(*ot.gromov.init_matrix(cost_x, cost_y, p, q), plan)
    if "fused" in name:
        loss = 0.7 * loss + 0.3 * np.sum(between * plan)
    assert log[value(name)] == pytest.approx(loss, rel=1e-10 if exact else 1e-4)

"""`gwfast.pot`'s barycenters against POT's, and against what a barycenter is."""

import inspect

import numpy as np
import pytest
from helpers.marks import mostly_slow, pairwise
from helpers.pot_calls import EXACT_BARYCENTERS, SEMIRELAXED_BARYCENTERS, Spy, ours, pots
from helpers.pot_spaces import costs, weights
from scipy.spatial.distance import cdist

from gwfast import pot
from gwfast.pot import _solve, barycenters

CS = [costs(9, 0), costs(7, 1), costs(8, 2)]
PS = [weights(len(C), s) for s, C in enumerate(CS)]
YS = [np.random.default_rng(s).normal(size=(len(C), 2)) for s, C in enumerate(CS)]
N = 5
P = weights(N, 3)
LAMBDAS = [0.5, 0.2, 0.3]
INIT_C = costs(N, 4)
INIT_Y = np.random.default_rng(4).normal(size=(N, 2))
PLAIN, FUSED = "entropic_gromov_barycenters", "entropic_fused_gromov_barycenters"
SEMIRELAXED, SEMIRELAXED_FUSED = SEMIRELAXED_BARYCENTERS
CRITERIA = ["barycenter", "loss"]
LOSSES = ["square_loss", "kl_loss"]
GIVEN = {"N": N, "Cs": CS, "ps": PS, "p": P, "lambdas": LAMBDAS}


@pytest.fixture
def tight(monkeypatch):
    """Plans to the last digit: POT looks at every tenth change only, and so solves
    further than its tolerance for them.
    """
    monkeypatch.setattr(
        barycenters,
        "solve_all",
        lambda calls, **options: _solve.solve_all(calls, **options | {"tol": 1e-8}),
    )


def structure(plans, loss_fun):
    """Proposition 3 of Peyré, Cuturi and Solomon (ICML 2016)."""
    mean = 0
    for weight, T, C in zip(LAMBDAS, plans, CS, strict=True):
        mean = mean + weight * T @ (C if loss_fun == "square_loss" else np.log(C)) @ T.T
    mean = mean / (P[:, None] * P[None, :])
    return mean if loss_fun == "square_loss" else np.exp(mean)


def features(plans):
    means = (w * T @ Y for w, T, Y in zip(LAMBDAS, plans, YS, strict=True))
    return sum(means) / P[:, None]


def same(found, expected, **tolerance):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, **tolerance)


@pairwise(
    name=mostly_slow([PLAIN, "gromov_barycenters"], fast={"gromov_barycenters"}),
    loss_fun=LOSSES,
    stop_criterion=CRITERIA,
    warmstartT=[False, True],
)
def test_agrees_with_pot(name, loss_fun, stop_criterion, warmstartT, tight):
    exact = name != PLAIN
    options = {"stop_criterion": stop_criterion, "warmstartT": warmstartT} | GIVEN
    options |= {"max_iter": 20, "random_state": 3, "loss_fun": loss_fun, "log": True}
    options |= {} if exact else {"epsilon": 0.05}
    theirs, their_log = pots(name)(**options)
    found, log = ours(name)(**options)
    np.testing.assert_allclose(found, theirs, atol=1e-9 if exact else 2e-4)
    assert their_log.keys() == log.keys()
    steps = min(len(log["err"]), len(their_log["err"]))
    assert not exact or len(log["err"]) == len(their_log["err"])
    tolerance = {"atol": 1e-9} if exact else {"rtol": 1e-3, "atol": 2e-4}
    np.testing.assert_allclose(log["err"][:steps], their_log["err"][:steps], **tolerance)
    same(log["T"], their_log["T"], atol=1e-9 if exact else 1e-4)
    np.testing.assert_array_equal(log["p"], P)
    # The returned structure is the best for the plans.
    np.testing.assert_allclose(found, structure(log["T"], loss_fun), rtol=1e-9)
    options["log"] = False
    np.testing.assert_array_equal(ours(name)(**options), found)


@pytest.mark.parametrize("warmstartT", [False, True])
@pytest.mark.parametrize("loss_fun", LOSSES)
def test_fused_agrees_with_pot_but_for_the_features_it_returns(loss_fun, warmstartT, tight):
    options = {"epsilon": 0.5, "max_iter": 12, "tol": 0.0, "warn": False} | GIVEN
    options |= {"stop_criterion": "loss", "warmstartT": warmstartT, "log": True}
    options |= {"init_C": INIT_C, "init_Y": INIT_Y, "Ys": YS, "loss_fun": loss_fun}
    Y, C, log = ours(FUSED)(**options)
    their_Y, their_C, their_log = pots(FUSED)(**options)
    np.testing.assert_allclose(C, their_C, atol=2e-4)
    assert their_log.keys() == log.keys()
    assert log["loss"][-1] == pytest.approx(their_log["loss"][-1], rel=1e-3)
    same(log["Ms"], their_log["Ms"], rtol=1e-2, atol=2e-3)
    # POT's Ms are of the features that it should have returned.
    np.testing.assert_array_equal(their_Y, INIT_Y)
    np.testing.assert_allclose(Y, features(log["T"]), rtol=1e-9)
    same(log["Ms"], [cdist(Y, Y_s, "sqeuclidean") for Y_s in YS], atol=1e-12)


@pytest.mark.parametrize("stop_criterion", CRITERIA)
@pytest.mark.parametrize("loss_fun", LOSSES)
def test_fused_without_entropy_agrees_with_pot(loss_fun, stop_criterion):
    options = {"stop_criterion": stop_criterion, "max_iter": 4, "tol": 0.0} | GIVEN
    options |= {"init_C": INIT_C, "init_X": INIT_Y, "Ys": YS, "loss_fun": loss_fun}
    options |= {"alpha": 0.7, "log": True}
    X, C, log = pot.fgw_barycenters(**options)
    *theirs, their_log = pots("fgw_barycenters")(**options)
    same((X, C), theirs, atol=1e-9)
    assert their_log.keys() == log.keys()
    same(log["Ms"], their_log["Ms"], atol=1e-8)
    options["log"] = False
    np.testing.assert_array_equal(pot.fgw_barycenters(**options)[0], X)


def test_fused_goes_on_until_both_stand_still():
    Y, C, log = ours(FUSED)(**GIVEN, Ys=YS, epsilon=0.3, tol=1e-3, random_state=0, log=True)
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


@pytest.mark.parametrize("name", [FUSED, "fgw_barycenters", SEMIRELAXED_FUSED])
@pytest.mark.parametrize("fixed", ["structure", "features", "both"])
def test_fixed_parts_stay_and_the_others_move_on(fixed, name):
    options = {"init_C": INIT_C, "tol": 1e-3, "log": True, "Ys": YS} | GIVEN
    options |= {"init_Y": INIT_Y, "epsilon": 0.3} if name == FUSED else {"init_X": INIT_Y}
    for part in ("structure", "features"):
        options[f"fixed_{part}"] = fixed in (part, "both")
    Y, C, log = ours(name)(**options)
    # POT with entropy stops after one step, as nothing moved in what is fixed.
    if fixed == "both":
        assert log["err_feature"] == log["err_structure"] == [0.0]
    else:
        moved = log["err_feature" if fixed == "structure" else "err_structure"]
        assert len(moved) > 1
        assert moved[-1] <= 1e-3
    free_C, free_Y = C, Y
    if name != SEMIRELAXED_FUSED:
        free_C, free_Y = structure(log["T"], "square_loss"), features(log["T"])
    expected = free_C if fixed == "features" else INIT_C, free_Y if fixed == "structure" else INIT_Y
    same((C, Y), expected, rtol=1e-7)


@pytest.mark.parametrize("seed", [5, "generator", None])
@pytest.mark.parametrize("name", [PLAIN, FUSED])
def test_random_starts_are_pots(name, seed, monkeypatch):
    if seed is None:
        monkeypatch.setattr(np.random.mtrand, "_rand", np.random.RandomState(5))
    seed = np.random.RandomState(5) if seed == "generator" else seed
    points = np.random.RandomState(5).randn(N, 2)
    expected = cdist(points, points, "sqeuclidean")
    expected /= expected.max() if name == PLAIN else 1.0
    options = {"N": N, "Cs": CS, "epsilon": 5.0, "max_iter": 1, "warn": False}
    options |= {"Ys": YS} if name == FUSED else {}
    found = ours(name)(**options, random_state=seed)
    same(found, ours(name)(**options, init_C=expected), rtol=1e-12)


@pairwise(
    name=[PLAIN, FUSED, *EXACT_BARYCENTERS],
    loss_fun=LOSSES,
    warmstartT=[False, True],
    total=[1.0, 3.0],
    dtype=[np.float64, np.float32],
    solver=["PGD", "PPA"],
)
def test_plans_made_together_are_those_of_single_problems(
    name, loss_fun, warmstartT, total, dtype, solver
):
    options = GIVEN | {"p": total * P, "ps": [total * p for p in PS], "log": True}
    options |= {"loss_fun": loss_fun, "warmstartT": warmstartT, "max_iter": 3}
    options |= {"stop_criterion": "loss", "init_C": INIT_C}
    fused = {"Ys": YS, "alpha": 0.7}
    if name in EXACT_BARYCENTERS:
        fused["init_X"] = INIT_Y
    else:
        fused["init_Y"] = INIT_Y
        options |= {"epsilon": 0.3, "solver": solver}
    options |= fused if "f" in name.replace("fused", "f").partition("gromov")[0] else {}
    names = {"p", "ps", "Cs", "Ys", "init_C", "init_X", "init_Y"}
    for key in names & options.keys():
        x = options[key]
        single = [one.astype(dtype) for one in x] if isinstance(x, list) else None
        options[key] = single or x.astype(dtype)
    *together, log = ours(name)(**options)
    # Plans whose tables are printed are made one by one, as single problems are solved.
    *single, right = ours(name)(**options, verbose=True)
    tolerance = dict(rtol=2e-5, atol=2e-5) if dtype is np.float32 else {"atol": 1e-9}
    same(together, single, **tolerance)
    same(log["T"], right["T"], **tolerance)
    np.testing.assert_allclose(log["loss"], right["loss"], rtol=2e-5)
    assert {x.dtype for x in (*together, *log["T"])} == {np.dtype(dtype)}


def test_options_reach_the_solver(monkeypatch):
    spy = Spy(monkeypatch)
    options = {"symmetric": False, "solver": "PPA", "warmstartT": True, "max_iter": 2}
    options |= {"warmstart": True, "numItermax": 10, "stopThr": 1e-4, "warn": False}
    ours(PLAIN)(N, CS, epsilon=0.5, **options, verbose=True)
    for problem, method, epsilon, limits in spy.calls:
        assert (method, epsilon, limits.max_inner) == ("ppa", 0.5, 10)
        assert limits.tol == pytest.approx(1e-4)
        assert limits.marginal_tol > 1e-4
        assert problem.symmetric is False
    # The second time from the plans of the first.
    started = [problem.G0 is not None for problem, *_ in spy.calls]
    assert started == [False] * 3 + [True] * 3


def test_table(capsys):
    options = {"max_iter": 3, "tol": 0.0, "random_state": 0, "verbose": True}
    ours(PLAIN)(N, CS[:1], epsilon=0.3, **options)
    lines = capsys.readouterr().out.splitlines()
    # One row an update, after the tables of the plans.
    for row in range(3):
        assert any(line.startswith(f"{row:5d}|") for line in lines)
    assert lines[0] == "It.  |Err         "


# Permuted, where there is next to no entropy and room for every point.
@pytest.mark.parametrize(
    "name, options",
    [
        pytest.param(PLAIN, {"epsilon": 2e-4, "warn": False}, marks=pytest.mark.slow),
        ("gromov_barycenters", {}),
        (SEMIRELAXED, {"stop_criterion": "loss", "ps": [weights(7, 1)]}),
    ],
)
def test_a_barycenter_of_one_space_is_that_space(name, options):
    C = CS[1]
    order = np.random.default_rng(0).permutation(len(C))
    found, log = ours(name)(
        7, [C], init_C=C[np.ix_(order, order)], max_iter=30, log=True, **options
    )
    matched = log["T"][0].argmax(axis=0 if name == SEMIRELAXED else 1)
    tolerance = {"atol": 0.02 if name == PLAIN else 1e-12}
    np.testing.assert_allclose(found, C[np.ix_(matched, matched)], **tolerance)
    if name == PLAIN:
        np.testing.assert_array_equal(matched, order)
    elif name == SEMIRELAXED:
        assert log["loss"][-1] == pytest.approx(0, abs=1e-12)
    else:
        assert log["err"][-1] <= 1e-9


def semirelaxed_call(name, seed, sizes=(9, 5, 3), **options):
    """Return arguments: spaces with more, as many and fewer points than the barycenter."""
    made = {"N": N, "Cs": [costs(n, seed) for n in sizes], "lambdas": LAMBDAS}
    made |= {"ps": [weights(n, seed) for n in sizes], "max_iter": 20, "log": True}
    if name == SEMIRELAXED_FUSED:
        rng = np.random.default_rng(seed)
        made |= {"Ys": [rng.normal(size=(n, 2)) for n in sizes], "init_X": INIT_Y}
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
def test_semirelaxed_agrees_with_pot(name, seed, loss_fun, stop_criterion, warmstartT, G0, init_C):
    options = semirelaxed_call(name, seed, loss_fun=loss_fun, stop_criterion=stop_criterion, G0=G0)
    options |= {"warmstartT": warmstartT, "init_C": init_C, "random_state": seed}
    found, log = agree(name, options)
    options["log"] = False
    again = ours(name)(**options)
    np.testing.assert_array_equal(again[-1] if name == SEMIRELAXED_FUSED else again, found[-1])
    # The returned structure is the best for the plans.
    weighted = list(zip(LAMBDAS, options["Cs"], log["T"], strict=True))
    quotient = sum(w * np.outer(q, q) for w, q in zip(LAMBDAS, log["p"], strict=True))
    mean = sum(w * T.T @ C @ T for w, C, T in weighted)
    mean = np.divide(mean, quotient, where=quotient > 0, out=np.zeros_like(mean))
    np.testing.assert_allclose(found[-1], mean, atol=1e-12)
    for p, q, T in zip(options["ps"], log["p"], log["T"], strict=True):
        np.testing.assert_allclose(T.sum(axis=1), p, rtol=1e-12)
        np.testing.assert_allclose(T.sum(axis=0), q, rtol=1e-12, atol=1e-15)
    if name == SEMIRELAXED_FUSED:
        expected = [cdist(Y, found[0], "sqeuclidean") for Y in options["Ys"]]
        np.testing.assert_allclose(log["Ms"][0], expected[0], atol=1e-12)


@pytest.mark.parametrize("soft", ["", "_soft"])
@pytest.mark.parametrize("method", ["fluid", "spectral", "kmeans"])
@pytest.mark.parametrize("name", SEMIRELAXED_BARYCENTERS)
@pytest.mark.filterwarnings("ignore:Both structures have the same size")
def test_starts_that_cluster_are_pots(name, method, soft):
    pytest.importorskip("sklearn")
    pytest.importorskip("networkx")
    options = semirelaxed_call(name, 1, (9, 7, 8), G0=method + soft, random_state=1, max_iter=1)
    options.pop("init_X", None)
    agree(name, options)


@pytest.mark.parametrize("name", SEMIRELAXED_BARYCENTERS)
def test_few_points_of_semirelaxed(name):
    for n in (1, 2):
        options = semirelaxed_call(name, 0, (2, 4, 3), N=n, random_state=0, max_iter=5)
        if name == SEMIRELAXED_FUSED:
            options["init_X"] = INIT_Y[:n]
        agree(name, options)


@pytest.mark.parametrize("name", SEMIRELAXED_BARYCENTERS)
def test_semirelaxed_keeps_float32_and_takes_masses_of_any_sum(name):
    options = semirelaxed_call(name, 0, init_C=INIT_C)
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
    X, C, log = ours(SEMIRELAXED_FUSED)(
        **semirelaxed_call(SEMIRELAXED_FUSED, 0, init_X=None, max_iter=1, random_state=0)
    )
    assert np.isfinite(X).all() and np.isfinite(C).all()
    assert len(log["T"]) == 3


BAD = [
    ({"loss_fun": "weird"}, "loss_fun='weird'"),
    ({"stop_criterion": "never"}, "stop_criterion='never'"),
    ({"Cs": [CS[0].tolist(), *CS[1:]]}, r"Cs\[0\] must be an array, got a list"),
    ({"Cs": [CS[0], CS[1][1:], CS[2]]}, r"Cs\[1\] must be square"),
    ({"Cs": []}, "Cs must not be empty"),
    ({"ps": PS[:2]}, r"ps must have 3 arrays like Cs"),
    ({"ps": [*PS[:2], PS[1]]}, r"ps\[2\] must have shape \(8,\)"),
    ({"ps": [PS[0], [0.5], PS[2]]}, r"ps\[1\] must be an array, got a list"),
    ({"init_C": CS[0]}, r"init_C must have shape \(5, 5\)"),
    ({"lambdas": [1.0]}, r"lambdas must have shape \(3,\)"),
    ({"p": np.array([0.0, 1.0]), "N": 2}, "p must be positive"),
    ({"N": 0}, "N must be at least 1"),
    ({"G0": "weird"}, "G0='weird'"),
    ({"solver": "EMD"}, "solver='EMD'"),
]
BAD_FUSED = [
    ({"Ys": [YS[0], YS[0], YS[2]]}, r"Ys\[1\] must have shape \(7, 2\)"),
    ({"fixed_structure": True}, "init_C must be given"),
]


@pytest.mark.parametrize("name", [PLAIN, FUSED, *EXACT_BARYCENTERS, *SEMIRELAXED_BARYCENTERS])
def test_errors(name):
    options, cases = {"N": N, "Cs": CS}, list(BAD)
    known = inspect.signature(ours(name)).parameters
    if "Ys" in known:
        options["Ys"] = YS
        init = "init_Y" if name == FUSED else "init_X"
        cases += [*BAD_FUSED, ({init: YS[0]}, rf"{init} must have shape \(5, 2\)")]
        cases += [({"fixed_features": True}, f"{init} must be given")]
    for bad, message in cases:
        # Semi-relaxed functions ignore p.
        if bad.keys() <= known.keys() and not ("p" in bad and name in SEMIRELAXED_BARYCENTERS):
            with pytest.raises(ValueError, match=message):
                ours(name)(**options | bad)


def test_errors_are_pots():
    ot = pytest.importorskip("ot")
    with pytest.raises(ot.utils.UndefinedParameter, match="init_C"):
        ours(FUSED)(N, YS, CS, fixed_structure=True)

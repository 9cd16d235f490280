"""`gwfast.pot` without entropy against POT: from one plan to the same local minimum."""

import numpy as np
import pytest
from helpers.pot_calls import C1, C2, EXACT, G0, M, P, Q, pots
from scipy.spatial.distance import cdist

import gwfast.pot
from gwfast.pot import _conditional_gradient

VALUES = dict(
    zip(
        EXACT,
        (
            "gw_dist",
            "fgw_dist",
            "srgw_dist",
            "srfgw_dist",
            "partial_gw_dist",
            "partial_fgw_dist",
        ),
        strict=True,
    )
)


def ours(name):
    return getattr(gwfast.pot, name)


def arguments(name, given, **options):
    """Arrays and options of a call, for those of a dict of all of them."""
    arrays = [given["C1"], given["C2"], given["p"]]
    if "fused" in name:
        arrays.insert(0, given["M"])
    if "semirelaxed" not in name:
        arrays.append(given["q"])
    if "partial" in name:
        options["m"] = 0.6
    return arrays, options


def random_case(seed, *sizes):
    """A problem of any kind, by default of any sizes up to 40, where points have no
    mass.
    """
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


@pytest.mark.parametrize("loss_fun", ["square_loss", "kl_loss"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", EXACT)
def test_agrees_with_pot_on_random_problems(name, seed, loss_fun):
    case = random_case(seed)
    arrays, options = arguments(name, case, loss_fun=loss_fun, log=True)
    if "fused" in name:
        options["alpha"] = (0.1, 0.5, 0.9)[seed % 3]
    theirs, their_log = pots(name)(*arrays, **options)
    plan, log = ours(name)(*arrays, **options)
    key = VALUES[name]
    assert log[key] == pytest.approx(their_log[key], rel=1e-9)
    np.testing.assert_allclose(plan, theirs, atol=1e-9)
    assert log["status"] == "converged"
    # POT counts the step that does not pay.
    losses = their_log["loss"][: len(log["loss"])]
    np.testing.assert_allclose(log["loss"], losses, rtol=1e-8)
    assert len(their_log["loss"]) <= len(log["loss"]) + 1
    if "partial" in name:
        # Of POT's, which have points to leave the rest at, no one else can make sense.
        assert their_log.keys() - log.keys() == {
            "u", "v", "cost", "warning", "result_code"
        }  # fmt: skip
        assert (plan.sum(axis=1) <= case["p"]).all()
        assert (plan.sum(axis=0) <= case["q"]).all()
        assert plan.sum() == pytest.approx(0.6, rel=1e-14)
    else:
        assert their_log.keys() <= log.keys()
    if "fused" in name:
        assert log["lin_loss"] + log["quad_loss"] == pytest.approx(log[key])


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("name", EXACT)
def test_agrees_with_pot_on_small_problems(name, n):
    case = random_case(5, n, 4)
    arrays, options = arguments(name, case, log=True)
    theirs, their_log = pots(name)(*arrays, **options)
    plan, log = ours(name)(*arrays, **options)
    assert log[VALUES[name]] == pytest.approx(their_log[VALUES[name]], rel=1e-9)
    np.testing.assert_allclose(plan, theirs, atol=1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_starts_and_values_agree_with_pot(name):
    given = dict(C1=C1, C2=C2, p=P, q=Q, M=M)
    start = 0.6 * G0 if "partial" in name else G0
    arrays, options = arguments(name, given, G0=start, log=True)
    theirs, their_log = pots(f"{name}2")(*arrays, **options)
    value, log = ours(f"{name}2")(*arrays, **options)
    assert value == pytest.approx(theirs, rel=1e-9)
    np.testing.assert_allclose(log["T"], their_log["T"], atol=1e-9)
    assert log["loss"][0] == pytest.approx(their_log["loss"][0], rel=1e-9)
    plan, log = ours(name)(*arrays, **options)
    np.testing.assert_array_equal(log["loss"][-1], value)
    np.testing.assert_array_equal(plan, ours(name)(*arrays, **options | {"log": False}))
    assert ours(f"{name}2")(*arrays, **options | {"log": False}) == value


def test_defaults_are_uniform():
    p, q = np.full(12, 1 / 12), np.full(9, 1 / 9)
    with_them = gwfast.pot.gromov_wasserstein(C1, C2, p, q)
    np.testing.assert_array_equal(gwfast.pot.gromov_wasserstein(C1, C2), with_them)


@pytest.mark.parametrize("start", ["product", "random_product", "random"])
@pytest.mark.parametrize("name", EXACT[2:4])
def test_named_starts_are_pots(name, start):
    arrays, options = arguments(name, dict(C1=C1, C2=C2, p=P, M=M))
    options |= {"G0": start, "random_state": 5}
    theirs = pots(name)(*arrays, **options)
    np.testing.assert_allclose(ours(name)(*arrays, **options), theirs, atol=1e-9)


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


@pytest.mark.parametrize("name", EXACT)
def test_totals_need_not_be_one(name):
    given = dict(C1=C1, C2=C2, p=P, q=Q, M=M)
    thrice = given | {"p": 3 * P, "q": 3 * Q, "M": 3 * M}
    arrays, options = arguments(name, given, log=True)
    plan, log = ours(name)(*arrays, **options)
    arrays, options = arguments(name, thrice, log=True)
    if "partial" in name:
        options["m"] *= 3
    other, other_log = ours(name)(
        *arrays,
        **options,
    )
    np.testing.assert_allclose(other, 3 * plan, atol=1e-12)
    assert other_log[VALUES[name]] == pytest.approx(9 * log[VALUES[name]])
    if name == EXACT[0]:
        np.testing.assert_allclose(other_log["u"], 3 * log["u"], atol=1e-12)
        assert other_log["cost"] == pytest.approx(9 * log["cost"])


def test_all_mass_is_a_balanced_plan():
    plan = gwfast.pot.gromov_wasserstein(C1, C2, P, Q)
    partial = gwfast.pot.partial_gromov_wasserstein(C1, C2, P, Q)
    np.testing.assert_allclose(partial, plan, atol=1e-12)


def test_a_way_that_bends_down_is_gone_where_nothing_leads_down_at_first():
    """All plans of a circle with masses of one size start at a gap of zero."""
    steps = abs(np.subtract.outer(np.arange(12), np.arange(12)))
    circle = np.minimum(steps, 12 - steps).astype(float)
    for name in ("gromov_wasserstein2", "partial_gromov_wasserstein2"):
        loss, log = ours(name)(circle, circle, log=True)
        assert loss <= pots("gromov_wasserstein2")(circle, circle) + 1e-12
        assert loss < 0.5 * log["loss"][0]


@pytest.mark.parametrize("name", EXACT)
def test_dtypes_and_lists(name):
    given = dict(C1=C1, C2=C2, p=P, q=Q, M=M)
    arrays, options = arguments(name, given)
    right = ours(name)(*arrays, **options)
    single = ours(name)(*(x.astype(np.float32) for x in arrays), **options)
    assert (right.dtype, single.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(single, right, atol=1e-6)
    listed = ours(name)(*(x.tolist() for x in arrays), **options)
    np.testing.assert_array_equal(listed, right)


def test_float32_starts_are_taken():
    start = G0.astype(np.float32)
    singles = [x.astype(np.float32) for x in (C1, C2, P, Q)]
    plan = gwfast.pot.gromov_wasserstein(*singles, G0=start)
    right = gwfast.pot.gromov_wasserstein(C1, C2, P, Q, G0=G0)
    np.testing.assert_allclose(plan, right, atol=1e-6)


def test_limits():
    _, log = gwfast.pot.gromov_wasserstein(C1, C2, P, Q, max_iter=1, log=True)
    assert (len(log["loss"]), log["status"]) == (2, "max_outer")
    _, rough = gwfast.pot.gromov_wasserstein(C1, C2, P, Q, tol_rel=0.5, log=True)
    _, fine = gwfast.pot.gromov_wasserstein(
        C1, C2, P, Q, tol_rel=0, tol_abs=0, log=True
    )
    assert len(rough["loss"]) < len(fine["loss"])
    assert (rough["status"], fine["status"]) == ("converged", "converged")
    _, absolute = gwfast.pot.gromov_wasserstein(C1, C2, P, Q, tol_abs=1.0, log=True)
    assert len(absolute["loss"]) == 2


@pytest.mark.parametrize("name", EXACT[:4])
def test_tables_are_pots(name, capsys):
    arrays, options = arguments(name, dict(C1=C1, C2=C2, p=P, q=Q, M=M), verbose=True)
    ours(name)(*arrays, **options)
    rows = capsys.readouterr().out.splitlines()
    pots(name)(*arrays, **options)
    theirs = capsys.readouterr().out.splitlines()
    assert rows[:2] == theirs[:2]
    for row, their in zip(rows[2:4], theirs[2:4], strict=True):
        numbers, others = (
            [float(x) for x in one.strip("|").split("|")] for one in (row, their)
        )
        np.testing.assert_allclose(numbers, others, rtol=1e-5)


BAD = [
    ({"C1": C1[:, :5]}, "C1 must be square"),
    ({"C2": np.full((9, 9), np.nan)}, "C2 must be finite"),
    ({"p": P[:-1]}, r"p must have shape \(12,\)"),
    ({"G0": G0.T}, r"G0 must have shape \(12, 9\)"),
    ({"G0": -G0}, "G0 must not be negative"),
    ({"G0": 2 * G0}, "G0 must have (rows|columns) that sum to"),
    ({"loss_fun": "weird"}, "loss_fun='weird'"),
    ({"C1": -C1, "loss_fun": "kl_loss"}, "C1 must not be negative"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
@pytest.mark.parametrize("name", EXACT)
def test_errors_name_the_argument(name, bad, message):
    arrays, options = arguments(name, dict(C1=C1, C2=C2, p=P, q=Q, M=M))
    names = (["M"] if "fused" in name else []) + ["C1", "C2", "p", "q"]
    options |= dict(zip(names, arrays, strict=False)) | bad
    with pytest.raises(ValueError, match=message):
        ours(name)(**options)


@pytest.mark.parametrize("name", EXACT)
def test_errors_of_limits(name):
    arrays, options = arguments(name, dict(C1=C1, C2=C2, p=P, q=Q, M=M))
    partial = "partial" in name
    for limit in ("numItermax", "tol") if partial else ("max_iter", "tol_rel"):
        with pytest.raises(ValueError, match=f"{limit} must be non-negative"):
            ours(name)(*arrays, **options | {limit: -1})
    if partial:
        with pytest.raises(ValueError, match="m must not be above"):
            ours(name)(*arrays, **options | {"m": 1.5})
        with pytest.raises(ValueError, match="G0 must have rows that sum to at most p"):
            ours(name)(*arrays, **options | {"G0": 1.5 * G0})
    else:
        with pytest.raises(ValueError, match="tol_abs must be non-negative"):
            ours(name)(*arrays, **options, tol_abs=-1.0)


@pytest.mark.parametrize("end", ["", "2"])
@pytest.mark.parametrize("name", EXACT)
def test_an_epsilon_is_an_error_that_says_whose_it_is(name, end):
    arrays, options = arguments(name, dict(C1=C1, C2=C2, p=P, q=Q, M=M))
    for keyword in _conditional_gradient.REGULARIZATIONS:
        message = rf"^{name}{end}\(\) .*'{keyword}'.* use entropic_{name}{end}\(\)$"
        with pytest.raises(TypeError, match=message):
            ours(f"{name}{end}")(*arrays, **options, **{keyword: 0.1})


def test_what_they_are_referred_to_exists():
    others = {f"entropic_{name}" for name in EXACT} | {"entropic_gromov_barycenters"}
    others |= {*_conditional_gradient.ENTROPIC.values()}
    assert others <= {*gwfast.pot.__all__}

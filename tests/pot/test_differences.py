"""Functions of one plan where they differ from POT on purpose, as DIFFERENCES.md says."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.pot_calls import call, ours, pots, same
from helpers.pot_names import BALANCED, ENTROPIC, EXACT, PARTIAL, SEMIRELAXED, limit, value
from helpers.pot_spaces import C1, C2, G0, GIVEN, M, P, Q, batch, spaces
from helpers.problems import block_model, steps
from scipy.spatial.distance import cdist

import gwfast
from gwfast import ConvergenceWarning, pot
from gwfast.pot import _solve
from gwfast.results.status import Ending

ot = pytest.importorskip("ot", reason="POT is not installed")


def test_functions_that_are_not_here_are_listed():
    theirs = {*ot.gromov.__all__} | {
        name
        for name in ot.batch.__all__ + ot.solvers.__all__
        if re.search("gromov|quadratic|tensor", name)
    }
    page = Path(pot.__file__).with_name("DIFFERENCES.md").read_text("utf-8")
    section = page.split("\n## Not offered\n")[1].partition("\n## ")[0]
    rows = re.findall(r"^\|(.*?)\|", section, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(theirs - {*pot.__all__})


@pytest.mark.parametrize("name", ENTROPIC + EXACT)
def test_totals_need_not_be_one(name):
    arrays = {key: x for key, x in GIVEN.items() if key != "G0"}
    thrice = arrays | {key: 3 * GIVEN[key] for key in ("M", "p", "q")}
    options = {"log": True, limit(name): 30}
    plan, log = ours(name)(**call(name, arrays, entropy=0.5, **options))
    other, log3 = ours(name)(**call(name, thrice, entropy=1.5, mass=2.1, **options))
    np.testing.assert_allclose(other, 3 * plan, atol=1e-12 if name in EXACT else 1e-6)
    assert log3[value(name)] == pytest.approx(9 * log[value(name)], rel=1e-5)
    assert name in EXACT or log3["err"][0] == pytest.approx(3 * log["err"][0], rel=1e-2)
    if name == EXACT[0]:
        np.testing.assert_allclose(log3["u"], 3 * log["u"], atol=1e-12)
        assert log3["cost"] == pytest.approx(9 * log["cost"])


def test_a_small_epsilon_gives_a_plan_where_pot_gives_none():
    plan, log = pot.entropic_gromov_wasserstein(
        C1, C2, P, Q, epsilon=1e-3, max_iter=20, log=True, warn=False
    )
    np.testing.assert_allclose(plan.sum(axis=0), Q, atol=1e-6)
    np.testing.assert_allclose(plan.sum(axis=1), P, atol=1e-6)
    assert 0 < log["gw_dist"] < 1
    cost = M - 0.3
    plan = pot.sinkhorn(P, Q, cost, 5e-4, numItermax=100_000)
    np.testing.assert_allclose(plan.sum(axis=1), P, atol=1e-8)
    assert (plan * cost).sum() == pytest.approx(ot.emd2(P, Q, cost), abs=1e-3)


@pytest.mark.parametrize("name", ENTROPIC)
def test_limits_are_heeded_and_the_log_has_an_error_of_every_iteration(name):
    options = call(name, entropy=0.05 if name in BALANCED else 0.25, log=True) | {limit(name): 7}
    plan, log = ours(name)(**options | {"tol": 0.0})
    assert len(log["err"]) == 7 and log["status"] in ("max_iter", "degenerate")
    assert len(ours(name)(**options | {"tol": 1e9})[1]["err"]) <= 2
    if name in BALANCED:
        rough, _ = ours(name)(**options | {"tol": 0.0}, numItermax=1)
        assert np.abs(rough - plan).max() > 1e-6
        assert ours(name)(**call(name, max_iter=np.inf)).sum() == pytest.approx(1)


@pytest.mark.parametrize("dtype, rtol", [("f4", 1e-5), ("f8", 1e-12)])
@pytest.mark.parametrize("name", BALANCED)
def test_a_plan_with_mended_marginals_has_the_loss_in_the_log(name, dtype, rtol):
    cost_x, cost_y, cost, *_ = spaces(40, 30)
    arrays = {"C1": cost_x, "C2": cost_y, "M": cost, "p": np.full(40, 1 / 40)}
    arrays = {key: x.astype(dtype) for key, x in arrays.items()}
    alpha = {"alpha": 0.7} if "fused" in name else {}
    options = call(name, arrays, entropy=2e-3, max_iter=3, log=True, **alpha)
    plan, log = ours(name)(**options, numItermax=2, warn=False)
    assert plan.dtype == dtype and (plan >= 0).all()
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 40, rtol=rtol)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 30, rtol=rtol)
    terms = pot.init_matrix(cost_x, cost_y, plan.sum(axis=1), plan.sum(axis=0))
    loss = pot.gwloss(*terms, plan)
    if alpha:
        loss = 0.7 * loss + 0.3 * np.sum(cost * plan)
    assert log[value(name)] == pytest.approx(loss, rel=100 * rtol)


def test_the_loss_of_a_start_has_its_own_marginals():
    start = M / M.sum()
    plan, log = pot.entropic_gromov_wasserstein(C1, C2, P, Q, G0=start, max_iter=0, log=True)
    np.testing.assert_allclose(plan, start, rtol=1e-12)
    assert not np.may_share_memory(plan, start)
    terms = pot.init_matrix(C1, C2, start.sum(axis=1), start.sum(axis=0))
    assert log["gw_dist"] == pytest.approx(pot.gwloss(*terms, start))


def test_plans_of_bapg_far_from_their_rows_are_warned_of():
    x, y = np.random.default_rng(0).standard_normal((2, 40, 3))
    costs = [cdist(x, x, "sqeuclidean"), cdist(y[:30], y[:30], "sqeuclidean")]
    costs = [cost / cost.max() for cost in costs]
    for max_iter, status in ((1000, "degenerate"), (3, "max_iter")):
        options = dict(epsilon=0.01, max_iter=max_iter, log=True)
        with pytest.warns(ConvergenceWarning, match=rf"'{status}'.*\d+%"):
            plan, log = pot.BAPG_gromov_wasserstein(*costs, **options)
        assert log["status"] == status
        assert np.abs(plan.sum(axis=1) - 1 / 40).sum() / 2 > 0.5
    native = gwfast.SolverOptions(method="bapg")
    with pytest.warns(ConvergenceWarning, match="'degenerate'.*%"):
        result = gwfast.gromov_wasserstein(*costs, epsilon=1e-5, options=native)
    assert not result.converged and result.marginal_error > 1


def end_as(monkeypatch, ending, advice=""):
    """Let answers with entropy end in another way."""
    solved = _solve._answer

    def answer(*arguments):
        return dataclasses.replace(solved(*arguments), ending=ending, advice=advice)

    monkeypatch.setattr(_solve, "_answer", answer)


@pytest.mark.parametrize("name", BALANCED)
def test_warnings_name_the_line_of_the_caller_and_can_be_silenced(name, monkeypatch):
    end_as(monkeypatch, Ending.MAX_INNER, "more passes")
    with pytest.warns(ConvergenceWarning, match="max_iter.*more passes") as caught:
        ours(name)(**call(name))
        ours(f"{name}2")(**call(name))
    with pytest.warns(ConvergenceWarning, match="numItermax") as of_sinkhorn:
        pot.sinkhorn(P, Q, M, 0.01, numItermax=3)
        pot.sinkhorn(P, Q, M, 0.01, numItermax=3, warn=False)
    assert [one.filename for one in (*caught, *of_sinkhorn)] == 3 * [__file__]
    assert ours(name)(**call(name), warn=False, log=True)[1]["status"] == "max_iter"


def test_small_partial_plans_in_float32_are_made_in_float64():
    single = [x.astype(np.float32) for x in (C1, C2, P, Q)]
    found, exact = (
        pot.entropic_partial_gromov_wasserstein(*x, reg=1e-2, m=0.5, numItermax=4)
        for x in (single, [x.astype(np.float64) for x in single])
    )
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, exact.astype(np.float32))


def test_partial_costs_between_spaces_steer():
    expected = ot.partial.entropic_partial_wasserstein(P, Q, M, 0.1, m=0.6)
    plan, log = pot.entropic_partial_fused_gromov_wasserstein(
        M, C1, C2, P, Q, reg=0.1, m=0.6, alpha=0.0, log=True
    )
    np.testing.assert_allclose(plan, expected, atol=1e-6)
    assert log["partial_fgw_dist"] == log["lin_loss"] == pytest.approx((M * plan).sum())
    # All mass is a balanced plan.
    same(pot.partial_gromov_wasserstein(C1, C2, P, Q), pot.gromov_wasserstein(C1, C2, P, Q), 1e-11)


def test_saddles_are_left():
    # All plans of a circle with masses of one size start at a gap of zero.
    apart = abs(np.subtract.outer(np.arange(12), np.arange(12)))
    circle = np.minimum(apart, 12 - apart).astype(float)
    for name in ("gromov_wasserstein2", "partial_gromov_wasserstein2"):
        loss, log = ours(name)(circle, 2 * circle, log=True)
        assert loss <= pots("gromov_wasserstein2")(circle, 2 * circle) + 1e-12
        assert loss < 0.5 * log["loss"][0]


@pytest.mark.parametrize("kind", ["", "semirelaxed_", "partial_"])
def test_ties_end_lower_than_in_pot(kind):
    losses, name = [], f"{kind}gromov_wasserstein2"
    for seed in range(24):
        costs = [steps(block_model(12 + seed % 3, 2 * seed + side)) for side in (0, 1)]
        given = {} if kind != "partial_" else {"m": 0.7}
        losses.append([ours(name)(*costs, **given), pots(name)(*costs, **given)])
    found, theirs = np.transpose(np.array(losses, dtype=float))
    assert found.mean() <= theirs.mean() and (found > 1.02 * theirs + 1e-12).mean() <= 0.1


def test_limits_without_entropy_are_heeded():
    def ended(**options):
        _, log = pot.gromov_wasserstein(C1, C2, P, Q, log=True, **options)
        return len(log["loss"]), log["status"]

    assert ended(max_iter=1) == (2, "max_iter")
    assert ended(tol_abs=1.0) == ended(tol_rel=1e3) == (2, "converged")
    assert ended(tol_rel=0.5) < ended(tol_rel=0, tol_abs=0)


@pytest.mark.parametrize("start", ["random_product", "random"])
def test_starts_by_name_do_not_reseed_the_generator_of_everybody(start):
    before = np.random.mtrand._rand.get_state()[1].copy()
    pot.entropic_semirelaxed_gromov_wasserstein(C1, C2, P, G0=start, random_state=5, max_iter=1)
    np.testing.assert_array_equal(np.random.mtrand._rand.get_state()[1], before)


def test_integers_and_float32_of_some_arrays_are_float64():
    hops = [abs(np.subtract.outer(range(n), range(n))).astype(np.int8) for n in (20, 12)]
    whole, masses = [x * 1.0 for x in hops], [np.ones(20, dtype=int), np.ones(12) / 0.6]
    for name in (BALANCED[0], EXACT[0], "init_matrix"):
        options = {"epsilon": 5.0} if name == BALANCED[0] else {"loss_fun": "kl_loss"}
        same(ours(name)(*hops, *masses, **options), ours(name)(*whole, *masses, **options), 0)
    terms, plan = pot.init_matrix(hops[0], hops[0], *masses[:1] * 2), np.eye(20, dtype=bool)
    same(pot.gwloss(*terms, plan), pot.gwloss(*terms, plan * 1.0), 0)
    single = [x.astype(np.float32) for x in (C1, C2, P)]
    assert pot.entropic_gromov_wasserstein(*single, Q, epsilon=0.2).dtype == np.float64
    assert pot.entropic_gromov_wasserstein(*single[:2], P.tolist()).dtype == np.float32
    assert {x.dtype for x in pot.init_matrix(*single[:2], P, Q)} == {np.dtype(np.float64)}
    flipped = [x.astype(x.dtype.newbyteorder()) for x in (C1, C2, P, Q)]
    plans = [pot.entropic_gromov_wasserstein(*x) for x in (flipped, (C1, C2, P, Q))]
    np.testing.assert_array_equal(*plans)


def test_terms_take_columns_lists_and_a_backend_and_loops_whole_costs():
    right = pot.init_matrix(C1, C2, P, Q)
    same(pot.init_matrix(C1, C2, P[:, None], Q[None]), right, 1e-12)
    same(pot.init_matrix(C1, C2, P.tolist(), Q.tolist(), nx=object()), right, 1e-12)
    grad = pot.gwggrad(*right, G0)
    same(pot.gwggrad(*(x.tolist() for x in (*right, G0)), object()), grad, 1e-12)
    order, p = np.random.default_rng(0).permutation(9), np.full(9, 1 / 9)
    hops = [np.abs(np.subtract.outer(x, x)) for x in (order, order[::-1])]
    terms, start = ot.gromov.init_matrix(*hops, p, p), np.outer(p, p)
    assert terms[1].dtype == np.int64
    f, df = (lambda G: ot.gromov.gwloss(*terms, G)), (lambda G: ot.gromov.gwggrad(*terms, G))
    same(pot.cg(p, p, 0, 1.0, f, df, start), pot.gromov_wasserstein(*hops, p, p, G0=start), 0)


@pytest.mark.parametrize("empty", [False, True])
def test_linear_potentials_are_optimal(empty):
    a, b = (np.where(np.arange(len(x)) < 2 * empty, 0, x) for x in (P, Q))
    a, b = a / a.sum(), b / b.sum()
    cost, log = pot.emd2(a, b, M, log=True)
    assert (log["u"][:, None] + log["v"] <= M + 1e-12).all()
    assert a @ log["u"] + b @ log["v"] == pytest.approx(cost)
    assert a @ log["u"] == pytest.approx(b @ log["v"])
    plan, log = pot.sinkhorn(2 * a, 2 * b, M, 0.1, "sinkhorn", stopThr=1e-11, log=True)
    assert len(log["err"]) == 1 and log["err"][0] <= 1e-11
    same(plan, np.exp(log["log_u"][:, None] + log["log_v"] - M / 0.1), 1e-9)
    np.testing.assert_array_equal(log["u"], np.exp(log["log_u"]))


def test_masses_of_nothing_are_uniform_and_any_costs_are_solved():
    uniform = np.full(12, 1 / 12), np.full(9, 1 / 9)
    for none in ([], np.array([]), None):
        same(pot.emd(none, none, M), pot.emd(*uniform, M), 0)
        same(pot.sinkhorn(none, none, M, 0.5), pot.sinkhorn(*uniform, M, 0.5), 0)
    for cost in (np.zeros((4, 4)), 1.0 - np.eye(4), 1e9 * (1.0 - np.eye(4))):
        assert pot.emd2([], [], cost) == 0


@pytest.mark.parametrize("cost", [1e8, 1e12, 1e16, 1e30])
def test_pairs_at_any_cost_are_avoided(cost):
    costs = np.where((kept := np.random.default_rng(0).random((12, 9))) < 0.8, M, 50.0)
    best = pot.emd2(P, Q, costs)
    with pot.patched():
        assert ot.emd2(P, Q, np.where(kept < 0.8, M, cost)) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("totals", [(2.0, 1.0), (1.0, 2.0), (3.0, 0.5)])
@pytest.mark.parametrize("name", [name for name in ENTROPIC + EXACT if "partial" in name])
def test_a_partial_plan_has_the_mass_asked_for_if_totals_differ(name, totals):
    p, q = totals[0] * P, totals[1] * Q
    for mass in (0.9 * min(totals), min(totals)):
        plan = ours(name)(**call(name, GIVEN | dict(p=p, q=q), m=mass))
        assert plan.sum() == pytest.approx(mass, rel=1e-6)
        assert (plan.sum(axis=1) <= p + 1e-6).all() and (plan.sum(axis=0) <= q + 1e-6).all()


def test_solve_gromov_heeds_reg_and_all_costs_of_fused_problems():
    part = {"unbalanced_type": "partial", "unbalanced": 0.6}
    plans = [pots(SEMIRELAXED[1])(M, C1, C2, P, epsilon=0.2, alpha=0.4)]
    plans += [ours(PARTIAL[1])(M, C1, C2, P, Q, 0.2, 0.6, alpha=0.4)]
    for options, plan in zip(({"unbalanced_type": "semirelaxed"}, part), plans, strict=True):
        found = pot.solve_gromov(C1, C2, M, P, Q, reg=0.2, alpha=0.4, **options)
        same([found.plan, *found.marginals], [plan, plan.sum(axis=1), plan.sum(axis=0)], 1e-5)
        entropy = -(plan * np.log(plan)).sum()
        assert found.value == pytest.approx(found.value_linear + found.value_quad - 0.2 * entropy)
        assert found.value_linear == pytest.approx(0.6 * (M * plan).sum(), rel=1e-5)
        assert f"value={found.value}," in repr(found)


def test_solve_gromov_heeds_the_tolerance_and_warns_of_a_partial_plan_without_its_mass():
    def errors(**options):
        return pot.solve_gromov(C1, C2, reg=0.1, **options).log["err"]

    assert len(errors(tol=0.0, max_iter=11)) == 11
    assert len(errors(tol=1e-3)) < len(errors()) and errors()[-1] <= 1e-9
    with pytest.warns(UserWarning, match="unbalanced_type='partial'") as caught:
        found = pot.solve_gromov(C1, C2, reg=0.1, unbalanced_type="partial")
    assert caught[0].filename == __file__
    assert found.plan.sum() == pytest.approx(1)


def test_steps_of_batches_are_of_the_function_for_one_problem():
    options = batch(fused=False) | {"max_iter": 60, "tol": 1e-3}
    found = pot.solve_gromov_batch(**options)
    assert found.log["n_iter"] < 60 and len(found.log["status"]) == 4
    step = {"solver": "PPA", "max_iter": 60, "tol": 1e-3 * np.sqrt(7 * 5), "epsilon": 0.1}
    step |= {"numItermax": 1000, "stopThr": 1e-10, "log": True}
    for k in range(4):
        Ca, Cb, a, b, G0 = (options[name][k] for name in ("Ca", "Cb", "a", "b", "T_init"))
        plan, log = pot.entropic_gromov_wasserstein(Ca, Cb, a, b, G0=G0, **step)
        np.testing.assert_allclose(found.plan[k], plan, rtol=1e-12, atol=1e-15)
        assert found.value[k] == pytest.approx(log["gw_dist"], rel=1e-12)


@pytest.mark.parametrize("n, m", [(1, 1), (1, 3), (2, 2), (9, 4)])
def test_problems_of_a_batch_are_solved_as_by_themselves(n, m):
    rng = np.random.default_rng([n, m])
    Ca, Cb = rng.uniform(size=(3, n, n)), rng.uniform(size=(3, m, m))
    found = pot.solve_gromov_batch(Ca, Cb, reg=0.2, max_iter=20)
    alone = pot.solve_gromov_batch(Ca[2:], Cb[2:], reg=0.2, max_iter=20)
    np.testing.assert_array_equal(alone.plan[0], found.plan[2])
    assert alone.value[0] == found.value[2]


def test_problems_of_a_batch_that_end_badly_are_one_warning(monkeypatch):
    end_as(monkeypatch, Ending.CYCLE)
    with pytest.warns(ConvergenceWarning, match=r"'stalled': 4 of 4 .* 0"):
        assert pot.solve_gromov_batch(**batch()).status == "stalled"

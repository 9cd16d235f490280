"""Properties of barycenters, dictionaries and unbalanced plans; test_calls.py compares results with
POT's.
"""

import numpy as np
import pytest
from helpers import pot_rows as rows
from helpers.marks import pairwise
from helpers.pot_calls import converted, ours, pots, same
from helpers.pot_names import EXACT_BARYCENTERS, SEMIRELAXED_BARYCENTERS
from helpers.pot_rows import FUSED, PLAIN, UNBALANCED, barycenter, dictionary, unbalanced
from helpers.pot_spaces import costs, weights

from gwfast import ConvergenceWarning


@pytest.mark.parametrize("seed", [5, "generator", None])
@pytest.mark.parametrize("name", [PLAIN, rows.LEARNING])
def test_random_numbers_are_of_a_seed_a_generator_or_the_global_generator(name, seed):
    options = dictionary(name, epochs=1) if name == rows.LEARNING else barycenter(name, max_iter=1)
    expected = ours(name)(**options | {"random_state": 5})
    np.random.mtrand._rand.seed(5)
    seed = np.random.RandomState(5) if seed == "generator" else seed
    same(ours(name)(**options | {"random_state": seed}), expected)


@pairwise(
    name=[PLAIN, FUSED, *EXACT_BARYCENTERS],
    loss_fun=["square_loss", "kl_loss"],
    warmstartT=[False, True],
    total=[1.0, 3.0],
    dtype=[np.float64, np.float32],
)
def test_plans_made_together_are_those_of_single_problems(name, loss_fun, warmstartT, total, dtype):
    options = barycenter(name, total=total, loss_fun=loss_fun, warmstartT=warmstartT)
    options |= {"init_C": rows.INIT_C, "max_iter": 3, "stop_criterion": "loss"}
    if "Ys" in options:
        options["init_Y" if name == FUSED else "init_X"] = rows.INIT_Y
    options = converted(options, lambda x: x.astype(dtype))
    # Plans whose tables are printed are made one by one, as single problems are solved.
    together, single = (ours(name)(**options, verbose=verbose) for verbose in (False, True))
    same(together, single, 2e-5 if dtype is np.float32 else 1e-9, {"err": None})
    assert {x.dtype for x in together[-1]["T"]} == {np.dtype(dtype)}


def test_limits_warn_tables_and_products_of_the_same_features(capsys):
    options = barycenter(PLAIN, epsilon=1e-3, max_iter=300, tol=10.0, numItermax=1)
    with pytest.warns(ConvergenceWarning, match="'max_iter'"):
        ours(PLAIN)(**options)
    ours(PLAIN)(**options, warn=False)
    exact, rough = (ours(PLAIN)(**barycenter(PLAIN), stopThr=tol) for tol in (1e-9, 0.3))
    assert not np.array_equal(exact[0], rough[0])
    ours(PLAIN)(**barycenter(PLAIN, max_iter=3, verbose=True))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("|")[0] == "It.  "
    assert {line.split("|")[0] for line in lines} >= {"    0", "    1", "    2"}
    options = barycenter(rows.SEMIRELAXED_FUSED, (9, 5, 3), max_iter=1, random_state=0)
    X, C, log = ours(rows.SEMIRELAXED_FUSED)(**options)
    assert np.isfinite(X).all() and np.isfinite(C).all()
    assert len(log["T"]) == 3


# Permuted, where there is room for every point.
@pytest.mark.parametrize("name", [EXACT_BARYCENTERS[0], rows.SEMIRELAXED])
def test_a_barycenter_of_one_space_is_that_space(name):
    C, order = costs(7, 1), np.random.default_rng(0).permutation(7)
    options = {"stop_criterion": "loss", "ps": [weights(7, 1)]} if name == rows.SEMIRELAXED else {}
    options |= {"init_C": C[np.ix_(order, order)], "max_iter": 30, "log": True}
    found, log = ours(name)(7, [C], **options)
    matched = log["T"][0].argmax(axis=0 if name == rows.SEMIRELAXED else 1)
    np.testing.assert_allclose(found, C[np.ix_(matched, matched)], atol=1e-12)
    assert log["loss" if name == rows.SEMIRELAXED else "err"][-1] <= 1e-9


@pytest.mark.parametrize("start", ["fluid", "fluid_soft", "spectral", "kmeans", "kmeans_soft"])
@pytest.mark.parametrize("name", SEMIRELAXED_BARYCENTERS)
@pytest.mark.filterwarnings("ignore:Both structures have the same size")
@pytest.mark.filterwarnings("ignore:divide by zero")  # in POT
def test_starts_that_cluster_are_pots(name, start):
    pytest.importorskip("sklearn")
    pytest.importorskip("networkx")
    options = barycenter(name, (9, 5, 8), G0=start, random_state=1, max_iter=1)
    found, theirs = ours(name)(**options), pots(name)(**options)
    same(found, theirs)
    assert found[-1].keys() == theirs[-1].keys()


def test_errors_are_pots():
    ot = pytest.importorskip("ot")
    with pytest.raises(ot.utils.UndefinedParameter, match="init_C"):
        ours(FUSED)(**barycenter(FUSED, fixed_structure=True))


@pytest.mark.parametrize("name", [rows.UNMIXING, rows.FUSED_UNMIXING])
def test_points_without_mass_do_not_count_and_totals_need_not_be_one(name):
    options = dictionary(name)
    expected = ours(name)(**options)
    options["p"] = np.append(options["p"], 0.0)
    options["C"] = np.pad(options["C"], (0, 1), constant_values=0.7)
    if "Y" in options:
        options["Y"] = np.append(options["Y"], [[3.0, 5.0]], axis=0)
    *found, T, loss = ours(name)(**options)
    same([*found, T[:-1], loss], expected)
    assert not T[-1].any()
    options = dictionary(name)
    options |= {"p": 3 * options["p"], "q": 3 * rows.Q}
    if "Y" in options:  # features count once, structures twice
        options |= {"Y": 3**0.5 * options["Y"], "Ydict": 3**0.5 * rows.YDICT}
    w, *_, T, loss = ours(name)(**options)
    same((w, T / 3, loss / 9), (expected[0], *expected[-2:]))


def test_an_atom_is_unmixed_as_itself():
    order = np.random.default_rng(1).permutation(rows.NT)
    options = {
        "C": rows.CDICT[1][np.ix_(order, order)],
        "Y": rows.YDICT[1][order],
        "p": rows.Q[order],
    }
    w, *_, T, loss = ours(rows.FUSED_UNMIXING)(**dictionary(rows.FUSED_UNMIXING, **options))
    np.testing.assert_allclose(w, [0, 1, 0], atol=1e-9)
    np.testing.assert_allclose(T, np.diag(rows.Q)[order], atol=1e-9)
    assert loss == pytest.approx(0, abs=1e-9)


def test_losses_fall_and_the_best_epoch_is_returned(capsys):
    options = dictionary(rows.LEARNING, epochs=12, learning_rate=0.05)
    atoms, log = ours(rows.LEARNING)(**options)
    losses = log["loss_epochs"]
    assert min(losses) < 0.8 * losses[0]
    best = int(np.argmin(losses))
    options |= {"epochs": best + 1, "use_log": False, "verbose": True}
    found, log = ours(rows.LEARNING)(**options)
    same(found, atoms)
    assert log == {"loss_batches": [], "loss_epochs": []}
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == best + 1
    assert float(lines[-1].split()[-1]) == pytest.approx(losses[best])
    # No epochs leave the first atoms.
    atoms, _ = ours(rows.LEARNING)(**dictionary(rows.LEARNING, 0, rows.FIRST, epochs=0))
    same(atoms, np.maximum(rows.CDICT - 0.5, 0))


def test_uniform_masses_and_a_start_are_taken():
    options = unbalanced(wx=None, wy=None, reg_marginals=1.0)
    *plain, log = ours(UNBALANCED)(**options)
    assert log["error"][-1] < options["tol"] < log["error"][-2]
    options |= {"wx": np.full(8, 1 / 8), "wy": np.full(6, 1 / 6), "reg_marginals": [1.0]}
    options |= {"init_pi": np.full((8, 6), 1 / 48), "init_duals": (None, None)}
    same(ours(UNBALANCED)(**options)[:2], plain, 1e-12)


def test_float32_comes_back_as_pots_float64_and_changes_are_printed(capsys):
    options = converted(unbalanced(max_iter=2, verbose=True), lambda x: x.astype(np.float32))
    plan, _, log = ours(UNBALANCED)(**options)
    rows = capsys.readouterr().out.splitlines()
    assert rows == [f"{k:5d}|{x:8e}|" for k, x in enumerate(log["error"], start=1)]
    assert len(rows) == 2
    assert plan.dtype == pots(UNBALANCED)(**options)[0].dtype == np.float64


def test_a_vanished_plan_is_warned_of():
    options = unbalanced(reg_marginals=1e-3, epsilon=0.01, alpha=1.0)
    with pytest.warns(ConvergenceWarning, match="mass"):
        plan, *_ = ours(UNBALANCED)(**options | {"M": options["M"] + 0.5})
    assert not plan.any()

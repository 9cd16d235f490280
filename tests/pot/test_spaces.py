"""Barycenters, dictionaries, co-optimal transport and unbalanced plans: their properties, and where
they differ from POT on purpose, as DIFFERENCES.md says. test_calls.py compares them with POT's.
"""

import numpy as np
import pytest
from helpers import pot_rows as rows
from helpers.marks import pairwise
from helpers.pot_calls import converted, ours, pots, same
from helpers.pot_names import EXACT_BARYCENTERS
from helpers.pot_rows import FUSED, PLAIN, UNBALANCED, barycenter, dictionary, unbalanced
from helpers.pot_spaces import costs
from scipy.spatial.distance import cdist

from gwfast import ConvergenceWarning, pot

COOT = "co_optimal_transport"


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
    options = barycenter(PLAIN, max_iter=300, tol=10.0, numItermax=1)
    # It depends on rounding which of these problems fails with one inner iteration.
    hard = [options | {"epsilon": epsilon} for epsilon in (2e-3, 1e-3, 5e-4, 3e-4, 2e-4)]
    with pytest.warns(ConvergenceWarning, match="'max_iter'"):
        for one in hard:
            ours(PLAIN)(**one)
    for one in hard:
        ours(PLAIN)(**one, warn=False)
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


def test_changes_are_printed_and_heeded_and_float32_comes_back_as_pots_float64(capsys):
    *_, log = ours(UNBALANCED)(**unbalanced(reg_marginals=1.0))
    assert log["error"][-1] < 1e-10 < log["error"][-2]
    options = converted(unbalanced(max_iter=2, verbose=True), lambda x: x.astype(np.float32))
    plan, _, log = ours(UNBALANCED)(**options)
    rows = capsys.readouterr().out.splitlines()
    assert rows == [f"{k}|{x:8e}|" for k, x in zip(("    1", "    2"), log["error"], strict=True)]
    assert plan.dtype == pots(UNBALANCED)(**options)[0].dtype == np.float64


def test_a_vanished_plan_is_warned_of():
    options = unbalanced(reg_marginals=1e-3, epsilon=0.01, alpha=1.0)
    with pytest.warns(ConvergenceWarning, match="mass"):
        plan, *_ = ours(UNBALANCED)(**options | {"M": options["M"] + 0.5})
    assert not plan.any()


def means(options, log):
    """Return the best features and structure for the plans of a barycenter."""
    weighted = list(zip(options["lambdas"], log["T"], options["Ys"], options["Cs"], strict=True))
    Y = sum(w * T @ Y for w, T, Y, _ in weighted) / options["p"][:, None]
    C = sum(w * T @ C @ T.T for w, T, _, C in weighted) / np.outer(options["p"], options["p"])
    return Y, C


def test_features_of_entropic_barycenters_are_updated():
    options = barycenter(FUSED, stop_criterion="loss", init_C=rows.INIT_C, init_Y=rows.INIT_Y)
    their_Y, *theirs = pots(FUSED)(**options)
    np.testing.assert_array_equal(their_Y, rows.INIT_Y)
    Y, *found = ours(FUSED)(**options)
    same(found, theirs, 1e-5, {"err_rel_loss": 1e-4})
    np.testing.assert_allclose(Y, means(options, found[-1])[0], rtol=1e-9)
    # POT's Ms are of the features that it should have returned.
    for M, other in zip(found[-1]["Ms"], options["Ys"], strict=True):
        np.testing.assert_allclose(M, cdist(Y, other, "sqeuclidean"), atol=1e-12)


@pytest.mark.parametrize("fixed", ["", "structure", "features", "structure features"])
def test_fused_barycenters_go_on_until_all_that_may_move_stands_still(fixed):
    """POT stops once either has moved less than its tolerance."""
    options = barycenter(FUSED, max_iter=100, tol=1e-3, init_C=rows.INIT_C, init_Y=rows.INIT_Y)
    parts = {f"fixed_{part}": part in fixed for part in ("structure", "features")}
    Y, C, log = ours(FUSED)(**options, **parts)
    of_Y, of_C = means(options, log)
    sides = (Y, of_Y, rows.INIT_Y, "feature"), (C, of_C, rows.INIT_C, "structure")
    for found, mean, first, part in sides:
        moved = log[f"err_{part}"]
        assert len(moved) == len(log["Ts_iter"])
        if part in fixed:
            np.testing.assert_array_equal(found, first)
            assert not any(moved)
        else:
            np.testing.assert_allclose(found, mean, rtol=1e-7)
            assert len(moved) > 1 and moved[-1] <= 1e-3
    errors = np.array([log["err_feature"], log["err_structure"]]).max(axis=0)
    assert (errors[:-1] > 1e-3).all()
    np.testing.assert_array_equal(log["Ts_iter"][-1][0], log["T"][0])
    assert len(errors) == 1 or not np.array_equal(log["Ts_iter"][0][0], log["T"][0])


@pytest.mark.parametrize("name", [rows.UNMIXING, rows.FUSED_UNMIXING])
def test_losses_of_asymmetric_spaces_are_those_of_their_plans(name):
    """POT takes the target of weights transposed."""
    C = costs(9, 1, symmetric=False)
    options = dictionary(name, C=C, Cdict=rows.ASYMMETRIC, symmetric=None)
    _, mean, *Y, T, loss = ours(name)(**options)
    apart = (C[:, :, None, None] - mean) ** 2
    expected = np.einsum("ijkl,ik,jl", apart, T, T)
    if Y:
        expected = 0.4 * expected + 0.6 * np.vdot(cdist(options["Y"], *Y, "sqeuclidean"), T)
    assert loss == pytest.approx(expected)


def test_ties_of_graphs_are_broken_for_lower_losses():
    networkx = pytest.importorskip("networkx")
    blocks = [9] * 2, [[0.9, 0.1], [0.1, 0.9]]
    graphs = (networkx.stochastic_block_model(*blocks, seed=s) for s in range(6))
    arrays = [networkx.to_numpy_array(graph) for graph in graphs]
    found, theirs = (
        np.mean([of(rows.UNMIXING)(C, rows.CDICT, tol_outer=1e-9)[-1] for C in arrays])
        for of in (ours, pots)
    )
    assert found < theirs


def test_co_optimal_plans_have_no_gradients_and_are_left_to_pot():
    torch, coot = pytest.importorskip("torch"), pytest.importorskip("ot.coot")
    given = {name: torch.tensor(rows.matrices()[name]) for name in "XY"}
    given["X"].requires_grad_()
    with pytest.raises(TypeError, match="X asks for gradients"):
        pot.co_optimal_transport(**given, epsilon=0.5)
    with pot.patched() as calls:
        plan, _ = coot.co_optimal_transport(**given, epsilon=0.5)
        assert plan.requires_grad
        assert not calls
        assert coot.co_optimal_transport2(**given, epsilon=0.5).requires_grad
    assert calls == {"co_optimal_transport2": 1}


def test_values_of_copies_are_not_negative():
    for size in (1 / 3, 1e3, 1e-3):
        path = size * np.abs(np.subtract.outer(np.arange(11.0), np.arange(11.0)))
        assert pot.co_optimal_transport2(path, path) >= 0
        assert pot.BAPG_gromov_wasserstein2(path, path, epsilon=size**2) >= 0


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_scales_of_data_change_nothing(scale):
    given = rows.matrices(given=rows.MASSES, epsilon=0.2)
    P, Q, _ = ours(COOT)(**given)
    given |= {"X": scale * given["X"], "Y": scale * given["Y"], "epsilon": 0.2 * scale**2}
    same(ours(COOT)(**given)[:2], (P, Q), 1e-6)


@pytest.mark.parametrize("epsilon", [0, (0.3, 0.1)])
def test_totals_scale_plans_and_scalings_make_them(epsilon):
    given = rows.matrices(given=rows.MASSES, epsilon=epsilon)
    P, Q, _ = ours(COOT)(**given)
    for name in ("wx_samp", "wy_samp"):
        given[name] = 3 * given[name]
    # The plan of features costs that much more.
    given["epsilon"] = epsilon and (epsilon[0], 3 * epsilon[1])
    *found, log = ours(COOT)(**given)
    same(found, [3 * P, Q], 1e-8)
    if epsilon:
        X, Y = given["X"], given["Y"]
        cost = (X**2 @ Q.sum(1))[:, None] + Y**2 @ Q.sum(0) - 2 * X @ Q @ Y.T
        made = np.exp(np.add.outer(*log["duals_sample"]) - cost / epsilon[0])
        np.testing.assert_allclose(made, found[0], rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0, 0.3])
def test_warm_starts_are_where_it_goes_on(epsilon):
    given = rows.matrices(empty=True, epsilon=epsilon, alpha=1)
    P, Q, log = ours(COOT)(**given)
    assert (np.diff(log["distances"]) < 1e-9).all() and log["status"] == "converged"
    start = {"pi_sample": P, "pi_feature": Q, **log}
    *found, again = ours(COOT)(**given, warmstart=start)
    assert len(again["distances"]) < len(log["distances"])
    np.testing.assert_allclose(found[0], P, atol=1e-8)
    # Masses may have changed, and plans may be any.
    rng = np.random.default_rng(4)
    for kind, shape in (("sample", P.shape), ("feature", Q.shape)):
        start[f"pi_{kind}"], start[f"duals_{kind}"] = rng.random(shape), [*map(rng.random, shape)]
    given = rows.matrices(epsilon=epsilon, alpha=1, warmstart=start)
    found, right = ours(COOT)(**given), pots(COOT)(**given)
    same(found[:2], right[:2], 1e-7)


def test_limits_and_tables_of_co_optimal_transport_are_pots(capsys):
    given = rows.matrices(given=(), epsilon=0.5, nits_bcd=4, eval_bcd=3, verbose=True)
    printed = []
    for function in (ours(COOT), pots(COOT)):
        function(**given)
        lines = capsys.readouterr().out.splitlines()
        printed.append([line.split(":")[0] for line in lines])
    assert printed[0] == printed[1]
    # The last objective is of the plans that are returned, whenever it is due.
    given = rows.matrices(given=rows.MASSES, nits_bcd=2)
    _, _, log = ours(COOT)(**given, eval_bcd=7)
    assert log["distances"][-1] == pytest.approx(pots(COOT)(**given)[2]["distances"][-1])
    assert log["status"] == "max_iter"
    # A plan without its marginals is mended, with a warning.
    given = rows.matrices(given=rows.MASSES, epsilon=0.02, nits_ot=2)
    with pytest.warns(ConvergenceWarning, match="Co-optimal transport .*'max_iter'"):
        P, *_ = ours(COOT)(**given)
    np.testing.assert_allclose(P.sum(axis=1), given["wx_samp"], atol=1e-12)

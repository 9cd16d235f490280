"""Properties of co-optimal transport; test_calls.py compares its plans and values with POT's."""

import numpy as np
import pytest
from helpers.pot_calls import ours, pots, same
from helpers.pot_rows import MASSES, TIGHT_COOT, matrices
from helpers.tensors import check_gradients, tensors

from gwfast import ConvergenceWarning, pot

NAME = "co_optimal_transport"


def without_one_mass(**options):
    """Arguments where a row of X and a column of Y have no mass."""
    given = matrices(**options)
    for name, k in (("wx_samp", 2), ("wy_feat", 0)):
        given[name][k] = 0.0
        given[name] /= given[name].sum()
    return given


@pytest.mark.parametrize("epsilon", [0, 0.2])
def test_objectives_fall_and_marginals_are_met(epsilon):
    given = without_one_mass(epsilon=epsilon)
    P, Q, log = pot.co_optimal_transport(**given)
    for plan, kind in ((P, "samp"), (Q, "feat")):
        np.testing.assert_allclose(plan.sum(axis=1), given[f"wx_{kind}"], atol=1e-10)
        np.testing.assert_allclose(plan.sum(axis=0), given[f"wy_{kind}"], atol=1e-10)
    assert len(log["distances"]) > 2
    assert (np.diff(log["distances"]) < 1e-9).all()
    assert log["status"] == "converged"


def test_copies_are_matched_and_their_values_are_not_negative():
    rng = np.random.default_rng(3)
    X, rows, cols = rng.random((60, 11)), rng.permutation(60), rng.permutation(11)
    P, Q = pot.co_optimal_transport(X, X[rows][:, cols])
    np.testing.assert_array_equal(rows[P.argmax(axis=1)], np.arange(60))
    np.testing.assert_array_equal(cols[Q.argmax(axis=1)], np.arange(11))
    assert (P > 0).sum() == 60
    for size in (1 / 3, 1e3, 1e-3):
        path = size * np.abs(np.subtract.outer(np.arange(11.0), np.arange(11.0)))
        assert pot.co_optimal_transport2(path, path) >= 0
        assert pot.BAPG_gromov_wasserstein2(path, path, epsilon=size**2) >= 0


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_scales_change_nothing(scale):
    given = matrices(given=MASSES, epsilon=0.2)
    P, Q, _ = pot.co_optimal_transport(**given)
    given |= {"X": scale * given["X"], "Y": scale * given["Y"], "epsilon": 0.2 * scale**2}
    same(pot.co_optimal_transport(**given)[:2], (P, Q), 1e-6)


@pytest.mark.parametrize("epsilon", [0, (0.3, 0.1)])
def test_totals_scale_plans_and_scalings_make_them(epsilon):
    given = matrices(given=MASSES, epsilon=epsilon)
    P, Q, _ = pot.co_optimal_transport(**given)
    for name in ("wx_samp", "wy_samp"):
        given[name] = 3 * given[name]
    # The plan of features costs that much more.
    given["epsilon"] = epsilon and (epsilon[0], 3 * epsilon[1])
    *found, log = pot.co_optimal_transport(**given)
    same(found, [3 * P, Q], 1e-8)
    if epsilon:
        X, Y = given["X"], given["Y"]
        cost = (X**2 @ Q.sum(1))[:, None] + Y**2 @ Q.sum(0) - 2 * X @ Q @ Y.T
        made = np.exp(np.add.outer(*log["duals_sample"]) - cost / epsilon[0])
        np.testing.assert_allclose(made, found[0], rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0, 0.3])
def test_warm_starts_are_where_it_goes_on(epsilon):
    given = without_one_mass(epsilon=epsilon, alpha=1)
    P, Q, log = pot.co_optimal_transport(**given)
    start = {"pi_sample": P, "pi_feature": Q, **log}
    *found, again = pot.co_optimal_transport(**given, warmstart=start)
    assert len(again["distances"]) < len(log["distances"])
    np.testing.assert_allclose(found[0], P, atol=1e-8)
    # Masses may have changed, and plans may be any.
    rng = np.random.default_rng(4)
    for kind, shape in (("sample", P.shape), ("feature", Q.shape)):
        start[f"pi_{kind}"], start[f"duals_{kind}"] = rng.random(shape), [*map(rng.random, shape)]
    given = matrices(epsilon=epsilon, alpha=1, warmstart=start)
    found, right = ours(NAME)(**given), pots(NAME)(**given)
    same(found[:2], right[:2], 1e-7)


def test_limits_and_what_is_printed_are_pots(capsys):
    given = matrices(given=(), epsilon=0.5, nits_bcd=4, eval_bcd=3, verbose=True)
    printed = []
    for function in (ours(NAME), pots(NAME)):
        function(**given)
        lines = capsys.readouterr().out.splitlines()
        printed.append([line.split(":")[0] for line in lines])
    assert printed[0] == printed[1]
    # The last objective is of the plans that are returned, whenever it is due.
    given = matrices(given=MASSES, nits_bcd=2)
    _, _, log = pot.co_optimal_transport(**given, eval_bcd=7)
    assert log["distances"][-1] == pytest.approx(pots(NAME)(**given)[2]["distances"][-1])
    assert log["status"] == "max_iter"
    # A plan without its marginals is mended, with a warning.
    given = matrices(given=MASSES, epsilon=0.02, nits_ot=2)
    with pytest.warns(ConvergenceWarning, match="Co-optimal transport .*'max_iter'"):
        P, *_ = pot.co_optimal_transport(**given)
    np.testing.assert_allclose(P.sum(axis=1), given["wx_samp"], atol=1e-12)


@pytest.mark.parametrize("epsilon", [0, (0.3, 0.2), (0, 0.2)])
def test_gradients_are_differences(epsilon):
    torch = pytest.importorskip("torch")
    options = {"epsilon": epsilon, "alpha": (0.5, 2), "tol_bcd": 1e-13, "nits_bcd": 2000}
    options |= TIGHT_COOT | {"log": False}
    given = {name: x for name, x in matrices().items() if name not in TIGHT_COOT}

    starts = []
    for arrays in (given, tensors(given)):
        P, Q, log = pot.co_optimal_transport(**arrays, **options | {"log": True})
        starts.append({"pi_sample": P, "pi_feature": Q, **log})

    def loss(**arrays):
        """From where the search has ended: differences are of one valley."""
        start = starts[isinstance(arrays["X"], torch.Tensor)]
        return pot.co_optimal_transport2(**arrays, **options, warmstart=start)

    check_gradients(loss, given, masses=MASSES, step=1e-6)

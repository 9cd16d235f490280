"""Documented differences from POT: barycenters, dictionaries and co-optimal transport."""

import numpy as np
import pytest
from helpers import pot_rows as rows
from helpers.pot_calls import ours, pots, same
from helpers.pot_rows import FUSED, barycenter, dictionary, matrices
from helpers.pot_spaces import costs
from scipy.spatial.distance import cdist

from gwfast import pot


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
    given = {name: torch.tensor(x) for name, x in matrices(given=()).items() if name in "XY"}
    given["X"].requires_grad_()
    with pytest.raises(TypeError, match="X asks for gradients"):
        pot.co_optimal_transport(**given, epsilon=0.5)
    with pot.patched() as calls:
        plan, _ = coot.co_optimal_transport(**given, epsilon=0.5)
        assert plan.requires_grad
        assert not calls
        assert coot.co_optimal_transport2(**given, epsilon=0.5).requires_grad
    assert calls == {"co_optimal_transport2": 1}

"""Properties of barycenters; test_calls.py compares them with POT's."""

import numpy as np
import pytest
from helpers import pot_rows as rows
from helpers.marks import pairwise
from helpers.pot_calls import converted, ours, pots, same
from helpers.pot_names import EXACT_BARYCENTERS, SEMIRELAXED_BARYCENTERS
from helpers.pot_rows import FUSED, PLAIN, barycenter, dictionary
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


def test_limits_of_linear_problems_and_warn_are_heeded():
    options = barycenter(PLAIN, epsilon=1e-3, max_iter=300, tol=10.0, numItermax=1)
    with pytest.warns(ConvergenceWarning, match="'max_iter'"):
        ours(PLAIN)(**options)
    ours(PLAIN)(**options, warn=False)
    exact, rough = (ours(PLAIN)(**barycenter(PLAIN), stopThr=tol) for tol in (1e-9, 0.3))
    assert not np.array_equal(exact[0], rough[0])


def test_table_has_a_row_an_update(capsys):
    ours(PLAIN)(**barycenter(PLAIN, max_iter=3, verbose=True))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("|")[0] == "It.  "
    assert {line.split("|")[0] for line in lines} >= {"    0", "    1", "    2"}


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


def test_products_of_the_same_features_are_near_to_all():
    options = barycenter(rows.SEMIRELAXED_FUSED, (9, 5, 3), max_iter=1, random_state=0)
    X, C, log = ours(rows.SEMIRELAXED_FUSED)(**options)
    assert np.isfinite(X).all() and np.isfinite(C).all()
    assert len(log["T"]) == 3


def test_errors_are_pots():
    ot = pytest.importorskip("ot")
    with pytest.raises(ot.utils.UndefinedParameter, match="init_C"):
        ours(FUSED)(**barycenter(FUSED, fixed_structure=True))

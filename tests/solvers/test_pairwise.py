"""All pairs cost what each costs alone, whoever solves them and in whatever order."""

import functools
import itertools

import numpy as np
import pytest
from helpers.deadlines import end_after
from helpers.problems import cloud, distances, masses, random_cost

import gwfast
from gwfast import PointCloud, pairwise_gromov_wasserstein

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
SIZES = [6, 9, 1, 12, 7, 5, 8, 10, 11]


def spaces(kind="metric"):
    if kind == "random":
        return [random_cost(n, k) for k, n in enumerate(SIZES)]
    return [distances(cloud(n, 2, k)) for k, n in enumerate(SIZES)]


@pytest.mark.parametrize("loss, fused", [("square", False), ("kl", True)])
def test_each_pair_costs_what_it_costs_alone(loss, fused):
    given, weights = spaces(), [masses(n, k) for k, n in enumerate(SIZES)]
    features = [cloud(n, 3, k + 50) for k, n in enumerate(SIZES)] if fused else None
    alpha = 0.3 if fused else 0.5
    found = pairwise_gromov_wasserstein(
        given, masses=weights, features=features, alpha=alpha, loss=loss, plans=True,
        n_starts=0,
    )  # fmt: skip
    n = len(given)
    assert found.n_solved == n * (n - 1) // (2 if loss == "square" else 1)
    assert found.n_skipped == found.n_unconverged == 0
    for i, j in found.plans:
        fused_cost = {}
        if fused:
            x, y = features[i], features[j]
            squares = ((x[:, None] - y) ** 2).sum(axis=2)
            fused_cost = dict(linear_cost=squares, alpha=0.3)
        alone = gwfast.gromov_wasserstein(
            given[i], given[j], weights[i], weights[j], loss=loss, epsilon=0,
            init="product", **fused_cost,
        )  # fmt: skip
        assert found.costs[i, j] == pytest.approx(alone.gw_cost, rel=1e-9, abs=1e-14)
        plan = found.plans[i, j].toarray()
        np.testing.assert_allclose(plan.sum(axis=1), weights[i], atol=1e-12)
        np.testing.assert_allclose(plan.sum(axis=0), weights[j], atol=1e-12)
    assert (np.diag(found.costs) == 0).all()
    if loss == "square":
        np.testing.assert_array_equal(found.costs, found.costs.T)
        assert (found.lower_bounds <= found.costs * (1 + 1e-9)).all()
        np.testing.assert_array_equal(found.distances, np.sqrt(found.costs))


def test_with_entropy_each_is_a_solve_from_the_product_plan():
    given = spaces()[:4]
    found = pairwise_gromov_wasserstein(given, epsilon="auto", plans=True)
    for i, j in found.plans:
        alone = gwfast.gromov_wasserstein(given[i], given[j], init="product")
        assert found.costs[i, j] == alone.gw_cost
        part = found.plans[i, j].toarray()
        np.testing.assert_allclose(part.sum(), 1.0, atol=1e-3)


@pytest.mark.process
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib_does_not_matter(backend):
    joblib = pytest.importorskip("joblib")
    expected = pairwise_gromov_wasserstein(spaces(), plans=True)
    with joblib.parallel_config(backend):
        found = pairwise_gromov_wasserstein(spaces(), plans=True, n_jobs=2)
    np.testing.assert_array_equal(found.costs, expected.costs)
    assert found.plans.keys() == expected.plans.keys()


def curves(n):
    """Distances within smooth closed curves."""
    angles = np.linspace(0, 2 * np.pi, 30)[:, None] * np.arange(1, 4)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(n, 2, 3, 3)) / np.arange(1, 4)[:, None]
    return [distances(np.cos(angles) @ a + np.sin(angles) @ b) for a, b in weights]


def test_mirror_images_are_tried_by_default():
    one = pairwise_gromov_wasserstein(curves(12), n_starts=0).costs
    default = pairwise_gromov_wasserstein(curves(12)).costs
    most = pairwise_gromov_wasserstein(curves(12), n_starts=30).costs
    assert (most <= default).all() and (default <= one).all()
    assert default.sum() - most.sum() < 0.3 * (one.sum() - most.sum())


def test_copies_in_another_order_are_at_distance_zero():
    given, rng = spaces("random"), np.random.default_rng(0)
    orders = [rng.permutation(len(cost)) for cost in given]
    copies = [cost[np.ix_(order, order)] for cost, order in zip(given, orders, strict=True)]
    found = pairwise_gromov_wasserstein([*given, *copies], plans=True)
    n = len(given)
    assert (np.diag(found.costs[:n, n:]) == 0).all()
    for k, order in enumerate(orders):
        plan = found.plans[k, n + k].toarray()
        np.testing.assert_array_equal(plan.argmax(axis=1), order.argsort())


def test_more_starts_are_never_worse():
    one = pairwise_gromov_wasserstein(spaces("random"))
    more = pairwise_gromov_wasserstein(spaces("random"), n_starts=4)
    most = pairwise_gromov_wasserstein(spaces("random"), n_starts=12)
    assert (more.costs <= one.costs).all() and (most.costs <= more.costs).all()
    assert (most.costs < one.costs).any()
    again = pairwise_gromov_wasserstein(spaces("random"), n_starts=4, seed=1)
    assert (again.costs != more.costs).any()


@pytest.mark.parametrize("k", [1, 3, 100])
def test_what_is_skipped_is_not_among_the_nearest(k, monkeypatch):
    # Of several sizes.
    scaled = itertools.product(range(6), (1, 5))
    given = [distances(cloud(8, 2, seed)) * scale for seed, scale in scaled]
    given += [distances(cloud(7, 2, seed)) * 20 for seed in range(3)]
    every = pairwise_gromov_wasserstein(given)
    found = pairwise_gromov_wasserstein(given, k_nearest=k)
    expected, came = every.nearest(k), found.nearest(k)
    np.testing.assert_array_equal(came.scores, expected.scores)
    assert found.n_solved + found.n_skipped == every.n_solved
    skipped = np.isinf(found.costs)
    assert skipped.sum() == 2 * found.n_skipped
    np.testing.assert_array_equal(found.costs[~skipped], every.costs[~skipped])
    assert (found.n_skipped > 0) == (k < 100)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_a_comparison_goes_on_from_its_checkpoint(epsilon, tmp_path, monkeypatch):
    file = tmp_path / "kept"
    pairwise_gromov_wasserstein = functools.partial(
        gwfast.pairwise_gromov_wasserstein, epsilon=epsilon
    )
    expected = pairwise_gromov_wasserstein(spaces())
    with monkeypatch.context() as patch:
        end_after(patch, 1)
        some = pairwise_gromov_wasserstein(spaces(), checkpoint=file, n_threads=1)
    assert some.n_solved < expected.n_solved
    found = pairwise_gromov_wasserstein(spaces(), checkpoint=file)
    np.testing.assert_array_equal(found.costs, expected.costs)
    with pytest.raises(ValueError, match="the checkpoint of another solve"):
        pairwise_gromov_wasserstein(spaces("random"), checkpoint=file)


def test_when_time_is_up_the_others_are_unknown(monkeypatch):
    end_after(monkeypatch, 0)
    found = pairwise_gromov_wasserstein(spaces(), time_limit=1.0)
    assert found.n_solved == 0
    assert np.isnan(found.costs[~np.eye(len(SIZES), dtype=bool)]).all()


@pytest.mark.parametrize("epsilon, looks", [(0.0, 3), (0.0, 6), (0.05, 2)])
def test_what_is_interrupted_has_no_cost(looks, epsilon, monkeypatch):
    """Each cost that is there is that of a pair that was solved to its end."""
    expected = pairwise_gromov_wasserstein(spaces("random"), epsilon=epsilon, n_threads=1)
    end_after(monkeypatch, looks)
    found = pairwise_gromov_wasserstein(spaces("random"), epsilon=epsilon, n_threads=1, plans=True)
    there = ~np.isnan(found.costs)
    np.testing.assert_array_equal(found.costs[there], expected.costs[there])
    assert there.sum() == 2 * found.n_solved + len(SIZES)
    assert len(found.plans) == found.n_solved < expected.n_solved


def test_no_more_starts_are_made_than_there_is_time_for(monkeypatch):
    end_after(monkeypatch, 4)
    given = spaces("random")[:2]
    found = pairwise_gromov_wasserstein(given, n_starts=10**30, n_threads=1)
    assert found.n_solved == 1
    assert found.costs[0, 1] <= pairwise_gromov_wasserstein(given).costs[0, 1]


def test_who_does_not_converge_is_told():
    with pytest.warns(gwfast.ConvergenceWarning, match=r"of 36 pairs did not converge"):
        found = pairwise_gromov_wasserstein(spaces("random"), epsilon="auto", tol=1e-12)
    assert found.n_unconverged > 0


def test_point_clouds_are_spaces():
    points = [cloud(n, 2, k) for k, n in enumerate(SIZES)]
    clouds = [PointCloud(one) for one in points]
    found = pairwise_gromov_wasserstein(clouds)
    expected = pairwise_gromov_wasserstein([one.to_dense() for one in clouds])
    np.testing.assert_array_equal(found.costs, expected.costs)


def test_one_space_is_compared_with_none():
    found = pairwise_gromov_wasserstein([np.zeros((3, 3))], k_nearest=2)
    assert found.costs.tolist() == [[0.0]] and found.n_solved == 0
    assert "1 x 1, 0 solved" in repr(found)


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        (dict(spaces="ab"), TypeError, "spaces must be an iterable of costs, got str"),
        (dict(spaces=[]), ValueError, "spaces must not be empty"),
        (dict(spaces=[np.zeros((2, 3))]), ValueError, r"spaces\[0\] must be square"),
        (dict(masses=[None]), ValueError, "masses must be as many as spaces, 2, got 1"),
        (dict(masses=[None, [1.0]]), ValueError, r"masses\[1\]"),
        (dict(features=[np.ones((2, 1))]), ValueError, "features must be as many"),
        (
            dict(features=[np.ones((2, 1)), np.ones((2, 2))]),
            ValueError,
            r"features\[1\] must have shape \(2, 1\), got \(2, 2\)",
        ),
        (dict(alpha=2), ValueError, "alpha must be at most 1, got 2"),
        (dict(alpha=0.3), ValueError, "alpha must be left out without features, got 0.3"),
        (dict(loss="cube"), ValueError, "loss must be one of"),
        (dict(epsilon=-1), ValueError, "epsilon must be"),
        (dict(k_nearest=0), ValueError, "k_nearest must be at least 1"),
        (dict(n_starts=-1), ValueError, "n_starts must be at least 0"),
        (dict(plans=True, checkpoint="x"), ValueError, "checkpoint must be None with"),
    ],
)
def test_bad_arguments_are_named(arguments, error, match):
    given = dict(spaces=[np.zeros((2, 2)), np.ones((2, 2))]) | arguments
    with pytest.raises(error, match=match):
        pairwise_gromov_wasserstein(given.pop("spaces"), **given)


@pytest.mark.parametrize("fill", [1e6, 1e9, 1e20])
def test_points_without_mass_change_no_pair(fill):
    rng = np.random.default_rng(0)
    x = rng.standard_exponential((13, 3)) * [1, 2, 4]
    costs = np.linalg.norm(x[:, None] - x, axis=2)
    spaces = [costs, costs[:10, :10] ** 1.1]
    masses = [np.full(len(one), 1 / len(one)) for one in spaces]
    want = gwfast.pairwise_gromov_wasserstein(spaces, masses=masses).costs
    padded = [np.pad(one, (0, 3), constant_values=fill) for one in spaces]
    masses = [np.pad(one, (0, 3)) for one in masses]
    got = gwfast.pairwise_gromov_wasserstein(padded, masses=masses).costs
    np.testing.assert_allclose(got, want, rtol=1e-6)

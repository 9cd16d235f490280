"""Matches, projections, labels and tables of a result, and the plan of a step on the way."""

import contextlib
import sys

import numpy as np
import pytest
from helpers.problems import cloud, distances, rotated_pair

import gwfast

N = 30
pytestmark = pytest.mark.filterwarnings("ignore:.*ended as")


@pytest.fixture(scope="module")
def shuffled():
    """An exact plan between points and themselves in another order."""
    x = np.random.default_rng(1).standard_exponential((N, 3)) * [1, 2, 3]
    order = np.random.default_rng(2).permutation(N)
    return x, order, gwfast.gromov_wasserstein(distances(x), distances(x[order]), epsilon=0)


@pytest.fixture(scope="module")
def blurred():
    costs = distances(cloud(20, 3, 1)), distances(cloud(14, 3, 2))
    p = np.arange(20.0) / 190  # the first point has no mass
    options = dict(dtype="float64", tol=1e-4, options=gwfast.SolverOptions(marginal_tol=1e-6))
    return gwfast.gromov_wasserstein(*costs, p, init="product", epsilon="5%", **options)


def test_points_go_where_they_came_from(shuffled):
    x, order, result = shuffled
    np.testing.assert_array_equal(order[result.match()], np.arange(N))
    for projection in ("barycentric", "match"):
        there = result.transform(x[order], projection=projection)
        back = result.inverse_transform(x, projection=projection)
        np.testing.assert_allclose(there, x, atol=1e-9)
        np.testing.assert_allclose(back, x[order], atol=1e-9)
    found = result.transfer_labels((order % 4).tolist())
    np.testing.assert_array_equal(found.labels, np.arange(N) % 4)


def test_projections_are_what_they_are_called(blurred):
    plan, y, x = blurred.plan, cloud(14, 4, 3), cloud(20, 2, 4)
    means = np.vstack([np.zeros(4), (plan @ y)[1:] / plan.sum(axis=1, keepdims=True)[1:]])
    np.testing.assert_allclose(blurred.transform(y), means, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(blurred.transform(y[:, 0]), means[:, 0], atol=1e-9)
    back = plan.T @ x / plan.sum(axis=0)[:, None]
    np.testing.assert_allclose(blurred.inverse_transform(x), back, rtol=1e-9)
    names = np.array([f"cell {k}" for k in range(14)])
    for values in (y, names):
        found = blurred.transform(values, projection="match")
        np.testing.assert_array_equal(found[1:], values[plan.argmax(axis=1)][1:])
        assert found[0] is None or np.isnan(found[0]).all()


@pytest.mark.parametrize("kind", [str, int, float])
def test_labels_follow_the_mass(blurred, kind):
    plan, labels = blurred.plan, np.array([kind(k % 3) for k in range(14)])
    kinds = np.unique(labels)
    masses = np.stack([plan[:, labels == label].sum(axis=1) for label in kinds], axis=1)[1:]
    found, shares = blurred.transfer_labels(labels)
    np.testing.assert_array_equal(found[1:], kinds[masses.argmax(axis=1)])
    np.testing.assert_allclose(shares, [0, *masses.max(axis=1) / masses.sum(axis=1)])
    assert found[0] is None or np.isnan(found[0])
    turned = blurred.transfer_labels([kind(k % 2) for k in range(20)], to="target")
    even = plan[::2].sum(axis=0) >= plan[1::2].sum(axis=0)
    assert [label == kind(0) for label in turned.labels] == even.tolist()


MASSES = np.ones(30) / 29 * (np.arange(30) != 7)
WITHOUT_MASS = {
    "exact": dict(marginals=gwfast.Partial(0.3), epsilon=0),
    "zero mass": dict(p=MASSES),
    "tiled": dict(p=MASSES, options=gwfast.SolverOptions(tier="tiled")),
}


@pytest.mark.parametrize("case", WITHOUT_MASS)
def test_points_without_mass_have_no_match(case):
    """Linear programs leave 1e-16 of the mass in rows that they leave out."""
    rng = np.random.default_rng(0)
    costs = [distances(rng.normal(size=(n, 2)) * [1, 3]) for n in (30, 12)]
    if case == "tiled":
        costs = [gwfast.PointCloud(cost, "sqeuclidean") for cost in costs]
    result = gwfast.gromov_wasserstein(*costs, **WITHOUT_MASS[case])
    alone = result.plan.sum(axis=1) < 1e-9
    assert alone.any()
    np.testing.assert_array_equal(result.match() == -1, alone)
    assert set(result.to_frame(3)["source"]) == set(np.flatnonzero(~alone))
    for labels in (["a", "b"] * 6, [True, False] * 6, range(12)):
        moved = result.transform(labels, projection="match")
        for found in (result.transfer_labels(labels).labels, moved):
            missing = [label is None or label != label for label in found]
            np.testing.assert_array_equal(missing, alone)


def test_results_are_tables_which_need_pandas(shuffled, monkeypatch):
    _, order, result = shuffled
    best, names = np.argsort(order), np.array([f"b{k}" for k in range(N)])
    table = result.to_frame(source=names[::-1], target=names)
    assert table["source"].tolist() == names[::-1].tolist()
    assert table["target"].tolist() == names[best].tolist()
    np.testing.assert_allclose(table[["mass", "share"]], [[1 / N, 1]] * N, rtol=1e-9)
    assert len(result.to_frame(3)) == 3 * N
    assert (result.candidates.to_frame()["fate"] == "won").sum() == 1
    neighbors = result.coupling.topk(2).to_frame(target=names)
    assert neighbors["rank"].tolist() == [1, 2] * N
    assert neighbors["target"][::2].tolist() == names[best].tolist()
    costs = [distances(cloud(n, 2, n)) for n in (5, 6, 7)]
    found = gwfast.pairwise_gromov_wasserstein(costs)
    assert found.to_frame(["five", "six", "seven"]).loc["five", "seven"] == found.distances[0, 2]
    checked = gwfast.verify(gwfast.QuadraticProblem(*costs[:2]), np.ones((5, 6)) / 30, epsilon=10.0)
    holds = {name: residual.holds for name, residual in checked.residuals.items()}
    assert checked.to_frame()["holds"].to_dict() == holds
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas"):
        result.to_frame()


@pytest.mark.parametrize(
    "kind, tier",
    [*(("cloud", tier) for tier in ("dense", "tiled", "neighbors")), ("matrix", "dense")],
)
def test_steps_show_plans_and_looking_changes_nothing(kind, tier):
    costs = [gwfast.PointCloud(x) for x in rotated_pair(80, 5, 0, noise=0.05)[:2]]
    costs = [side.to_dense().matrix for side in costs] if kind == "matrix" else costs
    options = dict(options=gwfast.SolverOptions(tier=tier), init="product")
    seen, kept = [], []

    def look(step):
        kept.append(step)
        seen.append(step.coupling.toarray().copy())
        with contextlib.suppress(ValueError):
            step.coupling.toarray()[:] = 0.0
        return step.coupling.topk(3).indices.max() < 0

    looked = gwfast.gromov_wasserstein(*costs, callback=look, **options)
    assert tuple(kept) == looked.history  # a kept step is a record without a plan
    with pytest.raises(RuntimeError, match="callback"):
        _ = kept[0].coupling
    atol = 0 if kind == "matrix" else 1e-6 / 80
    np.testing.assert_allclose(seen[-1], looked.plan, rtol=0, atol=atol)
    np.testing.assert_allclose([plan.sum() for plan in seen], 1.0, rtol=0.05)
    plain = gwfast.gromov_wasserstein(*costs, callback=lambda step: False, **options)
    np.testing.assert_array_equal(plain.plan, looked.plan)
    assert [step.change for step in plain.history] == [step.change for step in looked.history]

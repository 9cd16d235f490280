"""What a result tells of its points: where they go, their labels, tables."""

import sys

import numpy as np
import pytest
from helpers.problems import cloud, distances

import gwfast
from gwfast.results.tables import Candidate

N = 30


@pytest.fixture(scope="module")
def shuffled():
    """An exact plan between points and themselves in another order."""
    x = np.random.default_rng(1).standard_exponential((N, 3)) * [1, 2, 3]
    order = np.random.default_rng(2).permutation(N)
    result = gwfast.gromov_wasserstein(
        distances(x), distances(x[order]), epsilon=0, options=gwfast.SolverOptions(n_starts=4)
    )
    assert result.gw_cost < 1e-9
    return x, order, result


@pytest.fixture(scope="module")
def blurred():
    costs = distances(cloud(20, 3, 1)), distances(cloud(14, 3, 2))
    p = np.arange(20.0) / 190  # the first point has no mass
    return gwfast.gromov_wasserstein(
        *costs, p, init="product", epsilon=gwfast.Epsilon(relative=0.05),
        dtype="float64", tol=1e-4, options=gwfast.SolverOptions(marginal_tol=1e-6),
    )  # fmt: skip


def test_points_go_where_they_came_from(shuffled):
    x, order, result = shuffled
    np.testing.assert_array_equal(order[result.match()], np.arange(N))
    for projection in ("barycentric", "match"):
        there = result.transform(x[order], projection=projection)
        np.testing.assert_allclose(there, x, atol=1e-9)
        back = result.inverse_transform(x, projection=projection)
        np.testing.assert_allclose(back, x[order], atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*ended as")
def test_projections_are_what_they_are_called(blurred):
    plan, y = blurred.plan, cloud(14, 4, 3)
    rows = plan.sum(axis=1, keepdims=True)
    means = np.divide(plan @ y, rows, out=np.zeros((20, 4)), where=rows > 0)
    np.testing.assert_allclose(blurred.transform(y), means, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(blurred.transform(y[:, 0]), means[:, 0], atol=1e-9)
    best = blurred.transform(y, projection="match")
    np.testing.assert_array_equal(best[1:], y[plan.argmax(axis=1)][1:])
    assert np.isnan(best[0]).all()
    names = np.array([f"cell {k}" for k in range(14)])
    found = blurred.transform(names, projection="match")
    np.testing.assert_array_equal(found[1:], names[plan.argmax(axis=1)][1:])
    assert found[0] is None
    back = blurred.inverse_transform(cloud(20, 2, 4))
    np.testing.assert_allclose(
        back, plan.T @ cloud(20, 2, 4) / plan.sum(axis=0)[:, None], rtol=1e-9
    )


@pytest.mark.filterwarnings("ignore:.*ended as")
@pytest.mark.parametrize("kind", [str, int, float])
def test_labels_follow_the_mass(blurred, kind):
    plan = blurred.plan
    labels = np.array([kind(k % 3) for k in range(14)])
    kinds = np.unique(labels)
    by_kind = np.stack([plan[:, labels == one].sum(axis=1) for one in kinds], axis=1)
    found = blurred.transfer_labels(labels)
    np.testing.assert_array_equal(found.labels[1:], kinds[by_kind.argmax(axis=1)][1:])
    assert found.labels[0] is None or np.isnan(found.labels[0])
    np.testing.assert_allclose(
        found.shares[1:], by_kind.max(axis=1)[1:] / plan.sum(axis=1)[1:], rtol=1e-9
    )
    assert found.shares[0] == 0  # it has no mass
    assert (found.shares <= 1).all()
    other = blurred.transfer_labels([kind(k % 2) for k in range(20)], to="target")
    even = plan[::2].sum(axis=0) >= plan[1::2].sum(axis=0)
    assert [one == kind(0) for one in other.labels] == even.tolist()


def test_what_rounding_leaves_is_no_match():
    """Linear programs leave 1e-16 of the mass in rows that they leave out."""
    rng = np.random.default_rng(0)
    costs = (distances(rng.normal(size=(n, 2)) * [1, 3]) for n in (30, 12))
    result = gwfast.gromov_wasserstein(*costs, marginals=gwfast.Partial(0.3), epsilon=0)
    alone = result.plan.sum(axis=1) < 1e-9
    assert alone.any()
    np.testing.assert_array_equal(result.match() < 0, alone)
    found = result.transfer_labels(["a", "b"] * 6)
    np.testing.assert_array_equal([one is None for one in found.labels], alone)


@pytest.mark.parametrize("kind", ["partial", "zero mass", "tiled"])
def test_points_without_mass_have_no_match(kind):
    pytest.importorskip("pandas")
    x = np.random.default_rng(0).normal(size=(20, 2)) * [1, 3]
    p = np.ones(20) / 19 * (np.arange(20) != 7)
    if kind == "partial":
        solve = dict(marginals=gwfast.Partial(0.5), epsilon=0)
        result = gwfast.gromov_wasserstein(distances(x), distances(x), **solve)
    elif kind == "tiled":
        clouds = [gwfast.PointCloud(x, "sqeuclidean")] * 2
        result = gwfast.gromov_wasserstein(*clouds, p, options=gwfast.SolverOptions(tier="tiled"))
    else:
        result = gwfast.gromov_wasserstein(distances(x), distances(x), p)
    alone = result.plan.sum(axis=1) < 1e-9
    assert alone.any()
    np.testing.assert_array_equal(result.match() < 0, alone)
    np.testing.assert_array_equal(result.match()[alone], -1)
    for k in (1, 3):
        assert set(result.to_frame(k)["source"]) == set(np.flatnonzero(~alone))
    for labels in (list("ab" * 10), [True, False] * 10, range(20)):
        for found in (
            result.transfer_labels(labels).labels,
            result.transform(labels, projection="match"),
        ):
            missing = [one is None or one != one for one in found]
            np.testing.assert_array_equal(missing, alone)


def test_labels_of_exact_plans_are_those_of_their_matches(shuffled):
    _, order, result = shuffled
    labels = np.arange(N) % 4
    found = result.transfer_labels(labels[order].tolist())
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_allclose(found.shares, 1.0, rtol=1e-12)


BAD = {
    "rows": (lambda r: r.transform(np.ones((4, 2))), r"^y must have shape \(30,\) or"),
    "deep": (lambda r: r.transform(np.ones((N, 2, 2))), "^y must have shape"),
    "back": (lambda r: r.inverse_transform([1.0]), "^x must have shape"),
    "projection": (lambda r: r.transform([1], projection="mean"), "^projection must"),
    "labels": (lambda r: r.transfer_labels(["a"]), r"^labels must have shape \(30,\)"),
    "to": (lambda r: r.transfer_labels(["a"], to="both"), "^to must be one of"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_named(shuffled, case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call(shuffled[-1])


def test_results_are_tables(shuffled):
    pandas = pytest.importorskip("pandas")
    _, order, result = shuffled
    names = np.array([f"b{k}" for k in range(N)])
    table = result.to_frame(source=[f"a{k}" for k in range(N)], target=names)
    assert list(table.columns) == ["source", "target", "mass", "share"]
    np.testing.assert_array_equal(table["target"], names[np.argsort(order)])
    np.testing.assert_allclose(table["share"], 1.0, rtol=1e-9)
    assert len(result.to_frame(3)) == 3 * N
    tried = result.candidates.to_frame()
    assert tuple(tried.columns) == Candidate._fields
    assert (tried["fate"] == "won").sum() == 1
    assert isinstance(tried, pandas.DataFrame)
    neighbors = result.coupling.topk(2).to_frame(target=names)
    assert neighbors["rank"].tolist() == [1, 2] * N
    assert neighbors["target"][0] == names[np.argsort(order)[0]]


def test_pairs_and_checks_are_tables():
    pytest.importorskip("pandas")
    costs = [distances(cloud(n, 2, n)) for n in (5, 6, 7)]
    found = gwfast.pairwise_gromov_wasserstein(costs)
    table = found.to_frame(["five", "six", "seven"])
    assert table.loc["five", "seven"] == found.distances[0, 2]
    assert list(table.columns) == list(table.index)
    assert found.to_frame().loc[1, 2] == found.distances[1, 2]
    with pytest.raises(ValueError, match=r"^names must have shape \(3,\), got \(2,\)"):
        found.to_frame(["one", "two"])
    problem = gwfast.QuadraticProblem(*costs[:2])
    plan = np.full((5, 6), 1 / 30)
    checked = gwfast.verify(problem, plan, epsilon=10.0)
    assert checked.to_frame()["holds"].to_dict() == {
        name: one.holds for name, one in checked.residuals.items()
    }


def test_pandas_is_only_needed_by_tables(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = gwfast.pairwise_gromov_wasserstein([np.eye(3), np.eye(4)])
    message = r'^to_frame needs pandas: pip install "gwfast-ot\[pandas\]"$'
    with pytest.raises(ImportError, match=message):
        result.to_frame()


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", None, "b", "a"], dtype=object),
        np.array(["a", np.nan, "b", "a"], dtype=object),
        np.array([1.0, np.nan, 2.0, 1.0]),
    ],
)
def test_missing_labels_are_named(labels):
    cost = distances(cloud(4, 2, 0))
    result = gwfast.gromov_wasserstein(cost, cost, epsilon=0)
    message = "labels must have one.* 1 of 4 that are missing"
    with pytest.raises(ValueError, match=message):
        result.transfer_labels(labels)

"""Cells in, labels and coordinates out. Tables are simulated."""

import re

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist

import gwfast
from gwfast.singlecell import align, foscttm, neighbor_costs, principal_components

N = 90


def places_of(n, seed):
    """Points on a path in the plane that forks, and which part of it they are on."""
    rng = np.random.default_rng(seed)
    along, left = rng.random(n), rng.random(n) < 0.4
    past = np.maximum(along - 0.5, 0)
    places = np.stack([np.where(left, -0.7, 1.3) * past, along - 0.3 * past], axis=1)
    kinds = np.where(along < 0.5, "stem", np.where(left, "left", "right"))
    return places, kinds


def table_of(places, n_columns, seed):
    rng = np.random.default_rng(seed)
    made = np.tanh(3 * places @ rng.standard_normal((2, n_columns)))
    return made + 0.02 * rng.standard_normal(made.shape)


@pytest.fixture(scope="module")
def tables():
    places, kinds = places_of(N, 0)
    return table_of(places, 40, 1), table_of(places, 35, 2), kinds


@pytest.fixture(scope="module")
def found(tables):
    return align(*tables[:2], n_neighbors=[8, 14])


def objects(tables):
    anndata = pytest.importorskip("anndata")
    pandas = pytest.importorskip("pandas")
    made = []
    for name, table in zip("xy", tables[:2], strict=True):
        index = [f"{name}{k}" for k in range(N)]
        obs = pandas.DataFrame({"kind": pandas.Categorical(tables[2])}, index=index)
        made.append(anndata.AnnData(table.copy(), obs=obs))
    return made


def shares_of(places, n_columns, rng):
    """Shares of topics, times what says nothing of a cell."""
    made = np.exp(2 * np.tanh(3 * places @ rng.standard_normal((2, n_columns))))
    made /= made.sum(axis=1, keepdims=True)
    return made * rng.lognormal(0.0, 0.7, (len(made), 1))


@pytest.mark.parametrize("seed", [0, 1])
def test_few_columns_are_taken_as_they_are(seed):
    """Angles around the mean cell would be led by the longest rows."""
    places, kinds = places_of(N, seed)
    rng = np.random.default_rng(9 + seed)
    x, y = (shares_of(places, n_columns, rng) for n_columns in (19, 10))
    with pytest.warns(UserWarning, match="lengths of rows differ") as caught:
        found = align(x, y, n_neighbors=12)
    said = " ".join(str(one.message) for one in caught)
    assert re.search("'uncertain' .* normalize the rows", said)
    assert found.gw.status == "uncertain"
    np.testing.assert_array_equal(found.x, x)
    assert (found.transfer_labels(kinds).labels == kinds).mean() > 0.95
    assert found.foscttm() < 0.3


@pytest.mark.parametrize("n_columns, options, components", [
    (30, {}, None),
    (31, {}, 30),
    (30, {"n_components": 7}, 7),
    (60, {"n_components": None}, None),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_how_many_columns_are_few(n_columns, options, components):
    table = np.random.default_rng(0).standard_normal((40, n_columns))
    found = align(table, table, n_neighbors=6, time_limit=1e-9, **options)  # no plan is needed
    expected = table if components is None else principal_components(table, components)
    np.testing.assert_array_equal(found.x, expected)


def test_counts_are_named():
    """Rows of very different lengths; as sparse tables, and of either side."""
    rng = np.random.default_rng(0)
    rates = rng.lognormal(0.0, 1.0, (30, 40))
    counts = rng.poisson(rates * rng.lognormal(1.0, 0.8, (30, 1)))
    table = np.log1p(1e4 * counts / counts.sum(axis=1, keepdims=True))
    quick = dict(n_neighbors=6, time_limit=1e-9)
    for one, other in [(counts, table), (sparse.csr_matrix(counts), table)]:
        with pytest.warns(UserWarning) as caught:
            align(one, other, **quick)
            align(other, Fake(one), **quick)
        names = [str(one.message) for one in caught if "lengths" in str(one.message)]
        assert [name.partition(":")[0] for name in names] == ["adata_x", "adata_y.X"]
        assert all("counts to one total in each cell and a log scale" in n for n in names)
    near_zero = table - table.mean(axis=0)
    for fine in (table, near_zero * rng.lognormal(1.0, 0.8, (30, 1)), counts[:, :4]):
        with pytest.warns(gwfast.ConvergenceWarning) as caught:
            align(fine, fine, **quick)
        assert not [one for one in caught if "lengths" in str(one.message)]


def test_cells_find_themselves(tables, found):
    assert found.foscttm() < 0.1
    labels, shares = found.transfer_labels(tables[2])
    assert (labels == tables[2]).mean() > 0.9
    assert 0 < shares.min() and shares.max() <= 1
    back = found.transfer_labels(tables[2], to="target")
    assert (back.labels == tables[2]).mean() > 0.9
    assert found.transform().shape == found.y.shape == (N, 30)
    assert found.transform(tables[1]).shape == tables[1].shape
    assert found.inverse_transform().shape == found.x.shape
    assert {one.n_neighbors for one in found.tried} == {8, 14}
    best = min(found.tried, key=lambda one: one.gw_cost)
    assert (found.n_neighbors, found.gw.gw_cost) == best[:2]
    assert repr(found).startswith(f"CellAlignment({N} x {N} cells, ")
    pytest.importorskip("pandas")
    assert found.to_frame()["n_neighbors"].tolist() == [8, 14]


def test_anndata_gets_what_the_alignment_has(tables, found):
    x, y = objects(tables)
    again = align(x, y, labels="kind", n_neighbors=[8, 14])
    np.testing.assert_array_equal(again.gw.plan, found.gw.plan)
    np.testing.assert_allclose(x.obsm["X_gwfast"], found.transform(), rtol=1e-6)
    np.testing.assert_allclose(y.obsm["X_gwfast"], found.y, rtol=1e-6)
    labels, shares = found.transfer_labels(tables[2])
    assert x.obs["gwfast_kind"].tolist() == labels.tolist()
    np.testing.assert_array_equal(x.obs["gwfast_kind_share"], shares)
    assert x.uns["gwfast"] == {
        "n_neighbors": found.n_neighbors, "gw_cost": found.gw.gw_cost, "epsilon": found.gw.epsilon,
        "status": found.gw.status, "marginals": "balanced", "metric": "cosine", "seed": 0,
        "representation_x": "principal components", "version": gwfast.__version__,
        "representation_y": "principal components",
    }  # fmt: skip
    assert list(y.obs) == ["kind"] and not y.uns


def test_categories_stay_what_they_are(tables):
    pandas = pytest.importorskip("pandas")
    x, y = objects(tables)
    order = ["stem", "none of these", "right", "left"]
    y.obs["kind"] = pandas.Categorical(tables[2], categories=order, ordered=True)
    y.obs["number"] = y.obs["kind"].cat.codes.to_numpy()
    x.obsm["X_pca"] = np.asarray(x.X)[:, :10]
    quick = dict(n_neighbors=10)
    found = align(x, y, labels="kind", **quick)
    column = x.obs["gwfast_kind"]
    assert column.dtype == y.obs["kind"].dtype and column.cat.ordered
    assert column.tolist() == found.transfer_labels(tables[2]).labels.tolist()
    assert x.uns["gwfast"]["representation_x"] == "X_pca"
    assert x.uns["gwfast"]["representation_y"] == "principal components"
    align(x, y, labels="number", **quick)
    assert x.obs["gwfast_number"].dtype == y.obs["number"].dtype


def test_anndata_can_be_written_afterwards(tables, tmp_path):
    anndata = pytest.importorskip("anndata")
    x, y = objects(tables)
    align(x, y, labels="kind", n_neighbors=10, key_added="other")
    x.write_h5ad(tmp_path / "x.h5ad")
    again = anndata.read_h5ad(tmp_path / "x.h5ad")
    assert again.uns["other"] == x.uns["other"]
    assert again.obs["other_kind"].equals(x.obs["other_kind"])
    np.testing.assert_array_equal(again.obsm["X_other"], x.obsm["X_other"])
    assert anndata.concat([x, y], join="inner").obsm["X_other"].shape == (2 * N, 30)


def test_tables_of_anndata_are_chosen_by_their_keys(tables):
    x, y = objects(tables)
    quick = dict(n_neighbors=10, key_added=None)
    x.obsm["X_pca"] = principal_components(tables[0], 7)
    y.obsm["spatial"], y.layers["scaled"] = tables[1][:, :5], 2 * tables[1]
    for use_rep, left, right in [
        ((None, "spatial"), x.obsm["X_pca"], y.obsm["spatial"]),
        ("X", tables[0], tables[1]),
        ((None, "scaled"), x.obsm["X_pca"], y.layers["scaled"]),
    ]:
        found = align(x, y, use_rep=use_rep, **quick)
        np.testing.assert_array_equal(found.x, left)
        np.testing.assert_array_equal(found.y, right)
    assert list(x.obsm) == ["X_pca"] and not x.uns  # nothing was written


def test_sparse_tables_are_the_same_as_filled_tables(tables):
    kept = np.where(np.abs(tables[0]) > 0.5, tables[0], 0.0)
    mixed = align(sparse.csr_matrix(kept), sparse.csc_array(kept), n_components=6, n_neighbors=10)
    np.testing.assert_allclose(mixed.x, principal_components(kept, 6), atol=1e-9)
    np.testing.assert_allclose(mixed.y, mixed.x, atol=1e-9)


@pytest.mark.parametrize("shape", [(40, 25), (25, 40)])
def test_principal_components_are_those_of_the_centered_table(shape, seed):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal(shape) * (1.0 + np.arange(shape[1])) + 5.0
    table[rng.random(shape) < 0.5] = 0.0
    centered = table - table.mean(axis=0)
    values = np.linalg.svd(centered, compute_uv=False)
    whole = principal_components(table, 6)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=0), values[:6], rtol=1e-8)
    np.testing.assert_allclose(whole.mean(axis=0), 0.0, atol=1e-9 * values[0])
    spread = principal_components(sparse.csr_array(table), 6)
    np.testing.assert_allclose(spread, whole, atol=1e-8 * values[0])
    rotated = principal_components(table, 100)
    assert rotated.shape == (shape[0], min(shape))
    if shape[0] > shape[1]:
        np.testing.assert_allclose(cdist(rotated, rotated), cdist(table, table))


@pytest.mark.parametrize("metric", ["cosine", "correlation", "euclidean"])
def test_costs_are_steps_between_nearest_neighbors(metric, seed):
    points, k = np.random.default_rng(seed).standard_normal((50, 4)) + 0.3, 5
    nearest = np.argsort(cdist(points, points, metric), axis=1)[:, :k]
    graph = np.zeros((50, 50))
    np.put_along_axis(graph, nearest, 1.0, axis=1)
    steps = csgraph.shortest_path(graph, directed=False, unweighted=True)
    steps[np.isinf(steps)] = steps[np.isfinite(steps)].max()
    cost = neighbor_costs(points, k, metric=metric)
    np.testing.assert_allclose(cost, steps / steps.max(), rtol=1e-6)
    np.testing.assert_array_equal(cost, cost.T)


def test_cells_without_direction_are_taken():
    points = np.vstack([np.ones((3, 4)), np.eye(4), 2 * np.eye(4)])
    assert np.isfinite(neighbor_costs(points, 4, metric="correlation")).all()


def test_foscttm_counts_who_is_closer(seed):
    x, y = np.random.default_rng(seed).standard_normal((2, 30, 3))
    apart = cdist(x, y)
    right = np.diag(apart)
    expected = (
        (apart < right[:, None]).sum() + (apart < right).sum()
    ) / (2 * 30 * 29)  # fmt: skip
    assert foscttm(x, y) == pytest.approx(expected)
    assert foscttm(x, x) == 0
    assert foscttm(np.ones((5, 2)), np.ones((5, 2))) == 0.5
    assert 0.3 < foscttm(x, y) < 0.7
    with pytest.raises(ValueError, match=r"y must have the shape of x, \(30, 3\), got"):
        foscttm(x, y[:9])


def test_types_that_one_side_lacks_may_be_left_over():
    places, kinds = places_of(140, 0)
    kept = kinds != "left"
    x, y = table_of(places, 40, 1)[kept], table_of(places, 35, 2)
    quick = dict(n_neighbors=30)
    with pytest.warns(gwfast.ConvergenceWarning, match="'uncertain'.*Partial.*'semir"):
        found = align(x, y, marginals=gwfast.Unbalanced(0.05), **quick)
    assert found.gw.coupling.marginals[1][kinds == "left"].sum() < 0.2
    assert found.gw.mass < 1.2
    for marginals in (gwfast.Partial(kept.mean()), "semirelaxed"):
        found = align(x, y, marginals=marginals, **quick)
        assert (found.transfer_labels(kinds).labels == kinds[kept]).mean() > 0.95


class Fake:
    """As much of AnnData as is asked for."""

    def __init__(self, x):
        self.X, self.obs, self.obsm, self.uns = x, {}, {}, {}


TABLE = np.random.default_rng(0).standard_normal((12, 4))
LABELS = r"labels must be one of adata_y\.obs, \[\], got 'type'"
USE_REP = r"use_rep must be a key of adata_x\.obsm, \[\], or .* got 'X_umap'"


@pytest.mark.parametrize("x, y, options, error, message", [
    ("cells.h5ad", TABLE, {}, TypeError, "got a str: anndata.read_h5ad"),
    (Fake(None), TABLE, {}, ValueError, r"adata_x\.X must be there, got N"),
    (Fake(TABLE), TABLE, {"use_rep": "X_umap"}, ValueError, USE_REP),
    (TABLE, Fake(TABLE), {"labels": "type"}, ValueError, LABELS),
    (TABLE, Fake(TABLE), {"labels": ["type"]}, TypeError, "labels must be .* got list"),
    (TABLE, TABLE, {"use_rep": ["X"]}, TypeError, "use_rep must be a str, None or a p"),
    (TABLE[:1], TABLE, {}, ValueError, "^adata_x must have at least 2 cells, got 1"),
    (TABLE, Fake(TABLE[:1]), {"n_neighbors": 3}, ValueError, r"^adata_y\.X must have at"),
    (TABLE, TABLE, {"labels": "a"}, TypeError, "labels must be None where"),
    (TABLE, TABLE * np.nan, {}, ValueError, "adata_y must be finite"),
    (TABLE, TABLE, {"n_neighbors": 13}, ValueError, "must be at most 12"),
    (TABLE, TABLE, {"n_neighbors": 1}, ValueError, "must be at least 2"),
    (TABLE, TABLE, {"n_neighbors": []}, ValueError, "must not be empty"),
    (TABLE, TABLE, {"metric": "l1"}, ValueError, "metric must be one of"),
    (TABLE, TABLE, {"n_components": 0}, ValueError, "n_components"),
    (TABLE, TABLE, {"n_components": "all"}, ValueError, "n_components must"),
])  # fmt: skip
def test_what_does_not_fit_is_named(x, y, options, error, message):
    with pytest.raises(error, match=message):
        align(x, y, **options)


@pytest.mark.parametrize("kind", ["csr", "csc", "dense"])
def test_backed_objects_are_read(kind, tables, tmp_path):
    anndata = pytest.importorskip("anndata")
    table = np.where(np.abs(tables[0]) > 0.5, tables[0], 0.0)
    x = table if kind == "dense" else sparse.csr_array(table).asformat(kind)
    anndata.AnnData(x).write_h5ad(tmp_path / "x.h5ad")
    whole = anndata.read_h5ad(tmp_path / "x.h5ad")
    backed = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    quick = dict(n_neighbors=10, key_added=None)
    plan = align(whole, tables[1], **quick).gw.plan
    for one in (backed, backed.X):
        found = align(one, tables[1], **quick)
        np.testing.assert_array_equal(found.gw.plan, plan)
    with pytest.raises(ValueError, match=r"^key_added must be None if adata_y is a view"):
        align(tables[1], backed[:50], **(quick | dict(key_added="gwfast")))
    moved = found.inverse_transform(table)
    for one in (sparse.csr_array(table), backed.X):
        np.testing.assert_allclose(found.inverse_transform(one), moved)


def test_names_of_cells_go_with_the_plan(tables):
    pandas = pytest.importorskip("pandas")
    x, y = objects(tables)
    p = pandas.Series(np.arange(1.0, N + 1) / (N * (N + 1) / 2), x.obs_names)
    quick = dict(n_neighbors=10, key_added=None)
    found = align(x, y, p=p.iloc[::-1], **quick)
    np.testing.assert_allclose(found.gw.marginals.p, p)
    table = found.gw.to_frame()
    assert table["source"].tolist() == x.obs_names.tolist()
    assert set(table["target"]) <= set(y.obs_names)
    labels = found.transfer_labels(y.obs["kind"]).labels
    moved = found.transfer_labels(y.obs["kind"].iloc[::-1]).labels
    np.testing.assert_array_equal(moved, labels)
    with pytest.raises(ValueError, match=r"^p must have the labels of adata_x, got 'y0'"):
        align(x, y, p=p.set_axis(y.obs_names), **quick)


def test_nullable_frames_are_read(tables):
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame(table).astype("Float64") for table in tables[:2]]
    one, other = (align(*pair, n_neighbors=10) for pair in (frames, tables[:2]))
    np.testing.assert_array_equal(one.gw.plan, other.gw.plan)


def test_it_ends_in_time():
    x = np.random.default_rng(0).standard_normal((60, 5))
    with pytest.warns(gwfast.ConvergenceWarning, match="'time_limit'"):
        found = align(x, x, time_limit=1e-9)
    assert found.gw.status == "time_limit" and len(found.tried) == 1


@pytest.mark.slow
def test_cells_that_were_measured_in_both_ways(shared_data):
    """scGEM, from whose product plan graphs of few neighbors lead to a mirror image."""
    folder = shared_data / "singlecell" / "scGEM"
    names = "expression", "methylation", "expression_type", "methlation_type"
    x, y, *kinds = (np.loadtxt(folder / f"{name}.txt") for name in names)
    found = align(x, y)
    assert found.foscttm() < 0.3
    assert (found.transfer_labels(kinds[1]).labels == kinds[0]).mean() > 0.5

"""Cells in, labels and coordinates out. Tables are simulated."""

import numpy as np
import pytest
from helpers.problems import anndata_of, steps
from scipy import sparse
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
    table = np.tanh(3 * places @ rng.standard_normal((2, n_columns)))
    return table + 0.02 * rng.standard_normal(table.shape)


PLACES, KINDS = places_of(N, 0)
TABLES = table_of(PLACES, 40, 1), table_of(PLACES, 35, 2)


@pytest.fixture(scope="module")
def found():
    return align(*TABLES, n_neighbors=[8, 14])


@pytest.fixture
def objects():
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    kinds = {"kind": pandas.Categorical(KINDS)}
    frames = [pandas.DataFrame(kinds, [f"{name}{k}" for k in range(N)]) for name in "xy"]
    return [anndata.AnnData(x.copy(), obs) for x, obs in zip(TABLES, frames, strict=True)]


@pytest.mark.parametrize("metric", ["cosine", "correlation", "euclidean"])
def test_costs_are_steps_between_nearest_neighbors(metric, seed):
    points, k = np.random.default_rng(seed).standard_normal((50, 4)) + 0.3, 5
    nearest = np.argsort(cdist(points, points, metric), axis=1)[:, :k]
    graph = np.zeros((50, 50))
    np.put_along_axis(graph, nearest, 1.0, axis=1)
    expected, cost = steps(graph, least_apart=0.0), neighbor_costs(points, k, metric=metric)
    np.testing.assert_allclose(cost, expected / expected.max(), rtol=1e-6)
    np.testing.assert_array_equal(cost, cost.T)
    without_direction = np.vstack([np.ones((3, 4)), np.eye(4), 2 * np.eye(4)])
    assert np.isfinite(neighbor_costs(without_direction, 4, metric=metric)).all()


@pytest.mark.parametrize("shape", [(40, 25), (25, 40)])
def test_principal_components_are_of_the_centered_table(shape, seed):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal(shape) * 1.3 ** np.arange(shape[1]) + 5.0
    table[rng.random(shape) < 0.5] = 0.0
    values = np.linalg.svd(table - table.mean(axis=0), compute_uv=False)
    for x in (table, sparse.csr_array(table)):
        components = principal_components(x, 6)
        np.testing.assert_allclose(np.linalg.norm(components, axis=0), values[:6], rtol=1e-8)
        np.testing.assert_allclose(components.mean(axis=0), 0.0, atol=1e-9 * values[0])
    turned = principal_components(table, 100)
    assert turned.shape == (shape[0], min(shape))
    np.testing.assert_allclose(cdist(turned, turned), cdist(table, table), rtol=1e-6)


def test_cells_find_themselves_and_foscttm_counts_who_is_closer(found, seed):
    assert found.foscttm() < 0.1
    for to in ("source", "target"):
        labels, shares = found.transfer_labels(KINDS, to=to)
        assert (labels == KINDS).mean() > 0.9 and 0 < shares.min() and shares.max() <= 1
    assert found.transform().shape == found.inverse_transform().shape == (N, 30)
    assert found.transform(TABLES[1]).shape == TABLES[1].shape
    assert [row.n_neighbors for row in found.tried] == [8, 14]
    best = min(found.tried, key=lambda row: row.gw_cost)
    assert (found.n_neighbors, found.gw.gw_cost) == best[:2]
    assert f"{N} x {N} cells" in repr(found)
    x, y = np.random.default_rng(seed).standard_normal((2, 30, 3))
    apart = cdist(x, y)
    closer = (apart < np.diag(apart)[:, None]).sum() + (apart < np.diag(apart)).sum()
    assert foscttm(x, y) == pytest.approx(closer / (2 * 30 * 29))
    assert foscttm(x, x) == 0 and foscttm(np.ones((5, 2)), np.ones((5, 2))) == 0.5
    pytest.importorskip("pandas")
    assert found.to_frame()["n_neighbors"].tolist() == [8, 14]


@pytest.mark.parametrize("seed", [0, 1])
def test_few_columns_are_taken_as_they_are(seed):
    """Angles around the mean cell would be led by the longest rows, of shares of topics."""
    (places, kinds), rng = places_of(N, seed), np.random.default_rng(9 + seed)
    tables = []
    for n_columns in (19, 10):
        shares = np.exp(2 * np.tanh(3 * places @ rng.standard_normal((2, n_columns))))
        shares /= shares.sum(axis=1, keepdims=True)
        tables.append(shares * rng.lognormal(0.0, 0.7, (N, 1)))
    with pytest.warns(UserWarning, match="lengths of rows") as caught:
        found = align(*tables, n_neighbors=12)
    assert any("normalize the rows" in str(warning.message) for warning in caught)
    assert found.gw.status == "uncertain" and found.foscttm() < 0.3
    np.testing.assert_array_equal(found.x, tables[0])
    assert (found.transfer_labels(kinds).labels == kinds).mean() > 0.95


@pytest.mark.parametrize(
    "n_columns, options, components",
    [
        (30, {}, None),
        (31, {}, 30),
        (30, {"n_components": 7}, 7),
        (60, {"n_components": None}, None),
    ],
)
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_how_many_columns_are_few(n_columns, options, components):
    table = np.random.default_rng(0).standard_normal((40, n_columns))
    # No plan is needed.
    found = align(table, sparse.csr_array(table), n_neighbors=[6, 7], time_limit=1e-9, **options)
    assert found.gw.status == "time_limit" and len(found.tried) == 1
    expected = table if components is None else principal_components(table, components)
    np.testing.assert_array_equal(found.x, expected)
    np.testing.assert_allclose(found.y, expected, atol=1e-9)


def test_counts_are_named():
    """Rows of very different lengths, also in sparse tables, on either side."""
    rng = np.random.default_rng(0)
    rates = rng.lognormal(0.0, 1.0, (30, 40))
    counts = rng.poisson(rates * rng.lognormal(1.0, 0.8, (30, 1)))
    table = np.log1p(1e4 * counts / counts.sum(axis=1, keepdims=True))
    near_zero = (table - table.mean(axis=0)) * rng.lognormal(1.0, 0.8, (30, 1))
    for x, y, names in (
        (counts, table, ["adata_x"]),
        (sparse.csr_matrix(counts), anndata_of(counts), ["adata_x", "adata_y.X"]),
        (table, near_zero, []),
        (counts[:, :4], counts[:, :4], []),
    ):
        with pytest.warns(UserWarning) as caught:
            align(x, y, n_neighbors=6, time_limit=1e-9)
        texts = [str(warning.message) for warning in caught]
        assert [text.partition(":")[0] for text in texts if "to one total" in text] == names


def test_kinds_that_one_side_lacks_may_be_left_over():
    places, kinds = places_of(140, 0)
    kept = kinds != "left"
    x, y = table_of(places, 40, 1)[kept], table_of(places, 35, 2)
    with pytest.warns(gwfast.ConvergenceWarning, match="'uncertain'.*Partial.*'semir"):
        found = align(x, y, marginals=gwfast.Unbalanced(0.05), n_neighbors=30)
    assert found.gw.coupling.marginals[1][kinds == "left"].sum() < 0.2
    assert found.gw.mass < 1.2
    for marginals in (gwfast.Partial(kept.mean()), "semirelaxed"):
        found = align(x, y, marginals=marginals, n_neighbors=30)
        assert (found.transfer_labels(kinds).labels == kinds[kept]).mean() > 0.95


def test_anndata_gets_what_the_alignment_has(found, objects, tmp_path):
    x, y = objects
    again = align(x, y, labels="kind", n_neighbors=[8, 14])
    np.testing.assert_array_equal(again.gw.plan, found.gw.plan)
    assert list(y.obs) == ["kind"] and not y.uns
    x.write_h5ad(tmp_path / "x.h5ad")
    x = pytest.importorskip("anndata").read_h5ad(tmp_path / "x.h5ad")
    np.testing.assert_allclose(x.obsm["X_gwfast"], found.transform(), rtol=1e-6)
    np.testing.assert_allclose(y.obsm["X_gwfast"], found.y, rtol=1e-6)
    labels, shares = found.transfer_labels(KINDS)
    assert x.obs["gwfast_kind"].tolist() == labels.tolist()
    np.testing.assert_array_equal(x.obs["gwfast_kind_share"], shares)
    names = "gw_cost", "epsilon", "status", "confidence", "advice"
    facts = {name: getattr(found.gw, name) for name in names}
    facts |= {f"representation_{side}": "principal components" for side in "xy"}
    facts |= dict(n_neighbors=found.n_neighbors, marginals="balanced", metric="cosine", seed=0)
    assert x.uns["gwfast"] == facts | {"version": gwfast.__version__}
    align(x, y, n_neighbors=8)
    assert "gwfast_kind" not in x.obs and "gwfast_kind_share" not in x.obs


def test_values_of_anndata_are_taken_by_name_and_dask_computes(found, objects):
    anndata, dask = map(pytest.importorskip, ("anndata", "dask.array"))
    chunks = dask.from_array(TABLES[1], chunks=(20, -1)).map_blocks(sparse.csr_matrix)
    lazy = anndata.AnnData(chunks, obs=objects[1].obs[[]])
    kept = align(objects[0], lazy, n_neighbors=found.n_neighbors, key_added=None)
    np.testing.assert_allclose(kept.y, found.y, atol=1e-9)
    turned = anndata.AnnData(TABLES[1], obs=objects[1].obs[[]])[::-1]
    for values in (TABLES[1], lazy, turned):
        np.testing.assert_allclose(kept.transform(values), found.gw.transform(TABLES[1]), atol=1e-5)
    back = kept.inverse_transform(anndata.AnnData(TABLES[0], obs=objects[0].obs[[]]))
    np.testing.assert_allclose(back, found.gw.inverse_transform(TABLES[0]), atol=1e-5)


def test_tables_of_anndata_are_chosen_by_their_keys_and_categories_are_kept(objects):
    pandas = pytest.importorskip("pandas")
    x, y = objects
    order = ["stem", "none of these", "right", "left"]
    y.obs["kind"] = pandas.Categorical(KINDS, categories=order, ordered=True)
    y.obs["number"] = y.obs["kind"].cat.codes.to_numpy()
    for name in y.obs:
        found = align(x, y, labels=name, n_neighbors=10, key_added="other")
        column = x.obs[f"other_{name}"]
        assert column.dtype == y.obs[name].dtype
        assert column.tolist() == found.transfer_labels(y.obs[name]).labels.tolist()
    pca = x.obsm["X_pca"] = principal_components(TABLES[0], 7)
    y.obsm["spatial"], y.layers["scaled"] = TABLES[1][:, :5], 2 * TABLES[1]
    for use_rep, left, right in (
        ((None, "spatial"), pca, y.obsm["spatial"]),
        ("X", *TABLES),
        ((None, "scaled"), pca, y.layers["scaled"]),
    ):
        found = align(x, y, use_rep=use_rep, n_neighbors=10, key_added=None)
        np.testing.assert_array_equal(found.x, left)
        np.testing.assert_array_equal(found.y, right)
    assert list(x.obsm) == ["X_other", "X_pca"] and list(x.uns) == ["other"]


@pytest.mark.parametrize("kind", ["csr", "csc", "dense"])
def test_backed_objects_are_read(kind, tmp_path):
    anndata = pytest.importorskip("anndata")
    table = np.where(np.abs(TABLES[0]) > 0.5, TABLES[0], 0.0)
    x = table if kind == "dense" else sparse.csr_array(table).asformat(kind)
    anndata.AnnData(x).write_h5ad(tmp_path / "x.h5ad")
    backed = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    plan = align(table, TABLES[1], n_neighbors=10).gw.plan
    for data in (backed, backed.X):
        found = align(data, TABLES[1], n_neighbors=10, key_added=None)
        np.testing.assert_array_equal(found.gw.plan, plan)
    with pytest.raises(ValueError, match=r"^key_added .* adata_y "):
        align(TABLES[1], backed[:50], n_neighbors=10)
    moved = found.inverse_transform(table)
    for data in (sparse.csr_array(table), backed.X):
        np.testing.assert_allclose(found.inverse_transform(data), moved)


def test_names_of_cells_go_with_the_plan(objects):
    pandas = pytest.importorskip("pandas")
    x, y = objects
    p = pandas.Series(np.arange(1.0, N + 1) / (N * (N + 1) / 2), x.obs_names)
    found = align(x, y, p=p.iloc[::-1], n_neighbors=10, key_added=None)
    np.testing.assert_allclose(found.gw.marginals.p, p)
    table = found.gw.to_frame()
    assert table["source"].tolist() == x.obs_names.tolist()
    assert set(table["target"]) <= set(y.obs_names)
    kinds = y.obs["kind"]
    moved, same = (found.transfer_labels(z).labels for z in (kinds.iloc[::-1], kinds))
    np.testing.assert_array_equal(moved, same)
    with pytest.raises(ValueError, match=r"^p .* adata_x, got 'y0'"):
        align(x, y, p=p.set_axis(y.obs_names), n_neighbors=10, key_added=None)
    frames = [pandas.DataFrame(table).astype("Float64") for table in TABLES]
    one, other = (align(*pair, n_neighbors=10) for pair in (frames, TABLES))
    np.testing.assert_array_equal(one.gw.plan, other.gw.plan)


@pytest.mark.slow
def test_cells_that_were_measured_in_both_ways(shared_data):
    """scGEM, from whose product plan graphs of few neighbors lead to a mirror image."""
    folder = shared_data / "singlecell" / "scGEM"
    names = "expression", "methylation", "expression_type", "methlation_type"
    x, y, *kinds = (np.loadtxt(folder / f"{name}.txt") for name in names)
    found = align(x, y)
    assert found.foscttm() < 0.3
    assert (found.transfer_labels(kinds[1]).labels == kinds[0]).mean() > 0.5

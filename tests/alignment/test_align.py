"""Maps, masses, costs and words of `align`."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, rotated_pair, unit

import gwfast
from gwfast.words import Embeddings

QUICK = {"init": "product", "epsilon": 0.1}


@pytest.mark.parametrize("d, e", [(5, 5), (5, 3), (3, 5)])
def test_mapping_is_the_procrustes_solution_of_the_plan(d, e):
    x, y = cloud(60, d, 2) ** 3, cloud(50, e, 3) ** 3
    result = gwfast.align(x, y, n_words=40, epsilon=0.02, init="profile")
    moved = result.plan.astype(np.float64) @ result.target.rows[:40]
    expected = gwfast.procrustes(result.source.rows[:40], moved)
    np.testing.assert_allclose(result.mapping, expected, atol=1e-4)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_normalization_steps():
    x = cloud(50, 4, 11) + 3.0
    centered = unit(x) - unit(x).mean(axis=0)
    for steps, expected in (
        (("unit", "center", "unit"), unit(centered)),
        (("unit", "center"), centered),
        (("center",), x - x.mean(axis=0)),
        ((), x),
    ):
        result = gwfast.align(x, x, normalize=steps, metric="dot", init="product", epsilon=1e3)
        np.testing.assert_allclose(result.source.rows, expected, atol=1e-5)
    one_column = np.arange(1.0, 30.0)[:, None] ** 2
    gwfast.align(one_column, one_column, normalize=(), metric="sqeuclidean")


def test_masses_are_uniform_zipfs_or_counts():
    x, y = cloud(30, 3, 15), cloud(40, 3, 16)
    counts = np.arange(40, 0, -1)
    zipf, first = 1 / np.arange(1, 21), counts[:20] / counts[:20].sum()
    for p, rows in (("zipf", zipf / zipf.sum()), ("uniform", 1 / 20), (None, 1 / 20)):
        result = gwfast.align(x, y, p=p, q=counts, n_words=20, **QUICK)
        np.testing.assert_allclose(result.plan.sum(axis=1), rows, rtol=1e-3)
        np.testing.assert_allclose(result.plan.sum(axis=0), first, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_very_uneven_masses_are_warned_of():
    x, y = cloud(400, 3, 15), cloud(30, 3, 16)
    with pytest.warns(UserWarning, match=r"^p .*100 .*400"):
        gwfast.align(x, y, p="zipf", **QUICK)
    gwfast.align(x, y, p=np.arange(1, 401) ** -0.5, q="zipf", **QUICK)


@pytest.mark.parametrize("statistic", ["mean", "median", "max"])
@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine"])
def test_costs_are_divided_by_a_statistic_of_distances(metric, statistic):
    x, y, _ = rotated_pair(90, 4, 22, noise=0.05)
    costs = [distances(points) ** 2 for points in (3 * x, y)]
    scales = [getattr(np, statistic)(cost) for cost in costs]
    if metric == "cosine":
        costs = [unit(points) @ unit(points).T for points in (3 * x, y)]
        scales = [getattr(np, statistic)(1 - cost) for cost in costs]
    costs = [cost / scale for cost, scale in zip(costs, scales, strict=True)]
    scaled = gwfast.align(3 * x, y, metric=metric, normalize=[statistic], init="product")
    dense = gwfast.gromov_wasserstein(*costs, init="product")
    np.testing.assert_allclose(scaled.gw.epsilon, dense.epsilon, rtol=1e-4)
    np.testing.assert_allclose(scaled.gw.gw_cost, dense.gw_cost, rtol=5e-3)
    np.testing.assert_allclose(scaled.plan, dense.plan, atol=2e-2 / 90)


def test_advice_is_in_the_arguments_of_align():
    x, y, few = cloud(60, 4, 1), cloud(60, 4, 2), gwfast.SolverOptions(max_inner=1)
    with pytest.warns(gwfast.ConvergenceWarning, match="larger tol;"):
        result = gwfast.align(x, y, init="product", tol=1e-12, options=few)
    assert result.gw.status == "max_iter" and "max_iter" not in result.gw.advice


def test_words_come_with_embeddings_and_frames_and_vectors_are_mapped_as_given():
    pandas = pytest.importorskip("pandas")
    x, y, where = rotated_pair(60, 4, 31)
    words_x, words_y = ([f"{end}{i}" for i in range(60)] for end in "xy")
    source, target = Embeddings(words_x, x), pandas.DataFrame(y, index=words_y)
    masses = pandas.Series(np.arange(1.0, 61) ** 0.5, index=words_x)
    result = gwfast.align(source, target, p=masses[::-1], epsilon=0.003, init="profile")
    assert result.words == (tuple(words_x), tuple(words_y))
    assert result.translate("x7", k=1).words == [[f"y{where[7]}"]]
    assert result.translate(["y3", "y5"], k=2, direction="backward").words[1][0][0] == "x"
    np.testing.assert_allclose(result.plan.sum(axis=1), masses / masses.sum(), rtol=1e-2)
    half = gwfast.align(source, y, **QUICK)
    assert half.words == (tuple(words_x), None) and half.translate("x7").words is None
    # Embeddings are mapped and translated by their vectors.
    x, y, _ = rotated_pair(40, 3, 33)
    result, words = gwfast.align(x, y, **QUICK), [f"w{k}" for k in range(40)]
    source, target, expected = Embeddings(words, x), Embeddings(words, y), result.mapped_source
    np.testing.assert_allclose(result.transform(x[5:7]), expected[5:7], atol=1e-5)
    np.testing.assert_allclose(result.transform(source), expected, atol=1e-5)
    np.testing.assert_allclose(result.transform_target(target), result.target.rows, atol=1e-5)
    translated = result.translate(x, k=2).indices
    np.testing.assert_array_equal(result.translate(source, k=2).indices, translated)


@pytest.mark.parametrize("columns", [list("abc"), [5, 3, 4], range(3), [("a", 1), ("a", 2), "b"]])
def test_vectors_of_a_frame_go_by_the_labels_of_its_columns(columns, tmp_path):
    pandas = pytest.importorskip("pandas")
    x, y, _ = rotated_pair(40, 3, 32)
    frame = pandas.DataFrame(x)
    frame.columns = pandas.Index(columns, tupleize_cols=False)
    result = gwfast.align(frame, y, **QUICK)
    result.save(tmp_path / "a", rows=False)
    for kept in (result, gwfast.Alignment.load(tmp_path / "a")):
        np.testing.assert_array_equal(kept.transform(frame.iloc[:, ::-1]), result.transform(x))
        if columns != range(3):  # which only numbers the columns
            with pytest.raises(ValueError, match="x must have the labels"):
                kept.transform(frame.rename(columns={columns[0]: "d"}))

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair

import gwfast
from gwfast.words import Embeddings, precision_at_k, read_dictionary, read_embeddings


@pytest.fixture(scope="module")
def aligned():
    x, y, where = rotated_pair(200, 6, 0, noise=0.02)
    result = gwfast.align(x, y, n_words=150, normalize=("unit",), epsilon=1e-3)
    return x, y, where, result


def test_orthogonal_map_of_a_rotated_cloud_is_found():
    x, y, where = rotated_pair(150, 4, 1)
    result = gwfast.align(x, y, normalize=("unit",), epsilon=1e-3)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    # The rotation that made y, row by row.
    expected = y[where] / np.linalg.norm(y[where], axis=1, keepdims=True)
    assert np.abs(unit @ result.mapping - expected).max() < 0.02
    assert (result.match() == where).mean() > 0.95


@pytest.mark.parametrize("d, e", [(5, 5), (5, 3), (3, 5)])
def test_mapping_is_the_procrustes_solution_of_the_plan(d, e):
    result = gwfast.align(cloud(60, d, 2), cloud(50, e, 3), epsilon=0.05)
    correlation = result.source.rows.T.astype(np.float64) @ result.plan
    correlation = correlation @ result.target.rows
    u, singular, vt = np.linalg.svd(correlation, full_matrices=False)
    np.testing.assert_allclose(result.mapping, u @ vt, atol=1e-4)
    np.testing.assert_allclose((result.mapping * correlation).sum(), singular.sum())


def test_only_the_first_n_words_take_part_and_the_rest_are_mapped(aligned):
    *_, result = aligned
    assert result.plan.shape == (150, 150)
    assert result.translate(k=3).indices.shape == (200, 3)
    assert result.translate(method="coupling").indices.shape == (150, 10)
    assert result.match().shape == (150,)
    np.testing.assert_array_equal(result.match(), result.plan.argmax(axis=1))


def test_translate_agrees_with_plain_computations(aligned):
    _, _, _, result = aligned
    mapped = result.source.rows.astype(np.float64) @ result.mapping
    mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
    target = result.target.rows.astype(np.float64)
    target /= np.linalg.norm(target, axis=1, keepdims=True)
    cosine = mapped @ target.T
    near = result.translate(method="nn", k=5)
    best = -np.sort(-cosine, axis=1)[:, :5]
    np.testing.assert_allclose(near.scores, best, atol=1e-5)
    to_target = np.sort(cosine, axis=1)[:, -10:].mean(axis=1, keepdims=True)
    to_source = np.sort(cosine, axis=0)[-10:].mean(axis=0, keepdims=True)
    csls = 2 * cosine - to_target - to_source
    rows = [7, 3, 3, 199]
    scaled = result.translate(rows, method="csls", k=4)
    expected = -np.sort(-csls[rows], axis=1)[:, :4]
    np.testing.assert_allclose(scaled.scores, expected, atol=1e-5)
    np.testing.assert_allclose(
        np.take_along_axis(csls[rows], scaled.indices, 1), expected, atol=1e-5
    )


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_normalization_steps():
    x = cloud(50, 4, 11) + 3.0
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    centered = unit - unit.mean(axis=0)

    def rows(normalize):
        few = dict(epsilon=1e3, init="product", metric="dot")
        return gwfast.align(x, x, normalize=normalize, **few).source.rows

    both = rows(("unit", "center", "unit"))
    expected = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    np.testing.assert_allclose(both, expected, atol=1e-6)
    np.testing.assert_allclose(rows(()), x, rtol=1e-6)
    np.testing.assert_allclose(rows(("center",)), x - x.mean(0), atol=1e-5)


COUNTS = np.arange(1.0, 30.0)[:, None] ** 2
NINE = cloud(9, 3, 26)
STEPS = r"normalize must be a sequence of .*, got 'unit'"


@pytest.mark.parametrize("x, y, options, error, message", [
    ("es.vec", NINE, {}, TypeError, r"^x must be vectors, got a path; words\.read_embeddings"),
    (np.ones((3, 2)), NINE, {}, ValueError, r"x after centering must have no zero.*row 0, 1, 2"),
    (NINE, COUNTS, {}, ValueError, r"y must have two columns or more .* are these"),
    (NINE, NINE, {"normalize": "unit"}, TypeError, STEPS),
    *(
        (NINE, NINE, {"normalize": steps}, ValueError, "must be a sequence of .* as the last, got")
        for steps in (("std",), ("mean", "unit"))
    ),
    (NINE, NINE, {"refine": "csls"}, TypeError, "refine must be an integer, got str"),
    (NINE, NINE, {"refine": True}, TypeError, "refine must be an integer, got bool"),
    (NINE, NINE, {"refine": -1}, ValueError, "refine must be at least 0, got -1"),
])  # fmt: skip
def test_wrong_arguments_are_named(x, y, options, error, message):
    with pytest.raises(error, match=message):
        gwfast.align(x, y, **options)


def test_one_column_without_angles():
    free = {"normalize": (), "metric": "sqeuclidean"}
    assert gwfast.align(COUNTS, COUNTS, **free).mapping.shape == (1, 1)


def test_masses_are_uniform_zipfs_or_counts():
    x, y = cloud(30, 3, 15), cloud(40, 3, 16)
    counts = np.arange(40, 0, -1)
    zipf, first = 1 / np.arange(1, 21), counts[:20] / counts[:20].sum()
    for p, rows in (("zipf", zipf / zipf.sum()), ("uniform", 1 / 20), (None, 1 / 20)):
        options = dict(n_words=20, init="product", epsilon=0.05)
        result = gwfast.align(x, y, p=p, q=counts, **options)
        np.testing.assert_allclose(result.plan.sum(axis=1), rows, rtol=1e-3)
        np.testing.assert_allclose(result.plan.sum(axis=0), first, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_very_uneven_masses_are_warned_of():
    x, y = cloud(400, 3, 15), cloud(30, 3, 16)
    quick = dict(init="product", epsilon=0.5)
    with pytest.warns(UserWarning, match=r"^p is as uneven as 100 equal masses of 400"):
        gwfast.align(x, y, p="zipf", **quick)
    gwfast.align(x, y, p=np.arange(1, 401) ** -0.5, q="zipf", **quick)


def test_epsilon_auto_is_relative_to_the_product_plan():
    x, y = cloud(60, 4, 17), cloud(60, 4, 18)
    result = gwfast.align(x, y, init="product")
    a, b = (
        side.rows.astype(np.float64) @ side.rows.T.astype(np.float64)
        for side in (result.source, result.target)
    )
    product = (a**2).mean() + (b**2).mean() - 2 * a.mean() * b.mean()
    np.testing.assert_allclose(result.gw.epsilon, 0.0175 * product, rtol=1e-4)


@pytest.mark.slow
def test_es_en_meets_the_reference_figures(shared_data):
    """2000 words a side, epsilon 1e-3, product start."""
    folder = shared_data / "ubilexat" / "es-en"
    source = read_embeddings(folder / "word2vec.es")
    target = read_embeddings(folder / "word2vec.en")
    dictionary = read_dictionary(shared_data / "muse" / "es-en.txt")
    for word, more in read_dictionary(shared_data / "muse" / "en-es.txt", reverse=True).items():
        dictionary.setdefault(word, set()).update(more)
    result = gwfast.align(source.vectors, target.vectors, n_words=2000, epsilon=1e-3)
    found = result.translate(method="coupling", k=1).indices
    lists = dictionary, source.words[:2000], target.words[:2000]
    precision = precision_at_k(found, *lists, ks=(1,))
    assert precision.n_queries > 1500
    assert precision.at[1] >= 0.77
    assert result.gw.gw_cost <= 0.0182
    assert result.gw.marginal_error <= 1e-4


@pytest.mark.parametrize("statistic", ["mean", "median", "max"])
def test_scaled_costs_are_divided_by_their_statistic(statistic):
    x, y, _ = rotated_pair(90, 4, 22, noise=0.05)
    options = dict(init="product", epsilon=0.05)
    scaled = gwfast.align(3 * x, y, metric="sqeuclidean", normalize=(statistic,), **options)
    costs = [((z[:, None] - z) ** 2).sum(axis=2) for z in (3 * x, y)]
    costs = [cost / getattr(np, statistic)(cost) for cost in costs]
    dense = gwfast.gromov_wasserstein(*costs, **options)
    np.testing.assert_allclose(scaled.gw.gw_cost, dense.gw_cost, rtol=5e-3)
    np.testing.assert_allclose(scaled.plan, dense.plan, atol=2e-2 / 90)


@pytest.mark.parametrize("statistic", ["mean", "median", "max"])
def test_scaled_similarities_are_those_of_scaled_distances(statistic):
    x, y = (np.abs(cloud(60, 4, seed)) for seed in (23, 24))
    clouds = [gwfast.PointCloud(z).scaled_by(statistic) for z in (x, y)]
    for z, made in zip((x, y), clouds, strict=True):
        z = z / np.linalg.norm(z, axis=1, keepdims=True)
        size = getattr(np, statistic)(1 - z @ z.T)
        np.testing.assert_allclose(made.to_dense().matrix, z @ z.T / size, rtol=1e-5)
        again = made.scaled_by(statistic)
        np.testing.assert_allclose(again.scale, made.scale)


def test_costs_are_not_scaled_by_zero():
    cloud_of_zeros = gwfast.PointCloud(np.zeros((4, 2)), "dot")
    with pytest.raises(ValueError, match="mean of the costs must be above 0"):
        cloud_of_zeros.scaled_by("mean")


def test_rows_without_mass_have_no_translation(aligned):
    x, y, *_ = aligned
    p = np.ones(150) * (np.arange(150) != 4)
    result = gwfast.align(x, y, n_words=150, p=p, normalize=("unit",), epsilon=1e-3)
    np.testing.assert_array_equal(np.flatnonzero(result.match() < 0), [4])
    for method in ("coupling", "barycentric"):
        found = result.translate([3, 4], method=method, k=2)
        assert (found.indices[0] >= 0).all() and found.scores[0, 0] > 0
        assert (found.indices[1] == -1).all() and (found.scores[1] == 0).all()


def test_backward_translations_agree_with_plain_computations(aligned):
    *_, result = aligned
    source, target, rows = result.mapped_source, result.mapped_target, [3, 77]
    plan = result.plan[:, rows].T
    means = plan @ result.source.rows[:150] / plan.sum(axis=1, keepdims=True)
    expected = {
        method: gwfast.nearest_neighbors(target[rows], source, k=4, method=method, sources=target)
        for method in ("csls", "nn", "inverted_softmax")
    }
    expected["barycentric"] = gwfast.nearest_neighbors(means, result.source.rows, k=4, method="nn")
    for method, best in expected.items():
        found = result.translate(rows, k=4, direction="backward", method=method)
        np.testing.assert_array_equal(found.indices, best.indices)
        np.testing.assert_allclose(found.scores, best.scores, atol=1e-5)
    found = result.translate(rows, k=4, direction="backward", method="coupling")
    np.testing.assert_array_equal(found.indices, np.argsort(-plan, kind="stable")[:, :4])
    np.testing.assert_allclose(found.scores, -np.sort(-plan)[:, :4])
    with pytest.raises(ValueError, match="direction must be one of"):
        result.translate([3], direction="back")


def test_words_come_with_embeddings_and_with_frames_of_words():
    pandas = pytest.importorskip("pandas")
    x, y, where = rotated_pair(60, 4, 31)
    words_x, words_y = ([f"{end}{i}" for i in range(60)] for end in "xy")
    sides = gwfast.words.Embeddings(tuple(words_x), x.astype(np.float32)), y
    sides = sides[0], pandas.DataFrame(y, index=words_y)
    counts = pandas.Series(np.arange(1.0, 61), index=words_x)
    result = gwfast.align(*sides, p=counts[::-1] ** 0.5, epsilon=0.003)
    assert result.words == (tuple(words_x), tuple(words_y))
    assert result.translate("x7", k=1).words == [[f"y{where[7]}"]]
    assert result.translate(["y3", "y5"], k=2, direction="backward").words[1][0][0] == "x"
    np.testing.assert_allclose(
        result.plan.sum(axis=1), counts**0.5 / (counts**0.5).sum(), rtol=1e-2
    )
    table = result.translate(["x7", "x9"], k=2).to_frame(["x7", "x9"])
    assert table["source"].tolist() == ["x7", "x7", "x9", "x9"]
    assert table["target"][0] == f"y{where[7]}"
    half = gwfast.align(sides[0], y, init="product", epsilon=0.1)
    assert half.words == (tuple(words_x), None)
    assert half.translate("x7").words is None
    with pytest.raises(ValueError, match="items must be row numbers or vectors, as the target has"):
        half.translate("y7", direction="backward")
    with pytest.raises(ValueError, match="words must be attached to both sides"):
        half.evaluate({"x7": {"y7"}})


@pytest.mark.parametrize("columns", [list("abc"), [5, 3, 4], range(3), [("a", 1), ("a", 2), "b"]])
def test_vectors_of_a_frame_go_by_the_labels_of_its_columns(columns, tmp_path):
    """Before and after they are in a file."""
    pandas = pytest.importorskip("pandas")
    x, y, _ = rotated_pair(40, 3, 32)
    frame = pandas.DataFrame(x)
    frame.columns = pandas.Index(columns, tupleize_cols=False)
    result = gwfast.align(frame, y, init="product", epsilon=0.1)
    result.save(tmp_path / "a", rows=False)
    expected = result.transform(x)
    for kept in (result, gwfast.Alignment.load(tmp_path / "a")):
        np.testing.assert_array_equal(kept.transform(frame.iloc[:, ::-1]), expected)
        if columns != range(3):  # which only numbers the columns
            with pytest.raises(ValueError, match="x must have the labels of the"):
                kept.transform(frame.rename(columns={columns[0]: "d"}))


def test_columns_without_a_text_cannot_be_saved(tmp_path):
    pandas = pytest.importorskip("pandas")
    x, y, _ = rotated_pair(40, 3, 32)
    frame = pandas.DataFrame(x, columns=pandas.date_range("2020", periods=3))
    result = gwfast.align(frame, y, init="product", epsilon=0.1)
    with pytest.raises(TypeError, match="columns must be texts or numbers to be saved"):
        result.save(tmp_path / "a")


def test_vectors_are_mapped_as_they_were_given():
    """Embeddings are mapped and translated by their vectors."""
    x, y, _ = rotated_pair(40, 3, 33)
    words = [f"w{k}" for k in range(40)]
    result = gwfast.align(x, y, init="product", epsilon=0.1)
    expected = result.source.rows @ result.mapping
    np.testing.assert_allclose(result.transform(x), expected, atol=1e-5)
    np.testing.assert_allclose(result.transform(x[5:7]), expected[5:7], atol=1e-5)
    source, target = Embeddings(words, x), Embeddings(words, y)
    np.testing.assert_array_equal(result.transform(source), result.transform(source.vectors))
    expected = result.transform_target(target.vectors)
    np.testing.assert_array_equal(result.transform_target(target), expected)
    expected = result.translate(source.vectors, k=2)
    np.testing.assert_array_equal(result.translate(source, k=2).indices, expected.indices)


def test_advice_is_in_the_arguments_of_align():
    few = gwfast.SolverOptions(max_inner=1)
    with pytest.warns(gwfast.ConvergenceWarning, match="try a larger tol; linear problems ended"):
        result = gwfast.align(
            cloud(60, 4, 1), cloud(60, 4, 2), init="product", tol=1e-12, options=few
        )
    assert result.gw.status == "max_iter" and "max_iter" not in result.gw.advice

"""Pictures: contents, places, files."""

import itertools
import operator
import re
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.problems import distances as apart
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy import sparse

import gwfast
from gwfast import plot, singlecell, spatial

# Pictures that are shown belong to pyplot.
pytestmark = pytest.mark.filterwarnings("ignore:More than 20 figures")


def history(n):
    changes = [np.inf, *(0.1**i for i in range(2, n + 1))]
    return [
        SimpleNamespace(gw_cost=1 + 1 / i, change=change, marginal_error=0.2**i)
        for i, change in enumerate(changes, start=1)
    ]


def texts_of(labels):
    return [text.get_text() for text in labels]


def labels_of(legend):
    return texts_of(legend.get_texts())


def points_of(figure):
    return [points.get_offsets() for axes in figure.axes for points in axes.collections]


CLOUD = np.random.default_rng(0).standard_normal((40, 3))
# Spaces 0 and 1 are neighbors, space 2 is farther, and space 3 is far away.
DISTANCES = np.array([[0, 1, 3, 9], [1, 0, 5, 9], [3, 5, 0, 9], [9, 9, 9, 0]], float)
NAMES = ["es", "pt", "fr", "$fi_1"]
CANDIDATES = [
    SimpleNamespace(start=start, n_points=n, epsilon=3e-4, gw_cost=cost, fate=fate)
    for start, n, cost, fate in (
        ("profile 0.02", 1500, 0.0078, "went on"),
        ("product", 1500, 0.0103, "dropped in round 1"),
        ("random 0", 1500, 0.0079, "same as profile 0.02"),
        ("profile 0.02", 2000, 0.0082, "won"),
        ("fresh profile", 2000, 0.0083, "tie"),
        ("other", 2000, 0.0090, "lost"),
    )
]
HALVES = CLOUD[:4, :2], CLOUD[:4, :2], CLOUD[4:8, :2]
# Function, data, and number of panels.
ALL = {
    "dynamics": (plot.plot_dynamics, (history(5),), 2),
    "dynamics of two": (plot.plot_dynamics, ({"$a": history(5), "_b": history(3)},), 2),
    "candidates": (plot.plot_candidates, (CANDIDATES,), 1),
    "histograms": (plot.plot_distance_histograms, (CLOUD, CLOUD[:9], ("$a", "_b")), 1),
    "distances": (plot.plot_distances, (DISTANCES, NAMES), 1),
    "dendrogram": (plot.plot_dendrogram, (DISTANCES, NAMES), 1),
    "embedding": (plot.plot_embedding, (DISTANCES, NAMES), 1),
    "distances without names": (plot.plot_distances, (DISTANCES,), 1),
    "dendrogram without names": (plot.plot_dendrogram, (DISTANCES,), 1),
    "plan": (plot.plot_plan, (DISTANCES, NAMES, NAMES), 1),
    "plans": (plot.plot_plans, ({"$a": DISTANCES, "_b": DISTANCES},), 2),
    "aligned": (plot.plot_aligned, (CLOUD[:3], CLOUD[:4], ["$a", "_b", "$a"], NAMES), 1),
    "slices": (plot.plot_slices, (*HALVES, ["$a", "_b", "$a", "_b"], NAMES), 2),
}


@pytest.mark.parametrize("draw, data, n_panels", ALL.values(), ids=ALL)
def test_draws_where_it_is_told(tmp_path, draw, data, n_panels):
    """Into a part of a figure, dollar signs and all, whose file has the whole; into one axes,
    whose place several panels divide; and into one for each panel.
    """
    whole = Figure(figsize=(6, 3))
    part, path = whole.subfigures(1, 2)[0], tmp_path / "whole.svg"
    assert draw(*data, figure=part, path=path) is part
    assert len(whole.axes) == len(part.axes) > 0 and path.read_bytes().startswith(b"<?xml")
    assert part.axes[0].get_title(loc="left")
    if draw is not plot.plot_distances:  # the names say it all
        assert any(axes.get_xlabel() for axes in part.axes)
    whole = Figure()
    one, other = whole.subplots(1, 2)
    assert draw(*data, ax=one) is whole
    assert not whole.legends and not other.has_data()
    assert one.has_data() == (n_panels == 1)
    drawn = [axes for axes in whole.axes if axes.has_data() and axes is not one]
    assert len(drawn) >= n_panels * (n_panels > 1)
    assert all(axes.get_position().x1 <= other.get_position().x0 for axes in drawn)
    panels = Figure().subplots(n_panels, squeeze=False)
    draw(*data, ax=panels)
    assert all(axes.has_data() for axes in panels.flat)
    # A figure belongs to pyplot unless only a file is wanted.
    pyplot.close("all")
    draw(*data, path=tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert not pyplot.get_fignums() and draw(*data) is pyplot.gcf()


def test_curves_show_the_history():
    runs = {"epsilon $1": history(4), "_epsilon 2": history(3)}
    shares = {"_epsilon 2": [0.1, np.nan, 0.3], "epsilon $1": [0, 1, 1, 0]}
    top, middle, bottom = plot.plot_dynamics(runs, accuracy_history=shares).axes
    for k, (name, steps) in enumerate(runs.items()):
        change, error = bottom.lines[2 * k : 2 * k + 2]
        costs, changes, errors = zip(*(vars(step).values() for step in steps), strict=True)
        np.testing.assert_array_equal(top.lines[k].get_data(), [range(1, len(steps) + 1), costs])
        np.testing.assert_array_equal(middle.lines[k].get_ydata(), shares[name])
        # The first change is infinite.
        np.testing.assert_array_equal(change.get_ydata(), [np.nan, *changes[1:]])
        np.testing.assert_array_equal(error.get_ydata(), errors)
        lines = change, error, top.lines[k], middle.lines[k]
        assert len({line.get_color() for line in lines}) == 1
        assert change.get_linestyle() != error.get_linestyle()
    assert bottom.get_yscale() == "log" and top.get_ylabel() == "gw_cost"
    assert len({line.get_marker() for line in top.lines}) == 2
    assert labels_of(top.get_legend()) == list(runs)
    top, _ = plot.plot_dynamics({f"run {k}": history(2) for k in range(20)}).axes
    assert len({line.get_color() for line in top.lines}) == 20
    # A result of many steps, without markers; and steps with no place on a log axis.
    (line,) = plot.plot_dynamics(SimpleNamespace(history=history(97))).axes[0].lines
    assert len(line.get_xdata()) == 97 and line.get_markersize() == 0
    still = SimpleNamespace(gw_cost=0.0, change=0.0, marginal_error=0.0)
    plot.plot_dynamics([still] * 3).draw_without_rendering()
    # Scores are in the title, and none is broken.
    many = {f"method {k} P@1": k / 10 for k in range(6)}
    top, middle, _ = plot.plot_dynamics(
        history(3), accuracy=many, accuracy_history=[0.1, 0.2, 0.3]
    ).axes
    np.testing.assert_array_equal(middle.lines[0].get_ydata(), [0.1, 0.2, 0.3])
    lines = top.get_title(loc="left")
    assert max(map(len, lines.split("\n"))) < 80
    assert all(f"method {k} P@1 {k * 10}.0%" in lines for k in range(6))


def shares(plan):
    mass = plan.sum(axis=1, keepdims=True)
    return np.divide(plan, mass, out=np.zeros(plan.shape), where=mass > 0)


def test_every_plot_takes_the_result_that_it_is_about():
    """A solve, an alignment and an estimator are results."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_exponential((24, 3)) * [1, 2, 4], rng.standard_normal((20, 3))
    cells = singlecell.align(x, y, n_neighbors=6, n_components=None)
    slices = spatial.pairwise_align((x[:, :2], x), (y[:, :2], np.abs(y)))
    words = gwfast.align(x, y)
    estimator = gwfast.GromovWassersteinAligner().fit(x, y)
    for result, gw in ((words.gw, words.gw), (words, words.gw), (estimator, estimator.result_.gw)):
        line = plot.plot_dynamics(result).axes[0].lines[0]
        assert list(line.get_ydata()) == [step.gw_cost for step in gw.history]
        (image,) = plot.plot_plan(result).axes[0].images
        np.testing.assert_allclose(image.get_array(), shares(gw.plan), atol=1e-5)
        labels = plot.plot_candidates(result).axes[0].get_yticklabels()
        assert {row.start for row in gw.candidates} <= {label.get_text() for label in labels}
    for draw, result, data in (
        (plot.plot_aligned, cells, (cells.transform(), cells.y)),
        (plot.plot_aligned, words, (words.mapped_source, words.mapped_target)),
        (plot.plot_slices, slices, (slices.a, slices.b, slices.rigid()(slices.a))),
    ):
        own, other = points_of(draw(result)), points_of(draw(*data))
        np.testing.assert_array_equal(np.concatenate(own), np.concatenate(other))
    pairs = gwfast.pairwise_gromov_wasserstein([apart(z) for z in (x[:5], x[5:9], y[:6])])
    for draw in (plot.plot_dendrogram, plot.plot_embedding):
        assert draw(pairs, ["a", "b", "c"]).axes
    (image,) = plot.plot_distances(pairs, ["a", "b", "c"]).axes[0].images
    np.testing.assert_allclose(image.get_array(), pairs.distances)


def test_candidates_stand_in_their_lines():
    figure = plot.plot_candidates(CANDIDATES)
    (axes,) = figure.axes
    names = texts_of(axes.get_yticklabels())
    starts = [row.start for row in CANDIDATES]
    levels = [f"{n} points, epsilon 0.0003" for n in (1500, 2000)]
    assert names == [levels[0], *starts[:3], levels[1], *starts[3:]]
    drawn = [(x, names[int(y)]) for ((x, y),) in points_of(figure)]
    assert drawn == [(row.gw_cost, row.start) for row in CANDIDATES]
    assert len(labels_of(figure.legends[0])) == 6


def test_plans_are_shown_as_shares_of_their_rows_and_large_ones_are_added_up():
    plan = np.array([[1.0, 3.0], [0.0, 0.0], [5.0, 0.0]])
    axes = plot.plot_plan(plan, ["a", "b", "$c"], ["x", "y"]).axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.25, 0.75], [0, 0], [1, 0]])
    labels = axes.get_yticklabels(), axes.get_xticklabels()
    assert [*map(texts_of, labels)] == [["a", "b", "$c"], ["x", "y"]]
    # Every row and column is in a cell, and no mass is lost.
    n, m = 1000, 700
    plan = np.zeros((n, m))
    plan[np.arange(n), np.arange(n) * m // n] = 1.0
    image = plot.plot_plan(plan, range(n), range(m)).axes[0].images[0].get_array()
    assert max(image.shape) < 400
    np.testing.assert_allclose(image.sum(axis=1), 1.0)
    # Mass on the diagonal stays there.
    rows, columns = np.nonzero(image)
    assert np.abs(rows / image.shape[0] - columns / image.shape[1]).max() < 0.02


def test_every_kind_of_coupling_gives_the_same_picture_on_one_scale():
    clouds, plans = [gwfast.PointCloud(z) for z in (CLOUD[:20], CLOUD[20:])], {}
    for form, tier in {"array": "dense", "sparse": "neighbors", "factors": "tiled"}.items():
        options = gwfast.SolverOptions(tier=tier)
        result = gwfast.gromov_wasserstein(*clouds, options=options, epsilon="20%", init="product")
        plans[form] = result.coupling
        assert result.coupling.form == form
    plan = plans["array"].toarray()
    plans |= {"scipy": sparse.csr_array(plan), "twice": 2 * plan}
    panels = plot.plot_plans(plans).axes[:5]
    assert [axes.get_title(loc="left") for axes in panels] == list(plans)
    for axes in panels:
        np.testing.assert_allclose(axes.images[0].get_array(), shares(plan), atol=1e-3)
        assert axes.images[0].norm.vmax == panels[0].images[0].norm.vmax


def test_histograms_count_each_pair_once():
    x, y = CLOUD, CLOUD[:9] + 1
    figure = plot.plot_distance_histograms(x, y, ("$a", "_b"), bins=20)
    steps = [patch.get_data() for patch in figure.axes[0].patches]
    edges, notes = steps[0].edges, labels_of(figure.legends[0])
    for side, (filled, line), note in zip((x, y), (steps[:2], steps[2:]), notes, strict=True):
        unit = side / np.linalg.norm(side, axis=1, keepdims=True)
        cosine = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
        counts = line.values * np.diff(edges) * len(cosine)
        assert counts.sum() == pytest.approx(len(cosine))
        assert np.abs(counts - np.histogram(cosine, edges)[0]).sum() <= 2  # on an edge
        np.testing.assert_array_equal(filled.values, line.values)
        assert f"mean {cosine.mean():.3f}, standard deviation {cosine.std():.3f}" in note
        assert note.startswith("$a" if side is x else "_b") and f"({len(side)} rows)" in note
    notes = labels_of(plot.plot_distance_histograms(x, y, max_rows=12).legends[0])
    assert "(12 of 40 rows)" in notes[0] and "(9 rows)" in notes[1]


@pytest.mark.parametrize("n", [5, 24, 25])
def test_distances_have_numbers_that_can_be_read(n):
    matrix = np.arange(n * n).reshape(n, n) * (1 - np.eye(n))
    names = [f"language {i}" for i in range(n)]
    axes = plot.plot_distances(matrix, names).axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
    for axis in (axes.xaxis, axes.yaxis):
        assert texts_of(axis.get_ticklabels()) == names
    assert len(axes.texts) == (n * n if n < 25 else 0)
    for text in axes.texts[:: max(n // 5, 1)]:
        value = matrix[text.get_position()[::-1]]
        assert float(text.get_text()) == pytest.approx(value, rel=0.01)
        assert text.get_color() == ("white" if value <= matrix.max() / 2 else "black")


@pytest.mark.parametrize("noise", [0, 1e-3])
def test_dendrogram_joins_by_average_distance_shows_groups_and_fits_a_screen(noise):
    """By hand: es and pt at 1, with fr at (3 + 5) / 2, with fi at 9; nearly symmetric suffices."""
    matrix = DISTANCES + noise * np.arange(16).reshape(4, 4) % 15
    figure = plot.plot_dendrogram(matrix, NAMES, groups=["$a", "$a", "_b", "_b"])
    (axes,) = figure.axes
    tree = [
        (segment[:, 0].max(), segment[segment[:, 0] == 0, 1], to_hex(lines.get_color()[0]))
        for lines in axes.collections
        for segment in map(np.asarray, lines.get_segments())
    ]
    heights, ends, colors = zip(*sorted(tree, key=operator.itemgetter(0)), strict=True)
    np.testing.assert_allclose(heights, [1, 4, 9], atol=20 * noise)
    leaves = texts_of(axes.get_yticklabels())
    assert sorted(leaves) == sorted(NAMES)
    assert abs(leaves.index("es") - leaves.index("pt")) == 1
    # The line of a leaf begins at its name.
    assert axes.get_yticks()[leaves.index("$fi_1")] in ends[-1]
    # Branches within a group have its color, and so have its names.
    color_of = {label.get_text(): to_hex(label.get_color()) for label in axes.get_yticklabels()}
    assert color_of["es"] == color_of["pt"] == colors[0]
    assert color_of["fr"] == color_of["$fi_1"] != color_of["es"]
    assert colors[1] == colors[2] not in color_of.values()
    assert labels_of(figure.legends[0]) == ["$a", "_b"]
    # Many names fit a screen.
    points = np.arange(60.0)[:, None] ** 2
    figure = plot.plot_dendrogram(apart(points), [f"{k}" for k in range(60)])
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    heights = sorted((box.y0, box.y1) for box in boxes)
    assert all(one[1] <= other[0] + 1 for one, other in itertools.pairwise(heights))
    assert figure.get_size_inches()[1] <= 9


def test_sides_share_their_colors():
    """Points of one label have one color; spaces lie in the main directions of the second space."""
    x, y = CLOUD[:9] * [1, 3, 9], CLOUD * [1, 3, 9]
    kinds, (a, b) = ["$a" if k % 3 else "_b" for k in range(len(y))], (x[:, :2], y[:, :2])
    aligned, slices = (
        draw(*sides, kinds[:9], kinds, names=("old", "$new"))
        for draw, sides in ((plot.plot_aligned, (x, y)), (plot.plot_slices, (a + 9, b, a)))
    )
    for figure in (aligned, slices):
        drawn = [some for axes in figure.axes for some in axes.collections]
        colors = [tuple(map(to_hex, some.get_edgecolors()[:9])) for some in drawn]
        assert len({*colors}) == 1 and len({*colors[0]}) == 2
        assert colors[0][0] == colors[0][3] != colors[0][1]
        dots, crosses = drawn[:2]
        assert dots.get_alpha() < 0.5 < crosses.get_alpha()  # seen on one another
        assert labels_of(figure.legends[0]) == ["$new", "old", "$a", "_b"]
    for places, expected in zip(points_of(slices), (b, a + 9, b, a), strict=True):
        np.testing.assert_allclose(places, expected)
    dots, crosses = points_of(aligned)
    np.testing.assert_allclose(dots[:9], crosses)  # the same cells
    values = np.linalg.svd(y - y.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(dots, axis=0), values[:2], rtol=1e-6)
    assert labels_of(plot.plot_aligned(x, y).legends[0]) == ["target", "source"]


def test_words_stand_beside_their_translations():
    x = CLOUD[:9]
    spanish, french = [f"_es{k}" for k in range(9)], [f"$fr{k}" for k in range(9)]
    alignment = gwfast.align(x, x).with_words(spanish, french)
    words = spanish[5:1:-1]
    axes = plot.plot_aligned(alignment, words=words).axes[0]
    translations = [best for (best,) in alignment.translate(words, k=1).words]
    texts = {text.get_text(): text for text in axes.texts}
    assert {*texts} == {*words, *translations}
    dots, crosses = (points.get_offsets() for points in axes.collections)
    for k, pair in enumerate(zip(words, translations, strict=True)):
        np.testing.assert_allclose([texts[word].xy for word in pair], [crosses[k], dots[k]])
        np.testing.assert_allclose(axes.lines[k].get_xydata(), [crosses[k], dots[k]])
    assert len(plot.plot_aligned(alignment, words=words[0]).axes[0].texts) == 2
    # No text is on another, and lines of wrong words are dashed; words that are not listed may be.
    lists = {word: {"other"} if k else {translations[k]} for k, word in enumerate(words[:3])}
    figure = plot.plot_aligned(alignment, words=words, dictionary=lists)
    (axes,) = figure.axes
    assert [line.get_linestyle() for line in axes.lines] == ["-", "--", "--", "-"]
    boxes = [text.get_window_extent() for text in axes.texts]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    for unknown in (["casa"], []):
        with pytest.raises(ValueError, match=rf"words must .* got {re.escape(str(unknown))}"):
            plot.plot_aligned(alignment, words=unknown)


def test_labels_go_with_the_rows_of_frames():
    pandas = pytest.importorskip("pandas")
    spots, counts = pandas.DataFrame(CLOUD[:30, :2]), np.arange(240).reshape(30, 8) % 7
    spots.index = [f"spot{k}" for k in range(30)]
    kinds = pandas.Series(list("abc") * 10, spots.index)
    slices = spatial.pairwise_align((spots, counts), (spots, counts + 1))
    for draw, data in (
        (plot.plot_slices, (spots, spots, spots.iloc[::-1])),
        (plot.plot_slices, (slices, None, None)),
        (plot.plot_aligned, (spots, spots)),
    ):
        one, other = (draw(*data, own, own).axes for own in (kinds, kinds.iloc[::-1]))
        for some, same in zip(one[-1].collections, other[-1].collections, strict=True):
            np.testing.assert_array_equal(some.get_edgecolors(), same.get_edgecolors())


@pytest.mark.parametrize("points", [CLOUD[:2, :2], CLOUD, np.zeros((3, 2)), np.eye(5)])
def test_embedding_is_the_best_of_its_rank(points):
    """It projects on the first two principal components, which have their shares of variance."""
    figure = plot.plot_embedding(apart(points))
    (axes,), (places,) = figure.axes, points_of(figure)
    centered = points - points.mean(axis=0)
    _, values, components = np.linalg.svd(centered, full_matrices=False)
    if len(points) != 5:  # where no two directions are best
        best = apart(centered @ components[:2].T)
        np.testing.assert_allclose(apart(places), best, atol=1e-7)
    percents = re.findall(r"\((\d+) %\)", axes.get_xlabel() + axes.get_ylabel())
    expected = 100 * np.square(values[:2]) / (np.square(values).sum() or 1)
    np.testing.assert_allclose(np.array(percents, float), expected, atol=0.51)
    assert not figure.legends and not axes.texts


def test_embedding_shows_names_and_groups():
    figure = plot.plot_embedding(DISTANCES, NAMES, groups=["$a", 7, "$a", "_c"])
    (axes,) = figure.axes
    assert [len(dots) for dots in points_of(figure)] == [2, 1, 1]
    assert len({tuple(dots.get_facecolor()[0]) for dots in axes.collections}) == 3
    assert labels_of(figure.legends[0]) == ["$a", "7", "_c"]
    assert texts_of(axes.texts) == NAMES
    # Points come by group, names by number.
    placed = np.concatenate(points_of(figure))[[0, 2, 1, 3]]
    np.testing.assert_array_equal([text.xy for text in axes.texts], placed)

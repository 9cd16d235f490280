"""Pictures: contents, places, files."""

import itertools
import re
import sys
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from helpers.processes import run_python
from matplotlib import pyplot
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from scipy import sparse

import gwfast
from gwfast import singlecell
from gwfast.plot import (
    plot_aligned,
    plot_candidates,
    plot_coupling,
    plot_couplings,
    plot_dendrogram,
    plot_distance_histograms,
    plot_distances,
    plot_dynamics,
    plot_embedding,
    plot_slices,
)
from gwfast.results.tables import Candidate
from gwfast.spatial import pairwise_align


class Step(NamedTuple):
    gw_cost: float
    change: float
    marginal_error: float


def history(n):
    return [Step(1 + 1 / i, np.inf if i == 1 else 0.1**i, 0.2**i) for i in range(1, n + 1)]


def labels_of(legend):
    return [text.get_text() for text in legend.get_texts()]


@pytest.fixture(autouse=True)
def closed_figures():
    """Close figures of pyplot, which warns of too many."""
    yield
    pyplot.close("all")


CLOUD = np.random.default_rng(0).standard_normal((40, 3))
# Spaces 0 and 1 are neighbors, space 2 is farther, and space 3 is far away.
DISTANCES = np.array([[0, 1, 3, 9], [1, 0, 5, 9], [3, 5, 0, 9], [9, 9, 9, 0]], float)
NAMES = ["es", "pt", "fr", "$fi_1"]
CANDIDATES = [
    Candidate("profile 0.02", 1500, 3e-4, 0.0078, 50, 0.9, "went on"),
    Candidate("product", 1500, 3e-4, 0.0103, 8, 0.2, "dropped in round 1"),
    Candidate("random 0", 1500, 3e-4, 0.0079, 8, 0.2, "same as profile 0.02"),
    Candidate("profile 0.02", 2000, 3e-4, 0.0082, 119, 3.0, "won"),
    Candidate("fresh profile", 2000, 3e-4, 0.0083, 60, 2.0, "tie"),
    Candidate("other", 2000, 3e-4, 0.0090, 60, 2.0, "lost"),
]
ALL = {
    "dynamics": (plot_dynamics, (history(5),)),
    "dynamics of two": (plot_dynamics, ({"$a": history(5), "_b": history(3)},)),
    "candidates": (plot_candidates, (CANDIDATES,)),
    "histograms": (plot_distance_histograms, (CLOUD, CLOUD[:9], ("$a", "_b"))),
    "distances": (plot_distances, (DISTANCES, NAMES)),
    "dendrogram": (plot_dendrogram, (DISTANCES, NAMES)),
    "embedding": (plot_embedding, (DISTANCES, NAMES)),
    "coupling": (plot_coupling, (DISTANCES, NAMES, NAMES)),
    "couplings": (plot_couplings, ({"$a": DISTANCES, "_b": DISTANCES},)),
    "aligned": (plot_aligned, (CLOUD[:3], CLOUD[:4], ["$a", "_b", "$a"], NAMES)),
    "slices": (
        plot_slices, (*(CLOUD[:4, :2],) * 3, ["$a", "_b", "$a", "_b"], NAMES)
    ),
}  # fmt: skip
# How many panels each has; the others have one.
PANELS = {"dynamics": 2, "dynamics of two": 2, "couplings": 2, "slices": 2}


@pytest.mark.parametrize("plot, data", ALL.values(), ids=ALL)
def test_draws_where_it_is_told(tmp_path, plot, data):
    """Into a part of a figure, without a warning, dollar signs and all; the file has
    the whole of it."""
    whole = Figure(figsize=(12, 6), layout="constrained")
    part = whole.subfigures(1, 2)[0]
    path = tmp_path / "whole.svg"
    assert plot(*data, figure=part, path=path) is part
    assert len(whole.axes) == len(part.axes) > 0
    assert path.read_bytes().startswith(b"<?xml")
    assert all(axes.get_title(loc="left") for axes in part.axes[:1])
    if plot is not plot_distances:  # the names say it all
        assert any(axes.get_xlabel() for axes in part.axes)


@pytest.mark.parametrize("name", ALL)
def test_draws_into_axes(name):
    """Into one, whose place several panels divide, and into one for each panel."""
    plot, data = ALL[name]
    whole, (one, other) = pyplot.subplots(1, 2, layout="constrained")
    assert plot(*data, ax=one) is whole
    assert not whole.legends and not other.has_data()
    n = PANELS.get(name, 1)
    drawn = [axes for axes in whole.axes if axes.has_data() and axes is not one]
    assert one.has_data() == (n == 1)
    assert len(drawn) >= (n if n > 1 else 0)
    whole.draw_without_rendering()
    edge = other.get_position().x0
    assert all(axes.get_position().x1 <= edge for axes in drawn)
    whole, panels = pyplot.subplots(n, squeeze=False)
    plot(*data, ax=panels)
    assert all(axes.has_data() for axes in panels.flat)


def test_axes_that_do_not_fit_are_named():
    whole, (one, other, _) = pyplot.subplots(1, 3)
    free = whole.add_axes((0, 0, 1, 1))
    for plot, data, options, error, message in (
        (plot_distances, (DISTANCES, NAMES), {"ax": [one, other]}, ValueError, "1 Axes, got 2"),
        (plot_distances, (DISTANCES, NAMES), {"ax": whole}, TypeError, "be Axes of matplotlib"),
        (plot_dynamics, (history(3),), {"ax": free}, ValueError, "2 Axes, got 1 outside of a grid"),
    ):
        with pytest.raises(error, match=f"^ax must .*{message}"):
            plot(*data, **options)
    with pytest.raises(ValueError, match="figure must be None if ax is given"):
        plot_distances(DISTANCES, NAMES, figure=whole, ax=one)


def test_figures_belong_to_pyplot(tmp_path):
    """Figures that go to a file do not, and need not be closed."""
    figure = plot_distances(DISTANCES, NAMES, path=tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert isinstance(figure, Figure) and not pyplot.get_fignums()
    figure = plot_distances(DISTANCES, NAMES)
    assert pyplot.gcf() is figure


@pytest.mark.parametrize("n", [1, 97])
def test_curves_show_the_history_of_a_result(n):
    costs, changes, errors = zip(*history(n), strict=True)
    top, bottom = plot_dynamics(SimpleNamespace(history=history(n))).axes
    (cost,) = top.lines
    np.testing.assert_array_equal(cost.get_data(), [range(1, n + 1), costs])
    change, error = bottom.lines
    np.testing.assert_array_equal(change.get_ydata(), [np.nan, *changes[1:]])
    np.testing.assert_array_equal(error.get_ydata(), errors)
    assert bottom.get_yscale() == "log" and top.get_ylabel() == "gw_cost"


def test_several_histories():
    runs = {"epsilon $1": history(5), "_epsilon 2": history(3)}
    top, bottom = plot_dynamics(runs).axes
    for line, steps in zip(top.lines, runs.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), [step.gw_cost for step in steps])
    assert len({line.get_color() for line in top.lines}) == 2
    assert len({line.get_marker() for line in top.lines}) == 2
    assert labels_of(top.get_legend()) == list(runs)
    assert len(bottom.lines) == 4
    assert bottom.lines[0].get_color() == bottom.lines[1].get_color()
    assert bottom.lines[0].get_linestyle() != bottom.lines[1].get_linestyle()
    top, _ = plot_dynamics({f"run {k}": history(2) for k in range(20)}).axes
    assert len({line.get_color() for line in top.lines}) == 20


def test_accuracy_in_the_title():
    many = {f"method {k} P@1": k / 10 for k in range(6)}
    lines = plot_dynamics(history(5), accuracy=many).axes[0].get_title(loc="left")
    assert max(map(len, lines.split("\n"))) < 80
    for k in range(6):  # no score is broken
        assert f"method {k} P@1 {k * 10}.0%" in lines


def test_accuracy_of_every_iteration():
    shares = [0.1, np.nan, 0.3]
    _, middle, _ = plot_dynamics(history(3), accuracy_history=shares).axes
    np.testing.assert_array_equal(middle.lines[0].get_ydata(), shares)
    runs = {"a": history(3), "b": history(2)}
    figure = plot_dynamics(runs, accuracy_history={"b": [0, 1], "a": shares})
    top, middle, _ = figure.axes
    assert [len(line.get_ydata()) for line in middle.lines] == [3, 2]
    for one, other in zip(top.lines, middle.lines, strict=True):
        assert one.get_color() == other.get_color()


def test_nothing_for_a_log_axis(tmp_path):
    """One step that moved nothing: no warning, no crash."""
    plot_dynamics([Step(0.0, np.inf, 0.0)], path=tmp_path / "d.png")
    plot_dynamics([Step(0.0, 0.0, 0.0)] * 3, path=tmp_path / "d.png")


def test_every_plot_takes_the_result_that_it_is_about():
    """A solve, an alignment and an estimator are results."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_exponential((40, 3)) * [1, 2, 4], rng.standard_normal((30, 3))
    cells = singlecell.align(x, y, n_neighbors=6, n_components=None)
    slices = pairwise_align((x[:, :2], x), (y[:, :2], np.abs(y)))
    estimator = gwfast.GromovWassersteinAligner().fit(x, y)
    words = gwfast.align(x, y)
    for result in (words.gw, words, estimator, cells, slices):
        gw = getattr(getattr(result, "result_", result), "gw", result)
        line = plot_dynamics(result).axes[0].lines[0]
        assert list(line.get_ydata()) == [step.gw_cost for step in gw.history]
        for figure in (plot_coupling(result), plot_couplings({"a": result})):
            (image,) = figure.axes[0].images
            np.testing.assert_allclose(image.get_array(), shares(gw.plan), atol=1e-5)
        labels = plot_candidates(result).axes[0].get_yticklabels()
        assert {row.start for row in gw.candidates} <= {label.get_text() for label in labels}
        pyplot.close("all")
    for drawn, expected in (
        (plot_aligned(cells), plot_aligned(cells.transform(), cells.y)),
        (plot_aligned(words), plot_aligned(words.mapped_source, words.mapped_target)),
        (plot_slices(slices), plot_slices(slices.a, slices.b, slices.rigid()(slices.a))),
    ):
        for own, other in zip(points_of(drawn), points_of(expected), strict=True):
            np.testing.assert_array_equal(own, other)
    (image,) = plot_coupling(sparse.csr_array(words.plan)).axes[0].images
    np.testing.assert_allclose(image.get_array(), shares(words.plan), atol=1e-5)
    pairs = gwfast.pairwise_gromov_wasserstein(
        [gwfast.PointCloud(z, "sqeuclidean") for z in (x[:5], x[5:9], y[:6])]
    )
    for plot in (plot_distances, plot_dendrogram, plot_embedding):
        assert plot(pairs, ["a", "b", "c"]).axes
    (image,) = plot_distances(pairs, ["a", "b", "c"]).axes[0].images
    np.testing.assert_allclose(image.get_array(), pairs.distances)


def points_of(figure):
    return [points.get_offsets() for axes in figure.axes for points in axes.collections]


def shares(plan):
    mass = plan.sum(axis=1, keepdims=True)
    return np.divide(plan, mass, out=np.zeros(plan.shape), where=mass > 0)


def test_candidates_stand_in_their_lines():
    figure = plot_candidates(CANDIDATES)
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    starts = [row.start for row in CANDIDATES]
    levels = [f"{n} points, epsilon 0.0003" for n in (1500, 2000)]
    assert names == [levels[0], *starts[:3], levels[1], *starts[3:]]
    points = [dots.get_offsets()[0] for dots in axes.collections]
    drawn = [(x, names[int(y)]) for x, y in points]
    assert drawn == [(row.gw_cost, row.start) for row in CANDIDATES]
    assert len(labels_of(figure.legends[0])) == 6


def test_histograms_are_those_of_the_pairs():
    x, y = CLOUD, CLOUD[:9] + 1
    figure = plot_distance_histograms(x, y, ("$a", "_b"), bins=20)
    (axes,) = figure.axes
    steps = [patch.get_data() for patch in axes.patches]
    edges = steps[0].edges
    for side, (filled, line) in zip((x, y), (steps[:2], steps[2:]), strict=True):
        unit = side / np.linalg.norm(side, axis=1, keepdims=True)
        cosine = [unit[i] @ unit[j] for i in range(len(unit)) for j in range(i + 1, len(unit))]
        # All pairs are counted, and each once.
        counts = line.values * np.diff(edges) * len(cosine)
        assert counts.sum() == pytest.approx(len(cosine))
        expected, _ = np.histogram(cosine, edges)
        assert np.abs(counts - expected).sum() <= 2  # on an edge but for rounding
        np.testing.assert_array_equal(filled.values, line.values)
        note = f"mean {np.mean(cosine):.3f}, standard deviation {np.std(cosine):.3f}"
        assert note in "".join(labels_of(figure.legends[0]))
    first, second = labels_of(figure.legends[0])
    assert first.startswith("$a\n") and first.endswith("(40 rows)")
    assert second.startswith("_b\n") and second.endswith("(9 rows)")
    # Some rows of large spaces are taken.
    figure = plot_distance_histograms(CLOUD, CLOUD[:9], max_rows=12)
    first, second = labels_of(figure.legends[0])
    assert "(12 of 40 rows)" in first and "(9 rows)" in second


def luminance(color):
    """Return the luminance of WCAG 2."""
    color = np.array(to_rgb(color))
    high = ((color + 0.055) / 1.055) ** 2.4
    return [0.2126, 0.7152, 0.0722] @ np.where(color <= 0.03928, color / 12.92, high)


@pytest.mark.parametrize("n", [4, 24, 25])
def test_distances_have_numbers_that_can_be_read(n):
    matrix = np.arange(n * n).reshape(n, n) * (1 - np.eye(n))
    names = [f"language {i}" for i in range(n)]
    axes = plot_distances(matrix, names).axes[0]
    image = axes.images[0]
    np.testing.assert_array_equal(image.get_array(), matrix)
    for axis in (axes.xaxis, axes.yaxis):
        assert [label.get_text() for label in axis.get_ticklabels()] == names
    assert len(axes.texts) == (n * n if n < 25 else 0)
    for text in axes.texts:
        column, row = text.get_position()
        assert float(text.get_text()) == pytest.approx(matrix[row, column], rel=0.01)
        cell = image.cmap(image.norm(matrix[row, column]))
        dark, light = sorted(map(luminance, (text.get_color(), cell[:3])))
        assert (light + 0.05) / (dark + 0.05) > 3  # their contrast


def joins(axes):
    """Return the ends of the lines of a tree, and their color, by height."""
    return {
        segment[:, 0].max(): (segment, to_hex(lines.get_color()[0]))
        for lines in axes.collections
        for segment in map(np.asarray, lines.get_segments())
    }


def test_dendrogram_joins_by_average_distance():
    """By hand: es and pt at 1, with fr at (3 + 5) / 2, with fi at 9; nearly symmetric suffices."""
    for noise in (0, 1e-3):
        axes = plot_dendrogram(DISTANCES + noise * np.arange(16).reshape(4, 4) % 15, NAMES).axes[0]
        np.testing.assert_allclose(sorted(joins(axes)), [1, 4, 9], atol=20 * noise)
    leaves = [label.get_text() for label in axes.get_yticklabels()]
    assert sorted(leaves) == sorted(NAMES)
    assert abs(leaves.index("es") - leaves.index("pt")) == 1
    # The line of a leaf begins at its name.
    places = dict(zip(leaves, axes.get_yticks(), strict=True))
    last, _ = joins(axes)[max(joins(axes))]
    assert places["$fi_1"] in last[last[:, 0] == 0, 1]


def test_dendrogram_shows_groups():
    """Branches within a group have its color, and so have its names."""
    figure = plot_dendrogram(DISTANCES, NAMES, groups=["$a", "$a", "_b", "_b"])
    (axes,) = figure.axes
    colors = {height: color for height, (_, color) in joins(axes).items()}
    color_of = {label.get_text(): to_hex(label.get_color()) for label in axes.get_yticklabels()}
    assert color_of["es"] == color_of["pt"] == colors[1]
    assert color_of["fr"] == color_of["$fi_1"]
    assert colors[4] == colors[9] and colors[4] not in color_of.values()
    assert labels_of(figure.legends[0]) == ["$a", "_b"]


@pytest.mark.parametrize("n", [10, 60])
def test_dendrogram_fits_a_screen(n):
    names = [f"space {k}" for k in range(n)]
    groups = np.array(["one", "other"])[np.arange(n) % 2]
    figure = plot_dendrogram(apart(np.arange(n)[:, None] ** 2.0), names, groups=groups)
    assert figure.get_size_inches()[1] <= 9
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    heights = sorted((box.y0, box.y1) for box in boxes)
    assert all(one[1] <= other[0] + 1 for one, other in itertools.pairwise(heights))


def test_aligned_spaces_share_their_colors():
    """Points of one label have one color, in the main directions of the second space."""
    x, y = CLOUD[:9] * [1, 3, 9], CLOUD * [1, 3, 9]
    kinds = ["$a" if k % 3 else "_b" for k in range(len(y))]
    figure = plot_aligned(x, y, kinds[:9], kinds, names=("RNA", "$ATAC"))
    (axes,) = figure.axes
    dots, crosses = axes.collections
    assert len(dots.get_offsets()) == len(y) and len(crosses.get_offsets()) == len(x)
    for some in (dots, crosses):
        # The same cells are in the same place.
        np.testing.assert_allclose(some.get_offsets()[:9], dots.get_offsets()[:9])
        colors = [to_hex(color) for color in some.get_edgecolors()]
        assert len(set(colors)) == 2 and colors[0] == colors[3] != colors[1]
    values = np.linalg.svd(y - y.mean(axis=0), compute_uv=False)
    spread = np.linalg.norm(dots.get_offsets(), axis=0)
    np.testing.assert_allclose(spread, values[:2], rtol=1e-6)
    assert labels_of(figure.legends[0]) == ["$ATAC", "RNA", "$a", "_b"]
    plain = plot_aligned(x, y)
    assert labels_of(plain.legends[0]) == ["target", "source"]


def test_words_stand_beside_their_translations():
    x = CLOUD[:9]
    spanish, french = [f"_es{k}" for k in range(9)], [f"$fr{k}" for k in range(9)]
    alignment = gwfast.align(x, x).with_words(spanish, french)
    words = spanish[5:1:-1]
    axes = plot_aligned(alignment, words=words, names=("Spanish", "French")).axes[0]
    translations = [best for (best,) in alignment.translate(words, k=1).words]
    texts = {text.get_text(): text for text in axes.texts}
    assert {*texts} == {*words, *translations}
    dots, crosses = (points.get_offsets() for points in axes.collections)
    for k, pair in enumerate(zip(words, translations, strict=True)):
        ends = np.array([texts[word].xy for word in pair])
        np.testing.assert_allclose(ends, [crosses[k], dots[k]])
        np.testing.assert_allclose(axes.lines[k].get_xydata(), ends)
    assert len(plot_aligned(alignment, words=words[0]).axes[0].texts) == 2
    for unknown in (["casa"], [0], []):
        message = rf"words must be words of the source, got {re.escape(str(unknown))}"
        with pytest.raises(ValueError, match=message):
            plot_aligned(alignment, words=unknown)


def test_slices_before_and_after():
    a, b = CLOUD[:9, :2], CLOUD[:, :2]
    kinds = ["$a" if k % 3 else "_b" for k in range(len(b))]
    figure = plot_slices(a + 9, b, a, kinds[:9], kinds, names=("old", "new"))
    for axes, places in zip(figure.axes, (a + 9, a), strict=True):
        dots, crosses = axes.collections
        np.testing.assert_allclose(dots.get_offsets(), b)
        np.testing.assert_allclose(crosses.get_offsets(), places)
        shared = [to_hex(some.get_edgecolors()[1]) for some in (dots, crosses)]
        assert shared[0] == shared[1]
    assert labels_of(figure.legends[0]) == ["new", "old", "$a", "_b"]


def test_labels_go_with_the_rows_of_frames():
    pandas = pytest.importorskip("pandas")
    rng, names = np.random.default_rng(0), [f"spot{k}" for k in range(30)]
    spots = pandas.DataFrame(rng.uniform(0, 9, (30, 2)), names)
    kinds = pandas.Series(list("abc") * 10, names)
    turned, mixed = spots.iloc[::-1], kinds.iloc[::-1]
    slices = pairwise_align((spots, rng.poisson(3.0, (30, 8))), (spots, rng.poisson(3.0, (30, 8))))
    for plot, given in (
        (plot_slices, (spots, spots, turned)),
        (plot_slices, (slices, None, None)),
        (plot_aligned, (spots, spots)),
    ):
        first, second = (
            [dots.get_edgecolors() for axes in plot(*given, one, one).axes
             for dots in axes.collections]
            for one in (kinds, mixed)
        )  # fmt: skip
        for one, other in zip(first, second, strict=True):
            np.testing.assert_array_equal(one, other)


def places_of(figure):
    """The points of an embedding, group after group."""
    dots = figure.axes[0].collections
    return np.concatenate([np.asarray(some.get_offsets()) for some in dots])


def apart(points):
    return np.linalg.norm(points[:, None] - points, axis=2)


@pytest.mark.parametrize(
    "points, dim",
    [(CLOUD[:2, :2], 2), (CLOUD[:30, :2], 2), (CLOUD, 3), (np.zeros((3, 2)), 2), (np.eye(5), 5)],
)
def test_embedding_is_the_best_of_its_rank(points, dim):
    """It projects on the first two principal components, which have their shares of variance."""
    figure = plot_embedding(apart(points))
    centered = points - points.mean(axis=0)
    _, values, components = np.linalg.svd(centered, full_matrices=False)
    axes = figure.axes[0]
    if dim < 5:  # where no two directions are best
        best = apart(centered @ components[:2].T)
        np.testing.assert_allclose(apart(places_of(figure)), best, atol=1e-7)
    shares = re.findall(r"\((\d+) %\)", axes.get_xlabel() + axes.get_ylabel())
    total = np.square(values).sum() or 1
    np.testing.assert_allclose(
        np.array(shares, float), 100 * np.square(values[:2]) / total, atol=0.51
    )
    assert not figure.legends and not axes.texts


def test_embedding_shows_names_and_groups():
    figure = plot_embedding(DISTANCES, NAMES, groups=["$a", 7, "$a", "_c"])
    (axes,) = figure.axes
    assert [len(dots.get_offsets()) for dots in axes.collections] == [2, 1, 1]
    colors = [tuple(dots.get_facecolor()[0]) for dots in axes.collections]
    assert len(set(colors)) == 3
    assert labels_of(figure.legends[0]) == ["$a", "7", "_c"]
    assert [text.get_text() for text in axes.texts] == NAMES
    # Points come by group, names by number.
    placed = places_of(figure)[[0, 2, 1, 3]]
    np.testing.assert_array_equal([text.xy for text in axes.texts], placed)


def test_plan_is_shown_as_shares_of_its_rows():
    plan = np.array([[1.0, 3.0], [0.0, 0.0], [5.0, 0.0]])
    figure = plot_coupling(plan, ["a", "b", "$c"], ["x", "y"])
    axes = figure.axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.25, 0.75], [0, 0], [1, 0]])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b", "$c"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["x", "y"]


def test_every_kind_of_coupling_gives_the_same_picture():
    rng = np.random.default_rng(3)
    clouds = [gwfast.PointCloud(rng.standard_normal((30, 3))) for _ in range(2)]
    few = dict(epsilon="20%", init="product")
    tiers = {"array": "dense", "sparse": "neighbors", "factors": "tiled"}
    couplings = {
        form: gwfast.gromov_wasserstein(
            *clouds, options=gwfast.SolverOptions(tier=tier), **few
        ).coupling
        for form, tier in tiers.items()
    }
    assert [coupling.form for coupling in couplings.values()] == list(tiers)
    plan = couplings["plain"] = couplings["array"].toarray()
    figure = plot_couplings(couplings)
    panels = figure.axes[:4]
    assert [axes.get_title(loc="left") for axes in panels] == list(couplings)
    for axes in panels:
        np.testing.assert_allclose(
            axes.images[0].get_array(), plan / plan.sum(axis=1, keepdims=True), atol=1e-3
        )
        # One color scale for all.
        assert axes.images[0].norm.vmax == panels[0].images[0].norm.vmax


def test_large_plans_are_added_up():
    """Every row and column is in a cell, and no mass is lost."""
    n, m = 1000, 700
    plan = np.zeros((n, m))
    plan[np.arange(n), np.arange(n) * m // n] = 1.0
    image = plot_coupling(plan, range(n), range(m)).axes[0].images[0].get_array()
    assert max(image.shape) < 400
    np.testing.assert_allclose(image.sum(axis=1), 1.0)
    # Mass on the diagonal stays there.
    rows, columns = np.nonzero(image)
    assert np.abs(rows / image.shape[0] - columns / image.shape[1]).max() < 0.02


ONE = np.ones((1, 1))
BAD = [
    (plot_dynamics, ([],), {}, "history must hold at least one step"),
    (plot_dynamics, ({},), {}, "history must hold at least one step"),
    (plot_dynamics, ({"a": []},), {}, "history must hold at least one step"),
    (plot_dynamics, (history(3),), {"accuracy_history": [1, 2]}, r"shape \(3,\), got \(2,\)"),
    (plot_dynamics, ({"a": history(3)},), {"accuracy_history": {"b": [1]}}, r"\['a'\], got {'b'"),
    (plot_dynamics, ({"a": history(3)},), {"accuracy_history": [1]}, r"be a mapping .* got \[1\]"),
    (plot_candidates, ([],), {}, "candidates must hold at least one"),
    (plot_distance_histograms, (CLOUD, CLOUD[:1]), {}, "y .* two rows"),
    (plot_distance_histograms, (0 * CLOUD, CLOUD), {}, "no zero rows"),
    (plot_distance_histograms, (CLOUD, CLOUD, ["a"]), {}, "2 names, got 1"),
    (plot_distances, (CLOUD, NAMES), {}, "matrix must be square"),
    (plot_distances, (np.nan * ONE, ["a"]), {}, "matrix must be finite"),
    (plot_distances, (DISTANCES, "es"), {}, "names must be 4 names, got 1"),
    (plot_embedding, (DISTANCES, ["a"]), {}, "names must be 4 names"),
    (plot_dendrogram, (ONE, ["a"]), {}, "at least two rows, got 1"),
    (plot_dendrogram, (np.triu(DISTANCES), NAMES), {}, r"be symmetric, got 9 at \[0, 3\]"),
    (plot_embedding, (np.triu(DISTANCES),), {}, r"be symmetric, got 9 at \[0, 3\]"),
    (plot_dendrogram, (-DISTANCES, NAMES), {}, "not be negative, got -9"),
    (plot_dendrogram, (DISTANCES + 5 * np.eye(4), NAMES), {}, r"its diagonal, got 5 at \[0, 0\]"),
    (plot_embedding, (DISTANCES,), {"groups": "ab"}, "groups must be 4 names, got 1"),
    (plot_coupling, (-DISTANCES,), {}, "coupling must not be negative"),
    (plot_coupling, (ONE, ["a", "b"]), {}, "row_labels must be 1 names"),
    (plot_couplings, ({},), {}, r"of one shape, got \[\]"),
    (plot_couplings, ({"a": ONE, "b": DISTANCES},), {}, "of one shape, got"),
    (plot_aligned, (CLOUD, CLOUD[:, :2]), {}, "equally many columns"),
    (plot_aligned, (CLOUD, CLOUD), {"y_labels": NAMES}, "y_labels must be 40 names"),
    (plot_aligned, (CLOUD, CLOUD), {"words": ["casa"]}, "be an alignment with words of both sides"),
    (plot_slices, (CLOUD, CLOUD[:, :2], CLOUD[:, :2]), {}, "two columns"),
    (plot_slices, (CLOUD[:, :2],) * 2 + (CLOUD[:9, :2],), {}, "rows of a"),
]


@pytest.mark.parametrize("plot, data, options, message", BAD)
def test_bad_input(tmp_path, plot, data, options, message):
    with pytest.raises(ValueError, match=message):
        plot(*data, **options, path=tmp_path / "picture.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_leaves_pyplot_alone():
    """Until something is drawn; in a process of its own, as other tests import it."""
    code = "import sys, gwfast.plot; sys.exit('matplotlib.pyplot' in sys.modules)"
    run_python(code)


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "gwfast.plot")
    with pytest.raises(ImportError, match=r'pip install "gwfast-ot\[cli\]"'):
        import gwfast.plot  # noqa: F401

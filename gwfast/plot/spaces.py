"""Spaces: two in one picture, the similarities inside each, and the distances between many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform

from ..problems.geometry import cosine_similarity
from ..results.pairwise import PairwiseResult
from ..utils.labels import ByWord, first_rows, in_order, labels_of
from ..utils.types import PathLike
from ..utils.validation import as_count, as_matrix, as_square, as_table
from ..words.dictionaries import Translations
from . import _style
from ._style import Canvas, Panels


def plot_aligned(
    x: Any,
    y: Any = None,
    x_labels: Sequence[object] | None = None,
    y_labels: Sequence[object] | None = None,
    *,
    words: Sequence[str] | None = None,
    dictionary: Translations | None = None,
    names: Sequence[str] = ("source", "target"),
    title: str = "Both spaces, aligned",
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw the points of two spaces in one, in the two directions in which the second varies most.

    Parameters
    ----------
    x : array-like of shape (n, d), or an alignment
        Points of the first space in the second space; or an alignment of both, without `y`.
    y : array-like of shape (m, d), optional
        Points of the second space.
    x_labels, y_labels : sequence of length n or m, optional
        Labels, such as types of cells: equal labels have one color. Points without are grey.
    words : sequence of str, optional
        Draw only these words of the source of an alignment, and lines to their best translations.
    dictionary : mapping of str to iterable of str, optional
        Translations of `words`: the lines of words that have others there are dashed.
    names : sequence of two str, default=("source", "target")
        Names of the spaces: points of the first are crosses, points of the second are dots.
    title, path, figure, ax : see `plot_dynamics`

    Examples
    --------
    >>> import gwfast, gwfast.plot, gwfast.words
    >>> alignment = gwfast.align(*gwfast.words.load_sample()[:2], n_words=500)
    >>> figure = gwfast.plot.plot_aligned(alignment, words=["madre", "noche", "calle"])
    """
    orders, pairs = (labels_of(x), labels_of(y)), None
    if words is not None:
        if not hasattr(x, "translate") or None in x.words:
            raise ValueError(f"x must be an alignment with words of both sides, got {x!r:.60}")
        words = [words] if isinstance(words, str) else list(words)
        row_of_word = first_rows(x.words[0])
        unknown = [word for word in words if word not in row_of_word]
        if unknown or not words:
            message = f"words must be words of the source, got {unknown or words!r:.60}"
            raise ValueError(message)
        best = x.translate(words, k=1)
        pairs = [(word, *translation) for word, translation in zip(words, best.words, strict=True)]
        rows = [row_of_word[word] for word in words]
        x, y = x.mapped_source[rows], x.mapped_target[best.indices[:, 0]]
        x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    elif y is None and hasattr(x, "mapped_source"):
        x, y = x.mapped_source, x.mapped_target
    elif y is None and hasattr(x, "transform"):
        orders = x.gw.labels
        x, y = x.transform(), x.y
    x, y = (as_matrix(side, name).astype(np.float64) for side, name in ((x, "x"), (y, "y")))
    if x.shape[1] != y.shape[1] or y.shape[1] < 2:
        came = f"{x.shape[1]} and {y.shape[1]}"
        raise ValueError(f"x and y must have equally many columns, two at least, got {came}")
    names = _style.as_labels(names, "names", 2)
    x_labels = _style.as_labels(x_labels, "x_labels", len(x), orders[0], "x")
    y_labels = _style.as_labels(y_labels, "y_labels", len(y), orders[1], "y")
    center = y.mean(axis=0)
    # Two rows of zeros, as a single point has no two directions.
    padded = np.pad(y - center, ((0, 2), (0, 0)))
    directions = np.linalg.svd(padded, full_matrices=False)[2][:2].T
    directions *= np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    left, right = (x - center) @ directions, (y - center) @ directions

    figure, (axes,) = _style.start(figure, ax, path, (6, 5))
    colors = (_style.BLUE, _style.ORANGE) if pairs else (_style.GREY, _style.GREY)
    _draw_sides(figure, [axes], ax, [(left, right)], (x_labels, y_labels), names, colors)
    component, notes = f"component of {names[1]}", list[Any]()
    translations = ByWord(dict(dictionary or {}))
    for pair, ends in zip(pairs or [], zip(left, right, strict=True), strict=pairs is not None):
        is_wrong = pair[0] in translations and pair[1] not in ByWord.fromkeys(translations[pair[0]])
        color, line = (_style.PURPLE, "--") if is_wrong else (_style.GREY, "-")
        axes.plot(*np.transpose(ends), color=color, linestyle=line, linewidth=1.2, zorder=0)
        notes += zip(pair, ends, colors, strict=True)
    _style.frame(axes, title, f"first {component}", f"second {component}")
    if pairs:
        axes.margins(0.1)
        _style.annotate(axes, notes)
    return _style.finish(figure, path)


def plot_slices(
    a: Any,
    b: Any = None,
    moved: Any = None,
    a_labels: Sequence[object] | None = None,
    b_labels: Sequence[object] | None = None,
    *,
    names: Sequence[str] = ("first", "second"),
    titles: Sequence[str] = ("Both slices as they are", "Aligned"),
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw two slices of tissue, before and after the first has been moved onto the second.

    Parameters
    ----------
    a : array-like of shape (n, 2), or SliceAlignment
        Coordinates of the first slice; or the result of `gwfast.spatial.pairwise_align`, alone.
    b : array-like of shape (m, 2), optional
        Coordinates of the second slice.
    moved : array-like of shape (n, 2), optional
        Coordinates of the first slice in the frame of the second, such as ``result.rigid()(a)``.
    a_labels, b_labels, names : see `x_labels`, `y_labels` and `names` of `plot_aligned`
    titles : sequence of two str
    path, figure, ax : see `plot_dynamics`

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> spots = np.random.default_rng(0).uniform(0, 9, (30, 2))
    >>> figure = gwfast.plot.plot_slices(spots, spots[:, ::-1], spots[:, ::-1])
    """
    orders = labels_of(a), labels_of(b)
    if b is None and moved is None and hasattr(a, "rigid"):
        orders = a.gw.labels
        a, b, moved = a.a, a.b, a.rigid()(a.a)
    moved = in_order(moved, "moved", orders[0], of="a")
    a, b, moved = as_matrix(a, "a"), as_matrix(b, "b"), as_matrix(moved, "moved")
    if moved.shape != a.shape or {a.shape[1], b.shape[1]} != {2}:
        raise ValueError(
            "a, b and moved must have two columns, and moved the rows of a, got shapes "
            f"{a.shape}, {b.shape} and {moved.shape}"
        )
    names, titles = _style.as_labels(names, "names", 2), _style.as_labels(titles, "titles", 2)
    a_labels = _style.as_labels(a_labels, "a_labels", len(a), orders[0], "a")
    b_labels = _style.as_labels(b_labels, "b_labels", len(b), orders[1], "b")
    figure, panels = _style.start(figure, ax, path, (9, 4.5), (1, 2))
    _draw_sides(figure, panels, ax, [(a, b), (moved, b)], (a_labels, b_labels), names)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_aspect("equal")
        _style.frame(axes, title, "first coordinate")
    return _style.finish(figure, path)


def _draw_sides(figure, panels, ax, drawn, labels, names, blank=(_style.GREY, _style.GREY)):
    """Draw pairs of sides, (n, 2) each, a pair in each panel, and a legend of marks and labels."""
    distinct = sorted({label for side in labels for label in side or ()})
    palette = dict(zip(distinct, _style.colors(len(distinct)), strict=True))
    # Pale dots first, so that crosses of the same color are seen on them.
    marks = ("o", blank[1], 0.4), ("+", blank[0], 1.0)
    for axes, sides in zip(panels, drawn, strict=True):
        for points, side_labels, mark in zip(sides[::-1], labels[::-1], marks, strict=True):
            marker, color, alpha = mark
            painted = [palette[label] for label in side_labels] if side_labels else color
            size = 22 if len(points) <= 500 else 6
            axes.scatter(*points.T, s=size, c=painted, marker=marker, linewidth=0.9, alpha=alpha)
    marks = *marks, *(("s", color, 1.0) for color in palette.values())
    handles = [
        Line2D([], [], marker=marker, color=color, linestyle="", alpha=alpha)
        for marker, color, alpha in marks
    ]
    parent = figure if ax is None else panels[-1]
    _style.legend(parent, handles, [*names[::-1], *palette], ncols=4)


def plot_distance_histograms(
    x: ArrayLike,
    y: ArrayLike,
    labels: Sequence[str] = ("source", "target"),
    *,
    max_rows: int = 2000,
    bins: int = 120,
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw the distributions of the cosine similarities within two spaces.

    Gromov-Wasserstein compares them: the more they differ, the harder a match.

    Parameters
    ----------
    x, y : array-like of shape (n, d) and (m, d')
    labels : sequence of two str, default=("source", "target")
    max_rows : int, default=2000
        Most rows of each side whose pairs are counted, at even steps; the legend says so.
    bins : int, default=120
    path, figure, ax : see `plot_dynamics`

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> points = np.random.default_rng(0).normal(size=(30, 3))
    >>> figure = gwfast.plot.plot_distance_histograms(points, points[:20], ("all", "some"))
    """
    labels = _style.as_labels(labels, "labels", 2)
    max_rows, bins = as_count(max_rows, "max_rows", least=2), as_count(bins, "bins")
    samples, notes = [], []
    for side, name, label in zip((x, y), "xy", labels, strict=True):
        side = as_matrix(side, name)
        n = len(side)
        if n < 2:
            raise ValueError(f"{name} must have at least two rows, got {n}")
        rows = np.linspace(0, n - 1, min(n, max_rows)).astype(np.int64)
        cosine = cosine_similarity(side[rows])[np.triu_indices(len(rows), 1)]
        samples.append(cosine.astype(np.float64))
        mean = round(samples[-1].mean(), 3) + 0.0  # no "-0.000"
        taken = f"{n:,} rows" if n <= max_rows else f"{max_rows:,} of {n:,} rows"
        notes.append(f"{label}\nmean {mean:.3f}, standard deviation {cosine.std():.3f} ({taken})")
    edges = np.histogram_bin_edges(np.concatenate(samples), bins)
    figure, (axes,) = _style.start(figure, ax, path, (7, 4))
    handles = []
    for sample, color, line in zip(samples, (_style.BLUE, _style.ORANGE), ("-", "--"), strict=True):
        density = np.histogram(sample, edges, density=True)[0]
        axes.stairs(density, edges, fill=True, color=color, alpha=0.15)
        handles.append(axes.stairs(density, edges, color=color, ls=line, linewidth=1.5))
        axes.axvline(sample.mean(), color=color, ls=line, linewidth=0.8)
    xlabel = "cosine similarity of two rows of one space"
    _style.frame(axes, "Cosine similarities within each space", xlabel, "density")
    _style.legend(figure if ax is None else axes, handles, notes)
    return _style.finish(figure, path)


def plot_distances(
    matrix: PairwiseResult | ArrayLike,
    names: Sequence[str] | None = None,
    *,
    title: str = "Gromov-Wasserstein distances",
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw a matrix of distances as a heat map with its numbers.

    Parameters
    ----------
    matrix : array-like of shape (n, n), or PairwiseResult
        Of a result, its `distances`.
    names : sequence of str, length n, or None, default=None
        None numbers them.
    title, path, figure, ax : see `plot_dynamics`

    Examples
    --------
    >>> import gwfast.plot
    >>> figure = gwfast.plot.plot_distances([[0, 1, 5], [1, 0, 4], [5, 4, 0]], ["a", "b", "c"])
    """
    matrix = _solved(matrix)
    n = len(matrix)
    names = _style.as_labels(range(n) if names is None else names, "names", n)
    has_numbers = n <= 24  # there is no room for more
    side = 1.8 + (0.62 if has_numbers else 0.18) * n
    figure, (axes,) = _style.start(figure, ax, path, (side + 0.8, side))
    image = axes.imshow(matrix, cmap="viridis")
    size = "medium" if n <= 12 else "small" if n <= 40 else "xx-small"
    for i, j in np.ndindex(n, n) if has_numbers else ():
        # Three digits, without a sign of zero or what all numbers would repeat.
        number = f"{matrix[i, j] + 0.0:.3g}".replace("e-0", "e-")
        color = "white" if 2 * matrix[i, j] <= matrix.min() + matrix.max() else "black"
        axes.text(j, i, number, ha="center", va="center", color=color, fontsize=8 if n <= 12 else 6)
    _style.name_ticks(axes.yaxis, names, fontsize=size)
    slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    _style.name_ticks(axes.xaxis, names, fontsize=size, **slanted)
    _style.frame(axes, title, grid=None)
    figure.colorbar(image, ax=axes, shrink=0.8, label="distance")
    return _style.finish(figure, path)


def plot_dendrogram(
    matrix: PairwiseResult | ArrayLike,
    names: Sequence[str] | None = None,
    *,
    groups: Sequence[object] | None = None,
    title: str = "Clusters of average distance",
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw which spaces are near one another as a tree of average linkage.

    Parameters
    ----------
    matrix : array-like of shape (n, n), or PairwiseResult
        Distances: symmetric and zero on the diagonal up to one percent of the largest.
    names : sequence of str, length n, or None, default=None
        None numbers them.
    groups : sequence of length n, optional
        Group of each space: names of a group, and branches within it, have one color.
    title, path, figure, ax : see `plot_dynamics`

    Examples
    --------
    >>> import gwfast.plot
    >>> figure = gwfast.plot.plot_dendrogram([[0, 1, 5], [1, 0, 4], [5, 4, 0]], ["a", "b", "c"])
    """
    distances = _as_distances(matrix)
    n = len(distances)
    names = _style.as_labels(names, "names", n)
    group_names, group_of = _groups_of(groups, n)
    palette = _style.colors(len(group_names))
    merges = linkage(squareform(distances, checks=False), method="average")
    # By SciPy's numbers of clusters.
    groups_in = [{group} for group in group_of]
    for first, second in merges[:, :2].astype(np.int64):
        groups_in.append(groups_in[first] | groups_in[second])
    branches = [palette[min(held)] if len(held) == 1 else _style.GREY for held in groups_in]
    # As high as a screen of 900 pixels, unless the letters would be too small to be read.
    size = (6, max(min(1.2 + 0.34 * n, 9), 1.2 + 0.1 * n))
    figure, (axes,) = _style.start(figure, ax, path, size)
    tree = dendrogram(
        merges, ax=axes, orientation="right", labels=names, link_color_func=branches.__getitem__
    )
    for label, leaf in zip(axes.get_yticklabels(), tree["leaves"], strict=True):
        label.set_parse_math(False)
        label.set_color(palette[group_of[leaf]] if groups is not None else "black")
    if groups is not None:
        handles = [Line2D([], [], color=color, linewidth=3) for color in palette]
        _style.legend(figure if ax is None else axes, handles, group_names, ncols=3)
    _style.frame(axes, title, "distance", grid="x")
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    return _style.finish(figure, path)


def plot_embedding(
    matrix: PairwiseResult | ArrayLike,
    names: Sequence[str] | None = None,
    *,
    groups: Sequence[object] | None = None,
    title: str = "Spaces by their distances",
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw spaces as points of the plane, about as far apart as they are.

    Classical multidimensional scaling (Torgerson, Psychometrika, 1952): axes say which share of the
    sum of absolute eigenvalues they have; their directions mean nothing.

    Parameters
    ----------
    matrix, names, title, path, figure, ax : see `plot_dendrogram`
    groups : sequence of length n, optional
        Group of each space: the points of a group have one color and one shape.

    Examples
    --------
    >>> import gwfast.plot
    >>> figure = gwfast.plot.plot_embedding([[0, 1, 5], [1, 0, 4], [5, 4, 0]], ["a", "b", "c"])
    """
    distances = _as_distances(matrix)
    n = len(distances)
    names = _style.as_labels(names, "names", n)
    group_names, group_of = _groups_of(groups, n)
    squares = np.square(distances)
    means = squares.mean(axis=0)
    values, vectors = np.linalg.eigh((means[:, None] + means - squares - means.mean()) / 2)
    # Where distances are not Euclidean some eigenvalues are negative, and no coordinates.
    largest, vectors = np.maximum(values[:-3:-1], 0), vectors[:, :-3:-1]
    vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), [0, 1]])
    places, shares = vectors * np.sqrt(largest), 100 * largest / (np.abs(values).sum() or 1)
    figure, (axes,) = _style.start(figure, ax, path, (6, 5))
    handles = []
    for number, color in enumerate(_style.colors(len(group_names))):
        style = {"s": 32, "color": color, "marker": _style.SHAPES[number % 6], "linewidth": 0}
        handles.append(axes.scatter(*places[group_of == number].T, **style))
    if groups is not None:
        _style.legend(figure if ax is None else axes, handles, group_names, ncols=3)
    style = {"textcoords": "offset points", "parse_math": False}
    for name, place in zip(names or [], places, strict=names is not None):
        axes.annotate(name, place, (4, 4), fontsize="small" if n <= 40 else "xx-small", **style)
    labels = f"first coordinate ({shares[0]:.0f} %)", f"second coordinate ({shares[1]:.0f} %)"
    _style.frame(axes, title, *labels)
    axes.set_aspect("equal", adjustable="datalim")
    return _style.finish(figure, path)


def _groups_of(groups, n):
    """Return the names of groups, and the number of the group of each of `n` spaces."""
    labels = _style.as_labels([""] * n if groups is None else groups, "groups", n)
    names = list(dict.fromkeys(labels))
    return names, np.array([names.index(label) for label in labels])


def _solved(matrix: Any) -> NDArray[Any]:
    """Return the distances, a square matrix; raise a ValueError if pairs were skipped."""
    matrix = as_table(_style.part_of(matrix, "distances"), "matrix")
    if n_skipped := np.count_nonzero(matrix == np.inf):
        raise ValueError(
            f"matrix must be finite, got inf for {n_skipped} entries: k_nearest skips pairs"
        )
    return as_square(matrix, "matrix")


def _as_distances(matrix):
    """Return a matrix that is nearly one of distances as float64, symmetric and not negative."""
    matrix = _solved(matrix).astype(np.float64)
    if len(matrix) < 2:
        raise ValueError(f"matrix must have at least two rows, got {len(matrix)}")
    for error, condition in (
        (-matrix, "not be negative"),
        (np.abs(matrix - matrix.T), "be symmetric"),
        (np.diag(np.abs(matrix.diagonal())), "be zero on its diagonal"),
    ):
        i, j = np.unravel_index(error.argmax(), error.shape)
        if error[i, j] > 0.01 * matrix.max():
            raise ValueError(f"matrix must {condition}, got {matrix[i, j]:.6g} at [{i}, {j}]")
    return np.maximum((matrix + matrix.T) / 2, 0)

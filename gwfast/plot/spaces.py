"""Spaces: the similarities inside each, and the distances between many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform

from ..problems.geometry import cosine_similarity
from ..results.pairwise import PairwiseResult
from ..utils.types import PathLike
from ..utils.validation import as_count, as_matrix, as_square
from . import _style
from ._style import Canvas, Panels

# Larger matrices have no room for numbers in their cells.
_MAX_NUMBERS = 24
# How far a matrix of distances may be from symmetric, and its diagonal from zero, as
# a fraction of the largest distance.
_ASYMMETRY = 1e-2
# Inches that a tree may be high while its leaves are at least so far apart: the height
# of a screen of 900 pixels, and of the smallest letters that can be read.
_SCREEN, _MIN_LEAF = 9.0, 0.1


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
    x : array-like of shape (n, d)
    y : array-like of shape (m, d')
    labels : sequence of two str, default=("source", "target")
    max_rows : int, default=2000
        Limit of the rows of each side whose pairs are counted; of more rows, `max_rows` are taken
        at even steps, and the legend says so.
    bins : int, default=120
    path, figure, ax
        See `plot_dynamics`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        If a side has less than two rows, or a row is zero.

    Examples
    --------
    >>> import gwfast.plot
    >>> from gwfast.words import load_sample
    >>> spanish, french, _ = load_sample()
    >>> figure = gwfast.plot.plot_distance_histograms(
    ...     spanish.vectors, french.vectors, labels=("es", "fr"), max_rows=200
    ... )
    >>> len(figure.axes)
    1
    """
    labels = _style.as_labels(labels, "labels", 2)
    max_rows, bins = as_count(max_rows, "max_rows", least=2), as_count(bins, "bins")
    samples, notes = [], []
    for side, name, label in zip((x, y), ("x", "y"), labels, strict=True):
        side = as_matrix(side, name)
        n = len(side)
        if n < 2:
            raise ValueError(f"{name} must have at least two rows, got {n}")
        taken = f"{n:,} rows"
        if n > max_rows:
            rows = np.linspace(0, n - 1, max_rows).astype(np.int64)
            side, taken = side[rows], f"{max_rows:,} of {taken}"
        cosine = cosine_similarity(side)[np.triu_indices(len(side), 1)]
        samples.append(cosine)
        mean, spread = cosine.mean(dtype=np.float64), cosine.std(dtype=np.float64)
        mean = round(mean, 3) + 0.0  # no "-0.000"
        numbers = f"mean {mean:.3f}, standard deviation {spread:.3f}"
        notes.append(f"{label}\n{numbers} ({taken})")
    low = float(min(map(np.min, samples)))
    high = float(max(map(np.max, samples)))
    edges = np.linspace(low, max(high, low + 1e-6), bins + 1)

    figure, (axes,) = _style.start(figure, ax, path, (7, 4))
    handles = []
    for sample, color, line in zip(samples, (_style.BLUE, _style.ORANGE), ("-", "--"), strict=True):
        density = np.histogram(sample, edges, density=True)[0]
        axes.stairs(density, edges, fill=True, color=color, alpha=0.15)
        outline = axes.stairs(density, edges, color=color, ls=line, linewidth=1.5)
        handles.append(outline)
        mean = sample.mean(dtype=np.float64)
        axes.axvline(mean, color=color, ls=line, linewidth=0.8)
    _style.frame(axes, "Cosine similarities within each space")
    _style.legend_below(figure, ax, handles, notes)
    axes.set_xlabel("cosine similarity of two rows of one space")
    axes.set_ylabel("density")
    return _style.finish(figure, path)


def plot_distances(
    matrix: PairwiseResult | ArrayLike,
    names: Sequence[str],
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
    names : sequence of str, length n
    title : str
    path, figure, ax
        See `plot_dynamics`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        If `matrix` is not square and finite, or the number of names is wrong.

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> distances = np.abs(np.subtract.outer([0, 1, 5], [0, 1, 5]))
    >>> figure = gwfast.plot.plot_distances(distances, ["a", "b", "c"])
    >>> len(figure.axes) > 0
    True
    """
    matrix = as_square(_style.part_of(matrix, "distances"), "matrix")
    n = len(matrix)
    names = _style.as_labels(names, "names", n)
    side = 1.8 + (0.62 if n <= _MAX_NUMBERS else 0.18) * n
    figure, (axes,) = _style.start(figure, ax, path, (side + 0.8, side))
    image = axes.imshow(matrix, cmap="viridis")
    if n <= _MAX_NUMBERS:
        middle = (matrix.min() + matrix.max()) / 2
        for i, j in np.ndindex(n, n):
            # Three digits, without a sign of zero or what all numbers would repeat.
            number = f"{matrix[i, j] + 0.0:.3g}".replace("e-0", "e-")
            axes.text(
                j, i, number, ha="center", va="center",
                fontsize="small" if n <= 12 else "xx-small",
                # On the dark and the light half of the scale.
                color="white" if matrix[i, j] <= middle else "black",
            )  # fmt: skip
    size = "medium" if n <= 12 else "small" if n <= 40 else "xx-small"
    _style.name_ticks(axes.yaxis, names, fontsize=size)
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    short = max(map(len, names)) <= 4 and n <= 12
    _style.name_ticks(axes.xaxis, names, fontsize=size, **({} if short else turned))
    axes.spines[:].set_visible(False)
    _style.entitle(axes, title)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, label="distance")
    bar.outline.set_visible(False)
    return _style.finish(figure, path)


def plot_dendrogram(
    matrix: PairwiseResult | ArrayLike,
    names: Sequence[str],
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
    names : sequence of str, length n
    groups : sequence of length n or None, default=None
        What each space belongs to: names of a group, and the branches that hold no
        other, have one color, and the legend has its ``str``.
    title, path, figure, ax
        See `plot_distances`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        If `matrix` is not a matrix of two or more finite, non-negative distances, or
        the number of names or groups is wrong.

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> distances = np.abs(np.subtract.outer([0, 1, 5], [0, 1, 5]))
    >>> figure = gwfast.plot.plot_dendrogram(distances, ["a", "b", "c"])
    >>> len(figure.axes)
    1
    """
    distances = _as_distances(matrix)
    n = len(distances)
    names = _style.as_labels(names, "names", n)
    kinds, kind_of, palette = [], np.zeros(n, dtype=np.int64), (_style.BLUE,)
    if groups is not None:
        kinds, kind_of, palette = _style.mark_groups(groups, n)
    # SciPy would draw through pyplot; it tells where the lines go.
    merges = linkage(squareform(distances, checks=False), method="average")
    branches = _branch_colors(merges, kind_of, palette)
    tree = dendrogram(merges, no_plot=True, link_color_func=branches.__getitem__)
    height = max(min(1.2 + 0.34 * n, _SCREEN), 1.2 + _MIN_LEAF * n)
    figure, (axes,) = _style.start(figure, ax, path, (6, height))
    lines = zip(tree["icoord"], tree["dcoord"], tree["color_list"], strict=True)
    for leaves, heights, color in lines:
        axes.plot(heights, leaves, color=color, linewidth=1.6)
    # Leaves are at 5, 15, 25, ...
    ordered, places = [names[leaf] for leaf in tree["leaves"]], range(5, 10 * n, 10)
    room = 72 * axes.bbox.height / axes.figure.dpi / n
    size = {"fontsize": float(np.clip(0.9 * room, 4, 10))}
    _style.name_ticks(axes.yaxis, ordered, positions=places, **size)
    for label, leaf in zip(axes.get_yticklabels(), tree["leaves"], strict=True):
        if kinds:
            label.set_color(palette[kind_of[leaf]])
    if kinds:
        handles = [Line2D([], [], color=color, linewidth=3) for color in palette]
        _style.legend_below(figure, ax, handles, kinds, ncols=min(len(kinds), 3))
    axes.set_ylim(0, 10 * n)
    axes.set_xlim(left=0)
    _style.frame(axes, title, grid="x")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("distance")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    return _style.finish(figure, path)


def _branch_colors(merges, kind_of, palette):
    """The color of each cluster of SciPy's numbering: of its group, or grey where it
    holds several.
    """
    held = [{kind} for kind in kind_of.tolist()]
    for one, other in merges[:, :2].astype(np.int64):
        held.append(held[one] | held[other])
    return [palette[min(kinds)] if len(kinds) == 1 else _style.GREY for kinds in held]


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

    By classical multidimensional scaling (Torgerson, Psychometrika, 1952): the largest two
    eigenvalues, and their eigenvectors, of the inner products that centered points with these
    distances would have. Axes say how much of the sum of the eigenvalues, absolute, each has
    (Mardia, Kent and Bibby, 1979, 14.4); which way they point means nothing.

    Parameters
    ----------
    matrix : array-like of shape (n, n), or PairwiseResult
        As in `plot_dendrogram`.
    names : sequence of str, length n, or None, default=None
        To be written beside the points.
    groups : sequence of length n or None, default=None
        What each space belongs to: the points of a group have one color and one shape,
        and the legend has its ``str``.
    title : str
    path, figure, ax
        See `plot_dynamics`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        If `matrix` is not a matrix of two or more finite, non-negative distances, or
        the number of names or groups is wrong.

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> distances = np.abs(np.subtract.outer([0, 1, 5], [0, 1, 5]))
    >>> figure = gwfast.plot.plot_embedding(distances, ["a", "b", "c"])
    >>> len(figure.axes)
    1
    """
    distances = _as_distances(matrix)
    n = len(distances)
    if names is not None:
        names = _style.as_labels(names, "names", n)
    found, group_of, palette = _style.mark_groups([""] * n if groups is None else groups, n)
    places, shares = _scaled(distances)
    figure, (axes,) = _style.start(figure, ax, path, (6, 5))
    handles = []
    for number, color in enumerate(palette):
        some = group_of == number
        shape = _style.SHAPES[number % len(_style.SHAPES)]
        style = dict(s=32, color=color, marker=shape, linewidth=0)
        handles.append(axes.scatter(*places[some].T, **style))
    if groups is not None:
        _style.legend_below(figure, ax, handles, found, ncols=min(len(found), 3))
    for name, place in zip(names or [], places, strict=names is not None):
        axes.annotate(
            name, place, (4, 4), textcoords="offset points",
            fontsize="small" if n <= 40 else "xx-small", parse_math=False,
        )  # fmt: skip
    _style.frame(axes, title)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(f"first coordinate ({100 * shares[0]:.0f} %)")
    axes.set_ylabel(f"second coordinate ({100 * shares[1]:.0f} %)")
    return _style.finish(figure, path)


def _as_distances(matrix):
    """As float64, symmetric and not negative; refused where it is not nearly so."""
    matrix = _style.part_of(matrix, "distances")
    matrix = np.asarray(as_square(matrix, "matrix"), dtype=np.float64)
    if len(matrix) < 2:
        raise ValueError(f"matrix must have at least two rows, got {len(matrix)}")
    limit = _ASYMMETRY * matrix.max()
    if matrix.min() < -limit:
        raise ValueError(f"matrix must not be negative, got {matrix.min():.6g}")
    i, j = np.unravel_index(np.abs(matrix - matrix.T).argmax(), matrix.shape)
    if abs(matrix[i, j] - matrix[j, i]) > limit:
        raise ValueError(
            f"matrix must be symmetric, got {matrix[i, j]:.6g} at [{i}, {j}] and"
            f" {matrix[j, i]:.6g} at [{j}, {i}]"
        )
    i = np.abs(matrix.diagonal()).argmax()
    if abs(matrix[i, i]) > limit:
        raise ValueError(
            f"matrix must be zero on its diagonal, got {matrix[i, i]:.6g} at [{i}, {i}]"
        )
    return np.maximum((matrix + matrix.T) / 2, 0)


def _scaled(distances):
    """Places (n, 2) of classical multidimensional scaling, and the share of the sum of
    the eigenvalues, absolute, that each coordinate has.
    """
    squares = np.square(distances)
    means = squares.mean(axis=0)
    values, vectors = np.linalg.eigh((means[:, None] + means - squares - means.mean()) / 2)
    # Where distances are not Euclidean some are negative, and no coordinate.
    largest, axes = np.maximum(values[:-3:-1], 0.0), vectors[:, :-3:-1]
    # Signs are arbitrary; these are the same everywhere.
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    return axes * np.sqrt(largest), largest / (np.abs(values).sum() or 1.0)

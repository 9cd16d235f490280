"""Two aligned spaces in one picture, such as cells of two data sets, or two slices of tissue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..utils.labels import in_order, labels_of
from ..utils.types import PathLike
from ..utils.validation import as_matrix
from . import _style
from ._style import Canvas, Panels

# Points of a space up to which their marks are large, and their areas in square points.
_FEW, _LARGE, _SMALL = 500, 22, 6


def plot_aligned(
    x: Any,
    y: Any = None,
    x_labels: Sequence[object] | None = None,
    y_labels: Sequence[object] | None = None,
    *,
    names: Sequence[str] = ("source", "target"),
    title: str = "Both spaces, aligned",
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw the points of two spaces that have been brought into one, colored by label.

    Parameters
    ----------
    x : array-like of shape (n, d), or an alignment
        Points of the first space in the second space, such as ``transform()`` of
        `gwfast.singlecell.align`, or ``obsm["X_gwfast"]`` of its AnnData objects; or
        the result of `gwfast.singlecell.align` or `gwfast.align`, without `y`.
    y : array-like of shape (m, d) or None, default=None
        Points of the second space. The picture has the two directions in which these
        vary most.
    x_labels : sequence of length n or None, default=None
        Labels of the points of `x`, such as types of cells: equal labels have
        one color, in both spaces. None leaves them grey.
    y_labels : sequence of length m or None, default=None
        The same of `y`.
    names : sequence of two str, default=("source", "target")
        Names of the spaces: points of the first are crosses, points of the second are dots.
    title : str
    path, figure, ax
        See `plot_dynamics`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        If `x` and `y` have not equally many columns, two at least, or the number of labels is
        wrong.

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> cells = np.random.default_rng(0).standard_normal((30, 4))
    >>> kinds = ["stem"] * 10 + ["grown"] * 20
    >>> figure = gwfast.plot.plot_aligned(cells[:20], cells, kinds[:20], kinds)
    >>> len(figure.axes)
    1
    """
    rows = labels_of(x), labels_of(y)
    if y is None and hasattr(x, "mapped_source"):
        x, y = x.mapped_source, x.mapped_target
    elif y is None and hasattr(x, "transform"):
        rows = x.gw.labels
        x, y = x.transform(), x.y
    x_labels = in_order(x_labels, "x_labels", rows[0], of="x")
    y_labels = in_order(y_labels, "y_labels", rows[1], of="y")
    x, y = (as_matrix(z, n).astype(np.float64) for z, n in ((x, "x"), (y, "y")))
    if x.shape[1] != y.shape[1] or y.shape[1] < 2:
        raise ValueError(
            "x and y must have equally many columns, two at least, got "
            f"{x.shape[1]} and {y.shape[1]}"
        )
    first, second = _style.as_labels(names, "names", 2)
    labels = [
        _labels(x_labels, "x_labels", len(x)), _labels(y_labels, "y_labels", len(y)),
    ]  # fmt: skip
    center, axes_of_y = y.mean(axis=0), _main_directions(y)

    figure, (axes,) = _style.start(figure, ax, path, (6, 5))
    palette = _palette(labels)
    _scatter(axes, [(z - center) @ axes_of_y for z in (x, y)], labels, palette)
    _legend(figure, ax, (first, second), palette)
    _style.frame(axes, title)
    axes.set_xlabel(f"first component of {second}", parse_math=False)
    axes.set_ylabel(f"second component of {second}", parse_math=False)
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
    """Draw two slices of tissue, before and after one has been moved onto the other.

    Parameters
    ----------
    a : array-like of shape (n, 2), or SliceAlignment
        Coordinates of the spots of the first slice, or the
        result of `gwfast.spatial.pairwise_align`, without `b` and `moved`.
    b : array-like of shape (m, 2) or None, default=None
        Coordinates of the spots of the second slice.
    moved : array-like of shape (n, 2) or None, default=None
        Coordinates of the first slice in the frame of the second: ``found.rigid()(a)`` or
        ``found.transform()`` of `gwfast.spatial.pairwise_align`.
    a_labels : sequence of length n or None, default=None
        Labels of the spots of `a`, such as regions: equal labels have one
        color, in both slices. None leaves them grey.
    b_labels : sequence of length m or None, default=None
        The same of `b`.
    names : sequence of two str, default=("first", "second")
        Names of the slices: spots of the first are crosses, spots of the second are dots.
    titles : sequence of two str
        Titles of both panels.
    path, figure, ax
        See `plot_dynamics`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        If coordinates have not two columns, or the number of labels is wrong.

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> spots = np.random.default_rng(0).uniform(0, 9, (30, 2))
    >>> figure = gwfast.plot.plot_slices(spots, spots[:, ::-1], spots[:, ::-1])
    >>> len(figure.axes)
    2
    """
    rows = labels_of(a), labels_of(b)
    if b is None and moved is None and hasattr(a, "rigid"):
        rows = a.gw.labels
        a, b, moved = a.a, a.b, a.rigid()(a.a)
    moved = in_order(moved, "moved", rows[0], of="a")
    a_labels = in_order(a_labels, "a_labels", rows[0], of="a")
    b_labels = in_order(b_labels, "b_labels", rows[1], of="b")
    a, b, moved = (
        as_matrix(z, n).astype(np.float64) for z, n in ((a, "a"), (b, "b"), (moved, "moved"))
    )
    shapes = [one.shape for one in (a, b, moved)]
    if {one[1] for one in shapes} != {2} or len(moved) != len(a):
        raise ValueError(
            "a, b and moved must have two columns, and moved the rows of a, got shapes "
            f"{shapes[0]}, {shapes[1]} and {shapes[2]}"
        )
    names, titles = (_style.as_labels(names, "names", 2), _style.as_labels(titles, "titles", 2))
    labels = [
        _labels(a_labels, "a_labels", len(a)), _labels(b_labels, "b_labels", len(b)),
    ]  # fmt: skip
    figure, panels = _style.start(figure, ax, path, (9, 4.5), (1, 2))
    palette = _palette(labels)
    for axes, places, title in zip(panels, (a, moved), titles, strict=True):
        _scatter(axes, [places, b], labels, palette)
        axes.set_aspect("equal")
        axes.set_xlabel("first coordinate")
        _style.frame(axes, title)
    _legend(figure, None if ax is None else panels[1], names, palette)
    return _style.finish(figure, path)


def _palette(labels):
    """A color for each label of either side."""
    kinds = sorted({label for some in labels for label in some or ()})
    return dict(zip(kinds, _style.colors(len(kinds)), strict=True))


def _scatter(axes, sides, labels, palette):
    """Both sides, (n, 2) each: dots first, so that crosses are seen on them."""
    for points, some, marker in zip(sides[::-1], labels[::-1], ("o", "+"), strict=True):
        painted = [palette[label] for label in some] if some else _style.GREY
        size = _LARGE if len(points) <= _FEW else _SMALL
        axes.scatter(*points.T, s=size, c=painted, marker=marker, linewidth=0.9)


def _legend(figure, ax, names, palette):
    """The names of both sides by their marks, and labels by their colors."""
    marks = [(marker, _style.GREY) for marker in ("o", "+")]
    marks += [("s", color) for color in palette.values()]
    handles = [Line2D([], [], marker=marker, color=color, linestyle="") for marker, color in marks]
    shown = [*names[::-1], *palette]
    _style.legend_below(figure, ax, handles, shown, ncols=min(len(shown), 4))


def _labels(labels, name, size):
    return None if labels is None else _style.as_labels(labels, name, size)


def _main_directions(points):
    """The two in which points vary most, (d, 2); the largest entry is positive."""
    _, _, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    directions = directions[:2]
    if len(directions) < 2:  # a single point
        directions = np.eye(2, points.shape[1])
    largest = np.abs(directions).argmax(axis=1)
    return (directions * np.sign(directions[np.arange(2), largest])[:, None]).T

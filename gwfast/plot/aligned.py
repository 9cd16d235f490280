"""Two aligned spaces in one picture, such as cells of two data sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from ..utils.types import PathLike
from ..utils.validation import as_matrix
from . import _style
from ._style import Canvas, Panels

# Points of a space up to which their marks are large, and their areas in square points.
_FEW, _LARGE, _SMALL = 500, 22, 6


def plot_aligned(
    x: ArrayLike,
    y: ArrayLike,
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
    x : array-like of shape (n, d)
        Points of the first space among those of the second, such as ``transform()`` of
        `gwfast.singlecell.align`, or ``obsm["X_gwfast"]`` of its AnnData objects.
    y : array-like of shape (m, d)
        Points of the second space. The picture has the two directions in which these
        vary most.
    x_labels : sequence of length n or None, default=None
        Labels of the points of `x`, such as types of cells: those with one ``str`` have
        one color, in both spaces. None leaves them grey.
    y_labels : sequence of length m or None, default=None
        The same of `y`.
    names : sequence of two str, default=("source", "target")
        Of the spaces: points of the first are crosses, those of the second are dots.
    title : str
    path, figure, ax
        See `plot_dynamics`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        If `x` and `y` have not equally many columns, two at least, or labels are not as
        many as the points.

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> cells = np.random.default_rng(0).standard_normal((30, 4))
    >>> kinds = ["stem"] * 10 + ["grown"] * 20
    >>> figure = gwfast.plot.plot_aligned(cells[:20], cells, kinds[:20], kinds)
    >>> len(figure.axes)
    1
    """
    x, y = (as_matrix(z, n).astype(np.float64) for z, n in ((x, "x"), (y, "y")))
    if x.shape[1] != y.shape[1] or y.shape[1] < 2:
        raise ValueError(
            "x and y must have equally many columns, two at least, got "
            f"{x.shape[1]} and {y.shape[1]}"
        )
    first, second = _style.as_labels(names, "names", 2)
    # Dots come first, so that crosses are seen on them.
    sides = [
        (second, y, _labels(y_labels, "y_labels", len(y)), "o"),
        (first, x, _labels(x_labels, "x_labels", len(x)), "+"),
    ]
    kinds = sorted({label for *_, labels, _ in sides for label in labels or ()})
    palette = dict(zip(kinds, _style.colors(len(kinds)), strict=True))
    center, axes_of_y = y.mean(axis=0), _main_directions(y)

    figure, (axes,) = _style.start(figure, ax, path, (6, 5))
    for _, points, labels, marker in sides:
        painted = [palette[label] for label in labels] if labels else _style.GREY
        size = _LARGE if len(points) <= _FEW else _SMALL
        places = ((points - center) @ axes_of_y).T
        axes.scatter(*places, s=size, c=painted, marker=marker, linewidth=0.9)
    marks = [(marker, _style.GREY) for *_, marker in sides]
    marks += [("s", palette[kind]) for kind in kinds]
    handles = [
        Line2D([], [], marker=marker, color=color, linestyle="")
        for marker, color in marks
    ]
    shown = [second, first, *kinds]
    _style.legend_below(figure, ax, handles, shown, ncols=min(len(shown), 4))
    _style.frame(axes, title)
    axes.set_xlabel(f"first component of {second}", parse_math=False)
    axes.set_ylabel(f"second component of {second}", parse_math=False)
    return _style.finish(figure, path)


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

"""Parts of all pictures: colors, frames, text that is taken literally, files."""

import io
import os
from collections.abc import Sequence
from typing import Protocol

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure, SubFigure

from ..results.result import GWResult

# Parents of a picture.
Canvas = Figure | SubFigure
Panels = Axes | Sequence[Axes]


class HoldsResult(Protocol):
    """An alignment with the result of its solve."""

    @property
    def gw(self) -> GWResult: ...


# Okabe and Ito's palette: told apart with every kind of color vision. Their yellow,
# too light for a line on white, is left out.
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, SKY, AMBER = "#cc79a7", "#56b4e9", "#e69f00"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER)
GREY, GRID = "#767676", "#e5e5e5"
# Shapes beside colors, so that a picture also works in grey.
SHAPES = ("o", "s", "D", "^", "v", "P")


def part_of(result, *names):
    """Return an attribute of a result, the first of `names` that it has, or what is no
    result. The result may be in an alignment's `gw`, or in an estimator's `result_`."""
    for holder in ("result_", "gw"):
        result = getattr(result, holder, result)
    return next((getattr(result, name) for name in names if hasattr(result, name)), result)


def colors(n):
    """`n` colors: of the palette, or of an even scale where they are more."""
    if n <= len(PALETTE):
        return PALETTE[:n]
    return tuple(map(to_hex, colormaps["viridis"](np.linspace(0, 0.92, n))))


class Picture(Figure):
    """A figure that a notebook shows once, as the value of a cell or at its end."""

    def _ipython_display_(self):
        from matplotlib import pyplot

        # The inline backend shows all figures of pyplot when the cell ends.
        if "inline" in matplotlib.get_backend():
            pyplot.close(self)
        raise NotImplementedError  # IPython goes on to the other representations

    def _repr_png_(self):
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()


def start(figure, ax, path, size, shape=(1, 1), **grid):
    """Return the figure to draw into, and a list of its panels.

    Where neither a figure nor axes are given, a new figure of `size` inches is made. It
    belongs to pyplot, as every Matplotlib user expects, unless a file is all that was
    asked for. An `ax` that several panels share gives them its place.
    """
    if ax is not None:
        if figure is not None:
            raise ValueError("figure must be None where ax is given")
        return _given(ax, shape, grid)
    if figure is None and path is None:
        from matplotlib import pyplot

        figure = pyplot.figure(FigureClass=Picture, figsize=size, layout="constrained")
    elif figure is None:
        figure = Picture(figsize=size, layout="constrained")
    return figure, list(figure.subplots(*shape, squeeze=False, **grid).flat)


def _given(ax, shape, grid):
    """The figure and the panels of axes that a caller has."""
    panels, count = list(np.ravel(np.asarray(ax, dtype=object))), np.prod(shape)
    if not all(isinstance(one, Axes) for one in panels):
        came = {type(one).__name__ for one in panels}
        raise TypeError(f"ax must be Axes of matplotlib, got {', '.join(sorted(came))}")
    if len(panels) == 1 < count:
        place = panels[0].get_subplotspec()
        if place is None:
            raise ValueError(
                f"ax must be of a grid, as pyplot.subplots makes it, to hold {count} panels"
            )
        panels[0].set_axis_off()
        heights = grid.pop("height_ratios", None)
        inner = place.subgridspec(*shape, height_ratios=heights)
        panels = list(inner.subplots(squeeze=False, **grid).flat)
    if len(panels) != count:
        raise ValueError(f"ax must be one Axes, or {count}, got {len(panels)}")
    return panels[0].figure, panels


def finish(figure, path):
    """Write the file that was asked for; returns the figure."""
    if path is not None:
        # A subfigure is written with its whole figure.
        figure.figure.savefig(os.fsdecode(path), dpi=150)
    return figure


def frame(axes, title, *, grid="both"):
    """Two spines, a faint grid, and a title that reads from the left."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    entitle(axes, title)


def entitle(axes, title):
    # Names come from outside: a dollar sign in them is no formula.
    axes.set_title(title, fontsize="medium", loc="left", parse_math=False)


def legend(parent, handles, labels, **where):
    """A legend of labels as they are: no formulas, and none hidden for its
    underscore."""
    box = parent.legend(handles, [" "] * len(labels), frameon=False, **where)
    for text, label in zip(box.get_texts(), labels, strict=True):
        text.set_parse_math(False)
        text.set_text(label)
    return box


def legend_below(figure, ax, handles, labels, **columns):
    """A legend below the picture, or inside of the axes `ax` where these were given:
    what is around them belongs to others.
    """
    if ax is None:
        where = {"loc": "outside lower center", **columns}
        return legend(figure, handles, labels, **where)
    (axes,) = np.ravel(np.asarray(ax, dtype=object))
    return legend(axes, handles, labels, loc="best", fontsize="small")


def mark_groups(groups, size):
    """The names of groups, the number of each one's group, and their colors."""
    labels = as_labels(groups, "groups", size)
    names = list(dict.fromkeys(labels))
    return names, np.array([names.index(one) for one in labels]), colors(len(names))


def name_ticks(axis, labels, *, positions=None, **style):
    """A tick for every label."""
    if positions is None:
        positions = range(len(labels))
    axis.set_ticks(positions, labels=labels, parse_math=False, **style)
    axis.set_tick_params(length=0)


def as_labels(labels, name, size):
    """`labels` as a list of `size` str."""
    labels = [labels] if isinstance(labels, str) else list(map(str, labels))
    if len(labels) != size:
        raise ValueError(f"{name} must be {size} names, got {len(labels)}")
    return labels

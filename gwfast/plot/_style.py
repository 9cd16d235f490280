"""Parts of all pictures: colors, frames, text that is taken literally, files."""

import itertools
import os
from collections.abc import Sequence
from typing import Protocol

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure, SubFigure
from matplotlib.transforms import Bbox

from ..results.result import GWResult
from ..utils.labels import in_order

Canvas = Figure | SubFigure
# Places of a text beside a point: above and below before the sides.
_ALONG = (1, "bottom"), (-1, "top"), (0, "center")
_ACROSS = (0, "center"), (1, "left"), (-1, "right")
Panels = Axes | Sequence[Axes]

# The palette of Okabe and Ito, which is legible with every kind of color vision, without its
# yellow, which is too light for a line on white.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
BLUE, ORANGE, _, PURPLE, SKY, _ = PALETTE
GREY, GRID = "#767676", "#e5e5e5"
# Shapes beside colors, so that a picture also works in grey.
SHAPES = ("o", "s", "D", "^", "v", "P")


class HoldsResult(Protocol):
    """An alignment with the result of its solve."""

    @property
    def gw(self) -> GWResult: ...


class Picture(Figure):
    """A figure that a notebook shows once, as the value of a cell or at the end of the cell."""

    def _ipython_display_(self):
        # The inline backend shows all figures of pyplot when the cell ends.
        if "inline" in matplotlib.get_backend():
            matplotlib.pyplot.close(self)
        raise NotImplementedError  # IPython goes on to its own representation of figures


def part_of(result, *names):
    """Return the first attribute in `names` of a result, or of the result in an alignment or an
    estimator; return anything else as it is.
    """
    for holder in ("result_", "gw"):
        result = getattr(result, holder, result)
    return next((getattr(result, name) for name in names if hasattr(result, name)), result)


def colors(n):
    """Return `n` colors: of the palette, or of an even scale if there are more."""
    if n <= len(PALETTE):
        return PALETTE[:n]
    return tuple(map(to_hex, colormaps["viridis"](np.linspace(0, 0.92, n))))


def start(figure, ax, path, size, shape=(1, 1), ratios=None, **shared):
    """Return the figure to draw into, and its panels; a lone Axes is divided among several panels.

    A new figure of `size` inches belongs to pyplot unless only a file is wanted.
    """
    grid, options = {"height_ratios": ratios}, {"figsize": size, "layout": "constrained"}
    if ax is None:
        if figure is None and path is None:
            import matplotlib.pyplot

            figure = matplotlib.pyplot.figure(FigureClass=Picture, **options)
        figure = figure or Figure(**options)
        return figure, [*figure.subplots(*shape, squeeze=False, gridspec_kw=grid, **shared).flat]
    if figure is not None:
        raise ValueError("figure must be None if ax is given")
    panels = [*np.ravel(np.asarray(ax, dtype=object))]
    if not all(isinstance(panel, Axes) for panel in panels):
        raise TypeError(f"ax must be Axes of matplotlib, got {ax!r}")
    if len(panels) == 1 < np.prod(shape) and (place := panels[0].get_subplotspec()):
        panels[0].set_axis_off()
        panels = [*place.subgridspec(*shape, **grid).subplots(squeeze=False, **shared).flat]
    if len(panels) != np.prod(shape):
        raise ValueError(f"ax must be {np.prod(shape)} Axes, got {len(panels)} outside of a grid")
    return panels[0].figure, panels


def finish(figure, path):
    """Write the file, if there is a path, and return the figure."""
    if path is not None:
        # A subfigure is written with its whole figure.
        figure.figure.savefig(os.fsdecode(path), dpi=150)
    return figure


def frame(axes, title, xlabel="", ylabel="", grid="both"):
    """Draw two spines, a faint grid along `grid`, and a title that reads from the left."""
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(axis=grid, color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    # A dollar sign in a name begins no formula.
    axes.set_title(title, fontsize="medium", loc="left", parse_math=False)
    axes.set_xlabel(xlabel, parse_math=False)
    axes.set_ylabel(ylabel, parse_math=False)


def legend(parent, handles, labels, ncols=1):
    """Draw a legend below a figure, or in axes, of labels as they are: without formulas, and with
    leading underscores.
    """
    place = {} if isinstance(parent, Axes) else {"loc": "outside lower center", "ncols": ncols}
    box = parent.legend(handles, [" "] * len(labels), frameon=False, **place)
    for text, label in zip(box.get_texts(), labels, strict=True):
        text.set(parse_math=False, text=label)


def annotate(axes, notes):
    """Write texts beside points, each ``(text, place, color)``, where they cover least of one
    another, of the points and of the lines.
    """
    axes.figure.figure.draw_without_rendering()  # pixels of places depend on the layout
    to_pixels = axes.transData.transform
    points = [to_pixels(place) for _, place, _ in notes]
    for line in axes.lines:
        points += [*np.linspace(*to_pixels(line.get_xydata())[[0, -1]], 9)]
    covered = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in points]
    for text, place, color in notes:
        note = axes.annotate(
            text, place, (0, 0), textcoords="offset points", color=color, parse_math=False
        )
        trials = []
        for distance, (x, ha), (y, va) in itertools.product((5, 12, 20), _ACROSS, _ALONG):
            if x or y:
                note.set(position=(distance * x, distance * y), ha=ha, va=va)
                box = note.get_window_extent()
                shared = (Bbox.intersection(box, other) for other in covered)
                cost = sum(
                    overlap.width * overlap.height for overlap in shared if overlap is not None
                )
                trials.append((cost + distance, len(trials), note.get_position(), ha, va, box))
        *_, position, ha, va, box = min(trials)
        note.set(position=position, ha=ha, va=va)
        covered.append(box)


def name_ticks(axis, labels, **style):
    """Draw a tick for every label."""
    axis.set_ticks(range(len(labels)), labels=labels, parse_math=False, **style)
    axis.set_tick_params(length=0)


def as_labels(labels, name, size, order=None, of=""):
    """Return `labels` as a list of `size` str, by the labels `order` of the argument `of`."""
    if labels is None:
        return None
    labels = in_order(labels, name, order, of=of)
    labels = [labels] if isinstance(labels, str) else list(map(str, labels))
    if len(labels) != size:
        raise ValueError(f"{name} must be {size} names, got {len(labels)}")
    return labels

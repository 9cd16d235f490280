"""What all pictures share: colors, frames, text that is taken literally, files."""

import os

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure, SubFigure

# What a picture may be drawn into.
Canvas = Figure | SubFigure

# Okabe and Ito's palette: told apart with every kind of color vision. Their yellow,
# too light for a line on white, is left out.
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, SKY, AMBER = "#cc79a7", "#56b4e9", "#e69f00"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER)
GREY, GRID = "#767676", "#e5e5e5"
# Shapes beside colors, so that a picture also works in grey.
SHAPES = ("o", "s", "D", "^", "v", "P")


def colors(n):
    """`n` colors: of the palette, or of an even scale where they are more."""
    if n <= len(PALETTE):
        return PALETTE[:n]
    return tuple(map(to_hex, colormaps["viridis"](np.linspace(0, 0.92, n))))


def start(figure, size):
    """The figure to draw into, and a new one of `size` inches where none was given."""
    return Figure(figsize=size, layout="constrained") if figure is None else figure


def finish(figure, path):
    """Write the file that was asked for; returns the figure."""
    if path is not None:
        # Of a subfigure, all it is in.
        path = os.fsdecode(path) if isinstance(path, bytes) else path
        figure.figure.savefig(path, dpi=150)
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

"""How a solve went: its iterations, and the starts that it tried."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from ..results.records import OuterStep
from ..results.result import GWResult
from ..results.tables import Candidate
from ..utils.types import PathLike
from ..utils.validation import as_array
from . import _style
from ._style import Canvas, Panels

Steps = Sequence[OuterStep]
Result = GWResult | _style.HoldsResult

# Markers of more iterations than this would merge into a band.
_MAX_MARKERS = 60
_TITLE_WIDTH = 76

# Fates of candidates: the beginning of `fate`, its name here, shape and color. Hollow shapes
# are candidates that lost.
_FATES = (
    ("won", "won", "*", _style.ORANGE),
    ("went on", "went on to more points", "o", _style.BLUE),
    ("tie", "another optimum, as good", "D", _style.PURPLE),
    ("same", "on the way to the same optimum", "s", _style.SKY),
    ("dropped", "dropped", "v", _style.GREY),
    ("", "lost at the end", "X", _style.GREY),
)


def plot_dynamics(
    history: Result | Steps | Mapping[str, Result | Steps],
    *,
    accuracy: Mapping[str, float] | None = None,
    accuracy_history: ArrayLike | Mapping[str, ArrayLike] | None = None,
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw objective and errors of every outer iteration, of one solve or several.

    Parameters
    ----------
    history : GWResult, an alignment or sequence, or mapping of str to these
        A result, what `gwfast.align`, `spatial.pairwise_align` or `singlecell.align`
        returns, or a history: steps with `gw_cost`, `change` and `marginal_error`. A
        mapping draws several solves over one another, under their names.
    accuracy : mapping of str to float, optional
        Shares that the title shows, such as ``{"coupling P@1": 0.61}``.
    accuracy_history : array-like of shape (n_steps,), or mapping of str to these
        Share of right matches after every iteration, nan where it is not known; a
        mapping where `history` is one.
    path : str or path-like, optional
        Write the picture there, in the format its suffix names, and show it nowhere.
    figure : matplotlib Figure or SubFigure, optional
        Draw into this one instead of a new one.
    ax : matplotlib Axes, or sequence of these, optional
        Draw into these, one for each panel. Several panels divide the place of a single
        one among them, which then has to be of a grid, as ``pyplot.subplots`` makes it.

    Returns
    -------
    matplotlib Figure or SubFigure
        The figure of `ax` if given. Otherwise ``figure.axes`` are the axes of the objective, of
        the accuracy if there is any, and of the errors.

    Raises
    ------
    ValueError
        If there is no step to draw, or `accuracy_history` does not fit `history`.

    Examples
    --------
    >>> import numpy as np, gwfast, gwfast.plot
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> result = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1])
    >>> figure = gwfast.plot.plot_dynamics(result.history)
    >>> len(figure.axes)
    2
    """
    single = not isinstance(history, Mapping)
    runs, curves = _as_runs(history, accuracy_history)
    heights = (3, 2) if curves is None else (3, 3, 2)
    size, shape = (7, 5 if curves is None else 7), (len(heights), 1)
    grid = {"sharex": True, "height_ratios": heights}
    figure, panels = _style.start(figure, ax, path, size, shape, **grid)
    top, bottom = panels[0], panels[-1]
    palette = _style.colors(len(runs))
    for k, (name, steps) in enumerate(runs.items()):
        style = {
            "color": palette[k],
            "marker": _style.SHAPES[k % len(_style.SHAPES)],
            "markersize": 3.5 if len(steps) <= _MAX_MARKERS else 0,
        }
        _draw_solve(panels, steps, None if curves is None else curves[name], style)
    lines = bottom.lines
    if single:
        for line, color in zip(lines, (_style.ORANGE, _style.GREEN), strict=True):
            line.set(color=color, linestyle="-")
        end = [values[-1] for values in top.lines[0].get_data()]
        style = {"textcoords": "offset points", "ha": "right", "color": _style.BLUE}
        top.annotate(f"{end[1]:.5g}", end, (0, 8), **style)
    else:
        _style.legend(top, top.lines, list(runs))
        lines = [Line2D([], [], color=_style.GREY, linestyle=s) for s in ("-", ":")]
    _style.legend(bottom, lines, ("change", "marginal error"), ncols=2)
    _style.frame(top, _title(accuracy))
    top.set_ylabel("gw_cost")
    if curves is not None:
        _style.frame(panels[1], "Accuracy")
        panels[1].set_ylabel("share right")
    _style.frame(bottom, "")
    bottom.set_yscale("log")
    bottom.set_xlabel("outer iteration")
    bottom.set_ylabel("relative size")
    longest = max(map(len, runs.values()))
    bottom.set_xlim(1 - max(0.5, 0.03 * longest), longest + max(0.5, 0.03 * longest))
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _style.finish(figure, path)


def _draw_solve(panels, steps, curve, style):
    """Objective, accuracy if there is any, and errors of one solve."""
    iterations = np.arange(1, len(steps) + 1)
    panels[0].plot(iterations, [step.gw_cost for step in steps], **style)
    if curve is not None:
        panels[1].plot(iterations, curve, **style)
    for name, line in (("change", "-"), ("marginal_error", ":")):
        values = np.array([getattr(step, name) for step in steps], dtype=np.float64)
        # A log axis has no place for 0, nor for the inf of the first change.
        values[~((values > 0) & np.isfinite(values))] = np.nan
        panels[-1].plot(iterations, values, linestyle=line, **style)


def _title(accuracy):
    title = "Gromov-Wasserstein objective per outer iteration"
    if not accuracy:
        return title
    # Lines break between scores, not within.
    scores = [f"{name} {share:.1%}" for name, share in accuracy.items()]
    joined = ", ".join(score.replace(" ", "\xa0") for score in scores)
    return f"{title}\n" + textwrap.fill(joined, _TITLE_WIDTH).replace("\xa0", " ")


def plot_candidates(
    candidates: Result | Iterable[Candidate],
    *,
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw the objective that every start was stopped at, level by level.

    Objectives are comparable within a level: fewer points are another problem.

    Parameters
    ----------
    candidates : sequence of Candidate, or a result
        ``result.candidates``, or a result that has them, as in `plot_dynamics`.
    path, figure, ax
        See `plot_dynamics`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        If `candidates` is empty, as it is where one start was given.

    Examples
    --------
    >>> import numpy as np, gwfast, gwfast.plot
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> result = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1])
    >>> figure = gwfast.plot.plot_candidates(result.candidates)
    >>> len(figure.axes) > 0
    True
    """
    candidates = list(_style.part_of(candidates, "candidates"))
    if not candidates:
        raise ValueError("candidates must hold at least one, got none")
    lines: list[Any] = []  # headings of levels, which are str, and candidates
    for level, rows in groupby(
        candidates, lambda row: f"{row.n_points} points, epsilon {row.epsilon:.3g}"
    ):
        lines += [level, *rows]
    size = (7, 1.4 + 0.24 * len(lines))
    figure, (axes,) = _style.start(figure, ax, path, size)
    _style.name_ticks(axes.yaxis, [getattr(line, "start", line) for line in lines])
    used = {}
    for y, (line, label) in enumerate(zip(lines, axes.get_yticklabels(), strict=True)):
        if isinstance(line, str):
            label.set_fontstyle("italic")
            if y:
                axes.axhline(y - 0.5, color=_style.GREY, linewidth=0.6)
            continue
        fate = next(fate for fate in _FATES if line.fate.startswith(fate[0]))
        _, _, shape, color = fate
        used[fate] = axes.scatter(
            line.gw_cost,
            y,
            s=110 if shape == "*" else 36,
            marker=shape,
            color=color if fate in _FATES[:3] else "none",
            edgecolors=color,
            zorder=3,
        )
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.margins(x=0.08)
    shown = [fate for fate in _FATES if fate in used]
    marks, names = [used[fate] for fate in shown], [fate[1] for fate in shown]
    _style.legend_below(figure, ax, marks, names, ncols=2)
    _style.frame(axes, "Starts that were tried", grid="x")
    axes.set_xlabel("gw_cost when it was stopped")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    return _style.finish(figure, path)


def _as_runs(history, curves):
    """Both by the name of the solve, checked; one solve has no name."""
    if isinstance(history, Mapping):
        runs = dict(history)
    else:
        runs, curves = {"": history}, None if curves is None else {"": curves}
    if not runs:
        raise ValueError("history must hold at least one solve, got none")
    runs = {name: _style.part_of(run, "history") for name, run in runs.items()}
    for name, steps in runs.items():
        if not len(steps):
            of = f" of {name!r}" if name else ""
            raise ValueError(f"history{of} must hold at least one step, got none")
    if curves is None:
        return runs, None
    if not isinstance(curves, Mapping) or set(curves) != set(runs):
        came = sorted(curves) if isinstance(curves, Mapping) else type(curves).__name__
        raise ValueError(
            f"accuracy_history must be a mapping with the names of history,"
            f" {sorted(runs)}, got {came}"
        )
    for name, curve in curves.items():
        shape = as_array(curve, "accuracy_history").shape
        if shape != (len(runs[name]),):
            raise ValueError(
                f"accuracy_history must have a share for each of the"
                f" {len(runs[name])} steps, got shape {shape}"
            )
    return runs, curves

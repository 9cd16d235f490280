"""Solves: their iterations, the starts that they tried, and their plans."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from scipy import sparse

from ..results.coupling import Coupling
from ..results.records import OuterStep
from ..results.result import GWResult, SinkhornResult
from ..results.tables import Candidate
from ..utils.types import PathLike
from ..utils.validation import as_array, as_matrix
from . import _style
from ._style import Canvas, Panels

Steps = Sequence[OuterStep]
Result = GWResult | _style.HoldsResult
Plan = Coupling | SinkhornResult | Result | ArrayLike

# Fates of candidates: the beginning of `fate`, its name here, shape and color; hollow shapes lost.
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
    """Draw the objective, the accuracy if given, and the errors of every outer iteration.

    Parameters
    ----------
    history : GWResult, alignment, estimator or sequence of steps, or mapping of str to these
        Steps have `gw_cost`, `change` and `marginal_error`. A mapping draws several solves over one
        another, under their names.
    accuracy : mapping of str to float, optional
        Shares that the title shows, such as ``{"plan P@1": 0.61}``.
    accuracy_history : array-like of shape (n_steps,), or mapping of str to these, optional
        Share of right matches after every iteration, nan if unknown; a mapping if `history` is one.
    path : str or path-like, optional
        File to write, in the format of its suffix; the picture is then shown nowhere.
    figure : matplotlib Figure or SubFigure, optional
        Figure to draw into, in place of a new figure.
    ax : matplotlib Axes or sequence of Axes, optional
        Axes to draw into, one for each panel; several panels divide the place of a lone Axes.

    Examples
    --------
    >>> import numpy as np, gwfast, gwfast.plot
    >>> cost = np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0) ** 2))
    >>> figure = gwfast.plot.plot_dynamics(gwfast.gromov_wasserstein(cost, cost[::-1, ::-1]))
    """
    runs, curves = _runs_of(history, accuracy_history)
    ratios = (3, 2) if curves is None else (3, 3, 2)
    size, shape = (7, 1 + 2 * len(ratios)), (len(ratios), 1)
    figure, panels = _style.start(figure, ax, path, size, shape, ratios, sharex=True)
    top, bottom, longest = panels[0], panels[-1], max(map(len, runs.values()))
    for k, (name, steps) in enumerate(runs.items()):
        style = {"color": _style.colors(len(runs))[k], "marker": _style.SHAPES[k % 6]}
        # Markers of many iterations would merge into a band.
        style["markersize"] = 3.5 if len(steps) <= 60 else 0
        iterations = np.arange(1, len(steps) + 1)
        top.plot(iterations, [step.gw_cost for step in steps], **style)
        if curves is not None:
            panels[1].plot(iterations, curves[name], **style)
        for error, line in (("change", "-"), ("marginal_error", ":")):
            values = np.array([getattr(step, error) for step in steps], dtype=np.float64)
            # A log axis has no place for 0, nor for the inf of the first change.
            values[~((values > 0) & (values < np.inf))] = np.nan
            bottom.plot(iterations, values, linestyle=line, **style)
    if isinstance(history, Mapping):
        _style.legend(top, top.lines, list(runs))
    else:
        end = longest, runs[""][-1].gw_cost
        top.annotate(f"{end[1]:.5g}", end, (0, 8), textcoords="offset points", ha="right")
    lines = [Line2D([], [], color=_style.GREY, linestyle=line) for line in ("-", ":")]
    _style.legend(bottom, lines, ("change", "marginal error"))
    # Lines of the title break between scores, not within.
    scores = [
        f"{name} {share:.1%}".replace(" ", "\xa0") for name, share in (accuracy or {}).items()
    ]
    title = textwrap.fill(", ".join(scores), 76).replace("\xa0", " ")
    title = f"Gromov-Wasserstein objective per outer iteration\n{title}".rstrip()
    _style.frame(top, title, ylabel="gw_cost")
    if curves is not None:
        _style.frame(panels[1], "Accuracy", ylabel="share right")
    _style.frame(bottom, "", "outer iteration", "relative size")
    bottom.set_yscale("log")
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _style.finish(figure, path)


def _runs_of(history, curves):
    """Return steps and accuracies by the name of the solve, checked; a lone solve has no name."""
    if not isinstance(history, Mapping):
        history, curves = {"": history}, None if curves is None else {"": curves}
    runs = {name: _style.part_of(run, "history") for name, run in history.items()}
    if not runs or not all(map(len, runs.values())):
        raise ValueError("history must hold at least one step of each solve, got none")
    if curves is not None and (not isinstance(curves, Mapping) or curves.keys() != runs.keys()):
        expected = f"a mapping with the names of history, {sorted(runs)}"
        raise ValueError(f"accuracy_history must be {expected}, got {curves!r:.60}")
    for name, curve in (curves or {}).items():
        shape, n_steps = as_array(curve, "accuracy_history").shape, len(runs[name])
        if shape != (n_steps,):
            raise ValueError(f"accuracy_history must have shape ({n_steps},), got {shape}")
    return runs, curves


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
    candidates : GWResult, alignment, estimator or sequence of Candidate
        A result has none if one start was given.
    path, figure, ax : see `plot_dynamics`

    Examples
    --------
    >>> import numpy as np, gwfast, gwfast.plot
    >>> cost = np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0) ** 2))
    >>> figure = gwfast.plot.plot_candidates(gwfast.gromov_wasserstein(cost, cost[::-1, ::-1]))
    """
    candidates = list(_style.part_of(candidates, "candidates"))
    if not candidates:
        raise ValueError("candidates must hold at least one, got none")
    figure, (axes,) = _style.start(figure, ax, path, (7, 1.8 + 0.26 * len(candidates)))
    names: list[str] = []
    marks = {}
    for level, rows in groupby(candidates, lambda row: (row.n_points, row.epsilon)):
        axes.axhline(len(names) - 0.5, color=_style.GREY, linewidth=0.6)
        names.append("{} points, epsilon {:.3g}".format(*level))
        for row in rows:
            fate = next(fate for fate in _FATES if row.fate.startswith(fate[0]))
            _, label, shape, color = fate
            marks[label] = axes.scatter(
                row.gw_cost,
                len(names),
                s=110 if shape == "*" else 36,
                marker=shape,
                zorder=3,
                color=color if fate in _FATES[:3] else "none",
                edgecolors=color,
            )
            names.append(row.start)
    _style.name_ticks(axes.yaxis, names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    _style.legend(figure if ax is None else axes, marks.values(), [*marks], ncols=2)
    _style.frame(axes, "Starts that were tried", "gw_cost when it was stopped", grid="x")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    return _style.finish(figure, path)


def plot_plan(
    plan: Plan,
    row_labels: Sequence[str] | None = None,
    col_labels: Sequence[str] | None = None,
    *,
    title: str = "Where the mass of every row goes",
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw a plan as a heat map, every row as shares of its mass.

    Parameters
    ----------
    plan : Coupling, array-like or sparse array of shape (n, m), or a result with a plan
        Neighboring rows and columns above 150 are added up; a `Coupling` is never made an array.
    row_labels, col_labels : sequence of str, optional
        Left out if there are more than 60.
    title, path, figure, ax : see `plot_dynamics`

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> figure = gwfast.plot.plot_plan(np.eye(3) / 3, ["a", "b", "c"])
    """
    return plot_plans({title: plan}, row_labels, col_labels, path=path, figure=figure, ax=ax)


def plot_plans(
    plans: Mapping[str, Plan],
    row_labels: Sequence[str] | None = None,
    col_labels: Sequence[str] | None = None,
    *,
    path: PathLike | None = None,
    figure: Canvas | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Draw several plans side by side, on one color scale, such as plans of several epsilons.

    Parameters
    ----------
    plans : mapping of str, the titles, to plans of one shape as in `plot_plan`
    row_labels, col_labels, path, figure, ax : see `plot_plan`

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> plans = {"sharp": np.eye(3) / 3, "flat": np.ones((3, 3)) / 9}
    >>> figure = gwfast.plot.plot_plans(plans)
    """
    checked = {name: _as_plan(plan) for name, plan in dict(plans).items()}
    shapes = sorted({plan.shape for plan in checked.values()})
    if len(shapes) != 1:
        raise ValueError(f"plans must be of one shape, got {shapes}")
    ((n, m),) = shapes
    rows = _style.as_labels(row_labels, "row_labels", n)
    columns = _style.as_labels(col_labels, "col_labels", m)
    images = [_shares(plan) for plan in checked.values()]
    width = min(max(5 * m / n, 3), 7, 13 / len(plans))
    size = (len(plans) * width + 1.2, min(5, width * max(n / m, 0.5) + 0.6))
    figure, panels = _style.start(figure, ax, path, size, (1, len(plans)), sharey=True)
    blues = LinearSegmentedColormap.from_list("", ["white", _style.SKY, _style.BLUE, "#00263c"])
    # Small shares are seen beside large ones.
    scale = PowerNorm(0.5, 0, max(image.max() for image in images) or 1)
    style = {"cmap": blues, "norm": scale, "interpolation": "nearest", "aspect": "auto"}
    for axes, name, image in zip(panels, plans, images, strict=True):
        shown = axes.imshow(image, extent=(-0.5, m - 0.5, n - 0.5, -0.5), **style)
        _style.frame(axes, name, "target", "source" if axes is panels[0] else "", grid=None)
        if columns and m <= 60:
            _style.name_ticks(axes.xaxis, columns, rotation=90, fontsize="small")
        if rows and n <= 60:
            _style.name_ticks(axes.yaxis, rows, fontsize="small")
    figure.colorbar(shown, ax=panels, shrink=0.8, pad=0.02, label="share of the row's mass")
    return _style.finish(figure, path)


def _as_plan(plan):
    """Return a `Coupling`, or a matrix that is not negative."""
    plan = _style.part_of(plan, "coupling", "plan")
    if isinstance(plan, Coupling):
        return plan
    plan = as_matrix(plan.toarray() if sparse.issparse(plan) else plan, "plan")
    if plan.min() < 0:
        raise ValueError(f"plan must not be negative, got {plan.min():.6g}")
    return plan


def _shares(plan):
    """Return shares of the mass of each row, in at most 150 rows and columns of neighbors."""
    rows, columns = (np.arange(n) * min(n, 150) // n for n in plan.shape)
    indicator = (columns[:, None] == np.unique(columns)).astype(np.float32)
    image = plan.apply(indicator) if isinstance(plan, Coupling) else plan @ indicator
    starts = np.unique(rows, return_index=True)[1]
    image = np.add.reduceat(np.asarray(image, dtype=np.float64), starts, axis=0)
    mass = image.sum(axis=1, keepdims=True)
    return np.divide(image, mass, out=np.zeros_like(image), where=mass > 0)

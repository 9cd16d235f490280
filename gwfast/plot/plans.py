"""Plans: where the mass of every row goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy import sparse

from ..results.coupling import Coupling
from ..results.result import GWResult, SinkhornResult
from ..utils.types import PathLike
from ..utils.validation import as_matrix
from . import _style
from ._style import Canvas, Panels

Plan: TypeAlias = Coupling | GWResult | SinkhornResult | _style.HoldsResult | ArrayLike
# Cells of a picture a side: of larger plans neighboring rows and columns are added up.
_MAX_CELLS = 150
# Inches that panels side by side take at most.
_MAX_WIDTH = 13
# More labels than this have no room.
_MAX_LABELS = 60
_WHITE_TO_BLUE = LinearSegmentedColormap.from_list(
    "gwfast", ["#ffffff", _style.SKY, _style.BLUE, "#00263c"]
)


def plot_coupling(
    coupling: Plan,
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
    coupling : Coupling, array-like or sparse array of shape (n, m), or a result
        A plan, or a result that has one, as in `plot_dynamics`. Above 150 rows or
        columns, neighboring ones are added up; a `Coupling` is never made an array.
    row_labels, col_labels : sequence of str or None, default=None
        Left out where there are more than 60.
    title : str
    path, figure, ax
        See `plot_dynamics`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        If `coupling` is not a matrix of finite numbers that are not negative, or
        the number of labels is wrong.

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> figure = gwfast.plot.plot_coupling(np.eye(3) / 3, ["a", "b", "c"])
    >>> len(figure.axes) > 0
    True
    """
    return plot_couplings(
        {title: coupling}, row_labels, col_labels, path=path, figure=figure, ax=ax
    )


def plot_couplings(
    couplings: Mapping[str, Plan],
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
    couplings : mapping of str to plans, as in `plot_coupling`
        Of one shape; the names are titles.
    row_labels, col_labels, path, figure, ax
        See `plot_coupling`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        See `plot_coupling`; also where there is none, or shapes differ.

    Examples
    --------
    >>> import numpy as np, gwfast.plot
    >>> figure = gwfast.plot.plot_couplings(
    ...     {"sharp": np.eye(3) / 3, "flat": np.ones((3, 3)) / 9}
    ... )
    >>> figure.axes[0].get_title(loc="left") or figure.axes[0].get_title()
    'sharp'
    """
    plans = {name: _as_plan(one) for name, one in dict(couplings).items()}
    shapes = {plan.shape for plan in plans.values()}
    if len(shapes) != 1:
        raise ValueError(f"couplings must be of one shape, got {sorted(shapes)}")
    ((n, m),) = shapes
    rows = _labels(row_labels, "row_labels", n)
    columns = _labels(col_labels, "col_labels", m)
    images = {name: _shares(plan) for name, plan in plans.items()}
    top = float(max(map(np.max, images.values())))

    height = 4.2 if max(n, m) <= 20 else 5.6
    width = min(max(height * m / n, 3), 7, _MAX_WIDTH / len(plans))
    height = min(height, width * max(n / m, 0.5) + 0.6)
    size, shape = (len(plans) * width + 1.2, height), (1, len(plans))
    figure, panels = _style.start(figure, ax, path, size, shape, sharey=True)
    for axes, (name, image) in zip(panels, images.items(), strict=True):
        shown = axes.imshow(
            image,
            cmap=_WHITE_TO_BLUE,
            # Small shares are seen beside large ones.
            norm=PowerNorm(0.5, 0, top or 1),
            aspect="auto",
            interpolation="nearest",
            extent=(-0.5, m - 0.5, n - 0.5, -0.5),
        )
        _style.entitle(axes, name)
        axes.set_xlabel("target")
        if columns:
            _style.name_ticks(axes.xaxis, columns, rotation=90, fontsize="small")
    panels[0].set_ylabel("source")
    if rows:
        _style.name_ticks(panels[0].yaxis, rows, fontsize="small")
    bar = figure.colorbar(shown, ax=panels, shrink=0.8, pad=0.02, label="share of the row's mass")
    bar.outline.set_visible(False)
    return _style.finish(figure, path)


def _labels(labels, name, size):
    """As they are drawn: none where they have no room."""
    labels = [] if labels is None else _style.as_labels(labels, name, size)
    return labels if size <= _MAX_LABELS else []


def _as_plan(plan):
    plan = _style.part_of(plan, "coupling", "plan")
    if isinstance(plan, Coupling):
        return plan
    if sparse.issparse(plan):
        plan = plan.toarray()
    plan = as_matrix(plan, "coupling")
    if plan.min() < 0:
        raise ValueError(f"coupling must not be negative, got {plan.min():.6g}")
    return plan


def _shares(plan):
    """Shares of every row's mass in every column, both added up to so few that they
    can be seen."""
    (rows, n), (columns, m) = map(_cells, plan.shape)
    indicator = (columns[:, None] == np.arange(m)).astype(np.float32)
    image = plan.apply(indicator) if isinstance(plan, Coupling) else plan @ indicator
    starts = np.searchsorted(rows, np.arange(n))
    image = np.add.reduceat(np.asarray(image, dtype=np.float64), starts, axis=0)
    mass = image.sum(axis=1, keepdims=True)
    return np.divide(image, mass, out=np.zeros_like(image), where=mass > 0)


def _cells(n):
    """Return the cell of each of `n` rows or columns, and the number of cells."""
    n_cells = min(n, _MAX_CELLS)
    return np.arange(n) * n_cells // n, n_cells

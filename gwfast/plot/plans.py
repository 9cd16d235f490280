"""Plans: where the mass of every row goes."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ..results.coupling import Coupling
from ..utils.types import PathLike
from ..utils.validation import as_matrix
from . import _style
from ._style import Canvas

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
    coupling: Coupling | ArrayLike,
    row_labels: Sequence[str] | None = None,
    col_labels: Sequence[str] | None = None,
    *,
    title: str = "Where the mass of every row goes",
    path: PathLike | None = None,
    figure: Canvas | None = None,
) -> Figure:
    """Draw a plan as a heat map, every row as shares of its mass.

    Parameters
    ----------
    coupling : Coupling or array-like of shape (n, m)
        Above 150 rows or columns, neighboring ones are added up; a plan that is no
        array is never made one.
    row_labels, col_labels : sequence of str or None, default=None
        Left out where there are more than 60.
    title : str
    path, figure
        See `plot_dynamics`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        If `coupling` is not a matrix of finite numbers that are not negative, or
        labels are not as many as its rows or columns.
    """
    return plot_couplings(
        {title: coupling}, row_labels, col_labels, path=path, figure=figure
    )


def plot_couplings(
    couplings: Mapping[str, Coupling | ArrayLike],
    row_labels: Sequence[str] | None = None,
    col_labels: Sequence[str] | None = None,
    *,
    path: PathLike | None = None,
    figure: Canvas | None = None,
) -> Figure:
    """Draw several plans side by side, on one color scale, such as those of several
    epsilons.

    Parameters
    ----------
    couplings : mapping of str to Coupling or array-like of shape (n, m)
        Of one shape; the names are titles.
    row_labels, col_labels, path, figure
        See `plot_coupling`.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        See `plot_coupling`; also where there is none, or shapes differ.
    """
    plans = {name: _as_plan(one) for name, one in dict(couplings).items()}
    shapes = {plan.shape for plan in plans.values()}
    if len(shapes) != 1:
        raise ValueError(f"couplings must be of one shape, got {sorted(shapes)}")
    (shape,) = shapes
    labels = [
        labels if labels is None else _style.as_labels(labels, name, size)
        for labels, name, size in zip(
            (row_labels, col_labels), ("row_labels", "col_labels"), shape, strict=True
        )
    ]
    images = {name: _shares(plan) for name, plan in plans.items()}
    top = max(float(image.max()) for image in images.values())

    height = 4.2 if max(shape) <= 20 else 5.6
    width = min(max(height * shape[1] / shape[0], 3), 7, _MAX_WIDTH / len(plans))
    height = min(height, width * max(shape[0] / shape[1], 0.5) + 0.6)
    figure = _style.start(figure, (len(plans) * width + 1.2, height))
    panels = figure.subplots(1, len(plans), squeeze=False, sharey=True)[0]
    for axes, (name, image) in zip(panels, images.items(), strict=True):
        shown = axes.imshow(
            image,
            cmap=_WHITE_TO_BLUE,
            # Small shares are seen beside large ones.
            norm=PowerNorm(0.5, 0, top or 1),
            aspect="auto",
            interpolation="nearest",
            extent=(-0.5, shape[1] - 0.5, shape[0] - 0.5, -0.5),
        )
        _style.entitle(axes, name)
        axes.set_xlabel("target")
        if labels[1] is not None and shape[1] <= _MAX_LABELS:
            _style.name_ticks(axes.xaxis, labels[1], rotation=90, fontsize="small")
    panels[0].set_ylabel("source")
    if labels[0] is not None and shape[0] <= _MAX_LABELS:
        _style.name_ticks(panels[0].yaxis, labels[0], fontsize="small")
    bar = figure.colorbar(
        shown, ax=list(panels), shrink=0.8, pad=0.02, label="share of the row's mass"
    )
    bar.outline.set_visible(False)
    return _style.finish(figure, path)


def _as_plan(plan):
    if isinstance(plan, Coupling):
        return plan
    plan = as_matrix(plan, "coupling")
    if plan.min() < 0:
        raise ValueError(f"coupling must not be negative, got {plan.min():.6g}")
    return plan


def _shares(plan):
    """Shares of every row's mass in every column, both added up to so few that they
    can be seen."""
    columns = np.arange(plan.shape[1]) * _cells(plan.shape[1]) // plan.shape[1]
    indicator = np.zeros((plan.shape[1], _cells(plan.shape[1])), dtype=np.float32)
    indicator[np.arange(len(columns)), columns] = 1
    if isinstance(plan, Coupling):
        image = plan.apply(indicator)
    else:
        image = plan @ indicator
    n = len(image)
    starts = np.searchsorted(np.arange(n) * _cells(n) // n, np.arange(_cells(n)))
    image = np.add.reduceat(np.asarray(image, dtype=np.float64), starts, axis=0)
    mass = image.sum(axis=1, keepdims=True)
    return np.divide(image, mass, out=np.zeros_like(image), where=mass > 0)


def _cells(n):
    return min(n, _MAX_CELLS)

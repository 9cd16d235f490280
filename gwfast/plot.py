"""A picture of how a solve went. Needs matplotlib (the extra ``cli``)."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Okabe and Ito's palette: told apart with every kind of color vision.
_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"


def plot_dynamics(history, *, path=None, figure=None, accuracy=None):
    """Draw the objective and the errors of every outer iteration.

    Parameters
    ----------
    history : sequence
        ``result.history``: steps with `gw_cost`, `change` and `marginal_error`.
    path : str or path-like, optional
        Write the picture there, in the format its suffix names.
    figure : matplotlib Figure or SubFigure, optional
        Draw into this one instead of a new one.
    accuracy : mapping of str to float, optional
        Shares that the title shows, such as ``{"coupling P@1": 0.61}``.

    Returns
    -------
    matplotlib Figure or SubFigure
        ``figure.axes`` are the objective's and the errors'.

    Raises
    ------
    ValueError
        If `history` is empty.
    """
    if not history:
        raise ValueError("history must hold at least one step, got none")
    if figure is None:
        figure = Figure(figsize=(7, 5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    iterations = np.arange(1, len(history) + 1)
    # Many outer iterations: the markers would merge into a band.
    style = {"marker": "o" if len(history) <= 60 else None, "markersize": 3.5}

    cost = np.array([step.gw_cost for step in history], dtype=np.float64)
    top.plot(iterations, cost, color=_BLUE, **style)
    top.annotate(
        f"{cost[-1]:.5g}",
        (iterations[-1], cost[-1]),
        xytext=(0, 8),
        textcoords="offset points",
        ha="right",
        color=_BLUE,
    )
    top.set_ylabel("gw_cost")
    title = "Gromov-Wasserstein objective per outer iteration"
    if accuracy:
        scores = ", ".join(f"{name} {share:.1%}" for name, share in accuracy.items())
        title = f"{title}\n{scores}"
    top.set_title(title, fontsize="medium", loc="left")

    for name, color in (("change", _ORANGE), ("marginal_error", _GREEN)):
        values = np.array([getattr(step, name) for step in history], dtype=np.float64)
        # A log axis has no place for 0, nor for the inf of the first change.
        values[~((values > 0) & np.isfinite(values))] = np.nan
        label = name.replace("_", " ")
        bottom.plot(iterations, values, color=color, label=label, **style)
    bottom.set_yscale("log")
    bottom.set_xlabel("outer iteration")
    bottom.set_ylabel("relative size")
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    bottom.legend(frameon=False, ncols=2)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure

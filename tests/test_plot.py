"""The picture of a solve."""

from typing import NamedTuple

import numpy as np
import pytest
from matplotlib.figure import Figure
from processes import run_python

from gwfast.plot import plot_dynamics


class Step(NamedTuple):
    gw_cost: float
    change: float
    marginal_error: float


def history(n):
    return [
        Step(1 + 1 / i, np.inf if i == 1 else 0.1**i, 0.2**i) for i in range(1, n + 1)
    ]


@pytest.mark.parametrize("n", [1, 2, 7, 97])
def test_curves_show_the_history(n):
    figure = plot_dynamics(history(n))
    assert isinstance(figure, Figure)
    top, bottom = figure.axes
    (cost,) = top.lines
    np.testing.assert_array_equal(cost.get_xdata(), np.arange(1, n + 1))
    np.testing.assert_array_equal(
        cost.get_ydata(), [step.gw_cost for step in history(n)]
    )
    change, error = bottom.lines
    assert np.isnan(change.get_ydata()[0])
    assert np.isfinite(change.get_ydata()[1:]).all()
    np.testing.assert_array_equal(
        error.get_ydata(), [step.marginal_error for step in history(n)]
    )
    assert bottom.get_yscale() == "log"
    assert top.get_ylabel() == "gw_cost"


@pytest.mark.parametrize("suffix, magic", [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_file(tmp_path, suffix, magic):
    path = tmp_path / f"d.{suffix}"
    plot_dynamics(history(5), path=path, accuracy={"CSLS P@1": 0.5})
    assert path.read_bytes().startswith(magic)


def test_accuracy_in_the_title():
    figure = plot_dynamics(history(5), accuracy={"coupling P@1": 0.612})
    assert "coupling P@1 61.2%" in figure.axes[0].get_title(loc="left")


def test_draws_where_it_is_told():
    whole = Figure()
    part = whole.subfigures(1, 2)[0]
    assert plot_dynamics(history(3), figure=part) is part
    assert len(whole.axes) == 2


def test_nothing_for_a_log_axis(tmp_path):
    """One step that moved nothing: no warning, no crash."""
    plot_dynamics([Step(0.0, np.inf, 0.0)], path=tmp_path / "d.png")
    plot_dynamics([Step(0.0, 0.0, 0.0)] * 3, path=tmp_path / "d.png")


def test_empty_history():
    with pytest.raises(ValueError, match="at least one step"):
        plot_dynamics([])


def test_leaves_pyplot_alone():
    """In a process of its own, as other tests may import pyplot."""
    code = "import sys, gwfast.plot; sys.exit('matplotlib.pyplot' in sys.modules)"
    run_python(code)

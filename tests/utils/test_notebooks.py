"""Notebooks, which are run by nbclient: progress as a bar with ipywidgets, else as
lines, and never as warnings; pictures once each.
"""

from pathlib import Path

import pytest

import gwfast

CODE = """
import sys
sys.path.insert(0, {root!r})
{before}
import numpy as np, gwfast
x = np.random.default_rng(0).standard_normal((60, 3))
clouds = gwfast.PointCloud(x), gwfast.PointCloud(x[::-1])
"""
HIDE = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = (
    lambda name, *more: None if name == "ipywidgets" else found(name, *more)
)
"""
SOLVE = "print(gwfast.gromov_wasserstein(*clouds, progress=True).status)"
CALLED = """
seen = []
gwfast.gromov_wasserstein(
    *clouds, init="product", progress=lambda text, done, total: seen.append(text)
)
print(seen)
"""

DRAW = """
import os
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
import gwfast.plot
gwfast.plot.plot_distances(np.eye(3) + 1, ["a", "b", "c"])
"""


def outputs(cells, before=""):
    """What the last of some cells shows, where the first is `CODE`."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    root = str(Path(gwfast.__file__).resolve().parents[1])
    first = CODE.format(root=root, before=before)
    make = nbformat.v4.new_code_cell
    notebook = nbformat.v4.new_notebook(cells=[make(one) for one in [first, *cells]])
    nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
    assert not notebook.cells[0].outputs
    return notebook.cells[-1].outputs


def text_of(shown, kind):
    return "".join(one["text"] for one in shown if one.get("name") == kind)


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_lines_where_there_are_no_widgets():
    shown = outputs([SOLVE], HIDE)
    assert {one.output_type for one in shown} == {"stream"}
    assert text_of(shown, "stdout") == "converged\n"
    lines = text_of(shown, "stderr").splitlines()
    assert lines and not any("arning" in line for line in lines)


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_a_bar_where_there_are():
    pytest.importorskip("ipywidgets")
    shown = outputs([SOLVE])
    assert text_of(shown, "stdout") == "converged\n"
    assert not text_of(shown, "stderr")
    assert "arning" not in str(shown)
    assert any(
        "application/vnd.jupyter.widget-view+json" in one.get("data", {})
        for one in shown
    )


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_functions_are_called():
    shown = outputs([CALLED])
    assert "solving from product" in text_of(shown, "stdout")
    assert {one.output_type for one in shown} == {"stream"}


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("more", ["", ";", "\nprint('drawn')"])
def test_pictures_are_seen_once(more):
    """As the value of a cell, and where they are not."""
    pytest.importorskip("matplotlib")
    shown = outputs([DRAW + more])
    assert [list(one.get("data", {})).count("image/png") for one in shown].count(1) == 1

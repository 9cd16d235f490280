"""Notebooks, which are run by nbclient: progress as a bar with ipywidgets, else as
lines, and never as warnings; pictures once each.
"""

from pathlib import Path

import pytest

import gwfast

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]

CODE = f"""
import sys
sys.path.insert(0, {str(Path(gwfast.__file__).resolve().parents[1])!r})
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


def outputs(*cells):
    """What each of some cells shows."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = [nbformat.v4.new_code_cell(one) for one in cells]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


def text_of(shown, kind):
    return "".join(one["text"] for one in shown if one.get("name") == kind)


def kinds_of(shown):
    """Kinds of data in all outputs."""
    return [kind for one in shown for kind in one.get("data", {})]


def test_lines_where_there_are_no_widgets():
    nothing, shown = outputs(HIDE + CODE, SOLVE)
    assert not nothing
    assert {one.output_type for one in shown} == {"stream"}
    assert text_of(shown, "stdout") == "converged\n"
    lines = text_of(shown, "stderr").splitlines()
    assert lines and not any("arning" in line for line in lines)


def test_a_bar_calls_and_each_picture_once():
    """Pictures as the value of a cell, and where they are not."""
    pytest.importorskip("ipywidgets")
    pytest.importorskip("matplotlib")
    pictures = DRAW, DRAW + ";", DRAW + "\nprint('drawn')"
    nothing, solved, called, *drawn = outputs(CODE, SOLVE, CALLED, *pictures)
    assert not nothing
    assert text_of(solved, "stdout") == "converged\n"
    assert not text_of(solved, "stderr") and "arning" not in str(solved)
    assert "application/vnd.jupyter.widget-view+json" in kinds_of(solved)
    assert "solving from product" in text_of(called, "stdout")
    assert {one.output_type for one in called} == {"stream"}
    for shown in drawn:
        assert kinds_of(shown).count("image/png") == 1

"""Notebooks, which are run by nbclient: progress as a bar with ipywidgets, else as
lines, and never as warnings; pictures once each.
"""

from pathlib import Path

import pytest

import gwfast

CODE = f"""
import sys
sys.path.insert(0, {str(Path(gwfast.__file__).resolve().parents[1])!r})
import numpy as np, gwfast
x = np.random.default_rng(0).standard_normal((60, 3))
clouds = gwfast.PointCloud(x), gwfast.PointCloud(x[::-1])
"""
HIDE = """
from gwfast.utils import progress
found = progress.find_spec
progress.find_spec = lambda name: None if name == "ipywidgets" else found(name)
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
    nbformat, nbclient = map(pytest.importorskip, ("nbformat", "nbclient"))
    cells = [nbformat.v4.new_code_cell(one) for one in cells]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


def text_of(shown, kind):
    return "".join(one["text"] for one in shown if one.get("name") == kind)


def kinds_of(shown):
    """Kinds of data in all outputs."""
    return [kind for one in shown for kind in one.get("data", {})]


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_a_bar_or_lines_calls_and_each_picture_once():
    """Pictures as the value of a cell, and where they are not."""
    for name in ("ipykernel", "ipywidgets", "matplotlib"):
        pytest.importorskip(name)
    pictures = DRAW, DRAW + ";", DRAW + "\nprint('drawn')"
    cells = CODE, SOLVE, CALLED, *pictures, HIDE, SOLVE
    nothing, solved, called, *drawn, hidden, without = outputs(*cells)
    assert not nothing and not hidden
    assert text_of(solved, "stdout") == text_of(without, "stdout") == "converged\n"
    assert not text_of(solved, "stderr") and "arning" not in str(solved)
    assert "application/vnd.jupyter.widget-view+json" in kinds_of(solved)
    assert "solving from product" in text_of(called, "stdout")
    assert {one.output_type for one in (*called, *without)} == {"stream"}
    lines = text_of(without, "stderr").splitlines()
    assert lines and not any("arning" in line for line in lines)
    for shown in drawn:
        assert kinds_of(shown).count("image/png") == 1

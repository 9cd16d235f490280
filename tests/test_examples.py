"""The gallery: every script runs, and prints what its docstring promises."""

import ast
import re
import runpy
import struct
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

pyplot = pytest.importorskip("matplotlib.pyplot")

FOLDER = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
# Packages that a script needs beyond gwfast and matplotlib.
NEEDED = {
    "cells_in_anndata": "anndata",
    "image_features": "sklearn",
    "on_a_cluster": "dask.distributed",
}
NUMBER = re.compile(r"\d+(?:\.\d+)?")
# The pictures of the repository; the site makes the others.
KEPT = [FOLDER / "pictures" / "translate_words.png"]
LARGEST_PICTURE = 150_000


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, answered):
    """Run a script as from a terminal; warnings are errors."""

    def call(name, *options):
        arguments = [SCRIPTS[name], "--output", tmp_path / "deep" / "pictures", *options]
        monkeypatch.setattr(sys, "argv", [*map(str, arguments)])
        monkeypatch.setenv("MPLBACKEND", "Agg")
        monkeypatch.chdir(tmp_path)
        pyplot.close("all")  # of other scripts: pyplot warns of too many
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runpy.run_path(str(SCRIPTS[name]), run_name="__main__")
        return capsys.readouterr()

    return call


def is_kept(promise, line):
    """Return whether two lines are equal but for numbers, which may differ by 5 %."""
    if NUMBER.sub("#", promise).split() != NUMBER.sub("#", line).split():
        return False
    numbers = [float(number) for number in NUMBER.findall(promise)]
    return [float(number) for number in NUMBER.findall(line)] == pytest.approx(numbers, rel=0.05)


def width(picture):
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    return struct.unpack(">I", content[16:20])[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.process] * (x == "on_a_cluster")) for x in SCRIPTS]
)
def test_it_runs(name, run, tmp_path):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    docstring = ast.get_docstring(ast.parse(SCRIPTS[name].read_text("utf-8")))
    promises = textwrap.dedent(docstring.partition("::\n\n")[2]).split("\n")
    out, err = run(name)
    assert "Warning" not in err
    assert len(promises) >= 2
    for promise in filter(None, promises):
        assert any(is_kept(promise, line) for line in out.splitlines()), (promise, out)
    (picture,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert picture.name == f"{name}.png"
    assert 900 <= width(picture) <= 1200


@pytest.mark.slow
def test_more_starts_find_cells_that_a_single_one_mirrors(shared_data, run):
    missed = []
    for options in ([], ["--search"]):
        out, _ = run("single_cell", "--cells", shared_data / "singlecell" / "scGEM", *options)
        (share,) = re.findall(r"nearer than the right cell: (\S+) %", out)
        missed.append(float(share))
    assert missed[0] > 50 and missed[1] < 30


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_is_shown_as_prose_and_code(name):
    assert f"({name}.py)" in (FOLDER / "README.md").read_text("utf-8")
    text = SCRIPTS[name].read_text("utf-8")
    title, line, *_ = ast.get_docstring(ast.parse(text)).splitlines()
    headings = re.findall(r"^# %%\n# (.+)\n# (-+)$", text, re.MULTILINE)
    assert len(headings) >= 3
    assert all(len(heading) == len(under) for heading, under in [(title, line), *headings])


def test_the_picture_of_the_readme_is_small():
    (picture,) = KEPT
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert f"(pictures/{picture.name})" in readme
    assert 900 <= width(picture) <= 1200
    assert picture.stat().st_size < LARGEST_PICTURE


def test_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(SystemExit, match="pip install scikit-learn"):
        run("image_features")

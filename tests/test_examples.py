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
SCRIPTS = sorted(FOLDER.glob("*.py"))
# What a script needs beyond gwfast and matplotlib.
NEEDED = {
    "cells_in_anndata": "anndata",
    "image_features": "sklearn",
    "on_a_cluster": "dask.distributed",
}
# Which start processes of their own.
PARALLEL = ("on_a_cluster",)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
LARGEST_PICTURE = 150_000


def by_name(path):
    return path.stem


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, answered):
    """Run a script as from a terminal; warnings are errors."""

    def call(script, *options):
        given = [script, "--output", tmp_path / "deep" / "pictures", *options]
        monkeypatch.setattr(sys, "argv", [str(one) for one in given])
        monkeypatch.setenv("MPLBACKEND", "Agg")
        monkeypatch.chdir(tmp_path)
        pyplot.close("all")  # of other scripts: pyplot warns of too many
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runpy.run_path(str(script), run_name="__main__")
        return capsys.readouterr()

    return call


def promised(script):
    """The lines of the literal block in the docstring of a script."""
    docstring = ast.get_docstring(ast.parse(script.read_text("utf-8")))
    _, _, block = docstring.partition("::\n\n")
    return [line for line in textwrap.dedent(block).splitlines() if line]


def is_kept(promise, line):
    """Whether a line has the words of another, and about its numbers: those of other
    processors may differ a little."""
    if NUMBER.sub("#", promise).split() != NUMBER.sub("#", line).split():
        return False
    return all(
        float(came) == pytest.approx(float(number), rel=0.05)
        for number, came in zip(NUMBER.findall(promise), NUMBER.findall(line), strict=True)
    )


def width(picture):
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    return struct.unpack(">I", content[16:20])[0]


def test_the_gallery_is_complete():
    assert [script.stem for script in SCRIPTS] == [
        "all_pairs",
        "cells_in_anndata",
        "epsilon_and_the_plan",
        "graph_matching",
        "image_features",
        "missing_parts",
        "on_a_cluster",
        "quick_start",
        "single_cell",
        "tissue_slices",
        "translate_words",
        "words_by_hand",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [pytest.param(one, marks=[pytest.mark.process] * (one.stem in PARALLEL)) for one in SCRIPTS],
    ids=by_name,
)
def test_it_runs(script, run, tmp_path):
    if script.stem in NEEDED:
        pytest.importorskip(NEEDED[script.stem])
    out, err = run(script)
    assert "Warning" not in err
    lines, promises = out.splitlines(), promised(script)
    assert len(promises) >= 2
    for promise in promises:
        assert any(is_kept(promise, line) for line in lines), (promise, lines)
    # It leaves nothing but the picture.
    (picture,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert picture.name == f"{script.stem}.png"
    assert 900 <= width(picture) <= 1200


@pytest.mark.slow
def test_more_starts_find_cells_that_a_single_one_mirrors(shared_data, run):
    script, folder = FOLDER / "single_cell.py", shared_data / "singlecell" / "scGEM"
    missed = []
    for options in ([], ["--search"]):
        out, _ = run(script, "--cells", folder, *options)
        (share,) = re.findall(r"nearer than the right cell: (\S+) %", out)
        missed.append(float(share))
    assert missed[0] > 50 and missed[1] < 30


@pytest.mark.parametrize("script", SCRIPTS, ids=by_name)
def test_it_is_shown(script):
    readme = (FOLDER / "README.md").read_text("utf-8")
    picture = FOLDER / "pictures" / f"{script.stem}.png"
    assert f"({script.name})" in readme
    assert f"(pictures/{picture.name})" in readme
    assert 900 <= width(picture) <= 1200
    assert picture.stat().st_size < LARGEST_PICTURE


@pytest.mark.parametrize("script", SCRIPTS, ids=by_name)
def test_it_is_prose_and_code(script):
    text = script.read_text("utf-8")
    title, line, *_ = ast.get_docstring(ast.parse(text)).splitlines()
    assert line == "=" * len(title)
    cells = re.findall(r"^# %%\n# (.+)\n# (-+)$", text, re.MULTILINE)
    assert len(cells) >= 3
    assert all(len(heading) == len(under) for heading, under in cells)


def test_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    needs = "^image_features.py needs scikit-learn: pip install scikit-learn$"
    with pytest.raises(SystemExit, match=needs):
        run(FOLDER / "image_features.py")


@pytest.mark.parametrize(
    "promise, line, kept",
    [
        ("right: 66 % of 396 words", "  right:  67 % of 396 words", True),
        ("right: 66 % of 396 words", "right: 50 % of 396 words", False),
        ("right: 66 % of 396 words", "wrong: 66 % of 396 words", False),
        ("casa -> maison", "casa -> maison, logis", False),
    ],
)
def test_what_keeps_a_promise(promise, line, kept):
    assert is_kept(promise, line) is kept

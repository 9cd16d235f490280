"""The documentation: every example runs, every public name and status is in it."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import gwfast

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NEEDED = {
    "GromovWassersteinAligner": "sklearn",
    "patch": "ot",
    "patched": "ot",
    "unpatch": "ot",
    "cluster": "distributed",
    "gromov_wasserstein_loss": "torch",
}

ROOMS = "words", "pot", "plot", "singlecell", "spatial", "distributed", "gradients"
MODULES = ["gwfast", *(f"gwfast.{room}" for room in ROOMS)]


def public_names():
    for module in MODULES:
        try:
            names = importlib.import_module(module).__all__
        except ImportError:  # gwfast.plot without matplotlib
            continue
        for name in names:
            yield module, name


def get(module, name):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    return getattr(importlib.import_module(module), name)


PUBLIC = list(public_names())
CALLABLES = [(module, name) for module, name in PUBLIC if name not in ("__version__", *ROOMS)]


@pytest.mark.parametrize("module, name", [*CALLABLES])
@pytest.mark.usefixtures("answered")
def test_example_runs(module, name, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    docstring = inspect.getdoc(get(module, name))
    if module == "gwfast.pot" and "\nExamples\n--------\n" not in docstring:
        # A function that shares its parameters with another, whose example shows them.
        assert re.search(r"(see|those\s+of)\s+`", docstring)
        return
    assert "\nExamples\n--------\n" in docstring
    examples = doctest.DocTestParser().get_doctest(docstring, {}, name, None, None)
    # What needs a cluster may be shown beside it.
    assert sum(doctest.SKIP not in one.options for one in examples.examples) >= 2
    # A reader can copy it: nothing comes from the module that it is in.
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    assert not failed


def test_all_is_in_the_reference():
    pages = [path.read_text("utf-8") for path in (DOCS / "reference").glob("*.rst")]
    described = {line.strip(" `") for page in pages for line in page.splitlines()}
    assert not [name for _, name in PUBLIC if name not in described]


def test_files_of_the_glossary_exist():
    named = re.findall(r"`([\w/]+\.\w+)`", (ROOT / "GLOSSARY.md").read_text("utf-8"))
    assert len(named) > 30
    assert not [name for name in named if not (ROOT / name).is_file()]


def test_every_status_has_its_advice():
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    statuses = type(gwfast.sinkhorn([[0.0, 1.0], [1.0, 0.0]], epsilon=1.0).status)
    headings = re.findall(r"^### `(\w+)`$", page, re.MULTILINE)
    assert sorted(headings) == sorted(status.value for status in statuses)
    for status in statuses:
        assert status.meaning in " ".join(page.split()), status

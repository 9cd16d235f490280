"""The public interface: it is small, every name and status of it is described, and all examples
run.
"""

import contextlib
import dataclasses
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest
from helpers.marks import mostly_slow
from helpers.pages import PAGES, differences, parameters

import gwfast

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
ROOMS = "words", "pot", "plot", "singlecell", "spatial", "distributed", "gradients"
NEEDED = {
    "gwfast.GromovWassersteinAligner": "sklearn",
    "gwfast.pot.patch": "ot",
    "gwfast.pot.patched": "ot",
    "gwfast.pot.unpatch": "ot",
    "gwfast.distributed.cluster": "dask",
    "gwfast.gradients.gromov_wasserstein_loss": "torch",
}
SLOW = "align", "Alignment", "GromovWassersteinAligner", "plot.plot_aligned"
MOST_PARAMETERS = {"gwfast.gromov_wasserstein": 21, "gwfast.align": 19, "gwfast.GWResult": 17}
PUBLIC = {f"gwfast.{name}": getattr(gwfast, name) for name in gwfast.__all__}
for room in ROOMS:
    with contextlib.suppress(ImportError):  # gwfast.plot without matplotlib
        module = importlib.import_module(f"gwfast.{room}")
        PUBLIC |= {f"gwfast.{room}.{name}": getattr(module, name) for name in module.__all__}
DOCUMENTED = [name for name, value in PUBLIC.items() if callable(value)]


def test_names_and_parameters_are_few_and_the_help_fits_on_two_screens():
    assert len(gwfast.__all__) <= 31 and len(PUBLIC) <= 120
    assert len(dataclasses.fields(gwfast.GWResult)) <= 17
    for name in DOCUMENTED:
        value = PUBLIC[name]
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        if name.startswith("gwfast.pot.") or is_error:
            continue
        signature = inspect.signature(value)
        assert len(signature.parameters) <= MOST_PARAMETERS.get(name, 16), name
        # `help` has names of types rather than the unions that they stand for.
        assert "_NestedSequence" not in str(signature), name
        assert inspect.Parameter.VAR_KEYWORD not in [x.kind for x in signature.parameters.values()]
        members = inspect.getmembers(value, inspect.isfunction)
        for each in [value, *(x for method, x in members if not method.startswith("_"))]:
            assert len((inspect.getdoc(each) or "").splitlines()) <= 90, each


@pytest.mark.parametrize(
    "name", mostly_slow(DOCUMENTED, fast={*DOCUMENTED} - {f"gwfast.{x}" for x in SLOW})
)
@pytest.mark.usefixtures("answered")
def test_example_of_a_docstring_runs(name, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    docstring = inspect.getdoc(PUBLIC[name])
    if name.startswith("gwfast.pot.") and "\nExamples\n--------\n" not in docstring:
        # A function that shares its parameters with another, whose example shows them.
        assert re.search(r"(see|those\s+of)\s+`", docstring)
        return
    assert "\nExamples\n--------\n" in docstring
    examples = doctest.DocTestParser().get_doctest(docstring, {}, name, None, None)
    # An example may show lines that need a cluster, without running them.
    assert sum(doctest.SKIP not in each.options for each in examples.examples) >= 2
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    assert not failed


# Some results of examples are wrong on purpose, and some fits of a search over settings.
@pytest.mark.filterwarnings("ignore:Gromov.*'(uncertain|degenerate)':gwfast.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:plans of less than 300 words:UserWarning")
@pytest.mark.parametrize("example", parameters())
def test_a_page_shows_what_its_example_prints(example, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for package in example.needs:
        pytest.importorskip(package)
    if example.language == "python" and not example.before:  # which may run commands
        request.getfixturevalue("answered")
    assert not differences(example.printed, example.run())


def test_differences_of_outputs_are_found():
    assert not differences("a 0.81 in 3.2 s\n", "a 0.80 in 9.1 s\n")
    assert not differences("error 3e-06, n_iter=31", "error 7.1e-07, n_iter=40\n")
    assert not differences("of 40 nodes, and ...", "of 41 nodes, and more\n")
    assert differences("a 0.81", "a 0.71") and differences("a", "b") and differences("", "a")
    assert differences("error 3e-06", "error 3e-02") and differences("12 of 5", "12 of 6")


def test_set_up_commands_stand_in_the_readme():
    commands = 'pip install ".[cli]" && gwfast demo\npip install ".[test]" && pytest\n'
    assert f"```sh\n{commands}```" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", (ROOT / page).read_text("utf-8")):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_all_is_in_the_reference():
    pages = [path.read_text("utf-8") for path in (DOCS / "reference").glob("*.rst")]
    described = {line.strip(" `") for page in pages for line in page.splitlines()}
    assert not [name for name in PUBLIC if name.split(".")[-1] not in described]


def test_files_of_the_glossary_exist():
    named = re.findall(r"`([\w/]+\.\w+)`", (ROOT / "GLOSSARY.md").read_text("utf-8"))
    assert len(named) > 30
    assert not [name for name in named if not (ROOT / name).is_file()]


def test_every_status_has_its_advice():
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    statuses = type(gwfast.sinkhorn([[0.0, 1.0], [1.0, 0.0]], epsilon=1.0).status)
    headings = re.findall(r"^### `(\w+)`$", page, re.MULTILINE)
    assert sorted(headings) == sorted(status.value for status in statuses)
    assert len(headings) == 7
    for status in statuses:
        assert status.meaning in " ".join(page.split()), status

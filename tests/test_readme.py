"""The examples of the README and of the pages of the documentation run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
# What each example of each page prints, in their order.
PRINTED = {
    "README.md": ["converged"],
    "docs/start.md": ["converged", "", "['maison", "converged\n100% right"],
    "docs/cells.md": ["of the types right", "of the labels right\n(200, 3)"],
    "docs/cluster.md": ["converged [299 298 297]"],
    "docs/coming-from.md": ["0.000"],
    "docs/costs.md": [
        "converged",
        "converged",
        "0.95 of the matches right",
        "with 0.12 right, 0.85 of one kind",
        "True\nTrue\n",
        "converged",
        "-> 0.001 converged",
    ],
    "docs/many-spaces.md": ["190 solved, 0 skipped", "(15, 15) 3"],
    "docs/pot.md": ["converged", "100% right"],
    "docs/scikit-learn.md": ["{'gromovwassersteinaligner__epsilon': 0.003"],
    "docs/spatial.md": ["turned by 90 degrees\n0.99 of the labels right"],
}


# What some import beside gwfast's own dependencies.
NEEDED = "anndata", "dask", "ot", "sklearn", "torch"


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


PAGES = [
    path.relative_to(ROOT).as_posix() for path in (README, *sorted((ROOT / "docs").glob("*.md")))
]
EXAMPLES = [
    pytest.param(page, block, printed, id=f"{page}-{number}")
    for page, texts in PRINTED.items()
    for number, (block, printed) in enumerate(zip(blocks(ROOT / page), texts, strict=False))
]


def test_all_examples_are_run():
    found = {page: len(blocks(ROOT / page)) for page in PAGES}
    expected = {page: len(texts) for page, texts in PRINTED.items()}
    assert {page: count for page, count in found.items() if count} == expected


@pytest.mark.slow
@pytest.mark.usefixtures("answered")
# Some fits of a search over settings do not converge.
@pytest.mark.filterwarnings("ignore:Gromov.*'(uncertain|degenerate)':gwfast.ConvergenceWarning")
@pytest.mark.parametrize("page, block, printed", EXAMPLES)
def test_example_runs(page, block, printed, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "read_embeddings" in block:  # files that another one has written
        from gwfast.words import load_sample, write_embeddings

        for name, embeddings in zip(("es", "fr"), load_sample()[:2], strict=True):
            write_embeddings(f"{name}.vec", embeddings)
    for module in NEEDED:
        if re.search(rf"^(import|from) {module}\b", block, re.MULTILINE):
            pytest.importorskip(module)
    exec(compile(block, page, "exec"), {})
    assert printed in capsys.readouterr().out


def test_set_up_commands_stand_first():
    commands = 'pip install ".[cli]" && gwfast demo\npip install ".[test]" && pytest\n'
    assert f"```sh\n{commands}```" in README.read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text("utf-8")
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target

"""The command in a folder of small files, and the results of words that are hard to write."""

import json

import numpy as np
import pytest
from helpers import cli
from helpers.cli import clouds, write_files

import gwfast

# Texts that could end a script, a tag, an attribute, a line, a field, a template or a file.
HARD = (
    "</script>", "&lt;", "<b>x</b>", "<!--", "-->", '"onload="alert(1)', "'quote'",
    "{{ 7*7 }}", "{% raw %}", "{#", "$x_1$", "\\u003c", "null", "=1+1", "a b", "a_b",
    "a\tb", "c\nd", "e\rf", "\x00\x1b[31m", "\u2028", "\ufeffbom", "\ud800", "\x85",
    "שלום", "مرحبا بالعالم", "日本語", "हिन्दी", "e\u202ef", "n\u0303", "👩\u200d👧",
    "W" * 200,
)  # fmt: skip
WORDS = [*HARD, *(f"s{i}" for i in range(80 - len(HARD)))]


@pytest.fixture
def files(tmp_path):
    write_files(tmp_path)
    return tmp_path


@pytest.fixture
def run(files, monkeypatch):
    """Run the command in the folder of the files."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "80")
    return cli.run


@pytest.fixture
def stand_in(monkeypatch):
    """Let a function take the place of `gwfast.align`."""
    return lambda function: monkeypatch.setattr(gwfast, "align", function)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Return the folder of results of hard words, whose translations end with an exclamation mark.
    A dictionary has half of the words that a list can hold, every fifth with a wrong translation.
    """
    folder = tmp_path_factory.mktemp("solved")
    x, y, _ = clouds(len(WORDS))
    # A name that looks like markup and a color of the pictures.
    sides = folder / "<script>a.npz", folder / "$a$ & #0072b2 id=.npz"
    np.savez(sides[0], words=np.array(WORDS), vectors=x)
    np.savez(sides[1], words=np.array([f"{word}!" for word in WORDS]), vectors=y)
    listed = [word for word in WORDS[::2] if word.isprintable() and " " not in word]
    lines = [f"{word}\t{listed[k - (k % 5 == 4)]}!\n" for k, word in enumerate(listed)]
    (folder / "pairs.txt").write_text("".join(lines), encoding="utf-8")
    options = (
        "--n-words 60 --epsilon 0.01 --methods nn,csls,inverted_softmax --vectors text --quiet"
    )
    files = "--dictionary", folder / "pairs.txt", "--output", folder / "out"
    status, out, message = cli.run("align", *sides, *files, *options.split())
    assert status == 0 and f"written\t{folder / 'out'}" in out, message
    return folder / "out"


@pytest.fixture(scope="session")
def record(folder):
    return json.loads((folder / "result.json").read_bytes())


@pytest.fixture(scope="session")
def spaces(folder):
    return gwfast.Alignment.load(folder)


@pytest.fixture(scope="session")
def rows(folder):
    """Lines of the table of translations, by the names of its columns."""
    text = (folder / "translations.tsv").read_bytes().decode("utf-8")
    header, *lines = (line.split("\t") for line in text.removesuffix("\n").split("\n"))
    return [dict(zip(header, line, strict=True)) for line in lines]

"""The examples of the documentation, and what they print.

``python tests/helpers/pages.py [PAGE ...]`` writes what the examples print into the pages.

An example is a block of Python, or of commands of gwfast. The block of text behind it is the
output; between the two there may be a paragraph that ends in a colon. A comment before the block,
which is not shown, says more::

    <!-- example: slow, needs torch
    lines that run before it, where it goes on from something that the reader has
    -->
"""

import contextlib
import functools
import importlib.util
import io
import os
import re
import shlex
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

import gwfast
from gwfast import words
from gwfast.cli.commands import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md", "gwfast/pot/DIFFERENCES.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
]  # fmt: skip
_EXAMPLE = re.compile(
    r"(?:<!-- example:(?P<rules>(?:(?!-->).)*)-->\n)?"
    r"^```(?P<language>python|\{code-block\} python|py|sh)\n(?P<code>.*?)^```\n"
    # Perhaps a paragraph that ends in a colon.
    r"(?:\n(?:(?:(?!```)[^\n]+\n)*(?!```)[^\n]*:\n\n)?```text\n(?P<printed>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
# Numbers that differ between machines: times, and what a tolerance ends.
_VARIES = re.compile(
    r"(?<![\d.])\d+(?:\.\d+)?(?= (?:s|ms|outer iterations|iterations)\b)"
    r"|(?<=n_iter=)\d+|(?<=seconds=)[\d.]+|\d+ threads?\b"
)
# A terminal without colors, on which commands print tables.
_TERMINAL = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "100"}
# Shares of a tolerance, and of rounding, are compared by their being small.
SMALL = 1e-4


@dataclass(frozen=True)
class Example:
    """A block of a page with its output on the page and the rules of running it."""

    page: str
    number: int
    language: str
    code: str
    printed: str
    before: str  # lines that run before it
    needs: tuple[str, ...]  # packages
    is_slow: bool

    def run(self):
        """Return what the example prints, run in this folder as a program of its own."""
        if "es.vec" in self.before + self.code:
            _write_sample()
        out, names = io.StringIO(), {"__name__": "__main__"}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(self.before, names)
        with contextlib.redirect_stdout(out), pytest.MonkeyPatch.context() as patch:
            if self.language == "python":
                exec(compile(_as_program(self.code), self.page, "exec"), names)
            for name, value in _TERMINAL.items():
                patch.setenv(name, value)
            for command in _commands(self.code) if self.language == "sh" else ():
                assert main(command[1:]) == 0, command
        return re.sub(r"\x1b\[\d+m", "", out.getvalue())  # bold titles


def examples(page):
    """Return the examples of a page: Python, and commands with an output."""
    text = (ROOT / page).read_text("utf-8")
    return [
        example
        for number, block in enumerate(_EXAMPLE.finditer(text))
        if (example := _example(page, number, block)).language == "python" or example.printed
    ]


def _example(page, number, block):
    rules, _, before = (block["rules"] or "").partition("\n")
    rules = [rule.split() for rule in rules.split(",") if rule.strip()]
    return Example(
        page=page,
        number=number,
        language="sh" if block["language"] == "sh" else "python",
        code=block["code"],
        printed=block["printed"] or "",
        before=before,
        needs=tuple(name for word, *names in rules if word == "needs" for name in names),
        is_slow=["slow"] in rules,
    )


def parameters():
    """Return all examples as parameters of a test."""
    return [
        pytest.param(x, id=f"{x.page}-{x.number}", marks=[pytest.mark.slow] * x.is_slow)
        for page in PAGES
        for x in examples(page)
    ]


def differences(shown, printed):
    """Return pairs of a line on the page and a line of the output that differ.

    Numbers may differ by 5 %, or as far as the last digit shown; "..." at the end of a line stands
    for the rest of the line.
    """
    shown, printed = shown.splitlines(), printed.rstrip("\n").splitlines()
    shown += [""] * (len(printed) - len(shown))
    printed += [""] * (len(shown) - len(printed))
    return [pair for pair in zip(shown, printed, strict=True) if not _is_same(*pair)]


def _is_same(shown, printed):
    shown, printed = (_VARIES.sub("#", line).strip() for line in (shown, printed))
    if shown.endswith("..."):
        n_words = len(shown.removesuffix("...").split())
        shown, printed = shown.removesuffix("..."), " ".join(printed.split()[:n_words])
    if _NUMBER.sub("#", shown).split() != _NUMBER.sub("#", printed).split():
        return False
    pairs = zip(_NUMBER.findall(shown), map(float, _NUMBER.findall(printed)), strict=True)
    return all(_is_near(text, value) for text, value in pairs)


def _is_near(text, value):
    digits, _, exponent = text.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    tolerance = max(0.05 * abs(value), unit if "." in text else 0.0)
    both_small = "e-" in text and max(float(text), value) < SMALL
    return both_small or abs(float(text) - value) <= tolerance


def _commands(text):
    lines = text.replace("\\\n", "").replace("&&", "\n").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    return [command for command in commands if command[:1] == ["gwfast"]]


def _as_program(code):
    """Return code as a program: lines that return are the body of a function, which is called."""
    try:
        compile(code, "", "exec")
    except SyntaxError:
        return f"def body():\n{textwrap.indent(code, '    ')}\nbody()\n"
    return code


@functools.cache
def _sample():
    return words.load_sample()


def _write_sample():
    """Write the files that other examples of the pages have written."""
    source, target, dictionary = _sample()
    for name, embeddings in (("es", source), ("fr", target)):
        words.write_embeddings(f"{name}.vec", embeddings)
    words.write_dictionary("es-fr.txt", dictionary)


def _written(page):
    """Return the text of a page with the outputs of its examples, where they have changed."""

    def with_output(block):
        example = _example(page, 0, block)
        missing = [name for name in example.needs if importlib.util.find_spec(name) is None]
        if missing or (example.language == "sh" and block["printed"] is None):
            return block[0]
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            printed = "\n".join(line.rstrip() for line in example.run().rstrip("\n").splitlines())
            os.chdir(ROOT)
        if not differences(example.printed, printed):
            return block[0]
        if block["printed"] is None:
            return f"{block[0]}\n```text\n{printed}\n```\n"
        start, end = (at - block.start() for at in block.span("printed"))
        return f"{block[0][:start]}{printed}\n{block[0][end:]}"

    return _EXAMPLE.sub(with_output, (ROOT / page).read_text("utf-8"))


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    for name in sys.argv[1:] or PAGES:
        print(name, gwfast.__version__)
        (ROOT / name).write_text(_written(name), "utf-8")

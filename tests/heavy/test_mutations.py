"""The fast tests notice changes of single operators of the package.

Each test makes one change in a built copy of the tree, at a random place: a sign, a bound, a
condition. It passes if the fast tests fail with the change, and is an expected failure if they do
not: then the change has no effect, as where a bound is never met, or lacks a test. Tests of the
changed part run first, and then all others. GWFAST_TEST_SEEDS is the number of changes, by default
60; GWFAST_TEST_PATHS has words, and only files with such a word in their path are changed;
GWFAST_TEST_TREE names another tree whose tests run, which shows what an older suite of tests caught
on the same places; with GWFAST_TEST_FIRST=1 only tests of the changed part run.
"""

import os
import random
import re
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

HERE = Path(__file__).resolve().parents[2]
SECONDS = 600  # after which a run counts as caught: a changed loop may not end
SEEDS = range(int(os.environ.get("GWFAST_TEST_SEEDS", "0")) or 60)
ONLY_FIRST = os.environ.get("GWFAST_TEST_FIRST", "0") != "0"
COMPILED = ".pyx", ".c", ".h", ".inc"
# Operators, as they stand in code, and what takes their place.
SWAPS = {" + ": " - ", " * ": " / ", " < ": " >= ", " <= ": " < ", " == ": " != ", "max(": "min("}
SWAPS |= {" and ": " or ", " && ": " || ", " if not ": " if ", " += ": " -= ", "+ 1": "+ 2"}
SWAPS |= {new: old for old, new in SWAPS.items()}
# Docstrings, comments and texts.
NO_CODE = r'"""[\s\S]*?"""|/\*[\s\S]*?\*/|^#(?:include|define).*|# .*|"(?:\\.|[^"\n])*"'


def places(folder, words=()):
    """Return the path of a file, the position of an operator in it, and the operator, of all."""
    found = []
    paths = [path for top in ("gwfast", "csrc") for path in sorted((folder / top).rglob("*.*"))]
    for path in paths:
        name = str(path.relative_to(folder))
        if path.suffix in (".py", *COMPILED) and (not words or any(word in name for word in words)):
            code = re.sub(NO_CODE, lambda x: "_" * len(x[0]), path.read_text("utf-8"), flags=re.M)
            operators = re.finditer("|".join(map(re.escape, SWAPS)), code)
            found += [(path, each.start(), each[0]) for each in operators]
    return found


def succeeds(folder, *arguments):
    """Return whether Python succeeds in time with these arguments."""
    # The other pytest is no worker of xdist, even if this process is.
    variables = {name: x for name, x in os.environ.items() if not name.startswith("PYTEST_")}
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def build(folder):
    return succeeds(folder, "setup.py", "build_ext", "--inplace", "-j2")


def passes(folder, room):
    """Return whether the fast tests pass; tests of the room run before all others, or alone."""
    arguments = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    first = folder / "tests" / room
    if first.is_dir() and not succeeds(folder, *arguments, "-n", "0", first):
        return False
    return ONLY_FIRST or succeeds(folder, *arguments)


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """Return the folder of a copy that is built, and passes its tests."""
    folder = tmp_path_factory.mktemp("mutations") / "gwfast"
    copytree(HERE, folder, ignore=ignore_patterns(".git", ".venv", "tests", "__pycache__"))
    copytree(Path(os.environ.get("GWFAST_TEST_TREE", HERE)) / "tests", folder / "tests")
    assert build(folder), "packages: .[dev]"
    assert passes(folder, "kernels")
    return folder


@pytest.mark.heavy
@pytest.mark.parametrize("number", SEEDS)
def test_a_change_is_noticed(tree, number):
    every = places(tree, os.environ.get("GWFAST_TEST_PATHS", "").split())
    path, at, old = random.Random(number).choice(every)
    is_compiled = path.suffix in COMPILED
    room = "kernels" if is_compiled else path.relative_to(tree).parts[1]
    text = path.read_text("utf-8")
    changed = text[:at] + SWAPS[old] + text[at + len(old) :]
    line = text[:at].count("\n")
    said = f"{path.relative_to(tree)}:{line + 1}: {changed.splitlines()[line].strip()}"
    try:
        path.write_text(changed, "utf-8")
        if is_compiled and not build(tree):
            pytest.skip(f"does not compile: {said}")
        if passes(tree, room):
            pytest.xfail(f"missed: {said}")
    finally:
        path.write_text(text, "utf-8")
        if is_compiled:
            build(tree)


def test_places_are_operators_in_code():
    every = places(HERE)
    assert len(every) > 5000
    for path, at, old in random.Random(0).sample(every, 100):
        assert path.read_text("utf-8")[at:].startswith(old)

"""Change one operator of the package at a time and see whether the fast tests notice.

`python tests/heavy/mutations.py [WORD ...]` copies the tree into a temporary folder, builds it, and
makes changes there at random places of files whose path has one of the words, of all files without
words: a sign, a bound, a condition. A change is caught if the fast tests fail with it. Tests of the
changed part run first, and then all others. A change that is missed either has no effect, as
where a bound is never met, or lacks a test. With `--tests DIR` the tests of another tree run, which
shows what an older suite of tests caught on the same places.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from shutil import copytree, ignore_patterns

HERE = Path(__file__).resolve().parents[2]
SECONDS = 600  # after which a run counts as caught: a changed loop may not end
COMPILED = ".pyx", ".c", ".h", ".inc"
# Operators, as they stand in code, and what takes their place.
SWAPS = {" + ": " - ", " * ": " / ", " < ": " >= ", " <= ": " < ", " == ": " != ", "max(": "min("}
SWAPS |= {" and ": " or ", " && ": " || ", " if not ": " if ", " += ": " -= ", "+ 1": "+ 2"}
SWAPS |= {new: old for old, new in SWAPS.items()}
# Docstrings, comments and texts.
NO_CODE = r'"""[\s\S]*?"""|/\*[\s\S]*?\*/|^#(?:include|define).*|# .*|"(?:\\.|[^"\n])*"'


def places(folder, words):
    """Yield the path of a file, the position of an operator in it, and the operator."""
    paths = [path for top in ("gwfast", "csrc") for path in sorted((folder / top).rglob("*.*"))]
    for path in paths:
        name = str(path.relative_to(folder))
        if path.suffix in (".py", *COMPILED) and (not words or any(word in name for word in words)):
            text = re.sub(NO_CODE, lambda found: "_" * len(found[0]), path.read_text(), flags=re.M)
            for found in re.finditer("|".join(map(re.escape, SWAPS)), text):
                yield path, found.start(), found[0]


def succeeds(folder, *arguments):
    """Return whether Python succeeds in time with these arguments."""
    try:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def build(folder):
    return succeeds(folder, "setup.py", "build_ext", "--inplace", "-j2")


def passes(folder, room, only_first):
    """Return whether the fast tests pass; tests of the room run before all others, or alone."""
    pytest = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    first = folder / "tests" / room
    if first.is_dir() and not succeeds(folder, *pytest, "-n", "0", first):
        return False
    return only_first or succeeds(folder, *pytest)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of paths: only changes of these files")
    parser.add_argument("--tests", type=Path, default=HERE, metavar="DIR", help="tree of the tests")
    parser.add_argument("--first", action="store_true", help="run only tests of the changed part")
    parser.add_argument("--changes", type=int, default=60, help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the places (default %(default)s)")
    options = parser.parse_args()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    n_caught = n_made = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "gwfast")
        copytree(HERE, folder, ignore=ignore_patterns(".git", ".venv", "tests", "__pycache__"))
        copytree(options.tests / "tests", folder / "tests")
        if not (build(folder) and passes(folder, "kernels", options.first)):
            raise SystemExit(
                "the package must compile (packages: .[dev]) and pass without a change"
            )
        every = [*places(folder, options.words)]
        for path, at, old in random.Random(options.seed).sample(every, len(every)):
            began, text = time.perf_counter(), path.read_text()
            path.write_text(text[:at] + SWAPS[old] + text[at + len(old) :])
            line = path.read_text()[:at].count("\n")
            room = "kernels" if path.suffix in COMPILED else path.relative_to(folder).parts[1]
            if path.suffix not in COMPILED or build(folder):  # else it says nothing
                n_made += 1
                is_missed = passes(folder, room, options.first)
                n_caught += not is_missed
                said = f"{'MISSED' if is_missed else 'caught'} {time.perf_counter() - began:5.0f} s"
                changed = path.read_text().splitlines()[line].strip()
                print(
                    f"{n_made:3} {said}  {path.relative_to(folder)}:{line + 1}: {changed}",
                    flush=True,
                )
            path.write_text(text)
            if n_made == options.changes:
                break
        build(folder)
    print(f"{n_caught} of {n_made} caught")


if __name__ == "__main__":
    main()

"""The command line in this process, whose `main` and advice are internal, and small files of
vectors with a known truth.
"""

import contextlib
import io
import json

import numpy as np
from helpers.problems import rotated_pair
from helpers.vector_files import write_vectors

from gwfast.__main__ import main
from gwfast.results.status import Ending

N = 60
# From one start, as it does not matter here which one wins.
ALIGN = "align", "a.vec", "b.vec", "--quiet", "--init", "profile"
FILES = "dictionary.txt dynamics.png mapping.npz report.html result.json translations.tsv".split()
# Plans that are not balanced, and other methods, are not in reach of the command.
ADVICE = [ending.advice for ending in Ending if ending.advice and ending.name != "MISSED_ROWS"]


def run(*arguments, encoding="utf-8"):
    """Run the command; return its exit status, and the texts of both streams."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, newline="") for _ in ("out", "err")]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        status = main([str(argument) for argument in arguments])
    for stream in streams:
        stream.flush()
    return status, *(stream.buffer.getvalue().decode(encoding) for stream in streams)


def ask(*arguments, status=0):
    """Run the command; return its JSON and the text of stderr."""
    ended, out, message = run(*arguments, "--json")
    assert ended == status, message
    return json.loads(out), message


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def write_files(folder):
    """Write a cloud, a rotated and shuffled copy, and the truth; return the words of both."""
    x, y, found = rotated_pair(N, 6, 7)
    # Words that terminal markup would swallow are words like any other.
    sources = ["[bold]", ":smile:", "%", *(f"s{i}" for i in range(3, N))]
    targets = [f"t{i}" for i in np.argsort(found)]
    write_vectors(folder / "a.vec", sources, x)
    write_vectors(folder / "b.vec", targets, y)
    pairs = [(word, f"t{i}") for i, word in enumerate(sources)]
    for name, lines in {
        "pairs.txt": pairs,
        "turned.txt": [*(pair[::-1] for pair in pairs), ("s5", "t5")],
        "other.txt": [("uno", "eins")],
        "a.counts": [(word, N - i) for i, word in enumerate(sources)],
        "b.counts": [(word, N - i) for i, word in enumerate(targets)],
    }.items():
        (folder / name).write_text("".join(f"{one} {other}\n" for one, other in lines))
    return sources, targets

"""The command line in this process, and small files of vectors with a known truth.

A command is no function of the package, so that its `main` is imported from inside, and so is the
advice of solves, which the command prints in terms of its options.
"""

import contextlib
import io

import numpy as np
from helpers.vector_files import write_vectors

from gwfast.__main__ import main
from gwfast.results.status import Ending

N = 60
# From one start, as it does not matter here which one wins.
ALIGN = "align", "a.vec", "b.vec", "--quiet", "--init", "profile"
FILES = [
    "dictionary.txt", "dynamics.png", "mapping.npz", "report.html", "result.json",
    "translations.tsv",
]  # fmt: skip
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


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def clouds(n):
    """A cloud without symmetry, and the same cloud rotated."""
    rng = np.random.default_rng(7)
    x = rng.exponential(size=(n, 6)) * np.arange(6, 0, -1)
    return x, x @ np.linalg.qr(rng.standard_normal((6, 6)))[0], rng


def write_files(folder):
    """Write the clouds, one of them shuffled, and the truth; return both sides of words."""
    x, y, rng = clouds(N)
    order = rng.permutation(N)
    # Words that terminal markup would swallow are words like any other.
    sources = ["[bold]", ":smile:", "%", *(f"s{i}" for i in range(3, N))]
    targets = [f"t{i}" for i in order]
    write_vectors(folder / "a.vec", sources, x)
    write_vectors(folder / "b.vec", targets, y[order])
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

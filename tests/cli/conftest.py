"""Two small files of vectors with a known truth, and the command run on them."""

import numpy as np
import pytest
from helpers.cli import N, main
from helpers.vector_files import write_vectors


def write_files(folder):
    rng = np.random.default_rng(7)
    x = rng.exponential(size=(N, 6)) * np.arange(6, 0, -1)
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    order = rng.permutation(N)
    # Words that terminal markup would swallow are words like any other.
    sources = ["[bold]", ":smile:", "%", *(f"s{i}" for i in range(3, N))]
    targets = [f"t{i}" for i in order]
    write_vectors(folder / "a.vec", sources, x)
    write_vectors(folder / "b.vec", targets, (x @ rotation)[order])
    pairs = "".join(f"{word} t{i}\n" for i, word in enumerate(sources))
    (folder / "pairs.txt").write_text(pairs)
    counts = "".join(f"{word} {N - i}\n" for i, word in enumerate(sources))
    (folder / "a.counts").write_text(counts)
    counts = "".join(f"{word} {N - i}\n" for i, word in enumerate(targets))
    (folder / "b.counts").write_text(counts)


@pytest.fixture
def files(tmp_path):
    """A cloud without symmetry, the same cloud rotated and shuffled, and the truth."""
    write_files(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """The folder of results of these files, which nobody writes to."""
    folder = tmp_path_factory.mktemp("solved")
    write_files(folder)
    sides = [str(folder / f"{side}.vec") for side in "ab"]
    given = ["--output", str(folder / "saved"), "--quiet", "--init", "profile"]
    assert main(["align", *sides, *given]) == 0
    return folder / "saved"


@pytest.fixture
def run(files, monkeypatch, capsys):
    """Run the command in the folder of the files."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        status = main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return call

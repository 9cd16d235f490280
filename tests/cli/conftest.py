"""Two small files of vectors with a known truth, and the command run on them."""

import numpy as np
import pytest
from helpers.cli import HARD, N, main
from helpers.vector_files import write_vectors


def clouds(n):
    """A cloud without symmetry, and the same cloud rotated."""
    rng = np.random.default_rng(7)
    x = rng.exponential(size=(n, 6)) * np.arange(6, 0, -1)
    return x, x @ np.linalg.qr(rng.standard_normal((6, 6)))[0], rng


def write_files(folder):
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
        "turned.txt": [pair[::-1] for pair in pairs],
        "other.txt": [("uno", "eins")],
        "a.counts": [(word, N - i) for i, word in enumerate(sources)],
        "b.counts": [(word, N - i) for i, word in enumerate(targets)],
    }.items():
        (folder / name).write_text("".join(f"{one} {other}\n" for one, other in lines))


@pytest.fixture
def files(tmp_path):
    """The clouds, one of them shuffled, and the truth."""
    write_files(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of results of these files, which no test writes to."""
    folder = tmp_path_factory.mktemp("solved")
    write_files(folder)
    sides = [str(folder / f"{side}.vec") for side in "ab"]
    options = ["--output", str(folder / "saved"), "--quiet", "--init", "profile"]
    assert main(["align", *sides, *options]) == 0
    return folder / "saved"


@pytest.fixture(scope="module")
def hard(tmp_path_factory):
    """The folder of results of hard words in the order of their translations, the same words with
    an exclamation mark; every other word that a list can hold is in the dictionary.
    """
    folder = tmp_path_factory.mktemp("hard")
    x, y, _ = clouds(80)
    words = [*HARD, *(f"s{i}" for i in range(80 - len(HARD)))]
    # A name that looks like markup and a color of the pictures.
    sides = folder / "<script>a.npz", folder / "$a$ & #0072b2 id=.npz"
    np.savez(sides[0], words=np.array(words), vectors=x)
    np.savez(sides[1], words=np.array([f"{word}!" for word in words]), vectors=y)
    listed = [word for word in words[::2] if word.isprintable() and " " not in word]
    lines = [f"{word}\t{word}!\n" for word in listed]
    (folder / "pairs.txt").write_text("".join(lines), encoding="utf-8")
    options = [
        "--dictionary", folder / "pairs.txt", "--output", folder / "out", "--n-words", "60",
        "--epsilon", "0.01", "--methods", "nn,csls,inverted_softmax", "--vectors", "text",
        "--quiet",
    ]  # fmt: skip
    assert main(["align", *map(str, [*sides, *options])]) == 0
    return folder / "out"


@pytest.fixture
def run(files, monkeypatch, capsys):
    """Run the command in the folder of the files."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        status = main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return call

"""Fixtures that several test files use."""

import os
from pathlib import Path

import numpy as np
import pytest
from helpers.vector_pairs import N, write_vectors

from gwfast.__main__ import main
from gwfast.kernels import _rows

# One seed by default; GWFAST_TEST_SEEDS=100 runs the tests that take one with 0..99.
SEEDS = range(int(os.environ.get("GWFAST_TEST_SEEDS", "0"))) or [42]


@pytest.fixture(params=_rows.supported_isas())
def isa(request):
    """Every instruction set that this processor has, in turn."""
    former = _rows.current_isa()
    _rows.select_isa(request.param)
    yield request.param
    _rows.select_isa(former)


@pytest.fixture(params=SEEDS)
def seed(request):
    return request.param


@pytest.fixture(scope="session")
def shared_data():
    """The folder of the data sets that are too large for the repository."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the data sets are not in ../shared/data beside the repository")
    return folder


@pytest.fixture
def files(tmp_path):
    """A cloud without symmetry, the same cloud rotated and shuffled, and the truth."""
    rng = np.random.default_rng(7)
    x = rng.exponential(size=(N, 6)) * np.arange(6, 0, -1)
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    order = rng.permutation(N)
    # Words that terminal markup would swallow are words like any other.
    sources = ["[bold]", ":smile:", "%", *(f"s{i}" for i in range(3, N))]
    targets = [f"t{i}" for i in order]
    write_vectors(tmp_path / "a.vec", sources, x)
    write_vectors(tmp_path / "b.vec", targets, (x @ rotation)[order])
    pairs = "".join(f"{word} t{i}\n" for i, word in enumerate(sources))
    (tmp_path / "pairs.txt").write_text(pairs)
    counts = "".join(f"{word} {N - i}\n" for i, word in enumerate(sources))
    (tmp_path / "a.counts").write_text(counts)
    counts = "".join(f"{word} {N - i}\n" for i, word in enumerate(targets))
    (tmp_path / "b.counts").write_text(counts)
    return tmp_path


@pytest.fixture
def run(files, monkeypatch, capsys):
    """Run the command in the folder of the files."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        status = main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return call

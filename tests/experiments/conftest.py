"""The bundled sample, laid out as the benchmarks are, and the command on it."""

import numpy as np
import pytest
from helpers.vector_files import write_vectors

from gwfast.__main__ import main
from gwfast.words import invert, load_sample

N = 400


def write_pairs(path, dictionary):
    lines = [f"{word} {right}" for word in dictionary for right in dictionary[word]]
    path.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Spanish words as if they were English ones, so that the paper has numbers."""
    return lay_out(tmp_path_factory, n_columns=300)


@pytest.fixture(scope="session")
def narrow_data(tmp_path_factory):
    """The same where matches need not be good, for solves that take little time."""
    return lay_out(tmp_path_factory, n_columns=16)


def lay_out(tmp_path_factory, n_columns):
    spanish, french, dictionary = load_sample()
    words = sorted(dictionary)
    train = {word: dictionary[word] for word in words[::2]}
    test = {word: dictionary[word] for word in words[1::2]}
    muse = tmp_path_factory.mktemp("muse")
    folder = muse / "crosslingual" / "dictionaries"
    folder.mkdir(parents=True)
    for language, side in (("en", spanish), ("fr", french), ("es", spanish)):
        vectors = side.vectors[:N, :n_columns]
        if language == "es":  # another training
            noise = np.random.default_rng(0).standard_normal(vectors.shape)
            vectors = vectors + 0.3 * np.abs(vectors).mean() * noise
        write_vectors(muse / f"wiki.{language}.vec", side.words[:N], vectors)
    for fold, ranks in ((train, "0-5000"), (test, "5000-6500")):
        write_pairs(folder / f"en-fr.{ranks}.txt", fold)
        write_pairs(folder / f"fr-en.{ranks}.txt", invert(fold))
    dinu = tmp_path_factory.mktemp("dinu")
    (dinu / "embeddings" / "original").mkdir(parents=True)
    name = "EN.200K.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt"
    write_vectors(dinu / name, french.words[:N], french.vectors[:N, :n_columns])
    other = dinu / "embeddings" / "original" / "it.emb.txt"
    write_vectors(other, spanish.words[:N], spanish.vectors[:N, :n_columns])
    write_pairs(dinu / "OPUS_en_it_europarl_test.txt", invert(dictionary))
    return {"muse": muse, "dinu": dinu}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an experiment in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        capsys.readouterr()
        status = main(["experiment", *map(str, arguments)])
        return status, *capsys.readouterr()

    return call

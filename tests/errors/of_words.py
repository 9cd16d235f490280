"""Refusals of reading, writing and scoring words."""

import numpy as np

from gwfast import words
from gwfast.words import Embeddings, write_dictionary

TWO = Embeddings(["a b", "a_b"], [[1.0, 2.0], [3.0, 4.0]])


def read(folder, **options):
    """Read a sound file of vectors."""
    path = folder / "v.vec"
    path.write_bytes(b"a 1 2\n")
    return words.read_embeddings(path, **options)


def write(folder, name="v.vec", embeddings=TWO, **options):
    try:
        words.write_embeddings(folder / name, embeddings, **options)
    finally:
        assert not [*folder.iterdir()]


def counts(folder, max_bytes):
    (folder / "counts").write_bytes(b"a 1\n")
    return words.read_counts(folder / "counts", max_bytes=max_bytes)


def score(indices=((0,), (0,)), pairs=(), source=("sol", "rey"), target=("a", "b"), **options):
    return words.precision_at_k(indices, dict(pairs), source, target, **options)


ROWS = [
    (lambda folder: read(folder, max_words=0), "max_words", 0),
    (lambda folder: read(folder, max_words=2.0), "max_words", "float", TypeError),
    (lambda folder: read(folder, words="words.txt"), "words", "words.txt"),
    (lambda folder: read(folder, errors="ignore"), "errors", "ignore"),
    (lambda folder: read(folder, encoding="utf-16"), "encoding", "utf-16"),
    (lambda folder: read(folder, encoding="none such"), "encoding", "none such"),
    (lambda folder: read(folder, encoding=None), "encoding", None),
    (
        lambda folder: words.read_embeddings(folder / "none.vec"),
        "none.vec",
        None,
        FileNotFoundError,
    ),
    (lambda folder: words.read_dictionary(folder / "none", format="csv"), "format", "csv"),
    (lambda folder: counts(folder, 0), "max_bytes", 0),
    (lambda folder: counts(folder, 1e9), "max_bytes", "float", TypeError),
    (lambda folder: write(folder, "v"), "format", "'v'"),
    (lambda folder: write(folder, "v.npy"), "format", "v.npy"),
    (lambda folder: write(folder, "v.vec.bz2"), "format", "v.vec.bz2"),
    (lambda folder: write(folder, "v.npz.gz"), "compressed", "v.npz.gz"),
    (lambda folder: write(folder, format="csv"), "format", "csv"),
    (lambda folder: write(folder, precision=0), "precision", 0),
    (lambda folder: write(folder, precision=10), "precision", 10),
    (lambda folder: write(folder, embeddings=({"a": [1.0]})), "embeddings", "dict", TypeError),
    (lambda folder: write(folder), "words", "'a b'"),
    (lambda folder: write(folder, space="_"), "words", "'a_b'"),
    (lambda folder: write(folder, embeddings=Embeddings(" ", [[1]]), space=""), "words", "empty"),
    *((lambda folder, space=s: write(folder, space=space), "space", repr(s)) for s in " \r\n"),
    (lambda folder: write_dictionary(folder / "d", {}), "dictionary", "none"),
    (lambda folder: write_dictionary(folder / "d", {"a": "home"}), "dictionary", "home", TypeError),
    (lambda folder: write_dictionary(folder / "d", {"a": {""}}), "dictionary", "''"),
    (lambda folder: write_dictionary(folder / "d", {"a": {"b\tc"}}), "dictionary", r"'b\tc'"),
    (lambda folder: write_dictionary(folder / "d", {"c\n": {"d"}}), "dictionary", r"'c\n'"),
    (lambda folder: write_dictionary(folder / "d", {" a": {"b"}}), "dictionary", "' a'"),
    (lambda folder: write_dictionary(folder / "d", {"\ufeffa": {"b"}}), "dictionary", r"'\ufeffa'"),
    (lambda folder: write_dictionary(folder / "d", {"a": {"\udc80"}}), "surrogates", None),
    (lambda: Embeddings([b"a"], [[1]]), "words", "bytes", TypeError),
    (lambda: Embeddings([""], [[1]]), "words", "''", TypeError),
    (lambda: Embeddings("aba", [[1], [2], [3]]), "words", "'a' 2 times"),
    (lambda: Embeddings([], np.ones((0, 3))), "vectors", "empty"),
    (lambda: Embeddings("a", [[1, 2], [3, 4]]), "vectors", (2, 2)),
    (lambda: Embeddings("ab", [[1, 2], [3]]), "vectors", "array"),
    (lambda: Embeddings("a", [["1"]]), "vectors", "real", TypeError),
    (lambda: Embeddings("ab", [[1.0], [np.nan]]), "vectors", "nan at [1, 0]"),
    (lambda: Embeddings("ab", [[1.0], [1e39]]), "vectors", "inf at [1, 0]"),
    (lambda: Embeddings("ab", [[1.0], [2.0]]).with_counts({"a": 1}), "counts", "'b'"),
    (lambda: score(np.zeros(2, int)), "indices", (2,)),
    (lambda: score(np.zeros((3, 5), int)), "indices", (3, 5)),
    (lambda: score(convention="fasttext"), "convention", "fasttext"),
    (lambda: score(ks=(0,)), "ks", 0),
    (lambda: score(pairs={"a": "house"}), "dictionary", "'house' for 'a'", TypeError),
    (lambda: score(target="aba"), "target_words", "'a' in rows 0 and 2"),
    (lambda: score().interval(7), "k", 7),
    (lambda: score().interval(1, 0), "level", 0),
    (lambda: score().interval(1, 1), "level", 1),
]

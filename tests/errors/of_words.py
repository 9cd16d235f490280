"""Refusals of reading, writing and scoring words; no file is there."""

from functools import partial

import numpy as np

from gwfast import words
from gwfast.words import Embeddings, write_dictionary

TWO = Embeddings(["a b", "a_b"], [[1.0, 2.0], [3.0, 4.0]])
read = partial(words.read_embeddings, "none.vec")


def write(name="v.vec", embeddings=TWO, **options):
    return words.write_embeddings(f"none/{name}", embeddings, **options)


def score(indices=((0,), (0,)), pairs=(), source=("sol", "rey"), target="ab", **options):
    return words.precision_at_k(indices, dict(pairs), source, target, **options)


ROWS = [
    (lambda: read(), "none.vec", None, FileNotFoundError),
    (lambda: read(max_words=0), "max_words", 0),
    (lambda: read(max_bytes=1e9), "max_bytes", "float", TypeError),
    (lambda: read(errors="ignore"), "errors", "ignore"),
    (lambda: read(encoding="utf-16"), "encoding", "utf-16"),
    (lambda: read(encoding=None), "encoding", None),
    (lambda: words.read_embeddings(__file__, words="list"), "words", "list"),
    (lambda: words.read_dictionary("none", format="csv"), "format", "csv"),
    (lambda: words.read_counts("none", max_bytes=0), "max_bytes", 0),
    (lambda: write("v"), "format", "'v'"),
    (lambda: write("v.npz.gz"), "compressed", "v.npz.gz"),
    (lambda: write(format="csv"), "format", "csv"),
    (lambda: write(precision=0), "precision", 0),
    (lambda: write(precision=10), "precision", 10),
    (lambda: write(embeddings={"a": [1.0]}), "embeddings", "dict", TypeError),
    (lambda: write(space="_"), "words", "'a_b'"),
    (lambda: write(embeddings=Embeddings(" ", [[1]]), space=""), "words", "empty"),
    (lambda: write(space="\r"), "space", r"'\r'"),
    (lambda: write_dictionary("none", {"a": set()}), "dictionary", "none"),
    (lambda: write_dictionary("none", {"a": "home"}), "dictionary", "'home'", TypeError),
    *(
        (partial(write_dictionary, "none", {word: {"b"}}), "dictionary", repr(word))
        for word in ("", "b\tc", "c\n", "\r", " a", "a ", "\ufeffa")
    ),
    (lambda: Embeddings([b"a"], [[1]]), "words", "bytes", TypeError),
    (lambda: Embeddings([""], [[1]]), "words", "''", TypeError),
    (lambda: Embeddings("aba", [[1], [2], [3]]), "words", "'a' 2 times"),
    (lambda: Embeddings("", np.ones((0, 3))), "vectors", "empty"),
    (lambda: Embeddings("a", [[1, 2], [3, 4]]), "vectors", (2, 2)),
    (lambda: Embeddings("ab", [[1.0], [1e39]]), "vectors", "inf at [1, 0]"),
    (lambda: TWO.with_counts({"a b": 1}), "counts", "'a_b'"),
    (lambda: score(np.zeros(2, int)), "indices", (2,)),
    (lambda: score(convention="fasttext"), "convention", "fasttext"),
    (lambda: score(ks=(0,)), "ks", 0),
    (lambda: score(pairs={"a": "house"}), "dictionary", "'house' for 'a'", TypeError),
    (lambda: score(target="aba"), "target_words", "'a' in rows 0 and 2"),
    (lambda: score().interval(7), "k", 7),
    (lambda: score().interval(1, 0), "level", 0),
    (lambda: score().interval(1, 1), "level", 1),
]

"""Refusals of reading, writing and scoring words; no file is there."""

from functools import partial

import numpy as np
from helpers.refusals import refused

from gwfast import words
from gwfast.words import Embeddings, write_dictionary

TWO = Embeddings(["a b", "a_b"], [[1.0, 2.0], [3.0, 4.0]])
UNREADABLE = "", "b\tc", "c\n", "\r", " a", "a ", "\ufeffa"
read, write_list = partial(words.read_embeddings, "none.vec"), partial(write_dictionary, "none")


def write(name="v.vec", embeddings=TWO, **options):
    return words.write_embeddings(f"none/{name}", embeddings, **options)


def score(indices=((0,), (0,)), pairs=(), source=("sol", "rey"), target="ab", **options):
    return words.precision_at_k(indices, dict(pairs), source, target, **options)


ROWS = [
    (lambda: read(), "none.vec", None, FileNotFoundError),
    *refused(read, max_words=[0], errors=["ignore"], encoding=["utf-16", None]),
    *refused(read, TypeError, max_bytes=[1e9]),
    (lambda: words.read_embeddings(__file__, words="list"), "words", "list"),
    (lambda: words.read_dictionary("none", format="csv"), "format", "csv"),
    (lambda: words.read_counts("none", max_bytes=0), "max_bytes", 0),
    (lambda: write("v"), "format", "'v'"),
    (lambda: write("v.npz.gz"), "compressed", "v.npz.gz"),
    *refused(write, format=["csv"], precision=[0, 10], space={r"'\r'": "\r"}),
    *refused(write, TypeError, embeddings=[{"a": [1.0]}]),
    (lambda: write(space="_"), "words", "'a_b'"),
    (lambda: write(embeddings=Embeddings(" ", [[1]]), space=""), "words", "empty"),
    *refused(write_list, dictionary={"none": {"a": set()}}),
    *refused(write_list, TypeError, dictionary={"'home'": {"a": "home"}}),
    *refused(write_list, dictionary={repr(word): {word: {"b"}} for word in UNREADABLE}),
    *refused(partial(Embeddings, vectors=[[1]]), TypeError, words={"bytes": [b"a"], "''": [""]}),
    (lambda: Embeddings("aba", [[1], [2], [3]]), "words", "'a' 2 times"),
    (lambda: Embeddings("", np.ones((0, 3))), "vectors", "empty"),
    (lambda: Embeddings("a", [[1, 2], [3, 4]]), "vectors", (2, 2)),
    (lambda: Embeddings("ab", [[1.0], [1e39]]), "vectors", "inf at [1, 0]"),
    (lambda: TWO.with_counts({"a b": 1}), "counts", "'a_b'"),
    *refused(score, indices={(2,): np.zeros(2, int)}, convention=["fasttext"], ks={0: (0,)}),
    (lambda: score(pairs={"a": "house"}), "dictionary", "'house' for 'a'", TypeError),
    (lambda: score(target="aba"), "target_words", "'a' in rows 0 and 2"),
    *refused(score().interval, k=[7]),
    *refused(partial(score().interval, 1), level=[0, 1]),
]

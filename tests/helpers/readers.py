"""Readers of files by the names of folders of `tests/words/corpus`, and what they may do."""

from pathlib import Path

import numpy as np

import gwfast
from gwfast.words import read_counts, read_dictionary, read_embeddings

# Files of the corpus are smaller.
MAX_BYTES = 1 << 22


def _embeddings(path):
    for errors, lower in (("strict", False), ("replace", True), ("skip", False)):
        read_embeddings(path, errors=errors, lower=lower, max_bytes=MAX_BYTES)


def _array(path):
    words = path.with_suffix(".words")
    words.write_bytes(b"a\nb\nc\nd\n")
    read_embeddings(path, max_bytes=MAX_BYTES)


def _word_list(path):
    array = path.with_name("array.npy")
    np.save(array, np.arange(8.0).reshape(4, 2))
    read_embeddings(array, words=path, errors="skip", max_bytes=MAX_BYTES)


def _dictionary(path):
    for format in ("auto", "muse", "xling", "zhang"):
        try:
            read_dictionary(path, format=format, max_bytes=MAX_BYTES)
        except ValueError as error:
            _check(path, error)
    read_counts(path, max_bytes=MAX_BYTES)


# How the file is called matters to some: what to call it, and what reads it.
READERS = {
    "text": ("v.vec", _embeddings),
    "binary": ("v.bin", _embeddings),
    "gzip": ("v.gz", _embeddings),
    "bzip2": ("v.bz2", _embeddings),
    "xz": ("v.xz", _embeddings),
    "npz": ("v.npz", _embeddings),
    "npy": ("v.npy", _array),
    "words": ("v.words", _word_list),
    "dictionary": ("d.txt", _dictionary),
    "alignment": ("a.npz", gwfast.Alignment.load),
}


def _check(path, error):
    files = path.with_suffix(""), path.with_name("array.npy")
    assert any(str(one) in str(error) for one in files), f"does not name the file: {error!r}"
    assert len(str(error)) < 2000, "too long to be read"


def read(name, content, folder):
    """Read bytes as a file; whether there was a value, and not an error of ours."""
    called, reader = READERS[name]
    path = Path(folder, called)
    path.write_bytes(content)
    try:
        reader(path)
    except (ValueError, MemoryError) as error:
        _check(path, error)
        return False
    return True

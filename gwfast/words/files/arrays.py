"""Vectors in NumPy's files: ``.npz`` with words and vectors, ``.npy`` beside a list.

Vectors are read in blocks, and only as far as there are words to keep, so that neither
a conversion nor dropped rows take a second array.
"""

import os
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

from ...utils.archives import open_archive, open_array, read_array, refuse_more, shortened
from .. import embeddings
from ..embeddings import EmbeddingsFileError, file_error
from ..vocabulary import BadRow
from .source import Source

_BLOCK_BYTES = 1 << 22


def read_npz(source, options):
    """Embeddings of an archive with arrays ``words`` and ``vectors``.

    Words are strings, or UTF-8 as bytes.
    """
    path = source.path
    with open(path, "rb") as stream, readable(path):
        with open_archive(stream) as arrays, refused(path):
            if not {"words", "vectors"}.issubset(arrays.files):
                names = shortened(", ".join(arrays.files[:10]))
                raise ValueError(f"expected arrays 'words' and 'vectors', got: {names or 'none'}")
            return _from_archive(arrays, source.budget, options)


def _from_archive(arrays, budget, options):
    with open_array(arrays, "vectors", budget) as (member, header):
        shape, in_columns, dtype = header
        words = _words(read_array(arrays, "words", budget))
        if in_columns or len(shape) != 2 or options.skips:
            return embeddings.from_arrays(words, read_array(arrays, "vectors", budget), options)
        embeddings.check_shapes(words, shape, dtype)
        vocabulary, rows = embeddings.select(words, options)
        blocks = _blocks(member, shape[1], dtype)
        vectors = embeddings.gather(blocks, rows, words, shape[1])
        return embeddings.finish(vocabulary, vectors)


def _words(array):
    """Words, str or bytes, of the array of an archive."""
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise ValueError(
            "expected 'words' to be a 1-d array of strings,"
            f" got shape {array.shape} of {array.dtype}"
        )
    return array


def _blocks(stream, n_columns, dtype):
    """Rows of an array whose data `stream` holds."""
    row_bytes = n_columns * dtype.itemsize
    n_bytes = max(1, _BLOCK_BYTES // row_bytes) * row_bytes
    while data := stream.read(n_bytes):
        if len(data) % row_bytes:
            raise EOFError("the data end within a row")
        yield np.frombuffer(data, dtype).reshape(-1, n_columns)


def read_npy(source, words, options):
    """Embeddings of an array, with their words in a text file, one a line."""
    path = source.path
    if words is None:
        candidates = [path.with_suffix(".words"), path.with_suffix(".txt")]
        words = next((name for name in candidates if name.is_file()), None)
        if words is None:
            raise ValueError(
                f"expected its words in {candidates[0].name} or"
                f" {candidates[1].name} beside it, got neither"
            )
    with readable(path):
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    if vectors.nbytes > source.budget:
        raise refuse_more(source.budget)
    beside = Source.of(Path(os.fsdecode(words)), source.max_bytes)
    lines = _word_list(beside, len(vectors), options)
    return embeddings.from_arrays(lines, vectors, options, words)


def _word_list(source, n_words, options):
    """Lines of a file, one more than there should be at most."""
    found = []
    for number, word in islice(source.lines(), n_words + 1):
        if not word and not options.skips:
            blank = BadRow("expected a word, got a blank line")
            raise file_error(source.path, number, blank)
        found.append(word)
    return found


@contextmanager
def readable(path):
    """Turn what NumPy says of an open file that it cannot read into our error: it is of
    zip files, of compression, of the tokenizer of headers, and of the system."""
    try:
        yield
    except (EmbeddingsFileError, MemoryError):
        raise
    except Exception as error:
        message = f"cannot be read: {shortened(error)}"
        raise EmbeddingsFileError(path, None, message) from error


@contextmanager
def refused(path, line=None):
    """Turn what is said of the content of a file into an error that names it."""
    try:
        yield
    except EmbeddingsFileError:
        raise
    except ValueError as error:
        raise file_error(path, line, error) from None

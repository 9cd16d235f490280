"""Vectors in arrays: NumPy's ``.npz`` and ``.npy``, and the files that gensim saves.

Vectors are read in blocks, and only as far as there are words to keep, so that neither a
conversion nor dropped rows take a second array.
"""

import os
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

from ...utils.archives import open_archive, open_array, read_array, refuse_more, shortened
from ..embeddings import EmbeddingsFileError
from .rows import BadRow, Rows, file_error, refused
from .source import BLOCK_BYTES, Source


def read_npz(source, options):
    """Return rows of an archive with arrays ``words``, text or UTF-8 bytes, and ``vectors``."""
    path, budget = source.path, source.budget
    with open(path, "rb") as stream, readable(path):
        with open_archive(stream) as arrays, refused(path):
            if not {"words", "vectors"}.issubset(arrays.files):
                names = shortened(", ".join(arrays.files[:10]))
                raise ValueError(f"expected arrays 'words' and 'vectors', got: {names or 'none'}")
            with open_array(arrays, "vectors", budget) as (member, header):
                words = read_array(arrays, "words", budget)
                if words.ndim != 1 or words.dtype.kind not in "US":
                    raise ValueError(
                        "expected 'words' to be a 1-d array of strings,"
                        f" got shape {words.shape} of {words.dtype}"
                    )
                _check(words, header.shape, header.dtype)
                if header.in_columns:
                    blocks = _blocks(read_array(arrays, "vectors", budget))
                else:
                    blocks = _read_blocks(member, header.shape[1], header.dtype)
                return _collect(words, blocks, header.shape, options, budget)


def read_npy(source, words, options):
    """Return rows of an array whose words are the lines of a text file."""
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
    word_list, lines = Source.of(Path(os.fsdecode(words)), source.max_bytes), []
    # A line more than there should be is enough for an error.
    for number, word in islice(word_list.lines(), len(vectors) + 1):
        if not word and not options.skips:
            blank = BadRow("expected a word, got a blank line")
            raise file_error(word_list.path, number, blank)
        lines.append(word)
    _check(lines, vectors.shape, vectors.dtype)
    blocks = _blocks(vectors)
    return _collect(lines, blocks, vectors.shape, options, source.budget, word_list.path)


def read_saved(source, options):
    """Return rows of a file that gensim saved: a pickle, which can run code when it is loaded."""
    path = source.path
    if not {".kv", ".model"}.intersection(path.suffixes[-2:]):
        raise ValueError(
            "expected vectors, got a pickle; gensim's are read under a name in .kv or .model"
        )
    try:
        from gensim.models import KeyedVectors
    except ImportError:
        raise ValueError(
            "expected vectors, got a pickle that only gensim reads: pip install gensim, or export"
            " the vectors by its save_word2vec_format"
        ) from None
    with readable(path):
        saved = KeyedVectors.load(str(path))
        saved = getattr(saved, "wv", saved)  # of a model
        words, vectors = list(map(str, saved.index_to_key)), saved.vectors
        _check(words, vectors.shape, vectors.dtype)
    return _collect(words, _blocks(vectors), vectors.shape, options, source.budget)


def _check(words, shape, dtype):
    """Refuse arrays without a word and a row of real numbers for each vector."""
    if len(shape) != 2 or dtype.kind not in "fiu" or not shape[1]:
        raise ValueError(
            f"expected 'vectors' to be a 2-d array of real numbers, got shape {shape} of {dtype}"
        )
    if len(words) != shape[0]:
        raise ValueError(f"expected a word a row, got {len(words)} words for {shape[0]} rows")


def _blocks(vectors):
    """Yield the rows of an array, some megabytes at a time."""
    n_rows = max(1, BLOCK_BYTES // (vectors.itemsize * vectors.shape[1]))
    for start in range(0, len(vectors), n_rows):
        yield vectors[start : start + n_rows]


def _read_blocks(stream, n_columns, dtype):
    """Yield the rows of an array whose data `stream` holds."""
    row_bytes = n_columns * dtype.itemsize
    n_bytes = max(1, BLOCK_BYTES // row_bytes) * row_bytes
    while data := stream.read(n_bytes):
        if len(data) % row_bytes:
            raise EOFError("the data end within a row")
        yield np.frombuffer(data, dtype).reshape(-1, n_columns)


def _collect(words, blocks, shape, options, budget, word_list=None):
    """Return rows of words, a list or an array, and of blocks of vectors. An error about a word
    names the line of the file `word_list`, or the row.
    """
    rows = Rows(shape[1], shape[0], options, budget)
    for block in blocks:
        while len(block) and rows.room:
            start, n_rows = rows.n_read, min(len(block), rows.room)
            part = words[start : start + n_rows]
            try:
                rows.extend(part if isinstance(part, list) else part.tolist(), block[:n_rows])
            except ValueError as error:
                if word_list is not None and not isinstance(error, BadRow):
                    raise EmbeddingsFileError(word_list, rows.n_read + 1, str(error)) from None
                raise type(error)(f"{error} in row {rows.n_read}") from None
            block = block[n_rows:]
        if not rows.room:
            return rows
    if rows.n_read < len(words):
        raise ValueError(f"expected {len(words)} rows, got {rows.n_read}")
    return rows


@contextmanager
def readable(path):
    """Turn any error of another library about a file into an `EmbeddingsFileError`."""
    try:
        yield
    except (EmbeddingsFileError, MemoryError):
        raise
    except Exception as error:
        raise EmbeddingsFileError(path, None, f"cannot be read: {shortened(error)}") from error

"""Vectors in NumPy's files: ``.npz`` with words and vectors, ``.npy`` beside a list.

Vectors are read in blocks, and only as far as there are words to keep, so that neither
a conversion nor dropped rows take a second array.
"""

from contextlib import contextmanager

import numpy as np
from numpy.lib import format as npy

from .. import embeddings
from ..embeddings import EmbeddingsFileError
from ..vocabulary import BYTE_ORDER_MARK

_BLOCK_BYTES = 1 << 22


def read_npz(path, options):
    """Embeddings of an archive with arrays ``words`` and ``vectors``.

    Words are strings, UTF-8 as bytes, or uint8: UTF-8 text, a line feed between words.
    """
    with open(path, "rb") as stream, readable(path):
        with np.load(stream, allow_pickle=False) as arrays, refused(path):
            if not {"words", "vectors"}.issubset(arrays.files):
                raise ValueError(
                    "expected arrays 'words' and 'vectors', got:"
                    f" {', '.join(arrays.files) or 'none'}"
                )
            return _from_archive(arrays, options)


def _from_archive(arrays, options):
    words = _words(arrays["words"])
    with arrays.zip.open("vectors.npy") as member:
        shape, in_columns, dtype = _npy_header(member)
        if dtype.hasobject or in_columns or len(shape) != 2:
            return embeddings.from_arrays(words, arrays["vectors"], options)
        embeddings.check_shapes(words, shape, dtype)
        vocabulary, rows = embeddings.select(words, options)
        blocks = _blocks(member, shape[1], dtype)
        vectors = embeddings.gather(blocks, rows, words, shape[1])
        return embeddings.finish(vocabulary, vectors)


def _words(array):
    """Words, str or bytes, of the array of an archive."""
    if array.ndim == 1 and array.dtype == np.uint8:
        return array.tobytes().split(b"\n")
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise ValueError(
            "expected 'words' to be a 1-d array of strings,"
            f" got shape {array.shape} of {array.dtype}"
        )
    return array.tolist()


def _npy_header(stream):
    """Shape, whether columns come first, and dtype."""
    if npy.read_magic(stream) == (1, 0):
        return npy.read_array_header_1_0(stream)
    return npy.read_array_header_2_0(stream)


def _blocks(stream, n_columns, dtype):
    """Rows of an array whose data `stream` holds."""
    row_bytes = n_columns * dtype.itemsize
    n_bytes = max(1, _BLOCK_BYTES // row_bytes) * row_bytes
    while data := stream.read(n_bytes):
        if len(data) % row_bytes:
            raise EOFError("the data end within a row")
        yield np.frombuffer(data, dtype).reshape(-1, n_columns)


def read_npy(path, words, options):
    """Embeddings of an array, with their words in a text file, one a line."""
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
    with open(words, "rb") as stream:
        lines = [line.rstrip(b"\r\n") for line in stream]
    if lines:
        lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
    if b"" in lines:
        blank = lines.index(b"") + 1
        raise EmbeddingsFileError(words, blank, "expected a word, got a blank line")
    return embeddings.from_arrays(lines, vectors, options, words)


@contextmanager
def readable(path):
    """Turn what NumPy says of an open file that it cannot read into our error: it is of
    zip files, of compression, of the tokenizer of headers, and of the system."""
    try:
        yield
    except (EmbeddingsFileError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise EmbeddingsFileError(path, None, f"cannot be read: {reason}") from error


@contextmanager
def refused(path, line=None):
    """Turn what is said of the content of a file into an error that names it."""
    try:
        yield
    except EmbeddingsFileError:
        raise
    except ValueError as error:
        raise EmbeddingsFileError(path, line, str(error)) from None

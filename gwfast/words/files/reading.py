"""Read word embeddings from a file of any format."""

import os
import re
import time
from pathlib import Path

from ...utils.progress import log
from ...utils.types import PathLike
from ..embeddings import Embeddings
from .arrays import read_npy, read_npz, read_saved
from .binary import read_binary
from .rows import Errors, Options, refused
from .source import Layout, Source
from .text import read_text

# Pickles begin like this; no text does.
_PICKLE = re.compile(rb"\x80[\x02-\x05]")


def read_embeddings(
    path: PathLike,
    *,
    max_words: int | None = None,
    words: PathLike | None = None,
    lower: bool = False,
    errors: Errors = "strict",
    encoding: str = "utf-8",
    max_bytes: int | None = None,
) -> Embeddings:
    """Read a file of word vectors.

    The format follows from the first bytes, never from the name alone: text of word2vec, fastText
    and GloVe, word2vec binary, both also compressed by gzip, bzip2 or xz, ``.npz`` with arrays
    ``words`` and ``vectors``, and ``.npy``. Files ``.kv`` and ``.model`` of gensim are loaded by
    gensim, if it is installed; they are pickles, which can run code. :doc:`/words` has the rules
    for duplicates, words with spaces, and broken lines.

    Parameters
    ----------
    path : str or path-like
    max_words : int, optional
        Stop after this many distinct words; the rest of the file is not parsed.
    words : str or path-like, optional
        Word list of an ``.npy`` file, a word in each line; by default ``STEM.words`` or
        ``STEM.txt`` in its folder.
    lower : bool, default False
        Turn words into lower case, and keep the first of words that become equal, as MUSE does.
    errors : {"strict", "replace", "skip"}
        Treatment of a word that cannot be decoded: raise an error, put U+FFFD in place of the
        bytes, or skip the row. "skip" also skips every other row that cannot be used: without a
        word, with missing or further numbers, and with numbers that are not finite or all zero.
    encoding : str, default "utf-8"
        Encoding of the words, such as "latin-1". It must extend ASCII.
    max_bytes : int, optional
        Limit of the unpacked size in bytes; in an archive, of each array. By default 16 MiB and 64
        times the file's size: a few kilobytes may unpack to gigabytes. Not for files of gensim.

    Returns
    -------
    Embeddings
        With the numbers of rows that were dropped: `n_duplicates`, `n_undecodable`, `n_skipped`.

    Raises
    ------
    EmbeddingsFileError
        If the file is damaged, not in its format or larger than `max_bytes`, with file and line (or
        row, in formats without lines).
    MemoryError, OSError
        If the file cannot be opened, or the vectors do not fit memory.
    ValueError
        If `words` is given and not needed.

    Examples
    --------
    >>> import os, tempfile
    >>> from gwfast.words import load_sample, read_embeddings, write_embeddings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "es.vec")
    ...     write_embeddings(path, load_sample()[0])
    ...     len(read_embeddings(path, max_words=1000))
    1000
    """
    options = Options(max_words, bool(lower), errors, encoding)
    path = Path(os.fsdecode(path))
    source = Source.of(path, max_bytes)
    began = time.perf_counter()
    try:
        embeddings = _read(source, words, options)
    except MemoryError as error:
        reason = str(error) or "out of memory"
        raise MemoryError(f"{path}: cannot be read: {reason}") from error
    log.info("read %s in %.2f s: %r", path, time.perf_counter() - began, embeddings)
    return embeddings


def _read(source, words, options):
    path = source.path
    with refused(path):
        head = source.head()
    is_npy = head.startswith(b"\x93NUMPY") and source.compression is None
    if words is not None and not is_npy:
        raise ValueError(f"words is for .npy files only, got {words} with {path}")
    with refused(path):
        if not head:
            raise ValueError("expected word vectors, got 0 bytes")
        if is_npy:
            return read_npy(source, words, options).finish()
        if head.startswith(b"PK\x03\x04") and source.compression is None:
            return read_npz(source, options).finish()
        if path.suffix in (".npy", ".npz"):
            raise ValueError(f"expected a NumPy {path.suffix} file, got other bytes")
        if head.startswith((793712314).to_bytes(4, "little")):
            raise ValueError("expected vectors, got a fastText model: use its .vec")
        if _PICKLE.match(head):
            return read_saved(source, options).finish()
        with refused(path, line=1):
            layout = Layout.of(source, head)
        return (read_binary if layout.binary else read_text)(source, layout, options).finish()

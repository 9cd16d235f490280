"""Read word embeddings from files: one function for every format."""

import os
import time
from pathlib import Path

from ...utils.progress import log
from ...utils.types import PathLike
from ..embeddings import Embeddings
from ..vocabulary import Errors, Options
from .arrays import read_npy, read_npz, refused
from .binary import read_binary
from .cache import read_cache, write_cache
from .keyedvectors import PICKLE, read_saved
from .source import Layout, Source
from .text import read_text


def read_embeddings(
    path: PathLike,
    *,
    max_words: int | None = None,
    words: PathLike | None = None,
    lower: bool = False,
    errors: Errors = "strict",
    encoding: str = "utf-8",
    cache: bool = False,
    max_bytes: int | None = None,
) -> Embeddings:
    """Read a file of word vectors.

    The format follows from the first bytes, never from the name alone:

    - text: word2vec and fastText ``.vec``, GloVe: ``word x1 ... xd`` a line, with or
      without a first line ``n d``;
    - word2vec binary: a line ``n d``, then words and float32;
    - what gensim's ``KeyedVectors.save`` or ``Word2Vec.save`` wrote, with the files
      beside it. Nothing in it is run, and gensim is not needed;
    - ``.npz`` with arrays ``words`` and ``vectors``;
    - ``.npy``, the vectors, with the words one a line in ``STEM.words`` or
      ``STEM.txt``.

    All but NumPy's may be compressed by gzip, bzip2 or xz.

    Parameters
    ----------
    path : str or path-like
    max_words : int, optional
        Stop after this many words. The rest of the file is not parsed, so that
        neither it nor the number of rows in the header is checked.
    words : str or path-like, optional
        The word list of an ``.npy`` file, one word a line.
    lower : bool, default False
        Turn words into lower case. Of those that become equal the first is kept, as
        MUSE does.
    errors : {"strict", "replace", "skip"}
        What to do about a word that cannot be decoded: raise an error, put U+FFFD in
        place of the bytes, or skip the row; `n_undecodable` counts these words. "skip"
        also skips every other row that cannot be used: no word, missing or further
        numbers, another separator, numbers that are not finite or all zero, and
        does not check the number of rows in the header. `n_skipped` counts all rows
        that were skipped.
    encoding : str, default "utf-8"
        Encoding of the words, such as "latin-1". It must extend ASCII.
    cache : bool, default False
        For text and binary: take what an earlier call left in ``PATH.npz`` if that
        was made from this file, of the same size and time of change, with the same
        `lower`, `errors` and `encoding`, and goes as far as `max_words`; otherwise read the file
        and write ``PATH.npz``. One that is damaged or out of date is replaced, a file
        of that name that is no such cache is left alone, and one that cannot be
        written does not matter.
    max_bytes : int, optional
        The most bytes to read of what is in the file, once it is unpacked; of an
        archive, for each array. Every row of text or binary counts as at least 32. By
        default 16 MiB and 64 times the file's size, which vectors do not reach, but a
        few kilobytes made to unpack to gigabytes do.

    Returns
    -------
    Embeddings

    Raises
    ------
    EmbeddingsFileError
        If the file is damaged or not in its format, with file and line (or, where it
        has no lines, row); or if it holds more than `max_bytes`.
    MemoryError
        If there is no memory for what it rightly holds.
    OSError
        If it cannot be opened.
    TypeError
        If `max_words` or `max_bytes` is no whole number.
    ValueError
        If `max_words` or `max_bytes` is below 1, `errors` or `encoding` unknown, or
        `words` given and not needed.

    Notes
    -----
    The rules for what files have in them:

    - a word that comes twice: the first row is kept, the others are counted in
      `n_duplicates`. `max_words` counts distinct words;
    - words with spaces, in text: numbers are taken from the right, and the rest is the
      word, but its last part may not look like a number. In a file without a header
      the number of columns is the most frequent one in the first 64 KiB;
    - short and long lines, blank lines but at the end, numbers that are none, NaN, or
      infinite as float32, and more or fewer rows than the header says: errors, unless
      ``errors="skip"``. Rows of zeros are read, unless ``errors="skip"``;
    - a line, or a word in binary, of more than 32 MiB: an error;
    - a byte order mark at the beginning and carriage returns at line ends are left
      out; any other character, such as a no-break space, belongs to a word.

    Numbers are those that ``float`` reads, rounded to float32.

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
        found = _read(source, words, options, cache)
    except MemoryError as error:
        reason = str(error) or "out of memory"
        raise MemoryError(f"{path}: cannot be read: {reason}") from error
    log.info("read %s in %.2f s: %r", path, time.perf_counter() - began, found)
    return found


def _read(source, words, options, cache):
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
            return read_npy(source, words, options)
        if head.startswith(b"PK\x03\x04") and source.compression is None:
            return read_npz(source, options)
        if path.suffix in (".npy", ".npz"):
            raise ValueError(f"expected a NumPy {path.suffix} file, got other bytes")
        if head.startswith((793712314).to_bytes(4, "little")):
            raise ValueError("expected vectors, got a fastText model: use its .vec")
        if PICKLE.match(head):
            return read_saved(source, options)
        if cache and (found := read_cache(source, options)) is not None:
            return found
        made_from = path.stat()
        with refused(path, line=1):
            layout = Layout.of(source, head)
        rows = (read_binary if layout.binary else read_text)(source, layout, options)
        embeddings = rows.finish()
        if cache:
            write_cache(path, made_from, rows, embeddings, options)
        return embeddings

"""Read word embeddings from files: one function for every format.

- text, plain or gzip: word2vec and fastText ``.vec``, ``word x1 ... xd`` a line, with
  or without a first line ``n d``;
- ``.bin``, plain or gzip: word2vec binary, a line ``n d``, then words and float32;
- ``.npz`` with arrays ``words`` and ``vectors``;
- ``.npy``, the vectors, with the words one a line in ``STEM.words`` or ``STEM.txt``.

Text is read as bytes and cut at ASCII spaces only: embedding files contain words
such as a non-breaking space or ``\\u2028``, at which ``str.split`` and text-mode
line iteration would break.
"""

import gzip
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

_READ_BYTES = 1 << 20
_MAX_COLUMNS = 1_000_000
_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")  # FASTTEXT_FILEFORMAT_MAGIC
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


class EmbeddingsFileError(ValueError):
    """A file of vectors, words or counts is not what it should be.

    The message is ``path:line: what was expected, what came``, without the line
    where none makes sense.
    """

    def __init__(self, path, line, message):
        where = path if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {message}")
        self.path, self.line = Path(path), line


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Words and their vectors, most frequent word first.

    Attributes
    ----------
    words : tuple of str, length n
    vectors : ndarray (n, d), float32, C-contiguous
    counts : ndarray (n,), float64, or None
        How often each word occurs, where that is known.
    n_duplicates : int
        Rows of the file that were dropped as their word had come before.
    """

    words: tuple[str, ...]
    vectors: np.ndarray
    counts: np.ndarray | None = None
    n_duplicates: int = 0

    def __len__(self):
        return len(self.words)

    def with_counts(self, counts):
        """Add counts to every word.

        Parameters
        ----------
        counts : mapping of str to float
            As `read_counts` returns it; it may hold more words.

        Returns
        -------
        Embeddings

        Raises
        ------
        ValueError
            If a word has no count. The message names the first one.
        """
        missing = [word for word in self.words if word not in counts]
        if missing:
            raise ValueError(
                f"counts must cover every word: none for {missing[0]!r}"
                f" ({len(missing)} of {len(self)} words have none)"
            )
        values = np.array([counts[word] for word in self.words], dtype=np.float64)
        return replace(self, counts=values)


def read_embeddings(path, *, max_words=None, words=None):
    """Read a file of word vectors.

    The format follows from the name and the first bytes. Where a word comes
    twice the first row is kept and the others are counted in `n_duplicates`.
    In text a word may contain spaces, as the numbers are taken from the right,
    but its last part may not look like a number.

    Parameters
    ----------
    path : str or path-like
    max_words : int, optional
        Stop after this many words. The rest of the file is not parsed, so that
        neither it nor the number of rows in the header is checked.
    words : str or path-like, optional
        The word list of an ``.npy`` file, one word a line.

    Returns
    -------
    Embeddings

    Raises
    ------
    EmbeddingsFileError
        If the file is damaged or not in its format, with file and line.
    OSError
        If it cannot be opened.
    ValueError
        If `max_words` is below 1, or `words` is given and not needed.
    """
    path = Path(path)
    if max_words is not None and max_words < 1:
        raise ValueError(f"max_words must be at least 1, got {max_words}")
    with open(path, "rb") as stream:
        head = stream.read(8)
    if not head:
        raise EmbeddingsFileError(path, None, "expected word vectors, got 0 bytes")
    is_npy = head.startswith(b"\x93NUMPY")
    if words is not None and not is_npy:
        raise ValueError(f"words is for .npy files only, got {words} with {path}")
    if is_npy:
        return _read_npy(path, max_words, words)
    if head.startswith(b"PK\x03\x04"):
        return _read_npz(path, max_words)
    if path.suffix in (".npy", ".npz"):
        raise EmbeddingsFileError(
            path, None, f"expected a NumPy {path.suffix} file, got other bytes"
        )
    return _read_stream(path, head, max_words)


class _Rows:
    """Distinct words and their vectors, in a buffer that grows in place.

    The header of a file is not trusted with the allocation; `ndarray.resize`
    reallocates, which moves no data for large buffers on Linux.
    """

    def __init__(self, path, n_columns, max_words):
        self.path, self.max_words = path, max_words
        self.index = {}
        self.n_duplicates = 0
        self.vectors = np.empty((0, n_columns), dtype=np.float32)

    @property
    def full(self):
        return len(self.index) == self.max_words

    def append(self, word, values, line):
        """Keep a row unless its word has come before. The values are checked."""
        row = len(self.index)
        if row == len(self.vectors):
            self._resize(max(1024, row + row // 2))
        self.vectors[row] = values
        if not np.isfinite(self.vectors[row]).all():
            what = _decode(word, self.path, line)
            raise EmbeddingsFileError(
                self.path, line, f"expected finite numbers, got nan or inf for {what!r}"
            )
        if self.index.setdefault(_decode(word, self.path, line), row) != row:
            self.n_duplicates += 1

    def _resize(self, n_rows):
        self.vectors.resize((n_rows, self.vectors.shape[1]), refcheck=False)

    def finish(self):
        if not self.index:
            raise EmbeddingsFileError(
                self.path, None, "expected word vectors, got none"
            )
        self._resize(len(self.index))
        return Embeddings(
            tuple(self.index), self.vectors, n_duplicates=self.n_duplicates
        )


def _read_stream(path, head, max_words):
    """Text or word2vec binary, plain or gzip."""
    opener = gzip.open if head.startswith(b"\x1f\x8b") else open
    line = None
    try:
        with opener(path, "rb") as stream:
            first = stream.readline(_READ_BYTES).removeprefix(b"\xef\xbb\xbf")
            if first.startswith(_FASTTEXT_MODEL):
                raise EmbeddingsFileError(
                    path, None, "expected vectors, got a fastText model: use its .vec"
                )
            n_rows, n_columns = _header(first, path)
            # A gzip member keeps its own name: STEM.bin.gz.
            if ".bin" in path.suffixes[-2:]:
                if n_rows is None:
                    raise EmbeddingsFileError(
                        path, 1, f"expected the header 'n d', got {_show(first)}"
                    )
                return _read_binary(stream, path, n_rows, n_columns, max_words)
            line = 1
            rows = _Rows(path, n_columns, max_words)
            with np.errstate(over="ignore"):  # 1e39 becomes inf, and is reported
                for line, text in _vector_lines(stream, first, n_rows is None):
                    if rows.full:
                        break
                    if n_rows is not None and line > n_rows + 1:
                        raise EmbeddingsFileError(
                            path, line, f"expected the last of {n_rows} rows, got more"
                        )
                    rows.append(*_parse(text, n_columns, path, line), line)
    except _DAMAGED as error:
        raise EmbeddingsFileError(
            path, line and line + 1, f"expected whole gzip data, got: {error}"
        ) from error
    n_read = len(rows.index) + rows.n_duplicates
    if n_rows is not None and n_read < n_rows and not rows.full:
        raise EmbeddingsFileError(
            path, None, f"expected {n_rows} rows as the header says, got {n_read}"
        )
    return rows.finish()


def _header(first, path):
    """Numbers of rows (None without a header) and of columns, from the first line."""
    fields = first.rstrip(b" \r\n").split(b" ")
    if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
        n_rows, n_columns = int(fields[0]), int(fields[1])
        if not 0 < n_columns <= _MAX_COLUMNS:
            raise EmbeddingsFileError(
                path, 1, f"expected 1 to {_MAX_COLUMNS} columns, got {n_columns}"
            )
        return n_rows, n_columns
    if len(fields) < 2:
        raise EmbeddingsFileError(
            path, 1, f"expected the header 'n d' or a word vector, got {_show(first)}"
        )
    return None, len(fields) - 1


def _vector_lines(stream, first, first_is_row):
    """Line numbers and lines, without the blank ones at the end of the file."""
    if first_is_row:
        yield 1, first
    n_blank = 0
    for line, text in enumerate(stream, 2):
        if not text.strip(b" \r\n"):
            n_blank += 1
            continue
        if n_blank:  # not at the end after all
            yield line - n_blank, b""
        yield line, text


def _parse(text, n_columns, path, line):
    """Split one line into its word and the fields of its numbers, both bytes."""
    word, *values = text.rstrip(b" \r\n").rsplit(b" ", n_columns)
    expected = f"expected a word and {n_columns} numbers"
    if len(values) < n_columns:
        raise EmbeddingsFileError(path, line, f"{expected}, got {len(values)} numbers")
    if not word:
        raise EmbeddingsFileError(path, line, f"{expected}, got no word")
    if b" " in word and _is_number(word.rsplit(b" ", 1)[1]):
        raise EmbeddingsFileError(path, line, f"{expected}, got more numbers")
    try:
        return word, np.array(values, dtype=np.float32)
    except ValueError:
        wrong = next(value for value in values if not _is_number(value))
        raise EmbeddingsFileError(
            path, line, f"{expected}, got {_show(wrong)}"
        ) from None


def _is_number(field):
    try:
        float(field)
    except ValueError:
        return False
    return True


def _read_binary(stream, path, n_rows, n_columns, max_words):
    """The rows of a word2vec binary file; `stream` stands behind its header."""
    rows = _Rows(path, n_columns, max_words)
    n_bytes = 4 * n_columns
    buffer, start = b"", 0
    for row in range(n_rows):
        if rows.full:
            return rows.finish()
        space = buffer.find(b" ", start)
        while space < 0 or len(buffer) < space + 1 + n_bytes:
            more = stream.read(_READ_BYTES)
            if not more:
                raise EmbeddingsFileError(
                    path,
                    None,
                    f"expected {n_rows} rows, got the file's end in row {row + 1}",
                )
            buffer, start = buffer[start:] + more, 0
            space = buffer.find(b" ")
        # Some writers end a row with a line feed, others do not.
        word = buffer[start:space].lstrip(b"\n")
        if not word:
            raise EmbeddingsFileError(path, None, f"expected a word in row {row + 1}")
        rows.append(word, np.frombuffer(buffer, "<f4", n_columns, space + 1), None)
        start = space + 1 + n_bytes
    if (buffer[start:] + stream.read(_READ_BYTES)).strip(b"\n"):
        raise EmbeddingsFileError(path, None, f"expected {n_rows} rows, got more bytes")
    return rows.finish()


def _read_npz(path, max_words):
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            words, vectors = arrays["words"], arrays["vectors"]
    except KeyError as error:
        raise EmbeddingsFileError(
            path, None, f"expected arrays 'words' and 'vectors', got: {error.args[0]}"
        ) from error
    except (ValueError, zipfile.BadZipFile, *_DAMAGED) as error:
        raise EmbeddingsFileError(path, None, f"cannot be read: {error}") from error
    if words.ndim != 1 or words.dtype.kind not in "US":
        raise EmbeddingsFileError(
            path,
            None,
            "expected 'words' to be a 1-d array of strings,"
            f" got shape {words.shape} of {words.dtype}",
        )
    return _from_arrays(path, words.tolist(), vectors, max_words)


def _read_npy(path, max_words, words):
    if words is None:
        candidates = [path.with_suffix(".words"), path.with_suffix(".txt")]
        words = next((name for name in candidates if name.is_file()), None)
        if words is None:
            raise EmbeddingsFileError(
                path,
                None,
                f"expected its words in {candidates[0].name} or"
                f" {candidates[1].name} beside it, got neither",
            )
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise EmbeddingsFileError(path, None, f"cannot be read: {error}") from error
    with open(words, "rb") as stream:
        lines = [line.rstrip(b"\r\n") for line in stream]
    decoded = [_decode(word, words, line) for line, word in enumerate(lines, 1)]
    if "" in decoded:
        raise EmbeddingsFileError(
            words, decoded.index("") + 1, "expected a word, got a blank line"
        )
    return _from_arrays(path, decoded, vectors, max_words)


def _from_arrays(path, words, vectors, max_words):
    """Check the two arrays of a NumPy file and make them embeddings."""
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or not vectors.shape[1]:
        raise EmbeddingsFileError(
            path,
            None,
            "expected 'vectors' to be a 2-d array of real numbers,"
            f" got shape {vectors.shape} of {vectors.dtype}",
        )
    if len(words) != len(vectors):
        raise EmbeddingsFileError(
            path,
            None,
            f"expected a word a row, got {len(words)} words for {len(vectors)} rows",
        )
    if not words:
        raise EmbeddingsFileError(path, None, "expected word vectors, got none")
    rows, index = [], {}
    for n_read, word in enumerate(words):
        if len(rows) == max_words:
            break
        if isinstance(word, bytes):
            word = _decode(word, path, None)
        if index.setdefault(word, n_read) == n_read:
            rows.append(n_read)
    else:
        n_read = len(words)
    with np.errstate(over="ignore"):
        values = np.array(vectors[rows], dtype=np.float32, order="C")
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        wrong = rows[int(np.argmin(finite))]
        raise EmbeddingsFileError(
            path,
            None,
            f"expected finite numbers, got nan or inf in row {wrong}"
            f" ({words[wrong]!r})",
        )
    return Embeddings(tuple(index), values, n_duplicates=n_read - len(rows))


def _decode(word, path, line):
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EmbeddingsFileError(
            path, line, f"expected UTF-8, got {_show(word)} ({error.reason})"
        ) from None


def _show(text):
    """Bytes of a file for a message: short, printable, in quotes."""
    text = text.decode("utf-8", "backslashreplace").strip("\r\n")
    return repr(text if len(text) <= 40 else text[:40] + "...")

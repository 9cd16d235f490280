"""Words with their vectors, and how they are made of arrays and of other objects.

`read_embeddings` in `reading` makes them from files.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np

from ..utils.types import Float32Array, Float64Array, PathLike
from .vocabulary import BadRow, Options, Vocabulary, show

# Rows that are converted at once.
_BLOCK = 4096


class EmbeddingsFileError(ValueError):
    """A file of vectors, words or counts is not what it should be.

    The message is ``path:line: what was expected, what came``, without the line
    where none makes sense.

    Examples
    --------
    >>> import os, tempfile
    >>> from gwfast.words import EmbeddingsFileError, read_embeddings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "broken.vec")
    ...     with open(path, "w") as file:
    ...         written = file.write("2 2\\nsol 1 0\\nluna 0\\n")
    ...     try:
    ...         read_embeddings(path)
    ...     except EmbeddingsFileError:
    ...         print("refused")
    refused
    """

    def __init__(self, path: PathLike, line: int | None, message: str) -> None:
        self.path, self.line = Path(os.fsdecode(path)), line
        where = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{where}: {message}")


@dataclass(frozen=True, eq=False, repr=False)
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
    n_undecodable : int
        Rows of the file whose word cannot be decoded; it was skipped, or has
        replacement characters, as `errors` says.
    n_skipped : int
        Rows of the file that ``errors="skip"`` left out.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast.words import Embeddings
    >>> two = Embeddings(("sol", "luna"), np.eye(2, dtype=np.float32))
    >>> len(two), two.vectors.shape
    (2, (2, 2))
    """

    words: tuple[str, ...]
    vectors: Float32Array
    counts: Float64Array | None = None
    n_duplicates: int = 0
    n_undecodable: int = 0
    n_skipped: int = 0

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        n, d = self.vectors.shape
        counts = "" if self.counts is None else ", with counts"
        return f"Embeddings({n} words x {d}, {self.vectors.dtype}{counts})"

    def with_counts(self, counts: Mapping[str, float]) -> "Embeddings":
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


def as_embeddings(obj: Any, *, max_words: int | None = None) -> Embeddings:
    """Take words and vectors as other libraries hold them.

    Where a word comes twice the first row is kept and the others are counted in
    `n_duplicates`. An array that needs no change is shared, not copied.

    Parameters
    ----------
    obj : Embeddings, gensim KeyedVectors, model, pair or mapping
        Vectors with `index_to_key` and `vectors`, as gensim's `KeyedVectors` has
        them, or a model that holds such as `wv`; a pair of n words and an array
        (n, d) of real numbers; or a mapping of words to vectors of one length.
    max_words : int, optional
        Stop after this many words.

    Returns
    -------
    Embeddings
        Counts are kept where `obj` is an Embeddings.

    Raises
    ------
    TypeError
        If `obj` is none of these, a word is no str, or `max_words` no whole number.
    ValueError
        If there are no words, an empty word, not a word for every row, vectors of several lengths,
        or numbers that are not finite in float32; or if `max_words` is below 1.

    Examples
    --------
    >>> from gwfast.words import as_embeddings
    >>> as_embeddings({"sol": [1.0, 0.0], "luna": [0.0, 1.0]}).words
    ('sol', 'luna')
    """
    options = Options(max_words)
    if isinstance(obj, Embeddings):
        if max_words is None or max_words >= len(obj):
            return obj
        kept, vectors = obj.words[:max_words], obj.vectors[:max_words]
        counts = None if obj.counts is None else obj.counts[:max_words]
        return replace(obj, words=kept, vectors=vectors, counts=counts)
    words, vectors = _parts(obj, max_words)
    words = words.tolist() if isinstance(words, np.ndarray) else list(words)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"words must be str, got {word!r}")
    try:
        vectors = np.asarray(vectors)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"vectors must be an array: {error}") from None
    return from_arrays(words, vectors, options)


def _parts(obj, max_words):
    """Words and vectors of what other libraries hold."""
    if isinstance(obj, Mapping):
        words = list(islice(obj, max_words))
        vectors = [np.asarray(obj[word]) for word in words]
        for word, vector in zip(words, vectors, strict=True):
            if vector.shape != vectors[0].shape or vector.ndim != 1:
                raise ValueError(
                    "vectors must be 1-d and of one length, got shapes"
                    f" {vectors[0].shape} and {vector.shape} ({word!r})"
                )
        return words, vectors
    if isinstance(obj, (tuple, list)):
        if len(obj) == 2:
            return obj
        raise TypeError(f"obj must be a pair (words, vectors), got {len(obj)} items")
    vectors = getattr(obj, "wv", obj)
    if not (hasattr(vectors, "index_to_key") and hasattr(vectors, "vectors")):
        raise TypeError(
            "obj must be Embeddings, gensim KeyedVectors or a model with them, a"
            f" pair (words, vectors) or a mapping, got {type(obj).__name__}"
        )
    return vectors.index_to_key, vectors.vectors


def from_arrays(words, vectors, options, path=None):
    """Embeddings of words, a sequence or an array of str or bytes, and an array of
    vectors; see `select`."""
    check_shapes(words, vectors.shape, vectors.dtype)
    usable = None
    if options.skips:
        starts = range(0, len(words), _BLOCK)
        blocks = (vectors[start : start + _BLOCK] for start in starts)
        usable = chain.from_iterable(map(usable_rows, blocks))
    vocabulary, rows = select(words, options, path, usable)
    ready = vectors.dtype == np.float32 and vectors.flags.c_contiguous
    if ready and type(vectors) is np.ndarray and len(rows) == rows[-1] + 1:
        kept = vectors[: len(rows)]
        for start in range(0, len(kept), _BLOCK):
            check_finite(kept[start : start + _BLOCK], rows[start:], words)
        return finish(vocabulary, kept)
    blocks = (vectors[start : start + _BLOCK] for start in range(0, len(words), _BLOCK))
    return finish(vocabulary, gather(blocks, rows, words, vectors.shape[1]))


def check_shapes(words, shape, dtype):
    """Refuse arrays that are not a word and as many real numbers for every row."""
    if len(shape) != 2 or dtype.kind not in "fiu" or not shape[1]:
        raise ValueError(
            f"expected 'vectors' to be a 2-d array of real numbers, got shape {shape} of {dtype}"
        )
    check_lengths(len(words), shape[0])


def check_lengths(n_words, n_rows):
    if n_words != n_rows:
        raise ValueError(f"expected a word a row, got {n_words} words for {n_rows} rows")


def select(words, options, path=None, usable=None):
    """The vocabulary that is kept of all words, and the rows of these words; where they
    are the lines of `path`, errors name it. `usable` says which rows to look at."""
    vocabulary, rows = Vocabulary(options), []
    usable = repeat(True) if usable is None else usable
    for row, (word, good) in enumerate(zip(_each(words), usable, strict=False)):
        if vocabulary.room == 0:
            break
        try:
            if vocabulary.add(word) if good else vocabulary.refuse():
                rows.append(row)
        except ValueError as error:
            if path is not None:
                raise file_error(path, row + 1, error) from None
            raise type(error)(f"{error} in row {row}") from None
    if not rows:
        raise no_words(vocabulary)
    return vocabulary, np.array(rows)


def file_error(path, line, error):
    """The `EmbeddingsFileError` of a ValueError about the content of a file."""
    remedy = "; errors='skip' leaves such rows out" if isinstance(error, BadRow) else ""
    return EmbeddingsFileError(path, line, f"{error}{remedy}")


def no_words(vocabulary):
    """The error for a file without a row that is kept."""
    skipped = len(vocabulary.skipped)
    rows = f" ({skipped} rows were skipped)" if skipped else ""
    return ValueError(f"expected word vectors, got none{rows}")


def usable_rows(values):
    """Return a mask of the rows that are finite in float32 and not zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(values, dtype=np.float32)
        return np.isfinite(values).all(axis=1) & values.any(axis=1)


def _each(words):
    """The words of a sequence; of an array in blocks, as str or bytes take more."""
    if not isinstance(words, np.ndarray):
        return words
    starts = range(0, len(words), _BLOCK)
    return (word for at in starts for word in words[at : at + _BLOCK].tolist())


def gather(blocks, rows, words, n_columns):
    """Some rows, ascending, of an array that comes in blocks, as checked float32."""
    vectors = np.empty((len(rows), n_columns), dtype=np.float32)
    start = done = 0
    for block in blocks:
        stop = start + len(block)
        upto = int(np.searchsorted(rows, stop))
        with np.errstate(over="ignore"):  # becomes inf, and is reported
            vectors[done:upto] = block[rows[done:upto] - start]
        check_finite(vectors[done:upto], rows[done:], words)
        start, done = stop, upto
        if done == len(rows):
            return vectors
    raise ValueError(f"expected {len(words)} rows, got {start}")


def check_finite(values, rows, words):
    """Refuse values that are not finite; `rows` says where they were among `words`."""
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        row = int(rows[np.argmin(finite)])
        raise BadRow(f"expected finite numbers, got nan or inf in row {row} ({show(words[row])})")


def finish(vocabulary, vectors):
    return Embeddings(
        tuple(vocabulary.words),
        vectors,
        n_duplicates=len(vocabulary.duplicates),
        n_undecodable=len(vocabulary.undecodable),
        n_skipped=len(vocabulary.skipped),
    )

"""Words with their vectors, and how they are made of arrays; `read_embeddings` reads files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..utils.types import Float32Array, Float64Array, PathLike
from ..utils.validation import as_matrix, as_vector
from .vocabulary import BadRow, Vocabulary, show

# Rows that are converted at once.
_BLOCK = 4096


class EmbeddingsFileError(ValueError):
    """A file of vectors, words or counts is damaged or not in its format.

    The message is ``path:line: expected CONDITION, got VALUE``, without the line in formats that
    have no lines. ``path`` and ``line`` are attributes.

    Examples
    --------
    >>> from gwfast.words import EmbeddingsFileError
    >>> print(EmbeddingsFileError("broken.vec", 3, "expected 2 numbers, got 1"))
    broken.vec:3: expected 2 numbers, got 1
    """

    def __init__(self, path: PathLike, line: int | None, message: str) -> None:
        self.path, self.line = Path(os.fsdecode(path)), line
        where = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{where}: {message}")


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Embeddings:
    """Words and their vectors, most frequent word first.

    gensim's ``KeyedVectors`` become ``Embeddings(kv.index_to_key, kv.vectors)``.

    Attributes
    ----------
    words : tuple of str, length n
        Distinct and not empty.
    vectors : ndarray (n, d), float32, C-contiguous
        Finite; an array of this type is shared, not copied.
    counts : ndarray (n,), float64, or None
        How often each word occurs, if known.
    n_duplicates : int
        Rows of the file that were dropped as their word had come before.
    n_undecodable, n_skipped : int
        Rows of the file whose word cannot be decoded, and rows that ``errors="skip"`` left out.

    Examples
    --------
    >>> from gwfast.words import Embeddings
    >>> two = Embeddings(["sol", "luna"], [[1.0, 0.0], [0.0, 1.0]])
    >>> len(two), two.vectors.dtype
    (2, dtype('float32'))
    """

    words: tuple[str, ...]
    vectors: Float32Array
    counts: Float64Array | None = None
    n_duplicates: int = 0
    n_undecodable: int = 0
    n_skipped: int = 0

    def __init__(
        self,
        words: Iterable[str],
        vectors: ArrayLike,
        counts: ArrayLike | None = None,
        *,
        n_duplicates: int = 0,
        n_undecodable: int = 0,
        n_skipped: int = 0,
    ) -> None:
        words = tuple(words)
        for word in words:
            if not isinstance(word, str):
                raise TypeError(f"words must be str, got {type(word).__name__}")
            if not word:
                raise TypeError("words must not be empty, got ''")
        vectors = as_matrix(vectors, "vectors")
        if len(vectors) != len(words):
            raise ValueError(
                f"vectors must have a row for each of the {len(words)} words,"
                f" got shape {vectors.shape}"
            )
        if len(set(words)) < len(words):
            word, n = Counter(words).most_common(1)[0]
            raise ValueError(f"words must be distinct, got {word!r} {n} times")
        with np.errstate(over="ignore"):  # too large numbers become infinite
            vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        checked = dict(
            words=words,
            vectors=as_matrix(vectors, "vectors"),
            counts=None if counts is None else as_vector(counts, "counts", len(words)),
            n_duplicates=n_duplicates,
            n_undecodable=n_undecodable,
            n_skipped=n_skipped,
        )
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        n, d = self.vectors.shape
        counts = "" if self.counts is None else ", with counts"
        return f"Embeddings({n} words x {d}, {self.vectors.dtype}{counts})"

    def with_counts(self, counts: Mapping[str, float]) -> Embeddings:
        """Return embeddings with the counts of their words, see `read_counts`; raise a ValueError
        if a word has none.
        """
        missing = [word for word in self.words if word not in counts]
        if missing:
            raise ValueError(
                f"counts must cover every word: none for {missing[0]!r}"
                f" ({len(missing)} of {len(self)} words have none)"
            )
        values = np.array([counts[word] for word in self.words], dtype=np.float64)
        return replace(self, counts=values)


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
    """Refuse arrays without a word and a row of real numbers for each vector."""
    if len(shape) != 2 or dtype.kind not in "fiu" or not shape[1]:
        raise ValueError(
            f"expected 'vectors' to be a 2-d array of real numbers, got shape {shape} of {dtype}"
        )
    if len(words) != shape[0]:
        raise ValueError(f"expected a word a row, got {len(words)} words for {shape[0]} rows")


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
    skipped = vocabulary.n_skipped
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
        n_duplicates=vocabulary.n_duplicates,
        n_undecodable=vocabulary.n_undecodable,
        n_skipped=vocabulary.n_skipped,
    )

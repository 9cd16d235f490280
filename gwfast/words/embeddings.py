"""Words with their vectors; `read_embeddings` reads them from files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..utils.labels import ByWord
from ..utils.types import Float32Array, Float64Array, PathLike
from ..utils.validation import as_matrix, as_vector


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
        counts = ByWord(counts)
        missing = [word for word in self.words if word not in counts]
        if missing:
            raise ValueError(
                f"counts must cover every word: none for {missing[0]!r}"
                f" ({len(missing)} of {len(self)} words have none)"
            )
        values = np.array([counts[word] for word in self.words], dtype=np.float64)
        return replace(self, counts=values)

"""Rows of words and numbers, collected from files of every format under the same rules."""

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from ...utils.archives import LEAST_ROW_BYTES, refuse_more
from ...utils.validation import as_count, one_of
from ..embeddings import Embeddings, EmbeddingsFileError

Errors: TypeAlias = Literal["strict", "replace", "skip"]


@dataclass(frozen=True)
class Options:
    """The checked arguments of `read_embeddings`."""

    max_words: int | None = None
    lower: bool = False
    errors: Errors = "strict"
    encoding: str = "utf-8"

    def __post_init__(self):
        if self.max_words is not None:
            as_count(self.max_words, "max_words")
        one_of(self.errors, "errors", get_args(Errors))
        try:
            extends_ascii = "0 1\n".encode(self.encoding) == b"0 1\n"
        except (LookupError, TypeError):
            extends_ascii = False
        if not extends_ascii:
            raise ValueError(
                f"encoding must be the name of one that extends ASCII, got {self.encoding!r}"
            )

    @property
    def skips(self):
        """True if rows that cannot be used are left out."""
        return self.errors == "skip"


class BadRow(ValueError):
    """A row cannot be used; ``errors="skip"`` leaves it out."""


class Rows:
    """Distinct words in order, their vectors, and the numbers of rows that were dropped.

    Memory is set aside at once for `max_rows`, at most `max_words`. If there are more rows, or
    `max_rows` is None, the buffer grows by an eighth: `ndarray.resize` reallocates, which moves no
    data for large buffers on Linux.
    """

    def __init__(self, n_columns, max_rows, options, budget):
        self.options, self.budget = options, budget
        self.words = {}  # as keys
        self.n_read = self.n_duplicates = self.n_undecodable = self.n_skipped = 0
        self.vectors = np.empty((min(max_rows or 0, self.room), n_columns), dtype=np.float32)

    @property
    def room(self):
        """How many words may still come."""
        return (self.options.max_words or sys.maxsize) - len(self.words)

    def extend(self, words, values):
        """Add rows, `words` being str or bytes; if a row is refused, by a ValueError, `n_read` is
        the number of rows before it.
        """
        if self.n_read > self.budget // LEAST_ROW_BYTES:
            raise refuse_more(self.budget)
        with np.errstate(over="ignore", invalid="ignore"):  # too large numbers become infinite
            values = np.asarray(values, dtype=np.float32)
            usable = np.full(len(values), np.isfinite(values.sum()))
        if not usable.all():  # or the sum alone is too large
            usable = np.isfinite(values).all(axis=1)
        if self.options.skips:
            usable &= values.any(axis=1)
        start, kept = len(self.words), []
        for word, good in zip(words, usable.tolist(), strict=True):
            if not good:
                self._skip(f"expected finite numbers, got nan or inf for {show(word)}")
            kept.append(good and self._add(word))
            self.n_read += 1
        stop = len(self.words)
        if stop > len(self.vectors):
            self._resize(stop + stop // 8 + 1024)
        self.vectors[start:stop] = values if all(kept) else values[kept]

    def _add(self, word):
        """Add a word and return whether its row is kept."""
        if isinstance(word, bytes) and (word := self._decode(word)) is None:
            self.n_skipped += 1
            return False
        if not word:
            self._skip("expected a word")
            return False
        if self.options.lower:
            word = word.lower()
        if word in self.words:
            self.n_duplicates += 1
            return False
        self.words[word] = None
        return True

    def _decode(self, word):
        encoding = self.options.encoding
        try:
            return word.decode(encoding)
        except UnicodeDecodeError as error:
            if self.options.errors == "strict":
                raise ValueError(
                    f"expected {encoding.upper()}, got {show(word)} ({error.reason});"
                    " encoding='latin-1', errors='replace' or 'skip' reads on"
                ) from None
        self.n_undecodable += 1
        return None if self.options.skips else word.decode(encoding, "replace")

    def refuse(self, reason):
        """Skip the next row, or raise `BadRow`, as `errors` says."""
        self._skip(reason)
        self.n_read += 1

    def _skip(self, reason):
        if not self.options.skips:
            raise BadRow(reason)
        self.n_skipped += 1

    def finish(self):
        """Return the `Embeddings`, with no more memory than they need."""
        n_rows = len(self.words)
        if not n_rows:
            skipped = f" ({self.n_skipped} rows were skipped)" if self.n_skipped else ""
            raise ValueError(f"expected word vectors, got none{skipped}")
        if n_rows < len(self.vectors):
            self._resize(n_rows)
        return Embeddings(
            self.words,
            self.vectors,
            n_duplicates=self.n_duplicates,
            n_undecodable=self.n_undecodable,
            n_skipped=self.n_skipped,
        )

    def _resize(self, n_rows):
        self.vectors.resize((n_rows, self.vectors.shape[1]), refcheck=False)


def file_error(path, line, error):
    """Return the `EmbeddingsFileError` for a ValueError about the content of a file."""
    remedy = "; errors='skip' leaves such rows out" if isinstance(error, BadRow) else ""
    return EmbeddingsFileError(path, line, f"{error}{remedy}")


@contextmanager
def refused(path, line=None):
    """Turn a ValueError about the content of a file into an `EmbeddingsFileError`."""
    try:
        yield
    except EmbeddingsFileError:
        raise
    except ValueError as error:
        raise file_error(path, line, error) from None


def show(text):
    """Return bytes or a word for a message: short, printable, in quotes."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace").strip("\r\n")
    return repr(text if len(text) <= 40 else text[:40] + "...")


def not_a_comma(line, separator="one space"):
    """Return a hint for a line, bytes or str, that commas or semicolons separate; else ""."""
    line = line if isinstance(line, str) else line.decode("latin-1")
    separators = [name for sign, name in ((",", "a comma"), (";", "a semicolon")) if sign in line]
    return f"; the separator is {separator}, not {separators[0]}" if separators else ""

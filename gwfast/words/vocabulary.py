"""Rules of the words of a file that are kept, the same for every format."""

import sys
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..utils.validation import as_count

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
        choices = get_args(Errors)
        if self.errors not in choices:
            raise ValueError(f"errors must be one of {', '.join(choices)}, got {self.errors!r}")
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


class Vocabulary:
    """The distinct words, in order, and what was dropped on the way."""

    def __init__(self, options):
        self.options = options
        self.words = {}  # as keys
        self.n_duplicates = self.n_undecodable = self.n_skipped = 0

    @property
    def room(self):
        """How many words may still come."""
        return (self.options.max_words or sys.maxsize) - len(self.words)

    def add(self, word):
        """Add `word`, str or bytes; whether its row is kept."""
        if isinstance(word, bytes) and (word := self._decode(word)) is None:
            return self.refuse()
        if not word:
            return self.refuse("expected a word")
        if self.options.lower:
            word = word.lower()
        if word in self.words:
            self.n_duplicates += 1
            return False
        self.words[word] = None
        return True

    def refuse(self, reason="expected a row that can be used"):
        """Skip a row and return False, or raise `BadRow`, as `errors` says."""
        if not self.options.skips:
            raise BadRow(reason)
        self.n_skipped += 1
        return False

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


def show(text):
    """Bytes or a word for a message: short, printable, in quotes."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace").strip("\r\n")
    text = str(text)  # elements of arrays call themselves so
    return repr(text if len(text) <= 40 else text[:40] + "...")

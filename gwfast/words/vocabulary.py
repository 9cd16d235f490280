"""Which words of a file are kept, and by what rule: the same for every format."""

import sys
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..utils.validation import as_count

Errors: TypeAlias = Literal["strict", "replace", "skip"]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Options:
    """What `read_embeddings` was asked for; checked."""

    max_words: int | None = None
    lower: bool = False
    errors: Errors = "strict"

    def __post_init__(self):
        if self.max_words is not None:
            as_count(self.max_words, "max_words")
        choices = get_args(Errors)
        if self.errors not in choices:
            raise ValueError(
                f"errors must be one of {', '.join(choices)}, got {self.errors!r}"
            )


class Vocabulary:
    """The distinct words, in order, and what was dropped on the way."""

    def __init__(self, options):
        self.options = options
        self.words = {}  # as keys
        # How many words there were when a row was dropped as its word had come before,
        # and when one was met that is not UTF-8.
        self.duplicates, self.undecodable = [], []

    @property
    def room(self):
        """How many words may still come."""
        return (self.options.max_words or sys.maxsize) - len(self.words)

    def add(self, word):
        """Add `word`, str or bytes; whether its row is kept."""
        if isinstance(word, bytes) and (word := self._decode(word)) is None:
            return False
        if not word:
            raise ValueError("expected a word")
        if self.options.lower:
            word = word.lower()
        if word in self.words:
            self.duplicates.append(len(self.words))
            return False
        self.words[word] = None
        return True

    def _decode(self, word):
        try:
            return word.decode("utf-8")
        except UnicodeDecodeError as error:
            if self.options.errors == "strict":
                raise ValueError(
                    f"expected UTF-8, got {show(word)} ({error.reason});"
                    " errors='replace' or 'skip' reads on"
                ) from None
        self.undecodable.append(len(self.words))
        if self.options.errors == "skip":
            return None
        return word.decode("utf-8", "replace")


def show(text):
    """Bytes or a word for a message: short, printable, in quotes."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace").strip("\r\n")
    text = str(text)  # elements of arrays call themselves so
    return repr(text if len(text) <= 40 else text[:40] + "...")

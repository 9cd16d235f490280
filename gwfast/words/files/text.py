"""Vectors as text: ``word x1 ... xd`` a line, with or without a first line ``n d``.

Compiled code parses ordinary lines, many at a time, and stops at any other line, which is parsed
here: it has a word with spaces, or is refused.

Text is read as bytes and cut at ASCII spaces only: embedding files contain words such as a
non-breaking space or ``\\u2028``, at which ``str.split`` and text-mode line iteration would break.
"""

import codecs
import re

import numpy as np

from ..embeddings import EmbeddingsFileError
from ._text import parse_rows
from .rows import BadRow, Rows, file_error, not_a_comma, show
from .source import BLOCK_BYTES, LINE_BYTES, is_number, long_line

_BLANK = b" \r\n"
_BLANK_LINES = re.compile(rb"[ \r\n]*\n")


def read_text(source, layout, options):
    """Return the rows of a text file."""
    max_rows = layout.max_rows(source, 2 * layout.n_columns + 1)
    rows = Rows(layout.n_columns, max_rows, options, source.budget)
    # Where rows are skipped, the header's number may be wrong.
    n_rows = None if options.skips else layout.n_rows
    lines = _Lines(source.path, rows, n_rows, has_header=layout.n_rows is not None)
    try:
        with source.open() as stream:
            for text in _blocks(stream):
                lines.take(text)
                if not rows.room:
                    return rows
    except EmbeddingsFileError:
        raise
    except ValueError as error:  # damage, or more bytes than the budget
        line = lines.next + lines.n_blank
        raise EmbeddingsFileError(source.path, line, str(error)) from error
    if n_rows is not None and rows.n_read < n_rows:
        said = f"expected {n_rows} rows as the header says, got {rows.n_read}"
        raise EmbeddingsFileError(source.path, 1, f"{said}{_fewer(rows)}")
    return rows


def _fewer(rows):
    """Return the remedy for a header that has another number of rows than the file."""
    return f"; max_words={len(rows.words)} or errors='skip' reads on" if rows.words else ""


def _blocks(stream):
    """Yield whole lines, about a megabyte at a time. An error of the stream, or about a line that
    is too long, is raised after the lines before it.
    """
    pieces, size, error, more = [], 0, None, b"\n"
    n_open = 0  # bytes since the last line feed
    while more:
        try:
            more = stream.read1(BLOCK_BYTES)
        except ValueError as caught:
            error, more = caught, b""
        pieces.append(more)
        size += len(more)
        n_open = len(more) - 1 - more.rfind(b"\n") + n_open * (b"\n" not in more)
        if size >= BLOCK_BYTES and b"\n" in more:
            text = b"".join(pieces)
            stop = text.rindex(b"\n") + 1
            yield text[:stop]
            pieces, size = [text[stop:]], len(text) - stop
        elif n_open > LINE_BYTES:
            error, more = long_line(), b""
    text = b"".join(pieces)
    if error is not None:
        text = text[: text.rfind(b"\n") + 1]
    elif not text.endswith(b"\n"):
        text += b"\n"
    if text:
        yield text
    if error is not None:
        raise error


class _Lines:
    """Parse lines into `rows`; `n_blank` is the number of blank lines after the last row."""

    def __init__(self, path, rows, n_rows, has_header):
        self.path, self.rows, self.n_rows = path, rows, n_rows
        self.n_blank, self.begun, self.has_header = 0, False, has_header
        self.n_columns = rows.vectors.shape[1]
        max_rows = max(1, BLOCK_BYTES // (4 * self.n_columns))
        self.values = np.empty((max_rows, self.n_columns), dtype=np.float32)
        self.words = np.empty((max_rows, 2), dtype=np.intp)

    @property
    def next(self):
        """The number of the line after the last row."""
        return self.rows.n_read + 1 + self.has_header

    def take(self, text):
        """Parse whole lines until there is no room for more words."""
        start = 0
        if not self.begun:
            self.begun = True
            if text.startswith(codecs.BOM_UTF8):
                start = len(codecs.BOM_UTF8)
            if self.has_header:
                start = text.index(b"\n") + 1
        try:
            while start < len(text) and self.rows.room:
                start = self._take_rows(text, start)
        except ValueError as error:
            raise file_error(self.path, self.next, error) from None

    def _take_rows(self, text, start):
        """Take the ordinary lines from `start` on, or another line, and return the start of the
        next lines. An error is about the line `next`.
        """
        if blank := _BLANK_LINES.match(text, start):
            self.n_blank += text.count(b"\n", start, blank.end())
            return blank.end()
        while self.n_blank:  # not at the end of the file after all
            self.rows.refuse(f"expected a word and {self.n_columns} numbers, got 0 numbers")
            self.n_blank -= 1
        max_rows = min(len(self.values), self.rows.room)
        if self.n_rows is not None:
            max_rows = min(max_rows, self.n_rows - self.rows.n_read)
        n_found, stop = parse_rows(text, start, self.values[:max_rows], self.words)
        if n_found:
            spans = self.words[:n_found].tolist()
            words = [text[begin:end] for begin, end in spans]
            self.rows.extend(words, self.values[:n_found])
            return stop
        stop = text.index(b"\n", start) + 1
        if self.rows.n_read == self.n_rows:
            said = f"expected the last of {self.n_rows} rows, got more"
            raise ValueError(f"{said}{_fewer(self.rows)}")
        try:
            word, values = _parse(text[start:stop].rstrip(_BLANK), self.n_columns)
        except BadRow as error:
            self.rows.refuse(error)
        else:
            self.rows.extend([word], values[None])
        return stop


def _parse(line, n_columns):
    """Split one line into its word, which is bytes, and its numbers."""
    word, *fields = line.rsplit(b" ", n_columns)
    expected, separator = f"expected a word and {n_columns} numbers", ""
    if b"\t" in line or b"  " in line:
        several = "a tab" if b"\t" in line else "two"
        separator = f"; the separator is one space, not {several}"
    if len(fields) < n_columns:
        separator = separator or not_a_comma(line)
        raise BadRow(f"{expected}, got {len(fields)} numbers{separator}")
    if not word:
        raise BadRow(f"{expected}, got no word")
    if b" " in word and is_number(word.rsplit(b" ", 1)[1]):
        separator = separator or f"; the separator is one space, as in {show(word)}"
        raise BadRow(f"{expected}, got more numbers{separator}")
    for field in fields:
        if not is_number(field):
            raise BadRow(f"{expected}, got {show(field)}{separator}")
    if word.endswith(b" "):
        raise BadRow(f"{expected}, got {show(word)}{separator}")
    if b"\r" in word:
        field = next(field for field in word.split(b" ") if b"\r" in field)
        raise BadRow(f"{expected}, got {show(field)}; line ends must be line feeds")
    return word, np.array([float(field) for field in fields])

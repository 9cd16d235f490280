"""Files of vectors before they are parsed: compression, and the layout that the head shows."""

import codecs
import importlib
import io
import math
import re
import stat
from collections import Counter
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from ...utils.archives import LEAST_ROW_BYTES, default_budget, refuse_more
from ...utils.validation import as_count
from ..embeddings import EmbeddingsFileError
from .rows import not_a_comma, show

_HEAD_BYTES = 1 << 16
# Bytes that are parsed at once.
BLOCK_BYTES = 1 << 20
# Bytes of the longest line, and of the longest word in binary: enough for a million columns.
LINE_BYTES = 1 << 25
_BUFFER_BYTES = 1 << 18
_MAX_COLUMNS = 1_000_000
# First bytes and name of each compression, by the module that opens it.
_COMPRESSIONS = {
    "gzip": (rb"\x1f\x8b", "gzip"),
    "bz2": (rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", "bzip2"),
    "lzma": (rb"\xfd7zXZ\x00", "xz"),
}
_NATURAL = re.compile(rb"[0-9]{1,18}")
# Floats have some of these, text hardly any.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@dataclass(frozen=True)
class Source:
    """A file, plain or compressed by a module of the standard library."""

    path: Path
    compression: str | None
    size: int | None  # in bytes, where it is not compressed
    max_bytes: int | None  # of the unpacked file, as given
    budget: int  # bytes of the unpacked file

    @classmethod
    def of(cls, path, max_bytes=None):
        """Return the source of a file, which must be a regular file: it is read twice."""
        if max_bytes is not None:
            max_bytes = as_count(max_bytes, "max_bytes", most=math.inf)
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise EmbeddingsFileError(path, None, "expected a regular file, got a pipe or a device")
        with open(path, "rb") as stream:
            magic = stream.read(10)
        budget = max_bytes or default_budget(status.st_size)
        for name, (pattern, _) in _COMPRESSIONS.items():
            if re.match(pattern, magic):
                return cls(path, name, None, max_bytes, budget)
        return cls(path, None, status.st_size, max_bytes, budget)

    def open(self):
        """Return a buffered stream of the unpacked file, which raises a ValueError if the file
        exceeds the budget, or compressed data are damaged or truncated.
        """
        if self.compression is None:
            if self.size <= self.budget:
                return open(self.path, "rb", buffering=_BUFFER_BYTES)
            stream = open(self.path, "rb")
        else:  # some Pythons are built without bz2 or lzma
            stream = importlib.import_module(self.compression).open(self.path, "rb")
        limited = _Limited(stream, self.budget, self.compression)
        return io.BufferedReader(limited, _BUFFER_BYTES)

    def head(self):
        """Return the first bytes of the unpacked file, with the whole of its first line."""
        pieces, size, whole = [], 0, False
        with self.open() as stream:
            try:
                while size < _HEAD_BYTES or not (whole or size > LINE_BYTES):
                    more = stream.read1(_HEAD_BYTES)
                    if not more:
                        break
                    pieces.append(more)
                    size += len(more)
                    whole = whole or b"\n" in more
            except ValueError as error:
                if not whole:
                    raise EmbeddingsFileError(self.path, 1, str(error)) from error
                # Further reading meets the error again.
        return b"".join(pieces)

    def lines(self):
        """Yield numbers and bytes of the lines, without a byte order mark and line ends; an error
        names the line that cannot be read.
        """
        number = 1
        try:
            with self.open() as stream:
                while line := stream.readline(LINE_BYTES + 1):
                    if len(line) > LINE_BYTES:
                        raise long_line()
                    if number > self.budget // LEAST_ROW_BYTES + 1:
                        raise refuse_more(self.budget)
                    line = line.rstrip(b"\r\n")
                    yield number, line.removeprefix(codecs.BOM_UTF8 * (number == 1))
                    number += 1
        except ValueError as error:
            raise EmbeddingsFileError(self.path, number, str(error)) from error


class _Limited(io.RawIOBase):
    """A stream that raises a ValueError beyond a budget, and where compressed data are damaged."""

    def __init__(self, stream, budget, compression):
        self.stream, self.budget, self.compression = stream, budget, compression
        self.left = budget

    def readable(self):
        return True

    def readinto(self, buffer):
        try:
            data = self.stream.read1(len(buffer))
        except Exception as error:  # of many kinds
            if self.compression is None or isinstance(error, MemoryError):
                raise
            called = _COMPRESSIONS[self.compression][1]
            raise ValueError(f"expected whole {called} data, got: {error}") from error
        self.left -= len(data)
        if self.left < 0:
            raise refuse_more(self.budget)
        buffer[: len(data)] = data
        return len(data)

    def close(self):
        self.stream.close()
        super().close()


def long_line():
    """Return the error for a line of more than `LINE_BYTES`."""
    return ValueError(f"expected lines of at most {LINE_BYTES} bytes, got a longer one")


@dataclass(frozen=True)
class Layout:
    """The layout of a file of vectors."""

    binary: bool
    n_rows: int | None  # None without a header
    n_columns: int

    @classmethod
    def of(cls, source, head):
        """Return the layout by the first bytes; raise a ValueError about the first line.

        A file is binary if it has a header, and then a row that is no text: by its bytes, or
        because the file is called ``.bin`` and its first row does not read as text.
        """
        first, _, rest = head.removeprefix(codecs.BOM_UTF8).partition(b"\n")
        if len(first) > LINE_BYTES:
            raise long_line()
        lines = [first, *rest.rpartition(b"\n")[0].split(b"\n")]
        n_rows, n_columns = _header(lines)
        # A compressed file keeps its own name: STEM.bin.gz.
        called_binary = ".bin" in source.path.suffixes[-2:]
        if n_rows is None:
            if called_binary:
                raise ValueError(f"expected the header 'n d', got {show(first)}")
            return cls(False, None, n_columns)
        if called_binary:
            # Four digits are a number as text and as float32.
            binary = n_columns == 1 or not _is_row(rest, n_columns)
        else:
            numbers = rest.partition(b" ")[2][: 4 * n_columns]
            binary = bool(_CONTROL.search(numbers)) and not _is_row(rest, n_columns)
        if not binary and (counts := Counter(filter(None, map(_n_numbers, lines[1:])))):
            [(most, n_lines)] = counts.most_common(1)
            if n_columns not in counts and 2 * n_lines > counts.total():
                raise ValueError(f"header says {n_columns}, rows have {most} numbers")
        return cls(binary, n_rows, n_columns)

    def max_rows(self, source, row_bytes):
        """Return the largest number of rows of this size in bytes; None if unknown."""
        # The header alone is not trusted with memory.
        if self.n_rows is None or source.size is None:
            return None
        return min(self.n_rows, source.size // row_bytes)


def _header(lines):
    """Return the numbers of rows (None without a header) and columns, from the first lines."""
    first = lines[0].rstrip(b" \r\n")
    _check_columns(first.count(b" ") or 1)
    fields = first.split(b" ")
    if len(fields) == 2 and all(map(_NATURAL.fullmatch, fields)):
        n_rows, n_columns = int(fields[0]), int(fields[1])
        _check_columns(n_columns)
        return n_rows, n_columns
    # Without a header words may have spaces, and some rows too many or too few numbers.
    counts = Counter(filter(None, map(_n_numbers, lines)))
    has_tabs = all(b"\t" in line for line in lines if line)
    # The last field of "a, 0.1, 0.2" is a number.
    has_commas = all(not_a_comma(line.partition(b" ")[2]) for line in lines if line)
    if not counts or has_tabs or (has_commas and counts.most_common(1)[0][0] == 1):
        separator = "; the separator is one space, not a tab" if has_tabs else not_a_comma(first)
        raise ValueError(
            f"expected the header 'n d' or a word vector, got {show(first)}{separator}"
        )
    return None, counts.most_common(1)[0][0]


def _n_numbers(line):
    """Return how many fields at the end of a line are numbers, the first field left out."""
    fields = line.rstrip(b" \r").split(b" ")[1:]
    return sum(1 for _ in takewhile(is_number, reversed(fields)))


def _check_columns(n_columns):
    if not 0 < n_columns <= _MAX_COLUMNS:
        raise ValueError(f"expected 1 to {_MAX_COLUMNS} columns, got {n_columns}")


def _is_row(text, n_columns):
    """Return whether bytes begin with a line of a word and `n_columns` numbers."""
    fields = text.partition(b"\n")[0].rstrip(b" \r").rsplit(b" ", n_columns)
    return len(fields) == n_columns + 1 and all(map(is_number, fields[1:]))


def is_number(field):
    """Return whether bytes are a number; Python's ``1_000`` is not."""
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field

"""Files of vectors before they are parsed: compression, and what the head tells."""

import gzip
import importlib
import re
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path

from ..embeddings import EmbeddingsFileError
from ..vocabulary import BYTE_ORDER_MARK, show

_HEAD_BYTES, _LINE_BYTES = 1 << 16, 1 << 24
_BUFFER_BYTES = 1 << 18
_MAX_COLUMNS = 1_000_000
FASTTEXT_MODEL = (793712314).to_bytes(4, "little")  # FASTTEXT_FILEFORMAT_MAGIC
# Modules that open what begins so, and what the compression is called.
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

    @classmethod
    def of(cls, path):
        """Look at a file, which must be one that can be read from the start again."""
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise EmbeddingsFileError(
                path, None, "expected a regular file, got a pipe or a device"
            )
        with open(path, "rb") as stream:
            magic = stream.read(10)
        for name, (pattern, _) in _COMPRESSIONS.items():
            if re.match(pattern, magic):
                return cls(path, name, None)
        return cls(path, None, status.st_size)

    def open(self):
        """A buffered stream of what is in the file."""
        if self.compression is None:
            return open(self.path, "rb", buffering=_BUFFER_BYTES)
        # Some Pythons are built without bz2 or lzma.
        module = importlib.import_module(self.compression)
        return module.open(self.path, "rb")

    @property
    def damaged(self):
        """What a compressed file that is damaged or cut raises when it is read."""
        if self.compression is None:
            return ()
        if self.compression == "gzip":
            return EOFError, zlib.error, gzip.BadGzipFile
        if self.compression == "bz2":
            return EOFError, OSError
        return EOFError, importlib.import_module("lzma").LZMAError

    def damage(self, line, error, kind=EmbeddingsFileError):
        """The error to raise for one of these."""
        name = _COMPRESSIONS[self.compression][1]
        return kind(self.path, line, f"expected whole {name} data, got: {error}")

    def head(self):
        """The first bytes of what is in the file, with the whole of its first line."""
        head = b""
        with self.open() as stream:
            try:
                while len(head) < _HEAD_BYTES or (
                    b"\n" not in head and len(head) < _LINE_BYTES
                ):
                    more = stream.read1(_HEAD_BYTES)
                    if not more:
                        break
                    head += more
            except self.damaged as error:
                if b"\n" not in head:
                    raise self.damage(1, error) from error
                # Who reads on gets there again.
        return head


@dataclass(frozen=True)
class Layout:
    """How the rows of a file of vectors are written."""

    binary: bool
    n_rows: int | None  # None without a header
    n_columns: int

    @classmethod
    def of(cls, source, head):
        """Read it from the first bytes; a ValueError is about the first line.

        Binary is what has a header, and then a row that is no text: by its bytes, or
        as the file is called ``.bin`` and its first row does not read as text.
        """
        first, _, rest = head.removeprefix(BYTE_ORDER_MARK).partition(b"\n")
        n_rows, n_columns = _header(first)
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
        return cls(binary, n_rows, n_columns)

    def max_rows(self, source, row_bytes):
        """How many rows there can be if each has as many bytes; None if unknown."""
        # The header alone is not trusted with memory.
        if self.n_rows is None or source.size is None:
            return None
        return min(self.n_rows, source.size // row_bytes)


def _header(first):
    """Numbers of rows (None without a header) and of columns, from the first line."""
    fields = first.rstrip(b" \r\n").split(b" ")
    if len(fields) == 2 and all(map(_NATURAL.fullmatch, fields)):
        n_rows, n_columns = int(fields[0]), int(fields[1])
        if not 0 < n_columns <= _MAX_COLUMNS:
            raise ValueError(f"expected 1 to {_MAX_COLUMNS} columns, got {n_columns}")
        return n_rows, n_columns
    if len(fields) < 2:
        raise ValueError(
            f"expected the header 'n d' or a word vector, got {show(first)}"
        )
    return None, len(fields) - 1


def _is_row(text, n_columns):
    """Whether bytes begin with a line of a word and as many numbers."""
    fields = text.partition(b"\n")[0].rstrip(b" \r").rsplit(b" ", n_columns)
    return len(fields) == n_columns + 1 and all(map(is_number, fields[1:]))


def is_number(field):
    """Whether bytes are a number in a file; not so is Python's ``1_000``."""
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field

"""word2vec binary: a line ``n d``, then for every row a word, a space, d float32."""

import sys

import numpy as np

from .rows import Rows
from .source import BLOCK_BYTES, LINE_BYTES


def read_binary(source, layout, options):
    """Return the rows of a binary file."""
    n_rows, n_columns = layout.n_rows, layout.n_columns
    rows = Rows(n_columns, layout.max_rows(source, 4 * n_columns + 2), options, source.budget)
    with source.open() as stream:
        stream.readline()
        rest = _read_rows(stream, n_rows, rows)
        # Bytes after the last word of `max_words` are not read.
        if rows.room and (rest + stream.read(BLOCK_BYTES)).strip(b"\n"):
            few = f"max_words={len(rows.words)} or errors='skip' reads on"
            raise ValueError(f"expected {n_rows} rows, got more bytes; {few}")
    return rows


def _read_rows(stream, n_rows, rows):
    """Fill `rows`, and return the bytes that were read and not used."""
    n_bytes = 4 * rows.vectors.shape[1]
    buffer, start, skips = b"", 0, rows.options.skips
    if skips:  # the header's number may be wrong
        n_rows = sys.maxsize
    while max_rows := min(n_rows - rows.n_read, rows.room):
        words, parts, start = _split(buffer, start, n_bytes, max_rows)
        if words:
            values = np.frombuffer(b"".join(parts), "<f4").reshape(len(words), -1)
            try:
                rows.extend(words, values)
            except ValueError as error:
                raise type(error)(f"{error} in row {rows.n_read + 1}") from None
            continue
        if len(buffer) - start > LINE_BYTES + n_bytes:
            long = f"expected words of at most {LINE_BYTES} bytes, got a longer one"
            raise ValueError(f"{long} in row {rows.n_read + 1}")
        more = stream.read(BLOCK_BYTES)
        if not more and skips:
            if buffer[start:].strip(b"\n"):
                rows.refuse("the last row is cut")
            return b""
        if not more:
            end = f"got the file's end in row {rows.n_read + 1}"
            few = f"max_words={len(rows.words)} or errors='skip'"
            raise ValueError(f"expected {n_rows} rows, {end}; {few} reads the rest")
        buffer, start = buffer[start:] + more, 0
    return buffer[start:]


def _split(buffer, start, n_bytes, max_rows):
    """Return words and values, as bytes, of whole rows, and the position of the next row."""
    words, parts = [], []
    while len(words) < max_rows:
        space = buffer.find(b" ", start)
        stop = space + 1 + n_bytes
        if space < 0 or len(buffer) < stop:
            break
        # Some writers end a row with a line feed, others do not.
        words.append(buffer[start:space].lstrip(b"\n"))
        parts.append(buffer[space + 1 : stop])
        start = stop
    return words, parts, start

"""Files of vectors of which any rows can be read without the others: NumPy's ``.npy``
and ``.npz``, and text, one vector a line (word2vec, GloVe), by byte ranges.
"""

import bisect
import contextlib
import math
import os
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from ..utils.archives import open_archive, open_array
from ..words.files._text import parse_rows

# Bytes of a text file that are looked through at a time for where lines begin, and
# lines from one that is written down to the next.
RANGE_BYTES, STRIDE = 1 << 25, 1024


class ArrayRows(NamedTuple):
    """Rows of the array in an ``.npy`` file, mapped into memory."""

    path: str
    n: int
    d: int

    def read(self, start, stop):
        return np.load(self.path, mmap_mode="r", allow_pickle=False)[start:stop]


class MemberRows(NamedTuple):
    """Rows of an array in an ``.npz`` file: those before are unpacked, and not kept."""

    path: str
    n: int
    d: int
    name: str

    def read(self, start, stop):
        with _member(self.path, self.name) as (stream, (_, _, dtype)):
            row_bytes = self.d * dtype.itemsize
            stream.seek(start * row_bytes, os.SEEK_CUR)
            data = stream.read((stop - start) * row_bytes)
        return np.frombuffer(data, dtype).reshape(stop - start, self.d)


class TextRows(NamedTuple):
    """Lines of a text file, of which some, `numbers`, begin at `offsets`."""

    path: str
    n: int
    d: int
    numbers: list
    offsets: list

    def read(self, start, stop):
        at = bisect.bisect_right(self.numbers, start) - 1
        out, done = np.empty((stop - start, self.d), dtype=np.float32), 0
        with open(self.path, "rb") as stream:
            stream.seek(self.offsets[at])
            for _ in range(start - self.numbers[at]):
                stream.readline()
            while done < len(out):
                lines = stream.readlines(RANGE_BYTES)
                if not lines:
                    raise ValueError(f"{self.path}: expected {self.n} rows, got fewer")
                text = b"".join(lines[: len(out) - done])
                done += self._parse(text, out[done:], start + done)
        return out

    def _parse(self, text, out, first):
        """Ordinary lines many at a time, others one by one; returns how many."""
        text += b"" if text.endswith(b"\n") else b"\n"
        words, done, at = np.empty((len(out), 2), dtype=np.intp), 0, 0
        while at < len(text):
            n_found, at = parse_rows(text, at, out[done:], words)
            done += n_found
            if at < len(text):
                end = text.index(b"\n", at) + 1
                line = text[at:end].split()
                try:
                    out[done] = [float(value) for value in line[-self.d :]]
                except ValueError:
                    raise ValueError(
                        f"{self.path}: expected a word and {self.d} numbers in row "
                        f"{first + done}, got {text[at:end][:60]!r}"
                    ) from None
                done, at = done + 1, end
        return done


@contextlib.contextmanager
def _member(path, name):
    with _archive(path) as archive, open_array(archive, name, math.inf) as found:
        yield found


@contextlib.contextmanager
def _archive(path):
    """`open_archive`, whose errors then name the file."""
    try:
        with open_archive(path) as archive:
            yield archive
    except ValueError as error:
        named = str(error).startswith(path)
        raise ValueError(str(error) if named else f"{path}: {error}") from error


Rows: TypeAlias = ArrayRows | MemberRows | TextRows


def open_rows(path, over):
    """What reads rows of a file; ``over(function, parts)`` applies a function to each
    of a list of arguments.

    Raises
    ------
    ValueError
        That names the file.
    """
    path = str(Path(path).absolute())
    if path.endswith(".npy"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        return ArrayRows(path, *_checked(path, array.shape, False, array.dtype))
    if path.endswith(".npz"):
        with _archive(path) as archive:
            names = archive.files
        name = names[0] if len(names) == 1 else "vectors"
        if name not in names:
            raise ValueError(f"{path}: expected one array, or one named 'vectors', got {names}")
        with _member(path, name) as (_, header):
            return MemberRows(path, *_checked(path, *header), name)
    return _text_rows(path, over)


def _checked(path, shape, in_columns, dtype):
    if len(shape) != 2 or in_columns or dtype.kind not in "fiu":
        order = " in column order" if in_columns else ""
        raise ValueError(
            f"{path}: expected a 2-d array of numbers, got {dtype} of shape {shape}{order}"
        )
    return shape


def _text_rows(path, over):
    size = os.path.getsize(path)
    with open(path, "rb") as stream:
        first = stream.readline().split()
        after_header, second = stream.tell(), stream.readline().split()
    has_header = len(first) == 2 and all(field.isdigit() for field in first)
    d = int(first[1]) if has_header else len(first) - 1
    if d < 1 or (has_header and len(second) <= d):
        raise ValueError(f"{path}: expected vectors, one a line, got {first[:5]}")
    ranges = [
        (path, start, min(start + RANGE_BYTES, size)) for start in range(0, size, RANGE_BYTES)
    ]
    numbers, offsets, line = [], [], 0
    for found, count in over(_line_starts, ranges):
        numbers += [line + STRIDE * k for k in range(len(found))]
        offsets += found
        line += count
    if has_header:
        # Row k is line k + 1; the first row is where the header ends.
        numbers = [0, *(number - 1 for number in numbers[1:])]
        offsets = [after_header, *offsets[1:]]
        line -= 1
        if line != int(first[0]):
            raise ValueError(f"{path}: expected {int(first[0])} rows, got {line}")
    return TextRows(path, line, d, numbers, offsets)


def _line_starts(path, start, stop):
    """Where every so many lines begin of those that begin in a range of bytes, and how
    many these are.
    """
    with open(path, "rb") as stream:
        # The line feed before the range tells whether one begins with it.
        stream.seek(max(start - 1, 0))
        data = np.frombuffer(stream.read(stop - max(start - 1, 0)), dtype=np.uint8)
    begins = np.flatnonzero(data == ord("\n")) + max(start - 1, 0) + 1
    begins = begins[begins < stop]
    if start == 0:
        begins = np.concatenate([[0], begins])
    return begins[::STRIDE].tolist(), len(begins)

"""Arrays in NumPy's files, checked before memory is set aside for their claims."""

import functools
import itertools
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from .types import PathLike

T = TypeVar("T")
# Bytes that a row of text counts as, at least: a short one takes longer to read.
LEAST_ROW_BYTES = 32


class ArrayHeader(NamedTuple):
    """The header of an array in a file."""

    shape: tuple[int, ...]
    in_columns: bool
    dtype: np.dtype[Any]


def default_budget(n_bytes: int) -> int:
    """Return the most bytes to unpack of a file of `n_bytes`: vectors and word lists shrink to a
    tenth at best, zeros and ones in text to a 50th.
    """
    return (1 << 24) + 64 * n_bytes


def refuse_more(budget: float) -> ValueError:
    """Return the error for a file that would unpack to more."""
    return ValueError(
        f"expected at most {budget} bytes once unpacked (of {LEAST_ROW_BYTES} or more a row), got"
        " more; max_bytes sets the limit"
    )


def shortened(text: object) -> str:
    """Return what an error says, which may be all of a damaged file, in a line or two."""
    return " ".join(str(text).split())[:200]


@contextmanager
def open_archive(file: PathLike | BinaryIO) -> Iterator[NpzFile]:
    """Open an archive of arrays; raise a ValueError for any other file, and for an archive in
    which two members have one name: one could be checked, and the other read.
    """
    try:
        opened = NpzFile(file, allow_pickle=False)  # type: ignore[arg-type]
    except zipfile.BadZipFile as error:
        raise ValueError(f"expected an archive of arrays: {error}") from error
    with opened as archive:
        for name, other in itertools.pairwise(sorted(archive.files)):
            if name == other:
                raise ValueError(f"expected arrays of different names, got {name[:60]!r} twice")
        yield archive


@contextmanager
def open_array(
    archive: NpzFile, name: str, budget: float
) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
    """Open the data of an array of `open_archive` as a stream, with its header; raise a ValueError
    for more bytes than `budget`, for pickled objects, and for a shape of more bytes than there are.
    """
    members: zipfile.ZipFile = archive.zip  # type: ignore[assignment]
    member = members.NameToInfo.get(f"{name}.npy") or members.getinfo(name)
    # zipfile unpacks members of other kinds at once, of any size; NumPy writes no other kinds.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"expected {name[:60]!r} stored or deflated, got {member.compress_type}")
    if member.file_size > budget:
        raise refuse_more(budget)
    with members.open(member) as stream:
        is_first = npy.read_magic(stream) == (1, 0)
        read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
        shape, _, dtype = header = ArrayHeader(*read(stream))
        if dtype.hasobject:
            save = f"{name}.astype({'str' if 'words' in name else 'float'})"
            raise ValueError(
                f"expected numbers or text in {name!r}, got Python objects: save {save}"
            )
        count, left = math.prod(shape), member.file_size - stream.tell()
        if count * dtype.itemsize > left or (count and not dtype.itemsize):
            expected = f"an array {name!r} of shape {shape} and {dtype.str}"
            raise ValueError(f"expected {expected}, got {left} bytes")
        yield stream, header


def read_array(
    archive: NpzFile, name: str, budget: float, expected: tuple[Any, Any] | None = None
) -> NDArray[Any]:
    """Return an array of an archive; errors as of `open_array`, and for another shape and dtype
    than those `expected`.
    """
    with open_array(archive, name, budget) as (stream, header):
        if expected is not None and (header.shape, header.dtype) != expected:
            raise ValueError(
                f"expected {name!r} of shape {expected[0]} and {np.dtype(expected[1])}, got "
                f"{header.shape} and {header.dtype}"
            )
        stream.seek(0)  # the very member that was checked
        return npy.read_array(stream, allow_pickle=False)


def read_fields(
    path: str, writer: str, fields: Callable[[Callable[[str], NDArray[Any]], list[str]], T]
) -> T:
    """Return ``fields(read, names)`` of an archive: a function that reads arrays by name, and all
    names. Errors name the file, and the method `writer` that should have written it.
    """
    with open(path, "rb") as stream:
        try:
            with open_archive(stream) as archive:
                budget = default_budget(os.path.getsize(path))
                return fields(functools.partial(read_array, archive, budget=budget), archive.files)
        except MemoryError as error:
            reason = shortened(error) or "out of memory"
            raise MemoryError(f"{path}: cannot be read: {reason}") from error
        # zipfile, compression, NumPy, SciPy, JSON and wrong shapes raise errors of many kinds.
        except Exception as error:
            reason = shortened(error)
            raise ValueError(f"{path}: damaged, or no file of {writer} ({reason})") from error

"""Arrays in NumPy's files, looked at before memory is set aside for what they claim."""

import itertools
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from .types import PathLike

# No more than this is unpacked of a file of `n` bytes, unless a reader is told to:
# vectors and word lists shrink to a tenth at best, zeros and ones in text to a 50th.
LEAST_BUDGET = 1 << 24
BUDGET_PER_BYTE = 64
# A row of text counts as so many bytes at least: a short one takes longer to read.
LEAST_ROW_BYTES = 32
# Of what others say of a file, as much as fits a line or two.
REASON_LENGTH = 200


class ArrayHeader(NamedTuple):
    """What a file says of its array."""

    shape: tuple[int, ...]
    in_columns: bool
    dtype: np.dtype[Any]


def default_budget(n_bytes: int) -> int:
    """The most bytes to unpack of a file of so many."""
    return LEAST_BUDGET + BUDGET_PER_BYTE * n_bytes


def refuse_more(budget: float) -> ValueError:
    """The error for a file that would unpack to more."""
    return ValueError(
        f"expected at most {budget} bytes once unpacked (of {LEAST_ROW_BYTES} or more a"
        " row), got more; max_bytes sets the limit"
    )


def shortened(text: object) -> str:
    """What an error says, which may be all of a damaged file, as far as it fits a line or two."""
    return " ".join(str(text).split())[:REASON_LENGTH]


@contextmanager
def open_archive(file: PathLike | BinaryIO) -> Iterator[NpzFile]:
    """An archive of arrays; a ValueError for what is none, and for one in which two
    members go by one name.

    A zip file may hold a name twice, and NumPy takes ``name`` and ``name.npy`` for the
    same array: of such members one could be checked, and the other one read.
    """
    try:
        opened = NpzFile(file, allow_pickle=False)  # type: ignore[arg-type]
    except zipfile.BadZipFile as error:
        raise ValueError(f"expected an archive of arrays: {error}") from error
    with opened as archive:
        names = sorted(archive.files)
        for name, other in itertools.pairwise(names):
            if name == other:
                raise ValueError(f"expected arrays of different names, got {name[:60]!r} twice")
        yield archive


@contextmanager
def open_array(
    archive: NpzFile, name: str, budget: float
) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
    """The data of an array of `open_archive`, as a stream, and what is said of it.

    A ValueError is raised for more bytes than `budget`, for pickled objects, and for a
    shape that takes more bytes than there are.
    """
    members: zipfile.ZipFile = archive.zip  # type: ignore[assignment]
    member = members.NameToInfo.get(f"{name}.npy") or members.getinfo(name)
    if member.file_size > budget:
        raise refuse_more(budget)
    with members.open(member) as stream:
        header = _header(stream)
        shape, _, dtype = header
        if dtype.hasobject:
            kind = "str" if "words" in name else "float"
            raise ValueError(
                f"expected numbers or text in {name!r}, got Python objects: save"
                f" {name}.astype({kind})"
            )
        count, left = math.prod(shape), member.file_size - stream.tell()
        if count * dtype.itemsize > left or (count and not dtype.itemsize):
            raise ValueError(
                f"expected an array {name!r} of shape {shape} and {dtype.str}, got"
                f" {left} bytes of it"
            )
        yield stream, header


def _header(stream):
    if npy.read_magic(stream) == (1, 0):
        return ArrayHeader(*npy.read_array_header_1_0(stream))
    return ArrayHeader(*npy.read_array_header_2_0(stream))


def read_array(archive: NpzFile, name: str, budget: float) -> NDArray[Any]:
    """An array of an archive; errors as of `open_array`."""
    with open_array(archive, name, budget) as (stream, _):
        stream.seek(0)  # the very member that was checked
        return npy.read_array(stream, allow_pickle=False)

"""Files that claim more than they hold, or unpack to far more than they are."""

import io
import warnings
import zipfile

from helpers.vector_files import COMPRESS
from numpy.lib import format as npy


def npy_bytes(shape, descr, data=b"", fortran_order=False):
    stream, header = io.BytesIO(), {"descr": descr, "fortran_order": fortran_order, "shape": shape}
    npy.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


def zip_bytes(*members):
    """Return a compressed archive of pairs of a name and bytes; a name may come twice."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for member in members:
            archive.writestr(*member)
    return stream.getvalue()


def npz_bytes(words, vectors):
    return zip_bytes(("words.npy", words), ("vectors.npy", vectors))


def repeated(compression, piece, head=b""):
    """Return a file that unpacks to `head` and 64 MiB of a piece over and over."""
    compress = COMPRESS[compression]
    return compress(head) + 64 * compress(piece * (2**20 // len(piece)))


WORD = npy_bytes((1,), "<U1", b"a\0\0\0")
VECTOR = npy_bytes((1, 1), "<f4", bytes(4))
FORMAT = npy_bytes((), "<i8", b"\3" + bytes(7))
MANY = npy_bytes((10**12, 4), "<f4")
FILES = {
    "words.npz": lambda: npz_bytes(npy_bytes((10**9,), "<U0"), VECTOR),
    "many.npz": lambda: npz_bytes(npy_bytes((10**12,), "<U5"), MANY),
    "columns.npz": lambda: npz_bytes(WORD, npy_bytes((10**12, 4), "<f4", fortran_order=True)),
    "bomb.npz": lambda: npz_bytes(npy_bytes((2**24,), "<U1", bytes(2**26)), VECTOR),
    "array.npy": lambda: MANY,
    "alignment.npz": lambda: zip_bytes(("gwfast_alignment.npy", FORMAT), ("mapping.npy", MANY)),
    "line.bz2": lambda: repeated("bzip2", b"a"),
    "word.bin.gz": lambda: repeated("gzip", b"a", head=b"2 1\n"),
    "last_line.xz": lambda: repeated("xz", b"1 ", head=b"a 1 2\n"),
    "blank.xz": lambda: repeated("xz", b"\n", head=b"a 1 2\n"),
    "rows.xz": lambda: repeated("xz", b"a 1\n", head=b"999999999 1\n"),
}

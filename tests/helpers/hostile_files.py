"""Files that claim more than they hold, or unpack to far more than they are."""

import bz2
import gzip
import io
import lzma
import warnings
import zipfile

import numpy as np
from numpy.lib import format as npy

COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
_PIECE = 1 << 20


def unpacking_to(kind, head, repeated, n_bytes):
    """A compressed file of `head`, and then of a few bytes over and over."""
    compress = COMPRESS[kind]
    piece = compress((repeated * (_PIECE // len(repeated) + 1))[:_PIECE])
    return (compress(head) if head else b"") + piece * (n_bytes // _PIECE)


def npy_bytes(shape, descr, data=b"", fortran=False):
    """An ``.npy`` file that says so, with any data."""
    made = io.BytesIO()
    header = {"descr": descr, "fortran_order": fortran, "shape": shape}
    npy.write_array_header_1_0(made, header)
    return made.getvalue() + data


def npz_bytes(**members):
    """An archive of such files, compressed."""
    return zip_bytes((f"{name}.npy", content) for name, content in members.items())


def zip_bytes(members):
    """A compressed archive of pairs of a name and bytes; names may come twice."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Duplicate name")
                archive.writestr(name, content)
    return made.getvalue()


def with_twin(archive, name, content=None, alias=True):
    """The bytes of an archive with one more member that goes by the name of an array:
    as NumPy finds it beside ``name.npy``, or with `alias` false by the same name. Its
    content is that of the array if none is given.
    """
    with zipfile.ZipFile(io.BytesIO(archive)) as old:
        members = [(one, old.read(one)) for one in old.namelist()]
    own = dict(members)[f"{name}.npy"]
    twin = name if alias else f"{name}.npy"
    return zip_bytes([*members, (twin, own if content is None else content)])


def _array(values):
    return npy_bytes(np.shape(values), np.asarray(values).dtype.str, np.array(values).tobytes())


WORD = _array(["a"])
VECTOR = _array([[1.0]])
# Files by name, and what makes their content.
TOO_MUCH = 1 << 26
FILES = {
    "words.npz": lambda: npz_bytes(words=npy_bytes((10**9,), "<U0"), vectors=VECTOR),
    "many.npz": lambda: npz_bytes(
        words=npy_bytes((10**12,), "<U5"), vectors=npy_bytes((10**12, 4), "<f4")
    ),
    "columns.npz": lambda: npz_bytes(
        words=WORD, vectors=npy_bytes((10**12, 4), "<f4", fortran=True)
    ),
    "rows.npz": lambda: npz_bytes(words=WORD, vectors=npy_bytes((1, 10**12), "<f8")),
    "bomb.npz": lambda: npz_bytes(
        words=npy_bytes((1 << 24,), "<U1", bytes(TOO_MUCH)), vectors=VECTOR
    ),
    "alias.npz": lambda: with_twin(
        npz_bytes(words=WORD, vectors=VECTOR),
        "words",
        npy_bytes((1 << 24,), "<U1", bytes(TOO_MUCH)),
    ),
    "array.npy": lambda: npy_bytes((10**12, 4), "<f4"),
    **{
        f"{name}.{kind}": lambda kind=kind, parts=parts: unpacking_to(kind, *parts, TOO_MUCH)
        for name, kinds, parts in (
            ("line", COMPRESS, (b"", b"a")),
            ("word.bin", ["gz"], (b"2 1\n", b"a")),
            ("last_line", ["xz"], (b"a 1 2\n", b"1 ")),
            ("blank", ["xz"], (b"a 1 2\n", b"\n")),
            ("rows", ["xz"], (b"999999999 1\n", b"a 1\n")),
        )
        for kind in kinds
    },
}

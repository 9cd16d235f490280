"""Write word embeddings to files that word2vec, gensim, MUSE or NumPy read."""

import gzip
import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from ...utils.atomic_files import replacing
from ...utils.types import PathLike
from ..embeddings import Embeddings

FORMATS = {".vec": "text", ".txt": "text", ".bin": "binary", ".npz": "npz"}
# Significant digits that bring every float32 back.
_EXACT = 9
_BLOCK_ROWS = 256
_BREAKS = re.compile("[ \n\r]")


def write_embeddings(
    path: PathLike,
    embeddings: Embeddings,
    *,
    format: Literal["auto", "text", "binary", "npz"] = "auto",
    precision: int | None = None,
    space: str | None = None,
) -> None:
    """Write words and vectors to a file.

    The file appears complete or not at all, and replaces an older file only then. Counts are not
    written.

    Parameters
    ----------
    path : str or path-like
        Compressed by gzip if it ends in ``.gz``.
    embeddings : Embeddings
        ``Embeddings(words, vectors)`` makes them of arrays.
    format : {"auto", "text", "binary", "npz"}
        word2vec text, word2vec binary, or an archive with arrays ``words`` (strings) and
        ``vectors``. "auto" goes by the end of the name: ``.vec`` and ``.txt``, ``.bin``, ``.npz``.
    precision : int, optional
        Significant digits of the numbers in text, 1 to 9. By default 9, which bring back the same
        float32.
    space : str, optional
        Replacement for every space in a word, such as "_", in text and binary, which end words at
        spaces. By default words with spaces are an error: `read_embeddings` would read them from
        text, but gensim and other programs would not.

    Raises
    ------
    OSError
        If the file cannot be written.
    ValueError
        If a word cannot be held: a word with a space, line feed or carriage return (text and
        binary), with a NUL at its end (``.npz``), or without a UTF-8 form. Nothing is written.

    Examples
    --------
    >>> import os, tempfile
    >>> from gwfast.words import Embeddings, read_embeddings, write_embeddings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "two.npz")
    ...     write_embeddings(path, Embeddings(["sol", "luna"], [[1, 0], [0, 1]]))
    ...     read_embeddings(path).words
    ('sol', 'luna')
    """
    path = Path(os.fsdecode(path))
    format = _format(path, format)
    if precision is not None and precision not in range(1, _EXACT + 1):
        raise ValueError(f"precision must be 1 to {_EXACT}, got {precision!r}")
    if not isinstance(embeddings, Embeddings):
        raise TypeError(
            f"embeddings must be Embeddings, got {type(embeddings).__name__};"
            " Embeddings(words, vectors) makes them of arrays"
        )
    vectors, words = embeddings.vectors, _held(embeddings.words, format, space)
    with replacing(path) as stream, _compressed(stream, path) as stream:
        if format == "npz":
            np.savez(stream, words=np.array(words), vectors=vectors)
        else:
            rows = _text if format == "text" else _binary
            _write_rows(stream, words, vectors, rows, precision)


def write_text(stream: BinaryIO, embeddings: Embeddings, *, space: str | None = None) -> None:
    """Write word2vec text to a stream; see `write_embeddings`."""
    words = _held(embeddings.words, "text", space)
    _write_rows(stream, words, embeddings.vectors, _text, None)


def _write_rows(stream, words, vectors, rows, precision):
    n, d = vectors.shape
    stream.write(f"{n} {d}\n".encode())
    for start in range(0, n, _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        stream.write(rows(words[block], vectors[block], precision))


def _format(path, format):
    if format == "auto":
        plain = path.with_suffix("") if path.suffix == ".gz" else path
        format = FORMATS.get(plain.suffix)
        if format is None:
            raise ValueError(
                f"format must be given where the name does not end in"
                f" {', '.join(FORMATS)} (or .gz after it), got {path.name!r}"
            )
    if format not in FORMATS.values():
        raise ValueError(f"format must be 'auto', 'text', 'binary' or 'npz', got {format!r}")
    if format == "npz" and path.suffix == ".gz":
        raise ValueError(f"an .npz file is not to be compressed, got {path.name!r}")
    return format


def _held(words, format, space):
    """Return the words as `format` can hold them."""
    if space is not None and _BREAKS.search(space):
        raise ValueError(f"space must be text without breaks, got {space!r}")
    if space is not None and format != "npz":
        words = [word.replace(" ", space) for word in words]
        seen = set()
        for word in words:
            if not word:
                raise ValueError("words must not be empty with spaces replaced")
            if word in seen:
                raise ValueError(f"words must be distinct, got {word!r} twice with spaces replaced")
            seen.add(word)
    for word in words:
        if format == "npz":
            problem = word.endswith("\0") and "NUL at its end"
        else:
            problem = _BREAKS.search(word) and "space or line break"
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            problem = "lone surrogate"
        if problem:
            hint = "; see space" if " " in word and format != "npz" else ""
            raise ValueError(
                f"words must be such as {format} can hold, got {word!r} with a {problem}{hint}"
            )
    return words


def _compressed(stream, path):
    if path.suffix != ".gz":
        return nullcontext(stream)
    # Without name and time equal vectors make equal files. Random digits hardly get smaller at
    # higher levels, which take three times as long and more.
    return gzip.GzipFile("", "wb", 4, stream, mtime=0)


def _text(words, vectors, precision):
    row = " ".join(["%s"] + [f"%.{precision or _EXACT}g"] * vectors.shape[1])
    rows = zip(words, vectors.tolist(), strict=True)
    return "".join([f"{row % (word, *values)}\n" for word, values in rows]).encode()


def _binary(words, vectors, precision):
    rows = zip(words, vectors.astype("<f4", copy=False), strict=True)
    return b"".join([b"%s %s\n" % (word.encode(), row.tobytes()) for word, row in rows])

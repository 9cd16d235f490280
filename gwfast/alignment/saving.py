"""The file of a saved alignment; docs/words.md describes its arrays."""

from __future__ import annotations

import itertools
import json
import os
from typing import Any, get_args

import numpy as np

from ..results.result import GWResult
from ..results.saving import arrays_of, fields_of
from ..utils.archives import read_fields
from ..utils.atomic_files import replacing
from ..utils.types import PathLike
from ..utils.validation import as_count, as_matrix, as_positive, one_of
from .evidence import Agreement
from .maps import RefineStep
from .normalize import Normalizer, VectorStep

# One more whenever older readers would go wrong.
FORMAT = 3
# Name of the file in a folder that the command line writes.
IN_FOLDER = "mapping.npz"
# Words may contain half of a surrogate pair.
_ENCODING = "utf-8", "surrogatepass"


def write_alignment(alignment: Any, path: PathLike, *, rows: bool) -> None:
    """Write an `Alignment`, with all rows or with the maps alone."""
    arrays: dict[str, Any] = {
        "gwfast_alignment": FORMAT,
        "mapping": alignment.mapping,
        "n_words": alignment.n_words,
        "seconds": alignment.seconds,
        "refinement": np.reshape(alignment.refinement, (-1, len(RefineStep._fields))),
        "evidence_starts": np.array([agreement.start for agreement in alignment.evidence], str),
        "evidence": np.reshape([agreement[1:] for agreement in alignment.evidence], (-1, 3)),
    }
    if alignment._gw is not None:
        # The labels are the words, which the file has already.
        gw = arrays_of(vars(alignment._gw) | {"labels": (None, None)})
        arrays |= {f"gw_{name}": array for name, array in gw.items()}
    if alignment.target_mapping is not None:
        arrays["target_mapping"] = alignment.target_mapping
    sides = ("source", alignment.source), ("target", alignment.target)
    # An alignment of a file without rows has none to write.
    rows = rows and len(alignment.source.rows) > 0
    for (name, side), words in zip(sides, alignment.words, strict=True):
        arrays[f"{name}_steps"] = np.array(side.steps, dtype=str)
        arrays[f"{name}_means"] = np.reshape(side.means, (-1, side.rows.shape[1]))
        if side.columns is not None:
            try:
                arrays[f"{name}_columns"] = json.dumps(list(side.columns))
            except TypeError as error:
                message = f"columns must be texts or numbers to be saved ({error})"
                raise TypeError(message) from error
        if rows:
            arrays[f"{name}_rows"] = side.rows
        if rows and words is not None:
            encoded = [word.encode(*_ENCODING) for word in words]
            arrays[f"{name}_words"] = np.frombuffer(b"".join(encoded), np.uint8)
            arrays[f"{name}_word_ends"] = np.cumsum([len(word) for word in encoded], dtype=np.int64)
    with replacing(_file_of(path)) as stream:
        np.savez(stream, **arrays)


def _file_of(path: PathLike) -> str:
    """Return the path of the file, which has a name of its own in a folder."""
    path = os.fsdecode(path)
    return os.path.join(path, IN_FOLDER) if os.path.isdir(path) else path


def read_gw(path: PathLike) -> GWResult | None:
    """Return the `gw` of a saved alignment, without reading the rest; None from older files."""
    return _read(path, _gw_of)


def read_alignment(path: PathLike) -> dict[str, Any]:
    """Return the fields of an `Alignment` but for `n_threads`; errors as of `Alignment.load`."""
    return _read(path, _from_arrays)


def _read(path, fields):
    """Return `fields` of a function that reads arrays, and the names of all arrays."""
    folder, path = os.fsdecode(path), _file_of(path)
    if folder != path and not os.path.isfile(path):
        raise ValueError(
            "path must be a folder that gwfast align --output wrote, got"
            f" {folder} without {IN_FOLDER}"
        )

    def in_format(read, names):
        version = int(read("gwfast_alignment").item())
        return version, fields(read, names) if version == FORMAT else None

    version, values = read_fields(path, "Alignment.save", in_format)
    if version != FORMAT:
        raise ValueError(
            f"{path}: from another version of gwfast, in format {version}; this one reads {FORMAT}"
        )
    return values


def _from_arrays(read, names):
    mapping, target_mapping = as_matrix(read("mapping"), "mapping"), None
    n_columns = {"source": mapping.shape[0], "target": mapping.shape[1]}
    if "target_mapping" in names:
        target_mapping = _matrix(read, "target_mapping", None, n_columns["target"])
        n_columns["target"] = len(target_mapping)
    has_rows = "source_rows" in names or "target_rows" in names
    sides, words = {}, []
    for name, d in n_columns.items():
        steps, means = tuple(read(f"{name}_steps").tolist()), read(f"{name}_means")
        for step in steps:
            one_of(step, f"{name}_steps", get_args(VectorStep))
        if means.size or "center" in steps:
            _matrix(read, f"{name}_means", steps.count("center"), d)
        rows = _matrix(read, f"{name}_rows", None, d) if has_rows else np.empty((0, d), np.float32)
        columns = _columns(read, name, d) if f"{name}_columns" in names else None
        sides[name] = Normalizer(steps, tuple(means), rows, columns)
        words.append(_words(read, name, len(rows)) if f"{name}_words" in names else None)
    n_words = tuple(as_count(n, "n_words") for n in np.ravel(read("n_words")).tolist())
    sizes = tuple(len(side.rows) for side in sides.values())
    too_many = any(n > size for n, size in zip(n_words, sizes, strict=False))
    if len(n_words) != 2 or (has_rows and too_many):
        raise ValueError(f"n_words must be at most the rows, {sizes}, got {n_words}")
    gw = _gw_of(read, names)
    if gw is not None and gw.coupling.shape != n_words:
        raise ValueError(f"gw must be of {n_words} words, got {gw.coupling.shape}")
    return {
        **sides,
        "_gw": gw,
        "mapping": mapping,
        "target_mapping": target_mapping,
        "n_words": n_words,
        "words": tuple(words),
        "seconds": as_positive(float(read("seconds")), "seconds", zero=True),
        "refinement": tuple(
            RefineStep(int(iteration), int(n_pairs), *map(float, measures))
            for iteration, n_pairs, *measures in read("refinement").tolist()
        ),
        "evidence": _evidence_of(read, names),
    }


def _evidence_of(read, names):
    if "evidence" not in names:
        return ()
    rows = zip(read("evidence_starts").tolist(), read("evidence").tolist(), strict=True)
    return tuple(Agreement(start, *map(float, measures)) for start, measures in rows)


def _gw_of(read, names):
    if "gw_about" not in names:
        return None
    saved = {name: read(f"gw_{name}") for name in ("about", "f", "g", "p", "q")}
    return GWResult(**fields_of(saved, has_plan=False))


def _matrix(read, name, n_rows, n_columns):
    """Return a matrix of finite numbers with these sizes; None is any number of rows."""
    array = read(name)
    n_rows = array.shape[:1] if n_rows is None else (n_rows,)
    return as_matrix(array, name, shape=(*n_rows, n_columns))


def _columns(read, name, n_columns):
    """Return the labels of the columns of a side."""
    columns = json.loads(str(read(f"{name}_columns")))
    if len(columns) != n_columns:
        raise ValueError(f"{name}_columns must have {n_columns} labels, got {len(columns)}")
    if columns == list(range(n_columns)):
        return range(n_columns)
    # Labels of several levels are tuples.
    return tuple(tuple(label) if isinstance(label, list) else label for label in columns)


def _words(read, name, n_rows):
    """Return the words of `n_rows` rows."""
    text, ends = read(f"{name}_words").tobytes(), read(f"{name}_word_ends")
    ends = [0, *np.atleast_1d(ends).astype(np.int64).ravel().tolist()]
    if len(ends) != n_rows + 1 or ends != sorted(ends) or ends[-1] != len(text):
        raise ValueError(f"{name}_word_ends must be where {n_rows} words end in {len(text)} bytes")
    return tuple(text[start:end].decode(*_ENCODING) for start, end in itertools.pairwise(ends))

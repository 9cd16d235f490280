"""The file of a saved alignment, as `AlignedSpaces.save` tells of it."""

from __future__ import annotations

import functools
import itertools
import operator
import os
from typing import Any, get_args

import numpy as np

from ..utils.archives import default_budget, open_archive, read_array, shortened
from ..utils.atomic_files import replacing
from ..utils.types import PathLike
from ..utils.validation import as_count, as_matrix, one_of
from .normalize import Normalizer, NormalizeStep
from .refine import RefineStep

# One more whenever older readers would go wrong.
FORMAT = 2
# What such a file is called in a folder that the command line writes.
IN_FOLDER = "mapping.npz"
# Of words, which may have half of a surrogate pair.
_ENCODING = "utf-8", "surrogatepass"


def write_alignment(parts: dict[str, Any], path: PathLike, *, rows: bool) -> None:
    """Write what `read_alignment` returns, with all rows or with the maps alone."""
    arrays: dict[str, Any] = {
        "gwfast_alignment": FORMAT,
        "mapping": parts["mapping"],
        "n_words": parts["n_words"],
        "refinement": np.reshape(parts["refinement"], (-1, len(RefineStep._fields))),
        "normalize": np.array(parts["source"].steps, dtype=str),
    }
    if parts["target_mapping"] is not None:
        arrays["target_mapping"] = parts["target_mapping"]
    for name in ("source", "target"):
        side = parts[name]
        if rows:
            arrays[f"{name}_rows"] = side.rows
        arrays[f"{name}_steps"] = np.array(side.steps, dtype=str)
        arrays[f"{name}_means"] = np.reshape(side.means, (-1, side.rows.shape[1]))
    if rows and parts["words"] is not None:
        for name, words in zip(("source", "target"), parts["words"], strict=True):
            encoded = [word.encode(*_ENCODING) for word in words]
            arrays[f"{name}_words"] = np.frombuffer(b"".join(encoded), np.uint8)
            ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
            arrays[f"{name}_word_ends"] = ends
    with replacing(path) as stream:
        np.savez(stream, **arrays)


def read_alignment(path: PathLike) -> dict[str, Any]:
    """What `AlignedSpaces` is made of, but for `n_threads`; errors as of
    `load_alignment`."""
    path = os.fsdecode(path)
    if os.path.isdir(path):
        folder, path = path, os.path.join(path, IN_FOLDER)
        if not os.path.isfile(path):
            raise ValueError(
                "expected a folder that gwfast align --output wrote, got "
                f"{folder} without {IN_FOLDER}"
            )
    with open(path, "rb") as stream:
        try:
            with open_archive(stream) as archive:
                budget = default_budget(os.path.getsize(path))
                read = functools.partial(read_array, archive, budget=budget)
                version = int(read("gwfast_alignment").item())
                if version <= FORMAT:
                    return _from_arrays(read, archive.files)
        except MemoryError as error:
            reason = shortened(error) or "out of memory"
            raise MemoryError(f"{path}: cannot be read: {reason}") from error
        # Of zip files, compression, NumPy's headers, and what the arrays should be.
        except Exception as error:
            raise ValueError(
                f"{path}: damaged, or no file of AlignmentResult.save ({shortened(error)})"
            ) from error
    raise ValueError(
        f"{path}: from a later version of gwfast, in format {version}; this one reads "
        f"formats up to {FORMAT}"
    )


def _from_arrays(read, names):
    def matrix(name, rows=None, columns=None):
        found = read(name)
        as_matrix(found, name)
        for size, expected in zip(found.shape, (rows, columns), strict=True):
            if expected not in (None, size):
                raise ValueError(f"{name} must have shape {(rows, columns)}, got {found.shape}")
        return found

    def normalizer(name, n_columns):
        if has_rows:
            rows = matrix(f"{name}_rows", columns=n_columns)
        else:
            rows = np.empty((0, n_columns), dtype=np.float32)
        steps = tuple(read(f"{name}_steps").tolist())
        means = read(f"{name}_means")
        for step in steps:
            one_of(step, f"{name}_steps", get_args(NormalizeStep))
        if means.size or "center" in steps:
            matrix(f"{name}_means", steps.count("center"), n_columns)
        return Normalizer(steps=steps, means=tuple(means), rows=rows)

    has_rows = "source_rows" in names or "target_rows" in names
    mapping, target_mapping = matrix("mapping"), None
    n_target = mapping.shape[1]
    if "target_mapping" in names:
        target_mapping = matrix("target_mapping", columns=n_target)
        n_target = len(target_mapping)
    source, target = normalizer("source", len(mapping)), normalizer("target", n_target)
    n_words = tuple(as_count(n, "n_words") for n in read("n_words").tolist())
    sizes = len(source.rows), len(target.rows)
    if len(n_words) != 2 or (has_rows and not all(map(operator.le, n_words, sizes))):
        raise ValueError(f"n_words must be at most the rows, {sizes}, got {n_words}")
    words = None
    if "source_words" in names:
        sides = zip(("source", "target"), sizes, strict=True)
        words = tuple(_words(read, name, size) for name, size in sides)
    return {
        "mapping": mapping,
        "source": source,
        "target": target,
        "n_words": n_words,
        "words": words,
        "target_mapping": target_mapping,
        "refinement": tuple(
            RefineStep(int(iteration), int(n_pairs), *map(float, others))
            for iteration, n_pairs, *others in read("refinement").tolist()
        ),
    }


def _words(read, name, n_rows):
    """The words of as many rows."""
    text, ends = read(f"{name}_words").tobytes(), read(f"{name}_word_ends")
    ordered = ends.shape == (n_rows,) and ends.dtype == np.int64
    # Differences could overflow.
    ordered = ordered and ends[0] >= 0 and not (ends[1:] < ends[:-1]).any()
    if not ordered or ends[-1] != len(text):
        raise ValueError(f"{name}_word_ends must be where {n_rows} words end in {len(text)} bytes")
    return tuple(
        text[start:end].decode(*_ENCODING) for start, end in itertools.pairwise([0, *ends.tolist()])
    )

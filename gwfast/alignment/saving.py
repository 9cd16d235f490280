"""The file of a saved alignment.

It is an archive as ``numpy.load`` reads it (``.npz``), of arrays of numbers and text,
without pickles:

- ``gwfast_alignment``: the format, a whole number, 2 here;
- ``mapping`` (d, d'), and where the target is mapped as well ``target_mapping``
  (d', d'), float32;
- for each side ("source" is here for either) ``source_steps``: "unit" and "center" in
  the order in which they are applied, and ``source_means``: a row for each "center",
  float64;
- ``source_rows`` and ``target_rows``: all rows, normalized, float32; neither is there
  in a file of the maps alone;
- ``n_words``: rows of each side that took part;
- ``refinement``: a row for each `RefineStep`.

New vectors `x` of the source are mapped by hand as follows: "unit" divides each row by
its length, each "center" subtracts the next row of ``source_means``, and the result is
multiplied by ``mapping``. Vectors of the target are mapped in the same way with
``target_means`` and, if there is one, ``target_mapping``.

A file of the maps alone has ``normalize`` as well, which is ``source_steps`` under the
name that it had in files without ``gwfast_alignment``.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from ..utils.archives import default_budget, read_array, shortened
from ..utils.atomic_files import replacing
from ..utils.validation import as_count, as_matrix, one_of
from .normalize import STEPS, Normalizer
from .refine import RefineStep

# One more whenever older readers would go wrong.
FORMAT = 2


def write_alignment(
    parts: dict[str, Any], path: str | os.PathLike[str], *, rows: bool
) -> None:
    """Write what `read_alignment` returns, with all rows or with the maps alone."""
    arrays: dict[str, Any] = {
        "gwfast_alignment": FORMAT,
        "mapping": parts["mapping"],
        "n_words": parts["n_words"],
        "refinement": np.reshape(parts["refinement"], (-1, len(RefineStep._fields))),
    }
    if parts["target_mapping"] is not None:
        arrays["target_mapping"] = parts["target_mapping"]
    for name in ("source", "target"):
        side = parts[name]
        if rows:
            arrays[f"{name}_rows"] = side.rows
        arrays[f"{name}_steps"] = np.array(side.steps, dtype=str)
        arrays[f"{name}_means"] = np.reshape(side.means, (-1, side.rows.shape[1]))
    if not rows:
        arrays["normalize"] = arrays["source_steps"]
    with replacing(path) as stream:
        np.savez(stream, **arrays)


def read_alignment(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `AlignedSpaces` is made of, but for `n_threads`; errors as of
    `load_alignment`."""
    path = os.fspath(path)
    with open(path, "rb") as stream:
        try:
            with NpzFile(stream, allow_pickle=False) as archive:
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
                f"{path}: damaged, or no file of AlignmentResult.save "
                f"({shortened(error)})"
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
                raise ValueError(
                    f"{name} must have shape {(rows, columns)}, got {found.shape}"
                )
        return found

    def normalizer(name, n_columns):
        if has_rows:
            rows = matrix(f"{name}_rows", columns=n_columns)
        else:
            rows = np.empty((0, n_columns), dtype=np.float32)
        steps = tuple(read(f"{name}_steps").tolist())
        means = read(f"{name}_means")
        for step in steps:
            one_of(step, f"{name}_steps", STEPS)
        if means.size or "center" in steps:
            matrix(f"{name}_means", steps.count("center"), n_columns)
        return Normalizer(steps=steps, means=tuple(means), rows=rows)

    has_rows = "source_rows" in names or "target_rows" in names
    mapping, target_mapping = matrix("mapping"), None
    n_target = mapping.shape[1]
    if "target_mapping" in names:
        target_mapping = matrix("target_mapping", columns=n_target)
        n_target = len(target_mapping)
    n_source, n_other = read("n_words").tolist()
    return {
        "mapping": mapping,
        "source": normalizer("source", len(mapping)),
        "target": normalizer("target", n_target),
        "n_words": (as_count(n_source, "n_words"), as_count(n_other, "n_words")),
        "target_mapping": target_mapping,
        "refinement": tuple(
            RefineStep(int(iteration), int(n_pairs), *map(float, others))
            for iteration, n_pairs, *others in read("refinement").tolist()
        ),
    }

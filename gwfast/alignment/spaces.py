"""Two embedding spaces and the maps between them, to be used, refined and kept."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import ArrayLike

from ..kernels.threads import resolve_n_threads
from ..results.neighbors import Neighbors
from ..utils.archives import default_budget, read_array, shortened
from ..utils.atomic_files import replacing
from ..utils.deadline import NEVER
from ..utils.progress import reporting
from ..utils.types import Float32Array, FloatArray, IntArray, Progress
from ..utils.validation import as_array, as_count, as_matrix, one_of
from . import retrieval
from .normalize import STEPS, Normalizer
from .procrustes import Maps
from .refine import Refinement, RefineStep, as_refinement, refine_maps

if TYPE_CHECKING:
    from typing_extensions import Self

# Of the files of `AlignedSpaces.save`: one more whenever older readers would go wrong.
FORMAT = 1


@dataclasses.dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class AlignedSpaces:
    """Two embedding spaces with the maps that make them comparable.

    Attributes
    ----------
    mapping : (d, d') float32 ndarray
        ``x_normalized @ mapping`` lies in the space of the normalized `y`, or, where
        there is a `target_mapping`, of ``y_normalized @ target_mapping``. Orthogonal
        (semi-orthogonal where d != d') but for refinements that whiten or reweight.
    target_mapping : (d', d') float32 ndarray or None
        None where `y` stays as it is.
    source, target : Normalizer
        How each side was normalized; ``source.rows``, ``target.rows`` are all rows of
        `x` and `y`, normalized.
    n_words : tuple of two int
        Rows of each side, the first, that took part when the mapping was made.
    refinement : tuple of RefineStep
        What was done to the mapping since; empty for the first one.
    n_threads : int

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, dictionary = load_sample()
    >>> result = gwfast.align(spanish.vectors, french.vectors, n_words=500)
    >>> spaces = gwfast.AlignedSpaces(
    ...     mapping=result.mapping,
    ...     source=result.source,
    ...     target=result.target,
    ...     n_words=result.n_words,
    ...     n_threads=1,
    ... )
    >>> spaces.transform(spanish.vectors[:3]).shape
    (3, 200)
    """

    mapping: Float32Array
    source: Normalizer
    target: Normalizer
    n_words: tuple[int, int]
    n_threads: int
    target_mapping: Float32Array | None = None
    refinement: tuple[RefineStep, ...] = ()

    def transform(self, x: ArrayLike) -> Float32Array:
        """Map vectors of the source space into the target space.

        Parameters
        ----------
        x : array-like of shape (n, d)
            As they were given to `align`, not normalized.

        Returns
        -------
        (n, d') float32 ndarray
        """
        return self.source(_with_columns(x, "x", len(self.mapping))) @ self.mapping

    def transform_target(self, y: ArrayLike) -> Float32Array:
        """Take vectors of the target space to where `transform` takes the source's.

        Parameters
        ----------
        y : array-like of shape (m, d')
            As they were given to `align`, not normalized.

        Returns
        -------
        (m, d') float32 ndarray
        """
        y = _with_columns(y, "y", self.target.rows.shape[1])
        return self._map_target(self.target(y))

    @property
    def mapped_source(self) -> Float32Array:
        """(n, d') float32 ndarray: all source rows in the common space."""
        return self.source.rows @ self.mapping

    @property
    def mapped_target(self) -> Float32Array:
        """(m, d') float32 ndarray: all target rows in the common space."""
        return self._map_target(self.target.rows)

    def _map_target(self, y):
        return y if self.target_mapping is None else y @ self.target_mapping

    def refine(
        self, refinement: Refinement | int | None = None, *, progress: Progress = False
    ) -> Self:
        """Match rows by CSLS, fit the mapping to mutual matches, and so on.

        Parameters
        ----------
        refinement : Refinement, int or None, default=None
            How; None is `Refinement` with its defaults, a number is of iterations.
        progress : bool or callable, default=False
            See `gromov_wasserstein`.

        Returns
        -------
        AlignedSpaces or AlignmentResult
            What this is, with another mapping.
        """
        return self._refined(refinement, progress, NEVER)

    def _refined(self, refinement, progress, deadline):
        """`refine`, with no further iterations after a deadline."""
        with reporting(progress) as report_progress:
            maps, steps = refine_maps(
                self.source.rows,
                self.target.rows,
                Maps(self.mapping, self.target_mapping),
                as_refinement(refinement) or Refinement(),
                self.n_threads,
                report_progress,
                deadline,
            )
        return dataclasses.replace(
            self,
            mapping=maps.source,
            target_mapping=maps.target,
            refinement=self.refinement + steps,
        )

    def translate(
        self,
        rows: ArrayLike | None = None,
        *,
        method: retrieval.Retrieval = "csls",
        k: int = 10,
    ) -> Neighbors:
        """The best target rows of source rows.

        Parameters
        ----------
        rows : array-like of int or None, default=None
            Numbers of source rows; None is all.
        method : {"csls", "nn", "inverted_softmax"}, default="csls"
            How the angles to the mapped vector rank, see `nearest_neighbors`.
        k : int, default=10

        Returns
        -------
        Neighbors
            Of shape (len(rows), min(k, number of targets)).
        """
        one_of(method, "method", retrieval.METHODS)
        k = as_count(k, "k")
        rows = as_rows(rows, len(self.source.rows), method)
        return retrieval.nearest_neighbors(
            self.mapped_source[rows],
            self.mapped_target,
            method=method,
            k=k,
            penalty=self._hubness(method),
            n_threads=self.n_threads,
        )

    def best_matches(self, k: int = 1) -> retrieval.BestMatches:
        """The best rows of the other side for all rows of both, by CSLS.

        Parameters
        ----------
        k : int, default=1
            Target rows for every source row.

        Returns
        -------
        BestMatches
            Its ``mutual`` says which source rows are in turn the best of their best.
        """
        return retrieval.best_matches(
            self.mapped_source,
            self.mapped_target,
            k=as_count(k, "k"),
            penalty=self._hubness("csls"),
            n_threads=self.n_threads,
        )

    @functools.cached_property
    def _known_hubness(self) -> dict[retrieval.Retrieval, Float32Array]:
        return {}

    def _hubness(self, method):
        """`hubness` of the targets, made once: as dear as a search for all rows."""
        if method not in self._known_hubness:
            self._known_hubness[method] = retrieval.hubness(
                self.mapped_target,
                self.mapped_source,
                method=method,
                n_threads=self.n_threads,
            )
        return self._known_hubness[method]

    def save(self, path: str | os.PathLike) -> None:
        """Write a file from which `gwfast.load_alignment` makes this again.

        It holds the maps, how new vectors are normalized, and all normalized rows; no
        words, and nothing else of the solve. It is there whole or not at all.

        Parameters
        ----------
        path : path-like
            Taken as it is; the content is that of ``.npz`` files, without pickles.
        """
        arrays: dict[str, Any] = {
            "gwfast_alignment": FORMAT,
            "mapping": self.mapping,
            "n_words": self.n_words,
            "refinement": np.reshape(self.refinement, (-1, len(RefineStep._fields))),
        }
        if self.target_mapping is not None:
            arrays["target_mapping"] = self.target_mapping
        for name, side in (("source", self.source), ("target", self.target)):
            arrays[f"{name}_rows"] = side.rows
            arrays[f"{name}_steps"] = np.array(side.steps, dtype=str)
            arrays[f"{name}_means"] = np.reshape(side.means, (-1, side.rows.shape[1]))
        with replacing(path) as stream:
            np.savez(stream, **arrays)

    def __repr__(self) -> str:
        return f"AlignedSpaces({self._sizes()})"

    def _sizes(self):
        return (
            f"{len(self.source.rows)} x {len(self.target.rows)} rows, "
            f"mapping {self.mapping.shape[0]} -> {self.mapping.shape[1]}"
        )


def load_alignment(
    path: str | os.PathLike, *, n_threads: int | None = None
) -> AlignedSpaces:
    """What `AlignmentResult.save` kept: maps and translates as the result did.

    Parameters
    ----------
    path : path-like
    n_threads : int or None, default=None
        To work with; None is one a core.

    Returns
    -------
    AlignedSpaces
        Without the plan, of which nothing was kept.

    Raises
    ------
    ValueError
        If the file is no such one, damaged, or of a later version of gwfast.
    MemoryError
        If there is no memory for what it rightly holds.
    OSError
        If it cannot be opened.

    Examples
    --------
    >>> import os, tempfile
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, dictionary = load_sample()
    >>> result = gwfast.align(spanish.vectors, french.vectors, n_words=500)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "es-fr.npz")
    ...     result.save(path)
    ...     loaded = gwfast.load_alignment(path)
    >>> bool((loaded.mapping == result.mapping).all())
    True
    """
    path, n_threads = os.fspath(path), resolve_n_threads(n_threads)
    with open(path, "rb") as stream:
        try:
            with NpzFile(stream, allow_pickle=False) as archive:
                budget = default_budget(os.path.getsize(path))
                read = functools.partial(read_array, archive, budget=budget)
                version = int(read("gwfast_alignment").item())
                if version <= FORMAT:
                    return _from_arrays(read, archive.files, n_threads)
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


def _from_arrays(read, names, n_threads):
    def matrix(name, rows=None, columns=None):
        found = read(name)
        as_matrix(found, name)
        for size, expected in zip(found.shape, (rows, columns), strict=True):
            if expected not in (None, size):
                raise ValueError(
                    f"{name} must have shape {(rows, columns)}, got {found.shape}"
                )
        return found

    def normalizer(name):
        rows = matrix(f"{name}_rows")
        steps = tuple(read(f"{name}_steps").tolist())
        means = read(f"{name}_means")
        for step in steps:
            one_of(step, f"{name}_steps", STEPS)
        if means.size or "center" in steps:
            matrix(f"{name}_means", steps.count("center"), rows.shape[1])
        return Normalizer(steps=steps, means=tuple(means), rows=rows)

    source, target = normalizer("source"), normalizer("target")
    target_mapping = None
    n_common = target.rows.shape[1]
    if "target_mapping" in names:
        target_mapping = matrix("target_mapping", n_common)
        n_common = target_mapping.shape[1]
    n_source, n_target = read("n_words").tolist()
    return AlignedSpaces(
        mapping=matrix("mapping", source.rows.shape[1], n_common),
        source=source,
        target=target,
        n_words=(as_count(n_source, "n_words"), as_count(n_target, "n_words")),
        n_threads=n_threads,
        target_mapping=target_mapping,
        refinement=tuple(
            RefineStep(int(iteration), int(n_pairs), *map(float, others))
            for iteration, n_pairs, *others in read("refinement").tolist()
        ),
    )


def _with_columns(x: ArrayLike, name: str, columns: int) -> FloatArray:
    x = as_matrix(x, name)
    if x.shape[1] != columns:
        raise ValueError(f"{name} must have {columns} columns, got {x.shape[1]}")
    return x


def as_rows(rows: ArrayLike | None, n: int, method: str) -> IntArray:
    """Numbers of some of `n` rows, None of all; `method` is for messages."""
    if rows is None:
        return np.arange(n)
    rows = np.atleast_1d(as_array(rows, "rows"))
    if rows.size == 0:
        raise ValueError("rows must not be empty")
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(
            f"rows must be a 1-D array of integers, got {rows.ndim}-D {rows.dtype}"
        )
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(
            f"rows must be some of 0 to {n - 1} for method={method!r}, "
            f"got {rows.min()} to {rows.max()}"
        )
    return rows

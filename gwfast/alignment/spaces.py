"""Two embedding spaces and the maps between them, to be used, refined and kept."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.threads import resolve_n_threads
from ..results.tables import Neighbors
from ..utils.deadline import NEVER
from ..utils.progress import reporting
from ..utils.types import Float32Array, IntArray, PathLike, Progress
from ..utils.validation import as_array, as_count, one_of
from . import retrieval
from .mapped import MappedSpaces
from .procrustes import Maps
from .refine import Refinement, as_refinement, refine_maps
from .saving import read_alignment

if TYPE_CHECKING:
    from typing_extensions import Self


class AlignedSpaces(MappedSpaces):
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
    words : tuple of two tuples of str, or None
        Of all rows of either side, see `with_words`.
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
        self._check_rows()
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
        self, rows: ArrayLike | None = None, *, method: retrieval.Retrieval = "csls", k: int = 10
    ) -> Neighbors:
        """The best target rows of source rows, or of other vectors.

        Parameters
        ----------
        rows : array-like of int, str or float, or None, default=None
            Numbers of source rows; words of the source, where there are `words`; or
            vectors of the source space, of shape (n, d), as they were given to
            `align`. None is all rows.
        method : {"csls", "nn", "inverted_softmax"}, default="csls"
            How the angles to the mapped vector rank, see `nearest_neighbors`.
        k : int, default=10

        Returns
        -------
        Neighbors
            Of shape (len(rows), min(k, number of targets)); the words of its
            `indices` are in ``words[1]``.
        """
        one_of(method, "method", get_args(retrieval.Retrieval))
        self._check_rows()
        k = as_count(k, "k")
        if np.ndim(rows) == 2:  # type: ignore[arg-type]
            mapped = self.transform(rows)  # type: ignore[arg-type]
        else:
            mapped = self.mapped_source[self._as_rows(rows, len(self.source.rows), method)]
        return retrieval.nearest_neighbors(
            mapped,
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
        self._check_rows()
        return retrieval.best_matches(
            self.mapped_source,
            self.mapped_target,
            k=as_count(k, "k"),
            penalty=self._hubness("csls"),
            n_threads=self.n_threads,
        )

    def _as_rows(self, rows: ArrayLike | None, n: int, method: str) -> IntArray:
        """Numbers of some of the first `n` rows, which may be given as words; None is
        all. The `method` is for messages."""
        if rows is None:
            return np.arange(n)
        if self.words is not None and np.asarray(rows).dtype.kind == "U":
            asked = np.atleast_1d(np.asarray(rows)).tolist()
            for word in asked:
                if word not in self._row_of_word:
                    raise ValueError(f"rows must be words of the source, got {word!r}")
            rows = [self._row_of_word[word] for word in asked]
        try:
            rows = np.atleast_1d(as_array(rows, "rows"))
        except TypeError as error:
            raise TypeError(
                f"{error}; that of a word is words.index(word), or see with_words"
            ) from None
        if rows.size == 0:
            raise ValueError("rows must not be empty")
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise TypeError(f"rows must be a 1-D array of integers, got {rows.ndim}-D {rows.dtype}")
        if rows.min() < 0 or rows.max() >= n:
            raise ValueError(
                f"rows must be some of 0 to {n - 1} for method={method!r}, "
                f"got {rows.min()} to {rows.max()}"
            )
        return rows

    @functools.cached_property
    def _row_of_word(self) -> dict[str, int]:
        # Of equal words the first stays.
        words = self.words[0]  # type: ignore[index]
        return {word: row for row, word in reversed([*enumerate(words)])}

    @functools.cached_property
    def _known_hubness(self) -> dict[str, Float32Array]:
        return {}

    def _hubness(self, method):
        """Return `hubness` of the targets, computed once for these rows and maps: it takes as long
        as a search for all rows.
        """
        parts = self.source.rows, self.target.rows, self.mapping, self.target_mapping
        sums = [zlib.crc32(np.ascontiguousarray(part)) for part in parts if part is not None]
        known, key = self._known_hubness, f"{method} {sums}"
        if key not in known:
            known.clear()
            known[key] = retrieval.hubness(
                self.mapped_target, self.mapped_source, method=method, n_threads=self.n_threads
            )
        return known[key]

    @staticmethod
    def load(path: PathLike, *, n_threads: int | None = None) -> AlignedSpaces:
        """What `save` kept; the same as `gwfast.load_alignment`."""
        return load_alignment(path, n_threads=n_threads)

    def _check_rows(self):
        if not len(self.source.rows):
            raise ValueError(
                "there are no rows to translate or to match: the file that this comes"
                " from was saved with rows=False, and maps vectors only"
            )


def load_alignment(path: PathLike, *, n_threads: int | None = None) -> AlignedSpaces:
    """What `AlignmentResult.save` kept: maps and translates as the result did.

    Parameters
    ----------
    path : path-like
        The file, or a folder that ``gwfast align --output`` wrote.
    n_threads : int or None, default=None
        To work with; None is one a core.

    Returns
    -------
    AlignedSpaces
        Without the solve, which is not in the file, see `AlignmentResult.save`.

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
    ...     result.with_words(spanish.words, french.words).save(path)
    ...     loaded = gwfast.load_alignment(path)
    >>> found = loaded.translate(["casa"], k=1)
    >>> [loaded.words[1][row] for row in found.indices[:, 0]]
    ['chez']
    """
    n_threads = resolve_n_threads(n_threads)
    return AlignedSpaces(**read_alignment(path), n_threads=n_threads)

"""The maps between two embedding spaces: fields, use on new vectors, and their file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from ..utils.types import Float32Array, FloatArray, PathLike
from ..utils.validation import as_matrix
from .normalize import Normalizer
from .refine import RefineStep
from .saving import write_alignment

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclasses.dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class MappedSpaces:
    """Two embedding spaces as they are mapped to where they are comparable.

    The attributes are told of in `AlignedSpaces`.
    """

    mapping: Float32Array
    source: Normalizer
    target: Normalizer
    n_words: tuple[int, int]
    n_threads: int
    target_mapping: Float32Array | None = None
    refinement: tuple[RefineStep, ...] = ()
    words: tuple[tuple[str, ...], tuple[str, ...]] | None = None

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

    def with_words(self, source: Sequence[str], target: Sequence[str]) -> Self:
        """The same with words for all rows of both sides, for `translate` and `save`.

        Parameters
        ----------
        source, target : sequence of str
            In the order of the rows; of equal ones `translate` takes the first.

        Returns
        -------
        AlignedSpaces or AlignmentResult
            What this is, with `words`.
        """
        words = tuple(source), tuple(target)
        sizes = len(self.source.rows), len(self.target.rows)
        for name, own, n in zip(("source", "target"), words, sizes, strict=True):
            if len(own) != n:
                raise ValueError(f"{name} must have {n} words, one for each row, got {len(own)}")
            for word in own:
                if not isinstance(word, str):
                    came = type(word).__name__
                    raise TypeError(f"{name} must have words that are str, got {came}")
        return dataclasses.replace(self, words=words)

    def save(self, path: PathLike, *, rows: bool = True) -> None:
        """Write a file from which `load` makes an `AlignedSpaces`.

        It is there whole or not at all. Of `AlignedSpaces` it keeps all but
        `n_threads`. Of an `AlignmentResult` it lacks what is of the solve: `gw` (the
        plan, its status, its history), `seconds`, and with these `plan`, `match` and
        the methods "coupling" and "barycentric" of `translate`.

        Parameters
        ----------
        path : path-like
            Taken as it is, whatever its name ends in.
        rows : bool, default=True
            Keep all normalized rows, which are most of the file, and their words.
            Without them it maps vectors, and there is nothing in it to translate.

        Notes
        -----
        The file is an archive as ``numpy.load`` reads it (``.npz``), of arrays of
        numbers and text, without pickles:

        - ``gwfast_alignment``: the format, a whole number, 2 here;
        - ``mapping`` (d, d'), and where the target is mapped as well
          ``target_mapping`` (d', d'), float32;
        - ``source_steps``, and so on of the target as well: "unit" and "center" in the
          order in which they are applied, and ``source_means``: a row for each "center", float64;
        - ``source_rows``: all rows, normalized, float32;
        - ``source_words``: UTF-8, one word after the other, as uint8, and
          ``source_word_ends``: where in it each of them ends, int64;
        - ``n_words``: rows of each side that took part;
        - ``refinement``: a row for each `RefineStep`;
        - ``normalize``: ``source_steps``, for the first readers of such files.

        New vectors of the source are mapped by hand as follows: "unit" divides each row
        by its length, each "center" subtracts the next row of ``source_means``, and the
        result is multiplied by ``mapping``; those of the target in the same way.
        """
        names = [field.name for field in dataclasses.fields(MappedSpaces)]
        parts = {name: getattr(self, name) for name in names}
        write_alignment(parts, path, rows=rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sizes()})"

    def _sizes(self):
        return (
            f"{len(self.source.rows)} x {len(self.target.rows)} rows, "
            f"mapping {self.mapping.shape[0]} -> {self.mapping.shape[1]}"
        )


def _with_columns(x: ArrayLike, name: str, columns: int) -> FloatArray:
    x = as_matrix(x, name)
    if x.shape[1] != columns:
        raise ValueError(f"{name} must have {columns} columns, got {x.shape[1]}")
    return x

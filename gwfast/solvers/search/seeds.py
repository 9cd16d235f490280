"""Correspondences that are known as a start."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ...problems.quadratic import QuadraticProblem
from ...results.coupling import Coupling, SparseCoupling, are_matches
from ...utils.callers import outside
from ...utils.labels import first_rows
from ...utils.types import IntArray
from ...utils.validation import as_any_array, as_array, as_mapping, as_translations
from .starts import Start

# Words with their translations.
Known: TypeAlias = str | Iterable[str]
Dictionary: TypeAlias = Mapping[str, Known] | list[tuple[str, Known]]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Seeds:
    """Start from a few correspondences that are known, or guessed.

    They only say where to start: the solution may leave them. Its `advice` says how many pairs it
    keeps; if these are less than half, the status is "uncertain".

    Parameters
    ----------
    pairs : array-like of int, shape (k, 2)
        Rows of the first and of the second space that belong together. Pairs with rows
        that take no part in a problem (from row `n_words` of `align` on) are left out
        with a warning; if no pair is left, that is an error.

    Examples
    --------
    >>> import gwfast
    >>> cost = [[0, 1, 2, 4], [1, 0, 1, 3], [2, 1, 0, 2], [4, 3, 2, 0]]
    >>> result = gwfast.gromov_wasserstein(cost, cost, init=gwfast.Seeds([[0, 0], [3, 3]]))
    >>> result.plan.argmax(axis=1)
    array([0, 1, 2, 3])
    """

    kind: ClassVar[str] = "seeds"
    draw: ClassVar[int] = 0

    pairs: ArrayLike

    def __post_init__(self) -> None:
        pairs = as_any_array(self.pairs, "pairs")
        if pairs.dtype.kind in "UO":
            raise TypeError("pairs must hold row numbers, got text; Seeds.known takes words")
        pairs = np.array(as_array(pairs, "pairs"))
        if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
            raise ValueError(f"pairs must have shape (k, 2), got {pairs.shape}")
        if pairs.dtype.kind not in "iu":
            raise TypeError(f"pairs must hold integers, got dtype {pairs.dtype}")
        if pairs.min() < 0:
            raise ValueError(f"pairs must not be negative, got {pairs.min()}")
        object.__setattr__(self, "pairs", pairs)

    @classmethod
    def identical(cls, words_x: Sequence[str], words_y: Sequence[str]) -> Seeds:
        """Return the seeds of words of both spaces that are spelt alike, numerals and names above
        all. The words are of the rows that take part; of equal words the first row counts.

        Examples
        --------
        >>> import gwfast
        >>> gwfast.Seeds.identical(["uno", "1914", "Paris"], ["Paris", "1914"]).pairs
        array([[1, 1],
               [2, 0]])
        """
        return cls(alike(words_x, words_y, "words_x and words_y"))

    @classmethod
    def known(cls, dictionary: Dictionary, words_x: Sequence[str], words_y: Sequence[str]) -> Seeds:
        """Return the seeds of words whose translations are known, by a mapping of words of the
        first space to a translation or several, or a list of pairs of these. Pairs of other words
        are left out with a warning. See `identical`.

        Examples
        --------
        >>> import gwfast
        >>> known = {"uno": {"un", "une"}, "dos": {"deux"}}
        >>> gwfast.Seeds.known(known, ["dos", "uno"], ["un", "deux", "une"])
        Seeds(3 pairs)
        """
        return cls(known_pairs(dictionary, words_x, words_y, "dictionary"))

    def plan(self, problem: QuadraticProblem, n_threads: int) -> SparseCoupling:
        """Return the plan of the pairs whose points take part, of mass one."""
        shape, pairs = problem.shape, np.asarray(self.pairs)
        within = self._take_part(shape)
        of = f"of the {shape[0]} and {shape[1]} points that take part"
        if not within.any():
            least = pairs.min(axis=0).tolist()
            raise ValueError(f"pairs must have one {of}, got rows from {least} on")
        _warn_of_others("pairs", int(within.sum()), len(pairs), of)
        rows, cols = pairs[within].T
        weights = np.sqrt(problem.p[rows] * problem.q[cols])
        if not weights.sum() > 0:
            raise ValueError("pairs must have some mass, got weights of 0 only")
        weights = (weights / weights.sum()).astype(np.float32)
        plan = sparse.coo_array((weights, (rows, cols)), shape=shape)
        return SparseCoupling(plan.tocsr(), n_threads)

    def kept_by(self, coupling: Coupling) -> tuple[int, int, int]:
        """Return how many of the pairs that take part a plan keeps, as the best match of the first
        or of the second point, of how many, and the number of all. A plan can keep one of several
        pairs of a point, as of a word with several translations: these count as one pair, by the
        points of the side that has fewer.
        """
        rows, cols = np.unique(np.asarray(self.pairs)[self._take_part(coupling.shape)], axis=0).T
        kept = are_matches(coupling, rows, cols)
        if not kept.all():
            kept |= are_matches(coupling.T, cols, rows)
        fewer = min(rows, cols, key=lambda side: len(np.unique(side)))
        return len(np.unique(fewer[kept])), len(np.unique(fewer)), len(rows)

    def _take_part(self, shape: tuple[int, int]) -> NDArray[np.bool_]:
        return np.asarray((np.asarray(self.pairs) < shape).all(axis=1))

    def __str__(self) -> str:
        return self._counted("seed")

    def __repr__(self) -> str:
        return f"Seeds({self._counted('pair')})"

    def _counted(self, noun: str) -> str:
        number = len(np.asarray(self.pairs))
        return f"{number} {noun}{'s' * (number != 1)}"


AnyStart: TypeAlias = Start | Seeds


def alike(words_x: Sequence[str], words_y: Sequence[str], name: str) -> IntArray:
    """Return rows (k, 2) of words that are spelt alike; `name` is for the error if none is."""
    first_x, first_y = _firsts(words_x, "words_x"), _firsts(words_y, "words_y")
    return _rows([(word, word) for word in first_x], first_x, first_y, name)


def known_pairs(
    dictionary: Dictionary, words_x: Sequence[str], words_y: Sequence[str], name: str
) -> IntArray:
    """Return rows (k, 2) of words and translations, with a warning if there are others."""
    entries: Any = dictionary
    if not (
        isinstance(entries, list)
        and all(isinstance(entry, tuple | list) and len(entry) == 2 for entry in entries)
    ):
        entries = as_mapping(entries, name).items()
    pairs: dict[tuple[str, str], None] = {}
    for word, translations in entries:
        words = as_translations(
            {translations} if isinstance(translations, str) else translations, word, name
        )
        pairs.update(dict.fromkeys((word, translation) for translation in words))
    first_x, first_y = _firsts(words_x, "words_x"), _firsts(words_y, "words_y")
    n_fit = sum(x in first_x and y in first_y for x, y in pairs)
    n_turned = sum(y in first_x and x in first_y for x, y in pairs)
    hint = f"; more pairs fit the other way round, {n_turned}" if n_turned > n_fit else ""
    rows = _rows(pairs, first_x, first_y, name, hint)
    of = f"of the first {len(words_x)} and {len(words_y)} words"
    _warn_of_others(name, n_fit, len(pairs), of, hint)
    return rows


def _rows(
    pairs: Iterable[tuple[str, str]],
    first_x: Mapping[str, int],
    first_y: Mapping[str, int],
    name: str,
    hint: str = "",
) -> IntArray:
    """Return the sorted rows (k, 2) of pairs of words by the first row of each word."""
    rows = {(first_x[x], first_y[y]) for x, y in pairs if x in first_x and y in first_y}
    if not rows:
        sizes = f"the first {len(first_x)} and {len(first_y)} words"
        raise ValueError(f"{name} must have a pair of {sizes}, got none{hint}")
    return np.array(sorted(rows))


def _firsts(words: Sequence[str], name: str) -> dict[str, int]:
    """Return the first row of each word, checked."""
    if isinstance(words, str) or not hasattr(words, "__len__"):
        raise TypeError(f"{name} must be a sequence of words, got {type(words).__name__}")
    return first_rows(words)


def _warn_of_others(name: str, number: int, total: int, of: str, hint: str = "") -> None:
    if number < total:
        text = f"{name}: {number} of {total} pairs are {of}, the others are left out{hint}"
        warnings.warn(text, stacklevel=outside())

"""Correspondences that are known as a start."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ...problems.geometry import PointCloud
from ...problems.quadratic import QuadraticProblem
from ...results.coupling import SparseCoupling
from ...utils.callers import outside
from ...utils.types import Float32Array, IntArray
from ...utils.validation import as_array, as_mapping, as_positive, as_translations, one_of
from .starts import PRODUCT, MakesPlan, Profile, checked, is_start

# Words with their translations.
Known: TypeAlias = str | Iterable[str]
Dictionary: TypeAlias = Mapping[str, Known] | list[tuple[str, Known]]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Seeds:
    """Start from a few correspondences that are known, or guessed.

    They only say where to start: the solution may leave them.

    Parameters
    ----------
    pairs : array-like of int, shape (k, 2)
        Rows of the first and of the second space that belong together. Pairs with rows
        that take no part in a problem (from row `n_words` of `align` on) are left out
        with a warning; if no pair is left, that is an error.
    share : float, default=1
        Share of the mass that the pairs get, in (0, 1]; 1 trusts them alone.
    rest : "product", "profile" or a start, default="profile"
        The start that the other mass follows.

    Examples
    --------
    >>> import gwfast
    >>> cost = [[0, 1, 2, 4], [1, 0, 1, 3], [2, 1, 0, 2], [4, 3, 2, 0]]
    >>> result = gwfast.gromov_wasserstein(cost, cost, init=gwfast.Seeds([[0, 0], [3, 3]]))
    >>> result.plan.argmax(axis=1)
    array([0, 1, 2, 3])
    """

    pairs: ArrayLike
    share: float = 1.0
    rest: MakesPlan | str = "profile"

    def __post_init__(self) -> None:
        pairs = np.array(as_array(self.pairs, "pairs"))
        if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
            raise ValueError(f"pairs must have shape (k, 2), got {pairs.shape}")
        if pairs.dtype.kind not in "iu":
            raise TypeError(f"pairs must hold integers, got dtype {pairs.dtype}")
        if pairs.min() < 0:
            raise ValueError(f"pairs must not be negative, got {pairs.min()}")
        if not as_positive(self.share, "share") <= 1:
            raise ValueError(f"share must be at most 1, got {self.share}")
        if not is_start(self.rest):
            one_of(self.rest, "rest", ("product", "profile"))
        object.__setattr__(self, "pairs", pairs)

    @classmethod
    def identical(cls, words_x: Sequence[str], words_y: Sequence[str], **options: Any) -> Seeds:
        """Return the seeds of words of both spaces that are spelt alike, numerals and names above
        all. The words are of the rows that take part; of equal words the first row counts. The
        options are `share` and `rest`.

        Examples
        --------
        >>> import gwfast
        >>> gwfast.Seeds.identical(["uno", "1914", "Paris"], ["Paris", "1914"]).pairs
        array([[1, 1],
               [2, 0]])
        """
        return cls(alike(words_x, words_y, "words_x and words_y"), **options)

    @classmethod
    def known(
        cls, dictionary: Dictionary, words_x: Sequence[str], words_y: Sequence[str], **options: Any
    ) -> Seeds:
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
        return cls(known_pairs(dictionary, words_x, words_y, "dictionary"), **options)

    def plan(
        self, problem: QuadraticProblem, n_threads: int
    ) -> Float32Array | SparseCoupling | None:
        rows, cols = self._among(problem.shape).T
        weights = np.sqrt(problem.p[rows] * problem.q[cols])
        if not weights.sum() > 0:
            raise ValueError("pairs must have some mass, got weights of 0 only")
        weights = (self.share * weights / weights.sum()).astype(np.float32)
        if self.share == 1 and isinstance(problem.x, PointCloud) and problem.is_plain:
            # Point clouds need no array of a plan.
            few = sparse.coo_array((weights, (rows, cols)), shape=problem.shape)
            return SparseCoupling(few.tocsr(), n_threads)
        plan = np.zeros(problem.shape, dtype=np.float32)
        if self.share < 1:
            named: dict[str, MakesPlan] = {"product": PRODUCT, "profile": Profile()}
            rest = named[self.rest] if isinstance(self.rest, str) else self.rest
            rest = checked(rest.plan(problem, n_threads), rest, problem.shape)
            plan += np.multiply.outer(problem.p, problem.q) if rest is None else rest
            plan *= (1.0 - self.share) / plan.sum(dtype=np.float64)
        np.add.at(plan, (rows, cols), weights)
        return plan

    def _among(self, shape: tuple[int, int]) -> NDArray[Any]:
        """Return the pairs whose points take part."""
        pairs = np.asarray(self.pairs)
        within = (pairs < shape).all(axis=1)
        of = f"of the {shape[0]} and {shape[1]} points that take part"
        if not within.any():
            came = pairs.min(axis=0).tolist()
            raise ValueError(f"pairs must have one {of}, got rows from {came} on")
        _warn_of_others("pairs", int(within.sum()), len(pairs), of)
        return pairs[within]

    def __str__(self) -> str:
        share = "" if self.share == 1 else f" of {self.share:.3g} of the mass"
        return f"{self._counted('seed')}{share}"

    def __repr__(self) -> str:
        more = "" if self.share == 1 else f", share={self.share:g}, rest={self.rest!r}"
        return f"Seeds({self._counted('pair')}{more})"

    def _counted(self, noun: str) -> str:
        number = len(np.asarray(self.pairs))
        return f"{number} {noun}{'s' * (number != 1)}"


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
        and all(isinstance(one, tuple | list) and len(one) == 2 for one in entries)
    ):
        entries = as_mapping(entries, name).items()
    pairs: dict[tuple[str, str], None] = {}
    for word, known in entries:
        several = as_translations({known} if isinstance(known, str) else known, word, name)
        pairs.update(dict.fromkeys((word, other) for other in several))
    first_x, first_y = _firsts(words_x, "words_x"), _firsts(words_y, "words_y")
    n_fit = sum(x in first_x and y in first_y for x, y in pairs)
    n_turned = sum(y in first_x and x in first_y for x, y in pairs)
    hint = f"; more pairs fit the other way round, {n_turned}" if n_turned > n_fit else ""
    rows = _rows(pairs, first_x, first_y, name, hint)
    of = f"of the first {len(words_x)} and {len(words_y)} words"
    _warn_of_others(name, n_fit, len(pairs), of, hint)
    return rows


def _rows(pairs, first_x, first_y, name, hint=""):
    """Return the sorted rows (k, 2) of pairs of words by the first row of each word."""
    rows = [(first_x[x], first_y[y]) for x, y in pairs if x in first_x and y in first_y]
    if not rows:
        sizes = f"the first {len(first_x)} and {len(first_y)} words"
        raise ValueError(f"{name} must have a pair of {sizes}, got none{hint}")
    return np.array(sorted(rows))


def _firsts(words, name):
    """Return the first row of each word."""
    if isinstance(words, str) or not hasattr(words, "__len__"):
        raise TypeError(f"{name} must be a sequence of words, got {type(words).__name__}")
    rows = {}
    for at, word in enumerate(words):
        rows.setdefault(word, at)
    return rows


def _warn_of_others(name, number, total, of, hint=""):
    if number < total:
        text = f"{name}: {number} of {total} pairs are {of}, the others are left out{hint}"
        warnings.warn(text, stacklevel=outside())

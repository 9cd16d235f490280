"""Precision of word translation, by the conventions of several evaluators.

Published figures differ by their evaluators: by the words that count, their case, and the number
that hits are divided by. `CONVENTIONS` has the rules of the evaluators that papers use, checked
against their code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..utils.labels import ByWord
from ..utils.types import IntArray
from ..utils.validation import as_count, as_mapping, as_translations, one_of
from .dictionaries import Translations, invert


@dataclass(frozen=True)
class Convention:
    """Rules of an evaluator; :doc:`/words` compares them.

    In all conventions a source word is a query if at least one of its translations is in the target
    vocabulary, a hit is any of its translations, and vectors are compared by their angle without
    centering them again.
    """

    name: str
    # Words of each side that are queries, candidates and neighbors of CSLS; None is all.
    max_words: int | None = None
    # Every method looks only at words that took part in the alignment.
    taking_part: bool = False
    # Vocabularies and dictionary are put in lower case first.
    lower: bool = False
    # A word that comes twice in a vocabulary: "error" refuses it; "drop" keeps the first row; with
    # "last" other rows than the last are never right; with "word" any of its rows is right.
    duplicates: Literal["error", "drop", "last", "word"] = "error"
    # Only the first translation in a line of a file counts.
    first_only: bool = False
    # The coverage is a fraction of the dictionary's source words, or of its pairs.
    coverage: Literal["words", "pairs"] = "words"
    # For the inverted softmax; None is the default of `nearest_neighbors`.
    inverse_temperature: float | None = None


CONVENTIONS = {
    rules.name: rules
    for rules in (
        Convention("gwfast"),
        Convention("vecmap", duplicates="last", inverse_temperature=1.0),
        Convention("muse", max_words=200_000, lower=True, duplicates="drop", coverage="pairs"),
        Convention("paper", taking_part=True, duplicates="word", first_only=True),
    )
}
ConventionName: TypeAlias = Literal["gwfast", "vecmap", "muse", "paper"]


@dataclass(frozen=True, eq=False)
class GoldStandard:
    """The part of a dictionary that two vocabularies cover."""

    rows: IntArray  # source rows that are queries, ascending
    targets: tuple[frozenset[int], ...]  # target rows that are right for each query
    n_words: int  # source words of the dictionary, covered or not
    coverage: float  # as the convention defines it; NaN for an empty dictionary
    sources: IntArray  # source rows that the convention looks at, ascending
    candidates: IntArray  # target rows that the convention looks at, ascending
    convention: Convention

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, repr=False)
class Precision:
    """Fraction of queries with a right translation among the first k.

    Attributes
    ----------
    hits : dict of int to int
        Queries with a right translation among the first k, for each k.
    n_queries : int
        Source words that were translated and compared: hits are divided by this number.
    n_words : int
        Source words of the dictionary.
    coverage : float
        Fraction of the dictionary's source words (of its pairs, by the convention "muse") that the
        vocabularies cover.
    convention : str

    Examples
    --------
    >>> from gwfast.words import precision_at_k
    >>> lists = {"sol": {"soleil"}, "rey": {"roi"}}, ["sol", "rey"], ["roi", "soleil"]
    >>> score = precision_at_k([[0, 1], [0, 1]], *lists, ks=(1, 2))
    >>> score.at[1], score.at[2]
    (0.5, 1.0)
    """

    hits: dict[int, int]
    n_queries: int
    n_words: int
    coverage: float
    convention: str

    @property
    def at(self) -> dict[int, float]:
        """dict of int to float: the fraction for each k; NaN without queries."""
        n = self.n_queries
        return {k: hits / n if n else math.nan for k, hits in self.hits.items()}

    def interval(self, k: int, level: float = 0.95) -> tuple[float, float]:
        """Return the Wilson score interval of the fraction for a k (Wilson, JASA 1927).

        If the dictionary is a random sample of words, the interval covers the fraction among all
        words in about `level` of the cases.

        Parameters
        ----------
        k : int
            One of the ks that were scored.
        level : float, default=0.95
            Above 0 and below 1.

        Returns
        -------
        low, high : float
            NaN without queries.

        Raises
        ------
        ValueError
            If `k` was not scored or `level` is out of range.
        """
        if k not in self.hits:
            raise ValueError(f"k must be one of {list(self.hits)}, got {k!r}")
        if not 0 < level < 1:
            raise ValueError(f"level must be above 0 and below 1, got {level}")
        n = self.n_queries
        if not n:
            return math.nan, math.nan
        share, z2 = self.hits[k] / n, NormalDist().inv_cdf(0.5 + level / 2) ** 2
        middle = (share + z2 / (2 * n)) / (1 + z2 / n)
        half = math.sqrt(z2 * (share * (1 - share) + z2 / (4 * n)) / n) / (1 + z2 / n)
        # At the ends the bounds are 0 and 1 but for rounding.
        low = max(middle - half, 0.0) if share > 0 else 0.0
        high = min(middle + half, 1.0) if share < 1 else 1.0
        return low, high

    def __repr__(self) -> str:
        shares = ", ".join(f"P@{k} {share:.3f}" for k, share in self.at.items())
        return (
            f"Precision({shares}; {self.n_queries:,} queries of {self.n_words:,} words,"
            f" coverage {self.coverage:.1%}, convention {self.convention!r})"
        )


def gold_standard(
    dictionary: Translations,
    source_words: Sequence[str],
    target_words: Sequence[str],
    convention: str = "gwfast",
) -> GoldStandard:
    """Look a dictionary up in two vocabularies, the most frequent words first."""
    rules = CONVENTIONS[one_of(convention, "convention", CONVENTIONS)]
    sources, source_rows = _vocabulary(source_words, rules, "source_words")
    candidates, target_rows = _vocabulary(target_words, rules, "target_words")
    wanted: dict[str, set[str]] = {}
    for word, targets in as_mapping(dictionary, "dictionary").items():
        targets = as_translations(targets, word, "dictionary")
        if rules.lower:
            word, targets = word.lower(), [target.lower() for target in targets]
        wanted.setdefault(word, set()).update(targets)
    targets_of: dict[int, frozenset[int]] = {}
    n_pairs = 0
    for word, targets in wanted.items():
        target_numbers = [target_rows[target] for target in targets if target in target_rows]
        if target_numbers and word in source_rows:
            row = source_rows[word][-1]
            targets_of[row] = targets_of.get(row, frozenset()).union(*target_numbers)
            n_pairs += len(target_numbers)
    rows = sorted(targets_of)
    covered, total = len(rows), len(wanted)
    if rules.coverage == "pairs":
        covered, total = n_pairs, sum(map(len, wanted.values()))
    return GoldStandard(
        rows=np.array(rows, dtype=np.int64),
        targets=tuple(targets_of[row] for row in rows),
        n_words=len(wanted),
        coverage=covered / total if total else math.nan,
        sources=sources,
        candidates=candidates,
        convention=rules,
    )


def count_reversed(
    dictionary: Translations,
    gold: GoldStandard,
    source_words: Sequence[str],
    target_words: Sequence[str],
) -> int:
    """Return the number of queries of the inverted dictionary if it is more than twice the number
    of queries in `gold`, else 0: words that are spelt alike fit either way.
    """
    vocabularies = source_words, target_words
    backward = gold_standard(invert(dictionary), *vocabularies, gold.convention.name)
    return len(backward) if len(backward) > 2 * len(gold) else 0


def _vocabulary(words, rules, name):
    """Return the rows that are looked at, and the rows that stand for each word."""
    kept, rows = [], {}
    for row, word in enumerate(words):
        if len(kept) == rules.max_words:
            break
        if rules.lower:
            word = word.lower()
        if word not in rows:
            rows[word] = (row,)
        elif rules.duplicates == "error":
            raise ValueError(
                f"{name} must be without duplicates under the convention"
                f" {rules.name!r}, got {word!r} in rows {rows[word][0]} and {row}"
            )
        elif rules.duplicates == "drop":
            continue
        else:
            rows[word] = (*rows[word], row) if rules.duplicates == "word" else (row,)
        kept.append(row)
    return np.array(kept, dtype=np.int64), ByWord(rows)


def precision_at_k(
    indices: ArrayLike,
    dictionary: Translations,
    source_words: Sequence[str],
    target_words: Sequence[str],
    *,
    ks: Sequence[int] = (1, 5, 10),
    convention: ConventionName = "gwfast",
) -> Precision:
    """Score translations of any origin against a dictionary.

    Parameters
    ----------
    indices : array-like of int, shape (n, k)
        Rows of `target_words` for each of the `source_words`, best first, as `nearest_neighbors`
        and ``translate`` of an alignment return them. Rows below 0 stand for no translation.
    dictionary : mapping of str to iterable of str
        Translations of source words, see `read_dictionary`.
    source_words : sequence of str, length n
        The words that were translated.
    target_words : sequence of str
    ks : sequence of int, default=(1, 5, 10)
        A k above the number of columns is scored on all columns.
    convention : {"gwfast", "vecmap", "muse", "paper"}, default="gwfast"
        How to count, see `gwfast.Alignment.evaluate`.

    Returns
    -------
    Precision
        With the fractions in `at`, a dict by k, and `interval(k)`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Examples
    --------
    >>> from gwfast.words import precision_at_k
    >>> precision_at_k([[0, 1]], {"sol": {"soleil"}}, ["sol"], ["roi", "soleil"], ks=(1, 2)).at
    {1: 0.0, 2: 1.0}
    """
    gold = gold_standard(dictionary, source_words, target_words, convention)
    indices = np.asarray(indices)
    if indices.ndim != 2 or len(indices) != len(source_words):
        raise ValueError(
            f"indices must have a row for each of the {len(source_words)} source words,"
            f" got shape {indices.shape}"
        )
    return scored(indices[gold.rows], gold, ks)


def scored(indices, gold, ks):
    """Return the `Precision` of the translations of ``gold.rows``."""
    ks = [as_count(k, "ks") for k in ks]
    rows = list(zip(indices.tolist(), gold.targets, strict=True))
    return Precision(
        hits={k: sum(not right.isdisjoint(row[:k]) for row, right in rows) for k in ks},
        n_queries=len(gold),
        n_words=gold.n_words,
        coverage=gold.coverage,
        convention=gold.convention.name,
    )

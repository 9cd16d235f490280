"""Precision of word translation, by the conventions of several evaluators.

Published figures differ by who counted: which words are looked at, in which case, and
what the hits are divided by. `CONVENTIONS` names the rules of the evaluators that
papers use, checked against their code, so that figures can be set beside theirs; the
default is "gwfast". Compare figures of one convention only.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..alignment import retrieval
from ..alignment.align import AlignmentResult, ByPlan, Ranking
from ..utils.callers import outside
from ..utils.types import IntArray
from ..utils.validation import as_count, as_mapping, as_translations, one_of
from .dictionaries import Translations, invert


@dataclass(frozen=True)
class Convention:
    """Rules of an evaluator. `dataclasses.replace` makes others from them.

    In all of them a source word is a query when at least one of its translations is in
    the target vocabulary, a hit is any of its translations, and vectors are compared
    by their angle as they are, without centering them again. `CONVENTIONS` has

    - "gwfast": words as they are, of which none may come twice; all are looked at.
    - "vecmap": ``eval_translation.py`` of vecmap (Artetxe et al., ACL 2018). The same
      but for duplicates. It prints P@1 and the coverage only. With ``--retrieval csls``
      it leaves out the source's own term, which does not change the ranking; its
      inverted softmax has the inverse temperature 1.
    - "muse": ``evaluate.py`` of MUSE (Conneau et al., ICLR 2018) with its defaults: the
      first 200,000 words in lower case, without duplicates. Its log tells how many
      pairs of the dictionary were found, which is the coverage here. It refuses
      dictionaries with capitals; here they are put in lower case.
    - "paper": ``main_gw_bli.py`` of otalign, the script of Alvarez-Melis and Jaakkola
      (EMNLP 2018): the words that took part, 2000 of each side by its default. It reads
      the *training* fold (``.0-5000.txt``) of MUSE's dictionaries, and that of Dinu et
      al., inverted where the source is not English. Tables of the paper may also come
      from the evaluators above, for which it writes 200,000 mapped vectors.

    Attributes
    ----------
    name : str
    max_words : int or None
        The evaluator looks at this many words of each side, the most frequent ones,
        and knows no others: neither as queries, nor as candidates, nor as neighbors
        for CSLS. None is all.
    taking_part : bool
        It looks only at words that took part in the alignment, for every method.
        `evaluate` heeds this; `gold_standard` is given the words to look at.
    lower : bool
        Vocabularies and dictionary are put in lower case first.
    duplicates : {"error", "drop", "last", "word"}
        What to do with a word that comes twice in a vocabulary (in lower case, if
        `lower`). "error": refuse it. "drop": the first row counts, the others are not
        looked at. "last": the last row stands for the word; the others are
        candidates that are never right. "word": the last row is translated, and any
        row of a right word is right.
    first_only : bool
        Of several translations in one line of a file only the first counts: for such
        files give `read_dictionary` this. Nothing else heeds it.
    denominator : {"covered", "all"}
        What hits are divided by: the covered source words, which have a translation
        in the target vocabulary, or all source words of the dictionary.
    coverage : {"words", "pairs"}
        Whether the coverage is the fraction of the dictionary's source words that are
        covered, or of its pairs that have both words in the vocabularies.
    hood : int
        Size of the neighborhoods of CSLS.
    inverse_temperature : float
        Of the inverted softmax.

    Examples
    --------
    >>> from gwfast.words import CONVENTIONS
    >>> CONVENTIONS["vecmap"].name
    'vecmap'
    """

    name: str
    max_words: int | None = None
    taking_part: bool = False
    lower: bool = False
    duplicates: Literal["error", "drop", "last", "word"] = "error"
    first_only: bool = False
    denominator: Literal["covered", "all"] = "covered"
    coverage: Literal["words", "pairs"] = "words"
    hood: int = retrieval.N_NEIGHBORS
    inverse_temperature: float = retrieval.INVERSE_TEMPERATURE

    def __post_init__(self) -> None:
        if self.max_words is not None:
            as_count(self.max_words, "max_words")
        one_of(self.duplicates, "duplicates", ("error", "drop", "last", "word"))
        one_of(self.denominator, "denominator", ("covered", "all"))
        one_of(self.coverage, "coverage", ("words", "pairs"))


#: The conventions by name, see `Convention`.
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
ConventionLike: TypeAlias = ConventionName | Convention


@dataclass(frozen=True, eq=False)
class GoldStandard:
    """The part of a dictionary that two vocabularies cover.

    Attributes
    ----------
    rows : ndarray (n_queries,), int64
        Source rows that count, ascending.
    targets : tuple of frozenset of int, length n_queries
        The target rows that are right for each.
    n_words : int
        Source words of the dictionary, covered or not.
    coverage : float
        As the convention defines it; nan for an empty dictionary.
    sources, candidates : ndarray, int64
        Source and target rows that the convention looks at, ascending: all of them, if
        it has no limit and meets no duplicates to drop. What is scored should be
        ranked among `candidates`, and CSLS look for neighbors among both.
    convention : Convention

    Examples
    --------
    >>> from gwfast.words import gold_standard
    >>> gold = gold_standard({"sol": {"soleil"}, "rey": {"roi"}}, ["sol"], ["soleil"])
    >>> gold.rows, gold.targets, gold.coverage
    (array([0]), (frozenset({0}),), 0.5)
    """

    rows: IntArray
    targets: tuple[frozenset[int], ...]
    n_words: int
    coverage: float
    sources: IntArray
    candidates: IntArray
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
        Source words that were translated and compared.
    n_words : int
        Source words of the dictionary.
    n_scored : int
        What hits are divided by: `n_queries`, or `n_words` where the convention says
        so.
    coverage : float
        See `GoldStandard`.
    convention : str
        Its name.

    Examples
    --------
    >>> from gwfast.words import gold_standard, precision_at_k
    >>> gold = gold_standard({"sol": {"soleil"}}, ["sol"], ["roi", "soleil"])
    >>> score = precision_at_k([[0, 1]], gold, ks=(1, 2))
    >>> score.at[1], score.at[2]
    (0.0, 1.0)
    """

    hits: dict[int, int]
    n_queries: int
    n_words: int
    n_scored: int
    coverage: float
    convention: str

    @property
    def at(self) -> dict[int, float]:
        """dict of int to float: the fraction for each k; nan without queries."""
        n = self.n_scored
        return {k: hits / n if n else math.nan for k, hits in self.hits.items()}

    def interval(self, k: int, level: float = 0.95) -> tuple[float, float]:
        """The Wilson score interval of the fraction for a k.

        Where the words of the dictionary are a sample of those one cares for, it
        covers the fraction among these in about `level` of the cases (Wilson, JASA
        1927). It says nothing about how good the dictionary is.

        Parameters
        ----------
        k : int
            One of those that were scored.
        level : float, default=0.95
            Above 0 and below 1.

        Returns
        -------
        low, high : float
            nan without queries.

        Raises
        ------
        ValueError
            If `k` was not scored or `level` is out of range.
        """
        if k not in self.hits:
            raise ValueError(f"k must be one of {list(self.hits)}, got {k!r}")
        if not 0 < level < 1:
            raise ValueError(f"level must be above 0 and below 1, got {level}")
        n = self.n_scored
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


def as_convention(convention: ConventionLike) -> Convention:
    """A `Convention`, given itself or its name."""
    if isinstance(convention, Convention):
        return convention
    return CONVENTIONS[one_of(convention, "convention", CONVENTIONS)]


def gold_standard(
    dictionary: Translations,
    source_words: Sequence[str],
    target_words: Sequence[str],
    *,
    convention: ConventionLike = "gwfast",
) -> GoldStandard:
    """Look a dictionary up in two vocabularies.

    Parameters
    ----------
    dictionary : mapping of str to iterable of str
    source_words, target_words : sequence of str
        Most frequent first. To score a coupling, the words that took part in it.
    convention : {"gwfast", "vecmap", "muse", "paper"} or Convention, default="gwfast"
        See `Convention`.

    Returns
    -------
    GoldStandard

    Raises
    ------
    TypeError
        If translations are one string instead of several.
    ValueError
        If the convention is unknown, or refuses duplicates and a vocabulary has some.

    Examples
    --------
    >>> from gwfast.words import gold_standard
    >>> gold = gold_standard({"sol": {"soleil"}, "rey": {"roi"}}, ["sol"], ["soleil"])
    >>> gold.n_words, gold.coverage
    (2, 0.5)
    """
    rules = as_convention(convention)
    sources, source_rows = _vocabulary(source_words, rules, "source_words")
    candidates, target_rows = _vocabulary(target_words, rules, "target_words")
    wanted: dict[str, set[str]] = {}
    for word, targets in as_mapping(dictionary, "dictionary").items():
        targets = as_translations(targets, word, "dictionary")
        if rules.lower:
            word, targets = word.lower(), [target.lower() for target in targets]
        wanted.setdefault(word, set()).update(targets)
    found, n_pairs = {}, 0
    for word, targets in wanted.items():
        known = [target_rows[target] for target in targets if target in target_rows]
        if known and word in source_rows:
            found[source_rows[word][-1]] = frozenset().union(*known)
            n_pairs += len(known)
    rows = sorted(found)
    covered, total = len(rows), len(wanted)
    if rules.coverage == "pairs":
        covered, total = n_pairs, sum(map(len, wanted.values()))
    return GoldStandard(
        rows=np.array(rows, dtype=np.int64),
        targets=tuple(found[row] for row in rows),
        n_words=len(wanted),
        coverage=covered / total if total else math.nan,
        sources=sources,
        candidates=candidates,
        convention=rules,
    )


def turned(dictionary, gold, source_words, target_words):
    """The number of queries of the inverted dictionary if these are more than twice as
    many as the queries `gold`, else 0: words that are spelt alike fit either way."""
    other = gold_standard(
        invert(dictionary), source_words, target_words, convention=gold.convention
    )
    return len(other) if len(other) > 2 * len(gold) else 0


def _vocabulary(words, rules, name):
    """The rows that are looked at, and those that stand for each word in them."""
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
    return np.array(kept, dtype=np.int64), rows


def precision_at_k(
    indices: ArrayLike, gold: GoldStandard, ks: Sequence[int] = (1, 5, 10)
) -> Precision:
    """Score translations, from wherever they come, against a gold standard.

    Parameters
    ----------
    indices : ndarray (n_queries, k), integer
        Target rows for each of ``gold.rows``, best first, as ``translate`` of an
        alignment returns them for these rows. Rows below 0 stand for none.
    gold : GoldStandard
    ks : sequence of int
        A k above the number of columns is scored on all columns.

    Returns
    -------
    Precision

    Raises
    ------
    TypeError, ValueError
        If the shape of `indices` does not fit `gold`, or a k is not a positive integer.

    Examples
    --------
    >>> from gwfast.words import gold_standard, precision_at_k
    >>> gold = gold_standard({"sol": {"soleil"}}, ["sol"], ["roi", "soleil"])
    >>> precision_at_k([[0, 1]], gold, ks=(1, 2)).at
    {1: 0.0, 2: 1.0}
    """
    ks = [as_count(k, "ks") for k in ks]
    indices = np.asarray(indices)
    if indices.ndim != 2 or len(indices) != len(gold):
        raise ValueError(
            f"indices must have a row for each of the {len(gold)} queries,"
            f" got shape {indices.shape}"
        )
    rows = list(zip(indices.tolist(), gold.targets, strict=True))
    return Precision(
        hits={k: sum(not right.isdisjoint(row[:k]) for row, right in rows) for k in ks},
        n_queries=len(gold),
        n_words=gold.n_words,
        n_scored=gold.n_words if gold.convention.denominator == "all" else len(gold),
        coverage=gold.coverage,
        convention=gold.convention.name,
    )


def evaluate(
    result: AlignmentResult,
    dictionary: Translations,
    source_words: Sequence[str],
    target_words: Sequence[str],
    *,
    methods: Sequence[Ranking] | None = None,
    ks: Sequence[int] = (1, 5, 10),
    convention: ConventionLike = "gwfast",
) -> dict[str, Precision]:
    """Score the translations of an alignment against a dictionary.

    The plan tells about the words that took part in it only: "coupling" and
    "barycentric" are scored on the queries whose word and at least one translation
    took part, the other methods on all (with the convention "paper" on those of the
    coupling, and among words that took part). Each `Precision` says on how many.

    Parameters
    ----------
    result : AlignmentResult or AlignedSpaces
    dictionary : mapping of str to iterable of str
    source_words, target_words : sequence of str
        A word for each row that was given to `align`.
    methods : sequence of str or None, default=None
        Methods of `AlignmentResult.translate`; None is "coupling", "nn" and "csls",
        without "coupling" if `result` was loaded, as no plan is saved.
    ks : sequence of int, default=(1, 5, 10)
    convention : {"gwfast", "vecmap", "muse", "paper"} or Convention, default="gwfast"
        See `Convention`. Candidates and the neighborhoods of CSLS are its as well.

    Returns
    -------
    dict of str to Precision
        By method.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value; the message names it.

    Warns
    -----
    UserWarning
        If more pairs of the dictionary fit the other way round.

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import evaluate, load_sample
    >>> spanish, french, dictionary = load_sample()
    >>> result = gwfast.align(spanish.vectors, french.vectors, n_words=500)
    >>> scores = evaluate(result, dictionary, spanish.words, french.words)
    >>> list(scores), scores["csls"].n_queries
    (['coupling', 'nn', 'csls'], 396)
    """
    rules = as_convention(convention)
    if isinstance(methods, str):
        raise TypeError(f"methods must be a sequence of names, got {methods!r}")
    by_plan = get_args(ByPlan) if isinstance(result, AlignmentResult) else ()
    if methods is None:
        methods = (*by_plan[:1], "nn", "csls")
    for method in methods:
        one_of(method, "methods", (*get_args(retrieval.Retrieval), *by_plan))
    for words, side, name in (
        (source_words, result.source, "source_words"),
        (target_words, result.target, "target_words"),
    ):
        if len(words) != len(side.rows):
            raise ValueError(
                f"{name} must have a word for each of the {len(side.rows)} rows, got {len(words)}"
            )
    n, m = result.n_words
    part = gold_standard(dictionary, source_words[:n], target_words[:m], convention=rules)
    whole = part
    if not rules.taking_part:
        whole = gold_standard(dictionary, source_words, target_words, convention=rules)
    if n_turned := turned(dictionary, whole, source_words, target_words):
        warnings.warn(
            f"dictionary: more pairs fit the other way round, of {n_turned} words; from"
            f" source to target of {len(whole)}. See gwfast.words.invert",
            stacklevel=outside(),
        )
    k = max((as_count(k, "ks") for k in ks), default=1)
    precision: dict[str, Precision] = {}
    for method in methods:
        gold = part if method in get_args(ByPlan) else whole
        found = _translations(result, method, k, gold, whole.candidates)
        precision[method] = precision_at_k(found, gold, ks)
    return precision


def _translations(result, method, k, gold, candidates):
    """The best `k` of the candidates for every query, or all of them."""
    if not len(gold):
        return np.empty((0, k), dtype=np.int64)
    rules = gold.convention
    if method in get_args(retrieval.Retrieval) and not (
        # Nothing that `translate` would do otherwise, and it may know the hubs already.
        len(candidates) == len(result.target.rows)
        and len(gold.sources) == len(result.source.rows)
        and rules.hood == retrieval.N_NEIGHBORS
        and rules.inverse_temperature == retrieval.INVERSE_TEMPERATURE
    ):
        mapped = result.mapped_source
        found = retrieval.nearest_neighbors(
            mapped[gold.rows],
            _take(result.mapped_target, candidates),
            method=method,
            k=k,
            hood=rules.hood,
            inverse_temperature=rules.inverse_temperature,
            sources=_take(mapped, gold.sources),
            n_threads=result.n_threads,
        )
        return candidates[found.indices]
    asked = k
    while True:
        found = result.translate(gold.rows, method=method, k=asked).indices
        if len(candidates) == len(result.target.rows):
            return found
        allowed = np.isin(found, candidates)
        if allowed.sum(axis=1).min() >= k or found.shape[1] < asked:
            break
        asked *= 2
    # A stable sort moves the candidates to the front, in their order. What is no
    # candidate may follow where these are few: it is never right.
    order = np.argsort(~allowed, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(found, order, axis=1)


def _take(rows, chosen):
    """Some of the rows, ascending; no copy where that is all."""
    return rows if len(chosen) == len(rows) else rows[chosen]

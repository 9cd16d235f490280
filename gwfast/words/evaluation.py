"""Precision of word translation.

The convention: a source word counts when at least one of its gold translations
is in the target vocabulary, and a hit is any of its gold translations. Papers
differ (the evaluators of MUSE, vecmap and fastText give figures half a
point apart on the same vectors), so compare figures of one evaluator only.
"""

from dataclasses import dataclass

import numpy as np


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
    """

    rows: np.ndarray
    targets: tuple[frozenset[int], ...]
    n_words: int

    def __len__(self):
        return len(self.rows)


@dataclass(frozen=True)
class Precision:
    """Share of queries with a right translation among the first k.

    Attributes
    ----------
    at : dict of int to float
        The share for each k; nan without queries.
    n_queries : int
        Source words that count.
    n_words : int
        Source words of the dictionary. ``n_queries / n_words`` is the coverage.
    """

    at: dict[int, float]
    n_queries: int
    n_words: int


def gold_standard(dictionary, source_words, target_words):
    """Look a dictionary up in two vocabularies.

    Parameters
    ----------
    dictionary : mapping of str to set of str
    source_words, target_words : sequence of str
        Without duplicates. To score a coupling, the words that took part in it.

    Returns
    -------
    GoldStandard
    """
    target_rows = {word: row for row, word in enumerate(target_words)}
    rows, targets = [], []
    for row, word in enumerate(source_words):
        right = dictionary.get(word, ())
        found = frozenset(target_rows[word] for word in right if word in target_rows)
        if found:
            rows.append(row)
            targets.append(found)
    return GoldStandard(np.array(rows, dtype=np.int64), tuple(targets), len(dictionary))


def precision_at_k(indices, gold, ks=(1, 5, 10)):
    """Score translations against a gold standard.

    Parameters
    ----------
    indices : ndarray (n_queries, k), integer
        Target rows for each of ``gold.rows``, best first, as ``translate`` of an
        alignment returns them for these rows.
    gold : GoldStandard
    ks : sequence of int
        A k above the number of columns is scored on all columns.

    Returns
    -------
    Precision

    Raises
    ------
    ValueError
        If the shape of `indices` does not fit `gold`.
    """
    indices = np.asarray(indices)
    if indices.ndim != 2 or len(indices) != len(gold):
        raise ValueError(
            f"indices must have a row for each of the {len(gold)} queries,"
            f" got shape {indices.shape}"
        )
    hits = np.array(
        [
            [target in right for target in row]
            for row, right in zip(indices.tolist(), gold.targets, strict=True)
        ],
        dtype=bool,
    ).reshape(indices.shape)
    at = {k: float(hits[:, :k].any(axis=1).mean()) if len(gold) else np.nan for k in ks}
    return Precision(at, len(gold), gold.n_words)

"""Scores of an alignment against a dictionary; `words.evaluation` has the rules."""

from __future__ import annotations

import warnings
from typing import get_args

import numpy as np

from ..utils.callers import outside
from ..utils.validation import as_count, one_of
from ..words.evaluation import gold_standard, scored, turned
from .retrieval import INVERSE_TEMPERATURE, Retrieval, nearest_neighbors


def score(alignment, dictionary, methods, ks, convention, by_plan):
    """Return `Alignment.evaluate`; `by_plan` are the methods that need a plan, if there is one."""
    if isinstance(methods, str):
        raise TypeError(f"methods must be a sequence of names, got {methods!r}")
    if methods is None:
        methods = (*by_plan[:1], "nn", "csls")
    for method in methods:
        one_of(method, "methods", (*get_args(Retrieval), *by_plan))
    words_x, words_y = alignment.words
    if words_x is None or words_y is None:
        raise ValueError("words must be attached to both sides; see Alignment.with_words")
    n, m = alignment.n_words
    part = gold_standard(dictionary, words_x[:n], words_y[:m], convention)
    whole = part
    if not part.convention.taking_part:
        whole = gold_standard(dictionary, words_x, words_y, convention)
    if n_turned := turned(dictionary, whole, words_x, words_y):
        warnings.warn(
            f"dictionary: more pairs fit the other way round, of {n_turned} words; from"
            f" source to target of {len(whole)}; read_dictionary(path, reverse=True) turns it",
            stacklevel=outside(),
        )
    k = max((as_count(k, "ks") for k in ks), default=1)
    precision = {}
    for method in methods:
        gold = part if method in by_plan else whole
        found = _translations(alignment, method, k, gold, whole.candidates)
        precision[method] = scored(found, gold, ks)
    return precision


def _translations(alignment, method, k, gold, candidates):
    """Return the best `k` of the candidates, or all candidates, for each query."""
    if not len(gold):
        return np.empty((0, k), dtype=np.int64)
    temperature = gold.convention.inverse_temperature or INVERSE_TEMPERATURE
    looks_at_all = len(candidates) == len(alignment.target.rows)
    if method in get_args(Retrieval) and not (
        # `translate` does the same then, and may know the hubs already.
        looks_at_all
        and len(gold.sources) == len(alignment.source.rows)
        and temperature == INVERSE_TEMPERATURE
    ):
        mapped = alignment.mapped_source
        found = nearest_neighbors(
            mapped[gold.rows],
            alignment.mapped_target[candidates],
            k=k,
            method=method,
            inverse_temperature=temperature,
            sources=mapped[gold.sources],
            n_threads=alignment.n_threads,
        )
        return candidates[found.indices]
    asked = k
    while True:
        found = alignment.translate(gold.rows, method=method, k=asked).indices
        if looks_at_all:
            return found
        allowed = np.isin(found, candidates)
        if allowed.sum(axis=1).min() >= k or found.shape[1] < asked:
            break
        asked *= 2
    # A stable sort moves the candidates to the front, in their order. Other rows may follow if
    # there are few candidates; they are never right.
    order = np.argsort(~allowed, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(found, order, axis=1)

"""Precision of translations, against counting by hand."""

import math

import numpy as np
import pytest

from gwfast.words import gold_standard, precision_at_k

SOURCE = ["casa", "perro", "gato", "sol"]
TARGET = ["sun", "house", "cat", "home"]
LIST = {
    "casa": {"home", "house"},
    "perro": {"dog"},  # its translation is out of vocabulary: does not count
    "sol": {"sun"},
    "gato": {"cat", "tomcat"},
    "mar": {"sea"},  # out of vocabulary itself
}


def test_which_words_count():
    gold = gold_standard(LIST, SOURCE, TARGET)
    assert gold.rows.tolist() == [0, 2, 3]
    assert gold.rows.dtype == np.int64
    assert gold.targets == ({1, 3}, {2}, {0})
    assert (len(gold), gold.n_words) == (3, 5)


def test_a_smaller_vocabulary_has_fewer_queries():
    """The coupling is scored on the words that took part."""
    gold = gold_standard(LIST, SOURCE[:3], TARGET[:2])
    assert gold.rows.tolist() == [0]
    assert gold.targets == ({1},)


def test_any_translation_is_a_hit():
    gold = gold_standard(LIST, SOURCE, TARGET)
    indices = np.array([[3, 0, 2], [0, 1, 2], [1, 0, 2]])  # hits at ranks 1, 3, 2
    score = precision_at_k(indices, gold, ks=(1, 2, 3, 10))
    assert score.at == {1: 1 / 3, 2: 2 / 3, 3: 1.0, 10: 1.0}
    assert (score.n_queries, score.n_words) == (3, 5)


@pytest.mark.parametrize("n", [1, 2, 7, 31, 97])
def test_matches_a_plain_loop(n):
    rng = np.random.default_rng(n)
    words = [f"w{i}" for i in range(n)]
    pairs = {
        word: {f"w{i}" for i in rng.integers(0, 2 * n, 3)}
        for word in words
        if rng.random() < 0.7
    }
    gold = gold_standard(pairs, words, words)
    indices = rng.integers(0, n, (len(gold), 10))
    score = precision_at_k(indices, gold)
    for k, share in score.at.items():
        hits = sum(
            any(words[target] in pairs[words[row]] for target in found[:k])
            for row, found in zip(gold.rows, indices, strict=True)
        )
        expected = hits / len(gold) if len(gold) else math.nan
        assert share == pytest.approx(expected, nan_ok=True)


def test_no_queries():
    gold = gold_standard({"mar": {"sea"}}, SOURCE, TARGET)
    score = precision_at_k(np.empty((0, 3), dtype=np.int64), gold)
    assert score.n_queries == 0
    assert all(math.isnan(share) for share in score.at.values())


@pytest.mark.parametrize("shape", [(3,), (2, 5), (4, 5), (3, 1, 1)])
def test_wrong_shape(shape):
    gold = gold_standard(LIST, SOURCE, TARGET)
    with pytest.raises(ValueError, match="a row for each of the 3 queries, got shape"):
        precision_at_k(np.zeros(shape, dtype=np.int64), gold)

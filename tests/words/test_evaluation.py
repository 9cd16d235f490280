"""Precision of translations, against counting by hand."""

import math

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import rotated_pair
from scipy.stats import binomtest

import gwfast
from gwfast.words import precision_at_k

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
    """A small vocabulary, such as of the words that took part, has fewer queries."""
    for source, target, expected in ((SOURCE, TARGET, 3), (SOURCE[:3], TARGET[:2], 1)):
        score = precision_at_k([[0]] * len(source), LIST, source, target)
        assert (score.n_queries, score.n_words) == (expected, 5)


@pytest.mark.parametrize("n", [1, 2, 7, 31, 97])
def test_matches_a_plain_loop(n):
    rng = np.random.default_rng(n)
    words = [f"w{i}" for i in range(n)]
    pairs = {
        word: {f"w{i}" for i in rng.integers(0, 2 * n, 3)} for word in words if rng.random() < 0.7
    }
    indices = rng.integers(0, n, (n, 10))
    score = precision_at_k(indices, pairs, words, words)
    asked = [i for i, word in enumerate(words) if pairs.get(word, set()) & set(words)]
    assert score.n_queries == len(asked)
    for k, share in score.at.items():
        hits = sum(any(words[j] in pairs[words[i]] for j in indices[i, :k]) for i in asked)
        expected = hits / len(asked) if asked else math.nan
        assert share == pytest.approx(expected, nan_ok=True)


def test_wrong_shape():
    for shape in ((4,), (3, 5), (5, 5), (4, 1, 1)):
        with pytest.raises(ValueError, match="each of the 4 source words, got shape"):
            precision_at_k(np.zeros(shape, dtype=np.int64), LIST, SOURCE, TARGET)


def test_what_is_reported():
    # Any translation is a hit, here at ranks 2, 3 and 1. -1 is none: as an index into
    # an array it would be the last target, "home".
    indices = [[-1, 3, 0], [0, 0, 0], [0, 1, 2], [0, 1, 2]]
    score = precision_at_k(indices, LIST, SOURCE, TARGET, ks=(1, 2, 3, 10))
    assert score.hits == {1: 1, 2: 2, 3: 3, 10: 3}
    assert score.at == {1: 1 / 3, 2: 2 / 3, 3: 1.0, 10: 1.0}
    assert (score.n_queries, score.n_words, score.coverage) == (3, 5, 3 / 5)
    assert repr(score) == (
        "Precision(P@1 0.333, P@2 0.667, P@3 1.000, P@10 1.000; 3 queries of 5 words,"
        " coverage 60.0%, convention 'gwfast')"
    )


def scored(hits, n):
    """A `Precision` with this number of hits."""
    words = [f"w{i}" for i in range(n)]
    pairs = {word: {"x"} for word in words}
    return precision_at_k([[int(i >= hits)] for i in range(n)], pairs, words, ["x", "y"], ks=(1,))


@pairwise(n=[1, 2, 47, 263], level=[0.5, 0.95, 0.999])
def test_interval_as_in_scipy(n, level):
    for hits in {0, 1, n // 3, n - 1, n}:
        expected = binomtest(hits, n).proportion_ci(level, method="wilson")
        found = scored(hits, n).interval(1, level)
        assert found == pytest.approx(tuple(expected), rel=1e-10, abs=1e-15)
        assert 0 <= found[0] <= hits / n <= found[1] <= 1
        assert (hits > 0 or found[0] == 0) and (hits < n or found[1] == 1)


def test_interval_refuses():
    score = scored(1, 2)
    with pytest.raises(ValueError, match=r"k must be one of \[1\], got 5"):
        score.interval(5)
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match=f"below 1, got {level}"):
            score.interval(1, level)


@pytest.mark.parametrize("pairs", [{}, {"mar": {"sea"}}])
def test_no_queries(pairs):
    score = precision_at_k(np.empty((4, 3), int), pairs, SOURCE, TARGET)
    assert score.n_queries == 0
    assert all(math.isnan(share) for share in (*score.at.values(), *score.interval(1)))
    assert math.isnan(score.coverage) == (not pairs)


CASES = ["Casa", "casa", "sol", "CASA"], ["Sun", "house", "sun", "House", "house", "sun"]
PAIRS = {"casa": {"house", "home"}, "Casa": {"House"}, "sol": {"sun", "Sun"}}


@pytest.mark.parametrize("convention, right, n_words, coverage", [
    ("vecmap", {0: {3}, 1: {4}, 2: {0, 5}}, 3, 1.0),
    ("paper", {0: {3}, 1: {1, 4}, 2: {0, 2, 5}}, 3, 1.0),
    # Lower case: casa has house and home, which is missing, and sol has sun.
    ("muse", {0: {1}, 2: {0}}, 2, 2 / 3),
])  # fmt: skip
def test_conventions_look_words_up(convention, right, n_words, coverage):
    for target in range(6):
        score = precision_at_k([[target]] * 4, PAIRS, *CASES, ks=(1,), convention=convention)
        assert score.hits[1] == sum(target in columns for columns in right.values())
        assert (score.n_queries, score.n_words, score.coverage) == (len(right), n_words, coverage)


def test_conventions_refuse():
    with pytest.raises(
        ValueError, match=r"target_words must be without .* got 'house' in rows 1 and 4"
    ):
        precision_at_k([[0]] * 4, PAIRS, *CASES)
    with pytest.raises(ValueError, match=r"convention must be one of .* got 'fasttext'"):
        precision_at_k([[0]] * 4, LIST, SOURCE, TARGET, convention="fasttext")
    with pytest.raises(TypeError, match="sets of words, got the string 'house' for 'a'"):
        precision_at_k([[0]] * 4, {"a": "house"}, SOURCE, TARGET)
    with pytest.raises(ValueError, match="ks must be at least 1, got 0"):
        precision_at_k([[0]] * 4, LIST, SOURCE, TARGET, ks=(0,))


@pytest.fixture(scope="module")
def problem():
    """60 of 100 words aligned with 60 of 100, and translations of half of them."""
    x, y, partner = rotated_pair(100, 6, 3, noise=0.5)
    result = gwfast.align(x, y, n_words=60)
    source = [f"s{i}" for i in range(100)]
    target = [f"t{j}" for j in range(100)]
    pairs = {f"s{i}": {f"t{partner[i]}", f"t{(7 * i) % 100}"} for i in range(0, 100, 2)}
    return result, pairs | {"unknown": {"t1"}}, source, target


def evaluate(result, pairs, source, target, **options):
    """Scores of an alignment with these words."""
    return result.with_words(source, target).evaluate(pairs, **options)


ALL = ("coupling", "barycentric", "nn", "csls", "inverted_softmax")


def hits_by_hand(table, pairs, taking_part, k):
    """Table: rows to translations. Both words of a pair must have taken part."""
    hits = n = 0
    for row in range(60 if taking_part else 100):
        right = {int(word[1:]) for word in pairs.get(f"s{row}", ())}
        right = {j for j in right if j < 60 or not taking_part}
        if right:
            n += 1
            hits += bool(right & set(table[row][:k]))
    return hits, n


def test_evaluate_scores_what_translate_says(problem):
    result, pairs, source, target = problem
    found = evaluate(result, pairs, source, target, methods=ALL, ks=(1, 3))
    assert list(found) == list(ALL)
    for method, score in found.items():
        table = result.translate(method=method, k=3).indices.tolist()
        taking_part = method in ("coupling", "barycentric")
        for k in (1, 3):
            expected = hits_by_hand(table, pairs, taking_part, k)
            assert (score.hits[k], score.n_queries) == expected
        assert score.n_words == 51
        assert score.coverage == score.n_queries / 51
    assert found["coupling"].n_queries < found["nn"].n_queries == 50


def test_candidates_are_the_conventions_for_the_plan_too(problem):
    """The last two of three target words that differ in case are dropped: later words move up."""
    result, _, source, _ = problem
    target = [f"t{j // 3}" if j % 3 else f"T{j // 3}" for j in range(100)]
    pairs = {f"s{i}": {f"t{i % 20}"} for i in range(100)}
    options = dict(methods=("coupling", "barycentric"), convention="muse", ks=(1, 5, 30))
    found = evaluate(result, pairs, source, target, **options)
    for method, score in found.items():
        table = result.translate(method=method, k=100).indices.tolist()
        hits = {1: 0, 5: 0, 30: 0}
        for i in range(60):
            kept = [j for j in table[i] if j % 3 == 0]
            for k in hits:
                hits[k] += 3 * (i % 20) in kept[:k]
        assert (score.hits, score.n_queries) == (hits, 60)
        assert 0 < score.hits[1] < score.hits[5] < 60


def test_evaluate_without_queries(problem):
    result, _, source, target = problem
    for pairs in ({}, {"s99": {"t99"}}):  # none at all, none that took part
        found = evaluate(result, pairs, source, target)
        assert list(found) == ["coupling", "nn", "csls"]
        assert all(list(score.at) == [1, 5, 10] for score in found.values())
        assert found["coupling"].n_queries == 0
        assert math.isnan(found["coupling"].at[1])
        assert found["csls"].n_queries == len(pairs)


def test_a_loaded_alignment_is_evaluated_without_its_plan(problem, tmp_path):
    result, pairs, source, target = problem
    result.save(tmp_path / "kept.npz")
    loaded = gwfast.Alignment.load(tmp_path / "kept.npz")
    expected = evaluate(result, pairs, source, target)
    found = evaluate(loaded, pairs, source, target)
    assert list(found) == ["nn", "csls"]
    assert all(found[method].hits == expected[method].hits for method in found)
    with pytest.raises(ValueError, match=r"methods must be one of .* got 'coupling'"):
        evaluate(loaded, pairs, source, target, methods=["csls", "coupling"])


def test_a_dictionary_the_wrong_way_round_is_told_of(problem):
    result, pairs, source, target = problem
    turned = {}
    for word, translations in pairs.items():
        for translation in translations:
            turned.setdefault(translation, set()).add(word)
    with pytest.warns(UserWarning, match="more pairs fit the other way round, of"):
        evaluate(result, turned, source, target)
    evaluate(result, turned, target, source)


@pytest.mark.parametrize("change, error, message", [
    ({"methods": "csls"}, TypeError, "methods must be a sequence of names"),
    ({"methods": ["mean"]}, ValueError, "methods must be one of .* got 'mean'"),
    ({"ks": (0,)}, ValueError, "ks must be at least 1"),
    ({"ks": (1.5,)}, TypeError, "ks must be an integer"),
    ({"convention": "mine"}, ValueError, "convention must be one of"),
])  # fmt: skip
def test_evaluate_refuses(problem, change, error, message):
    with pytest.raises(error, match=message):
        evaluate(*problem, **change)

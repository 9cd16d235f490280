"""Precision of translations against counts by hand, in the conventions of other evaluators.

`by_hand` follows the published scripts, in float64 and without gwfast: vecmap's
``eval_translation.py``, MUSE's ``evaluate.py`` and the paper's ``main_gw_bli.py``.
"""

import math
from unicodedata import normalize

import numpy as np
import pytest
from helpers.problems import rotated_pair, unit
from helpers.twins import retrieval_scores
from scipy.stats import binomtest

import gwfast
from gwfast.words import precision_at_k, read_dictionary

SOURCE = ["casa", "perro", "gato", "sol"]
TARGET = ["sun", "house", "cat", "home"]
LIST = {
    "casa": {"home", "house"},
    "perro": {"dog"},  # its translation is out of vocabulary: does not count
    "sol": {"sun"},
    "gato": {"cat", "tomcat"},
    "mar": {"sea"},  # out of vocabulary itself
}


def test_hits_queries_and_coverage():
    # Any translation is a hit, here at ranks 2, 3 and 1. -1 is none: as an index into
    # an array it would be the last target, "home".
    indices = [[-1, 3, 0], [0, 0, 0], [0, 1, 2], [0, 1, 2]]
    score = precision_at_k(indices, LIST, SOURCE, TARGET, ks=(1, 2, 3, 10))
    assert score.hits == {1: 1, 2: 2, 3: 3, 10: 3}
    assert score.at == {1: 1 / 3, 2: 2 / 3, 3: 1.0, 10: 1.0}
    assert (score.n_queries, score.n_words, score.coverage) == (3, 5, 3 / 5)
    assert "P@1 0.333, P@2 0.667" in repr(score) and "60.0%" in repr(score)
    fewer = precision_at_k([[0]] * 3, LIST, SOURCE[:3], TARGET[:2])
    assert (fewer.n_queries, fewer.n_words) == (1, 5)
    for pairs in ({}, {"mar": {"sea"}}):
        none = precision_at_k([[0]] * 4, pairs, SOURCE, TARGET)
        assert none.n_queries == 0 and math.isnan(none.coverage) == (not pairs)
        assert all(math.isnan(share) for share in (*none.at.values(), *none.interval(1)))


@pytest.mark.parametrize("n", [1, 2, 47, 263])
def test_intervals_are_those_of_scipy(n):
    words = [f"w{i}" for i in range(n)]
    for hits in {0, 1, n // 3, n - 1, n}:
        indices = [[int(i >= hits)] for i in range(n)]
        score = precision_at_k(indices, dict.fromkeys(words, ("x",)), words, "xy", ks=(1,))
        for level in (0.5, 0.95, 0.999):
            expected = binomtest(hits, n).proportion_ci(level, method="wilson")
            low, high = score.interval(1, level)
            assert (low, high) == pytest.approx(tuple(expected), rel=1e-10, abs=1e-15)
            assert (hits > 0 or low == 0) and (hits < n or high == 1)


CASES = ["Casa", "casa", "sol", "CASA"], ["Sun", "house", "sun", "House", "house", "sun"]
PAIRS = {"casa": {"house", "home"}, "Casa": {"House"}, "sol": {"sun", "Sun"}}


@pytest.mark.parametrize(
    "convention, right, n_words, coverage",
    [
        ("vecmap", {0: {3}, 1: {4}, 2: {0, 5}}, 3, 1.0),
        ("paper", {0: {3}, 1: {1, 4}, 2: {0, 2, 5}}, 3, 1.0),
        # Lower case: casa has house and home, which is missing, and sol has sun.
        ("muse", {0: {1}, 2: {0}}, 2, 2 / 3),
    ],
)
def test_conventions_look_words_up(convention, right, n_words, coverage):
    for target in range(6):
        score = precision_at_k([[target]] * 4, PAIRS, *CASES, ks=(1,), convention=convention)
        assert score.hits[1] == sum(target in rows for rows in right.values())
        assert (score.n_queries, score.n_words, score.coverage) == (len(right), n_words, coverage)


def test_muse_looks_at_the_first_200_000_words():
    words = [f"w{row}" for row in range(200_001)]
    dictionary = {words[row]: {words[row]} for row in (0, 199_999, 200_000)}
    indices = np.arange(len(words))[:, None]
    for convention, n_queries in (("gwfast", 3), ("muse", 2)):
        score = precision_at_k(indices, dictionary, words, words, convention=convention)
        assert (score.n_queries, score.at[1]) == (n_queries, 1.0)


BY_PLAN = "plan", "barycentric"
METHODS = *BY_PLAN, "nn", "csls", "inverted_softmax"


def scores_by_hand(result, method, rows, columns, inverse_temperature):
    """Return the score of each of these targets for each of these sources."""
    _, m = result.n_words
    if method == "plan":
        return np.pad(result.plan, [(0, 0), (0, 86 - m)])[np.ix_(rows, columns)]
    if method == "barycentric":
        means = result.plan[rows] @ result.target.rows[:m]
        return unit(means) @ unit(result.target.rows[columns]).T
    x, y = result.mapped_source[rows], result.mapped_target[columns]
    return retrieval_scores(method, x, y, x, inverse_temperature=inverse_temperature)


def by_hand(convention, method, result, lines, source, target):
    """Return hits at 1, 5 and 10, the number of queries and the coverage."""
    n, m = result.n_words
    if convention == "paper":
        target = target[:m]
    taking_part = convention == "paper" or method in BY_PLAN
    source = source[:n] if taking_part else source
    rows, columns = np.arange(len(source)), np.arange(len(target))
    if convention == "muse":  # lower case, and the first row of each word
        lines = [line.lower() for line in lines]
        source, target = (np.char.lower(words) for words in (source, target))
        rows, columns = (np.sort(np.unique(x, return_index=True)[1]) for x in (source, target))
        source, target = source[rows], target[columns]
    temperature = 1.0 if convention == "vecmap" else 30.0
    scores = scores_by_hand(result, method, rows, columns, temperature)
    # The last row counts if a word comes twice.
    source_row = {word: row for row, word in enumerate(source)}
    may_be_right = columns < m if taking_part else columns >= 0
    target_row = {target[row]: row for row in np.flatnonzero(may_be_right)}
    gold, words, pairs = {}, set(), {}
    for line in lines:
        word, translation = line.split()[:2]
        words.add(word)
        pairs[word, translation] = word in source_row and translation in target_row
        if pairs[word, translation]:
            last, all_rows = target_row[translation], np.array(target) == translation
            right = {*np.flatnonzero(all_rows)} if convention == "paper" else {last}
            gold.setdefault(source_row[word], set()).update(right)
    hits = dict.fromkeys((1, 5, 10), 0)
    for row, right in gold.items():
        best = np.argsort(-scores[row], kind="stable").tolist()
        for k in hits:
            hits[k] += not right.isdisjoint(best[:k])
    coverage = sum(pairs.values()) / len(pairs) if convention == "muse" else len(gold) / len(words)
    return hits, len(gold), coverage


@pytest.fixture(scope="module")
def problem():
    """90 points and 86 noisy rotated points; 60 take part. The partner of each target."""
    x, y, where = rotated_pair(90, 6, 3, noise=0.8)
    return gwfast.align(x, y[:86], n_words=60, epsilon=0.003, init="profile"), np.argsort(where)


@pytest.mark.parametrize("convention", ["gwfast", "vecmap", "muse", "paper"])
def test_evaluate_agrees_with_published_rules(problem, tmp_path, convention):
    result, partner = problem
    rng, cases = np.random.default_rng(0), (str.lower, str.title, str.upper)
    pool = [case(f"{a}{b}ß") for a in "abcdefgh" for b in "aeiou" for case in cases]
    source, target = (rng.permutation(pool)[:n].tolist() for n in (90, 86))
    if convention != "gwfast":
        for words in (source, target):  # some words come twice
            for row in rng.choice(len(words), 12, replace=False):
                words[row] = words[rng.integers(len(words))]
    pairs = [(source[partner[row]], target[row]) for row in rng.choice(86, 50, replace=False)]
    pairs += [(rng.choice(source), rng.choice(target)) for _ in range(30)]
    pairs += [(rng.choice(source), f"unknown{i}") for i in range(8)]
    pairs += [(f"unknown{i % 5}", rng.choice(target)) for i in range(8)]
    lines = [" ".join(pair) for pair in pairs + pairs[:6]]
    if convention == "paper":  # only the first translation in a line counts
        lines = [f"{line} {target[i % 86]}" if i % 3 else line for i, line in enumerate(lines)]
    path = tmp_path / ("list.lex" if convention == "paper" else "list.txt")
    path.write_text("\n".join(lines), encoding="utf-8")
    dictionary = read_dictionary(path, first_only=convention == "paper")
    named = result.with_words(source, target)
    found = named.evaluate(dictionary, methods=METHODS, convention=convention)
    assert [*found] == [*METHODS]
    for method, score in found.items():
        expected = by_hand(convention, method, result, lines, source, target)
        assert (score.hits, score.n_queries, score.coverage) == expected
        assert 0 < score.hits[1] < score.n_queries


@pytest.mark.parametrize("form, other", [("NFC", "NFD"), ("NFD", "NFC")])
def test_words_are_found_in_any_unicode_form(problem, form, other):
    result, partner = problem
    letters = [normalize("NFC", f"{a}{b}") for a in "aeiouy" for b in "\u0301\u0308"]
    words = [f"{letter}{k}" for k in range(8) for letter in letters][:90]
    named = result.with_words(*([normalize(form, w) for w in words[:n]] for n in (90, 86)))
    pairs = {words[partner[j]]: {words[j]} for j in range(86)}
    same, turned = (
        {normalize(f, x): {normalize(f, y) for y in ys} for x, ys in pairs.items()}
        for f in (form, other)
    )
    for convention in ("gwfast", "vecmap", "muse"):
        scores = [named.evaluate(each, convention=convention)["csls"] for each in (same, turned)]
        assert scores[0] == scores[1] and scores[0].n_queries == 86
    seeds = [gwfast.Seeds.known(each, *named.words).pairs.tolist() for each in (same, turned)]
    assert seeds[0] == seeds[1] and len(seeds[0]) == 86
    alike = gwfast.Seeds.identical(words, [normalize("NFD", word) for word in words]).pairs
    np.testing.assert_array_equal(alike, np.arange(90)[:, None] * [1, 1])
    for direction in ("forward", "backward"):
        asked = [words[3], normalize(other, words[4]), "xyzzy", normalize(form, words[3])]
        found = named.translate(asked, k=2, direction=direction, unknown="empty")
        expected = named.translate([3, 4, 0, 3], k=2, direction=direction)
        assert found.words == [*expected.words[:2], [], expected.words[3]]
        assert (found.indices[2] == -1).all() and not found.scores[2].any()
    assert named.translate("xyzzy", k=3, unknown="empty").words == [[]]


def test_evaluate_without_a_plan_without_queries_and_turned(problem, tmp_path):
    result, partner = problem
    named = result.with_words([f"s{i}" for i in range(90)], [f"t{j}" for j in range(86)])
    pairs = {f"s{partner[j]}": {f"t{j}"} for j in range(0, 86, 2)}
    found = named.evaluate(pairs)
    assert [*found] == ["plan", "nn", "csls"]
    named.save(tmp_path / "kept.npz")
    loaded = gwfast.Alignment.load(tmp_path / "kept.npz").evaluate(pairs)
    assert loaded == {method: found[method] for method in ("nn", "csls")}
    none = named.evaluate({"s85": {"t85"}})  # none that took part
    assert none["plan"].n_queries == 0 and math.isnan(none["plan"].at[1])
    assert none["csls"].n_queries == 1
    with pytest.warns(UserWarning, match="dictionary.*reverse=True"):
        named.evaluate({right: {word} for word, (right,) in pairs.items()})
    with pytest.warns(UserWarning, match="dictionary: only 1 of 50 words"):
        named.evaluate({f"s{i}" if i == 80 else f"z{i}": {"t1"} for i in range(40, 90)})

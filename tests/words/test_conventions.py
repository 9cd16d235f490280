"""`evaluate` against the published rules of other evaluators: vecmap's ``eval_translation.py``,
MUSE's ``evaluate.py`` and the paper's ``main_gw_bli.py``.

The rules are written out again here from the scripts, line by line of the dictionary and word by
word, in float64, with nothing of gwfast: hits must be equal.
"""

import functools

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import orthogonal

import gwfast
from gwfast.words import load_sample, precision_at_k, read_dictionary

METHODS = ("nn", "csls")


def unit(x):
    x = np.asarray(x, dtype=np.float64)
    return x / np.sqrt((x**2).sum(axis=1))[:, None]


def mean_of_largest(values, k):
    return np.partition(values, -k)[-k:].mean()


def hubness(points, others, k):
    """Mean similarity of each point to its k nearest among the others."""
    return np.array([mean_of_largest(others @ point, k) for point in points])


def looked_up(lines, source_words, target_words):
    """Right rows by row, and the coverage; of a word that comes twice the last row."""
    source_row = {word: i for i, word in enumerate(source_words)}
    target_row = {word: j for j, word in enumerate(target_words)}
    gold, known, unknown = {}, set(), set()
    for line in lines:
        tokens = line.split()
        if len(tokens) < 2:
            continue
        source, target = tokens[:2]
        if source in source_row and target in target_row:
            gold.setdefault(source_row[source], set()).add(target_row[target])
            known.add(source)
        else:
            unknown.add(source)
    return gold, len(gold) / (len(gold) + len(unknown - known))


def vecmap(lines, source_words, x, target_words, z, method):
    """Hits at 1, queries and coverage."""
    gold, coverage = looked_up(lines, source_words, target_words)
    x, z = unit(x), unit(z)
    if method == "csls":
        penalty = hubness(z, x, 10)
    elif method == "inverted_softmax":  # with vecmap's inverse temperature, 1
        partition = np.array([np.exp(x @ point).sum() for point in z])
    hits = 0
    for i, right in gold.items():
        similarity = z @ x[i]
        if method == "csls":
            similarity = 2 * similarity - penalty
        elif method == "inverted_softmax":
            similarity = np.exp(similarity) / partition
        hits += int(similarity.argmax()) in right
    return hits, len(gold), coverage


def muse_vocabulary(words, vectors, max_vocab):
    """Lower case, the first row of each word, up to a number of words."""
    row, kept = {}, []
    for word, vector in zip(words, vectors, strict=True):
        word = word.lower()
        if word not in row:
            row[word] = len(row)
            kept.append(vector)
        if len(row) >= max_vocab:
            break
    return row, unit(kept)


def muse(lines, source_words, x, target_words, z, method, max_vocab=200_000):
    """Hits at 1, 5 and 10, queries, pairs found and not found."""
    source_row, x = muse_vocabulary(source_words, x, max_vocab)
    target_row, z = muse_vocabulary(target_words, z, max_vocab)
    pairs, not_found = [], 0
    for line in lines:
        assert line == line.lower()
        source, target = line.rstrip().split()
        if source in source_row and target in target_row:
            pairs.append((source_row[source], target_row[target]))
        else:
            not_found += 1
    if method == "csls":
        of_source, of_target = hubness(x, z, 10), hubness(z, x, 10)
    matching = {1: {}, 5: {}, 10: {}}
    for i, j in pairs:
        score = z @ x[i]
        if method == "csls":
            score = 2 * score - of_source[i] - of_target
        best = np.argsort(-score)[:10].tolist()
        for k, match in matching.items():
            match[i] = min(match.get(i, 0) + (j in best[:k]), 1)
    hits = {k: sum(match.values()) for k, match in matching.items()}
    return hits, len(matching[1]), len(pairs), not_found


def paper(lines, source_words, target_words, scores):
    """Hits at 1, 5 and 10, queries and coverage, from a matrix of scores."""
    gold, coverage = looked_up(lines, source_words, target_words)
    assert scores.shape == (len(source_words), len(target_words))
    hits = {1: 0, 5: 0, 10: 0}
    for i, right in gold.items():
        best = np.argsort(-scores[i], kind="stable")[:10]
        predicted = [target_words[j] for j in best]
        for k in hits:
            hits[k] += bool(set(predicted[:k]) & {target_words[j] for j in right})
    return hits, len(gold), coverage


def paper_csls(scores, k=10):
    of_source = np.array([mean_of_largest(row, k) for row in scores])
    of_target = np.array([mean_of_largest(column, k) for column in scores.T])
    return 2 * scores - of_target - of_source[:, None]


def evaluate(result, pairs, source, target, **options):
    """Scores of an alignment with these words."""
    return result.with_words(source, target).evaluate(pairs, **options)


def check_vecmap(result, lines, dictionary, source, target, methods=METHODS):
    given = result, dictionary, source, target
    found = evaluate(*given, methods=methods, convention="vecmap")
    mapped = source, result.mapped_source, target, result.mapped_target
    for method, score in found.items():
        expected = vecmap(lines, *mapped, method)
        assert (score.hits[1], score.n_queries, score.coverage) == expected
        assert 0 < score.hits[1] < score.n_queries
        assert score.coverage < 1


def check_muse(result, lines, dictionary, source, target):
    lines = [line.lower() for line in lines]
    given = result, dictionary, source, target
    found = evaluate(*given, methods=METHODS, convention="muse")
    mapped = source, result.mapped_source, target, result.mapped_target
    for method, score in found.items():
        hits, n, _, _ = muse(lines, *mapped, method)
        assert (score.hits, score.n_queries) == (hits, n)
        assert 0 < hits[1] < n
        # Pairs of the log, but for lines that say the same again.
        *_, pairs, missing = muse(set(lines), *mapped, method)
        assert score.coverage == pairs / (pairs + missing)


def check_paper(result, lines, dictionary, source, target):
    n, m = result.n_words
    cosine = unit(result.mapped_source[:n]) @ unit(result.mapped_target[:m]).T
    matrices = {
        "coupling": result.plan.astype(np.float64),
        "nn": cosine - 1,  # the script ranks by minus the distance
        "csls": paper_csls(cosine - 1),
    }
    found = evaluate(result, dictionary, source, target, convention="paper")
    for method, score in found.items():
        expected = paper(lines, source[:n], target[:m], matrices[method])
        assert (score.hits, score.n_queries, score.coverage) == expected
        assert 0 < score.hits[1] < score.n_queries


@functools.cache
def small_alignment(seed):
    """90 points and 86 rotated noisy points; the first 60 of both are aligned."""
    rng = np.random.default_rng(seed)
    x = rng.standard_exponential((90, 6)) * np.arange(1, 7)
    partner = np.concatenate([rng.permutation(60), 60 + rng.permutation(30)])[:86]
    y = x[partner] @ orthogonal(6, seed) + rng.normal(0, 0.7, (86, 6))
    return gwfast.align(x, y, n_words=60), partner


def vocabulary(rng, n, *, twice):
    """Words of few stems in several cases; some exactly twice, if asked."""
    cases = (str.lower, str.title, str.upper)
    pool = [case(f"{a}{b}ß") for a in "abcdefgh" for b in "aeiou" for case in cases]
    words = rng.permutation(pool)[:n].tolist()
    for row in rng.choice(n, 12, replace=False) if twice else ():
        words[row] = words[int(rng.integers(n))]
    return words


def word_list(rng, source, target, partner, *, lower):
    """Lines of a dictionary: partners and other words, unknown ones, twice the same."""
    rows = rng.choice(len(target), 50, replace=False)
    pairs = [(source[partner[row]], target[row]) for row in rows]
    pairs += [(str(rng.choice(source)), str(rng.choice(target))) for _ in range(30)]
    pairs += [(str(rng.choice(source)), f"unknown{i}") for i in range(8)]
    pairs += [(f"unknown{i % 5}", str(rng.choice(target))) for i in range(8)]
    lines = [" ".join(pair) for pair in pairs]
    return [line.lower() if lower else line for line in rng.permutation(lines)]


def small_problem(seed, tmp_path, *, lower=False, twice=False):
    result, partner = small_alignment(seed)
    rng = np.random.default_rng([seed, lower, twice])
    source, target = (vocabulary(rng, n, twice=twice) for n in (90, 86))
    lines = word_list(rng, source, target, partner, lower=lower)
    lines += lines[:6]  # the same pair again
    path = tmp_path / "list.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return result, lines, read_dictionary(path, format="muse"), source, target


@pytest.mark.slow
@pairwise(seed=range(3), twice=[False, True])
def test_vecmap(seed, twice, tmp_path):
    problem = small_problem(seed, tmp_path, twice=twice)
    check_vecmap(*problem, methods=(*METHODS, "inverted_softmax"))


@pairwise(seed=range(3), twice=[False, True])
def test_muse(seed, twice, tmp_path):
    check_muse(*small_problem(seed, tmp_path, lower=True, twice=twice))


def test_muse_looks_at_the_first_200_000_words():
    words = [f"w{row}" for row in range(200_002)]
    dictionary = {words[row]: {words[row]} for row in (0, 199_999, 200_000)}
    indices = np.arange(len(words))[:, None]
    for name, n_queries in (("gwfast", 3), ("muse", 2)):
        score = precision_at_k(indices, dictionary, words, words, convention=name)
        assert (score.n_queries, score.at[1]) == (n_queries, 1.0)


@pairwise(seed=range(3), twice=[False, True])
def test_paper(seed, twice, tmp_path):
    result, lines, _, source, target = small_problem(seed, tmp_path, twice=twice)
    # As in the lists of Zhang et al.: several translations a line, or none.
    lines = [f"{line} {target[i % 86]}" if i % 3 else line for i, line in enumerate(lines)]
    lines += ["lonely", source[0]]
    path = tmp_path / "all.lex"
    path.write_text("\n".join(lines), encoding="utf-8")
    dictionary = read_dictionary(path, first_only=True)
    check_paper(result, lines, dictionary, source, target)


@pytest.mark.slow
def test_sample():
    """The default is vecmap's rule where no word comes twice."""
    *sides, dictionary = load_sample()
    words, vectors = zip(*((side.words[:1000], side.vectors[:1000]) for side in sides), strict=True)
    result = gwfast.align(*vectors, n_words=300, init="product")
    lines = [f"{word} {other}" for word, others in dictionary.items() for other in others]
    for check in (check_vecmap, check_muse, check_paper):
        check(result, lines, dictionary, *words)
    given = result, dictionary, *words
    ours, theirs = (
        evaluate(*given, methods=METHODS, convention=name) for name in ("gwfast", "vecmap")
    )
    for method in METHODS:
        assert ours[method].hits == theirs[method].hits
        assert ours[method].coverage == theirs[method].coverage
    found = result.translate(method="csls", k=10).indices
    assert precision_at_k(found, *given[1:]) == ours["csls"]

"""Word vectors of pairs of languages, or of two corpora of one language."""

import functools
import itertools

import numpy as np

import gwfast
from gwfast import words

from ...common import pairs
from .problem import Problem, Sides

SIZES = 600, 1000, 1500
N_KNOWN = 300
NOVELS = "novels es", "novels en", "novels fr"
# Corpora of one language.
CORPORA = ("en", "en of zh-en"), ("en", "novels en"), ("es", "novels es")
SOME = ("es", "en"), ("it", "en"), ("zh", "en"), ("ja", "en"), ("it", "es")
NOVEL_PAIR = "novels es", "novels fr"


def word_sides(x, y, dictionary, rows, change=None):
    """Two languages' words in these rows, with known matches among them;
    ``change(x, y)`` is done to the vectors first.
    """
    names = [
        [one.words[row] for row in some] for one, some in zip((x, y), rows, strict=True)
    ]
    gold = words.gold_standard(dictionary, *names)
    some = np.random.default_rng(0).permutation(len(gold))[:N_KNOWN]
    known = np.array([(gold.rows[k], min(gold.targets[k])) for k in some])
    vectors = [
        centered(one.vectors[some].astype(np.float64))
        for one, some in zip((x, y), rows, strict=True)
    ]
    if change is not None:
        vectors = change(*vectors)
    return Sides(*map(gwfast.PointCloud, vectors), [known])


def centered(x):
    """Rows of length one, less their mean, as `gwfast.align` makes them."""
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    x = x / np.where(lengths > 0, lengths, 1.0)
    return x - x.mean(axis=0)


def with_noise(size):
    """A change: noise in y, of so many times the deviation of its entries."""

    def change(x, y):
        noise = np.random.default_rng(1).standard_normal(y.shape)
        return x, y + size * noise * np.sqrt(np.square(y).mean())

    return change


def flat(k):
    """A change: the leading `k` principal dimensions of either side."""

    def change(x, y):
        return tuple(
            one @ np.linalg.svd(one, full_matrices=False)[2][:k].T for one in (x, y)
        )

    return change


def problems():
    yield from _whole()
    yield from _parts()
    yield from _changed()


def _problem(family, a, b, name, rows, change=None):
    """A problem of two vocabularies; ``rows()`` are those of either side."""

    def make():
        x, y = map(pairs.embeddings, (a, b))
        return word_sides(x, y, _dictionary(a, b, x.words), rows(), change)

    return Problem(family, f"{a} - {b}, {name}", make)


def _dictionary(a, b, names):
    a, b = map(pairs.code, (a, b))
    return {name: {name} for name in names} if a == b else pairs.dictionary(a, b)


def _first(n):
    return lambda: (np.arange(n), np.arange(n))


def _whole():
    """The most frequent words."""
    ordered = [*itertools.permutations(("es", "en", "zh", "it", "ja"), 2)]
    ordered += itertools.permutations(NOVELS, 2)
    for (a, b), n in itertools.product(ordered, SIZES):
        yield _problem("languages", a, b, f"{n} words", _first(n))
    for (a, b), n in itertools.product(CORPORA, (500, 1000, 2000)):
        yield _problem("corpora", a, b, f"{n} words", _first(n))


def _parts():
    """Rarer words, random halves, and words without a partner."""
    for (a, b), start in itertools.product([*SOME, NOVEL_PAIR], (300, 1000, 2000)):
        rows = functools.partial(np.arange, start, start + 1000)
        yield _problem(
            "word ranks", a, b, f"from {start}", lambda rows=rows: (rows(), rows())
        )
    for (a, b), most in itertools.product([*SOME, NOVEL_PAIR], (1300, 2000, 3000)):

        def drawn(most=most):
            rng = np.random.default_rng(2)
            return [np.sort(rng.permutation(most)[:1000]) for _ in range(2)]

        yield _problem("word samples", a, b, f"1000 of {most}", drawn)
    for (a, b), share in itertools.product([*SOME, NOVEL_PAIR], (0.1, 0.2)):

        def without(share=share):
            left = np.random.default_rng(3).permutation(1200)[: int(1200 * (1 - share))]
            return np.arange(1200), np.sort(left)

        yield _problem("words dropped", a, b, f"{share:g} of 1200", without)


def _changed():
    """Vectors with noise, and of fewer dimensions."""
    for (a, b), size in itertools.product([*SOME, NOVEL_PAIR], (0.3, 0.5, 0.7, 0.9)):
        given = f"noise {size:g}", _first(1000), with_noise(size)
        yield _problem("noisy words", a, b, *given)
    for (a, b), k in itertools.product([*SOME, NOVEL_PAIR], (30, 20, 15, 10)):
        yield _problem("flat words", a, b, f"{k} dimensions", _first(1000), flat(k))

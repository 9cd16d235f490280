"""Word vectors of pairs of languages, or of two corpora of one language."""

import functools
import itertools

import numpy as np

import gwfast

from ...common import pairs
from .problem import Problem, Sides, identity

N_KNOWN = 300
NOVELS = "novels es", "novels en", "novels fr"
# Corpora of one language.
CORPORA = ("en", "en of zh-en"), ("en", "novels en"), ("es", "novels es")
SOME = (
    ("es", "en"), ("it", "en"), ("zh", "en"), ("ja", "en"), ("it", "ja"),
    ("novels es", "novels fr"),
)  # fmt: skip


def word_sides(x, y, dictionary, rows, change=None):
    """Two languages' words in these rows, with known matches among them;
    ``change(x, y)`` is done to the vectors first.
    """
    names = [[one.words[row] for row in some] for one, some in zip((x, y), rows, strict=True)]
    known = pairs.known_pairs(dictionary, *names, N_KNOWN)
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
        return tuple(one @ np.linalg.svd(one, full_matrices=False)[2][:k].T for one in (x, y))

    return change


def problems():
    yield from _linked()
    yield from _changed()
    yield from _parts()
    yield from _whole()


def _linked():
    """Words against themselves with noise, as steps between near neighbors."""
    for name, size, k in itertools.product(
        ("es", "en", "zh", "it", "novels fr"), (0.3, 0.5, 0.7), (5, 10)
    ):

        def make(name=name, size=size, k=k):
            x = centered(pairs.embeddings(name).vectors[:250].astype(np.float64))
            x, y = with_noise(size)(x, x)
            return Sides(pairs.hops(x, k), pairs.hops(y, k), [identity(250)])

        yield Problem("words in graphs", f"{name}, noise {size:g}, {k} neighbors", make)


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
    """The most frequent words: few are harder than many."""
    ordered = [*itertools.permutations(("es", "en", "zh", "it", "ja"), 2)]
    ordered += itertools.permutations(NOVELS, 2)
    for (a, b), n in itertools.product(ordered, (400, 1000)):
        yield _problem("languages", a, b, f"{n} words", _first(n))
    for (a, b), n in itertools.product(CORPORA, (400, 1000, 2000)):
        yield _problem("corpora", a, b, f"{n} words", _first(n))
    for (a, b), n in itertools.product(ordered[:4] + ordered[-6:-4], (700, 1500)):
        yield _problem("languages", a, b, f"{n} words", _first(n))


def _parts():
    """Rarer words, random samples, and words without a partner."""
    for (a, b), start in itertools.product(SOME, (300, 1000, 2000)):
        rows = functools.partial(np.arange, start, start + 500)
        yield _problem("word ranks", a, b, f"from {start}", lambda rows=rows: (rows(), rows()))
    for (a, b), most in itertools.product(SOME, (800, 1300, 2000)):

        def drawn(most=most):
            rng = np.random.default_rng(2)
            return [np.sort(rng.permutation(most)[:500]) for _ in range(2)]

        yield _problem("word samples", a, b, f"500 of {most}", drawn)
    for (a, b), share in itertools.product(SOME, (0.1, 0.2)):

        def without(share=share):
            left = np.random.default_rng(3).permutation(600)[: int(600 * (1 - share))]
            return np.arange(600), np.sort(left)

        yield _problem("words dropped", a, b, f"{share:g} of 600", without)


def _changed():
    """Vectors with noise, and of fewer dimensions."""
    for (a, b), size in itertools.product(SOME, (0.5, 0.8, 1.1)):
        given = f"noise {size:g}", _first(500), with_noise(size)
        yield _problem("noisy words", a, b, *given)
    for (a, b), k in itertools.product(SOME, (12, 8, 5)):
        yield _problem("flat words", a, b, f"{k} dimensions", _first(500), flat(k))

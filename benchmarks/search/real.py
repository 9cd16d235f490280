"""Families of matching problems from data: cells, digits, slices of tissue and languages."""

import functools
import itertools

import numpy as np
from scipy.spatial import cKDTree

import gwfast

from ..common import data
from ..common.simulated import two_slices
from .families import Problem, Sides, identity, shuffled

# --- Cells: two modalities, or the same with entries lost, as steps in graphs ---------


def cells():
    for k, seed in itertools.product((5, 20), range(3)):
        make = functools.partial(modalities, k, seed)
        yield Problem("cells, two modalities", f"{k} neighbors, sample {seed}", make)
    for lost, seed in itertools.product((0.15, 0.25, 0.35), range(6)):
        name = f"{lost:g} lost, 10 neighbors, sample {seed}"
        yield Problem("cells, entries lost", name, functools.partial(entries_lost, lost, seed))


def modalities(k, seed):
    x, y = data.cells("scGEM")[:2]
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(x))[: len(x) if seed == 0 else 140]
    other, known = shuffled(data.hops(y[drawn], k), rng)
    return Sides(data.hops(x[drawn], k), other, [known])


def entries_lost(share, seed):
    points = data.cells("PBMC")[0]
    rng = np.random.default_rng([seed, int(100 * share)])
    points = points[rng.permutation(len(points))[:400]]
    other = np.where(rng.random(points.shape) < share, 0.0, points)
    return Sides(data.hops(points, 10), data.hops(other, 10), [identity(len(points))])


# --- Digits: pixels against histograms of the directions of edges, or with noise ------


def edge_histograms(images, cells, angles):
    """Return lengths of gradients, summed by direction in each of cells x cells parts."""
    dy, dx = np.gradient(images, axis=(1, 2))
    bins = ((np.arctan2(dy, dx) / (2 * np.pi) % 1) * angles).astype(int) % angles
    size, columns = images.shape[1] // cells, []
    for i, j, angle in itertools.product(range(cells), range(cells), range(angles)):
        down, along = (slice(k * size, (k + 1) * size) for k in (i, j))
        part = slice(None), down, along
        lengths = np.hypot(dx[part], dy[part]) * (bins[part] == angle)
        columns.append(lengths.sum(axis=(1, 2)))
    return np.stack(columns, axis=1)


def digits():
    for (cells, angles), seed in itertools.product(
        ((4, 8), (4, 4), (2, 8), (2, 4), (1, 8)), range(2)
    ):
        make = functools.partial(edges, cells, angles, seed)
        yield Problem("digits", f"{cells} x {cells} x {angles}, sample {seed}", make)
    for noise, k, seed in itertools.product((2.0, 4.0), (5, 10), range(4)):
        make = functools.partial(noisy_digits, noise, k, seed)
        name = f"noise {noise:g}, {k} neighbors, sample {seed}"
        yield Problem("digits in graphs", name, make)


def images(seed, n):
    from sklearn.datasets import load_digits

    pixels = load_digits().images
    return pixels[np.random.default_rng(seed).permutation(len(pixels))[:n]]


def edges(cells, angles, seed):
    pixels = images(seed, 400)
    sides = pixels.reshape(400, -1), edge_histograms(pixels, cells, angles)
    return Sides(*(gwfast.PointCloud(centered(side)) for side in sides), [identity(400)])


def noisy_digits(noise, k, seed):
    x = images(seed, 250).reshape(250, -1)
    y = x + noise * np.random.default_rng(seed).standard_normal(x.shape)
    return Sides(data.hops(x, k), data.hops(y, k), [identity(250)])


# --- Slices of simulated tissues: places of spots, their expression, or both ----------

# Weights of the quadratic term where expression is compared between slices.
ALPHAS = {"places and expression": 0.5, "mostly places": 0.98}


def slices():
    kinds = *ALPHAS, "places", "expression", "steps by expression"
    for kind, n, seed in itertools.product(kinds, (300, 600), range(2)):
        make = functools.partial(slice_sides, kind, n, seed)
        yield Problem(f"tissue, {kind}", f"{n} spots, tissue {seed}", make)


def slice_sides(kind, n, seed):
    first, second, truth = two_slices(n, seed)
    nearest = cKDTree(second.spots).query(truth)[1]
    known = [np.stack([np.arange(len(nearest)), nearest], axis=1)]
    if kind == "expression":
        return Sides(*(gwfast.PointCloud(side.features) for side in (first, second)), known)
    if kind == "steps by expression":
        return Sides(*(data.hops(side.features, 10) for side in (first, second)), known)
    spots = (side.spots - side.spots.mean(axis=0) for side in (first, second))
    clouds = [gwfast.PointCloud(side / side.std(), metric="sqeuclidean") for side in spots]
    if kind == "places":
        return Sides(*clouds, known)
    linear = gwfast.CrossCost(first.features, second.features)
    return Sides(*clouds, known, dict(linear_cost=linear, alpha=ALPHAS[kind]))


# --- Word vectors of pairs of languages, or of two corpora of a language --------------

NOVELS = "novels es", "novels en", "novels fr"
CORPORA = ("en", "en of zh-en"), ("en", "novels en"), ("es", "novels es")
PAIRS = *((name, "en") for name in ("es", "it", "zh", "ja")), ("it", "ja"), NOVELS[::2]


def centered(x):
    """Return rows of length one, less their mean, as `gwfast.align` makes them."""
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    x = x / np.where(lengths > 0, lengths, 1.0)
    return x - x.mean(axis=0)


def with_noise(size, x, y):
    """Return both, y with noise of `size` times the deviation of its entries."""
    noise = np.random.default_rng(1).standard_normal(y.shape)
    return x, y + size * noise * np.sqrt(np.square(y).mean())


def flat(k, x, y):
    """Return the leading `k` principal dimensions of either side."""
    return tuple(side @ np.linalg.svd(side, full_matrices=False)[2][:k].T for side in (x, y))


def word_problem(family, a, b, name, rows, change=None):
    """Return a problem of two vocabularies; ``rows()`` are rows of either."""

    def make():
        x, y = map(data.embeddings, (a, b))
        codes = data.code(a), data.code(b)
        is_same = codes[0] == codes[1]
        words = {word: {word} for word in x.words} if is_same else data.dictionary(*codes)
        sides = list(zip((x, y), rows(), strict=True))
        names = [[side.words[row] for row in chosen] for side, chosen in sides]
        known = data.known_pairs(words, *names, 300)
        vectors = [centered(side.vectors[chosen].astype(np.float64)) for side, chosen in sides]
        if change is not None:
            vectors = change(*vectors)
        return Sides(*map(gwfast.PointCloud, vectors), [known])

    return Problem(family, f"{a} - {b}, {name}", make)


def first(n):
    return lambda: (np.arange(n), np.arange(n))


def drawn(most):
    """Return 500 rows of the first for either side: fewer have a match."""
    rng = np.random.default_rng(2)
    return [np.sort(rng.permutation(most)[:500]) for _ in range(2)]


def without(share):
    """Return 600 rows, and the same but for a share of them."""
    left = np.random.default_rng(3).permutation(600)[: int(600 * (1 - share))]
    return np.arange(600), np.sort(left)


def word_graph(name, size, k):
    """Return words and the same with noise, as steps between near neighbors."""
    x = centered(data.embeddings(name).vectors[:250].astype(np.float64))
    x, y = with_noise(size, x, x)
    return Sides(data.hops(x, k), data.hops(y, k), [identity(250)])


def languages():
    vocabularies = "es", "en", "zh", "it", "novels fr"
    for name, size, k in itertools.product(vocabularies, (0.3, 0.5, 0.7), (5, 10)):
        make = functools.partial(word_graph, name, size, k)
        yield Problem("words in graphs", f"{name}, noise {size:g}, {k} neighbors", make)
    for pair, size in itertools.product(PAIRS, (0.5, 0.8, 1.1)):
        change = functools.partial(with_noise, size)
        yield word_problem("noisy words", *pair, f"noise {size:g}", first(500), change)
    for pair, k in itertools.product(PAIRS, (12, 8, 5)):
        change = functools.partial(flat, k)
        yield word_problem("flat words", *pair, f"{k} dimensions", first(500), change)
    for pair, start in itertools.product(PAIRS, (300, 1000, 2000)):
        rows = np.arange(start, start + 500)
        yield word_problem("word ranks", *pair, f"from {start}", lambda rows=rows: (rows, rows))
    for pair, most in itertools.product(PAIRS, (800, 1300, 2000)):
        rows = functools.partial(drawn, most)
        yield word_problem("word samples", *pair, f"500 of {most}", rows)
    for pair, share in itertools.product(PAIRS, (0.1, 0.2)):
        rows = functools.partial(without, share)
        yield word_problem("words dropped", *pair, f"{share:g} of 600", rows)
    # The most frequent words: few are harder than many.
    ordered = [*itertools.permutations(("es", "en", "zh", "it", "ja"), 2)]
    ordered += itertools.permutations(NOVELS, 2)
    chosen = itertools.chain(
        itertools.product(["languages"], ordered, (400, 1000)),
        itertools.product(["corpora"], CORPORA, (400, 1000, 2000)),
        itertools.product(["languages"], ordered[:4] + ordered[-6:-4], (700, 1500)),
    )
    for family, pair, n in chosen:
        yield word_problem(family, *pair, f"{n} words", first(n))


FAMILIES = cells, digits, slices, languages

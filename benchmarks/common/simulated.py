"""Spaces that are made from a seed: a tissue, large clouds, many small graphs and curves."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist

from . import data

# --- A tissue, and two slices whose matches are known ---------------------------------

N_PROGRAMS, N_LAYERS = 30, 6
# How far spots are off their grid, in spots; the noise, in deviations of a program; and the
# fraction of values that are lost.
JITTER, NOISE, DROPOUT = 0.15, 0.7, 0.2
# Distance of glands and size of patches, in spots; and how far places move when the second slice
# is bent, as a fraction of the radius.
GLANDS, PATCHES, BENT = 14.0, 60.0, 0.015
ANGLE, SHIFT = np.deg2rad(130.0), np.array([400.0, -150.0])


class Slice(NamedTuple):
    """Spots: where they are on the glass (n, 2), their expression (n, 30), their places
    in the tissue (n, 2) and the layer (n,) that each is in.
    """

    spots: np.ndarray
    features: np.ndarray
    places: np.ndarray
    layers: np.ndarray


class Tissue:
    """A tissue of about `n` spots, at distances of one: a lobed disk.

    It has what makes real tissues hard to match: layers, along which hardly anything changes,
    glands that look like one another, and slow gradients across all of it. Its 30 programs of
    expression are smooth mixtures of these.
    """

    def __init__(self, n, seed=0):
        self.rng = rng = np.random.default_rng(seed)
        self.radius = np.sqrt(n * np.sqrt(0.75) / np.pi)
        self._lobes = rng.normal(0, 0.1, (2, 4)) / np.arange(1, 5) ** 0.5
        self._mix = rng.normal(size=(23, N_PROGRAMS)) / np.sqrt(23)
        self._patches = rng.normal(size=(6, 2)), rng.uniform(0, 6, 6)
        self._waves = rng.normal(size=(4, 2)), rng.uniform(0, 6, 4)
        self._bends = rng.normal(size=(6, 2)), rng.uniform(0, 6, 6)
        places = rng.uniform(-self.radius, self.radius, (4000, 2))
        moved = self._displaced(places[self.inside(places)])
        self._mean = moved.mean(axis=0)
        size = np.sqrt(np.square(moved - self._mean).sum(axis=1).mean())
        self._bend = BENT * self.radius / size

    def inside(self, places):
        """Return which places are within the outline."""
        angles = np.outer(np.arctan2(places[:, 1], places[:, 0]), np.arange(1, 5))
        outline = 1 + np.cos(angles) @ self._lobes[0] + np.sin(angles) @ self._lobes[1]
        return np.hypot(*places.T) < self.radius * outline

    def layers(self, places):
        """Return the depth of places, in layers."""
        x, y = (places / self.radius).T
        depth = y + 0.3 * np.sin(2.0 * x) + 0.25 * x**2
        return (depth + 1.1) / 2.2 * N_LAYERS

    def programs(self, places):
        """Return the expression (n, 30) of places, with deviations of about one."""
        depth = self.layers(places)
        bumps = [np.exp(-2.0 * (depth - k) ** 2) for k in range(N_LAYERS)]
        steps = 2 * np.pi * places / GLANDS
        angles = steps @ np.array([[1.0, 0.5, -0.5], [0.0, 0.75**0.5, 0.75**0.5]])
        ring, sides = np.cos(angles).sum(axis=1), np.sin(angles)
        # Glands lie in the inner layers.
        near = 1 / (1 + np.exp(4 * (np.abs(depth - N_LAYERS / 2) - 2)))
        glands = [np.tanh(ring), np.tanh(2 * ring - 3), ring > 0, *sides.T]
        directions, phases = self._waves
        waves = np.cos(places @ directions.T / self.radius + phases)
        directions, phases = self._patches
        patches = np.cos(2 * np.pi * places @ directions.T / PATCHES + phases)
        values = np.stack([*bumps, *(near * gland for gland in glands), near], axis=1)
        values = np.hstack([values, waves, patches])
        return (values - values.mean(axis=0)) / values.std(axis=0) @ self._mix

    def bent(self, places):
        """Return where places are after a smooth deformation."""
        return places + self._bend * (self._displaced(places) - self._mean)

    def _displaced(self, places):
        """Move places along the contours of a smooth function, so that areas hardly change."""
        directions, phases = self._bends
        gradient = np.cos(1.5 * places @ directions.T / self.radius + phases) @ directions
        return np.stack([gradient[:, 1], -gradient[:, 0]], axis=1)

    def cut(self, is_bent=False):
        """Return a new `Slice`, not yet turned: its spots are one apart on the glass."""
        size = int(1.6 * self.radius) + 2
        rows, columns = np.mgrid[-size : size + 1, -size : size + 1]
        grid = np.stack([columns + 0.5 * (rows % 2), rows * np.sqrt(0.75)], axis=2)
        grid = grid.reshape(-1, 2) + self.rng.uniform(-0.5, 0.5, 2)
        places = grid = self.rng.permutation(grid + self.rng.normal(0, JITTER, grid.shape))
        if is_bent:
            for _ in range(30):  # until the bent places are the grid
                places = places + grid - self.bent(places)
        inside = self.inside(places)
        spots, places = grid[inside], places[inside]
        clean = self.programs(places)
        noisy = clean + NOISE * self.rng.normal(size=clean.shape)
        noisy *= self.rng.random(clean.shape) > DROPOUT
        return Slice(spots, noisy, places, self.layers(places).astype(int).clip(0, N_LAYERS - 1))


def two_slices(n, seed=0):
    """Return two slices of a tissue, and the places of the spots of the first on the second."""

    def turned(spots):
        cosine, sine = np.cos(ANGLE), np.sin(ANGLE)
        return spots @ np.array([[cosine, sine], [-sine, cosine]]) + SHIFT

    tissue = Tissue(n, seed)
    first, second = tissue.cut(), tissue.cut(is_bent=True)
    second = second._replace(spots=turned(second.spots))
    return first, second, turned(tissue.bent(first.places))


def overlapping_slices(shared, seed=0, grid="hexagonal", side=30, depth=1000.0):
    """Return two slices of side x side spots, (coordinates, counts) each, and the match (n, m)
    of the spots of either that share a place: these are a fraction `shared` of each slice. A spot
    has about `depth` counts of 200 genes.
    """
    rng = np.random.default_rng(seed)
    width = round(side * (2 - shared))
    column, row = np.meshgrid(np.arange(width), np.arange(side))
    places = np.stack([column, row], axis=-1).reshape(-1, 2).astype(float)
    if grid == "hexagonal":
        places = places * [1.0, 0.75**0.5] + [0.5, 0.0] * (places[:, 1:] % 2)
    # Programs vary along four waves each, 15 to 120 spots long at 30 spots a side.
    waves = rng.normal(size=(2, N_PROGRAMS, 4))
    lengths = side * np.exp(rng.uniform(-1.4, 0.7, (N_PROGRAMS, 4)))
    waves *= 2 * np.pi / lengths / np.linalg.norm(waves, axis=0)
    phases = rng.uniform(0, 6, (N_PROGRAMS, 4))
    genes = rng.gamma(0.3, size=(N_PROGRAMS, 200))
    slices, ids = [], []
    for kept in (column.ravel() < side, column.ravel() >= width - side):
        spots = places[kept]
        if grid == "jittered":
            spots = spots + rng.uniform(-0.25, 0.25, spots.shape)
        heights = np.sin(np.einsum("nd,dpw->npw", spots, waves) + phases).sum(axis=2)
        rates = np.exp(heights / 1.5) @ genes
        counts = rng.poisson(depth * rates / rates.sum(axis=1, keepdims=True))
        slices.append((spots, counts.astype(float)))
        ids.append(np.flatnonzero(kept))
    (first, second), order = slices, rng.permutation(len(ids[1]))
    angle = rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    second = second[0][order] @ turn + SHIFT, second[1][order]
    return first, second, (ids[0][:, None] == ids[1][order]).astype(float)


# --- Large clouds ---------------------------------------------------------------------


def pair_of_clouds(n, d=100, synthetic=False, seed=0):
    """Return a name, a cloud, the cloud rotated with noise in another order, and the right column
    of every row.

    The cloud has principal components of word vectors, if there are enough of them and it is not
    `synthetic`, else a mixture of skewed clusters with a decaying spectrum: a cloud that is
    like its mirror image has more than one best plan.
    """
    rng = np.random.default_rng(seed)
    try:
        vectors = () if synthetic else data.embeddings("novels es").vectors
    except FileNotFoundError:
        vectors = ()
    if len(vectors) >= n:
        name, x = "word vectors", vectors[:n] - vectors[:n].mean(axis=0)
        x = x @ np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :d]
    else:
        name = "mixture of clusters"
        centers = rng.standard_exponential((1000, d), dtype=np.float32) - 1
        x = 0.5 * rng.standard_normal((n, d), dtype=np.float32)
        x += centers[rng.integers(1000, size=n)]
        x *= np.sqrt(1.0 / np.arange(1, d + 1)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    d = x.shape[1]
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    order = rng.permutation(n)
    y = x[order] @ rotation.astype(np.float32)
    y += 0.1 / np.sqrt(d) * rng.standard_normal(y.shape, dtype=np.float32)
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    return f"{name}, rotated with noise", x, y, np.argsort(order)


# --- Many small spaces ----------------------------------------------------------------


def graphs(n, sizes=(12, 29), seed=0):
    """Return steps between the nodes of connected random graphs; `sizes` are their limits."""

    def graph(n):
        linked = np.zeros((n, n))
        for node in range(1, n):
            linked[node, rng.integers(node)] = 1
        more = rng.integers(n, size=(round(0.5 * n), 2))
        more = more[more[:, 0] != more[:, 1]]
        linked[more[:, 0], more[:, 1]] = 1
        return csgraph.shortest_path(linked, directed=False, unweighted=True)

    rng = np.random.default_rng(seed)
    return [graph(int(size)) for size in rng.integers(*sizes, n, endpoint=True)]


def curves(n, sizes=(50, 100), seed=0):
    """Return distances between points of smooth closed curves in space."""

    def curve(n):
        along, wave = np.sort(rng.random(n)) * 2 * np.pi, np.arange(1, 5)
        # Slow waves are the largest, so that curves are smooth.
        heights = rng.standard_normal((2, 4, 3)) / wave[:, None]
        angles = np.multiply.outer(along, wave)
        points = np.cos(angles) @ heights[0] + np.sin(angles) @ heights[1]
        return cdist(points, points)

    rng = np.random.default_rng(seed)
    return [curve(int(size)) for size in rng.integers(*sizes, n, endpoint=True)]


def points(n, d=3, noise=0.02, seed=None):
    """Return distances between points in space, and of a permuted, noisy copy, at most one."""
    rng = np.random.default_rng(n if seed is None else seed)
    x = rng.exponential(size=(n, d)) * np.arange(1, d + 1)
    y = rng.permutation(x + noise * rng.standard_normal((n, d)))
    return [cost / cost.max() for cost in (cdist(x, x), cdist(y, y))]

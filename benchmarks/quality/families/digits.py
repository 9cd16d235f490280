"""Images of digits as pixels against histograms of the directions of their edges."""

import itertools

import numpy as np

import gwfast

from .languages import centered
from .problem import Problem, Sides, identity


def edge_histograms(images, cells, angles):
    """Lengths of gradients, summed by direction in each of cells x cells parts."""
    dy, dx = np.gradient(images, axis=(1, 2))
    bins = ((np.arctan2(dy, dx) / (2 * np.pi) % 1) * angles).astype(int) % angles
    size, made = images.shape[1] // cells, []
    for i, j, angle in itertools.product(range(cells), range(cells), range(angles)):
        down, along = (slice(k * size, (k + 1) * size) for k in (i, j))
        part = slice(None), down, along
        lengths = np.hypot(dx[part], dy[part]) * (bins[part] == angle)
        made.append(lengths.sum(axis=(1, 2)))
    return np.stack(made, axis=1)


def problems():
    grids = (4, 8), (4, 4), (2, 8), (2, 4)
    for (cells, angles), n, seed in itertools.product(grids, (400, 700), range(2)):

        def make(cells=cells, angles=angles, n=n, seed=seed):
            return _sides(cells, angles, n, seed)

        name = f"{cells} x {cells} x {angles}, {n} images, sample {seed}"
        yield Problem("digits", name, make)


def _sides(cells, angles, n, seed):
    from sklearn.datasets import load_digits

    images = load_digits().images
    images = images[np.random.default_rng(seed).permutation(len(images))[:n]]
    sides = images.reshape(n, -1), edge_histograms(images, cells, angles)
    return Sides(*(gwfast.PointCloud(centered(one)) for one in sides), [identity(n)])

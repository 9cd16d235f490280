"""Images of digits as pixels against histograms of the directions of their edges."""

import functools
import itertools

import numpy as np

import gwfast

from ...common import pairs
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
    grids = (4, 8), (4, 4), (2, 8), (2, 4), (1, 8)
    for (cells, angles), seed in itertools.product(grids, range(2)):
        make = functools.partial(_edges, cells, angles, seed)
        name = f"{cells} x {cells} x {angles}, sample {seed}"
        yield Problem("digits", name, make)
    for noise, k, seed in itertools.product((2.0, 4.0), (5, 10), range(4)):
        make = functools.partial(_noisy, noise, k, seed)
        name = f"noise {noise:g}, {k} neighbors, sample {seed}"
        yield Problem("digits in graphs", name, make)


def _images(seed, n):
    from sklearn.datasets import load_digits

    images = load_digits().images
    return images[np.random.default_rng(seed).permutation(len(images))[:n]]


def _edges(cells, angles, seed, n=400):
    images = _images(seed, n)
    sides = images.reshape(n, -1), edge_histograms(images, cells, angles)
    return Sides(*(gwfast.PointCloud(centered(one)) for one in sides), [identity(n)])


def _noisy(noise, k, seed, n=250):
    """Images against themselves with noise, as steps between near neighbors."""
    x = _images(seed, n).reshape(n, -1)
    y = x + noise * np.random.default_rng(seed).standard_normal(x.shape)
    return Sides(pairs.hops(x, k), pairs.hops(y, k), [identity(n)])

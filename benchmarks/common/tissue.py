"""A simulated tissue, two slices of which are known spot by spot.

The tissue is a lobed disk with what makes real ones hard to match: layers, along which
hardly anything changes, glands, each of which looks like the others, and slow gradients
across all of it. Its 30 programs of expression are smooth mixtures of these. Each slice
has its own spots, noise and dropouts; the second is bent, turned and moved as well.
"""

from typing import NamedTuple

import numpy as np

N_COMPONENTS = 30
# Of a spot's distance to its neighbors: how far spots are off their grid.
JITTER = 0.15
# Standard deviation of the noise, in units of that of a program, and the fraction of
# values that are lost.
NOISE, DROPOUT = 0.7, 0.2
# The distance of glands and the size of patches in spots, and how far the second slice
# is bent: the root mean square of how far places move, as a fraction of the radius.
GLANDS, PATCHES, BENT = 14.0, 60.0, 0.015
LAYERS = 6
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
    """A tissue of about so many spots, one apart."""

    def __init__(self, n, seed=0):
        self.rng = np.random.default_rng(seed)
        self.radius = np.sqrt(n * np.sqrt(0.75) / np.pi)
        lobes = np.arange(1, 5)
        self._lobes = self.rng.normal(0, 0.1, (2, 4)) / lobes**0.5
        self._mix = self.rng.normal(size=(23, N_COMPONENTS)) / np.sqrt(23)
        self._patches = self.rng.normal(size=(6, 2)), self.rng.uniform(0, 6, 6)
        self._waves = self.rng.normal(size=(4, 2)), self.rng.uniform(0, 6, 4)
        self._bends = self.rng.normal(size=(6, 2)), self.rng.uniform(0, 6, 6)
        some = self.rng.uniform(-self.radius, self.radius, (4000, 2))
        moved = self._displaced(some[self.inside(some)])
        self._mean = moved.mean(axis=0)
        size = np.sqrt(np.square(moved - self._mean).sum(axis=1).mean())
        self._bend = BENT * self.radius / size

    def inside(self, places):
        """Which places are within the outline."""
        turn = np.arctan2(places[:, 1], places[:, 0])
        angles = np.outer(turn, np.arange(1, 5))
        outline = 1 + np.cos(angles) @ self._lobes[0] + np.sin(angles) @ self._lobes[1]
        return np.hypot(*places.T) < self.radius * outline

    def layers(self, places):
        """The depth of places, in layers."""
        x, y = (places / self.radius).T
        depth = y + 0.3 * np.sin(2.0 * x) + 0.25 * x**2
        return (depth + 1.1) / 2.2 * LAYERS

    def programs(self, places):
        """The expression (n, 30) of places, with deviations of about one."""
        depth = self.layers(places)
        bumps = [np.exp(-2.0 * (depth - k) ** 2) for k in range(LAYERS)]
        steps = 2 * np.pi * places / GLANDS
        angles = steps @ np.array([[1.0, 0.5, -0.5], [0.0, 0.75**0.5, 0.75**0.5]])
        ring, sides = np.cos(angles).sum(axis=1), np.sin(angles)
        # Glands lie in the inner layers.
        near = 1 / (1 + np.exp(4 * (np.abs(depth - LAYERS / 2) - 2)))
        glands = [np.tanh(ring), np.tanh(2 * ring - 3), ring > 0, *sides.T]
        glands = [near * one for one in glands]
        directions, phases = self._waves
        waves = np.cos(places @ directions.T / self.radius + phases)
        directions, phases = self._patches
        patches = np.cos(2 * np.pi * places @ directions.T / PATCHES + phases)
        made = np.stack([*bumps, *glands, near], axis=1)
        made = np.hstack([made, waves, patches])
        made = (made - made.mean(axis=0)) / made.std(axis=0)
        return made @ self._mix

    def bent(self, places):
        """Where places are after a smooth deformation."""
        return places + self._bend * (self._displaced(places) - self._mean)

    def _displaced(self, places):
        """Along the contours of a smooth function, so that areas hardly change."""
        directions, phases = self._bends
        slopes = np.cos(1.5 * places @ directions.T / self.radius + phases)
        gradient = slopes @ directions
        return np.stack([gradient[:, 1], -gradient[:, 0]], axis=1)

    def unbent(self, spots):
        """The places whose `bent` ones these are."""
        places = spots
        for _ in range(30):
            places = places + spots - self.bent(places)
        return places

    def cut(self, is_bent=False):
        """A new `Slice`, not yet turned: its spots are one apart on the glass."""
        size = int(1.6 * self.radius) + 2
        rows, columns = np.mgrid[-size : size + 1, -size : size + 1]
        grid = np.stack([columns + 0.5 * (rows % 2), rows * np.sqrt(0.75)], axis=2)
        grid = grid.reshape(-1, 2) + self.rng.uniform(-0.5, 0.5, 2)
        grid = self.rng.permutation(grid + self.rng.normal(0, JITTER, grid.shape))
        places = self.unbent(grid) if is_bent else grid
        inside = self.inside(places)
        spots, places = grid[inside], places[inside]
        clean = self.programs(places)
        noisy = clean + NOISE * self.rng.normal(size=clean.shape)
        noisy *= self.rng.random(clean.shape) > DROPOUT
        layers = self.layers(places).astype(int).clip(0, LAYERS - 1)
        return Slice(spots, noisy, places, layers)


def turned(spots, angle=ANGLE, shift=SHIFT):
    """Spots after a rotation and a translation."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return spots @ np.array([[cosine, sine], [-sine, cosine]]) + shift


def two_slices(n, seed=0):
    """Two slices of a tissue, and where the spots of the first would be on the second (n, 2)."""
    tissue = Tissue(n, seed)
    first, second = tissue.cut(), tissue.cut(is_bent=True)
    second = second._replace(spots=turned(second.spots))
    return first, second, turned(tissue.bent(first.places))


def rigidly(spots, truth):
    """Spots after the rigid motion that is nearest to their true places."""
    center, goal = spots.mean(axis=0), truth.mean(axis=0)
    left, _, right = np.linalg.svd((spots - center).T @ (truth - goal))
    return (spots - center) @ left @ right + goal


def nearest_by_expression(first, second):
    """For each spot of the first slice the one of the second whose expression is nearest (n,)."""
    x, y = (one.features.astype(np.float32) for one in (first, second))
    half, nearest = np.square(y).sum(axis=1) / 2, np.empty(len(x), dtype=np.int64)
    for start in range(0, len(x), 500):
        rows = slice(start, start + 500)
        nearest[rows] = (x[rows] @ y.T - half).argmax(axis=1)
    return nearest


def shares_right(first, second, truth, matched, moved, within=2.0):
    """The shares of spots whose match (n,), and whose projection (n, 2), is within so
    many spots of their true place.
    """
    missed = np.linalg.norm(second.places[matched] - first.places, axis=1)
    apart = np.linalg.norm(moved - truth, axis=1)
    return (missed <= within).mean(), (apart <= within).mean()

"""Two slices of a simulated tissue, and where each spot of one is in the other."""

from typing import NamedTuple

import numpy as np

# Patches of a kind of cell, features of a spot, and their noise beside features of size
# one.
PATCHES, FEATURES, NOISE = 200, 20, 0.3
ANGLE = 0.7


class Slice(NamedTuple):
    """Spots: where they are (n, 2), and their features (n, k)."""

    spots: np.ndarray
    features: np.ndarray


def two_slices(n, seed=0):
    """Two slices, and where the spots of the first would be on the second (n, 2)."""
    rng = np.random.default_rng(seed)
    centers = rng.random((PATCHES, 2)) * [1.5, 1.0]
    kinds = rng.standard_normal((PATCHES, FEATURES))
    cosine, sine = np.cos(ANGLE), np.sin(ANGLE)
    turn = np.array([[cosine, -sine], [sine, cosine]])

    def cut():
        spots = rng.random((n, 2)) * [1.5, 1.0]
        weights = np.exp(-((spots[:, None] - centers) ** 2).sum(axis=2) * PATCHES)
        weights /= weights.sum(axis=1, keepdims=True)
        noise = NOISE * rng.standard_normal((n, FEATURES))
        return Slice(spots, weights @ kinds + noise)

    first, second = cut(), cut()
    return first, second._replace(spots=second.spots @ turn), first.spots @ turn

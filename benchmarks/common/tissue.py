"""Two slices of a simulated tissue, and where each spot of one is in the other."""

import numpy as np

# Patches of a kind of cell, features of a spot, and their noise beside features of size
# one.
PATCHES, FEATURES, NOISE = 200, 20, 0.3


def slices(n, seed=0):
    """Coordinates and features of the spots of either slice, and the coordinates within
    the second that every spot of the first has in truth.
    """
    rng = np.random.default_rng(seed)
    centers = rng.random((PATCHES, 2)) * [1.5, 1.0]
    kinds = rng.standard_normal((PATCHES, FEATURES))
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    made, places = [], None
    for number in range(2):
        xy = rng.random((n, 2)) * [1.5, 1.0]
        weights = np.exp(-((xy[:, None] - centers) ** 2).sum(axis=2) * PATCHES)
        weights /= weights.sum(axis=1, keepdims=True)
        features = weights @ kinds + NOISE * rng.standard_normal((n, FEATURES))
        if number == 0:
            places = xy @ turn
        made += [xy @ turn if number else xy, features]
    return *made, places

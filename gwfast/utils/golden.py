"""Numbers that fill the unit interval evenly, however many there are."""

import numpy as np


def golden(n):
    """Multiples of the golden ratio modulo one, (n,) float64, the first of them zero:
    the first k fill the interval evenly, for every k.
    """
    return np.arange(n) * ((np.sqrt(5.0) - 1.0) / 2.0) % 1.0

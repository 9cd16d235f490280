"""Orders with evenly spread prefixes."""

import numpy as np

from .types import Float64Array, IntArray


def golden_multiples(n: int) -> Float64Array:
    """Return `n` numbers from 0 to 1 in an order whose first k fill the interval evenly, for every
    k: multiples of the golden ratio, modulo one.
    """
    return np.arange(n) * ((np.sqrt(5.0) - 1.0) / 2.0) % 1.0


def spread(ranked: IntArray) -> IntArray:
    """Return a permutation whose prefixes are spread evenly over the ranking."""
    return ranked[np.argsort(golden_multiples(len(ranked)), kind="stable")]

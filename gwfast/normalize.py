"""Normalization of embeddings before they are compared: steps by name."""

from collections.abc import Sequence

import numpy as np

from .geometry import unit_rows

STEPS = ("unit", "center")


class Normalizer:
    """Steps applied in turn, with what they learned from the rows they were made for.

    Parameters
    ----------
    steps : sequence of {"unit", "center"}
        "unit" divides every row by its length, "center" subtracts the mean row.
    x : (n, d) ndarray
        Rows to learn from.
    name : str
        For messages.

    Attributes
    ----------
    rows : (n, d) float32 ndarray
        `x`, normalized.
    means : tuple of (d,) float64 ndarrays
        One for each "center".
    """

    def __init__(self, steps, x, name):
        self.steps = _check_steps(steps)
        self.means = ()
        x = np.asarray(x, dtype=np.float64)
        for step in self.steps:
            if step == "center":
                self.means += (x.mean(axis=0),)
                x = x - self.means[-1]
                # A row equal to the mean is zero but for rounding, and has no angle.
                x[np.abs(x).max(axis=1) <= 1e-12 * np.abs(self.means[-1]).max()] = 0.0
            else:
                x = unit_rows(x, f"{name} after centering" if self.means else name)
        self.rows = np.ascontiguousarray(x, dtype=np.float32)

    def __call__(self, x, name="x"):
        """Other rows, normalized with the means learned."""
        means = iter(self.means)
        x = np.asarray(x, dtype=np.float64)
        for step in self.steps:
            x = x - next(means) if step == "center" else unit_rows(x, name)
        return x.astype(np.float32)


def _check_steps(steps):
    if steps is None or isinstance(steps, str):
        steps = () if steps is None else (steps,)
    if not isinstance(steps, Sequence):
        came = type(steps).__name__
        raise TypeError(f"normalize must be a sequence of {list(STEPS)}, got {came}")
    for step in steps:
        if step not in STEPS:
            raise ValueError(
                f"normalize must be a sequence of {list(STEPS)}, got {step!r}"
            )
    return tuple(steps)

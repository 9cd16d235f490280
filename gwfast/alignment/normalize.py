"""Normalization of embeddings before they are compared: steps by name."""

from collections.abc import Sequence

import numpy as np

from ..problems.geometry import unit_rows
from ..utils.blocks import row_blocks

STEPS = ("unit", "center")


class Normalizer:
    """Steps applied in turn, with what they learned from the rows they were made for.

    They are applied to some rows at a time, in float64, once for every mean that is to
    be learned: nothing of the size of the rows is made beside the result.

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
        for at, step in enumerate(self.steps):
            if step == "center":
                blocks = self._blocks(x, name, self.steps[:at])
                total = sum(block.sum(axis=0) for _, block in blocks)
                self.means += (total / len(x),)
        self.rows = self(x, name)

    def __call__(self, x, name="x"):
        """Other rows, normalized with the means learned."""
        made = np.empty(x.shape, dtype=np.float32)
        for rows, block in self._blocks(x, name, self.steps):
            made[rows] = block
        return made

    def _blocks(self, x, name, steps):
        for rows in row_blocks(*x.shape):
            try:
                yield rows, self._apply(x[rows], name, steps)
            except ValueError:
                self._apply(x, name, steps)  # names the rows as the caller counts them

    def _apply(self, x, name, steps):
        """The first of the steps on some rows, in float64."""
        x, means = x.astype(np.float64), iter(self.means)
        for step in steps:
            if step == "unit":
                x = unit_rows(x, name)
            else:
                mean, name = next(means), f"{name} after centering"
                x -= mean
                # A row equal to the mean is zero but for rounding, and has no angle.
                x[np.abs(x).max(axis=1) <= 1e-12 * np.abs(mean).max()] = 0.0
        return x


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

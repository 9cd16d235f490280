"""Normalization of embeddings before they are compared: steps by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np

from ..problems.geometry import unit_rows
from ..utils.blocks import row_blocks
from ..utils.types import Float32Array, Float64Array, FloatArray

NormalizeStep: TypeAlias = Literal["unit", "center"]


@dataclasses.dataclass(frozen=True, eq=False)
class Normalizer:
    """Steps applied in turn, with what they learned from the rows they were made for.

    They are applied to some rows at a time, in float64, once for every mean that is to
    be learned: nothing of the size of the rows is made beside the result.

    Attributes
    ----------
    steps : tuple of {"unit", "center"}
        "unit" divides every row by its length, "center" subtracts the mean row.
    means : tuple of (d,) float64 ndarrays
        One for each "center".
    rows : (n, d) float32 ndarray
        The rows learned from, normalized.
    """

    steps: tuple[NormalizeStep, ...]
    means: tuple[Float64Array, ...]
    rows: Float32Array

    @classmethod
    def fit(cls, steps: Sequence[NormalizeStep], x: FloatArray, name: str) -> Normalizer:
        """Learn the means of the rows of `x`; `name` is for messages."""
        means: tuple[Float64Array, ...] = ()
        steps = check_steps(steps)
        if "unit" in steps and x.shape[1] == 1:
            raise ValueError(  # "n_features=1" is what scikit-learn looks for
                f"{name} must have two columns or more to be compared by angle, got"
                " n_features=1: are these embeddings?"
            )
        for at, step in enumerate(steps):
            if step == "center":
                blocks = _blocks(x, name, steps[:at], means)
                total = sum(block.sum(axis=0) for _, block in blocks)
                means += (total / len(x),)
        return cls(steps, means, _normalize(x, name, steps, means))

    def __call__(self, x: FloatArray, name: str = "x") -> Float32Array:
        """Other rows, normalized with the means learned."""
        return _normalize(x, name, self.steps, self.means)


def _normalize(x, name, steps, means):
    made = np.empty(x.shape, dtype=np.float32)
    for rows, block in _blocks(x, name, steps, means):
        made[rows] = block
    return made


def _blocks(x, name, steps, means):
    """Some rows after some others, normalized."""
    for rows in row_blocks(*x.shape):
        try:
            yield rows, _apply(x[rows], name, steps, means)
        except ValueError:
            _apply(x, name, steps, means)  # names the rows as the caller counts them


def _apply(x, name, steps, means):
    x, means = x.astype(np.float64), iter(means)
    for step in steps:
        if step == "unit":
            x = unit_rows(x, name)
        else:
            mean, name = next(means), f"{name} after centering"
            x -= mean
            # A row equal to the mean is zero but for rounding, and has no angle.
            x[np.abs(x).max(axis=1) <= 1e-12 * np.abs(mean).max()] = 0.0
    return x


def check_steps(steps: object) -> tuple[NormalizeStep, ...]:
    if steps is None or isinstance(steps, str):
        steps = () if steps is None else (steps,)
    expected = f"normalize must be a sequence of {list(get_args(NormalizeStep))}"
    if not isinstance(steps, Sequence):
        raise TypeError(f"{expected}, got {type(steps).__name__}")
    for step in steps:
        if step not in get_args(NormalizeStep):
            raise ValueError(f"{expected}, got {step!r}")
    return tuple(steps)

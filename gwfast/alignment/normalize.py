"""Normalization of embeddings before they are compared: steps by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..problems.geometry import Statistic, unit_rows
from ..utils.blocks import row_blocks
from ..utils.labels import Labels, in_order, labels_of
from ..utils.types import Float32Array, Float64Array
from ..utils.validation import as_matrix

if TYPE_CHECKING:
    from ..words.embeddings import Embeddings

Vectors: TypeAlias = "ArrayLike | Embeddings"
VectorStep: TypeAlias = Literal["unit", "center"]
# The last step may divide the costs by a statistic of them.
NormalizeStep: TypeAlias = VectorStep | Statistic


@dataclasses.dataclass(frozen=True, eq=False)
class Normalizer:
    """Steps applied to vectors in turn, with the means of the rows that they were fitted to.

    Rows are converted to float64 in blocks, once for each mean: no copy of all rows is made.
    """

    steps: tuple[VectorStep, ...]  # "unit" divides by the length, "center" subtracts the mean
    means: tuple[Float64Array, ...]  # (d,), a mean for each "center"
    rows: Float32Array  # (n, d), the rows of the fit, normalized
    columns: Labels = None  # labels of the columns, if the vectors had labels

    @classmethod
    def fit(cls, steps: tuple[VectorStep, ...], x: Vectors, name: str) -> Normalizer:
        """Learn the means of the rows of the argument `name`."""
        vectors = vectors_of(x)
        x, columns = as_matrix(vectors, name), labels_of(vectors, 1)
        means: tuple[Float64Array, ...] = ()
        if "unit" in steps and x.shape[1] == 1:
            raise ValueError(  # scikit-learn looks for "n_features=1"
                f"{name} must have two columns or more to be compared by angle, got"
                " n_features=1: are these embeddings?"
            )
        for number, step in enumerate(steps):
            if step == "center":
                blocks = _blocks(x, name, steps[:number], means)
                total = sum(block.sum(axis=0) for _, block in blocks)
                means += (total / len(x),)
        return cls(steps, means, _normalize(x, name, steps, means), columns)

    def __call__(self, x: Vectors, name: str) -> Float32Array:
        """Return vectors of the space, normalized with the means of the fit."""
        vectors = in_order(vectors_of(x), name, None, self.columns, of="the vectors of the fit")
        vectors, n_columns = as_matrix(vectors, name), self.rows.shape[1]
        if vectors.shape[1] != n_columns:
            raise ValueError(f"{name} must have {n_columns} columns, got {vectors.shape[1]}")
        return _normalize(vectors, name, self.steps, self.means)


def vectors_of(x: Any) -> Any:
    """Return the vectors of `Embeddings`, and anything else as it is."""
    return x.vectors if has_words(x) else x


def has_words(x: Any) -> bool:
    """Return whether `x` is `Embeddings`."""
    return hasattr(x, "words") and hasattr(x, "vectors")


def _normalize(x, name, steps, means):
    normalized = np.empty(x.shape, dtype=np.float32)
    for rows, block in _blocks(x, name, steps, means):
        normalized[rows] = block
    return normalized


def _blocks(x, name, steps, means):
    """Yield slices of rows, and these rows normalized."""
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


def check_steps(steps: Any) -> tuple[tuple[VectorStep, ...], Statistic | None]:
    """Return the steps for vectors, and the statistic that costs are divided by, if any."""
    vector_steps, statistics = get_args(VectorStep), get_args(Statistic)
    expected = f"normalize must be a sequence of {list(vector_steps)}"
    if isinstance(steps, str) or not isinstance(steps, Sequence):
        raise TypeError(f"{expected}, got {steps!r}")
    for_vectors, statistic = list(steps), None
    if for_vectors and for_vectors[-1] in statistics:
        *for_vectors, statistic = for_vectors
    for step in for_vectors:
        if step not in vector_steps:
            raise ValueError(f"{expected}, and {list(statistics)} as the last, got {step!r}")
    return tuple(for_vectors), statistic

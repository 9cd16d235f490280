"""Score of alignments of the same cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..utils.blocks import row_blocks
from ..utils.labels import in_order, labels_of
from ..utils.validation import as_matrix


def foscttm(x: ArrayLike, y: ArrayLike) -> float:
    """Return the fraction of samples closer than the true match (Liu et al., WABI 2019), the mean
    of all cells and both directions.

    Parameters
    ----------
    x, y : array-like of shape (n, d)
        The same cells in the same order, in one space.

    Returns
    -------
    float
        0 if every cell is nearest to itself, 0.5 by chance. Samples as close as the true match
        count half.

    Examples
    --------
    >>> from gwfast.singlecell import foscttm
    >>> foscttm([[0.0], [1.0], [2.0]], [[0.1], [1.1], [2.1]])
    0.0
    """
    y = in_order(y, "y", labels_of(x), labels_of(x, 1), of="x")
    x, y = as_matrix(x, "x").astype(np.float64), as_matrix(y, "y").astype(np.float64)
    if x.shape != y.shape:
        raise ValueError(f"y must have the shape of x, {x.shape}, got {y.shape}")
    return (_closer(x, y) + _closer(y, x)) / 2


def _closer(x, y):
    n, total = len(x), 0.0
    squares = np.einsum("ij,ij->i", y, y)
    for rows in row_blocks(n, n):
        near = squares - 2.0 * x[rows] @ y.T
        own = near[np.arange(len(near)), np.arange(n)[rows]][:, None]
        total += (near < own).sum() + ((near == own).sum() - len(near)) / 2
    return float(total) / (n * max(n - 1, 1))

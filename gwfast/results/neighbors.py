"""The best few columns of every row."""

from typing import NamedTuple

import numpy as np

from ..kernels import _kernels
from ..utils.types import FloatArray, IntArray


class Neighbors(NamedTuple):
    """The best targets of every query, best first.

    Attributes
    ----------
    indices : (n_queries, k) int64 ndarray
    scores : (n_queries, k) float32 ndarray

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> found = gwfast.nearest_neighbors(np.eye(3), np.eye(3)[::-1], method="nn", k=1)
    >>> found.indices.ravel()
    array([2, 1, 0])
    >>> found.scores.ravel()
    array([1., 1., 1.], dtype=float32)
    """

    indices: IntArray
    scores: FloatArray


def largest(x, k, n_threads):
    """`Neighbors` by the largest entries of rows, an array or `Rows`."""
    stored = isinstance(x, np.ndarray)
    n = len(x) if stored else x.n
    indices = np.empty((n, k), dtype=np.intp)
    scores = np.empty((n, k), dtype=x.dtype if stored else np.float32)
    _kernels.topk_rows(x, indices, scores, n_threads)
    return Neighbors(indices.astype(np.int64, copy=False), scores)

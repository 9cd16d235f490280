"""The best few columns of every row."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..kernels import _kernels
from ..utils.types import FloatArray, IntArray
from .tables import as_names, frame

if TYPE_CHECKING:
    import pandas as pd


class Neighbors(NamedTuple):
    """The best targets of every query, best first.

    Attributes
    ----------
    indices : (n_queries, k) int64 ndarray
        -1 where a query has none.
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

    def to_frame(
        self, source: ArrayLike | None = None, target: ArrayLike | None = None
    ) -> pd.DataFrame:
        """A table of pandas, a row for each target of each query.

        Parameters
        ----------
        source : array-like of shape (n_queries,) or None, default=None
            Names of the queries; None numbers them.
        target : array-like or None, default=None
            Names of all targets; None numbers them.

        Returns
        -------
        DataFrame
            With columns "source", "target", "rank" (from 1) and "score".
        """
        queries, ranks = np.nonzero(self.indices >= 0)
        targets = self.indices[queries, ranks]
        return frame(
            {
                "source": as_names(source, "source", len(self.indices))[queries],
                "target": targets if target is None else np.asarray(target)[targets],
                "rank": ranks + 1,
                "score": self.scores[queries, ranks],
            }
        )


def largest(x, k, n_threads):
    """`Neighbors` by the largest entries of rows, an array or `Rows`."""
    stored = isinstance(x, np.ndarray)
    n = len(x) if stored else x.n
    indices = np.empty((n, k), dtype=np.intp)
    scores = np.empty((n, k), dtype=x.dtype if stored else np.float32)
    _kernels.topk_rows(x, indices, scores, n_threads)
    return Neighbors(indices.astype(np.int64, copy=False), scores)

"""Costs of all pairs of spaces."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..utils.types import Float64Array
from ..utils.validation import as_count
from .tables import Neighbors, as_names, frame

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PairwiseResult:
    """Gromov-Wasserstein costs of all pairs of spaces.

    Attributes
    ----------
    costs : (N, N) float64 ndarray
        Objective of the plan of each pair, an upper bound of the least objective; zero on the
        diagonal, infinity for pairs that were skipped.
    lower_bounds : (N, N) float64 ndarray
        The larger of Memoli's first and second bound; zero if no bound is known.
    plans : dict or None
        The plan of each pair ``(i, j)``, with ``i < j`` if the loss is symmetric, as a SciPy CSR
        array; None if plans were not asked for.
    n_solved, n_skipped, n_unconverged : int
        Numbers of pairs that were solved, that were skipped, and whose solver ended at a limit.
    seconds : float

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> places = [0, 1, 3], [0, 1, 4], [0, 5, 9]
    >>> lines = [np.abs(np.subtract.outer(x, x)) for x in places]
    >>> found = gwfast.pairwise_gromov_wasserstein(lines)
    >>> found.distances.shape, found.n_solved
    ((3, 3), 3)
    >>> found.nearest(1).indices.ravel()
    array([1, 0, 1])
    """

    costs: Float64Array
    lower_bounds: Float64Array
    plans: dict[tuple[int, int], sparse.csr_array] | None
    n_solved: int
    n_skipped: int
    n_unconverged: int
    seconds: float

    @property
    def distances(self) -> Float64Array:
        """Roots (N, N) of the costs: the Gromov-Wasserstein distance, twice Memoli's."""
        return np.sqrt(np.maximum(self.costs, 0.0))

    def nearest(self, k: int) -> Neighbors:
        """Return the k nearest spaces of each, nearest first; scores are distances, infinite with
        an index of -1 where no more are known. A `k_nearest` that was given should be at least `k`.
        """
        k = min(as_count(k, "k"), len(self.costs) - 1)
        distances = self.distances
        np.fill_diagonal(distances, np.inf)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(distances, order, axis=1)
        unknown = ~np.isfinite(scores)
        return Neighbors(np.where(unknown, -1, order), np.where(unknown, np.inf, scores))

    def to_frame(self, names: ArrayLike | None = None) -> pd.DataFrame:
        """Return the distances as a table of pandas; `names` of the spaces, or their numbers, are
        its index and columns.
        """
        names = as_names(names, "names", len(self.costs))
        columns = dict(enumerate(self.distances.T))
        return frame(columns, index=names).set_axis(names, axis=1)

    def __repr__(self) -> str:
        n = len(self.costs)
        return (
            f"PairwiseResult({n} x {n}, {self.n_solved} solved, {self.n_skipped} "
            f"skipped, seconds={self.seconds:.2f})"
        )

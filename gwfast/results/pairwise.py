"""What comparing all spaces with one another finds."""

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
        Objective of the plan found for each pair, an upper bound of the least one; zero
        on the diagonal. Pairs that were skipped have infinity: neither space is among
        the nearest ones of the other.
    lower_bounds : (N, N) float64 ndarray
        Costs are never below these (Memoli's first and second bound); zero if no bound
        is known.
    plans : dict or None
        The plan of each pair ``(i, j)``, with ``i < j`` if the loss is symmetric, as a
        SciPy CSR array; None if plans were not asked for.
    n_solved, n_skipped : int
        Numbers of pairs.
    n_unconverged : int
        Number of pairs whose solver ended at a limit.
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
        """Roots (N, N) of the costs: with the squared loss the Gromov-Wasserstein
        distance (twice that of Memoli).
        """
        return np.sqrt(np.maximum(self.costs, 0.0))

    def nearest(self, k: int) -> Neighbors:
        """The k nearest other spaces of each, nearest first; scores are distances.

        Parameters
        ----------
        k : int
            At most as many as were asked for as `k_nearest`.
        """
        k = min(as_count(k, "k"), len(self.costs) - 1)
        distances = self.distances
        np.fill_diagonal(distances, np.inf)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        return Neighbors(order, np.take_along_axis(distances, order, axis=1))

    def to_frame(self, names: ArrayLike | None = None) -> pd.DataFrame:
        """The distances as a table of pandas.

        Parameters
        ----------
        names : array-like of shape (N,) or None, default=None
            Names of the spaces, in index and columns; None numbers them.
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

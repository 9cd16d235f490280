"""Best matches and starts that were tried, and results as tables of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..kernels import _kernels
from ..utils.labels import Labels, in_order
from ..utils.types import FloatArray, IntArray
from ..utils.validation import as_any_array

if TYPE_CHECKING:
    import pandas as pd


def frame(columns: Mapping[Any, Any], index: Any = None) -> pd.DataFrame:
    """Return a DataFrame of columns by name; raise an ImportError without pandas."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError('to_frame needs pandas: pip install "gwfast-ot[pandas]"') from error
    return pd.DataFrame(dict(columns), index=index)


def of_tuples(names: tuple[str, ...], rows: Any) -> pd.DataFrame:
    """Return a DataFrame of named tuples, if any."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return frame(dict(zip(names, map(list, columns), strict=True)))


def as_names(names: ArrayLike | None, name: str, size: int) -> NDArray[Any]:
    """Return the names of `size` points; None numbers them."""
    if names is None:
        return np.arange(size)
    array = as_any_array(names, name)
    if array.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {array.shape}")
    return array


def named(
    labels: Labels,
    numbers: NDArray[Any],
    names: ArrayLike | None = None,
    name: str = "names",
    size: int = 0,
) -> Any:
    """Return the labels of points of these numbers, or their numbers; or else `names`, an argument
    `name` with names of all points.
    """
    if names is not None:
        return as_names(in_order(names, name, labels, of="the points"), name, size)[numbers]
    numbers = numbers.tolist()
    return numbers if labels is None else [labels[number] for number in numbers]


def values_at(values: NDArray[Any], indices: IntArray) -> NDArray[Any]:
    """Return `values` at these indices; NaN, or None where there is no NaN, at -1."""
    picked, missing = values[indices], indices < 0
    if missing.any():
        if picked.dtype.kind in "iu":
            picked = picked.astype(np.float64)
        elif picked.dtype.kind not in "fcmM":
            picked = picked.astype(object)
        picked[missing] = None if picked.dtype == object else np.array("nan", picked.dtype)
    return picked


def as_labels(labels: ArrayLike, name: str, size: int) -> NDArray[Any]:
    """Return labels of `size` points; raise a ValueError if a label is missing."""
    array = as_names(labels, name, size)
    missing = np.zeros(size, dtype=bool)
    if isinstance(labels, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(labels)
    elif array.dtype.kind in "OT":  # None, NaN and pandas.NA, also of NumPy's StringDType
        missing = np.array([_is_missing(value) for value in array.tolist()], dtype=bool)
    elif array.dtype.kind in "fcmM":  # NaN and NaT
        missing = array != array
    if missing.any():
        raise ValueError(
            f"{name} must have one for each point, got {missing.sum()} of {size} that are "
            "missing; give these a label of their own"
        )
    return array


def _is_missing(value):
    """Return whether it is None, differs from itself as NaN, or cannot tell as pandas.NA."""
    try:
        return value is None or not bool(value == value)
    except TypeError:
        return True


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
        """Return a table of pandas, a row for each target of each query, with columns "source",
        "target", "rank" (from 1) and "score"; `source` and `target` are names of all, or numbers.
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


class Translations(NamedTuple):
    """The best rows of the other side for each item, best first.

    Attributes
    ----------
    words : list of lists of str, or None
        The words of the rows; None if the other side has no words.
    scores : (n_items, k) float32 ndarray
    indices : (n_items, k) int64 ndarray
        Row numbers; -1 if an item has no match.
    """

    words: list[list[str]] | None
    scores: FloatArray
    indices: IntArray

    def to_frame(self, source: ArrayLike | None = None) -> pd.DataFrame:
        """Return a table of pandas, a row for each translation of each item, with columns "source",
        "target", "rank" (from 1) and "score"; `source` are names of the items, or numbers.
        """
        table = Neighbors(self.indices, self.scores).to_frame(source)
        if self.words is not None:
            table["target"] = [word for best in self.words for word in best]
        return table


def largest(x, k, n_threads):
    """Return `Neighbors` by the largest entries of rows, an array or `Rows`."""
    stored = isinstance(x, np.ndarray)
    n = len(x) if stored else x.n
    indices = np.empty((n, k), dtype=np.intp)
    scores = np.empty((n, k), dtype=x.dtype if stored else np.float32)
    _kernels.topk_rows(x, indices, scores, n_threads)
    return Neighbors(indices.astype(np.int64, copy=False), scores)


# The kind of escapes, which begin at the best plan so far.
RESTART = "restart"


class Candidate(NamedTuple):
    """One start that was tried.

    Attributes
    ----------
    start : str
    n_points, n_iter : int
        Points of the larger side of the problem it was tried on, and outer iterations made.
    epsilon, gw_cost, seconds : float
        Epsilon and objective at its end, and the time that start and iterations took.
    fate : str
        ``"won"``, ``"went on"`` (to more points), ``"dropped in round 1"`` (behind by `gw_cost`),
        ``"same as ..."`` (on the way to the same optimum, or without entropy to one as low),
        ``"dropped at 7%"`` (of epsilon, of an exact search), ``"tie"`` (another optimum, as good as
        the winner's), ``"lost"`` (an escape, or a start that an escape has left behind),
        ``"out of time"``.
    kind : str
        Starts of one kind may err together: "product", "profile", "random", "clusters", "axes",
        "anchors", "paths", "diffusion", "exact", "restart" (an escape) and others.
    optimum : int
        Candidates with the same number have been found on the way to one optimum; -1 if that is
        not known.
    value : float
        The objective by which candidates are compared: `gw_cost`, with the entropy where marginals
        are free.
    gap : float
        Relative difference of the value from the value of the winner on as many points at the same
        epsilon; NaN if the winner was not there.
    draw : int
        Seed or number of the random plan or of the clustering that the start is made of; starts of
        one kind that differ in this are independent.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> cost = np.abs(np.subtract.outer(np.arange(9.0) ** 1.5, np.arange(9.0) ** 1.5))
    >>> any(row.fate == "won" for row in gwfast.gromov_wasserstein(cost, cost).candidates)
    True
    """

    start: str
    n_points: int
    epsilon: float
    gw_cost: float
    n_iter: int
    seconds: float
    fate: str
    kind: str = ""
    optimum: int = -1
    value: float = np.nan
    gap: float = np.nan
    draw: int = 0

    @property
    def is_restart(self) -> bool:
        """True if the descent began at the best plan so far, perturbed."""
        return self.kind == RESTART


def with_gaps(rows: list[Candidate]) -> list[Candidate]:
    """Return the rows with their gaps to the last row that has won."""
    winner = next((row for row in reversed(rows) if row.fate == "won"), None)
    if winner is None:
        return rows
    # The last row of an optimum is of the descent that went on.
    ours = {(r.n_points, r.epsilon): r.value for r in rows if r.optimum == winner.optimum}
    ours[winner.n_points, winner.epsilon] = winner.value
    gaps = []
    for row in rows:
        best = ours.get((row.n_points, row.epsilon), np.nan)
        gaps.append(row._replace(gap=(row.value - best) / (abs(best) or 1.0)))
    return gaps


class Candidates(tuple[Candidate, ...]):
    """A tuple of `Candidate` that prints as a table.

    Attributes
    ----------
    confidence : float
        See `GWResult.confidence`.
    """

    confidence: float
    # Contractions ``X' T Y`` of two clouds on the way to other optima.
    rivals: tuple[Any, ...]
    # The objective of the product plan, if the search was exact.
    product: float

    def __new__(
        cls,
        rows: Iterable[Candidate] = (),
        confidence: float = np.nan,
        rivals: Iterable[Any] = (),
        product: float = np.nan,
    ) -> Candidates:
        numbers = {-1: -1}
        rows = [
            row._replace(optimum=numbers.setdefault(row.optimum, len(numbers) - 1)) for row in rows
        ]
        self = super().__new__(cls, with_gaps(rows))
        self.confidence, self.rivals, self.product = confidence, tuple(rivals), product
        return self

    def to_frame(self) -> pd.DataFrame:
        """Return a table of pandas, a row for each start."""
        return of_tuples(Candidate._fields, self)

    def __str__(self) -> str:
        # Words to the left, numbers to the right.
        formats = "<", ">", ">.3g", ">.6g", ">", ">.2f", "<", "<", ">", ">.6g", ">.3f", ">"
        numbers = [f[1:] for f in formats]
        cells = [Candidate._fields, *(tuple(map(format, row, numbers)) for row in self)]
        widths = (max(map(len, column)) for column in zip(*cells, strict=True))
        specs = [f"{f[0]}{n}" for f, n in zip(formats, widths, strict=True)]
        return "\n".join("  ".join(map(format, row, specs)).rstrip() for row in cells)

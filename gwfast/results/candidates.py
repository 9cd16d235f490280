"""What a race of starts tells of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .tables import of_tuples

if TYPE_CHECKING:
    import pandas as pd


class Candidate(NamedTuple):
    """One start that was tried.

    Attributes
    ----------
    start : str
    n_points : int
        Points of the larger side of the problem it was tried on.
    epsilon : float
        The one that it ended with.
    gw_cost : float
        Objective when it was stopped, for whatever reason.
    n_outer : int
        Outer iterations made.
    seconds : float
        Spent on the start and on them.
    fate : str
        ``"won"``, ``"went on"`` (to more points), ``"dropped in round 1"`` (behind by
        `gw_cost`, or one of more than two that are as good), ``"same as ..."`` (on the
        way to the same optimum), ``"tie"`` (another optimum, as good as the winner's),
        ``"lost"`` (at the end, or behind when the winner converged), ``"out of time"``.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> result = gwfast.gromov_wasserstein(cost, cost[::-1, ::-1])
    >>> any(one.fate == "won" for one in result.candidates)
    True
    """

    start: str
    n_points: int
    epsilon: float
    gw_cost: float
    n_outer: int
    seconds: float
    fate: str


class Candidates(tuple[Candidate, ...]):
    """A tuple of `Candidate` that prints as a table."""

    # Words to the left, numbers to the right.
    _FORMATS = "<", ">", ">.3g", ">.6g", ">", ">.2f", "<"

    def to_frame(self) -> pd.DataFrame:
        """A table of pandas, a row for each start."""
        return of_tuples(Candidate._fields, self)

    def __str__(self) -> str:
        numbers = [f[1:] for f in self._FORMATS]
        cells = [Candidate._fields, *(tuple(map(format, row, numbers)) for row in self)]
        widths = (max(map(len, column)) for column in zip(*cells, strict=True))
        specs = [f"{f[0]}{n}" for f, n in zip(self._FORMATS, widths, strict=True)]
        return "\n".join("  ".join(map(format, row, specs)).rstrip() for row in cells)

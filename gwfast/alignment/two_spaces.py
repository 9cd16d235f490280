"""Two spaces as one thing, for what splits or passes on a single one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..utils.validation import as_matrix


class TwoSpaces:
    """Rows of two spaces, which scikit-learn's cross-validation can split.

    Its samples are the rows of both, one space's between the other's: every fold, in
    order or shuffled, has its share of each. What is picked stays in the order of the
    space that it is from, most frequent first.

    Parameters
    ----------
    x : array-like of shape (n, d)
    y : array-like of shape (m, d')

    Attributes
    ----------
    x, y : ndarray
    shape : tuple of int
        ``(n + m,)``.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> spaces = gwfast.TwoSpaces(np.ones((4, 3)), np.ones((2, 5)))
    >>> spaces, spaces[:3]
    (TwoSpaces(4 x 3, 2 x 5), TwoSpaces(2 x 3, 1 x 5))
    """

    def __init__(self, x: ArrayLike, y: ArrayLike) -> None:
        self.x, self.y = as_matrix(x, "x"), as_matrix(y, "y")
        n, m = len(self.x), len(self.y)
        places = [(np.arange(size) + 0.5) / size for size in (n, m)]
        # Numbers of rows, those of `y` after those of `x`, in the order of samples.
        self._rows = np.argsort(np.concatenate(places), kind="stable")

    @property
    def shape(self) -> tuple[int]:
        return (len(self._rows),)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, samples: Any) -> TwoSpaces:
        if isinstance(samples, tuple):
            samples = samples[0]  # scikit-learn adds an ellipsis
        rows = np.sort(np.atleast_1d(self._rows[samples]))
        n = len(self.x)
        return TwoSpaces(
            self._picked(self.x, rows[rows < n], "x"),
            self._picked(self.y, rows[rows >= n] - n, "y"),
        )

    @staticmethod
    def _picked(space: NDArray[Any], rows: NDArray[Any], name: str) -> NDArray[Any]:
        if not len(rows):
            raise IndexError(f"samples must be of both spaces, got none of {name}")
        return space[rows]

    def __repr__(self) -> str:
        sizes = (" x ".join(map(str, space.shape)) for space in (self.x, self.y))
        return f"TwoSpaces({', '.join(sizes)})"

"""Correspondences that are known as a start."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..problems.quadratic import QuadraticProblem
from ..utils.types import Float32Array
from ..utils.validation import as_array, as_positive, one_of
from .starts import ALONE, Shared, Start, as_start, is_start, named_starts, start_plan


@dataclasses.dataclass(frozen=True, eq=False)
class Seeds(Start):
    """Start from a few correspondences that are known, or guessed.

    They only say where to start: the solution may leave them.

    Parameters
    ----------
    pairs : array-like of int, shape (k, 2)
        Rows of the first and of the second space that belong together.
    share : float, default=1
        Of the mass, what the pairs get, in (0, 1]; 1 trusts them alone.
    rest : "product", "profile" or a start, default="profile"
        What the other mass follows.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> result = gwfast.gromov_wasserstein(
    ...     cost, cost[::-1, ::-1], init=gwfast.Seeds([[0, 59], [1, 58]])
    ... )
    >>> str(result.status)
    'converged'
    """

    pairs: ArrayLike
    share: float = 1.0
    rest: object = "profile"

    def __post_init__(self) -> None:
        pairs = np.array(as_array(self.pairs, "pairs"))
        if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
            raise ValueError(f"pairs must have shape (k, 2), got {pairs.shape}")
        if pairs.dtype.kind not in "iu":
            raise TypeError(f"pairs must hold integers, got dtype {pairs.dtype}")
        if not as_positive(self.share, "share") <= 1:
            raise ValueError(f"share must be at most 1, got {self.share}")
        if not is_start(self.rest):
            fixed = [name for name, one in named_starts().items() if not one.is_random]
            one_of(self.rest, "rest", fixed)
        object.__setattr__(self, "pairs", pairs)

    @classmethod
    def identical(
        cls, words_x: Sequence[str], words_y: Sequence[str], **options: Any
    ) -> "Seeds":
        """Words of both spaces that are spelt alike, numerals and names above all.

        Parameters
        ----------
        words_x, words_y : sequence of str
            Words of the rows that take part, in their order; of a word that comes
            several times the first counts.
        **options
            `share` and `rest`.

        Raises
        ------
        ValueError
            If no word is in both.

        Examples
        --------
        >>> import gwfast
        >>> gwfast.Seeds.identical(["uno", "1914", "Paris"], ["Paris", "1914"]).pairs
        array([[1, 1],
               [2, 0]])
        """
        alike = {word: [word] for word in words_x}
        return cls.known(alike, words_x, words_y, **options)

    @classmethod
    def known(
        cls,
        dictionary: Mapping[str, Iterable[str]],
        words_x: Sequence[str],
        words_y: Sequence[str],
        **options: Any,
    ) -> "Seeds":
        """Words whose translations are known.

        Parameters
        ----------
        dictionary : mapping of str to iterable of str
            Translations of words of the first space, such as
            `gwfast.words.read_dictionary` reads. What is in neither space is left out.
        words_x, words_y : sequence of str
            See `identical`.
        **options
            `share` and `rest`.

        Raises
        ------
        ValueError
            If no pair is among the words.
        """
        places: dict[str, int] = {}
        for at, word in enumerate(words_y):
            places.setdefault(word, at)
        pairs, seen = [], set()
        for at, word in enumerate(words_x):
            if word not in seen:
                found = {places[y] for y in dictionary.get(word, ()) if y in places}
                pairs += [(at, to) for to in sorted(found)]
                seen.add(word)
        if not pairs:
            raise ValueError(
                f"dictionary must have a pair of the {len(words_x)} and {len(words_y)} "
                "words, got none"
            )
        return cls(np.array(pairs), **options)

    def plan(
        self, problem: QuadraticProblem, n_threads: int, shared: Shared = ALONE
    ) -> Float32Array | None:
        pairs = np.asarray(self.pairs)
        for column, n, name in zip(pairs.T, problem.shape, "xy", strict=True):
            if column.min() < 0 or column.max() >= n:
                raise ValueError(
                    f"pairs must be among rows 0 to {n - 1} of {name}, "
                    f"got {column.min()} to {column.max()}"
                )
        rows, cols = pairs.T
        weights = np.sqrt(problem.p[rows] * problem.q[cols])
        if not weights.sum() > 0:
            raise ValueError("pairs must have some mass, got weights of 0 only")
        plan = np.zeros(problem.shape, dtype=np.float32)
        if self.share < 1:
            rest = as_start(self.rest, problem)
            rest = start_plan(rest, problem, n_threads, shared)
            if rest is None:
                np.multiply.outer(problem.p, problem.q, out=plan, casting="same_kind")
            else:
                np.copyto(plan, rest)
            plan *= (1.0 - self.share) / plan.sum(dtype=np.float64)
        np.add.at(plan, (rows, cols), self.share * weights / weights.sum())
        return plan

    def __str__(self) -> str:
        return f"{len(np.asarray(self.pairs))} seeds {self.share:g}"

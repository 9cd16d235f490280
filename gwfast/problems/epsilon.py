"""The regularization: a number, or relative to the problem; fixed, or annealed."""

import dataclasses
import math
from typing import TypeAlias

from ..utils.validation import as_positive


@dataclasses.dataclass(frozen=True)
class Epsilon:
    """How strong the regularization is, and how it gets there.

    Parameters
    ----------
    value : float or None, default=None
        In units of cost; 0 where `gromov_wasserstein` takes that. Give `value` or `relative`.
    relative : float or None, default=None
        Fraction of the objective of the product plan, which is the mean of its linearized cost.
    anneal_from : float, default=1
        Multiple of it that the first outer iteration uses; 1 is no annealing.
    anneal_by : float, default=0.9
        Factor from one outer iteration to the next, until it is there: if starts race, after
        seven at the latest, so that they compare at equal epsilon.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value; the message names it.

    Examples
    --------
    >>> import gwfast
    >>> gwfast.Epsilon(relative=0.02)
    Epsilon(value=None, relative=0.02, anneal_from=1.0, anneal_by=0.9)
    """

    value: float | None = None
    relative: float | None = None
    anneal_from: float = 1.0
    anneal_by: float = 0.9

    def __post_init__(self) -> None:
        if (self.value is None) == (self.relative is None):
            raise ValueError(
                "Epsilon must have one of value and relative, "
                f"got value={self.value}, relative={self.relative}"
            )
        if self.value is not None:
            as_positive(self.value, "value", zero=True)
        if self.relative is not None:
            as_positive(self.relative, "relative")
        if as_positive(self.anneal_from, "anneal_from") < 1:
            raise ValueError(f"anneal_from must be at least 1, got {self.anneal_from}")
        if not as_positive(self.anneal_by, "anneal_by") < 1:
            raise ValueError(f"anneal_by must be below 1, got {self.anneal_by}")

    @property
    def is_zero(self) -> bool:
        """True for the exact problem."""
        return self.value == 0


EpsilonLike: TypeAlias = float | str | Epsilon


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Effective epsilon of every outer iteration, in units of cost: from `first` to `last`."""

    last: float
    first: float
    factor: float = 0.9

    def epsilon_at(self, iteration: int) -> float:
        """Return epsilon of an iteration, counted from 0."""
        return max(self.last, self.first * self.factor**iteration)


def as_epsilon(epsilon: EpsilonLike, *, zero: bool = False) -> Epsilon:
    """Return the `Epsilon` of a number (0 only with `zero`), a text or an `Epsilon`."""
    if isinstance(epsilon, Epsilon):
        if epsilon.is_zero and not zero:
            raise ValueError("epsilon must be positive here, got Epsilon(value=0)")
        return epsilon
    if not isinstance(epsilon, str):
        return Epsilon(value=as_positive(epsilon, "epsilon", zero=zero))
    if epsilon == "auto":
        # On word vectors of 50 and 200 dimensions, five language pairs, accuracy was best between
        # 1.25 and 3 % of the mean linearized cost under the product plan, and at 1.75 % at most 7 %
        # below the best of each (`python -m benchmarks.search epsilon`).
        return Epsilon(relative=0.0175)
    try:
        number = float(epsilon.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(
            'epsilon must be a number above 0, a percentage such as "2%", "auto" or an Epsilon, '
            f"got {epsilon!r}"
        )
    return Epsilon(relative=number / 100) if epsilon.endswith("%") else Epsilon(value=number)

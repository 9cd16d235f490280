"""The regularization: a number, or relative to the problem; fixed, or annealed."""

import dataclasses
import math
from typing import Any, TypeAlias

from ..utils.validation import as_positive

# "auto", as a fraction of the mean linearized cost under the product plan. On word vectors of 50
# and 200 dimensions, five language pairs, accuracy was best between 1.25 and 3 %, and at 1.75 % at
# most 7 % below the best of each (`python -m benchmarks.optimum epsilon`).
AUTO_RELATIVE = 0.0175


@dataclasses.dataclass(frozen=True)
class Epsilon:
    """How strong the regularization is, and how it gets there.

    Parameters
    ----------
    value : float or None, default=None
        In units of cost; 0 where `gromov_wasserstein` takes that. One of `value` and
        `relative` has to be given.
    relative : float or None, default=None
        Fraction of the mean of the linearized cost under the product plan, which is
        the objective there.
    anneal_from : float, default=1
        Multiple of it that the first outer iteration uses; 1 is no annealing.
    anneal_by : float, default=0.9
        Factor from one outer iteration to the next, until it is there. Where starts
        race (``init="auto"``, `multistart`, `tune_epsilon`) it is there after seven at
        the latest, so that they compare at equal epsilon.

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
        if self.relative is None:
            as_positive(self.value, "value", zero=True)  # type: ignore[arg-type]
        else:
            as_positive(self.relative, "relative")
        if as_positive(self.anneal_from, "anneal_from") < 1:
            raise ValueError(f"anneal_from must be at least 1, got {self.anneal_from}")
        if not as_positive(self.anneal_by, "anneal_by") < 1:
            raise ValueError(f"anneal_by must be below 1, got {self.anneal_by}")

    @property
    def is_zero(self) -> bool:
        """Whether there is none: the exact problem."""
        return self.value == 0

    def resolve(self, linearization: Any) -> "Schedule":
        """The `Schedule` for a problem."""
        if self.relative is None:
            last = float(self.value)  # type: ignore[arg-type]
        else:
            # The objective of the product plan is the mean times the mass it moves.
            rule = linearization.problem.rule
            mass = rule.mass * rule.entropy_weight
            last = self.relative * linearization.product_cost / mass
            # Where all costs are equal any epsilon gives the product plan, but one that
            # cannot be resolved would be refused.
            smallest = linearization.precision.min_epsilon
            last = max(last, smallest * linearization.cost_scale)
        return Schedule(last, last * self.anneal_from, self.anneal_by)


EpsilonLike: TypeAlias = float | str | Epsilon


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Effective epsilon of every outer iteration, in units of cost: from `first` to `last`."""

    last: float
    first: float
    factor: float = 0.9

    def at(self, iteration: int) -> float:
        """Epsilon of an iteration, counted from 0."""
        return max(self.last, self.first * self.factor**iteration)


def as_epsilon(epsilon: EpsilonLike, *, zero: bool = False) -> Epsilon:
    """`Epsilon` of a number, which may be 0 with `zero`, a text or an `Epsilon`."""
    if isinstance(epsilon, Epsilon):
        if epsilon.is_zero and not zero:
            raise ValueError("epsilon must be positive here, got Epsilon(value=0)")
        return epsilon
    if isinstance(epsilon, str):
        if epsilon == "auto":
            return Epsilon(relative=AUTO_RELATIVE)
        try:
            return as_epsilon(parse_epsilon(epsilon))
        except ValueError as error:
            raise ValueError(
                'epsilon must be a number, "auto" or an Epsilon, or a text such as '
                f'"2%" for Epsilon(relative=0.02): {error}'
            ) from None
    return Epsilon(value=as_positive(epsilon, "epsilon", zero=zero))


def parse_epsilon(text: str) -> EpsilonLike:
    """What `gwfast.align` takes, of the text "auto", a number or a percentage."""
    if text == "auto":
        return "auto"
    relative = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"expected 'auto', a number above 0 or a percentage, got {text!r}")
    return Epsilon(relative=number / 100) if relative else number

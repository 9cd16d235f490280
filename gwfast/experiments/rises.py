"""Where the objective of a solve rises from one iteration to another, and why."""

from collections.abc import Sequence
from typing import NamedTuple

# What of a step is looked at.
COMPARED = ("gw_cost", "marginal_error")
# A rise that counts, relatively: less does not show in the figures that are printed.
_LEAST = 1e-4
# A marginal error that falls by this factor tells why the objective rose.
_LESS = 2.0
MISSED = "a plan that misses its marginals can be cheaper than any that has them"
ENTROPY = (
    "what an iteration lowers is gw_cost together with the entropy, and gw_cost alone"
    " may rise"
)


class Rise(NamedTuple):
    """From one iteration, counted from 1, to a later one."""

    first: int
    last: int
    costs: tuple[float, float]
    errors: tuple[float, float]  # of the marginals

    def __str__(self) -> str:
        low, high = self.costs
        digits = 5
        while digits < 9 and f"{low:.{digits}g}" == f"{high:.{digits}g}":
            digits += 1
        before, after = self.errors
        return (
            f"from {low:.{digits}g} at iteration {self.first} to {high:.{digits}g} at"
            f" {self.last} (marginal error {before:.1e}, then {after:.1e})"
        )

    @property
    def reason(self) -> str:
        """Why that can be."""
        before, after = self.errors
        return MISSED if before > _LESS * after else ENTROPY


def rises(costs: Sequence[float], errors: Sequence[float]) -> list[Rise]:
    """The runs of iterations over which the objective rises."""
    found, start = [], 0
    for at in range(1, len(costs) + 1):
        if at == len(costs) or not costs[at] > costs[at - 1]:
            found.append(_rise(costs, errors, start, at - 1))
            start = at
    return [rise for rise in found if _counts(rise)]


def rise_to_the_end(costs: Sequence[float], errors: Sequence[float]) -> Rise | None:
    """From the lowest objective to the last one, if that is higher."""
    best = min(range(len(costs)), key=costs.__getitem__, default=0)
    rise = _rise(costs, errors, best, len(costs) - 1) if costs else None
    return rise if rise is not None and _counts(rise) else None


def _rise(costs, errors, first, last):
    pairs = ((values[first], values[last]) for values in (costs, errors))
    return Rise(first + 1, last + 1, *pairs)


def _counts(rise):
    low, high = rise.costs
    return high - low > _LEAST * abs(high)

"""Where the objective of a solve rises from one iteration to another, and why."""

from collections.abc import Sequence
from typing import Any, NamedTuple

# A rise that counts, relatively: less does not show in the figures that are printed.
_LEAST = 1e-4
# A marginal error that falls by this factor tells why the objective rose.
_LESS = 2.0
_MISSED = "a plan that misses its marginals can be cheaper than any that has them"
_ENTROPY = (
    "what an iteration lowers is gw_cost together with the entropy, and gw_cost alone may rise"
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
        return _MISSED if before > _LESS * after else _ENTROPY


def rises(steps: Sequence[Any]) -> list[Rise]:
    """The runs of iterations over which the objective rises; of `steps` with `gw_cost`
    and `marginal_error`.
    """
    found, start = [], 0
    for at in range(1, len(steps) + 1):
        if at == len(steps) or not steps[at].gw_cost > steps[at - 1].gw_cost:
            found.append(_rise(steps, start, at - 1))
            start = at
    return [rise for rise in found if rise is not None]


def rise_to_the_end(steps: Sequence[Any]) -> Rise | None:
    """From the lowest objective to the last one, if that is higher."""
    best = min(range(len(steps)), key=lambda at: steps[at].gw_cost, default=0)
    return _rise(steps, best, len(steps) - 1) if steps else None


def _rise(steps, first, last):
    low, high = ends = steps[first].gw_cost, steps[last].gw_cost
    if not high - low > _LEAST * abs(high):
        return None
    errors = steps[first].marginal_error, steps[last].marginal_error
    return Rise(first + 1, last + 1, ends, errors)

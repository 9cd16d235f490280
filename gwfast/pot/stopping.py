"""POT's rule of when an outer loop has settled."""

import dataclasses

from ..quadratic.stopping import RelativeChange


@dataclasses.dataclass(frozen=True)
class FrobeniusChange(RelativeChange):
    """The plan changes by at most the tolerance, in the Frobenius norm, whatever the
    objective does.

    Parameters
    ----------
    every : int
        It is looked at in the first iteration and in each `every`-th after it, and
        nothing is extrapolated before the second look.
    """

    every: int

    def inner_tol(self, tol, rough, precision):
        # A small step is no end while the error may be as large.
        exact = super().inner_tol(tol, rough, precision)
        return max(precision.inner_tol, min(exact, rough))

    def judge(self, seen):
        settled = seen.moved <= seen.asked_tol or seen.change <= seen.floor
        # What moves that little is left to show whether it grows.
        hidden = settled or seen.iteration <= self.every
        looked_at = seen.confirming or (seen.iteration - 1) % self.every == 0
        grows = seen.moved_before < seen.moved > seen.precision.inner_tol
        return settled and looked_at and not grows, hidden

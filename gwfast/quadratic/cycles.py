"""Cycles of outer iterations: where the objective is not concave, plain steps may come
back to where they were before, and would for ever.

With exact linear problems and symmetric costs they go to and fro between two plans: a
step from T minimizes ``<lin_cost(T), T'> - epsilon * (entropies of T and T')`` over T',
which is symmetric in both but for constants, so it falls until T' leads back to T.
"""

from typing import NamedTuple

import numpy as np

from ..linear.log_domain import Potentials

# Iterations, one after the other, each of which has come nearer to the plan two before
# it than to the last: of noise about one plan half are.
ROUND = 20
# Factor of the change meanwhile up to which steps to and fro get shorter: these settle.
SETTLES = 0.8
# Times that steps are damped, each time to half their length, before the loop ends:
# some semi-relaxed problems of ten points need seven.
MOST_DAMPED = 8


class _Step(NamedTuple):
    potentials: Potentials
    epsilon: float
    change: float


class Cycles:
    """Watches the iterations of one loop, and says when to damp them.

    Parameters
    ----------
    n_found : int, default=0
        What it was where the loop goes on from.

    Attributes
    ----------
    n_found : int
        How often the loop went round.
    ends : bool
        Whether damping was no help: the loop is to end at the next plan that is as low
        as any on its round.
    """

    def __init__(self, n_found=0):
        # Whether the loop goes round, and waits for a low plan.
        self.n_found, self._steps, self._waits = n_found, [], False

    def clear(self):
        """Forget the last iterations, as others came between that were not seen."""
        self._steps = []

    def give_up(self):
        """Have the loop end, as its steps cannot be damped."""
        self.n_found = MOST_DAMPED + 1

    @property
    def ends(self):
        return self.n_found > MOST_DAMPED

    def add(self, potentials, epsilon, change, *, too_far, low):
        """Take note of an iteration, with its epsilon in the units of the potentials,
        by whether steps are known to be `too_far` and its plan is as `low` as any of
        the last; returns whether to damp the next ones.
        """
        if self.ends:
            return False
        goes_round = self._goes_round(_Step(potentials, epsilon, change)) or too_far
        if goes_round and not self._waits:
            self._waits, self.n_found = True, self.n_found + 1
        damps = self._waits and low and not self.ends
        if damps:
            self._steps, self._waits = [], False
        return damps

    def _goes_round(self, step):
        known = [*self._steps, step]
        if len(known) > 2 and not _returns(*known[-3:]):
            known = known[-2:]
        self._steps = known[-ROUND:]
        return len(known) > ROUND and step.change > SETTLES * known[0].change


def _returns(first, last, now):
    """Whether a step comes back towards where the last one came from."""
    if not first.epsilon == last.epsilon == now.epsilon:
        return False
    return _distance(now, first) < _distance(now, last)


def _distance(one, other):
    """Difference of exponents in plans, in units of the potentials, at most."""
    # A point without mass has a potential of -inf.
    df, dg = (
        now[both] - before[both]
        for now, before, both in (
            (x, y, np.isfinite(x) & np.isfinite(y))
            for x, y in (
                (one.potentials.f, other.potentials.f),
                (one.potentials.g, other.potentials.g),
            )
        )
    )
    if not (len(df) and len(dg)):
        return 0.0  # plans without mass
    return max(df.max() + dg.max(), -(df.min() + dg.min()))

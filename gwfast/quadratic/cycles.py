"""Cycles of outer iterations: where the objective is not concave, plain steps may
return to an earlier plan.

With exact linear problems and symmetric costs a cycle has two plans: a step from T
minimizes ``<lin_cost(T), T'> - epsilon * (entropies of T and T')`` over T', which is
symmetric in T and T' up to constants, so it falls until T' leads back to T.
"""

from typing import NamedTuple

import numpy as np

from ..linear.log_domain import Potentials

# Number of successive iterations that make a cycle: each plan of them is nearer to the
# plan before the last than to the last. Of noise about one plan half the plans are.
ROUND = 20
# Largest factor of the change over these iterations with which the steps shrink, so
# that they settle by themselves.
SETTLES = 0.8
# Number of times that steps are halved before the loop ends: some semi-relaxed problems
# of ten points need seven.
MOST_DAMPED = 8


class _Step(NamedTuple):
    potentials: Potentials
    epsilon: float
    change: float


class Cycles:
    """Finds cycles of one loop, and says when to damp its steps.

    Parameters
    ----------
    n_found : int, default=0
        Cycles found before, by the loop of a checkpoint.

    Attributes
    ----------
    n_found : int
        Cycles found.
    ends : bool
        Whether damping did not help: the loop ends at the next plan that is as low as
        any of its cycle.
    """

    def __init__(self, n_found=0):
        # Whether the loop cycles, and waits for a low plan.
        self.n_found, self._steps, self._waits = n_found, [], False

    def give_up(self):
        """Let the loop end, as its steps cannot be damped."""
        self.n_found = MOST_DAMPED + 1

    @property
    def ends(self):
        return self.n_found > MOST_DAMPED

    def add(self, potentials, epsilon, change, *, too_far, low):
        """Add an iteration, with epsilon in the units of the potentials; `too_far` says
        that steps overshoot, `low` that the plan is as low as any of the last. Returns
        whether to damp the next steps.
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
    """Whether a step returns towards the plan before the last one."""
    if not first.epsilon == last.epsilon == now.epsilon:
        return False
    return _distance(now, first) < _distance(now, last)


def _distance(one, other):
    """Largest difference of ``f_i + g_j``, in units of the potentials."""
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

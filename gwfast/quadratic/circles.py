"""Outer iterations that go round: where the objective is not concave, plain steps may
come back to where they were some steps before, and would for ever.
"""

from collections import deque
from typing import NamedTuple

import numpy as np

from ..linear.log_domain import Potentials
from ..linear.marginals import restored_potentials

# Steps of the longest circle that is looked for, and rounds after which it is one.
MOST_STEPS, ROUNDS = 4, 3
# Relative difference of objectives, and of entries of plans, of what is the same again,
# or of both as a fraction of what the last step has moved them by: linear problems are
# not solved to the last digit. And the relative change from which on steps are going
# somewhere: those that converge in a spiral soon become smaller.
SAME, NOISE, MIN_CHANGE = 1e-5, 5e-4, 0.05


class _Step(NamedTuple):
    gw_cost: float
    potentials: Potentials
    epsilon: float


class Circles:
    """Watches the iterations of one loop."""

    def __init__(self):
        self._steps, self._in_a_row = deque(maxlen=MOST_STEPS), {}

    def export(self):
        """A tree from which `restore` takes what was noted."""
        steps = [
            (one.gw_cost, one.potentials.export(), one.epsilon) for one in self._steps
        ]
        return dict(steps=steps, in_a_row=list(self._in_a_row.items()))

    def restore(self, saved, shape):
        """Take the notes that another exported, of a problem of this shape."""
        for gw_cost, potentials, epsilon in saved["steps"]:
            made = restored_potentials(potentials, shape)
            self._steps.append(_Step(float(gw_cost), made, float(epsilon)))
        self._in_a_row.update((int(ago), int(n)) for ago, n in saved["in_a_row"])

    def add(self, gw_cost, change, potentials, epsilon):
        """Take note of an iteration, with its epsilon in the units of the potentials;
        returns the steps of the circle that it goes round in, or 0.
        """
        step, found = _Step(gw_cost, potentials, epsilon), 0
        if not change > MIN_CHANGE:
            self._steps.clear()
        for ago in range(2, len(self._steps) + 1):
            same = _same(step, self._steps[-ago], self._steps[-1])
            self._in_a_row[ago] = self._in_a_row.get(ago, 0) + 1 if same else 0
            if not found and self._in_a_row[ago] >= ROUNDS * ago:
                found = ago
        self._steps.append(step)
        return found


def _same(one, other, last):
    """Whether a step has come to where another was; the `last` one came between."""
    if one.epsilon != other.epsilon:
        return False
    noise = SAME * abs(one.gw_cost), SAME * one.epsilon
    if one.epsilon == last.epsilon:
        noise = np.maximum(noise, NOISE * _distances(one, last))
    return bool(np.all(_distances(one, other) <= noise))


def _distances(one, other):
    """Difference of objectives, and of exponents in plans, in units of the potentials,
    at most.
    """
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
    moved = 0.0
    if len(df) and len(dg):  # else plans without mass
        moved = max(df.max() + dg.max(), -(df.min() + dg.min()))
    return np.array([abs(one.gw_cost - other.gw_cost), moved])

"""Acceleration of outer iterations by their last steps: Anderson's (J. ACM 1965), made
safe at saddles.

The last steps tell the derivative of the map on the span of the moves. Newton's method for the
fixed point takes a component of the step with the eigenvalue ``1 - mu`` times ``1 / mu``: a small
``mu`` is a plateau, and with a negative one, past a saddle, Newton's method returns to the saddle.
Here the factor is ``1 / sqrt(mu^2 + FLOOR^2)`` (Dauphin et al., NeurIPS 2014): the state moves on
from a saddle, and many steps ahead on a plateau. A move is undone if the next step is much longer
than the steps foretold; the length of moves adapts to that.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from ..linear.log_domain import Potentials
from ..utils.blocks import CACHED_BYTES, row_blocks

# Steps before the last one that are used.
DEPTH = 5
# Eigenvalues of 1 - G near which a component of the step is multiplied less than
# Newton's method does, and at most by the inverse.
FLOOR = 0.05
# Eigenvalues of a Gram matrix that are rounding, as a fraction of the largest.
SINGULAR = 1e-6
# Relative change of an outer iteration below which steps are trusted, and largest error
# of marginals, as a fraction of the change, with which a step is not noise.
MAX_CHANGE, CLEAR = 0.03, 0.5
# Largest length of a foretold step in lengths of the last step, and largest factor by
# which the change may exceed what is foretold.
MAX_FORETOLD, MAX_GROWTH = 2.0, 1.5
# Largest length of a move, in lengths of the last step: of the first move, and at any
# time. A move that failed divides it by a factor that doubles with each failure; a move
# that succeeded doubles it. Below 1.0 the state does not move, and reach doubles.
FIRST_REACH, MAX_REACH, SHRINKS = 4.0, 64.0, 4.0


class Lead(NamedTuple):
    """Where steps lead: the weights, with sum one, of the points after them, oldest
    first; and the length of the step from there, in lengths of the last step.
    """

    weights: list
    foretold: float = 1.0


class Moved(NamedTuple):
    """What an outer loop goes on from after a move, or after one that was undone: the
    last change, the objective (NaN where it is not known), and where the next linear
    problem starts (None: where the last one ended).
    """

    change: float
    gw_cost: float
    potentials: Potentials | None = None


def lead_of(steps, reach=MAX_REACH):
    """Where steps of an iteration ``after = G(before)`` lead.

    Parameters
    ----------
    steps : sequence of (ndarray, ndarray)
        The pairs ``before, after``, oldest first.
    reach : float, default=MAX_REACH
        Largest length of the move, in lengths of the last step.

    Returns
    -------
    Lead or None
        None where the steps say nothing.
    """
    if len(steps) < 2 or reach < 1.0:
        return None
    moved, mixed, gram, along, right, size = _inner_products(steps)
    scale = np.sqrt(moved.diagonal())
    if not (scale.all() and size > 0.0):
        return None
    basis = _orthonormal(moved / np.outer(scale, scale)) / scale[:, None]
    # The derivative of 1 - G on the span of the moves, and its absolute value.
    slope = -basis.T @ mixed @ basis
    floor = FLOOR**2 * np.eye(len(slope))
    absolute = linalg.sqrtm(slope @ slope + floor).real
    weights = -basis @ np.linalg.solve(absolute, basis.T @ along)
    if not np.isfinite(weights).all():
        return None
    # The square of the step that is left is ``size - 2 b t + a t^2`` for a share t.
    length = weights @ (moved + mixed + mixed.T + gram) @ weights
    a, b = weights @ gram @ weights, weights @ right
    share = reach * np.sqrt(size / length) if length > reach**2 * size else 1.0
    excess = (MAX_FORETOLD**2 - 1.0) * size
    if (a * share - 2.0 * b) * share > excess:
        share = (b + np.sqrt(b * b + a * excess)) / a
    weights *= share
    left = basis.T @ (along - mixed @ weights)
    next_one = left - slope @ left
    foretold = size + (a * share - 2.0 * b) * share - left @ left + next_one @ next_one
    made = np.zeros(len(weights) + 1)
    made[:-1] = weights
    made[1:] -= weights
    made[-1] += 1.0
    return Lead(made.tolist(), float(np.sqrt(max(foretold, 0.0) / size)))


def combined(weights, arrays):
    """The weighted sum of arrays."""
    return sum(weight * one for weight, one in zip(weights, arrays, strict=True))


class Accelerator:
    """Moves the state of a `Linearization` by its last steps, and judges the moves.

    Attributes
    ----------
    trial : (float, Lead, Potentials) or None
        Relative change before the last move, its `Lead`, and the potentials before it,
        until the next iteration judges the move; None otherwise.
    expected : float
        The next change as a fraction of the last one.
    """

    expected = 1.0

    def __init__(self, linearization):
        self._linearization, self.trial = linearization, None
        self._reach, self._shrinks = FIRST_REACH, SHRINKS

    @property
    def may_hide(self):
        """Whether the next change may be small by chance."""
        return self.trial is not None

    def advance(self, stepped, change, gw_before, limits, further):
        """Judge the last move after an iteration, and make another if it succeeded.

        Parameters
        ----------
        stepped : Stepped
            The iteration.
        change : float
            Relative change of the state.
        gw_before : float
            Objective before the iteration.
        limits : Limits
        further : bool
            Whether another move could still be undone.

        Returns
        -------
        Moved or None
            None where the loop goes on from the iteration.
        """
        trial, self.trial = self.trial, None
        if trial is not None:
            before, lead, potentials = trial
            grown = change / (before * max(lead.foretold, 1.0))
            if grown <= 1.0:
                self._reach = min(2.0 * self._reach, MAX_REACH)
                self._shrinks = max(self._shrinks / 2.0, SHRINKS)
            elif grown > MAX_GROWTH:
                self._reach /= self._shrinks
                self._shrinks *= 2.0
                if self._linearization.retract():
                    return Moved(before, gw_before, potentials)
        clear = change <= MAX_CHANGE and stepped.error <= CLEAR * change
        if not (further and clear and self._linearization.accelerates):
            self.reset()
        elif (lead := self._linearization.follow(self._reach)) is not None:
            self.trial = change, lead, stepped.solution.potentials
        elif self._reach < 1.0:
            self._reach *= 2.0
        return None

    def reset(self):
        """Forget the last move, and all steps."""
        self.trial = None
        self._linearization.forget()


def _inner_products(steps):
    """Return the inner products of three kinds of vectors: the moves (differences of
    successive `before`), the differences of successive steps, and the last step. They
    are summed block by block, as the differences are many copies.
    """
    count = len(steps) - 1
    made = [np.zeros((count,) * axes) for axes in (2, 2, 2, 1, 1)] + [0.0]
    flat = [(np.ravel(before), np.ravel(after)) for before, after in steps]
    for part in row_blocks(flat[0][0].size, 2 * len(flat), CACHED_BYTES):
        befores, afters = (
            np.array([pair[side][part] for pair in flat], dtype=np.float64) for side in (0, 1)
        )
        steps = afters - befores
        moved, shrunk = befores[1:] - befores[:-1], steps[1:] - steps[:-1]
        pairs = (moved, moved), (moved, shrunk), (shrunk, shrunk)
        for total, (left, right) in zip(made, pairs, strict=False):
            total += left @ right.T
        made[3] += moved @ steps[-1]
        made[4] += shrunk @ steps[-1]
        made[5] += steps[-1] @ steps[-1]
    return made


def _orthonormal(gram):
    """A basis, orthonormal in the inner product of a Gram matrix (k, k), in columns;
    without directions that are rounding.
    """
    # LAPACK's own, as checks take longer than a few numbers do.
    values, vectors, _ = lapack.dsyev(gram)
    kept = values > SINGULAR * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])

"""Anderson's acceleration of outer iterations (D. G. Anderson, J. ACM 1965).

The fixed point of a linear map is found from its steps whether the map contracts there
or not, so it may be a saddle that the iteration is about to leave. The state moves to
it only if the last steps show a contraction; slow contractions gain most. Where the
last steps show none, but the last two are alike, as they are past a saddle for tens of
iterations, the state moves several such steps ahead. A move is undone if the change
grows by too much.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from ..linear.log_domain import Potentials
from ..utils.blocks import CACHED_BYTES, row_blocks

# Steps before the last one that are used.
DEPTH = 5
# Largest eigenvalue of the known part of the map's derivative with which its fixed
# point is trusted, and largest sum of the absolute weights.
MAX_EIGENVALUE, MAX_COEFFICIENTS = 0.99, 100.0
# Least cosine between steps that are alike, and the number of steps of a move ahead. A
# component of the step that shrinks by a factor r per iteration must not grow by the
# move: it does not for r above 1/2 with 3 steps, above 5/7 with 6, which save no more.
ALIKE, FURTHER = 0.99, 3.0
# Eigenvalues of a Gram matrix that are rounding, as a fraction of the largest.
SINGULAR = 1e-12
# Relative change of an outer iteration below which steps are trusted. Over 41 problems
# of the ablation's list 5e-2 took as long in the geometric mean.
MAX_CHANGE = 1e-2
# Largest error of marginals, as a fraction of the change, with which a step is not
# noise; and the largest factors by which the change may grow after a move to a fixed
# point, and after a move ahead: steps that leave a saddle grow.
CLEAR, MAX_GROWTH, AHEAD_GROWTH = 0.5, 1.5, 2.0
# Iterations of the first pause after a move that failed. Each pause is twice as long as
# the last one; each move that succeeds halves the next.
FIRST_PAUSE = 2


class Lead(NamedTuple):
    """Where steps lead: the weights, with sum one, of the points after them, oldest
    first; and whether that is a move ahead rather than a fixed point.
    """

    weights: list
    ahead: bool = False


class Moved(NamedTuple):
    """What an outer loop goes on from after a move, or after one that was undone: the
    last change, the objective (NaN where it is not known), and where the next linear
    problem starts (None: where the last one ended).
    """

    change: float
    gw_cost: float
    potentials: Potentials | None = None


def lead_of(steps):
    """Where steps of an iteration ``after = G(before)`` lead.

    Parameters
    ----------
    steps : sequence of (ndarray, ndarray)
        The pairs ``before, after``, oldest first.

    Returns
    -------
    Lead or None
        None where the steps say nothing.
    """
    if len(steps) < 2:
        return None
    weights = _weights_to_the_end(steps)
    if weights is not None:
        return Lead(weights)
    weight = _weight_ahead(*steps[-2:])
    return Lead([-weight, 1.0 + weight], ahead=True) if weight > 0.0 else None


def _weights_to_the_end(steps):
    """The weights of the fixed point; None where G may not contract."""
    moved, mixed, gram, right = _inner_products(steps)
    size = np.sqrt(gram.diagonal())
    if not size.all():
        return None
    # Steps are of very different sizes, one after the other.
    scale = size[:, None] * size
    moved, mixed, gram, right = moved / scale, mixed / scale, gram / scale, right / size
    # The derivative of G - 1 on the span of the moves.
    basis = _orthonormal(moved)
    if not basis.size:
        return None
    derivative = basis.T @ mixed @ basis
    real, imaginary, _, _, failed = lapack.dgeev(derivative, compute_vl=0, compute_vr=0)
    if failed or not np.hypot(real + 1.0, imaginary).max() <= MAX_EIGENVALUE:
        return None
    # Least squares from normal equations that may be nearly singular.
    basis = _orthonormal(gram)
    weights = basis @ (right @ basis) / size
    made = np.zeros(len(weights) + 1)
    made[:-1] = weights
    made[1:] -= weights
    made[-1] += 1.0
    return made.tolist() if np.abs(made).sum() <= MAX_COEFFICIENTS else None


def _weight_ahead(first, last):
    """Multiple of the difference between the points after two steps for a move ahead:
    at most to the fixed point of the two alone, if they have one; 0.0 where they are
    not alike.
    """
    (early_from, early_to), (late_from, late_to) = (
        [np.ravel(one).astype(np.float64) for one in step] for step in (first, last)
    )
    early, late, moved = early_to - early_from, late_to - late_from, late_to - early_to
    size = np.linalg.norm(late)
    alike = early @ late >= ALIKE * np.linalg.norm(early) * size > 0.0
    if not (alike and moved.any()):
        return 0.0
    further, shrunk = FURTHER * size / np.linalg.norm(moved), early - late
    to_the_end = (shrunk @ late) / (shrunk @ shrunk) if shrunk.any() else 0.0
    return float(min(to_the_end, further) if to_the_end > 0.0 else further)


def combined(weights, arrays):
    """The weighted sum of arrays."""
    return sum(weight * one for weight, one in zip(weights, arrays, strict=True))


class Accelerator:
    """Moves the state of a `Linearization` by its last steps, and judges the moves.

    Attributes
    ----------
    trial : (float, Lead) or None
        Relative change before the last move, and its `Lead`, until the next iteration
        judges the move; None otherwise.
    expected : float
        The next change as a fraction of the last one.
    """

    expected = 1.0

    def __init__(self, linearization):
        self._linearization, self.trial = linearization, None
        # Iterations left of the pause, and the length of the next one.
        self._pause, self._next_pause = 0, FIRST_PAUSE

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
            before, lead = trial
            if change <= before:
                self._next_pause = max(self._next_pause // 2, FIRST_PAUSE)
            failed = change > before * (AHEAD_GROWTH if lead.ahead else MAX_GROWTH)
            if failed or (change > before and not lead.ahead):
                self._pause, self._next_pause = self._next_pause, 2 * self._next_pause
            if failed and self._linearization.retract():
                return Moved(before, gw_before)
        self._pause = max(self._pause - 1, 0)
        clear = change <= MAX_CHANGE and stepped.error <= CLEAR * change
        follows = further and clear and self._linearization.accelerates
        if not follows or self._pause:
            self.reset()
        elif (lead := self._linearization.follow()) is not None:
            self.trial = change, lead
        return None

    def reset(self):
        """Forget the last move, and all steps."""
        self.trial = None
        self._linearization.forget()


def _inner_products(steps):
    """Inner products: of the differences of successive `before` with one another and
    with the differences of successive steps, of the latter with one another, and with
    the last step. Block by block, as the differences are many copies.
    """
    count = len(steps) - 1
    made = [np.zeros((count, count)) for _ in range(3)] + [np.zeros(count)]
    flat = [(np.ravel(before), np.ravel(after)) for before, after in steps]
    for part in row_blocks(flat[0][0].size, 2 * len(flat), CACHED_BYTES):
        befores, afters = (
            np.array([pair[side][part] for pair in flat], dtype=np.float64)
            for side in (0, 1)
        )
        steps = afters - befores
        moved, shrunk = befores[1:] - befores[:-1], steps[1:] - steps[:-1]
        pairs = (moved, moved), (moved, shrunk), (shrunk, shrunk)
        for total, (left, right) in zip(made, pairs, strict=False):
            total += left @ right.T
        made[3] += shrunk @ steps[-1]
    return made


def _orthonormal(gram):
    """A basis, orthonormal in the inner product of a Gram matrix (k, k), in columns;
    without directions that are rounding.
    """
    # LAPACK's own, as checks take longer than a few numbers do.
    values, vectors, _ = lapack.dsyev(gram)
    kept = values > SINGULAR * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])

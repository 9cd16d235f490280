"""Acceleration of outer iterations by their last steps: Anderson's (J. ACM 1965), safe at saddles.

The last steps tell the derivative of the map on the span of the moves. Newton's method for the
fixed point takes a component of the step with the eigenvalue ``1 - mu`` times ``1 / mu``: a small
``mu`` is a plateau, and with a negative one, past a saddle, Newton's method returns to the saddle.
Here the factor is ``1 / sqrt(mu^2 + FLOOR^2)`` (Dauphin et al., NeurIPS 2014): the state moves on
from a saddle, and many steps ahead on a plateau. A move is undone if the next step is much longer
than predicted; the length of moves adapts to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..kernels._judge import Judge
from ..utils.blocks import CACHED_BYTES, row_blocks
from ..utils.types import Float64Array, FloatArray
from .judge import PRODUCT_TOL
from .state import State

if TYPE_CHECKING:
    from .judge import Step
    from .state import Linearization

# Steps before the last one that are used.
DEPTH = 5
# Eigenvalues of 1 - G near which a component is multiplied by less than in Newton's method.
FLOOR = 0.05
# Eigenvalues of a Gram matrix that are rounding, as a fraction of the largest.
SINGULAR = 1e-6
# Relative change of an outer iteration below which steps are trusted, and largest error of the
# marginals, as a fraction of the change, with which a step is not noise.
MAX_CHANGE, CLEAR = 0.03, 0.5
# Largest predicted length of a step in lengths of the last step, and largest factor by which the
# change may exceed the prediction.
MAX_PREDICTED, MAX_GROWTH = 2.0, 1.5
# Trust-region radius in units of the last step: initial, and maximum. A move that failed divides
# it, by a factor that doubles with each failure; a move that succeeded doubles it.
FIRST_TRUST_RADIUS, MAX_TRUST_RADIUS, SHRINKS = 4.0, 64.0, 4.0
JUDGE = Judge(
    turn_floor=FLOOR,
    singular=SINGULAR,
    max_foretold=MAX_PREDICTED,
    max_growth=MAX_GROWTH,
    max_reach=MAX_TRUST_RADIUS,
    shrinks=SHRINKS,
)


class NextIterate(NamedTuple):
    """The start of the next iteration: a state, the change and the objective before it, the change
    that is expected next as a fraction of that, and whether acceleration led there.
    """

    state: State
    change: float
    gw_cost: float
    expected: float = 1.0
    extrapolated: bool = False


class Anderson(NamedTuple):
    """The steps in memory, and the last move until the next iteration judges it."""

    steps: tuple[
        tuple[FloatArray, State], ...
    ] = ()  # the sample of the state before, and the state after each step
    fallback: NextIterate | None = None  # what to go back to if the last move fails
    predicted_residual: float = (
        1.0  # length of the step after that move, in lengths of the last step
    )
    trust_radius: float = FIRST_TRUST_RADIUS  # largest length of the next move, likewise
    shrinks: float = SHRINKS  # divisor of the trust_radius after the next move that fails

    def reset(self) -> Anderson:
        """Forget the last move, and all steps."""
        return self._replace(steps=(), fallback=None)

    def advance(
        self,
        linearization: Linearization,
        before: State,
        after: State,
        step: Step,
        *,
        may_move: bool = True,
        product_tol: float = 1.0,
        **_: object,
    ) -> tuple[Anderson, NextIterate]:
        """Return the `Anderson` after an iteration, and the `NextIterate`: after the plan, after
        another move, or before a move that failed. Another move is made only with `may_move`; for
        `product_tol` see `judge.Verdict`.
        """
        trust_radius, shrinks, fallback = self.trust_radius, self.shrinks, self.fallback
        iterate = NextIterate(after, step.change, step.gw_cost)
        if fallback is not None:
            grown = step.change / (fallback.change * max(self.predicted_residual, 1.0))
            fails, trust_radius, shrinks = JUDGE.fails(grown, trust_radius, shrinks)
            if fails:
                return Anderson(self.steps, trust_radius=trust_radius, shrinks=shrinks), fallback
        clear = step.change <= MAX_CHANGE and step.error <= CLEAR * step.change
        # A correction of a rough product makes earlier steps belong to another map.
        other = step.corrected and product_tol > PRODUCT_TOL
        if other or not (clear and linearization.accelerates):
            return Anderson(trust_radius=trust_radius, shrinks=shrinks), iterate
        steps = (*self.steps[-DEPTH:], (before.sample, after._replace(plan=None)))
        while linearization.n_matrices(state for _, state in steps) > linearization.n_kept:
            steps = steps[1:]
        if not may_move:
            return Anderson(steps, trust_radius=trust_radius, shrinks=shrinks), iterate
        ahead = anderson_weights([(sample, state.sample) for sample, state in steps], trust_radius)
        if ahead is None:
            trust_radius = trust_radius if trust_radius >= 1.0 else 2.0 * trust_radius
            return Anderson(steps, trust_radius=trust_radius, shrinks=shrinks), iterate
        weights, predicted_residual = ahead
        states = [state for _, state in steps]
        extrapolated = iterate._replace(
            state=linearization.mixed(states, weights), extrapolated=True
        )
        fallback = iterate._replace(state=states[-1])
        return Anderson(steps, fallback, predicted_residual, trust_radius, shrinks), extrapolated


def anderson_weights(
    steps: Sequence[tuple[FloatArray, FloatArray]], trust_radius: float = MAX_TRUST_RADIUS
) -> tuple[list[float], float] | None:
    """Return weights, with sum one, of the states after some steps (pairs ``before, after``, oldest
    first), and the predicted residual there; None if the steps say nothing. Lengths are in lengths
    of the last step, and the move is no longer than `trust_radius`.
    """
    if len(steps) < 2 or trust_radius < 1.0:
        return None
    ahead = JUDGE.lead(_inner_products(steps), trust_radius)
    if ahead is None:
        return None
    weights = np.diff(ahead[0], prepend=0.0, append=0.0)
    weights[-1] += 1.0
    return weights.tolist(), ahead[1]


def _inner_products(steps: Sequence[tuple[FloatArray, FloatArray]]) -> Float64Array:
    """Return the inner products of the moves (differences of successive `before`), the differences
    of successive steps, and the last step, summed block by block, as these are many copies.
    """
    flat = [(np.ravel(before), np.ravel(after)) for before, after in steps]
    total: Any = 0.0
    for part in row_blocks(flat[0][0].size, 2 * len(flat), CACHED_BYTES):
        befores, afters = (
            np.array([pair[side][part] for pair in flat], dtype=np.float64) for side in (0, 1)
        )
        residuals = afters - befores
        moves, differences = np.diff(befores, axis=0), np.diff(residuals, axis=0)
        vectors = np.concatenate([moves, differences, residuals[-1:]])
        total += vectors @ vectors.T
    return total

"""What linearizations whose state is the plan do to go on from where the last plans
lead: the product is linear in the plan, so it is what moves.
"""

import numpy as np

from ..kernels import _kernels
from ..utils.blocks import row_blocks
from .plan_history import PlanHistory
from .resuming import ResumableDense

# Rows of plans that extrapolation looks at, by the bytes of a number.
SAMPLE_ROWS = {4: 64, 8: 32}


class ExtrapolatedPlans(ResumableDense):
    """The part in that of `Dense`; and how a damped plan is made."""

    can_damp = True

    def standing(self):
        """Marginals and entropy of where the linearized cost is from: of the state, or
        of where extrapolation has led.
        """
        *marginals, entropy = self._standing
        if entropy is None:
            entropy = _kernels.entropy(self.state, self.n_threads)
            self._standing = *marginals, entropy
        return self._standing

    def extrapolate(self):
        # The product is linear in the plan: it is what moves, the plan stays.
        given = self._buffer.array, self._beside(), self.products.n_alike
        made = self._history.extrapolate(*given)
        if made is not None:
            self._move(made)
        return self._history.lead

    def retract(self):
        self._move(self._history.last_product(self._buffer.array))
        self._turn = self._buffer.take()
        self.forget()

    def tighten(self):
        self.products.tighten()

    def _mix(self, before):
        """Have the state keep its share of the plan before; returns its marginals."""
        for some in row_blocks(*self.problem.shape):
            self.state[some] *= 1.0 - self._damping
            self.state[some] += self._damping * before[some]
        return (self.state.sum(axis=axis, dtype=np.float64) for axis in (1, 0))

    def distance_to(self, plan):
        """Of the state, the sum of absolute differences and their Frobenius norm."""
        return _kernels.distance(self.state, plan, self.n_threads)

    def _beside(self):
        """What moves with the product; the entropy nearly does."""
        if self.problem.is_balanced:
            return np.empty(0)
        return np.concatenate([np.ravel(one) for one in self.standing()])

    def _move(self, beside):
        if beside.size:
            marginals = np.split(np.maximum(beside[:-1], 0.0), self.problem.shape[:1])
            self._standing = *marginals, float(beside[-1])
            self._separate(*marginals)

    def forget(self):
        given = *self.problem.shape, self._depth, SAMPLE_ROWS[self.precision.itemsize]
        products = self.products if self.products.keeps_last else None
        goes_ahead = self.mechanisms.extrapolation_ahead
        self._history = PlanHistory(*given, products, goes_ahead=goes_ahead)

    def _settle(self):
        """Have the products take what they need of the last one before the buffer has
        something else.
        """
        if self._turn == self._buffer.turn:
            self.products.settle(self._buffer.array)
        else:
            self.products.unsettle()

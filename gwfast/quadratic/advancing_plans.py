"""What linearizations whose state is the plan do to make many iterations in one call,
where they are of few points: see short_steps.py.
"""

import numpy as np

from ..kernels import _outer_steps
from ..linear.log_domain import Potentials
from ..linear.sinkhorn_solver import LinearSolution
from .linearization import Linearization, Update, not_negative
from .methods import PGD, Stepped

# Multiplications of an iteration up to which calls from Python take as long as all that
# they do.
MOST_WORK = 2 * 128**3


class AdvancingPlans(Linearization):
    """The part in that of `Dense`."""

    @property
    def is_small(self):
        n, m = self.problem.shape
        plain = self._fixed and self.method is PGD and self.products.is_plain
        plain = plain and self.mechanisms.short_steps
        return plain and n * m * (n + m) <= MOST_WORK

    def advance(self, most, epsilon, potentials, *, change, value, **options):
        cost, unit, fused = self._buffer.array, self.cost_scale, self._fused
        if self._turn != self._buffer.turn:
            self._buffer.take()
            self._fill(cost)
        plan, f, g = self.state.copy(), potentials.f.copy(), potentials.g.copy()
        rows, cols = np.empty(len(f)), np.empty(len(g))
        steps = np.empty((most, len(_outer_steps.FIELDS)))
        done, status = _outer_steps.outer_steps(
            *self.products.bilinear.factors,
            fused and fused.matrix,
            *(plan, cost, f, g, self.problem.p, self.problem.q),
            *(self.row_cost / unit, self.col_cost / unit, rows, cols, steps),
            *(epsilon, change, value),
            peak=self.precision.peak,
            drift=self.precision.drift,
            **options,
        )
        self._turn = self._buffer.take()
        if not done:
            return [], status, value
        self.state, self._standing = plan, (rows, cols, None)
        self.forget()
        solved = Potentials(f, g), rows, cols
        made = [self._stepped(one, *solved) for one in steps[:done].tolist()]
        self._change = made[-1].update.change
        separable, product, linear = steps[done - 1, :3].tolist()
        return made, status, separable + product + linear

    def _stepped(self, step, potentials, rows, cols):
        """What a row of `steps` says, with potentials and marginals of the last."""
        separable, product, half = (self.cost_scale * one for one in step[:3])
        change, moved, error, n_inner = step[3:]
        # Where marginals are fixed the mass is one.
        gw_cost = self._total(separable, product, half, 1.0)
        update = Update(gw_cost, change, rows, cols, moved, bilinear=product - half)
        solution = LinearSolution(potentials, None, int(n_inner))
        return Stepped(None, solution, update, int(n_inner), error, error, 0.0)

    def _total(self, separable, bilinear, half, mass):
        """An objective from its parts, the last of them half of the linear term."""
        if self._fused is None:
            return not_negative(separable, bilinear)
        return separable + bilinear + half + self._fused.separable * mass

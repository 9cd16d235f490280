"""What outer loops and linearizations tell of where they stand, and how others go on
from there on the same costs, in another process as well: trees as `utils.trees` writes
them.

They have what makes a state, and no memory of earlier products and steps. The other
loop takes up plan and potentials as after a warm start, so it ends at the same optimum
within the tolerances, not at the same bits.
"""

import dataclasses
import time

import numpy as np

from ..linear.log_domain import Potentials
from ..linear.marginals import restored_potentials
from ..linear.sinkhorn_solver import in_units
from ..problems.epsilon import Schedule
from ..results.result import OuterStep
from ..utils.trees import as_saved
from .circles import Circles
from .linearization import Linearization
from .methods import PGD


@dataclasses.dataclass(frozen=True, eq=False)
class Before:
    """What a restored loop comes after; of the attributes of a `Solution` what a loop
    takes from that.
    """

    potentials: Potentials | None
    change: float
    history: list
    moves: list
    seconds: float

    @classmethod
    def of(cls, saved, shape):
        """What a tree of `ResumableLoop.export` has, for a problem of this shape."""
        potentials = saved["potentials"]
        if potentials is not None:
            potentials = restored_potentials(potentials, shape)
        history = [
            OuterStep(int(number), *map(float, others), int(n_inner), float(seconds))
            for number, *others, n_inner, seconds in saved["history"]
        ]
        moves = [float(moved) for moved in saved["moves"]]
        if len(moves) != len(history):
            raise ValueError("expected a move of each iteration")
        numbers = float(saved["change"]), history, moves, float(saved["seconds"])
        return cls(potentials, *numbers)

    def potentials_for(self, linearization):
        """Those that there were: the costs are the same."""
        return self.potentials


class ResumableLoop:
    """An outer loop's part in that."""

    @classmethod
    def restored(cls, linearization, saved, *, method=PGD):
        """A loop that goes on from what `export` described, on the same costs.
        OutOfTime after the deadline of the linearization.
        """
        began = time.perf_counter()
        values = {name: float(value) for name, value in saved["epsilons"].items()}
        epsilons, gw_cost = Schedule(**values), float(saved["gw_cost"])
        before = Before.of(saved, linearization.problem.shape)
        units = linearization.cost_scale, linearization.precision
        epsilon = in_units(epsilons.at(len(before.history)), *units)
        linearization.restore(saved["linearization"], before.change, epsilon)
        seconds = time.perf_counter() - began
        kind = dict(method=method, after=before, update_seconds=seconds)
        loop = cls(linearization, epsilons, gw_cost, **kind)
        # Rougher inner solutions than before would lead away from where it stood, and
        # each circle takes tens of iterations to be seen.
        loop._schedule.allow(int(saved["inner_limit"]))
        loop._circles = Circles(int(saved["n_circles"]))
        return loop

    def export(self):
        """Where the loop stands after an iteration: a tree of arrays, numbers and
        texts, good until it goes on.
        """
        last = self.history[-1].seconds if self.history else 0.0
        return dict(
            linearization=self.linearization.export(),
            potentials=self._potentials and self._potentials.export(),
            epsilons=dataclasses.asdict(self.epsilons),
            gw_cost=self.gw_cost,
            change=self.change,
            history=self.history,
            moves=self._moves,
            seconds=max(self.seconds, last),
            inner_limit=self._schedule.limit,
            n_circles=self._circles.n_found,
        )

    @property
    def potentials(self):
        """`Potentials` of the last linear problem, or None before it."""
        return self._potentials

    @property
    def update_seconds(self):
        """What the last `Update` took."""
        return self._seconds


class ResumableDense(Linearization):
    """The part in that of a linearization whose state is the plan."""

    def export(self):
        return dict(state=self.state, damping=self._damping)

    def restore(self, saved, change, epsilon):
        plan = as_saved(saved["state"], self.problem.shape, self.precision.dtype)
        self._change, self._damping = change, float(saved["damping"])
        self.start(plan, epsilon=epsilon)


class ResumableFactored(Linearization):
    """That of one whose state is the matrix of factors."""

    def export(self):
        steps = self._anderson
        return dict(state=steps.last[1] if steps.has_steps else self.state)

    def restore(self, saved, change, epsilon):
        self.state = as_saved(saved["state"], self._terms.ranks, np.float64)
        self._change = change

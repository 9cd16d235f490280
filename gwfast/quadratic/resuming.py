"""What outer loops and dense linearizations tell of where they stand, and take up again
on the same costs, in another process as well: trees as `utils.trees` writes them.
"""

import dataclasses

import numpy as np

from ..kernels._rows import aligned_empty
from ..linear.marginals import restored_potentials
from ..linear.truncation import Support
from ..problems.epsilon import Schedule
from ..results.result import OuterStep
from ..utils.trees import as_saved
from .linearization import Linearization
from .methods import PGD


class ResumableLoop:
    """An outer loop's part in that."""

    @classmethod
    def restored(cls, linearization, saved, *, method=PGD):
        """The loop that `export` described, on the same costs."""
        epsilons = {name: float(value) for name, value in saved["epsilons"].items()}
        schedule, gw_cost = Schedule(**epsilons), float(saved["gw_cost"])
        loop = cls(linearization, schedule, gw_cost, method=method)
        loop._restore(saved)
        return loop

    def _restore(self, saved):
        self.linearization.restore(saved["linearization"])
        potentials, shape = saved["potentials"], self.linearization.problem.shape
        if potentials is not None:
            self._potentials = restored_potentials(potentials, shape)
        self.change, self.seconds = float(saved["change"]), float(saved["seconds"])
        self.history = [
            OuterStep(int(number), *map(float, others), int(n_inner), float(seconds))
            for number, *others, n_inner, seconds in saved["history"]
        ]
        self._moves = [float(moved) for moved in saved["moves"]]
        self._settled, self._confirming, *_ = map(bool, saved["settled"])
        self._schedule.restore(saved["schedule"])
        self._extrapolation.restore(saved["extrapolation"])
        self._circles.restore(saved["circles"], shape)
        self._contraction.restore(saved)
        self._short_steps.restore(saved["short_steps"])

    def export(self):
        """Where the loop stands after an iteration: a tree of arrays, numbers and
        texts, good until it goes on.
        """
        last = self.history[-1].seconds if self.history else 0.0
        return dict(
            linearization=self.linearization.export(),
            epsilons=dataclasses.asdict(self.epsilons),
            potentials=self._potentials and self._potentials.export(),
            gw_cost=self.gw_cost,
            change=self.change,
            history=self.history,
            moves=self._moves,
            seconds=max(self.seconds, last),
            settled=(self._settled, self._confirming),
            schedule=self._schedule.export(),
            extrapolation=self._extrapolation.export(),
            circles=self._circles.export(),
            contraction=self._contraction.bound,
            short_steps=self._short_steps.export(),
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
        buffer = self._buffer
        self._settle()
        return dict(
            plan=self.state,
            # Elsewhere it is made anew, of the plan itself.
            product=buffer.array if self._turn == buffer.turn else None,
            separable=(self.row_cost, self.col_cost),
            standing=self._standing,
            epsilon=self._epsilon,
            change=self._change,
            history=self._history.export(),
            products=self.products.export(),
            was_whole=self._was_whole,
            damping=self._damping,
        )

    def restore(self, saved):
        kind = self.problem.shape, self.precision.dtype
        self.state = aligned_empty(*kind)
        np.copyto(self.state, as_saved(saved["plan"], *kind))
        self._turn, product = None, saved["product"]
        if product is not None:
            np.copyto(self._buffer.array, as_saved(product, *kind))
            self._turn = self._buffer.take()
        self.row_cost, self.col_cost = (
            as_saved(one, (size,), np.float64)
            for one, size in zip(saved["separable"], self.problem.shape, strict=True)
        )
        *marginals, entropy = saved["standing"]
        self._standing = *map(np.asarray, marginals), entropy
        self._epsilon, self._change = float(saved["epsilon"]), float(saved["change"])
        self.forget()
        self._history.restore(saved["history"], *kind)
        self.products.restore(saved["products"], *kind)
        self._was_whole = bool(saved["was_whole"])
        self._damping = float(saved.get("damping", 0.0))


class ResumableFactored(Linearization):
    """That of one whose state is the matrix of factors."""

    def export(self):
        return dict(
            state=self.state,
            change=self._change,
            truncate_below=self._truncate_below,
            support=self._support and self._support.export(),
            steps=self._anderson.export(),
        )

    def restore(self, saved):
        state = self._terms.ranks, np.float64
        self.state = as_saved(saved["state"], *state)
        self._change = float(saved["change"])
        self._truncate_below = float(saved["truncate_below"])
        self._support, support = None, saved["support"]
        if support is not None:
            self._support = self._restored(support)
        self.forget()
        self._anderson.restore(saved["steps"], *state)

    def _restored(self, support):
        given = self.problem.shape, self._terms.ranks[1]
        given += self._shared.lengths, self.n_threads
        return Support.restored(support, *given)

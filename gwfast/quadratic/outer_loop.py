"""The outer loop: linearize at the plan, solve the linear problem, repeat (projected
gradient descent of Peyre, Cuturi and Solomon, ICML 2016; Algorithm 1 of Alvarez-Melis
and Jaakkola, EMNLP 2018).

Three things differ from the textbook loop, and none changes its fixed points. The
potentials of one linear problem start the next. Early linear problems are solved only
as exactly as the plan still moves (inner_schedule.py). And the state may move to where
its last steps lead (acceleration.py).
"""

import dataclasses
import functools
import time

import numpy as np

from ..linear.log_domain import Potentials
from ..linear.sinkhorn_solver import in_units
from ..problems.epsilon import Schedule
from ..results.result import LiveStep, OuterStep
from ..results.status import Status
from ..utils.trees import as_saved
from .acceleration import Accelerator
from .cycles import Cycles
from .methods import PGD, step_of
from .monitor import Monitor
from .sampled import SampleAccelerator
from .small_descent import SmallDescent, outer_steps
from .solution import Solution


class OuterLoop:
    """Outer iterations from one start. `run` may be called again with other limits;
    loops whose linearizations share buffers take turns.

    Parameters
    ----------
    linearization : Linearization
        With its state set.
    epsilons : Schedule
        Epsilon of each iteration.
    gw_cost : float
        Objective of the state.
    method : Method, default=PGD
    potentials : Potentials or None, default=None
        Start of the first linear problem.
    after : Solution, Before or None, default=None
        The end of a warm start, whose potentials and history the loop takes over.
    update_seconds : float, default=0.0
        Estimated seconds of the first `Update`.

    Attributes
    ----------
    gw_cost, change : float
        Objective and relative change after the last iteration.
    history : list of OuterStep
    potentials : Potentials or None
        Of the last linear problem.
    update_seconds : float
        Seconds of the last `Update`.
    """

    def __init__(
        self,
        linearization,
        epsilons,
        gw_cost,
        *,
        method=PGD,
        potentials=None,
        after=None,
        update_seconds=0.0,
    ):
        self.linearization, self.epsilons = linearization, epsilons
        self.gw_cost, self.change, self.potentials = gw_cost, 1.0, potentials
        self.history, self._moves, self.seconds = [], [], 0.0
        self.update_seconds = update_seconds
        if after is not None:
            self.potentials = after.potentials_for(linearization)
            self.change, self.seconds = after.change, after.seconds
            self.history, self._moves = [*after.history], [*after.moves]
        self._method = method
        self._monitor = Monitor(linearization, epsilons)
        self._accelerator = Accelerator(linearization)
        if linearization.samples:
            given = linearization, type(self), epsilons.last
            self._accelerator = SampleAccelerator(*given)
        self._small = SmallDescent(linearization)

    @functools.cached_property
    def _step(self):
        return step_of(self._method, self.linearization)

    @classmethod
    def restored(cls, linearization, saved, *, method=PGD):
        """A loop for the same costs that goes on from a tree of `export`, with its plan
        and potentials. OutOfTime after the deadline of the linearization.
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
        # Rougher inner solutions would lead away from the plan, and a cycle takes tens
        # of iterations to be found.
        loop._monitor.schedule.allow(int(saved["inner_limit"]))
        loop._monitor.cycles = Cycles(int(saved["n_cycles"]))
        # The compiled loop knows nothing of all this.
        loop._small.goes_on = False
        return loop

    def export(self):
        """State, potentials and history after an iteration: a tree of arrays, numbers and texts,
        valid until the next iteration. Earlier products and steps are left out.
        """
        last = self.history[-1].seconds if self.history else 0.0
        return dict(
            linearization=self.linearization.export(),
            potentials=self.potentials and vars(self.potentials),
            epsilons=dataclasses.asdict(self.epsilons),
            gw_cost=self.gw_cost,
            change=self.change,
            history=self.history,
            moves=self._moves,
            seconds=max(self.seconds, last),
            inner_limit=self._monitor.schedule.limit,
            n_cycles=self._monitor.cycles.n_found,
        )

    def run(self, limits, callback=None, save=None):
        """Iterate, at least once, until a limit or the tolerances.

        Parameters
        ----------
        limits : Limits
        callback : callable or None, default=None
            Called with a `LiveStep` after every iteration; the loop ends if it returns
            true.
        save : callable or None, default=None
            Called after every iteration but the last, when `export` is valid.

        Returns
        -------
        Solution
        """
        began, status = time.perf_counter() - self.seconds, None
        single = callback is not None or save is not None
        while status is None:
            stepped, status = self._descend_small(limits, began, single, callback)
            if stepped is None:
                stepped, status = self._iterate(limits, began, callback)
            if save is not None and status is None:
                save()
        self.seconds = time.perf_counter() - began
        return Solution(
            status=status,
            gw_cost=self.gw_cost,
            history=tuple(self.history),
            moves=tuple(self._moves),
            seconds=self.seconds,
            linearization=self.linearization,
            stepped=stepped,
        )

    def _iterate(self, limits, began, callback):
        """Make one iteration; returns its `Stepped`, and a status if it is the last."""
        linearization, gw_before = self.linearization, self.gw_cost
        epsilon = self.epsilons.at(len(self.history))
        given = linearization.cost_scale, linearization.precision
        thorough = self._monitor.is_thorough(limits, len(self.history))
        change = self._accelerator.expected * self.change
        options = self._monitor.schedule.options(limits, change, thorough)
        options |= limits.clock(self.update_seconds)
        stepped = self._step(in_units(epsilon, *given), self.potentials, **options)
        # A linear problem that was cut short ends the loop.
        late = limits.late(max(self.update_seconds, stepped.seconds))
        self._record(stepped, began)
        how = dict(thorough=thorough, late=late)
        return stepped, self._judge(stepped, limits, gw_before, callback, **how)

    def _judge(self, stepped, limits, gw_before, callback, *, thorough, late):
        """Judge the last iteration, and accelerate unless the loop ends; returns the
        status or None.
        """
        ended = None
        if callback is not None and self._stops(callback, stepped):
            ended = Status.STOPPED
        # A callback takes time as well.
        elif late or limits.late(stepped.seconds):
            ended = Status.TIME_LIMIT
        accelerator, given = self._accelerator, (stepped, gw_before, limits)
        how = dict(led=accelerator.may_hide, thorough=thorough, ended=ended)
        status, follows = self._monitor.judge(self.history, self._moves, *given, **how)
        if status is None and follows:
            # A move before the last iteration of `max_outer` could not be undone.
            further = len(self.history) + 1 < limits.max_outer
            given = stepped, self.change, gw_before, limits, further
            moved = accelerator.advance(*given)
            if moved is not None:
                self.change, self.gw_cost, potentials = moved
                self.potentials = potentials or self.potentials
        elif status is None:
            accelerator.reset()
        return status

    def _descend_small(self, limits, began, single, callback):
        """Make as many iterations as `SmallDescent` can, or a single one; returns the
        last `Stepped` or None, and a status if the loop ends.
        """
        if single or not self._small.goes_on or limits.deadline.passed():
            return None, None
        given = len(self.history), limits, self.epsilons, self.potentials
        steps, stepped, status = self._small.take(*given)
        self._add(began, *steps)
        if stepped is not None:
            self.potentials = stepped.solution.potentials
            if callback is not None and self._stops(callback, stepped):
                status = Status.STOPPED
            elif status is None and limits.deadline.passed():
                status = Status.TIME_LIMIT
        return stepped, status

    def _record(self, stepped, began):
        update, self.potentials = stepped.update, stepped.solution.potentials
        self.update_seconds = stepped.seconds
        shown = update.gw_cost, update.change, update.moved, stepped.marginal_error
        self._add(began, *([one] for one in (*shown, stepped.n_inner)))

    def _add(self, began, *steps):
        """Add iterations to the history: lists of ``gw_cost, change, moved, error, n_inner``."""
        seconds = time.perf_counter() - began
        if steps:
            before = len(self.history)
            self.history += outer_steps(steps, self.epsilons, seconds, before)
            gw_costs, changes, moves, *_ = steps
            self.gw_cost, self.change = gw_costs[-1], changes[-1]
            self._moves += moves

    def _stops(self, callback, stepped):
        """Call the callback, which sees the last iteration; whether the loop ends."""
        seen = stepped.kernel, stepped.solution
        return LiveStep.stops(
            callback,
            self.history[-1],
            lambda: self.linearization.snapshot(*seen),
            stepped.update.moved,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Before:
    """The iterations before a restored loop, with the attributes of a `Solution` that a
    loop takes over.
    """

    potentials: Potentials | None
    change: float
    history: list
    moves: list
    seconds: float

    @classmethod
    def of(cls, saved, shape):
        """From a tree of `OuterLoop.export`, for a problem of this shape."""
        potentials = saved["potentials"]
        if potentials is not None:
            sides = zip("fg", shape, strict=True)
            potentials = Potentials(*(as_saved(potentials[x], (n,), np.float64) for x, n in sides))
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
        """The potentials as they are, since the costs are the same."""
        return self.potentials

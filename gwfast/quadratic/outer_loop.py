"""The outer loop: linearize at the plan, solve the linear problem, repeat (projected
gradient descent of Peyre, Cuturi and Solomon, ICML 2016; Algorithm 1 of Alvarez-Melis
and Jaakkola, EMNLP 2018).

Three things differ from the textbook loop, and none moves where it ends. The potentials
of one linear problem start the next. Early linear problems are solved only as well as
the plan still moves (inner_schedule.py). And where the last steps say that they
contract the state moves to where they lead (acceleration.py).
"""

import dataclasses
import time

from ..linear.log_domain import Potentials
from ..linear.marginals import restored_potentials
from ..linear.sinkhorn_solver import in_units
from ..problems.epsilon import Schedule
from ..results.result import LiveStep, OuterStep
from ..results.status import Status
from .acceleration import Accelerator
from .cycles import Cycles
from .methods import PGD, step_of
from .monitor import Monitor
from .short_steps import ShortSteps
from .solution import Solution
from .stopping import LOOK_EVERY


class OuterLoop:
    """Outer iterations from one start. A loop can be paused, and taken up again with
    other limits; loops whose linearizations share buffers must take turns.

    Parameters
    ----------
    linearization : Linearization
        With its state set.
    epsilons : Schedule
        What epsilon is in each iteration.
    gw_cost : float
        Objective of the state.
    method : Method, default=PGD
    potentials : Potentials or None, default=None
        Of the first linear problem, nearly.
    after : Solution, Before or None, default=None
        Of costs nearly the same: to go on from its potentials, and its history.
    update_seconds : float, default=0.0
        What an `Update` takes, before there was one.

    Attributes
    ----------
    gw_cost, change : float
        Objective and relative change after the last iteration.
    history : list of OuterStep
    potentials : Potentials or None
        Of the last linear problem.
    update_seconds : float
        What the last `Update` took.
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
        self._step = step_of(method, linearization)
        self._monitor = Monitor(linearization, epsilons)
        self._accelerator = Accelerator(linearization)
        self._short_steps = ShortSteps(linearization, self._monitor.schedule)

    @classmethod
    def restored(cls, linearization, saved, *, method=PGD):
        """A loop that goes on from what `export` described, on the same costs, from
        plan and potentials as after a warm start. OutOfTime after the deadline of the
        linearization.
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
        # each cycle takes tens of iterations to be seen.
        loop._monitor.schedule.allow(int(saved["inner_limit"]))
        loop._monitor.cycles = Cycles(int(saved["n_cycles"]))
        return loop

    def export(self):
        """Where the loop stands after an iteration: a tree of arrays, numbers and
        texts, good until it goes on. It has what makes a state, and no memory of
        earlier products and steps.
        """
        last = self.history[-1].seconds if self.history else 0.0
        return dict(
            linearization=self.linearization.export(),
            potentials=self.potentials and self.potentials.export(),
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
            Called with every step, a `LiveStep`; what it returns may end the loop.
        save : callable or None, default=None
            Called after every iteration but the last, when `export` has where the loop
            stands.

        Returns
        -------
        Solution
        """
        began, status = time.perf_counter() - self.seconds, None
        at_once = LOOK_EVERY if callback is None and save is None else 1
        while status is None:
            stepped, status = self._take_short_steps(limits, began, callback, at_once)
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
        """One iteration; returns what it did, and a status if it was the last."""
        linearization, gw_before = self.linearization, self.gw_cost
        epsilon = self.epsilons.at(len(self.history))
        given = linearization.cost_scale, linearization.precision
        thorough = self._monitor.is_thorough(limits, len(self.history))
        options = self._monitor.schedule.options(limits, self.change, thorough)
        options |= limits.clock(1, self.update_seconds)
        stepped = self._step(in_units(epsilon, *given), self.potentials, **options)
        # Of a linear problem that was cut short nothing may go on.
        late = limits.late(max(self.update_seconds, stepped.seconds))
        self._record(stepped, epsilon, began)
        how = dict(thorough=thorough, late=late)
        return stepped, self._judge(stepped, limits, gw_before, callback, **how)

    def _judge(
        self, stepped, limits, gw_before, callback, *, thorough, late, alone=True
    ):
        """See whether the last iteration ends the loop, and why, and go on from where
        the last ones lead if each was made `alone`.
        """
        ended = None
        if callback is not None and self._stops(callback, stepped):
            ended = Status.STOPPED
        # The callback may have taken the time for another iteration.
        elif late or limits.late(stepped.seconds):
            ended = Status.TIME_LIMIT
        accelerator, given = self._accelerator, (stepped, gw_before, limits)
        how = dict(led=accelerator.trial is not None, thorough=thorough, ended=ended)
        verdict = self._monitor.judge(self.history, self._moves, *given, **how)
        if verdict.damped:
            self._short_steps.stop()
        if verdict.status is None:
            if verdict.follows and alone:
                # The last iteration that the limit allows could not be taken back.
                further = len(self.history) + 1 < limits.max_outer
                failed = accelerator.advance(self.change, stepped.error, further)
                if failed is not None:
                    self.gw_cost, self.change = gw_before, failed
            else:
                accelerator.reset()
        return verdict.status

    def _take_short_steps(self, limits, began, callback, at_once):
        """Make iterations up to the first that is to be looked at, so many at once at
        most; returns what the last did, or None where there are none, and a status if
        it was the last of all.
        """
        n_done = len(self.history)
        epsilon = self.epsilons.at(n_done)
        judging = self._monitor.settled or self._accelerator.trial is not None
        if judging or epsilon != self.epsilons.last:
            return None, None
        given = n_done, limits, epsilon, self.potentials, self.change, at_once
        steps, decides = self._short_steps.take(*given)
        for stepped in steps:
            self._record(stepped, epsilon, began)
        if not steps:
            return None, None
        self._accelerator.reset()
        self._monitor.cycles.clear()
        if decides:
            known = limits, self.history[-2].gw_cost, callback
            how = dict(thorough=False, late=False, alone=False)
            return steps[-1], self._judge(steps[-1], *known, **how)
        stops = callback is not None and self._stops(callback, steps[-1])
        return steps[-1], Status.STOPPED if stops else None

    def _record(self, stepped, epsilon, began):
        update, self.potentials = stepped.update, stepped.solution.potentials
        self.gw_cost, self.change = update.gw_cost, update.change
        self.update_seconds = stepped.seconds
        self._moves.append(update.moved)
        self.history.append(
            OuterStep(
                iteration=len(self.history) + 1,
                gw_cost=update.gw_cost,
                epsilon=epsilon,
                change=update.change,
                marginal_error=stepped.marginal_error,
                n_inner=stepped.n_inner,
                seconds=time.perf_counter() - began,
            )
        )

    def _stops(self, callback, stepped):
        """Whether what a callback returns of the last iteration ends the loop."""
        seen = stepped.kernel, stepped.solution
        return LiveStep.stops(
            callback,
            self.history[-1],
            lambda: self.linearization.snapshot(*seen),
            stepped.update.moved,
        )


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
        """What a tree of `OuterLoop.export` has, for a problem of this shape."""
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

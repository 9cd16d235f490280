"""The outer loop: linearize at the plan, solve the linear problem, repeat (projected
gradient descent of Peyre, Cuturi and Solomon, ICML 2016; Algorithm 1 of Alvarez-Melis
and Jaakkola, EMNLP 2018).

Two things differ from the textbook loop, and neither moves where it ends. The
potentials of one linear problem start the next. And early linear problems are solved
only as well as the plan still moves, see inner_schedule.py.
"""

import time

import numpy as np

from ..linear.sinkhorn_solver import in_units
from ..results.status import Status
from .circles import Circles
from .contraction import Contraction
from .extrapolation import extrapolation_of
from .inner_schedule import InnerSchedule
from .methods import PGD, step_of
from .short_steps import ShortLoop, ShortSteps
from .solution import Solution
from .stopping import (
    LOOK_EVERY,
    STALLED_AFTER,
    Seen,
    has_stalled,
    is_low,
    rises,
    stands_still,
)

# Largest change of a plan that may be rounding and still counts as none.
MAX_ROUNDED = 0.01
# Rounding of a plan from which on a step may leave a fixed point that the last one came
# near by chance: at so small an epsilon what is next to nothing grows to everything in
# an iteration. A small change has to be followed by another.
UNSTABLE = 1e-3
# Iterations of which a plan has to be the lowest before proximal steps that lead too
# far are damped: they wander, without a period. Of 200 random semi-relaxed problems of
# up to 12 points 1 ended above POT's loss with 20 of them, none with 200.
WANDERS = 200


class OuterLoop(ShortLoop):
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
        self.gw_cost, self.change, self._potentials = gw_cost, 1.0, potentials
        self.history, self._moves, self.seconds = [], [], 0.0
        self._seconds = update_seconds
        if after is not None:
            self._potentials = after.potentials_for(linearization)
            self.change, self.seconds = after.change, after.seconds
            self.history, self._moves = [*after.history], [*after.moves]
        self._step = step_of(method, linearization)
        self._schedule, self._circles = InnerSchedule(linearization), Circles()
        self._short_steps = ShortSteps(linearization, self._schedule)
        self._extrapolation = extrapolation_of(linearization)
        self._contraction = Contraction(linearization, epsilons.last)
        # Whether the last iteration had settled, and whether it lacked but a last look.
        self._settled = self._confirming = False

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
        # The last plan that the limit allows has to keep its marginals too.
        thorough = self._settled or self._circles.ends
        thorough = thorough or len(self.history) + 1 >= limits.max_outer
        options = self._schedule.options(limits, self.change, thorough)
        options |= limits.clock(1, self._seconds)
        stepped = self._step(in_units(epsilon, *given), self._potentials, **options)
        # Of a linear problem that was cut short nothing may go on.
        late = limits.late(max(self._seconds, stepped.seconds))
        self._record(stepped, epsilon, began)
        how = dict(thorough=thorough, late=late)
        return stepped, self._judge(stepped, limits, gw_before, callback, **how)

    def _judge(
        self, stepped, limits, gw_before, callback, *, thorough, late, alone=True
    ):
        """See whether the last iteration ends the loop, and why, and go on from where
        the last ones lead if each was made `alone`.
        """
        linearization, precision = self.linearization, self.linearization.precision
        epsilon = self.history[-1].epsilon
        inner_epsilon = in_units(epsilon, linearization.cost_scale, precision)
        # Rounding the linearized cost moves its plan by about this much, and the
        # product that makes it, by up to four times as much.
        floor = precision.rounding / inner_epsilon
        # The objective is a small difference of larger terms; where it is zero (an
        # exact match) their rounding is all that moves.
        rounding = precision.cost_rounding * linearization.magnitude
        seen = self._look(limits, gw_before, floor, rounding)
        rose = self.gw_cost > gw_before + seen.cost_tol
        stands = stands_still(self.history, seen.cost_tol)
        self._schedule.adapt(stepped.error, self.change, rose, stands)
        final = epsilon == self.epsilons.last
        hidden = self._settle(seen, limits.rule, final)
        status = self._status(stepped, limits, thorough, late, final, floor, callback)
        proximal = linearization.method.proximal
        looked_at = WANDERS if proximal else STALLED_AFTER
        low = is_low(self.history, seen.cost_tol, looked_at)
        if status in (None, Status.MAX_OUTER) and self._circles.ends:
            status = Status.CIRCLE if thorough and low else status
        if status is None:
            # Proximal steps that are not too large let the objective fall.
            too_far = proximal and stands and rises(self.history, rounding)
            damped = self._damp(inner_epsilon, too_far, low)
            tried = final and alone and not self._confirming and not hidden
            if tried and not damped:
                # The last iteration that the limit allows could not be taken back.
                further = len(self.history) + 1 < limits.max_outer
                failed = self._extrapolation.advance(
                    stepped, epsilon, rounding, further
                )
                if failed is not None:
                    self.gw_cost, self.change = gw_before, failed.change
            else:
                self._extrapolation.reset()
        return status

    def _look(self, limits, gw_before, floor, rounding):
        """What a rule is to judge."""
        rounded = self.linearization.change_is_rounded
        tol = max(limits.tol, floor) if rounded else limits.tol
        return Seen(
            iteration=len(self.history),
            change=self.change,
            moved=self._moves[-1],
            moved_before=self._moves[-2:][0],
            gw_cost=self.gw_cost,
            gw_before=gw_before,
            cost_tol=tol * abs(self.gw_cost) + rounding,
            floor=floor,
            tol=tol,
            asked_tol=limits.tol,
            confirming=self._confirming,
            precision=self.linearization.precision,
            contracts=self._contraction.is_sure,
        )

    def _settle(self, seen, rule, final):
        """Judge whether the loop has settled; returns whether extrapolation would hide
        that.
        """
        settled, hidden = rule.judge(seen)
        if self.linearization.change_is_rounded:
            settled = settled or has_stalled(self.history, 4 * seen.floor)
        self._settled = final and settled
        # An extrapolated step may be small by chance, and only a part of the kernel may
        # have settled: one more.
        self._confirming = self._settled and (
            self._extrapolation.trial is not None
            or self.linearization.use_full_kernel()
            or self._may_leave(seen)
        )
        return hidden

    def _may_leave(self, seen):
        """Whether a small change may be the first of ever larger ones."""
        if seen.floor <= UNSTABLE or not self.linearization.change_is_rounded:
            return False
        growing = seen.change > 2 * self.history[-2:][0].change
        return not seen.confirming or (growing and seen.change > seen.asked_tol)

    def _status(self, stepped, limits, thorough, late, final, floor, callback):
        """Why the loop ends with the last iteration, or None."""
        settled = self._settled and not self._confirming
        precision, linearization = self.linearization.precision, self.linearization
        if callback is not None:
            if self._stops(callback, stepped):
                return Status.STOPPED
        if settled and stepped.error <= limits.marginal_tol:
            # What rounding excuses has not converged where it is most of the plan;
            # only where all costs are the same is the product plan right nevertheless.
            rounded = linearization.change_is_rounded and floor >= 1.0
            rounded = rounded and np.abs(linearization.deviation()).max() > MAX_ROUNDED
            moving = self.change > max(limits.tol, MAX_ROUNDED)
            return Status.PRECISION if rounded or moving else Status.CONVERGED
        # The callback may have taken the time for another iteration.
        if late or limits.late(stepped.seconds):
            return Status.TIME_LIMIT
        if settled and thorough:
            # Nothing moves, and the marginals are as good as they get.
            spent = stepped.n_inner >= limits.max_inner
            return Status.MAX_INNER if spent else Status.PRECISION
        stalled = final and has_stalled(self.history, max(precision.stalled, floor))
        if stalled and not linearization.use_full_kernel():
            return Status.PRECISION
        if len(self.history) >= limits.max_outer:
            return Status.MAX_OUTER
        return None

"""The monitor of an outer loop judges each iteration: whether later linear problems are
solved more exactly, whether steps are damped, and whether and why the loop ends.
"""

import numpy as np

from ..linear.sinkhorn_solver import in_units
from ..results.status import Status
from .cycles import Cycles
from .inner_schedule import InnerSchedule
from .stopping import STALLED_AFTER, UNSTABLE, Seen, has_stalled, is_low, rises, stands_still

# Largest change of a plan that counts as converged where it is rounding.
MAX_ROUNDED = 0.01
# An unbalanced plan is lost if its mass stays below this fraction of the mass of the product
# plan for `STALLED_AFTER` iterations.
GONE = 1e-4
# Iterations among which a plan has to be the lowest before proximal steps that overshoot are
# damped: such steps wander, without a period. Of 200 random semi-relaxed problems of up to 12
# points one ended above POT's loss with 20 iterations, none with 200.
WANDERS = 200


class Monitor:
    """The monitor of one loop.

    Parameters
    ----------
    linearization : Linearization
    epsilons : Schedule

    Attributes
    ----------
    schedule : InnerSchedule
    cycles : Cycles
    settled : bool
        Whether the last iteration had settled, perhaps without confirmation.
    """

    def __init__(self, linearization, epsilons):
        self._linearization, self._last_epsilon = linearization, epsilons.last
        self.schedule, self.cycles = InnerSchedule(linearization), Cycles()
        self.settled, self._confirming, self._n_gone = False, False, 0

    def is_thorough(self, limits, n_done):
        """Whether the next plan may be the last, whose marginals have to be exact; so
        is the last one within `max_outer`.
        """
        return self.settled or self.cycles.ends or n_done + 1 >= limits.max_outer

    def judge(self, history, moves, stepped, gw_before, limits, *, led, thorough, ended):
        """Judge the last iteration.

        Parameters
        ----------
        history : list of OuterStep
        moves : list of float
            Frobenius norms of the changes of the plan by the same iterations.
        stepped : Stepped
            What the last iteration has done.
        gw_before : float
            Objective before it.
        limits : Limits
        led : bool
            Whether acceleration had moved the state before it.
        thorough : bool
            The value of `is_thorough` before it.
        ended : Status or None
            Why the loop ends unless the iteration has settled.

        Returns
        -------
        status : Status or None
            Why the loop ends; None if it goes on.
        follows : bool
            Whether acceleration may move the state.
        """
        linearization, last = self._linearization, history[-1]
        precision, proximal = linearization.precision, linearization.method.proximal
        epsilon = in_units(last.epsilon, linearization.cost_scale, precision)
        # Rounding of the linearized cost moves the plan by about this much, rounding
        # of the product in it by up to four times as much.
        floor = precision.rounding / epsilon
        # The objective is a small difference of larger terms; where it is zero (an
        # exact match) only their rounding changes it.
        rounding = precision.cost_rounding * linearization.magnitude
        given = history, moves, gw_before, limits, floor, rounding
        seen = self._seen(*given, stepped.error)
        stands = stands_still(history, seen.cost_tol)
        rose = last.gw_cost > gw_before + seen.cost_tol
        self.schedule.adapt(stepped.error, last.change, rose, stands)
        rule = linearization.problem.rule
        gone = rule.is_relaxed and stepped.update.rows.sum() < GONE * rule.mass
        self._n_gone = self._n_gone + 1 if gone else 0
        hidden = self._settle(seen, limits.rule, history, led)
        status = self._status(stepped, limits, history, thorough, floor, ended)
        low = is_low(history, seen.cost_tol, WANDERS if proximal else STALLED_AFTER)
        if status in (None, Status.MAX_OUTER) and self.cycles.ends and thorough and low:
            status = Status.CYCLE
        damped = False
        if status is None:
            # Proximal steps that are small enough never raise the objective.
            too_far = proximal and stands and rises(history, rounding)
            damped = self._damp(stepped, epsilon, too_far, low)
        final = last.epsilon == self._last_epsilon
        follows = final and not (self._confirming or hidden or damped)
        return status, follows

    def _seen(self, history, moves, gw_before, limits, floor, rounding, error):
        """The iteration as a stopping rule sees it."""
        last, rounded = history[-1], self._linearization.change_is_rounded
        tol = max(limits.tol, floor) if rounded else limits.tol
        return Seen(
            iteration=len(history),
            change=last.change,
            moved=moves[-1],
            moved_before=moves[-2:][0],
            gw_cost=last.gw_cost,
            gw_before=gw_before,
            cost_tol=tol * abs(last.gw_cost) + rounding,
            inexact=error * self._linearization.magnitude,
            floor=floor,
            tol=tol,
            asked_tol=limits.tol,
            confirming=self._confirming,
            precision=self._linearization.precision,
        )

    def _settle(self, seen, rule, history, led):
        """Judge whether the loop has settled; returns whether acceleration would hide that."""
        settled, hidden = rule.judge(seen)
        if self._linearization.change_is_rounded:
            settled = settled or has_stalled(history, 4 * seen.floor)
        self.settled = settled and history[-1].epsilon == self._last_epsilon
        # A step after acceleration may be small by chance, and approximate products
        # may settle where exact ones would not: one more iteration confirms.
        self._confirming = self.settled and (
            led or self._linearization.use_full_kernel() or self._may_leave(seen, history)
        )
        return hidden

    def _may_leave(self, seen, history):
        """Whether a small change may be the first of growing ones."""
        if seen.floor <= UNSTABLE or not self._linearization.change_is_rounded:
            return False
        growing = seen.change > 2 * history[-2:][0].change
        return not seen.confirming or (growing and seen.change > seen.asked_tol)

    def _status(self, stepped, limits, history, thorough, floor, ended):
        """Why the loop ends after the last iteration, or None."""
        settled = self.settled and not self._confirming
        linearization, change = self._linearization, history[-1].change
        precision = linearization.precision
        if ended == Status.STOPPED:
            return ended
        if settled and stepped.error <= max(limits.marginal_tol, self.schedule.least_error):
            # Where rounding is as large as the plan nothing has converged, unless all
            # costs are equal and the product plan is right.
            rounded = linearization.change_is_rounded and floor >= 1.0
            rounded = rounded and np.abs(linearization.deviation()).max() > MAX_ROUNDED
            moving = change > max(limits.tol, MAX_ROUNDED)
            return Status.PRECISION if rounded or moving else Status.CONVERGED
        if ended is not None:
            return ended
        if self._n_gone >= STALLED_AFTER:
            return Status.LOST_MASS
        if settled and thorough:
            # The plan stands still, and its marginals do not get better.
            spent = stepped.n_inner >= limits.max_inner
            return Status.MAX_INNER if spent else Status.PRECISION
        final = history[-1].epsilon == self._last_epsilon
        stalled = final and has_stalled(history, max(precision.stalled, floor))
        if stalled and not linearization.use_full_kernel():
            return Status.PRECISION
        return Status.MAX_OUTER if len(history) >= limits.max_outer else None

    def _damp(self, stepped, epsilon, too_far, low):
        """Damp the steps if they cycle; returns whether they are damped from now on."""
        linearization = self._linearization
        if linearization.method.alternating:
            return False  # half-steps alternate between both marginals by design
        given = stepped.solution.potentials, epsilon, stepped.update.change
        damps = self.cycles.add(*given, too_far=too_far, low=low)
        if damps and not linearization.damp():
            self.cycles.give_up()
        return damps

"""Outer iterations of small problems between which there is nothing to decide, made
many in one call (kernels/_outer_steps.pyx): calls from Python for each would take
longer than all that they do. The outer loop makes the others, the first among them, and
looks at the last of each row.
"""

import time

from ..kernels._outer_steps import DECIDE, MORE, OTHERWISE
from ..linear.sinkhorn_solver import MARGIN, in_units
from ..results.result import LiveStep, OuterStep
from ..results.status import Status
from .extrapolation import MAX_CHANGE
from .resuming import ResumableLoop
from .stopping import LOOK_EVERY

# Sinkhorn iterations of one linear problem. Longer ones are over-relaxed, elsewhere.
MOST_INNER = 64
# The mean factor of the change from one iteration to the next from which on
# extrapolation does better; and iterations before which a large one need not fall.
PAYS, EARLY = 0.8, 30


class ShortSteps:
    """Takes such iterations for an outer loop, in rows of up to `LOOK_EVERY`. How many
    of a row are made at once is seen nowhere in what comes of them.

    Parameters
    ----------
    linearization : Linearization
    schedule : InnerSchedule
    """

    def __init__(self, linearization, schedule):
        self._linearization, self._schedule = linearization, schedule
        self._pays = linearization.is_small
        # Whether since the last regular look a row has ended for one, in vain.
        self._looked = False
        # Of the row that has begun, if one has: iterations and change before it, and
        # the objective after the last iteration as the kernel has it.
        self._begun, self._value = None, float("inf")

    def stop(self):
        """Leave all iterations from now on to the loop."""
        self._pays = False

    def take(self, done, limits, epsilon, potentials, change, at_once=LOOK_EVERY):
        """Iterate until there is something to decide, or the next iteration is one to
        be looked at, or the last that the limit allows.

        Parameters
        ----------
        done : int
            Iterations so far.
        limits : Limits
        epsilon : float
            Of all these iterations.
        potentials : Potentials
        change : float
            By the last iteration, relatively.
        at_once : int, default=LOOK_EVERY
            How many are made at most; the row may then go on.

        Returns
        -------
        list of Stepped
            None where the next iteration is to be made otherwise.
        bool
            Whether the last is one to be looked at.
        """
        since = (done - 1) % LOOK_EVERY
        most = min(LOOK_EVERY - 1 - since, limits.max_outer - done - 1)
        if not (self._pays and done) or most < 1 or limits.deadline.passed():
            self._begun = None
            return [], False
        if self._begun is None:
            self._begun, self._value = (done, change), float("inf")
            self._looked = self._looked and since > 0
        linearization = self._linearization
        given = linearization.cost_scale, linearization.precision
        steps, status, self._value = linearization.advance(
            min(most, at_once),
            in_units(epsilon, *given),
            potentials,
            change=change,
            value=self._value,
            **self._options(limits),
        )
        if status != MORE or len(steps) == most:
            self._end(done, steps, status)
        return steps, status == DECIDE

    def _end(self, done, steps, status):
        """End the row with these steps, before which there were so many."""
        (before, change), self._begun = self._begun, None
        self._looked = self._looked or status == DECIDE
        # A linear problem that takes another solver, as the next ones will.
        self._pays = status != OTHERWISE
        if self._pays:
            done, after = done + len(steps), steps[-1].update.change
            early = after > MAX_CHANGE and done <= EARLY
            self._pays = early or after <= PAYS ** (done - before) * change

    def _options(self, limits):
        """When inner iterations end, and when these do."""
        linearization = self._linearization
        fraction, rough, least, most = self._schedule.bounds(limits)
        ends = (0.0, 0.0) if self._looked else limits.rule.may_end_at(limits.tol)
        rounding = linearization.precision.cost_rounding * linearization.magnitude
        return dict(
            fraction=MARGIN * fraction,
            rough=MARGIN * rough,
            least=MARGIN * least,
            most_inner=min(most, MOST_INNER),
            least_change=ends[0],
            least_moved=ends[1],
            tol=limits.tol,
            rounding=rounding / linearization.cost_scale,
        )


class ShortLoop(ResumableLoop):
    """An outer loop's part in that, and what it does with iterations however made."""

    def _take_short_steps(self, limits, began, callback, at_once):
        """Make iterations up to the first that is to be looked at, so many at once at
        most; returns what the last did, or None where there are none, and a status if
        it was the last of all.
        """
        n_done = len(self.history)
        epsilon = self.epsilons.at(n_done)
        judging = self._settled or self._extrapolation.trial is not None
        if judging or epsilon != self.epsilons.last:
            return None, None
        given = n_done, limits, epsilon, self._potentials, self.change, at_once
        steps, decides = self._short_steps.take(*given)
        for stepped in steps:
            self._record(stepped, epsilon, began)
        if not steps:
            return None, None
        self._extrapolation.reset()
        self._circles.clear()
        if decides:
            known = limits, self.history[-2].gw_cost, callback
            how = dict(thorough=False, late=False, alone=False)
            return steps[-1], self._judge(steps[-1], *known, **how)
        stops = callback is not None and self._stops(callback, steps[-1])
        return steps[-1], Status.STOPPED if stops else None

    def _record(self, stepped, epsilon, began):
        update, self._potentials = stepped.update, stepped.solution.potentials
        self.gw_cost, self.change = update.gw_cost, update.change
        self._seconds = stepped.seconds
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

    def _damp(self, epsilon, too_far, low):
        """Have steps that go round be shorter; returns whether they are from now on."""
        if self.linearization.method.alternating:
            return False  # each half-step meets one marginal, and moves to and fro
        given = self._potentials, epsilon, self.change
        damps = self._circles.add(*given, too_far=too_far, low=low)
        if damps:
            self._short_steps.stop()
            if not self.linearization.damp():
                self._circles.give_up()
        return damps

    def _stops(self, callback, stepped):
        """Whether what a callback returns of the last iteration ends the loop."""
        linearization = self.linearization
        live = LiveStep.of(
            self.history[-1],
            lambda: linearization.snapshot(stepped.kernel, stepped.solution),
            stepped.update.moved,
        )
        try:
            return bool(callback(live))
        finally:
            live.expire()

"""When to go on from where the last plans lead instead of from the last plan, and when
to take that back: a state machine of three states.

- idle: steps are watched until extrapolation looks safe;
- trial: the state was extrapolated, and the next step shows whether that was any good;
- cooldown: it was not, and nothing is extrapolated for some iterations.
"""

from typing import NamedTuple

import numpy as np

from .anderson import DEPTH, Lead
from .information import mutual_information

# Relative change of an outer iteration below which the next ones are extrapolated.
MAX_CHANGE = 0.05
# Guarded: the smallest fraction of the mutual information that a plan could have at
# which extrapolation is tried. Where the plan says little yet it may be about to leave
# a saddle; extrapolation would settle there before that shows.
MIN_INFORMATION = 0.2
# The largest factor by which the change may grow after going further ahead: steps that
# leave a saddle do.
AHEAD_GROWTH = 2.0
# Contracting: the change below which steps are trusted, and the largest factor by which
# the change may grow after an extrapolation. Deepening: the same of the change. States
# that are sums over plans take as many steps with 5e-3, and on the bundled words up to
# a third more with 1e-3 or 3e-2; plans in float32 about as many with 5e-2.
MAX_DEEP_CHANGE, MAX_GROWTH = 1e-3, 1.5
MAX_DEEPENING_CHANGE = 1e-2
# Iterations of the first cooldown. Each is twice as long as the last one, and half of
# that for every extrapolation that paid: saddles are no reason to do without later on.
FIRST_COOLDOWN = 2
# Deepening: the factor by which the change has to fall for another extrapolation, and
# the largest error of marginals, as a fraction of the change.
PAYS, CLEAR = 1.0, 0.5


class Trial(NamedTuple):
    """What was known before the state was extrapolated: the change of the last
    iteration, and the regularized objective with its uncertainty, where looked at; and
    what the state has followed the steps to.
    """

    change: float
    reg_cost: float = np.nan
    slack: float = np.nan
    lead: float = Lead.END

    def has_grown(self, change, most):
        """Whether a change is this many times as large, or is too large for a state
        that went further ahead.
        """
        most = AHEAD_GROWTH if self.lead == Lead.AHEAD else most
        return change > most * self.change


def deepened(change, mechanisms, most=DEPTH):
    """How many steps to look at, up to so many, after a `change` by the last one."""
    deepens = mechanisms.deep_extrapolation and change <= MAX_DEEPENING_CHANGE
    return most if deepens else 1


class Extrapolation:
    """Never extrapolates: what a linearization whose state is not linear in the plan
    allows. `trial` is None outside of one.
    """

    def __init__(self, linearization):
        self._linearization, self.trial = linearization, None
        # Iterations left in the cooldown, and the length of the next one.
        self._cooldown, self._next_cooldown = 0, FIRST_COOLDOWN

    def reset(self):
        """End the trial, if there is one, and forget all steps."""
        if self._linearization.extrapolation is not None:
            self._linearization.forget()
        self.trial = None

    def advance(self, stepped, epsilon, rounding, further):
        """Judge the trial, if there is one, and if all is well begin another.

        Parameters
        ----------
        stepped : Stepped
            The last iteration.
        epsilon : float
            Its regularization, in units of cost.
        rounding : float
            Of the objective.
        further : bool
            Whether another trial could still be taken back.

        Returns
        -------
        Trial or None
            The trial that failed; the state is again what it was before it.
        """
        if self.trial is None and not stepped.update.change <= MAX_CHANGE:
            self.reset()
            return None
        return self._judge(stepped, epsilon, rounding, further)

    def _judge(self, *_):
        self.reset()

    def _next(self, trial, tried):
        """Begin a trial, or not."""
        self._cooldown = max(self._cooldown - 1, 0)
        if not tried or self._cooldown:
            self.reset()
        else:
            lead = self._linearization.extrapolate()
            self.trial = trial._replace(lead=lead) if lead else None

    def _retract(self):
        failed, self.trial = self.trial, None
        self._linearization.retract()
        self._pause()
        return failed

    def _pause(self):
        """Begin a cooldown."""
        self._cooldown = self._next_cooldown
        self._next_cooldown *= 2


class Guarded(Extrapolation):
    """Extrapolates by the last two steps, guarded by the regularized objective."""

    def _judge(self, stepped, epsilon, rounding, further):
        update, trial = stepped.update, self.trial
        change, gw_cost = update.change, update.gw_cost
        entropy = self._linearization.entropy(stepped.kernel, stepped.solution, update)
        rule, marginals = self._linearization.problem.rule, (update.rows, update.cols)
        reg_cost = rule.regularized(gw_cost, epsilon, entropy, *marginals)
        # An objective is known as well as the marginals are met.
        slack = stepped.error * abs(gw_cost) + rounding
        if trial is not None:
            most = trial.reg_cost + slack + trial.slack
            if trial.has_grown(change, 1.0) or reg_cost > most:
                return self._retract()
        known, knowable = mutual_information(*marginals, entropy)
        informed = known / (knowable or 1.0) >= MIN_INFORMATION
        tried = change <= MAX_CHANGE and informed and further
        self._next(Trial(change, reg_cost, slack), tried)
        return None


class Contracting(Extrapolation):
    """Extrapolates by more steps, which say themselves whether they contract."""

    def _is_deep(self, change):
        return change <= MAX_DEEP_CHANGE

    def _judge(self, stepped, epsilon, rounding, further):
        change, trial = stepped.update.change, self.trial
        if trial is not None:
            if trial.has_grown(change, MAX_GROWTH):
                return self._retract()
            if change < PAYS * trial.change:
                self._next_cooldown = max(self._next_cooldown // 2, FIRST_COOLDOWN)
        self._next(Trial(change), further and self._is_deep(change))
        return None


class Deepening(Guarded, Contracting):
    """Extrapolates by the last two steps, then by more of them, as long as that pays:
    what rounding and rough marginals leave of steps is noise, which extrapolation makes
    larger.
    """

    def _is_deep(self, change):
        return change <= MAX_DEEPENING_CHANGE

    def _judge(self, stepped, epsilon, rounding, further):
        change, trial = stepped.update.change, self.trial
        if not self._is_deep(change):
            return Guarded._judge(self, stepped, epsilon, rounding, further)
        if trial is not None and trial.lead != Lead.AHEAD:
            if PAYS * trial.change < change <= MAX_GROWTH * trial.change:
                self._pause()
        clear = stepped.error <= CLEAR * change
        return Contracting._judge(self, stepped, epsilon, rounding, further and clear)


KINDS = {
    None: Extrapolation,
    "guarded": Guarded,
    "contracting": Contracting,
    "deepening": Deepening,
}


def extrapolation_of(linearization):
    """The `Extrapolation` that suits a linearization."""
    return KINDS[linearization.extrapolation](linearization)

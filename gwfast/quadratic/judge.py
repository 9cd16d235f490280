"""When a descent ends, and how it goes on: a pure function of its past steps."""

import dataclasses
import itertools
import math
from typing import NamedTuple

from ..results.status import Ending
from ..utils.deadline import NEVER, Deadline
from ..utils.validation import as_count, as_positive

# Outer iterations without a smaller change that count as standing still.
STALLED_AFTER = 20
# Factor of a change below which it is clearly smaller.
CLEARLY_LESS = 0.8
# POT judges the first iteration, and each `LOOK_EVERY`-th after it.
LOOK_EVERY = 10
# Rounding of a plan, relative to it, above which a small change must be followed by another: at so
# small an epsilon a rounding error may grow to the whole plan within an iteration.
UNSTABLE = 1e-3
# Largest change of a plan that counts as converged where it is rounding.
MAX_ROUNDED = 0.01
# Number of times that steps are halved before the loop ends: some semi-relaxed problems need 7.
MOST_DAMPED = 8
# Factor by which inner solutions may get tighter because the objective rose.
MAX_TIGHTENING = 16
# Largest slack of products near known ones, as a fraction of the last change, in the end.
SLACK = 0.2


class Step(NamedTuple):
    """The numbers of one outer iteration."""

    gw_cost: float
    gw_before: float  # NaN if that is not known
    epsilon: float
    change: float  # of the state, relatively
    moved: float  # of the plan, in the Frobenius norm
    error: float  # of the marginals that the step fits, as a fraction of the mass
    marginal_error: float  # of all
    n_inner: int
    seconds: float = 0.0  # since the descent began
    mass: float = 1.0  # of the plan, as a fraction of the mass of the product plan
    magnitude: float = 1.0  # of the terms that cancel in the objective
    floor: float = 0.0  # change that may be rounding
    led: bool = False  # whether acceleration had moved the state before
    thorough: bool = False  # whether its linear problem was to be exact
    least_error: float = 0.0  # of marginals, as kernels lack entries
    returned: bool = False  # whether the plan is nearer to the plan before the last than to that
    exact: bool = True  # whether product and kernel were
    corrected: bool = False  # whether the product is the first exact one after approximate ones
    deviates: bool = True  # whether the plan is not the product plan
    is_noise: bool = False  # whether the change is rounding of a state that is nearly zero


class RelativeChange:
    """The state and the objective change by at most the tolerance, relatively."""

    n_plain = 0  # first iterations of a descent without extrapolation

    def inner_tol(self, tol, rough, precision):
        """Error of the marginals at which the inner iterations of a last plan end; `rough` is the
        error for plans that still change.
        """
        # The next iteration moves the plan by about the error of the marginals.
        return max(3 * tol, precision.inner_tol)

    def in_kernel(self, limits, linearization, magnitude, epsilon):
        """Return the rule as limits of a `kernels._descent.Descent`, for an epsilon in units of
        `cost_scale`, or None if that cannot judge by the rule.
        """
        precision = linearization.precision
        floor, exact = precision.rounding / epsilon, self.inner_tol(limits.tol, math.inf, precision)
        if floor > UNSTABLE:
            return None
        return dict(
            tol=max(limits.tol, floor),
            still=precision.cost_rounding * magnitude / linearization.cost_scale,
            exact=exact,
            least=exact,
            frobenius=False,
            every=1,
        )

    def judge(self, history, tol, cost_tol, *, confirms, precision):
        """Return whether the loop has settled, and whether acceleration would hide it: `tol` are
        the tolerance asked for and the one that rounding allows, `cost_tol` is the change of the
        objective within it, and with `confirms` the step before had settled but for a last look.
        """
        last = history[-1]
        # The moments of centered points are nearly zero under the product plan.
        noise = all(step.is_noise for step in history[-STALLED_AFTER:])
        # The error of the marginals explains a change of the objective. Before a state
        # that a sample led to, no change is known.
        moved = abs(last.gw_cost - last.gw_before) - last.error * last.magnitude
        return (noise or last.change <= tol[1]) and not moved > cost_tol, False


class Unjudged(RelativeChange):
    """Only `max_outer` ends the loop while the plan moves: a plan near a saddle changes little at
    first. The last iteration is as rough as the others.
    """

    def inner_tol(self, tol, rough, precision):
        return rough

    def in_kernel(self, limits, linearization, magnitude, epsilon):
        made = super().in_kernel(limits, linearization, magnitude, epsilon)
        kind = dict(tol=linearization.precision.inner_tol, still=math.inf, least=0.0)
        return made and made | kind

    def judge(self, history, tol, cost_tol, *, confirms, precision):
        return history[-1].change <= precision.inner_tol, False


@dataclasses.dataclass(frozen=True)
class Limits:
    """When a descent ends; see `gromov_wasserstein`.

    With a deadline, `after` is the time to leave for the steps after the descent, as a multiple of
    the time that a new state takes. Candidates of a race do not damp their steps (`damps`).
    """

    max_outer: int
    max_inner: int
    tol: float
    marginal_tol: float
    rule: RelativeChange = dataclasses.field(default_factory=RelativeChange)
    deadline: Deadline = NEVER
    after: float = 0.0
    damps: bool = True

    def __post_init__(self):
        object.__setattr__(self, "max_outer", as_count(self.max_outer, "max_iter"))
        object.__setattr__(self, "max_inner", as_count(self.max_inner, "max_inner"))
        as_positive(self.tol, "tol")
        as_positive(self.marginal_tol, "marginal_tol")

    def clock(self, seconds):
        """Return the deadline of a linear problem before a state that takes `seconds`."""
        return self.deadline.sooner((1 + self.after) * seconds)

    def late(self, seconds):
        """Return whether another iteration, whose state takes that long, would end too late; its
        kernel is made in about the same time.
        """
        return self.deadline.passed((2 + self.after) * seconds)

    def within(self, first):
        """Return the limits `first` where these are not tighter."""
        return dataclasses.replace(
            first,
            max_outer=min(first.max_outer, self.max_outer),
            max_inner=min(first.max_inner, self.max_inner),
            deadline=self.deadline,
            after=self.after,
        )

    def before(self, after):
        """Return the limits if steps follow that take the time of `after` states."""
        return dataclasses.replace(self, after=self.after + after)


class Verdict(NamedTuple):
    """How a descent goes on after its last step."""

    status: Ending | None = None  # why it ends; None if it goes on
    settled: bool = False  # whether nothing moves
    confirms: bool = False  # whether one more iteration has to confirm that
    accelerates: bool = False  # whether acceleration may move the state
    sharpens: bool = False  # whether the next products and kernels are exact
    damping: float = 0.0  # weight of the last state in each new state
    inner_limit: int = 200  # of the next linear problem
    inner_fraction: float = 0.01  # error of its marginals, as a fraction of the last change
    slack: float = SLACK  # of the next products, as a fraction of the last change
    n_cycles: int = 0
    waits: bool = False  # whether steps will be damped at the next low plan
    n_steady: int = 0  # iterations since damping changed

    @classmethod
    def first(cls, linearization):
        """Return how a descent begins."""
        # In float32 with acceleration the plan first converges for the low-rank part of the
        # product, then a whole product corrects the rest.
        single = linearization.accelerates and linearization.precision.itemsize <= 4
        return cls(
            inner_limit=linearization.inner_limit,
            inner_fraction=linearization.inner_fraction,
            slack=2.0 if single else SLACK,
        )

    def is_thorough(self, n_done, limits):
        """Return whether the next plan may be the last, whose marginals have to be exact."""
        return self.settled or self.n_cycles > MOST_DAMPED or n_done + 1 >= limits.max_outer

    def inner(self, limits, precision, change, thorough, least_error=0.0):
        """Return tolerance and limit of the next linear problem, by the change of the last step."""
        rough = min(self.inner_fraction * change, precision.rough)
        tol = min(limits.marginal_tol, limits.rule.inner_tol(limits.tol, rough, precision))
        most = limits.max_inner
        if not thorough:
            tol, most = max(tol, rough), min(self.inner_limit, most)
        return max(tol, least_error), most


def judge(history, at, limits, before, *, final=True, ended=None):
    """Return the `Verdict` on the last of some steps of a linearization, after the verdict on the
    step before. Epsilon falls no more if it is `final`; `ended` is why the descent ends unless it
    has settled: time, or a callback.
    """
    last, precision, rounds = history[-1], at.precision, at.change_is_rounded
    # The objective is a small difference of larger terms; where it is zero (an exact match) only
    # their rounding changes it.
    rounding = precision.cost_rounding * last.magnitude
    tol = max(limits.tol, last.floor) if rounds else limits.tol
    cost_tol = tol * abs(last.gw_cost) + rounding

    # Inner solutions are exacter where the loop does not get on by rough ones.
    limit, fraction, slack = before.inner_limit, before.inner_fraction, before.slack
    if last.error > last.change:
        limit *= 2  # the plan moves because its marginals are still settling
    elif last.gw_cost > last.gw_before + cost_tol:
        limit = max(limit, min(2 * limit, MAX_TIGHTENING * at.inner_limit))
        fraction = max(fraction / 2, at.inner_fraction / MAX_TIGHTENING)

    settled, hidden = limits.rule.judge(
        history, (limits.tol, tol), cost_tol, confirms=before.confirms, precision=precision
    )
    settled = final and (settled or (rounds and has_stalled(history, 4 * last.floor)))
    stalled = final and has_stalled(history, max(precision.stalled, last.floor))
    # A step after acceleration may be small by chance, approximate products may settle where exact
    # ones would not, and rounding may grow: one more iteration confirms.
    sharpens = not last.exact and ((settled and not last.led) or stalled)
    confirms = settled and (
        last.led or sharpens or (rounds and _may_leave(history, before, limits.tol))
    )
    if (last.corrected or sharpens) and at.n_kept > 1:
        # On plateaus approximate products and corrections would take turns.
        slack = max(slack / 2, min(slack, SLACK))

    status = _status(history, at, limits, ended, settled and not confirms, stalled and last.exact)
    lowest = min(step.gw_cost for step in history[-n_recent(at.method) :])
    low = last.gw_cost <= lowest + cost_tol
    n_cycles, waits, damps = before.n_cycles, before.waits, False
    n_steady = before.n_steady + 1
    if n_cycles > MOST_DAMPED:
        if status in (None, Ending.MAX_OUTER) and last.thorough and low:
            status = Ending.CYCLE
    elif status is None and rounds and not at.method.alternating:
        # Unless the objective is concave plain steps may go back and forth between plans, and
        # proximal steps that are too large may raise the objective.
        turns = n_steady > STALLED_AFTER and (
            _returns(history) or (at.method.proximal and _rises(history, rounding))
        )
        if turns and not waits:
            waits, n_cycles = True, n_cycles + 1
        damps = waits and low and n_cycles <= MOST_DAMPED
        if damps:
            waits, n_steady = False, 0
            if not limits.damps:
                damps, n_cycles = False, MOST_DAMPED + 1
    return Verdict(
        status=status,
        settled=settled,
        confirms=confirms,
        accelerates=final and not (confirms or hidden or damps),
        sharpens=sharpens and status is None,
        damping=(1.0 + before.damping) / 2.0 if damps else before.damping,
        inner_limit=limit,
        inner_fraction=fraction,
        slack=slack,
        n_cycles=n_cycles,
        waits=waits,
        n_steady=n_steady,
    )


def n_recent(method):
    """Return the number of last iterations at whose lowest plan steps are damped."""
    # A proximal plan wanders: of 200 random semi-relaxed problems one ended above POT's loss with
    # damping at the lowest plan of 20 iterations, none with 200.
    return 10 * STALLED_AFTER if method.proximal else STALLED_AFTER


def _status(history, at, limits, ended, settled, stalled):
    """Return why the descent ends after its last step, or None."""
    last, recent = history[-1], history[-STALLED_AFTER:]
    if ended == Ending.STOPPED:
        return ended
    if settled and last.error <= max(limits.marginal_tol, last.least_error):
        # Where rounding is as large as the plan nothing has converged, unless the product plan is
        # right, as it is if all costs are equal.
        rounded = at.change_is_rounded and last.floor >= 1.0 and last.deviates
        moving = last.change > max(limits.tol, MAX_ROUNDED)
        return Ending.PRECISION if rounded or moving else Ending.CONVERGED
    if ended is not None:
        return ended
    # Below this fraction of the mass of the product plan an unbalanced plan is lost.
    if len(recent) == STALLED_AFTER and all(step.mass < 1e-4 for step in recent):
        return Ending.LOST_MASS
    if settled and last.thorough:
        # Neither the plan nor its marginals change.
        return Ending.MAX_INNER if last.n_inner >= limits.max_inner else Ending.PRECISION
    if stalled:
        return Ending.PRECISION
    return Ending.MAX_OUTER if len(history) >= limits.max_outer else None


def _may_leave(history, before, tol):
    """Return whether a small change may be the first of growing ones."""
    change = history[-1].change
    growing = change > 2 * history[-2:][0].change and change > tol
    return history[-1].floor > UNSTABLE and (not before.confirms or growing)


def has_stalled(history, floor):
    """Return whether the change no longer falls, near the floor of rounding."""
    if len(history) <= STALLED_AFTER or not history[-1].change < floor:
        return False
    recent = [step.change for step in history[-STALLED_AFTER:]]
    before = min(step.change for step in history[:-STALLED_AFTER])
    # All of them below: a plan that leaves a saddle changes little, then much. And not each more
    # than the one before: rounding does not grow.
    grows = all(early <= late for early, late in itertools.pairwise(recent))
    return before <= min(recent) and max(recent) < floor and not grows


def _returns(history):
    """Return whether the last plans go back and forth, and their change does not fall."""
    recent = history[-STALLED_AFTER:]
    return all(step.returned for step in recent) and (
        recent[-1].change > CLEARLY_LESS * history[-1 - STALLED_AFTER].change
    )


def _rises(history, rounding):
    """Return whether the objective rose within the last iterations, beyond rounding."""
    costs = [step.gw_cost for step in history[-STALLED_AFTER:]]
    return any(late > early + rounding for early, late in itertools.pairwise(costs))

"""When an outer loop ends: the limits, and the rule by which it has settled."""

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np

from ..utils.deadline import NEVER, Deadline
from ..utils.precision import FloatPrecision
from ..utils.validation import as_count, as_positive

# Outer iterations without a smaller change that count as standing still.
STALLED_AFTER = 20
# A change that is smaller by less than a fifth is not clearly smaller.
CLEARLY_LESS = 0.8
# POT looks at the first iteration, and at each of so many after it, at no others.
LOOK_EVERY = 10
# Rounding of a plan, relative to it, from which on a small change is no sign of a fixed
# point: at so small an epsilon a rounding error may grow to the whole plan within an
# iteration. A small change has to be followed by another.
UNSTABLE = 1e-3


class Seen(NamedTuple):
    """What an outer iteration has shown, for a rule to judge."""

    iteration: int  # from 1
    change: float  # of the state, relatively
    moved: float  # of the plan, in the Frobenius norm
    moved_before: float  # by the iteration before
    gw_cost: float
    gw_before: float
    cost_tol: float  # change of the objective that is within tolerance, or rounding
    inexact: float  # change of the objective that the error of the marginals explains
    floor: float  # change that may be rounding
    tol: float  # the one asked for, not below `floor` where the change is rounded
    asked_tol: float
    confirming: bool  # whether the iteration before had settled but for a last look
    precision: FloatPrecision


class RelativeChange:
    """The state and the objective change by at most the tolerance, relatively."""

    def inner_tol(self, tol, rough, precision):
        """Error of the marginals at which the inner iterations of a last plan end;
        `rough` is the error for plans that still change.
        """
        # An error of the marginals moves the plan by about as much from one iteration to the next.
        return max(3 * tol, precision.inner_tol)

    def in_kernel(self, limits, linearization, epsilon):
        """The rule as limits of a `kernels._descent.Descent`, for epsilon divided by
        `cost_scale`; None where that cannot judge by the rule.
        """
        precision = linearization.precision
        floor = precision.rounding / epsilon
        if floor > UNSTABLE:
            return None
        rounding = precision.cost_rounding * linearization.magnitude
        return dict(
            tol=max(limits.tol, floor),
            still=rounding / linearization.cost_scale,
            exact=self.inner_tol(limits.tol, np.inf, precision),
            least=0.0,
            relative=False,
            frobenius=False,
            every=1,
        )

    def judge(self, seen):
        """Whether the loop has settled, and whether acceleration would hide it."""
        # Nothing is known of the objective before a state that a sample led to.
        moved = abs(seen.gw_cost - seen.gw_before) - seen.inexact
        return seen.change <= seen.tol and not moved > seen.cost_tol, False


class Unjudged(RelativeChange):
    """A rule that never stops a loop while the plan moves: only `max_outer` does, and
    the last iteration is as rough as the others.
    """

    def inner_tol(self, tol, rough, precision):
        return rough

    def in_kernel(self, limits, linearization, epsilon):
        made = super().in_kernel(limits, linearization, epsilon)
        kind = dict(tol=linearization.precision.inner_tol, still=np.inf, relative=True)
        return made and made | kind

    def judge(self, seen):
        return seen.change <= seen.precision.inner_tol, False


@dataclasses.dataclass(frozen=True)
class Limits:
    """When an outer loop ends; see `gromov_wasserstein`.

    With a deadline, `after` is what comes after the loop and still has to fit in, as a
    multiple of the time that an `Update` takes.
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
        as_count(self.max_outer, "max_outer")
        as_count(self.max_inner, "max_inner")
        as_positive(self.tol, "tol")
        as_positive(self.marginal_tol, "marginal_tol")

    def clock(self, seconds):
        """The deadline of a linear problem, as an option: ours, less an update, of so
        many seconds, and what comes after.
        """
        return dict(deadline=self.deadline.sooner((1 + self.after) * seconds))

    def late(self, seconds):
        """Whether another iteration, whose update takes that long, would end too late;
        its kernel is made in about the same time.
        """
        return self.deadline.passed((2 + self.after) * seconds)

    def within(self, first):
        """The limits `first` where these are not tighter."""
        return dataclasses.replace(
            first,
            max_outer=min(first.max_outer, self.max_outer),
            max_inner=min(first.max_inner, self.max_inner),
            deadline=self.deadline,
            after=self.after,
        )

    def before(self, after):
        """The limits where something comes after that takes so many updates more."""
        return dataclasses.replace(self, after=self.after + after)


def has_stalled(history, floor):
    """Whether the change no longer falls, near the floor of rounding."""
    if len(history) <= STALLED_AFTER or not history[-1].change < floor:
        return False
    recent = [step.change for step in history[-STALLED_AFTER:]]
    before = min(step.change for step in history[:-STALLED_AFTER])
    # All of them below: a plan that leaves a saddle changes little, then much. And not
    # each more than the one before: rounding does not grow.
    grows = all(early <= late for early, late in itertools.pairwise(recent))
    return before <= min(recent) and max(recent) < floor and not grows


def stands_still(history, cost_tol):
    """Whether, after each `STALLED_AFTER` iterations, neither the change nor the
    objective was ever clearly lower in these than in as many before, at one epsilon.
    """
    half = STALLED_AFTER
    if len(history) % half or len(history) < 2 * half:
        return False
    rows = history[-2 * half : -half], history[-half:]
    if len({rows[0][0].epsilon, rows[1][0].epsilon, rows[1][-1].epsilon}) > 1:
        return False
    early, late = (min(step.change for step in row) for row in rows)
    before, after = (min(step.gw_cost for step in row) for row in rows)
    return late > CLEARLY_LESS * early and after > before - cost_tol


def is_low(history, cost_tol, most=STALLED_AFTER):
    """Whether the last plan is as good as any of so many iterations before it."""
    lowest = min(step.gw_cost for step in history[-most:])
    return history[-1].gw_cost <= lowest + cost_tol


def rises(history, rounding):
    """Whether the objective rose in the last row of iterations, beyond rounding."""
    costs = [step.gw_cost for step in history[-STALLED_AFTER:]]
    return any(late > early + rounding for early, late in itertools.pairwise(costs))

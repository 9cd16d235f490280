"""When a descent ends, and how it goes on: a pure function of its past steps."""

import dataclasses
import itertools
import math
from typing import NamedTuple

from ..kernels import _judge
from ..kernels._judge import Judge
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


@dataclasses.dataclass(frozen=True)
class Stopping:
    """Rule by which a descent has settled: the relative changes of state and objective; or, as in
    POT (`frobenius`), the change of the plan in the Frobenius norm, in each `every`-th iteration,
    with `n_plain` first iterations without extrapolation, which show whether a small move grows.
    A plan near a saddle changes little at first: if not `is_judged` it settles if it does not move
    at all, and its last linear problem is as rough as the others.
    """

    frobenius: bool = False
    every: int = 1
    n_plain: int = 0
    is_judged: bool = True

    def numbers(self, limits, precision, floor, rounding):
        """Return the numbers of `kernels._judge.LIMITS` for a descent within limits, whose changes
        below `floor` and whose changes of the objective below `rounding` may be rounding.
        """
        tol, still = max(limits.tol, floor), rounding
        # The next iteration moves the plan by about the error of the marginals.
        exact = least = max(3 * limits.tol, precision.min_inner_tol)
        if not self.is_judged:
            tol, still, exact, least = precision.min_inner_tol, math.inf, math.inf, 0.0
        elif self.frobenius:
            # A small step is no end while the error may be as large.
            tol, least = limits.tol, precision.min_inner_tol
        return dict(
            frobenius=self.frobenius,
            every=self.every,
            tol=tol,
            still=still,
            exact=exact,
            least=least,
            marginal=limits.marginal_tol,
            goal=limits.marginal_tol,
            max_inner_tol=precision.max_inner_tol,
            floor=floor,
            rounding=rounding,
            max_tightening=MAX_TIGHTENING,
        )


RELATIVE, UNJUDGED = Stopping(), Stopping(is_judged=False)


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
    stopping: Stopping = RELATIVE
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

    def inner(self, linearization, limits, change, thorough, least_error=0.0):
        """Return tolerance and limit of the next linear problem, by the change of the last step."""
        numbers = limits.stopping.numbers(limits, linearization.precision, 0.0, 0.0)
        fraction, tightens = linearization.inner_fraction, linearization.tightens
        judge = Judge(fraction=fraction, tightens=tightens, **numbers)
        tol = judge.aim(change, self.inner_fraction, thorough)
        most = limits.max_inner if thorough else min(self.inner_limit, limits.max_inner)
        return max(tol, least_error), most


def verdict_on(history, at, limits, before, *, final=True, ended=None):
    """Return the `Verdict` on the last of some steps of a linearization, after the verdict on the
    step before. Epsilon falls no more if it is `final`; `ended` is why the descent ends unless it
    has settled: time, or a callback.
    """
    last, precision, rounds = history[-1], at.precision, at.change_is_rounded
    # The objective is a small difference of larger terms; where it is zero (an exact match) only
    # their rounding changes it.
    rounding, floor = precision.cost_rounding * last.magnitude, last.floor if rounds else 0.0
    numbers = limits.stopping.numbers(limits, precision, floor, rounding)
    facts = dict(fraction=at.inner_fraction, first_limit=at.inner_limit)
    # Marginals of small problems are exact: their error explains no change of the objective.
    if not at.is_small:
        facts["magnitude"] = last.magnitude
    judge, cost_tol = Judge(**numbers, **facts), numbers["tol"] * abs(last.gw_cost) + rounding
    inner = before.inner_limit, before.inner_fraction
    limit, fraction = judge.tightened(last.error, last.change, last.gw_cost, last.gw_before, *inner)
    # The moments of centered points are nearly zero under the product plan.
    noise, slack = all(step.is_noise for step in history[-STALLED_AFTER:]), before.slack
    # A damped move is small because it is damped.
    former = last.moved if before.damping else history[-2:][0].moved
    settled, hidden = judge.settles(
        len(history), 0.0 if noise else last.change, last.moved, former, last.gw_cost,
        last.gw_before, last.error, before.settled,
    )  # fmt: skip
    settled = final and (settled or (rounds and has_stalled(history, 4 * last.floor)))
    stalled = final and has_stalled(history, max(precision.stall_change, last.floor))
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
    if not history[-1].change < floor:
        return False
    return _judge.has_stalled([step.change for step in history], floor, STALLED_AFTER)


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

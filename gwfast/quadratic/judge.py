"""When a descent ends, and how it goes on: pure functions of its steps and of the verdict before.

Their arithmetic is in csrc/judge.h, for the compiled loop as well.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..kernels import _judge
from ..kernels._judge import Judge
from ..results.status import Ending
from ..utils.deadline import NEVER, Deadline
from ..utils.precision import FloatPrecision
from ..utils.validation import as_count, as_positive

if TYPE_CHECKING:
    from .methods import Method
    from .state import Linearization

# Last outer iterations that say whether a descent stands still, turns, or has lost its mass.
WINDOW = 20
# Factor of a change below which it is clearly smaller.
CLEARLY_LESS = 0.8
# POT judges the first iteration, and each `POT_LOOK_EVERY`-th after it.
POT_LOOK_EVERY = 10
# Rounding of a plan, relative to it, above which a small change must be followed by another: at so
# small an epsilon a rounding error may grow to the whole plan within an iteration.
UNSTABLE = 1e-3
# Largest change of a plan that counts as converged where it is rounding.
MAX_ROUNDED = 0.01
# Number of times that steps are halved before the loop ends: some semi-relaxed problems need 7.
MOST_DAMPED = 8
# Largest `product_tol` in the end: the error of products, as a fraction of the last change.
PRODUCT_TOL = 0.2


class Step(NamedTuple):
    """The numbers of one outer iteration."""

    gw_cost: float
    gw_before: float  # NaN if that is not known
    epsilon: float
    change: float  # of the state, relatively
    frobenius_change: float  # of the plan
    error: float  # of the marginals that the step fits, as a fraction of the mass
    marginal_error: float  # of all
    n_inner: int
    seconds: float = 0.0  # since the descent began
    mass: float = 1.0  # of the plan, as a fraction of the mass of the product plan
    magnitude: float = 1.0  # of the terms that cancel in the objective
    floor: float = 0.0  # change that may be rounding
    extrapolated: bool = False  # whether acceleration had moved the state before
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

    def numbers(
        self, limits: Limits, precision: FloatPrecision, floor: float, rounding: float
    ) -> dict[str, float]:
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
            tol=tol,  # change of the plan with which it has settled
            still=still,  # change of the objective with which it has
            # Error of the marginals: allowed at the end; and of linear problems the least to aim
            # at, the largest, and the largest if the plan may be the last.
            marginal=limits.marginal_tol,
            least=least,
            goal=limits.marginal_tol,
            exact=exact,
            max_inner_tol=precision.max_inner_tol,
            floor=floor,
            rounding=rounding,
            # Factor by which inner solutions may get tighter because the objective rose.
            max_tightening=16,
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_outer", as_count(self.max_outer, "max_iter"))
        object.__setattr__(self, "max_inner", as_count(self.max_inner, "max_inner"))
        as_positive(self.tol, "tol")
        as_positive(self.marginal_tol, "marginal_tol")

    def clock(self, seconds: float) -> Deadline:
        """Return the deadline of a linear problem before a state that takes `seconds`."""
        return self.deadline.sooner((1 + self.after) * seconds)

    def late(self, seconds: float) -> bool:
        """Return whether another iteration, whose state takes that long, would end too late; its
        kernel is made in about the same time.
        """
        return self.deadline.passed((2 + self.after) * seconds)

    def within(self, first: Limits) -> Limits:
        """Return the limits `first` where these are not tighter."""
        return dataclasses.replace(
            first,
            max_outer=min(first.max_outer, self.max_outer),
            max_inner=min(first.max_inner, self.max_inner),
            deadline=self.deadline,
            after=self.after,
        )

    def before(self, after: float) -> Limits:
        """Return the limits if steps follow that take the time of `after` states."""
        return dataclasses.replace(self, after=self.after + after)


class Inner(NamedTuple):
    """How the next linear problem is solved while the plan moves."""

    limit: int = 200  # of iterations
    fraction: float = 0.01  # error of its marginals, as a fraction of the last change


class Cycle(NamedTuple):
    """How steps that go back and forth between plans are damped."""

    damping: float = 0.0  # weight of the last state in each new state
    n_cycles: int = 0
    waits: bool = False  # whether steps will be damped at the next low plan
    n_steady: int = 0  # iterations since damping changed

    @property
    def is_over(self) -> bool:
        """True if damping has not ended the cycle."""
        return self.n_cycles > MOST_DAMPED

    def after(self, turns: bool, is_low: bool, may_damp: bool) -> Cycle:
        """Return the damping after a step, whose plan is the lowest of the last ones if `is_low`;
        `turns` says whether the last plans go back and forth.
        """
        now = self
        if turns and self.n_steady > WINDOW and not (self.waits or self.is_over):
            now = self._replace(waits=True, n_cycles=self.n_cycles + 1)
        if now.is_over or not (now.waits and is_low):
            return now
        now = now._replace(waits=False, n_steady=0)
        if not may_damp:
            return now._replace(n_cycles=MOST_DAMPED + 1)
        return now._replace(damping=(1.0 + self.damping) / 2.0)


class Verdict(NamedTuple):
    """How a descent goes on after its last step."""

    status: Ending | None = None  # why it ends; None if it goes on
    settled: bool = False  # whether nothing moves
    confirms: bool = False  # whether one more iteration has to confirm that
    accelerates: bool = False  # whether acceleration may move the state
    sharpens: bool = False  # whether the next products and kernels are exact
    inner: Inner = Inner()
    product_tol: float = PRODUCT_TOL  # of the next products, as a fraction of the last change
    cycle: Cycle = Cycle()

    @classmethod
    def first(cls, linearization: Linearization) -> Verdict:
        """Return how a descent begins."""
        # In float32 with acceleration the plan first converges for the low-rank part of the
        # product, then a full product corrects the rest.
        single = linearization.accelerates and linearization.precision.itemsize <= 4
        inner = Inner(linearization.inner_limit, linearization.inner_fraction)
        return cls(inner=inner, product_tol=2.0 if single else PRODUCT_TOL)

    def is_thorough(self, n_done: int, limits: Limits) -> bool:
        """Return whether the next plan may be the last, whose marginals have to be exact."""
        return self.settled or self.cycle.is_over or n_done + 1 >= limits.max_outer

    def inner_goal(
        self,
        linearization: Linearization,
        limits: Limits,
        change: float,
        thorough: bool,
        least_error: float = 0.0,
    ) -> tuple[float, int]:
        """Return tolerance and limit of the next linear problem, by the change of the last step."""
        numbers = _numbers(linearization, limits, tightens=linearization.tightens)
        tol = Judge(**numbers).aim(change, self.inner.fraction, thorough)
        most = limits.max_inner if thorough else min(self.inner.limit, limits.max_inner)
        return max(tol, least_error), most


def verdict_on(
    history: Sequence[Step],
    linearization: Linearization,
    limits: Limits,
    before: Verdict,
    *,
    final: bool = True,
    ended: Ending | None = None,
) -> Verdict:
    """Return the `Verdict` on the last of some steps of a linearization, after the verdict on the
    step before. Epsilon falls no more if it is `final`; `ended` is why the descent ends unless it
    has settled: time, or a callback.
    """
    last, precision, rounds = history[-1], linearization.precision, linearization.change_is_rounded
    # The objective is a small difference of larger terms; where it is zero (an exact match) only
    # their rounding changes it.
    rounding, floor = precision.cost_rounding * last.magnitude, last.floor if rounds else 0.0
    # Marginals of small problems are exact: their error explains no change of the objective.
    magnitude = 0.0 if linearization.is_small else last.magnitude
    numbers = _numbers(linearization, limits, floor, rounding, magnitude=magnitude)
    judge = Judge(**numbers)
    inner = judge.tightened(last.error, last.change, last.gw_cost, last.gw_before, *before.inner)

    settled, hidden = _has_settled(judge, history, before)
    settled = final and (settled or (rounds and has_stalled(history, 4 * last.floor)))
    stalled = final and has_stalled(history, max(precision.stall_change, last.floor))
    # A step after acceleration may be small by chance, approximate products may settle where exact
    # ones would not, and rounding may grow: one more iteration confirms.
    sharpens = not last.exact and ((settled and not last.extrapolated) or stalled)
    may_leave = rounds and _may_leave(history, before, limits.tol)
    confirms = settled and (last.extrapolated or sharpens or may_leave)
    product_tol = before.product_tol
    if (last.corrected or sharpens) and linearization.n_kept > 1:
        # On plateaus approximate products and corrections would take turns.
        product_tol = max(product_tol / 2, min(product_tol, PRODUCT_TOL))

    ends, stands = settled and not confirms, stalled and last.exact
    status = _status(history, linearization, limits, ended, ends, stands)
    near = numbers["tol"] * abs(last.gw_cost) + rounding
    recent = history[-n_recent(linearization.method) :]
    is_low = last.gw_cost <= min(step.gw_cost for step in recent) + near
    if before.cycle.is_over and status in (None, Ending.MAX_OUTER) and last.thorough and is_low:
        status = Ending.CYCLE
    cycle = before.cycle._replace(n_steady=before.cycle.n_steady + 1)
    # Unless the objective is concave plain steps may go back and forth between plans.
    if status is None and rounds and not linearization.method.alternating:
        cycle = cycle.after(_turns(history, judge, rounding), is_low, limits.damps)
    damps = cycle.damping != before.cycle.damping
    return Verdict(
        status=status,
        settled=settled,
        confirms=confirms,
        accelerates=final and not (confirms or hidden or damps),
        sharpens=sharpens and status is None,
        inner=Inner(*inner),
        product_tol=product_tol,
        cycle=cycle,
    )


def _numbers(
    linearization: Linearization,
    limits: Limits,
    floor: float = 0.0,
    rounding: float = 0.0,
    **facts: float,
) -> dict[str, float]:
    """Return the numbers by which the steps of a linearization are judged."""
    numbers = limits.stopping.numbers(limits, linearization.precision, floor, rounding)
    own = dict(
        fraction=linearization.inner_fraction,
        first_limit=linearization.inner_limit,
        proximal=linearization.method.proximal,
        window=WINDOW,
        clearly_less=CLEARLY_LESS,
    )
    return numbers | own | facts


def _has_settled(judge: Judge, history: Sequence[Step], before: Verdict) -> tuple[bool, bool]:
    """Return whether the plan has settled, and whether extrapolation would hide that."""
    last = history[-1]
    # The moments of centered points are nearly zero under the product plan.
    noise = all(step.is_noise for step in history[-WINDOW:])
    # A damped move is small because it is damped.
    former = last.frobenius_change if before.cycle.damping else history[-2:][0].frobenius_change
    return judge.settles(
        len(history),
        0.0 if noise else last.change,
        last.frobenius_change,
        former,
        last.gw_cost,
        last.gw_before,
        last.error,
        before.settled,
    )


def n_recent(method: Method) -> int:
    """Return the number of last iterations at whose lowest plan steps are damped."""
    # A proximal plan wanders: of 200 random semi-relaxed problems one ended above POT's loss with
    # damping at the lowest plan of 20 iterations, none with 200.
    return 10 * WINDOW if method.proximal else WINDOW


def _status(
    history: Sequence[Step],
    linearization: Linearization,
    limits: Limits,
    ended: Ending | None,
    settled: bool,
    stalled: bool,
) -> Ending | None:
    """Return why the descent ends after its last step, or None."""
    last, recent = history[-1], history[-WINDOW:]
    if ended == Ending.STOPPED:
        return ended
    if settled and last.error <= max(limits.marginal_tol, last.least_error):
        # Where rounding is as large as the plan nothing has converged, unless the product plan is
        # right, as it is if all costs are equal.
        rounded = linearization.change_is_rounded and last.floor >= 1.0 and last.deviates
        moving = last.change > max(limits.tol, MAX_ROUNDED)
        return Ending.PRECISION if rounded or moving else Ending.CONVERGED
    if ended is not None:
        return ended
    # Below this fraction of the mass of the product plan an unbalanced plan is lost.
    if len(recent) == WINDOW and all(step.mass < 1e-4 for step in recent):
        return Ending.LOST_MASS
    if settled and last.thorough:
        # Neither the plan nor its marginals change.
        return Ending.MAX_INNER if last.n_inner >= limits.max_inner else Ending.PRECISION
    if stalled:
        return Ending.PRECISION
    return Ending.MAX_OUTER if len(history) >= limits.max_outer else None


def _may_leave(history: Sequence[Step], before: Verdict, tol: float) -> bool:
    """Return whether a small change may be the first of growing ones."""
    change = history[-1].change
    growing = change > 2 * history[-2:][0].change and change > tol
    return history[-1].floor > UNSTABLE and (not before.confirms or growing)


def has_stalled(history: Sequence[Step], floor: float) -> bool:
    """Return whether the change no longer falls, near the floor of rounding."""
    if not history[-1].change < floor:
        return False
    return _judge.has_stalled([step.change for step in history], floor, WINDOW)


def _turns(history: Sequence[Step], judge: Judge, rounding: float) -> bool:
    """Return whether steps go back and forth, or proximal steps raise the objective."""
    if len(history) <= WINDOW:
        return False
    recent = history[: -1 - WINDOW : -1]
    n_returned = sum(1 for _ in itertools.takewhile(lambda step: step.returned, recent))
    pairs = enumerate(itertools.pairwise(step.gw_cost for step in recent))
    rises = (k for k, (late, early) in pairs if late > early + rounding)
    then = history[-1 - WINDOW].change
    return judge.turns(n_returned, next(rises, WINDOW), recent[0].change, then)

"""The outer loop: linearize at the plan, solve the linear problem, repeat (projected
gradient descent of Peyre, Cuturi and Solomon, ICML 2016; Algorithm 1 of Alvarez-Melis
and Jaakkola, EMNLP 2018).

Two things differ from the textbook loop, and neither moves where it ends. The
potentials of one linear problem start the next. And early linear problems are solved
only as well as the plan still moves: the tolerance of the inner iterations follows the
change of the outer ones, down to the one that was asked for.
"""

import dataclasses
import time

import numpy as np

from ..linear.gibbs_kernel import Misfit
from ..linear.marginals import OneSided, solver_for
from ..linear.sinkhorn import in_units
from ..results.result import GWResult, LiveStep, OuterStep
from ..utils.validation import as_count, as_positive

# Relative change of an outer iteration below which the next ones are extrapolated.
EXTRAPOLATE_BELOW = 0.05
# They are if the last one was at most this many times the one before, and the plan has
# this share of the information it could have about who matches whom.
CONTRACTING, TOLD = 0.75, 0.2
# The change from which the steps of a deep trail are trusted, and how much it may grow.
EXTRAPOLATE_DEEP_BELOW, MOST_GROWTH = 1e-3, 1.5
# Outer iterations without a smaller change that count as standing still.
STALLED_AFTER = 20
# How much tighter inner solutions may get because the objective rose.
MOST_TIGHTENING = 16


@dataclasses.dataclass(frozen=True)
class Limits:
    """When a descent ends; see `gromov_wasserstein`.

    With `absolute`, `tol` is for the Frobenius norm of the change of the plan, and says
    nothing about the objective. It is looked at in the first iteration and in each
    `every`-th after it, and nothing is extrapolated before the first of those.
    """

    max_outer: int
    max_inner: int
    tol: float
    marginal_tol: float
    absolute: bool = False
    every: int = 1

    def looks_at(self, iteration):
        """Whether that one may be the last."""
        return (iteration - 1) % self.every == 0

    def __post_init__(self):
        as_count(self.max_outer, "max_outer")
        as_count(self.max_inner, "max_inner")
        as_positive(self.tol, "tol")
        as_positive(self.marginal_tol, "marginal_tol")


class Descent:
    """Outer iterations from one start. It can be paused, and taken up again with other
    limits, but for one thing: descents that share a workspace must not run at once.

    Parameters
    ----------
    linearization : Linearization
        With its state set.
    epsilons : Schedule
        What epsilon is in each iteration.
    gw_cost : float
        Objective of the state.

    Attributes
    ----------
    callback : callable or None
        Called with every step, a `LiveStep`; what it returns may stop the descent.
    history : list of OuterStep
    moves : list of float
        Frobenius norms of what the iterations changed of the plan, where known.
    gw_cost, change, error : float
        Objective, relative change and marginal error after the last iteration.
    status : str or None
        As in `GWResult`; None before the first `advance`.
    seconds : float
        Spent in `advance`.
    """

    def __init__(self, linearization, epsilons, gw_cost):
        self.linearization, self.epsilons, self.callback = linearization, epsilons, None
        self.precision = linearization.precision
        self.solver = solver_for(
            linearization.problem, linearization.n_threads, self.precision
        )
        self.history, self.gw_cost, self.change, self.error = [], gw_cost, 1.0, np.inf
        self.moves = []
        self.status, self.seconds = None, 0.0
        self._few, self._share = linearization.inner_passes, linearization.inner_share
        # Steps to go without extrapolation, and after the next one that failed.
        self._settled, self._guard, self._resting, self._pause = False, None, 0, 1
        self._again = False
        self._kernel = self._coupling = self._entropy = None

    def extend(self, coarse, rows, cols):
        """Start with the potentials of a descent on `rows` and `cols` only."""
        linearization, solver = self.linearization, coarse.solver
        epsilon = in_units(self.epsilons.at(0), linearization.unit, self.precision)
        potentials = linearization.potentials_from(
            (solver.f, solver.g), rows, cols, epsilon
        )
        if potentials is not None:
            self.solver.f, self.solver.g = potentials

    def follow(self, head):
        """Start where a descent on costs nearly the same has ended."""
        before, now = head.linearization, self.linearization
        # The separable terms are not taken apart alike.
        self.solver.f, self.solver.g = (
            (before.unit * potential + old - new) / now.unit
            for potential, old, new in (
                (head.solver.f, before.row_cost, now.row_cost),
                (head.solver.g, before.col_cost, now.col_cost),
            )
        )
        self.history, self.moves = list(head.history), list(head.moves)
        self.change, self.seconds = head.change, head.seconds

    def advance(self, limits):
        """Iterate, at least once, until a limit or the tolerances; sets `status`."""
        began = time.perf_counter() - self.seconds
        self.status = None
        while self.status is None:
            self._iterate(limits, began)
        self.seconds = time.perf_counter() - began
        return self.status

    def _iterate(self, limits, began):
        linearization, history = self.linearization, self.history
        epsilon = self.epsilons.at(len(history))
        final = epsilon == self.epsilons.last
        inner_epsilon = in_units(epsilon, linearization.unit, self.precision)
        # Rounding the pseudo-cost moves its plan by about this much, and the product
        # that makes it, by up to four times as much.
        floor, tol = self.precision.rounding / inner_epsilon, limits.tol
        if linearization.change_is_rounded:
            tol = max(tol, floor)
        # The last plan that the limit allows has to keep its marginals too.
        thorough = self._settled or len(history) + 1 >= limits.max_outer
        marginal_tol, max_inner = limits.marginal_tol, limits.max_inner
        # What the marginals miss moves the plan by about as much from one iteration to
        # the next.
        inner_tol = max(3 * limits.tol, self.precision.inner_tol)
        rough = min(self._share * self.change, self.precision.rough)
        if limits.absolute:
            # A small step is no end while the error may be as large.
            inner_tol = max(self.precision.inner_tol, min(inner_tol, rough))
        inner_tol = min(marginal_tol, inner_tol)
        before, self._last_change = self.gw_cost, self.change
        n_inner, gw_cost, change = self._step(
            inner_epsilon,
            tol=inner_tol if thorough else max(inner_tol, rough),
            max_iter=max_inner if thorough else min(self._few, max_inner),
        )
        error, shown = self._errors()
        self._coupling = self._entropy = None
        # The objective is a small difference of larger terms; where it is zero (an
        # exact match) their rounding is all that moves.
        allowed = tol * abs(gw_cost) + self._rounding
        step = OuterStep(
            iteration=len(history) + 1,
            gw_cost=gw_cost,
            epsilon=epsilon,
            change=change,
            marginal_error=shown,
            n_inner=n_inner,
            seconds=time.perf_counter() - began,
        )
        history.append(step)
        self.moves.append(linearization.moved)
        self.gw_cost, self.change, self.error = gw_cost, change, error
        if error > change:
            # The plan now moves because its marginals are still settling.
            self._few *= 2
        elif gw_cost > before + allowed:
            # So does the objective, or rough inner solutions have made the outer
            # iterations cycle, which exact ones cannot (for concave objectives).
            # What cycles nevertheless is not worth unlimited passes.
            most = MOST_TIGHTENING * linearization.inner_passes
            self._few = max(self._few, min(2 * self._few, most))
            least = linearization.inner_share / MOST_TIGHTENING
            self._share = max(self._share / 2, least)
        if limits.absolute:
            settled = linearization.moved <= limits.tol or change <= floor
            # What moves that little is left to show whether it grows.
            early = settled or len(history) <= limits.every
            settled = settled and (self._again or limits.looks_at(len(history)))
            settled = settled and not self._grows()
        else:
            settled = change <= tol and abs(gw_cost - before) <= allowed
            early = False
        if linearization.change_is_rounded:
            settled = settled or _stalled(history, 4 * floor)
        settled = self._settled = final and settled
        # An extrapolated step may be small by chance, and only a part of the kernel may
        # have settled: one more.
        again = settled and (self._guard is not None or linearization.restore())
        self._again = again
        settled = settled and not again
        if self._told_to_stop(step):
            self.status = "stopped"
        elif settled and error <= marginal_tol:
            self.status = "converged"
        elif settled and thorough:
            # Nothing moves, and the marginals are as good as they get.
            self.status = "max_inner" if n_inner >= max_inner else "precision"
        elif (
            final
            and _stalled(history, max(self.precision.stalled, floor))
            and not linearization.restore()
        ):
            self.status = "precision"
        elif len(history) >= limits.max_outer:
            self.status = "max_outer"
        elif (
            final
            and not again
            and not early
            and linearization.extrapolates
            and (self._guard or change <= EXTRAPOLATE_BELOW)
        ):
            # The last one that the limit allows could not be taken back.
            self._extrapolate(before, further=len(history) + 1 < limits.max_outer)
        else:
            linearization.forget()
            self._guard = None

    def _step(self, epsilon, **options):
        """Linearize at the plan, solve the linear problem, take its plan; returns the
        passes that took, the objective and the relative change.
        """
        linearization, solver = self.linearization, self.solver
        kernel = linearization.kernel(solver, epsilon)
        solver.bases = linearization.bases
        try:
            n_inner = solver.solve(kernel, epsilon, **options)
        except Misfit:
            linearization.misfit()
            kernel = linearization.kernel()
            n_inner = solver.solve(kernel, epsilon, **options)
        self._kernel = kernel
        return n_inner, *linearization.update(kernel, solver)

    def _grows(self):
        """Whether the last change is larger than the one before, and no rounding."""
        last = self.moves[-2:]
        return last[0] < last[-1] > self.precision.inner_tol

    def _errors(self):
        """Of the marginals that the plan was fitted to, and of all that it should
        have.
        """
        return (self.solver.error(*self.linearization.marginals),) * 2

    @property
    def _rounding(self):
        """Of the objective."""
        return self.precision.cost_rounding * self.linearization.magnitude

    def _told_to_stop(self, step):
        """Call back; what comes back says whether to stop."""
        if self.callback is None:
            return False
        live = LiveStep.of(
            step,
            lambda: self.linearization.snapshot(self._kernel, self.solver),
            self.linearization.moved,
        )
        try:
            return bool(self.callback(live))
        finally:
            live.expire()

    def _extrapolate(self, gw_before, further):
        """Go back to the plan before if going on from where the last plans led was no
        good; else, if `further`, do so again.
        """
        linearization, change = self.linearization, self.change
        if linearization.deep:
            self._extrapolate_deep(gw_before, further)
            return
        entropy = linearization.entropy(self._kernel, self.solver)
        reg_cost = self.gw_cost - 2 * self.history[-1].epsilon * entropy
        # An objective is known as well as the marginals are met.
        slack = self.error * abs(self.gw_cost) + self._rounding
        if self._guard is not None:
            least_change, least_cost, least_slack = self._guard
            if change > least_change or reg_cost > least_cost + slack + least_slack:
                linearization.retract()
                self.gw_cost, self.change = gw_before, least_change
                self._guard, self._pause = None, 2 * self._pause
                self._resting = self._pause
                return
        # Where steps do not become smaller, or the plan says little yet, it may be
        # about to leave a saddle; extrapolation would settle there before that shows.
        masses = [mass_entropy(sums) for sums in linearization.marginals]
        told = (sum(masses) - entropy) / (min(masses) or 1.0)
        calm = change <= min(CONTRACTING * self._last_change, EXTRAPOLATE_BELOW)
        calm = calm and told >= TOLD and further
        self._resting = max(self._resting - 1, 0)
        if not calm or self._resting:
            linearization.forget()
            self._guard = None
            return
        moved = linearization.extrapolate()
        self._guard = (change, reg_cost, slack) if moved else None

    def _extrapolate_deep(self, gw_before, further):
        """The same by the steps alone, which say themselves whether they contract."""
        linearization, change = self.linearization, self.change
        if self._guard is not None and change > MOST_GROWTH * self._guard[0]:
            linearization.retract()
            self.gw_cost, self.change = gw_before, self._guard[0]
            self._guard, self._pause = None, 2 * self._pause
            self._resting = self._pause
            return
        self._resting = max(self._resting - 1, 0)
        if not further or self._resting or change > EXTRAPOLATE_DEEP_BELOW:
            linearization.forget()
            self._guard = None
            return
        self._guard = (change,) if linearization.extrapolate() else None

    def information(self):
        """Kullback-Leibler divergence of the plan from the product of its marginals,
        right after `advance`.
        """
        return sum(map(mass_entropy, self.linearization.marginals)) - self.entropy()

    def coupling(self):
        """The plan, right after `advance`."""
        if self._coupling is None:
            self._coupling = self.linearization.coupling(self._kernel, self.solver)
        return self._coupling

    def entropy(self):
        """Of the plan, right after `advance`."""
        if self._entropy is None:
            self._entropy = self.coupling().entropy()
        return self._entropy

    def result(self, **more):
        """The `GWResult`, right after `advance`; `more` are fields to set."""
        linearization, solver, history = self.linearization, self.solver, self.history
        epsilon, unit = history[-1].epsilon, linearization.unit
        fields = dict(
            coupling=self.coupling(),
            potentials=(
                unit * solver.f + linearization.row_cost,
                unit * solver.g + linearization.col_cost,
            ),
            gw_cost=self.gw_cost,
            linear_cost=linearization.linear_cost(),
            reg_cost=self.gw_cost - 2 * epsilon * self.entropy(),
            epsilon=epsilon,
            marginal_error=history[-1].marginal_error,
            n_outer=len(history),
            n_inner=sum(step.n_inner for step in history),
            status=self.status,
            left_out=linearization.lost,
            history=tuple(history),
            seconds=self.seconds,
        )
        return GWResult(**{**fields, **more})


class Alternating(Descent):
    """Bregman alternating projected gradient (Li et al., ICLR 2023): an iteration
    linearizes twice, and fits the rows, then the columns.
    """

    def __init__(self, linearization, epsilons, gw_cost):
        super().__init__(linearization, epsilons, gw_cost)
        p, q = linearization.problem.p, linearization.problem.q
        threads = linearization.n_threads
        self._sides = [OneSided(p, q, threads, self.precision, k) for k in (0, 1)]

    def _step(self, epsilon, **options):
        linearization, before = self.linearization, self.linearization.state.copy()
        n_inner = 0
        for side in self._sides:
            self.solver = side
            done, gw_cost, _ = super()._step(epsilon, **options)
            n_inner += done
        change, linearization.moved = linearization.distance_to(before)
        return n_inner, gw_cost, change

    def _errors(self):
        made = self.linearization.marginals
        return self.solver.error(*made), sum(side.error(*made) for side in self._sides)


def mass_entropy(masses):
    """``-sum masses log masses``."""
    masses = masses[masses > 0]
    return -float(masses @ np.log(masses))


def _stalled(history, floor):
    """Whether the change no longer falls, near the floor of rounding."""
    if len(history) <= STALLED_AFTER:
        return False
    recent = [step.change for step in history[-STALLED_AFTER:]]
    before = min(step.change for step in history[:-STALLED_AFTER])
    # All of them below: a plan that leaves a saddle changes little, then much.
    return before <= min(recent) and max(recent) < floor

"""The outer loop: linearize at the plan, solve the linear problem, repeat (projected gradient
descent of Peyre, Cuturi and Solomon, ICML 2016; Algorithm 1 of Alvarez-Melis and Jaakkola, EMNLP
2018).

Three things differ from the textbook loop, and none changes its fixed points. The potentials of one
linear problem start the next. Early linear problems are solved only as exactly as the plan still
moves (judge.py). And the state may move to where its last steps lead (acceleration.py, samples.py).
"""

import dataclasses
import functools
import time
from typing import Any

import numpy as np

from ..kernels import _kernels
from ..linear.log_domain import Potentials
from ..linear.sinkhorn_solver import in_units
from ..problems.epsilon import Schedule
from ..results.result import GWResult, LiveStep, OuterStep
from ..results.status import Status
from . import certificate
from .acceleration import Anderson, Going
from .judge import MAX_ROUNDED, SLACK, Options, Step, Verdict, judge
from .methods import solvers_of, take_step
from .samples import SampleMoves
from .small_descent import SmallDescent
from .state import State


@dataclasses.dataclass(frozen=True, eq=False)
class Descent:
    """A descent after some iterations, from which `descend` goes on.

    Attributes
    ----------
    linearization : Linearization
    epsilons : Schedule
    going : Going
        What the next iteration starts from.
    state : State
        Of the last plan, without acceleration.
    steps : tuple of Step
    status : Status or None
        Why it ended; None before the first iteration.
    seconds, update_seconds : float
        Of all iterations, and of the last new state.
    before, kernel, solution
        The state, the kernel and the solution of the last linear problem.
    """

    linearization: Any
    epsilons: Schedule
    going: Going
    state: State
    steps: tuple = ()
    status: Status | None = None
    seconds: float = 0.0
    update_seconds: float = 0.0
    verdict: Verdict | None = None
    moves_of: Any = None
    trail: tuple = ()
    before: State | None = None
    kernel: Any = None
    solution: Any = None
    small: Any = None
    is_restored: bool = False

    @classmethod
    def at(cls, linearization, state, epsilons, *, after=None, change=1.0, update_seconds=0.0):
        """Return the descent from a state without an iteration, or with the iterations of a warm
        start, the descent `after` which it comes.
        """
        known = {}
        if after is not None:
            known = dict(steps=after.steps, seconds=after.seconds)
            if after.status == Status.STOPPED:  # by a callback
                known["status"] = after.status
            change = after.steps[-1].change
        going = Going(state, change, state.objective)
        return cls(linearization, epsilons, going, state, update_seconds=update_seconds, **known)

    def with_steps(self, columns, state, status, seconds):
        """Return the descent after more iterations to a state: of all these lists ``gw_cost,
        change, moved, error, n_inner``.
        """
        linearization, steps, gw_before = self.linearization, list(self.steps), self.gw_cost
        magnitude = linearization.magnitude(state)
        mass = linearization.problem.rule.plan_mass(state.row_sums)
        for gw_cost, change, moved, error, n_inner in zip(*columns, strict=True):
            epsilon = self.epsilons.at(len(steps))
            known = gw_cost, gw_before, epsilon, change, moved, error / mass, error, n_inner
            steps.append(Step(*known, seconds=seconds, magnitude=magnitude))
            gw_before = gw_cost
        return dataclasses.replace(
            self, going=Going(state, change, gw_cost), state=state, steps=tuple(steps),
            status=status, seconds=seconds,
        )  # fmt: skip

    @property
    def problem(self):
        return self.linearization.problem

    @functools.cached_property
    def history(self):
        """An `OuterStep` of each iteration."""
        return tuple(map(outer_step, range(1, len(self.steps) + 1), self.steps))

    @property
    def moves(self):
        """Frobenius norms of the change of the plan by each iteration; NaN if unknown."""
        return [step.moved for step in self.steps]

    @property
    def gw_cost(self):
        """Objective for the given marginals, with the rounding of the loop."""
        return self.going.gw_cost

    @property
    def change(self):
        return self.going.change

    @property
    def marginals(self):
        """Row and column sums of the plan."""
        return self.state.row_sums, self.state.column_sums

    @property
    def epsilon(self):
        """Epsilon of the last iteration, in units of cost."""
        return self.steps[-1].epsilon

    def paused(self):
        """Return the descent without a stored kernel, which is made anew if it is needed."""
        if self.linearization.buffer_of(self.kernel) is None:
            return self
        return dataclasses.replace(self, kernel=None, solution=None)

    @functools.cached_property
    def coupling(self):
        """The plan."""
        return self.linearization.coupling(*self._last)

    @property
    def _last(self):
        units = self.linearization.cost_scale, self.linearization.precision
        epsilon = in_units(self.epsilon, *units)
        return self.kernel, self.solution, self.before, self.state, epsilon

    @functools.cached_property
    def entropy(self):
        """Entropy of the plan."""
        return self.coupling.entropy()

    @functools.cached_property
    def kept(self):
        """The least share of a mass that is kept, and the mass that is lost, of either side."""
        rule = self.problem.rule
        return tuple(map(_kernels.kept, self.marginals, (rule.p, rule.q)))

    @functools.cached_property
    def left_out(self):
        """See `GWResult`."""
        return self.linearization.left_out(self.kernel, self.solution)

    @property
    def information(self):
        """Mutual information of the plan, its Kullback-Leibler divergence from the product of its
        marginals, and its upper bound.
        """
        of_rows, of_cols = map(_kernels.mass_entropy, self.marginals)
        return of_rows + of_cols - self.entropy, min(of_rows, of_cols)

    @property
    def potentials(self):
        """`Potentials` in units of cost, with the separable terms."""
        scale, scaled = self.linearization.cost_scale, self.state.potentials
        row_cost, column_cost = self.state.separable
        return Potentials(scale * scaled.f + row_cost, scale * scaled.g + column_cost)

    @functools.cached_property
    def linear_value(self):
        """``<linear_cost, plan>``."""
        return self.linearization.linear_value(self.state)

    @property
    def bilinear(self):
        """``-<h1(C1) T h2(C2)', T>`` with the weight of the quadratic term, of matrices."""
        return self.linearization.bilinear_value(self.state)

    @functools.cached_property
    def objective(self):
        """Objective of the plan. If rounding or missed marginals may move `gw_cost` by more than
        `certificate.MAX_ERROR`, it is computed in float64 from the plan.
        """
        gw_cost = self.steps[-1].gw_cost
        known = self._error() <= certificate.MAX_ERROR * abs(gw_cost)
        if known or self.linearization.is_elsewhere:
            return gw_cost
        value = certificate.objective(self.problem, self.coupling, self.linear_value)
        return value + self.problem.rule.penalty(*self.marginals)

    def _error(self):
        """Return how far `gw_cost` may be from the objective of the plan."""
        problem, last = self.problem, self.steps[-1]
        error = self.linearization.precision.cost_rounding * last.magnitude
        # Beyond so few multiplications the objective for the given marginals will do.
        (n, m), missed = problem.shape, last.marginal_error
        counts = missed > 1e-5 or n * m * (n + m) <= 1e8
        if problem.is_balanced and counts:
            sides = zip(self.state.separable, self.marginals, (problem.p, problem.q), strict=True)
            error += 2 * sum(np.abs(c) @ np.abs(sums - masses) for c, sums, masses in sides)
        return error

    def start_for(self, linearization, epsilon=0.0):
        """Return plan and potentials as a state of another linearization of nearly equal costs,
        whose first linear problem has this epsilon, in its units.
        """
        state = linearization.initial(self.coupling.toarray(), epsilon=epsilon)
        known, scale = self.potentials, linearization.cost_scale
        row_cost, column_cost = state.separable
        potentials = Potentials((known.f - row_cost) / scale, (known.g - column_cost) / scale)
        return state._replace(potentials=potentials)

    def export(self):
        """Return the descent as arrays, for `restored`; what accelerates it is left out."""
        state, schedule, verdict = self.state, self.epsilons, self.verdict or Verdict()
        of_plan = dict(plan=state.plan)
        if state.plan is None:
            of_plan = dict(moments=state.moments, entropy=state.entropy)
        return dict(
            of_plan,
            row_sums=state.row_sums,
            column_sums=state.column_sums,
            f=state.potentials.f,
            g=state.potentials.g,
            steps=np.array(self.steps, dtype=np.float64),
            schedule=np.array([schedule.last, schedule.first, schedule.factor]),
            going=np.array([self.change, self.seconds, verdict.inner_limit, verdict.n_cycles]),
        )

    @classmethod
    def restored(cls, linearization, saved):
        """Return the descent that `export` described, of the same costs.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the arrays are not of such a descent.
        """
        sizes = linearization.problem.shape
        sums, (f, g) = (saved["row_sums"], saved["column_sums"]), (saved["f"], saved["g"])
        for array, size in zip((*sums, f, g), 2 * sizes, strict=True):
            if array.shape != (size,) or array.dtype != np.float64:
                raise ValueError(f"expected {size} numbers, got {array.dtype} {array.shape}")
        steps = [Step(*map(float, row)) for row in saved["steps"]]
        steps = tuple(step._replace(n_inner=int(step.n_inner)) for step in steps)
        change, seconds, inner_limit, n_cycles = map(float, saved["going"])
        epsilons = Schedule(*map(float, saved["schedule"]))
        units = linearization.cost_scale, linearization.precision
        state = linearization.restored_state(
            saved, Potentials(f, g), in_units(epsilons.at(len(steps)), *units)
        )
        made = cls.at(linearization, state, epsilons, change=change)
        # Rougher inner solutions would lead away from the plan.
        limit = max(int(inner_limit), linearization.inner_limit)
        verdict = first_verdict(linearization)._replace(inner_limit=limit, n_cycles=int(n_cycles))
        # The compiled loop cannot go on from iterations before.
        return dataclasses.replace(
            made, steps=steps, seconds=seconds, verdict=verdict, is_restored=True
        )

    def result(self, **more):
        """Return the `GWResult`; `more` are fields to set."""
        last, potentials, marginals = self.steps[-1], self.potentials, self.marginals
        rule = self.problem.rule
        fields = dict(
            coupling=self.coupling,
            potentials=(potentials.f, potentials.g),
            gw_cost=self.objective,
            linear_cost=self.linear_value,
            penalty=rule.penalty(*marginals),
            reg_cost=rule.regularized(self.objective, last.epsilon, self.entropy, *marginals),
            **rule.asked(),
            mass=float(marginals[0].sum()),
            lost=tuple(lost for _, lost in self.kept),
            epsilon=last.epsilon,
            marginal_error=last.marginal_error,
            n_outer=len(self.steps),
            n_inner=sum(step.n_inner for step in self.steps),
            status=self.status,
            left_out=self.left_out,
            method=self.linearization.method.name,
            history=self.history,
            seconds=self.seconds,
        )
        return GWResult(**fields | more)


def outer_step(number, step):
    """Return the `OuterStep` of a `Step`."""
    return OuterStep(
        number, step.gw_cost, step.epsilon, step.change, step.marginal_error, step.n_inner,
        step.seconds,
    )  # fmt: skip


def descend(linearization, start, epsilons, limits, *, callback=None, save=None, after=None):
    """Iterate, at least once, until a limit or the tolerances.

    Parameters
    ----------
    linearization : Linearization
    start : State or Descent
        A descent goes on.
    epsilons : Schedule
    limits : Limits
    callback : callable or None, default=None
        Called with a `LiveStep` after every iteration; the descent ends if it returns true.
    save : callable or None, default=None
        Called with the descent after every iteration but the last.
    after : Descent or None, default=None
        A warm start, whose iterations count.

    Returns
    -------
    Descent
    """
    at = start
    if isinstance(start, State):
        at = Descent.at(linearization, start, epsilons, after=after)
    at, began = dataclasses.replace(at, status=None), time.perf_counter() - at.seconds
    loop = _Loop(linearization, epsilons, limits, began, callback)
    small = at.small or SmallDescent(linearization, at.going.state)
    # A checkpoint or a callback sees each iteration; the compiled loop goes on from its own alone.
    small.goes_on = small.goes_on and callback is None and save is None and not at.is_restored
    while at.status is None:
        made = None
        if small.goes_on and not limits.deadline.passed():
            made = loop.descend_small(small, at)
        if made is None:
            made, small.goes_on = loop.iterate(at), False
        at = made
        if save is not None and at.status is None:
            save(at)
    return dataclasses.replace(at, seconds=time.perf_counter() - began, small=small)


def first_verdict(linearization):
    """Return how a descent begins."""
    # In float32 with acceleration the plan first converges for the low-rank part of the product,
    # then a whole product corrects the rest.
    single = linearization.accelerates and linearization.precision.itemsize <= 4
    return Verdict(
        inner_limit=linearization.inner_limit,
        inner_fraction=linearization.inner_fraction,
        slack=2.0 if single else SLACK,
    )


class _Loop:
    """The limits, the solvers and the buffer of one call of `descend`."""

    def __init__(self, linearization, epsilons, limits, began, callback):
        method = linearization.method
        self.linearization, self.epsilons, self.limits = linearization, epsilons, limits
        self.began, self.callback, self.buffer = began, callback, None
        self.options = Options(
            limits,
            linearization.precision,
            epsilons.last,
            rounds=linearization.change_is_rounded,
            proximal=method.proximal,
            alternating=method.alternating,
            damps=linearization.can_damp,
            inner_limit=linearization.inner_limit,
            inner_fraction=linearization.inner_fraction,
            n_kept=linearization.n_kept,
        )

    @functools.cached_property
    def solvers(self):
        return solvers_of(self.linearization)

    def iterate(self, at):
        """Return the descent after one more iteration."""
        linearization, limits, going = self.linearization, self.limits, at.going
        verdict = at.verdict or first_verdict(linearization)
        moves = at.moves_of or (SampleMoves() if linearization.samples else Anderson())
        epsilon = self.epsilons.at(len(at.steps))
        units = linearization.cost_scale, linearization.precision
        thorough = verdict.is_thorough(len(at.steps), limits)
        least_error = linearization.least_error(going.state)
        tol, most = verdict.inner(
            self.options, going.expected * going.change, thorough, least_error,
        )  # fmt: skip
        taken = take_step(
            linearization, self.solvers, going.state, in_units(epsilon, *units), tol=tol,
            max_iter=most, deadline=limits.clock(at.update_seconds),
            # Damping needs the last plan.
            buffer=None if verdict.damping else self.buffer,
            slack=verdict.slack, share=verdict.share,
        )  # fmt: skip
        state, self.buffer = taken.state, linearization.buffer_of(taken.kernel)
        # A linear problem that was cut short ends the loop.
        late = limits.late(max(at.update_seconds, taken.seconds))
        change, moved = linearization.distances(taken.before, state)
        if verdict.damping:
            state = linearization.damped(taken.before, state, verdict.damping)
        step = self._step(at, taken, state, change, moved, epsilon)
        steps, trail = (*at.steps, step), (*at.trail, taken.solution.potentials)[-2:]
        made = dict(
            state=taken.state if state.plan is None else state, steps=steps, trail=trail,
            update_seconds=taken.seconds, kernel=taken.kernel, solution=taken.solution,
            before=taken.before if state.plan is None else None,
        )  # fmt: skip
        ended = None
        if self.callback is not None and self._stops(dataclasses.replace(at, **made)):
            ended = Status.STOPPED
        elif late or limits.late(taken.seconds):  # a callback takes time as well
            ended = Status.TIME_LIMIT
        judged = dict(ended=ended, thorough=thorough, least_error=least_error)
        ruling = judge(steps, self.options, verdict, **judged)
        if ruling.sharpens:
            sharper = linearization.sharpened(taken.before, state, in_units(epsilon, *units))
            if sharper is None:
                steps = (*at.steps, step._replace(exact=True))
                ruling = judge(steps, self.options, verdict, **judged)
            else:
                state = made["state"] = sharper
        going = Going(state, change, step.gw_cost)
        if ruling.status is not None:
            moves = moves._replace(back=None)
        elif ruling.accelerates:
            moves, going = moves.advance(
                linearization, taken.before, state, step, taken=taken, limits=limits,
                slack=verdict.slack, epsilon=self.epsilons.last, descend=descend,
                # A move before the last iteration could not be undone.
                may_move=len(steps) + 1 < limits.max_outer,
            )  # fmt: skip
        else:
            moves = moves.reset()
        return dataclasses.replace(
            at, **made, going=going, status=ruling.status, verdict=ruling, moves_of=moves
        )

    def _step(self, at, taken, state, change, moved, epsilon):
        """Return the `Step` of an iteration."""
        linearization, going = self.linearization, at.going
        problem, precision = linearization.problem, linearization.precision
        floor = precision.rounding / in_units(epsilon, linearization.cost_scale, precision)
        returned, potentials = False, taken.solution.potentials
        if len(at.trail) == 2 and not self.options.alternating:
            first, last = (_distance(potentials, other) for other in at.trail)
            returned = first < last and all(step.epsilon == epsilon for step in at.steps[-2:])
        exact, corrected = linearization.exactness(at.state, taken.before, state)
        return Step(
            gw_cost=state.objective,
            gw_before=going.gw_cost,
            epsilon=epsilon,
            change=change,
            moved=moved,
            error=taken.error,
            marginal_error=taken.marginal_error,
            n_inner=taken.n_inner,
            seconds=time.perf_counter() - self.began,
            mass=float(state.row_sums.sum()) / problem.mass if problem.rule.is_relaxed else 1.0,
            magnitude=linearization.magnitude(state),
            floor=floor,
            led=going.led,
            returned=returned,
            exact=exact,
            corrected=corrected,
            is_noise=linearization.is_noise(change, state),
            deviates=floor < 1.0 or linearization.deviation(state) > MAX_ROUNDED,
        )

    def descend_small(self, small, at):
        """Return the descent after the iterations that `SmallDescent` can make, or None."""
        limits = self.limits
        columns, state, status = small.take(len(at.steps), limits, self.epsilons)
        if state is None:
            return None
        if status is None and limits.deadline.passed():
            status = Status.TIME_LIMIT
        return at.with_steps(columns, state, status, time.perf_counter() - self.began)

    def _stops(self, at):
        """Call the callback, which sees the last iteration; whether the descent ends."""
        step = outer_step(len(at.steps), at.steps[-1])
        snapshot = functools.partial(self.linearization.snapshot, *at._last)
        return LiveStep.stops(self.callback, step, snapshot, at.steps[-1].moved)


def _distance(one, other):
    """Return the largest difference of ``f_i + g_j`` of points with mass."""
    most, least = 0.0, 0.0
    with np.errstate(invalid="ignore"):
        sides = one.f - other.f, one.g - other.g
    for apart in sides:
        apart = apart[np.isfinite(apart)]
        if not len(apart):
            return 0.0  # plans without mass
        most, least = most + apart.max(), least + apart.min()
    return float(max(most, -least))

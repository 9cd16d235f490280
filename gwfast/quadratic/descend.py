"""The outer loop: linearize at the plan, solve the linear problem, repeat (projected gradient
descent of Peyre, Cuturi and Solomon, ICML 2016; Algorithm 1 of Alvarez-Melis and Jaakkola, EMNLP
2018).

Three things differ from the textbook loop, and none changes its fixed points. The potentials of one
linear problem start the next. Early linear problems are solved only as exactly as the plan still
moves (judge.py). And the state may move to where its last steps lead (acceleration.py, samples.py).
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import DTypeLike

from ..kernels import _kernels
from ..linear.log_domain import Potentials
from ..linear.sinkhorn_solver import SinkhornSolver, in_units
from ..problems.epsilon import Schedule
from ..results.records import LiveStep, OuterStep
from ..results.result import GWResult
from ..results.status import Ending
from ..utils.types import Float64Array
from . import certificate
from .acceleration import Anderson, NextIterate
from .judge import MAX_ROUNDED, Step, Verdict, verdict_on
from .methods import StepResult, solvers_of, take_step
from .samples import SampleMoves
from .small_descent import descend_small
from .state import Linearization

if TYPE_CHECKING:
    from ..kernels._descent import Descent as CompiledDescent
    from ..problems.quadratic import QuadraticProblem
    from ..results.coupling import Coupling
    from ..results.records import Callback
    from .judge import Limits
    from .state import State


@dataclasses.dataclass(frozen=True, eq=False)
class Descent:
    """A descent after some iterations, from which `descend` goes on."""

    linearization: Linearization
    epsilons: Schedule
    iterate: NextIterate  # the start of the next iteration
    steps: Sequence[Step] = ()
    status: Ending | None = None  # why it ended; None before the first iteration
    seconds: float = 0.0  # of all iterations
    verdict: Verdict | None = None  # on the last step, if the outer loop made it
    moves: Anderson | SampleMoves | None = None
    step_result: StepResult | None = None  # of the outer loop's last step, if it made one
    trail: tuple[Float64Array, ...] = ()  # potentials of the rows, of the last two plans

    @classmethod
    def begin(
        cls,
        linearization: Linearization,
        state: State,
        epsilons: Schedule,
        *,
        after: Descent | None = None,
        change: float = 1.0,
    ) -> Descent:
        """Return the descent from a state without an iteration, or with the iterations of a warm
        start, the descent `after` which it comes.
        """
        iterate = NextIterate(state, change, state.objective)
        if after is None:
            return cls(linearization, epsilons, iterate)
        # A callback may have stopped the warm start.
        status = after.status if after.status == Ending.STOPPED else None
        iterate = iterate._replace(change=after.steps[-1].change)
        return cls(linearization, epsilons, iterate, after.steps, status, after.seconds)

    def after_compiled(
        self,
        compiled: CompiledDescent,
        state: State,
        status: Ending | None,
        seconds: float,
        verdict: Verdict | None = None,
    ) -> Descent:
        """Return the descent after the iterations of a compiled one, which led to a state; with a
        `verdict` the outer loop goes on.
        """
        steps = CompiledSteps(self, compiled, state, seconds)
        last = steps[-1]
        iterate = NextIterate(state, last.change, last.gw_cost)
        trail = () if verdict is None else (compiled.former, compiled.f)
        return dataclasses.replace(
            self,
            iterate=iterate,
            steps=steps,
            status=status,
            seconds=seconds,
            verdict=verdict,
            trail=trail,
        )

    @property
    def problem(self) -> QuadraticProblem:
        return self.linearization.problem

    @property
    def state(self) -> State:
        """`State` of the last plan, without acceleration."""
        return self.iterate.state if self.step_result is None else self.step_result.state

    @property
    def update_seconds(self) -> float:
        """Seconds that the last state took, beside inner iterations."""
        return 0.0 if self.step_result is None else self.step_result.seconds

    @functools.cached_property
    def history(self) -> tuple[OuterStep, ...]:
        """An `OuterStep` of each iteration."""
        return tuple(map(outer_step, range(1, len(self.steps) + 1), self.steps))

    @property
    def gw_cost(self) -> float:
        """Objective for the given marginals, with the rounding of the loop."""
        return self.iterate.gw_cost

    @property
    def marginals(self) -> tuple[Float64Array, Float64Array]:
        """Row and column sums of the plan."""
        return self.state.row_sums, self.state.column_sums

    @property
    def marginal_error(self) -> float:
        """Error of the marginals of the plan, which damping or acceleration may have changed after
        the last step. For an unbalanced problem, the error of the last linear problem.
        """
        rule, is_last = self.problem.rule, self.step_result is None and self.steps
        if rule.is_relaxed or is_last:
            return self.steps[-1].marginal_error
        return rule.error(*self.marginals)

    @property
    def epsilon(self) -> float:
        """Epsilon of the last iteration, in units of cost."""
        return self.steps[-1].epsilon

    def paused(self) -> Descent:
        """Return the descent without a stored kernel, which is made anew if it is needed."""
        result = self.step_result
        if result is None or self.linearization.buffer_of(result.kernel) is None:
            return self
        return dataclasses.replace(self, step_result=result._replace(kernel=None, solution=None))

    @functools.cached_property
    def coupling(self) -> Coupling:
        """The plan."""
        return self._coupling(self.linearization.coupling)

    def _coupling(self, make: Callable[..., Coupling]) -> Coupling:
        units = self.linearization.cost_scale, self.linearization.precision
        last = (None, None, None, self.state) if self.step_result is None else self.step_result[:4]
        return make(*last, in_units(self.epsilon, *units))

    @functools.cached_property
    def entropy(self) -> float:
        """Entropy of the plan."""
        return self.coupling.entropy()

    @functools.cached_property
    def kept(self) -> tuple[tuple[float, float], ...]:
        """The least share of a mass that is kept, and the mass that is lost, of either side."""
        rule = self.problem.rule
        return tuple(map(_kernels.kept, self.marginals, (rule.p, rule.q)))

    @functools.cached_property
    def truncated_mass(self) -> float:
        """See `GWResult`."""
        result = self.step_result
        if result is None:
            return 0.0
        return self.linearization.truncated_mass(result.kernel, result.solution)

    @property
    def information(self) -> tuple[float, float]:
        """Mutual information of the plan, its Kullback-Leibler divergence from the product of its
        marginals, and its upper bound.
        """
        of_rows, of_cols = map(_kernels.mass_entropy, self.marginals)
        return of_rows + of_cols - self.entropy, min(of_rows, of_cols)

    @property
    def potentials(self) -> Potentials:
        """`Potentials` in units of cost, with the separable terms."""
        scale, scaled = self.linearization.cost_scale, cast(Potentials, self.state.potentials)
        row_cost, column_cost = self.state.separable
        return Potentials(scale * scaled.f + row_cost, scale * scaled.g + column_cost)

    @functools.cached_property
    def linear_value(self) -> float:
        """``<linear_cost, plan>``."""
        return self.linearization.linear_value(self.state)

    @functools.cached_property
    def objective(self) -> float:
        """Objective of the plan. If rounding or the marginals may change `gw_cost` by more than
        `certificate.MAX_ERROR`, it is computed in float64 from the plan.
        """
        linearization, last, problem = self.linearization, self.steps[-1], self.problem
        allowed = certificate.MAX_ERROR * abs(last.gw_cost)
        rounding = linearization.precision.cost_rounding * last.magnitude
        if linearization.is_elsewhere or rounding + self._marginal_part() <= allowed:
            return last.gw_cost
        value = linearization.own_objective(self.state) if rounding <= allowed else None
        if value is None:
            value = certificate.objective(problem, self.coupling, self.linear_value)
            value += problem.rule.penalty(*self.marginals)
        return value

    def _marginal_part(self) -> float:
        """Return by how much the error of the marginals may change the objective."""
        problem, error = self.problem, self.marginal_error
        # Beyond so few multiplications the objective for the given marginals will do.
        n, m = problem.shape
        if not problem.is_balanced or (error <= 1e-5 and n * m * (n + m) > 1e8):
            return 0.0
        sides = zip(self.state.separable, self.marginals, (problem.p, problem.q), strict=True)
        return 2 * sum(float(np.abs(c) @ np.abs(sums - masses)) for c, sums, masses in sides)

    def start_for(self, linearization: Linearization, epsilon: float = 0.0) -> State:
        """Return plan and potentials as a state of another linearization of nearly equal costs,
        whose first linear problem has this epsilon, in its units.
        """
        state = linearization.initial(self.coupling.toarray(), epsilon=epsilon)
        known, scale = self.potentials, linearization.cost_scale
        row_cost, column_cost = state.separable
        potentials = Potentials((known.f - row_cost) / scale, (known.g - column_cost) / scale)
        return state._replace(potentials=potentials)

    def export(self) -> dict[str, Any]:
        """Return the descent as arrays and numbers, for `restored`, without what accelerates it."""
        state, known = self.state, dict(plan=self.state.plan)
        potentials = cast(Potentials, state.potentials)
        if state.plan is None:
            known = dict(moments=state.moments, entropy=state.entropy)
        return dict(
            known,
            row_sums=state.row_sums,
            column_sums=state.column_sums,
            f=potentials.f,
            g=potentials.g,
            steps=self.steps,
            schedule=dataclasses.astuple(self.epsilons),
            seconds=self.seconds,
            inner_limit=cast(Verdict, self.verdict).inner.limit,
        )

    @staticmethod
    def exported(linearization: Linearization) -> dict[str, tuple[tuple[int, ...], DTypeLike]]:
        """Return shapes and dtypes of the arrays of `export`, by their names."""
        name, shape, dtype = linearization.exported
        sides = dict(zip("fg", linearization.problem.shape, strict=True))
        sides |= dict(row_sums=sides["f"], column_sums=sides["g"])
        arrays = {side: ((n,), np.float64) for side, n in sides.items()}
        return {name: (shape, dtype), **arrays}

    @classmethod
    def restored(cls, linearization: Linearization, saved: Mapping[str, Any]) -> Descent:
        """Return the descent that `export` described, of the same costs."""
        steps = tuple(Step(*step) for step in saved["steps"])
        epsilons = Schedule(*saved["schedule"])
        units = linearization.cost_scale, linearization.precision
        epsilon = in_units(epsilons.epsilon_at(len(steps)), *units)
        state = linearization.restored_state(saved, epsilon)
        state = state._replace(potentials=Potentials(saved["f"], saved["g"]))
        made = cls.begin(linearization, state, epsilons, change=steps[-1].change)
        # Rougher inner solutions would lead away from the plan.
        verdict = Verdict.first(linearization)
        inner = verdict.inner._replace(limit=int(saved["inner_limit"]))
        seconds = float(saved["seconds"])
        return dataclasses.replace(
            made, steps=steps, seconds=seconds, verdict=verdict._replace(inner=inner)
        )

    def result(self, **more: Any) -> GWResult:
        """Return the `GWResult`; `more` are fields to set."""
        last, potentials, marginals = self.steps[-1], self.potentials, self.marginals
        rule = self.problem.rule
        fields: dict[str, Any] = dict(
            coupling=self.coupling.replace(left_out=self.truncated_mass),
            potentials=(potentials.f, potentials.g),
            gw_cost=self.objective,
            reg_cost=rule.regularized(self.objective, last.epsilon, self.entropy, *marginals),
            linear_cost=self.linear_value,
            epsilon=last.epsilon,
            marginal_error=self.marginal_error,
            ending=self.status,
            history=self.history,
            marginals=rule.asked(),
            method=self.linearization.method.name,
            seconds=self.seconds,
        )
        return GWResult(**fields | more)


class CompiledSteps(Sequence):
    """The steps of a `Descent` and later steps of the compiled loop, made when they are read."""

    def __init__(
        self, descent: Descent, compiled: CompiledDescent, state: State, seconds: float
    ) -> None:
        self._before, self._epsilons = descent.steps, descent.epsilons
        self._rows, self._n_returned = compiled.steps, compiled.returns
        self._gw_before, self._unit = descent.gw_cost, descent.linearization.cost_scale
        self._mass = descent.problem.rule.plan_mass(state.row_sums)
        self._seconds, self._magnitude = seconds, descent.linearization.magnitude(state)
        self._last = self._step(len(self._rows) - 1)

    def __len__(self) -> int:
        return len(self._before) + len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        if index == -1:
            return self._last
        number = range(len(self))[index]
        k = number - len(self._before)
        return self._before[number] if k < 0 else self._step(k)

    def _step(self, k: int) -> Step:
        """Return a step of the compiled loop."""
        value, change, frobenius_change, error, n_inner = self._rows[k].tolist()
        return Step(
            gw_cost=self._unit * value,
            gw_before=self._unit * float(self._rows[k - 1, 0]) if k else self._gw_before,
            epsilon=self._epsilons.epsilon_at(len(self._before) + k),
            change=change,
            frobenius_change=frobenius_change,
            error=error / self._mass,
            marginal_error=error,
            n_inner=int(n_inner),
            seconds=self._seconds,
            magnitude=self._magnitude,
            returned=k >= len(self._rows) - self._n_returned,
        )


def outer_step(number: int, step: Step) -> OuterStep:
    """Return the `OuterStep` of a `Step`."""
    return OuterStep(
        number,
        step.gw_cost,
        step.epsilon,
        step.change,
        step.marginal_error,
        step.n_inner,
        step.seconds,
    )


def descend(
    descent: Descent,
    limits: Limits,
    *,
    callback: Callback | None = None,
    save: Callable[[Descent], object] | None = None,
) -> Descent:
    """Return the `Descent` after iterations, at least one, until a limit or the tolerances.

    After each iteration the callback sees a `LiveStep`, and ends the descent if it returns true;
    after each but the last, `save` gets the descent.
    """
    began = time.perf_counter() - descent.seconds
    descent = dataclasses.replace(descent, status=None)
    linearization, epsilons = descent.linearization, descent.epsilons
    # A checkpoint or a callback sees each iteration, and no verdict of this loop is lost.
    if linearization.is_small and callback is None and save is None and descent.verdict is None:
        [descent] = descend_small([descent], [limits])
    units = linearization.cost_scale, linearization.precision
    solvers: list[SinkhornSolver] = []
    buffer = None
    while descent.status is None:
        solvers = solvers or solvers_of(linearization)
        verdict, iterate = descent.verdict or Verdict.first(linearization), descent.iterate
        epsilon = epsilons.epsilon_at(len(descent.steps))
        thorough = verdict.is_thorough(len(descent.steps), limits)
        least_error, change = (
            linearization.least_error(iterate.state),
            iterate.expected * iterate.change,
        )
        tol, most = verdict.inner_goal(linearization, limits, change, thorough, least_error)
        result = take_step(
            linearization,
            solvers,
            iterate.state,
            in_units(epsilon, *units),
            tol=tol,
            max_iter=most,
            deadline=limits.clock(descent.update_seconds),
            # Damping needs the last plan.
            buffer=None if verdict.cycle.damping else buffer,
            product_tol=verdict.product_tol,
        )
        step = _step(descent, result, epsilon, thorough, least_error, began)
        descent = _follow(descent, result, step, limits, verdict, callback)
        buffer = linearization.buffer_of(result.kernel)
        del result, iterate  # the state before
        if save is not None and descent.status is None:
            save(descent)
    return dataclasses.replace(descent, seconds=time.perf_counter() - began)


def _step(
    descent: Descent,
    result: StepResult,
    epsilon: float,
    thorough: bool,
    least_error: float,
    began: float,
) -> Step:
    """Return the `Step` of an iteration."""
    linearization, before, state = descent.linearization, descent.iterate.state, result.state
    rule = descent.problem.rule
    units = linearization.cost_scale, linearization.precision
    change, frobenius_change = linearization.distances(before, state)
    floor = linearization.precision.rounding / in_units(epsilon, *units)
    exact, corrected = linearization.exactness(descent.state, before, state)
    f = result.solution.potentials.f
    distances = [_distance(potentials, f) for potentials in descent.trail]
    return Step(
        gw_cost=state.objective,
        gw_before=descent.iterate.gw_cost,
        epsilon=epsilon,
        change=change,
        frobenius_change=frobenius_change,
        error=result.error,
        marginal_error=result.marginal_error,
        n_inner=result.n_inner,
        seconds=time.perf_counter() - began,
        mass=float(state.row_sums.sum()) / rule.mass if rule.is_relaxed else 1.0,
        magnitude=linearization.magnitude(state),
        floor=floor,
        extrapolated=descent.iterate.extrapolated,
        thorough=thorough,
        least_error=least_error,
        returned=len(distances) == 2 and distances[0] < distances[1],
        exact=exact,
        corrected=corrected,
        is_noise=linearization.is_noise(change, state),
        deviates=floor < 1.0 or linearization.relative_distance(state) > MAX_ROUNDED,
    )


def _follow(
    descent: Descent,
    result: StepResult,
    step: Step,
    limits: Limits,
    former: Verdict,
    callback: Callback | None,
) -> Descent:
    """Return the descent after a step: judge it, and let the state move to where steps lead."""
    linearization, before, state = descent.linearization, descent.iterate.state, result.state
    if former.cycle.damping:
        state = linearization.damped(before, state, former.cycle.damping)
        step, rule = step._replace(gw_cost=state.objective), descent.problem.rule
        if not rule.is_relaxed:
            error = rule.error(state.row_sums, state.column_sums)
            relative = error / rule.plan_mass(state.row_sums)
            step = step._replace(error=relative, marginal_error=error)
    known = result._replace(state=state, before=None)
    if state.plan is None:  # the plan is made from the state before, without damping
        known = result
    # A linear problem that was cut short ends the loop.
    ended = None
    if limits.late(max(descent.update_seconds, result.seconds)):
        ended = Ending.TIME_LIMIT
    trail = (*descent.trail, result.solution.potentials.f)[-2:]
    steps = (*descent.steps, step)
    descent = dataclasses.replace(descent, steps=steps, step_result=known, trail=trail)
    if callback is not None:
        shown = outer_step(len(descent.steps), step)
        snapshot = functools.partial(descent._coupling, linearization.snapshot)
        if LiveStep.stops(callback, shown, snapshot, step.frobenius_change):
            ended = Ending.STOPPED
        elif limits.late(result.seconds):  # a callback takes time as well
            ended = Ending.TIME_LIMIT
    final = step.epsilon == descent.epsilons.last
    verdict = verdict_on(descent.steps, linearization, limits, former, final=final, ended=ended)
    if verdict.sharpens:
        units = linearization.cost_scale, linearization.precision
        sharper = linearization.sharpened(state, in_units(step.epsilon, *units))
        if sharper is None:
            exact = (*descent.steps[:-1], step._replace(exact=True))
            descent = dataclasses.replace(descent, steps=exact)
            verdict = verdict_on(exact, linearization, limits, former, final=final, ended=ended)
        else:
            state = sharper
            descent = dataclasses.replace(descent, step_result=known._replace(state=state))
    moves = descent.moves or (SampleMoves() if linearization.samples else Anderson())
    iterate = NextIterate(state, step.change, step.gw_cost)
    if verdict.status is not None:
        moves = moves._replace(fallback=None)
    elif verdict.accelerates:
        moves, iterate = moves.advance(
            linearization,
            before,
            state,
            step,
            result=result,
            limits=limits,
            product_tol=former.product_tol,
            fixed_point=functools.partial(_fixed_point, descent.epsilons.last),
            # A move before the last iteration could not be undone.
            may_move=limits.stopping.n_plain < len(descent.steps) < limits.max_outer - 1,
        )
    else:
        moves = moves.reset()
    return dataclasses.replace(
        descent, iterate=iterate, status=verdict.status, verdict=verdict, moves=moves
    )


def _distance(one: Float64Array, other: Float64Array) -> float:
    """Return the largest difference of potentials of two plans, of points with mass."""
    with np.errstate(invalid="ignore"):
        differences = one - other
    differences = differences[np.isfinite(differences)]
    return float(np.ptp(differences)) if len(differences) else 0.0


def _fixed_point(
    epsilon: float, linearization: Linearization, state: State, limits: Limits
) -> State:
    """Return the state that a descent from a state leads to."""
    start = Descent.begin(linearization, state, Schedule(epsilon, epsilon))
    return descend(start, limits).iterate.state

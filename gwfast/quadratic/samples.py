"""Descents on samples of a large plan, which lead the outer loop on all its entries.

An outer iteration on some dozens of entries of each row costs next to nothing, and says nearly as
well as one on all how the plan answers to a change of the state: the sums over a row are estimated
by draws from it. After an iteration on all entries, from moments A to B, the state moves to the
fixed point of ``B + S(.) - S(A)``, with S the iteration on the sample: the full approximation
scheme of multigrid methods (Brandt, Math. Comp. 1977) with a sample instead of the coarse grid.
The next iteration on all entries measures the distance to its own fixed point, which is unchanged;
with 128 draws of each row the change becomes a twentieth to a hundredth of the last change, and
Anderson's acceleration on 10,000 words halves it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np

from ..kernels import _sparse
from ..linear.gibbs_kernel import Scalings, SparseKernel
from ..linear.log_domain import Potentials
from ..linear.rules import Balanced
from ..linear.support import Support
from ..utils.orders import golden_multiples
from ..utils.precision import SINGLE
from ..utils.types import Float32Array, Float64Array, FloatArray
from .acceleration import NextIterate
from .factored import DRAWS, MOST_INNER, FactoredLinearization
from .judge import Limits
from .methods import PGD
from .state import Linearization, OwnKernel, State

if TYPE_CHECKING:
    from ..linear.gibbs_kernel import SparseCost
    from ..linear.sinkhorn_solver import LinearSolution
    from .judge import Step
    from .methods import StepResult


FixedPoint: TypeAlias = Callable[[Linearization, State, Limits], State]


class Sample(Support):
    """Draws from each row of the plan of a kernel, each of the same share of its mass.

    Attributes
    ----------
    weights : (nnz,) float32 ndarray
        How many entries of the plan each entry stands for; ones before `weigh`.
    """

    def __init__(self, kernel: OwnKernel, scalings: Scalings, draws: int) -> None:
        n, _ = self.shape = kernel.shape
        index, times = (np.empty((n, draws), dtype=np.int32) for _ in range(2))
        offsets, step = golden_multiples(n), np.empty(n)
        _sparse.sample(kernel.rows, scalings.v, offsets, index, times, step, kernel.n_threads)
        drawn, start = times > 0, np.zeros(n + 1, dtype=np.int64)
        np.cumsum(drawn.sum(axis=1), out=start[1:])
        super().__init__(start, index[drawn])
        self._mass = times[drawn].astype(np.float32)
        step *= scalings.u
        self._mass *= np.repeat(step.astype(np.float32), np.diff(start))
        self.weights = np.ones(len(self.index), dtype=np.float32)

    def weigh(self, plan: Float32Array) -> None:
        """Set the weights from the entries of the plan, and scale these by them."""
        self.weights = self._mass / np.maximum(plan, np.finfo(np.float32).tiny)
        plan *= self.weights
        del self._mass


class SampledKernel(SparseKernel):
    """A kernel on a `Sample`, its entries times their weights."""

    support: Sample

    @functools.cached_property
    def _cost(self) -> SparseCost:
        cost = super()._cost
        cost.values -= np.float32(self.epsilon) * np.log(self.support.weights)
        return cost

    def _make(self, *args: Any) -> float:
        peak = super()._make(*args)
        with np.errstate(over="ignore"):  # the peak tells
            self.rows *= self.support.weights
        return peak


class SampledLinearization(Linearization):
    """The iteration of the `full` linearization on a sample of its last plan, plus the
    `correction` that takes the state before that plan to the state after it. It begins at `start`.
    """

    method, inner_fraction, inner_limit = PGD, FactoredLinearization.inner_fraction, MOST_INNER
    accelerates, change_is_rounded = True, False

    def __init__(self, full: FactoredLinearization, result: StepResult, before: State) -> None:
        kernel, solution, after = result.kernel, result.solution, result.state
        epsilon, f, g = kernel.epsilon, solution.potentials.f, solution.potentials.g
        self.full, self.cost_scale, self.n_threads = full, full.cost_scale, full.n_threads
        self.sample = sample = Sample(kernel, solution.scalings, DRAWS)
        n, m = sample.shape
        few, scalings = self.kernel(before, epsilon), Scalings(n, m, SINGLE.dtype)
        few.make(solution.potentials, epsilon, scalings)
        sample.weigh(few.rows)
        moments, rows = full.contract(few, scalings)
        cols: Any = np.bincount(sample.index, few.rows, minlength=m)
        # The marginals of the sampled plan, scaled by the errors of the marginals of the plan.
        mass, rule = rows.sum(), full.problem.rule
        rows *= _ratio(rule.p, after.row_sums)
        cols *= _ratio(rule.q, after.column_sums)
        problem = full.problem.replace(rule=Balanced(rows / rows.sum(), cols / cols.sum()))
        super().__init__(problem, full.n_threads, full.precision, full.tuning)
        self.correction = after.moments - moments / mass
        self.start = after._replace(potentials=Potentials(f - epsilon * np.log(mass), g))

    def kernel(
        self, state: State, epsilon: float, buffer: FloatArray | None = None
    ) -> SampledKernel:
        left = self.full.left_factor(state.moments)
        return SampledKernel(left, self.full.right.rows, self.sample, self.n_threads)

    def state_of(
        self,
        kernel: SparseKernel,
        solution: LinearSolution,
        before: State,
        *,
        product_tol: float = 0.0,
    ) -> State:
        moments, rows = self.full.contract(kernel, solution.scalings)
        moments, cols = moments + self.correction, solution.scalings.cols
        objective = self.full.objective_of(moments, rows, cols, before.separable)
        return before._replace(
            moments=moments,
            sample=moments,
            row_sums=rows,
            column_sums=cols,
            potentials=solution.potentials,
            objective=objective,
        )

    def distances(self, before: State, after: State) -> tuple[float, float]:
        return self.full.distances(before, after)

    def mixed(self, states: Sequence[State], weights: Sequence[float]) -> State:
        return self.full.mixed(states, weights)

    def relative_distance(self, state: State, other: State | None = None) -> float:
        return self.full.relative_distance(state, other)

    def is_noise(self, change: float, state: State) -> bool:
        return self.full.is_noise(change, state)


def _ratio(masses: Float64Array, sums: Float64Array) -> Float64Array:
    """Return how many times the sums the masses are; one where there is neither."""
    return np.divide(masses, sums, out=np.ones(len(sums)), where=sums > 0)


class SampleMoves(NamedTuple):
    """Moves of the state to the fixed point on a sample of the last plan, as `Anderson` moves it
    to where the last steps lead.
    """

    fallback: NextIterate | None = None  # what to go back to if the last move fails
    pause: int = 0  # iterations without moves, now
    next_pause: int = 2  # and after the next failure

    def reset(self) -> SampleMoves:
        """Forget the last move."""
        return self._replace(fallback=None)

    def advance(
        self,
        linearization: Linearization,
        before: State,
        after: State,
        step: Step,
        *,
        result: StepResult,
        limits: Limits,
        fixed_point: FixedPoint,
        may_move: bool,
        **_: object,
    ) -> tuple[SampleMoves, NextIterate]:
        """Judge the last move, and make another, as `Anderson.advance`."""
        # A guess of the change after a move, as a fraction of the change before, from the last.
        iterate, rate = NextIterate(after, step.change, step.gw_cost), 0.05
        if self.fallback is not None:
            if step.change > self.fallback.change:
                return SampleMoves(None, self.next_pause, 2 * self.next_pause), self.fallback
            rate = min(max(step.change / self.fallback.change, 0.01), 0.2)
        if self.pause or not may_move:
            return SampleMoves(None, max(self.pause - 1, 0), self.next_pause), iterate
        full = cast(FactoredLinearization, linearization)
        few = SampledLinearization(full, result, before)
        # A hundredth of the change of the last iteration on all entries is the noise of the sample.
        tol = max(0.01 * step.change, 0.2 * limits.tol)
        within = Limits(30, MOST_INNER, tol, tol, deadline=limits.deadline)
        end = fixed_point(few, few.start, within)
        fallback = iterate._replace(gw_cost=np.nan)
        state = after._replace(
            moments=end.moments, sample=end.moments, objective=np.nan, potentials=end.potentials
        )
        extrapolated = NextIterate(state, step.change, np.nan, expected=rate)
        return SampleMoves(fallback, 0, self.next_pause), extrapolated

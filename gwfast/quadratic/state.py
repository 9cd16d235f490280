"""The state of a descent, and what a linearization of the quadratic problem promises.

The linearized cost of a plan T (Peyre, Cuturi and Solomon, ICML 2016, Proposition 1) is

    lin_cost(T) = f1(C1) p 1' + 1 q' f2(C2)' - h1(C1) T h2(C2)'

The first two terms depend on one index each: they move the potentials but no plan, so the kernels
only see the third, in units of `cost_scale`, where float32 suffices.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ..linear.log_domain import Potentials
from ..problems.epsilon import Schedule
from ..utils.precision import FloatPrecision
from ..utils.tuning import Tuning
from ..utils.types import Float64Array, FloatArray, IntArray

if TYPE_CHECKING:
    from ..linear.gibbs_kernel import Kernel
    from ..linear.sinkhorn_solver import LinearSolution
    from ..problems.epsilon import Epsilon
    from ..problems.quadratic import QuadraticProblem
    from ..results.coupling import Coupling
    from .methods import Method

# The kernel that the same linearization has made, of any subclass of `Kernel`.
OwnKernel: TypeAlias = Any
# Rounding of the sum of both terms of a loss, relative to them.
LOSS_ROUNDING = 1e-5


class State(NamedTuple):
    """All that the next iteration needs, a value: to go back is to keep the old one."""

    moments: Any  # ``X' T Y`` of point clouds; the `low_rank.Product` of matrices
    row_sums: Float64Array
    column_sums: Float64Array
    separable: tuple[Float64Array, Float64Array]  # terms of one index, in units of cost
    potentials: Potentials | None  # of the last linear problem, in units of `cost_scale`
    objective: float  # NaN where acceleration has led to the state
    plan: Any = None  # an ndarray, of matrices; None where acceleration has led to the state
    sample: Any = None  # what acceleration extrapolates: the moments, or some rows of the plan
    entropy: float = np.nan  # of the plan, under a rule that needs it
    support: Any = None  # the entries that kernels of point clouds keep, see neighbors.py


class Linearization:
    """The linear problems of a quadratic problem, for `descend`. Nothing in it changes, and any
    number of descents may use it.

    Attributes
    ----------
    cost_scale : float
        Unit of the cost of kernels.
    inner_fraction, inner_limit : float and int
        Tolerance of the inner iterations as a fraction of the last change of the state, and their
        number while the plan still moves fast.
    tightens : bool
        Whether inner solutions become exacter than the tolerance if the objective rises.
    change_is_rounded : bool
        Whether rounding of single entries of the plan shows in the change; if not, the objective
        is concave.
    accelerates, is_small, samples, is_elsewhere : bool
        Whether the state is linear in the plan, the compiled loop can make the iterations, descents
        on samples lead the state, and points and plan are on other machines.
    n_kept : int
        Number of matrices that the last states may keep for acceleration.
    """

    cost_scale: float
    inner_fraction: float
    inner_limit: int
    change_is_rounded: bool
    method: Method
    accelerates = is_small = samples = is_elsewhere = tightens = False
    n_kept = 6

    def __init__(
        self, problem: QuadraticProblem, n_threads: int, precision: FloatPrecision, tuning: Tuning
    ) -> None:
        self.problem, self.n_threads = problem, n_threads
        self.precision, self.tuning = precision, tuning

    def initial(self, plan: Coupling | FloatArray | None = None, *, epsilon: float = 0.0) -> State:
        """Return the state of a plan, an array or a `Coupling`; None is the product plan. The
        `epsilon` of the first linear problem, in its units, bounds what products may neglect.
        """
        raise NotImplementedError

    def extended(
        self,
        state: State,
        coarse: Linearization,
        rows: IntArray,
        cols: IntArray,
        epsilon: float = 0.0,
    ) -> State:
        """Return the state from a state of the same problem on some rows and columns only."""
        raise NotImplementedError

    def kernel(self, state: State, epsilon: float, buffer: FloatArray | None = None) -> Kernel:
        """Return the `Kernel` of the linearized cost, in the array `buffer` if it is stored."""
        raise NotImplementedError

    def state_of(
        self,
        kernel: OwnKernel,
        solution: LinearSolution,
        before: State,
        *,
        product_tol: float = 0.0,
    ) -> State:
        """Return the state of the plan of a solution. What products neglect may move the next
        plan by `product_tol` times the change from the state `before`.
        """
        raise NotImplementedError

    def distances(self, before: State, after: State) -> tuple[float, float]:
        """Return the relative change of the state, and the norm of the plan's change or NaN."""
        raise NotImplementedError

    def mixed(self, states: Sequence[State], weights: Sequence[float]) -> State:
        """Return the weighted sum of states, with the potentials of the last one."""
        raise NotImplementedError

    def sharpened(self, after: State, epsilon: float) -> State | None:
        """Return the state `after` without approximations, or None if there were none."""
        raise NotImplementedError

    def own_objective(self, state: State) -> float | None:
        """Return the objective of a plan with its own marginals, which may miss the given ones, up
        to the rounding of the loop; None if it takes as long as from the plan.
        """
        return None

    def coupling(
        self,
        kernel: OwnKernel,
        solution: LinearSolution | None,
        before: State,
        state: State,
        epsilon: float,
    ) -> Coupling:
        """Return the plan as a `Coupling`. Kernel and solution may be None; only then the state
        before is needed.
        """
        raise NotImplementedError

    def snapshot(self, kernel: OwnKernel, *others: Any) -> Coupling:
        """Return the plan for a callback, which leaves the kernel as it is."""
        return self.coupling(kernel, *others)

    def linear_value(self, state: State) -> float:
        """Return ``<linear_cost, T>`` of the plan."""
        raise NotImplementedError

    def damped(self, before: State, after: State, damping: float) -> State:
        """Return the mean of two states, with the weight `damping` of the first."""
        raise NotImplementedError

    @property
    def exported(self) -> tuple[str, tuple[int, int], DTypeLike]:
        """The array that stands for a state in a file: name, shape and dtype."""
        raise NotImplementedError

    def restored_state(self, saved: Mapping[str, Any], epsilon: float) -> State:
        """Return the state of the arrays that `Descent.export` made."""
        raise NotImplementedError

    def relative_distance(self, state: State, other: State | None = None) -> float:
        """Return the norm of the difference of two states, in units of the largest difference from
        the product plan, which is the second state if there is none.
        """
        raise NotImplementedError

    def exactness(self, last: State, before: State, after: State) -> tuple[bool, bool]:
        """Return whether nothing is approximate at the state `before`, and whether the product at
        the state `after` corrects an approximate one at the `last` state.
        """
        return True, False

    def is_noise(self, change: float, state: State) -> bool:
        """Return whether a relative change of the state is rounding."""
        return False

    def n_matrices(self, states: Iterable[State]) -> int:
        """Return the number of matrices that states keep."""
        return 0

    def least_error(self, state: State) -> float:
        """Return the fraction of the mass that a plan lacks because its kernel keeps few entries:
        an error of the marginals that is none.
        """
        return 0.0

    def truncated_mass(self, kernel: OwnKernel, solution: LinearSolution | None) -> float:
        """Return an upper confidence bound of that fraction; see `GWResult`."""
        return 0.0

    def buffer_of(self, kernel: OwnKernel) -> FloatArray | None:
        """Return the array of a kernel in which the next one can be made, or None."""
        return None

    def bound_prices(self) -> None:
        """Keep the prices of marginals within what is computable for costs of this size."""
        bounded = self.problem.rule.bounded(self.cost_scale, self.precision)
        if bounded is not self.problem.rule:
            self.problem = self.problem.replace(rule=bounded)

    def magnitude(self, state: State) -> float:
        """Return the size of the terms that cancel in the objective, in units of cost."""
        p, q = self.problem.p, self.problem.q
        row_cost, column_cost = state.separable
        return float(p.dot(np.abs(row_cost)) + q.dot(np.abs(column_cost)))

    def separable_potentials(self, state: State, unit: float) -> Potentials:
        """Return `Potentials` that cancel the separable terms, in this unit."""
        row_cost, column_cost = state.separable
        return Potentials(row_cost / -unit, column_cost / -unit)

    @functools.cached_property
    def product_cost(self) -> float:
        """Objective of the product plan, the mean linearized cost, with the least linear cost taken
        for zero if it is negative; 0.0 if that is rounding.
        """
        state, rule = self.initial(), self.problem.rule
        cost = state.objective - rule.penalty(*rule.product()) - self.problem.lowest_linear_term()
        # The rounding is relative to the terms that cancel.
        return cost if cost > 1e-7 * self.magnitude(state) else 0.0

    def schedule(self, epsilon: Epsilon) -> Schedule:
        """Return the `Schedule` of an `Epsilon`."""
        last, rule = epsilon.value, self.problem.rule
        if last is None:
            last = (epsilon.relative or 0.0) * self.product_cost / (rule.mass * rule.entropy_weight)
            # If all costs are equal, any epsilon that is not refused gives the product plan.
            last = max(last, self.precision.min_epsilon * self.cost_scale)
        return Schedule(last, last * epsilon.anneal_from, epsilon.anneal_by)


def combined(weights: Iterable[Any], arrays: Iterable[Any]) -> Any:
    """Return the weighted sum of arrays."""
    return sum(weight * array for weight, array in zip(weights, arrays, strict=True))


def not_negative(separable: float, bilinear: float) -> float:
    """Return the sum of both terms, a mean of losses: negative values are rounding."""
    total = float(separable + bilinear)
    rounding = LOSS_ROUNDING * (abs(separable) + abs(bilinear))
    return max(total, 0.0) if total > -rounding else total

"""The step of an outer iteration: linearize at a state, solve the linear problem, and return the
state of its plan; one function for each kind of step, and the methods by name.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ..linear.linear_problem import lost_to_rounding
from ..linear.rules import VANISHED, Relaxation, Semirelaxed
from ..linear.sinkhorn_solver import SinkhornSolver
from ..problems.geometry import PointCloud
from ..utils.deadline import Deadline
from ..utils.precision import SINGLE, FloatPrecision
from ..utils.types import FloatArray
from ..utils.validation import one_of
from .state import OwnKernel, State

if TYPE_CHECKING:
    from ..problems.quadratic import QuadraticProblem
    from .state import Linearization

MethodName: TypeAlias = Literal["pgd", "ppa", "bapg"]


@dataclasses.dataclass(frozen=True)
class Method:
    """How the quadratic problem is split into linear ones."""

    name: MethodName
    proximal: bool = False  # whether epsilon weighs the distance from the last plan, not entropy
    alternating: bool = False  # whether an iteration fits the rows once, then the columns once
    marginal_terms: bool = True  # whether alternating steps include the separable terms


PGD = Method("pgd")
PPA = Method("ppa", proximal=True)
BAPG = Method("bapg", proximal=True, alternating=True)
METHODS = {method.name: method for method in (PGD, PPA, BAPG)}


def as_method(
    name: MethodName | Method, problem: QuadraticProblem, precision: FloatPrecision
) -> Method:
    """Return the `Method` of a name, or a `Method`; ValueError if it does not suit the problem."""
    method = name if isinstance(name, Method) else METHODS[one_of(name, "method", METHODS)]
    if method is not PGD and problem.rule.is_relaxed:
        raise ValueError(f"method must be 'pgd' with {problem.marginals} marginals, got {name!r}")
    if method.alternating and not problem.is_balanced:
        raise ValueError(
            f"method must be 'pgd' or 'ppa' with {problem.marginals} marginals, got {name!r}"
        )
    for side, geometry in (("x", problem.x), ("y", problem.y)):
        if precision is not SINGLE and isinstance(geometry, PointCloud):
            raise ValueError(
                f"{side} must be a matrix of costs with dtype='float64', got a "
                "PointCloud, which is kept in float32"
            )
    return method


class StepResult(NamedTuple):
    """A step: kernel and solution of the linear problem, and the states before and after it."""

    kernel: OwnKernel
    solution: Any  # a `LinearSolution`; None where it and the kernel are no longer needed
    before: State | None  # None where it is no longer needed
    state: State
    n_inner: int
    error: float  # of the marginals that the step fits, as a fraction of the mass
    marginal_error: float  # of all
    seconds: float  # of the new state


def solvers_of(linearization: Linearization) -> list[SinkhornSolver]:
    """Return the solvers of the linear problems of a descent."""
    rules = [linearization.problem.rule]
    if linearization.method.alternating:
        rules = [Semirelaxed(rules[0].p, rules[0].q, side=side) for side in (0, 1)]
    n_threads, precision = linearization.n_threads, linearization.precision
    return [SinkhornSolver(rule, n_threads, precision, linearization.tuning) for rule in rules]


def take_step(
    linearization: Linearization,
    solvers: Sequence[SinkhornSolver],
    state: State,
    epsilon: float,
    *,
    tol: float,
    max_iter: int,
    deadline: Deadline,
    buffer: FloatArray | None,
    product_tol: float = 0.0,
) -> StepResult:
    """Return the `StepResult` of the method and the rule from a state.

    Of an unbalanced problem it minimizes over one of two plans whose marginals have a price, and
    scales it to the geometric mean of both masses; it is the fixed plan of the next step
    (Sejourne, Vialard and Peyre, NeurIPS 2021, Algorithm 1). Bregman alternating projected
    gradient (Li et al., ICLR 2023) takes two steps, one for each marginal.
    """
    rule, before, n_inner, seconds = linearization.problem.rule, state, 0, 0.0
    relaxation, is_gone = None, False
    if rule.is_relaxed:
        epsilon, tol, relaxation = _relaxed(linearization, state, epsilon, tol)
        is_gone = relaxation.mass <= VANISHED * rule.mass
    for solver in solvers:
        previous = state
        kernel = linearization.kernel(previous, epsilon, buffer)
        if is_gone:
            solution = solver.vanish(kernel)
        else:
            solution = solver.solve(
                kernel,
                epsilon,
                previous.potentials,
                tol=tol,
                max_iter=max_iter,
                deadline=deadline,
                relaxation=relaxation,
            )
        began = time.perf_counter()
        state = linearization.state_of(kernel, solution, previous, product_tol=product_tol)
        seconds += time.perf_counter() - began
        n_inner, buffer = n_inner + solution.n_iter, None
    if rule.is_relaxed:
        if not np.isfinite(state.objective):
            deadline.check()
            raise lost_to_rounding(epsilon / before.row_sums.sum(), linearization.precision)
        error = fitted = solution.error
    else:
        error = fitted = rule.error(state.row_sums, state.column_sums)
    if linearization.method.alternating:
        fitted = float(np.abs(state.column_sums - rule.q).sum())
    fitted /= rule.plan_mass(state.row_sums)
    return StepResult(kernel, solution, before, state, n_inner, fitted, error, seconds)


def _relaxed(
    linearization: Linearization, state: State, epsilon: float, tol: float
) -> tuple[float, float, Relaxation]:
    """Return epsilon, tolerance and `Relaxation` of the linear problem of an unbalanced one."""
    scale, mass = linearization.cost_scale, state.row_sums.sum()
    rule: Any = linearization.problem.rule  # an `UnbalancedRule`
    highest = max((rho for rho in rule.rho if rho < np.inf), default=0.0) / scale
    # Beyond 1e8 units of the costs or of rho, whichever is larger, the rounding of the entropy
    # exceeds all other terms.
    epsilon = min(epsilon, 1e8 * max(highest, 1.0))
    if highest * tol > epsilon:
        # The penalty, rho times the squared error, is to be within the tolerance too.
        tol = max(np.sqrt(tol * epsilon / highest), linearization.precision.min_inner_tol)
    sums = state.row_sums, state.column_sums
    shift = rule.shift(epsilon * scale, state.entropy, *sums) / scale if mass > 0 else 0.0
    rho = tuple(rho * mass / scale for rho in rule.rho)
    return epsilon * mass, tol * mass, Relaxation(rho, shift, float(mass))

"""The step of an outer iteration: one class for each kind, and the methods by name.

A step linearizes at the state, solves the linear problem, and makes its plan the state.
"""

import dataclasses
import time
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ..linear.gibbs_kernel import Kernel
from ..linear.rules import VANISHED, Relaxation, Semirelaxed
from ..linear.sinkhorn_solver import LinearSolution, SinkhornSolver, lost_to_rounding
from ..problems.geometry import PointCloud
from ..utils.precision import SINGLE
from ..utils.validation import one_of
from .linearization import Update

# Largest epsilon of unbalanced problems in units of the costs or of rho, whichever is larger.
MAX_RATIO = 1e8

MethodName: TypeAlias = Literal["pgd", "ppa", "bapg"]


@dataclasses.dataclass(frozen=True)
class Method:
    """How the quadratic problem is split into linear ones.

    Attributes
    ----------
    name : str
    proximal : bool
        Whether epsilon weighs the distance from the last plan, not the entropy.
    alternating : bool
        Whether an iteration fits the rows once, then the columns once.
    marginal_terms : bool
        Whether alternating steps include the separable terms.
    """

    name: MethodName
    proximal: bool = False
    alternating: bool = False
    marginal_terms: bool = True


PGD = Method("pgd")
PPA = Method("ppa", proximal=True)
BAPG = Method("bapg", proximal=True, alternating=True)
METHODS = {method.name: method for method in (PGD, PPA, BAPG)}


def as_method(name, problem, precision):
    """The `Method` of a name, or a `Method` as it is.

    Raises
    ------
    ValueError
        Where the problem cannot be solved that way.
    """
    made = isinstance(name, Method)
    method = name if made else METHODS[one_of(name, "method", tuple(METHODS))]
    if method is not PGD and problem.rule.is_relaxed:
        raise ValueError(f"method must be 'pgd' with marginals={problem.marginals!r}, got {name!r}")
    if method.alternating and not problem.is_balanced:
        raise ValueError(
            f"method must be 'pgd' or 'ppa' with marginals={problem.marginals!r}, got {name!r}"
        )
    for side, geometry in (("cost_x", problem.x), ("cost_y", problem.y)):
        if precision is not SINGLE and isinstance(geometry, PointCloud):
            raise ValueError(
                f"{side} must be a matrix of costs with dtype='float64', got a "
                "PointCloud, which is kept in float32"
            )
    return method


class Stepped(NamedTuple):
    """The outcome of a step: kernel and solution of the linear problem, the `Update`, the inner
    iterations, the error of the marginals that the step fits (as a fraction of the mass), the
    error of all given marginals, and the seconds without inner iterations.
    """

    kernel: Kernel
    solution: LinearSolution
    update: Update
    n_inner: int
    error: float
    marginal_error: float
    seconds: float


class WholeStep:
    """Fit all marginals: projected gradient descent, or the proximal point method."""

    def __init__(self, linearization):
        self._linearization, self._rule = linearization, linearization.problem.rule
        given = self._rule, linearization.n_threads, linearization.precision
        self._solver = SinkhornSolver(*given)
        self._solver.mechanisms = linearization.mechanisms

    def __call__(self, epsilon, start, **options):
        made = _solve(self._linearization, self._solver, epsilon, start, options)
        began = time.perf_counter()
        update = self._linearization.update(*made)
        seconds = time.perf_counter() - began
        error = self._rule.error(update.rows, update.cols)
        relative = error / self._rule.mass
        return Stepped(*made, update, made[1].n_iter, relative, error, seconds)


class AlternatingStep:
    """Fit the rows, linearize again, and fit the columns: Bregman alternating projected
    gradient (Li et al., ICLR 2023).
    """

    def __init__(self, linearization):
        self._linearization, rule = linearization, linearization.problem.rule
        given = linearization.n_threads, linearization.precision
        rules = (Semirelaxed(rule.p, rule.q, side=side) for side in (0, 1))
        self._solvers = [SinkhornSolver(half, *given) for half in rules]

    def __call__(self, epsilon, start, **options):
        linearization, n_inner, began = self._linearization, 0, time.perf_counter()
        before = linearization.state.copy()
        for solver in self._solvers:
            made = _solve(linearization, solver, epsilon, start, options)
            update = linearization.update(*made)
            n_inner += made[1].n_iter
        change, moved = linearization.distance_to(before)
        update = update._replace(change=change, moved=moved)
        errors = [solver.rule.error(update.rows, update.cols) for solver in self._solvers]
        seconds = time.perf_counter() - began
        return Stepped(*made, update, n_inner, errors[1], sum(errors), seconds)


class UnbalancedStep:
    """Minimize over one of two plans whose marginals have a price, and scale it to the
    geometric mean of both masses; it is the fixed plan of the next step (Sejourne,
    Vialard and Peyre, NeurIPS 2021, Algorithm 1).
    """

    def __init__(self, linearization):
        self._linearization, self._rule = linearization, linearization.problem.rule
        given = self._rule, linearization.n_threads, linearization.precision
        self._solver = SinkhornSolver(*given)

    def __call__(self, epsilon, start, **options):
        linearization, solver = self._linearization, self._solver
        began = time.perf_counter()
        prices = (one for one in self._rule.rho if one < np.inf)
        highest = max(prices, default=0.0) / linearization.cost_scale
        # Beyond this bound the rounding of the entropy exceeds all other terms.
        epsilon = min(epsilon, MAX_RATIO * max(highest, 1.0))
        mass, relaxation = self._relaxation(epsilon)
        seconds = time.perf_counter() - began
        if mass > VANISHED * self._rule.mass:
            options["tol"] = self._tol(options["tol"], epsilon, highest) * mass
            options["relaxation"] = relaxation
            made = _solve(linearization, solver, epsilon * mass, start, options)
        else:
            kernel = linearization.kernel()
            made = kernel, solver.vanish(kernel)
        began = time.perf_counter()
        update = linearization.update(*made)
        if not np.isfinite(update.gw_cost):
            raise lost_to_rounding(epsilon, linearization.precision)
        seconds += time.perf_counter() - began
        error, n_iter = made[1].error, made[1].n_iter
        relative = error / self._rule.plan_mass(update.rows)
        return Stepped(*made, update, n_iter, relative, error, seconds)

    def _tol(self, tol, epsilon, highest):
        """A tolerance of the marginals with which their penalty, rho times the squared
        error, is within the tolerance too.
        """
        if highest * tol <= epsilon:
            return tol
        least = self._linearization.precision.inner_tol
        return max(np.sqrt(tol * epsilon / highest), least)

    def _relaxation(self, epsilon):
        """Mass of the state, and the `Relaxation` of the linear problem there."""
        linearization, scale = self._linearization, self._linearization.cost_scale
        rows, cols, entropy = linearization.standing()
        mass = float(rows.sum())
        shift = self._rule.shift(epsilon * scale, entropy, rows, cols) / scale
        rho = tuple(one * mass / scale for one in self._rule.rho)
        return mass, Relaxation(rho, shift, mass)


def step_of(method, linearization):
    """The step of a method for a linearization."""
    if linearization.problem.rule.is_relaxed:
        return UnbalancedStep(linearization)
    kind = AlternatingStep if method.alternating else WholeStep
    return kind(linearization)


def _solve(linearization, solver, epsilon, start, options):
    """The kernel of the linearized cost, and its solution."""
    kernel = linearization.kernel(epsilon, start)
    return kernel, solver.solve(kernel, epsilon, start, **options)

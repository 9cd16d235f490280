"""A linear problem of an outer iteration, with the kernel that its iterations read.

Scalings u and v of a kernel ``K_ij = exp((f_i + g_j - c_ij) / epsilon)`` may leave the range of
their type, and what underflowed in K is lost. Then u and v are absorbed into f and g, and K is made
anew. Potentials that do not fit the cost come by way of larger epsilons in the log domain.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ..kernels._rows import ScalingMap
from ..utils.deadline import Deadline
from ..utils.precision import DOUBLE, FloatPrecision
from ..utils.types import Float64Array
from .gibbs_kernel import Kernel
from .log_domain import Potentials
from .newton import NewtonSteps, StepLimits
from .pace import AFTER_NEWTON, MOST_KERNELS, Goal, Look, Pace, is_look
from .rules import MarginalProx, MarginalTerms

if TYPE_CHECKING:
    from .sinkhorn_solver import SinkhornSolver

# Fraction of the tolerance at which iterations end; the rest is for the rounding of columns.
MARGIN = 0.9


class LinearProblem:
    """A linear problem with balanced, semi-relaxed or partial marginals, and the potentials that
    its kernel is made with; `translation` is how far the caps of rows have moved.
    """

    mass = 1.0  # that errors are relative to

    def __init__(
        self, solver: SinkhornSolver, kernel: Kernel, epsilon: float, deadline: Deadline
    ) -> None:
        self.solver, self.kernel, self.epsilon, self.deadline = solver, kernel, epsilon, deadline
        self.p, self.q = solver.p, solver.q
        self.scalings, self.precision = solver.scalings, solver.precision
        self.is_given = not solver.rule.has_free_marginals
        self.separable = kernel.separable_potentials or Potentials.full((0, 0))
        self.translation, self.is_annealed = 0.0, False
        self.terms = self.terms_at(epsilon)
        self.scaling_map: ScalingMap | None = None
        self.over_relaxes = self.is_given and solver.tuning.newton
        self.newton = NewtonSteps(kernel.shape, self.precision, solver.tuning.iterated_from)

    def terms_at(self, epsilon: float) -> MarginalTerms:
        """Return what the marginals contribute to the problem at some epsilon."""
        return self.solver.rule.terms(self.separable)

    def goal(self, tol: float, max_iter: int) -> Goal:
        """Return where iterations end for the tolerance `tol` of the marginals."""
        return Goal(
            # Changes of caps yet to come add up.
            tol=tol / 3 if self.terms.mass else MARGIN * tol,
            max_iter=max_iter,
            # With free marginals the first change of rows is no bound for the columns.
            min_iter=1 if self.is_given else 2,
            max_log_scaling=self.precision.max_log_scaling,
            stall_error=self.precision.stall_error * self.mass,
            max_kernels=math.inf if self.is_given else MOST_KERNELS,
            is_direct=self.solver.rule.is_direct,
            over_relaxes=self.over_relaxes,
        )

    def begin(self, start: Potentials | None) -> bool:
        """Make the first kernel; return False if the plan has no mass."""
        if start is not None and self.terms.mass:
            start = start.rebased(self.separable)
            self.translation = start.translation
        fitting = None if start is None else self._fitting(start)
        return self._make(self._first() if fitting is None else fitting)

    def iterate(self, pace: Pace, n_iter: int, goal: Goal) -> Look:
        """Make the next iterations, after `n_iter`, and return what they show."""
        n_next, began = pace.n_next(n_iter, goal.max_iter), time.perf_counter()
        error, n_done = self._iterate(pace.omega, n_next, goal.tol)
        ended, n_iter = time.perf_counter(), n_iter + n_done
        max_log_scaling, price = 0.0, math.inf
        if is_look(n_iter):
            max_log_scaling = self._max_log_scaling()
            if self.over_relaxes:
                self.newton.observe(error)
                price = self.newton.price(error)
        seconds, left = (ended - began) / max(n_done, 1), self.deadline.at - ended
        return Look(n_iter, error, seconds, left, max_log_scaling, price)

    def newton_step(self, look: Look, goal: Goal) -> int:
        """Take a Newton step; return the number of iterations that it counts as."""
        limits = StepLimits(goal.max_iter - look.n_iter - AFTER_NEWTON, goal.tol, self.deadline)
        return self.newton.take(self.kernel, self.p, self.q, self.scalings, look.error, limits)

    def absorb(self) -> bool:
        """Make the kernel anew around the potentials with the scalings in them; return False if
        the plan has no mass.
        """
        absorbed = self._absorbed()
        self.translation = absorbed.translation
        mended = self._mended(absorbed)
        if mended is None:
            # Annealing has not come near enough if its potentials are lost: go on where it ended.
            anneals = self.kernel.anneals and not self.is_annealed
            mended = self._annealed(self.potentials, self.kernel.spread() * anneals)
        return self._make(mended)

    def absorb_runaways(self) -> bool:
        """Absorb scalings that ran away since the last look and must not reach the plan; return
        False if the plan has no mass.
        """
        if not self._max_log_scaling() > 2 * self.precision.max_log_scaling:
            return True
        if not self.absorb():
            return False
        self._iterate(1.0, 1, 0.0)
        if self.is_given and self._max_log_scaling() == np.inf:
            # The potentials are far from the solution; their plan has the columns at least.
            self.absorb()
        return True

    def solution(self) -> Potentials:
        """Return the potentials of the plan."""
        if not (self.is_given or self.solver.rule.is_direct):
            self._plan_mass()
        return self._absorbed()

    def _first(self) -> Potentials:
        """Return the potentials of a problem that has no others to start from."""
        first = Potentials.full(self.kernel.shape) if self.is_given else self.separable
        spread = self._spread()
        if spread > self.precision.max_cold_spread * self.epsilon:
            first = self._annealed(first, 0.0 if self.solver.rule.is_direct else spread)
        return first

    def _fitting(self, start: Potentials) -> Potentials | None:
        """Return potentials with finite values, or None if `start` does not fit the cost."""
        return self._mended(start)

    def _mended(self, potentials: Potentials) -> Potentials | None:
        """Return potentials whose points with mass all have finite values, by one log-sum-exp; None
        if most are lost: the potentials did not fit the cost, and its kernel overflowed.
        """
        log_domain = self.solver.log_domain
        if 0.0 < log_domain.lost(potentials) < 0.5:
            cost = self.kernel.cost()
            potentials = log_domain.mended(cost, potentials, self.epsilon, self.terms)
        return None if log_domain.lost(potentials) > 0.0 else potentials

    def _spread(self) -> float:
        """Return how far potentials may have to move."""
        spread = self.kernel.spread()
        if self.is_given:
            return spread
        return spread + float(np.ptp(self.separable.f) + np.ptp(self.separable.g))

    def _annealed(self, potentials: Potentials, spread: float) -> Potentials:
        """Return potentials that fit the cost, by way of larger epsilons."""
        if not np.isfinite(spread):
            self._lose()
        potentials, self.translation = self.solver.log_domain.anneal(
            self.kernel.cost(), potentials, self.epsilon, spread, self.terms_at, self.deadline
        )
        self.is_annealed = True
        return potentials

    def _make(self, potentials: Potentials) -> bool:
        """Make the kernel of potentials, or of others if they do not fit; return False if the plan
        has no mass.
        """
        for attempt in range(3):
            placed, peak = self._placed(potentials), np.inf
            if placed is not None:
                q = self.q if self.is_given else None
                peak, total = self.kernel.make(placed, self.epsilon, self.scalings, q), 1.0
                fits = peak <= self.precision.max_exponent
                if fits and self.terms.mass:
                    # The kernel of a plan that is scaled to its mass must not underflow as a whole.
                    total = float(self.kernel.row_sums(self.scalings).sum())
                if (fits and total > 0.0) or (self.is_given and attempt):
                    self.potentials = placed
                    if not self.is_given:
                        self._bind(total)
                    return True
            elif attempt:
                return False
            # The potentials do not fit this cost; of given marginals the peak says by how much.
            is_known = self.is_given and peak < np.inf
            spread = peak * self.epsilon if is_known else self._spread()
            potentials = self._annealed(potentials, spread * self.kernel.anneals)
        self._lose()

    def _placed(self, potentials: Potentials) -> Potentials | None:
        """Return potentials within what the marginals allow; None if the plan has no mass."""
        if self.is_given:
            return potentials
        f, g = (
            prox.apply(x if prox.power else np.where(mass > 0, 0.0, -np.inf), translation)
            for prox, x, mass, translation in self._sides(potentials)
        )
        return Potentials(f, g)

    def _sides(
        self, potentials: Potentials
    ) -> tuple[tuple[MarginalProx, Float64Array, Float64Array, float], ...]:
        """Return proximal operator, potentials, masses and translation of either side."""
        rows = self.terms.rows, potentials.f, self.p, self.translation
        return rows, (self.terms.columns, potentials.g, self.q, 0.0)

    def _bind(self, total: float) -> None:
        """Make the `ScalingMap` of this kernel, whose plan has the mass `total`."""
        terms = self.terms
        anchors: list[Float64Array | None] = []
        most = 700.0 if self.precision is DOUBLE else 85.0
        for prox, x, mass, translation in self._sides(self.potentials):
            if prox.anchor is None:
                anchors.append(None)
                continue
            weight, alive = 1.0 if prox.power == 1.0 else 1.0 - prox.power, mass > 0
            logs = np.where(alive, prox.anchor + translation - x, 0.0) * (weight / self.epsilon)
            anchors.append(np.where(alive, np.exp(np.clip(logs, -most, most)), 0.0))
        rows, columns = anchors
        self.scaling_map = ScalingMap(
            rows, columns, terms.rows.power, terms.columns.power, terms.mass, terms.rate
        )
        if terms.mass:
            # Caps that are too low rise at once, caps that are too high fall by little.
            self.scalings.u *= self.scaling_map.scale(terms.mass / total)

    def _iterate(self, omega: float, max_iter: int, tol: float) -> tuple[float, int]:
        """Make iterations; return the error and their number."""
        return self.kernel.iterate(
            self.p, self.q, self.scalings, omega, max_iter, tol, self.scaling_map
        )

    def _max_log_scaling(self) -> float:
        return self.scalings.max_log_scaling(self.p, self.q)

    def _absorbed(self) -> Potentials:
        """Return the potentials with the scalings in them."""
        scalings = self.scalings
        absorbed = self.potentials.absorb(scalings.u, scalings.v, self.epsilon)
        if self.scaling_map is None or not self.terms.mass:
            return absorbed
        translation = self.translation + self.epsilon * np.log(self.scaling_map.factor)
        return absorbed._replace(separable=self.separable, translation=translation)

    def _plan_mass(self) -> float:
        """Return the mass of the plan; raise an error if it is no number."""
        with np.errstate(invalid="ignore"):
            mass = float(self.scalings.v @ self.scalings.sums.values)
        if not 0.0 < mass < np.inf:
            self._lose()
        return mass

    def _lose(self) -> NoReturn:
        """Raise the error of a plan that has no numbers; OutOfTime if annealing was cut short."""
        self.deadline.check()
        raise lost_to_rounding(self.epsilon, self.precision)


class LostToRounding(ValueError):
    """A plan has no numbers, as its epsilon is too small."""


def lost_to_rounding(epsilon: float, precision: FloatPrecision) -> LostToRounding:
    """Return the error of a plan that has no numbers."""
    return LostToRounding(
        "epsilon and rho must be nearer to the costs, and to one another, for this plan: at an "
        f"epsilon of {epsilon:.1e} of the largest costs all is rounding in {precision.dtype}"
    )

"""A linear problem of an unbalanced outer iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from ..utils.deadline import Deadline
from ..utils.precision import DOUBLE, SINGLE
from .gibbs_kernel import Kernel
from .linear_problem import LinearProblem
from .log_domain import Potentials
from .rules import MarginalTerms, Relaxation, UnbalancedRule

if TYPE_CHECKING:
    from .sinkhorn_solver import SinkhornSolver


class UnbalancedProblem(LinearProblem):
    """A linear problem whose marginals may be missed at a price. Its plan is scaled to the
    geometric mean of its mass and the mass of the plan it was linearized at.

    A plan whose mass is below the numbers of its kernel is multiplied, with `p` and `q`, by
    ``exp(log_factor)``.
    """

    def __init__(
        self,
        solver: SinkhornSolver,
        kernel: Kernel,
        epsilon: float,
        deadline: Deadline,
        relaxation: Relaxation,
    ) -> None:
        self.relaxation, self.mass, self.log_factor = relaxation, relaxation.mass, 0.0
        super().__init__(solver, kernel, epsilon, deadline)

    def terms_at(self, epsilon: float) -> MarginalTerms:
        rule = cast(UnbalancedRule, self.solver.rule)
        return rule.relaxed_terms(self.separable, epsilon, self.relaxation)

    def solution(self) -> Potentials:
        mass = self._plan_mass()
        # Where costs are far above the price of all mass the next plan, of other matches, may be
        # worth having.
        log_mass, log_unit = np.log(mass) - self.log_factor, np.log(self.mass)
        # From one problem to the next a plan keeps this fraction of its mass at least.
        wanted = max((log_unit + log_mass) / 2, np.log(1e-3) + log_unit)
        # Half on either side, so that neither leaves its range.
        for x in (self.scalings.u, self.scalings.v, self.scalings.sums.values):
            x *= np.exp((wanted - np.log(mass)) / 2)
        return super()._absorbed()

    def _absorbed(self) -> Potentials:
        absorbed = super()._absorbed()
        return absorbed._replace(f=absorbed.f - self.log_factor * self.epsilon)

    def _fitting(self, start: Potentials) -> Potentials:
        anchored, is_near = self._anchored(start)
        return anchored if is_near else self._annealed(anchored, self._spread())

    def _anchored(self, potentials: Potentials) -> tuple[Potentials, bool]:
        """Return potentials with the anchors of points that have none, and whether scalings and the
        masses that potentials ask for are within numbers.
        """
        is_near, sides = True, []
        for prox, x, mass, _ in self._sides(potentials):
            if prox.anchor is not None:
                x = np.where(np.isfinite(x), x, prox.anchor)
                room = prox.power / (1.0 - prox.power)
                room = SINGLE.max_exponent * self.epsilon * max(1.0, room)
                is_near = is_near and (np.abs(x - prox.anchor) <= room)[mass > 0].all()
            sides.append(x)
        f, g = sides
        return Potentials(f, g), is_near

    def _placed(self, potentials: Potentials) -> Potentials | None:
        """Return potentials whose plan is within the numbers of its kernel; None if the plan is too
        small for that. Points that ask for a negligible mass after iterations lose it.
        """
        masses, totals, self.log_factor, self.translation = [], [], 0.0, 0.0
        self.p, self.q = self.solver.p, self.solver.q
        for prox, x, mass, _ in self._sides(potentials):
            if prox.anchor is not None:
                # The marginal that these potentials ask for.
                rho = self.epsilon * prox.power / (1.0 - prox.power)
                with np.errstate(over="ignore"):
                    asked = mass * np.exp(np.where(mass > 0, prox.anchor - x, 0.0) / rho)
                totals.append(asked.sum())
                if self.scaling_map is not None:
                    mass = np.where(asked > 1e-30 * totals[-1], mass, 0.0)
            masses.append(mass)
        if totals:
            with np.errstate(divide="ignore"):
                least = np.log(min(totals) / self.mass)
            if not (least > -DOUBLE.max_exponent and max(totals) < np.inf):
                return potentials if self.deadline.passed() else None
            # Factors below e^-10 may be lost in rounding.
            self.log_factor = -least if least < -10.0 else 0.0
            self.translation = self.log_factor * self.epsilon
        factor = np.exp(self.log_factor)
        self.p, self.q = masses if factor == 1.0 else (mass * factor for mass in masses)
        return Potentials(potentials.f + self.translation, potentials.g)

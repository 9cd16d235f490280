"""Gradients of an objective at its minimum in the data of the problem. By the envelope theorem
they are its partial derivatives with the plan held still, and in the masses, which constrain the
plan, the dual potentials.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ..linear.marginals import Marginals, Partial, Unbalanced, as_marginals
from ..pot.arrays import NoGradients
from ..problems.quadratic import QuadraticProblem
from ..quadratic import certificate
from ..results.result import GWResult


def refuse_gradients(names: Collection[str], marginals: Marginals) -> None:
    """Raise `NoGradients` if a name in `names` has none: masses that only bound the masses of the
    plan, and masses that an infinite price makes the plan meet.
    """
    marginals = as_marginals(marginals)
    has = True, marginals != "semirelaxed"
    if isinstance(marginals, Unbalanced):
        has = marginals.prices[0] < np.inf, marginals.prices[1] < np.inf
    elif isinstance(marginals, Partial) and marginals.mass < 1.0:
        has = False, False
    for name, is_free in zip("pq", has, strict=True):
        if name in names and not is_free:
            raise NoGradients(name)


class Minimum:
    """The least objective of a problem, as a result has it, and its gradients."""

    def __init__(self, problem: QuadraticProblem, result: GWResult) -> None:
        self._problem, self._result = problem, result
        # Proximal steps have no entropy in their objective.
        entropic = result.method == "pgd"
        self.value = result.reg_cost if entropic else result.gw_cost

    def gradients(self, names: Collection[str]) -> dict[str, Any]:
        """Return the gradients in the arguments of these names."""
        if not names:
            return {}
        plan = self._result.plan.astype(np.float64)
        gradients = certificate.gradients(self._problem, plan)
        for side, name in enumerate("pq"):
            if name in names:
                gradients[name] = self._in_masses(plan, side)
        return {name: gradients[name] for name in names}

    def _in_masses(self, plan, side):
        """Return the gradient in `p` (side 0) or `q` (side 1)."""
        result, rule = self._result, self._problem.rule
        if not rule.is_relaxed:
            # Linear problems have half the gradient of the objective. As masses have
            # one sum, a constant is free.
            duals = 2.0 * result.potentials[side]
            finite = np.isfinite(duals)
            return np.where(finite, duals - duals[finite].mean(), 0.0)
        # Both divergences of an unbalanced problem are KL2(a | b), whose derivative in
        # `b` is 2 (m(b) - m(a) a / b).
        masses, others = (rule.p, rule.q)[:: 1 - 2 * side]
        sums, total = plan.sum(axis=1 - side), masses.sum()
        kept = plan.sum() * np.divide(sums, masses, out=np.zeros_like(sums), where=masses > 0)
        priced = rule.rho[side] * (total - kept)
        return 2.0 * (priced + result.epsilon * (total * others.sum() ** 2 - kept))

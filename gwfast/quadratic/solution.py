"""The solution of an outer loop."""

import dataclasses
import functools

import numpy as np

from ..kernels import _kernels
from ..linear.log_domain import Potentials
from ..results.result import GWResult
from . import certificate
from .linearization import Linearization
from .methods import Stepped


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """Where an outer loop ended or paused; valid until the loop goes on.

    Attributes
    ----------
    status : Status
    gw_cost : float
        Objective for the given marginals, with the rounding of the loop.
    history : tuple of OuterStep
        All iterations.
    moves : tuple of float
        Frobenius norms of the change of the plan by each; NaN where unknown.
    seconds : float
        Of all iterations.
    linearization : Linearization
    stepped : Stepped
        The last iteration.
    """

    status: str
    gw_cost: float
    history: tuple
    moves: tuple
    seconds: float
    linearization: Linearization
    stepped: Stepped

    @property
    def marginals(self):
        """Row and column sums of the plan."""
        return self.stepped.update.rows, self.stepped.update.cols

    @property
    def change(self):
        """Change of the state by the last iteration."""
        return self.stepped.update.change

    @property
    def epsilon(self):
        """Epsilon of the last iteration, in units of cost."""
        return self.history[-1].epsilon

    @functools.cached_property
    def coupling(self):
        """The plan; a RuntimeError if another loop has used the same buffers."""
        stepped = self.stepped
        return self.linearization.coupling(stepped.kernel, stepped.solution)

    @functools.cached_property
    def entropy(self):
        """Entropy of the plan."""
        return self.coupling.entropy()

    @functools.cached_property
    def kept(self):
        """Of either side the least share of a mass that is kept, and the mass lost."""
        rule = self.linearization.problem.rule
        return tuple(map(_kernels.kept, self.marginals, (rule.p, rule.q)))

    @functools.cached_property
    def left_out(self):
        """See `GWResult`."""
        return self.linearization.left_out(self.stepped.kernel, self.stepped.solution)

    @property
    def information(self):
        """Mutual information of the plan, how much it says about which points match: its
        Kullback-Leibler divergence from the product of its marginals; and its upper bound.
        """
        of_rows, of_cols = map(_kernels.mass_entropy, self.marginals)
        return of_rows + of_cols - self.entropy, min(of_rows, of_cols)

    @property
    def potentials(self):
        """`Potentials` in units of cost, with the separable terms."""
        linearization, scaled = self.linearization, self.stepped.solution.potentials
        return Potentials(
            linearization.cost_scale * scaled.f + linearization.row_cost,
            linearization.cost_scale * scaled.g + linearization.col_cost,
        )

    @property
    def linear_value(self):
        """``<linear_cost, plan>``."""
        return self.linearization.linear_value(self.stepped.update)

    @functools.cached_property
    def objective(self):
        """Objective of the plan. If rounding or missed marginals may move `gw_cost` by more
        than `MAX_ERROR`, it is computed in float64 from the plan.
        """
        known = self._error() <= certificate.MAX_ERROR * abs(self.gw_cost)
        if known or self.linearization.is_elsewhere:
            return self.gw_cost
        problem = self.linearization.problem
        value = certificate.objective(problem, self.coupling, self.linear_value)
        return value + problem.rule.penalty(*self.marginals)

    def _error(self):
        """How far `gw_cost` may be from the objective of the plan."""
        linearization = self.linearization
        problem, error = linearization.problem, linearization.precision.cost_rounding
        error *= linearization.magnitude
        # Beyond so few multiplications the objective for the given marginals will do.
        (n, m), missed = problem.shape, self.history[-1].marginal_error
        counts = missed > 1e-5 or n * m * (n + m) <= 1e8
        if problem.is_balanced and counts:
            costs = linearization.row_cost, linearization.col_cost
            given = zip(costs, self.marginals, (problem.p, problem.q), strict=True)
            error += 2 * sum(np.abs(c) @ np.abs(own - of) for c, own, of in given)
        return error

    def potentials_for(self, linearization):
        """`Potentials` that start a linear problem of nearly equal costs, in the units
        of that linearization.
        """
        old, now = self.potentials, linearization
        return Potentials(
            (old.f - now.row_cost) / now.cost_scale, (old.g - now.col_cost) / now.cost_scale
        )

    def result(self, **more):
        """The `GWResult`; `more` are fields to set."""
        last, potentials = self.history[-1], self.potentials
        rule, marginals = self.linearization.problem.rule, self.marginals
        given = last.epsilon, self.entropy, *marginals
        fields = dict(
            coupling=self.coupling,
            potentials=(potentials.f, potentials.g),
            gw_cost=self.objective,
            linear_cost=self.linear_value,
            penalty=rule.penalty(*marginals),
            reg_cost=rule.regularized(self.objective, *given),
            **rule.asked(),
            mass=float(marginals[0].sum()),
            lost=tuple(lost for _, lost in self.kept),
            epsilon=last.epsilon,
            marginal_error=last.marginal_error,
            n_outer=len(self.history),
            n_inner=sum(step.n_inner for step in self.history),
            status=self.status,
            left_out=self.left_out,
            method=self.linearization.method.name,
            history=self.history,
            seconds=self.seconds,
        )
        return GWResult(**fields | more)

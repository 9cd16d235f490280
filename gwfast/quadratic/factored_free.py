"""The linearized cost between point clouds where a marginal is free."""

import numpy as np
from scipy.spatial import cKDTree

from ..kernels._kernels import mass_entropy
from ..linear.log_domain import Potentials
from ..utils.trees import as_saved
from .factored import Factored, as_coupling, relative_change
from .linearization import Update


class FreeFactored(Factored):
    """`Factored` under a rule with a free marginal: separable terms move the plan, so
    that its marginals belong to the state.
    """

    # The change includes that of single row and column sums.
    change_is_rounded = True
    can_damp = True

    def __init__(self, problem, n_threads, tier="dense", **kind):
        super().__init__(problem, n_threads, tier, **kind)
        self.accelerates = self.samples = False
        self.problem = problem.replace(rule=problem.rule.bounded(self.cost_scale, self.precision))

    def start(self, plan=None, *, takes=False, epsilon=0.0):
        (rows, cols), mass = self.problem.rule.product(), self.problem.mass
        if plan is None:
            self.state = self._terms.product_state(rows, cols) / mass
            entropy = mass_entropy(rows) + mass_entropy(cols) + mass * np.log(mass)
        else:
            coupling = as_coupling(plan, self.n_threads)
            self.state = self._state_of(coupling)
            (rows, cols), entropy = coupling.marginals, coupling.entropy()
        self._standing = rows, cols, entropy
        return self._objective(rows, cols)

    def start_from(self, coarse, rows, cols):
        """Each point keeps as much of its mass as the nearest coarse one."""
        self.state, before = coarse.state, coarse.problem
        *standing, entropy = coarse.standing()
        problem, made = self.problem, []
        for kept, masses, few, cloud, some in zip(
            standing, (problem.p, problem.q), (before.p, before.q),
            (problem.x, problem.y), (rows, cols), strict=True,
        ):  # fmt: skip
            shares = np.divide(kept, few, out=np.zeros_like(kept), where=few > 0)
            nearest = cKDTree(cloud.points[some]).query(cloud.points)[1]
            made.append(masses * shares[nearest])
            # Each pair of points becomes several.
            entropy += kept.sum() * np.log(len(masses) / len(few))
        self._standing = *made, entropy
        return self._objective(*made)

    def standing(self):
        """Marginals and entropy of the plan of the linearized cost."""
        return self._standing

    def kernel(self, epsilon=None, start=None):
        unit = -1.0 / self.cost_scale
        separable = Potentials(self.row_cost * unit, self.col_cost * unit)
        kernel = super().kernel(epsilon, start or separable)
        kernel.separable_potentials = separable
        return kernel

    def update(self, kernel, solution):
        before = self.state
        self.state, rows = self._contract(kernel, solution.scalings)
        cols = kernel.column_sums(rows, solution.scalings)
        change = relative_change(before, self.state)
        change = max(change, self._moved_marginals(rows, cols))
        self._last = kernel.epsilon, solution.potentials
        self._look_outside(kernel, solution, rows)
        update = Update(self._objective(rows, cols), change, rows, cols)
        entropy = self._entropy(before, update, solution.potentials, kernel.epsilon)
        if self._damping:
            self.state = self._between(before, self.state)
            pairs = zip(self._standing[:2], (rows, cols), strict=True)
            rows, cols = (self._between(*pair) for pair in pairs)
            self.row_cost, self.col_cost = self._terms.separable(rows, cols)
        self._standing = rows, cols, entropy
        return update

    def _entropy(self, before, update, potentials, epsilon):
        """Entropy of the last plan, whose logarithm is ``(f + g - cost) / epsilon``
        with the cost of the former state.
        """
        logs = -np.vdot(self._core(before), self.state)
        pairs = (potentials.f, update.rows), (potentials.g, update.cols)
        for potential, sums in pairs:
            logs += sums[sums > 0] @ potential[sums > 0]
        return -float(logs) / epsilon

    def _between(self, before, now):
        return now + self._damping * (before - now)

    def _moved_marginals(self, rows, cols):
        """L1 change of the marginals as a fraction of the mass of the plan."""
        pairs = zip((rows, cols), self._standing[:2], strict=True)
        moved = max(float(np.abs(now - old).sum()) for now, old in pairs)
        return moved / self.problem.rule.plan_mass(rows)

    def _objective(self, rows, cols):
        self.row_cost, self.col_cost = self._terms.separable(rows, cols)
        penalty = self.problem.rule.penalty(rows, cols)
        return super()._objective(rows, cols) + penalty

    def export(self):
        own = dict(standing=self._standing, damping=self._damping)
        return dict(state=self.state, **own)

    def restore(self, saved, change, epsilon):
        super().restore(saved, change, epsilon)
        *marginals, entropy = saved["standing"]
        rows, cols = (
            as_saved(one, (size,), np.float64)
            for one, size in zip(marginals, self.problem.shape, strict=True)
        )
        self._standing = rows, cols, float(entropy)
        self._damping = float(saved["damping"])
        self.row_cost, self.col_cost = self._terms.separable(rows, cols)

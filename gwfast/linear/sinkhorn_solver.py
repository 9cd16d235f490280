"""Entropic linear problems under any marginal rule, by Sinkhorn iterations that stay finite at any
epsilon.

Two ways of computing the same iteration, and the passage between them:

- *scaling*: with ``K_ij = exp((f_i + g_j - c_ij) / epsilon)`` made once, an iteration is one read
  of K (`kernels.sinkhorn_passes`). Fast, but u and v may leave the range of float32, and what
  underflowed in K is lost.
- *log domain*: f and g by log-sum-exp over the cost, see log_domain.py.

The solver begins in the log domain if it has no potentials or they do not fit, goes on by scaling,
and absorbs u and v into f and g (making the kernel anew) when they drift. A rule enters as data:
proximal operators of both sides (`MarginalTerms`, in scalings `ScalingMap`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils.deadline import NEVER, Deadline
from ..utils.precision import SINGLE, FloatPrecision
from ..utils.tuning import DEFAULT, Tuning
from .gibbs_kernel import Kernel, Scalings
from .linear_problem import LinearProblem
from .log_domain import LogDomain, Potentials
from .pace import Action, Pace, next_action
from .rules import Balanced, Relaxation
from .unbalanced_problem import UnbalancedProblem


class LinearSolution(NamedTuple):
    """Solution of a linear problem.

    `potentials` belong to the plan, and start the next problem; `scalings` belong to the kernel,
    until the solver is used again. `error` is the change of row sums in the last iteration,
    under a rule with free marginals.
    """

    potentials: Potentials
    scalings: Scalings
    n_iter: int
    error: float = np.nan


class SinkhornSolver:
    """Solves linear problems of one size under a marginal rule. All solutions use the same
    `scalings`, one after the other.
    """

    def __init__(
        self,
        rule: Balanced,
        n_threads: int,
        precision: FloatPrecision = SINGLE,
        tuning: Tuning = DEFAULT,
    ) -> None:
        self.rule, self.p, self.q = rule, rule.p, rule.q
        self.precision, self.tuning = precision, tuning
        self.scalings = Scalings(len(rule.p), len(rule.q), precision.dtype)
        self.log_domain = LogDomain(rule.p, rule.q, n_threads)

    def solve(
        self,
        kernel: Kernel,
        epsilon: float,
        start: Potentials | None = None,
        *,
        tol: float,
        max_iter: int,
        deadline: Deadline = NEVER,
        relaxation: Relaxation | None = None,
    ) -> LinearSolution:
        """Return the `LinearSolution` for a kernel; `start` are the `Potentials` of a problem
        nearby, or None.

        Iterations end when the L1 error of the marginals, or with free marginals the L1 change of
        row sums, is below `tol`, after `max_iter` of them, or when the deadline has passed. An
        unbalanced plan is scaled to the geometric mean of its mass and ``relaxation.mass``.
        """
        if relaxation is None:
            problem = LinearProblem(self, kernel, epsilon, deadline)
        else:
            problem = UnbalancedProblem(self, kernel, epsilon, deadline, relaxation)
        if not problem.begin(start):
            return self.vanish(kernel)
        goal, pace, action, n_iter = problem.goal(tol, max_iter), Pace(), Action.ITERATE, 0
        while action is not Action.END:
            look = problem.iterate(pace, n_iter, goal)
            n_iter, (action, pace) = look.n_iter, next_action(look, pace, goal)
            if action is Action.ABSORB and not problem.absorb():
                return self.vanish(kernel)
            if action is Action.NEWTON:
                n_iter += problem.newton_step(look, goal)
        if not problem.absorb_runaways():
            return self.vanish(kernel)
        return LinearSolution(problem.solution(), self.scalings, n_iter, look.error)

    def vanish(self, kernel: Kernel) -> LinearSolution:
        """Return the plan without mass."""
        kernel.make(Potentials.full(kernel.shape), 1.0, self.scalings)
        self.scalings.u.fill(0.0)
        return LinearSolution(Potentials.full(kernel.shape, -np.inf), self.scalings, 0, 0.0)


def in_units(epsilon: float, scale: float, precision: FloatPrecision = SINGLE) -> float:
    """Return `epsilon` in units of `scale` that make the costs of order one; raise ValueError if
    it is too small for the precision to tell costs apart at all.
    """
    least = precision.min_epsilon
    if epsilon < least * scale:
        raise ValueError(
            f"epsilon must be at least {least * scale:.1e}, {least} of the largest "
            f"costs, got {epsilon}"
        )
    # Float32 holds numbers up to 3e38; from far less on the plan is the product plan.
    return min(epsilon / scale, 1e30)

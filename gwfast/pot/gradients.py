"""Gradients, for torch, of losses and plans in costs and masses.

A loss at its minimum has them by the envelope theorem: they are its partial derivatives
with the plan held still. A plan with entropy is a fixed point, ``grad V(T) + epsilon
log T = f + g``, and has them by implicit differentiation: as its error is a matrix
without marginals, so is the adjoint, which conjugate gradients find in products of the
costs. All is in float64, in POT's conventions and units.
"""

import functools

import numpy as np
from scipy import linalg

from ..quadratic.certificate import Costs


class Loss:
    """The loss ``V(T) = alpha sum L(C1_ik, C2_jl) T_ij T_kl + (1 - alpha) <M, T>`` of a
    `Problem`, and its derivatives.
    """

    def __init__(self, problem):
        self._costs = Costs(problem.x, problem.y, problem.loss)
        self._alpha, self._M = problem.alpha, problem.M

    def in_plan(self, T):
        """The gradient in the plan: of `M` the constant term, else linear in it."""
        made = self.hessian(T)
        return made if self._M is None else made + (1 - self._alpha) * self._M

    def hessian(self, Z):
        """The Hessian in the plan times a matrix."""
        return 2.0 * self._alpha * self._costs.cost(Z)

    def in_data(self, T):
        """The gradient in the costs and alpha by names, with the plan held still."""
        made = dict(zip(("C1", "C2"), self._in_costs(T), strict=True))
        if self._M is not None:
            alpha = float(np.vdot(self._costs.cost(T) - self._M, T))
            made |= dict(M=(1 - self._alpha) * T, alpha=alpha)
        return made

    def in_plan_in_data(self, T, Z):
        """The gradient of ``<in_plan(T), Z>``: terms quadratic in the plan are polarized."""
        both, first, second = map(self._in_costs, (T + Z, T, Z))
        made = {
            name: x - y - z for name, x, y, z in zip(("C1", "C2"), both, first, second, strict=True)
        }
        if self._M is not None:
            alpha = float(np.vdot(2.0 * self._costs.cost(T) - self._M, Z))
            made |= dict(M=(1 - self._alpha) * Z, alpha=alpha)
        return made

    def _in_costs(self, T):
        return [self._alpha * x for x in self._costs.in_costs(T)]


class Potentials:
    """Matrices ``f_i + g_j`` that are nearest to others, with a plan as weights."""

    def __init__(self, plan):
        self._plan = plan
        sums = plan.sum(axis=1), plan.sum(axis=0)
        self._p, self._q = (np.where(one > 0, one, 1.0) for one in sums)
        root = np.sqrt(self._q)
        between = plan / np.sqrt(self._p)[:, None] / root
        sizes, vectors = linalg.eigh(np.eye(len(root)) - between.T @ between)
        # Below, groups of points have no mass in common: constants between them are free.
        joined = sizes > 1e-13
        vectors = vectors[:, joined] / root[:, None]
        self._inverse = (vectors / sizes[joined]) @ vectors.T

    def of(self, R):
        """f and g."""
        weighted = self._plan * R
        rows, cols = weighted.sum(axis=1) / self._p, weighted.sum(axis=0)
        g = self._inverse @ (cols - self._plan.T @ rows)
        return rows - self._plan @ g / self._p, g

    def without(self, R):
        """The rest of a matrix less its potentials: ``plan * rest`` has no marginals."""
        f, g = self.of(R)
        return R - f[:, None] - g


def adjoint(plan, epsilon, hessian, given):
    """The solution ``Z = plan * Y`` of ``epsilon Y + hessian(Z) = given - f - g`` among
    the matrices without marginals, f and g: how what changes by `given` with the plan
    changes with what the plan is the minimum of, and with its marginals.

    ValueError if the plan is no strict minimum, as where two are a tie.
    """
    potentials = Potentials(plan)
    Y = np.zeros_like(plan)
    r = potentials.without(given)
    d, size = r, float(np.vdot(plan * r, r))
    # Relative residual of an adjoint: 1e-10.
    aim = 1e-20 * float(np.vdot(plan * given, given))
    for _ in range(1000):
        if size <= aim:
            break
        made = potentials.without(epsilon * d + hessian(plan * d))
        curvature = float(np.vdot(plan * d, made))
        if not curvature > 0:
            raise ValueError(
                "gradients of a plan are defined where it is a strict minimum, got one "
                "that can change without the loss rising: a tie, or far from converged"
            )
        step = size / curvature
        Y, r = Y + step * d, r - step * made
        before, size = size, float(np.vdot(plan * r, r))
        d = r + (size / before) * d
    Z = plan * Y
    return Z, *potentials.of(given - epsilon * Y - hessian(Z))


def enveloped(answer):
    """The gradient of the loss of an `Answer` without entropy by names, but for masses
    that both are given.
    """
    problem, T = answer.problem, answer.plan.astype(np.float64)
    loss = Loss(problem)
    made = loss.in_data(T)
    if problem.marginals == "semirelaxed":
        # Mass that a row gets goes where that costs least.
        made["p"] = loss.in_plan(T).min(axis=1)
    return made


def of_exact(answer):
    """The gradient of the loss of an `ExactAnswer` by names."""
    made = enveloped(answer)
    if answer.problem.marginals == "balanced":
        log = answer.evidence()
        made |= {name: centered(np.asarray(log[of])) for name, of in ("pu", "qv")}
    return made


def of_entropic(answer, *, in_plan=None, with_entropy=False):
    """The gradient, by names, of the loss of an `Answer`, its entropy included or not;
    or, with the gradient of something `in_plan`, of that.
    """
    T, epsilon = answer.plan.astype(np.float64), answer.epsilon
    loss, made = Loss(answer.problem), {}
    given = in_plan
    if in_plan is None:
        given, made = loss.in_plan(T), loss.in_data(T)
    if with_entropy:
        given = given + epsilon * (1 + np.log(np.maximum(T, np.finfo(float).tiny)))
    Z, f, g = adjoint(T, epsilon, loss.hessian, given)
    for name, x in loss.in_plan_in_data(T, Z).items():
        made[name] = made.get(name, 0.0) - x
    return made | dict(p=centered(f), q=centered(g))


def centered(x):
    """As masses have one sum, gradients have one constant to choose; POT's choice.
    Points without mass may have potentials of minus infinity, and have no part.
    """
    known = np.isfinite(x)
    return np.where(known, x - x[known].mean(), 0.0)


def traced(made, problem, gradient):
    """A tensor, with ``gradient(upstream)`` by names for those arguments that ask for
    one; as it is where none does.
    """
    asking = problem.asking
    if not asking:
        return made

    def pull(upstream):
        found = gradient(upstream.detach().cpu().numpy().astype(np.float64))
        return tuple(
            upstream.new_tensor(found[name]).to(one.dtype).reshape(one.shape)
            for name, one in asking.items()
        )

    return _function().apply(made, pull, *asking.values())


@functools.cache
def _function():
    """The `torch.autograd.Function` of `traced`."""
    import torch

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, made, pull, *tensors):
            ctx.pull = pull
            return made.clone()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, upstream):
            return None, None, *ctx.pull(upstream)

    return Made

"""Gradients, for torch, of losses and plans in costs and masses, in POT's conventions and float64.

By the envelope theorem gradients of a loss at its minimum are its partial derivatives with the plan
held still. A plan with entropy is a fixed point, ``grad V(T) + epsilon log T = f + g``, with
gradients by implicit differentiation, whose adjoint conjugate gradients find.
"""

import functools

import numpy as np
from scipy import linalg

from ..quadratic.certificate import Costs


class Loss:
    """The loss ``V(T) = alpha <L(C1, C2) x T, T> + (1 - alpha) <M, T>``, and its derivatives."""

    def __init__(self, call):
        self._costs = Costs(call.x, call.y, call.loss)
        self._alpha, self._M = call.alpha, call.M

    def in_plan(self, T):
        """Return the gradient in the plan."""
        gradient = self.hessian(T)
        return gradient if self._M is None else gradient + (1 - self._alpha) * self._M

    def hessian(self, Z):
        """Return the Hessian in the plan times a matrix."""
        return 2.0 * self._alpha * self._costs.cost(Z)

    def in_data(self, T):
        """Return the gradient in the costs and alpha by names, with the plan held still."""
        C1, C2 = (self._alpha * x for x in self._costs.in_costs(T))
        if self._M is None:
            return dict(C1=C1, C2=C2)
        alpha = float(np.vdot(self._costs.cost(T) - self._M, T))
        return dict(C1=C1, C2=C2, M=(1 - self._alpha) * T, alpha=alpha)

    def in_plan_in_data(self, T, Z):
        """Return the gradient of ``<in_plan(T), Z>``: central differences of quadratic terms."""
        above, below = self.in_data(T + Z), self.in_data(T - Z)
        return {name: (above[name] - below[name]) / 2 for name in above}


class Potentials:
    """Matrices ``f_i + g_j`` nearest to given matrices, with a plan as weights."""

    def __init__(self, plan):
        self._plan = plan
        sums = plan.sum(axis=1), plan.sum(axis=0)
        self._p, self._q = (np.where(masses > 0, masses, 1.0) for masses in sums)
        root = np.sqrt(self._q)
        between = plan / np.sqrt(self._p)[:, None] / root
        sizes, vectors = linalg.eigh(np.eye(len(root)) - between.T @ between)
        # Eigenvalues below belong to groups without common mass: constants between them are free.
        joined = sizes > 1e-13
        vectors = vectors[:, joined] / root[:, None]
        self._inverse = (vectors / sizes[joined]) @ vectors.T

    def of(self, R):
        """Return f and g."""
        weighted = self._plan * R
        rows, cols = weighted.sum(axis=1) / self._p, weighted.sum(axis=0)
        g = self._inverse @ (cols - self._plan.T @ rows)
        return rows - self._plan @ g / self._p, g

    def without(self, R):
        """Return a matrix less its potentials: times the plan it has no marginals."""
        f, g = self.of(R)
        return R - f[:, None] - g


def adjoint(plan, epsilon, hessian, direction):
    """Return ``Z = plan * Y``, without marginals, f and g with ``epsilon Y + hessian(Z) = direction
    - f - g``; raise a ValueError if the plan is no strict minimum, as at a tie.
    """
    potentials = Potentials(plan)
    Y = np.zeros_like(plan)
    r = potentials.without(direction)
    d, size = r, float(np.vdot(plan * r, r))
    # Relative residual of an adjoint: 1e-10.
    aim = 1e-20 * float(np.vdot(plan * direction, direction))
    for _ in range(1000):
        if size <= aim:
            break
        curved = potentials.without(epsilon * d + hessian(plan * d))
        curvature = float(np.vdot(plan * d, curved))
        if not curvature > 0:
            raise ValueError(
                "gradients of a plan are defined where it is a strict minimum, got a plan that "
                "can change without the loss rising: a tie, or far from converged"
            )
        step = size / curvature
        Y, r = Y + step * d, r - step * curved
        before, size = size, float(np.vdot(plan * r, r))
        d = r + (size / before) * d
    Z = plan * Y
    return Z, *potentials.of(direction - epsilon * Y - hessian(Z))


def enveloped(answer):
    """Return the gradient of the loss without entropy by names, but in fixed masses."""
    call, T = answer.problem, answer.plan.astype(np.float64)
    loss = Loss(call)
    by_name = loss.in_data(T)
    if call.marginals == "semirelaxed":
        # Mass that a row gets goes where that costs least.
        by_name["p"] = loss.in_plan(T).min(axis=1)
    return by_name


def of_exact(answer):
    """Return the gradient of the loss of an `ExactAnswer` by names."""
    by_name = enveloped(answer)
    if answer.problem.marginals == "balanced":
        log = answer.evidence()
        by_name |= {name: centered(np.asarray(log[key])) for name, key in ("pu", "qv")}
    return by_name


def of_entropic(answer, *, in_plan=None, with_entropy=False):
    """Return the gradient by names of the loss, or of a function with the gradient `in_plan`."""
    T, epsilon = answer.plan.astype(np.float64), answer.epsilon
    loss, by_name = Loss(answer.problem), {}
    if in_plan is None:
        in_plan, by_name = loss.in_plan(T), loss.in_data(T)
    if with_entropy:
        in_plan = in_plan + epsilon * (1 + np.log(np.maximum(T, np.finfo(float).tiny)))
    Z, f, g = adjoint(T, epsilon, loss.hessian, in_plan)
    for name, x in loss.in_plan_in_data(T, Z).items():
        by_name[name] = by_name.get(name, 0.0) - x
    return by_name | dict(p=centered(f), q=centered(g))


def centered(x):
    """Return gradients in masses with mean zero, as in POT; infinite ones of no mass are zero."""
    finite = np.isfinite(x)
    return np.where(finite, x - x[finite].mean(), 0.0)


def traced(x, call, gradient):
    """Return a tensor with ``gradient(upstream)`` by names, or `x` if no argument asks for any."""
    asking = call.asking
    if not asking:
        return x

    def pull(upstream):
        by_name = gradient(upstream.detach().cpu().numpy().astype(np.float64))
        return tuple(
            upstream.new_tensor(by_name[name]).to(tensor.dtype).reshape(tensor.shape)
            for name, tensor in asking.items()
        )

    return _function().apply(x, pull, *asking.values())


@functools.cache
def _function():
    """Return the `torch.autograd.Function` of `traced`."""
    import torch

    class Traced(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, pull, *tensors):
            ctx.pull = pull
            return x.clone()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, upstream):
            return None, None, *ctx.pull(upstream)

    return Traced

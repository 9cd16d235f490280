"""The variants of the problem step by step, in float64 and by all n^2 m^2 terms."""

import numpy as np
from helpers import extended
from scipy.special import kl_div, logsumexp

LOSSES = {"square": lambda a, b: (a - b) ** 2, "kl": lambda a, b: a * np.log(a / b) - a + b}


def half_gradient(plan, cost_x, cost_y, loss="square", linear=None, alpha=0.5):
    """Of the objective, at any plan."""
    terms = LOSSES[loss](cost_x[:, None, :, None], cost_y[None, :, None, :])
    quadratic = (np.einsum("ijkl,kl->ij", terms, plan) + np.einsum("klij,kl->ij", terms, plan)) / 2
    return quadratic if linear is None else alpha * quadratic + (1 - alpha) / 2 * linear


def balanced(kernel, p, q, n_passes=20_000):
    """The plan ``diag(u) K diag(v)`` with these marginals, by Sinkhorn."""
    u, v = np.ones(len(p)), np.ones(len(q))
    for _ in range(n_passes):
        u = p / (kernel @ v)
        v = q / (kernel.T @ u)
        plan = u[:, None] * kernel * v
        if np.abs(plan.sum(axis=1) - p).sum() < 1e-15:
            break
    return plan


def unbalanced(cost, p, q, epsilon, rho, n_passes=200_000):
    """The plan of unbalanced Sinkhorn iterations on potentials, one after the other
    side, without scaling."""
    f, g = np.zeros(len(p)), np.zeros(len(q))
    damping = [1.0 / (1.0 + epsilon / one) for one in rho]
    with np.errstate(divide="ignore"):
        logs = np.log(p), np.log(q)
    for _ in range(n_passes):
        before = f
        f = -damping[0] * epsilon * logsumexp((g - cost) / epsilon + logs[1], axis=1)
        total = (f[:, None] - cost) / epsilon + logs[0][:, None]
        g = -damping[1] * epsilon * logsumexp(total, axis=0)
        if np.abs(f - before).max() < 1e-15:
            break
    return np.exp((f[:, None] + g - cost) / epsilon) * np.outer(p, q)


def unbalanced_step(plan, cost_x, cost_y, p, q, *, epsilon, rho, **options):
    """The plan after one outer iteration of an unbalanced problem: Algorithm 1 of
    Sejourne, Vialard and Peyre (NeurIPS 2021)."""
    mass = plan.sum()
    alive = plan > 0
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    cost = half_gradient(plan, cost_x, cost_y, **options)
    cost += epsilon * (plan[alive] @ np.log((plan / np.outer(p, q))[alive]))
    for one, sums, masses in zip(rho, (rows, cols), (p, q), strict=True):
        cost += one * (sums @ np.log(sums / masses))
    prices = [mass * one for one in rho]
    made = unbalanced(cost, p, q, epsilon * mass, prices)
    return made * np.sqrt(mass / made.sum())


def unbalanced_objective(plan, cost_x, cost_y, p, q, *, epsilon, rho, **options):
    """What an unbalanced plan is a minimum of, by all n^2 m^2 terms."""
    linear = options.get("linear")
    alpha = 1.0 if linear is None else options.get("alpha", 0.5)
    terms = (cost_x[:, None, :, None] - cost_y[None, :, None, :]) ** 2
    total = alpha * np.einsum("ijkl,ij,kl->", terms, plan, plan)
    if linear is not None:
        total += (1 - alpha) * np.vdot(linear, plan)
    for price, a, b in (
        (rho[0], plan.sum(axis=1), p),
        (rho[1], plan.sum(axis=0), q),
        (epsilon, plan.ravel(), np.outer(p, q).ravel()),
    ):
        twice, given = np.outer(a, a), np.outer(b, b)
        total += price * (kl_div(twice, given).sum())
    return total


def step(plan, cost_x, cost_y, p, q, *, linear=None, **options):
    """The plan after one outer iteration."""
    q = plan.sum(axis=0) if q is None else q
    start = np.maximum(plan, np.finfo(np.float64).tiny)  # logarithms are taken of it
    given = dict(linear_cost=linear, n_outer=1, start=start, **options)
    return extended.solve(cost_x, cost_y, p, q, **given)[0].astype(np.float64)

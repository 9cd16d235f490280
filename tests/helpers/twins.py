"""Variants of the problem step by step, by all n^2 m^2 terms, and by plain iterations."""

import numpy as np
from scipy.special import kl_div, logsumexp

LOSSES = {"square": lambda a, b: (a - b) ** 2, "kl": lambda a, b: a * np.log(a / b) - a + b}


def half_gradient(plan, cost_x, cost_y, loss="square", linear=None, alpha=0.5):
    """Return half the gradient of the objective at any plan."""
    terms = LOSSES[loss](cost_x[:, None, :, None], cost_y[None, :, None, :])
    quadratic = (np.einsum("ijkl,kl->ij", terms, plan) + np.einsum("klij,kl->ij", terms, plan)) / 2
    return quadratic if linear is None else alpha * quadratic + (1 - alpha) / 2 * linear


def balanced(kernel, p, q, n_passes=20_000):
    """Return the plan ``diag(u) K diag(v)`` with these marginals, by Sinkhorn."""
    u, v = np.ones(len(p)), np.ones(len(q))
    for _ in range(n_passes):
        u = p / (kernel @ v)
        v = q / (kernel.T @ u)
        plan = u[:, None] * kernel * v
        if np.abs(plan.sum(axis=1) - p).sum() < 1e-15:
            break
    return plan


def partial(kernel, p, q, mass, n_passes=500):
    """Return the plan of that mass within these marginals: no scaling exceeds a common one."""
    u, v, scale = np.ones(len(p)), np.ones(len(q)), mass / kernel.sum()
    for _ in range(n_passes):
        before = scale
        u = np.minimum(p / (scale * (kernel @ v)), 1)
        sums = kernel.T @ u
        v = np.minimum(q / (scale * sums), 1)
        scale = mass / (v @ sums)
        if abs(scale / before - 1) < 1e-16:
            break
    return scale * u[:, None] * kernel * v


def unbalanced(cost, p, q, epsilon, rho, n_passes=200_000):
    """Return the plan of unbalanced Sinkhorn iterations on potentials, without scaling."""
    f, g = np.zeros(len(p)), np.zeros(len(q))
    damping = [1.0 / (1.0 + epsilon / price) for price in rho]
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
    """Return the plan after one outer iteration of an unbalanced problem: Algorithm 1 of
    Sejourne, Vialard and Peyre (NeurIPS 2021)."""
    mass, alive = plan.sum(), plan > 0
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    cost = half_gradient(plan, cost_x, cost_y, **options)
    cost += epsilon * (plan[alive] @ np.log((plan / np.outer(p, q))[alive]))
    for price, sums, masses in zip(rho, (rows, cols), (p, q), strict=True):
        cost += price * (sums @ np.log(sums / masses))
    after = unbalanced(cost, p, q, epsilon * mass, [mass * price for price in rho])
    return after * np.sqrt(mass / after.sum())


def unbalanced_objective(plan, cost_x, cost_y, p, q, *, epsilon, rho, **options):
    """Return what an unbalanced plan is a minimum of."""
    linear = options.get("linear")
    alpha = 1.0 if linear is None else options.get("alpha", 0.5)
    terms = LOSSES["square"](cost_x[:, None, :, None], cost_y[None, :, None, :])
    total = alpha * np.einsum("ijkl,ij,kl->", terms, plan, plan)
    if linear is not None:
        total += (1 - alpha) * np.vdot(linear, plan)
    for price, a, b in (
        (rho[0], plan.sum(axis=1), p),
        (rho[1], plan.sum(axis=0), q),
        (epsilon, plan.ravel(), np.outer(p, q).ravel()),
    ):
        total += price * kl_div(np.outer(a, a), np.outer(b, b)).sum()
    return total


def step(
    plan, cost_x, cost_y, p, q, *, epsilon, marginals="balanced", mass=1.0, linear=None, alpha=0.5
):
    """Return the plan after one outer iteration, in extended precision."""
    plan, cost_x, cost_y, p = (x.astype(np.longdouble) for x in (plan, cost_x, cost_y, p))
    cost = half_gradient(plan, cost_x, cost_y, linear=linear, alpha=alpha)
    kernel = np.exp((cost.min() - cost) / epsilon)
    if marginals == "semirelaxed":
        after = kernel * (p / kernel.sum(axis=1))[:, None]
    elif marginals == "partial":
        after = partial(kernel, p, q, mass)
    else:
        after = balanced(kernel, p, q, 500)
    return after.astype(np.float64)

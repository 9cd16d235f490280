"""Variants of the problem step by step, by all n^2 m^2 terms, and by plain iterations; and the
scores of translations.
"""

import numpy as np
from helpers.problems import unit

LOSSES = {"square": lambda a, b: (a - b) ** 2, "kl": lambda a, b: a * np.log(a / b) - a + b}


def half_gradient(plan, cost_x, cost_y, loss="square", linear=None, alpha=0.5):
    """Return half the gradient of the objective at any plan."""
    terms = LOSSES[loss](cost_x[:, None, :, None], cost_y[None, :, None, :])
    quadratic = (np.einsum("ijkl,kl->ij", terms, plan) + np.einsum("klij,kl->ij", terms, plan)) / 2
    return quadratic if linear is None else alpha * quadratic + (1 - alpha) / 2 * linear


def objective(cost_x, cost_y, plan):
    """Return the sum of all squared differences, each times the masses of both matches."""
    return np.vdot(plan, half_gradient(plan, cost_x, cost_y))


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


def unbalanced(cost, p, q, epsilon, rho, n_passes=100_000):
    """Return the plan of unbalanced Sinkhorn iterations on one side after the other."""
    kernel, u = np.exp(-cost / epsilon), np.ones(len(p))
    powers = [-1.0 / (1.0 + epsilon / price) for price in rho]
    for _ in range(n_passes):
        before = u
        v = (kernel.T @ (p * u)) ** powers[1]
        u = (kernel @ (q * v)) ** powers[0]
        if np.abs(u / before - 1.0).max() < 1e-14:
            break
    return (p * u)[:, None] * kernel * (kernel.T @ (p * u)) ** powers[1] * q


def retrieval_scores(method, x, y, sources, n_neighbors=10, inverse_temperature=30.0):
    """Return the score of each row of `y` for each row of `x`."""
    cosine, of_targets = unit(x) @ unit(y).T, unit(sources) @ unit(y).T
    if method == "csls":
        rows = np.sort(cosine, axis=1)[:, -n_neighbors:].mean(axis=1, keepdims=True)
        return 2 * cosine - rows - np.sort(of_targets, axis=0)[-n_neighbors:].mean(axis=0)
    if method == "inverted_softmax":
        total = np.exp(inverse_temperature * of_targets).sum(axis=0)
        return cosine - np.log(total) / inverse_temperature
    return cosine

"""The variants of the problem step by step, in float64 and by all n^2 m^2 terms."""

import numpy as np
from scipy.special import kl_div, logsumexp

LOSSES = {
    "square": lambda a, b: (a - b) ** 2,
    "kl": lambda a, b: a * np.log(a / b) - a + b,
}
# The parts of the losses that depend on one side only.
SEPARATE = {
    "square": (np.square, np.square),
    "kl": (lambda a: a * np.log(a) - a, lambda b: b),
}


def half_gradient(plan, cost_x, cost_y, loss="square", linear=None, alpha=0.5):
    """Of the objective, at any plan."""
    terms = LOSSES[loss](cost_x[:, None, :, None], cost_y[None, :, None, :])
    quadratic = (
        np.einsum("ijkl,kl->ij", terms, plan) + np.einsum("klij,kl->ij", terms, plan)
    ) / 2
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


def _at_most_one(most, sums):
    return np.where(sums > most, most / np.where(sums > 0, sums, 1.0), 1.0)


def partial(kernel, p, q, mass, n_passes=1000):
    """The plan of that mass within these marginals that is nearest to the kernel, by
    Dykstra's projections onto one constraint after the other."""
    plan = kernel * mass / kernel.sum()
    corrections = [np.ones_like(kernel) for _ in range(3)]
    projections = (
        lambda k: k * _at_most_one(p, k.sum(axis=1))[:, None],
        lambda k: k * _at_most_one(q, k.sum(axis=0)),
        lambda k: k * (mass / k.sum()),
    )
    for _ in range(n_passes):
        before = plan
        for k, project in enumerate(projections):
            corrected = plan * corrections[k]
            plan = project(corrected)
            corrections[k] = corrected / np.where(plan > 0, plan, 1.0)
        if np.abs(plan - before).sum() < 1e-13:
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


def step(
    plan,
    cost_x,
    cost_y,
    p,
    q,
    *,
    epsilon,
    loss="square",
    linear=None,
    alpha=0.5,
    method="pgd",
    marginals="balanced",
    mass=1.0,
):
    """The plan after one outer iteration."""

    def kernel(plan):
        lin = half_gradient(plan, cost_x, cost_y, loss, linear, alpha)
        if method == "bapg":  # the separable terms are those of p and q
            weight = 1.0 if linear is None else alpha
            f1, f2 = SEPARATE[loss]
            rows = f1(cost_x) + f1(cost_x).T
            cols = f2(cost_y) + f2(cost_y).T
            lin = lin + weight / 2 * (rows @ (p - plan.sum(axis=1)))[:, None]
            lin = lin + weight / 2 * (cols @ (q - plan.sum(axis=0)))
        gibbs = np.exp(-(lin - lin.min()) / epsilon)
        return gibbs if method == "pgd" else plan * gibbs

    if method == "bapg":
        plan = kernel(plan)
        plan *= (p / plan.sum(axis=1))[:, None]
        plan = kernel(plan)
        return plan * (q / plan.sum(axis=0))
    if marginals == "semirelaxed":
        plan = kernel(plan)
        return plan * (p / plan.sum(axis=1))[:, None]
    if marginals == "partial":
        return partial(kernel(plan), p, q, mass)
    return balanced(kernel(plan), p, q)

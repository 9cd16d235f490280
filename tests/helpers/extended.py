"""The outer iteration in extended precision (`numpy.longdouble`, 64 bits of mantissa on
x86): all n^2 m^2 terms, plain iterations in the log domain, and nothing else.
"""

import numpy as np

EXTENDED = np.longdouble
# Where iterations end: far below what float64 can resolve of a plan.
SETTLED = EXTENDED(1e-15)


def losses(cost_x, cost_y, loss):
    """(n m, n m) matrix of what pairs of pairs cost."""
    a = cost_x.astype(EXTENDED)[:, None, :, None]
    b = cost_y.astype(EXTENDED)[None, :, None, :]
    made = (a - b) ** 2 if loss == "square" else a * np.log(a / b) - a + b
    size = len(cost_x) * len(cost_y)
    return np.broadcast_to(made, made.shape).reshape(size, size)


def log_sum(x, axis):
    top = x.max(axis=axis, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True))).squeeze(axis)


def balanced(exponent, p, q, n_iter=500):
    """The plan ``exp(f_i + g_j + exponent_ij)`` with these marginals."""
    g = np.zeros(len(q), dtype=EXTENDED)
    for _ in range(n_iter):
        before = g
        f = np.log(p) - log_sum(exponent + g, 1)
        g = np.log(q) - log_sum(exponent + f[:, None], 0)
        if np.abs(g - before).max() < SETTLED * (1 + np.abs(g).max()):
            break
    return np.exp(exponent + f[:, None] + g)


def partial(exponent, p, q, mass, n_iter=500):
    """The plan of that mass within these marginals: scalings of at most one."""
    f, g = np.zeros(len(p), dtype=EXTENDED), np.zeros(len(q), dtype=EXTENDED)
    scale = np.log(mass) - log_sum(log_sum(exponent, 1), 0)
    for _ in range(n_iter):
        before = f, g, scale
        f = np.minimum(np.log(p) - scale - log_sum(exponent + g, 1), 0)
        sums = log_sum(exponent + f[:, None], 0)
        g = np.minimum(np.log(q) - scale - sums, 0)
        scale = np.log(mass) - log_sum(g + sums, 0)
        pairs = zip((f, g, scale), before, strict=True)
        if max(np.abs(now - old).max() for now, old in pairs) < SETTLED:
            break
    return np.exp(exponent + f[:, None] + g + scale)


def solve(
    cost_x, cost_y, p, q, *, epsilon, loss="square", linear_cost=None, alpha=0.5,
    method="pgd", marginals="balanced", mass=1.0, n_outer=500, start=None,
):  # fmt: skip
    """The plan after that many outer iterations, or when nothing moves; and how far the
    last one has moved it.
    """
    p, q, epsilon = p.astype(EXTENDED), q.astype(EXTENDED), EXTENDED(epsilon)
    terms, shape = losses(cost_x, cost_y, loss), (len(p), len(q))
    gradient = (terms + terms.T) / 2

    def exponent(plan, rows_and_cols=None):
        lin = (gradient @ plan.ravel()).reshape(shape)
        if rows_and_cols is not None:  # separable terms of the given marginals
            lin = lin + separable(rows_and_cols, plan)
        if linear_cost is not None:
            lin = alpha * lin + (1 - EXTENDED(alpha)) / 2 * linear_cost
        made = -lin / epsilon
        return made if method == "pgd" else made + np.log(plan)

    def separable(masses, plan):
        # What the terms of one index are more for these marginals than for the plan's.
        rows, cols = masses[0] - plan.sum(axis=1), masses[1] - plan.sum(axis=0)
        a, b = cost_x.astype(EXTENDED), cost_y.astype(EXTENDED)
        f1, f2 = (a**2, b**2) if loss == "square" else (a * np.log(a) - a, b)
        return ((f1 + f1.T) / 2 @ rows)[:, None] + (f2 + f2.T) / 2 @ cols

    plan = EXTENDED(mass) * np.outer(p, q) if start is None else start.astype(EXTENDED)
    for _ in range(n_outer):
        before = plan
        if method == "bapg":
            made = exponent(plan, (p, q))
            plan = np.exp(made + (np.log(p) - log_sum(made, 1))[:, None])
            made = exponent(plan, (p, q))
            plan = np.exp(made + np.log(q) - log_sum(made, 0))
        elif marginals == "semirelaxed":
            made = exponent(plan)
            plan = np.exp(made + (np.log(p) - log_sum(made, 1))[:, None])
        elif marginals == "partial":
            plan = partial(exponent(plan), p, q, EXTENDED(mass))
        else:
            plan = balanced(exponent(plan), p, q)
        moved = np.abs(plan - before).sum()
        if moved < 1e-14:
            break
    return plan, moved

"""The gap of Frank and Wolfe of any plan, from above, in float64 and plain NumPy.

Any potentials below the linearized cost bound the least cost of a plan from below
(weak duality): who has found them need not be believed. Those of the linear program are
the best, and the gap is then exact.
"""

import numpy as np

from ..kernels._transport import Transport


def frank_wolfe_gap(at):
    """What the linearized objective of a plan is above the least of all plans of these
    marginals, at most.

    The gap is that of conditional gradient (Frank and Wolfe, 1956; Jaggi, ICML 2013,
    equation 2), a bound on how fast the objective can fall. It is not negative.

    Parameters
    ----------
    at : ExactLinearization
        At the plan.

    Returns
    -------
    float
    """
    cost, plan = at.cost(slice(None)), at.plan(slice(None))
    rule = at.problem.rule
    if not rule.takes_q:
        return 2 * float(np.vdot(plan, cost - cost.min(axis=1)[:, None]))
    if not rule.takes_mass:
        g = _column_potentials(cost, rule)
        f = (cost - g).min(axis=1)
        return 2 * float(np.vdot(plan, cost - f[:, None] - g))
    level, g = _partial_potentials(cost, rule)
    cost = cost - level
    f = np.minimum((cost - g).min(axis=1), 0.0)
    # Multipliers of masses that are not used up, beside those of entries.
    slack = sum(
        np.maximum(masses - used, 0.0) @ -multipliers
        for masses, used, multipliers in ((rule.p, at.rows, f), (rule.q, at.cols, g))
    )
    return 2 * float(np.vdot(plan, cost - f[:, None] - g) + slack)


def least_plan(cost, rule):
    """The plan (n, m) of these marginals that costs least, and its potentials (n,) and
    (m,), which of points without mass are minus infinity.
    """
    plan = np.zeros(cost.shape)
    if not rule.takes_q:
        plan[np.arange(len(cost)), cost.argmin(axis=1)] = rule.p
        return plan, (cost.min(axis=1), np.zeros(cost.shape[1]))
    transport, rows, cols = _solved(cost, rule)
    i, j, masses = transport.entries()
    inside = (i < len(rows)) & (j < len(cols))
    plan[rows[i[inside]], cols[j[inside]]] = masses[inside]
    f, g = (np.full(size, -np.inf) for size in cost.shape)
    of_rows, of_cols = transport.potentials()
    f[rows], g[cols] = of_rows[: len(rows)], of_cols[: len(cols)]
    return plan, (f, g)


def _solved(cost, rule):
    """The linear program between the points with mass, solved, and these points of
    either side. Of a partial plan what is left of either side goes to an end of the
    other, for nothing.
    """
    rows, cols = np.flatnonzero(rule.p), np.flatnonzero(rule.q)
    part, p, q = cost[np.ix_(rows, cols)], rule.p[rows], rule.q[cols]
    if rule.takes_mass:
        part = np.pad(part, ((0, 1), (0, 1)))
        part[-1, -1] = 4 * np.abs(cost).max()
        least = np.finfo(np.float64).eps * rule.mass
        ends = (max(masses.sum() - rule.mass, least) for masses in (q, p))
        p, q = map(np.append, (p, q), ends)
    transport = Transport(p, q)
    transport.solve(part)
    return transport, rows, cols


def _column_potentials(cost, rule):
    """The best (m,) between two marginals."""
    transport, rows, _ = _solved(cost, rule)
    f, _ = transport.potentials()
    # Also of columns without mass.
    return (cost[rows] - f[:, None]).min(axis=0)


def _partial_potentials(cost, rule):
    """A level of all costs and what columns may take off it, (m,), for plans of a part
    of the mass.
    """
    transport, rows, _ = _solved(cost, rule)
    f, g = transport.potentials()
    level = -f[-1] - g[-1]
    # Also of columns without mass.
    made = (cost[rows] - level - np.minimum(f[:-1] + g[-1], 0.0)[:, None]).min(axis=0)
    return level, np.minimum(made, 0.0)


def nbytes(problem):
    """Bytes that takes beside the linearized cost."""
    n, m = problem.shape
    return 8 * 5 * n * m

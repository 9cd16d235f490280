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


def _column_potentials(cost, rule):
    """The best (m,) between two marginals."""
    rows, cols = np.flatnonzero(rule.p), np.flatnonzero(rule.q)
    transport = Transport(rule.p[rows], rule.q[cols])
    transport.solve(cost[np.ix_(rows, cols)])
    f, _ = transport.potentials()
    # Also of columns without mass.
    return (cost[rows] - f[:, None]).min(axis=0)


def _partial_potentials(cost, rule):
    """A level of all costs and what columns may take off it, (m,), for plans of a part
    of the mass: what is left of either side goes to an end of the other, for nothing.
    """
    rows, cols = np.flatnonzero(rule.p), np.flatnonzero(rule.q)
    part = np.zeros((len(rows) + 1, len(cols) + 1))
    part[:-1, :-1] = cost[np.ix_(rows, cols)]
    part[-1, -1] = 4 * np.abs(cost).max()
    p, q = rule.p[rows], rule.q[cols]
    least = np.finfo(np.float64).eps * rule.mass
    ends = (max(masses.sum() - rule.mass, least) for masses in (q, p))
    transport = Transport(*map(np.append, (p, q), ends))
    transport.solve(part)
    f, g = transport.potentials()
    level = -f[-1] - g[-1]
    # Also of columns without mass.
    made = (cost[rows] - level - np.minimum(f[:-1] + g[-1], 0.0)[:, None]).min(axis=0)
    return level, np.minimum(made, 0.0)


def nbytes(problem):
    """Bytes that takes beside the linearized cost."""
    n, m = problem.shape
    return 8 * 5 * n * m

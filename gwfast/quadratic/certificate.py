"""The gap of Frank and Wolfe of any plan, from above, in float64 and plain NumPy.

Any potentials below the linearized cost bound the least cost of a plan from below
(weak duality), whatever has found them. The potentials of the linear program are the
best, and the gap is then exact.
"""

import numpy as np

from ..kernels._transport import Transport


def frank_wolfe_gap(at):
    """What the linearized objective of a plan is above the least of all plans of these
    marginals, at most; `at` is the `ReferenceLinearization` at the plan.

    The gap is that of conditional gradient (Frank and Wolfe, 1956; Jaggi, ICML 2013,
    equation 2), a bound on how fast the objective can fall. It is not negative.
    """
    cost, plan = at.cost(slice(None)), at.plan(slice(None))
    rule, most = at.problem.rule, np.inf
    if not rule.takes_q:
        return 2 * float(np.vdot(plan, cost - cost.min(axis=1)[:, None]))
    transport, rows, _ = _solved(cost, rule)
    f, g = transport.potentials()
    if rule.takes_mass:
        # A level of all costs, which rows and columns may only take something off.
        most, cost = 0.0, cost + (f[-1] + g[-1])
        f = np.minimum(f[:-1] + g[-1], most)
    # The best potentials for these, of points without mass as well.
    g = np.minimum((cost[rows] - f[:, None]).min(axis=0), most)
    f = np.minimum((cost - g).min(axis=1), most)
    gap = np.vdot(plan, cost - f[:, None] - g)
    if rule.takes_mass:
        # Multipliers of masses that are not used up, beside those of entries.
        gap += np.maximum(rule.p - at.rows, 0.0) @ -f
        gap += np.maximum(rule.q - at.cols, 0.0) @ -g
    return 2 * float(gap)


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

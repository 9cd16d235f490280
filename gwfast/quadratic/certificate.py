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
    program = LinearProgram(rule)
    f, g = program.solve(cost)
    if rule.takes_mass:
        # A level of all costs, which rows and columns may only take something off.
        most, cost = 0.0, cost + (f[-1] + g[-1])
        f = np.minimum(f[:-1] + g[-1], most)
    # The best potentials for these, of points without mass as well.
    g = np.minimum((cost[program.rows] - f[:, None]).min(axis=0), most)
    f = np.minimum((cost - g).min(axis=1), most)
    gap = np.vdot(plan, cost - f[:, None] - g)
    if rule.takes_mass:
        # Multipliers of masses that are not used up, beside those of entries.
        gap += np.maximum(rule.p - at.rows, 0.0) @ -f
        gap += np.maximum(rule.q - at.cols, 0.0) @ -g
    return 2 * float(gap)


class LeastPlans:
    """The plans (n, m) of these marginals that cost least, for one matrix of costs
    after another: each is looked for from where the last one was found.
    """

    def __init__(self, rule):
        self._rule = rule
        if rule.takes_q:
            self._program = LinearProgram(rule)

    def solve(self, cost):
        """The plan, and its potentials (n,) and (m,), which of points without mass are
        minus infinity.
        """
        plan = np.zeros(cost.shape)
        if not self._rule.takes_q:
            plan[np.arange(len(cost)), cost.argmin(axis=1)] = self._rule.p
            return plan, (cost.min(axis=1), np.zeros(cost.shape[1]))
        program = self._program
        rows, cols = program.rows, program.cols
        of_rows, of_cols = program.solve(cost)
        i, j, masses = program.transport.entries()
        inside = (i < len(rows)) & (j < len(cols))
        plan[rows[i[inside]], cols[j[inside]]] = masses[inside]
        f, g = (np.full(size, -np.inf) for size in cost.shape)
        f[rows], g[cols] = of_rows[: len(rows)], of_cols[: len(cols)]
        return plan, (f, g)


class LinearProgram:
    """The linear program between the points with mass, which are these `rows` and `cols`. Of a
    partial plan what is left of either side goes to an end of the other, for nothing.
    """

    def __init__(self, rule):
        self._has_ends = rule.takes_mass
        self.rows, self.cols = np.flatnonzero(rule.p), np.flatnonzero(rule.q)
        p, q = rule.p[self.rows], rule.q[self.cols]
        if self._has_ends:
            least = np.finfo(np.float64).eps * rule.mass
            ends = (max(masses.sum() - rule.mass, least) for masses in (q, p))
            p, q = map(np.append, (p, q), ends)
        self.transport = Transport(p, q)

    def solve(self, cost):
        """Go on to the optimum for these costs (n, m); returns its potentials."""
        part = cost[np.ix_(self.rows, self.cols)]
        if self._has_ends:
            part = np.pad(part, ((0, 1), (0, 1)))
            part[-1, -1] = 4 * np.abs(cost).max()
        self.transport.solve(part)
        return self.transport.potentials()

"""The exact plan of a linearized cost, in float64, plain NumPy and the log domain:
slow, but it shares nothing with the solvers.
"""

import numpy as np
from scipy.sparse import linalg

from .exact import ExactLinearization

# Iterations between two looks at the distance from a plan.
LOOK_EVERY = 10
# Factor between the epsilons of two levels of annealing, and iterations in each.
ANNEAL_BY, LEVEL_ITERATIONS = 4.0, 20
# Entries of a plan below which their logarithms are rough, and steps of the regression.
LEAST_ENTRY, REGRESSIONS = 1e-30, 200
# Fraction of a mass that has to be left for a partial plan not to use it up.
UNUSED = 1e-4
# Potentials in units of epsilon that move by less have been found.
SETTLED = 1e-13


class ExactPlan:
    """The plan with the marginals of another, for the linearized cost at that.

    Where the columns are free, it has no potentials of columns. Potentials are in units
    of epsilon.

    Parameters
    ----------
    at : ExactLinearization
    epsilon : float
    proximal : bool
        Whether epsilon weighs the distance from the other plan.

    Attributes
    ----------
    distance : float
        L1, from the other plan, as a fraction of its mass: the smallest that was seen.
    left_out : float
        Largest share of a row or column that this plan has where the other is zero.
    complementarity : float
        Masses that a partial plan does not use, times their multipliers over epsilon
        (at most one); zero with other rules.
    """

    def __init__(self, at, epsilon, proximal):
        self._at, self._epsilon, self._proximal = at, epsilon, proximal
        self._groups = [_tied(at.problem.rule, *side) for side in self._sides(at)]
        self._logs = [
            np.log(np.maximum(np.bincount(group, sums, len(sums)), 0.0))[group]
            for group, (sums, _) in zip(self._groups, self._sides(at), strict=True)
        ]
        self.distance = self.left_out = self.complementarity = np.inf

    def search(self, potentials, max_iter, enough):
        """Iterate from several starts until the distance is small enough; `potentials`
        (or None), in units of cost, are one.
        """
        if not self._at.problem.rule.takes_q:
            free = np.zeros(len(self._logs[1]))
            self._look(self._fit_rows(free), free)
            return
        starts = [self._regressed, self._annealed]
        if potentials is not None:
            given = [np.nan_to_num(x / self._epsilon) for x in potentials]
            starts.insert(0, lambda: given)
        for start in starts:
            self._iterate(*start(), max_iter, enough)
            if self._found(enough):
                return

    def _found(self, enough):
        return max(self.distance, self.complementarity) <= enough

    @staticmethod
    def _sides(at):
        return (at.rows, at.problem.p), (at.cols, at.problem.q)

    def _not_complementary(self, *potentials):
        if not self._at.problem.rule.takes_mass:
            return 0.0
        return sum(
            float(np.maximum(masses - used, 0.0) @ np.minimum(x.max() - x, 1.0))
            for x, (used, masses) in zip(potentials, self._sides(self._at), strict=True)
        )

    def _exponent(self, rows, factor=1.0):
        """Some rows of ``-cost / epsilon``, at a multiple of epsilon, and with the
        logarithm of the other plan for proximal steps.
        """
        made = self._at.cost(rows) / (-self._epsilon * factor)
        if self._proximal:
            made += self._at.logarithms(rows)
        return made

    def _fit_rows(self, g, factor=1.0):
        sums = np.concatenate(
            [log_sum(self._exponent(s, factor) + g, 1) for s in self._at.slices]
        )
        return fitted(self._logs[0], _log_totals(sums, self._groups[0]))

    def _fit_cols(self, f, factor=1.0):
        sums = np.full(len(self._logs[1]), -np.inf)
        for rows in self._at.slices:
            block = self._exponent(rows, factor) + f[rows, None]
            sums = np.logaddexp(sums, log_sum(block, 0))
        return fitted(self._logs[1], _log_totals(sums, self._groups[1]))

    def _iterate(self, f, g, max_iter, enough):
        """Sinkhorn iterations from potentials, with looks at what they give."""
        self._look(f, g)
        for k in range(max_iter):
            if self._found(enough):
                return
            before, f = f, self._fit_rows(g)
            g = self._fit_cols(f)
            with np.errstate(invalid="ignore"):
                moved = np.nan_to_num(np.abs(f - before), nan=0.0).max()
            largest = np.abs(f[np.isfinite(f)]).max(initial=0.0)
            settled = moved <= SETTLED * (1.0 + largest)
            if settled or (k + 1) % LOOK_EVERY == 0 or k + 1 == max_iter:
                self._look(f, g)
            if settled:
                return

    def _look(self, f, g):
        """Compare the plan of these potentials with the other one."""
        at, total = self._at, 0.0
        lost_rows, lost_cols = [], np.zeros(len(g))
        for rows in at.slices:
            plan = at.plan(rows)
            made = np.exp(self._exponent(rows) + f[rows, None] + g)
            total += float(np.abs(made - plan).sum())
            made[plan > 0] = 0.0
            lost_rows.append(made.sum(axis=1))
            lost_cols += made.sum(axis=0)
        total /= float(np.abs(at.rows).sum()) or 1.0
        missed = self._not_complementary(f, g)
        if max(total, missed) < max(self.distance, self.complementarity):
            shares = (
                lost[sums > 0] / sums[sums > 0]
                for lost, sums in (
                    (np.concatenate(lost_rows), at.rows),
                    (lost_cols, at.cols),
                )
            )
            self.distance, self.complementarity = total, missed
            self.left_out = float(max(share.max(initial=0.0) for share in shares))

    def _regressed(self):
        """Potentials by the logarithms of the other plan, which are sums of two but for
        the cost: by least squares, over all entries whose logarithms can be trusted, or
        those that a proximal step can see.
        """
        n, m = self._at.problem.shape
        tied = np.concatenate([self._groups[0], n + self._groups[1]])

        def sums_of(entries):
            return np.bincount(tied, np.concatenate(self._over_rows(entries)), n + m)

        counts = sums_of(lambda s, weights, logs: weights)
        scale = 1.0 / np.sqrt(np.where(counts > 0, counts, 1.0))
        right = sums_of(lambda s, weights, logs: weights * logs)

        def normal(x):
            f, g = np.split((scale * x.ravel())[tied], [n])
            return scale * sums_of(lambda s, weights, _: weights * (f[s, None] + g))

        operator = linalg.LinearOperator((n + m, n + m), matvec=normal)
        found, _ = linalg.cg(operator, scale * right, rtol=1e-14, maxiter=REGRESSIONS)
        return np.split((scale * found)[tied], [n])

    def _over_rows(self, entries):
        """Row and column sums of what `entries` makes of weights and logarithms."""
        of_rows, of_cols = [], np.zeros(self._at.problem.shape[1])
        for rows in self._at.slices:
            made = entries(rows, *self._logarithms(rows))
            of_rows.append(made.sum(axis=1))
            of_cols += made.sum(axis=0)
        return np.concatenate(of_rows), of_cols

    def _logarithms(self, rows):
        """Weights of a regression, and what is to be explained."""
        plan = self._at.plan(rows)
        known = plan > LEAST_ENTRY
        logs = np.log(np.where(known, plan, 1.0)) - np.where(
            known, self._exponent(rows), 0.0
        )
        return np.where(known, plan, 0.0) if self._proximal else known * 1.0, logs

    def _annealed(self):
        """Potentials from a large epsilon down to the one that is asked for."""
        f, g = np.zeros(len(self._logs[0])), np.zeros(len(self._logs[1]))
        if self._proximal:
            return f, g
        spread = max(float(np.ptp(self._exponent(s))) for s in self._at.slices)
        levels = int(np.log(max(spread, 1.0)) / np.log(ANNEAL_BY))
        for level in range(levels, -1, -1):
            factor = ANNEAL_BY**level
            for _ in range(LEVEL_ITERATIONS):
                f = self._fit_rows(g, factor)
                g = self._fit_cols(f, factor)
            if level:
                f, g = f * ANNEAL_BY, g * ANNEAL_BY
        return f, g


def alternate(at, costs, epsilon):
    """L1 distance of a plan from that after an iteration of alternating projections,
    exactly: linearize and fit the rows, linearize and fit the columns.
    """
    problem, plan = costs.problem, at.plan(slice(None))
    logs, now = (np.log(problem.p), np.log(problem.q)), at
    made = plan
    for axis, fit in ((1, logs[0]), (0, logs[1])):
        everything = slice(None)
        exponent = now.logarithms(everything) - now.cost(everything) / epsilon
        exponent[problem.p == 0] = exponent[:, problem.q == 0] = -np.inf
        potential = fitted(fit, log_sum(exponent, axis))
        made = np.exp(exponent + np.expand_dims(potential, axis))
        if axis == 1:
            now = ExactLinearization(costs, made.__getitem__, True, at.least)
    return float(np.abs(made - plan).sum()) / float(np.abs(at.rows).sum() or 1.0)


def log_sum(x, axis):
    """``log(sum(exp(x)))``, -inf of nothing."""
    top = x.max(axis=axis)
    top = np.where(np.isfinite(top), top, 0.0)
    return top + np.log(np.exp(x - np.expand_dims(top, axis)).sum(axis=axis))


def fitted(logs, sums):
    """Potentials with which sums of these logarithms have those masses; -inf where one
    of them is zero.
    """
    alive = np.isfinite(logs) & np.isfinite(sums)
    return np.where(alive, logs - np.where(alive, sums, 0.0), -np.inf)


def _tied(rule, sums, masses):
    """Which points have one potential: of a partial plan all that do not use up their
    masses.
    """
    group = np.arange(len(sums))
    if rule.takes_mass:
        slack = np.flatnonzero(masses - sums > UNUSED * masses)
        group[slack] = slack[:1]
    return group


def _log_totals(logs, group):
    """Logarithms of sums over groups, for each of their members."""
    if group[-1] == len(group) - 1 and (np.diff(group) == 1).all():
        return logs
    made = np.full(len(logs), -np.inf)
    np.logaddexp.at(made, group, logs)
    return made[group]

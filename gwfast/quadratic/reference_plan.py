"""The plan of a linearized cost, in float64, plain NumPy and the log domain:
slow, but it shares nothing with the solvers.
"""

import numpy as np
from scipy.sparse import linalg

from .reference import ReferenceLinearization


class ReferencePlan:
    """The solution of the linear problem that a `ReferenceLinearization` at a plan has, with the
    marginals of that plan. Epsilon weighs the distance from it where steps are proximal.

    Where the columns are free, it has no potentials of columns. Potentials are in units
    of epsilon.

    Attributes
    ----------
    distance : float
        L1, from the other plan, as a fraction of its mass: the smallest that was seen.
    left_out : float
        Fraction of the mass that this plan has where the other is zero.
    complementarity : float
        Masses that a partial plan does not use, times their multipliers over epsilon
        (at most one); zero with other rules.
    """

    def __init__(self, at, epsilon, proximal):
        self._at, self._epsilon, self._proximal = at, epsilon, proximal
        self._sides = (at.rows, at.problem.p), (at.cols, at.problem.q)
        self._groups = [_tied(at.problem.rule, *side) for side in self._sides]
        self._logs = [
            np.log(np.maximum(np.bincount(group, sums, len(sums)), 0.0))[group]
            for group, (sums, _) in zip(self._groups, self._sides, strict=True)
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

    def _exponent(self, rows, factor=1.0):
        """Some rows of ``-cost / epsilon``, at a multiple of epsilon, and with the
        logarithm of the other plan for proximal steps.
        """
        made = self._at.cost(rows) / (-self._epsilon * factor)
        if self._proximal:
            made += self._at.logarithms(rows)
        return made

    def _fit_rows(self, g, factor=1.0):
        sums = np.concatenate([log_sum(self._exponent(s, factor) + g, 1) for s in self._at.slices])
        return fitted(self._logs[0], _log_totals(sums, self._groups[0]))

    def _fit_cols(self, f, factor=1.0):
        sums = np.full(len(self._logs[1]), -np.inf)
        for rows in self._at.slices:
            block = self._exponent(rows, factor) + f[rows, None]
            sums = np.logaddexp(sums, log_sum(block, 0))
        return fitted(self._logs[1], _log_totals(sums, self._groups[1]))

    def _iterate(self, f, g, max_iter, enough):
        """Sinkhorn iterations from potentials, with a look at what each tenth gives."""
        self._look(f, g)
        for k in range(max_iter):
            if self._found(enough):
                return
            before, f = f, self._fit_rows(g)
            g = self._fit_cols(f)
            with np.errstate(invalid="ignore"):
                moved = np.nan_to_num(np.abs(f - before), nan=0.0).max()
            largest = np.abs(f[np.isfinite(f)]).max(initial=0.0)
            # What moves by some hundred roundings has been found.
            settled = moved <= 1e-13 * (1.0 + largest)
            if settled or (k + 1) % 10 == 0 or k + 1 == max_iter:
                self._look(f, g)
            if settled:
                return

    def _look(self, f, g):
        """Compare the plan of two potentials with the other one."""
        at, total, missed, left_out = self._at, 0.0, 0.0, 0.0
        for rows in at.slices:
            plan = at.plan(rows)
            made = np.exp(self._exponent(rows) + f[rows, None] + g)
            total += float(np.abs(made - plan).sum())
            left_out += float(made[plan <= 0].sum())
        total /= at.mass or 1.0
        if at.problem.rule.takes_mass:
            missed = sum(
                float(np.maximum(masses - used, 0.0) @ np.minimum(x.max() - x, 1.0))
                for x, (used, masses) in zip((f, g), self._sides, strict=True)
            )
        if max(total, missed) < max(self.distance, self.complementarity):
            self.distance, self.complementarity = total, missed
            self.left_out = left_out / (at.mass or 1.0)

    def _sums(self, entries):
        """Row and column sums of a matrix, which is made some rows at a time."""
        of_rows, of_cols = [], np.zeros(len(self._at.cols))
        for rows in self._at.slices:
            made = entries(rows)
            of_rows.append(made.sum(axis=1))
            of_cols += made.sum(axis=0)
        return np.concatenate(of_rows), of_cols

    def _regressed(self):
        """Potentials by least squares: the logarithms of the other plan are sums of two
        potentials but for the cost. Entries count whose logarithms can be trusted, by
        their mass where steps are proximal.
        """
        n, m = self._at.problem.shape
        tied = np.concatenate([self._groups[0], n + self._groups[1]])

        def weights(rows):
            plan = self._at.plan(rows)
            # Logarithms of what is less are rough.
            known = plan > 1e-30
            return np.where(known, plan, 0.0) if self._proximal else known * 1.0

        def explained(rows):
            there, plan = weights(rows), self._at.plan(rows)
            known = there > 0
            logs = np.log(np.where(known, plan, 1.0))
            return there * (logs - np.where(known, self._exponent(rows), 0.0))

        def sums_of(entries):
            return np.bincount(tied, np.concatenate(self._sums(entries)), n + m)

        def normal(x):
            f, g = np.split((scale * x.ravel())[tied], [n])
            return scale * sums_of(lambda s: weights(s) * (f[s, None] + g))

        counts = sums_of(weights)
        scale = 1.0 / np.sqrt(np.where(counts > 0, counts, 1.0))
        operator = linalg.LinearOperator((n + m, n + m), matvec=normal)
        right = scale * sums_of(explained)
        found, _ = linalg.cg(operator, right, rtol=1e-14, maxiter=200)
        return np.split((scale * found)[tied], [n])

    def _annealed(self):
        """Potentials from a large epsilon down to the one that is asked for."""
        f, g = np.zeros(len(self._logs[0])), np.zeros(len(self._logs[1]))
        if self._proximal:
            return f, g
        spread = max(float(np.ptp(self._exponent(s))) for s in self._at.slices)
        for level in range(int(np.log(max(spread, 1.0)) / np.log(4.0)), -1, -1):
            for _ in range(20):
                f = self._fit_rows(g, 4.0**level)
                g = self._fit_cols(f, 4.0**level)
            if level:
                f, g = 4.0 * f, 4.0 * g
        return f, g


def alternate(at, costs, epsilon):
    """L1 distance of a plan from that after an iteration of alternating projections,
    in float64: linearize and fit the rows, linearize and fit the columns.
    """
    problem, everything, now = costs.problem, slice(None), at
    for axis, masses in ((1, problem.p), (0, problem.q)):
        exponent = now.logarithms(everything) - now.cost(everything) / epsilon
        exponent[problem.p == 0] = exponent[:, problem.q == 0] = -np.inf
        potential = fitted(np.log(masses), log_sum(exponent, axis))
        made = np.exp(exponent + np.expand_dims(potential, axis))
        if axis == 1:
            now = ReferenceLinearization(costs, made.__getitem__, True, at.least)
    return float(np.abs(made - at.plan(everything)).sum()) / (at.mass or 1.0)


def log_sum(x, axis):
    """``log(sum(exp(x)))``, -inf of nothing."""
    top = x.max(axis=axis)
    top = np.where(np.isfinite(top), top, 0.0)
    return top + np.log(np.exp(x - np.expand_dims(top, axis)).sum(axis=axis))


def fitted(logs, sums):
    """Potentials with which sums have masses, by the logarithms of both; -inf where a
    mass or a sum is zero.
    """
    alive = np.isfinite(logs) & np.isfinite(sums)
    return np.where(alive, logs - np.where(alive, sums, 0.0), -np.inf)


def _tied(rule, sums, masses):
    """Which points have one potential: of a partial plan all that do not use up their masses."""
    group = np.arange(len(sums))
    if rule.takes_mass:
        slack = np.flatnonzero(masses - sums > 1e-4 * masses)
        group[slack] = slack[:1]
    return group


def _log_totals(logs, group):
    """Logarithms of sums over groups, for each of their members."""
    if group[-1] == len(group) - 1 and (np.diff(group) == 1).all():
        return logs
    made = np.full(len(logs), -np.inf)
    np.logaddexp.at(made, group, logs)
    return made[group]

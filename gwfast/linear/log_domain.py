"""Sinkhorn iterations on potentials, by log-sum-exp over the cost: twice the reads of
the scaling form and an exp for every entry, but nothing can overflow.
"""

import dataclasses

import numpy as np

from ..kernels import _exponentials
from ..utils.deadline import NEVER

# A level of annealing ends when an iteration moves the potentials by less than SETTLED of
# its epsilon, or after LEVEL_ITERATIONS. Potentials that still move by one epsilon in each
# iteration have hundreds to go at the next level. On 24 problems of 300 points, 2.0 takes
# 90, 17 and 3 times the Sinkhorn iterations of 0.1 (epsilon .02, .1, .5 %), and ends 10
# to 90 times higher on most; 0.02 takes as long as 0.1.
SETTLED, LEVEL_ITERATIONS = 0.1, 20
# Ratio of the epsilons of successive levels.
RATIO = 4.0


def levels(epsilon, spread):
    """Epsilons of annealing, each a fourth of the one before, from a part of `spread`,
    which is how far the potentials may have to move, down to `epsilon`.
    """
    n_levels = int(np.log(max(spread / (RATIO * epsilon), 1.0)) / np.log(RATIO))
    return [epsilon * RATIO**level for level in range(n_levels, -1, -1)]


def log_total(logs):
    """``log sum exp(logs)`` of a vector; SciPy's takes ten times as long, and an
    unbalanced iteration has two of them.
    """
    peak = float(logs.max())
    if peak == -np.inf:
        return peak
    return peak + float(np.log(np.exp(logs - peak).sum()))


@dataclasses.dataclass(frozen=True, eq=False)
class Potentials:
    """Dual variables of a linear problem, in units of its cost; nobody changes them.

    Attributes
    ----------
    f : (n,) float64 ndarray
    g : (m,) float64 ndarray
    """

    f: np.ndarray
    g: np.ndarray

    def export(self):
        """A tree from which `marginals.restored_potentials` makes them again."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}

    def absorb(self, u, v, epsilon):
        """Potentials that make the plan which these make with the scalings `u`, `v`."""
        f, g = np.empty(len(self.f)), np.empty(len(self.g))
        _exponentials.absorb(self.f, u, epsilon, f)
        _exponentials.absorb(self.g, v, epsilon, g)
        return Potentials(f, g)


class OpaqueCost:
    """A cost that is neither an array nor `Rows`, and is asked for what is needed of it."""

    def logsumexp_rows(self, g, epsilon, out):
        """``out_i = log sum_j exp((g_j - c_ij) / epsilon)``."""

    def logsumexp_cols(self, f, epsilon, out):
        """``out_j = log sum_i exp((f_i - c_ij) / epsilon)``."""


class LogDomain:
    """Sinkhorn's half-steps on potentials, for masses `p` (n,) and `q` (m,)."""

    def __init__(self, p, q, n_threads):
        self.n_threads = n_threads
        with np.errstate(divide="ignore"):
            self.log_p, self.log_q = np.log(p), np.log(q)

    def fit_rows(self, cost, g, epsilon):
        """Potentials (n,) with which the rows have their masses, for the `g` of
        columns, which may be others than the problem's.
        """
        return epsilon * (self.log_p - self.rows(cost, g, epsilon))

    def rows(self, cost, g, epsilon):
        """``log sum_j exp((g_j - c_ij) / epsilon)`` of each row (n,)."""
        sums = np.empty(len(self.log_p))
        if isinstance(cost, OpaqueCost):
            cost.logsumexp_rows(g, epsilon, sums)
        else:
            given = cost, np.zeros(len(sums)), g, epsilon, sums, self.n_threads
            _exponentials.logsumexp_rows(*given)
        return sums

    def fit_cols(self, cost, f, epsilon):
        """Potentials (m,) with which the columns have their masses, for the `f` of rows."""
        return epsilon * (self.log_q - self.cols(cost, f, epsilon))

    def cols(self, cost, f, epsilon):
        """``log sum_i exp((f_i - c_ij) / epsilon)`` of each column (m,)."""
        sums = np.empty(len(self.log_q))
        if isinstance(cost, OpaqueCost):
            cost.logsumexp_cols(f, epsilon, sums)
        else:
            given = cost, f, np.zeros(len(sums)), epsilon, sums, self.n_threads
            _exponentials.logsumexp_cols(*given)
        return sums

    def lost(self, potentials):
        """Return the fraction of the points with mass, the larger of both sides, that
        have no finite potential.
        """
        pairs = (potentials.f, self.log_p), (potentials.g, self.log_q)
        return max(_lost(*pair).sum() / np.isfinite(pair[1]).sum() for pair in pairs)

    def mended(self, cost, potentials, epsilon):
        """Return potentials with finite values for the points with mass that have none,
        columns first, each fitted to the potentials of the other side.
        """
        f, g = potentials.f, potentials.g
        lost = _lost(g, self.log_q)
        if lost.any():
            g = np.where(lost, self.fit_cols(cost, f, epsilon), g)
        lost = _lost(f, self.log_p)
        if lost.any():
            f = np.where(lost, self.fit_rows(cost, g, epsilon), f)
        return Potentials(f, g)

    def anneal(self, cost, potentials, epsilon, spread, deadline=NEVER):
        """Potentials after iterations at the `levels`; when the deadline has passed,
        potentials with which the columns at least have their masses.
        """
        alive = np.isfinite(self.log_p)
        for level_epsilon in levels(epsilon, spread):
            for _ in range(LEVEL_ITERATIONS):
                f = self.fit_rows(cost, potentials.g, level_epsilon)
                if deadline.passed():
                    return Potentials(f, self.fit_cols(cost, f, epsilon))
                moved = np.abs(f[alive] - potentials.f[alive]).max()
                potentials = Potentials(f, self.fit_cols(cost, f, level_epsilon))
                if moved < SETTLED * level_epsilon:
                    break
        return potentials


def _lost(potential, log_mass):
    """Return which points with mass have no finite potential."""
    return np.isfinite(log_mass) & ~np.isfinite(potential)

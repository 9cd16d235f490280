"""Sinkhorn iterations on potentials, by log-sum-exp over the cost: twice the reads of the scaling
form and an exp for every entry, but nothing can overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import _exponentials
from ..utils.deadline import Deadline
from ..utils.types import Float64Array, FloatArray

if TYPE_CHECKING:
    from ..kernels._rows import Rows
    from .gibbs_kernel import SparseCost
    from .rules import MarginalTerms


# Fraction of its epsilon: a level of annealing ends when an iteration moves potentials by less.
# Potentials that move by one epsilon have hundreds of iterations to go at the next level.
LEVEL_TOL = 0.1
# Iterations at a level of annealing, at most.
LEVEL_ITERATIONS = 20
# Ratio of the epsilons of successive levels.
RATIO = 4.0


class Potentials(NamedTuple):
    """Dual variables `f` (n,) and `g` (m,) of a linear problem, float64, in units of its cost; of a
    partial plan with the `separable` potentials and the translation of its caps, if known.
    """

    f: np.ndarray
    g: np.ndarray
    separable: Potentials | None = None
    translation: float = 0.0

    @classmethod
    def full(cls, shape: tuple[int, int], value: float = 0.0) -> Potentials:
        """Return potentials that all have one value."""
        return cls(np.full(shape[0], value), np.full(shape[1], value))

    def rebased(self, separable: Potentials) -> Potentials:
        """Return potentials that are as far from another `separable`, and have its translation."""
        if self.separable is None:
            above = self.f - separable.f
            return Potentials(
                self.f, self.g, separable, above[np.isfinite(above)].max(initial=-np.inf)
            )
        f, g = self.f + (separable.f - self.separable.f), self.g + (separable.g - self.separable.g)
        return Potentials(f, g, separable, self.translation)

    def absorb(self, u: FloatArray, v: FloatArray, epsilon: float) -> Potentials:
        """Return potentials of the plan that these make with the scalings `u`, `v`."""
        f, g = np.empty(len(self.f)), np.empty(len(self.g))
        _exponentials.absorb(self.f, u, epsilon, f)
        _exponentials.absorb(self.g, v, epsilon, g)
        return Potentials(f, g)


class LogDomain:
    """Sinkhorn's half-steps on potentials, for masses `p` (n,) and `q` (m,). A cost is an array,
    `Rows`, or has ``logsumexp_rows(g, epsilon, out)``, which sets ``out_i = log sum_j exp((g_j -
    c_ij) / epsilon)``, and likewise ``logsumexp_cols(f, epsilon, out)``.
    """

    def __init__(self, p: Float64Array, q: Float64Array, n_threads: int) -> None:
        self.n_threads = n_threads
        with np.errstate(divide="ignore"):
            self.log_p, self.log_q = np.log(p), np.log(q)

    def fit_rows(
        self, cost: FloatArray | Rows | SparseCost, g: Float64Array, epsilon: float
    ) -> Float64Array:
        """Return potentials (n,) with which the rows have their masses, for the potentials `g` of
        columns, which may be other columns than the problem's.
        """
        sums = np.empty(len(self.log_p))
        if hasattr(cost, "logsumexp_rows"):
            cost.logsumexp_rows(g, epsilon, sums)
        else:
            zeros = np.zeros(len(sums))
            _exponentials.logsumexp_rows(cost, zeros, g, epsilon, sums, self.n_threads)
        return epsilon * (self.log_p - sums)

    def fit_cols(
        self, cost: FloatArray | Rows | SparseCost, f: Float64Array, epsilon: float
    ) -> Float64Array:
        """Return potentials (m,) with which the columns have their masses, for `f` of rows."""
        sums = np.empty(len(self.log_q))
        if hasattr(cost, "logsumexp_cols"):
            cost.logsumexp_cols(f, epsilon, sums)
        else:
            zeros = np.zeros(len(sums))
            _exponentials.logsumexp_cols(cost, f, zeros, epsilon, sums, self.n_threads)
        return epsilon * (self.log_q - sums)

    def lost(self, potentials: Potentials) -> float:
        """Return the fraction of the points with mass, the larger of both sides, that have no
        finite potential.
        """
        if np.isfinite(potentials.f).all() and np.isfinite(potentials.g).all():
            return 0.0
        pairs = (potentials.f, self.log_p), (potentials.g, self.log_q)
        return max(_lost(*pair).sum() / np.isfinite(pair[1]).sum() for pair in pairs)

    # At prices far above the costs potentials leave the range of numbers; the solver sees it.
    @np.errstate(over="ignore", invalid="ignore")
    def mended(
        self,
        cost: FloatArray | Rows | SparseCost,
        potentials: Potentials,
        epsilon: float,
        terms: MarginalTerms,
    ) -> Potentials:
        """Return potentials with finite values for the points with mass that have none, columns
        first, each fitted to the potentials of the other side.
        """
        f, g = potentials.f, potentials.g
        lost = _lost(g, self.log_q)
        if lost.any():
            g = np.where(lost, terms.columns.apply(self.fit_cols(cost, f, epsilon)), g)
        lost = _lost(f, self.log_p)
        if lost.any():
            f = np.where(lost, terms.rows.apply(self.fit_rows(cost, g, epsilon)), f)
        return Potentials(f, g)

    @np.errstate(over="ignore", invalid="ignore")
    def anneal(
        self,
        cost: FloatArray | Rows | SparseCost,
        potentials: Potentials,
        epsilon: float,
        spread: float,
        terms_at: Callable[[float], MarginalTerms],
        deadline: Deadline,
    ) -> tuple[Potentials, float]:
        """Return potentials after iterations at epsilons that fall by factors of four, from a part
        of `spread`, how far potentials may have to move, to `epsilon`; and the translation of the
        anchors of rows. ``terms_at(epsilon)`` are the `MarginalTerms` of the rule. After the
        deadline the columns at least have their masses.
        """
        alive, translation = np.isfinite(self.log_p), 0.0
        n_levels = int(np.log(max(spread / (RATIO * epsilon), 1.0)) / np.log(RATIO))
        f, g = potentials.f, potentials.g
        for level in range(n_levels, -1, -1):
            eps = epsilon * RATIO**level
            terms = terms_at(eps)
            if terms.mass:
                # Caps that are too low rise at once, caps that are too high fall by little.
                total = self._log_mass(g, self.fit_cols(cost, f, eps), eps)
                step = eps * (np.log(terms.mass) - total)
                f, translation = f + step, translation + step
            for _ in range(LEVEL_ITERATIONS):
                before, f = f, terms.rows.apply(self.fit_rows(cost, g, eps), translation)
                if deadline.passed():
                    return Potentials(f, self.fit_cols(cost, f, epsilon)), translation
                fitting = self.fit_cols(cost, f, eps)
                former, g = g, terms.columns.apply(fitting)
                if terms.mass or terms.rate:
                    total = self._log_mass(g, fitting, eps)
                    if terms.mass:
                        step = eps * (np.log(terms.mass) - total)
                        f, translation = f + step, translation + step
                    else:
                        rows = self._log_mass(former, fitting, eps)
                        step = eps * (rows - total) / terms.rate if rows > -np.inf else 0.0
                        f, g = f + step, g - step
                if np.abs(f[alive] - before[alive]).max() < LEVEL_TOL * eps:
                    break
        return Potentials(f, g), translation

    def _log_mass(self, g: Float64Array, fitting: Float64Array, epsilon: float) -> float:
        """Return the logarithm of the mass of the plan of `g`, if `fitting` fits the columns."""
        alive = np.isfinite(self.log_q)
        logs = self.log_q[alive] + (g[alive] - fitting[alive]) / epsilon
        peak = float(logs.max())
        return peak + float(np.log(np.exp(logs - peak).sum())) if abs(peak) < np.inf else peak


def _lost(potential: Float64Array, log_mass: Float64Array) -> NDArray[np.bool_]:
    """Return the points with mass that have no finite potential."""
    return np.isfinite(log_mass) & ~np.isfinite(potential)

"""Linear problems whose marginals are not both given: what one side receives is free
(semi-relaxed), or a part of both stays behind (partial). Each solver here stands in for
`SinkhornSolver`.

Where a marginal is free the separable terms of the pseudo-cost matter: `bases` are the
potentials, in its unit, at which they alone are left.
"""

import numpy as np

from ..kernels import _exponentials, _kernels
from .sinkhorn import SinkhornSolver


class OneSided(SinkhornSolver):
    """Fits the masses of one side only, which takes no iteration.

    Parameters
    ----------
    side : {0, 1}
        Rows or columns.
    """

    bases = None

    def __init__(self, p, q, n_threads, precision, side=0):
        super().__init__(p, q, n_threads, precision)
        self.side = side

    def solve(self, kernel, epsilon, *, tol, max_iter):
        self.f, self.g = (np.array(base) for base in self.bases)
        # A point without mass has none, whatever a plan before may be taken for.
        self.f[self.p == 0], self.g[self.q == 0] = -np.inf, -np.inf
        if self.side == 0:
            self.fit_rows(kernel.cost(), self.g, epsilon)
        else:
            self.fit_cols(kernel.cost(), self.f, epsilon)
        self.u.fill(1.0)
        self.v.fill(1.0)
        kernel.make(self.f, self.g, epsilon, self.q, self.v, self.sums)
        # What rounding has left is taken away exactly.
        sums = np.empty(len(self.p)), np.empty(len(self.q))
        _kernels.marginals(kernel.rows, *sums, self.sums, self.n_threads)
        scaling, masses = (self.u, self.p) if self.side == 0 else (self.v, self.q)
        kept = sums[self.side] > 0
        np.divide(masses, sums[self.side], out=scaling, where=kept, casting="same_kind")
        self._absorb(epsilon)
        return 1

    def error(self, rows, cols):
        sums, masses = (rows, self.p) if self.side == 0 else (cols, self.q)
        return float(np.abs(sums - masses).sum())


class Partial(SinkhornSolver):
    """Plans of a given mass within larger marginals: ``T 1 <= p``, ``T' 1 <= q``.

    Dykstra's projections onto the three constraints (Chapel, Alaya and Gasso, NeurIPS
    2020; Benamou et al., SIAM J. Sci. Comput. 2015) keep to plans ``s diag(u) K
    diag(v)`` with u and v at most one: the scalings of Sinkhorn, with a cap.
    """

    bases = None

    def __init__(self, p, q, n_threads, precision, mass=1.0):
        super().__init__(p, q, n_threads, precision)
        self.mass = mass
        self._log_u, self._log_v = np.zeros(len(p)), np.zeros(len(q))

    def solve(self, kernel, epsilon, *, tol, max_iter):
        row_base, col_base = self.bases
        if kernel.spread() + np.ptp(row_base) + np.ptp(col_base) < (
            self.precision.peak * epsilon
        ):
            return self._scale(kernel, epsilon, tol, max_iter)
        return self._iterate(kernel, epsilon, tol, max_iter)

    def _scale(self, kernel, epsilon, tol, max_iter):
        self.f, self.g = (np.array(base) for base in self.bases)
        # So that no exponent is above zero.
        self.f -= self.f.max() + self.g.max() - float(kernel.cost().min())
        kernel.make(self.f, self.g, epsilon, self.q, self.v, self.sums)
        np.copyto(self.u, np.exp(self._log_u), casting="same_kind")
        np.copyto(self.v, np.exp(self._log_v), casting="same_kind")
        scale = self.mass / float(self.u @ (kernel.rows @ self.v))
        n_iter, moved = 0, np.inf
        while moved > tol and n_iter < max_iter:
            before = self.u.copy(), self.v.copy(), scale
            _kernels.sinkhorn_passes(
                kernel.rows,
                self.p / scale,
                self.q / scale,
                self.u,
                self.v,
                self.sums,
                1.0,
                1,
                0.0,
                self.n_threads,
                cap=1.0,
            )
            scale = self.mass / float(self.v @ self.sums.values)
            n_iter += 1
            moved = max(
                _moved(self.u, before[0]),
                _moved(self.v, before[1]),
                abs(scale / before[2] - 1.0),
            )
        with np.errstate(divide="ignore"):
            self._log_u, self._log_v = np.log(self.u), np.log(self.v)
        self.u *= scale
        self._absorb(epsilon)
        return n_iter

    def _iterate(self, kernel, epsilon, tol, max_iter):
        """In the log domain, where entries of the kernel would be lost."""
        cost = kernel.cost()
        row_base, col_base = (base / epsilon for base in self.bases)
        log_u, log_v, log_scale = self._log_u, self._log_v, np.log(self.mass)
        rows, cols = np.empty(len(self.p)), np.empty(len(self.q))
        n_iter, moved = 0, np.inf
        while moved > tol and n_iter < max_iter:
            before = log_u, log_v, log_scale
            f = epsilon * row_base
            _exponentials.logsumexp_rows(
                cost, f, epsilon * (col_base + log_v), epsilon, rows, self.n_threads
            )
            if n_iter == 0:  # of that mass to begin with
                log_scale = np.log(self.mass) - _log_sum(log_u + rows)
            log_u = np.minimum(self.log_p - log_scale - rows, 0.0)
            g = epsilon * col_base
            _exponentials.logsumexp_cols(
                cost, epsilon * (row_base + log_u), g, epsilon, cols, self.n_threads
            )
            log_v = np.minimum(self.log_q - log_scale - cols, 0.0)
            log_scale = np.log(self.mass) - _log_sum(log_v + cols)
            n_iter += 1
            pairs = zip((log_u, log_v, log_scale), before, strict=True)
            moved = max(_moved_logarithms(now, old) for now, old in pairs)
        self._log_u, self._log_v = log_u, log_v
        self.f = epsilon * (row_base + log_u + log_scale)
        self.g = epsilon * (col_base + log_v)
        self.u.fill(1.0)
        self.v.fill(1.0)
        kernel.make(self.f, self.g, epsilon, self.q, self.v, self.sums)
        return n_iter

    def error(self, rows, cols):
        pairs = (rows, self.p), (cols, self.q)
        excess = sum(np.maximum(sums - most, 0.0).sum() for sums, most in pairs)
        return float(excess + abs(rows.sum() - self.mass))


def solver_for(problem, n_threads, precision):
    """What solves the linear problems of a quadratic one."""
    common = problem.p, problem.q, n_threads, precision
    if problem.marginals == "partial":
        return Partial(*common, problem.mass)
    kind = OneSided if problem.marginals == "semirelaxed" else SinkhornSolver
    return kind(*common)


def _moved(now, before):
    """Largest relative change of a scaling."""
    alive = before > 0
    return float(np.abs(now[alive] / before[alive] - 1.0).max(initial=0.0))


def _moved_logarithms(now, before):
    """The same of their logarithms."""
    with np.errstate(invalid="ignore", over="ignore"):
        change = np.abs(np.expm1(np.subtract(now, before)))
    return float(np.nan_to_num(change, nan=0.0, posinf=np.inf).max())


def _log_sum(logs):
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum()))

"""Entropic optimal transport by Sinkhorn iterations that stay finite at any epsilon.

Two ways of computing the same iteration, and the passage between them:

- *scaling*: with ``K_ij = exp((f_i + g_j - c_ij) / epsilon)`` made once, in the buffer
  of the cost, an iteration is one read of K (``kernels.sinkhorn_pass``). Fast, but u
  and v may leave the range of float32, and what underflowed in K is lost.
- *log domain*: f and g by log-sum-exp over the cost. Twice the reads and an exp for
  every entry, but nothing can overflow.

The solver begins in the log domain where it has no potentials or they do not fit,
goes on by scaling, and absorbs u and v into f and g (making the cost anew) when they
drift.
"""

import time
import warnings

import numpy as np

from ..kernels import _exponentials, _kernels
from ..kernels._rows import ColumnSums, aligned_empty
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..results.result import ConvergenceWarning, SinkhornResult
from ..results.status import Status
from ..utils.blocks import row_blocks
from ..utils.precision import DOUBLE, SINGLE
from ..utils.validation import as_count, as_marginal, as_matrix, as_positive
from . import newton
from .gibbs_kernel import StoredKernel

# Passes between two looks at the scalings and at how fast the error falls.
LOOK_EVERY = 8
# Annealing in the log domain divides epsilon by this from one level to the next.
ANNEALING_FACTOR = 4.0
# A level of annealing ends when the potentials move by less than this many epsilons
# (what is left is a matter of scalings well within float32), or after so many
# iterations.
SETTLED, LEVEL_ITERATIONS = 2.0, 20
# Share of the error that a pass has to leave for the error to stand still; below
# `Precision.standstill` that is rounding rather than slow convergence.
STALLED_RATE = 0.99
# Error of the marginals below which Newton's steps are tried, and what one has to leave
# of it for another.
NEWTON_BELOW, NEWTON_GAIN = 0.1, 0.3
# Over-relaxation beyond this has never paid.
MOST_OMEGA = 1.95
# Share of the tolerance at which passes stop: what is left is for the columns, whose
# marginals are exact but for rounding.
MARGIN = 0.9


class SinkhornSolver:
    """Solves linear problems of one size, each starting where the last ended.

    Parameters
    ----------
    p : (n,) float64 ndarray
    q : (m,) float64 ndarray
    n_threads : int
    precision : Precision, default=SINGLE

    Attributes
    ----------
    f, g : float64 ndarrays or None
        Potentials after the last `solve`, None before the first.
    u, v : ndarrays
        Scalings of the kernel that the last `solve` was given.
    sums : ColumnSums
    """

    def __init__(self, p, q, n_threads, precision=SINGLE):
        n, m = len(p), len(q)
        self.p, self.q, self.n_threads, self.precision = p, q, n_threads, precision
        with np.errstate(divide="ignore"):
            self.log_p, self.log_q = np.log(p), np.log(q)
        self.f = self.g = None
        self.u = aligned_empty(n, precision.dtype)
        self.v = aligned_empty(m, precision.dtype)
        self.sums = ColumnSums(n, m, precision.dtype)

    def solve(self, kernel, epsilon, *, tol, max_iter):
        """Solve the problem of `kernel`; the plan is ``diag(u) K diag(v)``.

        Parameters
        ----------
        kernel : Kernel
        epsilon, tol : float
            Stops when the L1 error of the marginals is below `tol`.
        max_iter : int

        Returns
        -------
        int
            Passes made.
        """
        if self.f is None:
            self.f, self.g = np.zeros(len(self.p)), np.zeros(len(self.q))
            spread = kernel.spread()
            if spread > self.precision.direct * epsilon:
                self._iterate_logarithms(kernel, epsilon, spread)
        self._make(kernel, epsilon)
        n_iter, last_error, omega = 0, np.inf, 1.0
        second = _Newton(self, kernel)
        while True:
            most = LOOK_EVERY - n_iter % LOOK_EVERY if n_iter else 1
            most = min(most, max_iter - n_iter)
            if omega != 1.0 and n_iter + most == max_iter:
                most -= 1  # only a plain iteration leaves the columns exact
            error, done = kernel.passes(
                self.p, self.q, self.u, self.v, self.sums, omega, most, MARGIN * tol
            )
            n_iter += done
            close = error <= MARGIN * tol
            # False for NaN: a broken kernel is seen right below, as a drift.
            if n_iter >= max_iter or (close and omega == 1.0):
                break
            if close or n_iter + 1 == max_iter:
                omega = 1.0
            elif n_iter == 1 or n_iter % LOOK_EVERY == 0:
                if self._drift() > self.precision.drift:
                    self._renew(kernel, epsilon)
                    omega, last_error = 1.0, np.inf
                    continue
                rate = (error / last_error) ** (1.0 / LOOK_EVERY)
                if second.pays(error, rate, MARGIN * tol):
                    n_iter += second.step(error)
                    omega, last_error = 1.0, np.inf
                    continue
                if error < self.precision.standstill and rate > STALLED_RATE:
                    break
                omega = _next_omega(omega, rate)
                last_error = error
        if self._drift() > 2 * self.precision.drift:
            # Scalings that ran away since the last look must not reach the plan.
            self._renew(kernel, epsilon)
            kernel.passes(self.p, self.q, self.u, self.v, self.sums, 1.0, 1, 0.0)
        self._absorb(epsilon)
        return n_iter

    def error(self, rows, cols):
        """L1 error of these marginals of a plan."""
        return float(np.abs(rows - self.p).sum() + np.abs(cols - self.q).sum())

    @property
    def cols(self):
        """Column sums of the plan, right after `solve`."""
        return self.v * self.sums.values

    def _make(self, kernel, epsilon):
        """Make the kernel, through the log domain where it would overflow."""
        peak = self._try(kernel, epsilon)
        if peak > self.precision.peak:
            # The potentials do not fit this cost, and the peak says by how much.
            self._iterate_logarithms(kernel, epsilon, spread=peak * epsilon)
            self._try(kernel, epsilon)

    def _try(self, kernel, epsilon):
        self.u.fill(1.0)
        if kernel.peak is not None:
            # Made already, with these potentials, to see what may be left out of it.
            peak, kernel.peak = kernel.peak, None
            return peak
        self.v.fill(1.0)
        return kernel.make(self.f, self.g, epsilon, self.q, self.v, self.sums)

    def _renew(self, kernel, epsilon):
        """Make the kernel anew around potentials that have moved, or lost a point."""
        if self._drift() < np.inf:
            self._absorb(epsilon)
        else:
            self._iterate_logarithms(kernel, epsilon)
        self._make(kernel, epsilon)

    def _drift(self):
        """Largest |log| of a scaling of a point that has mass; infinite if one died."""
        u, v = self.u[self.p > 0], self.v[self.q > 0]
        low, high = min(u.min(), v.min()), max(u.max(), v.max())
        if not (low > 0 and high < np.inf):
            return np.inf
        return max(-np.log(low), np.log(high))

    def _absorb(self, epsilon):
        """Move the scalings into the potentials."""
        with np.errstate(divide="ignore"):
            self.f += epsilon * np.log(self.u, dtype=np.float64)
            self.g += epsilon * np.log(self.v, dtype=np.float64)

    def _iterate_logarithms(self, kernel, epsilon, spread=None):
        """Iterate in the log domain, annealing epsilon down from a part of `spread`.

        `spread` is how far the potentials may have to move, by default as far as the
        costs differ.
        """
        if spread is None:
            spread = kernel.spread()
        cost = kernel.cost()
        levels = np.log(max(spread / (4.0 * epsilon), 1.0)) / np.log(ANNEALING_FACTOR)
        for level in range(int(levels), -1, -1):
            level_epsilon = epsilon * ANNEALING_FACTOR**level
            for _ in range(LEVEL_ITERATIONS):
                moved = self._iterate_logarithm(cost, level_epsilon)
                if moved < SETTLED * level_epsilon:
                    break

    def _iterate_logarithm(self, cost, epsilon):
        """One iteration; returns the largest move of a potential of the rows."""
        before = self.f
        self.fit_rows(cost, self.g, epsilon)
        self.fit_cols(cost, self.f, epsilon)
        alive = self.p > 0
        return np.abs(self.f[alive] - before[alive]).max()

    def fit_rows(self, cost, g, epsilon):
        """Set f so that the rows have their masses, for these potentials of columns,
        which may be others than the problem's.
        """
        lse = np.empty(len(self.p))
        zeros = np.zeros(len(lse))
        _exponentials.logsumexp_rows(cost, zeros, g, epsilon, lse, self.n_threads)
        self.f = epsilon * (self.log_p - lse)

    def fit_cols(self, cost, f, epsilon):
        """Set g, likewise."""
        lse = np.empty(len(self.q))
        zeros = np.zeros(len(lse))
        _exponentials.logsumexp_cols(cost, f, zeros, epsilon, lse, self.n_threads)
        self.g = epsilon * (self.log_q - lse)


class _Newton:
    """Newton's steps in between the passes of one `solve`."""

    def __init__(self, solver, kernel):
        self.solver, self.kernel = solver, kernel
        self.price = newton.price(kernel.shape)
        # Scalings in float32 are no better for them.
        self.on = solver.precision is DOUBLE
        self.before = np.inf

    def pays(self, error, rate, tol):
        """Whether a step is cheaper than the passes that are left at this rate."""
        if not self.on or not error < NEWTON_BELOW:
            return False
        if not error <= NEWTON_GAIN * self.before:
            self.on = False
            return False
        if not 0.0 < rate < 1.0:
            return rate >= 1.0
        return np.log(tol / error) / np.log(rate) > self.price

    def step(self, error):
        """Take one; returns how many passes it stands for."""
        solver, self.before = self.solver, error
        made = newton.step(self.kernel.rows, solver.p, solver.q, solver.u, solver.v)
        self.on = made is not None
        if self.on:
            solver.u[:], solver.v[:] = made
        return 1


def in_units(epsilon, unit, precision=SINGLE):
    """`epsilon` in units that make the costs of order one.

    Raises
    ------
    ValueError
        If it is too small for the precision to tell costs apart at all.
    """
    least = precision.least_epsilon
    if epsilon < least * unit:
        raise ValueError(
            f"epsilon must be at least {least * unit:.1e}, {least} of the largest "
            f"costs, got {epsilon}"
        )
    return epsilon / unit


def _next_omega(omega, rate):
    """Over-relaxation for an error that fell by `rate` a pass under `omega`.

    Near the solution Sinkhorn is a Gauss-Seidel iteration: if its plain rate is `eta`,
    the rate under omega fulfills Young's ``(rate + omega - 1)^2 = rate omega^2 eta``,
    and the best omega is ``2 / (1 + sqrt(1 - eta))`` (Lehmann, von Renesse, Sambale and
    Uschmajew, Optimization Letters 2022). An error that does not fall is taken as a
    sign of being far from there.
    """
    if not rate < 1.0:
        return 1.0
    if rate <= omega - 1.0:
        return omega
    eta = (rate + omega - 1.0) ** 2 / (rate * omega**2)
    if eta >= 1.0:
        return omega
    return max(omega, min(2.0 / (1.0 + np.sqrt(1.0 - eta)), MOST_OMEGA))


def sinkhorn(
    cost,
    p=None,
    q=None,
    *,
    epsilon,
    tol=1e-5,
    max_iter=10_000,
    n_threads=None,
):
    """Entropic optimal transport between `p` and `q`.

    Solves ``min <T, cost> - epsilon * H(T)`` over plans ``T >= 0`` with marginals `p`
    and `q`, where ``H(T) = -sum T log T`` (Cuturi, NeurIPS 2013).

    Parameters
    ----------
    cost : array-like of shape (n, m)
    p : array-like of shape (n,) or None, default=None
        Masses of the rows, non-negative with sum one; None is uniform.
    q : array-like of shape (m,) or None, default=None
        Masses of the columns.
    epsilon : float
        Regularization, in units of cost.
    tol : float, default=1e-5
        Stops when ``|T 1 - p|_1 + |T' 1 - q|_1`` is below this. Float32 reaches about
        1e-6.
    max_iter : int, default=10000
        Limit of Sinkhorn passes.
    n_threads : int or None, default=None
        None is one a core, as far as the problem is large enough.

    Returns
    -------
    SinkhornResult

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` passes did not reach `tol`.
    """
    began = time.perf_counter()
    cost = as_matrix(cost, "cost")
    n, m = cost.shape
    p, q = as_marginal(p, "p", n), as_marginal(q, "q", m)
    epsilon = as_positive(epsilon, "epsilon")
    tol, max_iter = as_positive(tol, "tol"), as_count(max_iter, "max_iter")
    n_threads = resolve_n_threads(n_threads, work=n * m)

    # A constant in the cost changes no plan, and a unit of its own keeps any cost
    # within float32.
    low, high = float(cost.min()) / 2, float(cost.max()) / 2
    middle, unit = low + high, high - low or 1.0
    buffer = aligned_empty((n, m))

    def fill():
        for rows in row_blocks(n, m):
            buffer[rows] = (cost[rows].astype(np.float64) - middle) / unit

    solver = SinkhornSolver(p, q, n_threads)
    kernel = StoredKernel(buffer, fill, n_threads)
    with single_threaded_blas():
        n_iter = solver.solve(
            kernel, in_units(epsilon, unit), tol=tol, max_iter=max_iter
        )
    error = solver.error(*kernel.scale(solver.u, solver.v, solver.sums))
    if error <= tol:
        status = Status.CONVERGED
    else:
        status = Status.MAX_ITER if n_iter >= max_iter else Status.PRECISION
        warnings.warn(
            f"sinkhorn stopped ({status}) after {n_iter} passes with marginal error "
            f"{error:.1e} (tol {tol:.1e}); raise max_iter, tol or epsilon",
            ConvergenceWarning,
            stacklevel=2,
        )
    transport_cost = sum(
        float(np.vdot(buffer[rows].astype(np.float64), cost[rows]))
        for rows in row_blocks(n, m)
    )
    entropy = _kernels.entropy(buffer, n_threads)
    return SinkhornResult(
        plan=buffer,
        potentials=(unit * solver.f + middle, unit * solver.g),
        cost=transport_cost,
        reg_cost=transport_cost - epsilon * entropy,
        epsilon=epsilon,
        marginal_error=error,
        n_iter=n_iter,
        status=status,
        seconds=time.perf_counter() - began,
    )

"""Entropic optimal transport by Sinkhorn iterations that stay finite at any epsilon.

Two ways of computing the same iteration, and the passage between them:

- *scaling*: with ``K_ij = exp((f_i + g_j - c_ij) / epsilon)`` made once, in the buffer
  of the cost, an iteration is one read of K (``kernels.sinkhorn_passes``). Fast, but u
  and v may leave the range of float32, and what underflowed in K is lost.
- *log domain*: f and g by log-sum-exp over the cost, see log_domain.py.

The solver begins in the log domain where it has no potentials or they do not fit, goes on by
scaling, and absorbs u and v into f and g (making the kernel anew) when they drift.
"""

import time
from typing import NamedTuple

import numpy as np

from ..utils.deadline import NEVER
from ..utils.mechanisms import ALL
from ..utils.precision import SINGLE
from .gibbs_kernel import Scalings
from .log_domain import LogDomain, Potentials
from .newton import NewtonSteps, StepLimits
from .over_relaxation import OverRelaxation

# Iterations between two looks at the scalings and at how fast the error falls. On 36 linear
# problems of 60 to 300 points, clouds, clusters and random costs, 4 took 14 % more iterations and
# 16 4 %; on six descents in float64 16 took 36 % more, and with 4 one did not converge.
LOOK_EVERY = 8
# Factor of the error in an iteration above which the error stands still; below
# `FloatPrecision.standstill` that is rounding rather than slow convergence. On the same
# problems .98 and .995 made no difference.
STALLED_RATE = 0.99
# Fraction of the tolerance at which iterations stop: the rest is for the columns, whose
# marginals are exact but for rounding. With all of it one of the 36 problems did not
# converge, with half of it they took 8 % more iterations.
MARGIN = 0.9
# Fraction of the points of a side above which lost scalings mean that the potentials did
# not fit the cost: its kernel overflowed.
MOST_LOST = 0.5
# Seconds that one call of a kernel takes at most where it can be split into several:
# deadlines are looked at, and Ctrl-C is heard, between calls only.
LONGEST_CALL = 0.2


class LinearSolution(NamedTuple):
    """Solution of a linear problem."""

    # Of the plan; they start the next problem.
    potentials: Potentials
    # Of the kernel as it was made last, until the solver is used again.
    scalings: Scalings
    n_iter: int
    # Of the marginals before the last iteration, where these depend on the potentials.
    error: float = np.nan


class SinkhornSolver:
    """Solves linear problems of one size whose marginals, `p` (n,) and `q` (m,) in
    float64, are both given. All solutions use the same `scalings`, one after the other.
    """

    mechanisms = ALL

    def __init__(self, p, q, n_threads, precision=SINGLE):
        self.p, self.q, self.n_threads, self.precision = p, q, n_threads, precision
        self.scalings = Scalings(len(p), len(q), precision.dtype)
        self.log_domain = LogDomain(p, q, n_threads)

    def solve(self, kernel, epsilon, start=None, *, tol, max_iter, deadline=NEVER):
        """The `LinearSolution` for a kernel; `start` are the `Potentials` of a problem
        nearby, or None.

        Iterations end when the L1 error of the marginals is below `tol`, after
        `max_iter` of them, or when the deadline has passed.
        """
        potentials = self._begin(kernel, start, epsilon, deadline)
        p, q, scalings, limit = self.p, self.q, self.scalings, self.precision.drift
        aim, allowed = MARGIN * tol, self.mechanisms
        relaxation, newton, n_iter, pace = OverRelaxation(), None, 0, 0.0
        while True:
            n_next = LOOK_EVERY - n_iter % LOOK_EVERY if n_iter else 1
            n_next = min(n_next, max_iter - n_iter)
            if relaxation.omega != 1.0 and n_iter + n_next == max_iter:
                n_next -= 1  # only a plain iteration leaves the columns exact
            if n_next * pace > LONGEST_CALL:
                n_next = max(int(LONGEST_CALL / pace), 1)
            began, omega = time.perf_counter(), relaxation.omega
            error, done = kernel.iterate(p, q, scalings, omega, n_next, aim)
            n_iter += done
            # Close is False for NaN: a broken kernel is seen right below, as a drift.
            close, late = error <= aim, deadline.passed()
            if n_iter >= max_iter or ((close or late) and omega == 1.0):
                break
            pace = (time.perf_counter() - began) / max(done, 1)
            if close or late or n_iter + 1 == max_iter:
                relaxation.omega = 1.0
            elif n_iter == 1 or n_iter % LOOK_EVERY == 0:
                if scalings.drift(p, q) > limit:
                    potentials = self._renew(kernel, potentials, epsilon, deadline)
                    relaxation = OverRelaxation()
                    continue
                rate = relaxation.rate(error, LOOK_EVERY)
                newton = newton or NewtonSteps(kernel.shape, self.precision)
                # Three iterations are left for the plan after a step to have its columns.
                limits = StepLimits(max_iter - n_iter - 3, aim, deadline)
                if allowed.newton and newton.pays(error, rate, pace, limits):
                    n_iter += newton.take(kernel, p, q, scalings, error, limits)
                    relaxation = OverRelaxation()
                    continue
                if error < self.precision.standstill and rate > STALLED_RATE:
                    break
                relaxation.adapt(error, rate)
                if not allowed.over_relaxation:
                    relaxation.omega = 1.0
        if scalings.drift(p, q) > 2 * limit:
            # Scalings that ran away since the last look must not reach the plan.
            potentials = self._renew(kernel, potentials, epsilon, deadline)
            kernel.iterate(p, q, scalings, 1.0, 1, 0.0)
        potentials = potentials.absorb(scalings.u, scalings.v, epsilon)
        return LinearSolution(potentials, scalings, n_iter)

    def _begin(self, kernel, start, epsilon, deadline):
        """Make the kernel, through the log domain where it would overflow; returns the
        potentials that it is made with.
        """
        if start is None:
            start = Potentials(np.zeros(len(self.p)), np.zeros(len(self.q)))
            spread = kernel.spread()
            if spread > self.precision.direct * epsilon:
                given = kernel.cost(), start, epsilon, spread, deadline
                start = self.log_domain.anneal(*given)
        given = self.q, self.scalings
        peak = kernel.make(start, epsilon, *given)
        if peak > self.precision.peak:
            # The potentials do not fit this cost, and the peak says by how much.
            start = self._anneal(kernel, start, epsilon, deadline, peak * epsilon)
            kernel.make(start, epsilon, *given)
        return start

    def _renew(self, kernel, potentials, epsilon, deadline):
        """Make the kernel anew around potentials that have moved. Points whose scalings
        left the range of their type get potentials by one log-sum-exp; if most did, the
        potentials did not fit the cost.
        """
        logs = self.log_domain
        absorbed = potentials.absorb(self.scalings.u, self.scalings.v, epsilon)
        if 0.0 < logs.lost(absorbed) < MOST_LOST:
            absorbed = logs.mended(kernel.cost(), absorbed, epsilon)
        if logs.lost(absorbed) > 0.0:
            spread = kernel.spread()
            absorbed = self._anneal(kernel, potentials, epsilon, deadline, spread)
        return self._begin(kernel, absorbed, epsilon, deadline)

    def _anneal(self, kernel, potentials, epsilon, deadline, spread):
        """Potentials that fit the cost, from those of a problem nearby; `spread` is how
        far they may have to move.
        """
        spread = spread if kernel.anneals else 0.0
        given = kernel.cost(), potentials, epsilon, spread, deadline
        return self.log_domain.anneal(*given)


def in_units(epsilon, scale, precision=SINGLE):
    """`epsilon` in units of `scale` that make the costs of order one; a ValueError if
    that is too small for the precision to tell costs apart at all.
    """
    least = precision.min_epsilon
    if epsilon < least * scale:
        raise ValueError(
            f"epsilon must be at least {least * scale:.1e}, {least} of the largest "
            f"costs, got {epsilon}"
        )
    # Float32 holds numbers up to 3e38; from far less on the plan is the product plan.
    return min(epsilon / scale, 1e30)

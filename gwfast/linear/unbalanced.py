"""Marginals that a plan may miss at a price, ``rho`` times a Kullback-Leibler
divergence: the rule, and the solver of its linear problems.

Of the quadratic problem the divergence is that of products (Sejourne, Vialard and Peyre, NeurIPS
2021, section 2), ``KL2(a | b) = KL(a x a | b x b)``, that of entropy too:

    sum L T T + rho_x KL2(T 1 | p) + rho_y KL2(T' 1 | q) + epsilon KL2(T | p q')

With two plans in it, T and T0, it is linear in one of them but for divergences of that
one alone, weighted by the mass of the other, and but for a number times its mass. That
is the linear problem at T0 (their Algorithm 1).
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from ..utils.deadline import NEVER
from ..utils.precision import DOUBLE, SINGLE
from ..utils.validation import MASS_TOLERANCE
from .log_domain import LEVEL_ITERATIONS, SETTLED, Potentials, levels, log_total
from .marginals import Balanced
from .sinkhorn_solver import LOOK_EVERY, MARGIN, STALLED_RATE, LinearSolution, SinkhornSolver

# Mass of a plan, as a fraction of the mass at the beginning, that counts as none:
# shared out over 1e18 entries it is the least number of float32, 1e-38.
VANISHED = 1e-20
# Fraction of its mass that a plan keeps at least from one linear problem to the next.
KEPT_MASS = 1e-3
# Largest logarithm, without sign, of what is passed to a kernel, whose numbers in
# float32 end at e^88; what is beyond is next to nothing, or refused before.
MAX_EXPONENT = 85.0
# How often a linear problem makes its kernel anew, at most, because potentials have moved
# beyond its numbers: 300 points of a small price took 33 s for one problem.
MOST_MADE = 16


def product_divergence(divergence, mass, given):
    """``KL(a x a | b x b)`` of measures with these masses, whose divergence,
    ``sum a log(a / b) - a + b``, is given.
    """
    return 2.0 * mass * divergence + (mass - given) * (mass - given)


def relative_entropy(a, b):
    """``sum a log(a / b)``, nothing where `a` is zero."""
    alive = a > 0
    return float(a[alive] @ np.log(a[alive] / b[alive]))


class Unbalanced(Balanced):
    """Both marginals are wished for, at the prices `rho` in units of cost, infinite
    where the marginal is given. Totals are any: the `mass` of the plan that solvers
    begin with is their geometric mean.
    """

    name, has_free_marginals, is_relaxed = "unbalanced", True, True

    @classmethod
    def of(cls, p, q, rho):
        """The rule for these masses, of any totals."""
        return cls(p, q, float(np.sqrt(p.sum() * q.sum())), rho)

    @property
    def entropy_weight(self):
        return self.mass

    def bounded(self, cost, precision):
        """The rule for costs of this size: prices so far above them that what plans
        miss for them is rounding are infinite, where masses can be met. A ValueError
        where they cannot, and rounding of prices is more than all costs.
        """
        rounding, highest = precision.rounding, max(self.rho)
        off = abs(self.p.sum() - self.q.sum())
        if off <= MASS_TOLERANCE * self.p.sum():
            # Plans miss marginals by cost / rho, and pay its square times rho.
            most = 10.0 * cost / np.sqrt(rounding)
            rho = tuple(one if one <= most else np.inf for one in self.rho)
            return dataclasses.replace(self, rho=rho)
        if 0.1 * cost / rounding < highest < np.inf:
            raise ValueError(
                f"rho must be at most {0.1 * cost / rounding:.1e} in {precision.dtype} "
                f"where p and q have different totals, or infinite on one side, got "
                f"{self.rho}"
            )
        return self

    def product(self):
        return self.p * (self.mass / self.p.sum()), self.q * (self.mass / self.q.sum())

    def plan_mass(self, rows):
        return max(float(rows.sum()), VANISHED * self.mass)

    def penalty(self, rows, cols):
        total = 0.0
        for rho, sums, masses in self._priced(rows, cols):
            mass, given = float(sums.sum()), float(masses.sum())
            divergence = relative_entropy(sums, masses) - mass + given
            total += rho * product_divergence(divergence, mass, given)
        return total

    def _priced(self, rows, cols):
        """The price, the sums and the masses of each side that is not given."""
        sides = zip(self.rho, (rows, cols), (self.p, self.q), strict=True)
        return [side for side in sides if side[0] < np.inf]

    def regularized(self, gw_cost, epsilon, entropy, rows, cols):
        mass, given = float(rows.sum()), float(self.p.sum() * self.q.sum())
        divergence = self._information(entropy, rows, cols) - mass + given
        return gw_cost + epsilon * product_divergence(divergence, mass, given)

    def shift(self, epsilon, entropy, rows, cols):
        """What a unit of mass costs in the linear problem at a plan with this entropy
        and these marginals, beside the linearized cost.
        """
        total = epsilon * self._information(entropy, rows, cols)
        for rho, sums, masses in self._priced(rows, cols):
            total += rho * relative_entropy(sums, masses)
        return total

    def _information(self, entropy, rows, cols):
        """``sum T log(T / (p q'))``."""
        logs = (
            float(sums[sums > 0] @ np.log(masses[sums > 0]))
            for sums, masses in ((rows, self.p), (cols, self.q))
        )
        return -entropy - sum(logs)

    def solver(self, n_threads, precision=SINGLE):
        return UnbalancedSolver(self.p, self.q, n_threads, precision)

    def take(self, rows, cols):
        """The rule for some of the points, with the totals of all."""
        p, q = self.p[rows], self.q[cols]
        p, q = p * (self.p.sum() / p.sum()), q * (self.q.sum() / q.sum())
        return dataclasses.replace(self, p=p, q=q)


class Relaxation(NamedTuple):
    """What a linear problem has beside its cost, in units of that: the prices of both marginals,
    the price of a unit of mass, and the mass of the plan that the problem was linearized at.
    """

    rho: tuple[float, float]
    shift: float
    mass: float


class UnbalancedSolver(SinkhornSolver):
    """Unbalanced Sinkhorn iterations (Chizat, Peyre, Schmitzer and Vialard, Mathematics
    of Computation 2018), with the translation of potentials that is best after each
    (Sejourne, Vialard and Peyre, AISTATS 2022).
    """

    def solve(self, kernel, epsilon, start=None, *, relaxation, tol, max_iter, deadline=NEVER):
        """As `SinkhornSolver.solve`, but `tol` is for the distance from the marginals
        that the potentials ask for, and the plan is scaled to the geometric mean of its
        mass and ``relaxation.mass``.
        """
        now = _Iterations(self, kernel, epsilon, relaxation, deadline)
        there = now.make(None if start is None else np.concatenate([start.f, start.g]))
        n_iter, n_made, before = 0, 0, np.inf
        while there:
            found = now.iterate()
            n_iter += 1
            late = deadline.passed()
            if not (found and now.drift() <= self.precision.drift):
                there = now.make(now.potentials() if found else None)
                n_made += 1
                ends = late or n_iter >= max_iter + LOOK_EVERY or n_made == MOST_MADE
                if there and ends:
                    now.iterate()
                    break
                continue
            if now.error <= MARGIN * tol or n_iter >= max_iter or late:
                break
            if n_iter % LOOK_EVERY == 0:
                still = now.error > STALLED_RATE**LOOK_EVERY * before
                if still and now.error < self.precision.standstill * relaxation.mass:
                    break
                before = now.error
        if not there:
            return self.vanish(kernel)
        return LinearSolution(now.scaled(), self.scalings, n_iter, now.error)

    def vanish(self, kernel):
        """The plan without mass."""
        zeros = Potentials(*map(np.zeros, kernel.shape))
        kernel.make(zeros, 1.0, self.q, self.scalings)
        self.scalings.u.fill(0.0)
        nothing = Potentials(*(np.full(size, -np.inf) for size in kernel.shape))
        return LinearSolution(nothing, self.scalings, 0, 0.0)


def lost_to_rounding(epsilon, precision):
    """The error where there are no numbers for a plan."""
    return ValueError(
        "epsilon and rho must be nearer to the costs, and to one another, for this "
        f"unbalanced plan: at an epsilon of {epsilon:.1e} of the largest costs all is "
        f"rounding in {precision.dtype}"
    )


class _Iterations:
    """The iterations of one linear problem. Vectors are of the n rows, and then of the m columns.

    The `excess` of potentials is over those of the plan ``p q' exp(-cost / epsilon)``. Potentials
    ask for marginals, ``p exp(-excess / rho)``, and an iteration goes only a part of the way
    there, ``rho / (rho + epsilon)``: that is Sinkhorn's, under-relaxed, with masses that change.

    Attributes
    ----------
    lift : float
        Logarithm of what the kernel is larger by than that of the `potentials`.
    error : float
        L1 distance by which the last iteration scaled the rows: where they are given,
        how far they were from that.
    lifted : float
        Mass of the plan, times the exponential of `lift`; the error has this unit too.
    """

    def __init__(self, solver, kernel, epsilon, relaxation, deadline):
        self._solver, self._kernel, self._deadline = solver, kernel, deadline
        self.epsilon, self.relaxation = epsilon, relaxation
        base, sizes = kernel.separable_potentials, (len(solver.p), len(solver.q))
        self.rows, self.cols = slice(sizes[0]), slice(sizes[0], None)
        logs = solver.log_domain
        self._log_masses = np.concatenate([logs.log_p, logs.log_q])
        self._alive = np.isfinite(self._log_masses)
        self._base = np.concatenate([base.f - relaxation.shift, base.g])
        self._rho = np.repeat(relaxation.rho, sizes)
        self._damping = 1.0 / (1.0 + epsilon / self._rho)

    def _origin(self, epsilon):
        """Potentials of ``p q' exp(-cost / epsilon)``, zero for points without mass."""
        origin = self._base + epsilon * self._log_masses
        return np.where(self._alive, origin, 0.0)

    def _asked(self, side, excess):
        """Logarithms of the masses that potentials ask for; -inf for those of none."""
        excess = np.where(self._alive[side], excess[side], 0.0)
        return self._log_masses[side] - excess / self._rho[side]

    def _translate(self, potentials, excess, unit=1.0):
        """Add to potentials of rows and take from those of columns what the dual
        objective is best with, in a unit: both then ask for the same mass.
        """
        rate = sum(1.0 / rho for rho in self.relaxation.rho)
        if rate > 0.0:
            rows = log_total(self._asked(self.rows, excess))
            cols = log_total(self._asked(self.cols, excess))
            moved = (rows - cols) / rate / unit
            potentials[self.rows] += moved
            potentials[self.cols] -= moved

    def make(self, start):
        """Make the kernel of these potentials, or of others that fit it, lifted to a
        mass that its numbers hold; returns False where the mass is lost for good.
        """
        solver, origin = self._solver, self._origin(self.epsilon)
        known = origin if start is None else np.where(np.isfinite(start), start, origin)
        potentials = np.where(self._alive, known, -np.inf)
        # Near enough to start from: what potentials ask for is a number, and so is what
        # they are scaled by.
        near = SINGLE.peak * np.maximum(self.epsilon, self._rho)
        fits = start is not None
        fits = fits and (np.abs(potentials - origin) <= near)[self._alive].all()
        # One attempt is enough but for linear problems that are nowhere near their
        # solution after a round of annealing.
        for _ in range(8):
            if not fits:
                potentials = self._annealed(potentials)
            lift = self._lift(potentials - origin)
            # Of a mass beyond, the inverse is no number.
            if lift > DOUBLE.peak and not fits:
                return False
            peak = np.inf
            if lift <= DOUBLE.peak:
                f = potentials[self.rows] + lift * self.epsilon
                lifted = Potentials(f, potentials[self.cols])
                given = lifted, self.epsilon, solver.q, solver.scalings
                peak = self._kernel.make(*given)
            if peak <= solver.precision.peak:
                self._made_with, self.lift = potentials, lift
                self._excess = np.where(self._alive, potentials, origin) - origin
                self._logs = np.zeros(len(potentials))
                self.error = self.lifted = np.inf
                return True
            fits = False
        raise lost_to_rounding(self.epsilon, solver.precision)

    def _lift(self, excess):
        """Logarithm of what a plan is to be multiplied by to have about the mass of the one it was
        linearized at, where it may be lost in rounding otherwise: below a factor of e^-10.
        """
        asked = log_total(self._asked(self.rows, excess))
        asked -= np.log(self.relaxation.mass)
        return -asked if asked < -10.0 else 0.0

    def _annealed(self, potentials):
        """Potentials after iterations in the log domain, from a large epsilon down."""
        potentials, cost = potentials.copy(), self._kernel.cost()
        spread = self._kernel.spread()
        spread += np.ptp(self._base[self.rows]) + np.ptp(self._base[self.cols])
        logs = self._solver.log_domain
        steps = ((self.rows, self.cols, logs.fit_rows), (self.cols, self.rows, logs.fit_cols))
        for epsilon in levels(self.epsilon, spread):
            origin, damping = self._origin(epsilon), 1.0 / (1.0 + epsilon / self._rho)
            for _ in range(LEVEL_ITERATIONS):
                before = potentials[self.rows].copy()
                for side, other, fit in steps:
                    alive, at = self._alive[side], origin[side]
                    fitted = fit(cost, potentials[other], epsilon)
                    damped = at + damping[side] * (np.where(alive, fitted, at) - at)
                    potentials[side] = np.where(alive, damped, -np.inf)
                self._translate(potentials, potentials - origin)
                f = potentials[self.rows]
                if self._deadline.passed():
                    # Columns with their masses, at least, which nothing overflows by.
                    potentials[self.cols] = logs.fit_cols(cost, f, self.epsilon)
                    return potentials
                alive = self._alive[self.rows] & np.isfinite(before)
                if np.abs(f[alive] - before[alive]).max() < SETTLED * epsilon:
                    break
        return potentials

    def _excess_now(self):
        return self._excess + self.epsilon * self._logs

    def potentials(self):
        """Potentials (n + m,) of the plan."""
        return self._made_with + self.epsilon * self._logs

    def drift(self):
        """Largest logarithm of a scaling, without sign."""
        return np.abs(self._logs[self._alive]).max()

    def scaled(self):
        """Scale the plan to the geometric mean of its mass and that of the plan it was
        linearized at; returns the `Potentials`.
        """
        if not 0 < self.lifted < np.inf:
            raise lost_to_rounding(self.epsilon, self._solver.precision)
        mass, own = self.relaxation.mass, np.log(self.lifted) - self.lift
        # Where costs are far above what losing all mass costs, the next plan, of other
        # matches, may be worth having: a thousandth is kept at least.
        scale = max((np.log(mass) + own) / 2, np.log(KEPT_MASS * mass)) - own
        # Both scalings as large, so that neither overflows where the plan does not.
        rows, cols = (self._logs[side][self._alive[side]].max() for side in (self.rows, self.cols))
        factor = scale - self.lift
        shift = (cols - rows - factor) / 2
        self._write(factor + shift, -shift)
        made = self.potentials()
        return Potentials(made[self.rows] + self.epsilon * scale, made[self.cols])

    def _write(self, of_rows, of_cols):
        """Set both scalings, times the exponentials of two shifts."""
        scalings = self._solver.scalings
        rows, cols = self._logs[self.rows] + of_rows, self._logs[self.cols] + of_cols
        scalings.u[:] = np.where(self._alive[self.rows], np.exp(rows), 0.0)
        scalings.v[:] = np.where(self._alive[self.cols], np.exp(cols), 0.0)

    def iterate(self):
        """One iteration; returns whether no point was lost that should have mass."""
        rows, cols, before = self.rows, self.cols, self._logs[self.rows].copy()
        solver, sums = self._solver, self._solver.scalings.sums
        u = solver.scalings.u
        # What overflows shows in the mass.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            damping = float(self._damping[0])
            given = self._aim(u), solver.q, solver.scalings, damping
            self._kernel.iterate(*given, 1, 0.0)
            log_sums = np.log(sums.values) - self.lift
            found = self._take(rows, np.log(u, dtype=np.float64))
            asked = np.exp(self._asked(rows, self._excess_now()) + self.lift)
            self.error = float(asked @ np.abs(np.expm1(before - self._logs[rows])))
            excess = self._excess[cols]
            fitted = excess + self.epsilon * (self._log_masses[cols] - log_sums)
            made = (self._damping[cols] * fitted - excess) / self.epsilon
            found = self._take(cols, made) and found
            self.lifted = float(np.exp(self._logs[cols]) @ sums.values)
            self._translate(self._logs, self._excess_now(), self.epsilon)
            self._write(0.0, 0.0)
        return found and bool(np.isfinite(self.lifted) and self.lifted > 0)

    def _aim(self, u):
        """Masses of rows with which the kernel makes one iteration, and its scalings
        `u`, set for that: it multiplies powers of both with exponents that sum to one,
        and the factor that is wanted is in the one with the larger.
        """
        rows, alive = self.rows, self._alive[self.rows]
        if self._damping[0] >= 0.5:
            # The power of a zero would be taken for a point that was lost.
            asked = self._asked(rows, self._excess_now()) + self.lift
            return np.where(alive, np.exp(np.maximum(asked, -MAX_EXPONENT)), 0.0)
        wanted = -self._excess[rows] / self.epsilon
        wanted = np.clip(wanted, -MAX_EXPONENT, MAX_EXPONENT)
        u[:] = np.where(alive, np.exp(wanted), 0.0)
        return self._solver.p * np.exp(self.lift)

    def _take(self, side, made):
        """Take the logarithms of scalings, but of points that the kernel has lost; returns whether
        these are negligible: entries that underflow carry less than 1e-12 of the plan by far.
        """
        alive, asked = self._alive[side], np.exp(self._asked(side, self._excess_now()))
        kept = np.isfinite(made) & alive
        self._logs[side] = np.where(kept, made, self._logs[side])
        lost = asked[alive & ~kept].max(initial=0.0)
        return bool(lost <= 1e-12 * asked.sum())

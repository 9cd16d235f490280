"""Marginals that a plan may miss at a price, ``rho`` times a Kullback-Leibler
divergence: the rule, and the solver of its linear problems.

Of the quadratic problem the divergence is that of products (Sejourne, Vialard and
Peyre, NeurIPS 2021, section 2), ``KL2(a | b) = KL(a x a | b x b)``, that of entropy
too:

    sum L T T + rho_x KL2(T 1 | p) + rho_y KL2(T' 1 | q) + epsilon KL2(T | p q')

With two plans in it, T and T0, it is linear in one of them but for divergences of that
one alone, weighted by the mass of the other, and but for a number times its mass. That
is the linear problem at T0 (their Algorithm 1).
"""

import dataclasses
from typing import ClassVar, NamedTuple

import numpy as np

from ..kernels import _kernels
from ..utils.deadline import NEVER
from ..utils.precision import DOUBLE, SINGLE
from ..utils.validation import MASS_TOLERANCE
from .log_domain import LEVEL_ITERATIONS, SETTLED, Potentials, levels, log_total
from .marginals import Balanced
from .sinkhorn_solver import (
    LOOK_EVERY,
    MARGIN,
    STALLED_RATE,
    LinearSolution,
    SinkhornSolver,
)

# Mass of a plan, as a fraction of that which it began with, that counts as none: shared
# out over the entries it is near the end of what float32 holds.
VANISHED = 1e-20
# Largest logarithm, without sign, of what is passed to a kernel, whose numbers in
# float32 end at e^88; what is beyond is next to nothing, or refused before.
MAX_EXPONENT = 85.0


def product_divergence(divergence, mass, given):
    """``KL(a x a | b x b)`` of measures with these masses, whose divergence,
    ``sum a log(a / b) - a + b``, is given.
    """
    return 2.0 * mass * divergence + (mass - given) * (mass - given)


def relative_entropy(a, b):
    """``sum a log(a / b)``, nothing where `a` is zero."""
    alive = a > 0
    return float(a[alive] @ np.log(a[alive] / b[alive]))


@dataclasses.dataclass(frozen=True, eq=False)
class Unbalanced(Balanced):
    """Both marginals are wished for, at a price; their totals are any.

    Attributes
    ----------
    mass : float
        Of the plan that solvers begin with, the geometric mean of both totals.
    rho : tuple of two floats
        The prices, in units of cost; infinite where the marginal is given.
    """

    name: ClassVar = "unbalanced"
    has_free_marginals: ClassVar = True
    takes_mass: ClassVar = False
    is_relaxed: ClassVar = True

    rho: tuple[float, float] = (np.inf, np.inf)

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
        for sums, masses, rho in zip(
            (rows, cols), (self.p, self.q), self.rho, strict=True
        ):
            if rho < np.inf:
                mass, given = float(sums.sum()), float(masses.sum())
                divergence = relative_entropy(sums, masses) - mass + given
                total += rho * product_divergence(divergence, mass, given)
        return total

    def regularized(self, gw_cost, epsilon, entropy, rows, cols):
        mass, given = float(rows.sum()), float(self.p.sum() * self.q.sum())
        divergence = self._information(entropy, rows, cols) - mass + given
        return gw_cost + epsilon * product_divergence(divergence, mass, given)

    def shift(self, epsilon, entropy, rows, cols):
        """What a unit of mass costs in the linear problem at a plan with this entropy
        and these marginals, beside the linearized cost.
        """
        total = epsilon * self._information(entropy, rows, cols)
        for sums, masses, rho in zip(
            (rows, cols), (self.p, self.q), self.rho, strict=True
        ):
            if rho < np.inf:
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
        """The same for some of the points, with the totals of all."""
        p, q = self.p[rows], self.q[cols]
        p, q = p * (self.p.sum() / p.sum()), q * (self.q.sum() / q.sum())
        return dataclasses.replace(self, p=p, q=q)


class Relaxation(NamedTuple):
    """What a linear problem has beside its cost, in units of that: the prices of both
    marginals, the price of a unit of mass, and the mass of the plan that the problem
    was linearized at.
    """

    rho: tuple[float, float]
    shift: float
    mass: float


class UnbalancedSolver(SinkhornSolver):
    """Unbalanced Sinkhorn iterations (Chizat, Peyre, Schmitzer and Vialard, Mathematics
    of Computation 2018), with the translation of potentials that is best after each
    (Sejourne, Vialard and Peyre, AISTATS 2022).

    The `excess` of potentials is over those of the plan ``p q' exp(-cost / epsilon)``.
    Potentials ask for marginals, ``p exp(-excess / rho)``, and an iteration goes only a
    part of the way there, ``rho / (rho + epsilon)``: that is Sinkhorn's, under-relaxed,
    with masses that change.
    """

    def solve(
        self,
        kernel,
        epsilon,
        start=None,
        *,
        relaxation,
        tol,
        max_iter,
        deadline=NEVER,
    ):
        """As `SinkhornSolver.solve`, but `tol` is for the distance from the marginals
        that the potentials ask for, and the plan is scaled to the geometric mean of its
        mass and ``relaxation.mass``.
        """
        terms = _Terms(self, kernel, epsilon, relaxation)
        now = self._made(kernel, terms, start, deadline)
        n_iter, before = 0, np.inf
        while now is not None:
            found = now.iterate(kernel, self.scalings, self.n_threads)
            n_iter += 1
            late = deadline.passed()
            if not (found and now.drift() <= self.precision.drift):
                potentials = now.potentials() if found else None
                now = self._made(kernel, terms, potentials, deadline)
                if now is not None and (late or n_iter >= max_iter + LOOK_EVERY):
                    now.iterate(kernel, self.scalings, self.n_threads)
                    break
                continue
            if now.error <= MARGIN * tol or n_iter >= max_iter or late:
                break
            if n_iter % LOOK_EVERY == 0:
                still = now.error > STALLED_RATE**LOOK_EVERY * before
                if still and now.error < self.precision.standstill * relaxation.mass:
                    break
                before = now.error
        if now is None:
            return self.vanish(kernel)
        return self._scaled(now, relaxation.mass, n_iter)

    def vanish(self, kernel):
        """The plan without mass."""
        zeros = Potentials(*map(np.zeros, kernel.shape))
        kernel.make(zeros, 1.0, self.q, self.scalings)
        self.scalings.u.fill(0.0)
        nothing = Potentials(*(np.full(size, -np.inf) for size in kernel.shape))
        return LinearSolution(nothing, self.scalings, 0, 0.0)

    def _scaled(self, now, mass, n_iter):
        """The solution, whose plan has the geometric mean of two masses."""
        if not 0 < now.lifted < np.inf:
            raise lost_to_rounding(now.terms.epsilon, self.precision)
        own = np.log(now.lifted) - now.lift
        # Where costs are far above what losing all mass costs, the next plan, of other
        # matches, may be worth having: a thousandth is kept at least.
        scale = max((np.log(mass) + own) / 2, np.log(1e-3 * mass)) - own
        now.scale(self.scalings, scale - now.lift)
        made = now.potentials()
        made = Potentials(made.f + now.terms.epsilon * scale, made.g)
        return LinearSolution(made, self.scalings, n_iter, now.error)

    def _made(self, kernel, terms, start, deadline):
        """Make the kernel of these potentials, or of others that fit it, lifted to a
        mass that the numbers of the kernel hold; returns the `_Standing`, or None where
        the mass is lost for good.
        """
        potentials = terms.filled(start)
        fits = start is not None and terms.are_near(potentials)
        # One attempt is enough but for linear problems that are nowhere near their
        # solution after a round of annealing.
        for _ in range(8):
            if not fits:
                potentials = terms.anneal(kernel, potentials, deadline)
            lift = terms.lift(potentials)
            # Of a mass beyond, the inverse is no number.
            if lift > DOUBLE.peak:
                if not fits:
                    return None
                fits = False
                continue
            lifted = Potentials(potentials.f + lift * terms.epsilon, potentials.g)
            peak = kernel.make(lifted, terms.epsilon, self.q, self.scalings)
            if peak <= self.precision.peak:
                return _Standing(terms, potentials, lift)
            fits = False
        raise lost_to_rounding(terms.epsilon, self.precision)


def lost_to_rounding(epsilon, precision):
    """The error where there are no numbers for a plan."""
    return ValueError(
        "epsilon and rho must be nearer to the costs, and to one another, for this "
        f"unbalanced plan: at an epsilon of {epsilon:.1e} of the largest costs all is "
        f"rounding in {precision.dtype}"
    )


class _Terms:
    """What the iterations of one linear problem need of it; pairs are of rows and of
    columns.
    """

    def __init__(self, solver, kernel, epsilon, relaxation):
        self.epsilon, self.relaxation = epsilon, relaxation
        self.masses, self.logs = (solver.p, solver.q), solver.log_domain
        self.alive = solver.p > 0, solver.q > 0
        base = kernel.separable_potentials
        self._base = base.f - relaxation.shift, base.g
        pairs = zip((self.logs.log_p, self.logs.log_q), self.alive, strict=True)
        # Of points without mass as if that were one.
        self.log_masses = [np.where(alive, log, 0.0) for log, alive in pairs]

    def origins(self, epsilon):
        """Potentials of ``p q' exp(-cost / epsilon)``, zero for points without mass."""
        return [
            np.where(alive, base + epsilon * log, 0.0)
            for base, log, alive in zip(
                self._base, self.log_masses, self.alive, strict=True
            )
        ]

    def damping(self, epsilon):
        """How far an iteration goes, for rows and for columns."""
        return [1.0 / (1.0 + epsilon / rho) for rho in self.relaxation.rho]

    def asked(self, side, excess):
        """Logarithms of the masses that potentials ask for; -inf for those of none."""
        log, alive = (self.logs.log_p, self.logs.log_q)[side], self.alive[side]
        return log - np.where(alive, excess, 0.0) / self.relaxation.rho[side]

    def translation(self, *excess):
        """What the dual objective is best with, added to potentials of rows and taken
        from those of columns: both then ask for the same mass.
        """
        rate = sum(1.0 / rho for rho in self.relaxation.rho)
        if rate == 0.0:
            return 0.0
        rows, cols = (log_total(self.asked(side, excess[side])) for side in (0, 1))
        return float((rows - cols) / rate)

    def lift(self, potentials):
        """Logarithm of what a plan is to be multiplied by to have about the mass of the
        one it was linearized at, where it may be lost in rounding otherwise: below a
        factor of e^-10.
        """
        excess = potentials.f - self.origins(self.epsilon)[0]
        asked = log_total(self.asked(0, excess)) - np.log(self.relaxation.mass)
        return -asked if asked < -10.0 else 0.0

    def filled(self, start):
        """Potentials, with those at hand where a point has none but should have."""
        made = []
        for side, origin in enumerate(self.origins(self.epsilon)):
            given = origin if start is None else (start.f, start.g)[side]
            known = np.where(np.isfinite(given), given, origin)
            made.append(np.where(self.alive[side], known, -np.inf))
        return Potentials(*made)

    def are_near(self, potentials):
        """Whether an iteration may start from there: what potentials ask for is a
        number, and so is what they are scaled by.
        """
        given, origins = (potentials.f, potentials.g), self.origins(self.epsilon)
        return all(
            float(np.abs((x - at)[alive]).max()) <= SINGLE.peak * max(self.epsilon, rho)
            for x, at, alive, rho in zip(
                given, origins, self.alive, self.relaxation.rho, strict=True
            )
        )

    def anneal(self, kernel, potentials, deadline):
        """Potentials after iterations in the log domain, from a large epsilon down."""
        cost, (f, g) = kernel.cost(), (potentials.f, potentials.g)
        spread = kernel.spread() + sum(map(np.ptp, self._base))
        for epsilon in levels(self.epsilon, spread):
            origins, damping = self.origins(epsilon), self.damping(epsilon)
            for _ in range(LEVEL_ITERATIONS):
                before = f
                f = self.logs.fit_rows(cost, g, epsilon)
                f = self._damped(0, f, origins, damping)
                g = self.logs.fit_cols(cost, f, epsilon)
                g = self._damped(1, g, origins, damping)
                moved = self.translation(f - origins[0], g - origins[1])
                f, g = f + moved, g - moved
                if deadline.passed():
                    # Columns with their masses, at least, which nothing overflows by.
                    return Potentials(f, self.logs.fit_cols(cost, f, self.epsilon))
                alive = self.alive[0] & np.isfinite(before)
                if np.abs(f[alive] - before[alive]).max() < SETTLED * epsilon:
                    break
        return Potentials(f, g)

    def _damped(self, side, fitted, origins, damping):
        """Potentials from those with which a side would have its masses."""
        alive, origin = self.alive[side], origins[side]
        excess = np.where(alive, fitted, origin) - origin
        return np.where(alive, origin + damping[side] * excess, -np.inf)


class _Standing:
    """Where iterations on one kernel stand, which was made with these potentials and is
    larger by the exponential of `lift`.

    Attributes
    ----------
    error : float
        L1 distance by which the last iteration scaled the rows: where they are given,
        how far they were from that.
    lifted : float
        Mass of the plan, times that exponential; the error has this unit too.
    """

    def __init__(self, terms, potentials, lift):
        self.terms, self._made_with, self.lift = terms, potentials, lift
        self._damping = terms.damping(terms.epsilon)
        origins = terms.origins(terms.epsilon)
        pairs = zip((potentials.f, potentials.g), origins, terms.alive, strict=True)
        self._excess = [np.where(on, x, at) - at for x, at, on in pairs]
        self._logs = [np.zeros(len(x)) for x in self._excess]
        self.error = self.lifted = np.inf

    def excess(self, side):
        return self._excess[side] + self.terms.epsilon * self._logs[side]

    def potentials(self):
        """Of the plan."""
        epsilon, made = self.terms.epsilon, self._made_with
        return Potentials(
            made.f + epsilon * self._logs[0], made.g + epsilon * self._logs[1]
        )

    def scale(self, scalings, factor):
        """Set scalings of the plan, times the exponential of `factor`: both as large,
        so that neither overflows where the plan does not.
        """
        rows, cols = (
            logs[alive].max()
            for logs, alive in zip(self._logs, self.terms.alive, strict=True)
        )
        shift = (cols - rows - factor) / 2
        self._write(scalings, factor + shift, -shift)

    def _write(self, scalings, *shifts):
        """Set both scalings, times the exponentials of the shifts."""
        given = (scalings.u, scalings.v), self._logs, shifts, self.terms.alive
        for scaling, logs, shift, alive in zip(*given, strict=True):
            scaling[:] = np.where(alive, np.exp(logs + shift), 0.0)

    def drift(self):
        """Largest logarithm of a scaling, without sign."""
        pairs = zip(self._logs, self.terms.alive, strict=True)
        return max(np.abs(logs[alive]).max() for logs, alive in pairs)

    def iterate(self, kernel, scalings, n_threads):
        """One iteration; returns whether no point was lost that should have mass."""
        terms, before, damping = self.terms, self._logs[0], self._damping
        # What overflows shows in the mass.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            given = kernel.rows, self._aim(scalings.u), terms.masses[1]
            given = *given, scalings.u, scalings.v, scalings.sums, damping[0]
            _kernels.sinkhorn_passes(*given, 1, 0.0, n_threads)
            log_sums = np.log(scalings.sums.values) - self.lift
            found = self._take(0, np.log(scalings.u, dtype=np.float64))
            asked = np.exp(terms.asked(0, self.excess(0)) + self.lift)
            self.error = float(asked @ np.abs(np.expm1(before - self._logs[0])))
            fitted = terms.epsilon * (terms.log_masses[1] - log_sums) + self._excess[1]
            made = (damping[1] * fitted - self._excess[1]) / terms.epsilon
            found = self._take(1, made) and found
            self.lifted = float(np.exp(self._logs[1]) @ scalings.sums.values)
            moved = terms.translation(self.excess(0), self.excess(1)) / terms.epsilon
            self._logs = [self._logs[0] + moved, self._logs[1] - moved]
            self._write(scalings, 0.0, 0.0)
        return found and bool(np.isfinite(self.lifted) and self.lifted > 0)

    def _aim(self, u):
        """Masses of rows with which the kernel makes one iteration, and its scalings
        `u`, set for that: it multiplies powers of both with exponents that sum to one,
        and the factor that is wanted is in the one with the larger.
        """
        terms, masses = self.terms, self.terms.masses[0]
        if self._damping[0] >= 0.5:
            # The power of a zero would be taken for a point that was lost.
            asked = terms.asked(0, self.excess(0)) + self.lift
            asked = np.maximum(asked, -MAX_EXPONENT)
            return np.where(terms.alive[0], np.exp(asked), 0.0)
        wanted = np.clip(-self._excess[0] / terms.epsilon, -MAX_EXPONENT, MAX_EXPONENT)
        u[:] = np.where(terms.alive[0], np.exp(wanted), 0.0)
        return masses * np.exp(self.lift)

    def _take(self, side, made):
        """Take the logarithms of scalings, but of points that the kernel has lost;
        returns whether these are negligible: entries that underflow carry less than
        1e-12 of the plan by far.
        """
        alive = self.terms.alive[side]
        asked = np.exp(self.terms.asked(side, self.excess(side)))
        kept = np.isfinite(made) & alive
        self._logs[side] = np.where(kept, made, self._logs[side])
        lost = asked[alive & ~kept].max(initial=0.0)
        return bool(lost <= 1e-12 * asked.sum())

"""Entropic linear problems under any marginal rule, by Sinkhorn iterations that stay finite at any
epsilon.

Two ways of computing the same iteration, and the passage between them:

- *scaling*: with ``K_ij = exp((f_i + g_j - c_ij) / epsilon)`` made once, an iteration is one read
  of K (`kernels.sinkhorn_passes`). Fast, but u and v may leave the range of float32, and what
  underflowed in K is lost.
- *log domain*: f and g by log-sum-exp over the cost, see log_domain.py.

The solver begins in the log domain if it has no potentials or they do not fit, goes on by scaling,
and absorbs u and v into f and g (making the kernel anew) when they drift. A rule enters as data:
anchors and powers of both sides (`MarginalTerms`, in scalings `ScalingMap`).
"""

import time
from typing import NamedTuple

import numpy as np

from ..kernels._judge import next_omega
from ..kernels._rows import ScalingMap
from ..utils.deadline import NEVER
from ..utils.precision import DOUBLE, SINGLE
from ..utils.tuning import DEFAULT
from .gibbs_kernel import Scalings
from .log_domain import LogDomain, Potentials
from .newton import NewtonSteps, StepLimits

# Iterations between two looks at the scalings and at how fast the error falls. On 36 linear
# problems 4 took 14 % more iterations and 16 4 %; in float64 16 took 36 % more.
LOOK_EVERY = 8
# Factor of the error in an iteration above which the error stands still.
STALLED_RATE = 0.99
# Fraction of the tolerance at which iterations stop; the rest is for the rounding of columns.
MARGIN = 0.9
# Seconds of one call of a kernel, at most: deadlines and Ctrl-C are seen between calls only.
LONGEST_CALL = 0.2
# Kernels of one problem under a rule, at most: potentials may move beyond their numbers again.
MOST_KERNELS = 16
# Fraction of its mass that an unbalanced plan keeps at least from one problem to the next.
KEPT_MASS = 1e-3
# Over-relaxation at most: best at a plain rate of .9994. An omega of two diverges.
MAX_OMEGA = 1.95


class LinearSolution(NamedTuple):
    """Solution of a linear problem.

    `potentials` belong to the plan, and start the next problem; `scalings` belong to the kernel,
    until the solver is used again. `error` is the change of row sums in the last iteration,
    under a rule with free marginals.
    """

    potentials: Potentials
    scalings: Scalings
    n_iter: int
    error: float = np.nan


class SinkhornSolver:
    """Solves linear problems of one size under a marginal rule. All solutions use the same
    `scalings`, one after the other.
    """

    def __init__(self, rule, n_threads, precision=SINGLE, tuning=DEFAULT):
        self.rule, self.p, self.q = rule, rule.p, rule.q
        self.precision, self.tuning = precision, tuning
        self.scalings = Scalings(len(rule.p), len(rule.q), precision.dtype)
        self.log_domain = LogDomain(rule.p, rule.q, n_threads)

    def solve(self, kernel, epsilon, start=None, *, tol, max_iter, deadline=NEVER, relaxation=None):
        """Return the `LinearSolution` for a kernel; `start` are the `Potentials` of a problem
        nearby, or None.

        Iterations end when the L1 error of the marginals, or with free marginals the L1 change of
        row sums, is below `tol`, after `max_iter` of them, or when the deadline has passed. An
        unbalanced plan is scaled to the geometric mean of its mass and ``relaxation.mass``.
        """
        problem = _Problem(self, kernel, epsilon, deadline, relaxation)
        if not problem.begin(start):
            return self.vanish(kernel)
        given, limit, scalings = problem.given, self.precision.max_log_scaling, self.scalings
        # Changes of caps yet to come add up.
        aim = tol / 3 if problem.terms.mass else MARGIN * tol
        omega, before, newton, n_iter, n_made, pace = 1.0, np.inf, None, 0, 0, 0.0
        if given and self.tuning.newton:
            newton = NewtonSteps(kernel.shape, self.precision, self.tuning.iterated_from)
        while True:
            n_next = LOOK_EVERY - n_iter % LOOK_EVERY if n_iter else 1
            n_next = min(n_next, max_iter - n_iter)
            if omega != 1.0 and n_iter + n_next == max_iter:
                n_next -= 1  # only a plain iteration leaves the columns exact
            if n_next * pace > LONGEST_CALL:
                n_next = max(int(LONGEST_CALL / pace), 1)
            began = time.perf_counter()
            error, done = problem.iterate(omega, n_next, aim)
            n_iter += done
            # Close is False for NaN: a broken kernel is seen right below, as a drift. Under a rule
            # the first change of rows is no bound for the columns.
            close, late = error <= aim and (given or n_iter > 1), deadline.passed()
            if self.rule.is_direct or n_iter >= max_iter or ((close or late) and omega == 1.0):
                break
            pace = (time.perf_counter() - began) / max(done, 1)
            if close or late or n_iter + 1 == max_iter:
                omega = 1.0
            elif n_iter == 1 or n_iter % LOOK_EVERY == 0:
                if problem.drift() > limit:
                    n_made += 1
                    if not given and n_made > MOST_KERNELS:
                        break
                    if not problem.renew():
                        return self.vanish(kernel)
                    omega, before = 1.0, np.inf
                    continue
                rate = (error / before) ** (1.0 / LOOK_EVERY)
                if newton is not None:
                    # Three iterations are left for the plan after a step to have its columns.
                    limits = StepLimits(max_iter - n_iter - 3, aim, deadline)
                    if newton.pays(error, rate, pace, limits):
                        n_iter += newton.take(kernel, self.p, self.q, scalings, error, limits)
                        omega, before = 1.0, np.inf
                        continue
                if error < self.precision.stall_error * problem.unit and rate > STALLED_RATE:
                    break
                before = max(error, np.finfo(np.float64).tiny)
                if newton is not None:
                    omega = next_omega(omega, rate, MAX_OMEGA)
        if problem.drift() > 2 * limit:
            # Scalings that ran away since the last look must not reach the plan.
            if not problem.renew():
                return self.vanish(kernel)
            problem.iterate(1.0, 1, 0.0)
            if given and problem.drift() == np.inf:
                # The potentials are far from the solution; their plan has the columns at least.
                problem.renew()
        return LinearSolution(problem.finish(), scalings, n_iter, error)

    def vanish(self, kernel):
        """Return the plan without mass."""
        kernel.make(Potentials(*map(np.zeros, kernel.shape)), 1.0, self.scalings)
        self.scalings.u.fill(0.0)
        nothing = Potentials(*(np.full(size, -np.inf) for size in kernel.shape))
        return LinearSolution(nothing, self.scalings, 0, 0.0)


class _Problem:
    """A linear problem and the potentials that its kernel is made with.

    A damped plan whose mass is below the numbers of its kernel is lifted: multiplied, with `p` and
    `q`, by ``exp(lift)``.
    """

    def __init__(self, solver, kernel, epsilon, deadline, relaxation):
        self.solver, self.kernel, self.epsilon = solver, kernel, epsilon
        self.deadline, self.relaxation = deadline, relaxation
        self.p, self.q, self.lift, self.translation = solver.p, solver.q, 0.0, 0.0
        self.unit = relaxation.mass if relaxation else 1.0
        self.separable, self.rule, self.is_annealed = kernel.separable_potentials, None, False
        self.terms, self.given = self._terms_at(epsilon), not solver.rule.has_free_marginals

    def _terms_at(self, epsilon):
        return self.solver.rule.terms(self.separable, epsilon, self.relaxation)

    def begin(self, start):
        """Make the first kernel; return False if the plan has no mass."""
        solver, separable = self.solver, self.separable
        if start is not None and self.terms.mass:
            start = start.moved(separable)
            self.translation = start.translation
        if start is not None and self.relaxation:
            start, near = self._anchored(start)
            if not near:
                start = self._annealed(start, self._spread())
        elif start is not None:
            start = self._mended(start)
        if start is None:
            start = Potentials(*map(np.zeros, self.kernel.shape)) if self.given else separable
            spread = self._spread()
            if spread > solver.precision.max_cold_spread * self.epsilon:
                start = self._annealed(start, 0.0 if solver.rule.is_direct else spread)
        return self._make(start)

    def _anchored(self, potentials):
        """Return potentials with the anchors of points that have none, and whether scalings and the
        masses that potentials ask for are within numbers.
        """
        near, sides = True, []
        for side, x, mass, _ in self._sides(potentials):
            if side.anchor is not None:
                x = np.where(np.isfinite(x), x, side.anchor)
                room = (
                    SINGLE.max_exponent * self.epsilon * max(1.0, side.power / (1.0 - side.power))
                )
                near = near and (np.abs(x - side.anchor) <= room)[mass > 0].all()
            sides.append(x)
        return Potentials(*sides), near

    def _mended(self, potentials):
        """Return potentials whose points with mass all have finite values, by one log-sum-exp; None
        if most are lost: the potentials did not fit the cost, and its kernel overflowed.
        """
        log_domain, cost, epsilon = self.solver.log_domain, self.kernel.cost, self.epsilon
        if 0.0 < log_domain.lost(potentials) < 0.5:
            potentials = log_domain.mended(cost(), potentials, epsilon, self.terms)
        return None if log_domain.lost(potentials) > 0.0 else potentials

    def _spread(self):
        """Return how far potentials may have to move."""
        spread = self.kernel.spread()
        return (
            spread if self.given else spread + np.ptp(self.separable.f) + np.ptp(self.separable.g)
        )

    def _annealed(self, potentials, spread):
        if not np.isfinite(spread):
            self._lose()
        cost, terms_at = self.kernel.cost(), self._terms_at
        potentials, self.translation = self.solver.log_domain.anneal(
            cost, potentials, self.epsilon, spread, terms_at, self.deadline
        )
        self.is_annealed = True
        return potentials

    def _make(self, potentials):
        """Make the kernel of potentials, or of others if they do not fit; return False if the plan
        has no mass.
        """
        precision, kernel, given = self.solver.precision, self.kernel, self.given
        for attempt in range(3):
            placed, peak = potentials if given else self._placed(potentials), np.inf
            if placed is not None:
                q = self.q if given else None
                peak = kernel.make(placed, self.epsilon, self.solver.scalings, q)
            elif attempt:
                return False
            fits, total = peak <= precision.max_exponent, 1.0
            if fits and self.terms.mass:
                # The kernel of a plan that is scaled to its mass must not underflow as a whole.
                total = float(kernel.row_sums(self.solver.scalings).sum())
            if (fits and total > 0.0) or (given and attempt):
                break
            # The potentials do not fit this cost; of given marginals the peak says by how much.
            spread = peak * self.epsilon if given and peak < np.inf else self._spread()
            potentials = self._annealed(potentials, spread * kernel.anneals)
        else:
            self._lose()
        self.potentials = placed
        if not given:
            self._bind(total)
        return True

    def _sides(self, x):
        """Return the operator of the rule, potentials x, masses and translation of each side."""
        terms, solver = self.terms, self.solver
        return (terms.rows, x.f, solver.p, self.translation), (terms.columns, x.g, solver.q, 0.0)

    def _placed(self, potentials):
        """Return potentials within the anchors, lifted if need be; None if the plan is too small to
        be lifted. Points that ask for a negligible mass after iterations lose it.
        """
        placed, masses, totals, self.lift = [], [], [], 0.0
        for side, x, mass, translation in self._sides(potentials):
            if side.power in (0.0, 1.0):
                x = side.apply(x if side.power else np.where(mass > 0, 0.0, -np.inf), translation)
            else:
                rho = self.epsilon * side.power / (1.0 - side.power)
                with np.errstate(over="ignore"):
                    asked = mass * np.exp(np.where(mass > 0, side.anchor - x, 0.0) / rho)
                totals.append(asked.sum())
                if self.rule is not None:
                    mass = np.where(asked > 1e-30 * totals[-1], mass, 0.0)
            placed.append(x)
            masses.append(mass)
        if totals:
            with np.errstate(divide="ignore"):
                least = np.log(min(totals) / self.unit)
            if not (least > -DOUBLE.max_exponent and max(totals) < np.inf):
                self.p, self.q = self.solver.p, self.solver.q
                return Potentials(*placed) if self.deadline.passed() else None
            # Factors below e^-10 may be lost in rounding.
            self.lift = -least if least < -10.0 else 0.0
        self.p, self.q = masses if self.lift == 0.0 else (x * np.exp(self.lift) for x in masses)
        return Potentials(placed[0] + self.lift * self.epsilon, placed[1])

    def _bind(self, total):
        """Make the `ScalingMap` of the scalings of this kernel, whose plan has the mass `total`."""
        terms, epsilon, scalings, anchors = self.terms, self.epsilon, self.solver.scalings, []
        most = 700.0 if self.solver.precision is DOUBLE else 85.0
        lifts = self.lift * epsilon, 0.0
        masses = self.p, self.q
        for (side, x, _, translation), mass, lift in zip(
            self._sides(self.potentials), masses, lifts, strict=True
        ):
            if side.anchor is not None:
                weight, alive = 1.0 if side.power == 1.0 else 1.0 - side.power, mass > 0
                logs = np.where(alive, side.anchor + translation + lift - x, 0.0) * (
                    weight / epsilon
                )
                anchors.append(np.where(alive, np.exp(np.clip(logs, -most, most)), 0.0))
            else:
                anchors.append(None)
        self.rule = ScalingMap(
            *anchors, terms.rows.power, terms.columns.power, terms.mass, terms.rate
        )
        if terms.mass:
            # Caps that are too low rise at once, caps that are too high fall by little.
            scalings.u *= self.rule.scale(terms.mass / total)

    def iterate(self, omega, most, tol):
        scalings = self.solver.scalings
        return self.kernel.iterate(self.p, self.q, scalings, omega, most, tol, self.rule)

    def drift(self):
        return self.solver.scalings.max_log_scaling(self.p, self.q)

    def _absorbed(self):
        scalings = self.solver.scalings
        absorbed = self.potentials.absorb(scalings.u, scalings.v, self.epsilon)
        if self.rule is None or not self.terms.mass:
            return absorbed
        translation = self.translation + self.epsilon * np.log(self.rule.factor)
        return absorbed._replace(separable=self.separable, translation=translation)

    def renew(self):
        """Make the kernel anew around potentials that have moved; False if the plan has no mass."""
        absorbed = self._absorbed()
        self.translation = absorbed.translation
        if self.lift:
            absorbed = Potentials(absorbed.f - self.lift * self.epsilon, absorbed.g)
        mended = self._mended(absorbed)
        if mended is None:
            # Annealing has not come near enough if its potentials are lost: go on where it ended.
            anneals = self.kernel.anneals and not self.is_annealed
            mended = self._annealed(self.potentials, self.kernel.spread() * anneals)
        return self._make(mended)

    def finish(self):
        """Return the potentials of the plan, scaled if it is unbalanced."""
        scalings, solver = self.solver.scalings, self.solver
        if not (self.given or solver.rule.is_direct):
            with np.errstate(invalid="ignore"):
                mass = float(scalings.v @ scalings.sums.values)
            if not 0.0 < mass < np.inf:
                self._lose()
            if self.relaxation is not None:
                # Where costs are far above the price of all mass the next plan, of other matches,
                # may be worth having.
                own, unit = np.log(mass) - self.lift, np.log(self.unit)
                wanted = max((unit + own) / 2, np.log(KEPT_MASS) + unit)
                # Half on either side, so that neither leaves its range.
                for x in (scalings.u, scalings.v, scalings.sums.values):
                    x *= np.exp((wanted - np.log(mass)) / 2)
        return self._absorbed()

    def _lose(self):
        """Raise the error of a plan that has no numbers; OutOfTime if annealing was cut short."""
        self.deadline.check()
        raise lost_to_rounding(self.epsilon, self.solver.precision)


class LostToRounding(ValueError):
    """A plan has no numbers, as its epsilon is too small."""


def lost_to_rounding(epsilon, precision):
    """Return the error of a plan that has no numbers."""
    return LostToRounding(
        "epsilon and rho must be nearer to the costs, and to one another, for this plan: at an "
        f"epsilon of {epsilon:.1e} of the largest costs all is rounding in {precision.dtype}"
    )


def in_units(epsilon, scale, precision=SINGLE):
    """Return `epsilon` in units of `scale` that make the costs of order one; raise ValueError if
    it is too small for the precision to tell costs apart at all.
    """
    least = precision.min_epsilon
    if epsilon < least * scale:
        raise ValueError(
            f"epsilon must be at least {least * scale:.1e}, {least} of the largest "
            f"costs, got {epsilon}"
        )
    # Float32 holds numbers up to 3e38; from far less on the plan is the product plan.
    return min(epsilon / scale, 1e30)

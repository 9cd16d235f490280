"""Which masses a plan must have: one class a rule, which knows its solver, its error, and whether
a marginal is free. The rule `Unbalanced` is in unbalanced.py; rules.py has the names.

Where a marginal is free the separable terms of the linearized cost matter: they are in
the `separable_potentials` of a kernel.
"""

import dataclasses
from typing import ClassVar

import numpy as np

from ..kernels import _kernels
from ..utils.deadline import NEVER
from ..utils.precision import SINGLE
from ..utils.trees import as_saved
from .log_domain import Potentials, log_total
from .sinkhorn_solver import LinearSolution, SinkhornSolver

# Mass that a plan lacks by rounding, as a fraction of all.
ROUNDING = 1e-14
# Relative change of scalings at which the iterations of a partial plan end, as a
# fraction of the error of the marginals that is allowed: changes yet to come add up.
STEP = 1.0 / 3.0
# Excess of a side's mass over that of a partial plan, as a fraction, that is none.
ALL_MOVES = 1e-9
# What scalings without a cap begin at where all are capped at one.
FAR_BELOW = 1e-12


@dataclasses.dataclass(frozen=True, eq=False)
class Balanced:
    """Both marginals are given, `p` (n,) and `q` (m,) in float64, with the `mass` of
    the plan; `rho` is what a plan pays for other row and column sums, where it may.
    """

    name: ClassVar = "balanced"
    has_free_marginals: ClassVar = False
    takes_q: ClassVar = True
    takes_mass: ClassVar = False
    is_relaxed: ClassVar = False
    # What epsilon is multiplied by in the linear problem at the product plan.
    entropy_weight: ClassVar = 1.0

    p: np.ndarray
    q: np.ndarray
    mass: float = 1.0
    rho: tuple[float, float] | None = None

    @classmethod
    def of(cls, p, q, mass=1.0):
        """The rule for these masses, or a simpler one that is the same."""
        return cls(p, q, mass)

    def balanced(self):
        """The rule with both marginals given, of one total."""
        return Balanced(self.p / self.p.sum(), self.q / self.q.sum())

    def bounded(self, cost, precision):
        """The rule for costs of this size, its prices within what is computable."""
        return self

    def product(self):
        """Marginals of the product plan, which is their product over its mass."""
        if self.mass == 1.0:
            return self.p, self.q
        return self.mass * self.p, self.mass * self.q

    def plan_mass(self, rows):
        """What changes of a plan with these row sums are measured by."""
        return self.mass

    def penalty(self, rows, cols):
        """What these marginals add to the objective."""
        return 0.0

    def regularized(self, gw_cost, epsilon, entropy, rows, cols):
        """The objective with the entropy of a plan with these marginals."""
        return gw_cost - 2 * epsilon * entropy

    def error(self, rows, cols):
        """How far these marginals of a plan are from what they must be, in L1."""
        return _kernels.deviation(rows, self.p) + _kernels.deviation(cols, self.q)

    def asked(self):
        """What results say of the marginals that they were asked for."""
        return {"marginals": self.name, "p": self.p, "q": self.q}

    def solver(self, n_threads, precision=SINGLE):
        """What solves linear problems under this rule."""
        return SinkhornSolver(self.p, self.q, n_threads, precision)

    def mend(self, plan):
        """A plan (n, m) near this one that has these marginals up to rounding: rows,
        then columns are cut down to theirs, and what is lacking is shared out
        (Altschuler, Weed and Rigollet, NIPS 2017, algorithm 2).
        """
        plan, least = np.maximum(plan, 0.0), 1e-300  # in place of a sum of nothing
        plan *= self.mass / max(plan.sum(), least)
        for axis, masses in ((1, self.p), (0, self.q)):
            sums = np.maximum(plan.sum(axis=axis, keepdims=True), least)
            plan *= np.minimum(np.expand_dims(masses, axis) / sums, 1.0)
        rows = np.maximum(self.p - plan.sum(axis=1), 0.0)
        cols = np.maximum(self.q - plan.sum(axis=0), 0.0)
        lacking = self.mass - plan.sum()
        # Rounding would leave no entry of a sparse plan zero.
        if lacking > ROUNDING * self.mass:
            lacking /= max(rows.sum() * cols.sum(), least)
            plan += np.multiply.outer(rows, cols) * lacking
        return plan

    def take(self, rows, cols):
        """The rule for some of the points, their masses scaled to one."""
        p, q = self.p[rows], self.q[cols]
        return dataclasses.replace(self, p=p / p.sum(), q=q / q.sum())


class Semirelaxed(Balanced):
    """Only `p` is given; what the columns receive is free."""

    name, has_free_marginals, takes_q = "semirelaxed", True, False

    def error(self, rows, cols):
        return float(np.abs(rows - self.p).sum())

    def mend(self, plan):
        plan = np.maximum(plan, 0.0)
        sums = plan.sum(axis=1, keepdims=True)
        plan = np.where(sums > 0, plan, 1.0)
        return plan * (self.p[:, None] / plan.sum(axis=1, keepdims=True))

    def solver(self, n_threads, precision=SINGLE):
        return SemirelaxedSolver(self.p, self.q, n_threads, precision)


class Partial(Balanced):
    """Plans of a given mass within larger marginals: ``T 1 <= p``, ``T' 1 <= q``."""

    name, has_free_marginals, takes_mass = "partial", True, True

    @classmethod
    def of(cls, p, q, mass=1.0):
        # All mass of both sides may have to move.
        moves = max(p.sum(), q.sum()) <= (1.0 + ALL_MOVES) * mass
        return Balanced(p, q, mass) if moves else cls(p, q, mass)

    def error(self, rows, cols):
        pairs = (rows, self.p), (cols, self.q)
        excess = sum(np.maximum(sums - most, 0.0).sum() for sums, most in pairs)
        return float(excess + abs(rows.sum() - self.mass))

    def solver(self, n_threads, precision=SINGLE):
        return PartialSolver(self.p, self.q, n_threads, precision, self.mass)


class SemirelaxedSolver(SinkhornSolver):
    """Fits the masses of one side only, rows (0) or columns (1), which takes no iteration."""

    def __init__(self, p, q, n_threads, precision, side=0):
        super().__init__(p, q, n_threads, precision)
        self.side = side

    def solve(self, kernel, epsilon, start=None, **limits):
        base = kernel.separable_potentials
        # A point without mass has none, whatever a plan before may be taken for.
        f = np.where(self.p > 0, base.f, -np.inf)
        g = np.where(self.q > 0, base.g, -np.inf)
        if self.side == 0:
            f = self.log_domain.fit_rows(kernel.cost(), g, epsilon)
        else:
            g = self.log_domain.fit_cols(kernel.cost(), f, epsilon)
        potentials, scalings = Potentials(f, g), self.scalings
        kernel.make(potentials, epsilon, self.q, scalings)
        # What rounding has left is taken away exactly.
        made, masses = kernel.row_sums(scalings), (self.p, self.q)[self.side]
        if self.side == 1:
            made = kernel.column_sums(made, scalings)
        scaling = (scalings.u, scalings.v)[self.side]
        np.divide(masses, made, out=scaling, where=made > 0, casting="same_kind")
        potentials = potentials.absorb(scalings.u, scalings.v, epsilon)
        return LinearSolution(potentials, scalings, 1)

    def error(self, rows, cols):
        """Of the side that is fitted."""
        sums, masses = (rows, self.p) if self.side == 0 else (cols, self.q)
        return float(np.abs(sums - masses).sum())


@dataclasses.dataclass(frozen=True, eq=False)
class PartialPotentials(Potentials):
    """Potentials, and the logarithms of scalings, which start the next problem."""

    log_u: np.ndarray
    log_v: np.ndarray


def restored_potentials(saved, shape):
    """The `Potentials` that `export` described, for a problem of this shape."""
    for name, array in saved.items():
        as_saved(array, (shape[name in ("g", "log_v")],), np.float64)
    return (PartialPotentials if "log_u" in saved else Potentials)(**saved)


class PartialSolver(SinkhornSolver):
    """Plans of a given mass within larger marginals.

    Dykstra's projections onto the three constraints (Chapel, Alaya and Gasso, NeurIPS 2020;
    Benamou et al., SIAM J. Sci. Comput. 2015) keep to plans ``s diag(u) K diag(v)`` with u and v
    at most one: the scalings of Sinkhorn, with a cap. A side of which all moves has none, which
    would let its scalings grow by little in an iteration.
    """

    def __init__(self, p, q, n_threads, precision, mass=1.0):
        super().__init__(p, q, n_threads, precision)
        self.mass, least = mass, (1.0 + ALL_MOVES) * mass
        # Of logarithms of scalings.
        self._caps = [np.inf if x.sum() <= least else 0.0 for x in (self.p, self.q)]

    def solve(self, kernel, epsilon, start=None, *, tol, max_iter, deadline=NEVER):
        logs = np.zeros(len(self.p)), np.zeros(len(self.q))
        if isinstance(start, PartialPotentials):
            logs = start.log_u, start.log_v
        base, room = kernel.separable_potentials, self.precision.peak * epsilon
        fits = kernel.spread() + np.ptp(base.f) + np.ptp(base.g) < room
        solve = self._scale if fits else self._iterate
        given = kernel, epsilon, logs, STEP * tol, max_iter, deadline
        # What moves beyond the range has moved by any amount.
        with np.errstate(over="ignore"):
            potentials, n_iter = solve(*given)
        return LinearSolution(potentials, self.scalings, n_iter)

    def _scale(self, kernel, epsilon, logs, tol, max_iter, deadline):
        base, scalings = kernel.separable_potentials, self.scalings
        # So that no exponent is above zero.
        top = base.f.max() + base.g.max() - kernel.least()
        potentials = Potentials(base.f - top, base.g)
        kernel.make(potentials, epsilon, self.q, scalings)
        u, v, sums = scalings.u, scalings.v, scalings.sums
        np.copyto(u, np.exp(logs[0]), casting="same_kind")
        np.copyto(v, np.exp(logs[1]), casting="same_kind")
        for x, cap in zip((u, v), self._caps, strict=True):
            if cap > 0.0:
                x *= FAR_BELOW / x.max()
        total = float(kernel.row_sums(scalings).sum())
        if not total > np.finfo(u.dtype).tiny:  # scalings that start from nothing
            return self._iterate(kernel, epsilon, logs, tol, max_iter, deadline)
        scale = self.mass / total
        n_iter, moved = 0, np.inf
        while moved > tol and n_iter < max_iter:
            before = u.copy(), v.copy(), scale
            masses = self.p / scale, self.q / scale
            kernel.iterate(*masses, scalings, 1.0, 1, 0.0, cap=1.0)
            scale = self.mass / float(v @ sums.values)
            n_iter += 1
            moved = max(_moved(u, before[0]), _moved(v, before[1]), abs(scale / before[2] - 1.0))
            if deadline.passed():
                break
        with np.errstate(divide="ignore"):
            logs = np.log(u, dtype=np.float64), np.log(v, dtype=np.float64)
        u *= scale
        made = potentials.absorb(u, v, epsilon)
        return PartialPotentials(made.f, made.g, *logs), n_iter

    def _iterate(self, kernel, epsilon, logs, tol, max_iter, deadline):
        """In the log domain, where entries of the kernel would be lost."""
        cost, base = kernel.cost(), kernel.separable_potentials
        row_base, col_base = base.f / epsilon, base.g / epsilon
        (log_u, log_v), log_scale = logs, np.log(self.mass)
        log_p, log_q = self.log_domain.log_p, self.log_domain.log_q
        n_iter, moved = 0, np.inf
        while moved > tol and n_iter < max_iter:
            before = log_u, log_v, log_scale
            g = epsilon * (col_base + log_v)
            rows = row_base + self.log_domain.rows(cost, g, epsilon)
            if n_iter == 0:  # the first plan has the mass, too
                log_scale = np.log(self.mass) - log_total(log_u + rows)
            log_u = np.minimum(log_p - log_scale - rows, self._caps[0])
            f = epsilon * (row_base + log_u)
            cols = col_base + self.log_domain.cols(cost, f, epsilon)
            log_v = np.minimum(log_q - log_scale - cols, self._caps[1])
            log_scale = np.log(self.mass) - log_total(log_v + cols)
            n_iter += 1
            pairs = zip((log_u, log_v, log_scale), before, strict=True)
            moved = max(_moved_logarithms(now, old) for now, old in pairs)
            if deadline.passed():
                break
        # What has no cap is brought below the one of the next problem.
        over = max(log_u.max(), 0.0), max(log_v.max(), 0.0)
        log_u, log_v, log_scale = (log_u - over[0], log_v - over[1], log_scale + sum(over))
        f = epsilon * (row_base + log_u + log_scale)
        g = epsilon * (col_base + log_v)
        peak = kernel.make(Potentials(f, g), epsilon, self.q, self.scalings)
        if not peak <= self.precision.peak:
            raise ValueError(
                f"epsilon must be larger for this partial plan: at {epsilon:.1e} of "
                f"the largest costs all is rounding in {self.precision.dtype}"
            )
        return PartialPotentials(f, g, log_u, log_v), n_iter


def _moved(now, before):
    """Largest relative change of a scaling."""
    alive = before > 0
    return float(np.abs(now[alive] / before[alive] - 1.0).max(initial=0.0))


def _moved_logarithms(now, before):
    """Largest relative change of a scaling, by the logarithms."""
    with np.errstate(invalid="ignore", over="ignore"):
        change = np.subtract(now, before)
        # A scaling that stays zero changes by NaN, which these two pass over.
        most, least = np.fmax.reduce(change, None), np.fmin.reduce(change, None)
        return float(np.fmax(np.fmax(np.expm1(most), -np.expm1(least)), 0.0))

"""Marginal rules: the masses that a plan must have, may have, or pays for.

A rule is data. It knows its error, its penalty and, of a linear problem, how potentials that fit
the masses exactly become potentials of the rule (`MarginalTerms`); all rules share one solver.

Of unbalanced problems the penalties are divergences of products (Sejourne, Vialard and Peyre,
NeurIPS 2021, section 2), ``KL2(a | b) = KL(a x a | b x b)``, also for the entropy:

    sum L T T + rho_x KL2(T 1 | p) + rho_y KL2(T' 1 | q) + epsilon KL2(T | p q')

With two plans in it, T and T0, the objective is linear in each but for divergences of that plan,
weighted by the mass of the other, and a number times its mass (their Algorithm 1).
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..results.records import Masses
from ..utils.precision import FloatPrecision
from ..utils.types import Float64Array, FloatArray
from ..utils.validation import MASS_TOLERANCE, as_marginal, as_masses
from .marginals import Partial, Unbalanced, as_marginals

if TYPE_CHECKING:
    from .log_domain import Potentials


# Excess of the mass of a side over the mass of a partial plan, relative, that is rounding.
ALL_MOVES = 1e-9
# Mass of a plan, relative to the first plan, that counts as none: float32 on 1e18 entries.
VANISHED = 1e-20


class MarginalProx(NamedTuple):
    """The map of a rule from potentials x that fit the masses of a side exactly: their
    minimum with `anchor` if `power` is one, else ``anchor + power * (x - anchor)``.
    """

    power: float = 1.0
    anchor: np.ndarray | None = None

    def apply(self, fitting: Float64Array, shift: float = 0.0) -> Float64Array:
        """Return the potentials of the rule, for an anchor that is higher by `shift`."""
        if self.anchor is None:
            return fitting
        if self.power == 1.0:
            return np.minimum(fitting, self.anchor + shift)
        # A point without mass has the potential -inf, for any anchor.
        offset = np.where(np.isfinite(fitting), fitting - self.anchor, 0.0)
        return np.where(fitting == -np.inf, fitting, self.anchor + self.power * offset)


class MarginalTerms(NamedTuple):
    """A linear problem of a rule, less its cost: both sides, the `mass` that its plan must have
    (0 if any), and `rate`, the sum of epsilon / rho, if each iteration ends with the best
    translation of the potentials (Sejourne, Vialard and Peyre, AISTATS 2022), else 0.
    """

    rows: MarginalProx
    columns: MarginalProx
    mass: float = 0.0
    rate: float = 0.0


class Relaxation(NamedTuple):
    """An unbalanced linear problem, less its cost, in units of that cost: the prices of both
    marginals and of a unit of mass, and the mass of the plan it was linearized at.
    """

    rho: tuple[float, float]
    shift: float
    mass: float


def relative_entropy(a: Float64Array, b: Float64Array) -> float:
    """Return ``sum a log(a / b)``, 0 where `a` is."""
    alive = (a > 0) & (b > 0)  # sums of points without mass are rounding
    return float(a[alive] @ np.log(a[alive] / b[alive]))


def _product_divergence(divergence: float, mass: float, reference: float) -> float:
    """Return ``KL(a x a | b x b)`` of measures with these masses, from ``KL(a | b)``."""
    return 2.0 * mass * divergence + (mass - reference) ** 2


@dataclasses.dataclass(frozen=True, eq=False)
class Balanced:
    """Both marginals are given, `p` (n,) and `q` (m,) in float64, with the `mass` of the plan;
    `rho` are the prices of other marginals, for rules that have them.
    """

    name: ClassVar[str] = "balanced"
    has_free_marginals: ClassVar[bool] = False
    takes_q: ClassVar[bool] = True
    takes_mass: ClassVar[bool] = False
    is_relaxed: ClassVar[bool] = False
    # True if one iteration solves a linear problem.
    is_direct: ClassVar[bool] = False

    p: Float64Array
    q: Float64Array
    mass: float = 1.0
    rho: tuple[float, float] | None = None

    @property
    def entropy_weight(self) -> float:
        """Factor of epsilon in the linear problem at the product plan."""
        return 1.0

    @classmethod
    def of(cls, p: Float64Array, q: Float64Array, mass: float = 1.0) -> Balanced:
        """Return the rule for these masses, or a simpler one that is the same."""
        return cls(p, q, mass)

    def balanced(self) -> Balanced:
        """Return the rule with both marginals given, of total one."""
        return Balanced(self.p / self.p.sum(), self.q / self.q.sum())

    def bounded(self, cost: float, precision: FloatPrecision) -> Balanced:
        """Return the rule for costs of this size, with prices that can be computed."""
        return self

    def asked(self) -> Masses:
        """Return the `Masses` of results."""
        return Masses(self.name, self.p, self.q, self.mass, self.rho)

    def product(self) -> tuple[Float64Array, Float64Array]:
        """Return the marginals of the product plan, which is their product over its mass."""
        return self.p * (self.mass / self.p.sum()), self.q * (self.mass / self.q.sum())

    def plan_mass(self, rows: Float64Array) -> float:
        """Return the mass that changes of a plan with these row sums are relative to."""
        return self.mass

    def penalty(self, rows: Float64Array, cols: Float64Array) -> float:
        """Return what these marginals add to the objective."""
        return 0.0

    def regularized(
        self, gw_cost: float, epsilon: float, entropy: float, rows: Float64Array, cols: Float64Array
    ) -> float:
        """Return the objective with the entropy of a plan that has these marginals."""
        return gw_cost - 2 * epsilon * entropy

    def error(self, rows: Float64Array, cols: Float64Array) -> float:
        """Return the L1 distance of these marginals from the masses."""
        return float(np.abs(rows - self.p).sum() + np.abs(cols - self.q).sum())

    def terms(self, separable: Potentials) -> MarginalTerms:
        """Return the `MarginalTerms` of a linear problem whose cost lacks minus the `separable`
        potentials.
        """
        return MarginalTerms(MarginalProx(), MarginalProx())

    def take(self, rows: NDArray[Any], cols: NDArray[Any]) -> Balanced:
        """Return the rule for some of the points, their masses scaled to one."""
        p, q = self.p[rows], self.q[cols]
        return dataclasses.replace(self, p=p / p.sum(), q=q / q.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Semirelaxed(Balanced):
    """Only `p` is given and column sums are free; or only `q`, if `side` is 1, as in the half
    steps of alternating projections.
    """

    name, has_free_marginals, takes_q, is_direct = "semirelaxed", True, False, True
    side: int = 0

    def error(self, rows: Float64Array, cols: Float64Array) -> float:
        sums, masses = (cols, self.q) if self.side else (rows, self.p)
        return float(np.abs(sums - masses).sum())

    def terms(self, separable: Potentials) -> MarginalTerms:
        free = MarginalProx(0.0, separable.f if self.side else separable.g)
        return (
            MarginalTerms(free, MarginalProx())
            if self.side
            else MarginalTerms(MarginalProx(), free)
        )


class PartialRule(Balanced):
    """Plans of a given mass within larger marginals: ``T 1 <= p``, ``T' 1 <= q``. Linear problems
    are solved by Dykstra's projections onto the three constraints (Chapel, Alaya and Gasso,
    NeurIPS 2020; Benamou et al., SIAM J. Sci. Comput. 2015), which are scalings with caps.
    """

    name, has_free_marginals, takes_mass = "partial", True, True

    @classmethod
    def of(cls, p: Float64Array, q: Float64Array, mass: float = 1.0) -> Balanced:
        moves = max(p.sum(), q.sum()) <= (1.0 + ALL_MOVES) * mass
        return Balanced(p, q, mass) if moves else cls(p, q, mass)

    def error(self, rows: Float64Array, cols: Float64Array) -> float:
        excess = np.maximum(rows - self.p, 0.0).sum() + np.maximum(cols - self.q, 0.0).sum()
        return float(excess + abs(rows.sum() - self.mass))

    def terms(self, separable: Potentials) -> MarginalTerms:
        # A side whose mass all moves has no cap: its scalings would grow by little each time.
        all_moves = (1.0 + ALL_MOVES) * self.mass
        rows, columns = (
            MarginalProx() if masses.sum() <= all_moves else MarginalProx(1.0, anchor)
            for masses, anchor in ((self.p, separable.f), (self.q, separable.g))
        )
        return MarginalTerms(rows, columns, mass=self.mass)


class UnbalancedRule(Balanced):
    """Marginals may be missed at the prices `rho`, in units of cost and infinite where a marginal
    is given, times a Kullback-Leibler divergence. Totals are any: the `mass` of the plan that
    solvers begin with is their geometric mean.
    """

    name, has_free_marginals, is_relaxed = "unbalanced", True, True
    rho: tuple[float, float]

    @classmethod
    def priced(cls, p: Float64Array, q: Float64Array, rho: tuple[float, float]) -> UnbalancedRule:
        """Return the rule for these masses, of any totals."""
        return cls(p, q, float(np.sqrt(p.sum() * q.sum())), rho)

    @property
    def entropy_weight(self) -> float:
        return self.mass

    def bounded(self, cost: float, precision: FloatPrecision) -> Balanced:
        """Return the rule with prices that can be computed: infinite where what plans miss for
        them is rounding. Raise ValueError where totals differ and rounding of prices exceeds costs.
        """
        highest = max(self.rho)
        if abs(self.p.sum() - self.q.sum()) <= MASS_TOLERANCE * self.p.sum():
            # Plans miss marginals by cost / rho, and pay its square times rho.
            most = 10.0 * cost / np.sqrt(precision.rounding)
            rows, columns = (price if price <= most else math.inf for price in self.rho)
            return dataclasses.replace(self, rho=(rows, columns))
        most = 0.1 * cost / precision.rounding
        if most < highest < np.inf:
            raise ValueError(
                f"rho must be at most {most:.1e} in {precision.dtype} where p and q have "
                f"different totals, or infinite on one side, got {self.rho}"
            )
        return self

    def plan_mass(self, rows: Float64Array) -> float:
        return max(float(rows.sum()), VANISHED * self.mass)

    def penalty(self, rows: Float64Array, cols: Float64Array) -> float:
        total = 0.0
        for rho, sums, masses in self._priced(rows, cols):
            mass, reference = float(sums.sum()), float(masses.sum())
            divergence = relative_entropy(sums, masses) - mass + reference
            total += rho * _product_divergence(divergence, mass, reference)
        return total

    def _priced(
        self, rows: Float64Array, cols: Float64Array
    ) -> list[tuple[float, Float64Array, Float64Array]]:
        """Return price, sums and masses of each side that is not given."""
        sides = zip(self.rho, (rows, cols), (self.p, self.q), strict=True)
        return [side for side in sides if side[0] < np.inf]

    def regularized(
        self, gw_cost: float, epsilon: float, entropy: float, rows: Float64Array, cols: Float64Array
    ) -> float:
        mass, reference = float(rows.sum()), float(self.p.sum() * self.q.sum())
        divergence = self._information(entropy, rows, cols) - mass + reference
        return gw_cost + epsilon * _product_divergence(divergence, mass, reference)

    def shift(
        self, epsilon: float, entropy: float, rows: Float64Array, cols: Float64Array
    ) -> float:
        """Return the price of a unit of mass, beside the linearized cost, in the linear problem
        at a plan with this entropy and these marginals.
        """
        priced = self._priced(rows, cols)
        prices = sum(rho * relative_entropy(sums, masses) for rho, sums, masses in priced)
        return epsilon * self._information(entropy, rows, cols) + prices

    def _information(self, entropy: float, rows: Float64Array, cols: Float64Array) -> float:
        """Return ``sum T log(T / (p q'))``."""
        for sums, masses in ((rows, self.p), (cols, self.q)):
            alive = (sums > 0) & (masses > 0)
            entropy += float(sums[alive] @ np.log(masses[alive]))
        return -entropy

    def relaxed_terms(
        self, separable: Potentials, epsilon: float, relaxation: Relaxation
    ) -> MarginalTerms:
        """Return the `MarginalTerms` of a linear problem with these prices."""
        sides = []
        potentials = separable.f - relaxation.shift, separable.g
        for rho, masses, origin in zip(relaxation.rho, (self.p, self.q), potentials, strict=True):
            # Anchors are the potentials of the plan p q' exp(-cost / epsilon).
            logs = np.log(masses, where=masses > 0, out=np.zeros(len(masses)))
            power = 1.0 / (1.0 + epsilon / rho)
            anchor = origin + epsilon * logs
            sides.append(MarginalProx(power, anchor) if power < 1.0 else MarginalProx())
        rows, columns = sides
        return MarginalTerms(rows, columns, rate=sum(epsilon / rho for rho in relaxation.rho))

    def take(self, rows: NDArray[Any], cols: NDArray[Any]) -> Balanced:
        """Return the rule for some of the points, with the totals of all."""
        p, q = self.p[rows], self.q[cols]
        p, q = p * (self.p.sum() / p.sum()), q * (self.q.sum() / q.sum())
        return dataclasses.replace(self, p=p, q=q)


RULES = {rule.name: rule for rule in (Balanced, Semirelaxed, PartialRule, UnbalancedRule)}


def as_rule(
    marginals: object, p: ArrayLike | None, q: ArrayLike | None, shape: tuple[int, int]
) -> Balanced:
    """Return the rule of the argument `marginals` for masses, where None is uniform; raise
    TypeError or ValueError naming the argument.
    """
    marginals = as_marginals(marginals)
    if isinstance(marginals, Unbalanced):
        p, q, rho = as_masses(p, "p", shape[0]), as_masses(q, "q", shape[1]), marginals.prices
        off = abs(p.sum() - q.sum()) > MASS_TOLERANCE * p.sum()
        if rho == (math.inf, math.inf) and off:
            raise ValueError(
                "rho must be finite on one side at least where p and q have different "
                f"totals, {p.sum():.6g} and {q.sum():.6g}"
            )
        return UnbalancedRule.priced(p, q, rho)
    if marginals == "semirelaxed" and q is not None:
        raise ValueError("q must be None with marginals='semirelaxed': it is free")
    p, q = as_marginal(p, "p", shape[0]), as_marginal(q, "q", shape[1])
    if isinstance(marginals, Partial):
        return PartialRule.of(p, q, marginals.mass)
    return (Balanced if marginals == "balanced" else Semirelaxed).of(p, q)


def neutral(cost: FloatArray, p: Float64Array, q: Float64Array) -> FloatArray:
    """Return costs (n, m) with their mean wherever a point has no mass: no plan depends on
    these entries, but units would.
    """
    if p.all() and q.all():
        return cost
    seen = np.multiply.outer(p > 0, q > 0)
    return np.where(seen, cost, cost[seen].mean())

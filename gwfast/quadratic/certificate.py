"""Any plan of a problem in float64 and plain NumPy: linearized cost, objective, gradients,
residuals and bounds.

Nothing is rounded to float32, and no loop of a solver is used. `verify`, reported objectives, the
product plan, gradients and tests take their numbers from here. A plan is a function of slices of
rows: costs of point clouds are never formed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.special import logsumexp

from ..kernels._transport import Transport
from ..problems.geometry import PointCloud
from ..problems.losses import LOSSES
from ..results.coupling import SparseCoupling
from ..utils.blocks import SCRATCH_BYTES, row_blocks
from ..utils.precision import DOUBLE, SINGLE
from ..utils.types import Float64Array, FloatArray

if TYPE_CHECKING:
    from ..linear.rules import Balanced
    from ..problems.losses import Loss
    from ..problems.quadratic import Geometry, QuadraticProblem
    from ..results.coupling import Coupling
    from .methods import Method

# Relative error of a solver's objective from which on it is computed anew from the plan.
MAX_ERROR = 1e-4
# Errors of a linearized cost in units of float32 rounding; products were off by up to four.
ROUNDINGS = 16
# Frank-Wolfe gap of a plan of proximal steps, as a fraction of the objective, at most. Entries that
# such steps have lost do not come back, so every permutation is a fixed point of sharp ones. Of 117
# random problems solved to 1e-5, 95 in 100 have a gap below .0044; the median of wrong
# permutations is .09.
MOST_GAP = 0.01


# Returns rows of a matrix (n, m).
PlanRows: TypeAlias = Callable[[slice], FloatArray]


class Costs:
    """The quadratic term between two geometries under a loss.

    A `shift` of all costs changes nothing but rounding, if the loss allows for one.
    """

    def __init__(self, x: Geometry, y: Geometry, loss: Loss, shift: float = 0.0) -> None:
        self.loss, self._shift = loss, shift
        self.is_factored = _stays_factored(x, y, loss)
        # Point clouds if `is_factored`, else matrices.
        sides: tuple[Any, Any] = (x, y)
        self.sides, self.slices = sides, row_blocks(x.n, y.n)
        if self.is_factored:
            self._features = [side.features.astype(np.float64) for side in self.sides]

    @classmethod
    def of(cls, problem: QuadraticProblem, shifts: bool = True) -> Costs:
        """Return the costs of a problem, or raise a ValueError if the loss is not defined for
        them; if it `shifts`, by their mean.
        """
        x, y, loss, shift = problem.x, problem.y, LOSSES[problem.loss], 0.0
        if not _stays_factored(x, y, loss):
            x, y = x.to_dense(), y.to_dense()
            loss.check(x.matrix, "x")
            loss.check(y.matrix, "y")
            if loss.shift_invariant and shifts:
                shift = (x.mean_of(problem.p) + y.mean_of(problem.q)) / 2
        return cls(x, y, loss, shift)

    def _part(self, side: int, rows: slice, cols: slice = slice(None)) -> Float64Array:
        """Return costs of a side less the shift."""
        return np.subtract(self.sides[side].matrix[rows, cols], self._shift, dtype=np.float64)

    def magnitudes(self) -> tuple[float, float]:
        """Return a bound of entries of the bilinear term of a plan of mass one, and of its part
        that no potentials of the shifted costs can hold.
        """
        if self.is_factored:
            entry = self.sides[0].scale * self.sides[1].scale
            return entry, entry
        x, y = (np.subtract(side.extremes, self._shift) for side in self.sides)
        x, y = self.loss.h1(x), self.loss.h2(y)
        return float(np.abs(x).max() * np.abs(y).max()), float(np.ptp(x) * np.ptp(y)) / 4

    def separable(self, row_sums: Float64Array, column_sums: Float64Array) -> list[Float64Array]:
        """Return the terms that depend on one index, of a plan with these marginals."""
        made, functions = [], (self.loss.f1, self.loss.f2)
        for number, sums in enumerate((row_sums, column_sums)):
            side, term = self.sides[number], np.zeros(len(sums))
            if self.is_factored:
                term = side.scale**2 * side.square_times(sums)
            else:
                for rows in row_blocks(side.n, side.n):
                    losses = functions[number](self._part(number, rows)) / 2
                    term[rows] += losses @ sums
                    term += sums[rows] @ losses
            made.append(term)
        return made

    def mean(self, number: int, masses: Float64Array) -> float:
        """Return ``masses' h(C) masses`` of a side."""
        side, h = self.sides[number], (self.loss.h1, self.loss.h2)[number]
        if self.is_factored:
            center = masses @ self._features[number]
            return float(side.scale * h(center @ side.signature @ center))
        blocks = row_blocks(side.n, side.n)
        return sum(masses[rows] @ h(self._part(number, rows)) @ masses for rows in blocks)

    def _moments(self, plan: PlanRows) -> tuple[Float64Array, Float64Array]:
        """Return ``X' T Y`` of two point clouds, and the core of the bilinear term."""
        (x, y), (left, right) = self._features, self.sides
        moments = sum(x[rows].T @ (plan(rows) @ y) for rows in self.slices)
        core = left.signature @ moments @ right.signature.T
        return moments, -2.0 * left.scale * right.scale * core

    def bilinear(self, plan: PlanRows) -> PlanRows:
        """Return a function of rows that makes the bilinear term ``-h1(C1) T h2(C2)'`` of a plan,
        of asymmetric costs the mean of both orientations.
        """
        if self.is_factored:
            (x, y), (_, core) = self._features, self._moments(plan)
            return lambda rows: x[rows] @ core @ y.T
        if all(side.symmetric for side in self.sides):
            return lambda rows: -self._product(plan, rows)
        return lambda rows: (self._product(plan, rows) + self._product(plan, rows, True)) / -2

    def _product(self, plan: PlanRows, rows: slice, transposed: bool = False) -> Float64Array:
        def part(side: int, rows: slice, cols: slice = slice(None)) -> Float64Array:
            return self._part(side, cols, rows).T if transposed else self._part(side, rows, cols)

        product = sum(self.loss.h1(part(0, rows, cols)) @ plan(cols) for cols in self.slices)
        m = self.sides[1].n
        return np.hstack([product @ self.loss.h2(part(1, cols)).T for cols in row_blocks(m, m)])

    def cost(self, plan: FloatArray) -> Float64Array:
        """Return the linearized cost, half the gradient, at a plan (n, m) of either sign."""
        f, g = self.separable(plan.sum(axis=1), plan.sum(axis=0))
        bilinear = self.bilinear(plan.__getitem__)
        return f[:, None] + g + np.vstack([bilinear(rows) for rows in self.slices])

    def in_costs(self, plan: FloatArray) -> tuple[Float64Array, Float64Array]:
        """Return the derivatives of the term in the costs of both sides, at a plan (n, m)."""
        loss, (x, y) = self.loss, (self._part(side, slice(None)) for side in (0, 1))
        rows, cols = plan.sum(axis=1), plan.sum(axis=0)
        in_x = loss.df1(x) * np.outer(rows, rows) - loss.dh1(x) * (plan @ loss.h2(y) @ plan.T)
        in_y = loss.df2(y) * np.outer(cols, cols) - loss.dh2(y) * (plan.T @ loss.h1(x) @ plan)
        return in_x, in_y

    def value(
        self,
        plan: PlanRows,
        row_sums: Float64Array,
        column_sums: Float64Array,
        bilinear: PlanRows | None = None,
    ) -> float:
        """Return the term, a mean of losses: negative values are rounding."""
        f, g = self.separable(row_sums, column_sums)
        total = f @ row_sums + g @ column_sums
        if self.is_factored:
            return max(float(total + np.vdot(*self._moments(plan))), 0.0)
        bilinear = self.bilinear(plan) if bilinear is None else bilinear
        product = sum(np.vdot(plan(rows), bilinear(rows)) for rows in self.slices)
        rounding = 1e-10 * (abs(total) + abs(product))
        if abs(total + product) < rounding and self.loss.keeps_factors:
            # Add up differences, of few entries or of few points.
            x, y = (self._part(side, slice(None)) for side in (0, 1))
            full = np.vstack([plan(rows) for rows in self.slices]).astype(np.float64)
            i, j = np.nonzero(full)
            if len(i) ** 2 <= 4 * full.size:
                return float(full[i, j] @ np.square(x[i][:, i] - y[j][:, j]) @ full[i, j])
            if full.size * sum(full.shape) <= 1e8:
                return _mean_square(x, y, full)
        return max(float(total + product), 0.0)


def _mean_square(x: Float64Array, y: Float64Array, plan: FloatArray) -> float:
    """Return the sum of squared differences at a plan without a difference of large terms: a pair
    of points of the first side has a mean cost E(y) of its matches, and the sum is the mean of
    ``(x - E(y))^2`` and of the variance of y, which the two points of the pair add to.
    """
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    share = np.divide(plan, rows[:, None], out=np.zeros(plan.shape), where=plan > 0)
    half = share @ y
    full = half @ share.T
    total = rows @ np.square(x - full) @ rows
    for i in np.flatnonzero(rows):
        variance = np.square(y - half[i]) @ cols + rows @ np.square(half - full[:, i, None])
        total += rows[i] * share[i] @ variance
    return float(total)


def _stays_factored(x: Geometry, y: Geometry, loss: Loss) -> bool:
    return loss.keeps_factors and isinstance(x, PointCloud) and isinstance(y, PointCloud)


def nbytes(problem: QuadraticProblem, dense: bool = False) -> int:
    """Return the bytes of a `Linearized`, or if `dense` of one with all entries of its cost."""
    n, m = problem.shape
    factored = _stays_factored(problem.x, problem.y, LOSSES[problem.loss]) and not dense
    return 6 * SCRATCH_BYTES + (0 if factored else 8 * (n * n + m * m + 7 * n * m))


def objective(problem: QuadraticProblem, coupling: Coupling, linear: float = 0.0) -> float:
    """Return the objective of a `Coupling` with any marginals, given ``<linear_cost, plan>``."""
    costs = Costs.of(problem)
    plan: PlanRows = coupling._rows
    if costs.is_factored and isinstance(coupling, SparseCoupling):
        plan = coupling.csr.__getitem__
    value = costs.value(plan, *coupling.marginals)
    return problem.alpha * value + (1 - problem.alpha) * linear if problem.is_fused else value


def product_mean(problem: QuadraticProblem) -> float:
    """Return the quadratic term of the objective at the product plan, without its weight."""
    costs, (p, q) = Costs.of(problem), problem.rule.product()
    f, g = costs.separable(p, q)
    own = f @ p + g @ q
    common = costs.mean(0, p) * costs.mean(1, q) / problem.mass**2
    # If all costs are equal, only rounding is left.
    return float(own - common) if abs(own - common) > 1e-13 * abs(common) else 0.0


def gradients(problem: QuadraticProblem, plan: FloatArray) -> dict[str, Any]:
    """Return the partial derivatives of the objective of a problem at a plan (n, m), in its costs
    `x` and `y` and, if it is fused, in `linear_cost` and `alpha`.
    """
    costs = Costs(problem.x.to_dense(), problem.y.to_dense(), LOSSES[problem.loss])
    in_x, in_y = costs.in_costs(plan)
    alpha, linear_cost = problem.alpha, problem.linear_cost
    if linear_cost is None:
        return dict(x=in_x, y=in_y)
    value = np.vdot(plan, costs.cost(plan)) - np.vdot(plan, linear_cost)
    return dict(
        x=alpha * in_x, y=alpha * in_y, linear_cost=(1.0 - alpha) * plan, alpha=float(value)
    )


class Linearized:
    """The linearized cost at a plan; the function ``plan(rows)`` gives rows in float64.

    It has the marginals `row_sums`, `column_sums` and `mass` of the plan, its `gw_cost` and
    `linear_cost`, and bounds: `cost_scale` of the part of the cost that no potential can hold,
    `magnitude` of the terms whose difference the objective is, `largest` of an entry.
    """

    def __init__(
        self,
        problem: QuadraticProblem,
        costs: Costs,
        plan: PlanRows,
        separable: Sequence[Float64Array] | None = None,
    ) -> None:
        self.problem, self.slices = problem, costs.slices
        self.plan = plan(self.slices[0]).__getitem__ if len(self.slices) == 1 else plan
        self.row_sums = np.concatenate([self.plan(s).sum(axis=1) for s in self.slices])
        self.column_sums = sum(self.plan(s).sum(axis=0) for s in self.slices)
        self.mass = float(np.abs(self.row_sums).sum())
        self._weight = problem.alpha if problem.is_fused else 1.0
        self._linear, rest = problem.linear_rows, 1.0 - self._weight
        own = costs.separable(self.row_sums, self.column_sums)
        self.separable = own if separable is None else separable
        self._bilinear = costs.bilinear(self.plan)
        if not costs.is_factored:
            self._bilinear = np.vstack([self._bilinear(s) for s in self.slices]).__getitem__
        entry, held = costs.magnitudes()
        sizes = float(np.abs(own[0]) @ problem.p + np.abs(own[1]) @ problem.q)
        is_fixed = problem.is_balanced and separable is None
        self.linear_cost, self.cost_scale = 0.0, self._weight * (held if is_fixed else entry)
        self.magnitude = self._weight * (sizes + entry * self.mass)
        self.largest = np.abs(own[0]).max() + np.abs(own[1]).max() + entry
        if self._linear is not None:
            lowest, highest = np.inf, -np.inf
            for rows in self.slices:
                linear = self._linear(rows)
                self.linear_cost += float(np.vdot(self.plan(rows), linear))
                lowest, highest = min(lowest, linear.min()), max(highest, linear.max())
            self.cost_scale = max(self.cost_scale, rest * float(highest - lowest) / 4)
            self.magnitude += rest * float(max(highest, -lowest))
        value = costs.value(self.plan, self.row_sums, self.column_sums, self._bilinear)
        self.gw_cost = self._weight * value + rest * self.linear_cost

    def cost(self, rows: slice = slice(None)) -> Float64Array:
        """Return some rows of the linearized cost."""
        f, g = self.separable
        made = self._weight * (f[rows, None] + g + self._bilinear(rows))
        if self._linear is not None:
            made += (1.0 - self._weight) / 2 * self._linear(rows)
        return made


def after_a_step(
    linearized: Linearized,
    costs: Costs,
    method: Method,
    epsilon: float,
    dtype: DTypeLike,
    tol: float,
    potentials: tuple[Float64Array, Float64Array] | None = None,
    max_iter: int = 1000,
) -> tuple[Distance, float]:
    """Return the `Distance` of a plan of that dtype from the plan after one more exact iteration of
    a method, and the bound that holds for plans that were solved to a tolerance. The search for
    potentials begins at `potentials`, if these are known.
    """
    least, precision = float(np.finfo(dtype).tiny), SINGLE if dtype == np.float32 else DOUBLE
    rounding = precision.rounding * (1.0 + linearized.cost_scale / epsilon)
    # The costs here are sums of larger terms, which are rounded in float64.
    rounding += DOUBLE.rounding * linearized.magnitude / epsilon
    # The last step was within tolerance; the next one may be ten times as long. A bound
    # above a tenth of the plan would be met by any plan.
    bound = min(10 * tol + ROUNDINGS * rounding, 0.1)
    if method.alternating:
        return Distance(alternation(linearized, costs, epsilon, least), 0.0, 0.0), bound
    plan = GibbsPlan(linearized, epsilon, least if method.proximal else None)
    return plan.nearest(potentials, max_iter, bound / 2), bound


class Distance(NamedTuple):
    """L1 distance of a plan from a solution of its linear problem, as a fraction of its mass; the
    masses that a partial plan does not use times their multipliers over epsilon; and the mass of
    the solution where the plan is zero.
    """

    total: float
    unused: float
    truncated_mass: float

    @property
    def worst(self) -> float:
        return max(self.total, self.unused)


class GibbsPlan:
    """The solution of the linear problem that a `Linearized` has at a plan, with the marginals of
    that plan: Sinkhorn iterations in the log domain, potentials in units of epsilon.

    Proximal steps have a `least` entry of the plan whose distance epsilon weighs.
    """

    def __init__(self, linearized: Linearized, epsilon: float, least: float | None = None) -> None:
        self._linearized, self._epsilon, self._least = linearized, epsilon, least
        rule = linearized.problem.rule
        rows, cols = linearized.row_sums, linearized.column_sums
        self._unused = np.maximum(rule.p - rows, 0), np.maximum(rule.q - cols, 0)
        # Points of a partial plan that do not use up their masses have one potential.
        sides = zip(self._unused, (rule.p, rule.q), strict=True)
        self._tied = [rule.takes_mass & (unused > 1e-4 * masses) for unused, masses in sides]

    def nearest(
        self, potentials: tuple[Float64Array, Float64Array] | None, max_iter: int, enough: float
    ) -> Distance:
        """Return the smallest `Distance` on the way of iterations from `potentials` (or None), and
        then from a regression, until it is small enough.
        """
        if not self._linearized.problem.rule.takes_q:
            free = np.zeros(len(self._linearized.column_sums))
            return self._distance(self._fit_rows(free), free)
        best = Distance(np.inf, np.inf, np.inf)
        if potentials is not None:
            f, g = (np.nan_to_num(x / self._epsilon) for x in potentials)
            best = self._iterated(best, f, g, max_iter, enough)
        if not best.worst <= enough:
            best = self._iterated(best, *self._regressed(max_iter), max_iter, enough)
        return best

    def _exponent(self, rows: slice) -> Float64Array:
        made = self._linearized.cost(rows) / -self._epsilon
        if self._least is not None:
            made += np.log(np.maximum(self._linearized.plan(rows), self._least))
        return made

    def _fit_rows(self, g: Float64Array) -> Float64Array:
        sums = np.concatenate(
            [logsumexp(self._exponent(s) + g, 1) for s in self._linearized.slices]
        )
        return _fitted(self._linearized.row_sums, sums, self._tied[0])

    def _fit_columns(self, f: Float64Array) -> Float64Array:
        sums = np.full(len(self._linearized.column_sums), -np.inf)
        for rows in self._linearized.slices:
            sums = np.logaddexp(sums, logsumexp(self._exponent(rows) + f[rows, None], 0))
        return _fitted(self._linearized.column_sums, sums, self._tied[1])

    def _iterated(
        self, best: Distance, f: Float64Array, g: Float64Array, max_iter: int, enough: float
    ) -> Distance:
        """Return the smallest `Distance` on the way from two potentials."""
        settled = False
        for k in range(max_iter + 1):
            if settled or k % 10 == 0 or k == max_iter:
                found = self._distance(f, g)
                best = found if found.worst < best.worst else best
                if settled or best.worst <= enough:
                    break
            before, f = f, self._fit_rows(g)
            g = self._fit_columns(f)
            with np.errstate(invalid="ignore"):
                change = np.nan_to_num(np.abs(f - before), nan=0.0).max()
            # Potentials that move by some hundred roundings have converged.
            settled = change <= 1e-13 * (1.0 + np.abs(f[np.isfinite(f)]).max(initial=0.0))
        return best

    def _distance(self, f: Float64Array, g: Float64Array) -> Distance:
        """Return the `Distance` of the plan of two potentials."""
        linearized, total, unused, truncated_mass = self._linearized, 0.0, 0.0, 0.0
        for rows in linearized.slices:
            plan = linearized.plan(rows)
            made = np.exp(self._exponent(rows) + f[rows, None] + g)
            total += float(np.abs(made - plan).sum()) / (linearized.mass or 1.0)
            truncated_mass += float(made[plan <= 0].sum()) / (linearized.mass or 1.0)
        if linearized.problem.rule.takes_mass:
            sides = zip(self._unused, (f, g), strict=True)
            unused = sum(float(masses @ np.minimum(x.max() - x, 1.0)) for masses, x in sides)
        return Distance(total, unused, truncated_mass)

    def _regressed(self, max_iter: int) -> tuple[Float64Array, Float64Array]:
        """Return potentials by least squares: where logarithms of the other plan can be trusted,
        they are sums of two potentials but for the cost. Proximal steps weigh them by mass.
        """
        linearized = self._linearized
        f, g = (np.zeros(size) for size in linearized.problem.shape)
        for _ in range(min(max_iter, 200)):
            total, weights = np.zeros(len(g)), np.full(len(g), 1e-30)
            for rows in linearized.slices:
                plan = linearized.plan(rows)
                known = plan > 1e-30
                weight = known * (1.0 if self._least is None else plan)
                logs = np.log(np.where(known, plan, 1.0))
                rest = np.where(known, logs - self._exponent(rows), 0.0)
                f[rows] = (weight * (rest - g)).sum(axis=1) / (weight.sum(axis=1) + 1e-30)
                total += (weight * (rest - f[rows, None])).sum(axis=0)
                weights += weight.sum(axis=0)
            before, g = g, total / weights
            if np.abs(g - before).max() <= 1e-12 * (1.0 + np.abs(g).max()):
                break
        return f, g


def alternation(linearized: Linearized, costs: Costs, epsilon: float, least: float) -> float:
    """Return the L1 distance of a plan from the plan after an iteration of alternating projections:
    linearize and fit the rows, linearize and fit the columns.
    """
    problem, now, plan = linearized.problem, linearized, linearized.plan(slice(None))
    for axis, masses in ((1, problem.p), (0, problem.q)):
        exponent = np.log(np.maximum(now.plan(slice(None)), least)) - now.cost() / epsilon
        exponent[problem.p == 0] = exponent[:, problem.q == 0] = -np.inf
        potential = _fitted(masses, logsumexp(exponent, axis))
        made = np.exp(exponent + np.expand_dims(potential, axis))
        if axis == 1:
            now = Linearized(problem, costs, made.__getitem__, linearized.separable)
    return float(np.abs(made - plan).sum()) / (linearized.mass or 1.0)


def _fitted(
    masses: Float64Array, log_sums: Float64Array, tied: NDArray[np.bool_] | tuple[()] = ()
) -> Float64Array:
    """Return potentials with which sums have masses, -inf where a mass or a sum is zero; `tied`
    points have one potential.
    """
    with np.errstate(divide="ignore"):
        made = np.log(np.maximum(masses, 0.0)) - np.where(np.isfinite(log_sums), log_sums, np.inf)
    if np.any(tied):
        made[tied] = np.log(np.maximum(masses[tied].sum(), 0.0)) - logsumexp(log_sums[tied], 0)
    return made


def frank_wolfe_gap(linearized: Linearized) -> float:
    """Return how far the linearized objective of a plan is above the least of all plans of these
    marginals, at most (Frank and Wolfe, 1956; Jaggi, ICML 2013, equation 2).

    By weak duality, any potentials below the cost bound the least cost of a plan from below; the
    optimal potentials of the linear program make the gap exact.
    """
    cost, plan, rule = linearized.cost(), linearized.plan(slice(None)), linearized.problem.rule
    if not rule.takes_q:
        return 2 * float(np.vdot(plan, cost - cost.min(axis=1)[:, None]))
    program = LinearProgram(rule)
    f, _ = program.solve(cost)
    part = program.part(cost)
    g = (part - f[:, None]).min(axis=0)
    f = (part - g).min(axis=1)
    plan = program.part(plan)
    if rule.takes_mass:
        plan[:-1, -1] = np.maximum(rule.p - linearized.row_sums, 0.0)[program.rows]
        plan[-1, :-1] = np.maximum(rule.q - linearized.column_sums, 0.0)[program.columns]
        plan[-1, -1] = 0.0
    return 2 * float(np.vdot(plan, part - f[:, None] - g))


def relative_gap(linearized: Linearized) -> float:
    """Return the Frank-Wolfe gap of a plan over its objective, or over the rounding of that."""
    rounding = linearized.magnitude * ROUNDINGS * SINGLE.rounding
    return frank_wolfe_gap(linearized) / (max(abs(linearized.gw_cost), rounding) or 1.0)


class LinearProgram:
    """The linear program between the points with mass, which are these `rows` and `columns`. Of
    a partial plan what is left of either side goes to an end of the other, for nothing.
    """

    def __init__(self, rule: Balanced) -> None:
        self._has_ends = rule.takes_mass
        self.rows, self.columns = np.flatnonzero(rule.p), np.flatnonzero(rule.q)
        self.is_full = len(rule.p) == len(self.rows) and len(rule.q) == len(self.columns)
        p, q = rule.p[self.rows], rule.q[self.columns]
        if self._has_ends:
            least = np.finfo(np.float64).eps * rule.mass
            ends = (max(masses.sum() - rule.mass, least) for masses in (q, p))
            p, q = map(np.append, (p, q), ends)
        self.transport = Transport(p, q)

    def part(self, cost: FloatArray) -> Any:
        """Return the entries (n, m) between points with mass, and the ends."""
        part = cost if self.is_full else cost[np.ix_(self.rows, self.columns)]
        if self._has_ends:
            part = np.pad(part, ((0, 1), (0, 1)))
            part[-1, -1] = 4 * np.abs(cost).max()
        return part

    def solve(self, cost: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Go on to the optimum for these costs (n, m); return its potentials."""
        self.transport.solve(self.part(cost))
        return self.transport.potentials()

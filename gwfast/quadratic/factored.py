"""The linearized cost between point clouds by its factors, which are not multiplied out.

Under the squared loss ``h1(C1) T h2(C2)' = 2 X (S1 A S2) Y'`` with the signatures S of the features
and the moments ``A = X' T Y``: no cost is formed, and the objective is a sum over d x d' entries
(Scetbon, Peyre and Cuturi, ICML 2022, for factored costs in general). A `CrossCost` between the
spaces adds its factors to the features of both sides. Where a marginal is free the separable terms
move the plan, so that its marginals belong to the state.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import DTypeLike
from scipy.spatial import cKDTree

from ..kernels import _products
from ..kernels._kernels import mass_entropy
from ..kernels._products import Panels, Product
from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import ProductKernel, SparseKernel, TiledKernel, padded
from ..linear.log_domain import LogDomain, Potentials
from ..results.coupling import ArrayCoupling, Coupling, FactoredCoupling, SparseCoupling
from ..utils.precision import SINGLE
from ..utils.tuning import DEFAULT, Tuning
from ..utils.types import Float32Array, Float64Array, FloatArray, IntArray
from .methods import PGD
from .neighbors import (
    LOOKED_AT,
    MEASURED,
    RENEW,
    SETTLED,
    TRUNCATED_BELOW,
    Neighborhood,
    NeighborTier,
    Truncation,
    mass_outside,
    upper_mean,
)
from .state import Linearization, OwnKernel, State, combined, not_negative

if TYPE_CHECKING:
    from ..linear.gibbs_kernel import Kernel, Scalings
    from ..linear.sinkhorn_solver import LinearSolution
    from ..problems.geometry import PointCloud
    from ..problems.quadratic import QuadraticProblem
    from .linearize import Tier

# Draws of each row of a plan that a sample has.
DRAWS = 128
# Inner iterations at most while the plan still moves fast; and beside samples in the tier "tiled".
MOST_INNER, FEW_PASSES = 200, 8


class Right:
    """The right factor of kernels in the forms that they read."""

    def __init__(self, features: Float32Array, n_threads: int) -> None:
        self.features, self.n_threads = features, n_threads
        self.panels = Panels(features, True, n_threads=n_threads)

    @functools.cached_property
    def rows(self) -> Float32Array:
        return padded(self.features)


def full_kernel(left: Float32Array, right: Right, buffer: FloatArray | None, *more: Any) -> Kernel:
    """Return the kernel of the product of `left` and a `Right` in a buffer. Without a buffer the
    kernel is made anew in each iteration. `more` are the last arguments of `Kernel`.
    """
    if buffer is None:
        return TiledKernel(left, right.panels, right.features, right.n_threads, *more)
    return ProductKernel(left, right.panels, buffer, right.n_threads, *more)


class FactoredLinearization(Linearization):
    """Squared loss between point clouds; the moments are the small matrix ``A = X' T Y``, and of a
    `CrossCost` the diagonal of its factors, whose part of the cost is constant.
    """

    # The objective is concave in the plan, so that each step descends even if the linear problem is
    # solved roughly.
    inner_fraction = 0.1
    method, precision = PGD, SINGLE

    def __init__(
        self,
        problem: QuadraticProblem,
        n_threads: int,
        tier: Tier = "dense",
        tuning: Tuning = DEFAULT,
    ) -> None:
        super().__init__(problem, n_threads, SINGLE, tuning)
        self.x, self.y = x, y = clouds_of(problem)
        between, balanced = problem.between, problem.is_balanced
        neighbors = NeighborTier.of(tier)
        self.tier, self._k = tier, neighbors.k if neighbors else None
        self._alpha, self._half, linear, more = 1.0, 0.0, 0.0, 0
        if between is not None:
            self._alpha, linear, more = problem.alpha, between.scale, between.rank
            self._half = (1.0 - problem.alpha) / 2
        quadratic = self._alpha * x.scale * y.scale
        self.cost_scale = max(quadratic, self._half * linear) or 1.0
        self._weight = -2.0 * (quadratic / self.cost_scale)
        self._constant = self._half * linear / self.cost_scale
        self.ranks = x.rank + more, y.rank + more
        # Entries of the moments of the factors between the spaces, and all that the cost needs.
        self._between = np.eye(*self.ranks, y.rank - x.rank)
        self._between[: x.rank] = 0.0
        self._needed = self._between.copy()
        self._needed[: x.rank, : y.rank] = 1.0
        # The sums of single rows and columns show rounding, the moments do not.
        self.change_is_rounded = not balanced
        self.accelerates = tuning.acceleration and balanced
        few = tuning.few_entries
        self.samples = self.accelerates and few and is_sampled(problem.shape, tier, tuning)
        truncates = few and not self.samples and balanced and tier == "dense"
        truncates = truncates and min(problem.shape) >= tuning.truncated_from
        below = TRUNCATED_BELOW if truncates else -1.0
        self._first_support: Neighborhood | Truncation = Truncation(None, below)
        if self._k:
            self._first_support = Neighborhood()
        # Iterations that take about as long as the two products: one reads an entry in the time
        # of about ten multiply-adds. A choice of neighbors takes as long as hundreds.
        self.inner_limit = min(max(sum(self.ranks) // 10, 10), MOST_INNER)
        if self.samples:
            # Samples mend the marginals as well: 20,000 words took 27 iterations for 61 by 1.0 in
            # place of 0.1; at 0.5 5000 words take 6 outer iterations for 9.
            self.inner_fraction = 0.5
            self.inner_limit = FEW_PASSES if tier == "tiled" else self.inner_limit
        elif self._k and balanced:
            self.inner_limit = MOST_INNER
        if balanced:
            self._fixed = self._separable(problem.p, problem.q)
        self.bound_prices()

    # --- states -----------------------------------------------------------------------------------

    def initial(self, plan: Coupling | FloatArray | None = None, *, epsilon: float = 0.0) -> State:
        problem, rule, entropy = self.problem, self.problem.rule, np.nan
        if plan is None:
            rows, cols = rule.product()
            moments, mass = self._product_moments(rows, cols) / problem.mass, problem.mass
            entropy = mass_entropy(rows) + mass_entropy(cols) + mass * np.log(mass)
        else:
            if not isinstance(plan, Coupling):
                plan = ArrayCoupling(plan.astype(np.float32, copy=False), self.n_threads)
            moments = self._needed * self._moments_of(plan)
            rows, cols = (problem.p, problem.q) if problem.is_balanced else plan.marginals
            if rule.is_relaxed:
                entropy = plan.entropy()
        state = self._state(moments, rows, cols, None, entropy)
        if plan is None or not (self._k or problem.is_fused):
            return state
        # The linearized cost is small where a plan is right, so that these are near its potentials.
        # From zeros the first neighbors would be the largest products.
        return state._replace(potentials=self.separable_potentials(state, self.cost_scale))

    def _state(
        self,
        moments: Float64Array,
        rows: Float64Array,
        cols: Float64Array,
        potentials: Potentials | None,
        entropy: float = np.nan,
        support: Truncation | Neighborhood | None = None,
    ) -> State:
        separable = self._fixed if self.problem.is_balanced else self._separable(rows, cols)
        objective = self.objective_of(moments, rows, cols, separable)
        support = self._first_support if support is None else support
        return State(
            moments,
            rows,
            cols,
            separable,
            potentials,
            objective,
            sample=moments,
            entropy=entropy,
            support=support,
        )

    def restored_state(self, saved: Mapping[str, Any], epsilon: float) -> State:
        sums = saved["row_sums"], saved["column_sums"]
        return self._state(saved["moments"], *sums, None, saved["entropy"])

    @property
    def exported(self) -> tuple[str, tuple[int, int], DTypeLike]:
        return "moments", self.ranks, np.float64

    def _product_moments(self, rows: Float64Array, cols: Float64Array) -> Float64Array:
        x_mean, y_mean = rows @ self.x.features, cols @ self.y.features
        between = self.problem.between
        if between is not None:
            x_mean = np.append(x_mean, rows @ between.left)
            y_mean = np.append(y_mean, cols @ between.right)
        return self._needed * np.outer(x_mean, y_mean)

    def _moments_of(self, coupling: Coupling) -> Float64Array:
        rows, made = coupling.apply(self.right.features), np.empty(self.ranks)
        _products.gram(self.left_features, rows, made, self.n_threads)
        return made

    def extended(
        self,
        state: State,
        coarse: Linearization,
        rows: IntArray,
        cols: IntArray,
        epsilon: float = 0.0,
    ) -> State:
        problem, moments, entropy = self.problem, state.moments, state.entropy
        row_sums, column_sums, potentials = problem.p, problem.q, None
        if not problem.is_balanced:
            # Each point keeps the share of its mass that the nearest coarse point keeps.
            before, sums = coarse.problem, []
            for kept, masses, few, cloud, some in (
                (state.row_sums, problem.p, before.p, self.x, rows),
                (state.column_sums, problem.q, before.q, self.y, cols),
            ):
                shares = np.divide(kept, few, out=np.zeros_like(kept), where=few > 0)
                nearest = cKDTree(cloud.points[some]).query(cloud.points)[1]
                sums.append(masses * shares[nearest])
                # Each pair of points becomes several.
                entropy += kept.sum() * np.log(len(masses) / len(few))
            row_sums, column_sums = sums
        if epsilon and state.potentials is not None:
            potentials = self._extended_potentials(moments, state.potentials, rows, cols, epsilon)
        return self._state(moments, row_sums, column_sums, potentials, entropy)

    def _extended_potentials(
        self,
        moments: Float64Array,
        coarse: Potentials,
        rows: IntArray,
        cols: IntArray,
        epsilon: float,
    ) -> Potentials:
        """Return potentials of all points for the cost at these moments, from the potentials of
        some: the first iterations mend what is lost.
        """
        # About 1500 coarse points are enough.
        some, few = (slice(None, None, max(len(part) // 1500, 1)) for part in (rows, cols))
        f, g = coarse.f[some].copy(), coarse.g[few].copy()
        to_some, of_few = self._costs_between(self.left_factor(moments), rows[some], cols[few])
        # Masses of both levels sum to one, so sums over few points estimate sums over all.
        exact = LogDomain(self.problem.p, self.problem.q, self.n_threads)
        return Potentials(exact.fit_rows(to_some, g, epsilon), exact.fit_cols(of_few, f, epsilon))

    def _costs_between(
        self, left: Float32Array, rows: IntArray, cols: IntArray
    ) -> tuple[Product, Product]:
        """Return the cost of all rows and some columns, and of some rows and all columns."""
        columns = np.ascontiguousarray(self.right.features[cols])
        some = Panels(columns, True, n_threads=self.n_threads)
        return Product(left, some), Product(np.ascontiguousarray(left[rows]), self.right.panels)

    # --- the cost ---------------------------------------------------------------------------------

    @functools.cached_property
    def left_features(self) -> Float32Array:
        """Features of x (n, r), then the factors of the costs between the spaces."""
        return self._beside(self.x, "left")

    @functools.cached_property
    def right(self) -> Right:
        """The `Right` of the features of y (m, s), likewise."""
        return Right(self._beside(self.y, "right"), self.n_threads)

    def _beside(self, side: PointCloud, name: str) -> Float32Array:
        between = self.problem.between
        if between is None:
            return side.features
        return np.ascontiguousarray(np.hstack([side.features, getattr(between, name)]))

    def core(self, moments: Float64Array) -> Float64Array:
        """Return the linearized cost between the features of both sides."""
        x, y = self.x, self.y
        inside = moments[: x.rank, : y.rank]
        if x.signs is None or y.signs is None:
            inside = x.signature @ inside @ y.signature
        else:
            inside = x.signs[:, None] * inside * y.signs
        made = self._constant * self._between
        made[: x.rank, : y.rank] = self._weight * inside
        return made

    def _separable(
        self, rows: Float64Array, cols: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        x, y, between = self.x, self.y, self.problem.between
        row_cost = self._alpha * (x.scale**2 * x.square_times(rows))
        column_cost = self._alpha * (y.scale**2 * y.square_times(cols))
        if between is not None:
            row_cost += self._half * between.row
            column_cost += self._half * between.col
        return row_cost, column_cost

    def objective_of(
        self,
        moments: Float64Array,
        rows: Float64Array,
        cols: Float64Array,
        separable: tuple[Float64Array, Float64Array],
    ) -> float:
        """Return the objective of a plan with these moments and marginals."""
        total = float(rows @ separable[0] + cols @ separable[1])
        bilinear = self.cost_scale * np.vdot(self.core(moments), moments)
        penalty = self.problem.rule.penalty(rows, cols)
        if self.problem.between is None:
            return not_negative(total, bilinear) + penalty
        # The linearized cost has half of the linear term.
        linear = self._linear_value(moments, rows, cols)
        return float(total + bilinear + self._half * linear) + penalty

    def own_objective(self, state: State) -> float:
        sums = state.row_sums, state.column_sums
        return self.objective_of(state.moments, *sums, self._separable(*sums))

    def _linear_value(self, moments: Float64Array, rows: Float64Array, cols: Float64Array) -> float:
        between = self.problem.between
        if between is None:
            return 0.0
        product = between.scale * float(np.vdot(self._between, moments))
        return product + float(rows @ between.row + cols @ between.col)

    def linear_value(self, state: State) -> float:
        return self._linear_value(state.moments, state.row_sums, state.column_sums)

    def left_factor(self, moments: Float64Array) -> Float32Array:
        """Return the left factor of the linearized cost; the right one is the features of y."""
        x, core = self.left_features, self.core(moments)
        left = aligned_empty((len(x), core.shape[1]))
        panels = Panels(core.astype(np.float32), n_threads=self.n_threads)
        _products.matmul(x, panels, left, n_threads=self.n_threads)
        return left

    def kernel(self, state: State, epsilon: float, buffer: FloatArray | None = None) -> Kernel:
        problem, potentials, separable = self.problem, state.potentials, None
        if not problem.is_balanced:
            separable = self.separable_potentials(state, self.cost_scale)
            potentials = potentials or separable
        left, support, right = self.left_factor(state.moments), state.support, self.right
        if self._k:
            n, m = problem.shape
            potentials = potentials or Potentials(np.zeros(n), np.zeros(m))
            if support.is_old(left, right.features, potentials, RENEW * epsilon):
                masses, k = (problem.p, problem.q), self._k
                support = Neighborhood.chosen(
                    left, right.features, potentials, masses, k, self.n_threads
                )
        if support.entries is not None:
            entries, n_threads = support.entries, self.n_threads
            return SparseKernel(left, right.rows, entries, n_threads, separable, support)
        if self.tier == "dense" and buffer is None:
            buffer = aligned_empty(problem.shape)
        return full_kernel(left, right, buffer, separable, support)

    def buffer_of(self, kernel: OwnKernel) -> FloatArray | None:
        return kernel.rows if isinstance(kernel, ProductKernel) else None

    # --- the next state ---------------------------------------------------------------------------

    def contract(self, kernel: Kernel, scalings: Scalings) -> tuple[Float64Array, Float64Array]:
        """Return the moments and row sums of the plan."""
        moments, rows = kernel.contract(self.left_features, self.right.features, scalings)
        return self._needed * moments, rows

    def state_of(
        self,
        kernel: OwnKernel,
        solution: LinearSolution,
        before: State,
        *,
        product_tol: float = 0.0,
    ) -> State:
        problem, scalings, support = self.problem, solution.scalings, kernel.selection
        moments, rows = self.contract(kernel, scalings)
        cols = scalings.cols if problem.is_balanced else kernel.column_sums(rows, scalings)
        if self._k:
            # Marginals that are met more exactly than that take mass to where it does not belong.
            outside = self._outside(kernel, solution, rows, LOOKED_AT)
            support = support._replace(truncated_mass=float(outside.mean()))
        after = self._state(moments, rows, cols, solution.potentials, support=support)
        if problem.rule.is_relaxed:
            return after._replace(
                entropy=self._entropy(before, after, solution.potentials, kernel.epsilon)
            )
        if self._k:
            return after
        masses, change = (problem.p, problem.q), self.distances(before, after)[0]
        return after._replace(support=support.after(kernel, scalings, masses, change))

    def _outside(
        self, kernel: OwnKernel, solution: LinearSolution, rows: Float64Array, n_rows: int
    ) -> Float64Array:
        return mass_outside(kernel, solution.potentials, self.right, rows, n_rows, self.n_threads)

    def _entropy(
        self, before: State, after: State, potentials: Potentials, epsilon: float
    ) -> float:
        """Return the entropy of the plan, whose logarithm is ``(f + g - cost) / epsilon`` with the
        cost of the state before.
        """
        logs = -np.vdot(self.core(before.moments), after.moments)
        for potential, sums in ((potentials.f, after.row_sums), (potentials.g, after.column_sums)):
            logs += sums[sums > 0] @ potential[sums > 0]
        return -float(logs) / epsilon

    def distances(self, before: State, after: State) -> tuple[float, float]:
        size = np.linalg.norm(after.moments)
        change = np.linalg.norm(after.moments - before.moments) / size if size > 0 else 0.0
        if not self.problem.is_balanced:
            pairs = (after.row_sums, before.row_sums), (after.column_sums, before.column_sums)
            of_sums = max(np.abs(now - old).sum() for now, old in pairs)
            change = max(change, of_sums / self.problem.rule.plan_mass(after.row_sums))
        return float(change), np.nan

    def mixed(self, states: Sequence[State], weights: Sequence[float]) -> State:
        moments = combined(weights, [state.moments for state in states])
        return states[-1]._replace(moments=moments, sample=moments, objective=np.nan)

    def damped(self, before: State, after: State, damping: float) -> State:
        weights, pairs = (damping, 1.0 - damping), zip(before[:3], after[:3], strict=True)
        moments, rows, cols = (combined(weights, pair) for pair in pairs)
        made = self._state(moments, rows, cols, after.potentials, after.entropy, after.support)
        return made._replace(objective=after.objective)

    def exactness(self, last: State, before: State, after: State) -> tuple[bool, bool]:
        return not self._k and before.support.entries is None, False

    def sharpened(self, after: State, epsilon: float) -> State | None:
        if not self._k:
            return after._replace(support=Truncation())
        left, right = self.left_factor(after.moments), self.right.features
        if not after.support.is_old(left, right, after.potentials, SETTLED * epsilon):
            return None
        return after._replace(support=after.support._replace(entries=None))

    def is_noise(self, change: float, state: State) -> bool:
        # The moments of centered points are nearly zero under the product plan.
        if self.is_elsewhere or not self.problem.is_balanced:
            return False
        return change * np.linalg.norm(state.moments) <= SINGLE.rounding / 2 * self._largest

    @functools.cached_property
    def _largest(self) -> float:
        """The largest norm of the part of the moments that is of points."""
        problem, product = self.problem, 1.0
        for cloud, masses in ((self.x, problem.p), (self.y, problem.q)):
            product *= float(masses @ np.square(cloud.points).sum(axis=1))
        return float(np.sqrt(product))

    def relative_distance(self, state: State, other: State | None = None) -> float:
        if other is None:
            moments = self._product_moments(self.problem.p, self.problem.q)
        else:
            moments = other.moments
        # Other features than coordinates are squared lengths and ones.
        r, s = self.x.n_coordinates, self.y.n_coordinates
        return float(np.linalg.norm((state.moments - moments)[:r, :s])) / (self._largest or 1.0)

    def least_error(self, state: State) -> float:
        return state.support.truncated_mass if self._k else 0.0

    def truncated_mass(self, kernel: OwnKernel, solution: LinearSolution | None) -> float:
        if not self._k or solution is None:
            return 0.0
        rows = kernel.row_sums(solution.scalings)
        return upper_mean(self._outside(kernel, solution, rows, MEASURED))

    def snapshot(self, kernel: OwnKernel, *others: Any) -> Coupling:
        return self.coupling(kernel if self._k else None, *others)

    def coupling(
        self,
        kernel: OwnKernel,
        solution: LinearSolution | None,
        before: State,
        state: State,
        epsilon: float,
    ) -> Coupling:
        if kernel is not None:
            coupling: Coupling = kernel.coupling(solution)
            if self.tier == "dense" and isinstance(coupling, SparseCoupling):
                # A limit ended the loop on a truncated kernel.
                return ArrayCoupling(coupling.csr.toarray(), self.n_threads)
            return coupling
        left, potentials = self.left_factor(before.moments), cast(Potentials, state.potentials)
        f, g = potentials.f, potentials.g
        return FactoredCoupling(left, self.right.features, f, g, epsilon, self.n_threads)


def clouds_of(problem: QuadraticProblem) -> tuple[PointCloud, PointCloud]:
    """Return both sides of a problem of two point clouds."""
    return cast("tuple[PointCloud, PointCloud]", (problem.x, problem.y))


def is_sampled(shape: tuple[int, int], tier: Tier, tuning: Tuning = DEFAULT) -> bool:
    """Return whether plans of this shape are so large that samples of them pay."""
    return min(shape) >= tuning.sampled_from and NeighborTier.of(tier) is None

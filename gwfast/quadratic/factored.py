"""The linearized cost between point clouds, of which only factors are ever formed."""

import copy

import numpy as np

from ..kernels import _products
from ..kernels._rows import Panels, Product, aligned_empty
from ..linear.log_domain import LogDomain, Potentials
from ..results.coupling import ArrayCoupling, Coupling, FactoredCoupling
from ..utils.mechanisms import ALL
from ..utils.precision import SINGLE
from ..utils.trees import as_saved
from .acceleration import combined
from .factored_terms import FactoredTerms
from .linearization import Linearization, Update, not_negative
from .methods import PGD
from .stopping import STALLED_AFTER
from .stores import CHOICE_BYTES, NeighborStore, NeighborTier, Right, WholeStore, upper_mean

# Draws of each row of a plan that a sample has, and how many times as many points the
# smaller side must have for samples to pay: 5000 words take .85 of the time, 20,000
# take .29. (With 64 draws 20,000 words take five linearizations in place of four.)
DRAWS, MIN_POINTS_PER_DRAW = 128, 30
# `inner_limit` beside samples where a Sinkhorn iteration takes as long as a product.
FEW_PASSES = 8
# Coarse points from which potentials are extended to all.
EXTENDED = 1500
# Bytes that a sample takes for each draw: as it is drawn, in compressed rows, and as
# weights and kernels.
SAMPLE_BYTES = 24
# Whole rows that say what a plan on few entries lacks: at the end, and in between; and
# the chance with which that is more than the bound.
MEASURED, LOOKED_AT, CHANCE = 1 << 12, 1 << 9, 0.05
# Inner iterations at most while the plan still moves fast.
MOST_INNER = 200
# `inner_fraction` beside samples, which mend the marginals as well. (20,000 words took
# 61 Sinkhorn iterations with .03, 27 with .3, and as many linearizations.)
SAMPLED_FRACTION = 1.0


class Factored(Linearization):
    """Squared loss between point clouds: the state is the small matrix ``A = X' T Y``.
    A `CrossCost` between the spaces adds its factors to the features of both sides.

    ``h1(C1) T h2(C2)' = 2 X (S1 A S2) Y'`` with the signatures S of the features, so
    that no cost is ever formed and the objective is a sum over d x d' entries
    (Scetbon, Peyre and Cuturi, ICML 2022, for factored costs in general).
    """

    # For such costs the objective is concave in the plan, so that each step descends
    # even where the linear problem is solved roughly.
    inner_fraction = 0.1
    # The state A sums over all entries, whose roundings cancel.
    change_is_rounded = False
    method = PGD
    # How many of the last changes were rounding.
    _n_rounded = 0

    def __init__(self, problem, n_threads, tier="dense", mechanisms=ALL):
        super().__init__(problem, n_threads, mechanisms=mechanisms)
        self.accelerates = mechanisms.acceleration
        self.samples = mechanisms.samples and is_sampled(problem.shape, tier)
        if self.samples:
            self.inner_fraction = SAMPLED_FRACTION
        self._terms = terms = FactoredTerms(problem)
        self.cost_scale = terms.cost_scale
        self.row_cost, self.col_cost = terms.separable(problem.p, problem.q)
        # Iterations that take about as long as the two products: one reads an entry in
        # the time of about ten multiply-adds.
        self.inner_limit = min(max(sum(terms.ranks) // 10, 10), MOST_INNER)
        if self.samples and tier == "tiled":
            self.inner_limit = FEW_PASSES
        self._prepare(tier)

    def _prepare(self, tier):
        """Allocate what all kernels share."""
        right = Right(self._terms.right, self.n_threads)
        neighbors, masses = NeighborTier.of(tier), (self.problem.p, self.problem.q)
        if neighbors is None:
            truncates = self.mechanisms.truncation and not self.samples
            truncates = truncates and self.problem.is_balanced and tier == "dense"
            self._store = WholeStore(right, self.problem.shape[0], tier, truncates)
        else:
            self._store = NeighborStore(right, masses, neighbors.k)
            if self.problem.is_balanced:
                # A choice of neighbors takes as long as hundreds of inner iterations.
                self.inner_limit = MOST_INNER
        self._buffer = self._store.buffer

    def fork(self):
        other = super().fork()
        # The choice of entries belongs to one state.
        other._store = copy.copy(self._store)
        return other

    def start(self, plan=None, *, takes=False, epsilon=0.0):
        """Set the state; None is the product plan, which needs no matrix, and a plan
        may be a `Coupling`.
        """
        problem = self.problem
        if plan is None:
            self.state = self._terms.product_state(problem.p, problem.q)
        else:
            self.state = self._state_of(as_coupling(plan, self.n_threads))
        return self._objective(problem.p, problem.q)

    def _state_of(self, coupling):
        terms = self._terms
        moved, made = coupling.apply(terms.right), np.empty(terms.ranks)
        _products.gram(terms.left, moved, made, self.n_threads)
        return terms.needed(made)

    def deviation(self):
        # Of the points only: other features are squared lengths and ones.
        sides = zip((self.problem.x, self.problem.y), (self.problem.p, self.problem.q), strict=True)
        means = np.outer(*(x.mean(p)[: x.n_coordinates] for x, p in sides))
        state = self.state[: means.shape[0], : means.shape[1]]
        return (state - means) / (largest_state(self.problem) or 1.0)

    def start_from(self, coarse, rows, cols):
        self.state = coarse.state
        return self._objective(self.problem.p, self.problem.q)

    def extend_potentials(self, coarse, rows, cols, epsilon):
        # Some of the coarse points do: the first iterations mend what is lost.
        some, few = (slice(None, None, max(len(one) // EXTENDED, 1)) for one in (rows, cols))
        coarse = Potentials(coarse.f[some].copy(), coarse.g[few].copy())
        rows, cols = rows[some], cols[few]
        to_some, of_few = self._costs_between(rows, cols)
        # Masses of both levels sum to one, so that sums over few points stand for sums over all.
        exact = LogDomain(self.problem.p, self.problem.q, self.n_threads)
        return Potentials(
            exact.fit_rows(to_some, coarse.g, epsilon), exact.fit_cols(of_few, coarse.f, epsilon)
        )

    def _costs_between(self, rows, cols):
        """The cost of all rows and some columns, and of some rows and all columns."""
        left, y = self._left(), self._terms.right
        some = Panels(np.ascontiguousarray(y[cols]), True, n_threads=self.n_threads)
        few = np.ascontiguousarray(left[rows])
        return Product(left, some), Product(few, self._store.right.panels)

    def _left(self):
        """Left factor of the linearized cost; the right one is the features of y."""
        x, core = self._terms.left, self._core()
        left = aligned_empty((len(x), core.shape[1]))
        core = Panels(core.astype(np.float32), n_threads=self.n_threads)
        _products.matmul(x, core, left, n_threads=self.n_threads)
        return left

    def kernel(self, epsilon=None, start=None):
        return self._store.kernel(self._left(), epsilon, start)

    def use_full_kernel(self):
        if not self._store.is_partial:
            return self._store.use_all()
        return self._store.renew(self._left(), *self._last)

    def left_out(self, kernel, solution):
        if not self._store.is_partial:
            return 0.0
        rows = kernel.row_sums(solution.scalings)
        given = kernel, solution.potentials, rows, MEASURED
        return upper_mean(self._store.outside(*given), CHANCE)

    def update(self, kernel, solution):
        before = self.state
        self.state, rows = self._contract(kernel, solution.scalings)
        cols = solution.scalings.cols
        self._step = self.before, _ = before, self.state
        self._last = kernel.epsilon, solution.potentials
        change = relative_change(before, state := self.state)
        rounded = not self.is_elsewhere and is_rounding(self.problem, change, state)
        self._n_rounded = self._n_rounded + 1 if rounded else 0
        change = 0.0 if self._n_rounded > STALLED_AFTER else change
        self._look_outside(kernel, solution, rows)
        masses = self.problem.p, self.problem.q
        self._store.truncate(kernel, solution.scalings, masses, change)
        return Update(self._objective(rows, cols), change, rows, cols)

    def _look_outside(self, kernel, solution, rows):
        """Measure what the plan lacks. Marginals that are met more exactly than that
        take mass to where it does not belong: on a million points 60 iterations more
        led potentials away, and with them the choice of neighbors.
        """
        if self._store.is_partial:
            given = kernel, solution.potentials, rows, LOOKED_AT
            self.least_error = float(self._store.outside(*given).mean())

    def _contract(self, kernel, scalings):
        terms = self._terms
        state, rows = kernel.contract(terms.left, terms.right, scalings)
        return terms.needed(state), rows

    def coupling(self, kernel, solution):
        coupling = kernel.coupling(solution)
        if self._buffer is not None and coupling.form == "sparse":
            # A limit ended the loop on a truncated kernel; the buffer is free.
            self._buffer.take()
            coupling.csr.toarray(out=self._buffer.array)
            return ArrayCoupling(self._buffer.array, self.n_threads)
        return coupling

    def snapshot(self, kernel, solution):
        if self._store.is_partial:
            return kernel.coupling(solution)
        right, potentials = self._terms.right, solution.potentials
        f, g, epsilon = potentials.f, potentials.g, kernel.epsilon
        return FactoredCoupling(kernel.left, right, f, g, epsilon, self.n_threads)

    def _move(self, weights, steps):
        self.state = combined(weights, [after for _, after in steps])

    def retract(self):
        self.state = self._steps[-1][1]
        return True

    def export(self):
        return dict(state=self._steps[-1][1] if self._steps else self.state)

    def restore(self, saved, change, epsilon):
        self.state = as_saved(saved["state"], self._terms.ranks, np.float64)

    def _core(self, state=None):
        """The linearized cost at a state (this one by default) between the features."""
        return self._terms.core(self.state if state is None else state)

    def _objective(self, rows, cols):
        separable = rows @ self.row_cost + cols @ self.col_cost
        bilinear = self.cost_scale * np.vdot(self._core(), self.state)
        if not self.problem.is_fused:
            return not_negative(separable, bilinear)
        # The linearized cost has half of the linear term.
        half = (1.0 - self.problem.alpha) / 2
        linear = self._terms.linear_value(self.state, rows, cols)
        return float(separable + bilinear + half * linear)

    def linear_value(self, update):
        return self._terms.linear_value(self.state, update.rows, update.cols)


def as_coupling(plan, n_threads):
    """A plan, or a `Coupling`, as a `Coupling` in float32."""
    if isinstance(plan, Coupling):
        return plan
    return ArrayCoupling(plan.astype(np.float32, copy=False), n_threads)


def relative_change(before, after):
    """Relative change of a state in the Frobenius norm."""
    size = np.linalg.norm(after)
    return float(np.linalg.norm(after - before) / size) if size > 0 else 0.0


def largest_state(problem):
    """The largest norm of the part of a state that is of points."""
    squares = problem.x.mean_square(problem.p) * problem.y.mean_square(problem.q)
    return float(np.sqrt(squares))


def is_rounding(problem, change, state):
    """Return whether a relative change of a state is rounding error. It is for centered
    points under the product plan: their state is nearly zero.
    """
    moved = change * np.linalg.norm(state)
    return moved <= SINGLE.rounding / 2 * largest_state(problem)


def is_sampled(shape, tier):
    """Whether plans of this shape are so large that samples of them pay."""
    large = min(shape) >= MIN_POINTS_PER_DRAW * DRAWS
    return large and NeighborTier.of(tier) is None


def nbytes(problem, tier, n_threads, shape):
    """Bytes that a solve of that shape takes beside its factors."""
    n, m = shape
    between = problem.between.rank if problem.is_fused else 0
    r, s = problem.x.rank + between, problem.y.rank + between
    # Both features as the kernels read them, products with them in a step (float64 for
    # a moment), and column sums of chunks.
    shared = 4 * (3 * n * (r + s) + 3 * m * s) + 12 * 32 * m + 64 * (n + m)
    if is_sampled(shape, tier):
        shared += SAMPLE_BYTES * DRAWS * n
    if tier == "dense":
        return shared + 4 * n * m
    neighbors = NeighborTier.of(tier)
    kept = CHOICE_BYTES * neighbors.k * (n + m) if neighbors else 0
    return shared + kept + n_threads * max(4 * 2**20, 4 * 64 * m)

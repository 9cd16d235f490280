"""The linearized cost between point clouds, of which only factors are ever formed."""

import functools

import numpy as np

from ..kernels import _products
from ..kernels._rows import Panels, Product, aligned_empty
from ..linear.gibbs_kernel import (
    Buffer,
    ProductKernel,
    TiledKernel,
    contract,
    padded,
)
from ..linear.log_domain import LogDomain, Potentials
from ..results.coupling import FactoredCoupling
from ..utils.mechanisms import ALL
from ..utils.trees import as_saved
from .acceleration import combined
from .factored_terms import FactoredTerms
from .linearization import Linearization, Update, not_negative
from .methods import PGD

# Draws of each row of a plan that a sample has, and how many times as many points the
# smaller side must have for samples to pay.
DRAWS, MIN_POINTS_PER_DRAW = 128, 30


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

    def __init__(self, problem, n_threads, tier="dense", mechanisms=ALL):
        super().__init__(problem, n_threads, mechanisms=mechanisms)
        self.accelerates = mechanisms.acceleration
        large = min(problem.shape) >= MIN_POINTS_PER_DRAW * DRAWS
        self.samples = mechanisms.samples and large
        if self.samples:
            self.inner_fraction = 0.03
        self._terms = terms = FactoredTerms(problem)
        self.cost_scale = terms.cost_scale
        self.row_cost, self.col_cost = terms.separable(problem.p, problem.q)
        # Iterations that take about as long as the two products: one reads an entry in
        # the time of about ten multiply-adds.
        self.inner_limit = min(max(sum(terms.ranks) // 10, 10), 200)
        self._tier = tier
        self._prepare()

    def _prepare(self):
        """Allocate what all kernels share."""
        self._shared = Right(self._terms.right, self.n_threads)
        self._buffer = None
        if self._tier == "dense":
            self._buffer = Buffer(aligned_empty(self.problem.shape))

    def start(self, plan=None, *, takes=False, epsilon=0.0):
        """Set the state; None is the product plan, which needs no matrix."""
        problem = self.problem
        if plan is None:
            self.state = self._terms.product_state(problem.p, problem.q)
        else:
            self.state = self._state_of(plan.astype(np.float32, copy=False))
        return self._objective(problem.p, problem.q)

    def _state_of(self, plan):
        ones = (np.ones(size, dtype=np.float32) for size in self.problem.shape)
        terms = self._terms
        made = contract(terms.left, plan, terms.right, *ones, self.n_threads)[0]
        return terms.needed(made)

    def deviation(self):
        # Of the points only: other features are squared lengths and ones.
        problem = self.problem
        x, y, p, q = problem.x, problem.y, problem.p, problem.q
        rows, cols = x.n_coordinates, y.n_coordinates
        means = np.outer(x.mean(p)[:rows], y.mean(q)[:cols])
        size = np.sqrt(x.mean_square(p) * y.mean_square(q) or 1.0)
        return (self.state[:rows, :cols] - means) / size

    def start_from(self, coarse, rows, cols):
        self.state = coarse.state
        return self._objective(self.problem.p, self.problem.q)

    def extend_potentials(self, coarse, rows, cols, epsilon):
        to_some, of_few = self._costs_between(rows, cols)
        # Masses of both levels sum to one, so that sums over few points stand for sums
        # over all.
        exact = LogDomain(self.problem.p, self.problem.q, self.n_threads)
        return Potentials(
            exact.fit_rows(to_some, coarse.g, epsilon),
            exact.fit_cols(of_few, coarse.f, epsilon),
        )

    def _costs_between(self, rows, cols):
        """The cost of all rows and some columns, and of some rows and all columns."""
        left, y = self._left(), self._terms.right
        some = Panels(np.ascontiguousarray(y[cols]), True, n_threads=self.n_threads)
        few = np.ascontiguousarray(left[rows])
        return Product(left, some), Product(few, self._shared.panels)

    def _left(self):
        """Left factor of the linearized cost; the right one is the features of y."""
        x, core = self._terms.left, self._core()
        left = aligned_empty((len(x), core.shape[1]))
        core = Panels(core.astype(np.float32), n_threads=self.n_threads)
        _products.matmul(x, core, left, n_threads=self.n_threads)
        return left

    def kernel(self, epsilon=None, start=None):
        return self._whole(self._left())

    def _whole(self, left):
        return whole_kernel(left, self._shared, self._buffer)

    def update(self, kernel, solution):
        before = self.state
        self.state, rows = self._contract(kernel, solution.scalings)
        cols = solution.scalings.cols
        self._step = self.before, _ = before, self.state
        change = relative_change(before, self.state)
        return Update(self._objective(rows, cols), change, rows, cols)

    def _contract(self, kernel, scalings):
        terms = self._terms
        state, rows = kernel.contract(terms.left, terms.right, scalings)
        return terms.needed(state), rows

    def coupling(self, kernel, solution):
        return kernel.coupling(solution)

    def snapshot(self, kernel, solution):
        right, potentials = self._terms.right, solution.potentials
        f, g, epsilon = potentials.f, potentials.g, kernel.epsilon
        return FactoredCoupling(kernel.left, right, f, g, epsilon, self.n_threads)

    def _move(self, weights, steps):
        self.state = combined(weights, [after for _, after in steps])

    def retract(self):
        self.state = self._steps[-1][1]
        self.forget()
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

    def objective(self):
        """Objective at the state, with the marginals that were asked for."""
        return self._objective(self.problem.p, self.problem.q)

    def linear_value(self, update):
        return self._terms.linear_value(self.state, update.rows, update.cols)


def relative_change(before, after):
    """Relative change of a state in the Frobenius norm."""
    size = np.linalg.norm(after)
    return float(np.linalg.norm(after - before) / size) if size > 0 else 0.0


class Right:
    """The right factor of kernels, and as they read it."""

    def __init__(self, features, n_threads):
        self.features, self.n_threads = features, n_threads
        self.panels = Panels(features, True, n_threads=n_threads)

    @functools.cached_property
    def rows(self):
        """As sparse kernels read them."""
        return padded(self.features)


def whole_kernel(left, right, buffer):
    """The `Kernel` of the product of `left` and a `Right`, stored if there is a
    `Buffer`.
    """
    given = left, right.panels
    if buffer is not None:
        return ProductKernel(*given, buffer, right.n_threads)
    return TiledKernel(*given, right.features, right.n_threads)


def nbytes(problem, tier, n_threads, shape):
    """Bytes that a solve of that shape takes beside its factors."""
    n, m = shape
    between = problem.between.rank if problem.is_fused else 0
    r, s = problem.x.rank + between, problem.y.rank + between
    # Both features as the kernels read them, products with them in a step (float64 for
    # a moment), and column sums of chunks.
    shared = 4 * (3 * n * (r + s) + 3 * m * s) + 12 * 32 * m + 64 * (n + m)
    strips = n_threads * max(4 * 2**20, 4 * 64 * m)
    return shared + (4 * n * m if tier == "dense" else strips)

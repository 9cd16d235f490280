"""The linearized cost of any loss between any matrices of costs."""

import copy
import functools

import numpy as np

from ..kernels import _exponentials, _kernels
from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import Buffer, StoredKernel
from ..linear.log_domain import Potentials
from ..problems.geometry import PointCloud
from ..problems.losses import LOSSES
from ..problems.low_rank import RANK, has_low_rank
from ..results.coupling import ArrayCoupling
from ..utils.deadline import NEVER
from ..utils.precision import SINGLE
from .anderson import DEPTH
from .dense_terms import BilinearTerm, FusedTerm, TransformedCost
from .linearization import Update, not_negative
from .methods import PGD
from .mixed_precision import Increments
from .plan_history import PlanHistory
from .resuming import ResumableDense

# Rows of plans that extrapolation looks at, by its depth: it has their products anyway.
SAMPLE_ROWS = {1: 128, DEPTH: 32}
# What products in float32 may move the next plan by, as a fraction of the last change.
SLACK = 0.01


class Dense(ResumableDense):
    """Any loss between any costs, and costs between the spaces: two products of
    matrices, the state is the plan.

    An asymmetric cost has two linearized costs, of it and of its transpose; their mean
    is half the gradient of the objective.

    Attributes
    ----------
    bilinear : BilinearTerm
    """

    # With a fraction of 0.1, 5 of 30 random problems (epsilon a tenth of the objective
    # of the product plan) ended in another optimum than POT's exact inner solutions
    # lead to, with 0.01 none. At less than half that epsilon 2 of 14 still do.
    inner_fraction, inner_limit = 0.01, 200
    change_is_rounded = True

    def __init__(
        self, problem, n_threads, *, precision=SINGLE, method=PGD, deadline=NEVER
    ):
        super().__init__(problem, n_threads, precision)
        x, y, loss = problem.x.to_dense(), problem.y.to_dense(), LOSSES[problem.loss]
        loss.check(x.matrix, "cost_x")
        loss.check(y.matrix, "cost_y")
        self.method, self._deadline = method, deadline
        # The separable terms are constant only when both marginals are fixed.
        fixed = problem.is_balanced and not method.alternating
        shift = 0.0
        if loss.shift_invariant and not method.alternating:
            shift = common_shift(x.matrix, y.matrix, fixed)
        p, q, dtype = problem.p, problem.q, precision.dtype
        kind = dtype, fixed, deadline
        left = TransformedCost(x, shift, loss.h1, loss.f1, p, *kind)
        right = TransformedCost(y, shift, loss.h2, loss.f2, q, *kind)
        self._sides, self._fused = (left, right), None
        self._alpha, self.cost_scale = 1.0, left.scale * right.scale
        if problem.linear_cost is not None:
            self._alpha = problem.alpha
            self._fused = FusedTerm(
                problem.linear_cost, self._alpha, self.cost_scale, dtype, n_threads
            )
            self.cost_scale = self._fused.cost_scale
        # The sign of the third term, and its weight, are taken care of once.
        factor = -self._alpha * left.scale * right.scale / self.cost_scale
        np.multiply(left.matrix, factor, out=left.matrix)
        self._separate(p, q)
        symmetric = x.symmetric and y.symmetric
        self._use(BilinearTerm(left.matrix, right.matrix, symmetric, n_threads))

    def _use(self, bilinear):
        """Take this term, and all room that is needed, in the precision."""
        shape, dtype = self.problem.shape, self.precision.dtype
        self.bilinear, self._increments = bilinear, None
        self._buffer, self._turn = Buffer(aligned_empty(shape, dtype)), None
        self._epsilon, self._change, deep = 0.0, 1.0, self.precision.itemsize > 4
        guard, self._depth = ("contracting", DEPTH) if deep else ("guarded", 1)
        extrapolates = self.problem.is_balanced and not self.method.proximal
        self.extrapolation = guard if extrapolates else None
        self.forget()

    def use_increments(self, rounded):
        """Make products near known ones by what `rounded` returned, whose buffer is
        taken.
        """
        multiply, made = rounded.bilinear.multiply, rounded._buffer.array
        self._increments = Increments(multiply, made, self.n_threads)

    def rounded(self, precision):
        """The same in a lower precision."""
        other = copy.copy(self)
        other.precision = precision
        other._fused = self._fused and self._fused.astype(precision.dtype)
        other._use(self.bilinear.astype(precision.dtype))
        return other

    def _separate(self, rows, cols):
        """Set the separable terms, those of a plan with these marginals."""
        left, right = self._sides
        if self.problem.is_balanced:
            linear = left.linear, right.linear
        else:
            linear = left.times(rows), right.times(cols)
        # h = scale * matrix + center: the constant parts of h1 T h2' are separable.
        constant = left.center * right.center / 2
        row_cost = linear[0] - right.center * left.product - constant
        col_cost = linear[1] - left.center * right.product - constant
        self.row_cost, self.col_cost = self._alpha * row_cost, self._alpha * col_cost
        if self._fused is not None:
            self.row_cost = self.row_cost + self._fused.separable

    @property
    def _separable_potentials(self):
        if self.method.marginal_terms:
            f, g = self.row_cost, self.col_cost
            return Potentials(-f / self.cost_scale, -g / self.cost_scale)
        return Potentials(*map(np.zeros, self.problem.shape))

    def start(self, plan=None):
        problem = self.problem
        self.state = aligned_empty(problem.shape, self.precision.dtype)
        rows, cols = problem.rule.product()
        if plan is None:
            right = cols / problem.mass
            np.multiply.outer(rows, right, out=self.state, casting="same_kind")
        else:
            np.copyto(self.state, plan, casting="same_kind")
            if not problem.is_balanced:
                rows, cols = self.state.sum(axis=1), self.state.sum(axis=0)
        return self._objective(rows, cols, self._deadline)[0]

    def start_from(self, coarse, rows, cols):
        plan = np.zeros(self.problem.shape, dtype=np.float32)
        plan[np.ix_(rows, cols)] = coarse.state
        return self.start(plan)

    def kernel(self, solver=None, start=None, epsilon=None):
        self._epsilon = epsilon or 0.0
        fill = functools.partial(self._fill, step=epsilon)
        separable = self._separable_potentials
        return StoredKernel(self._buffer, fill, self.n_threads, separable)

    def update(self, kernel, solution):
        before = self.state
        start, extrapolated = self._history.begin(before)
        rows, cols = kernel.scale(solution.scalings)
        self.state, self._buffer.array = kernel.rows, before
        self._history.add(start, self.state)
        if extrapolated:
            # The plan that this one came from was never made but for these rows.
            some = self._history.rows
            step = self.state[some] - start
            change = np.abs(step).sum() / self.problem.p[some].sum()
            moved = np.linalg.norm(step) * np.sqrt(len(before) / len(step))
        else:
            change, moved = self.distance_to(before)
            change /= self.problem.rule.plan_mass(rows)
        self._change = change
        gw_cost, bilinear = self._objective(rows, cols)
        return Update(gw_cost, float(change), rows, cols, moved, bilinear=bilinear)

    def distance_to(self, plan):
        """Of the state, the sum of absolute differences and their Frobenius norm."""
        return _kernels.distance(self.state, plan, self.n_threads)

    def coupling(self, kernel, solution):
        return ArrayCoupling(self.state, self.n_threads)

    snapshot = coupling

    def entropy(self, kernel, solution, update):
        return _kernels.entropy(self.state, self.n_threads)

    def linear_value(self, update):
        if self._fused is None:
            return 0.0
        return self._fused.value(self.state, float(update.rows.sum()))

    def extrapolate(self):
        # The product is linear in the plan: it is what moves, the plan stays.
        return self._history.extrapolate(self._buffer.array)

    def retract(self):
        self._history.last_product(self._buffer.array)
        self._turn = self._buffer.take()
        self.forget()

    def forget(self):
        rows = SAMPLE_ROWS[self._depth]
        self._history = PlanHistory(self.problem.shape[0], self._depth, rows)

    def _fill(self, out, step=None, deadline=NEVER):
        """Write the linearized cost at the state, for proximal steps of that size."""
        # Where the objective was asked for, that needed the same product.
        if self._turn != self._buffer.turn:
            self._history.drop_extrapolated()
            self._fill_product(out, deadline)
        if step and self.method.proximal:
            _exponentials.proximal_cost(out, self.state, step, self.n_threads)

    def _fill_product(self, out, deadline):
        near = self._increments
        max_error = SLACK * self._change * self._epsilon
        if near is not None and near.fill(self.state, out, max_error):
            return
        self.bilinear.multiply(self.state, out, deadline)
        if self._fused is not None:
            out += self._fused.matrix
        if near is not None:
            near.refer(self.state, out)

    def _objective(self, rows, cols, deadline=NEVER):
        """Of the state, with these marginals, and its bilinear part; leaves the
        linearized cost in the buffer.
        """
        out, fused = self._buffer.array, self._fused
        penalty = self.problem.rule.penalty(rows, cols)
        self._buffer.take()
        self._fill(out, deadline=deadline)
        self._turn = self._buffer.take()
        if not self.problem.is_balanced:
            self._separate(rows, cols)
        separable = rows @ self.row_cost + cols @ self.col_cost
        bilinear = self.cost_scale * _kernels.dot(self.state, out, self.n_threads)
        if fused is None:
            return not_negative(separable, bilinear) + penalty, bilinear
        # Of the linear term, not half of it.
        half = fused.half(self.state)
        total = separable + bilinear + half + fused.separable * rows.sum()
        return float(total) + penalty, bilinear - half


def common_shift(x, y, fixed):
    """What is taken from both costs under a loss that sees differences only, to keep
    large offsets out of the squares. Costs whose marginals are not fixed keep theirs
    where they differ by as much.
    """
    shift = sum(float(matrix.mean(dtype=np.float64)) for matrix in (x, y)) / 2
    if fixed or abs(shift) > max(float(np.ptp(matrix)) for matrix in (x, y)):
        return shift
    return 0.0


def nbytes(problem, shape, itemsize, method, n_states):
    """Bytes that a solve of that many points takes beside its costs, with `n_states`
    plans on their way at a time.
    """
    n, m = shape
    squares, plan = n * n + m * m, n * m
    fixed = problem.is_balanced and not method.alternating
    extrapolates = problem.is_balanced and not method.proximal
    # Of an asymmetric cost both orientations are there, and their products; the right
    # factor is there a second time, as kernels read it.
    sides = 1 if problem.x.symmetric and problem.y.symmetric else 2
    matrices = sides * squares + m * m + (0 if fixed else squares)
    if any(isinstance(side, PointCloud) for side in (problem.x, problem.y)):
        matrices += squares  # while what is made of them is
    # The buffer, a packed plan, and products.
    shared = 2 + sides + (problem.linear_cost is not None) + method.alternating

    def size_of(itemsize, n_states, depth):
        state = 1 + extrapolates * (depth + 1)
        return itemsize * (matrices + (shared + n_states * state) * plan)

    size = size_of(4, n_states, 1)
    if itemsize > 4:
        # What float32 has of it is for the first iterations, and for increments.
        increments = 20 * plan if method is PGD else 0
        size = increments + (size if method is PGD else 0) + size_of(8, 1, DEPTH)
        size += 16 * (plan + min(n, m) ** 2)  # Newton's steps
    if has_low_rank(problem, shape):
        # Two copies of the costs for a moment, eigenvectors, and a plan.
        width = max(side.matrix.itemsize for side in (problem.x, problem.y))
        size += 2 * width * max(n, m) ** 2 + 4 * (plan + 6 * RANK * (n + m))
    return size

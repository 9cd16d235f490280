"""The linearized cost of any loss between any matrices of costs."""

import copy
import functools

import numpy as np

from ..kernels import _exponentials, _kernels
from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import Buffer, StoredKernel
from ..linear.log_domain import Potentials
from ..problems.geometry import PointCloud
from ..problems.low_rank import MIN_POINTS, RANK, has_low_rank
from ..results.coupling import ArrayCoupling
from ..utils.deadline import NEVER
from ..utils.mechanisms import ALL
from ..utils.precision import SINGLE
from . import low_rank_products, matrix_products
from .advancing_plans import AdvancingPlans
from .anderson import DEPTH
from .contraction import contraction
from .dense_terms import MatrixTerms, copies_costs, has_fixed_terms
from .extrapolated_plans import SAMPLE_ROWS, ExtrapolatedPlans
from .extrapolation import deepened
from .linearization import Update
from .low_rank_products import Made
from .methods import PGD
from .plan_products import PlanProducts

# Points a side up to which `contraction` is worth its product: beyond, what epsilon
# makes steps contract for sure is larger than anyone asks for.
FEW_POINTS = 256
# Plans that may come near their end at a time: races end before.
NEAR_END = 2
# `inner_fraction` of what comes before a solve in float64: who asks for that expects
# the optimum that exact inner solutions lead to. With 0.01 a descent of 1000 cells by
# SCOT's costs left a saddle on another side than POT's, and took 301 outer iterations
# for 181; where it makes no such difference, times are the same.
FAITHFUL_FRACTION = 0.001


class Dense(AdvancingPlans, ExtrapolatedPlans):
    """Any loss between any costs, and costs between the spaces: two products of
    matrices, the state is the plan.

    An asymmetric cost has two linearized costs, of it and of its transpose; their mean
    is half the gradient of the objective.

    Attributes
    ----------
    products : PlanProducts
    """

    # With a fraction of 0.1, 5 of 30 random problems (epsilon a tenth of the objective
    # of the product plan) ended in another optimum than POT's exact inner solutions
    # lead to, with 0.01 none. At less than half that epsilon 2 of 14 still do.
    inner_fraction, inner_limit = 0.01, 200
    change_is_rounded = True

    def __init__(
        self,
        problem,
        n_threads,
        *,
        precision=SINGLE,
        method=PGD,
        deadline=NEVER,
        mechanisms=ALL,
    ):
        super().__init__(problem, n_threads, precision, mechanisms)
        self.method, self._deadline = method, deadline
        self._fixed = has_fixed_terms(problem, method)
        self._terms = MatrixTerms(problem, method, precision.dtype, n_threads, deadline)
        self._fused, self.cost_scale = self._terms.fused, self._terms.cost_scale
        bounded = problem.rule.bounded(self.cost_scale, precision)
        if bounded is not problem.rule:
            self.problem = problem.with_rule(bounded)
        self._separate(problem.p, problem.q)
        kind = dict(keeps_last=_keeps_last(self, precision), mechanisms=mechanisms)
        self._use(PlanProducts(self._terms.bilinear, n_threads, **kind))

    def _use(self, products):
        """Take these products, and all room that is needed, in the precision."""
        shape, dtype = self.problem.shape, self.precision.dtype
        self.products = products
        self._buffer, self._turn = Buffer(aligned_empty(shape, dtype)), None
        self._was_whole, self._confirms = True, True
        self._epsilon, self._change = 0.0, 1.0
        self.extrapolation, self._depth = None, 0
        if _extrapolates(self.problem, self.method, self.mechanisms):
            wide = self.precision.itemsize > 4
            self.extrapolation = "contracting" if wide else "deepening"
            given = self.problem, shape, self.precision.itemsize
            self._depth = _depth(*given, self.mechanisms)
        self.forget()

    def use_increments(self, rounded):
        """Make products near known ones by those of what `rounded` returned."""
        self.products.use_increments(rounded.products, rounded._buffer.array)

    def rounded(self, precision):
        """The same in a lower precision."""
        other = copy.copy(self)
        other.precision = precision
        other._fused = self._fused and self._fused.astype(precision.dtype)
        kept = _keeps_last(other, precision)
        other._use(self.products.astype(precision.dtype, keeps_last=kept))
        other._confirms = False  # that is for what comes after it
        other.inner_fraction = FAITHFUL_FRACTION
        return other

    def fork(self):
        other = super().fork()
        other.products = self.products.fork()
        other.forget()
        return other

    def use_full_kernel(self):
        wanted = self._confirms and not self._was_whole
        if wanted:
            self.products.want_whole()
            self._turn = None
        return wanted

    def _separate(self, rows, cols):
        self.row_cost, self.col_cost = self._terms.separable(rows, cols)

    @property
    def _separable_potentials(self):
        unit = -self.method.marginal_terms / self.cost_scale
        return Potentials(self.row_cost * unit, self.col_cost * unit)

    def start(self, plan=None, *, takes=False, epsilon=0.0):
        self._epsilon = epsilon
        problem, dtype = self.problem, self.precision.dtype
        rows, cols = problem.rule.product()
        takes = takes and plan.dtype == dtype and plan.flags.carray
        self.state = plan if takes else aligned_empty(problem.shape, dtype)
        if plan is None:
            factors = rows, cols / problem.mass
            np.multiply.outer(*factors, out=self.state, casting="same_kind")
            self.products.expect_outer(*factors)
        else:
            if not takes:
                np.copyto(self.state, plan, casting="same_kind")
            if not problem.is_balanced:
                rows, cols = self.state.sum(axis=1), self.state.sum(axis=0)
        gw_cost = self._objective(rows, cols, self._deadline)[0]
        if plan is None:
            self._started_at = gw_cost
        return gw_cost

    def start_from(self, coarse, rows, cols):
        plan = np.zeros(self.problem.shape, dtype=np.float32)
        plan[np.ix_(rows, cols)] = coarse.state
        return self.start(plan, takes=True)

    def kernel(self, solver=None, start=None, epsilon=None):
        self._epsilon = epsilon or 0.0
        self._settle()
        fill, holds = self._fill, None
        if epsilon and self.method.proximal:
            fill = functools.partial(fill, step=epsilon)
        elif self._turn == self._buffer.turn:
            holds = "cost"
        separable = None if self._fixed else self._separable_potentials
        given = self._buffer, fill, self.n_threads, separable
        return StoredKernel(*given, holds=holds)

    def update(self, kernel, solution):
        before, self._was_whole = self.state, self.products.made == Made.WHOLE
        start, extrapolated = self._history.begin(before)
        rows, cols = kernel.scale(solution.scalings)
        self.state, self._buffer.array = kernel.rows, before
        if self._damping:
            rows, cols = self._mix(before)
        self._history.add(start, self.state)
        if extrapolated:
            # The plan that this one came from was never made but for these rows.
            some = self.problem.p[self._history.rows]
            change, moved = _kernels.distance(*self._history.last, self.n_threads)
            share = self.problem.rule.plan_mass(rows) / self.problem.mass
            change /= share * some.sum()
            moved *= np.sqrt(len(before) / len(some))
        else:
            change, moved = self.distance_to(before)
            change /= self.problem.rule.plan_mass(rows)
        # Of the step as it would be undamped.
        change, moved = change / (1.0 - self._damping), moved / (1.0 - self._damping)
        self._change = change
        if self._depth > 1 and self.precision.itemsize <= 4:
            self._history.depth = deepened(change, self.mechanisms, self._depth)
        gw_cost, bilinear = self._objective(rows, cols)
        return Update(gw_cost, float(change), rows, cols, moved, bilinear=bilinear)

    def coupling(self, kernel, solution):
        return ArrayCoupling(self.state, self.n_threads)

    snapshot = coupling

    def entropy(self, kernel, solution, update):
        return _kernels.entropy(self.state, self.n_threads)

    def linear_value(self, update):
        mass = float(update.rows.sum())
        return 0.0 if self._fused is None else self._fused.value(self.state, mass)

    def contraction(self, epsilon):
        bilinear, few = self.products.bilinear, max(self.problem.shape) <= FEW_POINTS
        if not (few and self._fixed and bilinear.symmetric) or self.method.proximal:
            return np.inf
        given = self.problem.p, self.problem.q, self.state, epsilon, self.n_threads
        return contraction(bilinear, *given)

    def linearized_value(self, plan):
        """``<plan, lin_cost>``, with the one at the state, after an `update`."""
        separable = plan.sum(axis=1) @ self.row_cost + plan.sum(axis=0) @ self.col_cost
        product = _kernels.dot(plan, self._buffer.array, self.n_threads)
        return float(separable + self.cost_scale * product)

    def _fill(self, out, step=None, deadline=NEVER, *, settles=True):
        """Write the linearized cost at the state, for proximal steps of that size; it
        `settles` where that is all that it is for.
        """
        # Where the objective was asked for, that needed the same product.
        if self._turn != self._buffer.turn:
            self._history.drop_extrapolated()
            self.products.fill(self.state, out, self._change, self._epsilon, deadline)
            if settles:
                self.products.settle(out, () if self._history.is_kept else None)
            if self._fused is not None:
                out += self._fused.matrix
        if step:
            _exponentials.proximal_cost(out, self.state, step, self.n_threads)

    def _objective(self, rows, cols, deadline=NEVER):
        """Of the state, and its bilinear part; the buffer has the linearized cost."""
        out, fused, self._standing = self._buffer.array, self._fused, (rows, cols, None)
        penalty = self.problem.rule.penalty(rows, cols)
        self._buffer.take()
        self._fill(out, deadline=deadline, settles=False)
        self._turn = self._buffer.take()
        if not self.problem.is_balanced:
            self._separate(rows, cols)
        separable = float(rows.dot(self.row_cost)) + float(cols.dot(self.col_cost))
        bilinear = self.cost_scale * self.products.value(self.state, out)
        half = 0.0 if fused is None else fused.half(self.state)
        total = self._total(separable, bilinear, half, float(rows.sum()))
        return total + penalty, bilinear - half


def _extrapolates(problem, method, mechanisms=ALL):
    """Whether plans of this problem are extrapolated."""
    linear = problem.is_balanced or problem.rule.is_relaxed
    return mechanisms.extrapolation and linear and not method.proximal


def _keeps_last(dense, precision):
    """Whether the products of a `Dense` keep the last ones, for extrapolation."""
    problem, mechanisms = dense.problem, dense.mechanisms
    if precision.itemsize > 4 or problem.is_fused:
        return False
    if _is_small(problem.shape) or not mechanisms.kept_products:
        return False
    return _extrapolates(problem, dense.method, mechanisms)


def _depth(problem, shape, itemsize, mechanisms=ALL):
    """Plans that extrapolation looks at, at most, beside the last."""
    if not mechanisms.deep_extrapolation:
        return 1
    # Those of many points with costs between the spaces are kept as matrices.
    whole = problem.is_fused and not _is_small(shape)
    return 1 if whole and itemsize <= 4 else DEPTH


def _is_small(shape):
    """Whether room for products of all plans that are looked at hardly counts."""
    return shape[0] * shape[1] < MIN_POINTS**2


def nbytes(problem, shape, itemsize, method, n_states):
    """Bytes that a solve of that many points takes beside its costs, with `n_states`
    plans on their way at a time.
    """
    n, m = shape
    plan, symmetric = n * m, problem.x.symmetric and problem.y.symmetric
    size = _size(problem, shape, 4, method, n_states)
    if itemsize > 4:
        # What float32 has of it is for the first iterations, and for increments.
        increments = 20 * plan if method is PGD else 0
        size = increments + (size if method is PGD else 0)
        size += _size(problem, shape, 8, method, 1)
        size += 16 * (plan + min(n, m) ** 2)  # Newton's steps
    if has_low_rank(problem, shape):
        # Eigenvectors; what else it takes makes room for the rest.
        size += 4 * 8 * RANK * (n + m)
    if low_rank_products.suits(shape, symmetric):
        size += low_rank_products.nbytes(shape, itemsize)
    return size


def _size(problem, shape, itemsize, method, n_states):
    """Bytes of matrices with this itemsize."""
    n, m = shape
    squares, plan, larger = n * n + m * m, n * m, max(n, m)
    symmetric = problem.x.symmetric and problem.y.symmetric
    extrapolates = _extrapolates(problem, method)
    # The buffer, and of an asymmetric cost products of both orientations.
    sides = 1 if symmetric else 2
    plans = sides + problem.is_fused + method.alternating
    if itemsize > 4 or problem.is_fused or _is_small(shape):
        # Products that are extrapolated, and those of the reference; in float32 more
        # than the last only of those that come near their end.
        depth = _depth(problem, shape, itemsize)
        least = depth if itemsize > 4 else 1
        plans += n_states * (extrapolates * (least + 1) + 1)
        plans += extrapolates * (depth - least) * min(n_states, NEAR_END)
    else:
        plans += 1
    matrices = 0
    if copies_costs(problem, method, itemsize, shape):
        # The right factor is there a second time, as kernels read it.
        fixed = has_fixed_terms(problem, method)
        matrices = sides * squares + m * m + (0 if fixed else squares)
    for side in (problem.x, problem.y):
        matrix = None if isinstance(side, PointCloud) else side.matrix
        if matrix is None or not matrix.flags.forc:
            matrices += larger**2  # what is made of them
    rows = 6 * max(SAMPLE_ROWS.values()) * m
    size = itemsize * (matrices + (plans + n_states) * plan + rows)
    return size + matrix_products.nbytes(larger, larger, itemsize)

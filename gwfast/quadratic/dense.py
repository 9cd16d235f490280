"""The linearized cost of any loss between any matrices of costs."""

import copy
import functools

import numpy as np

from ..kernels import _kernels
from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import StoredKernel
from ..problems.geometry import PointCloud
from ..problems.leading import SPAN
from ..problems.low_rank import has_low_rank
from ..results.coupling import ArrayCoupling
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER
from ..utils.mechanisms import ALL
from ..utils.trees import as_saved
from . import low_rank_update, matrix_products
from .acceleration import DEPTH, combined
from .dense_terms import copies_costs, has_fixed_terms
from .linearization import Linearization, Update
from .methods import PGD
from .plain_terms import terms_of
from .plan_cost import PlanCost
from .products import ProductOperator, n_rooms
from .small_descent import CHANGE, MOST_WORK, descent_of, suits_descent

# `inner_fraction` of the float32 warm start of a float64 solve, which is to end at the
# optimum of exact inner solutions. With 0.01 a descent of 1000 cells by SCOT's costs
# left a saddle on another side than POT's, and took 301 outer iterations for 181; where
# both lead to one optimum, times are the same.
FAITHFUL_FRACTION = 0.001
# Rows of a plan that stand for all in acceleration, by the bytes of a number; their
# entries at most; and the least number of rows.
SAMPLE_ROWS, SAMPLE_ENTRIES, LEAST_ROWS = {4: 64, 8: 32}, 1 << 18, 32


class Dense(Linearization):
    """Any loss between any costs, and costs between the spaces: two products of
    matrices, the state is the plan.

    An asymmetric cost has two linearized costs, one of its transpose; their mean is
    half the gradient of the objective. The product is linear in the plan, so that
    acceleration combines products, and the plan stays.

    Attributes
    ----------
    cost : PlanCost
    terms : MatrixTerms
    """

    # With a fraction of 0.1, 5 of 30 random problems (epsilon a tenth of the objective
    # of the product plan) ended in another optimum than POT's exact inner solutions
    # lead to, with 0.01 none. At less than half that epsilon 2 of 14 still do.
    inner_fraction, inner_limit = 0.01, 200
    change_is_rounded = can_damp = True

    def __init__(self, problem, n_threads, *, method=PGD, deadline=NEVER, **kind):
        super().__init__(problem, n_threads, **kind)
        self.method, self._deadline = method, deadline
        self._fixed = has_fixed_terms(problem, method)
        given = self.precision.dtype, n_threads, deadline
        terms = terms_of(problem, method, *given)
        self.cost_scale = terms.cost_scale
        bounded = problem.rule.bounded(self.cost_scale, self.precision)
        if bounded is not problem.rule:
            self.problem = problem.replace(rule=bounded)
        self._use(terms)

    def _use(self, terms):
        """Set the terms, and allocate buffers of their precision."""
        problem, self.terms, fused = self.problem, terms, terms.fused
        given = terms.bilinear, self.n_threads, fused and fused.matrix, self.mechanisms
        self.accelerates = accelerates(problem, self.method, self.mechanisms)
        products = ProductOperator(*given, followed=self.accelerates)
        self.cost = PlanCost(problem, terms, products, self.n_threads)
        self._buffer = self.cost.buffer
        if self._fixed:
            self._started_at = terms.at_product(self.row_cost, self.col_cost)
        self._was_exact = self._confirms = True
        self._epsilon, self._change = 0.0, 1.0
        # A sample of rows; and these rows of the plan that the cost belongs to, where
        # acceleration has moved the cost away from the state.
        self._some, self._led = sample(problem.shape, self.precision.itemsize), None
        self.forget()

    def rounded(self, precision):
        """The same linearization in a lower precision, for a warm start."""
        other = copy.copy(self)
        other.precision = precision
        other._use(self.terms.astype(precision.dtype))
        other._confirms = False  # the solve after the warm start confirms its end
        other.inner_fraction = FAITHFUL_FRACTION
        return other

    def use_increments(self, rounded):
        """Make products near known ones by increments, in the precision and buffers of
        a linearization that `rounded` returned.
        """
        self.cost.products.use_increments(rounded.cost.products, rounded._buffer.array)

    def fork(self):
        other = super().fork()
        other.cost = self.cost.fork()
        return other

    def use_full_kernel(self):
        if wanted := self._confirms and not self._was_exact:
            self.cost.products.want_whole()
            self.cost.drop()
        return wanted

    row_cost = property(lambda self: self.cost.row_cost)
    col_cost = property(lambda self: self.cost.col_cost)

    def start(self, plan=None, *, takes=False, epsilon=0.0):
        self._epsilon = epsilon
        problem, dtype = self.problem, self.precision.dtype
        rows, cols = problem.rule.product()
        takes, outer = takes and plan.dtype == dtype and plan.flags.carray, None
        self.state = plan if takes else aligned_empty(problem.shape, dtype)
        if plan is None:
            outer = rows, cols / problem.mass
            np.multiply.outer(*outer, out=self.state, casting="same_kind")
        else:
            if not takes:
                np.copyto(self.state, plan, casting="same_kind")
            if not problem.is_balanced:
                rows, cols = self.state.sum(axis=1), self.state.sum(axis=0)
        given = self.state, (rows, cols), self._change, epsilon, self._deadline
        self.cost.set(*given, outer)
        if plan is None and self._fixed:
            return self._started_at
        gw_cost, _ = self.cost.objective()
        self._started_at = gw_cost if plan is None else self._started_at
        return gw_cost

    def start_from(self, coarse, rows, cols):
        plan = np.zeros(self.problem.shape, dtype=np.float32)
        plan[np.ix_(rows, cols)] = coarse.state
        return self.start(plan, takes=True)

    def export(self):
        return dict(state=self.state, damping=self._damping)

    def restore(self, saved, change, epsilon):
        plan = as_saved(saved["state"], self.problem.shape, self.precision.dtype)
        self._change, self._damping = change, float(saved["damping"])
        self.start(plan, epsilon=epsilon)

    def kernel(self, epsilon=None, start=None):
        self._epsilon = epsilon or 0.0
        step = epsilon if epsilon and self.method.proximal else None
        moves = dict(change=self._change, epsilon=self._epsilon, step=step)
        fill = functools.partial(self.cost.fill, **moves)
        holds = "cost" if self.cost.is_there and not step else None
        separable = None
        if not self._fixed:
            # Steps without the separable terms start from potentials of zero.
            unit = self.cost_scale if self.method.marginal_terms else np.inf
            separable = self.cost.separable_potentials(unit)
        return StoredKernel(self._buffer, fill, self.n_threads, separable, holds=holds)

    def update(self, kernel, solution):
        before, led = self.state, self._led if self.cost.has_moved else None
        self._was_exact = self.cost.products.is_exact
        rows, cols = kernel.scale(solution.scalings)
        self.state, self._buffer.array = kernel.rows, before
        if self._damping:
            rows, cols = mix(self.state, before, self._damping)
        # The next product overwrites the array of the former plan.
        start = before[self._some].copy() if led is None else led
        after = self.state[self._some].copy()
        if led is None:
            change, moved = self.distance_to(before)
        else:
            # After acceleration only these rows of the former plan exist.
            share = self.problem.p[self._some].sum() / self.problem.mass
            change, moved = _kernels.distance(after, led, self.n_threads)
            change, moved = change / share, moved * np.sqrt(len(before) / len(led))
        # The change is that of the undamped step.
        moved /= 1.0 - self._damping
        change /= self.problem.rule.plan_mass(rows) * (1.0 - self._damping)
        self._change = change
        sums, epsilon = (rows, cols), self._epsilon
        self.cost.set(self.state, sums, change, epsilon)
        gw_cost, bilinear = self.cost.objective()
        if self.accelerates:
            self._step = start, after, self.cost.beside()
        return Update(gw_cost, float(change), rows, cols, moved, bilinear=bilinear)

    def distance_to(self, plan):
        """L1 and Frobenius norm of the difference of the state from a plan."""
        return _kernels.distance(self.state, plan, self.n_threads)

    def apart(self, other):
        return self.distance_to(other.state)[1] / self._largest

    def coupling(self, kernel, solution):
        return ArrayCoupling(self.state, self.n_threads)

    snapshot = coupling

    def linear_value(self, update):
        fused = self.terms.fused
        return 0.0 if fused is None else fused.value(self.state, update.rows.sum())

    def tighten(self):
        self.cost.products.tighten()

    def standing(self):
        """Marginals and entropy of the plan of the linearized cost."""
        return self.cost.standing()

    def _keep(self):
        products = self.cost.products
        products.keep(self._buffer.array)
        if products.is_correction:
            self.forget()
        return products.memory.n_kept

    def _move(self, weights, steps):
        _, plans, beside = zip(*steps, strict=True)
        self._led = combined(weights, plans).astype(self.precision.dtype)
        self.cost.move(weights, combined(weights, beside))

    def retract(self):
        if is_kept := self.cost.products.memory.n_kept > 0:
            _, self._led, beside = self._steps[-1]
            self.cost.move([1.0], beside)
        return is_kept

    def forget(self):
        super().forget()
        self.cost.products.memory.forget_kept()

    is_small, descent = property(suits_descent), descent_of

    @property
    def sample_stride(self):
        """Every how many rows acceleration goes by; 0 where there is none."""
        return self._some.step if self.accelerates else 0

    def take(self, descent):
        """Make the plan of a `Descent` the state."""
        self.state, self._change = descent.plan, float(descent.steps[-1, CHANGE])
        self.cost.take(descent)
        self.forget()


def sample(shape, itemsize):
    """A slice: rows of a plan, evenly spread, that stand for all."""
    most = max(SAMPLE_ENTRIES // shape[1], LEAST_ROWS)
    return slice(None, None, max(shape[0] // min(SAMPLE_ROWS[itemsize], most), 1))


def mix(plan, before, share):
    """Mix the former plan into a plan, in place, with this share; returns the sums."""
    for some in row_blocks(*plan.shape):
        rows = plan[some]
        rows *= 1.0 - share
        rows += share * before[some]
        rows[rows < _kernels.LEAST_ENTRY[plan.dtype]] = 0.0
    return (plan.sum(axis=axis, dtype=np.float64) for axis in (1, 0))


def accelerates(problem, method, mechanisms=ALL):
    """Whether the state is linear in the plan, and acceleration is allowed."""
    linear = problem.is_balanced or problem.rule.is_relaxed
    return mechanisms.acceleration and linear and not method.proximal


def nbytes(problem, shape, itemsize, method, n_states):
    """Bytes that a solve of that shape takes beside its costs, with `n_states` plans
    that take turns.
    """
    n, m = shape
    plan, symmetric = n * m, problem.x.symmetric and problem.y.symmetric
    size = _size(problem, shape, 4, method, n_states)
    if itemsize > 4:
        # A warm start in float32, whose buffers serve increments later.
        increments = 20 * plan if method is PGD else 0
        size = increments + (size if method is PGD else 0)
        size += _size(problem, shape, 8, method, 1)
        size += 16 * (plan + min(n, m) ** 2)  # Newton's steps
    if n * m * (n + m) <= MOST_WORK:
        # What the compiled loop works in, and plan and cost of each of its descents.
        size += itemsize * plan * (12 + n_states)
        if itemsize > 4:
            size += 4 * (1 if symmetric else 2) * (n * n + m * m)  # costs in float32
    if has_low_rank(problem, shape):
        # Eigenvectors; other parts of the low-rank warm start are freed before.
        size += 4 * 8 * SPAN * (n + m)
    if low_rank_update.suits(shape, symmetric, ALL):
        size += low_rank_update.nbytes(shape, itemsize, DEPTH)
    return size


def _size(problem, shape, itemsize, method, n_states):
    """Bytes of matrices with this itemsize."""
    n, m = shape
    squares, plan, larger = n * n + m * m, n * m, max(n, m)
    symmetric = problem.x.symmetric and problem.y.symmetric
    # The buffer, and of an asymmetric cost the product of the second orientation; kept
    # products; and the states.
    sides = 1 if symmetric else 2
    plans = sides + problem.is_fused + method.alternating + n_states
    updates = low_rank_update.suits(shape, symmetric, ALL)
    plans += n_rooms(shape, itemsize, updates, accelerates(problem, method))
    matrices = 0
    if copies_costs(problem, method, itemsize, shape):
        # The right factor is stored a second time, packed.
        fixed = has_fixed_terms(problem, method)
        matrices = sides * squares + m * m + (0 if fixed else squares)
    for side in (problem.x, problem.y):
        matrix = None if isinstance(side, PointCloud) else side.matrix
        if matrix is None or not matrix.flags.forc:
            matrices += larger**2  # a copy in C order
    rows = 6 * max(SAMPLE_ROWS.values()) * m
    size = itemsize * (matrices + plans * plan + rows)
    return size + matrix_products.nbytes(larger, larger, itemsize)

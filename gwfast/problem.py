"""The quadratic problem, and the one hinge between it and the linear solver:
``linearize`` at a plan, that is, the pseudo-cost

    lin_cost(T) = f1(C1) p 1' + 1 q' f2(C2)' - h1(C1) T h2(C2)'

of Peyre, Cuturi and Solomon (ICML 2016), Proposition 1. The first two terms depend on
one index each: they move the potentials but no plan, so the buffer only ever holds the
third, in units of `unit`, where float32 suffices.
"""

import copy
import functools

import numpy as np

from ._validation import as_marginal, one_of
from .geometry import DenseCost, PointCloud, row_blocks
from .kernels import _kernels

# As POT, so that zero costs (the diagonal of a distance) are allowed under KL.
LOG_FLOOR = 1e-18
# Relative rounding of the objective of the product plan.
PRODUCT_ROUNDING = 1e-7


def _x_log_x(x):
    return x * np.log(x + LOG_FLOOR) - x


# L(a, b) = f1(a) + f2(b) - h1(a) h2(b).
LOSSES = {
    "square": {
        "f1": np.square,
        "f2": np.square,
        "h1": lambda x: x,
        "h2": lambda x: 2.0 * x,
    },
    "kl": {
        "f1": _x_log_x,
        "f2": lambda x: x,
        "h1": lambda x: x,
        "h2": lambda x: np.log(x + LOG_FLOOR),
    },
}


def as_geometry(cost, name):
    """A geometry as it is, anything else as a matrix of costs."""
    if isinstance(cost, PointCloud | DenseCost):
        return cost
    return DenseCost(cost, name)


class QuadraticProblem:
    """Two geometries, their marginals and a loss; no algorithm. What `multistart` and
    `tune_epsilon` solve.

    Parameters
    ----------
    x, y : PointCloud, DenseCost or array-like of shape (n, n) and (m, m)
    p, q : array-like of shape (n,) and (m,) or None
        None is uniform.
    loss : {"square", "kl"}
        ``(a - b)^2`` or ``a log(a / b) - a + b``.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.
    """

    def __init__(self, x, y, p=None, q=None, *, loss="square"):
        self.x, self.y = as_geometry(x, "cost_x"), as_geometry(y, "cost_y")
        self.p = as_marginal(p, "p", self.x.n)
        self.q = as_marginal(q, "q", self.y.n)
        self.loss = one_of(loss, "loss", LOSSES)
        self.shape = (self.x.n, self.y.n)
        self.profiles = {}  # see `initial.Profile`

    def take(self, rows, cols):
        """The same problem on some of the points, their masses scaled to one."""
        part = copy.copy(self)
        part.x, part.y = self.x.take(rows), self.y.take(cols)
        part.p, part.q = self.p[rows], self.q[cols]
        part.p, part.q = part.p / part.p.sum(), part.q / part.q.sum()
        part.shape, part.profiles = (part.x.n, part.y.n), {}
        return part

    @property
    def kind(self):
        """The `Linearization` that suits the geometries."""
        factored = isinstance(self.x, PointCloud) and isinstance(self.y, PointCloud)
        return Factored if factored and self.loss == "square" else Dense

    def linearize(self, n_threads):
        """A `Linearization` of this problem, its state yet to be set."""
        return self.kind(self, n_threads)


class Workspace:
    """Buffers that all states of a problem use, one at a time.

    Attributes
    ----------
    buffer : (n, m) float32 ndarray
    filled_by : Linearization or None
        Whose pseudo-cost the buffer already holds.
    """

    def __init__(self, shape, extra=0):
        self.buffer = _kernels.aligned_empty(shape)
        self.extra = [_kernels.aligned_empty(shape) for _ in range(extra)]
        self.filled_by = None


class Linearization:
    """The pseudo-cost at a plan that changes in place.

    One buffer goes round: `fill` writes the pseudo-cost of the current state into it,
    the linear solver turns it into a plan, `update` makes that plan the state. A `fork`
    has a state of its own and shares all else; any number of them can take turns.

    Attributes
    ----------
    buffer : (n, m) float32 ndarray
    unit : float
        What one in the buffer is worth in units of cost.
    row_cost, col_cost : float64 ndarrays of shape (n,) and (m,)
        The separable terms, in units of cost.
    magnitude : float
        Size of the terms whose difference the objective is, in units of cost.
    inner_share : float
        Tolerance of the inner iterations, as a share of the last relative change.
    change_is_rounded : bool
        Whether the change shows the rounding of single entries of the plan.
    inner_passes : int
        Limit of Sinkhorn passes while the plan still moves fast.
    """

    def __init__(self, problem, n_threads):
        self.problem, self.n_threads = problem, n_threads

    @property
    def buffer(self):
        return self.workspace.buffer

    @property
    def plan(self):
        """The plan that the last `update` took as the state, until another fork's."""
        return self.buffer

    @functools.cached_property
    def product_cost(self):
        """Objective of the product plan, which is the mean pseudo-cost there; 0.0 where
        it is nothing but rounding.
        """
        cost = self.fork().start()
        return cost if cost > PRODUCT_ROUNDING * self.magnitude else 0.0

    def fork(self):
        """Another with the same costs, workspace and, until it changes, state."""
        return copy.copy(self)

    def deviation(self):
        """How the state differs from that of the product plan, in units of what it
        could be.
        """
        p, q = self.problem.p, self.problem.q
        return (self.state - np.outer(p, q)) / np.sqrt(p.max() * q.max())

    def start_from(self, coarse, rows, cols):
        """Set the state from that of the same problem on `rows` and `cols` only."""
        plan = np.zeros(self.problem.shape, dtype=np.float32)
        plan[np.ix_(rows, cols)] = coarse.plan
        return self.start(plan)

    @property
    def magnitude(self):
        problem = self.problem
        return problem.p @ np.abs(self.row_cost) + problem.q @ np.abs(self.col_cost)


class Factored(Linearization):
    """Squared loss between point clouds: the state is the small matrix ``A = X' T Y``.

    ``h1(C1) T h2(C2)' = 2 X (S1 A S2) Y'`` with the signatures S of the features, so
    that no cost is ever formed and the objective is a sum over d x d' entries
    (Scetbon, Peyre and Cuturi, ICML 2022, for factored costs in general).
    """

    # The objective is concave in the plan for such costs, and each step a descent even
    # where the linear problem is solved roughly.
    inner_share = 0.1
    # A sums over all entries.
    change_is_rounded = False

    def __init__(self, problem, n_threads):
        super().__init__(problem, n_threads)
        x, y, p, q = problem.x, problem.y, problem.p, problem.q
        self.unit = x.scale * y.scale
        self.row_cost = x.scale**2 * x.square_times(p)
        self.col_cost = y.scale**2 * y.square_times(q)
        # As many passes as cost about what the two products do: one reads an entry in
        # the time of about ten multiply-adds.
        work = x.features.shape[1] + y.features.shape[1]
        self.inner_passes = min(max(work // 10, 10), 200)
        self.workspace = Workspace(problem.shape)

    def start(self, plan=None):
        """Set the state; None is the product plan, which needs no matrix."""
        problem = self.problem
        if plan is None:
            means = problem.p @ problem.x.features, problem.q @ problem.y.features
            self.state = np.outer(*means)
        else:
            self.state = self._contract(plan)
        return self._objective(problem.p, problem.q)

    def deviation(self):
        # Of points, not of the features that hold their squares and ones.
        x, y = self.problem.x.points, self.problem.y.points
        p, q = self.problem.p, self.problem.q
        state = self.state[: x.shape[1], : y.shape[1]]
        squares = (p @ np.square(x).sum(axis=1)) * (q @ np.square(y).sum(axis=1))
        return (state - np.outer(p @ x, q @ y)) / np.sqrt(squares or 1.0)

    def start_from(self, coarse, rows, cols):
        self.state = coarse.state
        return self._objective(self.problem.p, self.problem.q)

    def fill(self):
        core = (-2.0 * self._core()).astype(np.float32)
        left = np.ascontiguousarray(self.problem.x.features @ core)
        _kernels.matmul(
            left, self.problem.y.features, self.buffer, True, self.n_threads
        )

    def update(self, rows, cols):
        """Take the plan in the buffer, with marginals `rows` and `cols`, as the state.

        Returns
        -------
        gw_cost, change : float
        """
        before, self.state = self.state, self._contract(self.buffer)
        size = np.linalg.norm(self.state)
        change = np.linalg.norm(self.state - before) / size if size > 0 else 0.0
        return self._objective(rows, cols), float(change)

    def _core(self):
        return self.problem.x.signature @ self.state @ self.problem.y.signature

    def _contract(self, plan):
        x, y = self.problem.x.features, self.problem.y.features
        state = np.empty((x.shape[1], y.shape[1]))
        _kernels.contract(x, plan, y, state, self.n_threads)
        return state

    def _objective(self, rows, cols):
        separable = rows @ self.row_cost + cols @ self.col_cost
        bilinear = -2.0 * self.unit * np.vdot(self._core(), self.state)
        return _not_negative(separable, bilinear)


class Dense(Linearization):
    """Any loss between any costs: two GEMMs on the matrices, the state is the plan.

    An asymmetric cost has two pseudo-costs, of it and of its transpose; their mean is
    half the gradient of the objective.
    """

    # With a share of 0.1, 5 of 30 random problems (epsilon a tenth of the objective of
    # the product plan) ended in another optimum than POT's exact inner solutions lead
    # to, with 0.01 none. At less than half that epsilon 2 of 14 still do.
    inner_share, inner_passes = 0.01, 200
    change_is_rounded = True

    def __init__(self, problem, n_threads):
        super().__init__(problem, n_threads)
        x, y = problem.x.to_dense(), problem.y.to_dense()
        if problem.loss == "kl":
            for geometry, name in ((x, "cost_x"), (y, "cost_y")):
                if geometry.matrix.min() < 0:
                    raise ValueError(
                        f"{name} must not be negative with loss='kl', "
                        f"got {geometry.matrix.min()}"
                    )
        loss = LOSSES[problem.loss]
        # The squared loss sees differences only: a common shift keeps large offsets
        # out of the squares.
        shift = 0.0
        if problem.loss == "square":
            shift = (_mean(x.matrix) + _mean(y.matrix)) / 2
        self.symmetric = x.symmetric and y.symmetric
        p, q = problem.p, problem.q
        left = _Transformed(x, shift, loss["h1"], loss["f1"], p)
        right = _Transformed(y, shift, loss["h2"], loss["f2"], q)
        # The sign of the third term is taken care of once.
        self._left = np.negative(left.matrix, out=left.matrix)
        self._right = right.matrix
        self.unit = left.scale * right.scale
        # h = scale * matrix + center: the constant parts of h1 T h2' are separable.
        constant = left.center * right.center / 2
        self.row_cost = left.linear - right.center * left.product - constant
        self.col_cost = right.linear - left.center * right.product - constant
        self.workspace = Workspace(problem.shape, extra=1 if self.symmetric else 2)
        if not self.symmetric:
            self._left_transposed = np.ascontiguousarray(self._left.T)
            self._right_transposed = np.ascontiguousarray(self._right.T)

    @property
    def plan(self):
        return self.state

    def start(self, plan=None):
        problem = self.problem
        self.state = _kernels.aligned_empty(problem.shape)
        if plan is None:
            np.multiply.outer(problem.p, problem.q, out=self.state, casting="same_kind")
        else:
            np.copyto(self.state, plan, casting="same_kind")
        return self._objective(problem.p, problem.q)

    def fill(self):
        if self.workspace.filled_by is self:  # the objective needed the same product
            self.workspace.filled_by = None
            return
        self._multiply(self._left, self._right, self.buffer)
        if not self.symmetric:
            other = self.workspace.extra[1]
            self._multiply(self._left_transposed, self._right_transposed, other)
            mean = self.buffer
            mean += other
            mean *= 0.5

    def update(self, rows, cols):
        before = self.state
        self.state, self.workspace.buffer = self.buffer, before
        np.subtract(self.state, before, out=before)
        np.abs(before, out=before)
        change = float(before.sum(dtype=np.float64))
        return self._objective(rows, cols), change

    def _multiply(self, left, right, out):
        """``out = left @ plan @ right.T``."""
        scratch = self.workspace.extra[0]
        _kernels.matmul(left, self.state, scratch, False, self.n_threads)
        _kernels.matmul(scratch, right, out, True, self.n_threads)

    def _objective(self, rows, cols):
        self.workspace.filled_by = None
        self.fill()
        self.workspace.filled_by = self
        separable = rows @ self.row_cost + cols @ self.col_cost
        bilinear = _kernels.dot(self.state, self.buffer, self.n_threads)
        return _not_negative(separable, self.unit * bilinear)


def _not_negative(separable, bilinear):
    """Their sum, a mean of losses, and so negative by rounding only."""
    total = float(separable + bilinear)
    rounding = 1e-5 * (abs(separable) + abs(bilinear))
    return max(total, 0.0) if total > -rounding else total


def _mean(matrix):
    return float(matrix.mean(dtype=np.float64))


class _Transformed:
    """``h(C - shift) = scale * matrix + center`` in float32, and the products with
    the marginal that the separable terms need, in float64, block by block of rows.

    Attributes
    ----------
    matrix : (n, n) float32 ndarray
        With entries in [-1, 1].
    scale, center : float
    linear : (n,) ndarray
        ``f(C - shift) @ p``.
    product : (n,) ndarray
        ``scale * matrix @ p``.
    """

    def __init__(self, geometry, shift, h, f, p):
        cost, n = geometry.matrix, geometry.n
        # h is monotone for both losses, so its range is that of the extremes.
        low, high = (
            float(h(np.float64(bound) - shift)) for bound in (cost.min(), cost.max())
        )
        self.center = (low + high) / 2
        self.scale = (high - low) / 2 or 1.0
        self.matrix = np.empty((n, n), dtype=np.float32)
        self.linear, self.product = np.zeros(n), np.zeros(n)
        for rows in row_blocks(n, n):
            block = cost[rows].astype(np.float64) - shift
            values = h(block) - self.center
            self.linear[rows] += f(block) @ p
            self.product[rows] += values @ p
            if not geometry.symmetric:
                # Both orientations, halved below: the mean of C and its transpose.
                self.linear += f(block).T @ p[rows]
                self.product += values.T @ p[rows]
            self.matrix[rows] = values / self.scale
        if not geometry.symmetric:
            self.linear /= 2
            self.product /= 2

"""The pseudo-cost of any loss between any matrices of costs."""

import numpy as np

from .anderson import Trail
from .coupling import ArrayCoupling
from .geometry import row_blocks
from .kernel import (
    StoredKernel,
)
from .kernels import _kernels, _products
from .kernels._rows import Panels, aligned_empty
from .linearization import Linearization, not_negative

# As POT, so that zero costs (the diagonal of a distance) are allowed under KL.
LOG_FLOOR = 1e-18
# Rows of plans that extrapolation looks at; their products it has anyway.
SAMPLE_ROWS = 128


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

    @classmethod
    def nbytes(cls, problem, tier, n_threads, scale=1.0):
        n, m = (scale * size for size in problem.shape)
        symmetric = problem.x.symmetric and problem.y.symmetric
        matrices, plans = (1, 6) if symmetric else (2, 7)
        return 4 * (matrices * (n * n + m * m) + plans * n * m)

    def __init__(self, problem, n_threads, tier="dense"):
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
        self._right = Panels(right.matrix, True, n_threads=n_threads)
        self.unit = left.scale * right.scale
        # h = scale * matrix + center: the constant parts of h1 T h2' are separable.
        constant = left.center * right.center / 2
        self.row_cost = left.linear - right.center * left.product - constant
        self.col_cost = right.linear - left.center * right.product - constant
        self._workspace = _Workspace(problem.shape, 1 if self.symmetric else 2)
        self._some = slice(None, None, max(problem.shape[0] // SAMPLE_ROWS, 1))
        self.forget()
        if not self.symmetric:
            self._left_transposed = np.ascontiguousarray(self._left.T)
            self._right_transposed = Panels(right.matrix, n_threads=n_threads)

    def start(self, plan=None):
        problem = self.problem
        self.state = aligned_empty(problem.shape)
        if plan is None:
            np.multiply.outer(problem.p, problem.q, out=self.state, casting="same_kind")
        else:
            np.copyto(self.state, plan, casting="same_kind")
        return self._objective(problem.p, problem.q)

    def start_from(self, coarse, rows, cols):
        plan = np.zeros(self.problem.shape, dtype=np.float32)
        plan[np.ix_(rows, cols)] = coarse.state
        return self.start(plan)

    def kernel(self, solver=None, epsilon=None):
        return StoredKernel(self._workspace.buffer, self._fill, self.n_threads)

    def update(self, kernel, solver):
        before = self.state
        some, start = self._some, self._from
        extrapolated, self._from = start is not None, None
        if not extrapolated:
            start = before[some].copy()
        self.marginals = kernel.scale(solver.u, solver.v, solver.sums)
        self.state, self._workspace.buffer = kernel.rows, before
        self._trail.add(start, self.state[some].copy())
        if extrapolated:
            # The plan that this one came from was never made but for these rows.
            change = np.abs(self.state[some] - start).sum() / self.problem.p[some].sum()
        else:
            change = _kernels.distance(self.state, before, self.n_threads)
        return self._objective(*self.marginals), float(change)

    def coupling(self, kernel, solver):
        return ArrayCoupling(self.state, self.n_threads)

    snapshot = coupling

    def entropy(self, kernel, solver):
        return _kernels.entropy(self.state, self.n_threads)

    def extrapolate(self):
        # The product is linear in the plan: it is what moves, the plan stays.
        last, made = self._product, self._workspace.buffer
        self._product = made.copy()
        weight = 0.0 if last is None else self._trail.weight()
        if weight:
            made *= 1.0 + weight
            last *= weight
            made -= last
            self._from = self._trail.extrapolated(weight).astype(np.float32)
        return weight > 0

    def retract(self):
        np.copyto(self._workspace.buffer, self._product)
        self._workspace.filled_by = self
        self.forget()

    def forget(self):
        self._trail = Trail()
        self._from = self._product = None

    def _fill(self):
        workspace = self._workspace
        if workspace.filled_by is self:  # the objective needed the same product
            workspace.filled_by = None
            return
        self._from = None  # if an extrapolated product was there, it is no more
        self._multiply(self._left, self._right, workspace.buffer)
        if not self.symmetric:
            other = workspace.extra[1]
            self._multiply(self._left_transposed, self._right_transposed, other)
            mean = workspace.buffer
            mean += other
            mean *= 0.5

    def _multiply(self, left, right, out):
        """``out = left @ plan @ right``."""
        scratch, n_threads = self._workspace.extra[0], self.n_threads
        plan = Panels(self.state, n_threads=n_threads)
        _products.matmul(left, plan, scratch, n_threads=n_threads)
        _products.matmul(scratch, right, out, n_threads=n_threads)

    def _objective(self, rows, cols):
        workspace = self._workspace
        workspace.filled_by = None
        self._fill()
        workspace.filled_by = self
        separable = rows @ self.row_cost + cols @ self.col_cost
        bilinear = _kernels.dot(self.state, workspace.buffer, self.n_threads)
        return not_negative(separable, self.unit * bilinear)


class _Workspace:
    """Buffers that all forks use, one at a time.

    Attributes
    ----------
    buffer : (n, m) float32 ndarray
    filled_by : Dense or None
        Whose pseudo-cost the buffer already holds.
    """

    def __init__(self, shape, extra):
        self.buffer = aligned_empty(shape)
        self.extra = [aligned_empty(shape) for _ in range(extra)]
        self.filled_by = None


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

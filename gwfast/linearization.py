"""The one hinge between the quadratic problem and the linear solver: the pseudo-cost

    lin_cost(T) = f1(C1) p 1' + 1 q' f2(C2)' - h1(C1) T h2(C2)'

of Peyre, Cuturi and Solomon (ICML 2016), Proposition 1. The first two terms depend on
one index each: they move the potentials but no plan, so the kernels only ever see the
third, in units of `unit`, where float32 suffices.
"""

import copy
import functools

import numpy as np

from .anderson import Trail
from .coupling import ArrayCoupling
from .geometry import SCRATCH_BYTES, row_blocks
from .kernel import (
    ProductKernel,
    SparseKernel,
    StoredKernel,
    TiledKernel,
    contract,
)
from .kernels import _kernels, _products
from .kernels._rows import Panels, Product, aligned_empty
from .memory import BYTES_KEPT, EXPECTED_DENSITY
from .sinkhorn import SinkhornSolver
from .support import CERTIFIED, SHARES, Support, padded

# As POT, so that zero costs (the diagonal of a distance) are allowed under KL.
LOG_FLOOR = 1e-18
# Relative rounding of the objective of the product plan.
PRODUCT_ROUNDING = 1e-7
# Relative change of the state below which it is worth to see whether a part of the
# kernel is enough: before, it would have to be chosen anew in every step. Where a pass
# makes the kernel anew that is soon worth it.
THIN_BELOW = {"dense": 0.05, "sparse": 0.5, "tiled": -1.0}
# Largest exponent of the kernel with which it can be told what is small in the plan.
THIN_PEAK = 20.0
# Rows of plans that extrapolation looks at; their products it has anyway.
SAMPLE_ROWS = 128
# Share of the entries up to which making and multiplying them one by one is faster than
# all of them in tiles (measured from 2000 to 20000 points a side, 50 and 200 features),
# by whether these are stored.
PAYS_BELOW = {"dense": 0.03, "sparse": 0.15}


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


# Points a side on which candidates race (see search.py), and quantiles of their
# profiles (initial.py).
RACE_POINTS, QUANTILES = 1500, 300


class Linearization:
    """The pseudo-cost at a plan that changes.

    `kernel` makes a Gibbs kernel of the pseudo-cost of the current state, the linear
    solver finds the scalings of a plan, `update` makes that plan the state. A `fork`
    has a state of its own and shares all else; any number of them can take turns.

    Attributes
    ----------
    unit : float
        What one in a kernel's cost is worth in units of cost.
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
    lost : float
        Share of the mass of a row or column that the plan may lack, at most, because
        only a part of the kernel is kept.
    """

    lost = 0.0

    def __init__(self, problem, n_threads):
        self.problem, self.n_threads = problem, n_threads

    @classmethod
    def nbytes(cls, problem, tier, n_threads, scale=1.0):
        """Bytes that a solve of a problem with `scale` times as many points takes
        beside the geometries, about.
        """
        raise NotImplementedError

    def start(self, plan=None):
        """Set the state, by default to the product plan; returns the objective."""
        raise NotImplementedError

    def start_from(self, coarse, rows, cols):
        """Set the state from that of the same problem on `rows` and `cols` only."""
        raise NotImplementedError

    def potentials_from(self, coarse, rows, cols, epsilon):
        """Potentials of all points for the cost of the state from those of the same
        problem on `rows` and `cols` only, or None.
        """
        return None

    def kernel(self, solver=None, epsilon=None):
        """A `Kernel` of the pseudo-cost of the state, perhaps only a part of it that is
        enough for `solver`, which is close to the solution, and `epsilon`.
        """
        raise NotImplementedError

    def update(self, kernel, solver):
        """Take the plan that `solver` has found for `kernel` as the state.

        Returns
        -------
        gw_cost, change : float
        """
        raise NotImplementedError

    def coupling(self, kernel, solver):
        """The plan that was last taken, as a `Coupling`; until another fork has used
        the same buffers.
        """
        raise NotImplementedError

    def misfit(self):
        """Do without the part of the kernel that turned out to be too small."""

    def restore(self):
        """Make kernels whole from now on; returns whether they were not."""
        return False

    def entropy(self, kernel, solver):
        """``-sum T log T`` of the plan that was last taken."""
        raise NotImplementedError

    def extrapolate(self):
        """Move the state from the last plan to where the last plans lead (Anderson's
        acceleration); returns whether they say.
        """
        raise NotImplementedError

    def retract(self):
        """Take back the last plan, and go on from that before it."""
        raise NotImplementedError

    def forget(self):
        """Extrapolate from nothing that was before."""
        raise NotImplementedError

    @functools.cached_property
    def product_cost(self):
        """Objective of the product plan, which is the mean pseudo-cost there; 0.0 where
        it is nothing but rounding.
        """
        cost = self.fork().start()
        return cost if cost > PRODUCT_ROUNDING * self.magnitude else 0.0

    def fork(self):
        """Another with the same costs, workspace and, until it changes, state."""
        other = copy.copy(self)
        other.forget()
        return other

    def deviation(self):
        """How the state differs from that of the product plan, in units of what it
        could be.
        """
        p, q = self.problem.p, self.problem.q
        return (self.state - np.outer(p, q)) / np.sqrt(p.max() * q.max())

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

    def __init__(self, problem, n_threads, tier="dense"):
        super().__init__(problem, n_threads)
        x, y, p, q = problem.x, problem.y, problem.p, problem.q
        self.unit = x.scale * y.scale
        self.row_cost = x.scale**2 * x.square_times(p)
        self.col_cost = y.scale**2 * y.square_times(q)
        # As many passes as cost about what the two products do: one reads an entry in
        # the time of about ten multiply-adds.
        work = x.features.shape[1] + y.features.shape[1]
        self.inner_passes = min(max(work // 10, 10), 200)
        self._shared = _Factors(y.features, n_threads)
        self._buffer = aligned_empty(problem.shape) if tier == "dense" else None
        self._tier, self._support, self._change = tier, None, 1.0
        self._thin_below = THIN_BELOW[tier]
        self.forget()

    @classmethod
    def nbytes(cls, problem, tier, n_threads, scale=1.0):
        n, m = (scale * size for size in problem.shape)
        r, s = problem.x.features.shape[1], problem.y.features.shape[1]
        # Both features as the kernels read them, what is made of them in a step, and
        # the column sums of chunks; in float64 for a moment.
        shared = 4 * (3 * n * (r + s) + 3 * m * s) + 12 * 32 * m + 64 * (n + m)
        kernel = {
            "dense": 4 * n * m,
            "sparse": BYTES_KEPT * EXPECTED_DENSITY * n * m,
            "tiled": 0,
        }
        strips = n_threads * max(4 * 2**20, 4 * 64 * m)
        return shared + kernel[tier] + (0 if tier == "dense" else strips) + _race(n, m)

    def start(self, plan=None):
        """Set the state; None is the product plan, which needs no matrix."""
        problem = self.problem
        if plan is None:
            means = problem.p @ problem.x.features, problem.q @ problem.y.features
            self.state = np.outer(*means)
        else:
            ones = (np.ones(size, dtype=np.float32) for size in problem.shape)
            x, y = problem.x.features, problem.y.features
            self.state, _ = contract(x, plan, y, *ones, self.n_threads)
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

    def potentials_from(self, coarse, rows, cols, epsilon):
        f, g = coarse
        left, y = self._left(), self.problem.y.features
        some = Panels(np.ascontiguousarray(y[cols]), True, n_threads=self.n_threads)
        # What the few sum to is what all would: masses of both levels sum to one.
        solver = SinkhornSolver(self.problem.p, self.problem.q, self.n_threads)
        few = np.ascontiguousarray(left[rows])
        solver.fit_rows(Product(left, some), g, epsilon)
        solver.fit_cols(Product(few, self._shared.panels), f, epsilon)
        return solver.f, solver.g

    def _left(self):
        """The pseudo-cost is the product of this with the features of y."""
        x, core = self.problem.x.features, -2.0 * self._core()
        left = aligned_empty((len(x), core.shape[1]))
        core = Panels(core.astype(np.float32), n_threads=self.n_threads)
        _products.matmul(x, core, left, n_threads=self.n_threads)
        return left

    def kernel(self, solver=None, epsilon=None):
        left, shared = self._left(), self._shared
        if self._support is None:
            if self._tier == "dense":
                kernel = ProductKernel(
                    left, shared.panels, self._buffer, self.n_threads
                )
            else:
                y = self.problem.y.features
                kernel = TiledKernel(left, shared.panels, y, self.n_threads)
            if solver is None or solver.f is None or self._change > self._thin_below:
                return kernel
            self._thin(kernel, solver, epsilon)
            if self._support is None:
                return kernel
        return SparseKernel(left, shared.rows, self._support, self.n_threads)

    def update(self, kernel, solver):
        before = self.state
        x, y = self.problem.x.features, self.problem.y.features
        self.state, rows = kernel.contract(x, y, solver.u, solver.v)
        self._trail.add(before, self.state)
        self.marginals, self.lost = (rows, solver.cols), 0.0
        size = np.linalg.norm(self.state)
        change = np.linalg.norm(self.state - before) / size if size > 0 else 0.0
        self._change = change
        if self._support is not None:
            self.lost = np.inf
            if kernel.epsilon == self._support.epsilon:
                self.lost = self._support.lost(kernel.left, solver.f, solver.g)
            if not self.lost <= CERTIFIED:
                self._support = None
        return self._objective(*self.marginals), float(change)

    def _thin(self, kernel, solver, epsilon):
        """Keep only a part of the kernel from now on, if that pays: what is not small
        with the potentials that there are.
        """
        solver.v.fill(1.0)
        kernel.peak = kernel.make(
            solver.f, solver.g, epsilon, solver.q, solver.v, solver.sums
        )
        if not kernel.peak < THIN_PEAK:
            self._thin_below = self._change / 4.0
            return
        for share in SHARES:
            support = Support(
                kernel, solver, self._shared.lengths, share, self.n_threads
            )
            if support.pays(PAYS_BELOW[self._tier]):
                self._support = support.choose()
                return
        # It takes looks at the whole kernel to know.
        self._thin_below = self._change / 4.0

    def coupling(self, kernel, solver):
        coupling = kernel.coupling(solver)
        if self._tier == "dense" and coupling.form == "sparse":
            # It stopped between two looks at the whole; the buffer is there.
            coupling.csr.toarray(out=self._buffer)
            return ArrayCoupling(self._buffer, self.n_threads)
        return coupling

    def misfit(self):
        self._support, self._thin_below = None, self._change / 4.0

    def restore(self):
        if self._tier != "dense":
            return False
        had, self._support, self._thin_below = self._support, None, -1.0
        return had is not None

    def entropy(self, kernel, solver):
        # The logarithm of the plan is (f + g - cost) / epsilon.
        before, after = self._trail.last
        logs = -np.vdot(self._core(before) * -2.0, after)
        for potential, sums in zip((solver.f, solver.g), self.marginals, strict=True):
            logs += sums[sums > 0] @ potential[sums > 0]
        return -float(logs) / kernel.epsilon

    def extrapolate(self):
        weight = self._trail.weight()
        if weight:
            self.state = self._trail.extrapolated(weight)
        return weight > 0

    def retract(self):
        self.state = self._trail.penultimate
        self.forget()

    def forget(self):
        self._trail = Trail()

    def _core(self, state=None):
        state = self.state if state is None else state
        return self.problem.x.signature @ state @ self.problem.y.signature

    def _objective(self, rows, cols):
        separable = rows @ self.row_cost + cols @ self.col_cost
        bilinear = -2.0 * self.unit * np.vdot(self._core(), self.state)
        return _not_negative(separable, bilinear)


class _Factors:
    """The right factor in the forms that kernels read, each made once for all forks."""

    def __init__(self, features, n_threads):
        self.features = features
        self.panels = Panels(features, True, n_threads=n_threads)

    @functools.cached_property
    def rows(self):
        return padded(self.features)

    @functools.cached_property
    def lengths(self):
        """Of the rows, float64."""
        return np.linalg.norm(self.features.astype(np.float64), axis=1)


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
        return _not_negative(separable, self.unit * bilinear)


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


def _race(n, m):
    """Bytes of what the first level of the search takes: a kernel and a start, the
    profiles of points, and scratch.
    """
    n, m = min(n, 1.2 * RACE_POINTS), min(m, 1.2 * RACE_POINTS)
    scratch = min(SCRATCH_BYTES, 8 * max(n, m) ** 2)
    return 8 * n * m + 8 * 6 * QUANTILES * (n + m) + scratch


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

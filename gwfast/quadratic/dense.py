"""The pseudo-cost of any loss between any matrices of costs."""

import copy

import numpy as np

from ..kernels import _exponentials, _kernels, _products
from ..kernels._rows import Panels, aligned_empty
from ..linear.gibbs_kernel import StoredKernel
from ..problems.losses import LOSSES
from ..results.coupling import ArrayCoupling
from ..utils.blocks import CACHED_BYTES, row_blocks
from ..utils.precision import SINGLE
from .anderson import DEPTH, DeepTrail, Trail
from .linearization import Linearization, not_negative
from .mixed_precision import Increments

# Rows of plans that extrapolation looks at; their products it has anyway.
SAMPLE_ROWS = 128
# Entries of matrices that are combined at a time.
COMBINED = 1 << 16
# What products in float32 may move the next plan by, as a share of the last change.
SLACK = 0.01


class Dense(Linearization):
    """Any loss between any costs, and costs between the spaces: two products of
    matrices, the state is the plan.

    An asymmetric cost has two pseudo-costs, of it and of its transpose; their mean is
    half the gradient of the objective.

    Attributes
    ----------
    moved : float
        Frobenius norm of what the last `update` changed of the plan.
    bilinear : float
        ``-<h1(C1) T h2(C2)', T>`` of the state, weighted by `alpha`; with known
        marginals the transforms are centered.
    bases : tuple of ndarrays
        Potentials, in `unit`, of points whose mass is free.
    """

    # With a share of 0.1, 5 of 30 random problems (epsilon a tenth of the objective of
    # the product plan) ended in another optimum than POT's exact inner solutions lead
    # to, with 0.01 none. At less than half that epsilon 2 of 14 still do.
    inner_share, inner_passes = 0.01, 200
    change_is_rounded = True

    @classmethod
    def nbytes(cls, problem, tier, n_threads, scale=1.0, itemsize=4):
        n, m = (scale * size for size in problem.shape)
        # Of an asymmetric cost both orientations are there, and their products.
        sides = 1 if problem.x.symmetric and problem.y.symmetric else 2
        matrices, fused = sides * (n * n + m * m), problem.linear_cost is not None
        if not problem.is_balanced:
            matrices += n * n + m * m
        plans = (5 + sides + fused) * n * m
        size = 4 * (matrices + plans)
        if itemsize > 4:
            # What float32 has of it is for the first iterations, and for increments.
            size += 8 * (matrices + (2 + sides + fused + DEPTH + 3) * n * m)
        if sides == 1:
            size += 4 * (max(n, m) ** 2 + 2 * n * m)  # see `LowRankCost`
        return size

    def __init__(self, problem, n_threads, *, precision=SINGLE, method="pgd"):
        super().__init__(problem, n_threads, precision)
        x, y = problem.x.to_dense(), problem.y.to_dense()
        loss = LOSSES[problem.loss]
        for geometry, name in ((x, "cost_x"), (y, "cost_y")):
            if geometry.matrix.min() < loss.domain_min:
                raise ValueError(
                    f"{name} must not be negative with loss={problem.loss!r}, "
                    f"got {geometry.matrix.min()}"
                )
        self.method = method
        self.symmetric = x.symmetric and y.symmetric
        # What depends on the marginals alone may be taken apart only if they are known.
        self._moving = not problem.is_balanced
        known = not self._moving and method != "bapg"
        # The squared loss sees differences only: a common shift keeps large offsets
        # out of the squares.
        shift = 0.0
        if loss.shift_invariant and known:
            shift = (_mean(x.matrix) + _mean(y.matrix)) / 2
        p, q, dtype = problem.p, problem.q, precision.dtype
        left = _Transformed(x, shift, loss.h1, loss.f1, p, dtype, known)
        right = _Transformed(y, shift, loss.h2, loss.f2, q, dtype, known)
        self._sides = left, right
        self._alpha, self._linear = 1.0, None
        self.unit = left.scale * right.scale
        if problem.linear_cost is not None:
            self._alpha = problem.alpha
            self._add_linear(problem.linear_cost)
        # The sign of the third term, and its weight, are taken care of once.
        factor = -self._alpha * left.scale * right.scale / self.unit
        np.multiply(left.matrix, factor, out=left.matrix)
        self._separate(p, q)
        self._use(left.matrix, right.matrix)

    def _use(self, left, right):
        """Take these matrices, and all room that is needed, in the precision."""
        n_threads, precision, n = self.n_threads, self.precision, len(left)
        self._matrices = (left, right) if precision.itemsize > 4 else None
        self._left, self._right = left, Panels(right, True, n_threads=n_threads)
        if not self.symmetric:
            self._left_transposed = np.ascontiguousarray(left.T)
            self._right_transposed = Panels(right, n_threads=n_threads)
        extra = 1 if self.symmetric else 2
        self._workspace = _Workspace(self.problem.shape, extra, precision.dtype)
        self.deep = precision.itemsize > 4
        most = SAMPLE_ROWS // 4 if self.deep else SAMPLE_ROWS
        self._some = slice(None, None, max(n // most, 1))
        self.extrapolates = self.method == "pgd" and not self._moving
        self._step, self._epsilon, self._change = 0.0, 0.0, 1.0
        self._increments = None
        self.forget()

    def use_increments(self, coarse):
        """Make products near known ones in float32; `coarse` is `rounded`."""
        coarse.state = aligned_empty(self.problem.shape)
        self._increments = Increments(coarse)

    def rounded(self, precision):
        """The same in a lower precision; can be asked for once."""
        other = copy.copy(self)
        other.precision = precision
        if self._linear is not None:
            other._linear = self._linear.astype(precision.dtype)
        other._use(*(matrix.astype(precision.dtype) for matrix in self._matrices))
        self._matrices = None
        return other

    def _add_linear(self, cost):
        """Take costs between the spaces into account, in a unit that suits both."""
        weight = (1.0 - self._alpha) / 2
        low, high = float(cost.min()), float(cost.max())
        self._linear_middle = low + (high - low) / 2
        self.unit = max(self._alpha * self.unit, weight * (high - low) / 2) or 1.0
        self._linear = aligned_empty(cost.shape, self.precision.dtype)
        for rows in row_blocks(*cost.shape):
            block = cost[rows].astype(np.float64) - self._linear_middle
            self._linear[rows] = block * (weight / self.unit)

    def _separate(self, rows, cols):
        """Set the separable terms, those of a plan with these marginals."""
        left, right = self._sides
        if self._moving:
            linear = left.times(rows), right.times(cols)
        else:
            linear = left.linear, right.linear
        # h = scale * matrix + center: the constant parts of h1 T h2' are separable.
        constant = left.center * right.center / 2
        row_cost = linear[0] - right.center * left.product - constant
        col_cost = linear[1] - left.center * right.product - constant
        self.row_cost, self.col_cost = self._alpha * row_cost, self._alpha * col_cost
        if self._linear is not None:
            self.row_cost = self.row_cost + (1 - self._alpha) / 2 * self._linear_middle

    @property
    def bases(self):
        if self.method == "bapg" and not self.problem.marginal_terms:
            return np.zeros(self.problem.shape[0]), np.zeros(self.problem.shape[1])
        return -self.row_cost / self.unit, -self.col_cost / self.unit

    def start(self, plan=None):
        problem = self.problem
        self.state = aligned_empty(problem.shape, self.precision.dtype)
        marginals = problem.p, problem.q
        if plan is None:
            rows, cols = problem.mass * problem.p, problem.q
            np.multiply.outer(rows, cols, out=self.state, casting="same_kind")
            marginals = rows, problem.mass * cols
        else:
            np.copyto(self.state, plan, casting="same_kind")
            if self._moving:
                marginals = self.state.sum(axis=1), self.state.sum(axis=0)
        return self._objective(*marginals)

    def start_from(self, coarse, rows, cols):
        plan = np.zeros(self.problem.shape, dtype=np.float32)
        plan[np.ix_(rows, cols)] = coarse.state
        return self.start(plan)

    def kernel(self, solver=None, epsilon=None):
        self._step, self._epsilon = epsilon, epsilon or 0.0
        return StoredKernel(self._workspace.buffer, self._fill, self.n_threads)

    def update(self, kernel, solver):
        if self._unasked:
            self.forget()  # its product is gone
        before, self._unasked = self.state, True
        some, start = self._some, self._from
        extrapolated, self._from = start is not None, None
        if not extrapolated:
            start = before[some].copy()
        self.marginals = kernel.scale(solver.u, solver.v, solver.sums)
        self.state, self._workspace.buffer = kernel.rows, before
        self._trail.add(start, self.state[some].copy())
        if extrapolated:
            # The plan that this one came from was never made but for these rows.
            step = self.state[some] - start
            change = np.abs(step).sum() / self.problem.p[some].sum()
            self.moved = np.linalg.norm(step) * np.sqrt(len(before) / len(step))
        else:
            change, self.moved = self.distance_to(before)
        self._change = change
        return self._objective(*self.marginals), float(change)

    def distance_to(self, plan):
        """Of the state, the sum of absolute differences and their Frobenius norm."""
        return _kernels.distance(self.state, plan, self.n_threads)

    def coupling(self, kernel, solver):
        return ArrayCoupling(self.state, self.n_threads)

    snapshot = coupling

    def entropy(self, kernel, solver):
        return _kernels.entropy(self.state, self.n_threads)

    def linear_cost(self):
        if self._linear is None:
            return 0.0
        mass = float(self.marginals[0].sum())
        product = _kernels.dot(self.state, self._linear, self.n_threads)
        weight = (1.0 - self._alpha) / 2
        if weight == 0.0:
            return float(np.vdot(self.problem.linear_cost, self.state))
        return self._linear_middle * mass + product * self.unit / weight

    def extrapolate(self):
        # The product is linear in the plan: it is what moves, the plan stays.
        made, self._unasked = self.buffer, False
        self._products.add(made)
        coefficients = self._trail.coefficients()
        if not coefficients:
            return False
        self._products.combine(coefficients, made)
        self._from = self._trail.combined(coefficients).astype(made.dtype)
        return True

    def retract(self):
        np.copyto(self.buffer, self._products.last)
        self._workspace.filled_by = self
        self.forget()

    def forget(self):
        self._trail = DeepTrail() if self.deep else Trail()
        self._products = _Ring(self._trail.most, self.buffer)
        self._from, self._unasked = None, False

    def _fill(self):
        workspace = self._workspace
        if workspace.filled_by is self:  # the objective needed the same product
            workspace.filled_by = None
        else:
            self._from = None  # if an extrapolated product was there, it is no more
            self._fill_product()
        if self._step and self.method != "pgd":
            _exponentials.proximal_cost(
                workspace.buffer, self.state, self._step, self.n_threads
            )

    def _fill_product(self):
        buffer, near = self.buffer, self._increments
        allowed = SLACK * self._change * self._epsilon
        if near is None or not near.fill(self.state, buffer, allowed):
            self.multiply(buffer)
            if self._linear is not None:
                buffer += self._linear
            if near is not None:
                near.refer(self.state, buffer)

    @property
    def buffer(self):
        """Where the pseudo-cost is made."""
        return self._workspace.buffer

    def multiply(self, out):
        """The bilinear term of the pseudo-cost, to `out`, which is returned."""
        self._multiply(self._left, self._right, out)
        if not self.symmetric:
            other = self._workspace.extra[1]
            self._multiply(self._left_transposed, self._right_transposed, other)
            out += other
            out *= 0.5
        return out

    def _multiply(self, left, right, out):
        """``out = left @ plan @ right``."""
        scratch, n_threads = self._workspace.extra[0], self.n_threads
        plan = Panels(self.state, n_threads=n_threads)
        _products.matmul(left, plan, scratch, n_threads=n_threads)
        _products.matmul(scratch, right, out, n_threads=n_threads)

    def _objective(self, rows, cols):
        workspace = self._workspace
        workspace.filled_by, self._step = None, 0.0
        self._fill()
        workspace.filled_by = self
        if self._moving:
            self._separate(rows, cols)
        separable = rows @ self.row_cost + cols @ self.col_cost
        bilinear = self.unit * _kernels.dot(
            self.state, workspace.buffer, self.n_threads
        )
        self.bilinear = bilinear
        if self._linear is None:
            return not_negative(separable, bilinear)
        # Of the linear term, not half of it.
        half = self.unit * _kernels.dot(self.state, self._linear, self.n_threads)
        self.bilinear -= half
        middle = (1 - self._alpha) / 2 * self._linear_middle
        return float(separable + bilinear + half + middle * rows.sum())


class _Ring:
    """The last matrices of a row of them, copied."""

    def __init__(self, most, like):
        self._most, self._like, self._slots, self._count = most, like, None, 0

    def add(self, matrix):
        if self._slots is None:
            self._slots = np.empty((self._most, matrix.size), matrix.dtype)
        np.copyto(self._slots[self._count % self._most], matrix.reshape(-1))
        self._count += 1

    @property
    def last(self):
        return self._slots[(self._count - 1) % self._most].reshape(self._like.shape)

    def combine(self, coefficients, out):
        """``out``, the sum of the last ones multiplied by these, oldest first."""
        weights = np.zeros(self._most, out.dtype)
        first = self._count - len(coefficients)
        weights[[k % self._most for k in range(first, self._count)]] = coefficients
        used, flat = min(self._count, self._most), out.reshape(-1)
        for some in range(0, flat.size, COMBINED):
            part = slice(some, some + COMBINED)
            np.dot(weights[:used], self._slots[:used, part], out=flat[part])


class _Workspace:
    """Buffers that all forks use, one at a time.

    Attributes
    ----------
    buffer : (n, m) float32 ndarray
    filled_by : Dense or None
        Whose pseudo-cost the buffer already holds.
    """

    def __init__(self, shape, extra, dtype):
        self.buffer = aligned_empty(shape, dtype)
        self.extra = [aligned_empty(shape, dtype) for _ in range(extra)]
        self.filled_by = None


def _mean(matrix):
    return float(matrix.mean(dtype=np.float64))


class _Transformed:
    """``h(C - shift) = scale * matrix + center``, and the products with the marginal
    that the separable terms need, in float64, block by block of rows.

    With `known` marginals the center is in the middle of the range, else zero, and
    the separable terms are left for `times`.

    Attributes
    ----------
    matrix : (n, n) ndarray of `dtype`
        With entries in [-1, 1].
    scale, center : float
    linear : (n,) ndarray
        ``f(C - shift) @ p``.
    product : (n,) ndarray
        ``scale * matrix @ p``.
    """

    def __init__(self, geometry, shift, h, f, p, dtype, known):
        cost, n = geometry.matrix, geometry.n
        # h is monotone for both losses, so its range is that of the extremes.
        low, high = (
            float(h(np.float64(bound) - shift)) for bound in (cost.min(), cost.max())
        )
        self.center = (low + high) / 2 if known else 0.0
        self.scale = (high - low) / 2 if known else max(abs(low), abs(high))
        self.scale = self.scale or 1.0
        self.matrix = np.empty((n, n), dtype=dtype)
        self.linear, self.product = np.zeros(n), np.zeros(n)
        # f is convex: the largest loss is at an end of the range.
        ends = np.array([cost.min(), cost.max()], dtype=np.float64) - shift
        self._unit = unit = float(np.abs(f(ends)).max()) or 1.0
        self._losses = None if known else np.empty((n, n), dtype=dtype)
        for rows in row_blocks(n, n, CACHED_BYTES):
            block = cost[rows].astype(np.float64) - shift
            values, losses = h(block) - self.center, f(block)
            self.linear[rows] += losses @ p
            self.product[rows] += values @ p
            if not geometry.symmetric:
                # Both orientations, halved below: the mean of C and its transpose.
                self.linear += losses.T @ p[rows]
                self.product += values.T @ p[rows]
            self.matrix[rows] = values / self.scale
            if not known:
                self._losses[rows] = losses / unit
        if not geometry.symmetric:
            self.linear /= 2
            self.product /= 2
            if not known:
                self._losses = (self._losses + self._losses.T) / 2
        if not known:
            self.product[:] = 0.0

    def times(self, masses):
        """``f(C) @ masses``, of the mean of both orientations."""
        made = self._losses @ masses.astype(self._losses.dtype)
        return self._unit * made.astype(np.float64)

"""The linearized cost and the objective at a plan in float64 and plain NumPy: nothing
is rounded to float32, and no loop of a solver is used.
"""

import math

import numpy as np

from ..problems.geometry import PointCloud
from ..problems.losses import LOSSES
from ..utils.blocks import SCRATCH_BYTES, row_blocks

# Bytes of a linearized cost, that of 5,800 points a side, up to which it is kept rather
# than made anew from its factors.
KEPT_BYTES = 32 * SCRATCH_BYTES
# Relative error of the objective of a loop from which on the objective of the plan is
# computed in float64.
MAX_ERROR = 1e-4
# Error of the marginals up to which the objective for the given marginals will do, where
# computing it anew takes more than these multiplications.
MISSED, MOST_WORK = 1e-5, 1e8
# Squared differences that are added up one by one, at most, which takes seconds.
MOST_DIRECT = 2e9


class DenseCosts:
    """Any costs, as matrices, with products that any loss needs.

    Attributes
    ----------
    scale : float
        Size of the bilinear term of a plan of mass one, at most, but for what is
        separable where the marginals are fixed.
    magnitude : float
        Size of the bilinear term, at most, its separable part included.
    """

    def __init__(self, problem, alternating):
        self.problem, loss = problem, LOSSES[problem.loss]
        for side, name in ((problem.x, "cost_x"), (problem.y, "cost_y")):
            loss.check(side.to_dense().matrix, name)
        x, y = (side.to_dense().matrix.astype(np.float64) for side in (problem.x, problem.y))
        # A common shift changes nothing but rounding, unless the separable terms are of
        # other marginals than the plan's.
        fixed = problem.is_balanced and not alternating
        if loss.shift_invariant and not alternating:
            shift = (x.mean() + y.mean()) / 2
            if fixed or abs(shift) > max(np.ptp(x), np.ptp(y)):
                x -= shift
                y -= shift
        self._losses, self._values = (loss.f1(x), loss.f2(y)), (loss.h1(x), loss.h2(y))
        self.magnitude = math.prod(float(np.abs(v).max()) for v in self._values)
        half_ranges = (float(np.ptp(value)) / 2 for value in self._values)
        self.scale = math.prod(half_ranges) if fixed else self.magnitude
        self._symmetric = problem.x.symmetric and problem.y.symmetric

    def separable(self, rows, cols):
        """The terms that depend on one index, of a plan with these marginals."""
        return tuple(
            (losses @ sums + sums @ losses) / 2
            for losses, sums in zip(self._losses, (rows, cols), strict=True)
        )

    def bilinear(self, plan, slices):
        """A function that gives some rows of the third term."""
        whole = np.concatenate([plan(rows) for rows in slices])
        left, right = self._values
        made = left @ whole @ right.T
        if not self._symmetric:
            made = (made + left.T @ whole @ right) / 2
        return lambda rows: -made[rows]


class FactoredCosts:
    """Two point clouds under the squared loss, of which no cost is formed."""

    def __init__(self, problem):
        self.problem, self._sides = problem, (problem.x, problem.y)
        self._features = [side.features.astype(np.float64) for side in self._sides]
        self.scale = self.magnitude = problem.x.scale * problem.y.scale

    def separable(self, rows, cols):
        return tuple(
            side.scale**2 * side.square_times(sums)
            for side, sums in zip(self._sides, (rows, cols), strict=True)
        )

    def moved(self, plan, slices):
        """Sums of the products of the features of two points, each times their mass."""
        x, y = self._features
        return sum(x[rows].T @ (plan(rows) @ y) for rows in slices)

    def core(self, moved):
        """Return the matrix between the features of both sides that makes the third term."""
        left, right = (side.signature for side in self._sides)
        return -2.0 * self.scale * (left @ moved @ right.T)

    def bilinear(self, plan, slices):
        x, y = self._features
        core = self.core(self.moved(plan, slices))
        return lambda rows: x[rows] @ core @ y.T


def stays_factored(problem, alternating):
    """Whether the third term needs no cost, of any marginal rule."""
    clouds = isinstance(problem.x, PointCloud) and isinstance(problem.y, PointCloud)
    return clouds and LOSSES[problem.loss].keeps_factors and not alternating


def costs_of(problem, alternating):
    """What makes linearized costs of a problem in float64."""
    if stays_factored(problem, alternating):
        return FactoredCosts(problem)
    return DenseCosts(problem, alternating)


def nbytes(problem, alternating):
    """Bytes that a linearized cost in float64 takes, and what makes it."""
    n, m = problem.shape
    if stays_factored(problem, alternating):
        return 2 * min(KEPT_BYTES, 8 * n * m) + 4 * SCRATCH_BYTES
    return 8 * (3 * n * n + 3 * m * m + 5 * n * m)


def objective(problem, coupling, linear=0.0):
    """Return the objective of a plan with any marginals; ``<linear_cost, plan>`` is given.

    The quadratic term is a mean of losses, so a negative value is rounding error and becomes zero.
    Memory: float64 copies of the features of point clouds, and some blocks of rows.
    """
    clouds = stays_factored(problem, alternating=False)
    value = (_of_clouds if clouds else _of_matrices)(problem, coupling)
    value = max(float(value), 0.0)
    if not problem.is_fused:
        return value
    return problem.alpha * value + (1.0 - problem.alpha) * linear


def _of_clouds(problem, coupling):
    costs, (rows, cols) = FactoredCosts(problem), coupling.marginals
    csr = coupling.csr if coupling.form == "sparse" else None
    plan = coupling._rows if csr is None else csr.__getitem__
    moved = costs.moved(plan, row_blocks(*coupling.shape))
    f, g = costs.separable(rows, cols)
    return f @ rows + g @ cols + np.vdot(moved, costs.core(moved))


def _of_matrices(problem, coupling):
    x, y, loss = problem.x.to_dense(), problem.y.to_dense(), LOSSES[problem.loss]
    (rows, cols), shift, total = coupling.marginals, 0.0, 0.0
    if loss.shift_invariant:
        shift = (x.mean_of(problem.p) + y.mean_of(problem.q)) / 2

    def made(side, some):
        return np.subtract(side.matrix[some], shift, dtype=np.float64)

    for some in row_blocks(y.n, y.n):
        total += cols[some] @ (loss.f2(made(y, some)) @ cols)
    blocks, size = row_blocks(x.n, max(x.n, y.n)), 0.0
    for some in blocks:
        cost = made(x, some)
        total += rows[some] @ (loss.f1(cost) @ rows)
        values = loss.h1(cost)
        moved = sum(values[:, part] @ coupling._rows(part) for part in blocks)
        plan = coupling._rows(some)
        for part in row_blocks(y.n, y.n):
            turned = moved @ loss.h2(made(y, part)).T
            size += np.einsum("ij,ij->", turned, plan[:, part], dtype=np.float64)
    rounding = 1e-10 * (abs(total) + abs(size)) > abs(total - size)
    few = x.n * y.n * (x.n + y.n) <= MOST_DIRECT
    if rounding and few and loss.keeps_factors:
        return _of_differences(*map(made, (x, y), (slice(None),) * 2), coupling)
    return total - size


def _of_differences(x, y, coupling):
    """Return the sum of squared differences without a difference of large terms.

    A pair of points of the first side goes to pairs of the second side, with a mean cost
    ``E(y)``. The sum is the mean of ``(x - E(y))^2`` plus the mean variance of y. The
    variance is the sum of two, one for each point of the pair.
    """
    plan = coupling._rows(slice(None)).astype(np.float64)
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    share = np.divide(plan, rows[:, None], out=np.zeros_like(plan), where=plan > 0)
    half = share @ y
    whole = half @ share.T
    total = rows @ np.square(x - whole) @ rows
    for i in np.flatnonzero(rows):
        total += rows[i] * share[i] @ (np.square(y - half[i]) @ cols)
        total += rows[i] * share[i] @ (rows @ np.square(half - whole[:, i, None]))
    return total


class ReferenceLinearization:
    """The linearized cost at a plan, of which ``plan(rows)`` gives some rows (k, m) in float64, by
    the `costs`. With `given_marginals` the separable terms are of the problem's marginals, not of
    the plan's; smaller entries count as `least` where their logarithms are asked for.

    Attributes
    ----------
    slices : list of slice
        Rows that are taken at a time.
    rows, cols, mass : (n,) and (m,) ndarrays, float
        Marginals of the plan, and the sum of the sizes of its row sums.
    confusion : float
        Largest change of the objective if a loop uses the given marginals. It does so for
        plans that miss them by at most `MISSED`.
    cost_scale : float
        Size of the terms that no potential takes up, at most.
    magnitude : float
        Size of the terms whose difference the objective is.
    """

    def __init__(self, costs, plan, given_marginals=False, least=0.0):
        problem = self.problem = costs.problem
        self.plan, self.least, self.slices = plan, least, row_blocks(*problem.shape)
        if len(self.slices) == 1:
            self.plan = plan(self.slices[0]).__getitem__
        self.rows = np.concatenate([self.plan(s).sum(axis=1) for s in self.slices])
        self.cols = sum(self.plan(s).sum(axis=0) for s in self.slices)
        self.mass = float(np.abs(self.rows).sum())
        self._bilinear = costs.bilinear(self.plan, self.slices)
        self._weight = problem.alpha if problem.is_fused else 1.0
        given, own = (problem.p, problem.q), costs.separable(self.rows, self.cols)
        self._separable = costs.separable(*given) if given_marginals else own
        self._measure(costs, own, given)
        self._kept = None
        if 8 * len(self.rows) * len(self.cols) <= KEPT_BYTES:
            self._kept = np.concatenate([self._made(s) for s in self.slices])

    def _measure(self, costs, own, given):
        """Set the objective, and the sizes of its terms."""
        problem, linear, (f, g) = self.problem, self.problem.linear_cost, own
        value = f @ self.rows + g @ self.cols + self._dot(self._bilinear)
        self.cost_scale = self._weight * costs.scale
        sizes = (np.abs(c) @ mass for c, mass in zip(own, given, strict=True))
        self.magnitude = self._weight * (sum(sizes) + costs.magnitude * self.mass)
        self.linear_cost, rest = 0.0, 1.0 - self._weight
        if problem.is_fused:
            self.linear_cost = float(self._dot(linear.__getitem__))
            self.cost_scale = max(self.cost_scale, rest * float(np.ptp(linear)) / 4)
            self.magnitude += rest * float(np.abs(linear).max())
        value = self._weight * value + rest * self.linear_cost
        self.gw_cost, missed = float(value), 0.0
        if problem.is_balanced:
            missed = np.abs(self.rows - problem.p).sum()
            missed += np.abs(self.cols - problem.q).sum()
        largest = np.abs(f).max() + np.abs(g).max() + costs.magnitude
        self.confusion = 2 * self._weight * min(missed, MISSED) * largest

    def _dot(self, cost):
        """The sum of a cost, some rows at a time, times the plan."""
        return sum(np.vdot(self.plan(s), cost(s)) for s in self.slices)

    def logarithms(self, rows):
        """Of some rows of the plan."""
        return np.log(np.maximum(self.plan(rows), self.least))

    def cost(self, rows):
        """Some rows of the linearized cost."""
        return self._made(rows) if self._kept is None else self._kept[rows]

    def _made(self, rows):
        f, g = self._separable
        made = self._weight * (f[rows, None] + g + self._bilinear(rows))
        if self.problem.is_fused:
            made += (1.0 - self._weight) / 2 * self.problem.linear_cost[rows]
        return made

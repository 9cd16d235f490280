"""Isomorphisms: two spaces that are the same but for the order of their points.

Descents do not find such orders: where a graph has automorphisms, points are alike to second
order. Points of both spaces get colors, and a point's next color is made of the colors of all
others and the costs to them (color refinement: Weisfeiler and Leman, 1968). Where points share a
color, one of either space gets a color of its own (McKay, Practical graph isomorphism, 1981).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ...linear.rules import Balanced
from ...problems.cross_cost import CrossCost
from ...problems.dense_cost import DenseCost
from ...problems.geometry import Geometry, PointCloud
from ...problems.quadratic import QuadraticProblem
from ...quadratic.frank_wolfe import ExactSolution
from ...results.coupling import Coupling
from ...utils.blocks import row_blocks
from ...utils.types import Float64Array

# Relative differences of costs and of sums of weights that are rounding.
ROUNDING = 1e-10


def isomorphisms(
    problem: QuadraticProblem, rounding: float = ROUNDING, most: float = math.inf
) -> Iterator[Float64Array]:
    """Yield plans (n, m) of objective zero up to `rounding` between single points, at most one for
    each choice of the first partner, with at `most` that many choices. Of fused problems, points
    are matched at a linear cost of zero.
    """
    (n, m), p, q = problem.shape, problem.p, problem.q
    if n != m:
        return
    if not problem.rule.takes_q:
        p = q = np.ones(n) / n
    costs = [side.to_dense().matrix for side in (problem.x, problem.y)]
    left, right = (np.sort(cost @ mass) for cost, mass in zip(costs, (p, q), strict=True))
    # Most spaces that differ already differ in the mean costs of their points.
    if abs(left - right).max() > rounding * n * max(abs(left).max(), abs(right).max()):
        return
    colors, free = n * np.concatenate([p, q]), np.ones((n, n), dtype=bool)
    linear = problem.linear_cost
    if linear is not None:
        if linear.min() < 0:
            return
        free = linear <= ROUNDING * linear.max()
        # Only points that are linked at no cost may have one color.
        links = sparse.block_array([[None, free], [free.T, None]])
        colors += 1 / (math.e + csgraph.connected_components(links)[1])
    masses = problem.p
    if problem.rule.takes_mass:  # of the first points
        masses = np.diff(np.minimum(masses.cumsum(), problem.mass), prepend=0.0)
    search = _Search(np.array(costs, dtype=np.float64), rounding, most)
    for cols in search.pairs(colors):
        if free[np.arange(n), cols].all():
            plan = np.zeros((n, n))
            plan[np.arange(n), cols] = masses
            yield plan


def symmetry(problem: QuadraticProblem, coupling: Coupling) -> tuple[str, np.ndarray] | None:
    """Return the name of a side, "x" or "y", and an order (n,) of its points that makes another
    plan as good, of up to eight orders of each side; None if there is none, or too many points.
    """
    linear = problem.between
    # Four float64 matrices of more points take too long.
    if isinstance(linear, CrossCost) or max(problem.shape) > 2000:
        return None
    sides = ("x", problem.x, problem.p), ("y", problem.y, problem.q)
    for number, (name, geometry, masses) in enumerate(sides):
        if not _has_similar(geometry, masses):
            continue
        geometry, identity = geometry.to_dense(), np.arange(len(masses))
        rounding = _rounding(geometry)
        same = QuadraticProblem.from_checked(geometry, geometry, Balanced(masses, masses))
        costs = linear if linear is None or number == 0 else linear.T
        most = max(16, int(1e9 / len(masses) ** 3))
        for order in itertools.islice(isomorphisms(same, rounding, most), 8):
            order = np.where(masses > 0, order.argmax(axis=1), identity)
            if costs is not None and not np.allclose(costs[order], costs, rtol=1e-6, atol=0.0):
                continue
            plan = coupling.toarray() if number == 0 else coupling.toarray().T
            if are_apart(plan[order], plan):
                return name, order
    return None


def _has_similar(geometry: Geometry, masses: Float64Array) -> bool:
    """Return whether a quarter of the mass is of points with equal mean costs to all points."""
    if isinstance(geometry, PointCloud):
        features = geometry.features.astype(np.float64)
        means = features @ (geometry.signature @ (masses @ features))
        rounding = 1e-5 * np.abs(means).max()
    else:
        means = geometry.moments(0.0, masses)[0]
        rounding = _rounding(geometry) * max(map(abs, geometry.extremes))
    order = means.argsort()
    close = np.diff(means[order]) <= rounding
    similar = np.append(close, False) | np.append(False, close)
    return masses[order][similar].sum() > 0.25 * masses.sum()


def twins(
    geometry: Geometry, masses: Float64Array, linear: np.ndarray | None = None
) -> list[list[int]]:
    """Return classes of points that cannot be told apart, lists of two or more points with mass
    each: costs stay as they are if two of them change places. Of a cloud, equal rows; with `linear`
    costs (n, m), these are equal too.
    """
    if isinstance(geometry, PointCloud):
        return _equal_rows(geometry.features, masses, linear)
    matrix, n = geometry.matrix, geometry.n
    most = max(map(abs, geometry.extremes))
    size = _rounding(geometry) * most
    # Twins have the same multiset of costs, and so nearly the same sum of any function of these.
    sums = np.empty(n)
    for rows in row_blocks(n, n):
        sums[rows] = (1.0 / (math.e + matrix[rows] / (most or 1.0))).sum(axis=1, dtype=np.float64)
    order = sums.argsort()
    close = np.diff(sums[order]) <= 2.0 * _rounding(geometry) * n**0.5
    if not close.any():
        return []
    # Sums of costs with weights w differ by (w_i - w_j) (c_ii - c_ij) between twins i and j.
    weights = np.random.default_rng(0).random(n)
    weighted, diagonal, classes = matrix @ weights.astype(matrix.dtype), matrix.diagonal(), []
    ends = np.flatnonzero(np.diff(np.concatenate([[False], close, [False]]).astype(np.int8)))
    for start, end in ends.reshape(-1, 2).tolist():
        group = np.sort(order[start : end + 1])
        group = group[masses[group] > 0]
        if len(group) < 2:
            continue
        first = np.empty(len(group), dtype=np.intp)
        for rows in row_blocks(len(group), len(group)):
            part = group[rows]
            foreseen = weights[part, None] - weights[group]
            foreseen *= diagonal[part, None] - matrix[np.ix_(part, group)]
            foreseen -= weighted[part, None] - weighted[group]
            first[rows] = (np.abs(foreseen) <= size * n**0.5).argmax(axis=1)
        for leader in np.flatnonzero(np.bincount(first, minlength=len(group)) > 1):
            points = group[first == leader]
            points = points[_are_twins(geometry, points, size)]
            points = _with_equal_rows(points, linear)
            if len(points) > 1:
                classes.append(points.tolist())
    return classes


def _are_twins(geometry: DenseCost, points: np.ndarray, size: float) -> np.ndarray:
    """Return whether each point is a twin of the first, up to rounding of this size."""
    first, here, matrix = points[0], np.arange(len(points)), geometry.matrix
    equal = np.ones(len(points), dtype=bool)
    for costs in (matrix,) if geometry.symmetric else (matrix, matrix.T):
        costs_of_points = costs[points].astype(np.float64)
        differences = np.abs(costs_of_points - costs[first])
        differences[here, points] = np.abs(costs_of_points[here, points] - costs[first, first])
        differences[:, first] = np.abs(costs_of_points[:, first] - costs[first, points])
        equal &= differences.max(axis=1) <= size
    return equal


def _with_equal_rows(points: np.ndarray, linear: np.ndarray | None) -> np.ndarray:
    """Return the points whose linear costs are equal to the costs of the first."""
    if linear is None:
        return points
    costs = linear[points]
    size = 1e-10 * np.abs(costs).max()
    return points[np.abs(costs - costs[0]).max(axis=1) <= size]


def _equal_rows(
    features: np.ndarray, masses: Float64Array, linear: np.ndarray | None
) -> list[list[int]]:
    """Return classes of equal rows with mass."""
    weights = np.random.default_rng(0).random(features.shape[1])
    values = np.concatenate([features[rows] @ weights for rows in row_blocks(*features.shape)])
    order = values.argsort(kind="stable")
    order, classes = order[masses[order] > 0], []
    close = np.diff(values[order]) <= 1e-12 * np.abs(values).max()
    close[close] = (features[order[1:][close]] == features[order[:-1][close]]).all(axis=1)
    if not close.any():
        return []
    edges = np.flatnonzero(~close) + 1
    for points in np.split(order, edges):
        if len(points) > 1:
            points = _with_equal_rows(np.sort(points), linear)
            if len(points) > 1:
                classes.append(points.tolist())
    return classes


def _rounding(geometry: Geometry) -> float:
    """Return the relative difference of costs of this matrix that is rounding."""
    if not isinstance(geometry, DenseCost):
        return ROUNDING
    return {4: 1e-6, 2: 1e-2}.get(geometry.matrix.itemsize, ROUNDING)


def are_apart(plan: np.ndarray, other: np.ndarray) -> bool:
    """Return whether plans match more than a quarter of their mass otherwise."""
    return bool(np.abs(plan - other).sum() > 0.5 * plan.sum())


class Canonical:
    """A problem with its points, and its sides where these can be exchanged, in an order that
    depends only on costs and masses, up to rounding.
    """

    def __init__(self, problem: QuadraticProblem) -> None:
        self._original, linear = problem, np.zeros((1, 1))
        if problem.linear_cost is not None:
            linear = problem.linear_cost / max(np.abs(problem.linear_cost).max(), 1e-300)
            linear = 1 / (math.e + linear)
        rows, of_x = _ordered(problem.x, problem.p, linear)
        cols, of_y = _ordered(problem.y, problem.q, np.transpose(linear))
        self._orders = rows, cols
        rule = dataclasses.replace(problem.rule, p=problem.p[rows], q=problem.q[cols])
        self.problem = problem.take(rows, cols).replace(rule=rule)
        symmetric = problem.loss == "square" and problem.marginals != "semirelaxed"
        self._exchanges = symmetric and of_y < of_x
        if self._exchanges:
            self.problem = self.problem.exchanged()

    def plan(self, plan: np.ndarray) -> np.ndarray:
        """Return a plan of the original problem from a plan of `problem`."""
        original = np.empty(self._original.shape)
        original[np.ix_(*self._orders)] = plan.T if self._exchanges else plan
        return original

    def restore(self, solution: ExactSolution) -> ExactSolution:
        """Return the `ExactSolution` of the original problem."""
        f, g = solution.potentials[:: -1 if self._exchanges else 1]
        rows, cols = self._orders
        return dataclasses.replace(
            solution,
            problem=self._original,
            plan=self.plan(solution.plan),
            potentials=(f[rows.argsort()], g[cols.argsort()]),
        )


def _ordered(
    geometry: Geometry, masses: Float64Array, linear: np.ndarray
) -> tuple[np.ndarray, tuple[int, float, float]]:
    """Return an order of the points of a space by colors, and a key to compare spaces by."""
    costs = np.array(geometry.to_dense().matrix[None], dtype=np.float64)
    size, n = float(np.abs(costs).max()), geometry.n
    colors = n * masses + np.sort(linear + np.zeros((n, 1)), axis=1).mean(axis=1)
    refined = _Search(costs).refine(colors)
    assert refined is not None  # one space does not differ from itself
    order, _, sums = refined
    return order[0], (n, size, float(sums.sum()))


class _Search:
    """A search by the costs (k, n, n) of one or two spaces. Colors are numbers (k n,)."""

    def __init__(
        self, costs: np.ndarray, rounding: float = ROUNDING, most: float = math.inf
    ) -> None:
        self._costs, self._rounding, n = costs, rounding, costs.shape[1]
        costs /= max(np.abs(costs).max(), np.finfo(float).tiny)
        # Sums of these times colors are equal for equal multisets of costs and colors.
        self._weights = 1 / (math.e + costs) + 1 / (math.pi + costs.transpose(0, 2, 1))
        self._weights[:, np.arange(n), np.arange(n)] += 1.0  # a point's own color
        self._colors, self._own = np.random.default_rng(0).random((2, n))
        self._left = min(2 * n, most)  # choices; each point needs one at most if none is wrong

    def refine(
        self, colors: np.ndarray, n_colors: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Refine colors in place. Return points (k, n) by their sums, the rank of each, and the
        sums; None if the spaces have different sums.
        """
        n, before = len(self._own), -1
        ranks = np.zeros(n, dtype=np.intp)
        # Errors of n costs add up by the root of n; a bound of n times one hides colors from 200
        # points on.
        rounding = self._rounding * n**0.5
        while before < n_colors < n:
            sums = self._weights @ colors.reshape(-1, n, 1)
            order = sums[..., 0].argsort(axis=1)
            order += n * np.arange(len(order))[:, None]
            ranked = sums.take(order)
            if abs(ranked - ranked[0]).max() > rounding:
                return None
            np.cumsum(np.diff(ranked[0]) > rounding, out=ranks[1:])
            before, n_colors = n_colors, ranks[-1] + 1
            colors.put(order, self._colors[ranks])
        return order, ranks, ranked

    def pairs(self, colors: np.ndarray, n_colors: int = 0) -> Iterator[np.ndarray]:
        """Yield the column (n,) of each row: one answer for each choice that has to be made."""
        n, refined = len(self._own), self.refine(colors, n_colors)
        if refined is None:
            return
        order, ranks, _ = refined
        before, order, n_colors = n_colors, order - [[0], [n]], ranks[-1] + 1
        if n_colors == n:
            cols = np.empty(n, dtype=np.intp)
            cols[order[0]] = order[1]
            differences = self._costs[0] - self._costs[1][np.ix_(cols, cols)]
            if abs(differences).max() <= self._rounding:
                yield cols
            return
        if n_colors <= before:
            return  # rounding hides what the last choice has told apart
        rows, cols = order[:, ranks == np.bincount(ranks).argmax()] + [[0], [n]]
        weights = self._weights[0, rows]
        # Rows of twins differ at these points only: any order is as good.
        if (abs(weights[1:] - weights[0]) > self._rounding).sum() <= 2 * (len(rows) - 1):
            colors[rows] = colors[cols] = self._own[: len(rows)]
            yield from self.pairs(colors, n_colors)
            return
        for col in cols.tolist():
            if self._left == 0:
                return
            self._left -= 1
            chosen = colors.copy()
            chosen[rows[0]] = chosen[col] = self._own[0]
            yield from itertools.islice(self.pairs(chosen, n_colors), 1)

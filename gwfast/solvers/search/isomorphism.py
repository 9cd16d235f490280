"""Isomorphisms: two spaces that are the same but for the order of their points.

Descents do not find such orders: where a graph has automorphisms, points are alike to second
order. Points of both spaces get colors, and a point's next color is made of the colors of all
others and the costs to them (color refinement: Weisfeiler and Leman, 1968). Where points share a
color, one of either space gets a color of its own (McKay, Practical graph isomorphism, 1981).
"""

import dataclasses
import itertools

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ...linear.rules import Balanced
from ...problems.quadratic import QuadraticProblem

# Relative differences of costs and of sums of weights that are rounding.
ROUNDING = 1e-10


def isomorphisms(problem):
    """Yield plans (n, m) of objective zero between single points, at most one for each choice of
    the first partner. Of fused problems, points are matched at a linear cost of zero.
    """
    (n, m), p, q = problem.shape, problem.p, problem.q
    if n != m:
        return
    if not problem.rule.takes_q:
        p = q = np.ones(n) / n
    costs = [side.to_dense().matrix for side in (problem.x, problem.y)]
    left, right = (np.sort(cost @ mass) for cost, mass in zip(costs, (p, q), strict=True))
    # Most spaces that differ already differ in the mean costs of their points.
    if abs(left - right).max() > ROUNDING * n * max(abs(left).max(), abs(right).max()):
        return
    colors, free = n * np.concatenate([p, q]), np.ones((n, n), dtype=bool)
    if problem.is_fused:
        linear = problem.linear_cost
        if linear.min() < 0:
            return
        free = linear <= ROUNDING * linear.max()
        # Only points that are linked at no cost may have one color.
        links = sparse.block_array([[None, free], [free.T, None]])
        colors += 1 / (np.e + csgraph.connected_components(links)[1])
    masses = problem.p
    if problem.rule.takes_mass:  # of the first points
        masses = np.diff(np.minimum(masses.cumsum(), problem.mass), prepend=0.0)
    for cols in _Search(np.array(costs, dtype=np.float64)).pairs(colors):
        if free[np.arange(n), cols].all():
            plan = np.zeros((n, n))
            plan[np.arange(n), cols] = masses
            yield plan


def has_symmetry(problem, plan):
    """Return whether one of eight symmetries of a space makes another plan as good."""
    if problem.is_fused or min(np.count_nonzero(problem.p), np.count_nonzero(problem.q)) == 1:
        return False
    for geometry, masses, rows in ((problem.x, problem.p, plan), (problem.y, problem.q, plan.T)):
        same = QuadraticProblem.from_checked(geometry, geometry, Balanced(masses, masses))
        for order in itertools.islice(isomorphisms(same), 8):
            order = np.where(masses > 0, order.argmax(axis=1), np.arange(len(masses)))
            if are_apart(rows[order], rows):
                return True
    return False


def are_apart(plan, other):
    """Return whether plans match more than a quarter of their mass otherwise."""
    return bool(np.abs(plan - other).sum() > 0.5 * plan.sum())


class Canonical:
    """A problem with its points, and its sides where these can be exchanged, in an order that
    depends only on costs and masses, up to rounding.
    """

    def __init__(self, problem):
        self._original, linear = problem, 0.0
        if problem.is_fused:
            linear = problem.linear_cost / max(np.abs(problem.linear_cost).max(), 1e-300)
            linear = 1 / (np.e + linear)
        rows, of_x = _ordered(problem.x, problem.p, linear)
        cols, of_y = _ordered(problem.y, problem.q, np.transpose(linear))
        self._orders = rows, cols
        rule = dataclasses.replace(problem.rule, p=problem.p[rows], q=problem.q[cols])
        self.problem = problem.take(rows, cols).replace(rule=rule)
        symmetric = problem.loss == "square" and problem.marginals != "semirelaxed"
        self._exchanges = symmetric and of_y < of_x
        if self._exchanges:
            self.problem = self.problem.exchanged()

    def plan(self, plan):
        """Return a plan of the original problem from a plan of `problem`."""
        whole = np.empty(self._original.shape)
        whole[np.ix_(*self._orders)] = plan.T if self._exchanges else plan
        return whole

    def restore(self, solution):
        """Return the `ExactSolution` of the original problem."""
        potentials = solution.potentials[:: -1 if self._exchanges else 1]
        potentials = zip(potentials, self._orders, strict=True)
        return dataclasses.replace(
            solution,
            problem=self._original,
            plan=self.plan(solution.plan),
            potentials=tuple(one[order.argsort()] for one, order in potentials),
        )


def _ordered(geometry, masses, linear):
    """Return an order of the points of a space by colors, and a key to compare spaces by."""
    costs = np.array(geometry.to_dense().matrix[None], dtype=np.float64)
    size, n = float(np.abs(costs).max()), geometry.n
    colors = n * masses + np.sort(linear + np.zeros((n, 1)), axis=1).mean(axis=1)
    order, _, sums = _Search(costs).refine(colors)
    return order[0], (n, size, float(sums.sum()))


class _Search:
    """A search by the costs (k, n, n) of one or two spaces. Colors are numbers (k n,)."""

    def __init__(self, costs):
        self._costs, n = costs, costs.shape[1]
        costs /= max(np.abs(costs).max(), np.finfo(float).tiny)
        # Sums of these times colors are equal for equal multisets of costs and colors.
        self._weights = 1 / (np.e + costs) + 1 / (np.pi + costs.transpose(0, 2, 1))
        self._weights[:, np.arange(n), np.arange(n)] += 1.0  # a point's own color
        self._colors, self._own = np.random.default_rng(0).random((2, n))
        self._left = 2 * n  # choices; each point needs one at most if none is wrong

    def refine(self, colors, n_colors=0):
        """Refine colors in place. Return points (k, n) by their sums, the rank of each, and the
        sums; None if the spaces have different sums.
        """
        n, before = len(self._own), -1
        ranks = np.zeros(n, dtype=np.intp)
        while before < n_colors < n:
            sums = self._weights @ colors.reshape(-1, n, 1)
            order = sums[..., 0].argsort(axis=1)
            order += n * np.arange(len(order))[:, None]
            ranked = sums.take(order)
            if abs(ranked - ranked[0]).max() > ROUNDING * n:
                return None
            np.cumsum(np.diff(ranked[0]) > ROUNDING * n, out=ranks[1:])
            before, n_colors = n_colors, ranks[-1] + 1
            colors.put(order, self._colors[ranks])
        return order, ranks, ranked

    def pairs(self, colors, n_colors=0):
        """Yield the column (n,) of each row: one answer for each choice that has to be made."""
        n, refined = len(self._own), self.refine(colors, n_colors)
        if refined is None:
            return
        order, ranks, _ = refined
        order, n_colors = order - [[0], [n]], ranks[-1] + 1
        if n_colors == n:
            cols = np.empty(n, dtype=np.intp)
            cols[order[0]] = order[1]
            apart = self._costs[0] - self._costs[1][np.ix_(cols, cols)]
            if abs(apart).max() <= ROUNDING:
                yield cols
            return
        rows, cols = order[:, ranks == np.bincount(ranks).argmax()] + [[0], [n]]
        some = self._weights[0, rows]
        # Rows of twins differ at these points only: any order is as good.
        if (abs(some[1:] - some[0]) > ROUNDING).sum() <= 2 * (len(rows) - 1):
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

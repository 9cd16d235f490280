"""Whether two spaces are the same but for the order of their points.

No descent is needed where they are, and many descents would find no plan of objective
zero: where a graph has automorphisms, points are alike to second order.

Points of both spaces get colors, and a point's next color is made of the colors of all
others and the costs to them, until there are no more colors (color refinement, the
1-dimensional algorithm of Weisfeiler and Leman, 1968). Where points share a color, one
of them and one of the other space get a color of their own (McKay, Practical graph
isomorphism, 1981), which other choices follow if it has led nowhere.
"""

import dataclasses
import itertools

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ..linear.marginals import Balanced
from ..problems.quadratic import QuadraticProblem

# Differences of costs and of sums of weights that are rounding, as a fraction of the
# largest: these are of numbers near one, as many as there are points.
ROUNDING = 1e-10
# Choices, as a multiple of the points, after which the search is given up. Each point needs one at
# most where none is wrong: so it is for all graphs of ``python -m benchmarks.small symmetric``.
MOST_CHOICES = 2


def isomorphisms(problem):
    """Plans of objective zero between single points.

    Parameters
    ----------
    problem : QuadraticProblem

    Yields
    ------
    (n, m) float64 ndarray
        One for each choice of the first partner that there is to choose, as far as that
        was found. Of fused problems, points are matched at a linear cost of zero.
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
        links = sparse.block_array([[None, free], [free.T, None]])
        # Only points that are linked at no cost may have one color.
        colors += 1 / (np.e + csgraph.connected_components(links)[1])
    masses = problem.p
    if problem.rule.takes_mass:  # of the first points
        masses = np.diff(np.minimum(masses.cumsum(), problem.mass), prepend=0.0)
    for cols in _Search(np.array(costs, dtype=np.float64)).pairs(colors):
        if free[np.arange(n), cols].all():
            plan = np.zeros((n, n))
            plan[np.arange(n), cols] = masses
            yield plan


def symmetries(geometry, masses):
    """Orders (n,) of points in which a space is the same, the points' own first."""
    rule = Balanced(masses, masses)
    same = QuadraticProblem.from_checked(geometry, geometry, rule)
    for plan in isomorphisms(same):
        yield np.where(masses > 0, plan.argmax(axis=1), np.arange(len(masses)))


class Canonical:
    """A problem with its points, and its sides where these can be exchanged, in an order
    that depends only on costs and masses, up to rounding.

    Attributes
    ----------
    problem : QuadraticProblem
    """

    def __init__(self, problem):
        self._original, linear = problem, 0.0
        if problem.is_fused:
            linear = problem.linear_cost / max(np.abs(problem.linear_cost).max(), 1e-300)
            linear = 1 / (np.e + linear)
        pairs = ((problem.x, problem.p, linear), (problem.y, problem.q, np.transpose(linear)))
        (rows, of_x), (cols, of_y) = (_ordered(*pair) for pair in pairs)
        self._orders = rows, cols
        rule = dataclasses.replace(problem.rule, p=problem.p[rows], q=problem.q[cols])
        self.problem = problem.take(rows, cols).replace(rule=rule)
        symmetric = problem.loss == "square" and problem.marginals != "semirelaxed"
        self._exchanges = symmetric and of_y < of_x
        if self._exchanges:
            self.problem = self.problem.exchanged()

    def plan(self, plan):
        """A plan as the problem was, from one of `problem`."""
        whole = np.empty(self._original.shape)
        whole[np.ix_(*self._orders)] = plan.T if self._exchanges else plan
        return whole

    def restore(self, solution):
        """The `ExactSolution` as the problem was."""
        potentials = solution.potentials[:: -1 if self._exchanges else 1]
        potentials = tuple(
            one[order.argsort()] for one, order in zip(potentials, self._orders, strict=True)
        )
        changed = dict(plan=self.plan(solution.plan), potentials=potentials)
        return dataclasses.replace(solution, problem=self._original, **changed)


def _ordered(geometry, masses, linear):
    """An order of the points of a space by colors, and what to compare spaces by."""
    costs = np.array(geometry.to_dense().matrix[None], dtype=np.float64)
    size = float(np.abs(costs).max())
    n = geometry.n
    colors = n * masses + np.sort(linear + np.zeros((n, 1)), axis=1).mean(axis=1)
    order, _, sums = _Search(costs).refine(colors)
    return order[0], (n, size, float(sums.sum()))


class _Search:
    """A search by the costs (k, n, n) of one or two spaces. Colors are numbers, those of
    the spaces one after the other (k n,).
    """

    def __init__(self, costs):
        self._costs, n = costs, costs.shape[1]
        costs /= max(np.abs(costs).max(), np.finfo(float).tiny)
        # Sums of these times colors are equal for equal multisets of costs and colors,
        # and no others in practice.
        self._weights = 1 / (np.e + costs) + 1 / (np.pi + costs.transpose(0, 2, 1))
        self._weights[:, np.arange(n), np.arange(n)] += 1.0  # a point's own color
        self._colors, self._own = np.random.default_rng(0).random((2, n))
        self._left = MOST_CHOICES * n

    def refine(self, colors, found=0):
        """Refine colors, `found` of them different in each space. Return points (k, n) by
        their sums, the rank of each, and the sums; None if spaces have other sums.
        """
        n, before = len(self._own), -1
        ranks = np.zeros(n, dtype=np.intp)
        while before < found < n:
            sums = self._weights @ colors.reshape(-1, n, 1)
            order = sums[..., 0].argsort(axis=1)
            order += n * np.arange(len(order))[:, None]
            ranked = sums.take(order)
            if abs(ranked - ranked[0]).max() > ROUNDING * n:
                return None
            np.cumsum(np.diff(ranked[0]) > ROUNDING * n, out=ranks[1:])
            before, found = found, ranks[-1] + 1
            colors.put(order, self._colors[ranks])
        return order, ranks, ranked

    def pairs(self, colors, found=0):
        """Yields the column (n,) of each row from colors, so many of them different in
        either space: one for each choice that has to be made next.
        """
        n, refined = len(self._own), self.refine(colors, found)
        if refined is None:
            return
        order, ranks, _ = refined
        order, found = order - [[0], [n]], ranks[-1] + 1
        if found == n:
            cols = np.empty(n, dtype=np.intp)
            cols[order[0]] = order[1]
            apart = self._costs[0] - self._costs[1][np.ix_(cols, cols)]
            if abs(apart).max() <= ROUNDING:
                yield cols
            return
        rows, cols = order[:, ranks == np.bincount(ranks).argmax()] + [[0], [n]]
        if self._are_twins(rows):
            colors[rows] = colors[cols] = self._own[: len(rows)]
            yield from self.pairs(colors, found)
            return
        for col in cols.tolist():
            if self._left == 0:
                return
            self._left -= 1
            chosen = colors.copy()
            chosen[rows[0]] = chosen[col] = self._own[0]
            yield from itertools.islice(self.pairs(chosen, found), 1)

    def _are_twins(self, rows):
        """Whether any order of these is as good: whether the rows of two of them differ
        at these two only.
        """
        some = self._weights[0, rows]
        return (abs(some[1:] - some[0]) > ROUNDING).sum() <= 2 * (len(rows) - 1)

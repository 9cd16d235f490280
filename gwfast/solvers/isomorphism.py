"""Whether two spaces are the same but for the order of their points.

No descent is needed where they are, and many descents would find no plan of objective
zero: where a graph has automorphisms, points are alike to second order.

Points of both spaces get colors, and a point's next color is made of the colors of all
others and the costs to them, until there are no more colors (color refinement, the
1-dimensional algorithm of Weisfeiler and Leman, 1968). Where points share a color, one
of them and one of the other space get a color of their own (McKay, Practical graph
isomorphism, 1981), which other choices follow if it has led nowhere.
"""

import itertools

import numpy as np

# Differences of costs and of sums of weights that are rounding, as a fraction of the
# largest: these are of numbers near one, as many as there are points.
ROUNDING = 1e-10
# Choices, as a multiple of the points, after which the search is given up. Each point
# needs one at most where none is wrong: so it is for all graphs of
# ``python -m benchmarks.small symmetric``.
MOST_CHOICES = 2


def isomorphisms(problem):
    """Plans of objective zero between single points.

    Parameters
    ----------
    problem : QuadraticProblem

    Yields
    ------
    (n, n) float64 ndarray
        One for each choice of the first partner that there is to choose, as far as that
        was found; none for fused problems and marginals that are not balanced.
    """
    n, m = problem.shape
    if n != m or problem.is_fused or not problem.is_balanced:
        return
    masses = np.concatenate([problem.p, problem.q])
    costs = [one.to_dense().matrix for one in (problem.x, problem.y)]
    search = _Search(np.array(costs, dtype=np.float64))
    for cols in search.pairs(n * masses):
        plan = np.zeros((n, n))
        plan[np.arange(n), cols] = problem.p
        yield plan


class _Search:
    """A search by the costs (2, n, n) of both spaces. Colors are numbers, those of both
    spaces one after the other (2 n,).
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

    def pairs(self, colors, found=0):
        """Yields the column (n,) of each row from colors, so many of them different in
        either space: one for each choice that has to be made next.
        """
        n, before = len(self._own), -1
        ranks = np.zeros(n, dtype=np.intp)
        while before < found < n:
            sums = self._weights @ colors.reshape(2, n, 1)
            order = sums[..., 0].argsort(axis=1)
            order[1] += n
            first, second = sums.take(order)
            if abs(first - second).max() > ROUNDING * n:
                return
            np.cumsum(first[1:] - first[:-1] > ROUNDING * n, out=ranks[1:])
            before, found = found, ranks[-1] + 1
            colors.put(order, self._colors[ranks])
        if found == n:
            cols = np.empty(n, dtype=np.intp)
            cols[order[0]] = order[1] - n
            apart = self._costs[0] - self._costs[1][np.ix_(cols, cols)]
            if abs(apart).max() <= ROUNDING:
                yield cols
            return
        rows, cols = order[:, ranks == np.bincount(ranks).argmax()]
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

"""The problems that are solved, and the one judge of all plans.

Whatever a solver says of itself is ignored: every plan is evaluated here, in float64,
with its own marginals, by code that no solver shares.
"""

import dataclasses

import numpy as np
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from gwfast import words

from ..common import pairs

GRAPH_NEIGHBORS = 10
# Of the objective of the product plan, where epsilon is not given.
SHARE = 0.02
# Entries of a plan that are looked at together in float64 (128 MB).
BLOCK = 1 << 24


@dataclasses.dataclass(frozen=True)
class Problem:
    """Two spaces to align.

    Attributes
    ----------
    name : str
    epsilon : float
        In gwfast's convention.
    points : tuple of (n, d) and (m, e) float64 ndarrays, or None
        Rows of unit length, where the costs are their cosine similarities.
    costs : tuple of (n, n) and (m, m) float64 ndarrays, or None
        The costs, where they are no one's similarities.
    raw : tuple of ndarrays, or None
        All rows as they were read, of the first n and m of which `points` came.
    right : callable or None
        ``right(best)`` is the share of rows for which the best column is right.
    accuracy : str
        What that is called.
    """

    name: str
    epsilon: float
    points: tuple | None = None
    costs: tuple | None = None
    raw: tuple | None = None
    right: object = None
    accuracy: str = ""

    @property
    def shape(self):
        return tuple(len(side) for side in self.points or self.costs)

    def matrices(self, dtype=np.float64):
        """Costs as new arrays, for solvers that take nothing else."""
        if self.points is None:
            return [cost.astype(dtype) for cost in self.costs]
        sides = (points.astype(dtype) for points in self.points)
        return [side @ side.T for side in sides]

    def evaluate(self, plan):
        """What a plan is worth.

        Returns
        -------
        dict
            ``gw_cost``, ``sum_ijkl (C1_ik - C2_jl)^2 T_ij T_kl``, exactly the sum also for a plan
            that is no coupling; ``marginal_error``, that of both in L1; ``accuracy``.
        """
        plan = np.asarray(plan)
        n, m = plan.shape
        rows, cols, best = np.empty(n), np.zeros(m), np.empty(n, dtype=np.int64)
        bilinear = state = 0.0
        step = max(BLOCK // m, 1)
        for i in range(0, n, step):
            part = slice(i, min(i + step, n))
            block = plan[part].astype(np.float64)
            rows[part], best[part] = block.sum(axis=1), block.argmax(axis=1)
            cols += block.sum(axis=0)
            if self.points is not None:
                state = state + self.points[0][part].T @ (block @ self.points[1])
            else:
                moved = block @ self.costs[1]
                bilinear += np.vdot(self.costs[0][part] @ plan, moved)
        if self.points is not None:
            bilinear = np.vdot(state, state)
        gw_cost = self._squares(0, rows) + self._squares(1, cols) - 2 * bilinear
        error = np.abs(rows - 1 / n).sum() + np.abs(cols - 1 / m).sum()
        made = {"gw_cost": float(gw_cost), "marginal_error": float(error)}
        if not np.isfinite(gw_cost):
            raise ArithmeticError("the plan is not finite")
        if self.right is not None:
            made["accuracy"] = float(self.right(best))
        return made

    def _squares(self, side, masses):
        """``sum_ik C_ik^2 masses_i masses_k``."""
        if self.points is None:
            return masses @ np.square(self.costs[side]) @ masses
        # Of inner products it is the squared size of the weighted Gram matrix.
        gram = (self.points[side].T * masses) @ self.points[side]
        return np.vdot(gram, gram)


def make(kind, **options):
    """The problem of that kind, see the functions below."""
    return {"words": word_problem, "graph": graph_problem, "hops": hop_problem}[kind](**options)


def word_problem(pair, n, epsilon, raw=True):
    """Cosine similarities of the `n` most frequent words of two languages.

    Where the data are not there it is the sample that gwfast brings. With `raw` the
    vectors are there as they were read, and solvers may do the normalization.
    """
    try:
        source, target, dictionary = pairs.language_pair(pair)
    except FileNotFoundError:
        pair, epsilon = "es-fr (bundled sample)", 3e-4
        source, target, dictionary = words.load_sample()
    if n > min(len(source), len(target)):
        raise FileNotFoundError(f"{pair} has no {n} words a side; see GWFAST_DATA")
    x, y = (unit_center_unit(side.vectors)[:n].copy() for side in (source, target))
    translations = pairs.translations(dictionary, source.words[:n], target.words[:n])

    def right(best):
        return np.mean([best[row] in columns for row, columns in translations.items()])

    return Problem(
        f"{pair}, {n} x {n} x {x.shape[1]}, epsilon {epsilon:g}",
        epsilon,
        points=(x, y),
        raw=(source.vectors, target.vectors) if raw else None,
        right=right,
        accuracy="P@1",
    )


def graph_problem(pair, n):
    """Shortest paths along the nearest neighbors of the same points: dense costs."""
    problem = word_problem(pair, n, 1.0)
    costs = tuple(shortest_paths(side) for side in problem.points)
    return _dense(f"graph distances of words, {problem.name.partition(',')[0]}", costs)


def hop_problem(cells, k):
    """Steps along the graph of k nearest neighbors of cells, seen in two ways."""
    x, y, types_x, types_y = pairs.cells(cells)

    def right(best):
        return np.mean(types_x == types_y[best])

    costs = pairs.hops(x, k), pairs.hops(y, k)
    name = f"hops between the cells of {cells}, {k} neighbors"
    return _dense(name, costs, right=right, accuracy="same type")


def _dense(name, costs, **options):
    n, m = (len(cost) for cost in costs)
    trial = Problem(name, 0.0, costs=costs)
    epsilon = SHARE * trial.evaluate(np.full((n, m), 1 / (n * m)))["gw_cost"]
    epsilon = float(f"{epsilon:.1g}")
    name = f"{name}, {n} x {m}, epsilon {epsilon:g}"
    return Problem(name, epsilon, costs=costs, **options)


def unit_center_unit(x):
    x = x.astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x -= x.mean(axis=0)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def shortest_paths(points):
    """Distances in the symmetric graph of nearest neighbors, at most one."""
    n, k = len(points), GRAPH_NEIGHBORS
    lengths, neighbors = cKDTree(points).query(points, k + 1)
    graph = np.zeros((n, n))
    np.put_along_axis(graph, neighbors[:, 1:], lengths[:, 1:], axis=1)
    paths = csgraph.shortest_path(graph, directed=False)
    paths[np.isinf(paths)] = paths[np.isfinite(paths)].max()
    return paths / paths.max()

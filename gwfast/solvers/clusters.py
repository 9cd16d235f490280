"""Starts from coarse clusters: both sides in a few clusters, between which so many
plans descend that hardly a local optimum is missed, at almost no cost each. The best of
them go on between more clusters, which tell better which optimum is the lowest.

A plan between clusters is spread evenly over their points. Its objective is that of
the centers, whose costs are the mean costs between clusters.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels._rows import aligned_empty
from ..problems.geometry import PointCloud
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER
from .starts import ALONE, Start

# Clusters a side, few and many, and the least mean number of points of one. On digits
# (pixels against edges) one random plan of 50 to 200 leads to the lowest optimum, with
# 15 to 60 clusters alike; fewer are cheaper. The plan that leads there is among the
# first 25 between 30 clusters on pairs of languages, and among the first 4 between 200.
FEW, MANY, MIN_POINTS = 30, 200, 8
# Random plans that are tried, so many at a time, and how many go on.
N_TRIED, AT_ONCE, N_LEFT = 1000, 50, 40
# Outer iterations between few clusters and between many, and Sinkhorn iterations in
# each; the multiple of epsilon that the former begin with, and the factor lowering it.
N_OUTER_FEW, N_OUTER_MANY, N_INNER, FIRST_EPSILON, COOLING = 25, 10, 10, 3.0, 0.85
# The best plans that are compared with one another, and the relative distance of states
# from which on two plans differ.
N_COMPARED, SAME = 500, 0.3
# Least exponent in a kernel, and the least divisor.
LEAST, TINY = -60.0, 1e-30


@dataclasses.dataclass(frozen=True, eq=False)
class Clusters(Start):
    """A plan between clusters of both sides, spread evenly over their points: the cluster of each
    point of either side, and the plan (k, l) in float32, divided by the masses of the clusters.
    """

    label: str
    groups: tuple[NDArray, NDArray]
    density: NDArray

    def plan(self, problem, n_threads, shared=ALONE):
        out = shared.scratch() if shared.scratch else aligned_empty(problem.shape)
        rows, cols = self.groups
        p, q = (side.astype(np.float32) for side in (problem.p, problem.q))
        each = self.density[:, cols] * q
        for some in row_blocks(*problem.shape):
            np.multiply(each[rows[some]], p[some, None], out=out[some])
        return out

    def __str__(self):
        return self.label


def cluster_starts(problem, epsilon, seed, most, deadline=NEVER):
    """At most so many different `Clusters` of two spaces with symmetric costs, the
    lowest objective first; none of too few points. The seed also changes the clusters.
    """
    rng, size = np.random.default_rng(seed), min(problem.shape) // MIN_POINTS
    if size < 2:
        return []
    few, many = (_Coarse.of(problem, min(count, size), epsilon, rng) for count in (FEW, MANY))
    made = []
    for _ in range(N_TRIED // AT_ONCE):
        deadline.check()
        made.append(few.descended(few.random(rng, AT_ONCE), N_OUTER_FEW, FIRST_EPSILON))
    plans = many.aggregated(few.distinct(np.concatenate(made), N_LEFT), few)
    made = []
    for part in np.array_split(plans, len(plans)):
        deadline.check()
        made.append(many.descended(part, N_OUTER_MANY))
    density = many.distinct(np.concatenate(made), most) / many.product
    groups = many.x.groups, many.y.groups
    return [Clusters(f"clusters {seed}, {rank}", groups, one) for rank, one in enumerate(density)]


class _Side(NamedTuple):
    """The cluster of each point, and costs, in units of a cloud's scale, and masses of
    the clusters in float32.
    """

    groups: NDArray
    costs: NDArray
    masses: NDArray

    @classmethod
    def of(cls, geometry, masses, count, rng):
        is_cloud = isinstance(geometry, PointCloud)
        # Points are near where their costs with all others are alike.
        points = geometry.points if is_cloud else _centered(geometry)
        groups = clustered(points, masses, count, rng)
        total = np.maximum(np.bincount(groups, masses), TINY)
        shares = np.zeros((len(total), geometry.n), dtype=np.float32)
        shares[groups, np.arange(geometry.n)] = masses / total[groups]
        if is_cloud:
            centers = (shares @ geometry.features).astype(np.float64)
            costs = centers @ geometry.signature @ centers.T
        else:
            costs = shares @ points @ shares.T
        return cls(groups, costs.astype(np.float32), total.astype(np.float32))


def _centered(cost):
    """Costs (n, n) without their mean, which moves no plan, as float32 has to tell them apart."""
    return (cost.by_rows - cost.mean).astype(np.float32)


def clustered(points, masses, count, rng):
    """The cluster (n,) of each point, numbered without gaps, at most `count`: twelve
    rounds of Lloyd's algorithm (IEEE Transactions on Information Theory, 1982) from
    k-means++ (Arthur and Vassilvitskii, SODA 2007). SciPy's `kmeans2` takes no masses,
    and points without mass would attract centers.
    """
    squares = np.square(points).sum(axis=1)
    chance, centers = masses / masses.sum(), []
    near = np.full(len(points), np.inf)
    for _ in range(count):
        centers.append(points[rng.choice(len(points), p=chance)])
        apart = squares - 2.0 * (points @ centers[-1]) + np.square(centers[-1]).sum()
        near = np.minimum(near, np.maximum(apart, 0.0))
        weights = near * masses
        if not weights.sum() > 0:
            break
        chance = weights / weights.sum()
    centers, groups = np.array(centers), None
    for _ in range(12):
        apart = points @ centers.T - np.square(centers).sum(axis=1) / 2.0
        _, groups = np.unique(apart.argmax(axis=1), return_inverse=True)
        member = np.zeros((groups.max() + 1, len(points)), dtype=points.dtype)
        member[groups, np.arange(len(points))] = np.maximum(masses, TINY)
        centers = (member @ points) / member.sum(axis=1, keepdims=True)
    return groups


class _Coarse(NamedTuple):
    """The problem between clusters. Many plans descend at a time, in one array (b, k,
    l), as one plan takes less time than a call. Epsilon is in units of the costs.
    """

    x: _Side
    y: _Side
    epsilon: float

    @classmethod
    def of(cls, problem, count, epsilon, rng):
        x, y = problem.x, problem.y
        left = _Side.of(x, problem.p, count, rng)
        right = _Side.of(y, problem.q, count, rng)
        scales = [getattr(side, "scale", 1.0) for side in (x, y)]
        return cls(left, right, epsilon / np.prod(scales))

    @property
    def product(self):
        return np.outer(self.x.masses, self.y.masses)

    def random(self, rng, count):
        """So many random plans, whose marginals are rough."""
        shape = count, len(self.x.masses), len(self.y.masses)
        plans = rng.standard_exponential(shape, dtype=np.float32) ** 2 * self.product
        return plans / plans.sum(axis=(1, 2), keepdims=True)

    def aggregated(self, plans, other):
        """Plans between the clusters of the other problem as plans between these."""
        for axis, (mine, theirs) in enumerate(((self.x, other.x), (self.y, other.y))):
            counts = np.zeros((len(mine.masses), len(theirs.masses)), np.float32)
            np.add.at(counts, (mine.groups, theirs.groups), 1.0)
            # The mass of their cluster is spread evenly over its points.
            counts /= counts.sum(axis=0)
            plans = counts @ plans if axis == 0 else plans @ counts.T
        return plans

    def descended(self, plans, n_outer, first_epsilon=1.0):
        """The plans after so many iterations, begun with a multiple of epsilon."""
        p, q = self.x.masses[:, None], self.y.masses[None, :]
        f, g = 0.0, np.zeros((len(plans), 1, q.size), np.float32)
        for step in range(n_outer):
            kernel = self.x.costs @ plans @ self.y.costs
            now = self.epsilon * max(1.0, first_epsilon * COOLING**step)
            kernel *= np.float32(2.0 / now)
            if step == 0:
                f = -kernel.max(axis=2, keepdims=True)
            kernel += f
            kernel += g
            kernel -= kernel.max(axis=(1, 2), keepdims=True)
            np.exp(np.maximum(kernel, LEAST, out=kernel), out=kernel)
            v = np.broadcast_to(q, g.shape)
            for _ in range(N_INNER):
                u = p / np.maximum(kernel @ v.swapaxes(1, 2), TINY)
                v = q / np.maximum(u.swapaxes(1, 2) @ kernel, TINY)
            kernel *= u
            kernel *= v
            plans, f, g = kernel, f + np.log(u), g + np.log(v)
        return plans

    def distinct(self, plans, most):
        """At most so many plans that differ, the lowest objective first."""
        # Under given marginals the other terms of the objective are constant.
        gains = ((self.x.costs @ plans @ self.y.costs) * plans).sum(axis=(1, 2))
        ranked = np.argsort(-np.nan_to_num(gains, nan=-np.inf), kind="stable")
        best = plans[ranked[:N_COMPARED]]
        left, right = _root(self.x.costs), _root(self.y.costs)
        states = (left @ (best - self.product) @ right.T).reshape(len(best), -1)
        lengths = np.linalg.norm(states, axis=1, keepdims=True)
        states /= np.maximum(lengths, TINY)
        kept = []
        for k, state in enumerate(states):
            if all(np.linalg.norm(state - states[other]) > SAME for other in kept):
                kept.append(k)
            if len(kept) == most:
                break
        return best[kept]


def _root(costs):
    """A factor A of the absolute value ``A' A`` of the costs."""
    values, vectors = np.linalg.eigh(costs.astype(np.float64))
    return (np.sqrt(np.abs(values))[:, None] * vectors.T).astype(np.float32)

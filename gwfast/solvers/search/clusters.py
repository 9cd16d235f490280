"""Starts from coarse clusters: a thousand plans descend between few clusters of either side, at
almost no cost each, and hardly miss a local optimum. The best go on between more clusters.

A plan between clusters is spread evenly over their points; costs are the mean costs of clusters.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernels._rows import aligned_empty
from ...problems.geometry import PointCloud
from ...utils.blocks import row_blocks
from ...utils.deadline import NEVER
from .starts import Start

# Clusters a side, few and many: the plan that leads to the lowest optimum is among the first 25
# between 30 clusters on pairs of languages, and among the first 4 between 200.
FEW, MANY = 30, 200
TINY = 1e-30


def cluster_starts(problem, epsilon, seed, most, deadline=NEVER):
    """Return different starts of two spaces with symmetric costs, the lowest objective first, at
    most `most`, and none if there are few points. The seed also changes the clusters.
    """
    rng, size = np.random.default_rng(seed), min(problem.shape) // 8
    if size < 2:
        return []
    few, many = (_Coarse.of(problem, min(count, size), epsilon, rng) for count in (FEW, MANY))
    plans = []
    for _ in range(20):  # a thousand plans; 40 go on between many clusters
        deadline.check()
        plans.append(few.descended(few.random(rng, 50), 25, 3.0))
    plans = many.aggregated(few.distinct(np.concatenate(plans), 40), few)
    for k in range(len(plans)):
        deadline.check()
        plans[k : k + 1] = many.descended(plans[k : k + 1], 10)
    density = many.distinct(plans, most) / many.product
    groups = many.x.groups, many.y.groups
    return [
        Start(f"clusters {seed}, {rank}", _spread(groups, one)) for rank, one in enumerate(density)
    ]


def _spread(groups, density):
    """Return a function that spreads a plan between clusters evenly over their points."""

    def make(problem, n_threads):
        plan, (rows, cols) = aligned_empty(problem.shape), groups
        p, each = problem.p.astype(np.float32), density[:, cols] * problem.q.astype(np.float32)
        for some in row_blocks(*problem.shape):
            np.multiply(each[rows[some]], p[some, None], out=plan[some])
        return plan

    return make


class _Side(NamedTuple):
    """The cluster of each point; costs, in units of a cloud's scale, and masses of clusters."""

    groups: NDArray
    costs: NDArray
    masses: NDArray

    @classmethod
    def of(cls, geometry, masses, count, rng):
        is_cloud = isinstance(geometry, PointCloud)
        # Points are near where their costs with all others are alike. The mean moves no plan.
        matrix = None if is_cloud else (geometry.by_rows - geometry.mean).astype(np.float32)
        groups = clustered(geometry.points if is_cloud else matrix, masses, count, rng)
        total = np.maximum(np.bincount(groups, masses), TINY)
        shares = np.zeros((len(total), geometry.n), dtype=np.float32)
        shares[groups, np.arange(geometry.n)] = masses / total[groups]
        if is_cloud:
            centers = (shares @ geometry.features).astype(np.float64)
            costs = centers @ geometry.signature @ centers.T
        else:
            costs = shares @ matrix @ shares.T
        return cls(groups, costs.astype(np.float32), total.astype(np.float32))


def clustered(points, masses, count, rng):
    """Return the cluster (n,) of each point, numbered without gaps: twelve rounds of Lloyd's
    algorithm (1982) from k-means++ (Arthur and Vassilvitskii, SODA 2007), with masses.
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
    """The problem between clusters. Many plans (b, k, l) descend at a time."""

    x: _Side
    y: _Side
    epsilon: float

    @classmethod
    def of(cls, problem, count, epsilon, rng):
        left = _Side.of(problem.x, problem.p, count, rng)
        right = _Side.of(problem.y, problem.q, count, rng)
        scale = np.prod([getattr(side, "scale", 1.0) for side in (problem.x, problem.y)])
        return cls(left, right, epsilon / scale)

    @property
    def product(self):
        return np.outer(self.x.masses, self.y.masses)

    def random(self, rng, count):
        """Return random plans, whose marginals are rough."""
        shape = count, len(self.x.masses), len(self.y.masses)
        plans = rng.standard_exponential(shape, dtype=np.float32) ** 2 * self.product
        return plans / plans.sum(axis=(1, 2), keepdims=True)

    def aggregated(self, plans, other):
        """Return plans between the clusters of the other problem as plans between these."""
        for axis, (mine, theirs) in enumerate(((self.x, other.x), (self.y, other.y))):
            counts = np.zeros((len(mine.masses), len(theirs.masses)), np.float32)
            np.add.at(counts, (mine.groups, theirs.groups), 1.0)
            counts /= counts.sum(axis=0)
            plans = counts @ plans if axis == 0 else plans @ counts.T
        return plans

    def descended(self, plans, n_outer, first_epsilon=1.0):
        """Return the plans after `n_outer` iterations, begun with a multiple of epsilon."""
        p, q = self.x.masses[:, None], self.y.masses[None, :]
        f, g = 0.0, np.zeros((len(plans), 1, q.size), np.float32)
        for step in range(n_outer):
            kernel = self.x.costs @ plans @ self.y.costs
            kernel *= np.float32(2.0 / (self.epsilon * max(1.0, first_epsilon * 0.85**step)))
            if step == 0:
                f = -kernel.max(axis=2, keepdims=True)
            kernel += f + g
            kernel -= kernel.max(axis=(1, 2), keepdims=True)
            np.exp(np.maximum(kernel, -60.0, out=kernel), out=kernel)
            v = np.broadcast_to(q, g.shape)
            for _ in range(10):
                u = p / np.maximum(kernel @ v.swapaxes(1, 2), TINY)
                v = q / np.maximum(u.swapaxes(1, 2) @ kernel, TINY)
            plans = kernel * u * v
            f, g = f + np.log(u), g + np.log(v)
        return plans

    def distinct(self, plans, most):
        """Return plans that differ, the lowest objective first, at most `most`."""
        # Under given marginals the other terms of the objective are constant.
        gains = ((self.x.costs @ plans @ self.y.costs) * plans).sum(axis=(1, 2))
        best = plans[np.argsort(-np.nan_to_num(gains, nan=-np.inf), kind="stable")[:500]]
        left, right = _root(self.x.costs), _root(self.y.costs)
        states = (left @ (best - self.product) @ right.T).reshape(len(best), -1)
        states /= np.maximum(np.linalg.norm(states, axis=1, keepdims=True), TINY)
        kept = []
        for k, state in enumerate(states):
            if all(np.linalg.norm(state - states[other]) > 0.3 for other in kept):
                kept.append(k)
            if len(kept) == most:
                break
        return best[kept]


def _root(costs):
    """Return a factor A of the absolute value ``A' A`` of the costs."""
    values, vectors = np.linalg.eigh(costs.astype(np.float64))
    return (np.sqrt(np.abs(values))[:, None] * vectors.T).astype(np.float32)

"""Coarse clusters first: both sides in a few clusters, of which so many plans are tried
that hardly a local optimum is left out, for next to nothing each.

That the plan is constant within clusters is all that is coarse: the objective of such
a plan is that of the centers, whose costs are the means of costs between clusters.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ..kernels._rows import aligned_empty
from ..utils.blocks import row_blocks
from .starts import ALONE, Start

# Clusters a side, the least points of one in the mean, and the rounds that make them.
# Of digits (pixels against edges) one random plan of 50 to 200 led to the lowest
# optimum with 15 to 60 clusters alike; fewer are cheaper.
N_CLUSTERS, MIN_POINTS, ROUNDS = 30, 8, 12
# Random plans that are tried, so many at a time; how far each goes, from which multiple
# of epsilon it comes, and by which factor that is lowered.
N_TRIED, AT_ONCE, N_OUTER, N_INNER = 1000, 50, 25, 10
HOT, QUICKLY = 3.0, 0.85
# The best plans that are compared with one another, and the relative distance from
# which on two are not the same.
N_COMPARED, SAME = 200, 0.3
# Least exponent in a kernel, and what nothing is divided by.
LEAST, TINY = -60.0, 1e-30


@dataclasses.dataclass(frozen=True, eq=False)
class Clusters(Start):
    """A plan between clusters of both sides, spread evenly over their points.

    Attributes
    ----------
    label : str
    groups : tuple of ndarray
        The number of the cluster of each point, of both sides.
    density : (k, l) float32 ndarray
        The plan, divided by the masses of clusters.
    """

    label: str
    groups: tuple[NDArray, NDArray]
    density: NDArray
    is_random = True

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


def cluster_starts(problem, epsilon, seed, most):
    """`Clusters` of two point clouds, different ones, the lowest objective first, at
    most so many; none of too few points. Another seed makes other clusters too.
    """
    rng = np.random.default_rng(seed)
    sides = (problem.x, problem.p), (problem.y, problem.q)
    count = min(N_CLUSTERS, min(problem.shape) // MIN_POINTS)
    if count < 2:
        return []
    made = [_coarse(*side, count, rng) for side in sides]
    (rows, costs_x, p), (cols, costs_y, q) = made
    unit = epsilon / (problem.x.scale * problem.y.scale)
    plans = np.concatenate(
        [
            _descended(rng, costs_x, costs_y, p, q, unit)
            for _ in range(N_TRIED // AT_ONCE)
        ]
    )
    return [
        Clusters(f"clusters {seed}, {rank}", (rows, cols), plan / np.outer(p, q))
        for rank, plan in enumerate(_distinct(plans, costs_x, costs_y, p, q, most))
    ]


def _coarse(cloud, masses, count, rng):
    """The cluster of each point, the costs between clusters in units of the cloud's,
    and their masses, in float32.
    """
    groups = clustered(cloud.points, masses, count, rng)
    total = np.maximum(np.bincount(groups, masses), TINY)
    shares = np.zeros((len(total), cloud.n), dtype=np.float32)
    shares[groups, np.arange(cloud.n)] = masses / total[groups]
    centers = (shares @ cloud.features).astype(np.float64)
    costs = centers @ cloud.signature @ centers.T
    return groups, costs.astype(np.float32), total.astype(np.float32)


def clustered(points, masses, count, rng):
    """The cluster (n,) of each point, by Lloyd's rounds (IEEE Transactions on
    Information Theory, 1982) from centers that keep their distance (k-means++: Arthur
    and Vassilvitskii, SODA 2007); numbers without gaps, at most `count`.
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
    for _ in range(ROUNDS):
        apart = points @ centers.T - np.square(centers).sum(axis=1) / 2.0
        _, groups = np.unique(apart.argmax(axis=1), return_inverse=True)
        member = np.zeros((groups.max() + 1, len(points)), dtype=points.dtype)
        member[groups, np.arange(len(points))] = np.maximum(masses, TINY)
        centers = (member @ points) / member.sum(axis=1, keepdims=True)
    return groups


def _descended(rng, costs_x, costs_y, p, q, epsilon):
    """Plans (b, k, l) where the descents from random ones have come to: all of them in
    one array, as each would take less than a call.
    """
    shape = AT_ONCE, len(p), len(q)
    plans = rng.standard_exponential(shape, dtype=np.float32) ** 2 * np.outer(p, q)
    plans /= plans.sum(axis=(1, 2), keepdims=True)
    f, g = np.zeros((*shape[:2], 1), np.float32), np.zeros((AT_ONCE, 1, len(q)))
    g, p, q = g.astype(np.float32), p[:, None], q[None, :]
    for step in range(N_OUTER):
        now = epsilon * max(1.0, HOT * QUICKLY**step)
        kernel = costs_x @ plans @ costs_y
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
        plans = u * kernel * v
        f, g = f + np.log(u), g + np.log(v)
    return plans


def _distinct(plans, costs_x, costs_y, p, q, most):
    """The plans of lowest objective that are not the same, that first."""
    # With the marginals given the rest of the objective is the same for all.
    gains = ((costs_x @ plans @ costs_y) * plans).sum(axis=(1, 2))
    best = plans[np.argsort(-np.nan_to_num(gains, nan=-np.inf))[:N_COMPARED]]
    states = _root(costs_x) @ (best - np.outer(p, q)) @ _root(costs_y).T
    states = states.reshape(len(best), -1)
    states /= np.maximum(np.linalg.norm(states, axis=1, keepdims=True), TINY)
    kept = []
    for k, state in enumerate(states):
        if all(np.linalg.norm(state - states[other]) > SAME for other in kept):
            kept.append(k)
        if len(kept) == most:
            break
    return best[kept]


def _root(costs):
    """A factor of the absolute value of the costs."""
    values, vectors = np.linalg.eigh(costs.astype(np.float64))
    return (np.sqrt(np.abs(values))[:, None] * vectors.T).astype(np.float32)

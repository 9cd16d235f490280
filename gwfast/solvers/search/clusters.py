"""Starts from coarse clusters: a thousand plans descend between few clusters of either side, at
almost no cost each, and hardly miss a local optimum. The best go on between more clusters.

A plan between clusters is spread evenly over their points; costs are the mean costs of clusters.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernels._rows import aligned_empty
from ...problems.geometry import Geometry, PointCloud
from ...problems.quadratic import QuadraticProblem
from ...utils.deadline import NEVER, Deadline
from ...utils.types import Float32Array, Float64Array
from .starts import Start, distinct

TINY = 1e-30
CLUSTERS = "clusters"


class Side(NamedTuple):
    """The cluster of each point; costs, in units of a cloud's scale, and masses of clusters."""

    groups: NDArray
    costs: NDArray
    masses: NDArray


def cluster_starts(
    problem: QuadraticProblem, epsilon: float, seed: int, most: int, deadline: Deadline = NEVER
) -> list[Start]:
    """Return different starts of two spaces with symmetric costs, the lowest objective first, at
    most `most`, and none if there are few points. The seed also changes the clusters.
    """
    rng, size = np.random.default_rng(seed), min(problem.shape) // 8
    if size < 2:
        return []
    spaces = (problem.x, problem.p), (problem.y, problem.q)
    # On pairs of languages the plan that leads to the lowest optimum is among the first 25 between
    # 30 clusters a side, and among the first 4 between 200.
    few, many = ([_side(*one, min(n, size), rng) for one in spaces] for n in (30, 200))
    for geometry, _ in spaces:
        epsilon = epsilon / getattr(geometry, "scale", 1.0)
    product, plans = np.outer(few[0].masses, few[1].masses), []
    for _ in range(20):  # a thousand plans; 40 go on between many clusters
        deadline.check()
        first = rng.standard_exponential((50, *product.shape), dtype=np.float32) ** 2 * product
        first /= first.sum(axis=(1, 2), keepdims=True)
        plans.append(_descended(few, first, epsilon * np.maximum(3.0 * 0.85 ** np.arange(25), 1.0)))
    x, y = map(_shares, many, few)
    plans = x @ _distinct(few, np.concatenate(plans), 40) @ y.T
    for k in range(len(plans)):
        deadline.check()
        plans[k : k + 1] = _descended(many, plans[k : k + 1], np.full(10, epsilon))
    density = _distinct(many, plans, most) / np.outer(many[0].masses, many[1].masses)
    index = np.ix_(many[0].groups, many[1].groups)
    return [
        Start(
            f"clusters {seed}, {rank}", functools.partial(_spread, index, one), CLUSTERS, draw=seed
        )
        for rank, one in enumerate(density)
    ]


def _spread(
    index: tuple[np.ndarray, ...], density: np.ndarray, problem: QuadraticProblem, n_threads: int
) -> Float32Array:
    """Return a plan between clusters, spread evenly over their points."""
    masses = np.outer(problem.p.astype(np.float32), problem.q.astype(np.float32))
    return np.multiply(density[index], masses, out=aligned_empty(problem.shape))


def _side(geometry: Geometry, masses: Float64Array, count: int, rng: np.random.Generator) -> Side:
    """Return a `Side` of that many clusters."""
    if isinstance(geometry, PointCloud):
        points: np.ndarray = geometry.points
    else:
        # Points are near where their costs with all others are alike. The mean moves no plan.
        points = (geometry.by_rows - geometry.mean).astype(np.float32)
    groups = _clustered(points, masses, count, rng)
    total = np.maximum(np.bincount(groups, masses), TINY)
    shares = np.zeros((len(total), geometry.n), dtype=np.float32)
    shares[groups, np.arange(geometry.n)] = masses / total[groups]
    if isinstance(geometry, PointCloud):
        centers = (shares @ geometry.features).astype(np.float64)
        costs = centers @ geometry.signature @ centers.T
    else:
        costs = shares @ points @ shares.T
    return Side(groups, costs.astype(np.float32), total.astype(np.float32))


def _clustered(
    points: np.ndarray, masses: Float64Array, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the cluster (n,) of each point, numbered without gaps: twelve rounds of Lloyd's
    algorithm (1982) from k-means++ (Arthur and Vassilvitskii, SODA 2007), with masses.
    """
    squares, near = np.square(points).sum(axis=1), np.full(len(points), np.inf)
    weights, chosen = masses, list[np.ndarray]()
    while len(chosen) < count and weights.sum() > 0:
        center = points[rng.choice(len(points), p=weights / weights.sum())]
        chosen.append(center)
        distances = squares - 2.0 * (points @ center) + center @ center
        near = np.minimum(near, np.maximum(distances, 0.0))
        weights = near * masses
    centers = np.array(chosen)
    for _ in range(12):
        distances = points @ centers.T - np.square(centers).sum(axis=1) / 2.0
        _, groups = np.unique(distances.argmax(axis=1), return_inverse=True)
        member = np.zeros((groups.max() + 1, len(points)), dtype=points.dtype)
        member[groups, np.arange(len(points))] = np.maximum(masses, TINY)
        centers = (member @ points) / member.sum(axis=1, keepdims=True)
    return groups


def _shares(many: Side, few: Side) -> np.ndarray:
    """Return the share (k, l) of the points of cluster l of a `Side` in cluster k of another."""
    counts = np.zeros((len(many.masses), len(few.masses)), np.float32)
    np.add.at(counts, (many.groups, few.groups), 1.0)
    return counts / counts.sum(axis=0)


def _descended(sides: Sequence[Side], plans: np.ndarray, epsilons: np.ndarray) -> np.ndarray:
    """Return plans (b, k, l) between clusters after an iteration with each epsilon."""
    x, y = sides
    p, q, f, g = x.masses[:, None], y.masses[None, :], None, np.float32(0.0)
    for epsilon in epsilons:
        kernel = x.costs @ plans @ y.costs
        kernel *= np.float32(2.0 / epsilon)
        f = -kernel.max(axis=2, keepdims=True) if f is None else f
        kernel += f + g
        kernel -= kernel.max(axis=(1, 2), keepdims=True)
        np.exp(np.maximum(kernel, -60.0, out=kernel), out=kernel)
        v = np.broadcast_to(q, (len(plans), *q.shape))
        for _ in range(10):
            u = p / np.maximum(kernel @ v.swapaxes(1, 2), TINY)
            v = q / np.maximum(u.swapaxes(1, 2) @ kernel, TINY)
        plans = kernel * u * v
        f, g = f + np.log(u), g + np.log(v)
    return plans


def _distinct(sides: Sequence[Side], plans: np.ndarray, most: int) -> np.ndarray:
    """Return plans that differ, the lowest objective first, at most `most`."""
    x, y = sides
    # Under given marginals the other terms of the objective are constant.
    gains = ((x.costs @ plans @ y.costs) * plans).sum(axis=(1, 2))
    best = plans[np.argsort(-np.nan_to_num(gains, nan=-np.inf), kind="stable")[:500]]
    states = _root(x.costs) @ (best - np.outer(x.masses, y.masses)) @ _root(y.costs).T
    states = states.reshape(len(best), -1)
    states /= np.maximum(np.linalg.norm(states, axis=1, keepdims=True), TINY)

    def differ(j: int, k: int) -> bool:
        return float(np.linalg.norm(states[j] - states[k])) > 0.3

    return best[distinct(range(len(best)), most, differ)]


def _root(costs: np.ndarray) -> np.ndarray:
    """Return a factor A of the absolute value ``A' A`` of the costs."""
    values, vectors = np.linalg.eigh(costs.astype(np.float64))
    return (np.sqrt(np.abs(values))[:, None] * vectors.T).astype(np.float32)

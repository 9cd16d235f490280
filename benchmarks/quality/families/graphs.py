"""Graphs against themselves with edges moved, in another order."""

import functools
import itertools

import numpy as np
from scipy.sparse import csgraph

from .problem import Problem, Sides, distances, shuffled


def near_neighbors(points, k=4):
    """The edges (m, 2) from all points to their nearest ones."""
    n = len(points)
    near = np.argsort(distances(points), axis=1)[:, 1 : k + 1]
    edges = np.stack([np.repeat(np.arange(n), k), near.ravel()], 1)
    return np.unique(np.sort(edges, 1), axis=0)


def rewired(edges, n, share, rng):
    """Edges, of which a share has another end."""
    moved = edges.copy()
    some = rng.random(len(edges)) < share
    moved[some, 1] = rng.integers(n, size=some.sum())
    return moved


def adjacency(edges, n):
    linked = np.zeros((n, n))
    linked[edges[:, 0], edges[:, 1]] = linked[edges[:, 1], edges[:, 0]] = 1
    np.fill_diagonal(linked, 0)
    return linked


def steps(edges, n):
    """Steps between nodes; what cannot be reached is one farther than the farthest."""
    linked = adjacency(edges, n)
    made = csgraph.shortest_path(linked, directed=False, unweighted=True)
    made[np.isinf(made)] = made[np.isfinite(made)].max() + 1
    return made


def _plane(n, rng):
    return near_neighbors(rng.random((n, 2)))


def _geometric(n, rng):
    """Points nearer than a radius at which graphs are just about connected."""
    points = rng.random((n, 2))
    return np.argwhere(np.triu(distances(points) < np.sqrt(1.5 * np.log(n) / (np.pi * n)), 1))


def _tree(n, rng, reach=None):
    """Every node hangs on an earlier one, of the last `reach` if it is given."""
    nodes = np.arange(1, n)
    first = np.zeros(n - 1, int) if reach is None else np.maximum(nodes - reach, 0)
    return np.stack([rng.integers(first, nodes), nodes], axis=1)


def _chain(n, rng):
    return _tree(n, rng, reach=6)


def _blocks(n, rng, count=3):
    """A stochastic block model of equal blocks."""
    block = np.arange(n) % count
    likely = np.where(block[:, None] == block, 16.0 / n, 1.5 / n)
    return np.argwhere(np.triu(rng.random((n, n)) < likely, 1))


KINDS = {
    "near neighbors": _plane, "geometric": _geometric, "tree": _tree,
    "long tree": _chain, "blocks": _blocks,
}  # fmt: skip


def heat(edges, n, time=2.0):
    """The heat kernel of a graph, times the number of nodes."""
    linked = adjacency(edges, n)
    values, vectors = np.linalg.eigh(csgraph.laplacian(linked))
    return n * (vectors * np.exp(-time * values)) @ vectors.T


# Name: costs, sizes, and the shares of edges that are moved.
COSTS = {
    "steps": (steps, (160, 300), (0.05, 0.1)),
    "links": (adjacency, (60, 120), (0.05, 0.1, 0.15)),
    "heat": (heat, (60, 120, 200), (0.03, 0.06, 0.1)),
}


def problems():
    for (kind, edges_of), (what, (costs, sizes, shares)) in itertools.product(
        KINDS.items(), COSTS.items()
    ):
        for n, share in itertools.product(sizes, shares):
            make = functools.partial(sides, edges_of, costs, n, share)
            name = f"{what}, {n} nodes, {share:g} moved"
            yield Problem(f"graphs, {kind}", name, make)


def sides(edges_of, costs, n, share):
    rng = np.random.default_rng([n, int(1000 * share)])
    edges = edges_of(n, rng)
    moved = rewired(edges, n, share, rng)
    other, known = shuffled(costs(moved, n), rng)
    return Sides(costs(edges, n), other, [known])

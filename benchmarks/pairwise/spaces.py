"""Many small spaces, made from a seed."""

import numpy as np
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist

# Edges a node beside those of the tree that connects a graph.
MORE_EDGES = 0.5
# Waves that the coordinates of a curve are made of.
WAVES = 4


def graphs(n, seed=0, sizes=(12, 29)):
    """Steps between the nodes of connected random graphs, so many at least and most."""
    rng = np.random.default_rng(seed)
    return [_graph(rng, int(size)) for size in _integers(rng, sizes, n)]


def shapes(n, seed=0, sizes=(50, 100)):
    """Distances between points of smooth closed curves in space."""
    rng = np.random.default_rng(seed)
    return [_shape(rng, int(size)) for size in _integers(rng, sizes, n)]


def _integers(rng, sizes, n):
    return rng.integers(*sizes, n, endpoint=True)


def _graph(rng, n):
    linked = np.zeros((n, n))
    for node in range(1, n):
        linked[node, rng.integers(node)] = 1
    some = rng.integers(n, size=(round(MORE_EDGES * n), 2))
    some = some[some[:, 0] != some[:, 1]]
    linked[some[:, 0], some[:, 1]] = 1
    return csgraph.shortest_path(linked, directed=False, unweighted=True)


def _shape(rng, n):
    along = np.sort(rng.random(n)) * 2 * np.pi
    wave = np.arange(1, WAVES + 1)
    # Slow waves are the largest, so that curves are smooth.
    sizes = rng.standard_normal((2, WAVES, 3)) / wave[:, None]
    angles = np.multiply.outer(along, wave)
    points = np.cos(angles) @ sizes[0] + np.sin(angles) @ sizes[1]
    return cdist(points, points)

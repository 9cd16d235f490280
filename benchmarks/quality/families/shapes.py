"""Shapes that are nearly like themselves in other positions. Symmetric ones have
several optima as good; of nearly symmetric ones only one is.
"""

import functools
import itertools

import numpy as np
from scipy.sparse import csgraph, csr_matrix
from scipy.spatial import cKDTree

from .graphs import near_neighbors
from .problem import Problem, Sides, distances, identity

N_POINTS = 200


def box(rng, n, sides):
    return rng.uniform(-0.5, 0.5, (n, len(sides))) * sides


def ellipse(rng, n, sides):
    """Points on the surface of an ellipse, or ellipsoid, with a fifth inside."""
    points = rng.standard_normal((n, len(sides)))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points * np.where(rng.random((n, 1)) < 0.2, rng.random((n, 1)), 1) * sides


def torus(rng, n, sides):
    """Around a third axis, the radii as given."""
    a, b = rng.uniform(0, 2 * np.pi, (2, n))
    far = sides[0] + sides[1] * np.cos(b)
    return np.stack([far * np.cos(a), far * np.sin(a), sides[1] * np.sin(b)], axis=1)


def skeleton(rng, n, sides):
    """Sticks from a middle: a trunk with a head, two arms and two legs; `sides` are the
    lengths of arm and leg.
    """
    arm, leg = sides
    ends = np.array([
        [(0, 0), (0, 1)], [(0, 1), (0, 1.3)], [(0, 0.9), (arm, 0.9)],
        [(0, 0.9), (-arm, 0.9)], [(0, 0), (0.2, -leg)], [(0, 0), (-0.2, -leg)],
    ])  # fmt: skip
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    stick = rng.choice(len(ends), n, p=lengths / lengths.sum())
    along = rng.random((n, 1))
    points = ends[stick, 0] * (1 - along) + ends[stick, 1] * along
    return points + 0.02 * rng.standard_normal(points.shape)


def star(rng, n, sides):
    """Sticks from a middle, each in a dimension of its own."""
    stick = rng.choice(len(sides), n, p=sides / sides.sum())
    points = np.zeros((n, len(sides)))
    points[np.arange(n), stick] = rng.random(n) * sides[stick]
    return points


def clusters(rng, n, sides):
    """Clusters with a center on each axis, in proportion to these distances."""
    group = rng.integers(len(sides), size=n)
    return np.diag(sides)[group] + 0.25 * rng.standard_normal((n, len(sides)))


def geodesics(points, k=6):
    """Lengths of paths between near neighbors."""
    edges = near_neighbors(points, k)
    lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    graph = csr_matrix((lengths, edges.T), shape=(len(points), len(points)))
    made = csgraph.shortest_path(graph, directed=False)
    made[np.isinf(made)] = 1.5 * made[np.isfinite(made)].max()
    return made


def nearness(points):
    """How near points are, on the scale of their neighbors'."""
    apart = distances(points)
    return np.exp(-0.5 * np.square(apart / (0.25 * apart.mean())))


# Shape: a function that draws it, its sides, and its costs.
SHAPES = {
    "rectangle 2 : 1": (box, (2.0, 1.0), distances),
    "rectangle 1.05 : 1": (box, (1.05, 1.0), distances),
    "rectangle 2 : 1, nearness": (box, (2.0, 1.0), nearness),
    "box, nearness": (box, (1.1, 1.05, 1.0), nearness),
    "ellipse, nearness": (ellipse, (1.5, 1.0), nearness),
    "torus, nearness": (torus, (1.0, 0.4), nearness),
    "skeleton, nearness": (skeleton, (0.9, 1.0), nearness),
    "box": (box, (1.1, 1.05, 1.0), distances),
    "box in 4 dimensions": (box, (1.15, 1.1, 1.05, 1.0), distances),
    "ellipse": (ellipse, (1.5, 1.0), distances),
    "ellipsoid": (ellipse, (1.15, 1.07, 1.0), distances),
    "torus": (torus, (1.0, 0.4), distances),
    "torus, geodesic": (torus, (1.0, 0.4), geodesics),
    "skeleton": (skeleton, (0.9, 1.0), distances),
    "skeleton, geodesic": (skeleton, (0.9, 1.0), geodesics),
    "equal limbs, geodesic": (skeleton, (1.0, 1.0), geodesics),
    "star of 5": (star, 1 + 0.04 * np.arange(5), distances),
    "star of 8": (star, 1 + 0.04 * np.arange(8), distances),
    "star of 8, geodesic": (star, 1 + 0.04 * np.arange(8), geodesics),
    "8 clusters": (clusters, 1 + 0.04 * np.arange(8), distances),
    "12 clusters": (clusters, 1 + 0.03 * np.arange(12), distances),
}


def problems():
    for name, (noise, seed) in itertools.product(SHAPES, ((0.05, 0), (0.15, 1))):
        yield Problem(
            "shapes", f"{name}, noise {noise:g}, sample {seed}",
            functools.partial(_sides, *SHAPES[name], noise, seed),
        )  # fmt: skip


def _sides(drawn, sides, costs, noise, seed):
    rng = np.random.default_rng([seed, int(100 * noise)])
    points = drawn(rng, N_POINTS, np.array(sides))
    other = points + noise * points.std() * rng.standard_normal(points.shape)
    return Sides(costs(points), costs(other), _mirrored(points))


def _mirrored(points):
    """Matches of all points with themselves, and with the nearest to their mirror
    images in every combination of axes.
    """
    if points.shape[1] > 3:
        return [identity(len(points))]
    tree, known = cKDTree(points), []
    for signs in itertools.product((1, -1), repeat=points.shape[1]):
        known.append(np.stack([np.arange(len(points)), tree.query(points * signs)[1]], 1))
    return known

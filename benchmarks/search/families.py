"""Families of matching problems with known matches, many of them made such that the default
search misses some; made from seeds here, and from data in `real`.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csgraph, csr_matrix
from scipy.spatial import cKDTree

import gwfast


class Sides(NamedTuple):
    """Both sides, each a `PointCloud` or costs; sets of known matches, pairs of rows (k, 2) each,
    and any set may be right; and options of the solve.
    """

    x: Any
    y: Any
    known: list[np.ndarray]
    options: Mapping[str, Any] = MappingProxyType({})


class Problem(NamedTuple):
    """A family, a name within it, and a function that always makes the same `Sides`."""

    family: str
    name: str
    make: Callable[[], Sides]


def identity(n):
    """Return matches of every row with its like."""
    return np.stack([np.arange(n)] * 2, axis=1)


def shuffled(cost, rng):
    """Return costs with their points in another order, and the known matches."""
    order = rng.permutation(len(cost))
    return cost[np.ix_(order, order)], np.stack([order, np.arange(len(order))], axis=1)


def distances(points):
    """Return Euclidean distances between points."""
    return np.linalg.norm(points[:, None] - points, axis=2)


# --- Graphs against themselves with edges moved, in another order ---------------------


def near_neighbors(points, k=4):
    """Return the edges (m, 2) from all points to their nearest points."""
    n = len(points)
    near = np.argsort(distances(points), axis=1)[:, 1 : k + 1]
    edges = np.stack([np.repeat(np.arange(n), k), near.ravel()], 1)
    return np.unique(np.sort(edges, 1), axis=0)


def tree(n, rng, reach=None):
    """Hang every node on an earlier node, of the last `reach` if it is given."""
    nodes = np.arange(1, n)
    first = np.zeros(n - 1, int) if reach is None else np.maximum(nodes - reach, 0)
    return np.stack([rng.integers(first, nodes), nodes], axis=1)


def geometric(n, rng):
    """Join points nearer than a radius at which graphs are just about connected."""
    points = rng.random((n, 2))
    return np.argwhere(np.triu(distances(points) < np.sqrt(1.5 * np.log(n) / (np.pi * n)), 1))


def blocks(n, rng):
    """Draw a stochastic block model of three equal blocks."""
    block = np.arange(n) % 3
    likely = np.where(block[:, None] == block, 16.0 / n, 1.5 / n)
    return np.argwhere(np.triu(rng.random((n, n)) < likely, 1))


def adjacency(edges, n):
    linked = np.zeros((n, n))
    linked[edges[:, 0], edges[:, 1]] = linked[edges[:, 1], edges[:, 0]] = 1
    np.fill_diagonal(linked, 0)
    return linked


def steps(edges, n):
    """Return steps between nodes; what cannot be reached is one farther than the farthest."""
    paths = csgraph.shortest_path(adjacency(edges, n), directed=False, unweighted=True)
    paths[np.isinf(paths)] = paths[np.isfinite(paths)].max() + 1
    return paths


def heat(edges, n):
    """Return the heat kernel of a graph at time two, times the number of nodes."""
    values, vectors = np.linalg.eigh(csgraph.laplacian(adjacency(edges, n)))
    return n * (vectors * np.exp(-2.0 * values)) @ vectors.T


GRAPHS = {
    "near neighbors": lambda n, rng: near_neighbors(rng.random((n, 2))),
    "geometric": geometric,
    "tree": tree,
    "long tree": functools.partial(tree, reach=6),
    "blocks": blocks,
}
# Costs, sizes, and the shares of edges that are moved.
GRAPH_COSTS = {
    "steps": (steps, (160, 300), (0.05, 0.1)),
    "links": (adjacency, (60, 120), (0.05, 0.1, 0.15)),
    "heat": (heat, (60, 120, 200), (0.03, 0.06, 0.1)),
}


def graphs():
    for (kind, edges_of), (what, (costs, sizes, shares)) in itertools.product(
        GRAPHS.items(), GRAPH_COSTS.items()
    ):
        for n, share in itertools.product(sizes, shares):
            make = functools.partial(graph_sides, edges_of, costs, n, share)
            yield Problem(f"graphs, {kind}", f"{what}, {n} nodes, {share:g} moved", make)


def graph_sides(edges_of, costs, n, share):
    rng = np.random.default_rng([n, int(1000 * share)])
    edges = edges_of(n, rng)
    moved, drawn = edges.copy(), rng.random(len(edges)) < share
    moved[drawn, 1] = rng.integers(n, size=drawn.sum())
    other, known = shuffled(costs(moved, n), rng)
    return Sides(costs(edges, n), other, [known])


# --- Molecules: chains with branches in space, some of whose bonds are turned ---------


def molecule(rng, n):
    """Return places (n, 3) of atoms a bond apart, and to which atom each is bound (n,)."""
    places, bound = np.zeros((n, 3)), np.zeros(n, dtype=int)
    for k in range(1, n):
        bound[k] = rng.integers(k) if rng.random() < 0.25 else k - 1
        for _ in range(50):  # until no other atom is near
            step = rng.standard_normal(3)
            places[k] = places[bound[k]] + step / np.linalg.norm(step)
            if np.linalg.norm(places[:k] - places[k], axis=1).min() > 0.9:
                break
    return places, bound


def turned(places, bound, rng, n_turns):
    """Return places after turns about some bonds, of all that hangs on them."""
    places, n = places.copy(), len(places)
    for atom in rng.choice(np.arange(1, n), n_turns, replace=False):
        hanging = np.zeros(n, dtype=bool)
        hanging[atom] = True
        for k in range(atom + 1, n):
            hanging[k] = hanging[bound[k]]
        origin = places[bound[atom]]
        axis = places[atom] - origin
        axis /= np.linalg.norm(axis)
        angle, arms = rng.standard_normal(), places[hanging] - origin
        places[hanging] = origin + (
            np.cos(angle) * arms
            + np.sin(angle) * np.cross(axis, arms)
            + (1 - np.cos(angle)) * np.outer(arms @ axis, axis)
        )
    return places


def contacts(places):
    """Return how near atoms are, on the scale of a bond: this tells foldings apart."""
    return np.exp(-0.5 * distances(places) ** 2)


def molecules():
    easy = itertools.product([(distances, 8, 0.1), (distances, 20, 0.1)], [120])
    kinds = (contacts, 3, 0.1), (contacts, 3, 0.2), (contacts, 8, 0.2)
    hard = itertools.product(kinds, (60, 120, 160))
    for ((costs, n_turns, noise), n), seed in itertools.product([*easy, *hard], range(4)):
        name = f"{n} atoms, {n_turns} turns, noise {noise:g}, molecule {seed}"
        make = functools.partial(molecule_sides, costs, n, n_turns, noise, seed)
        yield Problem(f"molecules, {costs.__name__}", name, make)


def molecule_sides(costs, n, n_turns, noise, seed):
    rng = np.random.default_rng([seed, n])
    places, bound = molecule(rng, n)
    other = turned(places, bound, rng, n_turns)
    other += noise * rng.standard_normal(other.shape)
    moved, known = shuffled(costs(other), rng)
    return Sides(costs(places), moved, [known])


# --- Shapes that are nearly like themselves in other positions ------------------------


def box(rng, n, sides):
    return rng.uniform(-0.5, 0.5, (n, len(sides))) * sides


def ellipse(rng, n, sides):
    """Return points on the surface of an ellipse, or ellipsoid, with a fifth inside."""
    points = rng.standard_normal((n, len(sides)))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points * np.where(rng.random((n, 1)) < 0.2, rng.random((n, 1)), 1) * sides


def torus(rng, n, sides):
    a, b = rng.uniform(0, 2 * np.pi, (2, n))
    far = sides[0] + sides[1] * np.cos(b)
    return np.stack([far * np.cos(a), far * np.sin(a), sides[1] * np.sin(b)], axis=1)


def skeleton(rng, n, sides):
    """Return points of a trunk with a head, two arms and two legs of these lengths."""
    arm, leg = sides
    starts = np.array([(0, 0), (0, 1), (0, 0.9), (0, 0.9), (0, 0), (0, 0)])
    ends = np.array([(0, 1), (0, 1.3), (arm, 0.9), (-arm, 0.9), (0.2, -leg), (-0.2, -leg)])
    lengths = np.linalg.norm(ends - starts, axis=1)
    stick = rng.choice(len(ends), n, p=lengths / lengths.sum())
    along = rng.random((n, 1))
    points = starts[stick] * (1 - along) + ends[stick] * along
    return points + 0.02 * rng.standard_normal(points.shape)


def star(rng, n, sides):
    """Return points of sticks from a middle, each in a dimension of its own."""
    stick = rng.choice(len(sides), n, p=sides / sides.sum())
    points = np.zeros((n, len(sides)))
    points[np.arange(n), stick] = rng.random(n) * sides[stick]
    return points


def clusters(rng, n, sides):
    """Return clusters with a center on each axis, at these distances."""
    group = rng.integers(len(sides), size=n)
    return np.diag(sides)[group] + 0.25 * rng.standard_normal((n, len(sides)))


def geodesics(points):
    """Return lengths of paths between near neighbors."""
    edges = near_neighbors(points, 6)
    lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    graph = csr_matrix((lengths, edges.T), shape=(len(points), len(points)))
    paths = csgraph.shortest_path(graph, directed=False)
    paths[np.isinf(paths)] = 1.5 * paths[np.isfinite(paths)].max()
    return paths


def nearness(points):
    """Return how near points are, on the scale of their mean distance."""
    apart = distances(points)
    return np.exp(-0.5 * np.square(apart / (0.25 * apart.mean())))


# A function that draws a shape, its sides, and its costs.
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


def shapes():
    for name, (noise, seed) in itertools.product(SHAPES, ((0.05, 0), (0.15, 1))):
        make = functools.partial(shape_sides, *SHAPES[name], noise, seed)
        yield Problem("shapes", f"{name}, noise {noise:g}, sample {seed}", make)


def shape_sides(drawn, sides, costs, noise, seed, n=200):
    """Return points with noise, and their matches with the nearest points to mirror images in every
    combination of up to three axes.
    """
    rng = np.random.default_rng([seed, int(100 * noise)])
    points = drawn(rng, n, np.array(sides))
    other = points + noise * points.std() * rng.standard_normal(points.shape)
    known = [identity(n)]
    if points.shape[1] <= 3:
        tree = cKDTree(points)
        known = [
            np.stack([np.arange(n), tree.query(points * signs)[1]], 1)
            for signs in itertools.product((1, -1), repeat=points.shape[1])
        ]
    return Sides(costs(points), costs(other), known)


# --- Clouds without preferred directions, rotated and with noise ----------------------


def on_sphere(rng, shape):
    """Return twenty clusters of a sphere."""
    centers = rng.standard_normal(shape)[:20]
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    return centers[rng.integers(20, size=shape[0])] + 0.2 * rng.standard_normal(shape)


CLOUDS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "skewed": lambda rng, shape: rng.standard_gamma(8.0, shape),
    "clusters": on_sphere,
}


def clouds():
    for kind, d, noise, seed in itertools.product(CLOUDS, (4, 6, 9), (0.3, 0.45, 0.6), range(2)):
        name = f"{kind}, {d} dimensions, noise {noise:g}, sample {seed}"
        make = functools.partial(cloud_sides, CLOUDS[kind], d, noise, seed)
        yield Problem("round clouds", name, make)


def cloud_sides(drawn, d, noise, seed, n=500):
    rng = np.random.default_rng([d, int(100 * noise), seed])
    x = drawn(rng, (n, d))
    # Without directions of more variance.
    x = (x - x.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T))).T
    order = rng.permutation(n)
    y = x @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    y = (y + noise * rng.standard_normal(y.shape))[order]
    known = np.stack([order, np.arange(n)], axis=1)
    return Sides(*(gwfast.PointCloud(side, metric="sqeuclidean") for side in (x, y)), [known])


# --- Without entropy: costs with much noise, and graphs that have little in common -----


def exact():
    for n, noise, seed in itertools.product((100, 120, 160, 200), (0.3, 0.35), range(5)):
        make = functools.partial(noise_sides, n, noise, seed)
        yield Problem("exact noise", f"{n} points, noise {noise:g}, sample {seed}", make)
    for n, kind, seed in itertools.product((12, 20, 30), ("blocks", "tree"), range(5)):
        make = functools.partial(unlike_sides, GRAPHS[kind], n, seed)
        yield Problem("exact unlike graphs", f"{kind}, {n} nodes, sample {seed}", make)


def noise_sides(n, noise, seed):
    rng = np.random.default_rng([n, seed])
    cost = rng.random((n, n))
    errors = noise * rng.standard_normal((n, n))
    other, known = shuffled(cost + cost.T + errors + errors.T, rng)
    return Sides(cost + cost.T, other, [known], dict(epsilon=0))


def unlike_sides(edges_of, n, seed):
    rng = np.random.default_rng([n, seed])
    sides = (steps(edges_of(size, rng), size) for size in (n, n - n // 6))
    return Sides(*sides, [], dict(epsilon=0))


# --- A part of a space, and all of it ---------------------------------------------------

SPACES = {
    "plane": lambda n, rng: distances(rng.random((n, 2))),
    "box": lambda n, rng: distances(rng.random((n, 3)) * [1.0, 2.0, 3.0]),
    "tree": lambda n, rng: steps(tree(n, rng), n),
}


def parts():
    rules = "semirelaxed", "partial"
    for kind, rule, epsilon, noise in itertools.product(SPACES, rules, ("auto", 0), (0.02, 0.2)):
        for n, seed in itertools.product((30, 60, 120), range(2)):
            make = functools.partial(part_sides, SPACES[kind], rule, epsilon, noise, n, seed)
            name = f"{kind}, {n} points, noise {noise:g}, sample {seed}"
            yield Problem(f"parts, {rule}{', exact' * (epsilon == 0)}", name, make)


def part_sides(space, rule, epsilon, noise, n, seed):
    """Return the nearest points to one, half of all, with noise of a fraction of the typical
    smallest cost; and all points.
    """
    rng = np.random.default_rng([n, seed])
    cost = space(n, rng)
    some = rng.permutation(np.argsort(cost[rng.integers(n)], kind="stable")[: n // 2])
    errors = noise * np.median(np.sort(cost, axis=1)[:, 1]) * rng.standard_normal((len(some),) * 2)
    part = cost[np.ix_(some, some)] + np.triu(errors, 1) + np.triu(errors, 1).T
    marginals = rule if rule == "semirelaxed" else gwfast.Partial(0.5)
    known = np.stack([np.arange(len(some)), some], axis=1)
    return Sides(part, cost, [known], dict(epsilon=epsilon, marginals=marginals))


FAMILIES = graphs, molecules, shapes, clouds
# Families of problems whose searches have weights of their own.
OTHER_FAMILIES = exact, parts

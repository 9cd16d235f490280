"""Graphs with automorphisms of 20 to 100 nodes, and a permuted copy of each."""

import functools
import itertools
from statistics import median

import numpy as np
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist

import gwfast

from ..common import settings
from ..common.markdown import show
from ..pot.timings import in_turns
from .problems import product_cost

# What objectives are to be as low as the permutation's by, as a fraction of that of the
# product plan, by epsilon: rounding, and tolerances.
EQUAL = {0: 1e-9, "auto": 1e-3}


def of_edges(n, edges):
    """The adjacency matrix of an undirected graph."""
    made = np.zeros((n, n))
    for i, j in edges:
        made[i % n, j % n] = made[j % n, i % n] = 1.0
    return made


def cycle(n):
    return circulant(n, (1,))


def circulant(n, jumps):
    return of_edges(n, ((i, i + j) for i in range(n) for j in jumps))


def product(a, b):
    """The Cartesian product of two graphs: of paths a grid, of cycles a torus."""
    return np.kron(a, np.eye(len(b))) + np.kron(np.eye(len(a)), b)


def path(n):
    return of_edges(n, ((i, i + 1) for i in range(n - 1)))


def complete(*sizes):
    """The complete multipartite graph."""
    part = np.repeat(np.arange(len(sizes)), sizes)
    return 1.0 * (part[:, None] != part)


def hypercube(d):
    bits = np.arange(2**d)
    apart = np.bitwise_xor.outer(bits, bits)
    return 1.0 * ((apart & (apart - 1) == 0) & (apart > 0))


def petersen(n, jump):
    """The generalized Petersen graph of 2 n nodes."""
    edges = [(i, (i + 1) % n) for i in range(n)] + [(i, n + i) for i in range(n)]
    return of_edges(2 * n, edges + [(n + i, n + (i + jump) % n) for i in range(n)])


def paley(prime):
    squares = np.unique(np.arange(1, prime) ** 2 % prime)
    apart = np.subtract.outer(np.arange(prime), np.arange(prime)) % prime
    return 1.0 * np.isin(apart, squares)


def kneser(n, k):
    """Subsets of k of n, with an edge between those that are disjoint."""
    sets = np.zeros((0, n))
    for one in itertools.combinations(range(n), k):
        sets = np.vstack([sets, np.isin(np.arange(n), one)])
    return 1.0 * (sets @ sets.T == 0)


def tree(branching, depth):
    n = sum(branching**k for k in range(depth + 1))
    return of_edges(n, (((i - 1) // branching, i) for i in range(1, n)))


def cliques(size, count):
    """A ring of cliques."""
    made = np.kron(np.eye(count), complete(*[1] * size))
    ring = [(k * size, (k + 1) * size + 1) for k in range(count)]
    return np.maximum(made, of_edges(size * count, ring))


def blocks(size, count, seed):
    """Equal blocks, dense inside and sparse between."""
    rng, n = np.random.default_rng(seed), size * count
    block = np.arange(n) // size
    chance = np.where(block[:, None] == block, 0.7, 0.08)
    made = np.triu(rng.random((n, n)) < chance, 1)
    return 1.0 * (made | made.T)


def copies(size, count, seed):
    """Copies of a random graph in a ring, each node joined to that of the next."""
    part = blocks(size, 1, seed) * (blocks(size, 1, seed + 1) > 0)
    return np.kron(np.eye(count), part) + np.kron(cycle(count), np.eye(size))


def mirrored(n, seed):
    """Near points of the plane, half of which are the mirror images of the others."""
    half = np.random.default_rng(seed).random((n // 2, 2))
    points = np.vstack([half, half * [-1.0, 1.0]])
    apart = cdist(points, points)
    # The least radius of a connected graph.
    for radius in np.arange(0.1, 2.0, 0.05):
        made = 1.0 * ((apart < radius) & (apart > 0))
        if np.isfinite(shortest_path(made, unweighted=True)).all():
            return made
    raise AssertionError("a radius of 2 joins all points")


KINDS = {
    "cycles": [cycle(n) for n in (20, 37, 64, 100)],
    "grids": [product(path(a), path(b)) for a, b in ((1, 20), (2, 16), (5, 5), (7, 8), (10, 10))],
    "tori, prisms": [product(cycle(a), cycle(b)) for a, b in ((5, 6), (8, 8), (9, 11))]
    + [product(path(2), cycle(25))],
    "hypercubes": [hypercube(5), hypercube(6)],
    "complete multipartite": [
        complete(10, 10),
        complete(12, 30),
        complete(50, 50),
        complete(10, 10, 10, 10),
    ],
    "circulants": [
        circulant(30, (1, 5)),
        circulant(41, (1, 4, 10)),
        circulant(60, (1, 7, 13)),
        circulant(90, (1, 2, 30)),
    ],
    "generalized Petersen": [petersen(*one) for one in ((10, 2), (10, 3), (12, 5), (30, 7))],
    "strongly regular": [
        paley(29),
        paley(37),
        paley(61),
        kneser(7, 2),
        kneser(10, 2),
        product(complete(*[1] * 6), complete(*[1] * 6)),
        product(complete(*[1] * 9), complete(*[1] * 9)),
    ],
    "trees": [tree(2, 4), tree(2, 5), tree(3, 3), tree(4, 2), tree(24, 1)],
    "rings of cliques": [cliques(5, 6), cliques(8, 10)],
    "equal blocks": [blocks(10, 3, 0), blocks(10, 5, 1), blocks(20, 4, 2)],
    "rings of copies": [copies(6, 5, 0), copies(10, 7, 1), copies(16, 6, 2)],
    "mirrored points": [mirrored(n, n) for n in (24, 50, 100)],
}


def problems(kind):
    """Costs and the permutation of their copy, of each graph its edges and its shortest paths."""
    rng = np.random.default_rng(0)
    for graph in KINDS[kind]:
        order = rng.permutation(len(graph))
        yield graph, order
        yield shortest_path(graph, unweighted=True), order


def symmetric_table(n_problems):
    """Whether the default searches find permuted copies, and what they take beside one
    descent from the product plan, by kind of graph.

    They find one where they end as low as the permutation leads.
    """
    rows = []
    for kind in KINDS:
        pairs, truths = [], []
        for cost, order in problems(kind):
            pairs.append((cost, cost[np.ix_(order, order)]))
            truths.append(np.eye(len(order))[:, order])
        row, n = [kind, len(pairs)], len(pairs)
        for epsilon, equal in EQUAL.items():
            best = np.array(_solved(epsilon, pairs, truths))
            best += equal * np.array([product_cost(*pair) for pair in pairs])
            calls = [
                functools.partial(_solved, epsilon, pairs, inits)
                for inits in (["auto"] * n, ["product"] * n)
            ]
            seconds, costs = in_turns(calls)
            row.append(", ".join(str((some <= best).sum()) for some in costs))
            row += [f"{1e3 * median(some) / n:.3g}" for some in seconds]
        rows.append(row)
    heads = "{}: found by search, product", "ms, search", "ms, product"
    about = [head.format(name) for name in ("exact", "entropic") for head in heads]
    show("permuted copies of graphs of 20 to 100 nodes", ("graphs", "problems", *about), rows)


def _solved(epsilon, pairs, inits):
    options = dict(epsilon=epsilon, n_threads=settings.THREADS)
    return [
        gwfast.gromov_wasserstein(*pair, init=init, **options).reg_cost
        for pair, init in zip(pairs, inits, strict=True)
    ]

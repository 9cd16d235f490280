"""Small problems, and arguments of solvers."""

from types import SimpleNamespace

import numpy as np
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

import gwfast


def cloud(n, d, seed):
    return np.random.default_rng(seed).standard_normal((n, d))


def masses(n, seed, low=0.2, high=1.2):
    """Uneven ones, whose sum is one; `seed` may be a generator."""
    weights = np.random.default_rng(seed).uniform(low, high, n)
    return weights / weights.sum()


def random_cost(n, seed, *, symmetric=True):
    cost = np.random.default_rng(seed).random((n, n))
    return (cost + cost.T) / 2 if symmetric else cost


def unit(x):
    x = np.asarray(x, dtype=np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def distances(x):
    return np.sqrt(((x[:, None] - x[None, :]) ** 2).sum(axis=2))


def hops(x, k=6):
    """Steps in the graph of nearest neighbors, at most one."""
    _, near = cKDTree(x).query(x, k + 1)
    graph = np.zeros((len(x), len(x)))
    np.put_along_axis(graph, near[:, 1:], 1.0, axis=1)
    made = steps(graph, least_apart=0.0)
    return made / made.max()


def steps(graph, least_apart=1.0):
    """Steps between nodes; where there is no way, this more than the most."""
    made = csgraph.shortest_path(graph, directed=False, unweighted=True)
    made[np.isinf(made)] = made[np.isfinite(made)].max() + least_apart
    return made


def block_model(n, seed, *, n_blocks=3, inside=0.5, outside=0.1):
    """The adjacency matrix of a graph of blocks, more densely linked inside."""
    rng = np.random.default_rng(seed)
    block = np.sort(rng.integers(0, n_blocks, n))
    chance = np.where(np.equal.outer(block, block), inside, outside)
    graph = np.triu(rng.random((n, n)) < chance, 1).astype(np.float64)
    return graph + graph.T


def orthogonal(d, seed):
    q, r = np.linalg.qr(cloud(d, d, seed))
    return q * np.sign(np.diag(r))


def rotated_pair(n, d, seed, *, noise=0.0):
    """A cloud, a permuted and rotated copy, and where each row went.

    Directions differ in spread, so that no rotation maps the cloud to itself.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_exponential((n, d)) * np.linspace(1.0, 3.0, d)
    order = rng.permutation(n)
    y = (x + noise * rng.standard_normal((n, d))) @ orthogonal(d, seed)
    return x, y[order], np.argsort(order)


def anndata_of(x, spots=(), **more):
    """Return the attributes of AnnData that are read."""
    obsm = {"spatial": spots} if len(spots) else {}
    return SimpleNamespace(X=x, obs={}, uns={}, layers={}, obsm=obsm, **more)


def settings(**given):
    """Return keyword arguments of a solver, the rare settings among them in `options`."""
    rare = gwfast.SolverOptions.__dataclass_fields__
    rare = {name: given.pop(name) for name in rare if name in given}
    return given | {"options": gwfast.SolverOptions(**rare)} if rare else given


# One small size for problems of many kinds.
N, M = 9, 7
P, Q = masses(N, 1), masses(M, 2)
BETWEEN = np.random.default_rng(3).random((N, M))


def costs(symmetric=True, n=N, m=M):
    return tuple(
        random_cost(size, seed, symmetric=symmetric) + 0.1 for size, seed in ((n, 4), (m, 5))
    )

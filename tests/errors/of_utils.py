"""Bad arrays, numbers and choices: each check once or twice, each public function at least once."""

from functools import partial

import numpy as np
import scipy.sparse
from helpers.problems import cloud, distances

import gwfast
from gwfast import words

X, Y = cloud(12, 4, 0), cloud(9, 3, 1)
COST_X, COST_Y = distances(X), distances(Y)
COST, PLAN, P = np.abs(cloud(12, 9, 2)), np.full((12, 9), 1 / 108), np.full(12, 1 / 12)
NAMES = [f"w{row}" for row in range(12)]
solve = partial(gwfast.gromov_wasserstein, COST_X, COST_Y)
sinkhorn = partial(gwfast.sinkhorn, COST, epsilon=0.5)
align = partial(gwfast.align, X, Y)
neighbors = gwfast.nearest_neighbors
problem = gwfast.QuadraticProblem(COST_X, COST_Y)


def spoiled(x, value, at=-1):
    x = np.array(x, dtype=np.float64)
    x[at] = value
    return x


def limited(memory_limit):
    return lambda: solve(memory_limit=memory_limit)


ARRAYS = [
    (lambda: gwfast.sinkhorn(COST[0], epsilon=0.5), "cost", "1-D"),
    (lambda: gwfast.gromov_wasserstein(COST_X[None], COST_Y), "x", "3-D"),
    (lambda: gwfast.gromov_wasserstein(COST_X, COST_Y[:, :-1]), "y", "(9, 8)"),
    (lambda: gwfast.gromov_wasserstein(X, COST_Y), "x", "PointCloud"),
    (lambda: gwfast.gromov_wasserstein(spoiled(COST_X, np.inf), COST_Y), "x", "inf at [11, 0]"),
    (lambda: gwfast.gromov_wasserstein_batch([(COST_X, 1.0)]), "y", "0-D"),
    (lambda: gwfast.tune_epsilon(COST_X, np.zeros((0, 0))), "y", "(0, 0)"),
    (lambda: gwfast.pairwise_gromov_wasserstein([COST_X * 1j]), "spaces", "complex", TypeError),
    (lambda: gwfast.align(X, spoiled(Y, 0.0, 5)), "y", "(row 5)"),
    (lambda: gwfast.align(X[:1], Y), "x", "zero rows"),
    (lambda: align(init=[[0, 1], [1, 2]]), "init", "Seeds"),
    (lambda: align(p=spoiled(P, -1.0)), "p", "-1.0 at [11]"),
    (lambda: align().translate(["casa"]), "items", "words"),
    (lambda: gwfast.procrustes(X.astype(str), X), "x", "<U", TypeError),
    (lambda: gwfast.PointCloud(spoiled(X, -np.inf)), "x", "-inf at [11, 0] (4"),
    (lambda: gwfast.PointCloud(np.ma.masked_array(X)), "x", "masked", TypeError),
    (lambda: gwfast.PointCloud.from_factors(spoiled(X, np.nan)), "u", "nan"),
    (lambda: gwfast.cosine_similarity([[1.0], [2.0, 3.0]]), "x", None),
    (lambda: gwfast.cosine_similarity(X, X.astype("m8[s]")), "y", "timedelta", TypeError),
    (lambda: neighbors(None, X), "queries", "", TypeError),
    (lambda: neighbors(words.Embeddings(NAMES, X), X), "queries", "Embeddings", TypeError),
    (lambda: neighbors(X, scipy.sparse.csr_array(X)), "targets", "sparse", TypeError),
    (lambda: neighbors(X, X, sources=X[:, :3]), "sources", 3),
    (lambda: solve(p=P[:-1]), "p", "(11,)"),
    (lambda: solve(p=1.001 * P), "p", 1.001),
    (lambda: sinkhorn(p=0 * P), "p", "positive sum"),
    (lambda: solve(p=np.r_[P[:-2], -P[-1], 3 * P[-1]]), "p", "at [10]"),
    (lambda: solve(p=spoiled(P, np.nan)), "p", "nan at [11]"),
]
VALUES = [
    (lambda: solve(epsilon=10**400), "epsilon", "inf"),
    (lambda: sinkhorn(tol=np.nan), "tol", "nan"),
    (lambda: align(tol=np.True_), "tol", "bool", TypeError),
    (lambda: gwfast.SolverOptions(marginal_tol=np.array([0.1])), "marginal_tol", "nd", TypeError),
    (lambda: sinkhorn(max_iter=0), "max_iter", 0),
    (lambda: solve(max_iter=2.0), "max_iter", "float", TypeError),
    (lambda: align(n_words=-5), "n_words", -5),
    (lambda: neighbors(X, X, k=0), "k", 0),
    (lambda: solve(n_threads="2"), "n_threads", "str", TypeError),
    (lambda: gwfast.cosine_similarity(X, n_threads=1.5), "n_threads", "float", TypeError),
    (lambda: solve(loss="l2"), "loss", "l2"),
    (lambda: align(callback=3), "callback", "int", TypeError),
    (lambda: solve(options="ppa"), "options", "str", TypeError),
    (lambda: gwfast.SolverOptions(method=1), "method", 1),
    (lambda: gwfast.SolverOptions(tier=["dense"]), "tier", "['dense']"),
    (lambda: words.precision_at_k([[0]], ["a"], NAMES, NAMES), "dictionary", "list", TypeError),
    *((limited(x), "memory_limit", x) for x in (0, "0GB", "", "GB", "2.4XB", "1.2.3GB", "-1GB")),
    *((limited(x), "memory_limit", x) for x in ("1e9", "nan", "1 2", -np.inf, np.nan)),
    *((limited(x), "memory_limit", type(x).__name__, TypeError) for x in (True, [1], b"1GB", 1j)),
]
ROWS = ARRAYS + VALUES

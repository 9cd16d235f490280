"""Bad arrays, numbers and choices: each check once or twice, each public function at least once."""

from functools import partial

import numpy as np
import scipy.sparse
from helpers.problems import cloud, distances
from helpers.refusals import refused

import gwfast
from gwfast import words

X, Y = cloud(12, 4, 0), cloud(9, 3, 1)
COST_X, COST_Y = distances(X), distances(Y)
COST, PLAN, P = np.abs(cloud(12, 9, 2)), np.full((12, 9), 1 / 108), np.full(12, 1 / 12)
NAMES = [f"w{row}" for row in range(12)]
SIZES = [0, "0GB", "", "GB", "2.4XB", "1.2.3GB", "-1GB", "1e9", "nan", "1 2", -np.inf, np.nan]
sinkhorn = partial(gwfast.sinkhorn, epsilon=0.5)
pairs = gwfast.pairwise_gromov_wasserstein


def solve(x=COST_X, y=COST_Y, **options):
    return gwfast.gromov_wasserstein(x, y, **options)


def align(x=X, y=Y, **options):
    return gwfast.align(x, y, **options)


def neighbors(queries=X, targets=X, **options):
    return gwfast.nearest_neighbors(queries, targets, **options)


def spoiled(x, value, at=-1):
    x = np.array(x, dtype=np.float64)
    x[at] = value
    return x


ARRAYS = [
    *refused(sinkhorn, cost={"1-D": COST[0]}),
    *refused(solve, x={"3-D": COST_X[None], "PointCloud": X}, y={"(9, 8)": COST_Y[:, :-1]}),
    *refused(solve, x={"inf at [11, 0]": spoiled(COST_X, np.inf)}),
    *refused(solve, p={"(11,)": P[:-1], 1.001: 1.001 * P, "nan at [11]": spoiled(P, np.nan)}),
    *refused(solve, p={"at [10]": np.r_[P[:-2], -P[-1], 3 * P[-1]]}),
    (lambda: gwfast.gromov_wasserstein_batch([(COST_X, 1.0)]), "y", "0-D"),
    (lambda: gwfast.tune_epsilon(COST_X, np.zeros((0, 0))), "y", "(0, 0)"),
    *refused(pairs, TypeError, spaces={"complex": [COST_X * 1j]}),
    (lambda: pairs([np.eye(12)] * 2, features=[X, 1e155 * X]), "features[1]", "magnitude"),
    *refused(align, x={"zero rows": X[:1]}, y={"(row 5)": spoiled(Y, 0.0, 5)}),
    *refused(align, init={"Seeds": [[0, 1], [1, 2]]}, p={"-1.0 at [11]": spoiled(P, -1.0)}),
    (lambda: align().translate(["casa"]), "items", "words"),
    (lambda: gwfast.procrustes(X.astype(str), X), "x", "<U", TypeError),
    (lambda: gwfast.PointCloud(spoiled(X, -np.inf)), "x", "-inf at [11, 0] (4"),
    (lambda: gwfast.PointCloud(np.ma.masked_array(X)), "x", "masked", TypeError),
    (lambda: gwfast.PointCloud.from_factors(spoiled(X, np.nan)), "u", "nan"),
    (lambda: gwfast.cosine_similarity([[1.0], [2.0, 3.0]]), "x", None),
    (lambda: gwfast.cosine_similarity(X, X.astype("m8[s]")), "y", "timedelta", TypeError),
    *refused(neighbors, TypeError, queries={"": None, "Embeddings": words.Embeddings(NAMES, X)}),
    *refused(neighbors, TypeError, targets={"sparse": scipy.sparse.csr_array(X)}),
    *refused(neighbors, sources={3: X[:, :3]}),
    (lambda: sinkhorn(COST, p=0 * P), "p", "positive sum"),
]
VALUES = [
    *refused(solve, epsilon={"inf": 10**400}, loss=["l2"], memory_limit=SIZES),
    *refused(solve, n_threads={"an integer of 6000 digits": 10**6000}),
    *refused(solve, seed={"an integer of 6000 digits": -(10**6000)}),
    *refused(solve, TypeError, max_iter=[2.0], n_threads=["2"], options=["ppa"]),
    *refused(solve, TypeError, memory_limit=[True, [1], b"1GB", 1j]),
    *refused(partial(sinkhorn, COST), tol=[np.nan], max_iter=[0]),
    *refused(align, n_words=[-5]),
    *refused(align, TypeError, tol={"bool": np.True_}, callback=[3]),
    *refused(neighbors, k=[0]),
    *refused(gwfast.SolverOptions, method=[1], tier=[["dense"]]),
    *refused(gwfast.SolverOptions, TypeError, marginal_tol={"nd": np.array([0.1])}),
    (lambda: gwfast.cosine_similarity(X, n_threads=1.5), "n_threads", "float", TypeError),
    (lambda: words.precision_at_k([[0]], ["a"], NAMES, NAMES), "dictionary", "list", TypeError),
]
ROWS = ARRAYS + VALUES

"""Refusals of costs, graphs and epsilon."""

from types import SimpleNamespace

import networkx
import numpy as np
from helpers.problems import cloud, distances
from scipy import sparse

import gwfast
from gwfast import Epsilon, GraphCost, cosine_similarity

X, EYE = cloud(10, 3, 0), np.eye(3)
WIDE = np.ones((40, 30_000))  # 34 rows are a block
WIDE[[8, 37]] = 0
APART = sparse.block_diag([distances(X[:5]), distances(X[:4])])
OF_TORCH, OF_JAX = (type("Array", (), {"__module__": name})() for name in ("torch", "jaxlib._jax"))
DATA = SimpleNamespace(edge_index=np.array([[0, 1], [1, 2]]), num_nodes=3)  # PyTorch Geometric's
PATH = networkx.DiGraph(["ab", "bc", "cd"])
solve, factors = gwfast.gromov_wasserstein, gwfast.PointCloud.from_factors


ROWS = [
    (lambda: Epsilon(), "relative", None),
    (lambda: Epsilon(value=1.0, relative=2.0), "value", 2.0),
    (lambda: Epsilon(value=-1.0), "value", -1.0),
    (lambda: Epsilon(relative=0.0), "relative", 0.0),
    (lambda: Epsilon(relative="0.1"), "relative", "str", TypeError),
    (lambda: Epsilon(0.1, anneal_from=0.5), "anneal_from", 0.5),
    (lambda: Epsilon(0.1, anneal_by=1.0), "anneal_by", 1.0),
    (lambda: solve(EYE, EYE, epsilon="small"), "epsilon", "small"),
    (lambda: factors(X, X[:, :2]), "v", (10, 3)),
    (lambda: factors(X, X[::-1]), "u @ v.T", "symmetric"),
    (lambda: cosine_similarity(WIDE), "x", "2 (row 8, 37)"),
    (lambda: cosine_similarity(0 * WIDE), "x", "9, ...)"),
    (lambda: gwfast.PointCloud(X * 1e61), "x", "e+61"),
    (lambda: solve(EYE * 1e-61, EYE), "x", 1e-61),
    (lambda: solve(np.full((3, 3), np.inf), EYE), "x", "GraphCost"),
    (lambda: GraphCost(EYE), "graph", "ndarray", TypeError),
    (lambda: GraphCost(sparse.csr_array((2, 3))), "graph", (2, 3)),
    (lambda: solve(OF_TORCH, EYE), "x", "x.detach().cpu().numpy()", TypeError),
    (lambda: solve(EYE, OF_JAX), "y", "numpy.asarray(y)", TypeError),
    (lambda: solve(EYE, EYE, epsilon=OF_TORCH), "epsilon", "float(epsilon)", TypeError),
    (lambda: GraphCost(OF_TORCH), "graph", "torch", TypeError),
    (lambda: solve(DATA, EYE), "x", "coo_array((lengths, edge_index)", TypeError),
    (lambda: GraphCost(sparse.csr_array([[0, -1.0], [0, 0]])), "graph", "negative"),
    (lambda: GraphCost(sparse.eye_array(3), disconnected="far"), "disconnected", "far"),
    (lambda: GraphCost(sparse.eye_array(3), disconnected=-1.0), "disconnected", -1.0),
    (lambda: GraphCost(APART), "graph", "40 pairs of nodes (of 81)"),
    (lambda: GraphCost(networkx.to_scipy_sparse_array(PATH), directed=True), "graph", "directed="),
    (lambda: solve(EYE, PATH), "y", "directed=False"),
    (lambda: gwfast.pairwise_gromov_wasserstein([APART, EYE]), "spaces[0]", "disconnected"),
    (lambda: solve(networkx.Graph([(0, 1, {"weight": "far"})]), EYE), "x", "weight", TypeError),
    (lambda: solve(networkx.Graph([(0, 1, {"weight": -1})]), EYE), "x", "negative"),
]

"""Refusals of costs, graphs, epsilon, and what does not go together in a problem."""

from functools import partial
from types import SimpleNamespace

import networkx
import numpy as np
from helpers.problems import cloud, distances
from helpers.refusals import refused
from scipy import sparse

import gwfast
from gwfast import CrossCost, Epsilon, GraphCost, PointCloud, SolverOptions, cosine_similarity

X, EYE = cloud(10, 3, 0), np.eye(3)
WIDE = np.ones((40, 30_000))  # 34 rows are a block
WIDE[[8, 37]] = 0
APART = sparse.block_diag([distances(X[:5]), distances(X[:4])])
OF_TORCH, OF_JAX = (type("Array", (), {"__module__": name})() for name in ("torch", "jaxlib._jax"))
DATA = SimpleNamespace(edge_index=np.array([[0, 1], [1, 2]]), num_nodes=3)  # PyTorch Geometric's
PATH = networkx.DiGraph(["ab", "bc", "cd"])


def linked(weight):
    return networkx.Graph([(0, 1, {"weight": weight})])


factors = PointCloud.from_factors
COST, POINTS = np.ones((5, 5)) - np.eye(5), np.arange(20.0).reshape(5, 4)
CLOUD, FOUR = PointCloud(POINTS), CrossCost(POINTS[1:], POINTS)
UNBALANCED = gwfast.QuadraticProblem(COST, COST, marginals=gwfast.Unbalanced(1.0))


def solve(x=EYE, y=EYE, **options):
    return gwfast.gromov_wasserstein(x, y, **options)


ROWS = [
    *refused(Epsilon, value=[-1.0], relative=[0.0]),
    *refused(Epsilon, TypeError, relative=["0.1"]),
    (lambda: Epsilon(), "relative", None),
    (lambda: Epsilon(value=1.0, relative=2.0), "value", 2.0),
    *refused(partial(Epsilon, 0.1), anneal_from=[0.5], anneal_by=[1.0]),
    *refused(
        solve, epsilon=["small"], x={1e-61: EYE * 1e-61, "GraphCost": np.full((3, 3), np.inf)}
    ),
    *refused(
        solve, TypeError, epsilon={"float(epsilon)": OF_TORCH}, y={"numpy.asarray(y)": OF_JAX}
    ),
    *refused(solve, TypeError, x={"x.detach().cpu().numpy()": OF_TORCH}),
    *refused(
        solve, TypeError, x={"coo_array((lengths, edge_index)": DATA, "weight": linked("far")}
    ),
    *refused(solve, x={"negative": linked(-1)}, y={"directed=False": PATH}),
    (lambda: factors(X, X[:, :2]), "v", (10, 3)),
    (lambda: factors(X, X[::-1]), "u @ v.T", "symmetric"),
    (lambda: cosine_similarity(WIDE), "x", "2 (row 8, 37)"),
    (lambda: cosine_similarity(0 * WIDE), "x", "9, ...)"),
    (lambda: gwfast.PointCloud(X * 1e61), "x", "e+61"),
    *refused(GraphCost, TypeError, graph={"ndarray": EYE, "torch": OF_TORCH}),
    *refused(
        GraphCost, graph={(2, 3): sparse.csr_array((2, 3)), "40 pairs of nodes (of 81)": APART}
    ),
    *refused(GraphCost, graph={"negative": sparse.csr_array([[0, -1.0], [0, 0]])}),
    *refused(partial(GraphCost, sparse.eye_array(3)), disconnected=["far", -1.0]),
    (lambda: GraphCost(networkx.to_scipy_sparse_array(PATH), directed=True), "graph", "directed="),
    (lambda: gwfast.pairwise_gromov_wasserstein([APART, EYE]), "spaces[0]", "disconnected"),
    (lambda: CrossCost(POINTS, POINTS[:, :3]), "y", 3),
    (lambda: CrossCost(POINTS, POINTS, "euclidean"), "metric", "euclidean"),
    (lambda: solve(CLOUD, CLOUD, linear_cost=FOUR), "linear_cost", "(4, 5)"),
    (lambda: solve(CLOUD, COST, dtype="float64"), "x", "PointCloud"),
    (lambda: solve(COST, CLOUD, dtype="float64"), "y", "PointCloud"),
    (lambda: solve(100 * COST, COST, epsilon=1e-9), "epsilon", 1e-9),
    (lambda: solve(UNBALANCED, None, options=SolverOptions(method="ppa")), "method", "ppa"),
    (lambda: gwfast.verify(UNBALANCED, np.ones((5, 5)) / 25, epsilon=0.1), "problem", "unbalanced"),
    *refused(SolverOptions, n_neighbors=[0]),
    *refused(SolverOptions, TypeError, n_neighbors=[2.5]),
    (lambda: solve(options=SolverOptions(tier="tiled")), "tier", "tiled"),
]

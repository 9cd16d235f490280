"""Refusals of quadratic problems and of their options."""

import numpy as np

import gwfast
from gwfast import CrossCost, PointCloud

COST, POINTS = np.ones((5, 5)) - np.eye(5), np.arange(20.0).reshape(5, 4)
CLOUD, FOUR = PointCloud(POINTS), CrossCost(POINTS[1:], POINTS)
UNBALANCED = gwfast.QuadraticProblem(COST, COST, marginals=gwfast.Unbalanced(1.0))


def solve(x=COST, y=COST, method="pgd", tier="auto", **options):
    rare = gwfast.SolverOptions(method=method, tier=tier)
    return gwfast.gromov_wasserstein(x, y, options=rare, **options)


ROWS = [
    (lambda: CrossCost(POINTS, POINTS[:, :3]), "y", 3),
    (lambda: CrossCost(POINTS, POINTS, "euclidean"), "metric", "euclidean"),
    (lambda: solve(CLOUD, CLOUD, linear_cost=FOUR), "linear_cost", "(4, 5)"),
    (lambda: solve(CLOUD, COST, dtype="float64"), "x", "PointCloud"),
    (lambda: solve(COST, CLOUD, dtype="float64"), "y", "PointCloud"),
    (lambda: solve(100 * COST, epsilon=1e-9), "epsilon", 1e-9),
    (lambda: solve(UNBALANCED, None, "ppa"), "method", "ppa"),
    (lambda: gwfast.verify(UNBALANCED, np.ones((5, 5)) / 25, epsilon=0.1), "problem", "unbalanced"),
    (lambda: gwfast.SolverOptions(n_neighbors=0), "n_neighbors", 0),
    (lambda: gwfast.SolverOptions(n_neighbors=2.5), "n_neighbors", "float", TypeError),
    (lambda: solve(tier="tiled"), "tier", "tiled"),
]

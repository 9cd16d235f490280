"""Costs by points and by matrices: the numbers that they stand for."""

import tracemalloc

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud, distances, masses

import gwfast
from gwfast import PointCloud, cosine_similarity


def cosines(x, y):
    units = []
    for side in (x, y):
        scaled = (side.astype(np.longdouble) / np.abs(side).max()).astype(np.float64)
        units.append(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))
    return units[0] @ units[1].T


def costs(x, metric):
    if metric == "cosine":
        return cosines(x, x)
    if metric == "dot":
        return x @ x.T
    return distances(x) ** (1 if metric == "euclidean" else 2)


def dense(cost):
    return gwfast.QuadraticProblem(cost, [[0.0]]).x


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 9, 3), (129, 33, 17), (700, 257, 2)])
def test_cosine_similarity_of_any_shape(shape, seed):
    n, m, d = shape
    x, y = cloud(n, d, seed), cloud(m, d, seed + 1)
    found = cosine_similarity(x, y, n_threads=1)
    assert found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_allclose(found, cosines(x, y), rtol=0, atol=5e-7)
    np.testing.assert_allclose(cosine_similarity(x), cosines(x, x), rtol=0, atol=5e-7)
    for n_threads in (2, 3):
        np.testing.assert_array_equal(cosine_similarity(x, y, n_threads=n_threads), found)


def test_cosine_similarity_needs_little_more_than_input_and_output():
    x = cloud(3000, 200, 0).astype(np.float32)
    cosine_similarity(x[:9])  # loads the controller of BLAS, which is not measured
    tracemalloc.start()
    out = cosine_similarity(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A normalized and a packed copy, and scratch that does not grow with the input.
    assert peak <= 1.05 * (out.nbytes + 2 * x.nbytes)


CONVERSIONS = {
    "float16": lambda x: x.astype(np.float16),
    "longdouble": lambda x: x.astype(np.longdouble),
    "int": lambda x: (8 * x).astype(np.int8) + np.eye(*x.shape, dtype=np.int8) * 9,
    "bool": lambda x: np.abs(x) > np.abs(x).min(axis=1, keepdims=True),
    "tiny": lambda x: 1e-300 * x,
    "huge": lambda x: 1e300 * x,
}


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_cosine_similarity_takes_numbers_of_any_type_and_size(convert):
    x = convert(cloud(9, 4, 0))
    np.testing.assert_allclose(cosine_similarity(x), cosines(x, x), rtol=0, atol=5e-7)


def assert_holds(points, expected, atol, is_far=False):
    """Compare the costs of points and their squares with a matrix; return the matrix of points."""
    p, unit = masses(len(expected), 0), points.scale**2
    squares = expected**2 @ p
    square_atol = 3e-6 * squares.max() if is_far else 4e-6 * unit
    np.testing.assert_allclose(unit * points.square_times(p), squares, rtol=0, atol=square_atol)
    made = points.to_dense()
    assert made.symmetric
    np.testing.assert_allclose(made.matrix, expected, rtol=0, atol=atol)
    return made.matrix


METRICS = ["cosine", "sqeuclidean", "dot", "euclidean"]


@pairwise(metric=METRICS, shape=[(1, 1), (2, 5), (17, 3), (65, 31)], size=[1e-20, 1.0, 1e20])
def test_point_clouds_hold_their_costs(metric, shape, size, seed):
    x = size * cloud(*shape, seed)
    points, expected = PointCloud(x, metric), costs(x, metric)
    atol = (1e-6 if metric == "euclidean" else 2e-6) * points.scale
    matrix = assert_holds(points, expected, atol)
    assert points.has_factors == (metric != "euclidean")
    if points.has_factors:
        phi = points.features.astype(np.float64)
        made = points.scale * phi @ points.signature @ phi.T
        np.testing.assert_allclose(made, expected, rtol=0, atol=1e-6 * points.scale)
    part = points.take(np.arange(0, len(x), 2)).to_dense().matrix
    np.testing.assert_allclose(part, expected[::2, ::2], rtol=0, atol=atol)
    if metric in ("sqeuclidean", "euclidean") and len(x) > 1:
        assert matrix.dtype == (np.float64 if abs(np.log10(points.scale)) > 30 else np.float32)
        for name in ("mean", "median", "max"):
            value = getattr(np, name)(expected)
            scaled = points.scaled_by(name).to_dense().matrix
            np.testing.assert_allclose(scaled * value, expected, rtol=0, atol=atol)


@pairwise(shape=[(1, 1), (2, 5), (40, 3), (30, 90)], size=[1e-20, 1.0, 1e20])
def test_factors_hold_their_costs(shape, size, seed):
    u = cloud(*shape, seed)
    v = u * np.where(np.arange(shape[1]) % 2, -1.0, 1.0)  # eigenvalues of both signs
    twice = np.hstack([u, u]), np.hstack([v, v])  # columns that are not needed are left out
    for factors, expected in (
        ((size * u, v), size * u @ v.T),
        ((u,), u @ u.T),
        (twice, 2 * u @ v.T),
    ):
        cost = PointCloud.from_factors(*factors)
        assert cost.n == len(u) and cost.features.shape[1] <= min(shape)
        atol = 2e-6 * np.linalg.norm(expected, 2)
        np.testing.assert_allclose(cost.to_dense().matrix, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_distances_are_exact_far_from_the_origin_and_on_the_diagonal(metric, seed):
    x = cloud(33, 5, seed)
    exact = costs(x, metric)
    for offset in (1e4, 1e6):
        assert_holds(PointCloud(x + offset, metric), exact, 1e-6 * exact.max(), is_far=True)
    matrix = PointCloud(np.vstack([x, x]), metric).to_dense().matrix
    assert (np.diag(matrix) == 0).all() and matrix.min() == 0


def test_problems_of_distances_are_those_of_their_matrices():
    clouds = [PointCloud(cloud(n, 3, n) * (1, 2, 3), "euclidean") for n in (40, 30)]
    matrices = [points.to_dense().matrix for points in clouds]
    for options in ({"dtype": "float64"}, {"epsilon": 0}):
        of_clouds, of_matrices, of_both = (
            gwfast.gromov_wasserstein(*sides, init="product", **options).plan
            for sides in (clouds, matrices, (clouds[0], matrices[1]))
        )
        np.testing.assert_array_equal(of_clouds, of_matrices)
        np.testing.assert_array_equal(of_clouds, of_both)


@pytest.mark.parametrize("metric", ["sqeuclidean", "dot", "euclidean"])
def test_points_that_coincide_make_a_cloud(metric):
    zeros = np.zeros((4, 2))
    points = PointCloud(zeros, metric)
    assert points.scale == 1.0
    for cost in (points, PointCloud.from_factors(zeros)):
        assert (cost.to_dense().matrix == 0).all() and cost.is_constant


@pairwise(size=[1e-20, 1.0, 1e20], n=[20, 1100])  # of one block, and of two
def test_symmetric_costs_are_told_from_others(size, n):
    cost = np.random.default_rng(0).random((n, n)) * size
    assert not dense(cost).symmetric
    cost = cost + cost.T
    assert dense(cost).symmetric and dense(-cost).symmetric
    assert dense(cost.astype(np.float32)).symmetric
    cost[-1, 0] *= 1 + 1e-7  # the rounding of a float32 computation
    assert dense(cost).symmetric
    cost[-1, 0] += 1e-4 * size
    assert not dense(cost).symmetric
    assert dense(cost).matrix is cost


FORMS = {
    "Fortran": np.asfortranarray,
    "float16": lambda cost: cost.astype(np.float16),
    "other bytes": lambda cost: cost.astype(">f8"),
    "every second": lambda cost: np.repeat(np.repeat(cost, 2, 0), 2, 1)[::2, ::-2],
}


@pytest.mark.parametrize("form", FORMS)
def test_any_matrix_is_looked_at(form):
    for n in (1, 2, 30, 1100):
        cost = FORMS[form](np.random.default_rng(n).random((n, n)))
        found, exact = dense(cost), cost.astype(np.float64)
        assert found.extremes == (exact.min(), exact.max())
        assert found.mean == pytest.approx(exact.mean(), rel=1e-12)
        assert found.symmetric == (n == 1)
        part = found.take(np.arange(n // 2, n))
        assert part.extremes[1] == part.matrix.max() and part.n == n - n // 2


def test_costs_and_problems_print_what_they_are():
    x = cloud(9, 3, 1)
    assert repr(PointCloud(x, "sqeuclidean")) == "PointCloud(9 points, sqeuclidean)"
    assert repr(PointCloud.from_factors(x)) == "PointCloud(9 points, rank 3)"
    problem = gwfast.QuadraticProblem(x @ x.T, np.eye(9), linear_cost=np.eye(9), loss="kl")
    assert repr(problem) == "QuadraticProblem(9 x 9, kl, balanced, fused, alpha=0.5)"
    assert repr(problem.x) == "DenseCost(9 points)"

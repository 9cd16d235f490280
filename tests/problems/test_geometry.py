"""Costs: the cosine builder, point clouds against the matrices they stand for, and the
linearized problem against sums over four indices."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud, distances
from scipy import sparse

import gwfast
from gwfast import PointCloud, cosine_similarity
from gwfast.kernels.threads import single_threaded_blas
from gwfast.problems.dense_cost import DenseCost

METRICS = ["cosine", "sqeuclidean", "dot"]


def cosines(x, y):
    """Textbook, in float64."""
    units = []
    for one in (x, y):
        scaled = np.asarray(one, dtype=np.longdouble)
        scaled = (scaled / np.abs(scaled).max()).astype(np.float64)
        units.append(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))
    return units[0] @ units[1].T


def costs(x, metric):
    """Textbook, in float64."""
    if metric == "cosine":
        return cosines(x, x)
    if metric == "dot":
        return x @ x.T
    return distances(x) ** (1 if metric == "euclidean" else 2)


# --- cosine_similarity ----------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 9, 3), (129, 33, 17), (300, 257, 2)])
def test_cosine_similarity_of_any_shape(shape, seed):
    n, m, d = shape
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    came = cosine_similarity(x, y)
    assert came.dtype == np.float32 and came.flags.c_contiguous
    np.testing.assert_allclose(came, cosines(x, y), rtol=0, atol=5e-7)
    np.testing.assert_allclose(cosine_similarity(x), cosines(x, x), rtol=0, atol=5e-7)


def test_cosine_similarity_gives_the_same_bits_on_any_number_of_threads(seed):
    x = np.random.default_rng(seed).normal(size=(700, 20))
    alone = cosine_similarity(x, n_threads=1)
    for n_threads in (2, 3):
        np.testing.assert_array_equal(cosine_similarity(x, n_threads=n_threads), alone)


CONVERSIONS = {
    "f4": np.float32,
    "f2": np.float16,
    "f16": np.longdouble,
    "fortran": np.asfortranarray,
    "list": np.ndarray.tolist,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "int": lambda x: (8 * x).astype(np.int8) + np.eye(*x.shape, dtype=np.int8) * 9,
    "bool": lambda x: np.abs(x) > np.abs(x).min(axis=1, keepdims=True),
    "big-endian": lambda x: x.astype(">f8"),
    **{str(size): partial(np.multiply, size) for size in (1e-300, 1e-20, 1e40, 1e300)},
}


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_cosine_similarity_converts_what_is_harmless(convert):
    x = convert(np.random.default_rng(0).normal(size=(9, 4)))
    np.testing.assert_allclose(cosine_similarity(x), cosines(x, x), rtol=0, atol=5e-7)


def test_input_is_left_alone():
    x = np.random.default_rng(0).normal(size=(9, 4))
    before = x.copy()
    x.flags.writeable = False
    cosine_similarity(x, x[:5])
    for metric in METRICS:
        PointCloud(x, metric).to_dense()
    np.testing.assert_array_equal(x, before)


def test_cosine_similarity_names_zero_rows_as_the_caller_counts_them():
    x = np.ones((40, 30_000))  # 34 rows are a block
    x[[8, 37]] = 0
    with pytest.raises(ValueError, match=r"^x must .* got 2 \(row 8, 37\)"):
        cosine_similarity(x)
    with pytest.raises(ValueError, match=r"^y must .* got 2 \(row 8, 37\)"):
        cosine_similarity(x[:5], x)
    with pytest.raises(ValueError, match=r"got 40 \(row 0, .* 9, \.\.\.\)"):
        cosine_similarity(x * 0)


def test_cosine_similarity_refuses_other_widths():
    x = np.ones((5, 4))
    with pytest.raises(ValueError, match="y must have as many columns as x, 4, got 3"):
        cosine_similarity(x, x[:, :3])


def test_cosine_similarity_needs_little_more_than_input_and_output():
    x = np.random.default_rng(0).normal(size=(4000, 300)).astype(np.float32)
    # Loading the BLAS controller is not what is measured.
    with single_threaded_blas():
        pass
    tracemalloc.start()
    try:
        out = cosine_similarity(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A normalized and a packed copy, and scratch that does not grow with the input.
    assert peak <= 1.05 * (out.nbytes + 2 * x.nbytes)


# --- Point clouds ---------------------------------------------------------------------


def assert_holds(cloud, expected, tolerance, rng):
    """That a cloud stands for these costs, and for their squares; returns the matrix
    that it becomes."""
    p = rng.dirichlet(np.ones(len(expected)))
    squares = cloud.scale**2 * cloud.square_times(p)
    atol = 4e-6 * cloud.scale**2
    np.testing.assert_allclose(squares, expected**2 @ p, rtol=0, atol=atol)
    dense = cloud.to_dense()
    assert dense.symmetric
    np.testing.assert_allclose(dense.matrix, expected, rtol=0, atol=tolerance)
    return dense.matrix


@pairwise(metric=METRICS, shape=[(1, 1), (2, 5), (17, 3), (65, 31)], size=[1e-20, 1.0, 1e20])
def test_point_cloud_holds_its_costs_in_factors(metric, shape, size, seed):
    rng = np.random.default_rng(seed)
    x = size * rng.normal(size=shape)
    cloud, expected = PointCloud(x, metric), costs(x, metric)
    phi = cloud.features.astype(np.float64)
    came = cloud.scale * phi @ cloud.signature @ phi.T
    np.testing.assert_allclose(came, expected, rtol=0, atol=1e-6 * cloud.scale)
    assert_holds(cloud, expected, 2e-6 * cloud.scale, rng)


def test_squared_distances_are_exact_far_from_the_origin_and_on_the_diagonal(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(33, 5))
    far, q = PointCloud(x + 1e6, "sqeuclidean"), rng.dirichlet(np.ones(33))
    expected = costs(x, "sqeuclidean")
    for came, exact, rounding in (
        (far.to_dense().matrix, expected, 1e-6),
        (far.scale**2 * far.square_times(q), expected**2 @ q, 3e-6),
    ):
        np.testing.assert_allclose(came, exact, rtol=0, atol=rounding * exact.max())
    matrix = PointCloud(np.vstack([x, x]), "sqeuclidean").to_dense().matrix
    assert (np.diag(matrix) == 0).all() and matrix.min() == 0


@pairwise(shape=[(1, 1), (2, 5), (17, 3), (65, 31)], size=[1e-20, 1.0, 1e20], offset=[0, 1e4])
def test_distances_have_no_factors_and_become_a_matrix(shape, size, offset, seed):
    rng, n = np.random.default_rng(seed), shape[0]
    x = rng.normal(size=shape)
    cloud, expected = PointCloud(size * (x + offset), "euclidean"), size * distances(x)
    assert not cloud.has_factors and PointCloud(x).has_factors
    matrix = assert_holds(cloud, expected, 1e-6 * cloud.scale, rng)
    assert matrix.dtype == np.float32
    tolerance = dict(rtol=0, atol=1e-6 * cloud.scale)
    some = np.arange(0, n, 2)
    part = cloud.take(some).to_dense().matrix
    np.testing.assert_allclose(part, expected[np.ix_(some, some)], **tolerance)
    if n > 1:
        for name in ("mean", "median", "max"):
            value = getattr(np, name)(expected)
            if value > 0:
                made = cloud.scaled_by(name).to_dense().matrix
                np.testing.assert_allclose(made * value, expected, **tolerance)


def test_problems_of_distances_are_those_of_their_matrices():
    rng = np.random.default_rng(0)
    points = [rng.standard_exponential((n, 3)) * (1, 2, 3) for n in (40, 30)]
    clouds = [PointCloud(x, "euclidean") for x in points]
    matrices, values = [cloud.to_dense().matrix for cloud in clouds], []
    for options in ({}, {"loss": "kl"}, {"dtype": "float64"}, {"epsilon": 0}):
        one, other = (
            gwfast.gromov_wasserstein(*sides, init="product", **options)
            for sides in (clouds, matrices)
        )
        np.testing.assert_array_equal(one.plan, other.plan)
    for sides in ((clouds[0], matrices[1]), matrices):
        result = gwfast.gromov_wasserstein(*sides, init="product")
        values.append(result.gw_cost)
    assert values[0] == pytest.approx(values[1])
    result = gwfast.align(*points, metric="euclidean", normalize=())
    assert result.gw.converged and result.transform(points[0]).shape == (40, 3)


@pytest.mark.parametrize("metric", ["sqeuclidean", "dot", "euclidean"])
def test_points_that_coincide_make_a_cloud(metric):
    cloud = PointCloud(np.zeros((4, 2)), metric)
    assert (cloud.to_dense().matrix == 0).all() and cloud.scale == 1.0


def test_point_cloud_refuses_unknown_metrics_and_zero_rows():
    with pytest.raises(ValueError, match=r"metric must be one of .* got 'l1'"):
        PointCloud(np.ones((3, 2)), "l1")
    with pytest.raises(ValueError, match=r"x must have no zero rows .* \(row 1\)"):
        PointCloud([[1.0, 2], [0, 0]])


# --- Dense costs ----------------------------------------------------------------------


@pairwise(size=[1e-20, 1.0, 1e20], n=[20, 1100])  # of one block, and of two
def test_dense_cost_tells_symmetric_from_not(size, n):
    cost = np.random.default_rng(0).random((n, n)) * size
    assert not DenseCost(cost).symmetric
    cost = cost + cost.T
    assert DenseCost(cost).symmetric
    assert DenseCost(-cost).symmetric
    assert DenseCost(cost.astype(np.float32)).symmetric
    cost[-1, 0] *= 1 + 1e-7
    assert DenseCost(cost).symmetric, "the rounding of a float32 computation"
    cost[-1, 0] += 1e-4 * size
    assert not DenseCost(cost).symmetric
    assert DenseCost(cost).matrix is cost


FORMS = {
    "float64": lambda cost: cost,
    "float32": lambda cost: cost.astype(np.float32),
    "Fortran": np.asfortranarray,
    "float16": lambda cost: cost.astype(np.float16),
    "other bytes": lambda cost: cost.astype(">f8"),
    "every second": lambda cost: np.repeat(np.repeat(cost, 2, 0), 2, 1)[::2, ::-2],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [1, 2, 30, 1100])
def test_dense_cost_looks_at_any_matrix(form, n):
    cost = FORMS[form](np.random.default_rng(n).random((n, n)))
    dense, exact = DenseCost(cost), cost.astype(np.float64)
    assert dense.extremes == (exact.min(), exact.max())
    assert dense.mean == pytest.approx(exact.mean(), rel=1e-12)
    assert dense.symmetric == (n == 1)
    if n > 1:
        part = dense.take(np.arange(n // 2, n))
        assert part.extremes[1] == part.matrix.max() and part.n == n - n // 2


def test_kl_refuses_negative_costs():
    with pytest.raises(ValueError, match=r"^y must not be negative .* got -1"):
        gwfast.gromov_wasserstein(np.eye(3), -np.eye(4), epsilon=0.1, loss="kl")


def test_what_costs_and_problems_print_as():
    x = cloud(9, 3, 1)
    cost = np.linalg.norm(x[:, None] - x, axis=2)
    costs = (
        gwfast.PointCloud(x, "sqeuclidean"),
        gwfast.PointCloud.from_factors(x),
        DenseCost(cost),
        gwfast.GraphCost(sparse.csr_array(cost)),
    )
    assert [*map(repr, costs)] == [
        "PointCloud(9 points, sqeuclidean)",
        "PointCloud(9 points, rank 3)",
        "DenseCost(9 points)",
        "GraphCost(9 points)",
    ]
    problem = gwfast.QuadraticProblem(cost, costs[0], marginals="semirelaxed")
    assert repr(problem) == "QuadraticProblem(9 x 9, square, semirelaxed)"
    fused = gwfast.QuadraticProblem(cost, cost, linear_cost=cost, loss="kl")
    assert repr(fused) == "QuadraticProblem(9 x 9, kl, balanced, fused, alpha=0.5)"

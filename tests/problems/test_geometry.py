"""Costs: the cosine builder, point clouds against the matrices they stand for, and the
linearized problem against sums over four indices."""

import tracemalloc

import numpy as np
import pytest
from helpers.problems import cloud
from scipy import sparse

import gwfast
from gwfast import DenseCost, PointCloud, cosine_similarity
from gwfast.kernels.threads import single_threaded_blas
from gwfast.linear.sinkhorn_solver import SinkhornSolver
from gwfast.problems.quadratic import QuadraticProblem
from gwfast.quadratic.factory import linearize

METRICS = ["cosine", "sqeuclidean", "dot"]


def cosines(x, y):
    """Textbook, in float64."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return x @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T


def costs(x, metric):
    """Textbook, in float64."""
    x = np.asarray(x, dtype=np.float64)
    if metric == "cosine":
        return cosines(x, x)
    if metric == "dot":
        return x @ x.T
    squares = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    return np.sqrt(squares) if metric == "euclidean" else squares


# --- cosine_similarity ----------------------------------------------------------------


@pytest.mark.parametrize(
    "n, m, d", [(1, 1, 1), (7, 9, 3), (129, 33, 17), (300, 257, 2)]
)
@pytest.mark.parametrize("chunk_rows", [None, 1, 7, 1000])
def test_cosine_similarity_in_any_chunks(n, m, d, chunk_rows, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    came = cosine_similarity(x, y, chunk_rows=chunk_rows)
    assert came.dtype == np.float32 and came.flags.c_contiguous
    np.testing.assert_allclose(came, cosines(x, y), rtol=0, atol=5e-7)
    came = cosine_similarity(x, chunk_rows=chunk_rows)
    np.testing.assert_allclose(came, cosines(x, x), rtol=0, atol=5e-7)


def test_cosine_similarity_gives_the_same_bits_on_any_number_of_threads(seed):
    x = np.random.default_rng(seed).normal(size=(700, 20))
    alone = cosine_similarity(x, n_threads=1)
    for n_threads in (2, 3):
        np.testing.assert_array_equal(cosine_similarity(x, n_threads=n_threads), alone)


@pytest.mark.parametrize(
    "convert",
    [
        np.float32,
        np.float16,
        np.longdouble,
        np.asfortranarray,
        np.ndarray.tolist,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: (8 * x).astype(np.int8) + np.eye(*x.shape, dtype=np.int8) * 9,
        lambda x: np.abs(x) > np.abs(x).min(axis=1, keepdims=True),
        lambda x: x.astype(">f8"),
    ],
    ids="f4 f8/2 f16 fortran list strided int bool big-endian".split(),
)
def test_cosine_similarity_converts_what_is_harmless(convert):
    x = convert(np.random.default_rng(0).normal(size=(9, 4)))
    np.testing.assert_allclose(cosine_similarity(x), cosines(x, x), rtol=0, atol=5e-7)


def test_cosine_similarity_leaves_read_only_input_alone():
    x = np.random.default_rng(0).normal(size=(9, 4))
    before = x.copy()
    x.flags.writeable = False
    cosine_similarity(x, x[:5])
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("size", [1e-300, 1e-40, 1e-20, 1e20, 1e40, 1e300])
def test_cosine_similarity_does_not_care_about_size(size):
    x = np.random.default_rng(0).normal(size=(9, 4))
    came = cosine_similarity(x * size, x)
    np.testing.assert_allclose(came, cosines(x, x), rtol=0, atol=5e-7)


def test_cosine_similarity_writes_to_the_buffer_given():
    x = np.random.default_rng(0).normal(size=(9, 4))
    whole = np.full((20, 7), 7, dtype=np.float32)
    out = whole[5:14]
    assert cosine_similarity(x, x[:7], out=out) is out
    np.testing.assert_allclose(out, cosines(x, x[:7]), rtol=0, atol=5e-7)
    assert (whole[:5] == 7).all() and (whole[14:] == 7).all()


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((9, 7)),
        np.zeros((7, 9), dtype=np.float32),
        np.zeros((9, 7), dtype=np.float32, order="F"),
        np.zeros((9, 14), dtype=np.float32)[:, ::2],
        np.broadcast_to(np.float32(0), (9, 7)),
        np.zeros((9, 7), dtype=np.float32).tolist(),
    ],
    ids="dtype shape fortran strided read-only list".split(),
)
def test_cosine_similarity_refuses_a_buffer_it_cannot_write_to(out):
    x = np.random.default_rng(0).normal(size=(9, 4))
    with pytest.raises(ValueError, match=r"^out must be .* shape \(9, 7\), got"):
        cosine_similarity(x, x[:7], out=out)
    assert not np.any(out)


def test_cosine_similarity_names_zero_rows_as_the_caller_counts_them(monkeypatch):
    monkeypatch.setattr("gwfast.utils.blocks.SCRATCH_BYTES", 3 * 8 * 4)  # three rows
    x = np.ones((40, 4))
    x[[8, 20]] = 0
    with pytest.raises(ValueError, match=r"^x must .* got 2 \(row 8, 20\)"):
        cosine_similarity(x)
    with pytest.raises(ValueError, match=r"^y must .* got 2 \(row 8, 20\)"):
        cosine_similarity(x[:5], x)
    with pytest.raises(ValueError, match=r"got 40 \(row 0, .* 9, \.\.\.\)"):
        cosine_similarity(x * 0)


def test_cosine_similarity_refuses_other_widths_and_chunks():
    x = np.ones((5, 4))
    with pytest.raises(ValueError, match="y must have as many columns as x, 4, got 3"):
        cosine_similarity(x, x[:, :3])
    with pytest.raises(ValueError, match="chunk_rows must be at least 1, got 0"):
        cosine_similarity(x, chunk_rows=0)
    with pytest.raises(TypeError, match="chunk_rows must be an integer, got float"):
        cosine_similarity(x, chunk_rows=2.0)


@pytest.mark.parametrize("chunk_rows", [None, 100])
def test_cosine_similarity_needs_little_more_than_input_and_output(chunk_rows):
    x = np.random.default_rng(0).normal(size=(4000, 300)).astype(np.float32)
    # Loading the BLAS controller is not what is measured.
    with single_threaded_blas():
        pass
    tracemalloc.start()
    try:
        out = cosine_similarity(x, chunk_rows=chunk_rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A normalized and a packed copy, and scratch that does not grow with the input.
    assert peak <= 1.05 * (out.nbytes + 2 * x.nbytes)


# --- Point clouds ---------------------------------------------------------------------


def assert_relative(came, expected, tolerance):
    size = np.abs(expected).max()
    np.testing.assert_allclose(came, expected, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n, d", [(1, 1), (2, 5), (17, 3), (65, 31)])
@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
def test_point_cloud_holds_its_costs_in_factors(metric, n, d, size, seed):
    rng = np.random.default_rng(seed)
    x = size * rng.normal(size=(n, d))
    p = rng.dirichlet(np.ones(n))
    cloud, expected = PointCloud(x, metric), costs(x, metric)
    phi = cloud.features.astype(np.float64)
    came = cloud.scale * phi @ cloud.signature @ phi.T
    np.testing.assert_allclose(came, expected, rtol=0, atol=1e-6 * cloud.scale)
    squares = cloud.scale**2 * cloud.square_times(p)
    atol = 4e-6 * cloud.scale**2
    np.testing.assert_allclose(squares, expected**2 @ p, rtol=0, atol=atol)
    dense = cloud.to_dense()
    assert dense.symmetric
    np.testing.assert_allclose(dense.matrix, expected, rtol=0, atol=2e-6 * cloud.scale)


def test_squared_distances_far_from_the_origin_are_exact(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(33, 5))
    far = PointCloud(x + 1e6, "sqeuclidean")
    assert_relative(far.to_dense().matrix, costs(x, "sqeuclidean"), 1e-6)
    q = rng.dirichlet(np.ones(33))
    expected = costs(x, "sqeuclidean") ** 2 @ q
    assert_relative(far.scale**2 * far.square_times(q), expected, 3e-6)


def test_squared_distances_are_zero_on_the_diagonal_and_never_negative(seed):
    x = np.random.default_rng(seed).normal(size=(65, 3))
    matrix = PointCloud(np.vstack([x, x]), "sqeuclidean").to_dense().matrix
    assert (np.diag(matrix) == 0).all() and matrix.min() == 0


@pytest.mark.parametrize("n, d", [(1, 1), (2, 5), (17, 3), (65, 31)])
@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_distances_have_no_factors_and_become_a_matrix(n, d, size, offset, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    cloud, expected = (
        PointCloud(size * (x + offset), "euclidean"), size * costs(x, "euclidean")
    )  # fmt: skip
    assert not cloud.has_factors and PointCloud(x).has_factors
    dense = cloud.to_dense()
    assert dense.symmetric and dense.matrix.dtype == np.float32
    tolerance = dict(rtol=0, atol=1e-6 * cloud.scale)
    np.testing.assert_allclose(dense.matrix, expected, **tolerance)
    some = np.arange(0, n, 2)
    part = cloud.take(some).to_dense().matrix
    np.testing.assert_allclose(part, expected[np.ix_(some, some)], **tolerance)
    p = rng.dirichlet(np.ones(n))
    squares = cloud.scale**2 * cloud.square_times(p)
    atol = 4e-6 * cloud.scale**2
    np.testing.assert_allclose(squares, expected**2 @ p, rtol=0, atol=atol)
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
    matrices = [cloud.to_dense().matrix for cloud in clouds]
    for options in ({}, {"loss": "kl"}, {"dtype": "float64"}, {"epsilon": 0}):
        one, other = (
            gwfast.gromov_wasserstein(*sides, init="product", **options)
            for sides in (clouds, matrices)
        )
        np.testing.assert_array_equal(one.plan, other.plan)
    mixed = gwfast.gromov_wasserstein(clouds[0], matrices[1], init="product")
    assert mixed.gw_cost == pytest.approx(
        gwfast.gromov_wasserstein(*matrices, init="product").gw_cost
    )
    result = gwfast.align(*points, metric="euclidean", normalize=())
    assert result.gw.converged and result.transform(points[0]).shape == (40, 3)


@pytest.mark.parametrize("metric", ["sqeuclidean", "dot", "euclidean"])
def test_points_that_coincide_make_a_cloud(metric):
    cloud = PointCloud(np.zeros((4, 2)), metric)
    assert (cloud.to_dense().matrix == 0).all() and cloud.scale == 1.0


def test_point_cloud_leaves_its_input_alone():
    x = np.random.default_rng(0).normal(size=(9, 4))
    before = x.copy()
    x.flags.writeable = False
    for metric in METRICS:
        PointCloud(x, metric).to_dense()
    np.testing.assert_array_equal(x, before)


def test_point_cloud_refuses_unknown_metrics_and_zero_rows():
    with pytest.raises(ValueError, match=r"metric must be one of .* got 'l1'"):
        PointCloud(np.ones((3, 2)), "l1")
    with pytest.raises(ValueError, match=r"x must have no zero rows .* \(row 1\)"):
        PointCloud([[1.0, 2], [0, 0]])


# --- Dense costs ----------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("step", [10**9, 2])
def test_dense_cost_tells_symmetric_from_not(size, step, monkeypatch):
    monkeypatch.setattr("gwfast.utils.blocks.SCRATCH_BYTES", 8 * 20 * step)
    cost = np.random.default_rng(0).random((20, 20)) * size
    assert not DenseCost(cost).symmetric
    cost = cost + cost.T
    assert DenseCost(cost).symmetric
    assert DenseCost(-cost).symmetric
    assert DenseCost(cost.astype(np.float32)).symmetric
    cost[19, 0] *= 1 + 1e-7
    assert DenseCost(cost).symmetric, "the rounding of a float32 computation"
    cost[19, 0] += 1e-4 * size
    assert not DenseCost(cost).symmetric


def test_dense_cost_is_not_a_copy():
    cost = np.eye(3)
    assert DenseCost(cost).matrix is cost


# --- Linearization --------------------------------------------------------------------


def square(a, b):
    return (a - b) ** 2


def kl(a, b):
    return a * np.log(a / b) - a + b


LOSSES = {"square": square, "kl": kl}


def four_indices(left, right, loss, plan):
    """The objective of a plan and half its gradient, by brute force in float64."""
    losses = LOSSES[loss](left[:, None, :, None], right[None, :, None, :])
    gradient = np.einsum("ijkl,kl->ij", losses, plan)
    gradient += np.einsum("klij,kl->ij", losses, plan)
    return np.einsum("ijkl,ij,kl->", losses, plan, plan), gradient / 2


def linearized_cost(linearization):
    cost = linearization.cost_scale * linearization.kernel().cost().astype(np.float64)
    return cost + linearization.row_cost[:, None] + linearization.col_cost


def assert_linearizes(x, y, left, right, loss, plan, tolerance=3e-6):
    """That the linearized cost, with its separable terms, is half the gradient, and
    that the objective is the objective, at a plan given and after an update."""
    n, m = plan.shape
    p, q = plan.sum(axis=1), plan.sum(axis=0)
    linearization = linearize(QuadraticProblem(x, y, p, q, loss=loss), n_threads=1)
    product = np.outer(p, q)
    for state in (None, plan.astype(np.float32)):
        objective, gradient = four_indices(
            left, right, loss, product if state is None else plan
        )
        came = linearization.start(state)
        total = linearized_cost(linearization)
        size = max(linearization.magnitude, np.abs(gradient).max())
        assert abs(came - objective) <= tolerance * size
        assert np.abs(total - gradient).max() <= tolerance * size
    # What the linear solver makes of the kernel becomes the state.
    linearization.start()
    kernel, solver = linearization.kernel(), SinkhornSolver(p, q, n_threads=1)
    solution = solver.solve(kernel, 1.0, tol=1e-3, max_iter=1)
    kernel.rows[:] = plan / np.outer(solution.scalings.u, solution.scalings.v)
    update = linearization.update(kernel, solution)
    assert abs(update.gw_cost - objective) <= tolerance * size
    assert update.change > 1e-3 or min(n, m) == 1
    np.testing.assert_allclose(update.rows, p, rtol=1e-6, atol=1e-9)
    made = linearization.coupling(kernel, solution).toarray()
    np.testing.assert_allclose(made, plan, rtol=1e-6, atol=1e-9)
    total = linearized_cost(linearization)
    assert np.abs(total - gradient).max() <= tolerance * size


def random_plan(rng, n, m):
    plan = rng.random((n, m)) ** 4
    return plan / plan.sum()


SIZES = [(1, 1), (1, 5), (2, 3), (9, 6), (7, 17)]


@pytest.mark.parametrize("n, m", SIZES)
@pytest.mark.parametrize("metric_y", METRICS)
@pytest.mark.parametrize("metric_x", METRICS)
def test_point_clouds_linearize_as_the_costs_they_stand_for(
    metric_x, metric_y, n, m, seed
):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, 4)), rng.normal(size=(m, 3))
    assert_linearizes(
        PointCloud(x, metric_x),
        PointCloud(y, metric_y),
        costs(x, metric_x),
        costs(y, metric_y),
        "square",
        random_plan(rng, n, m),
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("symmetric_x", [True, False])
@pytest.mark.parametrize("symmetric_y", [True, False])
@pytest.mark.parametrize("n, m", SIZES)
def test_dense_costs_linearize(n, m, symmetric_x, symmetric_y, loss, seed):
    rng = np.random.default_rng(seed)
    left, right = rng.random((n, n)) + 0.1, 2 * rng.random((m, m)) + 0.1
    if symmetric_x:
        left = left + left.T
    if symmetric_y:
        right = right + right.T
    assert_linearizes(left, right, left, right, loss, random_plan(rng, n, m))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_point_cloud_and_a_matrix_linearize(loss, seed):
    rng = np.random.default_rng(seed)
    x, right = rng.normal(size=(9, 4)), rng.random((6, 6)) + 0.1
    left = costs(x, "sqeuclidean")
    if loss == "kl":
        left = left + 1e-16  # 0 log 0 = 0
    cloud, plan = PointCloud(x, "sqeuclidean"), random_plan(rng, 9, 6)
    assert_linearizes(cloud, right, left, right, loss, plan)


@pytest.mark.parametrize(
    "offset, size", [(1e6, 1.0), (-1e6, 1.0), (0, 1e-20), (0, 1e20)]
)
@pytest.mark.parametrize("dense", [True, False])
def test_linearization_takes_offset_and_scaled_costs(offset, size, dense, seed):
    """The squared loss sees differences of costs only."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(9, 4)), rng.normal(size=(6, 3))
    left, right = costs(x, "sqeuclidean"), costs(y, "sqeuclidean")
    plan = random_plan(rng, 9, 6)
    if dense:
        left, right = size * left, size * right
        given = left + offset, right + offset
    else:
        left, right = size**2 * left, size**2 * right
        given = (
            PointCloud(size * x + offset, "sqeuclidean"),
            PointCloud(size * y + offset, "sqeuclidean"),
        )
    assert_linearizes(*given, left, right, "square", plan, tolerance=5e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_costs_of_other_kinds_linearize(dtype, order):
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 9, (9, 9)), rng.integers(0, 9, (6, 6))
    given = [np.asarray(c, dtype=dtype, order=order) for c in (left, right)]
    assert_linearizes(*given, left, right, "square", random_plan(rng, 9, 6))


def test_kl_refuses_negative_costs():
    with pytest.raises(ValueError, match=r"cost_y must not be negative .* got -1"):
        gwfast.gromov_wasserstein(np.eye(3), -np.eye(4), epsilon=0.1, loss="kl")


def test_what_costs_and_problems_print_as():
    x = cloud(9, 3, 1)
    cost = np.linalg.norm(x[:, None] - x, axis=2)
    costs = (
        gwfast.PointCloud(x, "sqeuclidean"),
        gwfast.LowRankCost(x),
        gwfast.DenseCost(cost),
        gwfast.GraphCost(sparse.csr_array(cost)),
    )
    assert [*map(repr, costs)] == [
        "PointCloud(9 points, sqeuclidean)",
        "LowRankCost(9 points, rank 3)",
        "DenseCost(9 points)",
        "GraphCost(9 points)",
    ]
    problem = gwfast.QuadraticProblem(cost, costs[0], marginals="semirelaxed")
    assert repr(problem) == "QuadraticProblem(9 x 9, square, semirelaxed)"
    fused = gwfast.QuadraticProblem(cost, cost, linear_cost=cost, loss="kl")
    assert repr(fused) == "QuadraticProblem(9 x 9, kl, balanced, fused, alpha=0.5)"

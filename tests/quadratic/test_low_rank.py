"""Products of plans as values: whole, low-rank updates, and weighted sums."""

import numpy as np
import pytest
from helpers.problems import cloud, distances

from gwfast.problems.quadratic import QuadraticProblem
from gwfast.quadratic.linearize import linearize
from gwfast.quadratic.low_rank import MOST, Product, error_over, multiply
from gwfast.utils.deadline import Deadline, OutOfTime
from gwfast.utils.precision import PRECISIONS

N, M = 620, 640


@pytest.fixture(scope="module")
def costs():
    x, y = cloud(M, 3, 0), cloud(M, 3, 0) + 0.1 * cloud(M, 3, 1)
    return distances(x[:N]), distances(y)


def plans(shape, n_plans, step=1e-2, seed=0):
    """Plans near one another, with the marginals of the product plan."""
    rng, (n, m) = np.random.default_rng(seed), shape
    plan = rng.random(shape) ** 4
    made = []
    for _ in range(n_plans):
        plan = plan * (1.0 + step * rng.random(shape))
        for _ in range(60):
            plan /= n * plan.sum(axis=1, keepdims=True)
            plan /= m * plan.sum(axis=0)
        made.append(plan)
    return made


def whole(at, plan):
    left, right = (np.asarray(side.matrix, np.float64) for side in at.sides)
    constant = 0.0 if at.fused is None else at.fused
    return left @ plan @ right + constant


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fused", [False, True])
def test_updates_are_right_to_their_promise(costs, dtype, fused):
    """Also the value of a plan, to second order."""
    more = dict(linear_cost=np.random.default_rng(1).random((N, M)), alpha=0.5) if fused else {}
    at = linearize(QuadraticProblem(*costs, **more), 1, precision=PRECISIONS[dtype])
    first, *others = [one.astype(dtype) for one in plans((N, M), 4)]
    known, _ = at._product(first, None, 0.0)
    assert known.is_whole and known.reference is not None
    epsilon = 1e-3
    for plan in others:
        product, value = at._product(plan, known, MOST * epsilon)
        assert not product.is_whole and product.reference is known.reference
        expected = whole(at, plan.astype(np.float64))
        wrong = product.array(plan.dtype, plan.shape) - expected
        assert error_over(plan, wrong) < 2 * MOST * epsilon
        assert value == pytest.approx(float(np.vdot(plan, expected)), rel=1e-4)
        exact, _ = at._product(plan, known, 0.0)
        assert exact.is_whole
        np.testing.assert_allclose(exact.matrix, expected, atol=1e-5)


def test_sums_of_products_are_products_of_sums(costs):
    at = linearize(QuadraticProblem(*costs), 1, precision=PRECISIONS["float64"])
    made = plans((N, M), 3)
    known, _ = at._product(made[0], None, 0.0)
    products = [known, *(at._product(plan, known, 1e-2)[0] for plan in made[1:])]
    weights = [0.5, -0.25, 0.75]
    mixed = products[-1].mixed(products, weights)
    assert len(mixed.terms) == 1 and at.n_matrices([]) == 0
    expected = sum(
        w * one.array(np.float64, (N, M)) for w, one in zip(weights, products, strict=True)
    )
    np.testing.assert_allclose(mixed.array(np.float64, (N, M)), expected, atol=1e-12)


def test_rows_without_mass_and_empty_plans_are_no_error(costs):
    at, plan = linearize(QuadraticProblem(*costs), 1), np.zeros((N, M), np.float32)
    for some in (plan, np.where(np.arange(N)[:, None] < 5, np.float32(1e-3), plan)):
        product, value = at._product(some, None, 1.0)
        assert np.isfinite(product.array(np.float32, (N, M))).all() and np.isfinite(value)


def test_few_points_and_asymmetric_costs_have_no_updates():
    rng = np.random.default_rng(0)
    few = linearize(QuadraticProblem(*(distances(cloud(40, 3, k)) for k in (0, 1))), 1)
    large = linearize(QuadraticProblem(rng.random((N, N)), rng.random((N, N))), 1)
    for at in (few, large):
        plan = np.full(at.problem.shape, 1.0 / np.prod(at.problem.shape), np.float32)
        assert at._product(plan, None, 1.0)[0].is_whole


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [10, 700])
def test_products_of_any_size_stop_at_a_deadline(dtype, rows):
    rng = np.random.default_rng(0)
    a, b = rng.random((rows, 1500)).astype(dtype), rng.random((1500, 2100)).astype(dtype)
    out = np.empty((rows, 2100), dtype)
    multiply(a, b, out, 1)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4)
    late = Deadline.after(1e-9)
    with pytest.raises(OutOfTime):
        multiply(a, b, out, 1, late)


def test_a_product_of_one_matrix_is_that_matrix():
    matrix = np.ones((3, 4))
    assert Product.of(matrix).array(np.float64, (3, 4)) is matrix

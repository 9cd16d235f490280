"""Low-rank updates of products are within their stated error. `_product` is called directly, as
solves hide its error, which the next iterations mend.
"""

import numpy as np
import pytest
from helpers.problems import cloud, distances, random_cost

from gwfast.problems.quadratic import QuadraticProblem
from gwfast.quadratic.linearize import linearize
from gwfast.quadratic.low_rank import Product, error_over, multiply
from gwfast.utils.deadline import Deadline, OutOfTime
from gwfast.utils.precision import PRECISIONS
from gwfast.utils.tuning import Tuning

N, M = 120, 130
X, Y = cloud(M, 3, 0), cloud(M, 3, 0) + 0.1 * cloud(M, 3, 1)
# Noise has no leading eigenvectors.
COSTS = distances(X[:N]) + random_cost(N, 2), distances(Y) + random_cost(M, 3)


def linearized(*costs, dtype="float64", low_rank_from=100, **terms):
    tuning = Tuning(few_points=8, low_rank_from=low_rank_from)
    return linearize(
        QuadraticProblem(*costs, **terms), 1, precision=PRECISIONS[dtype], tuning=tuning
    )


def plans(n_plans, dtype, step=0.3):
    """Plans near one another, with the marginals of the product plan."""
    rng = np.random.default_rng(0)
    plan, made = rng.random((N, M)) ** 4, []
    for _ in range(n_plans):
        plan = plan * (1.0 + step * rng.random((N, M)))
        for _ in range(20):
            plan /= N * plan.sum(axis=1, keepdims=True)
            plan /= M * plan.sum(axis=0)
        made.append(plan.astype(dtype))
    return made


@pytest.mark.parametrize("fused", [False, True])
def test_updates_are_within_their_stated_error(dtype, fused):
    terms = dict(linear_cost=np.random.default_rng(1).random((N, M)), alpha=0.5) if fused else {}
    at = linearized(*COSTS, dtype=dtype, **terms)
    left, right = (np.asarray(side.matrix, np.float64) for side in at.sides)
    first, *others = plans(3, dtype)
    known, _ = at._product(first, None, 0.0)
    assert known.is_full and known.reference is not None
    for plan in others:
        expected = left @ plan.astype(np.float64) @ right + (at.fused if fused else 0.0)
        product, value = at._product(plan, known, 1.0)
        error = error_over(plan, product.array(plan.dtype, plan.shape) - expected)
        assert 1e-7 < error < 1e-4 and product.reference is known.reference
        assert value == pytest.approx(float(np.vdot(plan, expected)), rel=1e-4)
        is_full = [at._product(plan, known, c * error)[0].is_full for c in (2.0, 0.5, 0.0)]
        assert is_full == [False, True, True]
        exact, _ = at._product(plan, known, 0.0)
        np.testing.assert_allclose(exact.matrix, expected, atol=1e-5)


def test_sums_of_products_are_products_of_sums_and_no_mass_is_no_error():
    at, plan = linearized(*COSTS, dtype="float32"), np.zeros((N, M), np.float32)
    for some in (plan, np.where(np.arange(N)[:, None] < 5, np.float32(1e-3), plan)):
        product, value = at._product(some, None, 1.0)
        assert np.isfinite(product.array(np.float32, (N, M))).all() and np.isfinite(value)
    at, weights = linearized(*COSTS), [0.5, -0.25, 0.75]
    first, *others = plans(3, "float64")
    known, _ = at._product(first, None, 0.0)
    products = [known, *(at._product(plan, known, 1e-2)[0] for plan in others)]
    mixed = products[-1].mixed(products, weights)
    assert len(mixed.summands) == 1 and at.n_matrices([]) == 0
    arrays = [one.array(np.float64, (N, M)) for one in products]
    expected = np.tensordot(weights, arrays, axes=1)
    np.testing.assert_allclose(mixed.array(np.float64, (N, M)), expected, atol=1e-12)
    matrix = np.ones((3, 4))
    assert Product.of(matrix).array(np.float64, (3, 4)) is matrix


@pytest.mark.parametrize("low_rank_from, noise", [(N + 1, 0.0), (100, 0.1)])
def test_few_points_and_asymmetric_costs_have_no_updates(low_rank_from, noise):
    cost = COSTS[0] + noise * np.random.default_rng(0).random((N, N))
    at = linearized(cost, COSTS[1], low_rank_from=low_rank_from)
    plan, other = plans(2, "float64")
    known, _ = at._product(plan, None, 1.0)
    assert known.is_full and at._product(other, known, 1.0)[0].is_full


@pytest.mark.parametrize("rows", [10, 300])
def test_products_stop_at_a_deadline(rows):
    rng = np.random.default_rng(0)
    a, b = rng.random((rows, 2000)), rng.random((2000, 600))
    out = np.empty((rows, 600))
    multiply(a, b, out, 1)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4)
    with pytest.raises(OutOfTime):
        multiply(a, b, out, 1, Deadline.after(1e-9))

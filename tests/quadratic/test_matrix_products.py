"""Products of the costs as they came, of some columns at a time, in place."""

import numpy as np
import pytest
from helpers.problems import random_cost

from gwfast.kernels._rows import Panels, Shifted
from gwfast.quadratic import matrix_products
from gwfast.quadratic.dense_terms import BilinearTerm
from gwfast.quadratic.matrix_products import multiply
from gwfast.utils.deadline import Deadline, OutOfTime

N, M = 150, 290


@pytest.fixture
def narrow(monkeypatch):
    """The least that is packed at a time."""
    monkeypatch.setattr(matrix_products, "PACKED_BYTES", 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_of_some_columns_at_a_time_is_the_whole_one(dtype, narrow):
    rng = np.random.default_rng(0)
    left, plan = (rng.random(shape).astype(dtype) for shape in ((N, N), (N, M)))
    whole, out = np.empty((2, N, M), dtype)
    multiply(left, Panels(plan), whole, 2)
    multiply(left, plan, out, 2)
    np.testing.assert_array_equal(out, whole)
    np.testing.assert_allclose(out, left @ plan, rtol=1e-5)
    multiply(left, plan, plan, 2)
    np.testing.assert_array_equal(plan, whole)


def test_it_stops_at_its_deadline(narrow):
    ones, out = np.ones((N, N), np.float32), np.zeros((N, N), np.float32)
    with pytest.raises(OutOfTime):
        multiply(ones, ones, out, 1, Deadline.after(1e-9))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_products_of_costs_as_they_came_are_those_of_a_copy(dtype, narrow):
    costs = [random_cost(n, n).astype(dtype) for n in (N, M)]
    read, copied = [], []
    for cost, factor in zip(costs, (-1.5, 2.0), strict=True):
        read.append(Shifted(cost, 0.25, factor))
        copied.append(((cost.astype(float) - 0.25) * factor).astype(np.float32))
    plan = np.random.default_rng(1).random((N, M), dtype=np.float32) / (N * M)
    masses = np.full(N, 1 / N), np.full(M, 1 / M)
    came, expected = np.empty((2, N, M), np.float32)
    terms = [BilinearTerm(*sides, True, 2) for sides in (read, copied)]
    for term, out in zip(terms, (came, expected), strict=True):
        term.multiply(plan, out)
    np.testing.assert_allclose(came, expected, atol=1e-6)
    for term, out in zip(terms, (came, expected), strict=True):
        term.multiply_outer(*masses, out)
    np.testing.assert_allclose(came, expected, atol=1e-6)

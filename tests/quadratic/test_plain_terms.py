"""The terms of plain problems of few points are those of any problem."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import masses, random_cost

from gwfast import PointCloud, QuadraticProblem
from gwfast.quadratic.dense_terms import MatrixTerms
from gwfast.quadratic.methods import BAPG, PGD
from gwfast.quadratic.plain_terms import PlainTerms, terms_of
from gwfast.utils.deadline import NEVER

SHAPES = [(1, 1), (1, 5), (2, 3), (9, 7), (17, 16), (33, 65), (130, 100)]
COSTS = {
    "plain": lambda n, seed: random_cost(n, seed),
    "float32": lambda n, seed: random_cost(n, seed).astype(np.float32),
    "by columns": lambda n, seed: np.asfortranarray(random_cost(n, seed)),
    "far away": lambda n, seed: random_cost(n, seed) + 1e4 * (1 + seed),
    "constant": lambda n, seed: np.full((n, n), 3.0 + seed),
    "large": lambda n, seed: 1e20 * random_cost(n, seed),
}


def problem(n, m, kind="plain", **more):
    sides = COSTS[kind](n, 0), COSTS[kind](m, 1)
    return QuadraticProblem(*sides, masses(n, 2), masses(m, 3), **more)


@pairwise(kind=COSTS, shape=SHAPES, dtype=[np.float32, np.float64])
def test_they_are_those_of_any_problem(kind, shape, dtype):
    """Up to constants that rows and columns share between them."""
    given = problem(*shape, kind)
    terms = terms_of(given, PGD, dtype, 1, NEVER)
    other = MatrixTerms(given, PGD, dtype, 1, NEVER)
    assert isinstance(terms, PlainTerms)
    plan = np.outer(given.p, given.q) * np.random.default_rng(4).random(shape)
    plan, costs = plan.astype(dtype), []
    for one in (terms, other):
        rows, cols = one.separable(given.p, given.q)
        made = one.bilinear.multiply(plan, np.empty(shape, dtype))
        made = one.cost_scale * made.astype(np.float64)
        costs.append(made + np.add.outer(rows, cols))
    # Terms that cancel are as large as the squares of the costs from their middle.
    ends = [side.extremes for side in (given.x, given.y)]
    size = (max(map(max, ends)) - min(map(min, ends))) ** 2 + 1e-8 * max(map(max, ends))
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(*costs, rtol=0, atol=200 * eps * size)
    assert terms.at_product(None, None) == pytest.approx(
        other.at_product(*other.separable(given.p, given.q)), rel=1e-9, abs=1e-12 * size
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_product_at_the_masses_is_known(dtype):
    given = problem(33, 21)
    terms = terms_of(given, PGD, dtype, 1, NEVER)
    plan = np.outer(given.p, given.q).astype(dtype)
    made, known = np.empty((2, 33, 21), dtype)
    terms.bilinear.multiply(plan, made)
    terms.bilinear.multiply_outer(given.p, given.q, known)
    np.testing.assert_allclose(known, made, rtol=0, atol=10 * np.finfo(dtype).eps)


def test_other_problems_have_terms_of_their_own():
    plain, cloud = problem(9, 7), PointCloud(np.random.default_rng(0).random((9, 2)))
    lopsided = random_cost(9, 5, symmetric=False)
    others = [
        (QuadraticProblem(plain.x, plain.y, loss="kl"), PGD),
        (QuadraticProblem(lopsided, plain.y), PGD),
        (QuadraticProblem(cloud, plain.y), PGD),
        (QuadraticProblem(plain.x, plain.y, linear_cost=np.ones((9, 7))), PGD),
        (QuadraticProblem(plain.x, plain.y, marginals="semirelaxed"), PGD),
        (plain, BAPG),
        (problem(257, 7), PGD),
    ]
    for one, method in others:
        made = terms_of(one, method, np.dtype(np.float64), 1, NEVER)
        assert type(made) is MatrixTerms

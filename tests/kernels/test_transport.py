"""Exact transport: optima certified by their potentials, and those of others."""

import numpy as np
import pytest
from helpers.marks import ISAS, mostly_slow, pairwise
from helpers.problems import masses

from gwfast.kernels import reference
from gwfast.kernels._transport import ROUNDING, UNITS, Transport

SHAPES = [(1, 1), (1, 7), (7, 1), (2, 3), (3, 2), (31, 31), (17, 64), (65, 33)]
LARGE = [(129, 257), (300, 300)]

MASSES = {
    "uniform": lambda n, rng: np.full(n, 1 / n),
    "uneven": masses,
    "whole": lambda n, rng: rng.integers(1, 4, n) * 1.0,
    "of twelve orders": lambda n, rng: 10.0 ** rng.uniform(-12, 0, n),
    # Less than a unit of mass.
    "next to none": lambda n, rng: 10.0 ** rng.uniform(-30, 0, n),
}
COSTS = {
    "random": lambda n, m, rng: rng.random((n, m)),
    "signed": lambda n, m, rng: rng.standard_normal((n, m)),
    "ties": lambda n, m, rng: rng.integers(0, 3, (n, m)) * 1.0,
    "constant": lambda n, m, rng: np.full((n, m), 0.3),
    "zero": lambda n, m, rng: np.zeros((n, m)),
    "separable": lambda n, m, rng: rng.random((n, 1)) + rng.random(m),
    "rank one": lambda n, m, rng: rng.standard_normal((n, 1)) * rng.random(m),
    "offset": lambda n, m, rng: 1e6 + rng.random((n, m)),
    "huge": lambda n, m, rng: 1e290 * rng.random((n, m)),
    "tiny": lambda n, m, rng: 1e-290 * rng.random((n, m)),
    "of all orders": lambda n, m, rng: 10.0 ** rng.uniform(-15, 0, (n, m)),
}


def problem(shape, kind, rng):
    """Two lists of masses of equal sum."""
    p, q = (MASSES[kind](size, rng) for size in shape)
    return p / p.sum(), q / q.sum()


def plan_of(transport, shape):
    rows, cols, flows = transport.entries()
    assert len(flows) == shape[0] + shape[1] - 1 and (flows >= 0).all()
    assert len({*zip(rows, cols, strict=True)}) == len(flows)
    plan = np.zeros(shape)
    plan[rows, cols] = flows
    return plan


def assert_optimal(transport, cost, p, q):
    """Marginals, and potentials that certify the optimum; returns its value."""
    plan = plan_of(transport, cost.shape)
    for sums, expected in ((plan.sum(axis=1), p), (plan.sum(axis=0), q)):
        np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-15)
    f, g = transport.potentials()
    slack, largest = cost - f[:, None] - g, np.abs(cost).max()
    assert slack.min() >= -4 * ROUNDING * largest
    rows, cols, _ = transport.entries()
    assert np.abs(slack[rows, cols]).max() <= 4 * ROUNDING * largest
    value = np.vdot(cost, plan)
    assert abs(value - (f @ p + g @ q)) <= 1e-12 * largest
    return value


@pairwise(shape=mostly_slow(SHAPES + LARGE, fast=SHAPES), of_mass=MASSES, of_cost=COSTS, isa=ISAS)
def test_optima_are_certified_by_their_potentials(shape, of_mass, of_cost, isa, seed):
    rng = np.random.default_rng(seed)
    p, q = problem(shape, of_mass, rng)
    transport, cost = Transport(p, q), COSTS[of_cost](*shape, rng)
    transport.solve(cost)
    assert_optimal(transport, cost, p, q)
    assert transport.solve(cost) == 0


@pairwise(
    shape=SHAPES,
    of_mass=["uniform", "uneven", "whole"],
    of_cost=["random", "signed", "ties", "rank one", "huge", "tiny"],
)
def test_values_are_those_of_a_linear_program(shape, of_mass, of_cost, seed):
    rng = np.random.default_rng(seed)
    p, q = problem(shape, of_mass, rng)
    cost, values = COSTS[of_cost](*shape, rng), []
    for transport in (Transport(p, q), reference.Transport(p, q)):
        transport.solve(cost)
        rows, cols, flows = transport.entries()
        values.append(cost[rows, cols] @ flows)
    assert abs(values[0] - values[1]) <= 1e-9 * np.abs(cost).max()


@pytest.mark.parametrize("of_mass", MASSES)
def test_one_tree_serves_many_costs(of_mass, seed):
    rng = np.random.default_rng(seed)
    shape = 23, 31
    p, q = problem(shape, of_mass, rng)
    transport = Transport(p, q)
    for make in 5 * [*COSTS.values()]:
        cost = make(*shape, rng)
        transport.solve(cost)
        assert_optimal(transport, cost, p, q)


def test_near_costs_take_few_pivots():
    rng = np.random.default_rng(0)
    p, q = masses(80, rng), masses(90, rng)
    warm, cost = Transport(p, q), rng.random((80, 90))
    first = warm.solve(cost)
    cost = cost + 1e-3 * rng.random(cost.shape)
    assert warm.solve(cost) < first / 4
    cold = Transport(p, q)
    cold.solve(cost)
    assert assert_optimal(warm, cost, p, q) == pytest.approx(
        assert_optimal(cold, cost, p, q), rel=1e-12
    )


def test_points_on_two_lines_need_no_pivot():
    rng = np.random.default_rng(0)
    x, y, p, q = rng.random(40), rng.random(30), masses(40, rng), masses(30, rng)
    cost = (x[:, None] - y) ** 2
    transport = Transport(p, q)
    assert transport.solve(cost) == 0
    assert_optimal(transport, cost, p, q)


def test_equal_masses_stay_an_assignment():
    """Whole numbers: what carries mass at all carries that of a point."""
    rng, n = np.random.default_rng(0), 37
    transport = Transport(np.full(n, 1 / n), np.full(n, 1 / n))
    transport.solve(rng.random((n, n)))
    plan = plan_of(transport, (n, n))
    assert np.count_nonzero(plan > 1e-12) == n
    assert (plan > 0).sum(axis=1).max() == 1


@pytest.mark.parametrize("size", [1e-100, 0.3, 1e100])
def test_masses_of_any_sum_are_taken(size):
    rng = np.random.default_rng(0)
    p, q, cost = masses(9, rng), masses(7, rng), rng.random((9, 7))
    transport = Transport(size * p, size * q)
    assert transport.unit == pytest.approx(size / UNITS)
    transport.solve(cost)
    plan = plan_of(transport, cost.shape)
    np.testing.assert_allclose(plan.sum(axis=1), size * p, rtol=1e-14)


@pytest.mark.parametrize(
    "p, q",
    [
        ([0.5, 0.5], [1.0, 1e-5]),
        ([1.0, 0.0], [1.0]),
        ([1.5, -0.5], [1.0]),
        ([np.nan, 1.0], [1.0]),
        ([np.inf], [np.inf]),
    ],
)
def test_masses_that_are_none_are_refused(p, q):
    with pytest.raises(ValueError, match="masses must be positive and have equal sums"):
        Transport(np.array(p), np.array(q))


def test_costs_of_another_shape_are_refused_and_plans_of_none():
    transport = Transport(np.full(2, 0.5), np.full(3, 1 / 3))
    with pytest.raises(RuntimeError, match="before the first solve"):
        transport.entries()
    for shape in [(3, 3), (2, 4), (3, 2), (0, 0), (2, 0)]:
        with pytest.raises(ValueError, match="cost"):
            transport.solve(np.zeros(shape))

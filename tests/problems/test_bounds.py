"""Lower bounds of costs hold for any plan, and are those of Memoli for plain cases."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud, distances, gw_objective, masses, random_cost

from gwfast.kernels._transport import Transport
from gwfast.problems.bounds import PARTS, lower_bounds, signature
from gwfast.problems.geometry import DenseCost


def random_plans(p, q, seed):
    """The product plan, and vertices of transport."""
    yield np.multiply.outer(p, q)
    for k in range(5):
        cost = np.random.default_rng(seed + k).random((len(p), len(q)))
        transport = Transport(p, q)
        transport.solve(cost)
        rows, cols, entries = transport.entries()
        plan = np.zeros_like(cost)
        np.add.at(plan, (rows, cols), entries)
        yield plan


@pairwise(shape=[(1, 1), (1, 5), (4, 4), (7, 12), (20, 9)], kind=["metric", "asymmetric", "signed"])
def test_no_plan_costs_less(shape, kind):
    sides = [distances(cloud(size, 3, k)) for k, size in enumerate(shape)]
    if kind == "asymmetric":
        sides = [random_cost(n, k, symmetric=False) for k, n in enumerate(shape)]
    if kind == "signed":
        sides = [side - side.mean() for side in sides]
    given = [masses(size, k) for k, size in enumerate(shape)]
    pairs = zip(sides, given, strict=True)
    made = lower_bounds([signature(DenseCost(side), mass) for side, mass in pairs])
    assert made[0, 0] == made[1, 1] == 0.0
    assert made[0, 1] == made[1, 0]
    least = min(gw_objective(plan, *sides) for plan in random_plans(*given, 0))
    assert made[0, 1] <= least * (1 + 1e-12) + 1e-15


def test_the_bound_is_attained_by_spaces_of_one_cost():
    """All costs 1 against all costs 3, but on the diagonal."""
    n = 400
    one, two = np.ones((n, n)), 3 * np.ones((n, n))
    p = np.full(n, 1 / n)
    made = lower_bounds([signature(DenseCost(side), p) for side in (one, two)])
    assert made[0, 1] == pytest.approx(4.0)


def test_the_second_bound_is_the_distance_of_sorted_costs():
    """With as many pairs as parts there is nothing to average."""
    n = 16
    assert n * n == 2 * PARTS
    sides = [random_cost(n, k) for k in (0, 1)]
    p = np.full(n, 1 / n)
    made = lower_bounds([signature(DenseCost(side), p) for side in sides])
    ordered = [np.sort(side.ravel()).reshape(PARTS, 2).mean(axis=1) for side in sides]
    second = np.square(ordered[0] - ordered[1]).mean()
    spread = [np.sqrt(np.square(side).mean(axis=1)) for side in sides]
    repeated = [np.repeat(np.sort(one), PARTS // n) for one in spread]
    first = np.square(repeated[0] - repeated[1]).mean()
    assert made[0, 1] == pytest.approx(max(first, second), rel=1e-9)

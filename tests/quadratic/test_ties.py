"""Ties of the first linear program: which vertex is gone to, and when."""

import numpy as np
import pytest
from scipy.sparse import csgraph

from gwfast.problems.geometry import DenseCost
from gwfast.problems.quadratic import QuadraticProblem
from gwfast.quadratic.frank_wolfe import ExactLimits, FrankWolfe
from gwfast.utils.deadline import Deadline


def hops(rng, n, degree=3.0):
    """Hop distances of a random graph around a circle."""
    graph = np.triu(rng.random((n, n)) < degree / n, 1)
    graph[np.arange(n), (np.arange(n) + 1) % n] = True
    return csgraph.shortest_path(graph, directed=False, unweighted=True)


def problem_of(cost_x, cost_y, **more):
    sides = (DenseCost(cost, symmetric=True) for cost in (cost_x, cost_y))
    return QuadraticProblem(*sides, **more)


def solved(cost_x, cost_y, n_threads=1):
    solver = FrankWolfe(problem_of(cost_x, cost_y), n_threads)
    return solver.solve(None, ExactLimits())


def test_ends_are_below_those_from_the_product_plan_alone():
    rng, ends = np.random.default_rng(0), []
    for _ in range(8):
        cost_x, cost_y = hops(rng, 24), hops(rng, 20)
        product = np.full((24, 20), 1 / 480)
        alone = FrankWolfe(problem_of(cost_x, cost_y), 1).solve(product, ExactLimits())
        found = solved(cost_x, cost_y)
        assert found.gw_cost <= alone.gw_cost
        ends.append(found.gw_cost / alone.gw_cost)
    assert np.mean(ends) < 0.95


@pytest.mark.parametrize("seed", range(4))
def test_a_graph_is_matched_with_its_copy(seed):
    rng = np.random.default_rng(seed)
    cost, order = hops(rng, 40), rng.permutation(40)
    found = solved(cost, cost[np.ix_(order, order)])
    assert found.gw_cost == pytest.approx(0.0, abs=1e-9)


def test_the_plan_is_that_of_any_number_of_threads():
    rng = np.random.default_rng(3)
    costs = hops(rng, 150), hops(rng, 130)
    one, two = (solved(*costs, n_threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.plan, two.plan)


def test_a_search_that_is_late_goes_on_from_the_best_so_far():
    class Calls(Deadline):
        __slots__ = ()

        def passed(self, spare=0.0):
            self.at -= 1
            return self.at < 0

    rng, ends = np.random.default_rng(7), []
    solver = FrankWolfe(problem_of(hops(rng, 60), hops(rng, 50)), 1)
    for calls in (0, 1, 2, 20):
        found = solver.solve(None, ExactLimits(deadline=Calls(calls)))
        np.testing.assert_allclose(found.plan.sum(axis=0), 1 / 50, atol=1e-14)
        ends.append(found.gw_cost)
    # Of one trial, and of all that there are.
    assert ends[1] >= ends[2] >= ends[3]
    assert ends[0] > ends[3]


@pytest.mark.parametrize("masses", ["equal", "uneven", "some zero"])
def test_marginals_and_the_history_are_those_of_the_descent(masses):
    rng = np.random.default_rng(5)
    cost_x, cost_y = hops(rng, 25), hops(rng, 31)
    p, q = np.full(25, 1 / 25), np.full(31, 1 / 31)
    if masses != "equal":
        p = rng.random(25)
        if masses == "some zero":
            p[:4] = 0
        p /= p.sum()
    found = FrankWolfe(problem_of(cost_x, cost_y, p=p, q=q), 1).solve(None, ExactLimits())
    np.testing.assert_allclose(found.plan.sum(axis=1), p, atol=1e-14)
    np.testing.assert_allclose(found.plan.sum(axis=0), q, atol=1e-14)
    losses = [found.first, *found.trace[:, 0]]
    assert (np.diff(losses) < 0).all()
    assert losses[-1] == found.gw_cost

"""Ties of the first linear program of exact problems: which vertex is gone to, and when. The solver
is called directly, as the search of a public call hides from where it descends.
"""

import numpy as np
import pytest
from scipy.sparse import csgraph

import gwfast
from gwfast.quadratic.frank_wolfe import ExactLimits, FrankWolfe


def hops(rng, n):
    """Hop distances of a random graph around a circle."""
    graph = np.triu(rng.random((n, n)) < 3.0 / n, 1)
    graph[np.arange(n), (np.arange(n) + 1) % n] = True
    return csgraph.shortest_path(graph, directed=False, unweighted=True)


def solved(x, y, *masses, plan=None, n_threads=1):
    problem = gwfast.QuadraticProblem(x, y, *masses)
    return FrankWolfe(problem, n_threads).solve(plan, ExactLimits())


def test_ends_are_below_those_from_the_product_plan_alone():
    rng, ratios = np.random.default_rng(0), []
    for _ in range(8):
        costs = hops(rng, 24), hops(rng, 20)
        alone, found = solved(*costs, plan=np.full((24, 20), 1 / 480)), solved(*costs)
        assert found.gw_cost <= alone.gw_cost
        ratios.append(found.gw_cost / alone.gw_cost)
    assert np.mean(ratios) < 0.95


@pytest.mark.parametrize("seed", range(3))
def test_a_graph_is_matched_with_its_copy(seed):
    rng = np.random.default_rng(seed)
    cost, order = hops(rng, 40), rng.permutation(40)
    found = solved(cost, cost[np.ix_(order, order)])
    assert found.gw_cost == pytest.approx(0.0, abs=1e-9)


def test_marginals_and_the_history_are_those_of_the_descent():
    rng = np.random.default_rng(5)
    costs, p, q = (hops(rng, 25), hops(rng, 31)), rng.random(25), np.full(31, 1 / 31)
    p[:4] = 0
    p /= p.sum()
    found = solved(*costs, p, q)
    np.testing.assert_allclose(found.plan.sum(axis=1), p, atol=1e-14)
    np.testing.assert_allclose(found.plan.sum(axis=0), q, atol=1e-14)
    losses = [found.first, *found.trace[:, 0]]
    assert (np.diff(losses) < 0).all() and losses[-1] == found.gw_cost
    np.testing.assert_array_equal(solved(*costs, p, q, n_threads=2).plan, found.plan)

"""Ties of the first linear program of exact problems: which vertex is gone to, and when."""

import numpy as np
import pytest
from helpers.problems import steps
from helpers.tuned import AfterLooks, solve_tuned

import gwfast


def hops(rng, n):
    """Hop distances of a random graph around a circle."""
    graph = np.triu(rng.random((n, n)) < 3.0 / n, 1)
    graph[np.arange(n), (np.arange(n) + 1) % n] = True
    return steps(graph)


def solved(x, y, *masses, init="product", **options):
    return gwfast.gromov_wasserstein(x, y, *masses, epsilon=0, init=init, **options)


def test_ends_are_below_those_from_the_product_plan_alone():
    rng, ratios = np.random.default_rng(0), []
    for _ in range(8):
        costs = hops(rng, 24), hops(rng, 20)
        alone, found = solved(*costs, init=np.full((24, 20), 1 / 480)), solved(*costs)
        assert found.gw_cost <= alone.gw_cost
        ratios.append(found.gw_cost / alone.gw_cost)
    assert np.mean(ratios) < 0.95


@pytest.mark.parametrize("seed", range(3))
def test_a_graph_is_matched_with_its_copy(seed):
    rng = np.random.default_rng(seed)
    cost, order = hops(rng, 40), rng.permutation(40)
    assert solved(cost, cost[np.ix_(order, order)]).gw_cost == pytest.approx(0.0, abs=1e-9)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_a_search_that_is_late_has_the_best_so_far():
    rng = np.random.default_rng(7)
    problem, ends = gwfast.QuadraticProblem(hops(rng, 60), hops(rng, 50)), []
    for looks in (3, 5, 100):
        found = solve_tuned(problem, deadline=AfterLooks(looks), epsilon=0, init="product")
        np.testing.assert_allclose(found.plan.sum(axis=0), 1 / 50, atol=1e-14)
        ends.append(found.gw_cost)
    assert ends[0] >= ends[1] >= ends[2] and ends[0] > ends[2]


def test_the_history_is_the_one_of_the_best_descent():
    rng = np.random.default_rng(5)
    costs, p, q = (hops(rng, 25), hops(rng, 31)), rng.random(25), np.full(31, 1 / 31)
    p[:4] = 0
    p /= p.sum()
    found = solved(*costs, p, q)
    np.testing.assert_allclose(found.plan.sum(axis=1), p, atol=1e-14)
    losses = [step.gw_cost for step in found.history]
    assert (np.diff(losses) < 0).all() and losses[-1] == found.gw_cost
    np.testing.assert_array_equal(solved(*costs, p, q, n_threads=2).plan, found.plan)

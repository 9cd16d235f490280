"""Ties of the first linear program: which vertex is gone to, and when."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csgraph

from gwfast.problems.geometry import DenseCost
from gwfast.problems.quadratic import QuadraticProblem
from gwfast.quadratic import ties
from gwfast.quadratic.conditional_gradient import ConditionalGradient, ExactLimits
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
    solver = ConditionalGradient(problem_of(cost_x, cost_y), n_threads)
    return solver.solve(None, ExactLimits())


def centered(cost):
    return cost - cost.mean(axis=0) - cost.mean(axis=1)[:, None] + cost.mean()


def twin(cost_x, cost_y):
    """The rule by other means, for uniform masses: the best assignment by secondary
    costs among those that match the points by their mean distances, and of the signs of
    the secondary costs those that lead lowest: where one step does."""
    n = len(cost_x)
    cost = -np.outer(cost_x.sum(axis=1), cost_y.sum(axis=1))
    parts = []
    for one in (cost_x, cost_y):
        values, vectors = np.linalg.eigh(-centered(one))
        vectors = vectors[:, ::-1][:, : ties.N_DIRECTIONS]
        peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
        parts.append((values[::-1][: ties.N_DIRECTIONS], vectors * np.sign(peaks)))
    (sizes, rows), (others, cols) = parts
    signs, best = np.ones(ties.N_DIRECTIONS), None
    for flipped in range(-1, ties.N_DIRECTIONS):
        trial = signs.copy()
        if flipped >= 0:
            trial[flipped] *= -1
        # Of a sign with the eigenvalues of the first space, which has minus its costs.
        secondary = (rows * (trial * sizes * others)) @ cols.T
        # Whole numbers, which the secondary costs do not add up to in all.
        small = secondary / (4 * n * np.abs(secondary).max())
        plan = np.zeros((n, n))
        plan[linear_sum_assignment(cost + small)] = 1 / n
        found = one_step(cost_x, cost_y, plan)
        if best is None or found[0] < best[0]:
            best, signs = found, trial
    return best


def one_step(cost_x, cost_y, vertex):
    """Objective and plan at the end of the best step from the product plan."""
    plan = np.full_like(vertex, 1 / vertex.size)
    constant = (cost_x**2).mean() + (cost_y**2).mean()

    def between(one, other):
        return -2 * np.vdot(cost_x @ one @ cost_y, other)

    way = vertex - plan
    slope, curved = 2 * between(plan, way), between(way, way)
    size = min(1.0, -slope / (2 * curved)) if curved > 0 else 1.0
    value = constant + between(plan, plan) + size * slope + size**2 * curved
    return value, plan + size * way


@pytest.mark.parametrize("n", [17, 24, 41])
def test_of_vertices_that_tie_that_of_the_secondary_costs_is_gone_to(n):
    rng = np.random.default_rng(n)
    costs = hops(rng, n), hops(rng, n)
    solver = ConditionalGradient(problem_of(*costs), 1)
    found = solver.solve(None, ExactLimits(max_outer=1))
    value, plan = twin(*costs)
    assert found.gw_cost == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.plan, plan, atol=1e-12)


def test_the_first_step_leads_to_an_optimum_of_its_linear_program():
    rng = np.random.default_rng(0)
    costs = hops(rng, 30), hops(rng, 30)
    solver = ConditionalGradient(problem_of(*costs), 1)
    first = solver.solve(None, ExactLimits(max_outer=1)).plan
    means = [np.sort(cost.mean(axis=1)) for cost in costs]
    reached = costs[0].mean(axis=1) @ first @ costs[1].mean(axis=1)
    assert reached == pytest.approx(means[0] @ means[1] / 30, rel=1e-12)


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
    solver = ConditionalGradient(problem_of(hops(rng, 60), hops(rng, 50)), 1)
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
    losses = []
    solver = ConditionalGradient(problem_of(cost_x, cost_y, p=p, q=q), 1)
    found = solver.solve(None, ExactLimits(), report=losses.append)
    np.testing.assert_allclose(found.plan.sum(axis=1), p, atol=1e-14)
    np.testing.assert_allclose(found.plan.sum(axis=0), q, atol=1e-14)
    assert len(losses) == len(found.trace) + 1
    assert (np.diff(losses) < 0).all()
    assert losses[-1] == found.gw_cost


def test_where_nothing_ties_nothing_is_looked_for(monkeypatch):
    monkeypatch.setattr(ties, "break_ties", None)
    rng = np.random.default_rng(1)
    spaces = (rng.normal(size=(n, 2)) for n in (20, 23))
    costs = (np.linalg.norm(x[:, None] - x, axis=2) for x in spaces)
    assert solved(*costs).gw_cost > 0
    with pytest.raises(TypeError):  # as there is no such function
        solved(hops(rng, 20), hops(rng, 20))

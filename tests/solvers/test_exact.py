"""Exact problems: `epsilon=0`, by conditional gradient; and spaces that are the same but for the
order of their points.
"""

import itertools

import networkx
import numpy as np
import pytest
from helpers import random_problems
from helpers.marks import mostly_slow
from helpers.problems import cloud, distances, masses, random_cost, settings, steps

import gwfast
from gwfast import QuadraticProblem, gromov_wasserstein, pot

SEMIRELAXED = dict(marginals="semirelaxed")
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def solve(*sides, **options):
    return gromov_wasserstein(*sides, **settings(**{"epsilon": 0, "n_threads": 1} | options))


def pair(n=20, m=15):
    return distances(cloud(n, 2, 1)), distances(cloud(m, 2, 2))


def objective(plan, x, y):
    """The objective by the marginals of the plan; the mean of the costs is taken from them."""
    shift = (x.mean() + y.mean()) / 2
    x, y = x - shift, y - shift
    p, q = plan.sum(axis=1), plan.sum(axis=0)
    return p @ x**2 @ p + q @ y**2 @ q - 2 * np.vdot(x @ plan @ y.T, plan)


def magnitude(*costs):
    shift = sum(cost.mean() for cost in costs) / 2
    return sum(np.abs(cost - shift).max() for cost in costs) ** 2


def random_problem(seed):
    rng = np.random.default_rng(seed)
    problem = QuadraticProblem(*random_problems.sides(rng)[0])
    x, y = (side.to_dense().matrix.astype(float) for side in (problem.x, problem.y))
    if seed % 5 == 0:  # the same points in another order
        order = rng.permutation(len(x))
        y = x[np.ix_(order, order)]
    problem = QuadraticProblem(x, y, *(random_problems.masses(len(one), rng) for one in (x, y)))
    return x, y, problem.p, problem.q


def assert_sound(result, x, y, p, q):
    """A valid plan, whose gap and objective are as reported."""
    plan = result.plan
    assert plan.dtype == np.float64 and np.isfinite(plan).all() and (plan >= 0).all()
    rows, cols = np.abs(plan.sum(axis=1) - p).max(), np.abs(plan.sum(axis=0) - q).max()
    assert max(rows, cols, result.marginal_error / (len(p) + len(q))) < 1e-12
    size = magnitude(x, y)
    assert abs(result.gw_cost - objective(plan, x, y)) <= 1e-11 * size
    assert result.reg_cost == result.gw_cost and result.epsilon == 0
    assert result.method == "cg" and result.gap >= 0 and result.n_iter == len(result.history)
    assert result.status in ("converged", "max_iter", "uncertain", "degenerate")
    if result.converged:
        assert result.gap <= 1e-5 * abs(result.gw_cost) + 1e-12 * size
    values = [step.gw_cost for step in result.history]
    assert all(b <= a + 1e-13 * size for a, b in itertools.pairwise(values))
    for side, weights in zip(result.potentials, (p, q), strict=True):
        assert (np.isfinite(side) == (weights > 0)).all()


@pytest.mark.parametrize("block", mostly_slow(range(12), fast=range(3)))
def test_random_problems_end_as_their_status_says(block):
    for seed in range(20 * block, 20 * block + 20):
        x, y, p, q = random_problem(seed)
        result = solve(x, y, p, q, init="product", max_iter=300)
        assert_sound(result, x, y, p, q)
        if seed % 20 == 0:
            best = solve(x, y, p, q, max_iter=300, n_starts=3)
            assert_sound(best, x, y, p, q)
            assert best.gw_cost <= result.gw_cost + 1e-13 * magnitude(x, y)


def test_rounding_makes_no_cost_asymmetric():
    x, y = pair()
    noise = 1e-8 * np.random.default_rng(0).standard_normal(x.shape)
    plain, noisy = solve(x, y, init="product"), solve(x + noise, y, init="product")
    assert noisy.gw_cost == pytest.approx(plain.gw_cost, rel=1e-6)
    assert noisy.gw_cost == pytest.approx(objective(noisy.plan, x + noise, y), rel=1e-9)


@pytest.mark.parametrize("options", [{}, dict(init="product"), SEMIRELAXED])
def test_vertices_are_sparse(options):
    result = solve(*pair(), **options)
    sparse = result.coupling.tocsr(0.0)
    assert result.gap <= 1e-5 * result.gw_cost and sparse.nnz < 20 + 15
    np.testing.assert_array_equal(sparse.toarray(), result.plan)
    # Equal masses are assigned one to one.
    plan = solve(*pair(25, 25), **options | dict(marginals="balanced")).plan
    assert np.count_nonzero(plan > 1e-15) == 25
    np.testing.assert_allclose(plan.max(axis=1), 1 / 25, rtol=1e-13)


def test_an_optimum_stays_as_it_is():
    best = solve(*pair(), epsilon=gwfast.Epsilon(value=0), dtype="float64", tier="dense")
    again = solve(*pair(), init=best.plan)
    assert again.converged and again.n_iter <= 1
    np.testing.assert_allclose(again.plan, best.plan, atol=1e-15)
    assert again.gw_cost == pytest.approx(best.gw_cost, rel=1e-13)


# Plans of other marginals are mended.
PLANS = np.ones((20, 15)), np.eye(20, 15), 1e-200 * np.eye(20, 15)


@pytest.mark.parametrize("init", ["random", "profile", gwfast.Seeds([(0, 1), (3, 2)]), *PLANS])
def test_other_starts_are_taken(init):
    result = solve(*pair(), init=init)
    assert_sound(result, *pair(), np.full(20, 1 / 20), np.full(15, 1 / 15))
    assert not result.candidates


@pytest.mark.parametrize("init", ["product", "auto"])
def test_callbacks_see_every_step(init):
    seen, plans = [], []

    def look(step):
        seen.append(step)
        plans.append(step.coupling.toarray().copy())

    result, plain = solve(*pair(), init=init, callback=look), solve(*pair(), init=init)
    assert [step.iteration for step in seen] == [*range(1, plain.n_iter + 1)]
    np.testing.assert_array_equal(plans[-1], result.plan)
    np.testing.assert_array_equal(plain.plan, result.plan)
    assert seen[-1].gw_cost == result.gw_cost == result.history[-1].gw_cost
    for step, plan in zip(seen, plans, strict=True):
        assert step.gw_cost == pytest.approx(objective(plan, *pair()), rel=1e-11)
    stopped = solve(*pair(), init=init, callback=lambda step: True)
    assert stopped.status == "stopped" and stopped.n_iter == 1 and stopped.marginal_error < 1e-14


def links(graph):
    return networkx.to_numpy_array(graph)


def ring(n, *jumps):
    return links(networkx.circulant_graph(n, jumps or [1]))


# Both have 16 nodes with 6 neighbors each; two nodes have 2 neighbors in common.
ROOK = links(networkx.line_graph(networkx.complete_bipartite_graph(4, 4)))
TURN = np.roll(np.eye(4), 1, 1)
TORUS = np.kron(ring(4), np.eye(4)) + np.kron(np.eye(4), ring(4))
SHRIKHANDE = TORUS + np.kron(TURN, TURN) + np.kron(TURN.T, TURN.T)
GRAPHS = {
    "cycle": ring(37),
    "circulant": ring(30, 1, 5),
    "grid": links(networkx.grid_graph([5, 5])),
    "torus": links(networkx.grid_graph([5, 6], periodic=True)),
    "hypercube": links(networkx.hypercube_graph(5)),
    "barbell": links(networkx.barbell_graph(6, 3)),
    "bipartite": links(networkx.complete_bipartite_graph(10, 10)),
    "Paley": ring(29, *{k**2 % 29 for k in range(1, 15)}),
    "rook": ROOK,
    "tree": links(networkx.balanced_tree(2, 4)),
    "copies": np.kron(ring(5), np.eye(5)) + np.kron(np.eye(5), 1.0 - np.eye(5)),
    "regular": links(networkx.random_regular_graph(3, 40, seed=0)),
}
# The one has no automorphism; of the other entropy makes one optimum of all.
STATUSES = {"regular": ["converged"], "tree": ["uncertain", "converged"]}


def permuted(cost):
    order = np.random.default_rng(0).permutation(len(cost))
    return cost[np.ix_(order, order)], order


def is_zero(costs, cost):
    return np.abs(costs).max() <= 1e-13 * np.square(cost).mean()


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("measure", [np.asarray, steps])
def test_copies_are_found(name, measure):
    cost = measure(GRAPHS[name])
    copy, order = permuted(cost)
    color = np.arange(len(cost)) % 3
    features, linear = [np.eye(3)[color], np.eye(3)[color[order]]], color[:, None] != color[order]
    pairwise = gwfast.pairwise_gromov_wasserstein
    costs = [
        solve(cost, copy).gw_cost,
        pot.gromov_wasserstein2(cost, cost),
        pot.gromov_wasserstein2(cost, copy),
        pot.fused_gromov_wasserstein2(1.0 * linear, cost, copy),
        pot.semirelaxed_gromov_wasserstein2(cost, copy),
        pot.partial_gromov_wasserstein2(cost, copy, m=0.7),
        pairwise([cost, copy]).costs[0, 1],
        pairwise([cost, copy], features=features).costs[0, 1],
    ]
    assert is_zero(costs, cost) and min(costs[:3]) >= 0
    entropic = gromov_wasserstein(cost, copy, n_threads=1)
    match = np.eye(len(order))[:, order]
    known = gromov_wasserstein(cost, copy, init=match, n_threads=1)
    assert entropic.reg_cost - known.reg_cost <= 1e-3 * np.square(cost).mean()
    assert entropic.status in STATUSES.get(name, ["uncertain"])


@pytest.mark.parametrize(
    "cost", [random_cost(15, 0), random_cost(15, 0, symmetric=False), GRAPHS["bipartite"]]
)
def test_points_are_matched_with_their_masses(cost):
    (copy, order), p = permuted(cost), masses(len(cost), 1)
    result = solve(cost, copy, p, p[order])
    np.testing.assert_allclose(result.plan, np.diag(p)[:, order])
    assert is_zero(result.gw_cost, cost) and result.confidence == 1
    # Neither other masses nor transposed costs are the same.
    assert solve(cost, copy, p, p[::-1]).gw_cost > 1e-4
    assert is_zero(solve(cost, copy.T).gw_cost, cost) == np.array_equal(cost, cost.T)


@pytest.mark.parametrize("size", [1e-14, 1e-6])
def test_rounding_is_no_difference_and_noise_is_one(size):
    cost = 1e12 * distances(cloud(20, 2, 0))
    copy, order = permuted(cost)
    other = solve(cost, copy + size * cost.max() * random_cost(20, 1))
    assert (other.plan.argmax(axis=0) == order).all()
    assert (other.confidence == 1) == (size == 1e-14)


REGULAR = [links(networkx.random_regular_graph(3, 20, seed=seed)) for seed in (1, 2)]
TRIANGLES = np.kron(np.eye(2), ring(3))


@pytest.mark.parametrize(
    "x, y", [(ROOK, SHRIKHANDE), (TRIANGLES, ring(6)), REGULAR, (ring(8), ring(9))]
)
def test_graphs_that_differ_are_apart(x, y):
    result = solve(x, y)
    assert result.gw_cost > 1e-3 and result.confidence < 1


@pytest.mark.parametrize("options", [{}, SEMIRELAXED, dict(marginals=gwfast.Partial(0.5))])
def test_linear_costs_allow_pairs_that_cost_nothing(options):
    cost = steps(GRAPHS["tree"])
    (copy, order), color = permuted(cost), np.arange(31) % 2
    linear = 1.0 * (color[:, None] != color[order])
    assert is_zero(solve(cost, copy, **options).gw_cost, cost)
    result = solve(cost, copy, linear_cost=linear, **options)
    assert is_zero(result.gw_cost, cost) and np.vdot(result.plan, linear) == 0
    # Where no pair costs nothing, or a pair costs less, zero is not the least.
    assert solve(cost, copy, linear_cost=linear + 1, **options).gw_cost > 0.2
    assert solve(cost, copy, linear_cost=-linear, **options).gw_cost < -0.01

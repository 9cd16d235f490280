"""Spaces that are the same but for the order of their points."""

import networkx
import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost, steps

import gwfast
from gwfast import pot

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")  # of ties


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
RULES = [{}, dict(marginals="semirelaxed"), dict(marginals=gwfast.Partial(0.5))]


def permuted(cost):
    order = np.random.default_rng(0).permutation(len(cost))
    return cost[np.ix_(order, order)], order


def exact(*sides, **options):
    return gwfast.gromov_wasserstein(*sides, epsilon=0, n_threads=1, **options)


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
        exact(cost, copy).gw_cost,
        pot.gromov_wasserstein2(cost, cost),
        pot.gromov_wasserstein2(cost, copy),
        pot.fused_gromov_wasserstein2(1.0 * linear, cost, copy),
        pot.semirelaxed_gromov_wasserstein2(cost, copy),
        pot.partial_gromov_wasserstein2(cost, copy, m=0.7),
        pairwise([cost, copy]).costs[0, 1],
        pairwise([cost, copy], features=features).costs[0, 1],
    ]
    assert is_zero(costs, cost) and min(costs[:3]) >= 0
    entropic = gwfast.gromov_wasserstein(cost, copy, n_threads=1)
    match = np.eye(len(order))[:, order]
    known = gwfast.gromov_wasserstein(cost, copy, init=match, n_threads=1)
    assert entropic.reg_cost - known.reg_cost <= 1e-3 * np.square(cost).mean()
    assert entropic.status in STATUSES.get(name, ["uncertain"])


@pytest.mark.parametrize(
    "cost", [random_cost(15, 0), random_cost(15, 0, symmetric=False), GRAPHS["bipartite"]]
)
def test_points_are_matched_with_their_masses(cost):
    (copy, order), p = permuted(cost), masses(len(cost), 1)
    result = exact(cost, copy, p, p[order])
    np.testing.assert_allclose(result.plan, np.diag(p)[:, order])
    assert is_zero(result.gw_cost, cost) and result.confidence == 1
    # Neither other masses nor transposed costs are the same.
    assert exact(cost, copy, p, p[::-1]).gw_cost > 1e-4
    assert is_zero(exact(cost, copy.T).gw_cost, cost) == np.array_equal(cost, cost.T)


@pytest.mark.parametrize("size", [1e-14, 1e-6])
def test_rounding_is_no_difference_and_noise_is_one(size):
    cost = 1e12 * distances(cloud(20, 2, 0))
    copy, order = permuted(cost)
    other = exact(cost, copy + size * cost.max() * random_cost(20, 1))
    assert (other.plan.argmax(axis=0) == order).all()
    assert (other.confidence == 1) == (size == 1e-14)


REGULAR = [links(networkx.random_regular_graph(3, 20, seed=seed)) for seed in (1, 2)]
TRIANGLES = np.kron(np.eye(2), ring(3))


@pytest.mark.parametrize(
    "x, y", [(ROOK, SHRIKHANDE), (TRIANGLES, ring(6)), REGULAR, (ring(8), ring(9))]
)
def test_graphs_that_differ_are_apart(x, y):
    result = exact(x, y)
    assert result.gw_cost > 1e-3 and result.confidence < 1


@pytest.mark.parametrize("options", RULES)
def test_linear_costs_allow_pairs_that_cost_nothing(options):
    cost = steps(GRAPHS["tree"])
    (copy, order), color = permuted(cost), np.arange(31) % 2
    linear = 1.0 * (color[:, None] != color[order])
    assert is_zero(exact(cost, copy, **options).gw_cost, cost)
    result = exact(cost, copy, linear_cost=linear, **options)
    assert is_zero(result.gw_cost, cost) and np.vdot(result.plan, linear) == 0
    # Where no pair costs nothing, or a pair costs less, zero is not the least.
    assert exact(cost, copy, linear_cost=linear + 1, **options).gw_cost > 0.2
    assert exact(cost, copy, linear_cost=-linear, **options).gw_cost < -0.01

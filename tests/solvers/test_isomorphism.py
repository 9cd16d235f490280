"""Spaces that are the same but for the order of their points."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost, steps

import gwfast
from gwfast import pot

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")  # of ties


def ring(n, *jumps):
    apart = np.subtract.outer(np.arange(n), np.arange(n)) % n
    return 1.0 * np.isin(np.minimum(apart, n - apart), jumps or (1,))


def product(a, b):
    return np.kron(a, np.eye(len(b))) + np.kron(np.eye(len(a)), b)


def path(n):
    return np.eye(n, k=1) + np.eye(n, k=-1)


def tree(n):
    links, nodes = np.zeros((n, n)), np.arange(1, n)
    links[(nodes - 1) // 2, nodes] = 1
    return links + links.T


def regular(n, seed):
    """Three edges at each node, and as a rule no automorphism."""
    rng = np.random.default_rng(seed)
    while True:
        ends = rng.permutation(np.repeat(np.arange(n), 3)).reshape(-1, 2)
        links = np.zeros((n, n))
        np.add.at(links, tuple(ends.T), 1)
        links += links.T
        if links.max() == 1 and not links.diagonal().any():
            return links


EDGE = path(2)
# Both have 16 nodes with 6 neighbors each; two nodes have 2 neighbors in common.
ROOK = product(1.0 - np.eye(4), 1.0 - np.eye(4))
TURN = np.roll(np.eye(4), 1, 1)
SHRIKHANDE = product(ring(4), ring(4)) + np.kron(TURN, TURN) + np.kron(TURN.T, TURN.T)
GRAPHS = {
    "cycle": ring(37),
    "circulant": ring(30, 1, 5),
    "grid": product(path(5), path(5)),
    "torus": product(ring(5), ring(6)),
    "hypercube": product(product(ring(4), ring(4)), EDGE),
    "bipartite": np.kron(EDGE, np.ones((10, 10))),
    "Paley": ring(29, *(np.arange(1, 15) ** 2 % 29), *(-(np.arange(1, 15) ** 2) % 29)),
    "rook": ROOK,
    "tree": tree(31),
    "copies": np.kron(ring(5), np.eye(5)) + np.kron(np.eye(5), 1.0 - np.eye(5)),
    "regular": regular(40, 0),
}
# The one has no automorphism; of the other entropy makes one optimum of all.
STATUSES = {"regular": ["converged"], "tree": ["uncertain", "converged"]}
RULES = [{}, dict(marginals="semirelaxed"), dict(marginals=gwfast.Partial(0.5))]


def permuted(cost, seed=0):
    order = np.random.default_rng(seed).permutation(len(cost))
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
    linear = 1.0 * (color[:, None] != color[order])
    pairwise = gwfast.pairwise_gromov_wasserstein
    features = [np.eye(3)[color], np.eye(3)[color[order]]]
    costs = [
        exact(cost, copy).gw_cost,
        pot.gromov_wasserstein2(cost, cost),
        pot.gromov_wasserstein2(cost, copy),
        pot.fused_gromov_wasserstein2(linear, cost, copy),
        pot.semirelaxed_gromov_wasserstein2(cost, copy),
        pot.partial_gromov_wasserstein2(cost, copy, m=0.7),
        pairwise([cost, copy]).costs[0, 1],
        pairwise([cost, copy], features=features).costs[0, 1],
    ]
    assert is_zero(costs, cost)
    entropic = gwfast.gromov_wasserstein(cost, copy, n_threads=1)
    match = np.eye(len(order))[:, order]
    known = gwfast.gromov_wasserstein(cost, copy, init=match, n_threads=1)
    assert entropic.reg_cost - known.reg_cost <= 1e-3 * np.square(cost).mean()
    assert entropic.status in STATUSES.get(name, ["uncertain"])


@pytest.mark.parametrize(
    "cost, size",
    [(random_cost(15, 0), 1), (random_cost(15, 0, symmetric=False), 1), (GRAPHS["bipartite"], 0)],
)
def test_points_are_matched_with_their_masses(cost, size):
    n = len(cost)
    (copy, order), p = permuted(cost), masses(n, 1)
    result = exact(cost, copy, p, p[order])
    np.testing.assert_allclose(result.plan, (p[:, None] * np.eye(n))[:, order])
    assert is_zero(result.gw_cost, cost) and result.confidence == 1
    # Points of other masses are not the same, nor are transposed costs.
    assert not size or exact(cost, copy, p, p).gw_cost > 1e-3
    is_same = is_zero(exact(cost, copy.T).gw_cost, cost)
    assert is_same == np.array_equal(cost, cost.T)


def test_rounding_is_no_difference_and_noise_is_one():
    cost = 1e12 * distances(cloud(20, 2, 0))
    copy, order = permuted(cost)
    for size, confidence in ((1e-14, 1.0), (1e-6, None)):
        other = exact(cost, copy + size * cost.max() * random_cost(20, 1))
        assert (other.plan.argmax(axis=0) == order).all()
        assert (other.confidence == 1) == (confidence == 1)


@pytest.mark.parametrize(
    "sides",
    [
        (ROOK, SHRIKHANDE),
        (np.kron(np.eye(2), ring(3)), ring(6)),
        (regular(20, 1), regular(20, 2)),
        (ring(8), ring(9)),
    ],
)
def test_graphs_that_differ_are_apart(sides):
    result = exact(*sides)
    assert result.gw_cost > 1e-3 and result.confidence < 1


def test_large_copies_are_found():
    cost = steps(ring(330))
    result = exact(cost, permuted(cost)[0])
    assert is_zero(result.gw_cost, cost)
    assert result.status == "uncertain" and result.confidence == 1


@pytest.mark.parametrize("options", RULES)
def test_linear_costs_allow_pairs_that_cost_nothing(options):
    cost = steps(tree(31))
    copy, order = permuted(cost)
    color = np.arange(31) % 2
    linear = 1.0 * (color[:, None] != color[order])
    assert is_zero(exact(cost, copy, **options).gw_cost, cost)
    result = exact(cost, copy, linear_cost=linear, **options)
    assert is_zero(result.gw_cost, cost) and np.vdot(result.plan, linear) == 0
    # Where no pair costs nothing, or a pair costs less, zero is not the least.
    assert exact(cost, copy, linear_cost=linear + 1, **options).gw_cost > 0.2
    assert exact(cost, copy, linear_cost=-linear, **options).gw_cost < -0.01

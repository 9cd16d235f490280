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


def tree(n):
    links = np.zeros((n, n))
    nodes = np.arange(1, n)
    links[(nodes - 1) // 2, nodes] = 1
    return links + links.T


def regular(n, seed):
    """Three edges at each node, and as a rule no automorphism."""
    rng = np.random.default_rng(seed)
    while True:
        ends = rng.permutation(np.repeat(np.arange(n), 3)).reshape(-1, 2)
        made = np.zeros((n, n))
        np.add.at(made, tuple(ends.T), 1)
        made += made.T
        if made.max() == 1 and not made.diagonal().any():
            return made


edge, whole = np.array([[0.0, 1.0], [1.0, 0.0]]), 1.0 - np.eye(5)
# Both have 16 nodes with 6 neighbors each; two nodes have 2 neighbors in common.
ROOK = product(1.0 - np.eye(4), 1.0 - np.eye(4))
SHRIKHANDE = product(ring(4), ring(4)) + np.kron(np.roll(np.eye(4), 1, 1), np.roll(np.eye(4), 1, 1))
SHRIKHANDE += np.kron(np.roll(np.eye(4), -1, 1), np.roll(np.eye(4), -1, 1))
GRAPHS = {
    "cycle": ring(37),
    "circulant": ring(30, 1, 5),
    "grid": product(np.diag(np.ones(4), 1), np.diag(np.ones(4), 1)),
    "torus": product(ring(5), ring(6)),
    "hypercube": product(product(ring(4), ring(4)), edge),
    "bipartite": np.kron(edge, np.ones((10, 10))),
    "Paley": ring(29, *(np.arange(1, 15) ** 2 % 29), *(-(np.arange(1, 15) ** 2) % 29)),
    "rook": ROOK,
    "tree": tree(31),
    "copies": np.kron(ring(5), np.eye(5)) + np.kron(np.eye(5), whole),
    "regular": regular(40, 0),
}
# The one has no automorphism; of the other entropy makes one optimum of all.
STATUSES = {"regular": ["converged"], "tree": ["uncertain", "converged"]}
RULES = dict(marginals="semirelaxed"), dict(marginals=gwfast.Partial(0.5))
GRAPHS["grid"] = np.maximum(GRAPHS["grid"], GRAPHS["grid"].T)


def isomorphism(*sides, **options):
    """The plan of an isomorphism that the exact search finds, or None."""
    result = gwfast.gromov_wasserstein(*sides, epsilon=0, n_threads=1, **options)
    found = [row.start for row in result.candidates] == ["isomorphism"]
    return result.plan if found else None


def permuted(cost, seed=0):
    order = np.random.default_rng(seed).permutation(len(cost))
    return cost[np.ix_(order, order)], order


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", ["edges", "steps"])
def test_searches_find_permuted_copies(name, kind):
    cost = GRAPHS[name] if kind == "edges" else steps(GRAPHS[name])
    copy, order = permuted(cost)
    size = np.square(cost).mean()
    exact = gwfast.gromov_wasserstein(cost, copy, epsilon=0, n_threads=1)
    assert abs(exact.gw_cost) <= 1e-13 * size
    assert [row.start for row in exact.candidates] == ["isomorphism"]
    entropic = gwfast.gromov_wasserstein(cost, copy, n_threads=1)
    truth = np.eye(len(order))[:, order]
    other = gwfast.gromov_wasserstein(cost, copy, init=truth, n_threads=1)
    assert entropic.reg_cost - other.reg_cost <= 1e-3 * size
    assert entropic.status in STATUSES.get(name, ["uncertain"])


@pytest.mark.parametrize("symmetric", [True, False])
def test_matches_points_of_any_masses_and_costs(symmetric):
    cost, p = random_cost(15, 0, symmetric=symmetric), masses(15, 1)
    copy, order = permuted(cost)
    plan = isomorphism(cost, copy, p, p[order])
    np.testing.assert_allclose(plan, (p[:, None] * np.eye(15))[:, order])
    assert isomorphism(cost, copy, p, p) is None
    assert (isomorphism(cost, copy.T) is None) == (not symmetric)


def test_points_of_other_masses_are_no_twins():
    cost, p = GRAPHS["bipartite"], masses(20, 1)
    copy, order = permuted(cost)
    plan = isomorphism(cost, copy, p, p[order])
    np.testing.assert_allclose(plan, (p[:, None] * np.eye(20))[:, order])


def test_rounding_is_no_difference_and_noise_is_one():
    cost = 1e12 * distances(cloud(20, 2, 0))
    copy, _ = permuted(cost)
    noise = random_cost(20, 1)
    for size, found in ((1e-14, True), (1e-6, False)):
        other = copy + size * cost.max() * noise
        assert (isomorphism(cost, other) is not None) == found


@pytest.mark.parametrize(
    "sides",
    [
        (ROOK, SHRIKHANDE),
        (np.kron(np.eye(2), ring(3)), ring(6)),
        (regular(20, 1), regular(20, 2)),
        (ring(8), ring(9)),
    ],
)
def test_graphs_that_differ_have_none(sides):
    assert isomorphism(*sides) is None


def test_large_copies_are_found():
    cost = steps(ring(330))
    result = gwfast.gromov_wasserstein(cost, permuted(cost)[0], epsilon=0, n_threads=1)
    assert abs(result.gw_cost) <= 1e-13 * np.square(cost).mean()
    assert result.status == "uncertain" and result.confidence == 1


@pytest.mark.parametrize("options", [{}, *RULES])
def test_linear_costs_allow_pairs_that_cost_nothing(options):
    cost = steps(GRAPHS["tree"])
    copy, order = permuted(cost)
    color = np.arange(31) % 2
    linear = 1.0 * (color[:, None] != color[order])
    given = dict(linear_cost=linear, epsilon=0, n_threads=1)
    result = gwfast.gromov_wasserstein(cost, copy, **given, **options)
    assert abs(result.gw_cost) <= 1e-13 * np.square(cost).mean()
    assert np.vdot(result.plan, linear) == 0
    for other in (linear + 1, -linear):
        assert isomorphism(cost, copy, linear_cost=other, **options) is None


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", ["edges", "steps"])
def test_all_exact_functions_find_copies(name, kind):
    cost = GRAPHS[name] if kind == "edges" else steps(GRAPHS[name])
    copy, order = permuted(cost)
    color = np.arange(len(cost)) % 3
    linear = 1.0 * (color[:, None] != color[order])
    costs = [
        pot.gromov_wasserstein2(cost, cost),
        pot.gromov_wasserstein2(cost, copy),
        pot.fused_gromov_wasserstein2(linear, cost, copy),
        pot.semirelaxed_gromov_wasserstein2(cost, copy),
        pot.partial_gromov_wasserstein2(cost, copy, m=0.7),
        gwfast.pairwise_gromov_wasserstein([cost, copy]).costs[0, 1],
        gwfast.pairwise_gromov_wasserstein(
            [cost, copy], features=[np.eye(3)[color], np.eye(3)[color[order]]]
        ).costs[0, 1],
    ]
    assert np.abs(costs).max() <= 1e-13 * np.square(cost).mean()


@pytest.mark.parametrize("rule", RULES)
def test_other_marginals_end_where_balanced_ones_do(rule):
    cost = steps(GRAPHS["tree"])
    copy, _ = permuted(cost)
    result = gwfast.gromov_wasserstein(cost, copy, epsilon=0, n_threads=1, **rule)
    assert abs(result.gw_cost) <= 1e-13 * np.square(cost).mean()

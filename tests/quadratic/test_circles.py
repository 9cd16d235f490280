"""Solves that would go on for ever: circles, and linear problems that crawl."""

import warnings

import numpy as np
import pytest
from helpers.problems import random_cost
from scipy.sparse import csgraph

import gwfast
import gwfast.pot
from gwfast.results.status import Status
from gwfast.solvers.diagnosis import INNER_ADVICE

# Zachary's karate club (Journal of Anthropological Research, 1977): who of 34 knows
# whom, the higher numbers only.
KARATE = {
    0: [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31],
    1: [2, 3, 7, 13, 17, 19, 21, 30],
    2: [3, 7, 8, 9, 13, 27, 28, 32],
    3: [7, 12, 13],
    4: [6, 10],
    5: [6, 10, 16],
    6: [16],
    8: [30, 32, 33],
    **{one: [32, 33] for one in (14, 15, 18, 20, 22)},
    **{one: [33] for one in (9, 13, 19, 27)},
    23: [25, 27, 29, 32, 33],
    24: [25, 27, 31],
    25: [31],
    26: [29, 33],
    28: [31, 33],
    29: [32, 33],
    30: [32, 33],
    31: [32, 33],
    32: [33],
}


def karate():
    """Adjacency (34, 34)."""
    made = np.zeros((34, 34))
    for i, others in KARATE.items():
        made[i, others] = made[others, i] = 1.0
    return made


def solve(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
        return gwfast.gromov_wasserstein(*args, **options)


@pytest.mark.parametrize("epsilon, by_degree", [(0.001, False), (0.005, True)])
def test_a_graph_in_float64_does_not_crawl(epsilon, by_degree):
    """Its plan falls apart into blocks, where Sinkhorn's error falls like 1 / k: these
    took 10,000 inner iterations in each of 1000 outer ones.
    """
    costs, order = karate(), np.random.default_rng(0).permutation(34)
    p = q = None
    if by_degree:
        p = costs.sum(axis=0) / costs.sum()
        q = p[order]
    result = solve(
        costs,
        costs[np.ix_(order, order)],
        p,
        q,
        epsilon=epsilon,
        init="product",
        dtype="float64",
        tol=1e-9,
        marginal_tol=1e-9,
    )
    assert result.status == "converged"
    assert result.marginal_error <= 1e-9
    assert result.n_inner < 5000


def circling(seed):
    """Arguments of a partial problem of two points a side."""
    rng = np.random.default_rng(seed)
    costs = [random_cost(2, rng.integers(1000)) for _ in range(2)]
    return *costs, *(rng.dirichlet([1.0, 1.0]) for _ in range(2))


def test_partial_problems_that_go_round_are_ended():
    """By the plan that they would have ended with at the limit."""
    circles = 0
    for seed in range(8):
        found = {}
        for limit in (100, 400):
            plan, log = gwfast.pot.entropic_partial_gromov_wasserstein(
                *circling(seed), 0.1, m=0.7, numItermax=limit, log=True
            )
            found[limit] = plan, log
        if found[400][1]["status"] == "circle":
            circles += 1
            assert len(found[400][1]["err"]) < 100
            np.testing.assert_allclose(found[100][0], found[400][0], atol=1e-5)
    assert circles > 0


def test_a_balanced_circle_is_ended():
    rng = np.random.default_rng(3)
    other = np.triu(rng.random((34, 34)) < 0.14, 1).astype(float)
    result = solve(
        karate(), other + other.T, epsilon=0.02, init="product", dtype="float64"
    )
    assert result.status == "circle" and result.n_outer < 300
    assert "ppa" in result.advice and np.isfinite(result.plan).all()


@pytest.mark.parametrize("mass", [0.5, 0.7])
def test_a_noisy_circle_is_ended(mass):
    """Its linear problems end with marginals off by 1e-5, which moves the potentials of
    a plan by a hundredth of epsilon where the steps move them by a hundred of it.
    """
    costs, order = csgraph.shortest_path(karate()), np.arange(34)[::-1]
    result = solve(
        costs, costs[np.ix_(order, order)], marginals="partial", mass=mass, init="auto"
    )
    assert result.status == "circle" and result.n_outer < 150
    assert "ppa" in result.advice


def test_advice_names_the_limit_that_was_reached():
    costs = karate()
    options = dict(epsilon=0.02, init="product", max_outer=2, tol=1e-7)
    inner = solve(costs, costs[::-1, ::-1], **options, max_inner=2)
    outer = solve(costs, costs[::-1, ::-1], **options)
    assert inner.status == outer.status == Status.MAX_OUTER
    assert inner.advice.endswith(INNER_ADVICE)
    assert outer.advice == Status.MAX_OUTER.advice

"""Plans of ``gwfast.pot`` are POT's wherever POT converges, and plans wherever not."""

import functools
import warnings

import numpy as np
import pytest
from helpers.marks import mostly_slow
from helpers.pot_problems import MARGINAL_ERROR, attempt, random_problem

from gwfast import ConvergenceWarning, pot

gromov = pytest.importorskip("ot", reason="POT is not installed").gromov

LARGEST = 60
SEEDS = range(30)
# POT converges on these for sure: else nothing might be compared.
EASY = {1, 11, 13, 18, 28}
# It takes seconds for these.
LONG = {8, 9, 26, 29}


def problem_of(seed):
    return random_problem(seed, LARGEST)


@functools.cache
def pots(seed):
    """Return why POT failed, its plan and its loss."""
    return attempt(problem_of(seed), gromov)


@pytest.mark.parametrize("seed", mostly_slow(SEEDS, fast={*SEEDS} - LONG))
def test_it_agrees_with_pot(seed):
    problem = problem_of(seed)
    failure, expected, expected_loss = pots(seed)
    assert seed not in EASY or not failure
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plan, loss, _ = problem.solve(pot)
    assert plan.dtype == np.float64
    assert problem.is_valid(plan, loss), problem.marginal_error(plan)
    if not failure:
        assert problem.marginal_error(plan) < MARGINAL_ERROR
        assert np.abs(expected - plan).sum() < 1e-5 * np.abs(expected).sum()
        assert loss == pytest.approx(expected_loss, rel=1e-5, abs=1e-9)


@pytest.mark.slow
def test_problems_are_of_every_kind():
    problems = [problem_of(seed) for seed in SEEDS]
    assert {problem.loss for problem in problems} == {"square_loss", "kl_loss"}
    for property_of in (
        lambda problem: problem.is_symmetric,
        lambda problem: problem.linear_cost is None,
        lambda problem: len(problem.p) == len(problem.q),
    ):
        assert {property_of(problem) for problem in problems} == {True, False}
    assert {bool(pots(seed)[0]) for seed in SEEDS} == {True, False}


def test_small_partial_plans_in_float32_are_made_in_float64():
    rng = np.random.default_rng(3)
    n, m = 15, 2
    steps = np.arange(n) // 2
    costs = [np.abs(np.subtract.outer(steps, steps)), rng.random((m, m))]
    costs[1] += costs[1].T
    p, q = rng.random(n), np.full(m, 1 / m)
    given = [x.astype(np.float32) for x in (*costs, p / p.sum(), q)]
    options = {"reg": 1e-2, "m": 0.5, "numItermax": 4}
    made = pot.entropic_partial_gromov_wasserstein(*given, **options)
    doubles = [x.astype(np.float64) for x in given]
    exact = pot.entropic_partial_gromov_wasserstein(*doubles, **options)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, exact.astype(np.float32))

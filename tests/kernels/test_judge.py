"""Verdicts of both outer loops (csrc/judge.h) beside the same rules in NumPy, on random numbers.

The verdicts are called directly: a result shows only what they lead to.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import linalg

from gwfast.kernels._judge import Judge, has_stalled, next_omega
from gwfast.quadratic.acceleration import FLOOR, JUDGE, MAX_PREDICTED, SINGULAR
from gwfast.quadratic.judge import POT_LOOK_EVERY, RELATIVE, UNJUDGED, Limits, Stopping
from gwfast.utils.precision import DOUBLE, SINGLE

POT = Stopping(frobenius=True, every=POT_LOOK_EVERY, n_plain=POT_LOOK_EVERY)
LIMITS = Limits(max_outer=1000, max_inner=100, tol=1e-5, marginal_tol=1e-6)
HISTORIES = range(200)


def numbers(rng, size):
    """Positive numbers of any size, some of them equal."""
    return rng.choice(10.0 ** rng.uniform(-8, 0, 4 + size // 2), size)


@pytest.mark.parametrize("stopping", [RELATIVE, UNJUDGED, POT])
@pytest.mark.parametrize("precision", [SINGLE, DOUBLE])
def test_plans_settle_and_inner_solutions_tighten_as_the_rules_say(stopping, precision):
    for seed in HISTORIES:
        rng = np.random.default_rng(seed)
        floor, rounding, change, moved, former, error, size = numbers(rng, 7)
        value = rng.choice([1.0, 1.0 + 1e-6, 1.1, 0.0])
        before, settled, done = 1.0, bool(rng.integers(2)), int(rng.integers(1, 40))
        given = stopping.numbers(LIMITS, precision, floor, rounding)
        judge = Judge(**given, magnitude=size, fraction=0.1, first_limit=50, tightens=seed % 2)
        tol, least, exact = given["tol"], given["least"], given["exact"]
        # The plan has settled.
        small, rise = change <= tol, abs(value - before) - error * size
        expected = small and not rise > tol * value + given["still"], False
        if stopping.frobenius:
            small = moved <= LIMITS.tol or change <= floor
            looks = done % 10 == 1 or settled or (done > 2 and moved <= former / 2)
            expected = small and looks and not former < moved > least, small
        found = judge.settles(done, change, moved, former, value, before, error, settled)
        assert found == expected
        # How exact the next linear problem is to be solved.
        for thorough, share in itertools.product((False, True), (0.1, 0.025)):
            rough = min(precision.max_inner_tol, share * change)
            aim = min(LIMITS.marginal_tol, max(least, min(exact, rough)))
            aim *= share / 0.1 if seed % 2 else 1.0
            aim = aim if thorough else max(aim, rough)
            assert judge.aim(change, share, thorough) == pytest.approx(aim, rel=1e-14)
        expected = 60, 0.05
        if error > change:
            expected = 120, 0.05
        elif value > before + tol * value + rounding:
            expected = 120, 0.025
        found = judge.tightened(error, change, value, before, 60, 0.05)
        assert found == pytest.approx(expected)


def test_changes_that_no_longer_fall_are_told_from_those_that_grow():
    for seed in HISTORIES:
        rng = np.random.default_rng(seed)
        changes = numbers(rng, int(rng.integers(1, 30)))
        changes = np.sort(changes) if seed % 3 == 0 else changes
        floor, after = 10.0 ** rng.uniform(-8, 1), int(rng.integers(1, 8))
        first, last = changes[:-after], changes[-after:]
        grows = len(last) < after or (np.diff(last) >= 0).all()
        stalled = max(last) < floor and min(first, default=math.inf) <= min(last) and not grows
        if len(changes) > after:
            assert has_stalled(changes, floor, after) == stalled
    assert not has_stalled([], 1.0, 3)


@pytest.mark.parametrize("proximal", [False, True])
def test_steps_turn_that_all_go_back_or_raise_the_objective_without_getting_shorter(proximal):
    judge = Judge(window=20, clearly_less=0.8, proximal=proximal)
    for seed in HISTORIES:
        rng = np.random.default_rng(seed)
        returned, since, (change, then) = *rng.integers(0, 30, 2), numbers(rng, 2)
        turns = returned >= 20 or (proximal and since <= 18)
        assert judge.turns(returned, since, change, then) == (turns and change > 0.8 * then)


def test_moves_fail_if_the_next_change_is_longer_than_foretold():
    assert JUDGE.fails(1.6, 4.0, 4.0) == (True, 1.0, 8.0)
    assert JUDGE.fails(1.2, 4.0, 4.0) == (False, 4.0, 4.0)
    assert JUDGE.fails(0.9, 4.0, 16.0) == (False, 8.0, 8.0)
    assert JUDGE.fails(0.9, 64.0, 4.0) == (False, 64.0, 4.0)


def test_the_best_over_relaxation_of_a_rate():
    for eta in (0.5, 0.9, 0.99):
        best = 2.0 / (1.0 + math.sqrt(1.0 - eta))
        assert next_omega(1.0, eta, 1.95) == pytest.approx(best)
    assert next_omega(1.0, 0.9999, 1.95) == 1.95 and next_omega(1.5, 1.0, 1.95) == 1.0
    assert next_omega(1.5, 0.4, 1.95) == 1.5


def lead(products, reach):
    """Weights of moves by LAPACK, see quadratic/acceleration.py."""
    k = len(products) // 2
    moved, mixed, gram = products[:k, :k], products[:k, k:-1], products[k:-1, k:-1]
    along, right, size = products[:k, -1], products[k:-1, -1], products[-1, -1]
    basis = np.linalg.inv(np.linalg.cholesky(moved)).T
    slope = -basis.T @ mixed @ basis
    absolute = linalg.sqrtm(slope @ slope + FLOOR**2 * np.eye(k)).real
    weights = -basis @ np.linalg.solve(absolute, basis.T @ along)
    length = weights @ (moved + mixed + mixed.T + gram) @ weights
    a, b = weights @ gram @ weights, weights @ right
    share = reach * np.sqrt(size / length) if length > reach**2 * size else 1.0
    excess = (MAX_PREDICTED**2 - 1.0) * size
    if (a * share - 2.0 * b) * share > excess:
        share = (b + np.sqrt(b * b + a * excess)) / a
    left = basis.T @ (along - mixed @ weights * share)
    after = left - slope @ left
    foretold = size + (a * share - 2.0 * b) * share - left @ left + after @ after
    return weights * share, np.sqrt(max(foretold, 0.0) / size)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_extrapolation_is_by_the_derivative_on_the_span_of_the_moves(k):
    compared = 0
    for seed in HISTORIES:
        rng = np.random.default_rng(seed)
        # Moves, and the differences of steps, of a linear map near the identity.
        moves = rng.normal(size=(k, 12))
        slope = np.diag(rng.uniform(-0.3, 1.0, 12)) + 0.05 * rng.normal(size=(12, 12))
        vectors = np.vstack([moves, -moves @ slope.T, 0.3 * rng.normal(size=12)])
        products, reach = vectors @ vectors.T, 10.0 ** rng.uniform(0, 2)
        scale = np.sqrt(products.diagonal()[:k])
        if np.linalg.eigvalsh(products[:k, :k] / np.outer(scale, scale))[0] < 100 * SINGULAR:
            continue
        found = JUDGE.lead(products, reach)
        if found is not None:
            compared += 1
            for own, expected in zip(found, lead(products, reach), strict=True):
                np.testing.assert_allclose(own, expected, rtol=1e-6)
    assert compared > 150
    assert JUDGE.lead(np.zeros((3, 3)), 4.0) is None

"""Extrapolated outer iterations: fewer of them, to the same end, and never uphill."""

import numpy as np
import pytest
from helpers.marks import mostly_slow

import gwfast
from gwfast import PointCloud
from gwfast.quadratic import anderson, extrapolation
from gwfast.quadratic.anderson import CONTRACTING, FURTHER, Anderson, Lead
from gwfast.quadratic.dense import Dense
from gwfast.quadratic.factored import Factored
from gwfast.words import load_sample

RATE = 0.7


def follow(matrix, start, n_steps):
    """A trail along ``x <- matrix @ x``, whose fixed point is zero."""
    trail, x = Anderson(), start
    for _ in range(n_steps):
        trail.add(x, matrix @ x)
        x = matrix @ x
    return trail


def test_one_direction_is_solved_in_one_extrapolation():
    trail = follow(RATE * np.eye(3), np.array([1.0, -2.0, 0.5]), 2)
    assert trail.weights() == pytest.approx((RATE / (1 - RATE), 0.0))
    np.testing.assert_allclose(trail.combined(trail.coefficients()), 0, atol=1e-12)
    assert trail.lead == Lead.END


@pytest.mark.parametrize("rate", [1.2, 1.01, 0.999, 0.9])
def test_steps_that_are_alike_are_followed_further(rate):
    """Backwards would be towards a point that the iteration leaves."""
    trail = follow(rate * np.eye(2), np.ones(2), 2)
    before, after = trail.last
    further = after + FURTHER * (after - before)
    np.testing.assert_allclose(trail.combined(trail.coefficients()), further)
    assert trail.lead == Lead.AHEAD


def test_nobody_goes_further_than_where_steps_contract_to():
    for rate in np.linspace(CONTRACTING + 1e-6, 0.99, 20):
        trail = follow(rate * np.eye(2), np.ones(2), 2)
        assert (trail.combined(trail.coefficients()) >= -1e-12).all()


def test_steps_after_an_extrapolation_count_as_much():
    """Further ahead is so many steps, however far the last plans are apart."""
    trail = Anderson()
    trail.add(np.array([0.0]), np.array([1.0]))
    trail.add(np.array([4.0]), np.array([5.0]))
    np.testing.assert_allclose(trail.combined(trail.coefficients()), 5.0 + FURTHER)


TURNED = np.array([[0.8, -0.6], [0.6, 0.8]])


@pytest.mark.parametrize("matrix", [-0.5 * np.eye(2), -1.1 * np.eye(2), TURNED])
def test_what_turns_or_goes_back_is_left_alone(matrix):
    trail = follow(matrix, np.ones(2), 2)
    assert trail.coefficients() == [] and trail.lead == Lead.NOWHERE


def test_nothing_is_said_of_one_step_or_of_none_left():
    for start, n_steps in ((np.ones(2), 1), (np.zeros(2), 2)):
        trail = follow(RATE * np.eye(2), start, n_steps)
        assert trail.coefficients() == [] and trail.lead == Lead.NOWHERE


def problem(kind):
    """Spanish and French words, which converge slowly."""
    sides = [side.vectors[:400] for side in load_sample()[:2]]
    clouds = [PointCloud(side - side.mean(axis=0)) for side in sides]
    return [cloud.to_dense() for cloud in clouds] if kind == "dense" else clouds


@pytest.mark.parametrize("kind", mostly_slow(["factored", "dense"], fast=["factored"]))
def test_extrapolation_saves_iterations_and_ends_in_the_same_optimum(kind, monkeypatch):
    relative = {"factored": 0.03, "dense": 0.1}[kind]
    solve = dict(epsilon=gwfast.Epsilon(relative=relative), init="profile", tol=1e-5)
    fast = gwfast.gromov_wasserstein(*problem(kind), **solve)
    monkeypatch.setattr(extrapolation, "MAX_CHANGE", 0.0)
    plain = gwfast.gromov_wasserstein(*problem(kind), **solve)
    assert fast.converged and plain.converged
    assert fast.n_outer < plain.n_outer
    assert fast.gw_cost == pytest.approx(plain.gw_cost, rel=1e-4)
    assert fast.reg_cost <= plain.reg_cost + 1e-4 * abs(plain.reg_cost)


@pytest.mark.parametrize(
    "kind, cls",
    [
        ("factored", Factored),
        pytest.param("dense", Dense, marks=pytest.mark.slow),
    ],
)
def test_a_bad_extrapolation_is_taken_back(kind, cls, monkeypatch):
    """One that leads anywhere raises the objective or the change: the next step starts
    from the plan before, and the end is as good as without."""
    solve = dict(epsilon=gwfast.Epsilon(relative=0.03), init="profile", tol=1e-5)
    good = gwfast.gromov_wasserstein(*problem(kind), **solve)
    retracted = []
    retract = cls.retract

    def wild(self):
        return 15.0 * (len(self._steps) > 1), 0.0

    monkeypatch.setattr(Anderson, "weights", wild)
    monkeypatch.setattr(
        cls, "retract", lambda self: (retracted.append(1), retract(self))[1]
    )
    bad = gwfast.gromov_wasserstein(*problem(kind), **solve, max_outer=300)
    assert retracted
    # Small epsilon: ends differ by some thousandths with rounding alone.
    assert bad.gw_cost <= good.gw_cost * (1 + 5e-3)


@pytest.mark.slow
def test_more_steps_save_iterations_where_contraction_is_slow(monkeypatch):
    """The objective stands still for most of them."""
    source, target, _ = load_sample()
    sides = source.vectors, target.vectors
    deep = gwfast.align(*sides, n_words=2000).gw
    assert deep.converged and deep.n_outer <= 34
    monkeypatch.setattr(extrapolation, "MAX_DEEPENING_CHANGE", 0.0)
    further = gwfast.align(*sides, n_words=2000).gw
    assert further.n_outer > deep.n_outer
    monkeypatch.setattr(anderson, "ALIKE", 2.0)
    plain = gwfast.align(*sides, n_words=2000).gw
    assert plain.converged and plain.n_outer > 2 * deep.n_outer
    assert plain.n_outer > 1.5 * further.n_outer
    assert deep.gw_cost <= plain.gw_cost * (1 + 1e-6)


def test_a_bad_deep_extrapolation_is_taken_back(monkeypatch):
    solve = dict(epsilon=gwfast.Epsilon(relative=0.02), init="profile", tol=1e-6)
    good = gwfast.gromov_wasserstein(*problem("factored"), **solve)
    retracted, retract = [], Factored.retract

    def wild(self, most):
        return [-30.0, 31.0] if len(self._steps) > 1 else []

    monkeypatch.setattr(Anderson, "_deep_coefficients", wild)
    monkeypatch.setattr(extrapolation, "CLEAR", np.inf)
    monkeypatch.setattr(
        Factored, "retract", lambda self: (retracted.append(1), retract(self))[1]
    )
    bad = gwfast.gromov_wasserstein(*problem("factored"), **solve, max_outer=400)
    assert retracted
    assert bad.gw_cost == pytest.approx(good.gw_cost, rel=1e-4)

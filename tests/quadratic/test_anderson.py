"""Extrapolation from more steps than two: exact for linear iterations that contract,
silent for others, and taken back where it was no good."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, orthogonal

import gwfast
from gwfast.quadratic import extrapolation
from gwfast.quadratic.anderson import (
    DEPTH,
    FURTHER,
    MAX_COEFFICIENTS,
    Anderson,
    Lead,
)
from gwfast.quadratic.dense import Dense

# What the tests of the solver need of it is where it ends.
TIGHT = dict(dtype="float64", init="product", tol=1e-9, marginal_tol=1e-9)


def follow(matrix, start, n_steps, limit=0.0):
    """A trail along ``x <- limit + matrix @ (x - limit)``."""
    trail, x = Anderson(DEPTH), np.asarray(start, dtype=np.float64)
    for _ in range(n_steps):
        after = limit + matrix @ (x - limit)
        trail.add(x, after)
        x = after
    return trail


def rotated(eigenvalues, seed=0):
    """A symmetric matrix with these eigenvalues and no entries of zero."""
    basis = orthogonal(len(eigenvalues), seed)
    return basis @ np.diag(eigenvalues) @ basis.T


@pytest.mark.parametrize(
    "eigenvalues",
    [
        [0.9],
        [0.9, 0.5],
        [0.9, 0.5, -0.7],
        [0.9, 0.4, -0.3, -0.8],
        [0.9, 0.5, 0.1, -0.4, -0.8],
        [-0.8, -0.4],
    ],
)
def test_a_linear_iteration_is_solved_by_a_step_for_each_direction(eigenvalues):
    n = len(eigenvalues)
    matrix, limit = rotated(eigenvalues), cloud(1, n, 1)[0]
    trail = follow(matrix, cloud(1, n, 2)[0], n + 1, limit)
    coefficients = trail.coefficients()
    assert len(coefficients) == n + 1
    assert sum(coefficients) == pytest.approx(1.0)
    np.testing.assert_allclose(trail.combined(coefficients), limit, atol=1e-6)


def test_only_the_last_steps_count():
    """Steps of another iteration before make no difference."""
    matrix, limit = rotated([0.9, 0.5, 0.1, -0.4, -0.8]), cloud(1, 5, 1)[0]
    trail = follow(rotated([1.5, 1.2, 1.1, 1.3, 0.2], 3), np.ones(5), 10)
    x = cloud(1, 5, 2)[0]
    for _ in range(DEPTH + 1):
        after = limit + matrix @ (x - limit)
        trail.add(x, after)
        x = after
    combined = trail.combined(trail.coefficients())
    np.testing.assert_allclose(combined, limit, atol=1e-6)


@pytest.mark.parametrize("eigenvalues", [[-1.2], [0.3, -1.1, 0.6]])
def test_what_does_not_contract_is_left_alone(eigenvalues):
    trail = follow(rotated(eigenvalues), np.ones(len(eigenvalues)), DEPTH + 1)
    assert trail.coefficients() == [] and trail.lead == Lead.NOWHERE


@pytest.mark.parametrize("eigenvalues", [[1.2], [0.5, 1.05], [0.999], [0.5, 0.995]])
def test_saddles_are_left_faster_never_approached(eigenvalues):
    """The fixed point is a saddle, or as good as one: it is not gone to."""
    trail = follow(rotated(eigenvalues), np.ones(len(eigenvalues)), 3 * DEPTH)
    before, after = trail.last
    moved = trail.combined(trail.coefficients()) - after
    assert trail.lead == Lead.AHEAD
    assert moved @ (after - before) > 0
    assert np.linalg.norm(moved) <= FURTHER * np.linalg.norm(after - before) * 1.001


def test_an_iteration_that_turns_and_grows_is_left_alone():
    """Its eigenvalues are complex."""
    for size, trusted in ((0.9, True), (1.1, False)):
        turn = size * np.array([[0.0, -1.0], [1.0, 0.0]])
        trail = follow(turn, [1.0, 0.5], 3)
        assert bool(trail.coefficients()) == trusted


def test_nothing_is_said_of_one_step_or_of_none_left():
    assert Anderson(DEPTH).coefficients() == []
    assert follow(np.eye(2) / 2, np.ones(2), 1).coefficients() == []
    assert follow(np.eye(2) / 2, np.zeros(2), 4).coefficients() == []


def test_coefficients_that_are_too_large_are_not_returned():
    """One direction at a rate r goes on by r / (1 - r) times the last step."""
    for rate in np.linspace(0.5, 0.989, 40):
        coefficients = follow([[rate]], [1.0], 2).coefficients()
        goes_on = rate / (1 - rate)
        if 1 + 2 * goes_on > MAX_COEFFICIENTS:
            np.testing.assert_allclose(coefficients, [-FURTHER, 1 + FURTHER])
        else:
            np.testing.assert_allclose(coefficients, [-goes_on, 1 + goes_on])


def test_plans_are_points_like_others():
    """Of any shape."""
    matrix, limit = rotated([0.9, 0.5, 0.2, -0.3]), cloud(2, 2, 4)
    trail, x = Anderson(DEPTH), cloud(2, 2, 5)
    for _ in range(5):
        after = limit + (matrix @ (x - limit).ravel()).reshape(2, 2)
        trail.add(x, after)
        x = after
    combined = trail.combined(trail.coefficients())
    assert combined.shape == (2, 2)
    np.testing.assert_allclose(combined, limit, atol=1e-6)


# --- In the solver ----------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    """One that converges slowly."""
    x, y = cloud(60, 3, 6), cloud(60, 3, 6) + 0.3 * cloud(60, 3, 7)
    return dict(cost_x=distances(x), cost_y=distances(y[::-1]), epsilon=0.1)


def test_it_saves_iterations_and_ends_where_it_would_without(problem, monkeypatch):
    fast = gwfast.gromov_wasserstein(**problem, **TIGHT)
    monkeypatch.setattr(extrapolation, "MAX_DEEP_CHANGE", 0.0)
    plain = gwfast.gromov_wasserstein(**problem, **TIGHT)
    assert fast.converged and plain.converged
    assert fast.n_outer < plain.n_outer
    assert np.abs(fast.plan - plain.plan).sum() < 1e-6
    assert fast.gw_cost == pytest.approx(plain.gw_cost, rel=1e-7)


def test_a_bad_extrapolation_is_taken_back(problem, monkeypatch):
    good = gwfast.gromov_wasserstein(**problem, **TIGHT)
    retracted, retract = [], Dense.retract

    def anywhere(self, most):
        self.lead = Lead.END
        return [-40.0, 41.0] if len(self._steps) > 1 else []

    monkeypatch.setattr(Anderson, "coefficients", anywhere)
    monkeypatch.setattr(
        Dense, "retract", lambda self: (retracted.append(1), retract(self))[1]
    )
    bad = gwfast.gromov_wasserstein(**problem, **TIGHT, max_outer=3000)
    assert retracted
    assert bad.converged
    assert np.abs(bad.plan - good.plan).sum() < 1e-6

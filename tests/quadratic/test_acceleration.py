"""Acceleration: leads to the fixed point of linear iterations that contract, away from
saddles of others, and is taken back where it was no good."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.problems import cloud, orthogonal

from gwfast.quadratic.acceleration import DEPTH, FLOOR, MAX_REACH, Anderson, lead_of
from gwfast.quadratic.judge import Step
from gwfast.quadratic.state import State, combined


def steps_of(matrix, start, n_steps, limit=0.0):
    """Steps along ``x <- limit + matrix @ (x - limit)``, with points of any shape."""
    steps, x = [], np.asarray(start, dtype=np.float64)
    for _ in range(n_steps):
        after = limit + (matrix @ (x - limit).ravel()).reshape(x.shape)
        steps.append((x, after))
        x = after
    return steps


def rotated(eigenvalues, seed=0):
    """A symmetric matrix with these eigenvalues and no entries of zero."""
    basis = orthogonal(len(eigenvalues), seed)
    return basis @ np.diag(eigenvalues) @ basis.T


CONTRACTING = [
    [0.9],
    [0.9, 0.5],
    [0.9, 0.5, -0.7],
    [0.9, 0.4, -0.3, -0.8],
    [0.9, 0.5, 0.1, -0.4, -0.8],
    [-0.8, -0.4],
]


def led_by(steps, **reach):
    """The point to which steps lead, and the length of the step foretold there."""
    weights, foretold = lead_of(steps, **reach)
    assert sum(weights) == pytest.approx(1.0)
    return combined(weights, [after for _, after in steps]), foretold


@pytest.mark.parametrize("eigenvalues", CONTRACTING)
def test_moves_along_a_linear_iteration_lead_to_its_fixed_point(eigenvalues):
    n = len(eigenvalues)
    shape = (2, 2) if n == 4 else (n,)
    matrix, limit = rotated(eigenvalues), cloud(1, n, 1).reshape(shape)
    x, steps = cloud(1, n, 2).reshape(shape), []
    for _ in range(16):
        steps = [*steps, *steps_of(matrix, x, 1, limit)][-DEPTH - 1 :]
        lead = lead_of(steps)
        points = [after for _, after in steps]
        x = points[-1] if lead is None else combined(lead[0], points)
    assert x.shape == shape
    np.testing.assert_allclose(x, limit, atol=1e-3)
    assert max(map(abs, eigenvalues)) ** 16 > 0.02  # without moves it is far


@pytest.mark.parametrize("rate", [-0.9, 0.3, 0.9, 0.97, 1.03, 1.3])
def test_one_mode_is_followed_as_far_as_its_rate_says(rate):
    """To the fixed point where it is near, and many steps ahead, away from a saddle."""
    steps = steps_of(np.array([[rate]]), [1.0], 2)
    led, _ = led_by(steps)
    before, after = steps[-1]
    step, slope = after - before, 1.0 - rate
    factor = 1.0 / np.hypot(slope, FLOOR)
    expected = before + factor * step + (1.0 - slope * factor) * step
    np.testing.assert_allclose(led, expected)
    if rate < 0.9:
        np.testing.assert_allclose(led, 0.0, atol=0.01)
    if rate > 1.0:
        assert led[0] > after[0] + 2 * step[0]


def test_saddles_are_left_while_all_else_converges():
    matrix = rotated([1.05, 0.9, -0.6])
    grows, *others = orthogonal(3, 0).T
    x, steps = others[0] + others[1] + 1e-3 * grows, []
    for _ in range(20):
        steps = [*steps, *steps_of(matrix, x, 1)][-DEPTH - 1 :]
        x = steps[-1][1] if len(steps) < 2 else led_by(steps)[0]
    assert abs(x @ grows) > 10 * 1e-3 * 1.05**20
    assert max(abs(x @ other) for other in others) < 0.1 * abs(x @ grows)


@pytest.mark.parametrize("reach", [1.0, 3.0, MAX_REACH])
def test_a_move_goes_no_further_than_its_reach(reach):
    steps = steps_of(rotated([0.99, 0.5]), np.ones(2), 4)
    led, _ = led_by(steps, reach=reach)
    before, after = steps[-1]
    moved = np.linalg.norm(led - after)
    assert moved <= reach * np.linalg.norm(after - before) * 1.001
    assert lead_of(steps, reach=0.9) is None


def turned(size):
    """Eigenvalues of it are complex."""
    return size * np.array([[0.0, -1.0], [1.0, 0.0]])


def test_nothing_is_said_of_one_step_or_of_none_left():
    half = np.eye(2) / 2
    assert lead_of([]) is None
    assert lead_of(steps_of(half, np.ones(2), 1)) is None
    assert lead_of(steps_of(half, np.zeros(2), 4)) is None
    assert lead_of(steps_of(turned(0.9), np.ones(2), 3)) is not None


# --- Moves of a descent -----------------------------------------------------------


def state(x):
    nothing = np.zeros(0)
    return State(x, nothing, nothing, (nothing, nothing), None, 0.0, sample=x)


LINEAR = SimpleNamespace(
    accelerates=True,
    n_kept=6,
    n_matrices=lambda states: 0,
    mixed=lambda states, weights: state(combined(weights, [one.moments for one in states])),
)


def step(change, error=0.0):
    return Step(0.0, 0.0, 0.1, change, change, error, error, 1)


def descended(matrix, n_steps, length=1e-3):
    """The errors of a descent of a linear iteration, and its moves."""
    x, moves, errors = state(length * np.ones(len(matrix))), Anderson(), []
    for _ in range(n_steps):
        after = state(matrix @ x.moments)
        change = float(np.linalg.norm(after.moments - x.moments))
        moves, going = moves.advance(LINEAR, x, after, step(change))
        x = going.state
        errors.append(float(np.linalg.norm(x.moments)))
    return errors, moves


def test_it_saves_iterations():
    errors, _ = descended(rotated([0.95, 0.7, -0.4]), 12)
    assert errors[-1] < 1e-3 * errors[0] * 0.95**12


def test_a_bad_move_is_taken_back_and_the_next_is_shorter():
    moves, x = Anderson(), [state(np.array([size])) for size in (1e-2, 9e-3, 8.1e-3)]
    moves, _ = moves.advance(LINEAR, x[0], x[1], step(1e-3))
    moves, going = moves.advance(LINEAR, x[1], x[2], step(9e-4))
    assert going.led and moves.back is not None
    reach = moves.reach
    moves, back = moves.advance(LINEAR, going.state, state(np.array([1.0])), step(1.0))
    assert back.state.moments is x[2].moments and not back.led and moves.back is None
    assert moves.reach < reach


@pytest.mark.parametrize(
    "change, error, may_move", [(0.5, 0.0, True), (1e-3, 1e-3, True), (1e-3, 0.0, False)]
)
def test_no_move_after_large_or_noisy_steps_or_the_last(change, error, may_move):
    begun, x = Anderson(), [state(np.array([size])) for size in (1e-2, 9e-3, 8.1e-3)]
    begun, _ = begun.advance(LINEAR, x[0], x[1], step(1e-3))
    moves, going = begun.advance(LINEAR, x[1], x[2], step(change, error), may_move=may_move)
    assert going.state is x[2] and not going.led and not moves.steps

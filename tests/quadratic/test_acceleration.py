"""Anderson's acceleration solves linear maps; `lead_of` and `Anderson` are called directly, as a
solve shows neither a map nor a move.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.problems import cloud, orthogonal, rotated_pair, settings

import gwfast
from gwfast.quadratic.acceleration import DEPTH, MAX_REACH, Anderson, lead_of
from gwfast.quadratic.judge import Step
from gwfast.quadratic.state import State, combined


def rotated(eigenvalues):
    """A symmetric matrix with these eigenvalues and no entries of zero."""
    basis = orthogonal(len(eigenvalues), 0)
    return basis @ np.diag(eigenvalues) @ basis.T


def steps_of(matrix, x, n_steps):
    """Steps of the map ``x -> matrix @ x``."""
    powers = [np.linalg.matrix_power(matrix, k) @ x for k in range(n_steps + 1)]
    return [*itertools.pairwise(powers)]


def led_by(steps, **reach):
    """The point to which steps lead."""
    weights, _ = lead_of(steps, **reach)
    assert sum(weights) == pytest.approx(1.0)
    return combined(weights, [after for _, after in steps])


def iterated(matrix, x, n_steps):
    """The last point of a descent that moves to the point to which its steps lead."""
    steps = []
    for _ in range(n_steps):
        steps = [*steps, *steps_of(matrix, x, 1)][-DEPTH - 1 :]
        x = steps[-1][1] if lead_of(steps) is None else led_by(steps)
    return x


@pytest.mark.parametrize("eigenvalues", [[0.9], [0.9, 0.5, -0.7], [0.9, 0.5, 0.1, -0.4, -0.8]])
def test_a_linear_map_is_solved_and_saddles_are_left(eigenvalues):
    start = cloud(1, len(eigenvalues), 2)[0]
    assert np.linalg.norm(iterated(rotated(eigenvalues), start, 16)) < 1e-3
    # Saddles are left, while all else converges.
    grows, *others = orthogonal(3, 0).T
    x = iterated(rotated([1.05, 0.9, -0.6]), others[0] + others[1] + 1e-3 * grows, 20)
    assert abs(x @ grows) > 10 * 1e-3 * 1.05**20
    assert max(abs(x @ other) for other in others) < 0.1 * abs(x @ grows)


@pytest.mark.parametrize("reach", [1.0, 3.0, MAX_REACH])
def test_a_move_goes_no_further_than_its_reach_and_foretells_the_next_step(reach):
    matrix = rotated([0.99, 0.5])
    steps = steps_of(matrix, np.ones(2), 4)
    (before, after), led = steps[-1], led_by(steps, reach=reach)
    length = np.linalg.norm(after - before)
    assert np.linalg.norm(led - after) <= reach * length * 1.001
    foretold = lead_of(steps, reach=reach)[1]
    assert foretold == pytest.approx(np.linalg.norm(matrix @ led - led) / length, rel=1e-3)
    # Steps that say nothing lead nowhere.
    half = np.eye(2) / 2
    assert lead_of(steps, reach=0.9) is None and lead_of([]) is None
    assert lead_of(steps_of(half, np.ones(2), 1)) is None
    assert lead_of(steps_of(half, np.zeros(2), 4)) is None


# A descent of a linear map.
LINEAR = SimpleNamespace(
    accelerates=True,
    n_kept=6,
    n_matrices=lambda states: 0,
    mixed=lambda states, weights: state(combined(weights, [one.moments for one in states])),
)


def state(x):
    nothing = np.zeros(0)
    return State(x, nothing, nothing, (nothing, nothing), None, 0.0, sample=x)


FIRST, SECOND, THIRD = (state(np.array([size])) for size in (1e-2, 9e-3, 8.1e-3))


def advanced(moves, before, after, change, error=0.0, **more):
    step = Step(0.0, 0.0, 0.1, change, change, error, error, 1)
    return moves.advance(LINEAR, before, after, step, **more)


def test_a_bad_move_is_taken_back_and_the_next_is_shorter():
    moves, _ = advanced(Anderson(), FIRST, SECOND, 1e-3)
    moves, going = advanced(moves, SECOND, THIRD, 9e-4)
    assert going.led and going.state.moments[0] < 6e-3
    good, _ = advanced(moves, going.state, state(going.state.moments / 2), 1e-5)
    assert good.reach == 2 * moves.reach
    bad, back = advanced(moves, going.state, state(np.ones(1)), 1.0)
    assert back.state.moments is THIRD.moments and not back.led and bad.back is None
    assert bad.reach == moves.reach / moves.shrinks and bad.shrinks == 2 * moves.shrinks


@pytest.mark.parametrize(
    "change, error, may_move", [(0.5, 0.0, True), (1e-3, 1e-3, True), (1e-3, 0.0, False)]
)
def test_no_move_after_large_or_noisy_steps_or_unless_allowed(change, error, may_move):
    begun, _ = advanced(Anderson(), FIRST, SECOND, 1e-3)
    moves, going = advanced(begun, SECOND, THIRD, change, error, may_move=may_move)
    assert going.state is THIRD and not going.led
    # Steps that may not lead yet are kept.
    assert len(moves.steps) == (0 if may_move else 2)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_no_move_precedes_the_last_iteration_allowed():
    """A plain step near the solution is shorter than a step from where a move has led."""
    shares = []
    for seed in (0, 1, 2, 5):
        clouds = [gwfast.PointCloud(side) for side in rotated_pair(40, 4, seed, noise=0.05)[:2]]
        steps = gwfast.gromov_wasserstein(*clouds, init="product", epsilon="5%").history
        for max_iter in (len(steps) - 2, len(steps) - 1):
            options = settings(init="product", epsilon="5%", max_iter=max_iter)
            *_, last = gwfast.gromov_wasserstein(*clouds, **options).history
            shares.append(last.change / steps[last.iteration - 1].change)
    assert min(shares) < 0.6

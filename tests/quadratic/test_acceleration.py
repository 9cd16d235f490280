"""Moves of Anderson's acceleration, called directly, as a solve shows no move; where steps lead is
tested in tests/kernels/test_judge.py.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.problems import rotated_pair, settings

import gwfast
from gwfast.quadratic.acceleration import Anderson
from gwfast.quadratic.judge import Step
from gwfast.quadratic.state import State, combined

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
    moves, iterate = advanced(moves, SECOND, THIRD, 9e-4)
    assert iterate.extrapolated and iterate.state.moments[0] < 6e-3
    good, _ = advanced(moves, iterate.state, state(iterate.state.moments / 2), 1e-5)
    assert good.trust_radius == 2 * moves.trust_radius
    bad, fallback = advanced(moves, iterate.state, state(np.ones(1)), 1.0)
    assert (
        fallback.state.moments is THIRD.moments
        and not fallback.extrapolated
        and bad.fallback is None
    )
    assert (
        bad.trust_radius == moves.trust_radius / moves.shrinks and bad.shrinks == 2 * moves.shrinks
    )


@pytest.mark.parametrize(
    "change, error, may_move", [(0.5, 0.0, True), (1e-3, 1e-3, True), (1e-3, 0.0, False)]
)
def test_no_move_after_large_or_noisy_steps_or_unless_allowed(change, error, may_move):
    begun, _ = advanced(Anderson(), FIRST, SECOND, 1e-3)
    moves, iterate = advanced(begun, SECOND, THIRD, change, error, may_move=may_move)
    assert iterate.state is THIRD and not iterate.extrapolated
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

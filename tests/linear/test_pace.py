"""The loop of Sinkhorn iterations on lists of numbers. Imports from inside, as kernels would reach
few of these cases."""

import math

import pytest

from gwfast.linear.pace import LONGEST_CALL, LOOK_EVERY, Action, Goal, Look, Pace, next_action

GOAL = Goal(
    tol=1e-5,
    max_iter=100,
    min_iter=1,
    max_log_scaling=25.0,
    stall_error=3e-6,
    max_kernels=2,
    is_direct=False,
    over_relaxes=True,
)
# After two looks, with an error that halved in each iteration.
PACE = Pace(error=0.1 * 2.0**LOOK_EVERY, seconds=1e-3)
LOOK = Look(16, 0.1, 1e-3, math.inf)


@pytest.mark.parametrize(
    ("action", "look", "pace", "goal"),
    [
        (Action.PACE, {}, {}, {}),
        (Action.ITERATE, dict(n_iter=15), {}, {}),
        # Ends: the tolerance, the limit, the deadline, one iteration is enough.
        (Action.END, dict(error=1e-5), {}, {}),
        (Action.END, dict(n_iter=100), {}, {}),
        (Action.END, dict(seconds_left=-1.0), {}, {}),
        (Action.END, {}, {}, dict(is_direct=True)),
        # The first change of rows is no error under a rule with free marginals.
        (Action.PACE, dict(n_iter=1, error=0.0), {}, dict(min_iter=2)),
        # Only a plain iteration leaves the columns exact.
        (Action.PLAIN, dict(error=1e-5), dict(omega=1.5), {}),
        (Action.PLAIN, dict(seconds_left=-1.0), dict(omega=1.5), {}),
        (Action.PLAIN, dict(n_iter=99), {}, {}),
        # Scalings at the end of their range, and NaN, which is no error to end at.
        (Action.ABSORB, dict(max_log_scaling=26.0), {}, {}),
        (Action.ABSORB, dict(error=math.nan, max_log_scaling=math.inf), {}, {}),
        (Action.END, dict(max_log_scaling=26.0), dict(n_absorbed=2), {}),
        # An error that stands still, near rounding and elsewhere.
        (Action.END, dict(error=2e-6), dict(error=2e-6), dict(tol=1e-7)),
        (Action.PACE, dict(error=0.1), dict(error=0.1), {}),
        # Thirteen iterations are left: a Newton step pays if it takes the time of fewer.
        (Action.NEWTON, dict(newton_price=13.0), {}, {}),
        (Action.PACE, dict(newton_price=14.0), {}, {}),
        (Action.PACE, dict(newton_price=13.0, n_iter=96), {}, {}),
        (Action.PACE, dict(newton_price=13.0, seconds_left=0.01), {}, {}),
        (Action.NEWTON, dict(newton_price=1e6, error=0.2), dict(error=0.1), {}),
    ],
)
def test_next_action(action, look, pace, goal):
    args = LOOK._replace(**look), PACE._replace(**pace), GOAL._replace(**goal)
    assert next_action(*args)[0] is action


@pytest.mark.parametrize(
    ("look", "pace"),
    [
        (dict(n_iter=15), dict(omega=1.5)),
        (dict(n_iter=99), dict(omega=1.0)),
        (dict(newton_price=13.0), dict(omega=1.0, error=math.inf)),
        (dict(max_log_scaling=26.0), dict(omega=1.0, error=math.inf, n_absorbed=1)),
    ],
    ids=["iterate", "plain", "newton", "absorb"],
)
def test_pace_after_an_action(look, pace):
    before = PACE._replace(omega=1.5)
    _, after = next_action(LOOK._replace(seconds=2e-3, **look), before, GOAL)
    assert after == before._replace(seconds=2e-3, **pace)


def test_pace_follows_the_rate():
    _, after = next_action(LOOK, PACE, GOAL)
    assert after.error == 0.1 and after.omega == pytest.approx(2.0 / (1.0 + math.sqrt(0.5)))
    _, after = next_action(LOOK, PACE, GOAL._replace(over_relaxes=False))
    assert after.error == 0.1 and after.omega == 1.0


def test_number_of_iterations_of_a_call():
    assert [Pace().n_next(done, 100) for done in (0, 1, 8, 13, 98)] == [1, 7, 8, 3, 2]
    # The last iteration is plain, and no call takes long.
    assert Pace(omega=1.5).n_next(95, 100) == 1
    assert Pace(omega=1.5).n_next(96, 100) == 3
    assert Pace(seconds=LONGEST_CALL / 2.5).n_next(8, 100) == 2
    assert Pace(seconds=3 * LONGEST_CALL).n_next(8, 100) == 1

"""When an outer loop ends."""

import pytest
from helpers.problems import cloud, distances

import gwfast
from gwfast.quadratic import monitor
from gwfast.quadratic.dense import Dense
from gwfast.quadratic.stopping import STALLED_AFTER, has_stalled, stands_still
from gwfast.results.result import OuterStep

FLOOR = 1e-3


def steps(changes):
    return [OuterStep(k + 1, 1.0, 0.1, c, 0.0, 1, 0.0) for k, c in enumerate(changes)]


def noise(size):
    return [size * (1.0 if k % 2 else 0.8) for k in range(STALLED_AFTER)]


@pytest.mark.parametrize(
    "recent, stalled",
    [
        (noise(FLOOR / 2), True),
        (noise(2 * FLOOR), False),
        # What leaves a saddle changes more with each iteration.
        ([FLOOR * 1.03**k / 2 for k in range(STALLED_AFTER)], False),
        # One smaller change than ever before.
        ([*noise(FLOOR / 2)[1:], FLOOR / 100], False),
    ],
    ids=["rounding", "too large", "growing", "getting on"],
)
def test_standing_still_is_told_from_leaving_a_saddle(recent, stalled):
    before = [0.5, FLOOR / 4]
    assert has_stalled(steps([*before, *recent]), FLOOR) is stalled
    assert not has_stalled(steps(recent), FLOOR)


def rows(*kinds):
    """Rows of iterations by change, cost and epsilon, each going round a circle of
    three."""
    return [
        OuterStep(k + 1, cost + 1e-7 * (k % 3), epsilon, change * (1 + k % 3), 0, 1, 0)
        for change, cost, epsilon in kinds
        for k in range(STALLED_AFTER)
    ]


@pytest.mark.parametrize(
    "history, stands",
    [
        (rows((0.01, 1.0, 0.1), (0.01, 1.0, 0.1)), True),
        (rows((0.01, 1.0, 0.1), (0.02, 1.1, 0.1)), True),
        (rows((0.01, 1.0, 0.1), (0.005, 1.0, 0.1)), False),
        # Past a saddle changes grow, and the objective falls.
        (rows((0.01, 1.0, 0.1), (0.02, 0.9, 0.1)), False),
        (rows((0.01, 1.0, 0.2), (0.01, 1.0, 0.1)), False),
    ],
    ids=["a circle", "worse", "getting on", "falling", "another epsilon"],
)
def test_going_round_is_told_from_getting_on(history, stands):
    assert stands_still(history, 1e-6) is stands
    # Looked at once in a row, and only where there is one before it.
    assert not stands_still(history[:-1], 1e-6)
    assert not stands_still(history[STALLED_AFTER:], 1e-6)


def test_what_goes_round_is_made_to_tighter_tolerances(monkeypatch, in_outer_loop):
    costs, told = [distances(cloud(150, 3, seed)) for seed in (0, 1)], []

    def errors(stands):
        monkeypatch.setattr(monitor, "stands_still", lambda *_: stands)
        monkeypatch.setattr(Dense, "tighten", lambda self: told.append(self))
        given = dict(init="product", tol=1e-3, epsilon=gwfast.Epsilon(relative=0.01))
        result = gwfast.gromov_wasserstein(*costs, **given)
        # Of all plans but the last, which is as good as asked for anyway.
        return [step.marginal_error / step.change for step in result.history[3:-2]]

    before = errors(False)
    assert not told
    after = errors(True)
    assert told and max(after) < 0.5 * max(before)

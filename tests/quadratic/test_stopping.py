"""When an outer loop ends."""

import pytest

from gwfast.quadratic.stopping import STALLED_AFTER, has_stalled
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

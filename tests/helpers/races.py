"""Default starts where it does not matter which one wins."""

import pytest

from gwfast.solvers import starts


@pytest.fixture(scope="module", autouse=True)
def few_random_starts():
    """Of few points many random starts race by default, which takes a second a solve;
    which one wins is for the tests of the race.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "MAX_RANDOM", (2, 2))
        yield

"""Default starts where it does not matter which one wins."""

import pytest

from gwfast.solvers import starts


@pytest.fixture(autouse=True)
def few_random_starts(monkeypatch):
    """Of few points many random starts race by default, which takes a second a solve;
    which one wins is for the tests of the race.
    """
    monkeypatch.setattr(starts, "MAX_RANDOM", 2)

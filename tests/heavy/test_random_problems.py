"""Thousands of random problems end as `helpers.random_problems` says, each in time.

GWFAST_TEST_SEEDS is their number, by default 3000; `-k seeds_2900` solves the hundred from there.
"""

import os
import signal
import traceback
from collections import Counter

import pytest
from helpers.random_problems import solve

pytestmark = pytest.mark.heavy
BLOCK = 100
SECONDS = 60  # far more than any problem takes
BLOCKS = range(0, int(os.environ.get("GWFAST_TEST_SEEDS", "0")) or 3000, BLOCK)


def too_late(signum, frame):
    raise TimeoutError(f"more than {SECONDS} s")


@pytest.fixture(autouse=True)
def limit():
    """Raise a TimeoutError where a problem takes too long."""
    former = signal.signal(signal.SIGALRM, too_late)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


@pytest.mark.parametrize("first", BLOCKS, ids=lambda first: f"seeds_{first}")
def test_random_problems_end_as_their_status_says(first):
    ends, failed = Counter(), []
    for seed in range(first, first + BLOCK):
        signal.alarm(SECONDS)  # replaces the alarm of the seed before
        try:
            end, wrong = solve(seed)
        except Exception as error:
            traceback.print_exc(limit=-3)
            end, wrong = type(error).__name__, [f"{type(error).__name__}: {error}"]
        ends[end] += 1
        if wrong:
            failed.append(f"{seed}: {end}: {'; '.join(wrong)}")
    print(ends)
    assert not failed, "\n".join(failed)

"""However many random starts are asked for, as many are made as there is time for, and
as many are held as there is room for.
"""

import numpy as np
import pytest
from helpers.problems import random_cost

import gwfast
from gwfast.solvers import race, starts
from gwfast.utils.deadline import Deadline

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")

COSTS = random_cost(12, 0), random_cost(10, 1)
CALLS = {
    "race": lambda **how: gwfast.gromov_wasserstein(*COSTS, **how),
    "exact": lambda **how: gwfast.gromov_wasserstein(*COSTS, epsilon=0, **how),
    "batch": lambda **how: gwfast.gromov_wasserstein_batch([COSTS], **how)[0],
    "pairs": lambda **how: gwfast.pairwise_gromov_wasserstein(
        [COSTS[0], COSTS[0] ** 2], n_threads=1, **how
    ),
}


class AfterStarts(Deadline):
    """Has passed when so many of a list are made."""

    def __init__(self, made, most):
        self._made, self._most = made, most

    @property
    def at(self):
        return np.inf if len(self._made) < self._most else -np.inf

    def stop(self):
        self._most = 0


@pytest.mark.parametrize("n_starts", [10**5, 10**30])
@pytest.mark.parametrize("name", CALLS)
def test_no_more_starts_are_made_than_there_is_time_for(name, n_starts, monkeypatch):
    made, random = [], starts.Random

    def counted(seed):
        made.append(seed)
        return random(seed)

    monkeypatch.setattr(starts, "Random", counted)
    monkeypatch.setattr(Deadline, "after", lambda time_limit: AfterStarts(made, 20))
    found = CALLS[name](n_starts=n_starts, time_limit=1.0)
    assert 20 <= len(made) <= 20 + race.MAX_FIELD
    cost = found.costs[0, 1] if name == "pairs" else found.gw_cost
    assert np.isfinite(cost)


def test_starts_race_in_heats_of_so_many(monkeypatch):
    fields, halving = [], race.successive_halving

    def counted(standing, **options):
        fields.append(len(standing.left))
        return halving(standing, **options)

    whole = CALLS["race"](n_starts=30)
    monkeypatch.setattr(race, "successive_halving", counted)
    monkeypatch.setattr(race, "MAX_FIELD", 10)
    heats = CALLS["race"](n_starts=30)
    assert len(fields) > 3 and max(fields) <= 10 + race.MAX_CLOSE
    names = [row.start for row in heats.candidates]
    assert names == [row.start for row in whole.candidates]
    assert [row.fate for row in heats.candidates].count("won") == 1
    assert heats.gw_cost <= 1.05 * whole.gw_cost

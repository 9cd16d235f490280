"""Confidence in the winner of a search: by how many independent starts lead to that optimum, by
how far every other objective is above it, and by how many escapes come back to it.
"""

from typing import NamedTuple

import numpy as np

from ...results.status import Ending

# The constant of the logistic function `confidence`, and the weight of each `Evidence`, fitted to
# every fifth problem of the families (``python -m benchmarks.search confidence``).
WEIGHTS = -2.4, 0.5, 0.4, 1.3, 1.2, 2.0
# The same for exact searches, fitted to 438 problems, each against 150 more starts.
EXACT_WEIGHTS = -0.05, 0.55, 0.25, 1.3, 0.0, 0.0
# Confidence from which on a search looks no further, and a result is not "uncertain".
LEVEL = 0.93
# Relative difference of objectives below which two optima are a tie, and of exact optima.
TIE, EXACT_TIE = 1e-3, 1e-4
# Statuses of results whose objective stands still.
SETTLED = Ending.CONVERGED, Ending.TIE, Ending.UNCERTAIN, Ending.NEAR_PRODUCT


class Evidence(NamedTuple):
    """The evidence of a search for its winner, see `docs/optimum.md`."""

    kinds: float  # of starts that led to its optimum in the race, at most three
    met: float  # starts of any kind that came there beside the first, at most three
    gap: float  # to the next objective in the race, in units of .1, at most one
    back: float  # of k escapes from it that came back, k over one more than there were
    settled: float  # whether the objective stands still

    @classmethod
    def of(cls, candidates, status, exact=False):
        """Return the evidence of the candidates of a search that has a winner."""
        group, winner = _optimum(candidates, EXACT_TIE if exact else TIE), winner_of(candidates)
        escapes = [row for row in candidates if row.start.startswith("escape")]
        race = [row for row in candidates if not row.start.startswith("escape")]
        met = {row.start for row in race if row.start in group}
        # Starts that may err together are of one kind: profiles, or of one clustering.
        kinds = {"profile" if "profile" in one else one.partition(",")[0] for one in met}
        names = [row.start for row in escapes]
        if winner in names:  # escapes before it are from another optimum
            escapes = escapes[names.index(winner) :]
        back = [row.start in group for row in escapes if row.start != winner]
        ended = [row for row in race if not exact or row.epsilon == 0]
        others = [row for row in ended if row.start not in group]
        gap = float(not others and len(race) > 1)
        ours = [row for row in ended if row.start in group]
        ours = [row.gw_cost for row in ours if others and _level(row) == _level(others[0])]
        if ours:
            least = min(ours)
            above = min(row.gw_cost for row in others) - least
            gap = min(above / abs(least) / 0.1, 1.0) if least else 1.0
        return cls(
            kinds=min(len(kinds), 3),
            met=min(max(len(met) - 1, 0), 3),
            gap=gap,
            back=sum(back) / (len(back) + 1),
            settled=status in SETTLED,
        )


def confidence(evidence, weights=WEIGHTS):
    """Return the chance that no lower optimum exists, for evidence (..., 5)."""
    constant, *weights = weights
    return 1 / (1 + np.exp(-(constant + np.asarray(evidence, float) @ weights)))


def confidence_of(candidates, status, exact=False):
    """Return `confidence` by the candidates of a search; NaN if nothing has won."""
    winner = winner_of(candidates)
    if not winner:
        return np.nan
    if winner.startswith("isomorphism"):  # no plan is below zero
        return 1.0
    weights = EXACT_WEIGHTS if exact else WEIGHTS
    return float(confidence(Evidence.of(candidates, status, exact), weights))


def winner_of(candidates):
    """Return the start of the last candidate that has won, or ""."""
    return next((row.start for row in candidates[::-1] if row.fate == "won"), "")


def _optimum(candidates, tie):
    """Return the winner and all starts that came to its optimum, or to one as low."""
    group, size = {winner_of(candidates)}, 0
    same = [row for row in candidates if row.fate.startswith("same as ")]
    pairs = [{row.start, row.fate.removeprefix("same as ")} for row in same]
    while len(group) > size:
        size = len(group)
        group.update(*(pair for pair in pairs if pair & group))
    # Objectives can be compared at one number of points and one epsilon.
    known = sorted((_level(row), row.gw_cost) for row in candidates if row.start in group)
    least = dict(reversed(known))
    return group | {
        row.start
        for row in candidates
        if abs(row.gw_cost - least.get(_level(row), np.inf)) <= tie * abs(row.gw_cost)
    }


def _level(row):
    return row.n_points, row.epsilon

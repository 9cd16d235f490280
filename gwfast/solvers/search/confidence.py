"""Confidence in the winner of a search: by how many independent starts lead to that optimum, by
how far every other objective is above it, and by how many later descents come back to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...problems.quadratic import QuadraticProblem
from ...quadratic.linearize import is_factored
from ...results.status import Ending
from ...results.tables import Candidate, with_gaps
from ...utils.types import Float64Array
from .clusters import CLUSTERS
from .starts import is_similarity

# Kinds of searches, whose evidence differs in worth: of balanced problems with entropy by their
# costs, of free marginals, and without entropy. Restarts from a plan of clouds come back from wrong
# optima as well; few optima of distances are wrong.
CLOUDS, DISTANCES, SIMILARITIES = "clouds", "distances", "similarities"
FREE, EXACT, EXACT_FREE = "free marginals", "exact", "exact, free marginals"
# The constant of the logistic function `confidence`, and the weight of each `Evidence`. The weights
# of exact searches are rounded from fits to either half of 402 problems, at every round at which
# their searches may end; a sixth of the problems have their best plan hidden by noise. The others
# are set by hand, the first three rows by 290 problems of the families.
WEIGHTS = {
    CLOUDS: (-6.45, 0.0, 0.1, 4.15, 3.5, 0.5, 4.9, 0.0, 0.0),
    DISTANCES: (-3.9, 0.0, 1.0, 2.4, 0.0, 0.5, 4.9, 0.0, 0.0),
    SIMILARITIES: (-7.5, 0.0, 4.6, 2.6, 0.0, 3.9, 4.9, 0.0, 0.0),
    FREE: (-6.5, 0.8, 0.2, 3.0, 0.0, 0.7, 4.9, 0.0, 0.0),
    EXACT: (-0.8, 0.0, 0.0, 3.35, 0.0, 0.0, 0.0, 1.15, 2.5),
    EXACT_FREE: (0.2, 0.7, 0.4, 2.5, 0.0, 0.8, 0.0, 0.0, 0.0),
}
# Units of gaps between optima: of similarities wrong optima are up to .12 below
# the next, of exact plans many are near, and the most of parts of a whole.
GAPS = {CLOUDS: 0.1, DISTANCES: 0.1, SIMILARITIES: 0.3, FREE: 0.1, EXACT: 0.4, EXACT_FREE: 3.0}
# Confidence from which on a search looks no further, and a result is not "uncertain".
LEVEL = 0.93
# Largest estimate: four of 91 problems with `LEVEL` or more were wrong, see `docs/optimum.md`.
MOST = 0.99
# Relative difference of objectives below which two optima are a tie.
TIE = 1e-3
# Statuses of results whose objective stands still.
SETTLED = (Ending.CONVERGED, Ending.TIE, Ending.RIVAL, Ending.UNCERTAIN, Ending.NEAR_PRODUCT)


class Evidence(NamedTuple):
    """The evidence of a search for its winner, see `docs/optimum.md`."""

    kinds: float  # of starts that led to its optimum in the race, at most three
    met: float  # independent starts that came there beside the first, at most three
    gap: float  # to the next objective, in units of `GAPS`, at most one
    clusterings: float  # that led there although another start did as well, at most two
    back: float  # returned restarts / (restarts + 1)
    settled: float  # whether the objective stands still
    # Of exact searches, times how clearly the winner is below the product plan. Where the best plan
    # is hidden among many, the others are all hardly below, and starts and restarts agree on one.
    explained: float  # `met`
    returned: float  # the logarithm of the number of returned restarts, over five

    @classmethod
    def of(
        cls, candidates: Sequence[Candidate], status: Ending | None, kind: str = DISTANCES
    ) -> Evidence:
        """Return the evidence of the candidates of a search of a kind, one of which has won."""
        product = getattr(candidates, "product", np.nan)
        candidates = with_gaps(list(candidates))
        winner = winner_of(candidates)
        if winner is None:
            raise ValueError("candidates must have a winner")
        exact, below = winner.epsilon == 0, 0.0
        if exact and product > 0:
            # By 30 % of the product plan's objective it is hardly below, by 50 % clearly.
            share = (1.0 - winner.value / product - 0.3) / (0.5 - 0.3)
            below = min(max(share, 0.0), 1.0)
        group = _optimum(candidates, winner)
        restarts = [row for row in candidates if row.is_restart]
        race = [row for row in candidates if not row.is_restart]
        ours = [row for row in race if row.optimum in group]
        arrived = {(row.kind, row.draw) for row in ours}  # independent of one another
        clusterings = sum(kind == CLUSTERS for kind, _ in arrived)
        if winner.is_restart:  # restarts before it are from another optimum
            restarts = restarts[restarts.index(winner) + 1 :]
        back = sum(row.optimum in group for row in restarts)
        others = [row for row in candidates if row.optimum not in group]
        # The last row of an optimum is the row of the descent that went farthest.
        ends = {row.optimum: row.gap for row in others if (row.epsilon == 0) == exact}
        gaps = [one for one in ends.values() if one == one]
        gap = float(not others and len(race) > 1)
        if gaps:
            gap = min(max(min(gaps), 0.0) / GAPS[kind], 1.0)
        met = min(max(len(arrived) - 1, 0), 3)
        return cls(
            kinds=min(len({row.kind for row in ours} - {CLUSTERS}) + clusterings, 3),
            met=met,
            gap=gap,
            clusterings=min(clusterings, len(arrived) - 1, 2) if clusterings else 0,
            back=back / (len(restarts) + 1),
            settled=status in SETTLED,
            explained=met * below,
            returned=below * max(np.log((1 + back) / 5), 0.0),
        )


def confidence(evidence: ArrayLike, weights: Sequence[float]) -> Float64Array:
    """Return the chance that no lower optimum exists, for evidence (..., 8)."""
    constant, *weights = weights
    return 1 / (1 + np.exp(-(constant + np.asarray(evidence, float) @ weights)))


def kind_of(problem: QuadraticProblem, exact: bool = False) -> str:
    """Return the kind of search of a problem."""
    if problem.rule.has_free_marginals:
        return EXACT_FREE if exact else FREE
    if exact:
        return EXACT
    if is_factored(problem):
        return CLOUDS
    for side in (problem.x, problem.y):
        rows = np.linspace(0, side.n - 1, min(side.n, 500)).astype(np.intp)
        if not is_similarity(side.take(rows).to_dense().matrix):
            return DISTANCES
    return SIMILARITIES


def confidence_of(
    candidates: Sequence[Candidate], status: Ending | None, kind: str = DISTANCES
) -> float:
    """Return `confidence` by the candidates of a search of a kind, at most `MOST`; 1 for isomorphic
    costs; NaN if nothing has won, or one start was alone.
    """
    winner = winner_of(candidates)
    if winner is None:
        return np.nan
    if winner.kind == "isomorphism":  # no plan is below zero
        return 1.0
    if len(candidates) == 1:
        return np.nan
    return min(float(confidence(Evidence.of(candidates, status, kind), WEIGHTS[kind])), MOST)


def winner_of(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the last candidate that has won, or None."""
    return next((row for row in candidates[::-1] if row.fate == "won"), None)


def _optimum(candidates: Sequence[Candidate], winner: Candidate) -> set[int]:
    """Return the numbers of the optimum of the winner, and of all that are as low."""
    return {winner.optimum} | {row.optimum for row in candidates if abs(row.gap) <= TIE}

"""How sure a search is of its winner: by how many independent starts lead to that optimum, by how
far every other objective is above it, and by what escapes from it have come to.

`CLEAR` is measured: on 52 problems (``python -m benchmarks.search ladders``) a race of
fewer starts misses the lowest optimum of 15; the winner of each of these comes from one
kind of start, with another objective at most 10 % above. The race of the default starts
misses seven, and is sure of none of them.
"""

import operator
from typing import NamedTuple

import numpy as np

from ..results.status import Status

# Relative difference from the winner's objective to every other at which one start is enough.
CLEAR = 0.2
# Of the logistic function that is `confidence`: its constant, and the weight of each
# `Evidence`: a little larger than those of a fit to every fifth problem of the families
# (``python -m benchmarks.search confidence``), which its penalty shrinks.
WEIGHTS = -2.4, 0.5, 0.4, 1.3, 1.2, 2.0
# The weights for exact searches, fitted to 438 problems (graphs, clouds, curves and planted
# matches), each against 150 more starts. 252 are above `LEVEL`; 3 of these 252 had a lower
# optimum.
EXACT_WEIGHTS = -0.05, 0.55, 0.25, 1.3, 0.0, 0.0
# Confidence from which on a search looks no further, and a result is not "uncertain": of every
# fifth problem of the families 55 of 99 end so, and none has missed a lower optimum.
LEVEL = 0.93
# Relative difference of objectives below which two optima are a tie.
TIE = 1e-3
# The same of exact searches, whose starts are told apart before they are polished.
EXACT_TIE = 1e-4
# Label of an escape from the best plan, and what labels after a race begin with.
ESCAPE, LATER = "escape {}", ("escape", "clusters")
# Statuses of results whose objective stands still.
SETTLED = Status.CONVERGED, Status.TIE, Status.UNCERTAIN, Status.NEAR_PRODUCT
# Caps of the evidence: kinds of starts, starts that met, and the relative difference to the next
# objective, since next to a wrong optimum of molecules there may be nothing within 100 %.
MOST_KINDS, MOST_MET, MOST_GAP = 3, 3, 0.1
# Candidates whose objectives can be compared have equal levels.
_level = operator.attrgetter("n_points", "epsilon")


class Evidence(NamedTuple):
    """What a search says for its winner.

    Attributes
    ----------
    kinds : float
        Kinds of starts that led to its optimum in the race, independent of one another.
    met : float
        Starts, of any kind, that came there beside the first.
    gap : float
        Relative difference of the next objective in the race, as a share of `MOST_GAP`,
        at most one, as it is where all have come to one optimum.
    back : float
        Of k escapes from it that came back, k over one more than there were.
    settled : float
        Whether the objective stands still.
    """

    kinds: float
    met: float
    gap: float
    back: float
    settled: float

    @classmethod
    def of(cls, candidates, status, exact=False):
        """That of a search's candidates, one of which has won."""
        group, winner = (_optimum(candidates, EXACT_TIE if exact else TIE), winner_of(candidates))
        race = [row for row in candidates if not _is_escape(row)]
        met = {row.start for row in race if row.start in group}
        escapes = [row for row in candidates if _is_escape(row)]
        names = [row.start for row in escapes]
        if winner in names:
            # What came before has escaped from something else.
            escapes = escapes[names.index(winner) :]
        back = [row.start in group for row in escapes if row.start != winner]
        ended = [row for row in race if not exact or row.epsilon == 0]
        alone = all(row.start in group for row in ended)
        return cls(
            min(len(set(map(_kind, met))), MOST_KINDS),
            min(max(len(met) - 1, 0), MOST_MET),
            1.0 if alone and len(race) > 1 else min(_gap(ended, group) / MOST_GAP, 1.0),
            sum(back) / (len(back) + 1),
            status in SETTLED,
        )


def confidence(evidence, weights=WEIGHTS):
    """The chance that no lower optimum exists, for evidence (..., 5)."""
    constant, *weights = weights
    return 1 / (1 + np.exp(-(constant + np.asarray(evidence, float) @ weights)))


def confidence_of(candidates, status, exact=False):
    """`confidence` by the candidates of a search; NaN where there was none."""
    if not winner_of(candidates):
        return np.nan
    if costs_nothing(candidates):
        return 1.0
    weights = EXACT_WEIGHTS if exact else WEIGHTS
    return float(confidence(Evidence.of(candidates, status, exact), weights))


def verdict(candidates, status, exact=False):
    """Confidence, and whether that is too low. Where nothing followed the race it is
    NaN, but of a race that needs no more, and a race is doubted unless it `is_sure`.
    """
    chance = confidence_of(candidates, status, exact)
    if exact or chance >= LEVEL or any(row.start.startswith(LATER) for row in candidates):
        return chance, not chance >= LEVEL
    return np.nan, not is_sure(candidates)


def is_sure(candidates):
    """Whether the winner among a race's candidates need not be doubted; False also if
    nothing raced, or nothing has won.
    """
    if not winner_of(candidates):
        return False
    group = _optimum(candidates)
    kinds = {_kind(label) for label in group}
    return costs_nothing(candidates) or len(kinds) > 1 or _gap(candidates, group) >= CLEAR


def costs_nothing(candidates):
    """Whether the winner is from a plan that costs nothing: no plan is below zero."""
    return winner_of(candidates).startswith("isomorphism")


def winner_of(candidates):
    """The start of the last candidate that has won; "" where none has."""
    return next((row.start for row in candidates[::-1] if row.fate == "won"), "")


def _optimum(candidates, tie=TIE):
    """Return the winner and all starts that came to its optimum, or to one as low."""
    group, size, pairs = {winner_of(candidates)}, 0, []
    for row in candidates:
        _, _, other = row.fate.partition("same as ")
        if other:
            pairs.append({row.start, other})
    while len(group) > size:
        size = len(group)
        group.update(*(pair for pair in pairs if pair & group))
    known = [(_level(row), row.gw_cost) for row in candidates if row.start in group]
    least = dict(sorted(known, reverse=True))
    for row in candidates:
        above = row.gw_cost - least.get(_level(row), np.inf)
        if abs(above) <= tie * abs(row.gw_cost):
            group.add(row.start)
    return group


def _is_escape(row):
    return row.start.startswith(ESCAPE.format(""))


def _kind(label):
    """The same for starts that may err together: profiles of the same points, and
    starts from the same clusters.
    """
    name, _, _ = label.removeprefix("fresh ").partition(",")
    return label.startswith("fresh "), "profile" if "profile" in name else name


def _gap(candidates, group):
    """Return how far the other objectives are above a group's on the last level of both."""
    for each in sorted(set(map(_level, candidates)), reverse=True):
        level = [row for row in candidates if _level(row) == each]
        ours = [row.gw_cost for row in level if row.start in group]
        others = [row.gw_cost for row in level if row.start not in group]
        if ours and others:
            least = min(ours)
            return (min(others) - least) / abs(least) if least else float("inf")
    return 0.0

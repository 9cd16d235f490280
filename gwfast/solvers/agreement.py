"""How sure a search is of its winner: by how many independent starts lead to that
optimum, by how far every other objective is above it, and by what escapes from it have
come to.

`CLEAR` is measured: on 52 problems (``python -m benchmarks.search ladders``) a race of
fewer starts misses the lowest optimum of 15; the winner of each of these comes from one
kind of start, with another objective at most 10 % above. The race of the default starts
misses seven, and is sure of none of them.
"""

from typing import NamedTuple

import numpy as np

from ..results.status import Status

# Relative difference from the winner's objective to every other at which one start is
# enough.
CLEAR = 0.2
# Of the logistic function that is `confidence`: its constant, and the weight of each
# `Evidence`, as ``python -m benchmarks.search confidence`` fits them to 490 problems,
# each with three shares of escapes.
WEIGHTS = -2.18, 0.45, 1.95, 1.48, 0.32, 0.18, 2.10
# Confidence from which on a result is not "uncertain": of 706 searches that reach it,
# each with weights from other families, 17 had missed a lower optimum (of 850 from .9
# on, 30); and the one at which a search looks no further.
LEVEL, ENOUGH = 0.94, 0.95
# Relative difference of objectives below which two optima are a tie.
TIE = 1e-3
# Labels of escapes from the best plan, and of those from the product plan.
ESCAPE, AT_RANDOM = "escape {}", "escape {}, at random"
# Kinds of starts, relative differences to the next objective, and escapes that came
# back, of which more say no more: next to a wrong optimum of molecules there may be
# nothing within 100 %.
MOST_KINDS, MOST_GAP, MOST_BACK = 3, 0.1, 3


class Evidence(NamedTuple):
    """What a search says for its winner.

    Attributes
    ----------
    kinds : float
        Kinds of starts that led to its optimum in the race, independent of one another.
    gap : float
        Relative difference of the next objective in the race, as a share of `MOST_GAP`,
        at most one, as it is where all have come to one optimum.
    back : float
        Of k escapes from it that came back, k over one more than there were.
    again : float
        How many escapes from the product plan came there.
    apart : float
        How far above it the next end of an escape was, relatively: from -3 for a
        thousandth or less to 0 for as much as itself, in powers of ten.
    settled : float
        Whether the objective stands still.
    """

    kinds: float
    gap: float
    back: float
    again: float
    apart: float
    settled: float

    @classmethod
    def of(cls, candidates, status):
        """That of a search's candidates, one of which has won."""
        group, winner = _optimum(candidates), _winners(candidates)[-1]
        race = [row for row in candidates if not _is_escape(row)]
        kinds = {_kind(row.start) for row in race if row.start in group}
        escapes = [row for row in candidates if _is_escape(row)]
        names = [row.start for row in escapes]
        if winner in names:
            # What came before has escaped from something else.
            escapes = escapes[names.index(winner) :]
        # Another optimum that is as low makes this one no less the lowest.
        size = {row.n_points for row in escapes}
        known = [row for row in candidates if row.start in group]
        least = min([row.gw_cost for row in known if row.n_points in size], default=0.0)
        as_low = least + TIE * abs(least)
        group |= {row.start for row in escapes if row.gw_cost <= as_low}
        own, at_random, apart = [], [], 0.0
        for row in escapes:
            if row.start != winner:
                is_random = row.start.endswith(AT_RANDOM.partition(",")[2])
                (at_random if is_random else own).append(row.start in group)
        if not all(own + at_random):
            known = [row for row in race if row.start in group]
            apart = np.log10(np.clip(_gap(known + escapes, group), 1e-3, 1.0))
        alone = all(row.start in group for row in race)
        return cls(
            min(len(kinds), MOST_KINDS),
            1.0 if alone and len(race) > 1 else min(_gap(race, group) / MOST_GAP, 1.0),
            sum(own) / (len(own) + 1),
            min(sum(at_random), MOST_BACK),
            float(apart),
            status in (Status.CONVERGED, Status.TIE, Status.UNCERTAIN),
        )


def confidence(evidence, weights=WEIGHTS):
    """The chance that no lower optimum exists, for evidence (..., 6)."""
    constant, *weights = weights
    return 1 / (1 + np.exp(-(constant + np.asarray(evidence, float) @ weights)))


def confidence_of(candidates, status):
    """`confidence` by the candidates of a search; NaN where there was none."""
    if not _winners(candidates):
        return np.nan
    if costs_nothing(candidates):
        return 1.0
    return float(confidence(Evidence.of(candidates, status)))


def verdict(candidates, status):
    """Confidence, and whether that is too low. Where no escape was made it is NaN, but
    of a race that needs none, and a race is doubted unless it `is_sure`.
    """
    chance = confidence_of(candidates, status)
    if chance >= ENOUGH or any(_is_escape(row) for row in candidates):
        return chance, not chance >= LEVEL
    return np.nan, not is_sure(candidates)


def is_sure(candidates):
    """Whether the winner among a race's candidates need not be doubted; False also if
    nothing raced, or nothing has won.
    """
    if not _winners(candidates):
        return False
    group = _optimum(candidates)
    kinds = {_kind(label) for label in group}
    return (
        costs_nothing(candidates) or len(kinds) > 1 or _gap(candidates, group) >= CLEAR
    )


def costs_nothing(candidates):
    """Whether the winner is from a plan that costs nothing: no plan is below zero."""
    return any(one.startswith("isomorphism") for one in _winners(candidates))


def _winners(candidates):
    return [row.start for row in candidates if row.fate == "won"]


def _optimum(candidates):
    """The winner and all candidates that came to its optimum, also by way of others."""
    group, size, pairs = {_winners(candidates)[-1]}, 0, []
    for row in candidates:
        _, _, other = row.fate.partition("same as ")
        if other:
            pairs.append({row.start, other})
    while len(group) > size:
        size = len(group)
        group.update(*(pair for pair in pairs if pair & group))
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
    """Relative difference from the lowest objective of a group to the lowest of the
    others, on the last level that has both.
    """
    for size in sorted({row.n_points for row in candidates}, reverse=True):
        level = [row for row in candidates if row.n_points == size]
        ours = [row.gw_cost for row in level if row.start in group]
        others = [row.gw_cost for row in level if row.start not in group]
        if ours and others:
            least = min(ours)
            return (min(others) - least) / abs(least) if least else float("inf")
    return 0.0

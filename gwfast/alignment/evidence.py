"""Evidence for an alignment from rows that took no part in the transport problem: how well they
agree under its map, beside maps from other optima of the search and a map from chance.
"""

import dataclasses
import time
from typing import NamedTuple

import numpy as np

from ..problems.geometry import unit_rows
from ..results.status import Ending
from ..results.tables import Candidates
from ..solvers.search.confidence import MOST
from ..utils.deadline import NEVER
from .maps import orthogonal, refine_maps
from .retrieval import best_matches, hubness

# Standard errors by which a map must exceed all others to be right.
STANDS_OUT = 5.0


class Agreement(NamedTuple):
    """How well rows of both sides agree under refined maps.

    Attributes
    ----------
    start : str
        "plan" of the map that the transport plan led to, "other optimum", or "chance" of a random
        orthogonal map; all are refined alike.
    cosine, error : float
        Mean cosine of mutual nearest neighbors by CSLS (Conneau et al., ICLR 2018, section 2.4),
        and its standard error.
    share : float
        Share of the rows that have a mutual nearest neighbor.
    """

    start: str
    cosine: float
    error: float
    share: float


def agreements(x, y, n_words, mapping, rivals, seed, n_threads, deadline):
    """Return the `Agreement` of a map, of different maps by the contractions of `rivals`, and of a
    random map, all refined on the first `n_words` rows, on 1000 if these are few, and compared on
    rows beyond them, if there are enough. There are none if rows are few in all, if any map agrees,
    as in few columns, or if they take more than half of the time that is left. And return
    mutual matches of the first rows under the map of a rival that agrees clearly better, or None.
    """
    # Rows of a side that maps are refined on, and compared on; and the least that say anything.
    n_refined, n_compared, n_least = 3000, 2000, 300
    if min(n_words) < n_least:
        n_words = 1000, 1000
    parts = [side[: min(n, n_refined)] for side, n in zip((x, y), n_words, strict=True)]
    if min(map(len, parts)) < n_least:
        return (), None
    asked = [side[n : n + n_compared] for side, n in zip((x, y), n_words, strict=True)]
    if min(map(len, asked)) < n_least:
        asked = [side[:n_compared] for side in (x, y)]
    d, e = mapping.shape
    chance = np.random.default_rng(seed).standard_normal((d, e))
    starts = [("plan", mapping), ("chance", orthogonal(chance))]
    starts += [("other optimum", orthogonal(rival[:d, :e])) for rival in rivals]
    found, matches_of_maps, better, most = [], [], None, 0.0
    began = time.perf_counter()
    for number, (name, start) in enumerate(starts):
        spent = time.perf_counter() - began
        if number and deadline.passed(2 * spent / number * (len(starts) - number)):
            return (), None
        maps = refine_maps(*parts, start, None, 5, n_threads, lambda event: None, NEVER)[:2]
        figures, matches, _ = _agreement(*asked, *maps, n_threads)
        # By chance the mean cosine of 2 columns is 1.00, of 8 columns .90, of words .25 to .57.
        if name == "chance" and figures[0] > 0.95:
            return (), None
        # With half of the matches in common two maps are one.
        if name == "chance" or all(np.mean(matches == other) < 0.5 for other in matches_of_maps):
            found.append(Agreement(name, *figures))
            matches_of_maps.append(matches)
            gap = _gap(found[-1], found[0])
            if name != "chance" and gap >= max(STANDS_OUT, most):
                _, matches, rows = _agreement(*parts, *maps, n_threads)
                better, most = np.column_stack([rows, matches[rows]]), gap
    plan, by_chance, *others = found
    return (plan, *others, by_chance), better


def _gap(first, second):
    """Return the difference of mean cosines in standard errors."""
    return (first.cosine - second.cosine) / max(np.hypot(first.error, second.error), 1e-12)


def _agreement(x, y, mapping, target_mapping, n_threads):
    """Return mean cosine of mutual nearest neighbors, its error, and the share of rows with one;
    the best match of each row; and rows whose match is mutual.
    """
    x, y = x @ mapping, y if target_mapping is None else y @ target_mapping
    matches = best_matches(x, y, hubness(y, x, "csls", n_threads), 1, n_threads)
    rows, best = np.flatnonzero(matches.mutual), matches.forward.indices[:, 0]
    left, right = (unit_rows(side, "rows", np.float32) for side in (x[rows], y[best[rows]]))
    cosines = np.einsum("ij,ij->i", left, right)
    error = float(cosines.std() / np.sqrt(len(rows)))
    return (float(cosines.mean()), error, len(rows) / min(len(x), len(y))), best, rows


def chosen(gw, other, contraction):
    """Return the other result if its objective is as low up to 1 % as the objective of the search,
    with the plan of the search, of this `contraction`, as its rival; else None.
    """
    if not other.gw_cost <= gw.gw_cost + 0.01 * abs(gw.gw_cost):
        return None
    rows = list(gw.candidates)
    number = max(k for k, row in enumerate(rows) if row.fate == "won")
    figures = dict(gw_cost=other.gw_cost, n_iter=other.n_iter, seconds=other.seconds)
    rows.append(rows[number]._replace(start="agreement", **figures))
    rows[number] = rows[number]._replace(fate="lost")
    candidates = Candidates(rows, gw.confidence, [contraction])
    return dataclasses.replace(other, candidates=candidates, remarks=gw.remarks)


def weighed(gw, evidence):
    """Return the result of a search with the confidence that the evidence leaves, and its status.

    Wrong optima agree alike, a right one stands out. The comparison is within the same data, so
    that nothing depends on how near neighbors are there. Of a map that does not stand out from
    chance nothing is said: the rows that are compared may have no counterparts. To stand out from
    chance alone says something only if two other optima have led to the same map: wrong maps do.
    """
    if not evidence or gw.ending not in (Ending.CONVERGED, Ending.UNCERTAIN):
        return gw
    plan, *others, by_chance = evidence
    met = others or len(gw.candidates.rivals) > 1
    if not met or _gap(plan, by_chance) < STANDS_OUT:
        return gw
    gap = min((_gap(plan, other) for other in others), default=np.inf)
    if gap >= STANDS_OUT and gw.confidence < MOST:
        return _with(gw, MOST, Ending.CONVERGED)
    # Below two standard errors the map of the plan is no better than the others.
    doubted = 0.5
    if gap < 2.0 and gw.confidence > doubted:
        advice = "rows agree no better than under another optimum of the search"
        advice = f"{advice}; try SolverOptions(search_time=...), known pairs, or more n_words"
        return _with(gw, doubted, Ending.UNCERTAIN, advice)
    return gw


def _with(gw, confidence, ending, advice=""):
    """Return a result with another confidence, ending and advice before its remarks."""
    candidates = Candidates(gw.candidates, confidence, gw.candidates.rivals)
    advice = "; ".join(filter(None, [advice, *gw.remarks]))
    return dataclasses.replace(gw, candidates=candidates, ending=ending, advice=advice)

"""Confidence by the starts that a search tried: a pure function, imported from inside."""

import pytest

from gwfast.results.status import Ending
from gwfast.results.tables import Candidate
from gwfast.solvers.search.confidence import Evidence, confidence_of


def tried(start, gw_cost, fate="lost"):
    return Candidate(start, 50, 0.1, gw_cost, n_iter=9, seconds=0.1, fate=fate)


SEARCH = [
    tried("profile 0.02", 1.0, "won"),
    tried("profile 0.05", 1.0, "same as profile 0.02"),
    tried("random 0", 1.0, "same as profile 0.05"),
    tried("product", 1.04),
    tried("escape 0", 1.0, "same as profile 0.02"),
    tried("escape 1", 1.2),
]


def test_evidence_is_counted_and_raises_confidence_and_doubts_lower_it():
    found = Evidence.of(SEARCH, Ending.CONVERGED)
    assert found == pytest.approx((2, 2, 0.4, 1 / 3, True))
    known = confidence_of(SEARCH, Ending.CONVERGED)
    for start in ("random 1", "escape 2"):
        same = tried(start, 1.0, "same as random 0")
        assert confidence_of([*SEARCH, same], Ending.CONVERGED) > known
    for other in (tried("random 1", 1.01), tried("escape 2", 1.3)):
        assert confidence_of([*SEARCH, other], Ending.CONVERGED) < known
    assert confidence_of(SEARCH, Ending.MAX_OUTER) < known

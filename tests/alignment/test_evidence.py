"""How well rows agree under the map of an alignment, beside other maps."""

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair

import gwfast


def gap(first, second):
    """The difference of mean cosines in standard errors."""
    return (first.cosine - second.cosine) / np.hypot(first.error, second.error)


@pytest.mark.parametrize("n_words, init", [(350, "profile"), (100, "profile"), (350, "auto")])
def test_refined_rows_agree_better_than_by_chance(n_words, init):
    """After one start, too, and if few rows took part."""
    x, y, _ = rotated_pair(700, 8, 3, noise=0.1)
    found = gwfast.align(x, y, n_words=n_words, init=init, refine=2)
    plan, *others, chance = found.evidence
    assert (plan.start, chance.start) == ("plan", "chance") and gap(plan, chance) > 5
    assert {other.start for other in others} <= {"other optimum"}
    assert bool(others) <= (init == "auto")


def test_alignments_without_evidence():
    """It is not asked for, there are too few rows, or time was up."""
    x, y, _ = rotated_pair(310, 8, 3, noise=0.1)
    assert gwfast.align(x, y, init="profile").evidence == ()
    assert gwfast.align(x[:250], y[:250], init="profile", refine=1).evidence == ()
    with pytest.warns(gwfast.ConvergenceWarning):
        assert gwfast.align(x, y, refine=1, time_limit=1e-9).evidence == ()


def test_a_map_that_stands_out_is_converged_and_others_are_not():
    x = cloud(400, 20, 1)
    found = gwfast.align(x, x, refine=1)
    assert found.gw.converged and found.gw.confidence >= 0.99
    with pytest.warns(gwfast.ConvergenceWarning):
        found = gwfast.align(x, cloud(400, 20, 2), refine=1)
    assert found.gw.status == "uncertain" and found.gw.confidence <= 0.5


def test_few_columns_have_no_evidence():
    """All maps agree."""
    x, y, _ = rotated_pair(400, 2, 3, noise=0.01)
    found = gwfast.align(x, y, metric="sqeuclidean", init="profile", refine=1)
    assert found.evidence == () and found.gw.converged


def test_rows_without_counterparts_leave_no_doubt():
    """Rows beyond `n_words`, on which maps are compared."""
    x, y, _ = rotated_pair(500, 12, 3, noise=0.1)
    x, y = np.vstack([x, cloud(400, 12, 4)]), np.vstack([y, cloud(400, 12, 5)])
    found = gwfast.align(x, y, n_words=500, refine=2)
    assert found.gw.converged and found.gw.confidence > 0.9 and len(found.evidence) > 1


def test_evidence_leaves_time_for_the_refinement_and_is_saved(tmp_path):
    x, y, _ = rotated_pair(700, 8, 3, noise=0.1)
    found = gwfast.align(x, y, init="profile", refine=2, time_limit=60)
    found.save(tmp_path / "saved")
    assert len(found.evidence) == 2 and len(found.refinement) > 0
    assert gwfast.Alignment.load(tmp_path / "saved").evidence == found.evidence

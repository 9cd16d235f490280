"""How sure a race is of its winner."""

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair

import gwfast
from gwfast import PointCloud
from gwfast.results.candidates import Candidate
from gwfast.solvers.agreement import CLEAR, is_sure


def field(*rows, n_points=100):
    """Candidates of triples of a start, an objective and a fate."""
    return [
        Candidate(start, n_points, 0.1, cost, 8, 0.1, fate)
        for start, cost, fate in rows
    ]


WON, PROFILE = ("product", 1.0, "won"), ("profile 0.05", 1.0, "won")


@pytest.mark.parametrize(
    "sure, rows",
    [
        (False, [WON]),
        (False, [WON, ("random 0", 1.1, "lost")]),
        (True, [WON, ("random 0", 1.0, "same as product")]),
        # What begins with the same profiles is one start,
        (False, [PROFILE, ("root profile 0.1", 1.0, "same as profile 0.05")]),
        # and not where it was made anew from other points.
        (True, [PROFILE, ("fresh profile 0.02", 1.0, "same as profile 0.05")]),
        # By way of others.
        (
            True,
            [
                ("random 1", 1.0, "won"),
                ("profile 0.05", 1.0, "same as random 1"),
                ("random 2", 1.0, "same as profile 0.05"),
            ],
        ),
        # Two that met elsewhere.
        (
            False,
            [
                WON,
                ("random 1", 1.1, "dropped in round 1"),
                ("random 2", 1.1, "same as random 1"),
            ],
        ),
        (True, [WON, ("random 0", 1.01 + CLEAR, "lost")]),
        (True, [("product", 0.0, "won"), ("random 0", 1e-9, "lost")]),
        (False, [("product", 1.0, "lost")]),
        (False, []),
    ],
)
def test_two_that_know_nothing_of_one_another_or_a_wide_gap_make_sure(sure, rows):
    assert is_sure(field(*rows)) == sure


def test_the_gap_is_that_of_the_last_level_with_others():
    few = field(("product", 1.0, "went on"), ("random 0", 2.0, "lost"), n_points=50)
    near = field(("random 0", 1.02, "lost"))
    won = field(("product", 1.0, "won"))
    assert is_sure(few + won)
    assert not is_sure(few + near + won)


def test_a_race_that_one_start_won_alone_is_uncertain():
    x, y, _ = rotated_pair(200, 6, 0)
    sure = gwfast.gromov_wasserstein(PointCloud(x), PointCloud(y))
    assert sure.status == "converged" and sure.converged and not sure.advice
    clouds = PointCloud(cloud(150, 5, 1)), PointCloud(cloud(160, 5, 2))
    with pytest.warns(gwfast.ConvergenceWarning, match="'uncertain'.*Seeds"):
        found = gwfast.gromov_wasserstein(*clouds)
    assert found.status == "uncertain" and found.converged
    # Nothing raced, nothing is said of other starts.
    again = gwfast.gromov_wasserstein(*clouds, init=np.asarray(found.plan))
    assert again.status == "converged"

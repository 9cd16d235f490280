"""Solves in float64 begin in float32, and end where exact inner solutions lead."""

import numpy as np
import pytest
from helpers.problems import hops

import gwfast
from gwfast.quadratic import dense

N_POINTS, NEIGHBORS = 260, 5


@pytest.mark.parametrize("seed", [19, 29, 45])
def test_they_leave_saddles_on_the_side_of_exact_ones(seed, monkeypatch):
    """On these clouds a tolerance of a hundredth of the change leads elsewhere."""
    rng = np.random.default_rng(seed)
    costs = [hops(rng.random((N_POINTS, 3)), NEIGHBORS) for _ in range(2)]
    options = dict(epsilon=1e-3, init="product", dtype="float64", tol=1e-8)
    found = gwfast.gromov_wasserstein(*costs, **options)
    monkeypatch.setattr(dense, "FAITHFUL_FRACTION", 1e-5)
    exact = gwfast.gromov_wasserstein(*costs, **options)
    assert found.gw_cost == pytest.approx(exact.gw_cost, rel=1e-6)

"""What callbacks may see of the plan."""

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair

import gwfast


def as_cloud(x, y):
    return gwfast.PointCloud(x), gwfast.PointCloud(y)


def as_matrices(x, y):
    return tuple(side.to_dense().matrix for side in as_cloud(x, y))


@pytest.mark.parametrize(
    "costs, tier, atol",
    [
        *((as_cloud, tier, 1e-6 / 150) for tier in ("dense", "tiled", "neighbors")),
        (as_matrices, "dense", 0),
    ],
)
def test_the_last_step_shows_the_plan_that_is_returned(costs, tier, atol):
    x, y, _ = rotated_pair(150, 5, 0, noise=0.05)
    seen = []
    result = gwfast.gromov_wasserstein(
        *costs(x, y),
        options=gwfast.SolverOptions(tier=tier),
        init="product",
        callback=lambda step: seen.append(step.coupling.toarray().copy()),
    )
    assert len(seen) == result.n_iter
    np.testing.assert_allclose(seen[-1], result.plan, rtol=0, atol=atol)
    sums = [plan.sum() for plan in seen]
    np.testing.assert_allclose(sums, 1.0, rtol=0.05)


@pytest.mark.parametrize("costs", [as_cloud, as_matrices])
def test_looking_changes_nothing(costs):
    x, y, _ = rotated_pair(120, 5, 2, noise=0.1)
    # A callback takes the descent in Python.
    plain = gwfast.gromov_wasserstein(*costs(x, y), init="product", callback=lambda step: False)
    looked = gwfast.gromov_wasserstein(
        *costs(x, y), init="product", callback=lambda step: step.coupling.topk(3).indices.max() < 0
    )
    np.testing.assert_array_equal(plain.plan, looked.plan)
    costs_seen = [(step.gw_cost, step.change) for step in looked.history]
    assert costs_seen == [(step.gw_cost, step.change) for step in plain.history]


def test_a_kept_step_is_a_record_without_a_plan():
    x, y = cloud(40, 3, 3), cloud(30, 3, 4)
    kept = []
    result = gwfast.gromov_wasserstein(
        *as_cloud(x, y), init="product", callback=lambda step: kept.append(step)
    )
    assert tuple(kept) == result.history
    with pytest.raises(RuntimeError, match="during the callback only"):
        _ = kept[0].coupling

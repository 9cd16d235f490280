"""The plan of a step, during a callback and after it."""

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair

import gwfast


@pytest.mark.parametrize(
    "kind, tier",
    [*(("cloud", tier) for tier in ("dense", "tiled", "neighbors")), ("matrix", "dense")],
)
def test_steps_show_plans_and_looking_changes_nothing(kind, tier):
    costs = [gwfast.PointCloud(x) for x in rotated_pair(80, 5, 0, noise=0.05)[:2]]
    costs = [side.to_dense().matrix for side in costs] if kind == "matrix" else costs
    options = dict(options=gwfast.SolverOptions(tier=tier), init="product")
    seen = []

    def look(step):
        seen.append(step.coupling.toarray().copy())
        return step.coupling.topk(3).indices.max() < 0

    looked = gwfast.gromov_wasserstein(*costs, callback=look, **options)
    assert len(seen) == looked.n_iter
    atol = 0 if kind == "matrix" else 1e-6 / 80
    np.testing.assert_allclose(seen[-1], looked.plan, rtol=0, atol=atol)
    np.testing.assert_allclose([plan.sum() for plan in seen], 1.0, rtol=0.05)
    plain = gwfast.gromov_wasserstein(*costs, callback=lambda step: False, **options)
    np.testing.assert_array_equal(plain.plan, looked.plan)
    assert [step.change for step in plain.history] == [step.change for step in looked.history]


def test_a_kept_step_is_a_record_without_a_plan():
    kept = []
    costs = [gwfast.PointCloud(cloud(n, 3, n)) for n in (40, 30)]
    result = gwfast.gromov_wasserstein(*costs, init="product", callback=kept.append)
    assert tuple(kept) == result.history
    with pytest.raises(RuntimeError, match="callback"):
        _ = kept[0].coupling

"""Truncated kernels of point clouds end where whole ones do."""

import numpy as np
import pytest

import gwfast
from gwfast.linear.support import Support

N = 1024


@pytest.fixture(scope="module")
def clouds():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 12)) ** 3
    y = (x + 0.1 * rng.standard_normal(x.shape)) @ np.linalg.qr(rng.standard_normal((12, 12)))[0]
    return gwfast.PointCloud(x), gwfast.PointCloud(y[rng.permutation(N)])


def solve(clouds, **how):
    return gwfast.gromov_wasserstein(*clouds, epsilon="0.5%", init="product", **how)


@pytest.fixture
def chosen(monkeypatch):
    """Supports that solves have chosen."""
    found, of_plan = [], Support.of_plan

    def choose(*given):
        found.append(of_plan(*given))
        return found[-1]

    monkeypatch.setattr(Support, "of_plan", choose)
    return found


def test_truncated_and_tiled_kernels_lead_to_one_plan(clouds, chosen):
    truncated, tiled = solve(clouds), solve(clouds, tier="tiled")
    assert any(chosen)
    assert truncated.status == tiled.status == "converged"
    assert truncated.gw_cost == pytest.approx(tiled.gw_cost, rel=1e-4)
    assert np.abs(np.asarray(truncated.plan) - tiled.plan).sum() < 1e-2
    assert gwfast.verify(gwfast.QuadraticProblem(*clouds), truncated).holds


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_a_limit_may_end_a_solve_on_a_truncated_kernel(clouds, chosen):
    full = solve(clouds)
    for max_outer in range(2, full.n_outer):
        del chosen[:]
        result = solve(clouds, max_outer=max_outer)
        if any(chosen):
            break
    assert result.plan.shape == (N, N)
    assert result.marginal_error < 1e-2
    assert result.plan.sum() == pytest.approx(1.0, abs=1e-3)


def test_one_and_three_threads_agree(clouds, chosen):
    one, three = (solve(clouds, n_threads=k) for k in (1, 3))
    np.testing.assert_array_equal(one.plan, three.plan)

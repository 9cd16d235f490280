"""The tier "neighbors": the plans of the dense tier, and a bound of the mass that they lack."""

import numpy as np
import pytest
from helpers.problems import rotated_pair, settings

import gwfast
from gwfast import CrossCost, PointCloud

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
N, M = 130, 150
RULES = "balanced", "semirelaxed", gwfast.Partial(0.7), gwfast.Unbalanced(0.05)
X, Y, _ = rotated_pair(M, 6, 0, noise=0.15)
CLOUDS = PointCloud(X[:N]), PointCloud(Y)
FEATURES = np.random.default_rng(1).standard_normal((M, 3))
BETWEEN = CrossCost(FEATURES[:N], FEATURES)


def solve(tier, *masses, epsilon="0.5%", **options):
    if "init" not in options:
        options |= dict(n_starts=1, search_time=0.01)
    options |= dict(tier=tier, epsilon=epsilon, n_threads=1)
    return gwfast.gromov_wasserstein(*CLOUDS, *masses, **settings(**options))


@pytest.mark.parametrize("fused", [{}, dict(linear_cost=BETWEEN, alpha=0.7)])
@pytest.mark.parametrize("rule", RULES)
def test_plans_are_those_of_the_dense_tier(rule, fused):
    dense = solve("dense", marginals=rule, **fused)
    few = solve("neighbors", marginals=rule, n_neighbors=80, **fused)
    assert few.converged and few.coupling.form == "sparse"
    assert few.gw_cost == pytest.approx(dense.gw_cost, rel=1e-4)
    # It is a difference of terms of this size.
    assert few.reg_cost == pytest.approx(dense.reg_cost, abs=1e-4 * dense.gw_cost)
    assert few.marginal_error <= max(1e-5, few.left_out)
    assert (few.match() == dense.match()).mean() > 0.99
    outside = dense.plan.copy()
    outside[few.coupling.csr.nonzero()] = 0.0
    assert outside.sum() <= few.left_out * dense.mass and few.left_out < 0.005


@pytest.mark.parametrize("k", [6, 12, 24])
def test_what_is_left_out_is_bounded_and_told(k):
    few = solve("neighbors", n_neighbors=k, epsilon="2%", max_iter=40)
    found = gwfast.verify(gwfast.QuadraticProblem(*CLOUDS), few, max_iter=50)
    assert 0.5 * few.left_out - 0.005 < found.truncation.value < few.left_out
    if few.left_out > 0.01:
        assert not few.converged and "n_neighbors" in few.advice
    else:
        assert few.status != "degenerate"


def test_a_solve_ends_with_the_neighbors_of_its_own_plan():
    """From a plan alone other neighbors are chosen first."""
    result = solve("neighbors", n_neighbors=20)
    again = solve("neighbors", n_neighbors=20, init=result.plan)
    assert result.converged and again.converged
    assert again.gw_cost == pytest.approx(result.gw_cost, rel=1e-4)
    kept, same = (one.coupling.csr != 0 for one in (result, again))
    assert kept.multiply(same).sum() > 0.97 * max(kept.nnz, same.nnz)

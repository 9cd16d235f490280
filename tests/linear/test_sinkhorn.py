"""Sinkhorn's algorithm for given costs."""

import numpy as np
import pytest
from helpers import twins
from helpers.marks import pairwise
from helpers.problems import masses
from scipy.special import xlogy

import gwfast


@pairwise(shape=[(1, 1), (1, 5), (4, 1), (7, 3), (33, 40), (130, 97)], epsilon=[1.0, 0.1, 0.05])
def test_plan_is_that_of_plain_iterations_and_proves_itself(shape, epsilon):
    cost = np.random.default_rng(0).random(shape) * 3 - 1
    p, q = masses(shape[0], 1), masses(shape[1], 2)
    for given in (cost, p, q):
        given.flags.writeable = False
    result = gwfast.sinkhorn(cost, p, q, epsilon=epsilon, tol=1e-6)
    expected = twins.balanced(np.exp(-cost / epsilon), p, q)
    assert result.converged and np.abs(result.plan - expected).sum() < 2e-5
    transposed = gwfast.sinkhorn(cost.T, q, p, epsilon=epsilon, tol=1e-6)
    assert np.abs(transposed.plan - result.plan.T).sum() < 1e-5
    plan = result.plan.astype(np.float64)
    error = np.abs(plan.sum(1) - p).sum() + np.abs(plan.sum(0) - q).sum()
    np.testing.assert_allclose(result.marginal_error, error, atol=1e-6)
    np.testing.assert_allclose(result.cost, np.vdot(plan, cost), rtol=1e-6)
    reg_cost = result.cost + epsilon * xlogy(plan, plan).sum()
    np.testing.assert_allclose(result.reg_cost, reg_cost, rtol=1e-5, atol=1e-7)
    # <T, C> + epsilon sum T log T has this dual.
    f, g = result.potentials
    made = np.exp((f[:, None] + g - cost) / epsilon)
    assert np.abs(made - plan).sum() < 2e-5
    dual = f @ p + g @ q - epsilon * (made.sum() - 1)
    assert abs(result.reg_cost - dual) < 1e-4 * np.abs(cost).max()


@pairwise(relative=[1.0, 1e-1, 2e-2, 1e-3, 1e-4, 1e-5], shape=[(7, 3), (60, 90)])
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_plan_is_finite_and_has_all_mass_at_any_epsilon(relative, shape):
    cost = np.random.default_rng(9).random(shape)
    p, q = masses(shape[0], 10), masses(shape[1], 11)
    for max_iter in (20, 500):
        result = gwfast.sinkhorn(cost, p, q, epsilon=relative * cost.mean(), max_iter=max_iter)
        assert np.isfinite(result.plan).all() and (result.plan >= 0).all()
        assert np.isfinite(result.cost) and np.isfinite(result.reg_cost)
        # No iteration that ends it is over-relaxed.
        assert np.abs(result.plan.sum(axis=0, dtype=float) - q).sum() < 1e-6


def test_huge_costs_and_offsets_change_nothing_but_units_nor_do_threads():
    cost = np.random.default_rng(15).random((300, 250))
    alone = gwfast.sinkhorn(cost, epsilon=0.05, n_threads=1).plan
    for n_threads in (2, 3, 5):
        same = gwfast.sinkhorn(cost, epsilon=0.05, n_threads=n_threads).plan
        np.testing.assert_array_equal(same, alone)
    for scale, offset in ((1e25, 0.0), (1e-25, 0.0), (1.0, 1e6)):
        other = gwfast.sinkhorn(scale * cost + offset, epsilon=0.05 * scale)
        assert np.abs(other.plan - alone).sum() < 1e-4


@pytest.mark.parametrize("fill", [0.5, 1e9, 1e20])
def test_points_without_mass_get_none_and_set_no_unit(fill):
    cost, p, q = np.random.default_rng(16).random((20, 30)), masses(18, 17), masses(29, 18)
    alone = gwfast.sinkhorn(cost[2:, :29], p, q, epsilon=0.05)
    cost[:2], cost[:, 29] = fill, fill
    p, q = np.r_[0, 0, p], np.r_[q, 0]
    result = gwfast.sinkhorn(cost, p, q, epsilon=0.05)
    assert result.converged
    assert (result.plan[:2] == 0).all() and (result.plan[:, 29] == 0).all()
    assert np.abs(result.plan[2:, :29] - alone.plan).sum() < 3e-5
    assert result.cost == pytest.approx(alone.cost, rel=1e-4)
    small = gwfast.sinkhorn(cost, p, q, epsilon=1e-3, max_iter=100_000)
    assert small.cost == pytest.approx(np.vdot(cost, gwfast.pot.emd(p, q, cost)), rel=1e-2)
    for solve in (gwfast.pot.emd, lambda *given: gwfast.pot.sinkhorn(*given, 0.1)):
        expected = solve(p[2:], q[:29], cost[2:, :29])
        np.testing.assert_allclose(solve(p, q, cost)[2:, :29], expected, atol=1e-9)


def test_what_ended_it_too_early_is_said():
    cost = np.random.default_rng(24).random((200, 200))
    with pytest.warns(gwfast.ConvergenceWarning, match="max_iter"):
        result = gwfast.sinkhorn(cost, epsilon=1e-4, max_iter=3)
    assert result.status == "max_iter" and result.n_iter == 3
    assert result.marginal_error > 1e-5
    with pytest.warns(gwfast.ConvergenceWarning, match="stalled"):
        result = gwfast.sinkhorn(cost, epsilon=0.1, tol=1e-15)
    assert result.status == "stalled" and result.marginal_error < 3e-6


# Iterations alone take 4738 of 100 points, and thousands of two groups with little mass between
# them. From 200 points on steps are by conjugate gradients, in float32.
@pytest.mark.parametrize(
    "n, m, apart", [(20, 20, 0), (100, 100, 0), (150, 120, 0), (199, 199, 0), (250, 240, 4)]
)
@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_newtons_steps_end_at_the_optimum_within_few_iterations(n, m, apart, tol):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 3))
    y = rng.normal(size=(m, 3)) if apart else x[:m]
    x[: n // 2, 0] += apart
    y[: m // 2 - 8, 0] += apart
    cost = np.linalg.norm(x[:, None] - y, axis=2) ** (2 if apart else 1)
    result = gwfast.sinkhorn(cost, epsilon=0.05, tol=tol)
    assert result.converged and result.n_iter < (500 if apart else 60 if n <= 100 else 200)
    assert np.abs(result.plan.sum(axis=1) - 1 / n).sum() <= tol + 1e-6
    # A plan of potentials that has the marginals is optimal.
    f, g = result.potentials
    assert np.abs(np.exp((f[:, None] + g - cost) / 0.05) - result.plan).sum() < 1e-4

"""Sinkhorn's algorithm for given costs."""

import numpy as np
import pytest
from helpers import twins
from helpers.marks import pairwise
from helpers.problems import masses
from scipy.special import xlogy

import gwfast
from gwfast.kernels import reference


@pairwise(shape=[(1, 1), (1, 5), (4, 1), (7, 3), (33, 40), (130, 97)], epsilon=[1.0, 0.05])
def test_plan_is_that_of_iterations_in_float64(shape, epsilon):
    cost = np.random.default_rng(0).random(shape)
    p, q = masses(shape[0], 1), masses(shape[1], 2)
    result = gwfast.sinkhorn(cost, p, q, epsilon=epsilon, tol=1e-6)
    expected = twins.balanced(np.exp(-cost / epsilon), p, q)
    assert result.converged
    assert np.abs(result.plan - expected).sum() < 2e-5


def test_result_is_consistent_with_its_own_parts_and_the_duality_gap_closes():
    cost, epsilon = np.random.default_rng(3).random((50, 60)) * 7 - 2, 0.14
    p, q = masses(50, 4), masses(60, 5)
    result = gwfast.sinkhorn(cost, p, q, epsilon=epsilon)
    plan = result.plan.astype(np.float64)
    error = np.abs(plan.sum(1) - p).sum() + np.abs(plan.sum(0) - q).sum()
    f, g = result.potentials
    np.testing.assert_allclose(result.marginal_error, error, atol=1e-6)
    np.testing.assert_allclose(result.cost, (plan * cost).sum(), rtol=1e-6)
    entropy = -xlogy(plan, plan).sum()
    reg_cost = result.cost - epsilon * entropy
    np.testing.assert_allclose(result.reg_cost, reg_cost, rtol=1e-5)
    made = np.exp((f[:, None] + g - cost) / epsilon)
    assert np.abs(made - plan).sum() < 1e-5
    # <T, C> - epsilon H(T) = <T, C> + epsilon sum T log T, whose dual is this.
    dual = f @ p + g @ q - epsilon * (made.sum() - 1)
    assert abs(result.reg_cost - dual) < 1e-4 * abs(result.reg_cost)


@pairwise(relative=[1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5], shape=[(7, 3), (60, 90)])
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_plan_is_finite_and_has_all_mass_at_any_epsilon(relative, shape):
    cost = np.random.default_rng(9).random(shape)
    p, q = masses(shape[0], 10), masses(shape[1], 11)
    epsilon = relative * cost.mean()
    result = gwfast.sinkhorn(cost, p, q, epsilon=epsilon, max_iter=500)
    assert np.isfinite(result.plan).all()
    assert (result.plan >= 0).all()
    assert np.isfinite(result.cost) and np.isfinite(result.reg_cost)
    np.testing.assert_allclose(result.plan.sum(dtype=np.float64), 1.0, atol=1e-5)
    np.testing.assert_allclose(result.plan.sum(0), q, atol=1e-5)


def test_small_epsilon_approaches_the_linear_program():
    cost = np.random.default_rng(12).random((20, 25))
    p, q = masses(20, 13), masses(25, 14)
    result = gwfast.sinkhorn(cost, p, q, epsilon=1e-3, max_iter=100_000)
    assert result.converged
    exact = reference.Transport(p, q)
    exact.solve(cost)
    rows, cols, flows = exact.entries()
    np.testing.assert_allclose(result.cost, cost[rows, cols] @ flows, rtol=1e-2)


def test_huge_costs_and_offsets_change_nothing_but_units():
    cost = np.random.default_rng(15).random((30, 40))
    plain = gwfast.sinkhorn(cost, epsilon=0.05)
    for scale, offset in ((1e25, 0.0), (1e-25, 0.0), (1.0, 1e6)):
        other = gwfast.sinkhorn(scale * cost + offset, epsilon=0.05 * scale)
        assert np.abs(other.plan - plain.plan).sum() < 1e-4


def test_points_without_mass_get_none():
    cost = np.random.default_rng(16).random((20, 30))
    p, q = masses(20, 17), masses(30, 18)
    p[[0, 7]] = q[29] = 0.0
    p, q = p / p.sum(), q / q.sum()
    result = gwfast.sinkhorn(cost, p, q, epsilon=0.05)
    assert result.converged
    assert (result.plan[[0, 7]] == 0).all() and (result.plan[:, 29] == 0).all()
    smaller = gwfast.sinkhorn(
        np.delete(cost, [0, 7], 0)[:, :29], np.delete(p, [0, 7]), q[:29], epsilon=0.05
    )
    kept = np.delete(result.plan, [0, 7], 0)[:, :29]
    assert np.abs(kept - smaller.plan).sum() < 3e-5


def test_transposed_problem_has_the_transposed_plan():
    cost = np.random.default_rng(19).random((64, 33))
    p, q = masses(64, 20), masses(33, 21)
    one = gwfast.sinkhorn(cost, p, q, epsilon=0.03, tol=1e-6)
    other = gwfast.sinkhorn(cost.T, q, p, epsilon=0.03, tol=1e-6)
    assert np.abs(one.plan - other.plan.T).sum() < 1e-5


def test_plan_is_the_same_for_any_number_of_threads():
    cost = np.random.default_rng(22).random((400, 300))
    one = gwfast.sinkhorn(cost, epsilon=0.01, n_threads=1)
    for n_threads in (2, 3, 5):
        other = gwfast.sinkhorn(cost, epsilon=0.01, n_threads=n_threads)
        np.testing.assert_array_equal(one.plan, other.plan)


def test_what_ended_it_too_early_is_said():
    cost = np.random.default_rng(24).random((200, 200))
    few = r"max_iter.* after 3 iterations"
    with pytest.warns(gwfast.ConvergenceWarning, match=few):
        result = gwfast.sinkhorn(cost, epsilon=1e-4, max_iter=3)
    assert result.status == "max_iter" and result.n_iter == 3
    assert result.marginal_error > 1e-5
    with pytest.warns(gwfast.ConvergenceWarning, match="stalled"):
        result = gwfast.sinkhorn(cost, epsilon=0.1, tol=1e-15)
    assert result.status == "stalled"
    assert result.marginal_error < 3e-6


def test_input_is_left_alone():
    cost = np.random.default_rng(25).random((20, 20))
    p = masses(20, 26)
    before = cost.copy(), p.copy()
    gwfast.sinkhorn(cost, p, p, epsilon=0.1)
    np.testing.assert_array_equal(cost, before[0])
    np.testing.assert_array_equal(p, before[1])


@pytest.mark.parametrize("n", [20, 100, 150, 199])
@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_few_points_have_newtons_steps(n, tol):
    points = np.random.default_rng(3).normal(size=(n, 3))
    cost = np.linalg.norm(points[:, None] - points, axis=2)
    result = gwfast.sinkhorn(cost, epsilon=0.05, tol=tol)
    assert result.converged and result.n_iter < 200  # 4738 of 100 points without
    assert np.abs(result.plan.sum(axis=1) - 1 / n).sum() <= tol + 1e-6


def test_groups_of_many_points_have_newtons_steps():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(250, 2)), rng.normal(size=(240, 2))
    x[:125, 0] += 4
    y[:115, 0] += 4
    cost = ((x[:, None] - y) ** 2).sum(axis=2)
    result = gwfast.sinkhorn(cost, epsilon=0.02, tol=1e-6)
    assert result.converged and result.n_iter < 500  # thousands without


@pytest.mark.parametrize("fill", [1e9, 1e20])
def test_points_without_mass_set_no_unit(fill):
    from gwfast import pot

    cost = np.random.default_rng(0).random((6, 5))
    padded = np.pad(cost, (0, 1), constant_values=fill)
    p, q = np.r_[np.full(6, 1 / 6), 0], np.r_[np.full(5, 1 / 5), 0]
    alone = gwfast.sinkhorn(cost, epsilon=0.1)
    result = gwfast.sinkhorn(padded, p, q, epsilon=0.1)
    np.testing.assert_allclose(result.plan[:6, :5], alone.plan, atol=1e-6)
    assert result.cost == pytest.approx(alone.cost, rel=1e-4)
    for solve in (pot.emd, lambda *given: pot.sinkhorn(*given, 0.1)):
        expected = solve(p[:6], q[:5], cost)
        np.testing.assert_allclose(solve(p, q, padded)[:6, :5], expected, atol=1e-9)

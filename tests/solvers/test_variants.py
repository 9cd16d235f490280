"""Every variant of the problem steps as its float64 twin does, in both precisions."""

import numpy as np
import pytest
import scipy.special
from helpers import twins
from helpers.marks import pairwise
from helpers.problems import cloud, distances, gw_objective, random_cost
from helpers.variants import (
    BETWEEN,
    NEAR,
    TIGHT,
    VARIANTS,
    M,
    P,
    Q,
    as_twin,
    costs,
    masses_of,
    some_plan,
)

from gwfast import gromov_wasserstein
from gwfast.linear.marginals import PartialSolver

# Where solves are quick plans match little, or keep one side's points from all mass.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
every_variant = pairwise(
    indirect=["options"],
    options=VARIANTS,
    dtype=["float32", "float64"],
    loss=["square", "kl"],
    symmetric=[True, False],
)


def solved(options, dtype, symmetric, **how):
    sides = *costs(symmetric), *masses_of(options)
    return gromov_wasserstein(*sides, dtype=dtype, **TIGHT[dtype], **options, **how)


@every_variant
def test_one_iteration_is_that_of_the_twin(options, dtype, loss, symmetric):
    how, start = dict(epsilon=0.05, loss=loss), some_plan()
    expected = twins.step(start, *costs(symmetric), P, Q, **how, **as_twin(options))
    result = solved(options, dtype, symmetric, init=start, max_outer=1, **how)
    assert result.n_outer == 1
    assert np.abs(result.plan - expected).sum() < NEAR[dtype]


@every_variant
def test_iterations_end_where_the_twin_stays(options, dtype, loss, symmetric):
    """With the objective and the potentials of that plan."""
    x, y = costs(symmetric)
    # Gradient steps where one side is free go to and fro at less.
    epsilon = 0.2 if options.get("marginals") == "semirelaxed" else 0.05
    how, ppa = dict(epsilon=epsilon, loss=loss), options.get("method") == "ppa"
    limits = dict(init="product", max_outer=150 if ppa and "mass" in options else 500)
    result = solved(options, dtype, symmetric, **limits, **how)
    assert result.plan.dtype == dtype
    plan, twin = result.plan.astype(np.float64), as_twin(options)
    again = twins.step(plan, x, y, P, Q, **how, **twin)
    # Proximal points go on with steps that become small slowly.
    near = {"float32": 1e-3, "float64": 1e-8}[dtype]
    assert np.abs(again - plan).sum() < (1e-3 if ppa else near)
    if options.get("method") == "bapg":
        return  # its plan lacks the marginals that the objective is made of
    expected, linear = gw_objective(plan, x, y, loss), 0.0
    if "linear_cost" in options:
        linear = (plan * BETWEEN).sum()
        expected = options["alpha"] * expected + (1 - options["alpha"]) * linear
    rtol = 1e-4 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(result.gw_cost, expected, rtol=rtol)
    np.testing.assert_allclose(result.linear_cost, linear, rtol=rtol)
    entropy = scipy.special.entr(plan).sum()
    regularized = expected - 2 * epsilon * entropy
    np.testing.assert_allclose(result.reg_cost, regularized, rtol=10 * rtol)
    if "method" not in options:
        lin = twins.half_gradient(plan, x, y, loss, twin.get("linear"), twin.get("alpha", 0.5))
        f, g = result.potentials
        made = np.exp((f[:, None] + g - lin) / result.epsilon)
        assert np.abs(made - plan).sum() < near


@pairwise(method=["pgd", "ppa", "bapg"], dtype=["float32", "float64"], epsilon=[1e30, 1e39, 1e300])
def test_epsilons_beyond_all_costs_lead_to_the_product_plan(method, dtype, epsilon):
    cost = random_cost(7, 0, symmetric=True)
    options = dict(epsilon=epsilon, method=method, dtype=dtype, init="product")
    result = gromov_wasserstein(cost, cost[:4, :4], **options)
    np.testing.assert_allclose(result.plan, 1 / 28, rtol=1e-6)
    assert np.isfinite(result.gw_cost)


@pytest.mark.parametrize("method", ["pgd", "ppa"])
def test_rows_of_a_semirelaxed_plan_have_their_masses_and_columns_any(method, dtype):
    cost_x, cost_y = costs()
    result = gromov_wasserstein(
        cost_x, cost_y, P, marginals="semirelaxed", method=method, epsilon=0.05,
        dtype=dtype,
    )  # fmt: skip
    exact = 1e-6 if dtype == "float32" else 1e-14
    plan = result.plan.astype(np.float64)
    np.testing.assert_allclose(plan.sum(axis=1), P, rtol=exact)
    assert result.marginal_error < exact
    assert np.abs(plan.sum(axis=0) - 1 / M).max() > 1e-2


def test_semirelaxed_finds_the_part_of_the_second_space_that_is_the_first():
    x = cloud(10, 3, 10)
    y = np.vstack([x, cloud(6, 3, 11) + 8.0])
    cost_x, cost_y = distances(x), distances(y)
    result = gromov_wasserstein(
        cost_x, cost_y, marginals="semirelaxed", epsilon=0.02, init=np.eye(10, 16)
    )
    np.testing.assert_array_equal(result.plan.argmax(axis=1), np.arange(10))
    assert result.gw_cost < 2e-3
    assert result.plan[:, 10:].sum() < 1e-5


@pytest.mark.parametrize("marginals", ["semirelaxed", "partial", "balanced"])
def test_proximal_steps_descend_to_less_than_the_regularized_plan(marginals):
    cost_x, cost_y = costs()
    options = dict(marginals=marginals, mass=0.6 if marginals == "partial" else None)
    solve = dict(epsilon=0.2, init="product", dtype="float64", **options)
    seen = []
    proximal = gromov_wasserstein(
        cost_x, cost_y, *masses_of(options), method="ppa", marginal_tol=1e-9,
        callback=lambda step: seen.append(step.gw_cost) or len(seen) == 60, **solve,
    )  # fmt: skip
    gradient = gromov_wasserstein(cost_x, cost_y, *masses_of(options), **solve)
    assert np.diff(seen).max() < 1e-6
    assert proximal.gw_cost <= gradient.gw_cost + 1e-9
    assert proximal.gw_cost < seen[0]


@pairwise(method=["pgd", "ppa"], mass=[0.05, 0.5, 0.95], dtype=["float32", "float64"])
def test_a_partial_plan_has_its_mass_and_stays_within_the_marginals(method, mass, dtype):
    cost_x, cost_y = costs()
    result = gromov_wasserstein(
        cost_x, cost_y, P, Q, marginals="partial", mass=mass, method=method,
        epsilon=0.05, dtype=dtype, marginal_tol=1e-6, max_outer=50,
    )  # fmt: skip
    plan = result.plan.astype(np.float64)
    assert plan.sum() == pytest.approx(mass, abs=2e-6)
    assert (plan.sum(axis=1) - P).max() < 2e-6
    assert (plan.sum(axis=0) - Q).max() < 2e-6


@pytest.mark.parametrize("mass", [1.0, None])
def test_all_mass_is_the_balanced_problem(mass, dtype):
    cost_x, cost_y = costs()
    solve = dict(epsilon=0.05, init="product", dtype=dtype)
    partial = gromov_wasserstein(cost_x, cost_y, P, Q, marginals="partial", mass=mass, **solve)
    balanced = gromov_wasserstein(cost_x, cost_y, P, Q, **solve)
    assert np.abs(partial.plan - balanced.plan).sum() < 1e-3
    assert partial.gw_cost == pytest.approx(balanced.gw_cost, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_partial_solutions_of_both_domains_agree(epsilon, dtype, monkeypatch, in_outer_loop):
    cost_x, cost_y = costs()
    solve = dict(
        marginals="partial", mass=0.6, epsilon=epsilon, init="product", max_outer=1,
        dtype=dtype, **TIGHT[dtype],
    )  # fmt: skip
    scaled = gromov_wasserstein(cost_x, cost_y, P, Q, **solve)
    calls, in_logs = [], PartialSolver._iterate
    monkeypatch.setattr(PartialSolver, "_scale", lambda *args: calls.append(1) or in_logs(*args))
    logs = gromov_wasserstein(cost_x, cost_y, P, Q, **solve)
    assert calls
    assert np.abs(scaled.plan - logs.plan).sum() < NEAR[dtype]


def test_columns_of_a_bapg_plan_are_exact_and_rows_nearly_so_at_large_epsilon(dtype):
    cost_x, cost_y = costs()
    misses = []
    for epsilon in (0.1, 10.0):
        plan = gromov_wasserstein(
            cost_x, cost_y, P, Q, method="bapg", epsilon=epsilon, dtype=dtype,
        ).plan.astype(np.float64)  # fmt: skip
        exact = 1e-6 if dtype == "float32" else 1e-14
        np.testing.assert_allclose(plan.sum(axis=0), Q, rtol=exact)
        misses.append(np.abs(plan.sum(axis=1) - P).sum())
    assert misses[1] < misses[0] and misses[1] < 0.05

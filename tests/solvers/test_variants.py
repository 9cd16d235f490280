"""Every variant of the problem steps as its float64 twin does, in both precisions."""

import numpy as np
import pytest
import scipy.special
from helpers import twins
from helpers.problems import gw_objective, random_cost
from helpers.variants import (
    BETWEEN,
    NEAR,
    TIGHT,
    VARIANTS,
    P,
    Q,
    as_twin,
    costs,
    masses_of,
    some_plan,
)

from gwfast import gromov_wasserstein

# Where solves are quick plans match little, or keep one side's points from all mass.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_one_iteration_is_that_of_the_twin(options, dtype, loss, symmetric):
    cost_x, cost_y = costs(symmetric)
    start = some_plan()
    expected = twins.step(
        start, cost_x, cost_y, P, Q, epsilon=0.05, loss=loss, **as_twin(options)
    )
    result = gromov_wasserstein(
        cost_x,
        cost_y,
        *masses_of(options),
        epsilon=0.05,
        loss=loss,
        init=start,
        max_outer=1,
        dtype=dtype,
        **TIGHT[dtype],
        **options,
    )
    assert result.n_outer == 1
    assert np.abs(result.plan - expected).sum() < NEAR[dtype]


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_iterations_end_where_those_of_the_twin_stay(options, dtype, loss, symmetric):
    cost_x, cost_y = costs(symmetric)
    # Gradient steps where one side is free go to and fro at less.
    epsilon = 0.2 if options.get("marginals") == "semirelaxed" else 0.05
    result = gromov_wasserstein(
        cost_x,
        cost_y,
        *masses_of(options),
        epsilon=epsilon,
        loss=loss,
        init="product",
        max_outer=500,
        dtype=dtype,
        **TIGHT[dtype],
        **options,
    )
    assert result.plan.dtype == dtype
    plan = result.plan.astype(np.float64)
    again = twins.step(
        plan, cost_x, cost_y, P, Q, epsilon=epsilon, loss=loss, **as_twin(options)
    )
    # Proximal points go on with steps that become small slowly.
    slow = dtype == "float32" or options.get("method") == "ppa"
    assert np.abs(again - plan).sum() < (1e-3 if slow else 1e-6)


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_objective_is_the_fourfold_sum(options, dtype, loss, symmetric):
    if options.get("method") == "bapg":
        pytest.skip("its plan lacks the marginals that the objective is made of")
    cost_x, cost_y = costs(symmetric)
    result = gromov_wasserstein(
        cost_x,
        cost_y,
        *masses_of(options),
        epsilon=0.05,
        loss=loss,
        init="product",
        max_outer=20,
        dtype=dtype,
        **TIGHT[dtype],
        **options,
    )
    plan = result.plan.astype(np.float64)
    expected, linear = gw_objective(plan, cost_x, cost_y, loss), 0.0
    if "linear_cost" in options:
        linear = (plan * BETWEEN).sum()
        expected = options["alpha"] * expected + (1 - options["alpha"]) * linear
    rtol = 1e-4 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(result.gw_cost, expected, rtol=rtol)
    np.testing.assert_allclose(result.linear_cost, linear, rtol=rtol)
    entropy = scipy.special.entr(plan).sum()
    np.testing.assert_allclose(
        result.reg_cost, expected - 2 * 0.05 * entropy, rtol=10 * rtol
    )


@pytest.mark.parametrize(
    "variant", ["plain", "fused", "semirelaxed", "fused semirelaxed", "partial"]
)
def test_potentials_give_the_plan(variant, dtype):
    options = VARIANTS[variant]
    cost_x, cost_y = costs()
    result = gromov_wasserstein(
        cost_x,
        cost_y,
        *masses_of(options),
        epsilon=0.05,
        init="product",
        max_outer=500,
        dtype=dtype,
        **TIGHT[dtype],
        **options,
    )
    plan, twin = result.plan.astype(np.float64), as_twin(options)
    lin = twins.half_gradient(
        plan, cost_x, cost_y, "square", twin.get("linear"), twin.get("alpha", 0.5)
    )
    f, g = result.potentials
    made = np.exp((f[:, None] + g - lin) / result.epsilon)
    assert np.abs(made - plan).sum() < (1e-3 if dtype == "float32" else 1e-8)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("method", ["pgd", "ppa", "bapg"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("epsilon", [1e30, 1e39, 1e300])
def test_epsilons_beyond_all_costs_lead_to_the_product_plan(method, dtype, epsilon):
    cost = random_cost(7, 0, symmetric=True)
    options = dict(epsilon=epsilon, method=method, dtype=dtype, init="product")
    result = gromov_wasserstein(cost, cost[:4, :4], **options)
    np.testing.assert_allclose(result.plan, 1 / 28, rtol=1e-6)
    assert np.isfinite(result.gw_cost)

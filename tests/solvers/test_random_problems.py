"""What fell in tests/heavy/random_problems.py, and a representative part of it."""

import numpy as np
import pytest
from helpers.marks import mostly_slow, pairwise
from helpers.problems import cloud, distances

import gwfast
from gwfast import QuadraticProblem, gromov_wasserstein, verify


@pytest.mark.parametrize("case", mostly_slow(range(60), fast=range(10)))
def test_a_random_problem_ends_as_its_status_says(random_problems, case):
    _, wrong = random_problems.solve(case)
    assert not wrong


def pair(n=8, m=6, scale=1.0):
    return [scale * distances(cloud(k, 2, seed)) for k, seed in ((n, 1), (m, 2))]


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("mass", [1e-6, 1e-3])
def test_partial_plans_of_little_mass_are_solved_as_well(mass):
    """Every change of them is less than the tolerance, if it isn't over the mass."""
    costs = pair()
    problem = QuadraticProblem(*costs, marginals="partial", mass=mass)
    epsilon = 0.05 * mass
    result = gromov_wasserstein(*costs, marginals="partial", mass=mass, epsilon=epsilon)
    assert result.n_outer > 1
    found = verify(problem, result)
    assert not result.converged or found.holds, str(found)
    assert found.stationarity.value < 0.01 or not result.converged


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pairwise(
    marginals=["balanced", "semirelaxed", "partial"], dtype=["float32", "float64"]
)
def test_an_offset_of_both_costs_changes_no_plan(marginals, dtype):
    mass = 0.5 if marginals == "partial" else None
    options = dict(
        marginals=marginals, mass=mass, epsilon=0.1, dtype=dtype, max_outer=20
    )
    costs = pair()
    plain = gromov_wasserstein(*costs, **options)
    offset = gromov_wasserstein(*(1e6 + cost for cost in costs), **options)
    assert np.abs(offset.plan - plain.plan).sum() < 1e-4
    assert offset.gw_cost == pytest.approx(plain.gw_cost, rel=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_an_epsilon_below_the_rounding_of_costs_does_not_converge(dtype):
    costs = [1e6 + cost + 0.1 for cost in pair()]
    epsilon = {"float32": 3e3, "float64": 3e-5}[dtype]
    result = gromov_wasserstein(
        *costs, method="bapg", dtype=dtype, epsilon=epsilon, init="product"
    )
    assert not result.converged


@pytest.mark.parametrize("case", [541, 1184])
def test_a_partial_plan_that_is_all_rounding_does_not_converge(random_problems, case):
    """Their exponents are rounded by hundreds, which made entries infinite; whether it
    is refused or ends at a limit is for the rounding of the BLAS to say.
    """
    end, wrong = random_problems.solve(case)
    refused = end.startswith("ValueError: epsilon must be larger for this partial")
    assert refused or end in ("max_inner", "max_outer", "precision", "cycle")
    assert not wrong


@pytest.mark.parametrize("tiny", [1e-40, 1e-31, 5e-324])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masses_that_have_no_room_are_zero_exactly(tiny, dtype):
    p = np.array([0.3, 0.3, 0.4, tiny])
    zero = np.where(p == tiny, 0.0, p)
    costs, options = pair(4, 5), dict(dtype=dtype, init="product", epsilon=0.05)
    found, expected = (
        gromov_wasserstein(*costs, masses, **options) for masses in (p, zero)
    )
    np.testing.assert_array_equal(found.plan, expected.plan)
    assert not found.plan[3].any()
    for side, other in zip(found.potentials, expected.potentials, strict=True):
        np.testing.assert_array_equal(side, other)
    f, g = found.potentials
    assert f[3] == -np.inf and np.isfinite(f[:3]).all() and np.isfinite(g).all()
    assert verify(QuadraticProblem(*costs, p), found).holds


def test_masses_just_large_enough_have_potentials():
    p = np.array([0.3, 0.3, 0.4, 1e-29])
    result = gromov_wasserstein(*pair(4, 5), p, init="product", epsilon=0.05)
    assert np.isfinite(result.potentials[0]).all()
    assert result.plan[3].sum() == pytest.approx(1e-29, rel=1e-3)


def test_sinkhorn_takes_masses_without_room_as_zero():
    cost = np.random.default_rng(0).random((4, 5))
    p = np.array([0.3, 0.3, 0.4, 1e-40])
    found = gwfast.sinkhorn(cost, p, epsilon=0.1)
    expected = gwfast.sinkhorn(cost, np.where(p < 1e-30, 0, p), epsilon=0.1)
    np.testing.assert_array_equal(found.plan, expected.plan)
    assert found.converged and not found.plan[3].any()

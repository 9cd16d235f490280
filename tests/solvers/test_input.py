"""Awkward and degenerate input, and costs of any type of numbers."""

import numpy as np
import pytest
from heavy import random_problems
from helpers.marks import mostly_slow
from helpers.problems import cloud, distances, settings

import gwfast
from gwfast import QuadraticProblem, gromov_wasserstein, verify

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


# Exponents of the last two are rounded by hundreds, which made entries infinite. It depends on the
# rounding of the BLAS whether these problems are refused or end at a limit.
ROUNDING = 541, 1184


@pytest.mark.parametrize("case", mostly_slow([*range(60), *ROUNDING], fast=[*range(8), 541]))
def test_a_random_problem_ends_as_its_status_says(case):
    end, wrong = random_problems.solve(case)
    assert not wrong
    assert case not in ROUNDING or not end.startswith("ValueError") or "epsilon must" in end


def pair(n=8, m=6):
    return [distances(cloud(k, 2, seed)) for k, seed in ((n, 1), (m, 2))]


@pytest.mark.parametrize("mass", [1e-6, 1e-3])
def test_partial_plans_of_little_mass_are_solved_as_well(mass):
    """Every change of them is less than the tolerance, if it isn't over the mass."""
    problem = QuadraticProblem(*pair(), marginals=gwfast.Partial(mass))
    result = gromov_wasserstein(problem, epsilon=0.05 * mass, init="product", max_iter=200)
    assert result.n_iter > 1
    found = verify(problem, result)
    assert not result.converged or (found.holds and found.stationarity.value < 0.01), str(found)


@pytest.mark.parametrize("dtype, epsilon", [("float32", 3e3), ("float64", 3e-5)])
def test_an_epsilon_below_the_rounding_of_costs_does_not_converge(dtype, epsilon):
    costs = [1e6 + cost + 0.1 for cost in pair()]
    options = settings(method="bapg", dtype=dtype, epsilon=epsilon, init="product")
    assert not gromov_wasserstein(*costs, **options).converged


@pytest.mark.parametrize("tiny", [1e-40, 1e-31, 5e-324])
def test_masses_that_have_no_room_are_zero_exactly(tiny, dtype):
    p = np.array([0.3, 0.3, 0.4, tiny])
    zero, options = np.where(p == tiny, 0.0, p), dict(dtype=dtype, init="product", epsilon=0.05)
    found, expected = (gromov_wasserstein(*pair(4, 5), mass, **options) for mass in (p, zero))
    np.testing.assert_array_equal(found.plan, expected.plan)
    np.testing.assert_array_equal(found.potentials[0], expected.potentials[0])
    f, g = found.potentials
    assert f[3] == -np.inf and np.isfinite(f[:3]).all() and np.isfinite(g).all()
    assert not found.plan[3].any() and verify(QuadraticProblem(*pair(4, 5), p), found).holds
    cost = np.random.default_rng(0).random((4, 5))
    linear, expected = (gwfast.sinkhorn(cost, mass, epsilon=0.1) for mass in (p, zero))
    np.testing.assert_array_equal(linear.plan, expected.plan)
    assert linear.converged and not linear.plan[3].any()
    p[3] = 1e-29  # is just large enough
    result = gromov_wasserstein(*pair(4, 5), p, **options)
    assert np.isfinite(result.potentials[0]).all()
    assert result.plan[3].sum() == pytest.approx(1e-29, rel=1e-3)


@pytest.mark.parametrize("form", [np.float64, np.float16, np.asfortranarray, ">f4", np.memmap])
def test_costs_of_any_type_of_number_end_where_a_copy_does(form, tmp_path):
    x, y = (distances(cloud(130, 3, seed)).astype(np.float16) for seed in (1, 2))
    given, few = x.astype(np.float32), dict(epsilon="5%", init="product")
    copied = gromov_wasserstein(given, y.astype(np.float32), **few)
    if form is np.memmap:
        given.tofile(tmp_path / "x")
        given = np.memmap(tmp_path / "x", np.float32, "r", shape=x.shape)
    else:
        given = form(given) if form is np.asfortranarray else given.astype(form)
    read = gromov_wasserstein(given, y, **few)
    assert read.gw_cost == pytest.approx(copied.gw_cost, rel=1e-4)
    np.testing.assert_allclose(read.plan, copied.plan, atol=1e-2 / 130)

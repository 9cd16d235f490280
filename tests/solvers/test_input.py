"""Awkward and degenerate input, and costs of any type of numbers."""

import numpy as np
import pytest
from helpers.marks import mostly_slow
from helpers.problems import cloud, distances
from helpers.settings import settings

import gwfast
from gwfast import QuadraticProblem, gromov_wasserstein, verify

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


@pytest.mark.parametrize("case", mostly_slow(range(60), fast=range(8)))
def test_a_random_problem_ends_as_its_status_says(random_problems, case):
    _, wrong = random_problems.solve(case)
    assert not wrong


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


@pytest.mark.parametrize("case", [541, 1184])
def test_a_partial_plan_that_is_all_rounding_is_refused_or_right(random_problems, case):
    """Their exponents are rounded by hundreds, which made entries infinite. It depends on the
    rounding of the BLAS whether the plan is refused or ends at a limit."""
    end, wrong = random_problems.solve(case)
    assert not end.startswith("ValueError") or "epsilon must" in end
    assert not wrong


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


def test_masses_just_large_enough_have_potentials():
    p = np.array([0.3, 0.3, 0.4, 1e-29])
    result = gromov_wasserstein(*pair(4, 5), p, init="product", epsilon=0.05)
    assert np.isfinite(result.potentials[0]).all()
    assert result.plan[3].sum() == pytest.approx(1e-29, rel=1e-3)


@pytest.mark.parametrize("form", ["float64", "Fortran", "other bytes", "mapped", "float16"])
def test_costs_of_any_type_of_number_end_where_a_copy_does(form, tmp_path):
    x, y = (distances(cloud(130, 3, seed)).astype(np.float32) for seed in (1, 2))
    y[:65, :65] = x[:65, :65]
    if form == "float16":
        x, y = x.astype(np.float16), y.astype(np.float16)
    copies = x.astype(np.float32), y.astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    given = {
        "float64": lambda: (x.astype(np.float64), y.astype(np.float64)),
        "Fortran": lambda: (np.asfortranarray(x), np.asfortranarray(y)),
        "other bytes": lambda: (x.astype(">f4"), y.astype(">f4")),
        "mapped": lambda: (np.load(tmp_path / "x.npy", mmap_mode="r"), y),
        "float16": lambda: (x, y),
    }[form]()
    read, copied = (
        gromov_wasserstein(*costs, epsilon="5%", init="product") for costs in (given, copies)
    )
    assert read.gw_cost == pytest.approx(copied.gw_cost, rel=1e-4)
    np.testing.assert_allclose(read.plan, copied.plan, atol=1e-2 / 130)

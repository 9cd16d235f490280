"""Awkward, degenerate and wrong input: errors, and known faults."""

import tracemalloc

import numpy as np
import pytest
from helpers.marks import mostly_slow, pairwise
from helpers.problems import cloud, distances
from helpers.settings import settings
from helpers.variants import BETWEEN, FUSED, PARTIAL, P, Q, costs

import gwfast
from gwfast import QuadraticProblem, gromov_wasserstein, verify

# Where solves are quick plans match little, or keep one side's points from all mass.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


VALUE_ERRORS = [
    (dict(marginals="unbalanced"), r"^marginals must be .* or Unbalanced\(rho\), got 'unba"),
    (dict(marginals="semirelaxed"), "^q must be None with marginals="),
    (
        dict(marginals=gwfast.Partial(0.5), method="bapg"),
        "^method must be 'pgd' or 'ppa' with partial marginals, got 'bapg'",
    ),
    (
        dict(marginals="semirelaxed", method="bapg", q=None),
        "^method must be 'pgd' or 'ppa' with semirelaxed marginals, got 'bapg'",
    ),
    (dict(alpha=1.5), r"^alpha must be at most 1, got 1\.5"),
    (dict(alpha=0.3), "^alpha must be left out without linear_cost"),
    (dict(alpha=-0.1), r"^alpha must be non-negative .* got -0\.1"),
    (dict(alpha=np.nan), "^alpha .* got nan"),
    (dict(linear_cost=BETWEEN.T), r"^linear_cost must have shape \(9, 7\), got \(7, 9\)"),
    (dict(linear_cost=1.0), "^linear_cost must be a 2-D array"),
    (
        dict(linear_cost=np.where(BETWEEN == BETWEEN[3, 2], np.nan, BETWEEN)),
        r"^linear_cost must be finite, got nan at \[3, 2\] \(1 such",
    ),
    (dict(dtype="float16"), r"^dtype must be one of .*, got 'float16'"),
    (dict(dtype="no such"), "^dtype must be one of .*, got 'no such'"),
    (dict(linear_cost=BETWEEN, tier="tiled"), "^tier must be 'auto' or 'dense' for costs that"),
]
TYPE_ERRORS = [
    (dict(marginals=None), "^marginals must be .* got NoneType"),
    (dict(alpha="1"), "^alpha must be a number, got str"),
    (dict(alpha=True), "^alpha must be a number, got bool"),
    (dict(linear_cost=BETWEEN + 0j), "^linear_cost must hold real"),
]


@pytest.mark.parametrize(
    "error, bad, message",
    [(ValueError, *row) for row in VALUE_ERRORS] + [(TypeError, *row) for row in TYPE_ERRORS],
)
def test_errors_say_what_is_wrong(error, bad, message):
    arguments = {"p": P, "q": Q, "epsilon": 0.1, **bad}
    with pytest.raises(error, match=message):
        gromov_wasserstein(*costs(), **settings(**arguments))


def test_a_problem_is_two_costs_or_one_object():
    problem = QuadraticProblem(*costs(), P, Q)
    with pytest.raises(ValueError, match=r"^p, marginals must be left out if x is a Quadratic"):
        gromov_wasserstein(problem, p=P, marginals=gwfast.Partial(0.5))
    for x in (costs()[0], costs()):
        with pytest.raises(TypeError, match=r"^y must be given unless x is a QuadraticProblem"):
            gromov_wasserstein(x)


@pytest.mark.parametrize("options", [dict(method="ppa"), FUSED, PARTIAL])
def test_negative_costs_are_refused_under_kl(options):
    cost_x, cost_y = costs()
    with pytest.raises(ValueError, match=r"^y must not be negative with loss='kl"):
        gromov_wasserstein(cost_x, -cost_y, P, Q, epsilon=0.1, loss="kl", **settings(**options))


@pytest.mark.parametrize("case", mostly_slow(range(60), fast=range(10)))
def test_a_random_problem_ends_as_its_status_says(random_problems, case):
    _, wrong = random_problems.solve(case)
    assert not wrong


def pair(n=8, m=6):
    return [distances(cloud(k, 2, seed)) for k, seed in ((n, 1), (m, 2))]


@pytest.mark.parametrize("mass", [1e-6, 1e-3])
def test_partial_plans_of_little_mass_are_solved_as_well(mass):
    """Every change of them is less than the tolerance, if it isn't over the mass."""
    costs = pair()
    problem = QuadraticProblem(*costs, marginals=gwfast.Partial(mass))
    epsilon = 0.05 * mass
    result = gromov_wasserstein(*costs, marginals=gwfast.Partial(mass), epsilon=epsilon)
    assert result.n_iter > 1
    found = verify(problem, result)
    assert not result.converged or found.holds, str(found)
    assert found.stationarity.value < 0.01 or not result.converged


@pairwise(marginals=["balanced", "semirelaxed", gwfast.Partial(0.5)], dtype=["float32", "float64"])
def test_an_offset_of_both_costs_changes_no_plan(marginals, dtype):
    options = dict(marginals=marginals, epsilon=0.3, dtype=dtype)
    costs = pair()
    plain = gromov_wasserstein(*costs, **options)
    offset = gromov_wasserstein(*(1e6 + cost for cost in costs), **options)
    assert np.abs(offset.plan - plain.plan).sum() < 1e-4
    assert offset.gw_cost == pytest.approx(plain.gw_cost, rel=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_epsilon_below_the_rounding_of_costs_does_not_converge(dtype):
    costs = [1e6 + cost + 0.1 for cost in pair()]
    epsilon = {"float32": 3e3, "float64": 3e-5}[dtype]
    options = settings(method="bapg", dtype=dtype, epsilon=epsilon, init="product")
    result = gromov_wasserstein(*costs, **options)
    assert not result.converged


@pytest.mark.parametrize("case", [541, 1184])
def test_a_partial_plan_that_is_all_rounding_is_refused_or_right(random_problems, case):
    """Their exponents are rounded by hundreds, which made entries infinite; whether it
    is refused or ends at a limit is for the rounding of the BLAS to say.
    """
    end, wrong = random_problems.solve(case)
    assert not end.startswith("ValueError") or "epsilon must be larger for this partial" in end
    assert not wrong


@pytest.mark.parametrize("tiny", [1e-40, 1e-31, 5e-324])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masses_that_have_no_room_are_zero_exactly(tiny, dtype):
    p = np.array([0.3, 0.3, 0.4, tiny])
    zero = np.where(p == tiny, 0.0, p)
    costs, options = pair(4, 5), dict(dtype=dtype, init="product", epsilon=0.05)
    found, expected = (gromov_wasserstein(*costs, masses, **options) for masses in (p, zero))
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


@pytest.mark.parametrize("form", ["float64", "Fortran", "other bytes", "mapped", "float16"])
def test_costs_of_any_type_of_number_end_where_a_copy_does(form, tmp_path):
    x, y = (distances(cloud(260, 3, seed)).astype(np.float32) for seed in (1, 2))
    y[:130, :130] = x[:130, :130]
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
    np.testing.assert_allclose(read.plan, copied.plan, atol=1e-2 / 260)


@pytest.mark.parametrize("tier", ["tiled", "neighbors"])
@pytest.mark.parametrize("init", ["profile", "random"])
def test_starts_that_need_an_array_are_refused_without_one(tier, init):
    x, y = (gwfast.PointCloud(cloud(n, 4, n)) for n in (20, 30))
    with pytest.raises(MemoryError, match=f"init must be .* in tier '{tier}'"):
        gromov_wasserstein(x, y, epsilon=0.1, init=init, options=gwfast.SolverOptions(tier=tier))


@pytest.mark.parametrize("tier", ["auto", "dense", "tiled", "neighbors"])
def test_too_little_memory_is_said_before_any_is_taken(tier):
    x, y = (gwfast.PointCloud(cloud(n, 8, n)) for n in (2500, 2000))
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError, match=r"2500 x 2000 takes .*_limit is 0\.001"):
            gromov_wasserstein(x, y, options=gwfast.SolverOptions(tier=tier), memory_limit="1MB")
        assert tracemalloc.get_traced_memory()[1] < 2e6
    finally:
        tracemalloc.stop()


def test_annealing_ends_where_it_should():
    x, y = (gwfast.PointCloud(cloud(60, 3, 1)[:n] * (1, 2, 3)) for n in (60, 50))
    epsilon = gwfast.Epsilon(relative=0.02, anneal_from=10.0, anneal_by=0.9)
    result = gromov_wasserstein(x, y, epsilon=epsilon, init="product")
    used = [step.epsilon for step in result.history]
    assert result.converged and used == sorted(used, reverse=True)
    assert used[0] == pytest.approx(10 * used[-1]) and used[-1] == result.epsilon

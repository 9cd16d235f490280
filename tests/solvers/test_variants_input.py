"""Every variant of the problem on awkward, degenerate and wrong input."""

import functools

import numpy as np
import pytest
from helpers.marks import mostly_slow, pairwise
from helpers.problems import cloud, distances, masses, random_cost
from helpers.variants import (
    BETWEEN,
    FUSED,
    PARTIAL,
    VARIANTS,
    M,
    N,
    P,
    Q,
    costs,
    masses_of,
    some_plan,
)

import gwfast
from gwfast import QuadraticProblem, gromov_wasserstein, verify

# Where solves are quick plans match little, or keep one side's points from all mass.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


every = functools.partial(pairwise, ["options"], options=VARIANTS, dtype=["float32", "float64"])


# Of these the rows are not exact, or the last steps too many.
NEARLY = {"bapg", "fused bapg", "partial ppa"}
every_exact = pairwise(
    ["options"], options=sorted({*VARIANTS} - NEARLY), dtype=["float32", "float64"]
)


def of_shape(options, shape):
    """The same options with a linear cost of that shape, where there is any."""
    if "linear_cost" not in options:
        return options
    return options | dict(linear_cost=np.random.default_rng(17).random(shape))


def solved(options, dtype, p=P, rows=tuple(range(N)), **how):
    """A solution of the problem of these rows of the first side."""
    cost_x, cost_y = costs()
    given = dict(epsilon=0.05, init="product", dtype=dtype) | options | how
    if "linear_cost" in options:
        given["linear_cost"] = BETWEEN[[*rows]]
    sides = cost_x[np.ix_(rows, rows)], cost_y
    return gromov_wasserstein(*sides, *masses_of(options, p, Q), **given)


@every(shape=[(1, 1), (1, 4), (5, 1), (2, 3), (17, 33)])
def test_awkward_sizes(shape, options, dtype):
    n, m = shape
    sides = random_cost(n, 15), random_cost(m, 16)
    options, p, q = of_shape(options, shape), masses(n, 18), masses(m, 19)
    solve = dict(epsilon=0.5, dtype=dtype, **options)
    result = gromov_wasserstein(*sides, *masses_of(options, p, q), **solve)
    plan = result.plan.astype(np.float64)
    assert plan.shape == shape and np.isfinite(plan).all() and (plan >= 0).all()
    assert plan.sum() == pytest.approx(options.get("mass", 1.0), abs=1e-4)
    if options.get("method") != "bapg":  # which fits the columns only
        assert result.marginal_error < 1e-4


@every(init=["auto", "product", "array"])
def test_input_is_left_as_it_is(options, dtype, init):
    arrays = [*costs(), P.copy(), Q.copy(), BETWEEN.copy(), some_plan()]
    for array in arrays:
        array.flags.writeable = False
    before = [array.copy() for array in arrays]
    options = dict(options)
    if "linear_cost" in options:
        options["linear_cost"] = arrays[4]
    gromov_wasserstein(
        *arrays[:2], *masses_of(options, *arrays[2:4]), epsilon=0.1, dtype=dtype,
        init=arrays[5] if init == "array" else init, **options,
    )  # fmt: skip
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_threads_change_no_bit(options, dtype):
    cost_x, cost_y = costs(n=83, m=70)
    options = of_shape(options, (83, 70))
    solve = dict(epsilon=0.02, init="product", max_outer=10, dtype=dtype, **options)
    one, two = (
        gromov_wasserstein(cost_x, cost_y, n_threads=n_threads, **solve) for n_threads in (1, 3)
    )
    if dtype == "float64":
        np.testing.assert_array_equal(one.plan, two.plan)
        assert one.gw_cost == two.gw_cost
    else:
        assert np.abs(one.plan - two.plan).sum() < 1e-5


@every_exact
def test_points_without_mass_get_none(options, dtype):
    p = P.copy()
    p[[0, 4]] = 0.0
    p /= p.sum()
    result = solved(options, dtype, p)
    assert np.isfinite(result.plan).all()
    assert result.plan[[0, 4]].max() == 0.0
    assert result.plan.sum() == pytest.approx(options.get("mass", 1.0), abs=1e-4)
    # What is left is the problem of the other points.
    rows = np.flatnonzero(p)
    without = solved(options, dtype, p[rows], rows)
    assert np.abs(result.plan[rows] - without.plan).sum() < 2e-3


@every_exact
def test_duplicates_share(options, dtype):
    """Two points in one place get what one of their joint mass would."""
    rows, how = [*range(N), 2], dict(epsilon=0.1, tol=1e-6)
    p = P[rows].copy()
    p[[2, N]] /= 2
    plain = solved(options, dtype, **how)
    twice = solved(options, dtype, p, rows, **how)
    np.testing.assert_allclose(twice.plan[2], twice.plan[N], rtol=1e-4, atol=1e-9)
    joint = twice.plan[:N].copy()
    joint[2] += twice.plan[N]
    assert np.abs(joint - plain.plan).sum() < 2e-3


@every(scale=[0.0, 1.0])
def test_costs_that_tell_nothing(scale, options, dtype):
    if options.get("marginals") == "partial":
        scale = 0.0
    cost_x, cost_y = scale * np.ones((N, N)), scale * np.ones((M, M))
    result = gromov_wasserstein(cost_x, cost_y, *masses_of(options), dtype=dtype, **options)
    assert np.isfinite(result.plan).all() and np.isfinite(result.reg_cost)
    assert result.plan.sum() == pytest.approx(options.get("mass", 1.0), abs=1e-4)
    assert abs(result.gw_cost - 0.7 * result.linear_cost) < 1e-6


@every(limit=[dict(max_outer=1), dict(max_outer=2, max_inner=1)], relative=[1e-5, 1e-2, 1e3])
def test_plans_are_finite_whatever_the_limits(limit, relative, options, dtype):
    epsilon = gwfast.Epsilon(relative=relative)
    if options.get("marginals") == "partial" and relative < 1e-2:
        epsilon = gwfast.Epsilon(relative=1e-2)
    result = solved(options, dtype, epsilon=epsilon, **limit)
    assert result.n_outer == limit["max_outer"] or result.n_outer == 1
    assert np.isfinite(result.plan).all() and (result.plan >= 0).all()
    assert np.isfinite([result.gw_cost, result.reg_cost, result.linear_cost]).all()


def test_callbacks_stop_and_progress_is_told(options, dtype):
    steps, told = [], []

    def callback(step):
        assert step.coupling.toarray().dtype == dtype
        steps.append(step)
        return step.iteration == 2

    listeners = dict(callback=callback, progress=lambda *args: told.append(args))
    result = solved(options, dtype, epsilon=0.02, **listeners)
    assert result.status == "stopped" and result.n_outer == len(steps) == 2
    assert told and result.plan.dtype == dtype


VALUE_ERRORS = [
    (dict(marginals="relaxed"), r"^marginals must be one of \['bal"),
    (dict(marginals=None), "^marginals must be one of .* got None"),
    (dict(marginals="unbalanced"), "^rho must be given with marg"),
    (dict(rho=1.0), "^rho must be None unless marginals='unbalanced"),
    (dict(mass=0.5), "^mass must be None unless marginals='partial'"),
    (dict(mass=2, marginals="partial"), r"^mass must be at most 1, got 2\.0"),
    (dict(mass=0, marginals="partial"), "^mass must be positive"),
    (dict(mass=np.nan, marginals="partial"), "^mass .* got nan"),
    (dict(marginals="semirelaxed"), "^q must be None with marginals="),
    (
        dict(marginals="partial", mass=0.5, method="bapg"),
        "^method must be 'pgd' or 'ppa' with marginals='partial', got 'bapg'",
    ),
    (
        dict(marginals="semirelaxed", method="bapg", q=None),
        "^method must be 'pgd' or 'ppa' with marginals='semirelaxed', got 'bapg'",
    ),
    (dict(alpha=1.5), r"^alpha must be at most 1, got 1\.5"),
    (dict(alpha=0.3), "^alpha must be None without linear_"),
    (dict(alpha=-0.1), r"^alpha must be non-negative .* got -0\.1"),
    (dict(alpha=np.nan), "^alpha .* got nan"),
    (dict(linear_cost=BETWEEN.T), r"^linear_cost must have shape \(9, 7\), got \(7, 9\)"),
    (dict(linear_cost=1.0), "^linear_cost must be a 2-D array"),
    (
        dict(linear_cost=np.where(BETWEEN == BETWEEN[3, 2], np.nan, BETWEEN)),
        r"^linear_cost must be finite, got nan at \[3, 2\] \(1 such",
    ),
    (dict(method="xyz"), r"^method must be one of .*, got 'xyz'"),
    (dict(method=1), "^method must be one of .*, got 1"),
    (dict(dtype="float16"), r"^dtype must be one of .*, got 'float16'"),
    (dict(dtype="no such"), "^dtype must be one of .*, got 'no such'"),
    (dict(linear_cost=BETWEEN, tier="tiled"), "^tier must be 'dense' for costs that"),
]
TYPE_ERRORS = [
    (dict(mass="1", marginals="partial"), "^mass .* got str"),
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
        gromov_wasserstein(*costs(), **arguments)


@pytest.mark.parametrize("options", [dict(method="ppa"), FUSED, PARTIAL])
def test_negative_costs_are_refused_under_kl(options):
    cost_x, cost_y = costs()
    with pytest.raises(ValueError, match=r"^cost_y must not be negative with loss='kl"):
        gromov_wasserstein(cost_x, -cost_y, P, Q, epsilon=0.1, loss="kl", init="product", **options)


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
    problem = QuadraticProblem(*costs, marginals="partial", mass=mass)
    epsilon = 0.05 * mass
    result = gromov_wasserstein(*costs, marginals="partial", mass=mass, epsilon=epsilon)
    assert result.n_outer > 1
    found = verify(problem, result)
    assert not result.converged or found.holds, str(found)
    assert found.stationarity.value < 0.01 or not result.converged


@pairwise(marginals=["balanced", "semirelaxed", "partial"], dtype=["float32", "float64"])
def test_an_offset_of_both_costs_changes_no_plan(marginals, dtype):
    mass = 0.5 if marginals == "partial" else None
    options = dict(marginals=marginals, mass=mass, epsilon=0.1, dtype=dtype, max_outer=20)
    costs = pair()
    plain = gromov_wasserstein(*costs, **options)
    offset = gromov_wasserstein(*(1e6 + cost for cost in costs), **options)
    assert np.abs(offset.plan - plain.plan).sum() < 1e-4
    assert offset.gw_cost == pytest.approx(plain.gw_cost, rel=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_epsilon_below_the_rounding_of_costs_does_not_converge(dtype):
    costs = [1e6 + cost + 0.1 for cost in pair()]
    epsilon = {"float32": 3e3, "float64": 3e-5}[dtype]
    result = gromov_wasserstein(*costs, method="bapg", dtype=dtype, epsilon=epsilon, init="product")
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

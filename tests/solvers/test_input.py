"""Awkward and degenerate input, costs of any type of numbers, costs that are written to, and
epsilons where kernels underflow. Only the package's kernels can set the bits of the processor.
"""

import itertools

import numpy as np
import pytest
from helpers import random_problems
from helpers.marks import mostly_slow
from helpers.problems import cloud, distances, masses, rotated_pair, settings

import gwfast
from gwfast import PointCloud, QuadraticProblem, gromov_wasserstein, verify
from gwfast.kernels import _rows

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


# Exponents of the last two are rounded by hundreds, which made entries infinite. It depends on the
# rounding of the BLAS whether these problems are refused or end at a limit.
ROUNDING = 541, 1184


@pytest.mark.parametrize("case", mostly_slow([*range(60), *ROUNDING], fast=[*range(8), 541]))
def test_a_random_problem_ends_as_its_status_says(case):
    end, wrong = random_problems.solve(case)
    assert not wrong
    assert case not in ROUNDING or not end.startswith("ValueError") or "epsilon must" in end


@pytest.mark.parametrize("count", [2**31, 2**63, 10**400])
def test_counts_may_be_of_any_size(count):
    cost, most = distances(cloud(8, 2, 0)), gwfast.SolverOptions(max_inner=count)
    for more in (dict(init="product"), dict(marginals="semirelaxed"), dict(epsilon=0)):
        result = gromov_wasserstein(cost, cost, max_iter=count, options=most, **more)
        assert result.status in ("converged", "uncertain")
    assert gwfast.pairwise_gromov_wasserstein([cost] * 3, k_nearest=count).n_solved == 3
    gromov_wasserstein(cost, cost, seed=count, memory_limit=count)
    near, points = (
        gwfast.SolverOptions(tier="neighbors", n_neighbors=count),
        PointCloud(cloud(8, 2, 0)),
    )
    gromov_wasserstein(points, points, options=near)


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


N = 60
ROUGH = gwfast.SolverOptions(marginal_tol=1e-3)
FEW = dict(epsilon=0.05, n_threads=1, max_iter=60, tol=1e-3, options=ROUGH)
PRODUCT, PROFILE = dict(init="product", **FEW), dict(init="profile", **FEW)
X, Y, WHERE = rotated_pair(N, 3, 0, noise=0.05)
CALLS = {
    "product": lambda one: gromov_wasserstein(one, **PRODUCT).plan,
    "profile": lambda one: gromov_wasserstein(one, **PROFILE).plan,
    "costs": lambda one: gromov_wasserstein(one.x, one.y, one.p, one.q, **PRODUCT).plan,
    "exact": lambda one: gromov_wasserstein(one, epsilon=0, init="product").plan,
    "batch": lambda one: gwfast.gromov_wasserstein_batch([one], **PRODUCT)[0].plan,
    "several starts": lambda one: gromov_wasserstein(one, init=["product", "profile"], **FEW).plan,
    "tuned": lambda one: gwfast.tune_epsilon(one, epsilons=[0.05], init="product").plan,
    "pairs": lambda one: gwfast.pairwise_gromov_wasserstein([one.x, one.y]).costs,
    "verify": lambda one: gwfast.verify(one, np.outer(one.p, one.q), epsilon=2.0).gw_cost,
}


@pytest.mark.parametrize("name, order", [*zip(CALLS, 5 * "CF", strict=False)])
def test_costs_that_are_written_to_are_those_that_are_solved(name, order):
    call, weights = CALLS[name], (masses(N, 1), masses(N, 2))
    kept = QuadraticProblem(*(np.array(distances(one), order=order) for one in (X, Y)))
    before = call(kept)
    # These costs have another size and mean, and one is not symmetric.
    others = [distances(cloud(N, 2, seed)) * 3 + 0.5 for seed in (7, 8)]
    others[1][0] *= 2
    for side, other in zip((kept.x, kept.y), others, strict=True):
        np.copyto(side.matrix, other)
    kept.p[:], kept.q[:] = weights
    fresh = QuadraticProblem(*(np.array(other, order=order) for other in others), *weights)
    again = call(kept)
    # BLAS rounds by where in memory a matrix lies.
    np.testing.assert_allclose(again, call(fresh), rtol=1e-6, atol=1e-12)
    assert np.abs(again - before).max() > 1e-4


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_entry_that_is_written_to_is_seen(dtype):
    problem = QuadraticProblem(np.ones((30, 30), dtype), np.eye(30))
    before = gromov_wasserstein(problem, epsilon=0, init="product").gw_cost
    problem.x.matrix[3, 7] = 9.0
    assert gromov_wasserstein(problem, epsilon=0, init="product").gw_cost > before + 1e-3
    problem.x.matrix[3, 7] = np.nan
    for _ in range(2):
        with pytest.raises(ValueError, match=r"\bx must be finite"):
            gromov_wasserstein(problem)


@pytest.mark.parametrize("make", [lambda z: PointCloud(z, "sqeuclidean"), PointCloud.from_factors])
def test_features_that_are_written_to_are_those_that_are_solved(make):
    sides, other = [make(X), make(Y)], make(cloud(N, 3, 9))
    options = PROFILE | dict(epsilon=2.0)
    gromov_wasserstein(*sides, **options)
    for side in sides:
        np.copyto(side.features, other.features)
        with pytest.raises(ValueError, match="read-only"):
            side.signature[0, 0] = 2.0
    fresh = [make(X), make(Y)]
    for side in fresh:
        side.features = other.features.copy()
    again, expected = (gromov_wasserstein(*pair, **options) for pair in (sides, fresh))
    np.testing.assert_array_equal(again.plan, expected.plan)


MATRICES = distances(X) ** 2, distances(Y) ** 2
CLOUDS = PointCloud(X, "sqeuclidean"), PointCloud(Y, "sqeuclidean")
UNBALANCED = dict(marginals=gwfast.Unbalanced(1.0))
# The documented limit of epsilon is far below; at .02 % of the objective of the product
# plan most entries of a kernel underflow.
SMALL = dict(epsilon="0.02%", init="product", n_threads=2)
SOLVES = {
    "clouds": (CLOUDS, {}),
    "tiled": (CLOUDS, dict(tier="tiled")),
    "neighbors": (CLOUDS, dict(tier="neighbors", n_neighbors=10, max_iter=15)),
    "cross": (CLOUDS, dict(linear_cost=gwfast.CrossCost(X, Y))),
    "semirelaxed clouds": (CLOUDS, dict(marginals="semirelaxed")),
    "unbalanced clouds": (CLOUDS, UNBALANCED),
    "matrices": (MATRICES, {}),
    "float64": (MATRICES, dict(dtype="float64")),
    "semirelaxed": (MATRICES, dict(marginals="semirelaxed")),
    "partial": (MATRICES, dict(marginals=gwfast.Partial(0.7), epsilon="0.5%")),
    "unbalanced": (MATRICES, UNBALANCED),
    "proximal": (MATRICES, dict(method="ppa", epsilon="5%", max_iter=50)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOLVES)
def test_solves_find_the_planted_match_and_are_the_same_if_the_caller_flushes(name):
    (costs, options), (x, y) = SOLVES[name], MATRICES
    options = settings(**SMALL | options)
    plain = gromov_wasserstein(*costs, **options)
    if name in ("clouds", "tiled", "matrices", "float64"):
        assert plain.status == "converged"
        assert plain.gw_cost <= 1.02 * np.mean((x - y[np.ix_(WHERE, WHERE)]) ** 2)
    if not _rows.FLUSH_BITS:
        pytest.skip("nothing to set here")
    before = _rows.float_controls()[0]
    _rows.set_float_control(before | _rows.FLUSH_BITS)
    try:
        flushed = gromov_wasserstein(*costs, **options)
    finally:
        _rows.set_float_control(before)
    assert flushed.gw_cost == plain.gw_cost
    np.testing.assert_array_equal(flushed.plan, plain.plan)


def test_a_constant_in_linear_costs_changes_no_epsilon_and_no_plan():
    rng = np.random.default_rng(0)
    x, y = (distances(rng.normal(size=(n, 3))) for n in (12, 9))
    linear = rng.random((12, 9))
    expected = gwfast.gromov_wasserstein(x, y, linear_cost=linear - linear.min())
    found = gwfast.gromov_wasserstein(x, y, linear_cost=linear - linear.min() - 3.0)
    assert found.epsilon == pytest.approx(expected.epsilon, rel=1e-5)
    np.testing.assert_allclose(found.plan, expected.plan, atol=1e-4)


def test_no_permutation_of_few_points_is_below_what_has_converged():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(2, 5, 5))
        found = gwfast.gromov_wasserstein(x, y, epsilon=0)
        orders = map(list, itertools.permutations(range(5)))
        least = min(np.square(x - y[np.ix_(order, order)]).mean() for order in orders)
        assert found.gw_cost <= least + 1e-12

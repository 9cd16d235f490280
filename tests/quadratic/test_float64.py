"""Float64: what is promised of it, and the float32 shortcuts on the way."""

import functools

import numpy as np
import pytest
from helpers import twins
from helpers.marks import pairwise
from helpers.pot_calls import checked
from helpers.problems import cloud, distances, gw_objective, masses, random_cost

import gwfast
from gwfast import PointCloud
from gwfast.pot._solve import rounded
from gwfast.pot._solve import solve as solve_for_pot
from gwfast.problems.quadratic import QuadraticProblem
from gwfast.solvers.search.levels import needs
from gwfast.utils.precision import DOUBLE, SINGLE, as_precision

# Where solves are quick plans match nothing.
pytestmark = pytest.mark.filterwarnings("ignore:.*ended as 'degenerate'")

solve = functools.partial(gwfast.gromov_wasserstein, init="product")


def problem(n=40, m=30, *, symmetric=True):
    cost_x = random_cost(n, 0, symmetric=symmetric) + 0.1
    cost_y = random_cost(m, 1, symmetric=symmetric) + 0.1
    return cost_x, cost_y, masses(n, 2), masses(m, 3)


# --- Promises ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("f8"), float])
def test_precisions_have_the_names_of_numpy(dtype):
    assert as_precision(dtype) is DOUBLE
    assert as_precision("float32") is as_precision(np.float32) is SINGLE


@pairwise(loss=["square", "kl"], symmetric=[True, False], epsilon=[0.05, 0.2])
def test_tolerances_of_1e_9_are_met(loss, symmetric, epsilon):
    cost_x, cost_y, p, q = problem(18, 14, symmetric=symmetric)
    tight = dict(
        tol=1e-9, options=gwfast.SolverOptions(marginal_tol=1e-9), dtype="float64", max_iter=5000
    )
    result = solve(cost_x, cost_y, p, q, epsilon=epsilon, loss=loss, **tight)
    plan = result.plan
    assert result.status in ("converged", "degenerate")
    assert result.history[-1].change <= 1e-9
    missed = np.abs(plan.sum(axis=1) - p).sum() + np.abs(plan.sum(axis=0) - q).sum()
    assert missed <= 1e-9 and result.marginal_error <= 1e-9
    # The plan solves its own linear problem.
    lin = twins.half_gradient(plan, cost_x, cost_y, loss)
    f, g = result.potentials
    assert f.dtype == g.dtype == np.float64
    made = np.exp((f[:, None] + g - lin) / epsilon)
    assert np.abs(made - plan).sum() < 1e-8 / epsilon
    assert np.abs(twins.balanced(np.exp(-lin / epsilon), p, q) - plan).sum() < 1e-7


def test_what_float32_cannot_do_float64_does():
    arguments = distances(cloud(40, 3, 4)), distances(cloud(30, 3, 20))
    tight = dict(epsilon=0.2, tol=1e-9, options=gwfast.SolverOptions(marginal_tol=1e-9))
    with pytest.warns(gwfast.ConvergenceWarning, match="stalled"):
        assert solve(*arguments, **tight).status == "stalled"
    assert solve(*arguments, **tight, dtype="float64").marginal_error <= 1e-9


@pytest.mark.parametrize("side", ["x", "y"])
def test_clouds_are_refused_by_name(side):
    costs = dict(zip("xy", problem()[:2], strict=True))
    costs[side] = PointCloud(cloud(40, 3, 4))
    message = f"^{side} must be a matrix of costs with dtype='float64', got a Point"
    with pytest.raises(ValueError, match=message):
        gwfast.gromov_wasserstein(**costs, dtype="float64")


def test_a_memory_limit_counts_numbers_of_eight_bytes():
    cost_x, cost_y = distances(cloud(100, 3, 5)), distances(cloud(80, 3, 6))
    quadratic = QuadraticProblem(cost_x, cost_y)
    single, double = (
        needs(quadratic, 1, itemsize=itemsize, races=False)["dense"] for itemsize in (4, 8)
    )
    assert double >= 2 * single
    limit = (single + double) / 2
    solve(cost_x, cost_y, epsilon=1.0, memory_limit=limit)
    with pytest.raises(MemoryError, match="a problem of 100 x 80 takes"):
        solve(cost_x, cost_y, epsilon=1.0, memory_limit=limit, dtype="float64")


def test_auto_starts_from_a_race_in_float32():
    x = cloud(40, 3, 7)
    order = np.random.default_rng(8).permutation(40)
    result = gwfast.gromov_wasserstein(
        distances(x),
        distances(x[order]),
        dtype="float64",
        tol=1e-9,
        options=gwfast.SolverOptions(marginal_tol=1e-9),
    )
    assert result.converged and result.candidates
    assert result.plan.dtype == np.float64
    np.testing.assert_array_equal(order[result.plan.argmax(axis=1)], np.arange(40))
    assert result.marginal_error <= 1e-9 and result.history[-1].change <= 1e-9


def test_threads_change_no_bit():
    arguments = problem(150, 130, symmetric=False)
    one, *others = (
        solve(*arguments, epsilon=0.02, dtype="float64", tol=1e-8, n_threads=k)
        for k in (1, 2, 3, 5)
    )
    for many in others:
        np.testing.assert_array_equal(one.plan, many.plan)
        assert one.history[-1].change == many.history[-1].change


# --- Float32 first ----------------------------------------------------------------


def test_many_points_end_where_float64_alone_ends():
    sides = distances(cloud(300, 3, 9)), distances(cloud(280, 3, 10))
    given = *sides, masses(300, 11), masses(280, 12)
    tight = dict(
        epsilon=0.5, dtype="float64", tol=1e-11, options=gwfast.SolverOptions(marginal_tol=1e-11)
    )
    staged = solve(*given, **tight)
    again = solve(*given, **tight | {"init": staged.plan, "tol": 1e-10})
    assert again.n_iter <= 50
    assert np.abs(staged.plan - again.plan).sum() < 1e-8
    assert staged.gw_cost == pytest.approx(again.gw_cost, rel=1e-9)
    assert staged.marginal_error <= 1e-11


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 2, 49, 50, 51])
def test_the_last_iteration_is_float64_whatever_the_limit(max_iter):
    sides = problem(260, 260)
    result = solve(*sides, epsilon=0.001, dtype="float64", tol=1e-9, max_iter=max_iter)
    assert result.n_iter <= max_iter
    assert result.plan.dtype == np.float64
    if result.n_iter == max_iter:
        assert result.status != "converged" or result.history[-1].change <= 1e-9
    numbers = [step.iteration for step in result.history]
    assert numbers == list(range(1, result.n_iter + 1))


def test_a_callback_may_stop_in_float32():
    steps = []

    def second(step):
        steps.append(step)
        return step.iteration == 2

    result = solve(*problem(260, 260), epsilon=1e-3, dtype="float64", callback=second)
    assert result.status == "stopped" and len(steps) == 2
    assert result.plan.dtype == np.float64
    assert result.n_iter <= 3


# --- The way to POT's functions ---------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_gives_the_marginals_at_little_change(dtype):
    def check(plan, p, q):
        before = plan.copy()
        missed = np.abs(plan.sum(axis=1) - p).sum() + np.abs(plan.sum(axis=0) - q).sum()
        made = rounded(plan, p, q)
        assert made.dtype == dtype and (made >= 0).all()
        np.testing.assert_array_equal(plan, before)
        digits = 1e-6 if dtype is np.float32 else 1e-15
        np.testing.assert_allclose(made.sum(axis=1), p, atol=digits)
        np.testing.assert_allclose(made.sum(axis=0), q, atol=digits)
        # Lemma 7 of Altschuler, Weed and Rigollet.
        assert np.abs(made - plan).sum() <= 2 * missed + 10 * digits

    rng = np.random.default_rng(15)
    p, q = masses(20, 16), masses(30, 17)
    exact = twins.balanced(rng.uniform(0.5, 1.5, (20, 30)), p, q)
    for size in (0.0, 1e-5, 1e-2):
        moved = exact * (1 + size * rng.uniform(-1, 1, exact.shape))
        check(moved.astype(dtype), p, q)
    some = np.zeros((3, 2), dtype)
    some[0, 0] = 0.5
    check(some, np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.75]))


@pairwise(
    total=[0.25, 8.0],
    marginals=["balanced", "semirelaxed", "partial"],
    method=["pgd", "ppa"],
    fused=[False, True],
)
def test_other_total_masses_are_the_same_problem(total, marginals, method, fused):
    """Objectives are of second degree in the plan, linear problems of first."""
    cost_x, cost_y, p, q = problem(12, 9)
    between = np.random.default_rng(18).random((12, 9))
    mass = 0.5 if marginals == "partial" else None

    def solved(total):
        given = dict(
            C1=cost_x,
            C2=cost_y,
            p=total * p,
            q=total * q,
            epsilon=0.4 * total,
            m=mass and total * mass,
            # The linear term is of first degree.
            M=total * between if fused else None,
            alpha=0.6,
            max_iter=40,
            numItermax=20_000,
            tol=1e-9 * total,
        )
        call, options = checked(given, marginals)
        return solve_for_pot(call, **options, method=method)

    one, other = solved(1.0), solved(total)
    np.testing.assert_allclose(other.plan, total * one.plan, atol=1e-8 * total)
    assert other.quad == pytest.approx(total**2 * one.quad, rel=1e-6)
    assert other.linear == pytest.approx(total**2 * one.linear, rel=1e-6)
    few = min(len(one.errors), len(other.errors), 5)
    np.testing.assert_allclose(other.errors[:few], total * np.array(one.errors[:few]), rtol=1e-4)
    # POT's value: constC and hC1 T hC2' by the plan, with the marginals of the problem.
    if marginals == "balanced":
        expected = gw_objective(one.plan, cost_x, cost_y)
        assert one.quad == pytest.approx(expected, rel=1e-6)
        assert one.linear == pytest.approx((one.plan * between).sum() * fused)


def test_a_start_of_other_mass_is_scaled():
    cost_x, cost_y, p, q = problem(12, 9)
    start = 4 * twins.balanced(np.random.default_rng(19).random((12, 9)), p, q)
    given = dict(C1=cost_x, C2=cost_y, p=4 * p, q=4 * q, G0=start)
    solved = solve_for_pot(checked(given)[0], 0.8, max_iter=1, tol=1e-9, stopThr=1e-12)
    expected = twins.step(start / 4, cost_x, cost_y, p, q, epsilon=0.1)
    assert np.abs(solved.plan / 4 - expected).sum() < 1e-8
    assert solved.errors[0] == pytest.approx(4 * np.linalg.norm(expected - start / 4))


def test_every_tenth_error_is_printed(capsys):
    cost_x, cost_y, p, q = problem(12, 9)
    call, _ = checked(dict(C1=cost_x, C2=cost_y, p=p, q=q))
    solved = solve_for_pot(call, 0.4, max_iter=1000, tol=1e-9, verbose=True)
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows == [f"{k:5d}|{x:8e}|" for k, x in enumerate(solved.errors)][::10]
    assert solved.errors[-1] <= 1e-9


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, 1, 18])
def test_tiny_epsilon_keeps_the_plan_a_plan(seed):
    """Rows of a kernel may underflow as a whole."""
    rng = np.random.default_rng(seed)
    points = [rng.normal(size=(n, 2)) for n in rng.integers(20, 50, 2)]
    costs = [np.linalg.norm(x[:, None] - x, axis=2) ** 4 for x in points]
    options = dict(epsilon="0.0003%", dtype="float64", init="product", max_iter=60)
    result = gwfast.gromov_wasserstein(*costs, **options)
    np.testing.assert_allclose(result.plan.sum(axis=0), 1 / len(costs[1]), rtol=1e-9)
    assert np.isfinite(np.concatenate(result.potentials)).all()

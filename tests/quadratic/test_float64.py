"""Float64: what is promised of it, and the float32 shortcuts on the way."""

import functools

import numpy as np
import pytest
from helpers import twins
from helpers.marks import pairwise
from helpers.problems import cloud, distances, masses, random_cost

import gwfast
import gwfast.pot
from gwfast import PointCloud
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


def test_a_start_of_other_mass_is_scaled():
    cost_x, cost_y, p, q = problem(12, 9)
    start = 4 * twins.balanced(np.random.default_rng(19).random((12, 9)), p, q)
    plan, log = gwfast.pot.entropic_gromov_wasserstein(
        cost_x, cost_y, 4 * p, 4 * q, epsilon=0.8, G0=start, max_iter=1, stopThr=1e-12, log=True
    )
    expected = twins.step(start / 4, cost_x, cost_y, p, q, epsilon=0.1)
    assert np.abs(plan / 4 - expected).sum() < 1e-8
    assert log["err"][0] == pytest.approx(4 * np.linalg.norm(expected - start / 4))


def test_every_tenth_error_is_printed(capsys):
    cost_x, cost_y, p, q = problem(12, 9)
    _, log = gwfast.pot.entropic_gromov_wasserstein(
        cost_x, cost_y, p, q, epsilon=0.4, verbose=True, log=True
    )
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows == [f"{k:5d}|{x:8e}|" for k, x in enumerate(log["err"])][::10]
    assert log["err"][-1] <= 1e-9


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

"""With and without each mechanism a solve ends at the same optimum; ties of the first linear
program of exact problems: which vertex is gone to, and when; and the compiled loop of small
problems (compared with the definition in tests/conformance) beside the loop in Python.
"""

import numpy as np
import pytest
from helpers.problems import distances, masses, random_cost, rotated_pair, settings, steps
from helpers.tuned import AfterLooks, solve_tuned

import gwfast
from gwfast import pot
from gwfast.quadratic.descend import Descent
from gwfast.quadratic.judge import Limits
from gwfast.quadratic.linearize import linearize
from gwfast.quadratic.small_descent import descend_each, descend_small

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
X, Y, _ = rotated_pair(150, 3, 0, noise=0.05)
MATRICES = distances(X), distances(Y)
RANDOM = random_cost(40, 0), random_cost(30, 1)
DOUBTED = random_cost(24, 4), random_cost(24, 5)
CLOUDS = gwfast.PointCloud(X, "sqeuclidean"), gwfast.PointCloud(Y, "sqeuclidean")
PRODUCT, DOUBLE = dict(init="product"), dict(init="product", dtype="float64")
SLOW, BLURRED = dict(init="product", epsilon="5%"), dict(init="product", epsilon="30%")
SHARP = dict(init="product", epsilon="0.02%")
# Costs, options, fields of the tuning with the mechanism and without, and the most iterations with
# the mechanism, outer and inner, as fractions of the iterations without.
MECHANISMS = {
    "compiled descents": (MATRICES, PRODUCT, dict(few_points=256), {}, (1.3, 1.3)),
    "Anderson": (RANDOM, SLOW, {}, dict(acceleration=False), (0.6, 1.0)),
    "Anderson of clouds": (CLOUDS, BLURRED, {}, dict(acceleration=False), (0.8, 0.8)),
    "low-rank updates": (MATRICES, PRODUCT, dict(low_rank_from=100, levels=False), {}, (1.3, 1.3)),
    "leading eigenvectors": (MATRICES, PRODUCT, dict(low_rank_from=100), {}, (1.5, 2.0)),
    "conjugate gradients": (MATRICES, PRODUCT, dict(iterated_from=60), {}, (1.0, 0.3)),
    "Cholesky factors": (MATRICES, DOUBLE, {}, dict(newton=False), (1.0, 0.3)),
    "float32 first": (MATRICES, DOUBLE, dict(float32_from=100), {}, (2.0, 1.0)),
    "samples": (CLOUDS, PRODUCT, dict(sampled_from=100), {}, (0.7, 0.3)),
    "truncated kernels": (CLOUDS, SHARP, dict(truncated_from=100), {}, (2.0, 2.0)),
    "few points first": (MATRICES, {}, dict(race_points=(60, 60, 60)), {}, (2.0, 2.0)),
    "second look": (DOUBTED, {}, {}, dict(second_look=False), (2.0, 2.0)),
}


@pytest.mark.parametrize("costs, options, on, off, most", MECHANISMS.values(), ids=MECHANISMS)
def test_a_mechanism_ends_at_the_same_optimum(costs, options, on, off, most):
    problem = gwfast.QuadraticProblem(*costs)
    with_it, without = (
        solve_tuned(problem, tuning=dict(few_points=8) | fields, n_threads=1, **options)
        for fields in (on, off)
    )
    assert with_it.gw_cost == pytest.approx(without.gw_cost, rel=3e-4)
    assert [step.change for step in with_it.history] != [step.change for step in without.history]
    assert with_it.n_iter <= most[0] * without.n_iter
    n_inner = [sum(step.n_inner for step in one.history) for one in (with_it, without)]
    assert n_inner[0] <= most[1] * n_inner[1]


def test_starts_race_on_the_points_with_most_mass():
    heavy, costs = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3], []
    for rng in map(np.random.default_rng, (10, 20)):
        noise, light = rng.standard_normal((60, 3)), rng.standard_exponential((180, 3))
        costs.append(distances(np.vstack([heavy + 0.02 * noise, 3 * light])))
    weights = np.repeat([1.0, 0.02], [60, 180])
    problem = gwfast.QuadraticProblem(*costs, *[weights / weights.sum()] * 2)
    tuning = dict(few_points=8, race_points=(60, 60, 60))
    plan = solve_tuned(problem, epsilon="1%", tuning=tuning).plan
    assert (plan[:60].argmax(axis=1) == np.arange(60)).mean() > 0.9


def hops(rng, n):
    """Hop distances of a random graph around a circle."""
    return steps(np.triu(rng.random((n, n)) < 3.0 / n, 1) + np.roll(np.eye(n), 1, axis=1))


def solved(*sides, init="product", **options):
    return gwfast.gromov_wasserstein(*sides, epsilon=0, init=init, **options)


def test_ends_are_below_those_from_the_product_plan_alone():
    rng, ratios = np.random.default_rng(0), []
    for _ in range(8):
        costs = hops(rng, 24), hops(rng, 20)
        alone, found = solved(*costs, init=np.full((24, 20), 1 / 480)), solved(*costs)
        ratios.append(found.gw_cost / alone.gw_cost)
    # One of eight may end a little above, on one processor or the other.
    assert np.mean(ratios) < 0.95 and np.max(ratios) < 1.02
    for rng in map(np.random.default_rng, range(3)):
        cost, order = hops(rng, 40), rng.permutation(40)
        assert solved(cost, cost[np.ix_(order, order)]).gw_cost == pytest.approx(0.0, abs=1e-9)


def test_a_search_that_is_late_has_the_best_so_far():
    rng = np.random.default_rng(7)
    problem, ends = gwfast.QuadraticProblem(hops(rng, 60), hops(rng, 50)), []
    for looks in (3, 5, 100):
        found = solve_tuned(problem, deadline=AfterLooks(looks), epsilon=0, init="product")
        np.testing.assert_allclose(found.plan.sum(axis=0), 1 / 50, atol=1e-14)
        ends.append(found.gw_cost)
    assert ends[0] >= ends[1] >= ends[2] and ends[0] > ends[2]


@pytest.mark.parametrize("rule", ["balanced", "semirelaxed", gwfast.Partial(0.6)])
def test_a_stack_of_plans_descends_as_each_plan_alone(rule):
    """Searches alone call it, and no result shows the plans that they drop. Two iterations: sums of
    plans are rounded otherwise, and random costs lead far apart from there."""
    problem = gwfast.QuadraticProblem(random_cost(40, 0), random_cost(30, 1), marginals=rule)
    at, limits = linearize(problem, 1), Limits(2, 100, 1e-3, 1e-3)
    schedule = at.schedule(gwfast.Epsilon(relative=0.05))
    plans = np.random.default_rng(0).standard_exponential((4, 40, 30), dtype=np.float32)
    plans /= plans.sum(axis=(1, 2), keepdims=True)
    starts = [Descent.begin(at, at.initial(plan.copy()), schedule) for plan in plans]
    values, counts = descend_each(starts[0], plans, limits, 2)
    assert (counts == 2).all() and len({*values}) > 1
    for start, plan, value in zip(starts, plans, values, strict=True):
        [alone] = descend_small([start], [limits])
        assert value == pytest.approx(alone.gw_cost, rel=1e-5)
        np.testing.assert_allclose(plan, alone.state.plan, rtol=0, atol=1e-3 * plan.max())


def test_the_history_is_the_one_of_the_best_descent():
    rng = np.random.default_rng(5)
    costs, p, q = (hops(rng, 25), hops(rng, 31)), rng.random(25), np.full(31, 1 / 31)
    p[:4] = 0
    p /= p.sum()
    found = solved(*costs, p, q)
    np.testing.assert_allclose(found.plan.sum(axis=1), p, atol=1e-14)
    losses = [step.gw_cost for step in found.history]
    assert (np.diff(losses) < 0).all() and losses[-1] == found.gw_cost
    np.testing.assert_array_equal(solved(*costs, p, q, n_threads=2).plan, found.plan)


# Tolerances, and how far objectives may be apart, relatively.
TOLERANCES = {"float32": (1e-5, 1e-4), "float64": (1e-8, 1e-6)}
TIGHT = dict(dtype="float64", tol=1e-9)
LINEAR = np.random.default_rng(9).random((100, 100))
ANNEALED = gwfast.Epsilon(relative=0.2, anneal_from=8.0, anneal_by=0.7)


def problem(n=30, m=24, seed=0, noise=0.0, **terms):
    rng, costs = np.random.default_rng(seed), []
    for size in (n, m):
        cost = distances(rng.standard_exponential((size, 3)) * [1.0, 2.0, 3.0]) + 0.1
        costs.append((cost + noise * rng.random(cost.shape)) / cost.max())
    p, q = masses(n, rng), masses(m, rng)
    q = None if terms.get("marginals") == "semirelaxed" else q
    return gwfast.QuadraticProblem(*costs, p, q, **terms)


def solve(given, relative=0.2, **options):
    options = {"init": "product", "epsilon": gwfast.Epsilon(relative=relative)} | options
    return gwfast.gromov_wasserstein(given, **settings(**options))


def in_both(*given, **options):
    """Solve by the compiled loop, and by the loop in Python."""
    return solve(*given, **options), solve(*given, callback=lambda step: False, **options)


@pytest.mark.parametrize(
    "rule, relative, method",
    [
        ("balanced", 0.005, "pgd"),
        ("balanced", 0.005, "bapg"),
        ("semirelaxed", 0.002, "pgd"),
        ("semirelaxed", 0.2, "ppa"),
        (gwfast.Partial(0.7), 0.02, "pgd"),
        (gwfast.Unbalanced((np.inf, 0.2)), 0.2, "pgd"),
    ],
)
def test_cold_starts_end_at_the_same_plan(isa, rule, relative, method, dtype):
    tol, off = TOLERANCES[dtype]
    options = dict(dtype=dtype, tol=tol, method=method, max_iter=200)
    result, other = in_both(problem(marginals=rule), relative, **options)
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=off)
    assert np.abs(result.plan - other.plan).sum() <= 10 * np.sqrt(off)


@pytest.mark.parametrize("method", ["pgd", "ppa"])
def test_epsilon_falls_in_both_loops(method):
    options = dict(epsilon=ANNEALED, method=method, dtype="float64", max_iter=300)
    result, other = in_both(problem(), **options)
    for here, there in zip(result.history[:7], other.history[:7], strict=True):
        assert here.epsilon == pytest.approx(there.epsilon)
        assert here.gw_cost == pytest.approx(there.gw_cost, rel=1e-3)
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-3)
    assert result.history[0].epsilon == pytest.approx(8 * result.epsilon)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("fused", [{}, dict(linear_cost=LINEAR, alpha=0.7)])
def test_tight_tolerances_begin_in_float32_and_meet_marginals_and_potentials(noise, fused):
    result, other = in_both(problem(100, 100, noise=noise, **fused), **TIGHT)
    # All iterations of a compiled call have the same time.
    n_calls = [len({step.seconds for step in one.history}) for one in (result, other)]
    assert n_calls == [2, other.n_iter]
    assert result.status == other.status == "converged"
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-8)
    assert np.abs(result.plan - other.plan).sum() <= 1e-7
    assert result.plan.dtype == np.float64 and result.marginal_error <= 1e-8
    rows, cols = (one - same for one, same in zip(result.potentials, other.potentials, strict=True))
    assert (result.plan * np.abs(rows[:, None] + cols)).sum() <= 1e-5 * result.epsilon


@pytest.mark.parametrize("shape", [(120, 110), (60, 220)])
def test_acceleration_and_newton_save_as_many_iterations(shape):
    result, other = in_both(problem(*shape), relative=0.05, **TIGHT)
    assert abs(result.n_iter - other.n_iter) <= 15
    here, there = (sum(step.n_inner for step in one.history) for one in (result, other))
    assert here < 2 * there
    assert result.gw_cost == pytest.approx(other.gw_cost, rel=1e-7)


def test_limits_end_the_compiled_loop():
    for most in (1, 2, 7):
        result = solve(problem(), max_iter=most)
        assert (result.n_iter, result.status) == (most, "max_iter")
        assert result.marginal_error <= 1e-5  # of the last iteration allowed
    late = solve(problem(250, 250), method="ppa", time_limit=0.05, max_iter=100_000)
    assert late.status == "time_limit" and late.n_iter > 0
    whole = solve(problem(220, 220), relative=0.02, dtype="float64", tol=1e-12, max_iter=40)
    assert whole.n_iter > 20  # several slices of work
    # Where two plans alternate until steps are damped, the loop in Python goes on.
    result = solve(problem(5, 5, marginals="semirelaxed"), relative=0.08)
    assert [step.iteration for step in result.history] == list(range(1, result.n_iter + 1))
    assert result.converged


def test_all_mass_of_one_side_may_move_in_a_partial_plan():
    one = problem(seed=3)
    costs, q = (one.x.matrix, one.y.matrix), 0.6 * one.q
    plan = pot.entropic_partial_gromov_wasserstein(*costs, one.p, q, reg=0.05, m=0.6)
    np.testing.assert_allclose(plan.sum(axis=0), q, atol=1e-6)
    assert (plan.sum(axis=1) <= one.p + 1e-6).all()

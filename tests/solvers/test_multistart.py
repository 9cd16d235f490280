"""Many starts, and many epsilons, on shared costs."""

import numpy as np
import pytest
from helpers.marks import mostly_slow
from helpers.problems import cloud, distances, rotated_pair
from scipy.sparse import csgraph

import gwfast
from gwfast import PointCloud, QuadraticProblem
from gwfast.solvers import race
from gwfast.solvers.starts import Exact, Random
from gwfast.utils.deadline import Deadline


def problem_of(n, seed):
    x, y, _ = rotated_pair(n, 3, seed, noise=0.02)
    return QuadraticProblem(distances(x), distances(y))


def test_multistart_returns_every_trial():
    problem = problem_of(50, 17)
    told = []
    result = gwfast.multistart(problem, starts=7, progress=lambda *r: told.append(r))
    names = [row.start for row in result.candidates]
    assert [f"random {k}" for k in range(7)] == names[-7:] and "profile 0.02" in names
    assert result.gw_cost <= min(
        row.gw_cost for row in result.candidates if row.fate in ("won", "lost", "tie")
    )
    assert told and {total for _, _, total in told} == {1}


def test_multistart_without_pruning_takes_all_to_the_end():
    problem = problem_of(40, 18)
    own = np.random.default_rng(19).random((40, 40))
    starts = ["product", "random", "random", own, gwfast.Profile(0.1)]
    result = gwfast.multistart(problem, starts=starts, prune=False, seed=5)
    fates = {row.fate.split(" as ")[0] for row in result.candidates}
    assert [row.start for row in result.candidates] == [
        "product", "random 6", "random 7", "plan", "profile 0.1"
    ]  # fmt: skip
    assert fates <= {"won", "same", "lost", "tie"}
    for row, start in zip(result.candidates, starts[:1], strict=False):
        alone = gwfast.gromov_wasserstein(
            problem.x, problem.y, epsilon=result.epsilon, init=start
        )
        np.testing.assert_allclose(row.gw_cost, alone.gw_cost, rtol=1e-5)
    winner = [row for row in result.candidates if row.fate == "won"]
    assert len(winner) == 1 and winner[0].gw_cost == result.gw_cost
    assert abs(result.plan.sum() - 1) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("dense", [False, True])
def test_tuning_returns_the_best_of_all_epsilons(dense):
    x, y, where = rotated_pair(60, 3, 20, noise=0.02)
    make = distances if dense else PointCloud
    problem = QuadraticProblem(make(x), make(y))
    rough = {"tol": 1e-4, "marginal_tol": 1e-4}
    result = gwfast.tune_epsilon(problem, **rough)
    used = [row.epsilon for row in result.candidates]
    assert used == sorted(used, reverse=True) and len(set(used)) == 7
    assert sum(row.fate == "won" for row in result.candidates) == 7
    won = [row for row in result.candidates if row.fate == "won"]
    assert result.gw_cost == min(row.gw_cost for row in won)
    assert (result.plan.argmax(axis=1) == where).mean() > 0.8
    # The plan is that of the epsilon that won, not of the last one.
    largest = gwfast.tune_epsilon(problem, key=lambda one: -one.epsilon, **rough)
    assert largest.epsilon == max(used)
    again = gwfast.gromov_wasserstein(
        problem.x, problem.y, epsilon=largest.epsilon, init=largest.plan, **rough
    )
    assert np.abs(again.plan - largest.plan).sum() < 1e-2


def hops(n, seed):
    """Steps in a graph of near neighbors in the plane."""
    points = np.random.default_rng(seed).random((n, 2))
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    near = apart <= np.sort(apart, axis=1)[:, [3]]
    steps = csgraph.shortest_path(near | near.T, unweighted=True)
    return np.where(np.isinf(steps), steps[np.isfinite(steps)].max() + 1, steps)


def permuted(n, seed):
    cost, order = hops(n, seed), np.random.default_rng(seed).permutation(n)
    return QuadraticProblem(cost, cost[np.ix_(order, order)])


def clouds(n, seed):
    x, y, _ = rotated_pair(n, 4, seed, noise=0.1)
    return QuadraticProblem(PointCloud(x), PointCloud(y))


@pytest.mark.parametrize(
    "given",
    mostly_slow(
        [(permuted, n, seed) for n in (10, 20, 34, 60) for seed in (0, 1)]
        + [(problem_of, 40, 3), (clouds, 80, 4)],
        fast=[(permuted, 20, 1), (clouds, 80, 4)],
    ),
)
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_tuning_is_never_worse_than_the_default(given):
    make, n, seed = given
    problem, found = make(n, seed), []

    def key(result):
        found.append((result.gw_cost, result.epsilon))
        return result.gw_cost

    epsilons = [gwfast.Epsilon(relative=share) for share in (0.01, 0.03, 0.0175)]
    best = gwfast.tune_epsilon(problem, epsilons=epsilons, key=key)
    assert (best.gw_cost, best.epsilon) == min(found)
    # The largest is searched as the default is, and so is the one that wins.
    for gw_cost, epsilon in (found[0], min(found)):
        alone = gwfast.gromov_wasserstein(problem.x, problem.y, epsilon=epsilon)
        assert gw_cost <= alone.gw_cost * (1 + 1e-6) + 1e-9
    won = {row.epsilon: row.gw_cost for row in best.candidates if row.fate == "won"}
    assert won == {epsilon: gw_cost for gw_cost, epsilon in sorted(found, reverse=True)}


def noisy_pair():
    """Ratings, from 0 to 7, of how far apart 93 points in space are, given twice."""
    x = cloud(93, 3, 0)
    apart = 7 * distances(x) / distances(x).max()
    rng, ratings = np.random.default_rng(1), []
    for _ in range(2):
        noise = rng.standard_normal(apart.shape)
        ratings.append(np.clip(apart + (noise + noise.T) / 2, 0, 7))
        np.fill_diagonal(ratings[-1], 0.0)
    return QuadraticProblem(*ratings)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_each_epsilon_goes_on_from_the_plan_of_the_one_before():
    """In two searches and a fraction of one, whatever the number of epsilons is."""
    problem, epsilons, seen = noisy_pair(), np.geomspace(0.01, 0.1, 8), []

    def key(result):
        seen.append(result.epsilon)
        return result.gw_cost

    best = gwfast.tune_epsilon(problem, epsilons=epsilons, starts=3, key=key)
    np.testing.assert_allclose(seen[:8], epsilons[::-1])
    at = [[row for row in best.candidates if row.epsilon == one] for one in seen[:8]]
    for before, rows in zip(seen, at[1:], strict=False):
        assert f"epsilon {before:.3g}" in {row.start for row in rows}
    one_search = sum(row.n_outer for row in at[0])
    made = sum(row.n_outer for row in best.candidates)
    assert made < 4 * one_search


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("starts", ["auto", 0])
@pytest.mark.parametrize("n_seen", [1, 2, 3])
def test_time_is_that_of_all_epsilons(n_seen, starts, monkeypatch):
    """Also where the search in the end is what there is no time for."""
    deadline, seen = Deadline(), []
    monkeypatch.setattr(Deadline, "after", lambda time_limit: deadline)

    def key(result):
        seen.append(result.gw_cost)
        if len(seen) == n_seen:
            deadline.stop()
        return result.gw_cost

    epsilons, problem = [0.5, 0.4, 0.3], problem_of(20, 3)
    best = gwfast.tune_epsilon(problem, epsilons=epsilons, starts=starts, key=key)
    assert len(seen) == n_seen and best.gw_cost == min(seen)
    assert best.status == "time_limit" and "time_limit" in best.advice
    assert {row.epsilon for row in best.candidates} == {*epsilons[:n_seen]}


def test_what_matched_nothing_is_not_gone_on_from():
    problem, starts = problem_of(30, 3), ["product", gwfast.Profile()]
    epsilons = [100.0, 0.3]
    best = gwfast.tune_epsilon(problem, epsilons=epsilons, starts=starts)
    assert {row.start for row in best.candidates} == {"product", "profile 0.02"}
    assert best.status == "converged"


def test_the_best_plan_at_another_epsilon_is_a_start(monkeypatch):
    """Where nothing that races leads to the optimum that it is of."""
    starts = [[Exact()], [Random(0)], [Random(0)]]
    monkeypatch.setattr(race, "default_starts", lambda *_: starts.pop(0))
    problem = permuted(34, 0)
    epsilons = [gwfast.Epsilon(relative=share) for share in (0.03, 0.0175)]
    with pytest.warns(gwfast.ConvergenceWarning):
        best = gwfast.tune_epsilon(problem, epsilons=epsilons)
        alone = gwfast.gromov_wasserstein(problem.x, problem.y, epsilon=best.epsilon)
    *_, last = best.candidates
    assert last.start.startswith("epsilon ") and last.fate == "won"
    assert last.gw_cost == best.gw_cost < 0.9 * alone.gw_cost


def test_results_that_key_saw_stay_as_they_were():
    problem, seen = problem_of(30, 29), []

    def key(result):
        seen.append((result.plan, result.plan.copy()))
        return np.nan if len(seen) == 1 else result.gw_cost

    best = gwfast.tune_epsilon(problem, epsilons=[0.5, 0.3], key=key)
    for plan, copy in seen:
        np.testing.assert_array_equal(plan, copy)
    # What is not a number does not win.
    assert any(best.plan is plan for plan, _ in seen[1:])
    with pytest.raises(TypeError, match=r"^key must return a number, got list"):
        gwfast.tune_epsilon(problem, epsilons=[0.5], key=lambda result: [])


def test_tuning_takes_numbers_and_shares_alike():
    problem = problem_of(30, 21)
    result = gwfast.tune_epsilon(
        problem, epsilons=[0.5, gwfast.Epsilon(relative=0.05)], starts=["profile"]
    )
    assert {row.start for row in result.candidates} == {"profile 0.02", "epsilon 1.17"}


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda p: gwfast.multistart(3), TypeError, "^cost_x and cost_y must"),
        (lambda p: gwfast.multistart(p, starts=[]), ValueError, "^starts must not be"),
        (lambda p: gwfast.multistart(p, starts=-1), ValueError, "^starts must be at l"),
        (lambda p: gwfast.multistart(p, starts="all"), TypeError, "^starts must be a"),
        (lambda p: gwfast.multistart(p, prune=1), TypeError, "^prune must be a bool"),
        (lambda p: gwfast.tune_epsilon(p, epsilons=[]), ValueError, "^epsilons must n"),
        (lambda p: gwfast.tune_epsilon(p, epsilons=["a"]), ValueError, "^epsilons m"),
        (lambda p: gwfast.tune_epsilon(p, epsilons=0.1), TypeError, "^epsilons must b"),
        (lambda p: gwfast.multistart(p, starts=["auto"]), ValueError, "^starts must b"),
        (lambda p: gwfast.tune_epsilon(p, key=3), TypeError, "^key must be callable"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(problem_of(10, 22))


def test_many_starts_take_the_arguments_of_a_single_one():
    cost_x, cost_y = distances(cloud(12, 2, 3)), distances(cloud(10, 2, 4))
    p = np.arange(1.0, 13) / 78
    between = cloud(12, 10, 5) ** 2
    quick = dict(starts=1, tol=1e-3, marginal_tol=1e-3)
    terms = dict(linear_cost=between, alpha=0.7)
    problem = gwfast.QuadraticProblem(cost_x, cost_y, p, **terms)
    for solve in (gwfast.multistart, gwfast.tune_epsilon):
        expected = solve(problem, **quick)
        for result in (
            solve(cost_x, cost_y, p, **terms, **quick),
            solve(cost_x=cost_x, cost_y=cost_y, p=p, **terms, **quick),
            solve((cost_x, cost_y, p, None), **terms, **quick),
            solve(problem=problem, **quick),
        ):
            np.testing.assert_array_equal(result.plan, expected.plan)
        pair = solve((cost_x, cost_y), **quick)
        np.testing.assert_allclose(pair.plan.sum(axis=1), 1 / 12, atol=1e-3)
    with pytest.raises(ValueError, match=r"^p, alpha must be left out"):
        gwfast.multistart(problem, p=p, alpha=0.5)
    with pytest.raises(ValueError, match=r"^cost_x must be left out"):
        gwfast.multistart(cost_x, problem=problem)
    with pytest.raises(TypeError, match=r"must be given, .* got ndarray"):
        gwfast.tune_epsilon(cost_x)


def test_a_single_solve_takes_a_problem_given_whole():
    cost_x, cost_y = distances(cloud(12, 2, 3)), distances(cloud(10, 2, 4))
    p = np.arange(1.0, 13) / 78
    terms = dict(linear_cost=cloud(12, 10, 5) ** 2, alpha=0.7)
    problem = gwfast.QuadraticProblem(cost_x, cost_y, p, **terms)
    expected = gwfast.gromov_wasserstein(cost_x, cost_y, p, **terms)
    for result in (
        gwfast.gromov_wasserstein(problem),
        gwfast.gromov_wasserstein(cost_x=problem),
        gwfast.gromov_wasserstein((cost_x, cost_y, p, None), **terms),
    ):
        np.testing.assert_array_equal(result.plan, expected.plan)
    exact = gwfast.gromov_wasserstein(problem, epsilon=0)
    assert exact.gap <= 1e-5 * exact.gw_cost
    with pytest.raises(ValueError, match=r"^p, alpha must be left out"):
        gwfast.gromov_wasserstein(problem, p=p, alpha=0.5)
    with pytest.raises(ValueError, match=r"^cost_y must be left out"):
        gwfast.gromov_wasserstein(problem, cost_y)
    with pytest.raises(TypeError, match=r"must be given, .* got ndarray"):
        gwfast.gromov_wasserstein(cost_x)

"""Many starts, and many epsilons, on shared costs."""

import numpy as np
import pytest
from helpers.marks import mostly_slow
from helpers.problems import cloud, distances, hops, random_cost, rotated_pair

import gwfast
from gwfast import PointCloud, QuadraticProblem
from gwfast.solvers import annealing, race, starts
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
        alone = gwfast.gromov_wasserstein(problem.x, problem.y, epsilon=result.epsilon, init=start)
        np.testing.assert_allclose(row.gw_cost, alone.gw_cost, rtol=1e-3)
    winner = [row for row in result.candidates if row.fate == "won"]
    assert len(winner) == 1 and winner[0].gw_cost == result.gw_cost
    assert abs(result.plan.sum() - 1) < 1e-5


@pytest.mark.slow
def test_tuning_returns_the_best_of_all_epsilons():
    x, y, where = rotated_pair(60, 3, 20, noise=0.02)
    problem = QuadraticProblem(PointCloud(x), PointCloud(y))
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


def permuted(n, seed):
    """Steps in a graph of near neighbors, and the same in another order."""
    rng = np.random.default_rng(seed)
    cost, order = hops(rng.random((n, 2)), 3), rng.permutation(n)
    return QuadraticProblem(cost, cost[np.ix_(order, order)])


def clouds(n, seed):
    x, y, _ = rotated_pair(n, 4, seed, noise=0.1)
    return QuadraticProblem(PointCloud(x), PointCloud(y))


@pytest.mark.parametrize(
    "given",
    mostly_slow(
        [(permuted, 20, 1), (clouds, 80, 4), (permuted, 34, 0), (problem_of, 40, 3)],
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
    assert made < 5 * one_search  # of ten


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
    epsilons = [gwfast.Epsilon(relative=20.0), 0.3]
    best = gwfast.tune_epsilon(problem, epsilons=epsilons, starts=starts)
    assert {row.start for row in best.candidates} == {"product", "profile 0.02"}
    assert best.status == "converged"


def test_the_best_plan_at_another_epsilon_is_a_start(monkeypatch):
    """Where nothing that races leads to the optimum that it is of."""
    starts = [[Exact()], [Random(0)], [Random(0)]]
    monkeypatch.setattr(race, "default_starts", lambda *_, **__: starts.pop(0))
    monkeypatch.setattr(race, "known_starts", lambda *_: [])
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


@pytest.mark.parametrize(
    "solve, options",
    [
        (gwfast.gromov_wasserstein, {}),
        (gwfast.multistart, dict(starts=1)),
        (gwfast.tune_epsilon, dict(starts=1)),
    ],
)
def test_a_problem_is_given_whole_or_in_parts(solve, options):
    cost_x, cost_y = distances(cloud(12, 2, 3)), distances(cloud(10, 2, 4))
    p = np.arange(1.0, 13) / 78
    terms = dict(linear_cost=cloud(12, 10, 5) ** 2, alpha=0.7)
    quick = dict(tol=1e-3, marginal_tol=1e-3, **options)
    problem = gwfast.QuadraticProblem(cost_x, cost_y, p, **terms)
    expected = solve(problem, **quick)
    name = "cost_x" if solve is gwfast.gromov_wasserstein else "problem"
    for result in (
        solve(cost_x, cost_y, p, **terms, **quick),
        solve(cost_x=cost_x, cost_y=cost_y, p=p, **terms, **quick),
        solve((cost_x, cost_y, p, None), **terms, **quick),
        solve(**{name: problem}, **quick),
    ):
        np.testing.assert_array_equal(result.plan, expected.plan)
    pair = solve((cost_x, cost_y), **quick)
    np.testing.assert_allclose(pair.plan.sum(axis=1), 1 / 12, atol=1e-3)
    with pytest.raises(ValueError, match=r"^p, alpha must be left out"):
        solve(problem, p=p, alpha=0.5)
    with pytest.raises(ValueError, match=r"^cost_y must be left out"):
        solve(problem, cost_y)
    with pytest.raises(TypeError, match=r"must be given, .* got ndarray"):
        solve(cost_x)
    if solve is not gwfast.gromov_wasserstein:
        with pytest.raises(ValueError, match=r"^cost_x must be left out"):
            solve(cost_x, problem=problem)


COSTS = random_cost(12, 0), random_cost(10, 1)
CALLS = {
    "race": lambda **how: gwfast.gromov_wasserstein(*COSTS, **how),
    "exact": lambda **how: gwfast.gromov_wasserstein(*COSTS, epsilon=0, **how),
    "batch": lambda **how: gwfast.gromov_wasserstein_batch([COSTS], **how)[0],
}


class AfterStarts(Deadline):
    """Has passed when so many of a list are made."""

    def __init__(self, made, most):
        self._made, self._most = made, most

    @property
    def at(self):
        return np.inf if len(self._made) < self._most else -np.inf

    def stop(self):
        self._most = 0


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("name", CALLS)
def test_no_more_starts_are_made_than_there_is_time_for(name, monkeypatch):
    made = []

    def counting(make):
        def counted(seed, *given):
            made.append(seed)
            return make(seed, *given)

        return counted

    monkeypatch.setattr(starts, "Random", counting(starts.Random))
    monkeypatch.setattr(annealing, "random_runner", counting(annealing.random_runner))
    monkeypatch.setattr(Deadline, "after", lambda time_limit: AfterStarts(made, 20))
    found = CALLS[name](n_starts=10**30, time_limit=1.0)
    assert 20 <= len(made) <= 20 + race.MAX_FIELD
    assert np.isfinite(found.gw_cost)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_starts_race_in_heats_of_so_many(monkeypatch):
    fields, halving = [], race.successive_halving

    def counted(standing, **options):
        fields.append(len(standing.left))
        return halving(standing, **options)

    whole = CALLS["race"](n_starts=30)
    monkeypatch.setattr(race, "successive_halving", counted)
    monkeypatch.setattr(race, "MAX_FIELD", 10)
    heats = CALLS["race"](n_starts=30)
    assert len(fields) > 3 and max(fields) <= 10 + race.MAX_CLOSE
    names = [
        [row.start for row in one.candidates if not row.start.startswith("escape")]
        for one in (heats, whole)
    ]
    assert names[0] == names[1]
    assert [row.fate for row in heats.candidates].count("won") == 1
    assert heats.gw_cost <= 1.05 * whole.gw_cost

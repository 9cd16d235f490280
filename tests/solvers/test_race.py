"""The default start: races, coarse to fine, and what is said about the result."""

import functools

import numpy as np
import pytest
from helpers.marks import mostly_slow, pairwise
from helpers.problems import cloud, distances, masses, orthogonal, rotated_pair

import gwfast
from gwfast import PointCloud, QuadraticProblem
from gwfast.problems import low_rank
from gwfast.results.tables import Candidate, Candidates
from gwfast.solvers import levels, race


def noisy_pair(n, d, seed, noise=0.02):
    return rotated_pair(n, d, seed, noise=noise)


@pytest.fixture
def small_races(monkeypatch):
    """Levels as of large problems, on small ones."""
    monkeypatch.setattr(levels, "RACE_POINTS", 80)
    monkeypatch.setattr(levels, "RACE_POINTS_DENSE", 60)


# --- It finds the optimum -------------------------------------------------------------


def assert_as_good_as_from_the_answer(result, costs, where, **options):
    """Also where the second side lacks the last points."""
    answer = np.full((len(where), len(where)), 1e-9)
    answer[np.arange(len(where)), where] = 1.0
    best = gwfast.gromov_wasserstein(
        *costs, init=answer[:, : result.plan.shape[1]], epsilon=result.epsilon, **options
    )
    assert result.gw_cost <= best.gw_cost * 1.005


@pytest.mark.slow
@pairwise(kind=["cosine", "sqeuclidean", "dense"], n=[120, 400])
def test_large_problems_are_solved_from_coarse_to_fine(small_races, kind, n):
    x, y, where = noisy_pair(n, 3, 0)
    if kind == "dense":
        sides = distances(x), distances(y)
    else:
        sides = PointCloud(x, kind), PointCloud(y, kind)
    result = gwfast.gromov_wasserstein(*sides)
    race = [one for one in result.candidates if not one.start.startswith("escape")]
    sizes = [row.n_points for row in race]
    first = 60 if kind == "dense" else 80
    assert sizes == sorted(sizes) and sizes[0] == first and sizes[-1] == n
    assert len(set(sizes)) == (2 if n == 120 else 3)
    assert sum(row.fate == "won" for row in result.candidates) == 1
    assert_as_good_as_from_the_answer(result, sides, where)


@pytest.fixture
def smooth_races(small_races, monkeypatch):
    """Those over eigenvectors, too."""
    monkeypatch.setattr(low_rank, "MIN_POINTS", 100)
    monkeypatch.setattr(levels, "RACE_POINTS_SMOOTH", 80)


@pairwise(n=mostly_slow([120, 400], fast=[120]), dtype=["float32", "float64"])
def test_dense_costs_race_by_their_eigenvectors(smooth_races, n, dtype):
    x, y, where = noisy_pair(n, 3, 0)
    costs = distances(x), distances(y[: n - 10])
    result = gwfast.gromov_wasserstein(*costs, dtype=dtype)
    race = [one for one in result.candidates if not one.start.startswith("escape")]
    sizes = [row.n_points for row in race]
    # Few points, all, and all with the costs themselves, on which nobody is fresh.
    assert sizes == sorted(sizes) and sizes[-1] == n
    assert sizes[0] == 80
    last = [row for row in race if row.fate in ("won", "lost", "tie")]
    assert len(last) <= 2 and {row.n_points for row in last} == {n}
    assert result.coupling.form == "array" and result.converged
    assert_as_good_as_from_the_answer(result, costs, where, dtype=dtype)
    objective = gwfast.verify(QuadraticProblem(*costs), result).objective
    assert objective.value <= objective.bound


def test_one_random_start_races_over_eigenvectors_unless_more_are_asked_for(smooth_races):
    costs = [distances(cloud(120, 3, seed)) for seed in (0, 1)]
    for asked, came in ((None, 1), (0, 0), (3, 3)):
        result = gwfast.gromov_wasserstein(*costs, n_starts=asked)
        first = [row for row in result.candidates if row.n_points == 80]
        assert sum(row.start.startswith("random") for row in first) == came


def test_who_is_far_behind_leaves_the_race_over_eigenvectors(smooth_races, monkeypatch):
    x, y = cloud(120, 3, 0), cloud(120, 3, 1)

    def dropped(excess):
        monkeypatch.setattr(race, "MAX_EXCESS", excess)
        result = gwfast.gromov_wasserstein(distances(x), distances(y))
        rows = [row for row in result.candidates if row.n_outer == race.MEET_AT[-1]]
        return [row.start for row in rows if row.fate == "dropped in round 1"]

    assert dropped(0.0) and not dropped(np.inf)


def known(order, k):
    """Known pairs of a cloud and a copy in this order."""
    return np.column_stack([np.arange(k), order[:k]])


def from_seeds(x, y, pairs, *given):
    costs = PointCloud(x), PointCloud(y)
    return gwfast.gromov_wasserstein(*costs, *given, init=gwfast.Seeds(pairs))


def test_seeds_go_from_coarse_to_fine_without_a_race(monkeypatch):
    (x, y, order), sizes = noisy_pair(300, 4, 0), []
    direct = from_seeds(x, y, known(order, 4))
    monkeypatch.setattr(levels, "RACE_POINTS", 80)
    halving = race.successive_halving

    def seen(standing, **options):
        (one,) = standing.left
        sizes.append(one.loop.linearization.problem.shape)
        return halving(standing, **options)

    monkeypatch.setattr(race, "successive_halving", seen)
    result = from_seeds(x, y, known(order, 4))
    assert sizes == [(80, 80), (300, 300)]
    assert result.converged and not result.candidates
    assert result.gw_cost == pytest.approx(direct.gw_cost, rel=1e-3)


def test_seeds_may_be_more_than_a_level_has_points_or_of_no_mass(small_races):
    """Those that have mass are begun with, the first first."""
    x, y, order = noisy_pair(300, 4, 0)
    result = from_seeds(x, y, known(order, 300)[::-1])
    assert result.converged
    assert (result.plan.argmax(axis=1) == order).mean() > 0.9
    p = np.where(np.arange(300) < 90, 0.0, 1 / 210)
    assert from_seeds(x, y, known(order, 100), p).converged


def test_fresh_starts_join_unless_most_points_had_a_sure_race(small_races, monkeypatch):
    x, y, _ = noisy_pair(120, 3, 0)

    def fresh(is_sure):
        monkeypatch.setattr(race, "is_sure", lambda _: is_sure)
        result = gwfast.gromov_wasserstein(PointCloud(x), PointCloud(y))
        return {row.start for row in result.candidates if "fresh" in row.start}

    assert fresh(False) and not fresh(True)
    monkeypatch.setattr(race, "SURE_FRACTION", 0.9)  # 80 points of 120 are not
    assert fresh(True)


def test_costs_of_no_low_rank_race_themselves(smooth_races, monkeypatch):
    monkeypatch.setattr(low_rank, "MAX_LEFT_OUT", -1.0)
    x, y, _ = noisy_pair(120, 3, 0)
    result = gwfast.gromov_wasserstein(distances(x), distances(y))
    assert result.candidates[0].n_points == 60


def test_costs_of_no_low_rank_are_refused_by_what_they_take(monkeypatch):
    monkeypatch.setattr(low_rank, "MAX_LEFT_OUT", -1.0)
    costs = [distances(cloud(700, 3, seed)) for seed in (0, 1)]
    problem = QuadraticProblem(*costs)
    few, many = (levels.needs(problem, 2, smooth=smooth)["dense"] for smooth in (True, False))
    assert few < many
    with pytest.raises(MemoryError, match="700 x 700 takes"):
        gwfast.gromov_wasserstein(*costs, memory_limit=(few + many) / 2, n_threads=2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("data_seed", [0, 1])
def test_search_beats_or_equals_many_random_starts(data_seed):
    rng = np.random.default_rng(data_seed)
    x = rng.standard_normal((60, 3)) * [1.0, 1.5, 2.0]
    y = np.vstack([x[:40] @ orthogonal(3, data_seed), rng.standard_normal((15, 3))])
    costs = distances(x), distances(y)
    result = gwfast.gromov_wasserstein(*costs)
    random = [
        gwfast.gromov_wasserstein(
            *costs, epsilon=result.epsilon, init="random", seed=100 + seed
        ).gw_cost
        for seed in range(30)
    ]
    assert result.gw_cost <= min(random) * 1.002


def sides(dense):
    x, y, _ = noisy_pair(150, 3, 1)
    return x, y, distances if dense else PointCloud


@functools.cache
def reference(dense):
    """With its solution; not for tests with small races, as it is cached."""
    x, y, make = sides(dense)
    return x, y, make, gwfast.gromov_wasserstein(make(x), make(y))


@pytest.mark.slow
@pytest.mark.parametrize("dense", mostly_slow([False, True], fast=[False]))
def test_order_rotation_sides_and_seeds_do_not_matter(small_races, dense):
    x, y, make = sides(dense)
    known = gwfast.gromov_wasserstein(make(x), make(y))
    rng = np.random.default_rng(2)
    i, j = rng.permutation(len(x)), rng.permutation(len(y))
    turned = make(x[i] @ orthogonal(3, 3)), make(y[j])
    turned = gwfast.gromov_wasserstein(*turned, seed=1)
    swapped = gwfast.gromov_wasserstein(make(y), make(x), seed=2)
    for other, plan in (
        (turned, turned.plan[np.argsort(i)][:, np.argsort(j)]),
        (swapped, swapped.plan.T),
    ):
        np.testing.assert_allclose(other.gw_cost, known.gw_cost, rtol=1e-3)
        assert np.abs(plan - known.plan).sum() < 0.05


@pytest.mark.slow
def test_threads_change_nothing(small_races):
    x, y, _ = noisy_pair(320, 4, 4)
    results = [
        gwfast.gromov_wasserstein(PointCloud(x), PointCloud(y), n_threads=n) for n in (1, 2, 3)
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(other.plan, results[0].plan)
        strip = [row._replace(seconds=0) for row in other.candidates]
        assert strip == [row._replace(seconds=0) for row in results[0].candidates]


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 3), (5, 300), (200, 7)])
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_awkward_shapes(small_races, shape):
    x, y = cloud(shape[0], 3, 5), cloud(shape[1], 2, 6)
    p, q = masses(shape[0], 7), masses(shape[1], 8)
    for sides in ((PointCloud(x), PointCloud(y)), (distances(x), distances(y))):
        plan = gwfast.gromov_wasserstein(*sides, p, q).plan.astype(np.float64)
        np.testing.assert_allclose(plan.sum(axis=1), p, atol=1e-4)
        np.testing.assert_allclose(plan.sum(axis=0), q, atol=1e-4)


def test_points_without_mass_stay_out_of_the_race(small_races):
    x, y, where = rotated_pair(300, 3, 9)
    p = np.r_[np.zeros(100), np.full(200, 1 / 200)]
    q = p[np.argsort(where)]
    result = gwfast.align(x, y, p=p, q=q)
    assert not result.plan[:100].any() and np.isfinite(result.plan).all()
    assert (result.match()[100:] == where[100:]).mean() > 0.5


@pytest.mark.parametrize("loss", ["square", "kl"])
def test_asymmetric_costs_and_kl_are_searched_too(small_races, loss):
    x, _, _ = noisy_pair(150, 3, 10)
    rng = np.random.default_rng(11)
    cost = distances(x) * rng.uniform(0.9, 1.1, (150, 150)) + 0.5
    order = rng.permutation(150)
    result = gwfast.gromov_wasserstein(cost, cost[np.ix_(order, order)], loss=loss)
    assert (result.plan.argmax(axis=0) == order).mean() > 0.9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_an_epsilon_so_small_that_objectives_are_rounding_is_searched():
    x, y, where = rotated_pair(100, 3, 23)
    epsilon = gwfast.Epsilon(relative=0.001)
    result = gwfast.gromov_wasserstein(distances(x), distances(y), epsilon=epsilon)
    assert (result.plan.argmax(axis=1) == where).mean() > 0.95


@pairwise(dense=[False, True], max_outer=[1, 8], max_inner=[3, 1000])
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_no_more_iterations_than_asked_for(small_races, dense, max_outer, max_inner):
    x, y, make = sides(dense)
    costs, limits = (make(x), make(y)), dict(max_outer=max_outer, max_inner=max_inner)
    problem = QuadraticProblem(*costs)
    for result in (
        gwfast.gromov_wasserstein(*costs, **limits),
        gwfast.multistart(problem, starts=3, **limits),
        gwfast.multistart(problem, starts=3, prune=False, **limits),
    ):
        assert 1 <= result.n_outer <= max_outer
        assert max(step.n_inner for step in result.history) <= max_inner
        np.testing.assert_allclose(result.plan.sum(), 1.0, rtol=1e-4)


# --- What is told ---------------------------------------------------------------------


def test_candidates_are_a_table():
    _, _, _, result = reference(True)
    assert isinstance(result.candidates, tuple)
    assert all(isinstance(row, Candidate) for row in result.candidates)
    lines = str(result.candidates).splitlines()
    assert lines[0].split() == list(Candidate._fields)
    assert len(lines) == 1 + len(result.candidates) and max(map(len, lines)) < 100
    winner = next(row for row in result.candidates if row.fate == "won")
    assert winner.gw_cost == result.gw_cost and winner.n_outer == result.n_outer
    epsilons = [row.epsilon for row in result.candidates]
    np.testing.assert_allclose(epsilons, result.epsilon, rtol=1e-9)
    assert {row.start for row in result.candidates} >= {
        "product", "profile 0.02", "profile 0.05", "root profile 0.1",
        "random 0",
    }  # fmt: skip
    # A start of one's own has none.
    x, y, make = sides(True)
    result = gwfast.gromov_wasserstein(make(x), make(y), init="profile")
    assert result.candidates == Candidates() and str(result.candidates)


def test_callback_sees_the_last_descent_and_may_stop_it(small_races):
    x, y, _ = noisy_pair(150, 3, 12)
    steps = []
    result = gwfast.align(x, y, callback=steps.append)
    assert [step.iteration for step in steps] == [
        step.iteration for step in result.gw.history[-len(steps) :]
    ]
    stopped = gwfast.align(x, y, callback=lambda step: True)
    assert stopped.gw.status == "stopped" and stopped.gw.advice == ""


def test_progress_is_told_and_checked(small_races, capsys):
    x, y, _ = noisy_pair(150, 3, 13)
    told = []
    gwfast.align(x, y, progress=lambda *report: told.append(report))
    texts = [text for text, _, _ in told]
    assert any(text.startswith("start 1 of") for text in texts)
    assert any(text.startswith("round 1") for text in texts)
    assert texts[-1].startswith("solving from")
    with pytest.raises(TypeError, match=r"^progress must be a bool or callable, got"):
        gwfast.align(x, y, progress=1)
    pytest.importorskip("rich")
    gwfast.align(x, y, progress=True)
    assert "solving" in capsys.readouterr().err


def test_who_is_behind_goes_on_as_long_as_the_best_does(monkeypatch):
    """To its own end only where nobody asked to have any dropped."""
    monkeypatch.setattr(race, "ROUNDS", (1, 2, 3, 4))
    monkeypatch.setattr(race, "CLOSE", np.inf)
    costs = [distances(cloud(40, 3, seed)) for seed in (0, 1)]
    given = dict(starts=["product", "random"], epsilon=gwfast.Epsilon(relative=0.01))
    made = {}
    for prune in (True, False):
        result = gwfast.multistart(*costs, prune=prune, **given)
        won, lost = result.candidates
        assert (won.fate, lost.fate) == ("won", "lost") and result.converged
        made[prune] = won.n_outer, lost.n_outer
    assert made[True][0] < made[True][1] == 16
    assert made[False][1] > 16


# --- Statuses -------------------------------------------------------------------------


def test_mirror_image_is_a_tie():
    """A cloud that is its own mirror image has two plans that are equally good."""
    rng = np.random.default_rng(14)
    half = rng.standard_exponential((25, 2)) * [1.0, 2.0] + [1.0, 0.0]
    cost = distances(np.vstack([half, half * [-1.0, 1.0]]))
    cloud = PointCloud(np.vstack([half, half * [-1.0, 1.0]]), "sqeuclidean")
    for costs in ((cost, cost), (cloud, cloud)):
        with pytest.warns(gwfast.ConvergenceWarning, match="'tie'"):
            result = gwfast.gromov_wasserstein(*costs)
        assert result.status == "tie" and not result.converged
        assert "Seeds" in result.advice
        assert [row.fate for row in result.candidates].count("tie") >= 1
    # Breaking the symmetry breaks the tie.
    lopsided = np.vstack([half, half * [-1.0, 1.3]])
    assert gwfast.gromov_wasserstein(distances(lopsided), distances(lopsided)).converged


@pytest.mark.parametrize("init", ["auto", "product"])
def test_too_large_an_epsilon_is_near_product(init):
    x, y, make, known = reference(True)
    with pytest.warns(gwfast.ConvergenceWarning, match="'near_product'"):
        result = gwfast.gromov_wasserstein(make(x), make(y), epsilon=100 * known.epsilon, init=init)
    assert result.status == "near_product" and not result.converged
    assert "smaller epsilon" in result.advice


def test_saddle_of_centered_clouds_is_near_product_and_the_search_leaves_it():
    """Where both means vanish, A = X' T Y is zero for the product plan, exactly."""
    x, y, _ = noisy_pair(60, 3, 15)
    x = np.vstack([x, -x]) * [1.0, 2.0, 3.0]
    x[:60] *= 1.1
    options = {"normalize": ("center",), "metric": "dot"}
    y = x[::-1] @ orthogonal(3, 16)
    with pytest.warns(gwfast.ConvergenceWarning, match=r"near_product.*init=\"auto\""):
        stuck = gwfast.gromov_wasserstein(
            PointCloud(np.vstack([y, -y]), "dot"),
            PointCloud(np.vstack([x, -x]), "dot"),
            init="product",
        )
    assert stuck.status == "near_product"
    assert gwfast.align(x, y, **options).gw.status != "near_product"


@pytest.mark.parametrize(
    "costs",
    [
        (np.zeros((20, 20)), np.zeros((20, 20))),
        (np.full((20, 20), 2.0), np.full((15, 15), 2.0)),
        (np.full((20, 20), 0.1), np.full((20, 20), 0.1 + 1e-16)),
        (np.ones((20, 20)), 3 * np.ones((15, 15))),
        (np.ones((20, 20)), distances(cloud(15, 2, 26))),
        (PointCloud(np.ones((20, 3))), PointCloud(np.full((9, 2), 0.7))),
        (PointCloud(np.ones((20, 3)), "sqeuclidean"), distances(cloud(9, 2, 27))),
        (PointCloud([[1.0, 2.0]]), PointCloud([[3.0, 1.0, 1.0]])),
    ],
)
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_where_every_plan_is_as_good_the_product_plan_is_right(costs):
    result = gwfast.gromov_wasserstein(*costs)
    if costs[0].n > 1 if isinstance(costs[0], PointCloud) else len(costs[0]) > 1:
        assert result.status == "tie" and np.isnan(result.confidence)
        assert "all plans have the same objective" in result.advice
    else:
        assert result.converged
    np.testing.assert_allclose(result.plan, 1 / result.plan.size, rtol=1e-4)


def test_advice_is_what_was_not_tried():
    """Spaces of different scale: no epsilon helps, and 1.75 % is none too large."""
    x = cloud(60, 3, 28)
    costs = PointCloud(x, "sqeuclidean"), PointCloud(1e3 * x[::-1], "sqeuclidean")
    dense = [one.to_dense() for one in costs]
    with pytest.warns(gwfast.ConvergenceWarning, match="'near_product'"):
        raced = gwfast.gromov_wasserstein(*costs)
        raced_dense = gwfast.gromov_wasserstein(*dense)
        alone = gwfast.gromov_wasserstein(*costs, init="product")
        many = gwfast.multistart(*costs)
    spread = [float(np.std(one.matrix)) for one in dense]
    for result in (raced, raced_dense, alone, many):
        assert "same scale" in result.advice and "smaller" not in result.advice
        assert f"deviations of {spread[0]:.3g} and {spread[1]:.3g}" in result.advice
    # Named first, with the numbers.
    assert raced.advice.index("same scale") < raced.advice.index("Seeds")
    assert 'init="auto" or a few known pairs' in alone.advice
    assert "more starts or a few known pairs" in many.advice
    for tried in (raced, raced_dense):
        assert "try a few known pairs" in tried.advice
    assert not any('init="auto"' in one.advice for one in (raced, many))
    # Of one scale: nothing is said of it.
    x = np.vstack([x, -x])
    with pytest.warns(gwfast.ConvergenceWarning, match="'near_product'"):
        saddle = gwfast.gromov_wasserstein(
            PointCloud(x, "dot"), PointCloud(x, "dot"), init="product"
        )
    assert "same scale" not in saddle.advice and 'init="auto"' in saddle.advice

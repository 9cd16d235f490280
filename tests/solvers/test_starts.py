"""Plans to start from: names, plans, results, known pairs, and lists of these."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, random_cost, rotated_pair

import gwfast
from gwfast import PointCloud, QuadraticProblem, Seeds, gromov_wasserstein

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
FEW = dict(epsilon="2%", max_iter=1)


@pytest.mark.parametrize("as_cost", [distances, PointCloud])
def test_profiles_find_a_rotated_copy(as_cost):
    x, y, where = rotated_pair(80, 3, 10)
    p, q = masses(80, 11), masses(80, 11)[np.argsort(where)]
    problem = QuadraticProblem(as_cost(x), as_cost(y), p, q)
    plan = gromov_wasserstein(problem, init="profile", epsilon="0.1%", max_iter=1).plan
    assert (plan.argmax(axis=1) == where).mean() > 0.85


def test_profiles_of_points_that_look_the_same_are_the_product_and_random_starts_have_a_seed():
    cost = distances(np.array([[np.cos(a), np.sin(a)] for a in np.arange(12) * np.pi / 6]))
    plans = [gromov_wasserstein(cost, cost, init=one, **FEW).plan for one in ("profile", "product")]
    np.testing.assert_array_equal(*plans)
    problem = QuadraticProblem(random_cost(30, 14), random_cost(20, 15), masses(30, 12))
    plans = [gromov_wasserstein(problem, init="random", seed=k, **FEW).plan for k in (0, 0, 1)]
    np.testing.assert_array_equal(plans[0], plans[1])
    assert np.abs(plans[0] - plans[2]).sum() > 0.1


def test_contacts_in_doubt_have_starts_by_paths_and_by_random_walks():
    rng = np.random.default_rng(0)
    points = rng.random((16, 2))
    costs = []
    for _ in range(2):
        lengths = np.triu(distances(points) + 0.03 * rng.standard_normal((16, 16)), 1)
        costs.append((lengths + lengths.T + np.eye(16) < 0.25).astype(float))
    result = gromov_wasserstein(*costs)
    ends = {row.start: row.gw_cost for row in result.candidates}
    assert {"paths auto", "paths 0.5%", "diffusion 2", "diffusion 4"} <= set(ends)
    # They begin at plans for other costs, and so lower than one that knows nothing.
    assert min(ends["diffusion 2"], ends["diffusion 4"]) < ends["product"]
    assert min(ends["paths auto"], ends["paths 0.5%"]) < ends["product"]


def test_a_result_is_a_warm_start():
    x, y, _ = rotated_pair(80, 3, 1, noise=0.02)
    known = gromov_wasserstein(PointCloud(x), PointCloud(y))
    again = gromov_wasserstein(PointCloud(x), PointCloud(y), init=known, epsilon=known.epsilon)
    assert again.n_iter <= known.n_iter and again.gw_cost == pytest.approx(known.gw_cost, rel=1e-4)
    # Without a search nothing is known of other optima.
    assert np.isnan(again.confidence)


def test_the_best_of_a_list_of_starts_wins():
    x, y, _ = rotated_pair(40, 3, 18, noise=0.02)
    costs, rng = (distances(x), distances(y)), np.random.default_rng(19)
    starts = ["product", "random", rng.random((40, 40)), "profile", rng.random((40, 40))]
    result = gromov_wasserstein(*costs, init=starts, seed=5)
    # Every start has a row, also the two plans.
    assert len(result.candidates) == len(starts)
    for start in starts:
        alone = gromov_wasserstein(*costs, init=start, epsilon=result.epsilon)
        assert result.gw_cost <= alone.gw_cost * 1.001


@pytest.mark.parametrize("tier", ["dense", "tiled"])
def test_two_known_pairs_decide_between_mirror_images(tier):
    half = cloud(30, 2, 18) * [1.0, 2.0] + [4.0, 0.0]
    side = PointCloud(np.vstack([half, half * [-1.0, 1.0]]))
    options = gwfast.SolverOptions(tier=tier)
    for pairs, share in (([[0, 0], [5, 5]], 0.5), ([[0, 30], [5, 35]], 0.0)):
        result = gromov_wasserstein(side, side, init=Seeds(pairs), options=options)
        assert result.converged
        assert result.plan[:30, :30].sum() == pytest.approx(share, abs=0.05)


def test_pairs_count_by_the_masses_of_both_points():
    x, y = distances(cloud(12, 3, 1)), distances(cloud(10, 3, 2))
    p, q, pairs = masses(12, 3), masses(10, 4), [[0, 1], [2, 3], [4, 9]]
    seeded, plan = Seeds(pairs), np.zeros((12, 10))
    for i, j in pairs:
        plan[i, j] = np.sqrt(p[i] * q[j])
    found, expected = (gromov_wasserstein(x, y, p, q, init=one, **FEW) for one in (seeded, plan))
    np.testing.assert_allclose(found.plan, expected.plan, atol=1e-6)


def test_seeds_of_points_that_do_not_take_part_are_left_out():
    x, y = cloud(12, 3, 1), cloud(10, 3, 2)
    pairs = np.array([[0, 1], [2, 3]])
    seeds = Seeds(pairs)
    pairs[:] = 5  # seeds are copies
    few = gwfast.align(x, y, n_words=8, init=seeds)
    with pytest.warns(UserWarning, match=r"^pairs: 2 of 4 "):
        same = gwfast.align(x, y, n_words=8, init=Seeds([[0, 1], [11, 0], [2, 3], [0, 9]]))
    np.testing.assert_array_equal(few.plan, same.plan)


def test_seeds_of_words_are_those_spelt_alike_or_known_by_words_or_pairs():
    words_x, words_y = ["a", "1914", "b", "a"], ["b", "x", "1914", "y", "b"]
    assert Seeds.identical(words_x, words_y).pairs.tolist() == [[1, 2], [2, 0]]
    dictionary = {"a": {"y", "x", "none"}, "c": {"b"}, "b": ["b"]}
    with pytest.warns(UserWarning, match=r"^dictionary: 3 of 5 "):
        seeds = Seeds.known(dictionary, words_x, words_y)
    assert seeds.pairs.tolist() == [[0, 1], [0, 3], [2, 0]]
    for dictionary in (
        {"haus": "house", "hut": ["hat", "o"]},
        [("haus", "house"), ["hut", "hat"], ("hut", {"o"})],
        {"haus": iter(["house"]), "hut": ("hat", "o")},
    ):
        seeds = Seeds.known(dictionary, ["hut", "haus"], ["o", "s", "house", "e", "hat"])
        assert seeds.pairs.tolist() == [[0, 0], [0, 4], [1, 2]]

"""Results have remarks: one start that was not searched, known pairs that the plan keeps, points
that cannot be told apart. Their status and `converged` agree, and remedies are new.
"""

import warnings

import numpy as np
import pytest
from helpers.problems import cloud, distances

import gwfast
from gwfast import PointCloud, Seeds, SolverOptions, gromov_wasserstein

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
SIDE = distances(cloud(40, 3, 0))
EXACT, SEMIRELAXED, FLOAT64 = dict(epsilon=0), dict(marginals="semirelaxed"), dict(dtype="float64")
TRUE, FALSE = ([[k, (k + shift) % 40] for k in range(0, 40, 5)] for shift in (0, 17))


def path(n):
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)


def star(n_leaves):
    cost = np.full((n_leaves + 1, n_leaves + 1), 2.0)
    cost[0] = cost[:, 0] = 1.0
    np.fill_diagonal(cost, 0.0)
    return cost


@pytest.mark.parametrize("init", ["product", "profile", "random", Seeds(TRUE), np.eye(40), SIDE])
@pytest.mark.parametrize("epsilon", ["auto", 0])
def test_one_start_converges_as_a_descent_without_a_warning(init, epsilon):
    if init is SIDE:
        init = gromov_wasserstein(SIDE, SIDE, epsilon=epsilon)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = gromov_wasserstein(SIDE, SIDE, init=init, epsilon=epsilon)
    assert result.status == "converged" and result.converged and np.isnan(result.confidence)
    assert "one start, not searched" in result.advice


TIERS = SolverOptions(tier="tiled"), SolverOptions(tier="neighbors", n_neighbors=20)
CASES = [(distances, {}), (distances, EXACT), *((PointCloud, dict(options=x)) for x in TIERS)]


@pytest.mark.parametrize("as_cost, options", CASES)
def test_plans_that_lose_known_pairs_are_uncertain(as_cost, options):
    side = as_cost(cloud(40, 3, 0))
    kept, lost = (gromov_wasserstein(side, side, init=Seeds(p), **options) for p in (TRUE, FALSE))
    assert "keeps 8 of 8 known pairs" in kept.advice and kept.status == "converged"
    count = int(lost.advice.partition("keeps ")[2].split()[0])
    assert f"keeps {count} of 8 known pairs" in lost.advice
    assert count < 4 and lost.status == "uncertain" and not lost.converged


def test_translations_of_a_point_count_as_one_known_pair():
    pairs = [*TRUE, *([row, (col + 9) % 40] for row, col in TRUE[:6])]
    side = distances(cloud(40, 3, 0))
    result = gromov_wasserstein(side, side, init=Seeds(pairs))
    assert "keeps 8 of 8 points with known pairs" in result.advice and result.converged


def test_known_pairs_are_counted_if_they_win():
    starts = [Seeds(FALSE[:5]), "product", Seeds(TRUE)]
    result = gromov_wasserstein(SIDE, SIDE, init=starts)
    assert "3 starts, not searched; keeps 8 of 8 known pairs" in result.advice
    alignment = gwfast.align(cloud(300, 5, 1), cloud(300, 5, 1), init=Seeds([[0, 9], [7, 200]]))
    assert "keeps 0 of 2 known pairs" in alignment.gw.advice
    assert alignment.gw.status == "uncertain"


@pytest.mark.parametrize("options", [{}, EXACT, dict(init="product"), SEMIRELAXED, FLOAT64])
def test_interchangeable_points_are_named(options):
    result = gromov_wasserstein(star(10), SIDE[:11, :11], **options)
    expected = "points 1, 2, 3 and 7 more of x cannot be told apart: they are interchangeable"
    assert expected in result.advice


@pytest.mark.parametrize("as_cost", [distances, PointCloud])
def test_equal_points_are_named_and_others_are_not(as_cost):
    points, other = cloud(150, 3, 3), as_cost(cloud(140, 3, 4))
    assert "apart" not in gromov_wasserstein(as_cost(points), other, init="product").advice
    points[[30, 120]] = points[7]
    points[[2, 90]] = points[8], points[8]
    result = gromov_wasserstein(other, as_cost(points), init="product")
    groups = "points 2, 8 and 90 of y", "points 7, 30 and 120 of y"
    assert any(f"{group} (and 1 more groups) cannot" in result.advice for group in groups)


def test_two_places_of_a_hundred_points_each_are_named():
    places = PointCloud((np.arange(200) % 2.0)[:, None], "sqeuclidean")
    points = PointCloud(cloud(200, 2, 0), "sqeuclidean")
    result = gromov_wasserstein(points, places)
    assert "points 0, 2, 4 and 97 more of y (and 1 more groups) cannot" in result.advice


def test_points_of_unlike_costs_to_one_another_or_of_other_linear_costs_differ():
    ring = np.minimum(path(12), 12 - path(12))
    for cost, linear in ((ring, None), (star(10), np.arange(110.0).reshape(11, 10))):
        other = SIDE[:10, :10]
        result = gromov_wasserstein(cost, other, linear_cost=linear, init="product")
        assert "interchange" not in result.advice


MIRRORED = np.vstack([cloud(20, 2, 5), cloud(20, 2, 5) * [-1.0, 1.0]])
SAME = path(30), path(120), distances(MIRRORED).astype("f4"), PointCloud(MIRRORED)
OTHERS = [(path(30), path(37)), (distances(MIRRORED), distances(cloud(35, 2, 6)))]


@pytest.mark.parametrize("x, y", [*((x, x) for x in SAME), *OTHERS])
@pytest.mark.parametrize("epsilon", ["auto", 0])
def test_mirror_images_are_uncertain_and_named(x, y, epsilon):
    result = gromov_wasserstein(x, y, epsilon=epsilon)
    n = len(result.plan)
    assert result.status == "uncertain" and not result.converged
    assert f"a symmetry moves {n} points" in result.advice and "0 to " in result.advice


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_mirror_images_of_many_points_in_many_columns_are_uncertain(noise):
    """Sums of costs of 200 points differ by little."""
    half = np.random.default_rng(0).standard_normal((100, 20)) * np.linspace(3, 0.3, 20)
    x = np.vstack([half, half * np.where(np.arange(20) == 0, -1, 1)])
    result = gromov_wasserstein(PointCloud(x), PointCloud(x + noise * cloud(200, 20, 1)))
    assert result.status == "uncertain" and "a symmetry moves 200 points" in result.advice


def test_a_batch_warns_as_single_calls_do():
    problems = [(path(12), path(14)), (SIDE[:20, :20], SIDE[5:30, 5:30])]
    with pytest.warns(gwfast.ConvergenceWarning, match="1 of 2 .*: 0 .uncertain.*symmetr"):
        results = gwfast.gromov_wasserstein_batch(problems)
    assert [result.converged for result in results] == [False, True]


def test_remedies_are_new():
    x, y = distances(cloud(40, 3, 1)), distances(cloud(40, 3, 2))
    result = gromov_wasserstein(x, y, options=SolverOptions(search_time=0.05, n_starts=1))
    assert result.status != "uncertain" or "larger search_time" in result.advice
    seeds = gromov_wasserstein(x, y, epsilon=1e3, init=Seeds(TRUE))
    assert seeds.status == "degenerate" and "Seeds(" not in seeds.advice
    result = gromov_wasserstein(SIDE, path(40) * 1e6, init=Seeds(TRUE))
    assert "a few known pairs" not in result.advice

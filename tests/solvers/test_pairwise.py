"""All pairs of spaces together have the costs of pairs alone, in any order and process, and lower
bounds of costs are Memoli's.
"""

import itertools

import numpy as np
import pytest
from helpers.problems import block_model, cloud, distances, masses, random_cost, steps

import gwfast
from gwfast import PointCloud, pairwise_gromov_wasserstein, pot

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
SIZES = [6, 9, 1, 12, 7, 5, 8, 10, 11]
METRIC = [distances(cloud(n, 2, k)) for k, n in enumerate(SIZES)]
RANDOM = [random_cost(n, k) for k, n in enumerate(SIZES)]
ASYMMETRIC = [random_cost(n, k, symmetric=False) for k, n in enumerate(SIZES)]
SIGNED = [distances(cloud(n, 3, k)) - 1 for k, n in enumerate(SIZES)]
SQUARES = [(spaces, "square", False) for spaces in (METRIC, ASYMMETRIC, SIGNED)]


@pytest.mark.parametrize("spaces, loss, fused", [*SQUARES, (METRIC, "kl", True)])
def test_each_pair_costs_what_it_costs_alone_and_no_less_than_the_bound(spaces, loss, fused):
    weights, terms, n = [masses(n, k) for k, n in enumerate(SIZES)], {}, len(SIZES)
    # As a table of pandas has them.
    features = [np.asfortranarray(cloud(n, 3, k + 50)) for k, n in enumerate(SIZES)]
    if fused:
        terms = dict(features=features, alpha=0.3)
    found = pairwise_gromov_wasserstein(
        spaces, masses=weights, loss=loss, plans=True, n_starts=0, **terms
    )
    assert found.n_solved == n * (n - 1) // (2 if loss == "square" else 1)
    assert found.n_skipped == 0 and (found.n_unconverged == 0 or spaces is ASYMMETRIC)
    for i, j in found.plans:
        if fused:
            squares = np.square(features[i][:, None] - features[j]).sum(axis=2)
            terms = dict(linear_cost=squares, alpha=0.3)
        sides = spaces[i], spaces[j], weights[i], weights[j]
        alone = gwfast.gromov_wasserstein(*sides, loss=loss, epsilon=0, init="product", **terms)
        assert found.costs[i, j] == pytest.approx(alone.gw_cost, rel=1e-9, abs=1e-14)
        plan = found.plans[i, j].toarray()
        np.testing.assert_allclose(plan.sum(axis=1), weights[i], atol=1e-12)
        np.testing.assert_allclose(plan.sum(axis=0), weights[j], atol=1e-12)
    assert (np.diag(found.costs) == 0).all() and (np.diag(found.lower_bounds) == 0).all()
    if loss == "square":
        np.testing.assert_array_equal(found.costs, found.costs.T)
        np.testing.assert_array_equal(found.lower_bounds, found.lower_bounds.T)
        assert (found.lower_bounds <= found.costs * (1 + 1e-9)).all()
        np.testing.assert_array_equal(found.distances, np.sqrt(found.costs))


def test_with_entropy_each_is_a_solve_from_the_product_plan():
    found = pairwise_gromov_wasserstein(METRIC[:4], epsilon="auto", plans=True)
    for (i, j), plan in found.plans.items():
        alone = gwfast.gromov_wasserstein(METRIC[i], METRIC[j], init="product")
        assert found.costs[i, j] == alone.gw_cost
        assert np.abs(plan.toarray() - alone.plan).sum() < 1e-3


@pytest.mark.process
@pytest.mark.parametrize("backend", [pytest.param("loky", marks=pytest.mark.slow), "threading"])
def test_joblib_does_not_matter(backend):
    joblib = pytest.importorskip("joblib")
    expected = pairwise_gromov_wasserstein(METRIC, plans=True)
    with joblib.parallel_config(backend):
        found = pairwise_gromov_wasserstein(METRIC, plans=True, n_jobs=2)
    np.testing.assert_array_equal(found.costs, expected.costs)
    assert found.plans.keys() == expected.plans.keys()


@pytest.mark.parametrize("spaces", [METRIC, RANDOM])
def test_more_starts_are_never_worse_and_follow_their_seed(spaces):
    costs = [pairwise_gromov_wasserstein(spaces, n_starts=n).costs for n in (0, 4, 12)]
    for fewer, more in itertools.pairwise(costs):
        assert (more <= fewer).all() and (spaces is METRIC or (more < fewer).any())
    # By default one of three mirror images is tried.
    default = pairwise_gromov_wasserstein(spaces).costs.sum()
    none, _, most = (one.sum() for one in costs)
    assert spaces is RANDOM or default - most < 0.3 * (none - most)
    again = pairwise_gromov_wasserstein(spaces, n_starts=4, seed=1).costs
    assert (again != costs[1]).any()


def test_pairs_of_graphs_are_no_higher_than_single_calls():
    spaces = [steps(block_model(20 + 2 * k, k)) for k in range(9)]
    rows, cols = np.triu_indices(len(spaces), 1)
    found = pairwise_gromov_wasserstein(spaces).costs[rows, cols]
    alone = zip(rows, cols, strict=True)
    alone = np.array([pot.gromov_wasserstein2(spaces[i], spaces[j]) for i, j in alone])
    assert found.mean() <= alone.mean() and (found > alone * (1 + 1e-6)).mean() <= 0.2


@pytest.mark.parametrize("k", [1, 3, 100])
def test_what_is_skipped_is_not_among_the_nearest(k):
    scaled = itertools.product(range(6), (1, 5))
    spaces = [distances(cloud(8, 2, seed)) * scale for seed, scale in scaled]
    spaces += [distances(cloud(7, 2, seed)) * 20 for seed in range(3)]
    every = pairwise_gromov_wasserstein(spaces)
    found = pairwise_gromov_wasserstein(spaces, k_nearest=k)
    np.testing.assert_array_equal(found.nearest(k).scores, every.nearest(k).scores)
    assert found.n_solved + found.n_skipped == every.n_solved
    skipped = np.isinf(found.costs)
    assert skipped.sum() == 2 * found.n_skipped and (found.n_skipped > 0) == (k < 100)
    np.testing.assert_array_equal(found.costs[~skipped], every.costs[~skipped])


@pytest.mark.parametrize("options", [{}, {"epsilon": "5%"}, {"k_nearest": 1}, {"features": True}])
def test_points_without_mass_change_nothing_and_plans_keep_their_marginals(options):
    def found(extra):
        """Return costs, bounds, plans and masses if spaces begin with points without mass."""
        spaces, weights, vectors = [], [], []
        for n, seed in ((8, 0), (11, 1), (8, 0), (7, 3)):
            spaces.append(9.0 - np.eye(n + extra))
            spaces[-1][extra:, extra:] = distances(cloud(n, 2, seed))
            weights.append(np.concatenate([np.zeros(extra), masses(n, seed)]))
            vectors.append(cloud(n + extra, 3, 5) + 7.0)
            vectors[-1][extra:] = cloud(n, 3, seed)
        more = options | ({"features": vectors} if "features" in options else {})
        made = pairwise_gromov_wasserstein(spaces, masses=weights, plans=True, **more)
        plans = {pair: plan.toarray().astype(float) for pair, plan in made.plans.items()}
        for (i, j), plan in plans.items():
            missed = abs(plan.sum(axis=1) - weights[i]).sum()
            assert missed + abs(plan.sum(axis=0) - weights[j]).sum() <= 1.1e-5
        return made.costs, made.lower_bounds, plans

    (costs, bounds, plans), (own, own_bounds, own_plans) = found(0), found(3)
    np.testing.assert_array_equal(costs, own)
    np.testing.assert_array_equal(bounds, own_bounds)
    for pair, plan in plans.items():
        np.testing.assert_array_equal(np.pad(plan, ((3, 0), (3, 0))), own_plans[pair])


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_a_comparison_goes_on_from_its_checkpoint(epsilon, tmp_path):
    spaces, file, done = METRIC * 2, tmp_path / "kept", []
    expected = pairwise_gromov_wasserstein(spaces, epsilon=epsilon, n_threads=1)
    options = dict(epsilon=epsilon, checkpoint=file, n_threads=1)

    def kill(text, n_done, total):
        if n_done > 60:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        pairwise_gromov_wasserstein(spaces, progress=kill, **options)
    found = pairwise_gromov_wasserstein(spaces, progress=lambda *e: done.append(e[1]), **options)
    assert done[0] > 32 and found.n_solved == expected.n_solved
    np.testing.assert_array_equal(found.costs, expected.costs)
    before = file.read_bytes()
    for other in (dict(spaces=RANDOM * 2), dict(spaces=spaces, seed=1)):
        with pytest.raises(ValueError, match=f"^{file}"):
            pairwise_gromov_wasserstein(**other | options)
    assert file.read_bytes() == before


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
@pytest.mark.parametrize("time_limit", [1e-9, 0.002, 0.02])
def test_a_pair_that_is_not_solved_in_time_has_no_cost(epsilon, time_limit):
    options = dict(epsilon=epsilon, n_threads=1)
    expected = pairwise_gromov_wasserstein(RANDOM, **options)
    found = pairwise_gromov_wasserstein(RANDOM, time_limit=time_limit, plans=True, **options)
    there = ~np.isnan(found.costs)
    np.testing.assert_array_equal(found.costs[there], expected.costs[there])
    assert there.sum() == 2 * found.n_solved + len(SIZES)
    assert len(found.plans) == found.n_solved
    assert found.n_solved == 0 or time_limit > 1e-9
    if not found.n_solved:  # unknown distances have no nearest space
        nearest = found.nearest(1)
        assert (nearest.indices == -1).all() and np.isinf(nearest.scores).all()


def test_starts_end_in_time_and_who_does_not_converge_is_told():
    spaces = RANDOM[:2]
    found = pairwise_gromov_wasserstein(spaces, n_starts=10**30, n_threads=1, time_limit=0.1)
    assert found.n_solved == 1
    assert found.costs[0, 1] <= pairwise_gromov_wasserstein(spaces).costs[0, 1]
    with pytest.warns(gwfast.ConvergenceWarning, match=r"^\d of 3 pairs "):
        found = pairwise_gromov_wasserstein(RANDOM[3:6], tol=1e-18)
    assert found.n_unconverged > 0


def test_point_clouds_are_spaces_and_one_space_has_no_pairs():
    clouds = [PointCloud(cloud(n, 2, k), "euclidean") for k, n in enumerate(SIZES)]
    expected = pairwise_gromov_wasserstein(METRIC)
    found = pairwise_gromov_wasserstein(clouds)
    np.testing.assert_allclose(found.costs, expected.costs, rtol=1e-5, atol=1e-9)
    found = pairwise_gromov_wasserstein(clouds[:1], k_nearest=2)
    assert found.costs.tolist() == [[0.0]] and found.n_solved == 0 and "1 x 1" in repr(found)


def test_bounds_are_distances_of_sorted_costs_and_of_those_of_points():
    """Every cost comes twice, so that means over 128 parts of the mass change nothing."""

    def sorted_distance(values, others):
        return np.square(np.sort(values, axis=None) - np.sort(others, axis=None)).mean()

    one, other = (np.repeat(cloud(16, 8, k), 2, axis=1) for k in (0, 1))
    gathered = np.sort(one, axis=None).reshape(16, 16)  # the same costs, of other points
    for pair, is_of_points in (((one, other), False), ((one, gathered), True)):
        by_costs = sorted_distance(*pair)
        by_points = sorted_distance(*(np.sqrt(np.square(x).mean(axis=1)) for x in pair))
        assert (by_points > by_costs) == is_of_points
        bound = pairwise_gromov_wasserstein(pair, n_starts=0).lower_bounds[0, 1]
        assert bound == pytest.approx(max(by_costs, by_points), rel=1e-9)
    constant = pairwise_gromov_wasserstein([np.ones((20, 20)), np.full((20, 20), 3.0)])
    assert constant.lower_bounds[0, 1] == pytest.approx(4.0)
    np.testing.assert_allclose(constant.costs, constant.lower_bounds)

"""Results report the objective of their plan, also if large terms cancel or a limit ended it."""

import numpy as np
import pytest
from helpers.problems import distances, rotated_pair, settings
from helpers.twins import objective

import gwfast
from gwfast import pot

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
POINTS = np.random.default_rng(0).standard_exponential((15, 3)) * [1, 2, 4]


def hops(far):
    """Hops on a path of 9 points and on a path of 8, which are `far` apart."""
    path = 1.0 * abs(np.subtract.outer(np.arange(17), np.arange(17)))
    path[:9, 9:] = path[9:, :9] = far
    return path


@pytest.mark.parametrize("far", [1e3, 1e7])
@pytest.mark.parametrize("options", [{}, {"epsilon": 0}, {"dtype": "float64"}])
def test_large_costs_do_not_drown_it(far, options):
    costs = hops(far)
    turned = costs[::-1, ::-1].copy()
    result = gwfast.gromov_wasserstein(costs, turned, **options)
    expected = objective(costs, turned, result.plan)
    assert result.gw_cost == pytest.approx(expected, rel=1e-4, abs=1e-9) and result.gw_cost >= 0
    assert gwfast.verify(gwfast.QuadraticProblem(costs, turned), result).gw_cost >= 0
    same = gwfast.gromov_wasserstein(costs, costs, epsilon=0)
    assert 0 <= same.gw_cost < 1e-12 * far**2


@pytest.mark.parametrize("fill", [1e3, 1e15])
@pytest.mark.parametrize("epsilon", [0, "auto"])
def test_points_without_mass_change_nothing(fill, epsilon):
    x = distances(POINTS)
    y = x[:12, :12] ** 1.1
    linear = np.random.default_rng(2).random((15, 12))
    pads = [np.pad(z, (0, 3), constant_values=fill) for z in (x, y, linear)]
    masses = [np.pad(np.full(n, 1 / n), (0, 3)) for n in (15, 12)]
    for fused, padded in (({}, {}), (dict(linear_cost=linear), dict(linear_cost=pads[2]))):
        alone = gwfast.gromov_wasserstein(x, y, epsilon=epsilon, **fused)
        result = gwfast.gromov_wasserstein(*pads[:2], *masses, epsilon=epsilon, **padded)
        assert result.status == alone.status
        assert result.gw_cost == pytest.approx(alone.gw_cost, rel=1e-4)
        np.testing.assert_allclose(result.plan[:15, :12], alone.plan, atol=1e-4)
        assert not result.plan[15:].any() and not result.plan[:, 12:].any()
    twin = float(pot.gromov_wasserstein2(*pads[:2], *masses))
    assert twin == pytest.approx(float(pot.gromov_wasserstein2(x, y)), rel=1e-5)


@pytest.mark.parametrize("metric, fill", [("sqeuclidean", 1e7), ("euclidean", 1e3), ("dot", 1e7)])
def test_clouds_take_no_unit_from_points_without_mass(metric, fill):
    rng = np.random.default_rng(1)
    y = POINTS[rng.permutation(15)] + 0.01 * rng.normal(size=POINTS.shape)
    cloud, masses = gwfast.PointCloud(y, metric), np.r_[np.full(15, 1 / 15), 0, 0]
    alone = gwfast.gromov_wasserstein(gwfast.PointCloud(POINTS, metric), cloud)
    padded = gwfast.PointCloud(np.vstack([POINTS, np.full((2, 3), fill)]), metric)
    result = gwfast.gromov_wasserstein(padded, cloud, masses)
    assert result.gw_cost == pytest.approx(alone.gw_cost, rel=1e-3)
    assert (result.match()[:15] == alone.match()).all()


def test_costs_that_are_written_to_keep_points_without_mass_out():
    x = np.random.default_rng(3).random((8, 8))
    x += x.T
    problem = gwfast.QuadraticProblem(x, x[:6, :6].copy(), np.r_[np.full(6, 1 / 6), 0, 0])
    assert gwfast.gromov_wasserstein(problem, epsilon=0).gw_cost < 1e-12
    x[:6, :6] *= 2
    x[6:] = x[:, 6:] = 1e9
    again = gwfast.gromov_wasserstein(problem, epsilon=0)
    assert again.gw_cost == pytest.approx(objective(x, x[:6, :6] / 2, again.plan))


@pytest.mark.parametrize("tier", ["auto", "dense", "tiled", "neighbors"])
def test_a_plan_that_a_limit_ended_is_reported_and_no_worse_than_the_product(tier):
    x, y, _ = rotated_pair(40, 4, 0, noise=0.1)
    costs = [distances(one) ** 2 for one in (x, y)]
    sides = [gwfast.PointCloud(one, "sqeuclidean") for one in (x, y)]
    options = settings(init="product", max_iter=1, max_inner=1, n_threads=1, tier=tier)
    result = gwfast.gromov_wasserstein(*(sides if tier != "auto" else costs), **options)
    assert result.gw_cost == pytest.approx(objective(*costs, result.plan), rel=1e-3)
    assert (result.status, result.n_iter) == ("max_iter", 1)
    assert result.gw_cost <= 1.05 * objective(*costs, np.full((40, 40), 1 / 1600))


@pytest.mark.parametrize("init", ["product", "auto"])
def test_the_least_epsilon_depends_on_the_dtype_alone(init):
    costs, options = hops(1e5), dict(epsilon=0.5, init=init)
    result = gwfast.gromov_wasserstein(costs, costs, dtype="float64", **options)
    assert result.epsilon == 0.5 and result.gw_cost >= 0
    with pytest.raises(ValueError, match="epsilon"):
        gwfast.gromov_wasserstein(costs, costs, **options)

"""Results report the objective of their plan, to the precision of float64."""

import numpy as np
import pytest

import gwfast
from gwfast import pot

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def distances(points):
    return np.linalg.norm(points[:, None] - points, axis=2)


def hops(n, extra, far):
    """Hops on a path of n points and on a star of `extra`, which are `far` apart."""
    costs = np.full((n + extra, n + extra), far)
    costs[:n, :n] = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    star = np.full((extra, extra), 2.0)
    star[0] = star[:, 0] = 1.0
    costs[n:, n:] = star
    np.fill_diagonal(costs, 0.0)
    return costs


def of_plan(x, y, plan):
    """The sum of all squared differences, each times the masses of both matches."""
    plan = np.asarray(plan, dtype=np.float64)
    i, j = np.nonzero(plan)
    apart = x[np.ix_(i, i)] - y[np.ix_(j, j)]
    return plan[i, j] @ apart**2 @ plan[i, j]


@pytest.mark.parametrize("far", [1e3, 1e5, 1e7])
@pytest.mark.parametrize("options", [{}, {"epsilon": 0}, {"dtype": "float64"}])
def test_large_costs_do_not_drown_it(far, options):
    costs = hops(9, 8, far)
    turned = costs[::-1, ::-1].copy()
    result = gwfast.gromov_wasserstein(costs, turned, **options)
    expected = of_plan(costs, turned, result.plan)
    assert result.gw_cost >= 0
    assert result.gw_cost == pytest.approx(expected, rel=1e-4, abs=1e-9)
    problem = gwfast.QuadraticProblem(costs, turned)
    assert gwfast.verify(problem, result).gw_cost >= 0


@pytest.mark.parametrize("fill", [1e3, 1e6, 1e9, 1e15])
@pytest.mark.parametrize("epsilon", [0, "auto"])
def test_points_without_mass_change_nothing(fill, epsilon):
    points = np.random.default_rng(0).standard_exponential((15, 3)) * [1, 2, 4]
    x = distances(points)
    y = x[:12, :12] ** 1.1
    alone = gwfast.gromov_wasserstein(x, y, epsilon=epsilon)
    padded = [np.pad(z, (0, 3), constant_values=fill) for z in (x, y)]
    p, q = (np.r_[np.full(n, 1 / n), 0, 0, 0] for n in (15, 12))
    result = gwfast.gromov_wasserstein(*padded, p, q, epsilon=epsilon)
    assert result.status == alone.status
    assert result.gw_cost == pytest.approx(alone.gw_cost, rel=1e-4)
    np.testing.assert_allclose(result.plan[:15, :12], alone.plan, atol=1e-4)
    assert not result.plan[15:].any() and not result.plan[:, 12:].any()
    twin = float(pot.gromov_wasserstein2(*padded, p, q))
    assert twin == pytest.approx(float(pot.gromov_wasserstein2(x, y)), rel=1e-5)


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "dot"])
@pytest.mark.parametrize("fill", [1e3, 1e7])
def test_clouds_take_no_unit_from_points_without_mass(metric, fill):
    rng = np.random.default_rng(1)
    x = rng.standard_exponential((30, 3)) * [1, 2, 4]
    y = x[rng.permutation(30)] + 0.01 * rng.normal(size=x.shape)
    cloud, masses = gwfast.PointCloud(y, metric), np.r_[np.full(30, 1 / 30), 0, 0]
    alone = gwfast.gromov_wasserstein(gwfast.PointCloud(x, metric), cloud)
    padded = gwfast.PointCloud(np.vstack([x, np.full((2, 3), fill)]), metric)
    result = gwfast.gromov_wasserstein(padded, cloud, masses)
    assert result.gw_cost == pytest.approx(alone.gw_cost, rel=1e-3)
    assert (result.match()[:30] == alone.match()).all()


def test_linear_costs_take_no_unit_from_points_without_mass():
    rng = np.random.default_rng(2)
    x, y, linear = rng.random((12, 12)), rng.random((10, 10)), rng.random((12, 10))
    x, y = x + x.T, y + y.T
    alone = gwfast.gromov_wasserstein(x, y, linear_cost=linear)
    padded = np.pad(x, (0, 2), constant_values=1e9)
    linear = np.pad(linear, ((0, 2), (0, 0)), constant_values=1e12)
    masses = np.r_[np.full(12, 1 / 12), 0, 0]
    result = gwfast.gromov_wasserstein(padded, y, masses, linear_cost=linear)
    assert result.gw_cost == pytest.approx(alone.gw_cost, rel=1e-4)


def test_costs_that_are_written_to_keep_points_without_mass_out():
    rng = np.random.default_rng(3)
    x = rng.random((8, 8))
    x += x.T
    masses = np.r_[np.full(6, 1 / 6), 0, 0]
    problem = gwfast.QuadraticProblem(x, x[:6, :6].copy(), masses)
    assert gwfast.gromov_wasserstein(problem, epsilon=0).gw_cost < 1e-12
    x[:6, :6] *= 2
    x[6:] = x[:, 6:] = 1e9
    again = gwfast.gromov_wasserstein(problem, epsilon=0)
    assert again.gw_cost == pytest.approx(of_plan(x, x[:6, :6] / 2, again.plan))


@pytest.mark.parametrize("tier", ["dense", "tiled", "neighbors"])
def test_a_plan_that_a_limit_ended_is_reported_as_it_is(tier):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 4)) * [1, 2, 3, 4]
    y = x[rng.permutation(80)] + 0.1 * rng.normal(size=x.shape)
    clouds = gwfast.PointCloud(x, "sqeuclidean"), gwfast.PointCloud(y, "sqeuclidean")
    few = dict(init="product", max_iter=1, options=gwfast.SolverOptions(max_inner=1, tier=tier))
    result = gwfast.gromov_wasserstein(*clouds, **few)
    expected = of_plan(distances(x) ** 2, distances(y) ** 2, result.plan)
    assert result.gw_cost == pytest.approx(expected, rel=1e-3)
    assert not result.converged


def test_equal_costs_are_not_below_zero():
    costs = hops(6, 7, 3.0)
    result = gwfast.gromov_wasserstein(costs, costs, epsilon=0)
    assert 0 <= result.gw_cost < 1e-12


@pytest.mark.parametrize("init", ["product", "auto"])
def test_the_least_epsilon_depends_on_the_dtype_alone(init):
    costs = hops(9, 8, 1e5)
    given = dict(epsilon=0.5, init=init)
    result = gwfast.gromov_wasserstein(costs, costs, dtype="float64", **given)
    assert result.epsilon == 0.5 and result.gw_cost >= 0
    with pytest.raises(ValueError, match="epsilon must be at least"):
        gwfast.gromov_wasserstein(costs, costs, **given)


@pytest.mark.parametrize("n", [60, 300])
@pytest.mark.parametrize("cloud", [False, True])
def test_the_product_plan_is_no_worse_than_what_a_limit_leaves(n, cloud):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4)) * [1, 2, 3, 4]
    y = x[rng.permutation(n)] + 0.1 * rng.normal(size=x.shape)
    costs = [distances(one) ** 2 for one in (x, y)]
    given = [gwfast.PointCloud(one, "sqeuclidean") for one in (x, y)]
    uniform = np.full((n, n), 1 / n**2)
    most = of_plan(*costs, uniform) if n < 100 else 2 * np.var(costs[0])
    few = dict(init="product", max_iter=1, options=gwfast.SolverOptions(max_inner=1))
    result = gwfast.gromov_wasserstein(*(given if cloud else costs), **few)
    assert result.status == "max_iter" and result.n_iter == 1
    assert result.gw_cost <= most * 1.05
    if n < 100:
        assert result.gw_cost == pytest.approx(of_plan(*costs, result.plan), rel=1e-3)

"""Solves of `gromov_wasserstein`: limits, degenerate costs, statuses and advice; and that results
report the objective of their plan, also if large terms cancel or a limit ended it.
"""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, orthogonal, rotated_pair, settings
from helpers.twins import objective

import gwfast
from gwfast import PointCloud, gromov_wasserstein, pot

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def solve(x, y, p=None, q=None, **options):
    return gromov_wasserstein(x, y, p, q, **settings(**{"init": "product"} | options))


def test_the_last_step_is_the_result_and_leaving_a_saddle_is_not_the_end():
    x, y, _ = rotated_pair(60, 3, 35)
    result = solve(PointCloud(x), PointCloud(y), epsilon=0.005)
    last, seconds = result.history[-1], [step.seconds for step in result.history]
    # The loop takes the given marginals for the plan's.
    assert result.converged and last.gw_cost == pytest.approx(result.gw_cost, rel=1e-3)
    assert last.marginal_error == result.marginal_error <= 1e-5 and last.change <= 1e-5
    assert last.iteration == result.n_iter and last.epsilon == result.epsilon == 0.005
    assert seconds == sorted(seconds) and result.seconds >= seconds[-1]
    # The change dips below 1e-4 near the product plan before it grows to 0.2.
    x, y = (abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float) for n in (22, 26))
    result = solve(x, y, loss="kl", epsilon=4.85, tol=1e-6)
    changes = [step.change for step in result.history]
    assert result.converged and min(changes[:15]) < 1e-4 and max(changes) > 0.1
    np.testing.assert_allclose(result.gw_cost, 7.70977, rtol=1e-3)


@pytest.mark.parametrize(
    "limits, status",
    [
        (dict(epsilon=0.01, max_iter=4), "max_iter"),
        (dict(epsilon=0.05, marginal_tol=1e-9), "stalled"),  # beyond float32
        (dict(epsilon=1e-4, max_inner=2, max_iter=40), "max_iter"),
        (dict(epsilon=0, max_iter=4), "max_iter"),
    ],
)
def test_limits_are_said(limits, status):
    x, y = PointCloud(cloud(40, 4, 38)), PointCloud(cloud(35, 4, 39))
    with pytest.warns(gwfast.ConvergenceWarning, match=status):
        result = solve(x, y, **limits)
    assert result.status == status and np.isfinite(result.plan).all() and result.advice
    assert ("marginal_tol" in result.advice) == ("max_inner" in limits or status == "stalled")
    if "max_inner" in limits:
        assert max(step.n_inner for step in result.history) <= 2 and "max_inner" in result.advice
    elif "max_iter" in limits:
        assert result.n_iter == 4 and result.marginal_error <= 1e-5
        assert limits["epsilon"] > 0 or result.gap > 1e-5 * result.gw_cost
    else:
        assert result.marginal_error < 3e-6
        assert result.n_iter <= solve(x, y, epsilon=0.05).n_iter + 5


@pytest.mark.parametrize("d, metric", [(5, "cosine"), (50, "dot")])
def test_rounding_of_centered_clouds_does_not_go_on(d, metric):
    """Under the product plan the sum of their products is nothing but rounding."""
    x = np.random.default_rng(d).standard_exponential((40, d)) ** 1.5
    x -= x.mean(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x -= x.mean(axis=0)
    turned = x[::-1] @ np.linalg.qr(cloud(d, d, 0))[0]
    assert solve(PointCloud(x, metric), PointCloud(turned, metric), epsilon="50%").n_iter < 200


FREE, FUSED = dict(marginals="semirelaxed"), dict(linear_cost=np.ones((20, 15)), alpha=0.5)
SPREAD, CONSTANT = distances(cloud(20, 3, 0)), np.zeros((15, 15))
TIES = [
    (CONSTANT, np.ones((20, 20)), {}),
    (np.full((20, 20), 0.1), np.full((20, 20), 0.1 + 1e-16), {}),
    (CONSTANT, SPREAD, {}),
    (PointCloud(np.ones((20, 3))), PointCloud(np.full((9, 2), 0.7)), {}),
    (SPREAD, CONSTANT, FREE),
    (SPREAD, CONSTANT, FUSED),
    (1e-15 * SPREAD, SPREAD[::-1, ::-1], {}),  # lost in the rounding of the other side
    (SPREAD, 1e-15 * SPREAD, FREE),
]


@pytest.mark.parametrize("x, y, options", TIES)
def test_all_plans_tie_if_costs_of_a_side_are_equal(x, y, options):
    for epsilon in ("auto", 0):
        result = solve(x, y, epsilon=epsilon, init="auto", **options)
        assert result.status == "degenerate" and np.isnan(result.confidence)
        assert "linear_cost" in result.advice
        if epsilon == "auto" and options is not FREE:
            np.testing.assert_allclose(result.plan, 1 / result.plan.size, rtol=1e-4)
    assert solve([[0.0]], SPREAD, epsilon=0, init="auto").status == "converged"


# Spaces of different scale, for which no epsilon helps, and 1.75 % is not too large.
SCALED = [PointCloud(scale * cloud(60, 3, 28), "sqeuclidean") for scale in (1, 1000)]
ADVICE = [
    (*SCALED, dict(init="auto"), "same scale", 'init="auto"'),
    (*SCALED, {}, 'init="auto"', "smaller"),
    (SPREAD, SPREAD[::-1, ::-1], dict(epsilon=10.0), "smaller epsilon", "scale"),
    # The offset of a side changes no plan.
    (SPREAD, SPREAD + 1000, dict(epsilon=1e3), "matches nothing", "orders of magnitude"),
    (SPREAD + 5e3, 1e3 * SPREAD + 5e3, dict(epsilon=1e5), "orders of magnitude", "\n"),
]


@pytest.mark.parametrize("x, y, options, said, unsaid", ADVICE)
def test_advice_is_on_what_was_not_tried(x, y, options, said, unsaid):
    result = solve(x, y, **options)
    assert result.status == "degenerate"
    assert said in result.advice and unsaid not in result.advice


TIGHT = dict(tol=1e-10, marginal_tol=1e-10, dtype="float64", max_iter=300)


@pytest.mark.parametrize("epsilon", [5.0, 0])
@pytest.mark.parametrize("seed", range(3))
def test_units_and_motions_change_no_plan(epsilon, seed):
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal((n, 3)) for n in rng.integers(2, 12, size=2))
    weights = masses(len(x), rng), masses(len(y), rng)
    plans, pots = [], []
    for z, factor in ((x, 1.0), (x @ orthogonal(3, seed) + 10.0, 10.0 ** rng.uniform(-6, 6))):
        given = *(factor * distances(side) ** 2 for side in (z, y)), *weights
        plans.append(solve(*given, epsilon=epsilon * factor**2, **TIGHT).plan)
        options = dict(epsilon=max(2 * epsilon, 1.0) * factor**2, tol=1e-10, max_iter=300)
        pots.append(pot.entropic_gromov_wasserstein(*given, **options))
    assert np.abs(plans[1] - plans[0]).sum() <= 1e-6
    assert np.abs(pots[1] - pots[0]).sum() <= 1e-6


def test_clouds_of_more_dimensions_than_points_are_solved_like_their_matrices():
    x = np.random.default_rng(0).standard_exponential((60, 100)) ** 1.5
    clouds = [PointCloud(z - z.mean(axis=0)) for z in (x, x[::-1] @ orthogonal(100, 0))]
    matrices = [side.to_dense().matrix for side in clouds]
    of_clouds, of_matrices = (
        gromov_wasserstein(*costs, epsilon="2%") for costs in (clouds, matrices)
    )
    np.testing.assert_allclose(of_clouds.plan, of_matrices.plan, atol=1e-6 / 60)
    iterations = [[row.n_iter for row in x.candidates] for x in (of_clouds, of_matrices)]
    assert sum(iterations[0]) <= 1.2 * sum(iterations[1])


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
    result = gromov_wasserstein(costs, turned, **options)
    expected = objective(costs, turned, result.plan)
    assert result.gw_cost == pytest.approx(expected, rel=1e-4, abs=1e-9) and result.gw_cost >= 0
    assert gwfast.verify(gwfast.QuadraticProblem(costs, turned), result).gw_cost >= 0
    same = gromov_wasserstein(costs, costs, epsilon=0)
    assert 0 <= same.gw_cost < 1e-12 * far**2


@pytest.mark.parametrize("fill", [1e3, 1e15])
@pytest.mark.parametrize("epsilon", [0, "auto"])
def test_points_without_mass_change_nothing(fill, epsilon):
    x = distances(POINTS)
    y = x[:12, :12] ** 1.1
    linear = np.random.default_rng(2).random((15, 12))
    pads = [np.pad(z, (0, 3), constant_values=fill) for z in (x, y, linear)]
    weights = [np.pad(np.full(n, 1 / n), (0, 3)) for n in (15, 12)]
    for fused, padded in (({}, {}), (dict(linear_cost=linear), dict(linear_cost=pads[2]))):
        alone = gromov_wasserstein(x, y, epsilon=epsilon, **fused)
        result = gromov_wasserstein(*pads[:2], *weights, epsilon=epsilon, **padded)
        assert result.status == alone.status
        assert result.gw_cost == pytest.approx(alone.gw_cost, rel=1e-4)
        np.testing.assert_allclose(result.plan[:15, :12], alone.plan, atol=1e-4)
        assert not result.plan[15:].any() and not result.plan[:, 12:].any()
    twin = float(pot.gromov_wasserstein2(*pads[:2], *weights))
    assert twin == pytest.approx(float(pot.gromov_wasserstein2(x, y)), rel=1e-5)


@pytest.mark.parametrize("metric, fill", [("sqeuclidean", 1e7), ("euclidean", 1e3), ("dot", 1e7)])
def test_clouds_take_no_unit_from_points_without_mass(metric, fill):
    rng = np.random.default_rng(1)
    y = POINTS[rng.permutation(15)] + 0.01 * rng.normal(size=POINTS.shape)
    side, weights = PointCloud(y, metric), np.r_[np.full(15, 1 / 15), 0, 0]
    alone = gromov_wasserstein(PointCloud(POINTS, metric), side)
    padded = PointCloud(np.vstack([POINTS, np.full((2, 3), fill)]), metric)
    result = gromov_wasserstein(padded, side, weights)
    assert result.gw_cost == pytest.approx(alone.gw_cost, rel=1e-3)
    assert (result.match()[:15] == alone.match()).all()


def test_costs_that_are_written_to_keep_points_without_mass_out():
    x = np.random.default_rng(3).random((8, 8))
    x += x.T
    problem = gwfast.QuadraticProblem(x, x[:6, :6].copy(), np.r_[np.full(6, 1 / 6), 0, 0])
    assert gromov_wasserstein(problem, epsilon=0).gw_cost < 1e-12
    x[:6, :6] *= 2
    x[6:] = x[:, 6:] = 1e9
    again = gromov_wasserstein(problem, epsilon=0)
    assert again.gw_cost == pytest.approx(objective(x, x[:6, :6] / 2, again.plan))


@pytest.mark.parametrize("tier", ["auto", "dense", "tiled", "neighbors"])
def test_a_plan_that_a_limit_ended_is_reported_and_no_worse_than_the_product(tier):
    x, y, _ = rotated_pair(40, 4, 0, noise=0.1)
    costs = [distances(one) ** 2 for one in (x, y)]
    sides = [PointCloud(one, "sqeuclidean") for one in (x, y)]
    options = settings(init="product", max_iter=1, max_inner=1, n_threads=1, tier=tier)
    result = gromov_wasserstein(*(sides if tier != "auto" else costs), **options)
    assert result.gw_cost == pytest.approx(objective(*costs, result.plan), rel=1e-3)
    assert (result.status, result.n_iter) == ("max_iter", 1)
    assert result.gw_cost <= 1.05 * objective(*costs, np.full((40, 40), 1 / 1600))


@pytest.mark.parametrize("init", ["product", "auto"])
def test_the_least_epsilon_depends_on_the_dtype_alone(init):
    costs, options = hops(1e5), dict(epsilon=0.5, init=init)
    result = gromov_wasserstein(costs, costs, dtype="float64", **options)
    assert result.epsilon == 0.5 and result.gw_cost >= 0
    with pytest.raises(ValueError, match="epsilon"):
        gromov_wasserstein(costs, costs, **options)

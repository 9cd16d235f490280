import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud, distances, masses, random_cost, rotated_pair
from helpers.settings import settings

import gwfast
from gwfast import PointCloud

# Where solves are quick, epsilon is so large that plans match nothing. The library says
# so, and is right.
pytestmark = pytest.mark.filterwarnings("ignore:.*ended as 'degenerate'")


# One descent, from a known start; which start is best is for test_search.py.
def gromov_wasserstein(x, y, p=None, q=None, **options):
    return gwfast.gromov_wasserstein(x, y, p, q, **settings(**{"init": "product"} | options))


def marginal_error(plan, p, q):
    plan = plan.astype(np.float64)
    return np.abs(plan.sum(1) - p).sum() + np.abs(plan.sum(0) - q).sum()


# --- Agreement with known answers -------------------------------------------------


@pairwise(metric=["cosine", "sqeuclidean", "dot"], data_seed=[0, 42])
def test_rotated_and_permuted_cloud_is_matched(metric, data_seed):
    x, y, where = rotated_pair(60, 3, data_seed)
    clouds = PointCloud(x, metric), PointCloud(y, metric)
    result = gromov_wasserstein(*clouds)
    epsilon = result.epsilon / 10
    sharp = gromov_wasserstein(*clouds, epsilon=epsilon, init=result.plan, marginal_tol=1e-4)
    assert (sharp.plan.argmax(axis=1) == where).mean() > 0.9
    assert 0 <= sharp.gw_cost < result.gw_cost


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "dot"])
def test_factored_and_dense_solves_agree(metric):
    x, y, _ = rotated_pair(50, 4, 4, noise=0.1)
    left, right = PointCloud(x[:40], metric), PointCloud(y, metric)
    p, q = masses(40, 6), masses(50, 7)
    factored = gromov_wasserstein(left, right, p, q, epsilon="auto", tol=5e-4)
    matrices = left.to_dense(), right.to_dense()
    dense = gromov_wasserstein(*matrices, p, q, epsilon=factored.epsilon, tol=5e-4)
    assert factored.converged and dense.converged
    np.testing.assert_allclose(factored.gw_cost, dense.gw_cost, rtol=1e-3)
    # Both stop when a step moves little; many such steps may remain.
    assert np.abs(factored.plan - dense.plan).sum() < 2e-2


def test_epsilon_is_half_of_pots():
    costs = random_cost(30, 1), random_cost(20, 2)
    tight = dict(dtype="float64", tol=1e-9, marginal_tol=1e-9)
    result = gromov_wasserstein(*costs, epsilon=gwfast.Epsilon(relative=1 / 3), **tight)
    plan = gwfast.pot.entropic_gromov_wasserstein(*costs, epsilon=2 * result.epsilon)
    np.testing.assert_allclose(result.plan, plan, atol=1e-4 * plan.max())


# --- Properties -------------------------------------------------------------------


@pairwise(
    shape=[(1, 1), (1, 4), (2, 1), (3, 2), (17, 33), (97, 65)],
    kind=["cosine", "sqeuclidean", "matrix"],
)
def test_marginals_hold_at_awkward_sizes(shape, kind):
    n, m = shape
    p, q = masses(n, 10), masses(m, 11)
    if kind == "matrix":
        costs = random_cost(n, 12), random_cost(m, 13)
    else:
        costs = PointCloud(cloud(n, 4, 12), kind), PointCloud(cloud(m, 3, 13), kind)
    result = gromov_wasserstein(*costs, p, q, epsilon=1.0)
    assert result.status in ("converged", "degenerate")
    assert marginal_error(result.plan, p, q) < 2e-5
    assert result.marginal_error < 2e-5


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_regularized_objective_never_rises(metric, seed):
    """Exact inner solves of a concave objective descend (up to rounding)."""
    x, y, _ = rotated_pair(50, 3, seed, noise=0.1)
    left, right = PointCloud(x, metric), PointCloud(y, metric)
    plan, costs, epsilon = "product", [], "auto"
    for _ in range(15):
        with pytest.warns(gwfast.ConvergenceWarning):
            step = gromov_wasserstein(
                left, right, epsilon=epsilon, init=plan, max_iter=1, marginal_tol=1e-6
            )
        plan, epsilon = step.plan, step.epsilon
        costs.append(step.reg_cost)
    rises = np.diff(costs)
    assert rises.max() < 1e-4 * np.abs(costs).max()
    assert costs[-1] < costs[0]


@pairwise(kind=["sqeuclidean", "dot", "matrix"], scale=[1e-15, 1e18], init=["product", "auto"])
def test_units_of_cost_do_not_matter(kind, scale, init):
    x, y, _ = rotated_pair(30, 3, 24, noise=0.02)

    def costs(factor):
        if kind == "matrix":
            return factor * distances(x), factor * distances(y)
        root = np.sqrt(factor)
        return PointCloud(root * x, kind), PointCloud(root * y, kind)

    plain = gromov_wasserstein(*costs(1.0), init=init)
    scaled = gromov_wasserstein(*costs(scale), init=init)
    assert scaled.epsilon == pytest.approx(plain.epsilon * scale**2, rel=1e-4)
    assert np.abs(scaled.plan - plain.plan).sum() < 1e-4
    np.testing.assert_allclose(scaled.gw_cost, plain.gw_cost * scale**2, rtol=1e-4)


@pairwise(relative=[1.0, 1e-2, 1e-3, 1e-5], metric=["cosine", "sqeuclidean"])
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_plan_is_finite_and_has_all_mass_at_any_epsilon(relative, metric):
    n, m = 40, 60
    costs = PointCloud(cloud(n, 5, 24), metric), PointCloud(cloud(m, 4, 25), metric)
    p, q = masses(n, 27), masses(m, 28)
    p[3] = 0.0
    p /= p.sum()
    epsilon = gwfast.Epsilon(relative=relative)
    limits = dict(max_iter=20, max_inner=1000)
    result = gromov_wasserstein(*costs, p, q, epsilon=epsilon, **limits)
    assert np.isfinite(result.plan).all() and (result.plan >= 0).all()
    np.testing.assert_allclose(result.plan.sum(dtype=np.float64), 1.0, atol=1e-4)
    assert result.plan[3].max() == 0
    assert np.isfinite(result.gw_cost) and result.gw_cost >= 0
    assert np.isfinite(result.reg_cost)


# --- Starts, limits, evidence -----------------------------------------------------


def test_a_given_start_is_taken():
    x, y, where = rotated_pair(50, 3, 31)
    truth = np.zeros((50, 50))
    truth[np.arange(50), where] = 1.0
    result = gromov_wasserstein(
        PointCloud(x), PointCloud(y), epsilon=1e-4, init=truth, max_iter=200
    )
    assert (result.plan.argmax(1) == where).mean() > 0.95
    assert result.gw_cost < 1e-3


def test_exact_match_has_no_negative_cost():
    cost = distances(cloud(20, 3, 34))
    result = gromov_wasserstein(cost, cost, epsilon=0.005, init=np.eye(20))
    assert 0 <= result.gw_cost < 1e-5
    assert result.converged


def test_history_is_the_evidence_of_the_result():
    x, y, _ = rotated_pair(60, 3, 35)
    steps = []
    result = gromov_wasserstein(PointCloud(x), PointCloud(y), epsilon=0.005, callback=steps.append)
    assert result.converged and result.status == "converged"
    assert tuple(steps) == result.history
    assert [step.iteration for step in steps] == list(range(1, result.n_iter + 1))
    last = steps[-1]
    # The loop uses the given marginals, the result those of its plan.
    assert last.gw_cost == pytest.approx(result.gw_cost, rel=1e-3)
    assert last.marginal_error == result.marginal_error <= 1e-5
    assert last.change <= 1e-5 and last.epsilon == result.epsilon == 0.005
    seconds = [step.seconds for step in steps]
    assert seconds == sorted(seconds) and result.seconds >= seconds[-1]


@pytest.mark.parametrize(
    "limits, status",
    [
        (dict(epsilon=0.01, max_iter=4), "max_iter"),
        (dict(epsilon=0.05, marginal_tol=1e-9), "stalled"),  # beyond float32
        (dict(epsilon=1e-4, max_inner=2, max_iter=300), "max_iter"),
    ],
)
def test_limits_are_said(limits, status):
    x, y = PointCloud(cloud(80, 4, 38)), PointCloud(cloud(70, 4, 39))
    with pytest.warns(gwfast.ConvergenceWarning, match=status) as caught:
        result = gromov_wasserstein(x, y, **limits)
    assert result.status == status and np.isfinite(result.plan).all()
    if "max_inner" in limits:
        assert max(step.n_inner for step in result.history) <= 2
    elif "max_iter" in limits:
        assert "after 4 outer" in str(caught[0].message) and result.n_iter == 4
        assert result.marginal_error <= 1e-5
    else:
        assert result.marginal_error < 3e-6
        reachable = gromov_wasserstein(x, y, epsilon=0.05)
        assert result.n_iter <= reachable.n_iter + 5


def test_leaving_a_saddle_is_not_taken_for_the_end():
    """The change dips below 1e-4 near the product plan before it grows to 0.2."""
    cost_x, cost_y = (
        np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float) for n in (22, 26)
    )
    result = gromov_wasserstein(cost_x, cost_y, loss="kl", epsilon=4.85, tol=1e-6)
    assert result.converged
    assert min(step.change for step in result.history[:15]) < 1e-4
    assert max(step.change for step in result.history) > 0.1
    np.testing.assert_allclose(result.gw_cost, 7.70977, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("rho", [1e-3, 1e-2])
@pytest.mark.parametrize("seed", range(3))
def test_a_small_price_comes_to_an_end(rho, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.random((6, 6)), rng.random((6, 6))
    y = (y + y.T < 0.6) * 1.0
    given = dict(marginals=gwfast.Unbalanced(rho), epsilon="0.5%", init="product")
    result = gwfast.gromov_wasserstein(x, y, time_limit=20, **given)
    assert result.status != "time_limit"
    assert result.plan.dtype == np.float32
    # No plan at all costs the price of both marginals, and entropy adds to it.
    assert 0 <= result.gw_cost <= 2 * rho * 1.01
    if rho == 1e-3:
        vanishing = dict(given, marginals=gwfast.Unbalanced(1e-9), time_limit=20)
        lost = gwfast.gromov_wasserstein(x, y, **vanishing)
        assert lost.status in ("degenerate", "converged") and 0 <= lost.mass < 0.1
    clouds = [gwfast.PointCloud(rng.normal(size=(n, 2))) for n in (6, 8)]
    result = gwfast.gromov_wasserstein(*clouds, time_limit=20, **given)
    assert result.status != "time_limit" and result.mass <= 1


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("d", [5, 20, 150])
def test_rounding_of_centered_clouds_does_not_go_on(d):
    """Under the product plan the sum of their products is nothing but rounding."""
    rng = np.random.default_rng(d)
    x = rng.standard_exponential((120, d)) ** 1.5
    y = x[rng.permutation(120)] @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    for points in (x, y):
        points -= points.mean(axis=0)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        points -= points.mean(axis=0)
    for metric in ("cosine", "dot"):
        clouds = [gwfast.PointCloud(one, metric) for one in (x, y)]
        given = dict(epsilon="50%", init="product")
        assert gwfast.gromov_wasserstein(*clouds, **given).n_iter < 200

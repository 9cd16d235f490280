import functools

import numpy as np
import pytest
from helpers.marks import mostly_slow
from helpers.problems import (
    cloud,
    distances,
    gw_objective,
    masses,
    orthogonal,
    random_cost,
    rotated_pair,
)

import gwfast
from gwfast import PointCloud
from gwfast.problems.epsilon import AUTO_RELATIVE

# Where POT is stable, and where solves are quick, epsilon is so large that plans match
# nothing. The library says so, and is right.
pytestmark = pytest.mark.filterwarnings("ignore:.*ended as 'near_product'")

# One descent, from a known start; which start is best is for test_search.py.
gromov_wasserstein = functools.partial(gwfast.gromov_wasserstein, init="product")


def marginal_error(plan, p, q):
    plan = plan.astype(np.float64)
    return np.abs(plan.sum(1) - p).sum() + np.abs(plan.sum(0) - q).sum()


# --- Agreement with known answers -------------------------------------------------


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "dot"])
@pytest.mark.parametrize("data_seed", [0, 1, 2, 3, 42])
def test_rotated_and_permuted_cloud_is_matched(metric, data_seed):
    x, y, where = rotated_pair(60, 3, data_seed)
    result = gromov_wasserstein(
        PointCloud(x, metric), PointCloud(y, metric), epsilon="auto"
    )
    sharp = gromov_wasserstein(
        PointCloud(x, metric),
        PointCloud(y, metric),
        epsilon=result.epsilon / 10,
        init=result.plan,
        marginal_tol=1e-4,
    )
    assert (sharp.plan.argmax(axis=1) == where).mean() > 0.9
    assert 0 <= sharp.gw_cost < result.gw_cost


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_objective_is_the_fourfold_sum(loss, symmetric):
    cost_x = random_cost(9, 0, symmetric=symmetric) + 0.1
    cost_y = random_cost(7, 1, symmetric=symmetric) + 0.1
    p, q = masses(9, 2), masses(7, 3)
    result = gromov_wasserstein(cost_x, cost_y, p, q, epsilon=0.2, loss=loss)
    assert result.status in ("converged", "near_product")
    expected = gw_objective(result.plan, cost_x, cost_y, loss)
    np.testing.assert_allclose(result.gw_cost, expected, rtol=1e-4)
    plan = result.plan.astype(np.float64)
    entropy = -(plan * np.log(plan)).sum()
    np.testing.assert_allclose(
        result.reg_cost, result.gw_cost - 2 * 0.2 * entropy, rtol=1e-5
    )


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


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "dot"])
def test_potentials_give_the_plan(metric):
    x, y = PointCloud(cloud(30, 5, 8), metric), PointCloud(cloud(20, 3, 9), metric)
    result = gromov_wasserstein(x, y, epsilon="auto", tol=1e-6)
    cost_x, cost_y = (side.to_dense().matrix.astype(np.float64) for side in (x, y))
    plan = result.plan.astype(np.float64)
    lin_cost = (
        (cost_x**2).mean(axis=1)[:, None]
        + (cost_y**2).mean(axis=1)
        - 2 * cost_x @ plan @ cost_y
    )
    f, g = result.potentials
    made = np.exp((f[:, None] + g - lin_cost) / result.epsilon)
    assert np.abs(made - plan).sum() < 5e-3


POT_CASES = [
    (seed, loss, symmetric)
    for seed in range(5)
    for loss in ("square", "kl")
    for symmetric in (True, False)
]


@pytest.mark.parametrize("seed, loss, symmetric", POT_CASES)
def test_plan_is_that_of_pot_at_twice_epsilon(seed, loss, symmetric):
    ot = pytest.importorskip("ot", reason="POT is not installed")
    rng = np.random.default_rng(seed)
    n, m = rng.integers(5, 60, 2)
    if seed % 2:
        cost_x, cost_y = distances(cloud(n, 3, seed)), distances(cloud(m, 2, seed + 99))
        if not symmetric:
            cost_x = cost_x * rng.uniform(0.5, 1.5, cost_x.shape)
            cost_y = cost_y * rng.uniform(0.5, 1.5, cost_y.shape)
    else:
        cost_x = random_cost(n, seed, symmetric=symmetric)
        cost_y = random_cost(m, seed + 99, symmetric=symmetric)
    p, q = masses(n, seed), masses(m, seed + 1)
    # Where POT is stable: a third of the objective of the product plan.
    with pytest.warns(gwfast.ConvergenceWarning):
        first = gromov_wasserstein(
            cost_x, cost_y, p, q, epsilon="auto", loss=loss, max_outer=1
        )
    epsilon = first.epsilon * (1 / 3) / AUTO_RELATIVE
    pot_plan, log = ot.gromov.entropic_gromov_wasserstein(
        cost_x,
        cost_y,
        p,
        q,
        {"square": "square_loss", "kl": "kl_loss"}[loss],
        epsilon=2 * epsilon,
        symmetric=symmetric,
        max_iter=500,
        tol=1e-11,
        log=True,
        numItermax=5000,
        stopThr=1e-12,
    )
    assert log["err"][-1] < 1e-10, "POT did not converge"
    result = gromov_wasserstein(cost_x, cost_y, p, q, epsilon=epsilon, loss=loss)
    assert np.abs(result.plan - pot_plan).sum() <= 1e-3


# --- Properties -------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (2, 1), (3, 2), (17, 33), (97, 65)])
@pytest.mark.parametrize("kind", ["cosine", "sqeuclidean", "matrix"])
def test_marginals_hold_at_awkward_sizes(shape, kind):
    n, m = shape
    p, q = masses(n, 10), masses(m, 11)
    if kind == "matrix":
        cost_x, cost_y = random_cost(n, 12), random_cost(m, 13)
    else:
        cost_x = PointCloud(cloud(n, 4, 12), kind)
        cost_y = PointCloud(cloud(m, 3, 13), kind)
    result = gromov_wasserstein(cost_x, cost_y, p, q, epsilon=1.0)
    assert result.status in ("converged", "near_product")
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
                left, right, epsilon=epsilon, init=plan, max_outer=1, marginal_tol=1e-6
            )
        plan, epsilon = step.plan, step.epsilon
        costs.append(step.reg_cost)
    rises = np.diff(costs)
    assert rises.max() < 1e-4 * np.abs(costs).max()
    assert costs[-1] < costs[0]


def test_permuted_points_permute_the_plan(seed):
    x, y = cloud(45, 5, seed), cloud(38, 4, seed + 1)
    p, q = masses(45, seed), masses(38, seed + 1)
    rows = np.random.default_rng(seed).permutation(45)
    plain = gromov_wasserstein(PointCloud(x), PointCloud(y), p, q, epsilon=0.02)
    other = gromov_wasserstein(
        PointCloud(x[rows]), PointCloud(y), p[rows], q, epsilon=0.02
    )
    assert np.abs(other.plan - plain.plan[rows]).sum() < 1e-3


def test_isometries_and_swapping_sides_change_nothing(seed):
    x, y, _ = rotated_pair(45, 3, seed, noise=0.3)

    def clouds(x, y):
        return PointCloud(x, "sqeuclidean"), PointCloud(y, "sqeuclidean")

    # Wide enough that there is one optimum to be found.
    epsilon = 10 * gromov_wasserstein(*clouds(x, y), epsilon="auto").epsilon
    plain = gromov_wasserstein(*clouds(x, y), epsilon=epsilon)
    turned = x @ orthogonal(3, seed) + 1e3
    moved = gromov_wasserstein(*clouds(turned, y), epsilon=epsilon)
    swapped = gromov_wasserstein(*clouds(y, x), epsilon=epsilon)
    assert np.abs(moved.plan - plain.plan).sum() < 1e-3
    assert np.abs(swapped.plan.T - plain.plan).sum() < 1e-3


@pytest.mark.parametrize("scale", [1e-15, 1e15])
@pytest.mark.parametrize("kind", ["cloud", "matrix"])
def test_units_of_cost_do_not_matter(scale, kind):
    x, y = cloud(30, 4, 20), cloud(25, 3, 21)

    def costs(factor):
        if kind == "matrix":
            return factor * distances(x), factor * distances(y)
        root = np.sqrt(factor)
        return (
            PointCloud(root * x, "sqeuclidean"),
            PointCloud(root * y, "sqeuclidean"),
        )

    plain = gromov_wasserstein(*costs(1.0), epsilon=1.0)
    scaled = gromov_wasserstein(*costs(scale), epsilon=scale**2)
    assert np.abs(scaled.plan - plain.plan).sum() < 1e-4
    np.testing.assert_allclose(scaled.gw_cost, plain.gw_cost * scale**2, rtol=1e-4)


def test_common_offset_of_dense_costs_does_not_matter():
    cost_x, cost_y = random_cost(30, 22), random_cost(20, 23)
    plain = gromov_wasserstein(cost_x, cost_y, epsilon=0.1)
    offset = gromov_wasserstein(cost_x + 1e6, cost_y + 1e6, epsilon=0.1)
    assert np.abs(offset.plan - plain.plan).sum() < 1e-4
    np.testing.assert_allclose(offset.gw_cost, plain.gw_cost, rtol=1e-4)


@pytest.mark.parametrize("relative", [1.0, 1e-2, 1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize(
    "kind", ["cosine", "sqeuclidean", "matrix", "asymmetric", "kl"]
)
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_plan_is_finite_and_has_all_mass_at_any_epsilon(relative, kind):
    n, m = 40, 60
    loss = "kl" if kind == "kl" else "square"
    if kind in ("cosine", "sqeuclidean"):
        costs = PointCloud(cloud(n, 5, 24), kind), PointCloud(cloud(m, 4, 25), kind)
    else:
        symmetric = kind != "asymmetric"
        costs = tuple(random_cost(k, 26 + k, symmetric=symmetric) for k in (n, m))
    p, q = masses(n, 27), masses(m, 28)
    p[3] = 0.0
    p /= p.sum()
    first = gromov_wasserstein(*costs, p, q, epsilon="auto", loss=loss, max_outer=1)
    result = gromov_wasserstein(
        *costs,
        p,
        q,
        epsilon=relative * first.epsilon / 0.02,
        loss=loss,
        max_outer=20,
        max_inner=1000,
    )
    assert np.isfinite(result.plan).all() and (result.plan >= 0).all()
    np.testing.assert_allclose(result.plan.sum(dtype=np.float64), 1.0, atol=1e-4)
    assert result.plan[3].max() == 0
    assert np.isfinite(result.gw_cost) and result.gw_cost >= 0
    assert np.isfinite(result.reg_cost)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cosine", "matrix"])
@pytest.mark.parametrize("n_threads", mostly_slow([1, 2, 3], fast=[2]))
def test_threads_change_nothing(kind, n_threads):
    n, m = 300, 400
    if kind == "cosine":
        costs = PointCloud(cloud(n, 10, 29)), PointCloud(cloud(m, 10, 30))
    else:
        costs = random_cost(n, 29), random_cost(m, 30)
    one = gromov_wasserstein(*costs, epsilon=0.02, n_threads=1)
    again = gromov_wasserstein(*costs, epsilon=0.02, n_threads=n_threads)
    twice = gromov_wasserstein(*costs, epsilon=0.02, n_threads=n_threads)
    np.testing.assert_array_equal(again.plan, twice.plan)
    assert np.abs(one.plan - again.plan).sum() <= 1e-5


# --- Starts, limits, evidence -----------------------------------------------------


def test_a_given_start_is_taken():
    x, y, where = rotated_pair(50, 3, 31)
    truth = np.zeros((50, 50))
    truth[np.arange(50), where] = 1.0
    result = gromov_wasserstein(
        PointCloud(x), PointCloud(y), epsilon=1e-4, init=truth, max_outer=200
    )
    assert (result.plan.argmax(1) == where).mean() > 0.95
    assert result.gw_cost < 1e-3


def test_random_starts_are_reproducible_and_differ_by_seed():
    costs = random_cost(30, 32), random_cost(40, 33)

    def start(seed):
        with pytest.warns(gwfast.ConvergenceWarning):
            return gromov_wasserstein(
                *costs, epsilon=0.005, init="random", seed=seed, max_outer=2
            ).plan

    np.testing.assert_array_equal(start(1), start(1))
    assert np.abs(start(1) - start(2)).sum() > 1e-3


def test_exact_match_has_no_negative_cost():
    cost = distances(cloud(20, 3, 34))
    result = gromov_wasserstein(cost, cost, epsilon=0.005, init=np.eye(20))
    assert 0 <= result.gw_cost < 1e-5
    assert result.converged


def test_history_is_the_evidence_of_the_result():
    x, y, _ = rotated_pair(60, 3, 35)
    steps = []
    result = gromov_wasserstein(
        PointCloud(x), PointCloud(y), epsilon=0.005, callback=steps.append
    )
    assert result.converged and result.status == "converged"
    assert tuple(steps) == result.history
    assert [step.iteration for step in steps] == list(range(1, result.n_outer + 1))
    assert result.n_inner == sum(step.n_inner for step in steps)
    last = steps[-1]
    assert last.gw_cost == result.gw_cost
    assert last.marginal_error == result.marginal_error <= 1e-5
    assert last.change <= 1e-5 and last.epsilon == result.epsilon == 0.005
    seconds = [step.seconds for step in steps]
    assert seconds == sorted(seconds) and result.seconds >= seconds[-1]


def test_callback_stops_the_solver():
    x, y = PointCloud(cloud(30, 4, 36)), PointCloud(cloud(30, 4, 37))
    result = gromov_wasserstein(
        x, y, epsilon=0.01, callback=lambda step: step.iteration == 3
    )
    assert result.status == "stopped" and result.n_outer == 3
    assert not result.converged


def test_limit_of_outer_iterations_is_said_and_marginals_still_hold():
    x, y = PointCloud(cloud(80, 4, 38)), PointCloud(cloud(80, 4, 39))
    with pytest.warns(gwfast.ConvergenceWarning, match=r"max_outer.* after 4 outer"):
        result = gromov_wasserstein(x, y, epsilon=0.01, max_outer=4)
    assert result.status == "max_outer" and result.n_outer == 4
    assert result.marginal_error <= 1e-5


def test_leaving_a_saddle_is_not_taken_for_the_end():
    """The change dips below 1e-4 near the product plan before it grows to 0.2."""
    cost_x, cost_y = (
        np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)
        for n in (22, 26)
    )
    result = gromov_wasserstein(cost_x, cost_y, loss="kl", epsilon=4.85)
    assert result.converged
    assert min(step.change for step in result.history[:15]) < 1e-4
    assert max(step.change for step in result.history) > 0.1
    np.testing.assert_allclose(result.gw_cost, 7.70977, rtol=1e-3)


def test_a_marginal_tolerance_beyond_float32_is_said_at_once():
    x, y = PointCloud(cloud(80, 4, 38)), PointCloud(cloud(70, 4, 39))
    with pytest.warns(gwfast.ConvergenceWarning, match="precision"):
        result = gromov_wasserstein(x, y, epsilon=0.05, marginal_tol=1e-9)
    assert result.status == "precision"
    assert result.marginal_error < 3e-6
    reachable = gromov_wasserstein(x, y, epsilon=0.05)
    assert result.n_outer <= reachable.n_outer + 5


def test_limit_of_inner_passes_is_said():
    x, y, _ = rotated_pair(60, 3, 40)
    with pytest.warns(gwfast.ConvergenceWarning):
        result = gromov_wasserstein(
            PointCloud(x), PointCloud(y), epsilon=1e-4, max_inner=2, max_outer=300
        )
    assert result.status in ("max_inner", "max_outer")
    assert max(step.n_inner for step in result.history) <= 2
    assert np.isfinite(result.plan).all()


def test_input_is_left_alone():
    cost_x, cost_y = random_cost(20, 41), random_cost(20, 42)
    p, init = masses(20, 43), np.full((20, 20), 1 / 400)
    before = [a.copy() for a in (cost_x, cost_y, p, init)]
    gromov_wasserstein(cost_x, cost_y, p, p, epsilon=0.1, init=init)
    for array, copy in zip((cost_x, cost_y, p, init), before, strict=True):
        np.testing.assert_array_equal(array, copy)

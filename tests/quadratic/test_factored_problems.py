"""Problems of factors, with every linear cost, marginal rule and tier, against twins
that are written out, and against the same problems as matrices.
"""

import numpy as np
import pytest
from helpers import twins
from helpers.marks import mostly_slow, pairwise
from helpers.problems import masses
from helpers.settings import settings

import gwfast
from gwfast import CrossCost, PointCloud
from gwfast.quadratic.linearize import is_factored

N, M = 26, 32
EPSILON = 0.1
RNG = np.random.default_rng(7)
X, Y = RNG.exponential(size=(N, 5)), RNG.exponential(size=(M, 5))
FEATURES = RNG.normal(size=(N, 4)) / 3, RNG.normal(size=(M, 4)) / 3
COSTS = {
    "cosine": PointCloud,
    "sqeuclidean": lambda x: PointCloud(x, "sqeuclidean").scaled_by("max"),
    "dot": lambda x: PointCloud(x, "dot").scaled_by("max"),
    "low rank": lambda x: gwfast.PointCloud.from_factors(x / 5),
}
LINEAR = {
    "none": None,
    **{name: CrossCost(*FEATURES, name) for name in ("sqeuclidean", "cosine", "dot")},
    "array": CrossCost(*FEATURES).toarray(),
}
RULES = {
    "balanced": "balanced",
    "semirelaxed": "semirelaxed",
    "partial": gwfast.Partial(0.7),
    "unbalanced": gwfast.Unbalanced((0.5, 0.8)),
}
LIMITS = dict(epsilon=EPSILON, init="product", tol=1e-6, marginal_tol=1e-6)
pytestmark = pytest.mark.filterwarnings(
    "ignore::gwfast.ConvergenceWarning", "ignore:the .* term of the fused objective"
)


def stepped(plan, sides, marginals, given, rule):
    """The plan after one more iteration, written out."""
    costs = [side.to_dense().matrix.astype(np.float64) for side in sides]
    linear, kind = given.get("linear_cost"), dict(epsilon=EPSILON)
    if linear is not None:
        array = linear.toarray() if isinstance(linear, CrossCost) else linear
        kind |= dict(linear=array, alpha=given["alpha"])
    if rule == "unbalanced":
        return twins.unbalanced_step(plan, *costs, *marginals, rho=RULES[rule].rho, **kind)
    if rule == "partial":
        kind |= dict(mass=RULES[rule].mass)
    return twins.step(plan, *costs, *(*marginals, None)[:2], marginals=rule, **kind)


@pairwise(cost=COSTS, linear=LINEAR, rule=RULES, tier=["dense", "tiled", "neighbors"])
def test_a_plan_is_a_fixed_point_of_what_is_written_out(cost, linear, rule, tier):
    rng = np.random.default_rng(3)
    marginals = masses(N, rng), masses(M, rng)
    if rule == "semirelaxed":
        marginals = marginals[:1]
    sides = [COSTS[cost](side) for side in (X, Y)]
    given = dict(marginals=RULES[rule])
    if linear != "none":
        given |= dict(linear_cost=LINEAR[linear], alpha=0.4)
    if linear == "array":
        tier = "dense"  # it is a matrix
    else:
        assert is_factored(gwfast.QuadraticProblem(*sides, *marginals, **given))
    result = gwfast.gromov_wasserstein(*sides, *marginals, **given, **settings(tier=tier, **LIMITS))
    plan = result.plan.astype(np.float64)
    again = stepped(plan, sides, marginals, given, rule)
    assert np.abs(again - plan).sum() <= 2e-4 * plan.sum()
    dense = [side.to_dense() for side in sides]
    if isinstance(given.get("linear_cost"), CrossCost):
        given["linear_cost"] = given["linear_cost"].toarray()
    other = gwfast.gromov_wasserstein(*dense, *marginals, **given, **settings(**LIMITS))
    for name in ("gw_cost", "linear_cost", "reg_cost", "mass"):
        one, same = getattr(result, name), getattr(other, name)
        assert one == pytest.approx(same, rel=2e-4, abs=2e-6), name
    np.testing.assert_allclose(plan.sum(axis=1), other.plan.sum(axis=1), atol=2e-4)


def test_semirelaxed_steps_that_cycle_are_damped():
    rng = np.random.default_rng(0)
    x = rng.exponential(size=(300, 20)) * np.arange(1, 21) ** -0.5
    turn = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    y = (x + 0.05 * rng.normal(size=x.shape)) @ turn
    clouds = PointCloud(x), PointCloud(y)
    kind = dict(marginals="semirelaxed", init="product")
    kind |= dict(epsilon=gwfast.Epsilon(relative=0.0175))
    thin = gwfast.gromov_wasserstein(*clouds, **kind)
    dense = gwfast.gromov_wasserstein(*(one.to_dense() for one in clouds), **kind)
    assert thin.status == "converged"
    assert thin.gw_cost <= 1.001 * dense.gw_cost


@pytest.mark.parametrize("rule", mostly_slow(RULES, fast=["partial"]))
def test_the_search_takes_every_rule(rule):
    rng, n = np.random.default_rng(1), 100
    x = rng.exponential(size=(n, 6)) * np.arange(1, 7)
    order = rng.permutation(n)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    sides = PointCloud(x), gwfast.PointCloud.from_factors(unit[order])
    features = rng.normal(size=(n, 3))
    for linear in (None, CrossCost(features, features[order])):
        result = gwfast.gromov_wasserstein(*sides, marginals=RULES[rule], linear_cost=linear)
        assert (result.plan.argmax(axis=0) == order).mean() > 0.9


@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine", "dot"])
def test_cross_costs_are_what_they_say(metric):
    x, y = FEATURES[0] + 100, FEATURES[1] + 100
    cost = CrossCost(x, y, metric)
    unit = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x, y)]
    expected = {
        "sqeuclidean": ((x[:, None] - y) ** 2).sum(axis=2),
        "cosine": 1 - unit[0] @ unit[1].T,
        "dot": x @ y.T,
    }[metric]
    size = max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(cost.toarray(), expected, atol=1e-6 * size)
    rows, cols = np.array([3, 1]), np.array([4, 0, 2])
    part = cost.take(rows, cols)
    np.testing.assert_allclose(part.toarray(), cost.toarray()[np.ix_(rows, cols)])
    p, q = masses(N, np.random.default_rng(0)), masses(M, np.random.default_rng(1))
    assert cost.mean(p, q) == pytest.approx(p @ cost.toarray() @ q, rel=1e-6)


def test_bad_cross_costs_are_refused():
    x, y = FEATURES
    with pytest.raises(ValueError, match="y must have the columns of x, 4, got 3"):
        CrossCost(x, y[:, :3])
    with pytest.raises(ValueError, match="metric must be one of"):
        CrossCost(x, y, "euclidean")
    clouds = PointCloud(X), PointCloud(Y)
    with pytest.raises(ValueError, match=r"linear_cost must have shape \(26, 32\)"):
        gwfast.gromov_wasserstein(*clouds, linear_cost=CrossCost(y, x))

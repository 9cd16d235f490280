"""`verify` of exact plans: the gap is that of the linear program, whoever found it."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud, distances, masses, random_cost
from helpers.twins import half_gradient
from helpers.variants import BETWEEN, M, N, P, Q, costs
from scipy.optimize import linprog

import gwfast
from gwfast import QuadraticProblem, gromov_wasserstein, verify

SOME = dict(
    p=np.where(np.arange(N) % 3, P, 0) / P[np.arange(N) % 3 > 0].sum(),
    q=np.where(np.arange(M) % 4, Q, 0) / Q[np.arange(M) % 4 > 0].sum(),
)
KINDS = {
    "balanced": dict(p=P, q=Q),
    "semirelaxed": dict(p=P, marginals="semirelaxed"),
    "partial": dict(p=P, q=Q, marginals="partial", mass=0.6),
    "partial of all mass": dict(p=P, q=Q, marginals="partial"),
    "uniform": {},
    "without some points": SOME,
    "partial without some points": dict(**SOME, marginals="partial", mass=0.7),
}


def every_kind(**axes):
    losses = dict(loss=["square", "kl"], symmetric=[True, False])
    return pairwise(kind=KINDS, **losses, **axes)


def some_plan(problem):
    """One of its marginals, that is no optimum."""
    made = np.random.default_rng(5).standard_exponential(problem.shape)
    return problem.rule.mend(made)


def least(cost, problem):
    """Of ``<cost, S>`` over plans of these marginals, by HiGHS."""
    (n, m), rule = cost.shape, problem.rule
    rows, cols = np.kron(np.eye(n), np.ones((1, m))), np.tile(np.eye(m), n)
    if rule.takes_mass:
        given = dict(A_ub=np.vstack([rows, cols]), b_ub=np.append(rule.p, rule.q))
        given |= dict(A_eq=np.ones((1, n * m)), b_eq=[rule.mass])
    elif not rule.takes_q:
        given = dict(A_eq=rows, b_eq=rule.p)
    else:
        given = dict(A_eq=np.vstack([rows, cols]), b_eq=np.append(rule.p, rule.q))
    return linprog(cost.ravel(), **given, method="highs-ds").fun


@every_kind(fused=[False, True])
def test_the_gap_of_any_plan_is_that_of_a_linear_program(kind, loss, symmetric, fused):
    kind, options = KINDS[kind], {}
    if fused:
        options = dict(linear_cost=BETWEEN, alpha=0.3)
    x, y = costs(symmetric)
    problem = QuadraticProblem(x, y, **kind, loss=loss, **options)
    plan = some_plan(problem)
    found = verify(problem, plan, epsilon=0)
    half = half_gradient(plan, x, y, loss, options.get("linear_cost"), 0.3)
    gap = 2 * (np.vdot(half, plan) - least(half, problem))
    assert gap > 0.01
    assert found.stationarity.value * found.gw_cost == pytest.approx(gap, rel=1e-6)
    assert found.failed == ("stationarity",)


@every_kind()
@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_all_holds_for_exact_plans(kind, loss, symmetric):
    kind = KINDS[kind]
    problem = QuadraticProblem(*costs(symmetric), **kind, loss=loss)
    result = gromov_wasserstein(
        *costs(symmetric), **kind, loss=loss, epsilon=0, init="product"
    )
    found = verify(problem, result)
    assert found.holds or not result.converged, str(found)
    assert found.failed in ((), ("stationarity",))
    value = abs(found.gw_cost)
    if result.converged:
        assert found.stationarity.value * value == pytest.approx(result.gap, abs=1e-12)
    assert found.epsilon == 0 and found.truncation.value == 0
    for plan in (result.plan, result.coupling, result.sparse_plan.toarray()):
        again = verify(problem, plan, epsilon=0)
        assert again.stationarity == found.stationarity


def exact_pair():
    sides = random_cost(9, 1), random_cost(7, 2)
    given = dict(p=masses(9, 1), q=masses(7, 2))
    problem = QuadraticProblem(*sides, **given)
    return problem, gromov_wasserstein(*sides, **given, epsilon=0)


def test_every_perturbation_of_an_exact_plan_is_caught():
    problem, result = exact_pair()
    plan = result.plan
    assert verify(problem, plan, epsilon=0).holds
    product = np.multiply.outer(problem.p, problem.q)
    mixed = 0.99 * plan + 0.01 * product
    assert verify(problem, mixed, epsilon=0).failed == ("stationarity",)
    more = verify(problem, 1.001 * plan, epsilon=0)
    assert {"mass", "marginals"} <= {*more.failed}
    swapped = plan.copy()
    swapped[[0, 1]] = plan[[1, 0]]
    assert verify(problem, swapped, epsilon=0).failed


def test_plans_with_entropy_are_not_exact_and_the_other_way_round():
    problem, result = exact_pair()
    sides = problem.x.matrix, problem.y.matrix, problem.p, problem.q
    entropic = gromov_wasserstein(*sides, epsilon=0.03, init="product")
    assert "stationarity" in verify(problem, entropic, epsilon=0).failed
    assert "stationarity" in verify(problem, result, epsilon=0.01).failed


def test_a_looser_tolerance_is_that_of_the_gap():
    x, y = (distances(cloud(n, 2, n)) for n in (20, 15))
    problem = QuadraticProblem(x, y)
    with pytest.warns(gwfast.ConvergenceWarning):
        result = gromov_wasserstein(x, y, epsilon=0, init="product", max_outer=1)
    value = verify(problem, result).stationarity.value
    assert value > 1e-5
    assert not verify(problem, result, tol=value / 1.001).holds
    assert verify(problem, result, tol=1.001 * value).holds


def test_a_plan_of_a_space_with_itself_holds():
    """The objective is zero, and all is rounding."""
    cost = distances(cloud(12, 2, 0))
    problem = QuadraticProblem(cost, cost)
    found = verify(problem, np.eye(12) / 12, epsilon=0)
    assert found.holds, str(found)
    order = np.random.default_rng(0).permutation(12)
    wrong = verify(problem, np.eye(12)[order] / 12, epsilon=0)
    assert wrong.failed == ("stationarity",)


@pytest.mark.parametrize("cost", [0.0, 0.5])
def test_all_plans_of_constant_costs_hold(cost):
    problem = QuadraticProblem(np.full((3, 3), cost), np.full((4, 4), cost))
    assert verify(problem, some_plan(problem), epsilon=0).holds


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean", "dot"])
def test_exact_plans_of_point_clouds_are_verified(metric):
    x, y = (gwfast.PointCloud(cloud(n, 3, n), metric) for n in (25, 20))
    result = gromov_wasserstein(x, y, epsilon=0, init="product")
    assert result.converged
    found = verify(QuadraticProblem(x, y), result)
    assert found.holds, str(found)


def test_what_has_no_meaning_or_does_not_fit_is_refused():
    problem, result = exact_pair()
    for method in ("ppa", "bapg"):
        with pytest.raises(ValueError, match="method must be 'pgd' with epsilon=0"):
            verify(problem, result, method=method)
    assert verify(problem, result, method="pgd").holds
    for epsilon in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="epsilon must be non-negative and finite"):
            verify(problem, result, epsilon=epsilon)
    with pytest.raises(MemoryError, match="verifying a plan of 9 x 7"):
        verify(problem, result, memory_limit=100)

"""`verify` accepts what solvers find, and catches whatever is wrong with a plan."""

import dataclasses
import functools

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import cloud, distances, masses, random_cost, rotated_pair
from helpers.settings import settings
from helpers.twins import half_gradient
from helpers.variants import BETWEEN, VARIANTS, M, N, P, Q, costs, masses_of
from scipy.optimize import linprog

import gwfast
from gwfast import QuadraticProblem, gromov_wasserstein, verify

OF_PROBLEM = "loss", "linear_cost", "alpha", "marginals"
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def problem_of(options):
    sides = *costs(), *masses_of(options)
    return QuadraticProblem(
        *sides, **{key: value for key, value in options.items() if key in OF_PROBLEM}
    )


def solved(**options):
    """A problem, and its solution."""
    options = {"epsilon": 0.05, "init": "product", **options}
    return problem_of(options), gromov_wasserstein(
        *costs(), *masses_of(options), **settings(**options)
    )


@pairwise(variant=VARIANTS, loss=["square", "kl"], dtype=["float32", "float64"])
def test_all_holds_for_what_solvers_find(variant, loss, dtype):
    options = dict(VARIANTS[variant], loss=loss, dtype=dtype)
    problem, result = solved(**options)
    found = verify(problem, result)
    assert found.holds, str(found)
    assert found.stationarity.bound < 1e-3
    # The plan alone, as a peer's would come.
    alone = dict(epsilon=result.epsilon, method=result.method)
    assert verify(problem, result.plan, **alone).holds
    assert verify(problem, result.coupling, **alone).holds


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_perturbation_of_a_plan_is_caught(variant, dtype):
    problem, result = solved(**VARIANTS[variant], dtype=dtype)
    plan, rng = result.plan, np.random.default_rng(0)
    noisy = plan * rng.uniform(0.99, 1.01, plan.shape).astype(plan.dtype)
    given = dict(epsilon=result.epsilon, method=result.method)
    # Where the plan is nearly a vertex, only its marginals can be wrong.
    vertex = variant in ("fused ppa", "semirelaxed ppa")
    expected = "marginals" if vertex else "stationarity"
    assert expected in verify(problem, noisy, **given).failed
    more = plan * plan.dtype.type(1.001)
    assert {"mass", "marginals"} <= {*verify(problem, more, **given).failed}
    swapped = plan.copy()
    swapped[[0, 1]] = plan[[1, 0]]
    failed = {*verify(problem, swapped, **given).failed}
    assert failed & {"stationarity", "marginals"}


@pytest.mark.parametrize("variant", ["plain", "fused", "semirelaxed", "partial"])
def test_another_epsilon_is_caught(variant):
    problem, result = solved(**VARIANTS[variant])
    for factor in (0.99, 1.01, 10.0):
        found = verify(problem, result, epsilon=factor * result.epsilon)
        assert "stationarity" in found.failed


def test_other_masses_costs_losses_and_methods_are_caught():
    problem, result = solved()
    x, y = costs()
    kl = QuadraticProblem(x, y, P, Q, loss="kl")
    assert "stationarity" in verify(kl, result).failed
    others = QuadraticProblem(x, y, P, masses(len(Q), 77))
    found = verify(others, result.plan, epsilon=result.epsilon)
    assert {"cols", "marginals"} <= {*found.failed}
    with pytest.raises(ValueError, match=r"^problem must have the q that result was"):
        verify(others, result)
    with pytest.raises(ValueError, match=r"^problem must have the p that result was"):
        verify(QuadraticProblem(x, y, None, Q), result)
    partial = QuadraticProblem(x, y, P, Q, marginals=gwfast.Partial(0.7))
    with pytest.raises(ValueError, match=r"^problem must have balanced marginals, a"):
        verify(partial, result)
    assert result.marginals.name == "balanced"
    np.testing.assert_array_equal(result.marginals.p, P)
    scaled = verify(QuadraticProblem(1.01 * x, 1.01 * y, P, Q), result)
    assert {"stationarity", "objective"} <= {*scaled.failed}
    assert "stationarity" in verify(problem, result, method="ppa").failed
    assert verify(problem, result, method="bapg").failed


def test_reported_numbers_that_are_wrong_are_caught():
    problem, result = solved()
    for name, expected in (("gw_cost", "objective"), ("reg_cost", "reg_objective")):
        wrong = dataclasses.replace(result, **{name: getattr(result, name) * 1.001})
        assert verify(problem, wrong).failed == (expected,)
    assert verify(problem, result).gw_cost == pytest.approx(result.gw_cost, rel=1e-4)


def test_what_a_truncated_plan_lacks_is_measured():
    problem, result = solved()
    plan = result.plan.copy()
    row, col = np.unravel_index(plan.argmax(), plan.shape)
    share = plan[row, col]
    plan[row, col] = 0.0
    found = verify(problem, plan, epsilon=result.epsilon)
    assert found.truncation.value > share / 2 and "stationarity" in found.failed
    result.coupling.array[...] = plan
    assert "truncation" in verify(problem, result).failed


@pytest.mark.parametrize(
    "name, bad, value",
    [("not_finite", np.nan, 2), ("not_finite", -np.inf, 2), ("negative", -1e-6, 2e-6)],
)
def test_entries_that_are_no_numbers_or_negative_are_caught(name, bad, value):
    problem, result = solved()
    plan = result.plan.copy()
    plan[1, 2] = plan[3, 4] = bad
    found = verify(problem, plan, epsilon=0.05)
    assert name in found.failed and name in str(found)
    assert found.residuals[name].value == pytest.approx(value)
    if name == "not_finite":
        assert not found.marginals.holds and "stationarity" in found.failed


def test_a_partial_plan_that_favors_points_is_caught():
    """One that is a Gibbs plan, but of other masses than all that there are."""
    problem, _ = solved(**VARIANTS["partial"])
    p, q = P * np.linspace(0.3, 1.0, len(P)), Q
    less = dict(marginals=gwfast.Partial(0.6 / p.sum()), epsilon=0.05 * p.sum())
    other = gromov_wasserstein(*costs(), p / p.sum(), q, **less)
    plan = other.plan * p.sum()
    assert verify(problem, plan, epsilon=0.05).failed


def test_point_clouds_are_verified_in_blocks_of_rows():
    """Plans of 1500 x 800 entries, more than fit a block, in any order of the points."""
    x, y, _ = rotated_pair(1500, 3, 1, noise=0.1)
    x, y, order = x[:, :2], y[:800], np.random.default_rng(0).permutation(1500)
    clouds = gwfast.PointCloud(x), gwfast.PointCloud(y)
    result = gromov_wasserstein(*clouds, init="product")
    whole = verify(QuadraticProblem(*clouds), result)
    assert whole.holds, str(whole)
    other = QuadraticProblem(gwfast.PointCloud(x[order]), clouds[1])
    turned = verify(other, result.plan[order], epsilon=result.epsilon)
    assert turned.holds and turned.gw_cost == pytest.approx(whole.gw_cost, rel=1e-10)


def test_asymmetric_costs_have_the_mean_of_both_orientations(dtype):
    x, y = costs(symmetric=False)
    result = gromov_wasserstein(x, y, P, Q, epsilon=0.05, dtype=dtype)
    assert verify(QuadraticProblem(x, y, P, Q), result).holds
    assert "stationarity" in verify(QuadraticProblem(x, y.T, P, Q), result).failed


def test_a_verification_reads_as_a_table():
    problem, result = solved()
    found = verify(problem, result)
    assert str(found).count("\n") == len(found.residuals) == 10
    assert "all hold" in str(found) and "stationarity" in repr(found)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.mass = 0
    early = solved(max_iter=2)[1]
    assert early.status == "max_iter"
    assert "stationarity" in verify(problem, early).failed
    wrong = verify(problem, result, epsilon=1.0)
    assert "not: stationarity" in str(wrong) and "exceeds" in str(wrong)


def test_costs_that_do_not_fit_are_refused_with_numbers():
    problem, result = solved()
    with pytest.raises(MemoryError, match=r"9 x 7 takes .* memory_limit is 1e-07"):
        verify(problem, result, memory_limit=100)
    clouds = QuadraticProblem(*(gwfast.PointCloud(cloud(9, 3, s)) for s in (1, 2)))
    with pytest.raises(MemoryError, match="memory_limit"):
        verify(clouds, np.ones((9, 9)), epsilon=1.0, memory_limit=100)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        (dict(problem=3), TypeError, "problem must be a QuadraticProblem, got int"),
        (dict(result=np.ones((2, 2))), ValueError, "result must have shape"),
        (dict(result=None), TypeError, "result must hold real numbers"),
        (dict(epsilon=None), ValueError, "epsilon must be given"),
        (dict(epsilon=-1.0), ValueError, "epsilon must be non-negative"),
        (dict(method="sgd"), ValueError, "method must be one of"),
        (dict(tol=0.0), ValueError, "tol must be positive"),
        (dict(marginal_tol=0.0), ValueError, "marginal_tol must be positive"),
        (dict(max_iter=0), ValueError, "max_iter must be at least 1"),
    ],
)
def test_wrong_arguments_are_named(changes, error, message):
    given = dict(problem=problem_of({}), result=np.ones((9, 7)) / 63, epsilon=1.0)
    given |= changes
    with pytest.raises(error, match=message):
        verify(given.pop("problem"), given.pop("result"), **given)


def test_rounding_of_the_costs_of_verify_itself_is_counted():
    """The kl loss of costs around 1e6: terms of 1e7 that cancel are known to 1e-9, and
    to epsilon they are not. One row has a single plan."""
    x = np.array([[1e6]])
    y = np.array([[1e6 + 0.375, 1e6 + 0.25], [1e6 + 0.9375, 1e6 + 0.0625]])
    problem = QuadraticProblem(x, y, loss="kl")
    plan = np.array([[0.5, 0.5]])
    found = verify(problem, plan, epsilon=4.4e-16, max_iter=50)
    assert found.holds and found.stationarity.value < found.stationarity.bound <= 0.1
    # Where it is known better, the bound is that of the tolerance.
    assert verify(problem, plan, epsilon=1.0).stationarity.bound < 1.1e-4


@pytest.mark.parametrize("epsilon", [0, 0.1])
def test_a_plan_without_mass_does_not_hold(epsilon):
    problem = QuadraticProblem(np.eye(3), np.eye(3))
    assert not verify(problem, np.zeros((3, 3)), epsilon=epsilon).holds


SOME = dict(
    p=np.where(np.arange(N) % 3, P, 0) / P[np.arange(N) % 3 > 0].sum(),
    q=np.where(np.arange(M) % 4, Q, 0) / Q[np.arange(M) % 4 > 0].sum(),
)
KINDS = {
    "balanced": dict(p=P, q=Q),
    "semirelaxed": dict(p=P, marginals="semirelaxed"),
    "partial": dict(p=P, q=Q, marginals=gwfast.Partial(0.6)),
    "partial of all mass": dict(p=P, q=Q, marginals=gwfast.Partial(1.0)),
    "uniform": {},
    "without some points": SOME,
    "partial without some points": dict(**SOME, marginals=gwfast.Partial(0.7)),
}


def every_kind(**axes):
    losses = dict(loss=["square", "kl"], symmetric=[True, False])
    return pairwise(kind=KINDS, **losses, **axes)


def some_plan(problem):
    """One of its marginals, that is no optimum."""
    rule = problem.rule
    made = np.random.default_rng(5).standard_exponential(problem.shape)
    if not rule.takes_q:
        return made * (rule.p / made.sum(axis=1))[:, None]
    p, q = (rule.mass * masses / masses.sum() for masses in (rule.p, rule.q))
    for _ in range(300):
        made *= (p / np.maximum(made.sum(axis=1), 1e-300))[:, None]
        made *= q / np.maximum(made.sum(axis=0), 1e-300)
    return made


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
def test_all_holds_for_exact_plans(kind, loss, symmetric):
    kind = KINDS[kind]
    problem = QuadraticProblem(*costs(symmetric), **kind, loss=loss)
    result = gromov_wasserstein(*costs(symmetric), **kind, loss=loss, epsilon=0, init="product")
    found = verify(problem, result)
    assert found.holds or not result.converged, str(found)
    assert found.failed in ((), ("stationarity",))
    value = abs(found.gw_cost)
    if result.converged:
        assert found.stationarity.value * value == pytest.approx(result.gap, abs=1e-12)
    assert found.epsilon == 0 and found.truncation.value == 0
    for plan in (result.plan, result.coupling, result.coupling.tocsr(0.0).toarray()):
        again = verify(problem, plan, epsilon=0)
        assert again.stationarity == found.stationarity


@functools.cache
def exact_pair():
    sides = random_cost(9, 1), random_cost(7, 2)
    given = dict(p=masses(9, 1), q=masses(7, 2))
    problem = QuadraticProblem(*sides, **given)
    return problem, gromov_wasserstein(*sides, **given, epsilon=0, init="product")


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
        result = gromov_wasserstein(x, y, epsilon=0, init="product", max_iter=1)
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

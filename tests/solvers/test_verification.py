"""`verify` accepts plans of solvers, and catches plans that are wrong in any way."""

import dataclasses

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import BETWEEN, N, P, Q, cloud, costs, distances, rotated_pair, settings
from helpers.twins import half_gradient
from scipy.optimize import linprog

import gwfast
from gwfast import PointCloud, QuadraticProblem, gromov_wasserstein, verify

OF_PROBLEM = "loss", "linear_cost", "alpha", "marginals"
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
EXCHANGED = [1, 0, *range(2, N)]
FUSED = dict(linear_cost=BETWEEN, alpha=0.3)
PLAIN = {
    "plain": {},
    "ppa": dict(method="ppa"),
    "bapg": dict(method="bapg"),
    "semirelaxed": dict(marginals="semirelaxed"),
    "partial": dict(marginals=gwfast.Partial(0.6)),
}
VARIANTS = PLAIN | {f"fused {name}": FUSED | options for name, options in PLAIN.items()}
VARIANTS |= {
    f"{name} ppa": dict(method="ppa", **PLAIN[name]) for name in ("semirelaxed", "partial")
}


def solved(symmetric=True, **options):
    """A problem, and its solution."""
    terms = {name: options.pop(name) for name in OF_PROBLEM if name in options}
    q = None if terms.get("marginals") == "semirelaxed" else Q
    problem = QuadraticProblem(*costs(symmetric), P, q, **terms)
    options = {"epsilon": 0.05, "init": "product"} | options
    return problem, gromov_wasserstein(problem, **settings(**options))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_plan_holds_and_every_perturbation_is_caught(variant, dtype):
    problem, result = solved(**VARIANTS[variant], dtype=dtype)
    given, plan = dict(epsilon=result.epsilon, method=result.method), result.plan
    for alone in (plan, result.coupling):  # as from another solver
        assert verify(problem, alone, **given).holds
    found = verify(problem, result)
    assert found.holds and found.stationarity.bound < 1e-3, str(found)
    noise = np.random.default_rng(0).uniform(0.99, 1.01, plan.shape).astype(plan.dtype)
    # Where the plan is nearly a vertex, only its marginals can be wrong.
    vertex = variant in ("fused ppa", "semirelaxed ppa")
    expected = "marginals" if vertex else "stationarity"
    assert expected in verify(problem, plan * noise, **given).failed
    more = verify(problem, plan * plan.dtype.type(1.001), **given)
    assert {"mass", "marginals"} <= {*more.failed}
    failed = {*verify(problem, plan[EXCHANGED], **given).failed}
    assert failed & {"stationarity", "marginals"}
    if "method" not in VARIANTS[variant]:
        for factor in (0.99, 1.01, 10.0):
            other = verify(problem, result, epsilon=factor * result.epsilon)
            assert "stationarity" in other.failed


def test_other_problems_and_methods_are_caught():
    problem, result = solved()
    x, y = costs()
    kl = QuadraticProblem(x, y, P, Q, loss="kl")
    assert "stationarity" in verify(kl, result).failed
    others = QuadraticProblem(x, y, P, Q[::-1])
    found = verify(others, result.plan, epsilon=result.epsilon)
    assert {"cols", "marginals"} <= {*found.failed}
    partial = QuadraticProblem(x, y, P, Q, marginals=gwfast.Partial(0.7))
    uniform = QuadraticProblem(x, y, None, Q)
    for name, other in (("q", others), ("p", uniform), ("balanced", partial)):
        with pytest.raises(ValueError, match=rf"^problem .* {name} "):
            verify(other, result)
    scaled = verify(QuadraticProblem(1.01 * x, 1.01 * y, P, Q), result)
    assert {"stationarity", "objective"} <= {*scaled.failed}
    assert "stationarity" in verify(problem, result, method="ppa").failed
    assert verify(problem, result, method="bapg").failed
    problem, result = solved(symmetric=False)
    x, y = costs(symmetric=False)
    assert verify(problem, result).holds
    assert "stationarity" in verify(QuadraticProblem(x, y.T, P, Q), result).failed


def test_wrong_numbers_and_a_partial_plan_that_favors_points_are_caught():
    problem, result = solved()
    for name, expected in (("gw_cost", "objective"), ("reg_cost", "reg_objective")):
        wrong = dataclasses.replace(result, **{name: getattr(result, name) * 1.001})
        assert verify(problem, wrong).failed == (expected,)
    found = verify(problem, result)
    assert found.gw_cost == pytest.approx(result.gw_cost, rel=1e-4)
    assert str(found).count("\n") == len(found.residuals) == 10 and str(found) in repr(found)
    early = verify(problem, solved(max_iter=2)[1])
    assert "stationarity" in early.failed and "not: stationarity" in str(early)
    # It is a Gibbs plan, but of other masses.
    problem, _ = solved(**VARIANTS["partial"])
    p = P * np.linspace(0.3, 1.0, N)
    less = dict(marginals=gwfast.Partial(0.6 / p.sum()), epsilon=0.05 * p.sum())
    other = gromov_wasserstein(*costs(), p / p.sum(), Q, **less)
    assert verify(problem, other.plan * p.sum(), epsilon=0.05).failed


def test_entries_that_are_lacking_or_no_masses_are_measured():
    problem, result = solved()
    plan = result.plan.copy()
    row, col = np.unravel_index(plan.argmax(), plan.shape)
    share, plan[row, col] = plan[row, col], 0.0
    found = verify(problem, plan, epsilon=result.epsilon)
    assert found.truncation.value > share / 2 and "stationarity" in found.failed
    result.coupling.array[...] = plan
    assert "truncation" in verify(problem, result).failed
    for bad, name, value in (((np.nan, -np.inf), "not_finite", 2), (-1e-6, "negative", 2e-6)):
        plan[[1, 3], [2, 4]] = bad
        found = verify(problem, plan, epsilon=0.05)
        assert found.residuals[name].value == pytest.approx(value) and name in found.failed
        assert name == "negative" or {"marginals", "stationarity"} <= {*found.failed}


def test_point_clouds_are_verified_in_blocks_of_rows():
    """Plans of more entries than fit a block, in any order of the points."""
    x, y, _ = rotated_pair(1500, 3, 1, noise=0.1)
    order, y = np.random.default_rng(0).permutation(1500), PointCloud(y[:800])
    problem = QuadraticProblem(PointCloud(x[:, :2]), y)
    result = gromov_wasserstein(problem, init="product", epsilon="20%")
    whole = verify(problem, result)
    other = QuadraticProblem(PointCloud(x[order, :2]), y)
    turned = verify(other, result.plan[order], epsilon=result.epsilon)
    assert whole.holds and turned.holds, str(whole)
    assert turned.gw_cost == pytest.approx(whole.gw_cost, rel=1e-10)


def test_rounding_of_costs_of_verify_itself_and_of_objectives_is_counted():
    """The kl loss of costs around 1e6: terms of 1e7 that cancel are known to 1e-9, and
    to epsilon they are not. One row has a single plan."""
    x = np.array([[1e6]])
    y = np.array([[1e6 + 0.375, 1e6 + 0.25], [1e6 + 0.9375, 1e6 + 0.0625]])
    problem, plan = QuadraticProblem(x, y, loss="kl"), np.array([[0.5, 0.5]])
    found = verify(problem, plan, epsilon=4.4e-16, max_iter=50)
    assert found.holds and found.stationarity.value < found.stationarity.bound <= 0.1
    # Where it is known better, the bound is the tolerance's.
    assert verify(problem, plan, epsilon=1.0).stationarity.bound < 1.1e-4
    cost, order = distances(cloud(12, 2, 0)), np.random.default_rng(0).permutation(12)
    problem = QuadraticProblem(cost, cost)
    assert verify(problem, np.eye(12) / 12, epsilon=0).holds
    assert verify(problem, np.eye(12)[order] / 12, epsilon=0).failed == ("stationarity",)
    for cost in (0.0, 0.5):
        constant = QuadraticProblem(np.full((3, 3), cost), np.full((4, 4), cost))
        assert verify(constant, product_plan(constant), epsilon=0).holds
    for epsilon in (0, 0.1):
        assert not verify(problem, np.zeros((12, 12)), epsilon=epsilon).holds


def zeroed(weights, every):
    """The masses without some points."""
    weights = np.where(np.arange(len(weights)) % every, weights, 0)
    return weights / weights.sum()


SOME = dict(p=zeroed(P, 3), q=zeroed(Q, 4))
KINDS = {
    "balanced": dict(p=P, q=Q),
    "semirelaxed": dict(p=P, marginals="semirelaxed"),
    "partial": dict(p=P, q=Q, marginals=gwfast.Partial(0.6)),
    "partial of all mass": dict(p=P, q=Q, marginals=gwfast.Partial(1.0)),
    "uniform": {},
    "without some points": SOME,
    "partial without some points": dict(**SOME, marginals=gwfast.Partial(0.7)),
}


def product_plan(problem):
    rows, cols = problem.rule.product()
    return np.multiply.outer(rows, cols / rows.sum())


def least(cost, problem):
    """The least ``<cost, S>`` over plans of these marginals, by HiGHS."""
    (n, m), rule = cost.shape, problem.rule
    rows, cols = np.kron(np.eye(n), np.ones((1, m))), np.tile(np.eye(m), n)
    sides = np.vstack([rows, cols] if rule.takes_q else [rows])
    sums = np.append(rule.p, rule.q) if rule.takes_q else rule.p
    bounds = dict(A_eq=sides, b_eq=sums)
    if rule.takes_mass:
        bounds = dict(A_ub=sides, b_ub=sums, A_eq=np.ones((1, n * m)), b_eq=[rule.mass])
    return linprog(cost.ravel(), **bounds, method="highs-ds").fun


@pairwise(kind=KINDS, loss=["square", "kl"], symmetric=[True, False], fused=[False, True])
def test_the_gap_is_that_of_a_linear_program_and_of_the_solver(kind, loss, symmetric, fused):
    options = dict(linear_cost=BETWEEN, alpha=0.3) if fused else {}
    x, y = costs(symmetric)
    problem = QuadraticProblem(x, y, **KINDS[kind], loss=loss, **options)
    plan = product_plan(problem)
    found = verify(problem, plan, epsilon=0)
    half = half_gradient(plan, x, y, loss, options.get("linear_cost"), 0.3)
    gap = 2 * (np.vdot(half, plan) - least(half, problem))
    assert gap > 1e-3 and found.failed == ("stationarity",)
    assert found.stationarity.value * found.gw_cost == pytest.approx(gap, rel=1e-6)
    result = gromov_wasserstein(problem, epsilon=0, init="product")
    found = verify(problem, result)
    assert found.failed in ((), ("stationarity",)[: not result.converged]), str(found)
    if result.converged:
        value = found.stationarity.value * abs(found.gw_cost)
        assert value == pytest.approx(result.gap, abs=1e-12)
    assert found.epsilon == 0 and found.truncation.value == 0 and found.marginals.value < 1e-14
    assert result.gw_cost == pytest.approx(found.gw_cost, rel=1e-11, abs=1e-13)
    assert result.linear_cost == pytest.approx(found.linear_cost, rel=1e-12)
    for plan in (result.plan, result.coupling, result.coupling.tocsr(0.0).toarray()):
        assert verify(problem, plan, epsilon=0).stationarity == found.stationarity


def test_every_perturbation_of_an_exact_plan_is_caught():
    problem, result = solved(epsilon=0)
    plan, product = result.plan, np.multiply.outer(P, Q)
    assert verify(problem, result, method="pgd").holds
    mixed = 0.99 * plan + 0.01 * product
    assert verify(problem, mixed, epsilon=0).failed == ("stationarity",)
    assert {"mass", "marginals"} <= {*verify(problem, 1.001 * plan, epsilon=0).failed}
    assert verify(problem, plan[EXCHANGED], epsilon=0).failed
    # Nor is a plan with entropy exact, nor the other way round.
    assert "stationarity" in verify(problem, solved()[1], epsilon=0).failed
    assert "stationarity" in verify(problem, result, epsilon=0.01).failed
    # A looser tolerance is for the gap.
    problem, result = solved(epsilon=0, max_iter=1)
    value = verify(problem, result).stationarity.value
    assert value > 1e-5 and not verify(problem, result, tol=value / 1.001).holds
    assert verify(problem, result, tol=1.001 * value).holds


@pytest.mark.parametrize("kind", ["ppa", "bapg", "partial"])
def test_plans_that_converged_do_not_move_on(kind):
    n_converged = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(int(rng.integers(5, 20)), 3))
        x, y = distances(z), distances(z + 0.1 * rng.normal(size=z.shape))
        if seed % 2:
            x = rng.random(x.shape)
            y = x + 0.1 * rng.random(x.shape)
        p, q = (10.0 ** rng.uniform(-6 * (seed % 3 == 0), 0, len(z)) for _ in "pq")
        rule = gwfast.Partial(0.8) if kind == "partial" else "balanced"
        problem = gwfast.QuadraticProblem(x, y, p / p.sum(), q / q.sum(), marginals=rule)
        result = gwfast.gromov_wasserstein(
            problem,
            epsilon=("5%", "0.5%")[seed // 2 % 2],
            dtype=("float32", "float64")[seed // 4 % 2],
            # The outer loop in Python, or the compiled one.
            callback=(None, lambda step: False)[seed // 8 % 2],
            options=gwfast.SolverOptions(method="pgd" if kind == "partial" else kind),
        )
        if result.status == "converged":
            n_converged += 1
            proof = gwfast.verify(problem, result)
            assert proof.holds, (seed, str(proof))
    assert n_converged >= 4


def test_a_wrong_permutation_is_no_end_of_proximal_steps():
    rng = np.random.default_rng(0)
    cost = distances(rng.normal(size=(12, 3)))
    problem, plan = gwfast.QuadraticProblem(cost, cost), np.eye(12)[rng.permutation(12)] / 12
    proof = gwfast.verify(problem, plan, epsilon=0.006 * np.square(cost).mean(), method="ppa")
    assert proof.failed == ("gap",) and proof.gap.value > 0.05
    # From there sharp steps move nothing, and the result says that there is more to find.
    with pytest.warns(gwfast.ConvergenceWarning, match="falls by .* towards another plan"):
        found = gwfast.gromov_wasserstein(
            problem, epsilon=proof.epsilon, init=plan, options=gwfast.SolverOptions(method="ppa")
        )
    assert found.status == "uncertain"
    right = gwfast.verify(problem, np.eye(12) / 12, epsilon=proof.epsilon, method="ppa")
    assert right.holds and right.gap.value < 1e-9


def test_costs_between_clouds_are_taken_by_rows(monkeypatch):
    """A matrix of these costs has no place beside a plan of 50,000 points."""
    x, y, _ = rotated_pair(60, 3, 5, noise=0.05)
    between = gwfast.CrossCost(x, y)
    sides = PointCloud(x, "sqeuclidean"), PointCloud(y, "sqeuclidean")
    result = gromov_wasserstein(*sides, linear_cost=between, epsilon=0.05)
    stored = verify(QuadraticProblem(*sides, linear_cost=between.toarray()), result)
    monkeypatch.setattr(gwfast.CrossCost, "toarray", None)
    found = verify(QuadraticProblem(*sides, linear_cost=between), result)
    assert found.holds and stored.holds
    assert found.linear_cost == pytest.approx(stored.linear_cost, rel=1e-12)
    assert found.stationarity.value == pytest.approx(stored.stationarity.value, rel=1e-6)

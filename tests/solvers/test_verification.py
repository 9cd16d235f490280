"""`verify` accepts what solvers find, and catches whatever is wrong with a plan."""

import dataclasses

import numpy as np
import pytest
from helpers.problems import cloud, masses, rotated_pair
from helpers.variants import VARIANTS, P, Q, costs, masses_of

import gwfast
from gwfast import QuadraticProblem, gromov_wasserstein, verify
from gwfast.quadratic import reference

OF_PROBLEM = "loss", "linear_cost", "alpha", "marginals", "mass"
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
        *costs(), *masses_of(options), **options
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("loss", ["square", "kl"])
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
    partial = QuadraticProblem(x, y, P, Q, marginals="partial", mass=0.7)
    with pytest.raises(ValueError, match=r"^problem must have marginals='balanced', a"):
        verify(partial, result)
    assert result.marginals == "balanced"
    np.testing.assert_array_equal(result.p, P)
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
    share = plan[row, col] / P[row]
    plan[row, col] = 0.0
    found = verify(problem, plan, epsilon=result.epsilon)
    assert found.truncation.value > share / 2 and "stationarity" in found.failed
    result.coupling.array[...] = plan
    assert "truncation" in verify(problem, result).failed


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_entries_that_are_no_numbers_are_counted(bad):
    problem, result = solved()
    plan = result.plan.copy()
    plan[1, 2] = plan[3, 4] = bad
    found = verify(problem, plan, epsilon=0.05)
    assert found.not_finite.value == 2 and not found.marginals.holds
    assert "stationarity" in found.failed and "not_finite" in str(found)


def test_negative_entries_are_caught():
    problem, result = solved()
    plan = result.plan.copy()
    plan[1, 2] = -1e-6
    found = verify(problem, plan, epsilon=0.05)
    assert "negative" in found.failed
    assert found.negative.value == pytest.approx(1e-6)


def test_a_partial_plan_that_favors_points_is_caught():
    """One that is a Gibbs plan, but of other masses than all that there are."""
    problem, _ = solved(**VARIANTS["partial"])
    p, q = P * np.linspace(0.3, 1.0, len(P)), Q
    less = dict(marginals="partial", mass=0.6 / p.sum(), epsilon=0.05 * p.sum())
    other = gromov_wasserstein(*costs(), p / p.sum(), q, **less)
    plan = other.plan * p.sum()
    assert verify(problem, plan, epsilon=0.05).failed


@pytest.mark.parametrize("tier", ["dense", "sparse", "tiled"])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_point_clouds_are_verified_in_blocks_of_rows(tier, metric, monkeypatch):
    x, y = (
        gwfast.PointCloud(side, metric)
        for side in rotated_pair(60, 3, 1, noise=0.1)[:2]
    )
    problem = QuadraticProblem(x, y)
    result = gromov_wasserstein(x, y, tier=tier, init="product")
    whole = verify(problem, result)
    assert whole.holds, str(whole)
    monkeypatch.setattr(reference, "KEPT_BYTES", 0)
    monkeypatch.setattr(
        reference, "row_blocks", lambda n, m: [slice(i, i + 7) for i in range(0, n, 7)]
    )
    blocks = verify(problem, result)
    assert blocks.holds
    for name, residual in whole.residuals.items():
        assert blocks.residuals[name].value == pytest.approx(residual.value, abs=1e-9)


def test_factors_and_matrices_of_point_clouds_give_the_same_costs():
    x, y = (gwfast.PointCloud(side, "dot") for side in rotated_pair(30, 3, 1)[:2])
    problem = QuadraticProblem(x, y)
    features = [z.features.astype(np.float64) for z in (x, y)]
    as_matrices = QuadraticProblem(
        *(z.scale * f @ f.T for z, f in zip((x, y), features, strict=True))
    )
    plan = np.random.default_rng(0).random((30, 30))
    found, other = (
        reference.ReferenceLinearization(
            reference.costs_of(one, False), plan.__getitem__
        )
        for one in (problem, as_matrices)
    )
    assert found.gw_cost == pytest.approx(other.gw_cost, rel=1e-12)
    everything = slice(None)
    np.testing.assert_allclose(found.cost(everything), other.cost(everything))


def test_asymmetric_costs_have_the_mean_of_both_orientations(dtype):
    x, y = costs(symmetric=False)
    result = gromov_wasserstein(x, y, P, Q, epsilon=0.05, dtype=dtype)
    assert verify(QuadraticProblem(x, y, P, Q), result).holds
    assert "stationarity" in verify(QuadraticProblem(x, y.T, P, Q), result).failed


def test_a_plan_that_did_not_converge_is_told_from_one_that_did():
    problem, result = solved(max_outer=2)
    assert result.status == "max_outer"
    assert "stationarity" in verify(problem, result).failed


def test_a_verification_reads_as_a_table():
    problem, result = solved()
    found = verify(problem, result)
    assert str(found).count("\n") == len(found.residuals) == 10
    assert "all hold" in str(found) and "stationarity" in repr(found)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.mass = 0
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

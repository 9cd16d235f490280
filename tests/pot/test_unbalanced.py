"""Unbalanced plans of ``gwfast.pot`` are POT's."""

import numpy as np
import pytest
from helpers.problems import distances, masses

from gwfast import ConvergenceWarning, pot

TIGHT = dict(max_iter=300, tol=1e-10, max_iter_ot=3000, tol_ot=1e-11)


@pytest.fixture(scope="module")
def gromov():
    return pytest.importorskip("ot", reason="POT is not installed").gromov


def problem(n=12, m=9, seed=0):
    rng = np.random.default_rng(seed)
    costs = [distances(rng.standard_normal((size, 3))) for size in (n, m)]
    return costs, masses(n, 1), 1.5 * masses(m, 2), rng.random((n, m))


# At (0.03, 0.02) the two plans differ: there is no single one to settle on. With costs
# between the plan vanishes there, where POT divides by zero.
@pytest.mark.parametrize(
    "rho, alpha",
    [(1.0, 0), ((0.5, 3.0), 0.7), pytest.param(10, 0.7, marks=pytest.mark.slow), ((0.03, 0.02), 0)],
)
def test_plans_costs_and_log_are_pots(gromov, alpha, rho):
    costs, p, q, between = problem()
    options = dict(
        reg_marginals=rho, epsilon=0.1, unbalanced_solver="sinkhorn_log", alpha=alpha,
        M=between, log=True, **TIGHT,
    )  # fmt: skip
    *ours, log = pot.fused_unbalanced_gromov_wasserstein(*costs, p, q, **options)
    *theirs, right = gromov.fused_unbalanced_gromov_wasserstein(*costs, p, q, **options)
    for one, other in zip(ours, theirs, strict=True):
        assert np.abs(one - other).sum() < 1e-8
    assert log["fugw_cost"] == pytest.approx(right["fugw_cost"], rel=1e-9)
    assert log["linear_cost"] == pytest.approx(right["linear_cost"], rel=1e-7)
    for one, other in zip(log["duals"], right["duals"], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    # With acceleration it ends sooner.
    assert len(log["error"]) <= len(right["error"]) + 1
    assert {*right} == {*log} - {"status"}
    cost, again = pot.fused_unbalanced_gromov_wasserstein2(*costs, p, q, **options)
    assert cost == again["fugw_cost"] == log["fugw_cost"]


def test_uniform_masses_and_a_start_are_taken(gromov):
    costs, *_ = problem()
    options = dict(epsilon=0.1, unbalanced_solver="sinkhorn", **TIGHT)
    plain = pot.fused_unbalanced_gromov_wasserstein(*costs, None, None, 1.0, **options)
    given = pot.fused_unbalanced_gromov_wasserstein(
        *costs, np.full(12, 1 / 12), np.full(9, 1 / 9), (1.0, 1.0),
        init_pi=np.full((12, 9), 1 / 108), init_duals=(None, None), **options,
    )  # fmt: skip
    for one, other in zip(plain, given, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_float32_comes_back_as_pots_float64_and_printing_is_pots(gromov, capsys):
    costs, p, q, _ = problem()
    arrays = [x.astype(np.float32) for x in (*costs, p, q)]
    plan, other, log = pot.fused_unbalanced_gromov_wasserstein(
        *arrays, 1.0, 0.1, max_iter=2, log=True, verbose=True
    )
    rows = capsys.readouterr().out.splitlines()
    expected = gromov.fused_unbalanced_gromov_wasserstein(*arrays, 1.0, 0.1)
    assert plan.dtype == other.dtype == expected[0].dtype == np.float64
    assert rows == [f"{k:5d}|{x:8e}|" for k, x in enumerate(log["error"], start=1)]
    cost, their_cost = (
        of.fused_unbalanced_gromov_wasserstein2(*arrays, 1.0, 0.1) for of in (pot, gromov)
    )
    assert type(cost) is type(their_cost)


@pytest.mark.filterwarnings("ignore")  # POT's, and SciPy's of it
@pytest.mark.parametrize(
    "options, message",
    [
        (dict(), "^epsilon must be positive, got 0; POT solves it"),
        (dict(epsilon=0.1, divergence="l2", unbalanced_solver="lbfgsb"), "^divergence must be"),
        (dict(epsilon=0.1, reg_marginals=0), "^reg_marginals must be positive"),
        (dict(epsilon=0.1, divergence="x"), "^divergence must be one of .* got 'x'"),
        (dict(epsilon=0.1, unbalanced_solver="x"), "^unbalanced_solver must be one of"),
    ],
)
def test_others_are_not_solved_here_but_left_to_pot(gromov, options, message):
    costs, p, q, _ = problem()
    with pytest.raises(NotImplementedError, match=message):
        pot.fused_unbalanced_gromov_wasserstein(*costs, p, q, **options)
    if "epsilon" not in options:
        theirs = gromov.fused_unbalanced_gromov_wasserstein(*costs, p, q, **options)
        with pot.patched():
            ours = gromov.fused_unbalanced_gromov_wasserstein(*costs, p, q, **options)
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_a_vanished_plan_is_warned_of():
    costs, p, q, between = problem()
    with pytest.warns(ConvergenceWarning, match="lost all its mass"):
        plan, _ = pot.fused_unbalanced_gromov_wasserstein(
            *costs, p, q, 1e-3, 0.01, alpha=1.0, M=between + 0.5
        )
    assert not plan.any()

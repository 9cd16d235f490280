"""Linear problems under every marginal rule, against plain iterations and what defines plans."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import masses
from helpers.twins import unbalanced

import gwfast
from gwfast.kernels._rows import aligned_empty
from gwfast.linear.gibbs_kernel import StoredKernel
from gwfast.linear.log_domain import Potentials
from gwfast.linear.rules import (
    Balanced,
    PartialRule,
    Relaxation,
    Semirelaxed,
    UnbalancedRule,
    as_rule,
)
from gwfast.linear.sinkhorn_solver import SinkhornSolver
from gwfast.utils.deadline import Deadline
from gwfast.utils.precision import DOUBLE, SINGLE, as_precision

PRECISIONS = pytest.mark.parametrize("precision", [SINGLE, DOUBLE], ids=["32", "64"])


def problem(n, m, seed, scale=1.0):
    """A kernel's cost, its separable potentials, and masses of different totals."""
    rng = np.random.default_rng(seed)
    cost = scale * rng.random((n, m))
    p, q = rng.uniform(0.2, 1.2, n), rng.uniform(0.2, 1.2, m)
    base = Potentials(-scale * rng.random(n), -scale * rng.random(m))
    return cost, base, p / p.sum(), 1.7 * q / q.sum()


def solved(cost, base, rule, epsilon, precision, start=None, relaxation=None, **limits):
    """The plan in float64 and the solution."""
    kernel = StoredKernel(
        aligned_empty(cost.shape, precision.dtype), lambda out: np.copyto(out, cost), 2, base
    )
    limits = dict(tol=1e-12 if precision is DOUBLE else 1e-6, max_iter=100_000) | limits
    solver = SinkhornSolver(rule, 2, precision)
    solution = solver.solve(kernel, epsilon, start, relaxation=relaxation, **limits)
    return kernel.coupling(solution).toarray().astype(np.float64), solution


def potentials_of(solution, base, epsilon, rule):
    """Logarithms of scalings relative to the separable potentials, of points with mass."""
    f, g = solution.potentials.f - base.f, solution.potentials.g - base.g
    return f[rule.p > 0] / epsilon, g[rule.q > 0] / epsilon


# --- Unbalanced plans -----------------------------------------------------------------


@pairwise(
    shape=[(1, 1), (1, 5), (4, 1), (7, 9), (33, 17), (65, 130)],
    rho=[(1.0, 1.0), (0.03, 20.0), (1e3, 5.0), (np.inf, 0.5)],
    dtype=[np.float32, np.float64],
)
def test_unbalanced_plan_is_that_of_plain_iterations(shape, rho, dtype):
    precision = as_precision(dtype)
    cost, base, p, q = problem(*shape, 1)
    total = cost - base.f[:, None] - base.g
    expected = unbalanced(total + 0.1, p, q, 0.1, rho)
    expected *= np.sqrt(0.8 / expected.sum())
    args = cost, base, UnbalancedRule.of(p, q, rho), 0.1, precision
    relaxation = Relaxation(rho, 0.1, 0.8)
    plan, solution = solved(*args, relaxation=relaxation)
    near = 1e-9 if precision is DOUBLE else 3e-5
    assert np.abs(plan - expected).sum() < near
    assert plan.sum() == pytest.approx(expected.sum(), rel=near)
    # Potentials to start from change nothing, nor do potentials of another problem.
    other = Potentials(9 * np.ones(len(p)), -7 * np.ones(len(q)))
    for start in (solution.potentials, other):
        again, _ = solved(*args, start, relaxation)
        assert np.abs(again - expected).sum() < near


@PRECISIONS
@pytest.mark.parametrize("epsilon", [1e-3, 1e-2, 10.0])
def test_unbalanced_potentials_are_those_of_the_plan(epsilon, precision):
    cost, base, p, q = problem(20, 15, 3, scale=3.0)
    rho = 0.5, 0.7
    relaxation = Relaxation(rho, 0.0, 1.0)
    args = cost, base, UnbalancedRule.of(p, q, rho), epsilon, precision
    plan, solution = solved(*args, relaxation=relaxation)
    f, g = solution.potentials.f, solution.potentials.g
    np.testing.assert_allclose(
        plan, np.exp((f[:, None] + g - cost) / epsilon), rtol=2e-3, atol=1e-30
    )
    # Both marginals determine the potentials of the plan before it was scaled.
    plan = plan * plan.sum()
    u = -rho[0] * np.log(plan.sum(axis=1) / p)
    v = -rho[1] * np.log(plan.sum(axis=0) / q)
    total = cost - base.f[:, None] - base.g
    again = np.outer(p, q) * np.exp((u[:, None] + v - total) / epsilon)
    loose = 1e-8 if precision is DOUBLE else 1e-3
    assert again.sum() == pytest.approx(plan.sum(), rel=loose * max(1.0, 1 / epsilon))
    assert solution.error < 1e-5


def test_points_without_mass_have_none():
    cost, base, p, q = problem(9, 7, 4)
    p[[0, 5]], q[3] = 0.0, 0.0
    rho = 1.0, 2.0
    rule, relaxation = UnbalancedRule.of(p, q, rho), Relaxation(rho, 0.0, 1.0)
    plan, _ = solved(cost, base, rule, 0.1, DOUBLE, relaxation=relaxation)
    assert plan[[0, 5]].max() == 0.0 and plan[:, 3].max() == 0.0
    rows, cols = np.flatnonzero(p), np.flatnonzero(q)
    total = cost - base.f[:, None] - base.g
    part = unbalanced(total[np.ix_(rows, cols)], p[rows], q[cols], 0.1, rho)
    part /= np.sqrt(part.sum())
    assert np.abs(plan[np.ix_(rows, cols)] - part).sum() < 1e-9
    for rule in (Semirelaxed(p, q), PartialRule(p, q, 0.5)):
        plan, _ = solved(cost, base, rule, 0.1, DOUBLE)
        assert plan[[0, 5]].max() == 0.0 and plan[:, 3].max() == 0.0
        assert rule.error(plan.sum(axis=1), plan.sum(axis=0)) < 1e-9


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_scalings_of_a_solve_that_is_cut_short_are_numbers():
    """One side alone, times what the mass lacks, would be beyond their range."""
    cost, base, p, q = problem(20, 9, 0)
    rho = 0.006, 0.006
    plan, solution = solved(
        cost, base, UnbalancedRule.of(p, q, rho), 0.006, SINGLE,
        relaxation=Relaxation(rho, -1.5, 1.0), deadline=Deadline.after(1e-9),
    )  # fmt: skip
    assert solution.n_iter == 1 and np.isfinite(plan).all() and plan.sum() > 0


def test_a_plan_without_mass_is_the_answer_where_all_is_too_dear():
    cost, base, p, q = problem(6, 5, 0)
    rho = 1e-3, 1e-3
    rule, relaxation = UnbalancedRule.of(p, q, rho), Relaxation(rho, 50.0, 1.0)
    plan, solution = solved(cost, base, rule, 0.01, DOUBLE, relaxation=relaxation)
    assert plan.max() <= 1e-3 and solution.n_iter < 1000


# --- Semi-relaxed and partial plans ---------------------------------------------------


@PRECISIONS
@pytest.mark.parametrize("epsilon", [1e-3, 1e-1])
@pytest.mark.parametrize("side", [0, 1])
def test_semirelaxed_plan_takes_one_iteration(side, epsilon, precision):
    cost, base, p, q = problem(20, 15, 5)
    rule = Semirelaxed(p, q / q.sum(), side=side)
    logs = (base.f[:, None] + base.g - cost) / epsilon
    expected = np.exp(logs - logs.max(axis=1 - side, keepdims=True))
    expected *= np.expand_dims((rule.p, rule.q)[side], 1 - side) / expected.sum(
        axis=1 - side, keepdims=True
    )
    start = None
    for _ in range(2):
        plan, solution = solved(cost, base, rule, epsilon, precision, start)
        start = solution.potentials
        assert solution.n_iter == 1
        near = 1e-12 if precision is DOUBLE else 2e-4 * max(1.0, 0.01 / epsilon)
        np.testing.assert_allclose(plan, expected, rtol=near, atol=1e-9)


@PRECISIONS
@pytest.mark.parametrize("epsilon", [3e-3, 0.1, 1.0])
@pytest.mark.parametrize("whole", [None, 0, 1])
def test_partial_plan_keeps_within_its_caps(whole, epsilon, precision):
    """Scalings are at most a number they share, and at it where less than the mass moves."""
    cost, base, p, q = problem(30, 20, 6)
    sums = [p, q]
    if whole is not None:
        sums[whole] = 0.6 * sums[whole] / sums[whole].sum()
    rule = PartialRule.of(*sums, 0.6)
    assert type(rule) is PartialRule
    plan, solution = solved(cost, base, rule, epsilon, precision)
    near = 1e-9 if precision is DOUBLE else 2e-5
    assert plan.sum() == pytest.approx(0.6, abs=near)
    assert rule.error(plan.sum(axis=1), plan.sum(axis=0)) < near
    for side, x in enumerate(potentials_of(solution, base, epsilon, rule)):
        missing = sums[side] - plan.sum(axis=1 - side)
        if side == whole:
            assert np.abs(missing).max() < near
            continue
        open_, loose = missing > 1e-4, 1e-5 if precision is DOUBLE else 1e-2
        assert open_.any()
        np.testing.assert_allclose(x[open_], x.max(), atol=loose)
    # From where it ended it takes next to no iterations.
    _, again = solved(cost, base, rule, epsilon, precision, solution.potentials, tol=1e-5)
    assert again.n_iter <= 20


def test_all_mass_of_both_sides_is_the_balanced_rule():
    p, q = masses(30, 1), masses(20, 2)
    assert type(PartialRule.of(p, q)) is Balanced
    assert type(PartialRule.of(p, q, 1 - 1e-6)) is PartialRule
    assert type(PartialRule.of(p, 0.5 * q, 0.5)) is PartialRule


# --- Arguments ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rho, error, message",
    [
        (0, ValueError, r"^rho must be positive and finite, got 0\.0"),
        ((1.0, -1.0), ValueError, r"^rho must be positive and finite, got -1\.0"),
        (np.nan, ValueError, "^rho must be positive and finite, got nan"),
        ((1, 2, 3), ValueError, "^rho must be a number or a pair of them, got 3"),
        ("1", TypeError, "^rho must be a number or a pair of them, got str"),
        (None, TypeError, "^rho must be a number or a pair of them, got NoneType"),
        (True, TypeError, "^rho must be a number, got bool"),
        ((1.0, "2"), TypeError, "^rho must be a number, got str"),
    ],
)
def test_bad_prices_are_refused(rho, error, message):
    with pytest.raises(error, match=message):
        gwfast.Unbalanced(rho)


@pytest.mark.parametrize("mass, message", [(0, "positive"), (1.1, "at most 1, got 1.1")])
def test_bad_masses_are_refused(mass, message):
    with pytest.raises(ValueError, match=f"^mass must be {message}"):
        gwfast.Partial(mass)


def test_masses_of_different_totals_need_a_price():
    masses = np.ones(3), np.ones(4)
    with pytest.raises(ValueError, match=r"^rho must be finite on one side at least"):
        as_rule(gwfast.Unbalanced(np.inf), *masses, (3, 4))
    rule = as_rule(gwfast.Unbalanced((np.inf, 1.0)), *masses, (3, 4))
    assert rule.mass == pytest.approx(np.sqrt(12))
    assert rule.penalty(rule.p, rule.q * 0.75) > 0
    assert rule.penalty(rule.p, rule.q) == 0

"""Linear problems with a price on their marginals, against plain iterations."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.twins import unbalanced
from scipy.special import logsumexp

from gwfast.kernels._rows import aligned_empty
from gwfast.linear.gibbs_kernel import Buffer, StoredKernel
from gwfast.linear.log_domain import Potentials
from gwfast.linear.rules import as_rule
from gwfast.linear.unbalanced import Relaxation, UnbalancedSolver
from gwfast.utils.deadline import Deadline
from gwfast.utils.precision import DOUBLE, SINGLE, as_precision

PRECISIONS = pytest.mark.parametrize("precision", [SINGLE, DOUBLE], ids=["32", "64"])


def problem(n, m, seed, dtype, scale=1.0):
    rng = np.random.default_rng(seed)
    cost = scale * rng.random((n, m))
    p, q = rng.uniform(0.2, 1.2, n), rng.uniform(0.2, 1.2, m)
    base = Potentials(-scale * rng.random(n), -scale * rng.random(m))
    total = cost - base.f[:, None] - base.g
    p, q = p / p.sum(), 1.7 * q / q.sum()

    def kernel():
        buffer = Buffer(aligned_empty((n, m), dtype))
        return StoredKernel(buffer, lambda out: np.copyto(out, cost), 2, base)

    return kernel, total, p, q


def solved(kernel, p, q, epsilon, relaxation, precision, start=None, **limits):
    solver, kernel = UnbalancedSolver(p, q, 2, precision), kernel()
    tol = 1e-12 if precision is DOUBLE else 1e-6
    limits = dict(tol=tol, max_iter=100_000) | limits
    made = solver.solve(kernel, epsilon, start, relaxation=relaxation, **limits)
    return kernel.coupling(made).toarray().astype(np.float64), made


@pairwise(
    shape=[(1, 1), (1, 5), (4, 1), (7, 9), (33, 17), (65, 130)],
    rho=[(1.0, 1.0), (0.03, 20.0), (1e3, 5.0), (np.inf, 0.5)],
    dtype=[np.float32, np.float64],
)
def test_plan_is_that_of_plain_iterations(shape, rho, dtype):
    precision = as_precision(dtype)
    kernel, cost, p, q = problem(*shape, 1, precision.dtype)
    expected = unbalanced(cost + 0.1, p, q, 0.1, rho)
    expected *= np.sqrt(0.8 / expected.sum())
    given = 0.1, Relaxation(rho, 0.1, 0.8), precision
    plan, made = solved(kernel, p, q, *given)
    near = 1e-9 if precision is DOUBLE else 3e-5
    assert np.abs(plan - expected).sum() < near
    assert plan.sum() == pytest.approx(expected.sum(), rel=near)
    # Potentials that are at hand change nothing, and those of another problem neither.
    other = Potentials(9 * np.ones(len(p)), -7 * np.ones(len(q)))
    for start in (made.potentials, other):
        again, _ = solved(kernel, p, q, *given, start)
        assert np.abs(again - expected).sum() < near


@PRECISIONS
def test_potentials_are_those_of_the_plan(precision):
    kernel, _, p, q = problem(12, 8, 2, precision.dtype)
    plan, made = solved(kernel, p, q, 0.05, Relaxation((1.0, 2.0), 0.3, 0.5), precision)
    cost = kernel().cost().astype(np.float64)
    f, g = made.potentials.f, made.potentials.g
    np.testing.assert_allclose(plan, np.exp((f[:, None] + g - cost) / 0.05), rtol=1e-4)


@PRECISIONS
@pytest.mark.parametrize("epsilon", [1e-3, 1e-2, 10.0])
def test_any_epsilon_is_solved(epsilon, precision):
    kernel, cost, p, q = problem(20, 15, 3, precision.dtype, scale=3.0)
    rho = (0.5, 0.7)
    plan, made = solved(kernel, p, q, epsilon, Relaxation(rho, 0.0, 1.0), precision)
    # What both marginals say of the potentials, of the plan before it was scaled.
    plan = plan * plan.sum()
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    logs = np.log(p)[:, None] + np.log(q) - cost / epsilon
    f = -rho[0] * np.log(rows / p) / epsilon
    g = -rho[1] * np.log(cols / q) / epsilon
    again = logs + f[:, None] + g
    loose = 1e-8 if precision is DOUBLE else 1e-3
    total = np.exp(logsumexp(again))
    assert total == pytest.approx(plan.sum(), rel=loose * max(1.0, 1 / epsilon))
    assert made.error < 1e-5


def test_points_without_mass_have_none():
    kernel, cost, p, q = problem(9, 7, 4, np.float64)
    p[[0, 5]], q[3] = 0.0, 0.0
    plan, _ = solved(kernel, p, q, 0.1, Relaxation((1.0, 2.0), 0.0, 1.0), DOUBLE)
    assert plan[[0, 5]].max() == 0.0 and plan[:, 3].max() == 0.0
    rows, cols = np.flatnonzero(p), np.flatnonzero(q)
    part = unbalanced(cost[np.ix_(rows, cols)], p[rows], q[cols], 0.1, (1.0, 2.0))
    part /= np.sqrt(part.sum())
    assert np.abs(plan[np.ix_(rows, cols)] - part).sum() < 1e-9


@pytest.mark.parametrize(
    "rho, error, message",
    [
        (None, ValueError, "^rho must be given with marginals='unbalanced'"),
        (0, ValueError, r"^rho must be positive and finite, got 0\.0"),
        ((1.0, -1.0), ValueError, r"^rho must be positive and finite, got -1\.0"),
        (np.nan, ValueError, "^rho must be positive and finite, got nan"),
        ((1, 2, 3), ValueError, "^rho must be a number or a pair of them, got 3"),
        ("1", TypeError, "^rho must be a number or a pair of them, got str"),
        (True, TypeError, "^rho must be a number, got bool"),
        ((1.0, "2"), TypeError, "^rho must be a number, got str"),
    ],
)
def test_bad_prices_are_refused(rho, error, message):
    with pytest.raises(error, match=message):
        as_rule("unbalanced", None, None, None, (3, 4), rho)


def test_masses_of_different_totals_need_a_price():
    with pytest.raises(ValueError, match=r"^rho must be finite on one side at least"):
        as_rule("unbalanced", np.ones(3), np.ones(4), None, (3, 4), np.inf)
    rule = as_rule("unbalanced", np.ones(3), np.ones(4), None, (3, 4), (np.inf, 1.0))
    assert rule.mass == pytest.approx(np.sqrt(12))
    assert rule.penalty(rule.p, rule.q * 0.75) > 0
    assert rule.penalty(rule.p, rule.q) == 0


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "precision, epsilon", [(SINGLE, 0.006), (DOUBLE, 5e-4)], ids=["float32", "float64"]
)
def test_scalings_of_a_solve_that_is_cut_short_are_numbers(precision, epsilon):
    """One side alone, times what the mass lacks, would be beyond their range."""
    kernel, _, p, q = problem(20, 9, 0, precision.dtype)
    given = epsilon, Relaxation((epsilon, epsilon), -1.5, 1.0), precision
    plan, made = solved(kernel, p, q, *given, deadline=Deadline.after(1e-9))
    assert made.n_iter == 1 and np.isfinite(plan).all() and plan.sum() > 0

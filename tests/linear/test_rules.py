"""Linear problems under every marginal rule, on all entries of a kernel or on few, against plain
iterations and what defines plans. Imports from inside, where rules and supports are data."""

import itertools

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import masses
from helpers.twins import unbalanced
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import logsumexp

from gwfast.kernels._rows import aligned_empty
from gwfast.linear.gibbs_kernel import SparseKernel, StoredKernel, padded
from gwfast.linear.log_domain import Potentials
from gwfast.linear.rules import Balanced, PartialRule, Relaxation, Semirelaxed, UnbalancedRule
from gwfast.linear.sinkhorn_solver import SinkhornSolver
from gwfast.linear.support import Support, largest_products
from gwfast.utils.deadline import Deadline
from gwfast.utils.precision import DOUBLE, SINGLE

PRECISIONS = pytest.mark.parametrize("precision", [SINGLE, DOUBLE], ids=["32", "64"])


def problem(n, m, seed):
    """Return a kernel's cost, its separable potentials, and masses of different totals."""
    rng = np.random.default_rng(seed)
    p, q = rng.uniform(0.2, 1.2, n), rng.uniform(0.2, 1.2, m)
    base = Potentials(-rng.random(n), -rng.random(m))
    return rng.random((n, m)), base, p / p.sum(), 1.7 * q / q.sum()


def solved(cost, base, rule, epsilon, precision, start=None, relaxation=None, **limits):
    """Return the plan in float64 and the solution."""
    array = aligned_empty(cost.shape, precision.dtype)
    kernel = StoredKernel(array, lambda out: np.copyto(out, cost), 2, base)
    given = dict(tol=1e-12 if precision is DOUBLE else 1e-6, max_iter=100_000) | limits
    given |= dict(start=start, relaxation=relaxation)
    solution = SinkhornSolver(rule, 2, precision).solve(kernel, epsilon, **given)
    return kernel.coupling(solution).toarray().astype(np.float64), solution


# The masses of the second are so far apart that plans of 65 x 130 points in float64 are lifted.
RHO = (1.0, 1.0), (0.03, 20.0), (1e3, 5.0), (np.inf, 0.5)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 1), (7, 9), (65, 130)])
def test_unbalanced_plan_is_that_of_plain_iterations(shape):
    cost, base, p, q = problem(*shape, 1)
    for rho, precision in itertools.product(RHO, (SINGLE, DOUBLE)):
        expected = unbalanced(cost - base.f[:, None] - base.g + 0.1, p, q, 0.1, rho)
        expected *= np.sqrt(0.8 / expected.sum())
        args = cost, base, UnbalancedRule.priced(p, q, rho), 0.1, precision
        _, solution = solved(*args, relaxation=Relaxation(rho, 0.1, 0.8))
        # Potentials to start from change nothing, nor do potentials of another problem.
        other = Potentials(9 * np.ones(len(p)), -7 * np.ones(len(q)))
        for start in (None, solution.potentials, other):
            plan, (potentials, *_) = solved(*args, start, Relaxation(rho, 0.1, 0.8))
            made = np.exp((potentials.f[:, None] + potentials.g - cost) / 0.1)
            np.testing.assert_allclose(plan, made, rtol=1e-4, atol=1e-30)
            assert np.abs(plan - expected).sum() < (1e-9 if precision is DOUBLE else 3e-5)


@pytest.mark.parametrize("rule", [Balanced, Semirelaxed, PartialRule, UnbalancedRule])
def test_some_of_the_points_have_the_mass_of_all(rule):
    _, _, p, q = problem(6, 5, 2)
    whole = (
        UnbalancedRule.priced(p, q, (1.0, 2.0)) if rule is UnbalancedRule else rule(p, q / q.sum())
    )
    part = whole.take([0, 4], [1, 2, 3])
    np.testing.assert_allclose(part.p, whole.p[[0, 4]] * whole.p.sum() / whole.p[[0, 4]].sum())
    np.testing.assert_allclose(part.q, whole.q[1:4] * whole.q.sum() / whole.q[1:4].sum())


def test_points_without_mass_have_none():
    cost, base, p, q = problem(9, 7, 4)
    p[[0, 5]], q[3] = 0.0, 0.0
    rho, at = (1.0, 2.0), np.ix_(np.flatnonzero(p), np.flatnonzero(q))
    for rule in (UnbalancedRule.priced(p, q, rho), Semirelaxed(p, q), PartialRule(p, q, 0.5)):
        relaxation = Relaxation(rho, 0.0, 1.0) if rule.is_relaxed else None
        plan, _ = solved(cost, base, rule, 0.1, DOUBLE, relaxation=relaxation)
        assert plan[[0, 5]].max() == 0.0 and plan[:, 3].max() == 0.0
        if rule.is_relaxed:
            total = (cost - base.f[:, None] - base.g)[at]
            expected = unbalanced(total, p[p > 0], q[q > 0], 0.1, rho)
            assert np.abs(plan[at] - expected / np.sqrt(expected.sum())).sum() < 1e-9
        else:
            assert rule.error(plan.sum(axis=1), plan.sum(axis=0)) < 1e-9


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("shift, precision, seconds", [(-1.5, SINGLE, 1e-9), (50.0, DOUBLE, 60)])
def test_plans_cut_short_and_plans_that_are_too_dear_are_numbers(shift, precision, seconds):
    cost, base, p, q = problem(20, 9, 0)
    rho, limits = (0.006, 0.006), dict(deadline=Deadline.after(seconds))
    rule, relaxation = UnbalancedRule.priced(p, q, rho), Relaxation(rho, shift, 1.0)
    plan, found = solved(cost, base, rule, 0.006, precision, relaxation=relaxation, **limits)
    assert np.isfinite(plan).all() and found.n_iter < (2 if shift < 0 else 1000)
    assert plan.sum() > 0 if shift < 0 else plan.max() <= 1e-3


@PRECISIONS
@pytest.mark.parametrize("epsilon", [1e-3, 1e-1])
@pytest.mark.parametrize("side", [0, 1])
def test_semirelaxed_plan_takes_one_iteration(side, epsilon, precision):
    cost, base, p, q = problem(20, 15, 5)
    rule = Semirelaxed(p, q / q.sum(), side=side)
    logs = (base.f[:, None] + base.g - cost) / epsilon
    expected = np.exp(logs - logsumexp(logs, axis=1 - side, keepdims=True))
    expected *= np.expand_dims((rule.p, rule.q)[side], 1 - side)
    start, near = None, 1e-12 if precision is DOUBLE else 2e-4 * max(1.0, 0.01 / epsilon)
    for _ in range(2):
        plan, solution = solved(cost, base, rule, epsilon, precision, start)
        start = solution.potentials
        assert solution.n_iter == 1
        np.testing.assert_allclose(plan, expected, rtol=near, atol=1e-9)
        assert rule.error(plan.sum(axis=1), plan.sum(axis=0)) < max(near, 1e-6)


@PRECISIONS
@pytest.mark.parametrize("epsilon", [3e-3, 0.1, 1.0])
@pytest.mark.parametrize("whole", [None, 0, 1])
def test_partial_plan_keeps_within_its_caps(whole, epsilon, precision):
    cost, base, p, q = problem(30, 20, 6)
    sums = [p, q]
    if whole is not None:
        sums[whole] = 0.6 * sums[whole] / sums[whole].sum()
    rule = PartialRule.of(*sums, 0.6)
    plan, solution = solved(cost, base, rule, epsilon, precision)
    near, loose = (1e-9, 1e-5) if precision is DOUBLE else (2e-5, 1e-2)
    assert plan.sum() == pytest.approx(0.6, abs=near)
    assert rule.error(plan.sum(axis=1), plan.sum(axis=0)) < near
    for side in (0, 1):
        missing = sums[side] - plan.sum(axis=1 - side)
        x = (solution.potentials[side] - base[side]) / epsilon
        if side == whole:
            assert np.abs(missing).max() < near
        else:
            assert (missing > 1e-4).any()
            np.testing.assert_allclose(x[missing > 1e-4], x.max(), atol=loose)
    # From where it ended it takes next to no iterations.
    _, again = solved(cost, base, rule, epsilon, precision, solution.potentials, tol=1e-5)
    assert again.n_iter <= 20


def test_rules_of_masses_of_other_totals():
    p, q = masses(30, 1), masses(20, 2)
    assert type(PartialRule.of(p, q)) is Balanced
    for rule in (PartialRule.of(p, q, 1 - 1e-6), PartialRule.of(p, 0.5 * q, 0.5)):
        assert type(rule) is PartialRule
    rule = UnbalancedRule.priced(np.ones(3), np.ones(4), (np.inf, 1.0))
    assert rule.mass == pytest.approx(np.sqrt(12))
    assert rule.penalty(rule.p, rule.q * 0.75) > 0 == rule.penalty(rule.p, rule.q)


def factors(n, m, d):
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((size, d)).astype(np.float32) for size in (n, m))
    return left, right, rng.standard_normal(n), rng.standard_normal(m), masses(n, 0), masses(m, 1)


def kept(entries, shape):
    rows = np.repeat(np.arange(shape[0]), np.diff(entries.start))
    return sparse.coo_array((np.ones(len(rows)), (rows, entries.index)), shape).toarray() > 0


@pairwise(shape=[(40, 30), (1, 9), (9, 1), (30, 70)], k=[1, 4, 100], n_threads=[1, 3])
def test_the_nearest_of_rows_and_of_columns_are_kept(shape, k, n_threads):
    left, right, f, g, p, q = factors(*shape, 5)
    for potential, mass in ((f, p), (g, q)):
        if len(mass) > 1:  # a point without mass
            potential[len(mass) // 3], mass[len(mass) // 3] = -np.inf, 0.0
    p, q = p / p.sum(), q / q.sum()
    found = Support.nearest(left, right, Potentials(f, g), (p, q), k, n_threads)
    score, made = f[:, None] + g - left.astype(float) @ right.T, kept(found, shape)
    of_rows = -np.sort(-score, axis=1)[:, [min(k, shape[1]) - 1]]
    of_cols = -np.sort(-score, axis=0)[[min(k, shape[0]) - 1]]
    expected = np.isfinite(score) & ((score >= of_rows) | (score >= of_cols))
    np.testing.assert_array_equal(found.index, np.nonzero(made)[1])  # in order, and none twice
    assert made[expected].all() and not made[~np.isfinite(score)].any()
    assert (made & ~expected).sum() < sum(shape)
    # The entries hold a plan: no set of rows has more mass than its columns.
    sums = [np.repeat(np.eye(shape[0]), shape[1], axis=1), np.tile(np.eye(shape[1]), shape[0])]
    on_kept = np.vstack(sums)[:, made.ravel()]
    assert linprog(np.zeros(made.sum()), A_eq=on_kept, b_eq=np.r_[p, q]).status == 0


def test_a_search_by_cells_finds_most_of_the_exact_one():
    rng, n, m, k = np.random.default_rng(0), 150, 30_001, 8  # cells from 30,000 items on
    centers = rng.standard_normal((60, 12))
    queries, items = (
        centers[rng.integers(60, size=size)] + rng.standard_normal((size, 12)) / 3
        for size in (n, m)
    )
    queries = np.pad(queries, ((0, 0), (0, 1)), constant_values=1.0).astype(np.float32)
    items = np.c_[items, -np.square(items).sum(axis=1) / 2].astype(np.float32)
    scores, found = queries @ items.T, largest_products(queries, items, k, 2)
    reached = np.take_along_axis(scores, found, axis=1)
    worst = np.partition(scores, m - k, axis=1)[:, [m - k]]
    assert (np.diff(reached, axis=1) <= 1e-4).all()
    assert (reached[:, 0] >= scores.max(axis=1) - 1e-4).mean() > 0.95
    assert (reached >= worst - 1e-4).mean() > 0.95
    np.testing.assert_array_equal(largest_products(queries, items, k, 1), found)


@pytest.mark.parametrize("k, epsilon", [(40, 1.0), (40, 0.003), (2, 0.1)])
def test_any_epsilon_is_solved_on_what_is_kept_from_no_potentials(k, epsilon):
    """An epsilon that overflows any scaling, and neighbors without a plan of their own."""
    left, right, f, g, p, q = factors(60, 50, 3)
    none = Potentials(0 * f, 0 * g)
    kernel = SparseKernel(left, padded(right), Support.nearest(left, right, none, (p, q), k, 1), 1)
    found = SinkhornSolver(Balanced(p, q), 1).solve(kernel, epsilon, tol=1e-4, max_iter=20_000)
    plan = kernel.coupling(found)
    assert Balanced(p, q).error(*plan.marginals) < 2e-4
    f, g = found.potentials.f, found.potentials.g
    expected = np.exp((f[:, None] + g - left.astype(float) @ right.T) / epsilon)
    expected[~kept(kernel.support, (60, 50))] = 0.0
    assert np.abs(plan.toarray() - expected).sum() < 1e-3


def test_potentials_that_do_not_fit_come_no_farther_from_those_of_all_entries():
    """Potentials of larger epsilons on few entries would."""
    rng, n, off = np.random.default_rng(0), 300, 3.0
    x = rng.standard_normal((n, 10)) * rng.exponential(size=(n, 1))
    y = x + 0.5 * rng.standard_normal(x.shape)
    left, right, p = (-2 * x).astype(np.float32), y.astype(np.float32), np.full(n, 1 / n)
    cost, g = left.astype(float) @ right.T, -np.square(y).sum(axis=1)
    epsilon = 0.02 * np.abs(cost).mean()
    for _ in range(50):
        f = epsilon * (np.log(p) - logsumexp((g - cost) / epsilon, axis=1))
        g = epsilon * (np.log(p) - logsumexp((f[:, None] - cost) / epsilon, axis=0))
    support = Support.nearest(left, right, Potentials(f, g), (p, p), 4, 1)
    rough = g + off * epsilon * rng.standard_normal(n)
    start = Potentials(f + 200 * epsilon, rough)  # overflows
    kernel = SparseKernel(left, padded(right), support, 1)
    found = SinkhornSolver(Balanced(p, p), 1).solve(kernel, epsilon, start, tol=1e-2, max_iter=99)
    assert np.std(found.potentials.g - g) < 0.9 * off * epsilon

"""Which entries a sparse kernel keeps, how they are found, and kernels on them."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.problems import masses
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import logsumexp

from gwfast.linear.gibbs_kernel import SparseCost, SparseKernel, padded
from gwfast.linear.log_domain import Potentials
from gwfast.linear.rules import Balanced
from gwfast.linear.sinkhorn_solver import SinkhornSolver
from gwfast.linear.support import Support, largest_products


def factors(n, m, d=5, seed=0):
    """Factors of a cost, and potentials, of which some are of points without mass."""
    rng = np.random.default_rng(seed)
    left, right = (rng.standard_normal((k, d)).astype(np.float32) for k in (n, m))
    f, g = rng.standard_normal(n), rng.standard_normal(m)
    p, q = masses(n, seed), masses(m, seed)
    for potential, mass, at in ((f, p, n // 2), (g, q, m // 3)):
        if len(mass) > 1:
            potential[at], mass[at] = -np.inf, 0.0
    return left, right, Potentials(f, g), (p / p.sum(), q / q.sum())


def kept(entries, shape):
    made = np.zeros(shape, dtype=bool)
    rows = np.repeat(np.arange(shape[0]), np.diff(entries.start))
    made[rows, entries.index] = True
    return made


@pairwise(shape=[(40, 30), (1, 9), (9, 1), (30, 70)], k=[1, 4, 100], n_threads=[1, 3])
def test_the_nearest_of_rows_and_of_columns_are_kept(shape, k, n_threads):
    left, right, potentials, (p, q) = factors(*shape)
    found = Support.nearest(left, right, potentials, (p, q), k, n_threads)
    f, g = potentials.f, potentials.g
    score = f[:, None] + g - left.astype(float) @ right.T
    of_rows = np.sort(score, axis=1)[:, ::-1][:, : k + 1][:, [min(k, shape[1]) - 1]]
    of_cols = np.sort(score, axis=0)[::-1][[min(k, shape[0]) - 1]]
    expected = np.isfinite(score) & ((score >= of_rows) | (score >= of_cols))
    made = kept(found, shape)
    assert made.sum() == len(found.index) == found.start[-1]  # none twice
    more = made & ~expected
    assert more.sum() < sum(shape) and not made[~(np.isfinite(score))].any()
    # There is a plan on what is kept: no set of rows has more mass than its columns.
    there = sparse.coo_array(made)
    sums = sparse.vstack(
        [sparse.csr_array((np.ones(there.nnz), (at, range(there.nnz)))) for at in there.coords]
    )
    b = np.concatenate([p[: there.coords[0].max() + 1], q[: there.coords[1].max() + 1]])
    assert linprog(np.zeros(there.nnz), A_eq=sums, b_eq=b).status == 0
    assert made[expected].all()
    # No column with mass is without partners, whoever is nearest to the rows.
    assert made[:, np.isfinite(g)].any(axis=0).all()
    within = np.ones(len(found.index), dtype=bool)  # in order in each row
    within[found.start[:-1][np.diff(found.start) > 0]] = False
    assert (np.diff(found.index, prepend=0)[within] > 0).all()


def test_a_search_by_cells_finds_most_of_the_exact_one():
    rng, n, m, k = np.random.default_rng(0), 300, 31_000, 8  # cells from 30,000 items on
    centers = rng.standard_normal((60, 12))
    queries, items = (
        (centers[rng.integers(60, size=size)] + rng.standard_normal((size, 12)) / 3)
        for size in (n, m)
    )
    bias = -np.square(items).sum(axis=1, keepdims=True) / 2
    queries = np.hstack([queries, np.ones((n, 1))]).astype(np.float32)
    items = np.hstack([items, bias]).astype(np.float32)
    exact = np.argsort(-queries @ items.T, axis=1)[:, :k]
    found = largest_products(queries, items, k, 2)
    assert found.shape == exact.shape
    shared = [len(np.intersect1d(*pair)) for pair in zip(found, exact, strict=True)]
    assert np.mean(shared) / k > 0.95
    assert (found[:, 0] == exact[:, 0]).mean() > 0.95
    again = largest_products(queries, items, k, 1)
    np.testing.assert_array_equal(again, found)


def test_sums_in_the_log_domain_are_those_of_what_is_kept():
    left, right, potentials, sides = factors(40, 30)
    found = Support.nearest(left, right, potentials, sides, 3, 1)
    cost = SparseCost(left, padded(right), found, 2)
    whole = np.where(kept(found, (40, 30)), left.astype(float) @ right.T, np.inf)
    f, g = (np.where(np.isfinite(x), x, 0.0) for x in (potentials.f, potentials.g))
    rows, cols = np.empty(40), np.empty(30)
    for epsilon in (1.0, 1e-4):
        cost.logsumexp_rows(g, epsilon, rows)
        cost.logsumexp_cols(f, epsilon, cols)
        for sums, logs in (
            (rows, logsumexp((g - whole) / epsilon, axis=1)),
            (cols, logsumexp((f[:, None] - whole) / epsilon, axis=0)),
        ):
            assert np.isneginf(logs).sum() == 1
            expected = np.where(np.isfinite(logs), logs, 0.0)
            np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-5 / epsilon)


@pytest.mark.parametrize("k, epsilon", [(40, 1.0), (40, 0.003), (2, 0.1)])
def test_any_epsilon_is_solved_on_what_is_kept_from_no_potentials(k, epsilon):
    """So small a one as overflows any scaling, through the log domain; and neighbors so
    few that they have no plan by themselves.
    """
    left, right, *_ = factors(60, 50, d=3)
    none = Potentials(np.zeros(60), np.zeros(50))
    p, q = masses(60, 0), masses(50, 1)
    solver = SinkhornSolver(Balanced(p, q), 1)
    kernel = SparseKernel(left, padded(right), Support.nearest(left, right, none, (p, q), k, 1), 1)
    found = solver.solve(kernel, epsilon, tol=1e-4, max_iter=20_000)
    plan = kernel.coupling(found)
    assert Balanced(p, q).error(*plan.marginals) < 2e-4
    cost = left.astype(float) @ right.T
    f, g = found.potentials.f, found.potentials.g
    expected = np.exp((f[:, None] + g - cost) / epsilon)
    expected[~kept(kernel.support, (60, 50))] = 0.0
    assert np.abs(plan.toarray() - expected).sum() < 1e-3


def test_potentials_that_do_not_fit_come_no_farther_from_those_of_all_entries():
    """Those of larger epsilons on what is kept would."""
    rng, n, off = np.random.default_rng(0), 300, 3.0
    x = rng.standard_normal((n, 10)) * rng.exponential(size=(n, 1))
    y = x + 0.5 * rng.standard_normal(x.shape)
    left, right = (-2 * x).astype(np.float32), y.astype(np.float32)
    cost, p = left.astype(float) @ right.T, np.full(n, 1 / n)
    epsilon, g = 0.02 * np.abs(cost).mean(), -np.square(y).sum(axis=1)
    for _ in range(500):
        f = epsilon * (np.log(p) - logsumexp((g - cost) / epsilon, axis=1))
        g = epsilon * (np.log(p) - logsumexp((f[:, None] - cost) / epsilon, axis=0))
    kept = Support.nearest(left, right, Potentials(f, g), (p, p), 4, 1)
    rough = g + off * epsilon * rng.standard_normal(n)
    start = Potentials(f + 200 * epsilon, rough)  # overflows
    kernel = SparseKernel(left, padded(right), kept, 1)
    found = SinkhornSolver(Balanced(p, p), 1).solve(kernel, epsilon, start, tol=1e-2, max_iter=99)
    assert np.std(found.potentials.g - g) < 0.9 * off * epsilon

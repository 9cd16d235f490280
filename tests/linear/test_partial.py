"""Partial plans of which one side moves wholly, as POT's callers have them."""

import numpy as np
import pytest
from helpers.problems import masses

from gwfast.linear.gibbs_kernel import Buffer, StoredKernel
from gwfast.linear.log_domain import Potentials
from gwfast.linear.marginals import Balanced, Partial, PartialSolver
from gwfast.utils.precision import DOUBLE

N, M, EPSILON = 30, 20, 0.02


@pytest.mark.parametrize("in_logs", [False, True])
@pytest.mark.parametrize("side", [0, 1])
def test_a_side_that_moves_wholly_has_no_cap(side, in_logs, monkeypatch):
    cost = np.random.default_rng(0).random((N, M))
    sums = [masses(N, 1), masses(M, 2)]
    sums[side] = 0.7 * sums[side]
    rule = Partial.of(*sums, sums[side].sum())
    assert isinstance(rule, Partial)
    if in_logs:
        monkeypatch.setattr(PartialSolver, "_scale", PartialSolver._iterate)

    def solved(solver, start=None):
        buffer, base = Buffer(np.empty((N, M))), Potentials(np.zeros(N), np.zeros(M))
        kernel = StoredKernel(buffer, lambda out: np.copyto(out, cost), 1, base)
        found = solver.solve(kernel, EPSILON, start, tol=1e-10, max_iter=10**5)
        rows, cols = kernel.scale(found.scalings)
        assert rule.error(rows, cols) <= 1e-9
        return found, kernel.rows.copy()

    free = rule.solver(1, DOUBLE)
    found, plan = solved(free)
    np.testing.assert_allclose(plan.sum(axis=1 - side), sums[side], atol=1e-10)
    # Where both have caps, the same plan takes more iterations.
    capped = rule.solver(1, DOUBLE)
    capped._caps = [0.0, 0.0]
    slow, other = solved(capped)
    np.testing.assert_allclose(plan, other, atol=1e-9)
    assert found.n_iter < slow.n_iter
    # And from where it ended next to none.
    assert solved(free, found.potentials)[0].n_iter <= 3


def test_all_mass_of_both_sides_is_the_balanced_rule():
    p, q = masses(N, 1), masses(M, 2)
    assert type(Partial.of(p, q)) is Balanced
    assert type(Partial.of(p, q, 1 - 1e-6)) is Partial
    assert type(Partial.of(p, 0.5 * q, 0.5)) is Partial

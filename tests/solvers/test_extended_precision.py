"""Fifty small problems against an independent solver in extended precision."""

import numpy as np
import pytest
from helpers import extended
from helpers.marks import mostly_slow
from helpers.problems import masses, random_cost
from helpers.variants import VARIANTS

from gwfast import gromov_wasserstein

# Few points match little; steps of a given number have not converged.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
N_CASES = 50
STEPS = 12


def drawn(case):
    """Costs, masses and options; every variant with both losses."""
    rng = np.random.default_rng([14, case])
    n, m = (int(size) for size in rng.integers(2, 13, 2))
    symmetric = bool(case % 5)
    sides = [random_cost(k, rng, symmetric=symmetric) + 0.1 for k in (n, m)]
    name = list(VARIANTS)[case % len(VARIANTS)]
    options = dict(VARIANTS[name], loss=("square", "kl")[case // len(VARIANTS) % 2])
    p, q = masses(n, rng), masses(m, rng)
    if options.get("marginals") == "semirelaxed":
        q = np.full(m, 1 / m)
    if "linear_cost" in options:
        options["linear_cost"] = rng.random((n, m))
    return sides, (p, q), options


def epsilon_of(sides, options):
    """By the mean linearized cost of the product plan; smaller ones may go round."""
    terms = extended.losses(*sides, options["loss"])
    free = "marginals" in options or "method" in options
    return float(terms.mean()) * (2.0 if free else 1.0)


@pytest.mark.parametrize("case", mostly_slow(range(N_CASES), fast=(0, 1, 6, 9)))
def test_plans_are_those_of_extended_precision(case):
    sides, (p, q), options = drawn(case)
    epsilon = epsilon_of(sides, options)
    given = p, None if options.get("marginals") == "semirelaxed" else q
    solve = dict(epsilon=epsilon, init="product", n_threads=1, **options)
    # Proximal points have no other fixed points than vertices, which are far away.
    proximal = "method" in options
    steps = STEPS if proximal else 500
    reference, moved = extended.solve(
        *sides, p, q, epsilon=epsilon, n_outer=steps, **options
    )
    for dtype, tol, near in (("float64", 1e-12, 1e-9), ("float32", 1e-6, 2e-5)):
        tight = dict(tol=tol, marginal_tol=tol, max_outer=steps, dtype=dtype)
        result = gromov_wasserstein(*sides, *given, **solve, **tight)
        if options.get("method") == "ppa":
            near = max(near, 1e-4 if dtype == "float32" else 1e-5)  # of inner solutions
        assert proximal or moved < 1e-13
        distance = np.abs(result.plan - reference).sum() / reference.sum()
        assert distance < near, (dtype, result)

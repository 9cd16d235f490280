"""Neither units of costs nor motions of points change a plan, of our solver and of POT's names;
tests/conformance permutes points and swaps sides.
"""

import numpy as np
import pytest
from helpers.problems import distances, masses, orthogonal

import gwfast
from gwfast import gromov_wasserstein, pot

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
TIGHT = dict(init="product", dtype="float64", tol=1e-10, n_threads=1, max_iter=300)
TIGHT |= dict(options=gwfast.SolverOptions(marginal_tol=1e-10))
TIGHT_POT = dict(tol=1e-10, max_iter=300)


def of_pot_fused(x, y, p, q, epsilon):
    """With a linear cost that is the same for all pairs."""
    given, options = (np.ones((len(x), len(y))), x, y, p, q), dict(alpha=1.0, epsilon=2 * epsilon)
    return pot.entropic_fused_gromov_wasserstein(*given, **options, **TIGHT_POT)


def of_pot(*given, epsilon):
    return pot.entropic_gromov_wasserstein(*given, epsilon=2 * epsilon, **TIGHT_POT)


SOLVERS = {
    "ours": lambda *given, epsilon: gromov_wasserstein(*given, epsilon=epsilon, **TIGHT).plan,
    "exact": lambda *given, epsilon: gromov_wasserstein(*given, epsilon=0, init="product").plan,
    "POT's": of_pot,
    "POT's fused": of_pot_fused,
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(3))
def test_units_and_motions_change_no_plan(solver, seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, 12, size=2)
    x, y, weights = (
        rng.standard_normal((n, 3)),
        rng.standard_normal((m, 3)),
        (masses(n, rng), masses(m, rng)),
    )
    solve, factor = SOLVERS[solver], 10.0 ** rng.uniform(-6, 6)
    plan = solve(distances(x), distances(y), *weights, epsilon=0.5)
    scaled = factor * distances(x), factor * distances(y)
    other = solve(*scaled, *weights, epsilon=0.5 * factor**2)
    assert np.abs(other - plan).sum() <= 1e-6
    squares = [distances(points) ** 2 for points in (x, x @ orthogonal(3, seed) + 10.0, y)]
    plan, other = (solve(side, squares[2], *weights, epsilon=5.0) for side in squares[:2])
    assert np.abs(other - plan).sum() <= 1e-6

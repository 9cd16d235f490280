"""A second call solves the numbers that were written to costs after the first call."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, rotated_pair

import gwfast
from gwfast import PointCloud, QuadraticProblem

N = 40
ROUGH = gwfast.SolverOptions(marginal_tol=1e-3)
FEW = dict(epsilon=0.05, n_threads=1, max_iter=60, tol=1e-3, options=ROUGH)
PRODUCT, PROFILE = dict(init="product", **FEW), dict(init="profile", **FEW)
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
X, Y, _ = rotated_pair(N, 3, 5, noise=0.05)
solve = gwfast.gromov_wasserstein
CALLS = {
    "product": lambda problem: solve(problem, **PRODUCT).plan,
    "profile": lambda problem: solve(problem, **PROFILE).plan,
    "costs": lambda problem: solve(problem.x, problem.y, problem.p, problem.q, **PRODUCT).plan,
    "exact": lambda problem: solve(problem, epsilon=0, init="product").plan,
    "batch": lambda problem: gwfast.gromov_wasserstein_batch([problem], **PRODUCT)[0].plan,
    "several starts": lambda problem: solve(problem, init=["product", "profile"], **FEW).plan,
    "tuned": lambda problem: gwfast.tune_epsilon(problem, epsilons=[0.05], init="product").plan,
    "pairs": lambda problem: gwfast.pairwise_gromov_wasserstein([problem.x, problem.y]).costs,
    "verify": lambda problem: (
        gwfast.verify(problem, np.outer(problem.p, problem.q), epsilon=2.0).gw_cost
    ),
}


@pytest.mark.parametrize("name, order", [*zip(CALLS, 5 * "CF", strict=False)])
def test_costs_that_are_written_to_are_those_that_are_solved(name, order):
    call, weights = CALLS[name], (masses(N, 1), masses(N, 2))
    kept = QuadraticProblem(*(np.array(distances(one), order=order) for one in (X, Y)))
    before = call(kept)
    # These costs have another size and mean, and one is not symmetric.
    others = [distances(cloud(N, 2, seed)) * 3 + 0.5 for seed in (7, 8)]
    others[1][0] *= 2
    for side, other in zip((kept.x, kept.y), others, strict=True):
        np.copyto(side.matrix, other)
    kept.p[:], kept.q[:] = weights
    fresh = QuadraticProblem(*(np.array(other, order=order) for other in others), *weights)
    again = call(kept)
    # BLAS rounds by where in memory a matrix lies.
    np.testing.assert_allclose(again, call(fresh), rtol=1e-6, atol=1e-12)
    assert np.abs(again - before).max() > 1e-4


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_entry_that_is_written_to_is_seen(dtype):
    problem = QuadraticProblem(np.ones((30, 30), dtype), np.eye(30))
    before = solve(problem, epsilon=0, init="product").gw_cost
    problem.x.matrix[3, 7] = 9.0
    assert solve(problem, epsilon=0, init="product").gw_cost > before + 1e-3
    problem.x.matrix[3, 7] = np.nan
    for _ in range(2):
        with pytest.raises(ValueError, match=r"\bx must be finite"):
            solve(problem)


@pytest.mark.parametrize("make", [lambda z: PointCloud(z, "sqeuclidean"), PointCloud.from_factors])
def test_features_that_are_written_to_are_those_that_are_solved(make):
    sides, other = [make(X), make(Y)], make(cloud(N, 3, 9))
    options = PROFILE | dict(epsilon=2.0)
    solve(*sides, **options)
    for side in sides:
        np.copyto(side.features, other.features)
        with pytest.raises(ValueError, match="read-only"):
            side.signature[0, 0] = 2.0
    fresh = [make(X), make(Y)]
    for side in fresh:
        side.features = other.features.copy()
    np.testing.assert_array_equal(solve(*sides, **options).plan, solve(*fresh, **options).plan)

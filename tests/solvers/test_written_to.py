"""What is written to between two calls is what the second call solves."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, rotated_pair

import gwfast
from gwfast import PointCloud, QuadraticProblem
from gwfast.problems.dense_cost import DenseCost

N = 60
FEW = dict(
    epsilon=0.05,
    n_threads=1,
    max_iter=60,
    tol=1e-3,
    options=gwfast.SolverOptions(marginal_tol=1e-3),
)
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def matrices():
    x, y, _ = rotated_pair(N, 3, 5, noise=0.05)
    return distances(x), distances(y)


def others():
    """Of another size and mean, and not symmetric."""
    made = [distances(cloud(N, 2, seed)) * 3 + 0.5 for seed in (7, 8)]
    made[1][0] *= 2
    return made


PRODUCT = dict(init="product", **FEW)
CALLS = {
    "a solve from a plan": lambda problem: gwfast.gromov_wasserstein(problem, **PRODUCT),
    "a solve from a profile": lambda problem: gwfast.gromov_wasserstein(
        problem, init="profile", **FEW
    ),
    "a solve of costs": lambda problem: gwfast.gromov_wasserstein(
        problem.x, problem.y, problem.p, problem.q, **PRODUCT
    ),
    "without entropy": lambda problem: gwfast.gromov_wasserstein(
        problem, epsilon=0, init="product"
    ),
    "a batch": lambda problem: gwfast.gromov_wasserstein_batch([problem], **PRODUCT)[0],
    "several starts": lambda problem: gwfast.gromov_wasserstein(
        problem, init=["product", "profile"], **FEW
    ),
    "several epsilons": lambda problem: gwfast.tune_epsilon(
        problem, epsilons=[0.05], init="product", n_threads=1
    ),
    "all pairs": lambda problem: gwfast.pairwise_gromov_wasserstein([problem.x, problem.y]),
    "a check": lambda problem: gwfast.verify(problem, np.outer(problem.p, problem.q), epsilon=2.0),
}


def told(result):
    for name in ("plan", "costs", "gw_cost"):
        if hasattr(result, name):
            return getattr(result, name)


@pytest.mark.parametrize("name, order", [*zip(CALLS, 5 * "CF", strict=False)])
def test_costs_that_are_written_to_are_those_that_are_solved(name, order):
    call, weights = CALLS[name], (masses(N, 1), masses(N, 2))
    kept = QuadraticProblem(*(np.array(one, order=order) for one in matrices()))
    before = told(call(kept))
    for side, other in zip((kept.x, kept.y), others(), strict=True):
        np.copyto(side.matrix, other)
    kept.p[:], kept.q[:] = weights
    fresh = [np.array(other, order=order) for other in others()]
    fresh = QuadraticProblem(*fresh, *weights)
    again = told(call(kept))
    # BLAS rounds by where in memory a matrix lies.
    np.testing.assert_allclose(again, told(call(fresh)), rtol=1e-6, atol=1e-12)
    assert np.abs(again - before).max() > 1e-4


def test_one_entry_that_is_written_to_is_seen():
    for dtype in (np.float16, np.float32, np.float64):
        matrix = np.ones((30, 30), dtype)
        cost = DenseCost(matrix)
        for value in (np.nextafter(dtype(1), dtype(2)), dtype(9), np.nan):
            matrix[3, 7] = value
            if np.isnan(value):
                for _ in range(2):
                    with pytest.raises(ValueError, match=r"^y must be finite"):
                        gwfast.gromov_wasserstein(np.eye(30), cost)
            else:
                assert cost.refreshed("cost").extremes == (1.0, float(value))


def test_nothing_that_is_made_of_points_outlives_them():
    """Their features may be written to, and what these are multiplied by may not."""
    x, y, _ = rotated_pair(N, 3, 5, noise=0.05)
    for make in (
        lambda z: PointCloud(z, "sqeuclidean"),
        lambda z: gwfast.PointCloud.from_factors(z),
    ):
        few = FEW | dict(epsilon=2.0)
        sides, other = [make(x), make(y)], make(cloud(N, 3, 9))
        gwfast.gromov_wasserstein(*sides, init="profile", **few)
        for side in sides:
            np.copyto(side.features, other.features)
            with pytest.raises(ValueError, match="read-only"):
                side.signature[0, 0] = 2.0
        again = gwfast.gromov_wasserstein(*sides, init="profile", **few)
        fresh = [make(x), make(y)]
        for side in fresh:
            side.features = other.features.copy()
        expected = gwfast.gromov_wasserstein(*fresh, init="profile", **few)
        np.testing.assert_array_equal(again.plan, expected.plan)

"""Costs by their leading eigenvectors, tested directly: solves end in the same place without."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, rotated_pair
from helpers.tuned import solve_tuned

import gwfast
from gwfast.problems.leading import RANK
from gwfast.problems.low_rank import MAX_LEFT_OUT, LeadingCost, low_rank_problem
from gwfast.utils.tuning import Tuning


def spectrum(n, d, decay, seed):
    """A symmetric matrix with eigenvalues of both signs that fall off."""
    basis, _ = np.linalg.qr(cloud(n, d, seed))
    values = decay ** np.arange(d) * np.where(np.arange(d) % 3, 1.0, -1.0)
    return n * (basis * values) @ basis.T


MATRICES = {
    "distances": distances(cloud(150, 3, 0)),
    "few eigenvalues": spectrum(150, 12, 0.7, 2),
    "many eigenvalues": spectrum(250, 200, 0.99, 3),
    "fewer points than eigenvectors": distances(cloud(RANK - 28, 4, 4)),
}


def largest(matrix):
    """Absolute values of all eigenvalues, in order."""
    return np.sort(np.abs(np.linalg.eigvalsh(matrix)))[::-1]


@pytest.fixture(params=MATRICES)
def dense(request):
    matrix = MATRICES[request.param]
    return gwfast.QuadraticProblem((matrix + matrix.T) / 2, [[0.0]]).x


def test_eigenvalues_are_the_largest_also_of_centered_costs(dense):
    for shift in (0.0, 0.5):
        matrix, side = dense.matrix - shift, LeadingCost(dense, shift, 1)
        size = np.linalg.norm(matrix)
        best = np.linalg.norm(largest(matrix)[RANK:]) / size
        made = side.scale * side.features @ side.signature @ side.features.T
        # A square root: the rounding of squares in float32 is seen.
        assert best - 1e-3 <= side.left_out <= 1.5 * best + 2e-3
        assert np.linalg.norm(made - matrix) / size <= 1.5 * best + 2e-3
    assert dense.take(np.arange(50)).leading_span(1).eigenpairs(0.0, 3)[0].shape == (50, 3)
    centered = dense.matrix - dense.matrix.mean(axis=0)
    centered = centered - centered.mean(axis=1)[:, None]
    values, vectors = dense.leading_span(1).centered()
    error = np.linalg.norm((vectors * values) @ vectors.T - centered)
    size = np.linalg.norm(centered)
    # Powers in float32 lose what is a ten-thousandth.
    assert error <= 1.5 * np.linalg.norm(largest(centered)[RANK:]) + 2e-4 * size
    kept = vectors[:, np.abs(values) > 1e-3 * np.abs(values).max()]
    assert np.abs(kept.sum(axis=0)).max() < 1e-2


N, TUNING = 400, dict(low_rank_from=380)
NOISE = 9 * cloud(N, N, 8)
OTHERS = {
    "small x": lambda x, y: dict(x=x[:100, :100], y=y),
    "small y": lambda x, y: dict(x=x, y=y[:379, :379]),
    "asymmetric": lambda x, y: dict(x=np.triu(x), y=y),
    "constant": lambda x, y: dict(x=np.ones((N, N)), y=y),
    "kl": lambda x, y: dict(x=x, y=y, loss="kl"),
    "fused": lambda x, y: dict(x=x, y=y, linear_cost=x),
    "semirelaxed": lambda x, y: dict(x=x, y=y, marginals="semirelaxed"),
    "cloud": lambda x, y: dict(x=x, y=gwfast.PointCloud(cloud(N, 3, 9))),
    "no leading eigenvectors": lambda x, y: dict(x=x, y=NOISE + NOISE.T),
}


@pytest.fixture(scope="module")
def matrices():
    x, y, _ = rotated_pair(N, 3, 5, noise=0.1)
    return distances(x), distances(y)


def test_problems_that_suit_are_smoothed(matrices):
    problem = gwfast.QuadraticProblem(*matrices, masses(N, 6), masses(N, 7))
    part = low_rank_problem(problem, 1, Tuning(**TUNING))
    assert 0 < max(part.x.left_out, part.y.left_out) <= MAX_LEFT_OUT
    assert part.p is problem.p and part.q is problem.q
    for arguments in OTHERS.values():
        other = gwfast.QuadraticProblem(**arguments(*matrices))
        assert low_rank_problem(other, 1, Tuning(**TUNING)) is None


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_a_callback_stops_on_low_rank_costs(matrices):
    sizes, problem = [], gwfast.QuadraticProblem(*matrices)
    result = solve_tuned(
        problem,
        tuning=TUNING,
        init="product",
        epsilon=0.5,
        callback=lambda step: sizes.append(len(step.coupling.topk(1).indices)) or True,
    )
    assert sizes == [N] and result.status == "stopped" and result.n_iter <= 2
    expected = gwfast.verify(problem, result, max_iter=1).gw_cost
    assert result.gw_cost == pytest.approx(expected, rel=1e-3)  # products may be rounded

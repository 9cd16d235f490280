"""Costs by their largest eigenvalues: as good as those of NumPy, only where they do,
and without a trace in what is returned."""

import numpy as np
import pytest
from helpers.problems import cloud, distances, masses, rotated_pair

import gwfast
from gwfast import PointCloud
from gwfast.problems import low_rank
from gwfast.problems.dense_cost import DenseCost
from gwfast.problems.leading import RANK
from gwfast.problems.low_rank import LeadingCost, low_rank_problem
from gwfast.problems.quadratic import QuadraticProblem
from gwfast.solvers.search import levels as stages
from gwfast.utils.tuning import DEFAULT

N = DEFAULT.low_rank_from + 20


def spectrum(n, d, decay, seed):
    """A symmetric matrix with eigenvalues of both signs that fall off."""
    basis, _ = np.linalg.qr(cloud(n, d, seed))
    values = decay ** np.arange(d) * np.where(np.arange(d) % 3, 1.0, -1.0)
    return n * (basis * values) @ basis.T


def reconstructed(side):
    return side.scale * side.features @ side.signature @ side.features.T


MATRICES = {
    "distances": lambda: distances(cloud(200, 3, 0)),
    "similarities": lambda: np.cos(3 * distances(cloud(170, 2, 1))),
    "few eigenvalues": lambda: spectrum(200, 12, 0.7, 2),
    "many eigenvalues": lambda: spectrum(400, 300, 0.99, 3),
    "fewer points than eigenvectors": lambda: distances(cloud(RANK - 28, 4, 4)),
}


def symmetric(kind):
    cost = MATRICES[kind]()
    return (cost + cost.T) / 2


def largest(matrix):
    """Absolute values of all eigenvalues, in order."""
    return np.sort(np.abs(np.linalg.eigvalsh(matrix)))[::-1]


@pytest.mark.parametrize("kind", MATRICES)
def test_they_are_the_largest(kind):
    cost = symmetric(kind)
    for shift in (0.0, 0.5):
        side = LeadingCost(DenseCost(cost), shift, 1)
        matrix = cost - shift
        size = np.linalg.norm(matrix)
        best = np.linalg.norm(largest(matrix)[RANK:]) / size
        # A square root: what float32 rounds of the squares is seen.
        assert best - 1e-3 <= side.left_out <= 1.5 * best + 2e-3
        missed = np.linalg.norm(reconstructed(side) - matrix) / size
        assert missed <= 1.5 * best + 2e-3
        assert side.n == len(cost)


@pytest.mark.parametrize("kind", ["distances", "similarities", "few eigenvalues"])
def test_a_span_is_of_the_costs_less_any_number(kind):
    """And of the costs centered, and of a few of its eigenvectors."""
    cost = symmetric(kind)
    span, n = DenseCost(cost).leading_span(1), len(cost)
    size = np.abs(cost - cost.mean()).max() * n

    def is_best(vectors, values, matrix):
        error = np.linalg.norm((vectors * values) @ vectors.T - matrix)
        # Powers in float32 lose what is a ten-thousandth.
        rounding = 2e-4 * np.linalg.norm(matrix)
        return error <= 1.5 * np.linalg.norm(largest(matrix)[RANK:]) + rounding

    for shift in (0.0, float(cost.mean()), 7.0):
        vectors, values, norm = span.eigenpairs(shift)
        assert is_best(vectors, span.unit * values, cost - shift)
        assert span.unit * norm == pytest.approx(np.linalg.norm(cost - shift), rel=1e-5)
    values, vectors = span.centered()
    assert np.abs(vectors[:, np.abs(values) > 1e-4 * size].sum(axis=0)).max() < 1e-2
    away = np.eye(n) - 1 / n
    assert is_best(vectors, values, away @ cost @ away)
    few, values, _ = span.eigenpairs(0.5, 9)
    np.testing.assert_allclose(few.T @ few, np.eye(9), atol=1e-5)
    best = largest(cost - 0.5)[:9]
    found = span.unit * np.abs(values)
    np.testing.assert_allclose(found, best, atol=1e-3 * best[0])


def test_spans_are_made_once_and_not_of_fewer_points():
    cost = DenseCost(distances(cloud(200, 3, 0)))
    assert cost.leading_span(1) is cost.leading_span(2)
    part = cost.take(np.arange(150))
    assert part.leading_span(1).eigenpairs(0.0, 3)[0].shape == (150, 3)
    assert part.mean == pytest.approx(part.matrix.mean()) != cost.mean


def test_they_do_not_depend_on_the_number_of_threads():
    cost = DenseCost(distances(cloud(200, 3, 0)))
    one, two = (LeadingCost(cost, 0.5, n_threads) for n_threads in (1, 2))
    np.testing.assert_allclose(reconstructed(one), reconstructed(two), atol=1e-3 * one.scale)


# --- Which problems ---------------------------------------------------------------


@pytest.fixture(scope="module")
def matrices():
    x, y, _ = rotated_pair(N, 3, 5, noise=0.1)
    return distances(x), distances(y)


def test_a_suitable_problem_is_smoothed_and_itself_left_alone(matrices):
    problem = QuadraticProblem(*matrices, masses(N, 6), masses(N, 7))
    x, y, before = problem.x, problem.y, problem.x.matrix.copy()
    part = low_rank_problem(problem, 1)
    assert isinstance(part.x, LeadingCost) and isinstance(part.y, LeadingCost)
    assert max(part.x.left_out, part.y.left_out) <= low_rank.MAX_LEFT_OUT
    assert part.p is problem.p and part.q is problem.q
    assert problem.x is x and problem.y is y
    np.testing.assert_array_equal(problem.x.matrix, before)


def flat(n):
    """All eigenvalues matter as much."""
    noise = np.random.default_rng(8).standard_normal((n, n))
    return noise + noise.T


OTHERS = {
    "small x": lambda x, y: dict(x=x[:100, :100], y=y),
    "small y": lambda x, y: dict(x=x, y=y[: N - 21, : N - 21]),
    "asymmetric": lambda x, y: dict(x=np.triu(x), y=y),
    "kl": lambda x, y: dict(x=x, y=y, loss="kl"),
    "fused": lambda x, y: dict(x=x, y=y, linear_cost=np.ones((N, N))),
    "semirelaxed": lambda x, y: dict(x=x, y=y, marginals="semirelaxed"),
    "partial": lambda x, y: dict(x=x, y=y, marginals=gwfast.Partial(0.5)),
    "cloud": lambda x, y: dict(x=x, y=PointCloud(cloud(N, 3, 9))),
    "flat": lambda x, y: dict(x=x, y=flat(N)),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_others_are_not(matrices, kind):
    assert low_rank_problem(QuadraticProblem(**OTHERS[kind](*matrices)), 1) is None


# --- In the solver ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_solve_ends_where_it_would_without(dtype, monkeypatch):
    x, y, _ = rotated_pair(N, 3, 10, noise=0.02)
    given = distances(x), distances(y), masses(N, 11), masses(N, 12)
    epsilon = gwfast.Epsilon(relative=0.03)
    options = dict(epsilon=epsilon, init="profile", dtype=dtype)
    made = []

    def seen(problem, n_threads, tuning):
        made.append(low_rank_problem(problem, n_threads, tuning))
        return made[-1]

    monkeypatch.setattr(stages, "low_rank_problem", seen)
    staged = gwfast.gromov_wasserstein(*given, **options)
    assert made[0] is not None
    monkeypatch.setattr(stages, "low_rank_problem", lambda *args: None)
    plain = gwfast.gromov_wasserstein(*given, **options)
    assert staged.converged and plain.converged
    assert staged.plan.dtype == plain.plan.dtype == dtype
    assert staged.epsilon == pytest.approx(plain.epsilon)
    assert staged.gw_cost == pytest.approx(plain.gw_cost, rel=2e-3)
    # Each is within the tolerance of its last step only.
    assert np.abs(staged.plan - plain.plan).sum() < 2e-2
    numbers = [step.iteration for step in staged.history]
    assert numbers == list(range(1, staged.n_iter + 1))


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 5, 60])
def test_what_is_returned_is_of_the_costs_themselves(matrices, max_iter):
    """However early the end."""
    cost_x, cost_y = matrices
    result = gwfast.gromov_wasserstein(
        cost_x, cost_y, init="product", epsilon=0.5, max_iter=max_iter
    )
    assert result.n_iter <= max_iter
    assert result.coupling.form == "array"
    plan = result.plan.astype(np.float64)
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    expected = rows @ (cost_x**2) @ rows + cols @ (cost_y**2) @ cols
    expected -= 2 * ((cost_x @ plan @ cost_y) * plan).sum()
    # While the plan moves products may be wrong, by a part of epsilon.
    rel = 3e-4 if result.converged else 1e-3
    assert result.gw_cost == pytest.approx(expected, rel=rel)


def test_a_plan_in_float64_is_a_start_of_it(matrices):
    """It is in float32."""
    plan = np.outer(masses(N, 8), masses(N, 9))
    result = gwfast.gromov_wasserstein(
        *matrices, init=plan, epsilon=0.5, dtype="float64", max_iter=60
    )
    assert result.converged and result.plan.dtype == np.float64


def test_a_callback_stops_in_the_first_stage_too(matrices):
    steps = []

    def callback(step):
        assert step.coupling.topk(1).indices.shape == (N, 1)
        steps.append(step)
        return True

    result = gwfast.gromov_wasserstein(*matrices, init="product", epsilon=0.5, callback=callback)
    assert len(steps) == 1
    assert result.status == "stopped" and result.n_iter <= 2
    assert result.coupling.form == "array"

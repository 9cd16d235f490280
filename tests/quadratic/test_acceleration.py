"""Anderson's acceleration: exact for linear iterations that contract, silent for
others, and taken back where it was no good."""

import itertools
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.problems import cloud, distances, orthogonal

import gwfast
from gwfast.quadratic import acceleration, linearization
from gwfast.quadratic.acceleration import (
    DEPTH,
    FURTHER,
    MAX_COEFFICIENTS,
    Accelerator,
    Lead,
    combined,
    lead_of,
)
from gwfast.quadratic.dense import Dense
from gwfast.quadratic.factored import Factored
from gwfast.words import load_sample

# What the tests of the solver need of it is where it ends.
TIGHT = dict(dtype="float64", init="product", tol=1e-9, marginal_tol=1e-9)


def steps_of(matrix, start, n_steps, limit=0.0):
    """Steps along ``x <- limit + matrix @ (x - limit)``, with points of any shape."""
    steps, x = [], np.asarray(start, dtype=np.float64)
    for _ in range(n_steps):
        after = limit + (matrix @ (x - limit).ravel()).reshape(x.shape)
        steps.append((x, after))
        x = after
    return steps


def rotated(eigenvalues, seed=0):
    """A symmetric matrix with these eigenvalues and no entries of zero."""
    basis = orthogonal(len(eigenvalues), seed)
    return basis @ np.diag(eigenvalues) @ basis.T


CONTRACTING = [
    [0.9],
    [0.9, 0.5],
    [0.9, 0.5, -0.7],
    [0.9, 0.4, -0.3, -0.8],
    [0.9, 0.5, 0.1, -0.4, -0.8],
    [-0.8, -0.4],
]


@pytest.mark.parametrize("eigenvalues", CONTRACTING)
def test_a_linear_iteration_is_solved_by_a_step_for_each_direction(eigenvalues):
    n = len(eigenvalues)
    shape = (2, 2) if n == 4 else (n,)
    matrix, limit = rotated(eigenvalues), cloud(1, n, 1).reshape(shape)
    steps = steps_of(matrix, cloud(1, n, 2).reshape(shape), n + 1, limit)
    weights, ahead = lead_of(steps)
    assert len(weights) == n + 1 <= DEPTH + 1 and not ahead
    assert sum(weights) == pytest.approx(1.0)
    led = combined(weights, [after for _, after in steps])
    assert led.shape == shape
    np.testing.assert_allclose(led, limit, atol=1e-6)


def turned(size):
    """Eigenvalues of it are complex."""
    return size * np.array([[0.0, -1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    "matrix", [rotated([-1.2]), rotated([0.3, -1.1, 0.6]), turned(1.1)], ids=len
)
def test_what_goes_back_or_turns_and_grows_is_left_alone(matrix):
    start = np.linspace(0.5, 1.0, len(matrix))
    assert lead_of(steps_of(matrix, start, DEPTH + 1)) is None


@pytest.mark.parametrize("eigenvalues", [[1.2], [0.5, 1.05], [0.999], [0.5, 0.995]])
def test_saddles_are_left_faster_never_approached(eigenvalues):
    """The fixed point is a saddle, or as good as one: it is not gone to."""
    n = len(eigenvalues)
    steps = steps_of(rotated(eigenvalues), np.ones(n), 3 * DEPTH)[-DEPTH - 1 :]
    weights, ahead = lead_of(steps)
    before, after = steps[-1]
    moved = combined(weights, [one for _, one in steps[-2:]]) - after
    assert ahead and moved @ (after - before) > 0
    assert np.linalg.norm(moved) <= FURTHER * np.linalg.norm(after - before) * 1.001


def test_no_step_goes_further_than_where_the_last_two_vanish():
    """Although the steps before say that the map may not contract."""
    rates = np.array([0.6, 0.995])
    points = np.array([1.0, 1e-3]) * rates ** np.arange(8)[:, None]
    weights, ahead = lead_of(list(itertools.pairwise(points[:4])))
    led = combined(weights, points[4 - len(weights) : 4])
    assert ahead and abs(led[0]) < 0.01 * points[3, 0]


def test_steps_after_a_move_count_as_much():
    """Further ahead is so many steps, however far the last points are apart."""
    steps = [(np.array([0.0]), np.array([1.0])), (np.array([4.0]), np.array([5.0]))]
    weights, ahead = lead_of(steps)
    led = combined(weights, [after for _, after in steps])
    assert ahead
    np.testing.assert_allclose(led, 5.0 + FURTHER)


def test_nothing_is_said_of_one_step_or_of_none_left():
    half = np.eye(2) / 2
    assert lead_of([]) is None
    assert lead_of(steps_of(half, np.ones(2), 1)) is None
    assert lead_of(steps_of(half, np.zeros(2), 4)) is None
    assert lead_of(steps_of(turned(0.9), np.ones(2), 3)) is not None


def test_coefficients_that_are_too_large_are_not_returned():
    """One direction at a rate r goes on by r / (1 - r) times the last step."""
    for rate in np.linspace(0.5, 0.989, 40):
        weights, goes_on = lead_of(steps_of([[rate]], [1.0], 2))[0], rate / (1 - rate)
        if 1 + 2 * goes_on > MAX_COEFFICIENTS:
            np.testing.assert_allclose(weights, [-FURTHER, 1 + FURTHER])
        else:
            np.testing.assert_allclose(weights, [-goes_on, 1 + goes_on])


# --- In the solver ----------------------------------------------------------------


def slow_problem(kind):
    """Two spaces whose iterations converge slowly, and how they are solved."""
    if kind == "dense":
        x, y = cloud(60, 3, 6), cloud(60, 3, 6) + 0.3 * cloud(60, 3, 7)
        return (distances(x), distances(y[::-1])), dict(epsilon=0.1, **TIGHT)
    sides = [side.vectors[:400] for side in load_sample()[:2]]
    clouds = [gwfast.PointCloud(side - side.mean(axis=0)) for side in sides]
    epsilon = gwfast.Epsilon(relative=0.03)
    return clouds, dict(epsilon=epsilon, init="profile", tol=1e-6)


@pytest.mark.parametrize("kind, cls", [("dense", Dense), ("factored", Factored)])
def test_it_saves_iterations_and_bad_moves_are_taken_back(
    kind, cls, monkeypatch, in_outer_loop
):
    """And it ends where it would without."""
    sides, how = slow_problem(kind)
    fast = gwfast.gromov_wasserstein(*sides, **how)
    same = pytest.approx(fast.gw_cost, rel=100 * how["tol"])
    retracted, retract = [], cls.retract

    def anywhere(steps):
        return Lead([-40.0, 41.0]) if len(steps) > 1 else None

    def counted(self):
        retracted.append(1)
        return retract(self)

    with monkeypatch.context() as patched:
        patched.setattr(linearization, "lead_of", anywhere)
        patched.setattr(cls, "retract", counted)
        bad = gwfast.gromov_wasserstein(*sides, **how, max_outer=3000)
    assert bad.converged and bad.gw_cost == same
    # Each pause after one is twice as long as the one before.
    assert 0 < len(retracted) <= 1 + np.log2(bad.n_outer)
    monkeypatch.setattr(acceleration, "MAX_CHANGE", 0.0)
    plain = gwfast.gromov_wasserstein(*sides, **how)
    assert fast.converged and plain.converged and plain.gw_cost == same
    assert fast.n_outer < plain.n_outer


def test_a_move_stays_where_the_product_before_it_is_gone(monkeypatch, in_outer_loop):
    """As a whole product may take its room."""
    sides, how = slow_problem("dense")
    fast, retract = gwfast.gromov_wasserstein(*sides, **how), Dense.retract
    made = []

    def gone(self):
        self.cost.products.memory.forget_kept()
        made.append(retract(self))
        return made[-1]

    def ahead(steps):
        return Lead([-9.0, 10.0], ahead=True) if len(steps) > 1 else None

    monkeypatch.setattr(linearization, "lead_of", ahead)
    monkeypatch.setattr(Dense, "retract", gone)
    bad = gwfast.gromov_wasserstein(*sides, **how, max_outer=3000)
    assert made and not any(made)
    assert bad.converged
    assert bad.gw_cost == pytest.approx(fast.gw_cost, rel=100 * how["tol"])


@pytest.mark.parametrize(
    "change, error, further", [(0.1, 0.0, True), (1e-3, 1e-3, True), (1e-3, 0.0, False)]
)
def test_no_move_after_large_or_noisy_steps_or_the_last(change, error, further):
    state = Mock(accelerates=True)
    given = Mock(error=error), change, 0.0, Mock(), further
    assert Accelerator(state).advance(*given) is None
    assert [name for name, *_ in state.method_calls] == ["forget"]
